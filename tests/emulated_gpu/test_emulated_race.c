// Races for shared memory: kernels that are right are let through in whatever order they run, and the same ones with a
// step left out are refused, though their results may be right by luck.
#include "race.h"
#include "test_kernel.h"

typedef struct shape {
  uint32_t blocks, threads, cluster;
} shape;

static void silent(const char *body, shape s) {
  for (seed = 0; seed < 8; seed++) {
    if (!run_in(body, s.blocks, s.threads, s.cluster)) fail_msg("seed %d: %s", (int)seed, em_message());
  }
}

// In every order, naming both instructions, each with the place that it was in before.
static void cries(const char *body, shape s, const char *one, const char *two, const char *why) {
  for (seed = 0; seed < 8; seed++) {
    refused(body, s.blocks, s.threads, s.cluster, "a race for shared memory");
    const char *other = strchr(em_message(), '(');  // of the block; then of the instruction
    if (!strstr(em_message(), one) || !strstr(other, two) || !strstr(em_message(), why)) {
      fail_msg("\"%s\" does not say \"%s\", \"%s\", \"%s\"", em_message(), one, two, why);
    }
  }
}

static const char *const unordered = "nothing says that this is over", *const unfenced = "no fence.proxy.async";

// A body of parts, of which %s is `with` in the right one, and nothing (or something else) in the wrong one.
static char text[8192];
static const char *made(const char *format, const char *with) {
  snprintf(text, sizeof(text), format, with, with, with);
  return text;
}

// ---- Barriers of a block ----

#define OWN "shl.b32 %%r3, %%r1, 2;\n add.s32 %%r3, %%r3, %%r2;\n"  // %r3: the thread's word in shared memory
#define OTHER "xor.b32 %%r4, %%r1, 32;\n shl.b32 %%r4, %%r4, 2;\n add.s32 %%r4, %%r4, %%r2;\n"  // %r4: the other warp's

static void test_barrier(void **state) {
  (void)state;
  static const char *const written = OWN OTHER "st.shared.u32 [%%r3], %%r1;\n %s ld.shared.u32 %%r5, [%%r4];";
  silent(made(written, "bar.sync 0;\n"), (shape){2, 64, 1});
  cries(made(written, ""), (shape){2, 64, 1}, "shared.u32", "shared.u32", unordered);
  cries(made(written, "bar.warp.sync -1;\n"), (shape){1, 64, 1}, "shared.u32", "shared.u32", unordered);
  static const char *const reused = OWN OTHER
      "st.shared.u32 [%%r3], %%r1;\n bar.sync 0;\n ld.shared.u32 %%r5, [%%r4];\n %s st.shared.u32 [%%r3], %%r5;";
  silent(made(reused, "bar.sync 1, 64;\n"), (shape){1, 64, 1});
  cries(made(reused, ""), (shape){1, 64, 1}, "st.shared.u32", "ld.shared.u32", unordered);
  // One warp waits for the other, which goes on and must not write again.
  static const char *const handed = OWN OTHER
      "setp.ge.u32 %%p1, %%r1, 32;\n @%%p1 bra taker;\n st.shared.u32 [%%r3], %%r1;\n bar.arrive 2, 64;\n %s ret;\n"
      "taker:\n bar.sync 2, 64;\n ld.shared.u32 %%r5, [%%r4];\n";
  silent(made(handed, ""), (shape){1, 64, 1});
  cries(made(handed, "st.shared.u32 [%r3], %r5;\n"), (shape){1, 64, 1}, "shared.u32", "shared.u32", unordered);
}

// Eight warps read one word; all but the last have met the one that writes it then.
static void test_many_readers(void **state) {
  (void)state;
  static const char *const body =
      "ld.shared.u32 %%r5, [%%r2+64];\n setp.ge.u32 %%p1, %%r1, 224;\n @%%p1 bra last;\n bar.sync 1, 224;\n"
      "setp.ge.u32 %%p2, %%r1, 32;\n @%%p2 ret;\n %s st.shared.u32 [%%r2+64], %%r1;\n ret;\n last:\n %s";
  silent(made(body, "bar.sync 2, 64;\n"), (shape){1, 256, 1});
  cries(made(body, ""), (shape){1, 256, 1}, "shared.u32", "shared.u32", unordered);
}

// Halves of a word are of two warps; sums of all warps are no race, and reading them before all have added is.
static void test_parts_and_atomics(void **state) {
  (void)state;
  silent(
      "shr.u32 %r3, %r1, 5;\n and.b32 %r4, %r1, 31;\n shl.b32 %r4, %r4, 2;\n shl.b32 %r5, %r3, 1;\n add.u32 %r4, %r4, "
      "%r5;\n"
      "add.u32 %r4, %r4, %r2;\n st.shared.u16 [%r4], %r1;\n ld.shared.u16 %r6, [%r4];",
      (shape){1, 64, 1});
  static const char *const sums =
      "setp.eq.u32 %%p1, %%r1, 0;\n mov.u32 %%r3, 0;\n @%%p1 st.shared.u32 [%%r2], %%r3;\n bar.sync 0;\n"
      "atom.shared.add.u32 %%r4, [%%r2], %%r1;\n %s ld.shared.u32 %%r5, [%%r2];";
  silent(made(sums, "bar.sync 0;\n"), (shape){1, 128, 1});
  cries(made(sums, ""), (shape){1, 128, 1}, "shared", "shared", unordered);
  silent("mov.u32 %r4, 5;\n st.volatile.shared.u32 [%r2], %r4;\n ld.volatile.shared.u32 %r5, [%r2];",
         (shape){1, 128, 1});
}

// ---- Copies that arrive by themselves ----

#define FIRST "setp.ne.u32 %%p1, %%r1, 0;\n"
#define INIT "@!%%p1 mbarrier.init.shared::cta.b64 [%%r2], 1;\n"
#define EXPECT(barrier) "@!%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2+" barrier "], 256;\n"
#define LOAD(to, barrier)                                        \
  "add.u32 %%r20, %%r2, " to ";\n add.u32 %%r21, %%r2, " barrier \
  ";\n"                                                          \
  "@!%%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r20], [%%rd1], 256, [%%r21];\n"
#define WAIT(name, barrier, parity) \
  name ":\n mbarrier.try_wait.parity.shared::cta.b64 %%p7, [%%r2+" barrier "], " parity ";\n @!%%p7 bra " name ";\n"

static void test_load(void **state) {
  (void)state;
  static const char *const awaited =
      FIRST INIT "bar.sync 0;\n" EXPECT("0") LOAD("256", "0") "%s" OWN "ld.shared.u32 %%r5, [%%r3+256];";
  char wait[512], half[512];
  snprintf(wait, sizeof(wait), WAIT("wait", "0", "0"));
  snprintf(half, sizeof(half), "setp.ge.u32 %%p2, %%r1, 32;\n @%%p2 bra over;\n" WAIT("wait", "0", "0") "over:\n");
  silent(made(awaited, wait), (shape){1, 64, 1});
  cries(made(awaited, ""), (shape){1, 64, 1}, "shared", "shared", unordered);
  cries(made(awaited, half), (shape){1, 64, 1}, "ld.shared.u32", "cp.async.bulk", unordered);  // the other warp waits
  static const char *const begun = FIRST INIT "%s" EXPECT("0") LOAD("256", "0") WAIT("wait", "0", "0");
  silent(made(begun, "bar.sync 0;\n"), (shape){1, 64, 1});
}

// Whoever waits at an mbarrier has to know that it has been initialised. (Here the emulator may say so itself.)
static void test_init(void **state) {
  (void)state;
  static const char *const body = FIRST INIT
      "%s@!%%p1 bra ready;\n again:\n ld.shared.u64 %%rd5, [%%r2];\n"
      "shr.u64 %%rd6, %%rd5, 54;\n setp.ne.u64 %%p3, %%rd6, 0x2b5;\n @%%p3 bra again;\n ready:\n";
  silent(made(body, "bar.sync 0;\n"), (shape){1, 64, 1});
  cries(made(body, ""), (shape){1, 64, 1}, "shared", "", unordered);
}

// A stage that is loaded again once it has been read: its loads arrive at 0 and at 16, the reading warp at 8.
static void test_stage(void **state) {
  (void)state;
  static const char *const body = FIRST INIT
      "@!%%p1 mbarrier.init.shared::cta.b64 [%%r2+8], 1;\n @!%%p1 mbarrier.init.shared::cta.b64 [%%r2+16], 1;\n"
      "bar.sync 0;\n setp.ge.u32 %%p2, %%r1, 32;\n @%%p2 bra reader;\n" EXPECT("0") LOAD("256", "0") "%s" EXPECT("16")
          LOAD("256", "16") "ret;\n reader:\n" WAIT("full", "0", "0") OWN
      "ld.shared.u32 %%r5, [%%r3+128];\n bar.warp.sync -1;\n setp.eq.u32 %%p3, %%r1, 32;\n"
      "@%%p3 mbarrier.arrive.shared::cta.b64 _, [%%r2+8];\n" WAIT("last", "16", "0");
  char wait[512];
  snprintf(wait, sizeof(wait), WAIT("empty", "8", "0"));
  silent(made(body, wait), (shape){1, 64, 1});
  snprintf(wait, sizeof(wait), WAIT("empty", "0", "0"));  // for what it has loaded itself, not for who reads it
  cries(made(body, wait), (shape){1, 64, 1}, "shared", "shared", unordered);
}

static void test_copies(void **state) {
  (void)state;
  static const char *const body =
      "shl.b32 %%r3, %%r1, 4;\n cvt.u64.u32 %%rd4, %%r3;\n add.s64 %%rd4, %%rd4, %%rd1;\n add.s32 %%r3, %%r3, %%r2;\n"
      "cp.async.cg.shared.global [%%r3], [%%rd4], 16;\n cp.async.commit_group;\n"
      "cp.async.cg.shared.global [%%r3+1024], [%%rd4+1024], 16;\n cp.async.commit_group;\n %s"
      "xor.b32 %%r4, %%r3, 512;\n ld.shared.u32 %%r5, [%%r4];\n cp.async.wait_group 0;";
  silent(made(body, "cp.async.wait_group 1;\n bar.sync 0;\n"), (shape){1, 64, 1});
  cries(made(body, "cp.async.wait_group 1;\n"), (shape){1, 64, 1}, "shared", "shared", unordered);
  cries(made(body, "bar.sync 0;\n"), (shape){1, 64, 1}, "ld.shared.u32", "cp.async", unordered);
  cries(made(body, "cp.async.wait_group 2;\n bar.sync 0;\n"), (shape){1, 64, 1}, "ld.shared.u32", "cp.async",
        unordered);
  // By an mbarrier: 64 threads arrive as what they have copied is there.
  static const char *const counted = FIRST
      "@!%%p1 mbarrier.init.shared::cta.b64 [%%r2+2048], 64;\n bar.sync 0;\n shl.b32 %%r3, %%r1, 4;\n"
      "cvt.u64.u32 %%rd4, %%r3;\n add.s64 %%rd4, %%rd4, %%rd1;\n add.s32 %%r3, %%r3, %%r2;\n"
      "cp.async.cg.shared.global [%%r3], [%%rd4], 16;\n"
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%%r2+2048];\n %s"
      "xor.b32 %%r4, %%r3, 512;\n ld.shared.u32 %%r5, [%%r4];\n cp.async.wait_group 0;";
  char wait[512];
  snprintf(wait, sizeof(wait), WAIT("full", "2048", "0"));
  silent(made(counted, wait), (shape){1, 64, 1});
  cries(made(counted, ""), (shape){1, 64, 1}, "shared", "shared", unordered);
}

// ---- The async proxy ----

#define STORE                                                                                       \
  FIRST                                                                                             \
  "add.u32 %%r20, %%r2, 1024;\n mov.b64 %%rd20, kernel_param_2;\n cvta.param.u64 %%rd20, %%rd20;\n" \
  "mov.u32 %%r22, 128;\n"                                                                           \
  "@!%%p1 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%%rd20, {%%r22}], [%%r20];\n"      \
  "@!%%p1 cp.async.bulk.commit_group;\n"
#define STORED "@!%%p1 cp.async.bulk.wait_group 0;\n"

static void test_store(void **state) {
  (void)state;
  static const char *const body = OWN "st.shared.u32 [%%r3+1024], %%r1;\n %s" STORE STORED;
  silent(made(body, "fence.proxy.async.shared::cta;\n bar.sync 0;\n"), (shape){1, 64, 1});
  silent(made(body, "bar.sync 0;\n fence.proxy.async.shared::cta;\n"), (shape){1, 64, 1});
  cries(made(body, "bar.sync 0;\n"), (shape){1, 64, 1}, "cp.async.bulk.tensor", "st.shared.u32", unfenced);
  cries(made(body, "fence.proxy.async.shared::cta;\n"), (shape){1, 64, 1}, "shared", "shared", unordered);
  // A fence before the writes is none.
  static const char *const early =
      OWN "fence.proxy.async.shared::cta;\n st.shared.u32 [%%r3+1024], %%r1;\n bar.sync 0;\n %s" STORE STORED;
  cries(made(early, ""), (shape){1, 64, 1}, "cp.async.bulk.tensor", "st.shared.u32", unfenced);
  static const char *const again =
      OWN "st.shared.u32 [%%r3+1024], %%r1;\n fence.proxy.async.shared::cta;\n bar.sync 0;\n" STORE
          "%s st.shared.u32 [%%r3+1024], %%r1;\n" STORED;
  silent(made(again, "@!%p1 cp.async.bulk.wait_group.read 0;\n bar.sync 0;\n"), (shape){1, 64, 1});
  cries(made(again, "bar.sync 0;\n"), (shape){1, 64, 1}, "st.shared.u32", "cp.async.bulk.tensor", unordered);
  cries(made(again, "@!%p1 cp.async.bulk.wait_group.read 1;\n bar.sync 0;\n"), (shape){1, 64, 1}, "st.shared.u32",
        "cp.async.bulk.tensor", unordered);
  cries(made(again, "@!%p1 cp.async.bulk.wait_group.read 0;\n"), (shape){1, 64, 1}, "shared", "shared", unordered);
}

// Four warps multiply what a fifth has loaded; it loads again as soon as they say so.
#define WGMMA                                                                                                        \
  "add.u32 %%r30, %%r2, 1024;\n shr.u32 %%r30, %%r30, 4;\n cvt.u64.u32 %%rd10, %%r30;\n"                             \
  "mov.u64 %%rd11, 0x0000000800080000;\n or.b64 %%rd10, %%rd10, %%rd11;\n"                                           \
  "mov.b32 %%r40, 0;\n mov.b32 %%r41, 0;\n mov.b32 %%r42, 0;\n mov.b32 %%r43, 0;\n"                                  \
  "wgmma.fence.sync.aligned;\n"                                                                                      \
  "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%%r40,%%r41,%%r42,%%r43}, {%%r32,%%r33,%%r34,%%r35}, %%rd10, " \
  "1, 1, 1, 0;\n wgmma.commit_group.sync.aligned;\n"
#define MULTIPLIED "wgmma.wait_group.sync.aligned 0;\n"

static void test_wgmma(void **state) {
  (void)state;
  static const char *const body = FIRST INIT
      "@!%%p1 mbarrier.init.shared::cta.b64 [%%r2+8], 4;\n bar.sync 0;\n setp.lt.u32 %%p2, %%r1, 128;\n"
      "setp.ne.u32 %%p1, %%r1, 128;\n @%%p2 bra reader;\n"
      EXPECT("0") LOAD("1024", "0") WAIT("empty", "8", "0") EXPECT("0") LOAD("1024", "0") "ret;\n"
      "reader:\n mov.b32 %%r32, 0;\n mov.b32 %%r33, 0;\n mov.b32 %%r34, 0;\n mov.b32 %%r35, 0;\n"
      WAIT("full", "0", "0") WGMMA "%s and.b32 %%r6, %%r1, 31;\n setp.eq.u32 %%p3, %%r6, 0;\n"
      "@%%p3 mbarrier.arrive.shared::cta.b64 _, [%%r2+8];\n" MULTIPLIED WAIT("last", "0", "1");
  silent(made(body, "wgmma.wait_group.sync.aligned 0;\n"), (shape){1, 160, 1});
  cries(made(body, ""), (shape){1, 160, 1}, "cp.async.bulk", "wgmma.mma_async", unordered);
  cries(made(body, "wgmma.wait_group.sync.aligned 1;\n"), (shape){1, 160, 1}, "cp.async.bulk", "wgmma.mma_async",
        unordered);
  // What threads write needs a fence, what is loaded a wait.
  static const char *const written =
      "mov.b32 %%r32, 0;\n mov.b32 %%r33, 0;\n mov.b32 %%r34, 0;\n mov.b32 %%r35, 0;\n" OWN
      "st.shared.u32 [%%r3+1024], %%r32;\n %s bar.sync 0;\n" WGMMA MULTIPLIED;
  silent(made(written, "fence.proxy.async;\n"), (shape){1, 128, 1});
  cries(made(written, ""), (shape){1, 128, 1}, "wgmma.mma_async", "st.shared.u32", unfenced);
}

// ---- Clusters ----

static void test_cluster(void **state) {
  (void)state;
  static const char *const body = OWN
      "mov.u32 %%r6, %%cluster_ctarank;\n xor.b32 %%r6, %%r6, 1;\n mapa.shared::cluster.u32 %%r7, %%r3, %%r6;\n"
      "st.shared::cluster.u32 [%%r7], %%r1;\n %s barrier.cluster.wait.acquire.aligned;\n ld.shared.u32 %%r5, [%%r3];\n"
      "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;";
  silent(made(body, "barrier.cluster.arrive.release.aligned;\n"), (shape){4, 64, 2});
  silent(made(body, "fence.acq_rel.cluster;\n barrier.cluster.arrive.relaxed.aligned;\n"), (shape){4, 64, 2});
  cries(made(body, "barrier.cluster.arrive.relaxed.aligned;\n"), (shape){4, 64, 2}, "shared", "shared", unordered);
  static const char *const own = OWN
      "mov.u32 %%r6, %%cluster_ctarank;\n xor.b32 %%r6, %%r6, 1;\n mapa.shared::cluster.u32 %%r7, %%r3, %%r6;\n"
      "st.shared::cluster.u32 [%%r7], %%r1;\n %s ld.shared.u32 %%r5, [%%r3];\n"
      "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;";
  cries(made(own, "bar.sync 0;\n"), (shape){2, 64, 2}, "shared", "shared", unordered);  // of one block alone
}

// What is sent to another block, and counted by its mbarrier there.
static void test_sent(void **state) {
  (void)state;
  static const char *const body = FIRST INIT
      "@!%%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], 256;\n"
      "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;\n"
      "mov.u32 %%r6, %%cluster_ctarank;\n xor.b32 %%r6, %%r6, 1;\n mapa.shared::cluster.u32 %%r7, %%r2, %%r6;\n" OWN
      "mapa.shared::cluster.u32 %%r8, %%r3, %%r6;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%%r8+256], %%r1, [%%r7];\n %s"
      "ld.shared.u32 %%r5, [%%r3+256];\n" WAIT("last", "0",
                                               "0") "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;";
  char wait[512];
  snprintf(wait, sizeof(wait), WAIT("full", "0", "0"));
  silent(made(body, wait), (shape){2, 64, 2});
  cries(made(body, ""), (shape){2, 64, 2}, "shared", "shared", unordered);
}

static int begin(void **state) {
  em_race_on = true;
  return setup(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_barrier), cmocka_unit_test(test_many_readers), cmocka_unit_test(test_parts_and_atomics),
      cmocka_unit_test(test_load),    cmocka_unit_test(test_init),         cmocka_unit_test(test_stage),
      cmocka_unit_test(test_copies),  cmocka_unit_test(test_store),        cmocka_unit_test(test_wgmma),
      cmocka_unit_test(test_cluster), cmocka_unit_test(test_sent),
  };
  return cmocka_run_group_tests(tests, begin, teardown);
}
