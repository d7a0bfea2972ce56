// The emulated GPU's memory and barriers: small kernels as PTX, what they leave in memory, and what they are refused
// for.
#include "test_kernel.h"

static void run(const char *body, uint32_t threads) {
  if (!run_in(body, 1, threads, 1)) fail_msg("%s", em_message());
}

static void expect_words(const char *what, uint32_t (*word)(int), int count) {
  for (int i = 0; i < count; i++) {
    if (out[i] != word(i)) fail_msg("%s: word %d is %#x, expected %#x", what, i, out[i], word(i));
  }
}

// ---- Loads and stores ----

static uint32_t word_widths(int i) {
  static const uint32_t w[] = {0x88, 0xffffff88, 0xff88, 0xffffff88, 0x80ff, 0xffff80ff};
  return w[i];
}

static void test_widths(void **state) {
  (void)state;
  run("mov.u32 %r3, 0x80ffff88;\n st.shared.u32 [%r2], %r3;\n"
      "ld.shared.u8 %r4, [%r2];\n ld.shared.s8 %r5, [%r2];\n st.global.u32 [%rd1], %r4;\n st.global.u32 [%rd1+4], "
      "%r5;\n"
      "ld.shared.u16 %rs1, [%r2];\n cvt.u32.u16 %r6, %rs1;\n st.global.u32 [%rd1+8], %r6;\n"
      "ld.shared.s8 %rs2, [%r2];\n cvt.s32.s16 %r7, %rs2;\n st.global.u32 [%rd1+12], %r7;\n"
      "ld.shared.u16 %rs3, [%r2+2];\n cvt.u32.u16 %r8, %rs3;\n st.global.u32 [%rd1+16], %r8;\n"
      "ld.shared.s16 %r9, [%r2+2];\n st.global.u32 [%rd1+20], %r9;\n"
      "st.global.u8 [%rd1+24], %rs3;\n st.global.u16 [%rd1+26], %r3;",
      1);
  expect_words("widths", word_widths, 6);
  assert_int_equal(out[6], 0xff88ffff);  // a byte, one that stays, two bytes
}

static uint32_t word_vectors(int i) {
  return (uint32_t)(i % 4 == 3 ? -1 : 100 * (i / 4) + 4 - i % 4);
}

static void test_vectors(void **state) {
  (void)state;
  run("mul.lo.s32 %r3, %r1, 100;\n add.s32 %r4, %r3, 4;\n add.s32 %r5, %r3, 3;\n add.s32 %r6, %r3, 2;\n"
      "add.s32 %r7, %r3, 1;\n shl.b32 %r8, %r1, 4;\n add.s32 %r8, %r8, %r2;\n"
      "st.shared.v4.u32 [%r8], {%r4, %r5, %r6, %r7};\n bar.warp.sync -1;\n"
      "ld.shared.v2.f32 {%f1, %f2}, [%r8];\n ld.shared.v4.b32 {_, _, %r9, _}, [%r8];\n"
      "mul.wide.u32 %rd4, %r1, 16;\n add.s64 %rd4, %rd1, %rd4;\n"
      "st.global.v2.f32 [%rd4], {%f1, %f2};\n st.global.cg.u32 [%rd4+8], %r9;",
      32);
  expect_words("vectors", word_vectors, 128);
}

static uint32_t word_spaces(int i) {
  return (uint32_t)(7 * i + 1) ^ (i & 1 ? 0x89abcdefU : 0x01234567U);
}

// Local, generic and the kernel's own parameters by their addresses; a variable of the module; half of the lanes.
static void test_spaces(void **state) {
  (void)state;
  run("mad.lo.s32 %r3, %r1, 7, 1;\n mov.u64 %rd4, l;\n st.local.u32 [%rd4+4], %r3;\n"
      "cvta.local.u64 %rd5, %rd4;\n ld.u32 %r4, [%rd5+4];\n"
      "mov.b64 %rd6, kernel_param_1;\n cvta.param.u64 %rd7, %rd6;\n"
      "and.b32 %r5, %r1, 1;\n setp.eq.u32 %p1, %r5, 1;\n"
      "@%p1 ld.param.u32 %r6, [%rd6];\n @!%p1 ld.u32 %r6, [%rd7+4];\n xor.b32 %r7, %r4, %r6;\n"
      "cvt.u64.u32 %rd8, %r2;\n cvta.shared.u64 %rd8, %rd8;\n add.s64 %rd8, %rd8, %rd2;\n"
      "st.u32 [%rd8], %r7;\n cvta.to.shared.u64 %rd9, %rd8;\n cvt.u32.u64 %r8, %rd9;\n ld.shared.u32 %r9, [%r8];\n"
      "mov.u64 %rd10, variable;\n st.global.u32 [%rd10], %r9;\n"
      "st.volatile.global.u32 [%rd3], %r9;",
      32);
  expect_words("spaces", word_spaces, 32);
}

static uint32_t word_where(int i) {
  return (uint32_t[]){1, 2, 4, 9}[i];
}

static void test_isspacep(void **state) {
  (void)state;
  run("cvt.u64.u32 %rd4, %r2;\n cvta.shared.u64 %rd4, %rd4;\n mov.u64 %rd5, l;\n cvta.local.u64 %rd5, %rd5;\n"
      "mov.b64 %rd6, kernel_param_1;\n cvta.param.u64 %rd6, %rd6;\n mov.u32 %r20, 0;\n mov.u64 %rd9, %rd1;\n"
      "again:\n isspacep.global %p1, %rd9;\n isspacep.shared %p2, %rd9;\n isspacep.local %p3, %rd9;\n"
      "isspacep.param %p4, %rd9;\n selp.u32 %r3, 1, 0, %p1;\n selp.u32 %r4, 2, 0, %p2;\n selp.u32 %r5, 4, 0, %p3;\n"
      "selp.u32 %r6, 8, 0, %p4;\n add.u32 %r3, %r3, %r4;\n add.u32 %r3, %r3, %r5;\n add.u32 %r3, %r3, %r6;\n"
      "st.global.u32 [%rd3], %r3;\n add.s64 %rd3, %rd3, 4;\n mov.u64 %rd9, %rd4;\n mov.u64 %rd4, %rd5;\n"
      "mov.u64 %rd5, %rd6;\n add.u32 %r20, %r20, 1;\n setp.lt.u32 %p5, %r20, 4;\n @%p5 bra again;",
      1);
  expect_words("isspacep", word_where, 4);
}

static void test_outside(void **state) {
  (void)state;
  refused("st.global.u32 [%rd1+4096], %r1;", 1, 32, 1, "outside of what was allocated");
  refused("st.global.u32 [%rd1+4095], %r1;", 1, 1, 1, "outside of what was allocated");
  refused("st.global.u32 [%rd1+2], %r1;", 1, 1, 1, "not aligned to 4");
  refused("ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+8];", 1, 1, 1, "not aligned to 16");
  refused("mov.u64 %rd4, 0;\n ld.u32 %r3, [%rd4];", 1, 1, 1, "outside of what was allocated");
  refused("setp.eq.u32 %p1, %r1, 7;\n mov.u64 %rd4, %rd3;\n @%p1 mov.u64 %rd4, 16;\n ld.global.u32 %r3, [%rd4];", 1, 32,
          1, "lane 7");
  refused("ld.shared.u32 %r3, [%r2+4096];", 1, 1, 1, "outside of the block's");
  refused("ld.shared.u32 %r3, [%r2+-4];", 1, 1, 1, "outside of the block's");
  refused("ld.shared.u64 %rd4, [%r2+4];", 1, 1, 1, "not aligned to 8");
  refused("mov.u64 %rd4, l;\n ld.local.u32 %r3, [%rd4+65536];", 1, 1, 1,
          "outside of what was allocated as the lane's local");
  refused("mapa.shared::cluster.u32 %r3, %r2, 1;\n ld.shared.u32 %r4, [%r3];", 2, 32, 2, "shared::cluster");
}

// ---- Atomics ----

static void test_atomics(void **state) {
  (void)state;
  run("mov.u32 %r3, 0;\n st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};\n st.shared.v4.u32 [%r2+16], {%r3, %r3, %r3, "
      "%r3};\n"
      "mov.u32 %r3, 31;\n setp.eq.u32 %p1, %r1, 0;\n setp.lt.u32 %p2, %r1, 32;\n bar.sync 0;\n"
      "atom.shared.add.u32 %r4, [%r2], %r1;\n"                        // 0 + .. + 63
      "atom.shared.max.u32 %r5, [%r2+4], %r1;\n"                      // 63
      "neg.s32 %r6, %r1;\n atom.shared.min.s32 %r5, [%r2+8], %r6;\n"  // -63
      "shr.u32 %r7, %r1, 3;\n mov.u32 %r8, 1;\n shl.b32 %r8, %r8, %r7;\n atom.shared.or.b32 %r5, [%r2+12], %r8;\n"  // 0xff
      "atom.shared.inc.u32 %r9, [%r2+16], 4;\n"                                        // 64 mod 5
      "add.u32 %r10, %r1, 1;\n @%p2 atom.shared.cas.b32 %r11, [%r2+20], %r1, %r10;\n"  // 32: lanes go in their order
      "st.global.u32 [%rd3], %r4;\n bar.sync 0;\n"
      "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r2];\n ld.shared.v2.u32 {%r24, %r25}, [%r2+16];\n"
      "@%p1 st.global.v4.u32 [%rd1+1024], {%r20, %r21, %r22, %r23};\n @%p1 st.global.v2.u32 [%rd1+1040], {%r24, %r25};",
      64);
  static const uint32_t expected[] = {63 * 32, 63, (uint32_t)-63, 0xff, 4, 32};
  assert_memory_equal(out + 256, expected, sizeof(expected));
  for (uint32_t i = 0; i < 63; i++) {  // each lane had the sum of those before it
    if (i != 31) assert_int_equal(out[i + 1], out[i] + i);
  }
  refused("atom.global.add.u32 %r3, [%rd1+4096], 1;", 1, 1, 1, "outside");
}

static void test_atomics_of_floats(void **state) {
  (void)state;
  run("mov.f32 %f1, 0f00000000;\n mov.f32 %f2, 0f3F800000;\n mov.f32 %f3, 0f40000000;\n mov.u32 %r3, 0;\n"
      "st.global.v4.u32 [%rd1], {%r3, %r3, %r3, %r3};\n st.global.v2.u32 [%rd1+16], {%r3, %r3};\n bar.sync 0;\n"
      "red.relaxed.gpu.global.add.v2.f32 [%rd1], {%f2,%f3};\n"
      "atom.global.add.f32 %f4, [%rd1+8], 0f00000001;\n"  // a subnormal: nothing, in global memory
      "mov.u64 %rd4, 3;\n atom.global.max.u64 %rd5, [%rd1+16], %rd4;",
      64);
  static const float sums[] = {64, 128, 0};
  assert_memory_equal(out, sums, sizeof(sums));
  assert_int_equal(out[4], 3);
  assert_int_equal(out[5], 0);
}

// ---- Matrices ----

// Thread t of matrix m has columns 2 (t % 4), + 1 of row t / 4; of .trans the same of columns. A half is 64 m + 8 r +
// c.
static uint32_t word_matrices(int i) {
  const uint32_t t = (uint32_t)i / 8, m = (uint32_t)i % 8 % 4, r = t / 4, c = 2 * (t % 4);
  return i % 8 < 4 ? 64 * m + 8 * r + c + ((64 * m + 8 * r + c + 1) << 16)
                   : 64 * m + 8 * c + r + ((64 * m + 8 * (c + 1) + r) << 16);
}

static uint32_t word_stored(int i) {
  const uint32_t at = 2 * (uint32_t)i;
  return at + ((at + 1) << 16);
}

static void test_matrices(void **state) {
  (void)state;
  static const char *const fill =  // halves 0 .. 255
      "shl.b32 %r3, %r1, 4;\n add.s32 %r3, %r3, %r2;\n shl.b32 %r4, %r1, 3;\n mov.u32 %r5, 0x10000;\n"
      "mad.lo.s32 %r6, %r4, 0x10001, %r5;\n add.s32 %r7, %r6, 0x20002;\n add.s32 %r8, %r7, 0x20002;\n"
      "add.s32 %r9, %r8, 0x20002;\n st.shared.v4.b32 [%r3], {%r6,%r7,%r8,%r9};\n bar.warp.sync -1;\n";
  char body[4096];
  snprintf(body, sizeof(body), "%s%s", fill,
           "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r3];\n"
           "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r14,%r15,%r16,%r17}, [%r3];\n"
           "mul.wide.u32 %rd4, %r1, 32;\n add.s64 %rd4, %rd4, %rd1;\n"
           "st.global.v4.b32 [%rd4], {%r10,%r11,%r12,%r13};\n st.global.v4.b32 [%rd4+16], {%r14,%r15,%r16,%r17};");
  run(body, 32);
  expect_words("ldmatrix", word_matrices, 256);
  snprintf(body, sizeof(body), "%s%s", fill,
           "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10,%r11,%r12,%r13}, [%r3];\n add.s32 %r4, %r3, 1024;\n"
           "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r4], {%r10,%r11,%r12,%r13};\n"
           "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20,%r21}, [%r3];\n"
           "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%r20,%r21};\n bar.warp.sync -1;\n"
           "ld.shared.v4.b32 {%r10,%r11,%r12,%r13}, [%r4];\n mul.wide.u32 %rd4, %r1, 16;\n add.s64 %rd4, %rd4, %rd1;\n"
           "st.global.v4.b32 [%rd4], {%r10,%r11,%r12,%r13};");
  run(body, 32);
  expect_words("stmatrix", word_stored, 128);
  refused("add.s32 %r3, %r2, 8;\n ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r3];", 1, 32, 1,
          "not aligned to 16");
  refused("setp.eq.u32 %p1, %r1, 3;\n @!%p1 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r2];", 1,
          32, 1, "all lanes");
}

// ---- Lanes that meet ----

static uint32_t word_shuffles(int i) {
  const uint32_t lane = (uint32_t)i % 32;
  switch (i / 32) {
    case 0:
      return lane ^ 5;
    case 1:
      return lane + 3 < 32 ? lane + 3 : lane;
    case 2:
      return lane < 2 ? lane : lane - 2;
    case 3:
      return 9;
    case 4:
      return (lane & 24) | 1;  // of segments of 8
    default:
      return lane + 3 < 32;
  }
}

static void test_shuffles(void **state) {
  (void)state;
  run("shfl.sync.bfly.b32 %r3, %r1, 5, 31, -1;\n shfl.sync.down.b32 %r4|%p1, %r1, 3, 31, -1;\n"
      "shfl.sync.up.b32 %r5|%p2, %r1, 2, 0, -1;\n shfl.sync.idx.b32 %r6|_, %r1, 9, 31, -1;\n"
      "shfl.sync.idx.b32 %r7, %r1, 1, 0x181f, -1;\n selp.u32 %r8, 1, 0, %p1;\n"
      "st.global.u32 [%rd3], %r3;\n st.global.u32 [%rd3+128], %r4;\n st.global.u32 [%rd3+256], %r5;\n"
      "st.global.u32 [%rd3+384], %r6;\n st.global.u32 [%rd3+512], %r7;\n st.global.u32 [%rd3+640], %r8;",
      32);
  expect_words("shuffles", word_shuffles, 192);
  refused("mov.u32 %r3, 0xfffffffe;\n shfl.sync.bfly.b32 %r4, %r1, 1, 31, %r3;", 1, 32, 1, "leaves out");
  refused("setp.lt.u32 %p1, %r1, 16;\n @%p1 shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;", 1, 32, 1, "pass by");
}

static uint32_t word_votes(int i) {
  const uint32_t lane = (uint32_t)i % 32;
  switch (i / 32) {
    case 0:
      return 0x3ff;
    case 1:
      return 1 + 0 + 4;  // any, not all, all of !(lane > 31)
    case 2:
      return lane < 16 ? 120 : 376;  // of each half by itself
    default:
      return 31;
  }
}

static void test_votes(void **state) {
  (void)state;
  run("setp.lt.u32 %p1, %r1, 10;\n setp.gt.u32 %p2, %r1, 31;\n vote.sync.ballot.b32 %r3, %p1, -1;\n"
      "vote.sync.any.pred %p3, %p1, -1;\n vote.sync.all.pred %p4, %p1, -1;\n vote.sync.all.pred %p5, !%p2, -1;\n"
      "selp.u32 %r4, 1, 0, %p3;\n @%p4 add.u32 %r4, %r4, 2;\n @%p5 add.u32 %r4, %r4, 4;\n"
      "setp.lt.u32 %p6, %r1, 16;\n selp.b32 %r5, 0xffff, 0xffff0000, %p6;\n redux.sync.add.u32 %r6, %r1, %r5;\n"
      "redux.sync.max.u32 %r7, %r1, -1;\n"
      "st.global.u32 [%rd3], %r3;\n st.global.u32 [%rd3+128], %r4;\n st.global.u32 [%rd3+256], %r6;\n"
      "st.global.u32 [%rd3+384], %r7;",
      32);
  expect_words("votes", word_votes, 128);
}

// Half of the lanes meet among themselves while the others are elsewhere.
static void test_halves(void **state) {
  (void)state;
  run("setp.lt.u32 %p1, %r1, 16;\n mov.u32 %r3, %r1;\n @%p1 bra low;\n"
      "shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xffff0000;\n bra.uni done;\n"
      "low:\n bar.warp.sync 0xffff;\n redux.sync.add.u32 %r3, %r1, 0xffff;\n done:\n bar.warp.sync -1;\n"
      "st.global.u32 [%rd3], %r3;",
      32);
  for (uint32_t i = 0; i < 32; i++) assert_int_equal(out[i], i < 16 ? 120 : (i ^ 1));
}

// ---- Barriers ----

static uint32_t word_neighbour(int i) {
  return (uint32_t)(i + 32) % 128;
}

static void test_barriers(void **state) {
  (void)state;
  run("shl.b32 %r3, %r1, 2;\n add.s32 %r3, %r3, %r2;\n st.shared.u32 [%r3], %r1;\n bar.sync 0;\n"
      "add.u32 %r4, %r1, 32;\n and.b32 %r4, %r4, 127;\n shl.b32 %r4, %r4, 2;\n add.s32 %r4, %r4, %r2;\n"
      "ld.shared.u32 %r5, [%r4];\n st.global.u32 [%rd3], %r5;",
      128);
  expect_words("neighbour", word_neighbour, 128);
  // Two warps produce, two consume: arrive and sync at one barrier for 128; those who ended are not waited for.
  run("shl.b32 %r3, %r1, 2;\n add.s32 %r3, %r3, %r2;\n setp.ge.u32 %p1, %r1, 64;\n @%p1 bra consumer;\n"
      "st.shared.u32 [%r3], %r1;\n mov.u32 %r4, 3;\n bar.arrive %r4, 128;\n ret;\n consumer:\n bar.sync 3, 128;\n"
      "ld.shared.u32 %r5, [%r3+-256];\n bar.sync 0;\n st.global.u32 [%rd3], %r5;",
      128);
  for (uint32_t i = 64; i < 128; i++) assert_int_equal(out[i], i - 64);
}

static void test_reductions(void **state) {
  (void)state;
  run("setp.eq.u32 %p1, %r1, 77;\n setp.ne.u32 %p2, %r1, 78;\n bar.red.or.pred %p3, 0, %p1;\n"
      "bar.red.and.pred %p4, 0, %p2;\n bar.red.popc.u32 %r3, 0, !%p1;\n bar.red.and.pred %p5, 1, 96, !%p3;\n"
      "selp.u32 %r4, 1000, 0, %p3;\n add.u32 %r3, %r3, %r4;\n @%p4 add.u32 %r3, %r3, 10000;\n"
      "@%p5 add.u32 %r3, %r3, 20000;\n st.global.u32 [%rd3], %r3;",
      96);
  for (int i = 0; i < 96; i++) assert_int_equal(out[i], 1095);
}

static void test_barriers_cry(void **state) {
  (void)state;
  refused("bar.sync 1, 48;", 1, 64, 1, "for 48 threads");
  refused("bar.sync 16;", 1, 64, 1, "barrier 16");
  refused("bar.sync 1, 96;", 1, 64, 1, "in a block of 64");
  refused("setp.lt.u32 %p1, %r1, 32;\n @%p1 bar.sync 1, 64;\n @!%p1 bar.sync 1, 96;", 1, 96, 1,
          "where others wait at it for");
  refused("setp.lt.u32 %p1, %r1, 32;\n @%p1 bar.sync 1, 64;", 1, 64, 1, "bar.sync");  // nobody comes
  refused("setp.lt.u32 %p1, %r1, 31;\n @%p1 bar.sync 0;", 1, 32, 1, "all lanes of a warp");
  refused("bar.sync %r1;", 1, 32, 1, "different numbers");
}

static const char *const exchange =
    "mov.u32 %r3, %cluster_ctarank;\n st.shared.u32 [%r2], %r3;\n"
    "barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;\n"
    "add.u32 %r4, %r3, 1;\n and.b32 %r4, %r4, 3;\n mapa.shared::cluster.u32 %r5, %r2, %r4;\n"
    "ld.shared::cluster.u32 %r6, [%r5];\n mov.u32 %r7, %ctaid.x;\n mul.wide.u32 %rd4, %r7, 4;\n add.s64 %rd4, %rd4, "
    "%rd1;\n"
    "st.global.u32 [%rd4], %r6;\n";

static void test_clusters(void **state) {
  (void)state;
  char body[2048];
  snprintf(body, sizeof(body), "%s%s", exchange, "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;");
  assert_true(run_in(body, 8, 64, 4));
  for (uint32_t i = 0; i < 8; i++) assert_int_equal(out[i], (i + 1) % 4);
  refused("barrier.cluster.wait.acquire.aligned;", 2, 32, 2, "without having arrived");
  refused("barrier.cluster.arrive.aligned;\n barrier.cluster.arrive.aligned;", 2, 32, 2, "second time");
  refused("mapa.shared::cluster.u32 %r5, %r2, 1;\n add.u32 %r5, %r5, 0x1000000;\n ld.shared::cluster.u32 %r6, [%r5];",
          2, 32, 2, "of block 2 of a cluster of 2");
  // The other block has ended.
  refused(
      "mov.u32 %r3, %cluster_ctarank;\n setp.eq.u32 %p1, %r3, 1;\n @%p1 ret;\n mapa.shared::cluster.u32 %r5, %r2, 1;\n"
      "mov.u32 %r8, 0;\n again:\n ld.shared::cluster.u32 %r6, [%r5];\n add.u32 %r8, %r8, 1;\n setp.lt.u32 %p2, %r8, "
      "10000;\n"
      "@%p2 bra again;",
      2, 32, 2, "has ended");
}

// 256 threads of 256 registers: half of them must give for the others to have more.
static void test_registers(void **state) {
  (void)state;
  run("setp.lt.u32 %p1, %r1, 128;\n @%p1 bra.uni more;\n setmaxnreg.dec.sync.aligned.u32 40;\n ret;\n"
      "more:\n setmaxnreg.inc.sync.aligned.u32 256;",
      256);
  refused("setmaxnreg.inc.sync.aligned.u32 256;", 1, 256, 1, "setmaxnreg");  // nobody gives
  refused("setmaxnreg.dec.sync.aligned.u32 41;", 1, 256, 1, "multiple of 8");
  refused("setmaxnreg.dec.sync.aligned.u32 16;", 1, 256, 1, "24 to 256");
  refused("setmaxnreg.dec.sync.aligned.u32 40;\n setmaxnreg.dec.sync.aligned.u32 48;", 1, 256, 1, "from 40 registers");
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } row[] = {
      {"ld.global.L3.u32 %r3, [%rd1];", "modifier"},         {"ld.global.u64 %r3, [%rd1];", "narrower"},
      {"ld.global.v2.u32 %r3, [%rd1];", "vector"},           {"atom.global.mul.u32 %r3, [%rd1], %r3;", "operation"},
      {"atom.global.add.s64 %r3, [%rd1], %r3;", "narrower"}, {"shfl.down.b32 %r3, %r1, 1, 31;", "form"},
      {"bar.red.xor.pred %p1, 0, %p2;", "modifier"},         {"fence.proxy.alias;", "modifier"},
      {"redux.sync.add.u64 %rd4, %rd4, -1;", "type"},
  };
  for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) refused(row[i].text, 1, 32, 1, row[i].why);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_widths),
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_spaces),
      cmocka_unit_test(test_isspacep),
      cmocka_unit_test(test_outside),
      cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_atomics_of_floats),
      cmocka_unit_test(test_matrices),
      cmocka_unit_test(test_shuffles),
      cmocka_unit_test(test_votes),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_barriers_cry),
      cmocka_unit_test(test_clusters),
      cmocka_unit_test(test_registers),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
