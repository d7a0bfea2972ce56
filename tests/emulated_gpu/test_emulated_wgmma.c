// Products of warpgroups on the emulated GPU: operands in every layout that descriptors can say, laid out by tensor
// maps; and mma.sync, whose fragments lie in registers.
#include <cuda.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "later.h"
#include "runtime.h"

enum { IMAGE = 96 << 10, B_AT = 48 << 10, MOST_ROWS = 256, K = 64 };

static uint8_t *image, *matrix;  // of shared memory; of memory, where the tensor maps lie over
static float *sums;              // of 128 threads: registers before, and behind

static int begin(void **state) {
  (void)state;
  return em_take((void **)&image, IMAGE, EM_DEVICE) != cudaSuccess ||
         em_take((void **)&matrix, (size_t)MOST_ROWS * K * 4, EM_DEVICE) != cudaSuccess ||
         em_take((void **)&sums, 128 * 128 * sizeof *sums, EM_DEVICE) != cudaSuccess;
}

static int finish(void **state) {
  (void)state;
  return em_give(image, EM_DEVICE) != cudaSuccess || em_give(matrix, EM_DEVICE) != cudaSuccess ||
         em_give(sums, EM_DEVICE) != cudaSuccess;
}

static const struct type {
  const char *name;
  int bytes;
} f16 = {"f16", 2}, bf16 = {"bf16", 2}, tf32 = {"tf32", 4}, e4m3 = {"e4m3", 1}, e5m2 = {"e5m2", 1}, s8 = {"s8", 1},
  u8 = {"u8", 1};

// Small whole numbers in every type; those without a sign are not negative.
static int number_at(int side, int row, int k, const struct type *t) {
  const int x = (row * 7 + k * 5 + side * 3 + row * k) % 7;
  return t == &u8 ? x : x - 3;
}

static void put(uint8_t *at, const struct type *t, int x) {
  const float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  const uint32_t sign = bits >> 31, exponent = bits >> 23 & 255, fraction = bits & 0x7fffff;
  if (t == &bf16) bits >>= 16;
  if (t == &f16) bits = x ? sign << 15 | (exponent - 112) << 10 | fraction >> 13 : 0;
  if (t == &e4m3) bits = x ? sign << 7 | (exponent - 120) << 3 | fraction >> 20 : 0;
  if (t == &e5m2) bits = x ? sign << 7 | (exponent - 112) << 2 | fraction >> 21 : 0;
  if (t == &s8 || t == &u8) bits = (uint32_t)x;
  memcpy(at, &bits, (size_t)t->bytes);
}

// Rows of an operand as `swizzle` has them, along k or side by side, at `at` of the image. The descriptor of its part
// from k on.
static uint64_t lay(int side, int rows, const struct type *t, int swizzle, bool across, uint32_t at, int k) {
  const uint32_t span = 16u << swizzle, each = span / (uint32_t)t->bytes;  // a box's bytes and elements side by side
  const int inner = across ? rows : K, outer = across ? K : rows;
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < K; i++)
      put(matrix + (size_t)(across ? i * rows + r : r * K + i) * (size_t)t->bytes, t, number_at(side, r, i, t));
  const cuuint64_t size[] = {(cuuint64_t)inner, (cuuint64_t)outer}, pitch[] = {(cuuint64_t)(inner * t->bytes)};
  const cuuint32_t box[] = {each, (cuuint32_t)outer}, step[] = {1, 1};
  const CUtensorMapDataType type = t->bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                   : t->bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_UINT32;
  CUtensorMap map;
  assert_int_equal(cuTensorMapEncodeTiled(&map, type, 2, matrix, size, pitch, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                          (CUtensorMapSwizzle)swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                   CUDA_SUCCESS);
  em_box b;
  memset(&b, 0, sizeof b);
  memcpy(&b.map, &map, sizeof b.map);
  const uint32_t box_bytes = span * (uint32_t)outer;
  for (int i = 0; i * (int)each < inner; i++) {
    b.at[0] = i * (int32_t)each;
    assert_null(em_box_refused(&b, EM_SHARED_FIRST + at));
    assert_null(em_box_load(&b, image - EM_SHARED_FIRST, EM_SHARED_FIRST + at + (uint32_t)i * box_bytes));
  }
  const uint32_t bytes = (uint32_t)(k * t->bytes), group = 8 * span;
  uint32_t start = EM_SHARED_FIRST + at, leading, stride;
  if (across) {  // 8 rows of k are a group; the next numbers side by side are in the next box
    start += (uint32_t)k / 8 * group;
    leading = swizzle ? box_bytes : group, stride = swizzle ? group : box_bytes;
  } else {
    start += bytes / span * box_bytes + bytes % span;
    leading = swizzle ? 16 : box_bytes, stride = group;
  }
  return (uint64_t)(swizzle ? 4 - swizzle : 0) << 62 | (uint64_t)(stride >> 4) << 32 | (uint64_t)(leading >> 4) << 16 |
         start >> 4;
}

static size_t list(char *text, const char *name, int from, int count) {
  size_t n = 0;
  for (int i = 0; i < count; i++) n += (size_t)sprintf(text + n, "%s%s%d", i ? ", " : "", name, from + i);
  return n;
}

// A kernel of 128 threads: what `image` has goes to shared memory, `count` registers %f0.. come from and go to `sums`,
// %r10.. %r13 from the thread's first four words of `matrix`.
static char text[1 << 16];

static bool run_body(const char *body, int count, uint64_t run_seed) {
  size_t n = (size_t)sprintf(
      text,
      ".version 8.4\n.target sm_90a\n.address_size 64\n"
      ".visible .entry kernel(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n.maxntid 128, 1, 1\n{\n"
      ".shared .align 1024 .b8 s[%d];\n.reg .pred %%p<8>;\n.reg .b32 %%r<32>;\n.reg .f32 %%f<128>;\n"
      ".reg .b64 %%rd<16>;\n.reg .f64 %%fd<16>;\n"
      "ld.param.u64 %%rd1, [p0];\nld.param.u64 %%rd2, [p1];\nld.param.u64 %%rd3, [p2];\nmov.u32 %%r1, %%tid.x;\n"
      "mov.u32 %%r2, s;\nshl.b32 %%r3, %%r1, 4;\nadd.s32 %%r2, %%r2, %%r3;\ncvt.u64.u32 %%rd4, %%r3;\n"
      "add.s64 %%rd5, %%rd3, %%rd4;\nld.global.v4.u32 {%%r10, %%r11, %%r12, %%r13}, [%%rd5];\n"
      "add.s64 %%rd1, %%rd1, %%rd4;\n"
      "loop:\nld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%rd1];\n"
      "st.shared.v4.u32 [%%r2], {%%r4, %%r5, %%r6, %%r7};\nadd.s64 %%rd1, %%rd1, 2048;\nadd.s32 %%r2, %%r2, 2048;\n"
      "add.s32 %%r3, %%r3, 2048;\nsetp.lt.u32 %%p1, %%r3, %d;\n@%%p1 bra loop;\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\nshl.b32 %%r8, %%r1, 9;\ncvt.u64.u32 %%rd6, %%r8;\n"
      "add.s64 %%rd2, %%rd2, %%rd6;\nsetp.ne.u32 %%p2, %%r1, 1000;\n",
      IMAGE, IMAGE);
  for (int i = 0; i < count; i++) n += (size_t)sprintf(text + n, "ld.global.f32 %%f%d, [%%rd2+%d];\n", i, 4 * i);
  n += (size_t)sprintf(text + n, "%s", body);
  for (int i = 0; i < count; i++) n += (size_t)sprintf(text + n, "st.global.f32 [%%rd2+%d], %%f%d;\n", 4 * i, i);
  sprintf(text + n, "ret;\n}\n");
  em_module *module = em_module_read(text, "test");
  const em_function *f = module ? em_module_find(module, "kernel") : NULL;
  void *params[] = {&image, &sums, &matrix};
  const em_launch launch = {
      .function = f, .grid = {1, 1, 1}, .block = {128, 1, 1}, .cluster = {1, 1, 1}, .params = params, .seed = run_seed};
  const bool ran = f && em_launch_run(&launch);
  em_module_free(module);
  return ran;
}

typedef struct test_case {
  const struct type *a, *b;
  int n, a_swizzle, b_swizzle;
  bool a_across, b_across, a_registers, anew, a_minus, b_minus;
} test_case;

static const char *instruction(const test_case *c, uint64_t a, uint64_t b) {
  static char line[4096];
  const int step = 32 / c->a->bytes;
  const bool bytes = c->a == &s8 || c->a == &u8;
  size_t n = (size_t)sprintf(line, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {", c->n, step,
                             bytes ? "s32" : "f32", c->a->name, c->b->name);
  n += list(line + n, "%f", 0, c->n / 2);
  n += c->a_registers ? (size_t)sprintf(line + n, "}, {%%r10, %%r11, %%r12, %%r13}, ")
                      : (size_t)sprintf(line + n, "}, %llu, ", (unsigned long long)a);
  n += (size_t)sprintf(line + n, "%llu, ", (unsigned long long)b);
  n += (size_t)sprintf(line + n, c->anew ? "0" : "%%p2");
  if (!bytes) n += (size_t)sprintf(line + n, ", %d, %d", c->a_minus ? -1 : 1, c->b_minus ? -1 : 1);
  if (c->a->bytes == 2 && !c->a_registers) n += (size_t)sprintf(line + n, ", %d", c->a_across);
  if (c->a->bytes == 2) n += (size_t)sprintf(line + n, ", %d", c->b_across);
  sprintf(line + n, ";\n");
  return line;
}

static float before(int thread, int i) {
  return (float)((thread * 5 + i) % 11 - 5);
}

static void run_case(const test_case *c, uint64_t run_seed) {
  static char body[1 << 15];
  const int step = 32 / c->a->bytes, products = 2;  // the middle of K's blocks, in two groups
  const bool whole = c->a == &s8 || c->a == &u8;
  size_t n = (size_t)sprintf(body, "wgmma.fence.sync.aligned;\n");
  for (int i = 0; i < products; i++) {
    const int k = (K / step / 2 - 1 + i) * step;
    const uint64_t a = lay(0, 64, c->a, c->a_swizzle, c->a_across, 0, k);
    const uint64_t b = lay(1, c->n, c->b, c->b_swizzle, c->b_across, B_AT, k);
    n += (size_t)sprintf(body + n, "%swgmma.commit_group.sync.aligned;\n", instruction(c, a, b));
  }
  sprintf(body + n, "wgmma.wait_group.sync.aligned 0;\n");
  for (int thread = 0; thread < 128; thread++)
    for (int i = 0; i < 128; i++) {
      const int32_t integer = (int32_t)before(thread, i);
      sums[thread * 128 + i] = before(thread, i);
      if (whole) memcpy(&sums[thread * 128 + i], &integer, 4);
    }
  if (c->a_registers)  // a fragment of k's first block, in both products
    for (int thread = 0; thread < 128; thread++)
      for (int i = 0; i < 16; i += c->a->bytes) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 4 % 2 * 8;
        put(matrix + thread * 16 + i, c->a,
            number_at(0, row, (i / 8 * 16 + thread % 4 * 4 + i % 4) / c->a->bytes, c->a));
      }
  if (!run_body(body, c->n / 2, run_seed)) fail_msg("%s", em_message());
  for (int thread = 0; thread < 128; thread++)
    for (int i = 0; i < c->n / 2; i++) {
      const int row = thread / 32 * 16 + i / 2 % 2 * 8 + thread % 32 / 4, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      int sum = c->anew ? 0 : (int)before(thread, i);
      for (int j = c->anew ? products - 1 : 0; j < products; j++)
        for (int k = 0; k < step; k++) {
          const int at = (K / step / 2 - 1 + j) * step + k;
          sum += number_at(0, row, c->a_registers ? k : at, c->a) * number_at(1, column, at, c->b) *
                 (c->a_minus != c->b_minus ? -1 : 1);
        }
      float got = sums[thread * 128 + i];
      int32_t bits;
      memcpy(&bits, &got, sizeof bits);
      if (whole ? bits != sum : got != (float)sum)
        fail_msg("%s n %d, swizzles %d %d, across %d %d: row %d, column %d is %g, expected %d", c->a->name, c->n,
                 c->a_swizzle, c->b_swizzle, c->a_across, c->b_across, row, column, whole ? (double)bits : (double)got,
                 sum);
    }
}

static void test_layouts(void **state) {
  (void)state;
  for (int a_swizzle = 0; a_swizzle < 4; a_swizzle++)
    for (int b_swizzle = 0; b_swizzle < 4; b_swizzle++)
      for (int across = 0; across < 4; across++)
        run_case(&(test_case){.a = &f16,
                              .b = &f16,
                              .n = 64,
                              .a_swizzle = a_swizzle,
                              .b_swizzle = b_swizzle,
                              .a_across = across & 1,
                              .b_across = across & 2},
                 (uint64_t)across);
}

static void test_types(void **state) {
  static const struct type *const pairs[][2] = {{&bf16, &bf16}, {&tf32, &tf32}, {&e4m3, &e4m3},
                                                {&e5m2, &e5m2}, {&e4m3, &e5m2}, {&s8, &s8},
                                                {&u8, &s8},     {&s8, &u8},     {&u8, &u8}};
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    for (int swizzle = 0; swizzle < 4; swizzle++)
      run_case(
          &(test_case){.a = pairs[i][0], .b = pairs[i][1], .n = 32, .a_swizzle = swizzle, .b_swizzle = 3 - swizzle}, i);
}

static void test_forms(void **state) {
  static const int columns[] = {8, 40, 72, 128, 136, 256};
  (void)state;
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
    test_case c = {.a = &bf16, .b = &bf16, .n = columns[i], .a_swizzle = 3, .b_swizzle = 3};
    run_case(&c, i);
    c.anew = true;
    run_case(&c, i + 100);
    c.anew = false, c.a_minus = true;
    run_case(&c, i + 200);
    c.b_minus = true, c.a_registers = true;
    run_case(&c, i + 300);
  }
  run_case(&(test_case){.a = &u8, .b = &s8, .n = 32, .b_swizzle = 3, .a_registers = true}, 1);
  run_case(&(test_case){.a = &tf32, .b = &tf32, .n = 16, .b_swizzle = 2, .a_registers = true}, 2);
  run_case(&(test_case){.a = &f16, .b = &f16, .n = 64, .b_swizzle = 3, .b_across = true, .a_registers = true}, 3);
}

// Whoever does not wait reads an old accumulator, with some seed; whoever waits never does.
static void test_lateness(void **state) {
  int late = 0;
  (void)state;
  for (uint64_t i = 0; i < 20; i++) {
    char body[1024];
    const uint64_t a = lay(0, 64, &f16, 3, false, 0, 0), b = lay(1, 8, &f16, 3, false, B_AT, 0);
    memset(sums, 0, 128 * 128 * sizeof *sums);
    sprintf(body, "wgmma.fence.sync.aligned;\n%swgmma.commit_group.sync.aligned;\n",
            instruction(&(test_case){.a = &f16, .b = &f16, .n = 8}, a, b));
    assert_true(run_body(body, 4, i));
    for (int j = 0; j < 128 * 128; j++) late += sums[j] != 0.0f;
  }
  assert_true(late < 20 * 128 * 3);
  // What is not yet committed is not waited for, nor is the latest group.
  for (int latest = 0; latest < 2; latest++) {
    int zeros = 0;
    for (uint64_t i = 0; i < 20; i++) {
      char body[1024];
      const uint64_t a = lay(0, 64, &f16, 3, false, 0, 0), b = lay(1, 8, &f16, 3, false, B_AT, 0);
      memset(sums, 0, 128 * 128 * sizeof *sums);
      sprintf(body, "wgmma.fence.sync.aligned;\n%s%swgmma.wait_group.sync.aligned %d;\n",
              instruction(&(test_case){.a = &f16, .b = &f16, .n = 8}, a, b),
              latest ? "wgmma.commit_group.sync.aligned;\n" : "", latest);
      assert_true(run_body(body, 4, i));
      for (int j = 0; j < 128; j++) zeros += sums[128 * j] == 0.0f;
    }
    assert_true(zeros > 20 * 64);
  }
}

// A product is over when all four warps have asked for it: what one of them counts before it does is seen by all behind
// their waits.
static void test_together(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 20; i++) {
    char body[2048];
    const uint64_t a = lay(0, 64, &f16, 3, false, 0, 0), b = lay(1, 8, &f16, 3, false, B_AT, 0);
    sprintf(body,
            "mov.u32 %%r2, s;\nmov.u32 %%r9, 0;\nst.shared.u32 [%%r2+%d], %%r9;\nbar.sync 0;\n"
            "atom.shared.add.u32 %%r9, [%%r2+%d], 1;\nwgmma.fence.sync.aligned;\n%swgmma.commit_group.sync.aligned;\n"
            "wgmma.wait_group.sync.aligned 0;\nld.shared.u32 %%r9, [%%r2+%d];\ncvt.rn.f32.u32 %%f0, %%r9;\n",
            IMAGE - 16, IMAGE - 16, instruction(&(test_case){.a = &f16, .b = &f16, .n = 8}, a, b), IMAGE - 16);
    if (!run_body(body, 4, i)) fail_msg("%s", em_message());
    for (int j = 0; j < 128; j++) assert_true(sums[128 * j] == 128.0f);
  }
}

static void cries(const char *body, const char *why) {
  if (run_body(body, 4, 1)) fail_msg("it ran, though it should say: %s", why);
  if (!strstr(em_message(), why)) fail_msg("\"%s\" does not say \"%s\"", em_message(), why);
}

static void test_faults(void **state) {
  static const char product[] = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, ";
  static const char rest[] = "1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  char body[2048];
  (void)state;
  sprintf(body, "%s4611686293305360448, 4611686293305360448, %s", product, rest);
  cries(body, "no wgmma.fence");
  sprintf(body, "wgmma.fence.sync.aligned;\n%s4611686293305376767, 4611686293305360448, %s", product, rest);
  cries(body, "outside of shared memory");
  sprintf(body, "wgmma.fence.sync.aligned;\n%s4611686293305360456, 4611686293305360448, %s", product, rest);
  cries(body, "swizzle's begin");
  sprintf(body, "cvt.u64.u32 %%rd7, %%r1;\nwgmma.fence.sync.aligned;\n%s%%rd7, 4611686293305360448, %s", product, rest);
  cries(body, "different descriptors");
  // Each warp another operand.
  sprintf(body,
          "shr.u32 %%r9, %%r1, 5;\nmul.lo.u32 %%r9, %%r9, 64;\ncvt.u64.u32 %%rd7, %%r9;\n"
          "add.s64 %%rd7, %%rd7, 4611686293305360448;\nwgmma.fence.sync.aligned;\n%s%%rd7, 4611686293305360448, "
          "1, 1, 1, 0, 0;\nbar.sync 0;\n%s%%rd7, 4611686293305360448, %s",
          product, product, rest);
  cries(body, "another product");
  sprintf(body, "setp.lt.u32 %%p3, %%r1, 16;\n@%%p3 wgmma.fence.sync.aligned;\n");
  cries(body, "nothing can go on");
  cries("setp.eq.u32 %p3, %r1, 3;\n@%p3 exit;\nwgmma.fence.sync.aligned;\n", "have ended");
  static const char *const unknown[] = {
      "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1}, %rd1, %rd1, 1, 1, 1, 0, 0;\n",
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;\n",
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;\n",
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1}, %rd1, %rd1, 1, 1, 1, 0, 0;\n",
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8.satfinite {%f0, %f1, %f2, %f3}, %rd1, %rd1, 1;\n",
      "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1}, {%r1}, {%f0, %f1, %f2, "
      "%f3};\n",
  };
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    if (run_body(unknown[i], 4, 1)) fail_msg("it ran: %s", unknown[i]);
}

// ---- mma.sync ----

static void run_mma(const struct type *a, const struct type *b) {
  char body[512];
  const int step = 32 / a->bytes;
  const bool whole = a->bytes == 1;
  sprintf(body,
          "ld.global.v2.u32 {%%r14, %%r15}, [%%rd5+2048];\n"
          "mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s {%%f0,%%f1,%%f2,%%f3}, {%%r10,%%r11,%%r12,%%r13}, "
          "{%%r14,%%r15}, {%%f3,%%f2,%%f1,%%f0};\n",
          step, whole ? "s32" : "f32", a->name, b->name, whole ? "s32" : "f32");
  for (int thread = 0; thread < 128; thread++) {
    const int row = thread / 32 * 16 + thread % 32 / 4;
    for (int i = 0; i < 16; i += a->bytes)
      put(matrix + thread * 16 + i, a,
          number_at(0, row + i / 4 % 2 * 8, (i / 8 * 16 + thread % 4 * 4 + i % 4) / a->bytes, a));
    for (int i = 0; i < 8; i += b->bytes)
      put(matrix + 2048 + thread * 16 + i, b,
          number_at(1, thread % 32 / 4, (i / 4 * 16 + thread % 4 * 4 + i % 4) / b->bytes, b));
    for (int i = 0; i < 4; i++) {
      const int32_t integer = (int32_t)before(thread, i);
      sums[thread * 128 + i] = before(thread, i);
      if (whole) memcpy(&sums[thread * 128 + i], &integer, 4);
    }
  }
  if (!run_body(body, 4, 1)) fail_msg("%s", em_message());
  for (int thread = 0; thread < 128; thread++)
    for (int i = 0; i < 4; i++) {
      int sum = (int)before(thread, 3 - i), got;
      for (int k = 0; k < step; k++)
        sum += number_at(0, thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8, k, a) *
               number_at(1, thread % 4 * 2 + i % 2, k, b);
      memcpy(&got, &sums[thread * 128 + i], 4);
      if (!whole) got = (int)sums[thread * 128 + i];
      assert_int_equal(got, sum);
    }
}

static void test_mma(void **state) {
  (void)state;
  run_mma(&f16, &f16);
  run_mma(&bf16, &bf16);
  run_mma(&tf32, &tf32);
  run_mma(&s8, &s8);
  run_mma(&s8, &u8);
  run_mma(&u8, &s8);
  run_mma(&u8, &u8);
  // f64: rows of A are 1 2 3 .., B the same of columns
  memset(sums, 0, 128 * 128 * sizeof *sums);
  if (!run_body("cvt.rn.f64.u32 %fd1, %r1;\nmov.f64 %fd9, 0d0000000000000000;\n"
                "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%fd2,%fd3,%fd4,%fd5}, {%fd1,%fd1,%fd1,%fd1}, "
                "{%fd1,%fd1}, {%fd1,%fd9,%fd9,%fd1};\ncvt.rn.f32.f64 %f0, %fd2;\ncvt.rn.f32.f64 %f1, %fd3;\n"
                "cvt.rn.f32.f64 %f2, %fd4;\ncvt.rn.f32.f64 %f3, %fd5;\n",
                4, 1))
    fail_msg("%s", em_message());
  for (int thread = 0; thread < 128; thread++)
    for (int i = 0; i < 4; i++) {
      const int base = thread / 32 * 32, lane = thread % 32;
      int sum = i == 0 || i == 3 ? thread : 0;
      for (int k = 0; k < 8; k++) sum += (base + lane / 4 * 4 + k % 4) * (base + (lane % 4 * 2 + i % 2) * 4 + k % 4);
      assert_int_equal((int)sums[thread * 128 + i], sum);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layouts),  cmocka_unit_test(test_types),    cmocka_unit_test(test_forms),
      cmocka_unit_test(test_lateness), cmocka_unit_test(test_together), cmocka_unit_test(test_faults),
      cmocka_unit_test(test_mma),
  };
  return cmocka_run_group_tests(tests, begin, finish);
}
