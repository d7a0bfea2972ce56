// mbarriers and copies in the background of the emulated GPU: they end in time for whoever waits, are late for whoever
// does not, and misuse is a fault.
#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime.h"

enum { WORDS = 4096, SEEDS = 24 };

static uint32_t *in, *out;  // in: its own numbers + 1
static CUtensorMap from __attribute__((aligned(64))), to __attribute__((aligned(64)));

// Of 64 x 64 words, a box of 32 x 8 is 1024 bytes.
static void map_over(CUtensorMap *map, void *words) {
  const cuuint64_t size[] = {64, 64}, pitch[] = {256};
  const cuuint32_t box[] = {32, 8}, step[] = {1, 1};
  assert_int_equal(cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, words, size, pitch, box, step,
                                          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                   CUDA_SUCCESS);
}

static int begin(void **state) {
  (void)state;
  if (em_take((void **)&in, WORDS * 4, EM_DEVICE) != cudaSuccess ||
      em_take((void **)&out, WORDS * 4, EM_DEVICE) != cudaSuccess)
    return 1;
  for (uint32_t i = 0; i < WORDS; i++) in[i] = i + 1;
  map_over(&from, in), map_over(&to, out);
  return 0;
}

static int finish(void **state) {
  (void)state;
  return em_give(in, EM_DEVICE) != cudaSuccess || em_give(out, EM_DEVICE) != cudaSuccess;
}

// A body with: %rd1 what it reads, %rd2 what it writes, %rd3 and %rd4 their maps; %r1 the thread, %r2 shared memory
// (4 KiB, zeros, then barriers at %r3), %r4 the block's rank, %p1 whether this is thread 0, %rd5 the thread's word of
// this block's 1024 of `out`.
static bool run_in(const char *body, uint32_t threads, uint32_t cluster, uint64_t seed) {
  static char text[1 << 14];
  snprintf(text, sizeof text,
           ".version 8.4\n.target sm_90a\n.address_size 64\n"
           ".visible .entry kernel(.param .u64 p0, .param .u64 p1, .param .align 64 .b8 p2[128], .param .align 64 .b8 "
           "p3[128])\n.maxntid 256, 1, 1\n{\n.shared .align 1024 .b8 s[4224];\n.reg .pred %%p<8>;\n.reg .b16 %%rs<8>;\n"
           ".reg .b32 %%r<64>;\n.reg .b64 %%rd<32>;\n"
           "ld.param.u64 %%rd1, [p0];\nld.param.u64 %%rd2, [p1];\nmov.b64 %%rd3, p2;\nmov.b64 %%rd4, p3;\n"
           "cvta.param.u64 %%rd3, %%rd3;\ncvta.param.u64 %%rd4, %%rd4;\nmov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, s;\n"
           "add.s32 %%r3, %%r2, 4096;\nmov.u32 %%r4, %%cluster_ctarank;\nsetp.eq.u32 %%p1, %%r1, 0;\n"
           "mad.lo.u32 %%r5, %%r4, 1024, %%r1;\nmul.wide.u32 %%rd5, %%r5, 4;\nadd.s64 %%rd5, %%rd2, %%rd5;\n"
           "mov.u32 %%r6, %%r1;\nzero:\nshl.b32 %%r7, %%r6, 2;\nadd.s32 %%r7, %%r7, %%r2;\nst.shared.u32 [%%r7], 0;\n"
           "mov.u32 %%r8, %%ntid.x;\nadd.s32 %%r6, %%r6, %%r8;\nsetp.lt.u32 %%p2, %%r6, 1024;\n@%%p2 bra zero;\n"
           "shl.b32 %%r7, %%r1, 2;\nadd.s32 %%r7, %%r7, %%r2;\nbar.sync 0;\n%s\nret;\n}\n",
           body);
  em_module *module = em_module_read(text, "test");
  const em_function *f = module ? em_module_find(module, "kernel") : NULL;
  void *params[] = {&in, &out, &from, &to};
  const em_launch launch = {.function = f,
                            .grid = {cluster, 1, 1},
                            .block = {threads, 1, 1},
                            .cluster = {cluster, 1, 1},
                            .params = params,
                            .seed = seed};
  memset(out, 0, WORDS * 4);
  const bool ran = f && em_launch_run(&launch);
  em_module_free(module);
  return ran;
}

static void run(const char *body, uint32_t threads, uint32_t cluster, uint64_t seed) {
  if (!run_in(body, threads, cluster, seed)) fail_msg("%s", em_message());
}

static void cries(const char *body, uint32_t threads, uint32_t cluster, const char *why) {
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    if (run_in(body, threads, cluster, seed)) fail_msg("it ran, though it should say: %s", why);
    if (!strstr(em_message(), why)) fail_msg("\"%s\" does not say \"%s\"", em_message(), why);
  }
}

// In how many of the seeds some word of the first so many is not as expected.
static int wrong(const char *body, uint32_t threads, uint32_t cluster, int words, uint32_t (*word)(int)) {
  int seeds = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    run(body, threads, cluster, seed);
    bool differs = false;
    for (int i = 0; i < words; i++) differs = differs || out[i] != word(i);
    seeds += differs;
  }
  return seeds;
}

#define INIT(count)                                  \
  "@%p1 mbarrier.init.shared::cta.b64 [%r3], " count \
  ";\n@%p1 fence.mbarrier_init.release.cluster;\n"   \
  "bar.sync 0;\n"
#define WAIT(parity)                                                                        \
  "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%r3], " parity \
  "; @done bra go; bra "                                                                    \
  "again; go: }\n"
#define EXPECT(bytes) "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], " bytes ";\n"
#define LOAD                                                                                                        \
  "mov.u32 %r10, 4;\nmov.u32 %r11, 8;\n@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::" \
  "bytes [%r2], [%rd3, {%r10, %r11}], [%r3];\n"
#define SHOW "ld.shared.u32 %r20, [%r7];\nst.global.u32 [%rd5], %r20;\n"

// ---- mbarriers ----

static uint32_t two_phases(int i) {
  return i < 64 ? 2 : 0;
}

static void test_phases(void **state) {
  (void)state;
  // Each phase has 64 arrivals; nobody is through before the last one is there.
  static const char body[] =
      INIT("64") "atom.shared.add.u32 %r20, [%r2], 1;\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n" WAIT("0")
      "ld.shared.u32 %r21, [%r2];\nsetp.eq.u32 %p3, %r21, 64;\nselp.u32 %r22, 1, 0, %p3;\n"
      "mbarrier.arrive.shared::cta.b64 %rd10, [%r3];\n" WAIT("1")
      "mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r3], 0;\nselp.u32 %r23, 100, 0, %p4;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r3], 1;\nselp.u32 %r24, 1, 0, %p4;\n"
      "add.s32 %r22, %r22, %r23;\nadd.s32 %r22, %r22, %r24;\nst.global.u32 [%rd5], %r22;\n";
  assert_int_equal(wrong(body, 64, 1, 128, two_phases), 0);
}

static void test_barriers_cry(void **state) {
  (void)state;
  cries(INIT("1") "mbarrier.arrive.shared::cta.b64 _, [%r3];\n" WAIT("1"), 1, 1, "nothing can go on");
  cries("mbarrier.arrive.shared::cta.b64 _, [%r2];\n", 1, 1, "no mbarrier");
  cries(WAIT("0"), 1, 1, "no mbarrier");
  cries("mbarrier.init.shared::cta.b64 [%r3], 0;\n", 1, 1, "0 arrivals");
  cries("mbarrier.init.shared::cta.b64 [%r3+4], 1;\n", 1, 1, "not aligned");
  cries(INIT("1") "mbarrier.inval.shared::cta.b64 [%r3];\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n", 1, 1,
        "no mbarrier");
  // The phase waits for bytes alone: nobody may arrive any more.
  cries(INIT("1") EXPECT("16") "mbarrier.arrive.shared::cta.b64 _, [%r3];\n", 1, 1, "more arrive");
  cries(INIT("3") "mbarrier.arrive.shared::cta.b64 _, [%r3], 4;\n", 1, 1, "more arrive");
  cries(INIT("9") EXPECT("1048575") EXPECT("1"), 1, 1, "1048575 bytes");
  // Fewer bytes than are expected, and more.
  cries(INIT("1") EXPECT("2048") LOAD WAIT("0"), 1, 1, "nothing can go on");
}

// ---- Boxes and bytes ----

static uint32_t box_word(int i) {
  return (uint32_t)((8 + i / 32) * 64 + 4 + i % 32 + 1);
}

static uint32_t bytes_word(int i) {
  return (uint32_t)(i < 64 ? 17 + i : 0);
}

static void test_loads(void **state) {
  (void)state;
  assert_int_equal(wrong(INIT("1") EXPECT("1024") LOAD WAIT("0") SHOW, 256, 1, 256, box_word), 0);
  // Who reads before the wait reads too early, more often than not; the block has to wait in the end.
  assert_in_range(wrong(INIT("1") EXPECT("1024") LOAD SHOW "bar.sync 0;\n" WAIT("0"), 256, 1, 256, box_word), SEEDS / 3,
                  SEEDS);
  assert_int_equal(wrong(INIT("1") EXPECT("256") "add.s64 %rd10, %rd1, 64;\n@%p1 cp.async.bulk.shared::cluster.global."
                                                 "mbarrier::complete_tx::bytes [%r2], [%rd10], 256, [%r3];\n" WAIT("0")
                                                     SHOW "@%p1 cp.async.bulk.prefetch.L2.global [%rd1], 4096;\n",
                         128, 1, 128, bytes_word),
                   0);
}

static void test_loads_cry(void **state) {
  (void)state;
  for (uint64_t seed = 0, cried = 0; seed < SEEDS || !cried; seed++)  // late enough, it is under way at the end
    if (!run_in(INIT("1") EXPECT("1024") LOAD, 32, 1, seed)) cried += strstr(em_message(), "nobody waited") != NULL;
  cries(INIT("1") "@%p1 add.s32 %r2, %r2, 64;\n" EXPECT("1024") LOAD, 32, 1, "multiple of 128");
  cries(INIT("1") "@%p1 add.s32 %r2, %r2, 3584;\n" EXPECT("1024") LOAD, 32, 1, "outside of the block");
  cries(INIT("1") EXPECT("1024") "mov.b64 %rd3, %rd1;\n" LOAD, 32, 1, "no tensor map");
  cries(INIT("1") EXPECT("24") "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], "
                               "24, [%r3];\n",
        32, 1, "no multiple of 16");
  cries(INIT("1") EXPECT("16") "@%p1 add.s64 %rd1, %rd1, 16384;\n@%p1 cp.async.bulk.shared::cluster.global.mbarrier::"
                               "complete_tx::bytes [%r2], [%rd1], 16, [%r3];\n",
        32, 1, "outside of what was allocated");
  cries(
      "@%p1 mov.u32 %r10, 0;\n@%p1 cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
      "[%rd3, {%r10, %r10, %r10}], [%r3];\n",
      32, 1, "no tensor map of this kind");
}

// ---- Stores ----

#define FILL "add.s32 %r20, %r1, 1;\nst.shared.u32 [%r7], %r20;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
#define STORE                                                                                                   \
  "mov.u32 %r10, 0;\n@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r10, %r10}], [%r2];\n" \
  "@%p1 cp.async.bulk.commit_group;\n"

static uint32_t stored_word(int i) {
  return (uint32_t)(i / 64 < 8 && i % 64 < 32 ? i / 64 * 32 + i % 64 + 1 : 0);
}

static void test_stores(void **state) {
  (void)state;
  assert_int_equal(wrong(FILL STORE "@%p1 cp.async.bulk.wait_group.read 0;\nbar.sync 0;\nst.shared.u32 [%r7], 0;\n",
                         256, 1, 1024, stored_word),
                   0);
  // Overwritten before it has been read.
  assert_in_range(wrong(FILL STORE "@%p1 cp.async.bulk.wait_group.read 1;\nbar.sync 0;\nst.shared.u32 [%r7], 0;\nbar."
                                   "sync 0;\n@%p1 cp.async.bulk.wait_group.read 0;\n",
                        256, 1, 1024, stored_word),
                  SEEDS / 3, SEEDS);
  // Read again by the same thread: .read is not enough.
  for (int read = 0; read < 2; read++) {
    char body[1024];
    int old = 0;
    snprintf(body, sizeof body, "%s%s%s%s", FILL STORE, "@%p1 cp.async.bulk.wait_group", read ? ".read 0;\n" : " 0;\n",
             "@%p1 ld.global.u32 %r21, [%rd2+4];\n@%p1 st.global.u32 [%rd2+128], %r21;\n");
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      run(body, 256, 1, seed);
      assert_int_equal(out[1], 2);
      old += out[32] != 2;
    }
    if (read)
      assert_in_range(old, SEEDS / 3, SEEDS);
    else
      assert_int_equal(old, 0);
  }
  int cried = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    cried += !run_in(FILL STORE, 256, 1, seed) && strstr(em_message(), "still to be read");
  assert_in_range(cried, SEEDS / 3, SEEDS);
}

// ---- Clusters ----

static uint32_t everywhere(int i) {
  return i % 1024 < 256 ? box_word(i % 1024) : 0;
}

static uint32_t sent(int i) {
  const int rank = i / 1024, thread = i % 1024;
  return (uint32_t)(thread < 128 ? 1000 * (1 - rank) + thread / 4 + thread % 4 : 0);
}

#define MEET "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"

static void test_clusters(void **state) {
  (void)state;
  // Block 0 loads for all; each block's own barrier counts.
  assert_int_equal(
      wrong(
          INIT("1") MEET EXPECT(
              "1024") "setp.eq.u32 %p3, %r5, 0;\nmov.u16 %rs1, 7;\nmov.u32 %r10, 4;\nmov.u32 %r11, "
                      "8;\n@%p3 "
                      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                      "[%r2], [%rd3, {%r10, %r11}], [%r3], %rs1;\n" WAIT("0") SHOW,
          256, 3, 3 * 1024, everywhere),
      0);
  // Each thread sends 16 bytes to the other block, whose barrier counts them; it arrives there, too.
  assert_int_equal(
      wrong(
          INIT("33") MEET
          "xor.b32 %r10, %r4, 1;\nshl.b32 %r11, %r1, 4;\nadd.s32 %r11, %r11, %r2;\nmapa.shared::"
          "cluster.u32 %r12, %r11, %r10;\nmapa.shared::cluster.u32 %r13, %r3, %r10;\nmad.lo.u32 %r14, %r4, 1000, %r1;\n"
          "add.s32 %r15, %r14, 1;\nadd.s32 %r16, %r14, 2;\nadd.s32 %r17, %r14, 3;\n" EXPECT(
              "512") "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r12], {%r14, %r15, %r16, %r17}, "
                     "[%r13];\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [%r13];\n" WAIT(
                         "0") "mov.u32 %r30, 0;\nshow:\nld.shared.u32 %r20, [%r7];\nst.global.u32 [%rd5], "
                              "%r20;\nadd.s32 %r7, %r7, 128;\n"
                              "add.s64 %rd5, %rd5, 128;\nadd.s32 %r30, %r30, 1;\nsetp.lt.u32 %p3, %r30, 4;\n@%p3 bra "
                              "show;\n" MEET,
          32, 2, 2048, sent),
      0);
  cries("mapa.shared::cluster.u32 %r10, %r2, 2;\n", 32, 2, "block 2 of a cluster of 2");
  cries(INIT("1") MEET
        "xor.b32 %r10, %r4, 1;\nmapa.shared::cluster.u32 %r12, %r2, %r10;\nst.async.shared::cluster."
        "mbarrier::complete_tx::bytes.v4.b32 [%r12], {%r1, %r1, %r1, %r1}, [%r3];\n",
        1, 2, "not in the block");
  // What is sent to a block that does not wait for it.
  int cried = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    cried += !run_in(INIT("1") MEET
                     "setp.eq.u32 %p3, %r5, 0;\nmov.u16 %rs1, 3;\nmov.u32 %r10, 0;\n@%p3 cp.async.bulk."
                     "tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd3, "
                     "{%r10, %r10}], [%r3], %rs1;\n",
                     32, 2, seed) &&
             strstr(em_message(), "ended");
  assert_in_range(cried, SEEDS / 3, SEEDS);
}

// ---- cp.async ----

static uint32_t copied(int i) {
  const int thread = i / 4, word = i % 4;
  return i < 128 && word < thread % 5 ? (uint32_t)i + 1 : 0;
}

static uint32_t arrived(int i) {
  return i < 128 ? (uint32_t)i + 1 : 0;
}

#define COPY "shl.b32 %r10, %r1, 4;\nadd.s32 %r11, %r10, %r2;\ncvt.u64.u32 %rd10, %r10;\nadd.s64 %rd10, %rd10, %rd1;\n"
#define SHOW4                                                                                               \
  "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r11];\nsub.s64 %rd10, %rd10, %rd1;\nadd.s64 %rd10, %rd10, " \
  "%rd2;\nst.global.v4.u32 [%rd10], {%r20, %r21, %r22, %r23};\n"
#define FIVE "rem.u32 %r12, %r1, 5;\nshl.b32 %r12, %r12, 2;\n"

static void test_copies(void **state) {
  (void)state;
  assert_int_equal(wrong(COPY FIVE "cp.async.cg.shared.global [%r11], [%rd10], 16, %r12;\ncp.async.commit_group;\n"
                                   "cp.async.wait_group 0;\n" SHOW4,
                         32, 1, 256, copied),
                   0);
  assert_int_equal(wrong(COPY "cp.async.ca.shared.global [%r11], [%rd10], 8;\ncp.async.ca.shared.global [%r11+8], "
                              "[%rd10+8], 8;\ncp.async.wait_all;\n" SHOW4,
                         32, 1, 256, arrived),
                   0);
  // The latest group is not waited for, nor is what has not been committed.
  assert_in_range(wrong(COPY "cp.async.cg.shared.global [%r11], [%rd10], 16;\ncp.async.commit_group;\n"
                             "cp.async.wait_group 1;\n" SHOW4,
                        32, 1, 256, arrived),
                  SEEDS / 3, SEEDS);
  assert_in_range(
      wrong(COPY "cp.async.cg.shared.global [%r11], [%rd10], 16;\ncp.async.wait_group 0;\n" SHOW4, 32, 1, 256, arrived),
      SEEDS / 3, SEEDS);
  assert_int_equal(wrong(COPY "cp.async.cg.shared.global [%r11], [%rd10], 16;\ncp.async.commit_group;\n"
                              "cp.async.commit_group;\ncp.async.wait_group 1;\n" SHOW4,
                         32, 1, 256, arrived),
                   0);
  // A barrier that copies arrive at: as some of those that it expects, or as more.
  assert_int_equal(wrong(INIT("32") COPY "cp.async.cg.shared.global [%r11], [%rd10], 16;\ncp.async.mbarrier.arrive."
                                         "noinc.shared::cta.b64 [%r3];\n" WAIT("0") SHOW4,
                         32, 1, 256, arrived),
                   0);
  assert_int_equal(
      wrong(INIT("32") COPY "cp.async.cg.shared.global [%r11], [%rd10], 16;\ncp.async.mbarrier.arrive."
                            "shared::cta.b64 [%r3];\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n" WAIT("0") SHOW4,
            32, 1, 256, arrived),
      0);
  cries(COPY "cp.async.cg.shared.global [%r11], [%rd10], 16, 20;\n", 32, 1, "20 bytes of 16");
  cries(COPY "cp.async.cg.shared.global [%r11+4], [%rd10], 16;\n", 32, 1, "not aligned");
  cries(COPY "add.s64 %rd10, %rd10, 16384;\ncp.async.cg.shared.global [%r11], [%rd10], 16;\n", 32, 1, "allocated");
}

static void test_unknown(void **state) {
  static const char *const bodies[] = {
      "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;\n",
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3, {%r1}], [%r3];\n",
      "cp.async.cx.shared.global [%r2], [%rd1], 16;\n",
      "mbarrier.pending_count.b64 %r1, %rd1;\n",
      "mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%r3], 1;\n",
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r2], 16;\n",
  };
  (void)state;
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    if (run_in(bodies[i], 32, 1, 1)) fail_msg("it ran: %s", bodies[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_phases), cmocka_unit_test(test_barriers_cry), cmocka_unit_test(test_loads),
      cmocka_unit_test(test_stores), cmocka_unit_test(test_loads_cry),    cmocka_unit_test(test_clusters),
      cmocka_unit_test(test_copies), cmocka_unit_test(test_unknown),
  };
  return cmocka_run_group_tests(tests, begin, finish);
}
