// Small kernels, written as PTX: what the reader of PTX and the scheduler of the emulated GPU do with them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "emulated.h"

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"
#define OUT(parameters) ".visible .entry k(.param .u64 out" parameters ")\n"

static uint32_t *out;  // 4096 numbers that kernels write

static int setup(void **state) {
  (void)state;
  return cudaMalloc((void **)&out, 16384) != cudaSuccess;
}
static int teardown(void **state) {
  (void)state;
  return cudaFree(out) != cudaSuccess;
}

typedef struct shape {
  uint32_t blocks, threads, cluster;
  size_t dynamic;
  bool cooperative;
  uint64_t seed;
} shape;

static em_launch launch_of(const em_function *f, shape s, void **params) {
  return (em_launch){.function = f,
                     .grid = {s.blocks, 1, 1},
                     .block = {s.threads, 1, 1},
                     .cluster = {s.cluster ? s.cluster : 1, 1, 1},
                     .dynamic_bytes = s.dynamic,
                     .cooperative = s.cooperative,
                     .seed = s.seed,
                     .params = params};
}

// Runs kernel k of the text with the parameter out, and another number.
static bool run(const char *text, shape s) {
  em_module *m = em_module_read(text, "test");
  if (!m) return false;
  const em_function *f = em_module_find(m, "k");
  uint32_t number = 7;
  void *params[] = {&out, &number};
  memset(out, 0, 16384);
  bool fine = f != NULL;
  if (fine) {
    em_launch l = launch_of(f, s, params);
    fine = em_launch_run(&l);
  }
  em_module_free(m);
  return fine;
}

#define assert_runs(text, ...)                                                    \
  do {                                                                            \
    if (!run(text, (shape){.blocks = __VA_ARGS__})) fail_msg("%s", em_message()); \
  } while (0)
#define assert_refused(said, text, ...)                                  \
  do {                                                                   \
    assert_false(run(text, (shape){.blocks = __VA_ARGS__}));             \
    if (!strstr(em_message(), said)) fail_msg("said: %s", em_message()); \
  } while (0)

// The address of out[thread] in %rd2, the thread of the grid in %r1.
#define MINE                                                                                                      \
  ".reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .pred %p<8>; .reg .f32 %f<8>; .reg .f64 %fd<4>; .reg .b16 %rs<4>;\n" \
  "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"                 \
  "mad.lo.s32 %r1, %r2, %r3, %r1; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;\n"

static void test_numbers(void **state) {
  (void)state;
  assert_runs(
      HEAD ".global .align 8 .b8 bytes[8] = {1, 0xff, 3, 4};\n.const .f32 half = 0f3F000000;\n" OUT(
          ",\n.param .u32 number // a comment\n") ".maxntid 32, 1, 1\n.minnctapersm 2\n{ /* and\n another { */" MINE
                                                  "mov.u32 %r4, -2; st.global.u32 [%rd1], %r4;\n"
                                                  "mov.u32 %r4, 0xF0; st.global.u32 [%rd1+4], %r4; mov.f32 %f1, "
                                                  "0f3F800000;\n"
                                                  "st.global.f32 [%rd1+8], %f1; mov.f64 %fd1, 0d4000000000000000; "
                                                  "cvt.rn.f32.f64 %f1, %fd1;\n"
                                                  "st.global.f32 [%rd1+12], %f1; .pragma \"nounroll\";\n"
                                                  ".loc 1 2 3\nmov.u64 %rd3, bytes+1; ld.global.u8 %r4, [%rd3]; "
                                                  "st.global.u32 [%rd1+16], %r4;\n"
                                                  "ld.global.u8 %r4, [bytes+2]; st.global.u32 [%rd1+20], %r4; "
                                                  "ld.const.f32 %f1, [half];\n"
                                                  "st.global.f32 [%rd1+24], %f1; ld.param.u32 %r4, [number]; "
                                                  "st.global.u32 [%rd1+0x1c], %r4;\n"
                                                  "mov.b32 {%rs1, %rs2}, 0x00020001; cvt.u32.u16 %r4, %rs2; "
                                                  "st.global.u32 [%rd1+32], %r4;\n"
                                                  "mov.u64 %rd4, number; ld.param.u32 %r4, [%rd4+0]; st.global.u32 "
                                                  "[%rd1+36], %r4;\n"
                                                  "add.s64 %rd4, %rd1, 48; mov.u32 %r4, 5; st.global.u32 [%rd4+-8], "
                                                  "%r4; st.global.u32 [%rd4-4], 6;\n"
                                                  "ret; }\n",
      1, 1);
  const float *f = (const float *)out;
  assert_int_equal(out[0], UINT32_MAX - 1);
  assert_int_equal(out[1], 0xf0);
  assert_true(f[2] == 1 && f[3] == 2 && f[6] == 0.5f);
  assert_int_equal(out[4], 0xff);
  assert_int_equal(out[5], 3);
  assert_int_equal(out[7], 7);
  assert_int_equal(out[8], 2);
  assert_int_equal(out[9], 7);
  assert_int_equal(out[10], 5);
  assert_int_equal(out[11], 6);
}

// Lanes go round as often as their number, and those that are three's multiples leave early.
static void test_loops(void **state) {
  (void)state;
  assert_runs(
      HEAD OUT(
          "") "{" MINE
              "mov.u32 %r4, 0; mov.u32 %r5, 0; rem.u32 %r6, %r1, 3; setp.eq.u32 %p1, %r6, 0;\n"
              "setp.gt.u32 %p4, %r1, 200; @%p4 exit;\n"
              "$top: setp.ge.u32 %p2, %r4, %r1; @%p2 bra $end; setp.eq.s32 %p3, %r4, 5;\n"
              "and.pred %p3, %p1, %p3; @%p3 bra $out; add.u32 %r5, %r5, %r4; add.u32 %r4, %r4, 1; bra.uni $top;\n"
              "$out: add.u32 %r5, %r5, 1000;\n"
              "$end: mov.u32 %r7, %clock; st.global.u32 [%rd2], %r5; @!%p1 ret; st.global.u32 [%rd2+1024], %r7; }\n",
      2, 128);
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t due = i > 200 ? 0 : i % 3 == 0 && i > 5 ? 1010 : i * (i - 1) / 2;
    assert_int_equal(out[i], due);
    if (i % 3 || i > 200) {
      assert_int_equal(out[256 + i], 0);
    } else {
      assert_int_equal(out[256 + i], out[256 + i / 32 * 32 + (3 - i / 32 * 32 % 3) % 3]);  // they have met again
    }
  }
}

#define FUNCTION                                                                                                      \
  ".func (.param .b32 back) sum(.param .b32 n, .param .align 8 .b8 pair[16]);\n"                                      \
  ".func (.param .b32 back) sum(.param .b32 n, .param .align 8 .b8 pair[16]) {\n"                                     \
  ".local .align 8 .b8 depot[8]; .reg .b64 %SP, %x; .reg .b32 %r<6>; .reg .pred %p; mov.u64 %SP, depot;\n"            \
  "ld.param.b32 %r1, [n]; ld.param.b64 %x, [pair+8]; cvt.u32.u64 %r2, %x; st.local.u32 [%SP+4], %r2; mov.u32 %r3, "   \
  "0;\n"                                                                                                              \
  "again: setp.eq.s32 %p, %r1, 0; @%p bra done; ld.local.u32 %r4, [%SP+4]; add.s32 %r3, %r3, %r4; sub.s32 %r1, %r1, " \
  "1;\n"                                                                                                              \
  "bra again; done: st.param.b32 [back], %r3; ret; }\n"                                                               \
  ".func (.param .b32 back) twice(.param .b32 n) { .reg .b32 %r<4>; .reg .b64 %rd;\n"                                 \
  "ld.param.b32 %r1, [n]; cvt.u64.u32 %rd, %r1;\n"                                                                    \
  "{ .param .b32 param0; st.param.b32 [param0+0], 2; .param .align 8 .b8 param1[16]; st.param.b64 [param1+8], %rd;\n" \
  ".param .b32 retval0; call.uni (retval0), sum, (param0, param1); ld.param.b32 %r2, [retval0+0]; }\n"                \
  "st.param.b32 [back], %r2; ret; }\n"
#define CALL(to, n, by)                                                             \
  "{ .reg .b32 temp; .param .b32 param0; st.param.b32 [param0], " n                 \
  "; .param .align 8 .b8 param1[16];\n"                                             \
  "st.param.b64 [param1+8], " by                                                    \
  "; .param .b32 retval0; call.uni\n (retval0),\n sum,\n (\nparam0,\n param1\n);\n" \
  "ld.param.b32 " to ", [retval0];\n } // callseq 0, 0\n"

static void test_calls(void **state) {
  (void)state;
  assert_runs(HEAD FUNCTION OUT("") "{" MINE
              "cvt.u64.u32 %rd3, %r1; and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 1; @%p1 bra odd;\n" CALL("%r5", "%r1", "%rd3")
              "bra.uni store; odd: " CALL("%r5", "3", "%rd3") "store:\n"
              "{ .param .b32 param0; st.param.b32 [param0], %r5; .param .b32 retval0; call.uni (retval0), twice, (param0);\n"
              "ld.param.b32 %r5, [retval0]; } st.global.u32 [%rd2], %r5; }\n",
              1, 64);
  for (uint32_t i = 0; i < 64; i++) assert_int_equal(out[i], 2 * (i % 2 ? 3 * i : i * i));
}

// Lanes that are in a function at once, called from two places, each wait for the other's; and what a caller keeps
// (local variables, shared ones) is not what the function has.
static void test_calls_apart(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 8; seed++) {
    assert_runs(HEAD ".shared .align 4 .u32 common;\n"
                ".func (.param .b32 back) meet(.param .b64 mine, .param .b64 theirs, .param .b32 value) {\n"
                ".local .align 4 .b8 keep[256]; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p; ld.param.b64 %rd1, [mine];\n"
                "ld.param.b64 %rd2, [theirs]; ld.param.b32 %r2, [value]; st.local.b32 [keep+252], %r2; st.local.b32 [keep], %r2; st.shared.u32 [common], %r2;\n"
                "atom.global.add.u32 %r1, [%rd1], 1; look: ld.volatile.global.u32 %r3, [%rd2]; setp.lt.u32 %p, %r3, 16;\n"
                "@%p bra look; ld.local.b32 %r4, [keep+252]; st.param.b32 [back], %r4; ret; }\n" OUT("") "{\n"
                ".local .align 4 .b8 own[4]; .shared .align 4 .b8 word[128];" MINE
                "shl.b32 %r4, %r1, 2; mov.u32 %r5, word; add.s32 %r5, %r5, %r4; add.s32 %r4, %r1, 1000; st.shared.u32 [%r5], %r4;\n"
                "st.local.u32 [own], %r4; and.b32 %r6, %r1, 1; setp.eq.s32 %p1, %r6, 1; add.s64 %rd3, %rd1, 1024;\n"
                "add.s64 %rd4, %rd1, 1028; @%p1 bra odd;\n"
                "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b32 d; st.param.b64 [a], %rd3; st.param.b64 [b], %rd4;\n"
                "st.param.b32 [c], %r1; call.uni (d), meet, (a, b, c); ld.param.b32 %r7, [d]; add.s32 %r7, %r7, 100; }\n"
                "bra both; odd:\n"
                "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b32 d; st.param.b64 [a], %rd4; st.param.b64 [b], %rd3;\n"
                "st.param.b32 [c], %r1; call.uni (d), meet, (a, b, c); ld.param.b32 %r7, [d]; add.s32 %r7, %r7, 200; }\n"
                "both: ld.local.u32 %r8, [own]; ld.shared.u32 %r9, [%r5]; mad.lo.s32 %r7, %r8, 1000, %r7; st.global.u32 [%rd2], %r7;\n"
                "st.global.u32 [%rd2+2048], %r9; ret; }\n",
                1, 32, .seed = seed);
    for (uint32_t i = 0; i < 32; i++) {
      assert_int_equal(out[i], (1000 + i) * 1000 + i + (i % 2 ? 200 : 100));
      assert_int_equal(out[512 + i], 1000 + i);
    }
  }
}

// A register that a loop reads only where it begins lives until the loop ends; one that is written for some lanes alone
// lives on for the others.
static void test_lives(void **state) {
  (void)state;
  assert_runs(
      HEAD OUT(
          "") "{ .reg .b32 %a<20>;" MINE
              "mov.u32 %a0, 5; mov.u32 %a1, 0; mov.u32 %a2, 0; mov.u32 %a8, 7; setp.lt.u32 %p2, %r1, 8;\n"
              "top: add.s32 %a1, %a1, %a0; setp.eq.s32 %p3, %a2, 0; and.pred %p3, %p3, %p2; @%p3 mov.u32 %a8, %r1;\n"
              "mad.lo.s32 %a1, %a8, 1000, %a1; mov.u32 %a3, %a2; mov.u32 %a4, %a3; mov.u32 %a5, %a3; mov.u32 %a6, "
              "%a3;\n"
              "mov.u32 %a7, %a3; mov.u32 %a9, %a3; mov.u32 %a10, %a3; add.s32 %a11, %a3, %a4; add.s32 %a11, %a11, "
              "%a5;\n"
              "add.s32 %a11, %a11, %a6; add.s32 %a11, %a11, %a7; add.s32 %a11, %a11, %a9; add.s32 %a11, %a11, %a10;\n"
              "div.s32 %a11, %a11, 7; add.s32 %a2, %a11, 1; setp.lt.s32 %p1, %a2, 4; @%p1 bra top;\n"
              "st.global.u32 [%rd2], %a1; ret; }\n",
      1, 32);
  for (uint32_t i = 0; i < 32; i++) assert_int_equal(out[i], 20 + 4000 * (i < 8 ? i : 7));
}

// As inline assembly has it: names and labels of their own.
static void test_scopes(void **state) {
  (void)state;
#define ROUND(n)                                                                                            \
  "{ .reg .pred done; .reg .b32 %r1; mov.u32 %r1, 0; again: add.s32 %r1, %r1, 1; setp.eq.s32 done, %r1, " n \
  "; @done bra go; bra again; go: add.s32 %r4, %r4, %r1; }\n"
  assert_runs(HEAD OUT("") "{" MINE "mov.u32 %r4, 0;" ROUND("3") ROUND("4") "st.global.u32 [%rd2], %r4; ret; }\n", 1,
              32);
  assert_int_equal(out[31], 7);
  assert_refused("%in is not known", HEAD OUT("") "{" MINE "{ .reg .b32 %in; } mov.u32 %r4, %in; }\n", 1, 32);
  assert_refused("there is no label again", HEAD OUT("") "{" MINE ROUND("3") "bra again; }\n", 1, 32);
}

static void test_shared(void **state) {
  (void)state;
  assert_runs(HEAD ".extern .shared .align 128 .b8 memory[];\n.shared .align 4 .u32 common;\n"
              ".func put(.param .b32 n) { .reg .b32 %r; ld.param.b32 %r, [n]; st.shared.u32 [common], %r; "
              "st.shared.u32 [memory+4], %r; }\n" OUT("") ".reqnctapercluster 2, 1, 1\n.explicitcluster\n"
              "{ .shared .align 64 .b8 own[256];" MINE
              "mov.u32 %r4, own; and.b32 %r5, %r4, 63; setp.ne.s32 %p1, %r5, 0; @%p1 trap; mov.u32 %r5, memory;\n"
              "and.b32 %r6, %r5, 127; setp.ne.s32 %p1, %r6, 0; @%p1 trap; setp.eq.u32 %p1, %r4, %r5; @%p1 trap;\n"
              "mov.u32 %r6, %tid.x; shl.b32 %r7, %r6, 2; add.s32 %r8, %r4, %r7; st.shared.u32 [%r8], %r6;\n"
              "mov.u32 %r11, %cluster_ctarank; setp.ne.s32 %p2, %r6, 5; @%p2 bra past;\n"
              "{ .param .b32 param0; st.param.b32 [param0], %r11; call.uni put, (param0); }\n"
              "past: bar.sync 0; sub.s32 %r9, 63, %r6; shl.b32 %r9, %r9, 2; add.s32 %r9, %r9, %r4;\n"
              "ld.shared.u32 %r10, [%r9]; ld.shared.u32 %r12, [common]; ld.shared.u32 %r13, [%r5+4];\n"
              "mad.lo.s32 %r10, %r12, 100, %r10; mad.lo.s32 %r10, %r13, 1000, %r10; mov.u32 %r14, %dynamic_smem_size;\n"
              "mad.lo.s32 %r10, %r14, 10000, %r10; st.global.u32 [%rd2], %r10; ret; }\n",
              4, 64, .dynamic = 8);
  for (uint32_t i = 0; i < 256; i++) assert_int_equal(out[i], 80000 + 63 - i % 64 + i / 64 % 2 * 1100);
}

// The first block waits for the last one; and lanes for each other, which hardware lets go on, too.
static void test_spinning(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 20; seed++) {
    assert_runs(HEAD OUT("") "{" MINE
                             "setp.ne.s32 %p1, %r2, 0; @%p1 bra tell; wait: ld.volatile.global.u32 %r4, [%rd1+8192];\n"
                             "setp.ne.s32 %p2, %r4, 96; @%p2 bra wait; st.global.u32 [%rd2], 1; ret;\n"
                             "tell: and.b32 %r5, %r1, 1; setp.eq.s32 %p3, %r5, 1; @%p3 bra set;\n"
                             "look: atom.global.add.u32 %r6, [%rd2+4100], 0; setp.eq.s32 %p4, %r6, 0; @%p4 bra look; "
                             "bra.uni count;\n"
                             "set: st.global.u32 [%rd2+4096], 1; count: atom.global.add.u32 %r7, [%rd1+8192], 1;\n"
                             "st.global.u32 [%rd2], 2; ret; }\n",
                4, 32, .seed = seed);
    for (uint32_t i = 0; i < 128; i++) assert_int_equal(out[i], i < 32 ? 1 : 2);
  }
}

static void test_side_by_side(void **state) {
  (void)state;
  em_module *m =
      em_module_read(HEAD OUT("") "{" MINE
                                  "wait: ld.volatile.global.u32 %r4, [%rd1+8192];\n"
                                  "setp.eq.s32 %p2, %r4, 0; @%p2 bra wait; st.global.u32 [%rd2], %r4; ret; }\n"
                                  ".entry tell(.param .u64 out) {" MINE "st.global.u32 [%rd1+8192], 9; ret; }\n",
                     "test");
  const em_function *f = m ? em_module_find(m, "k") : NULL, *tell = m ? em_module_find(m, "tell") : NULL;
  assert_non_null(f);
  assert_non_null(tell);
  void *params[] = {&out};
  memset(out, 0, 16384);
  em_launch first = launch_of(f, (shape){.blocks = 2, 64}, params),
            second = launch_of(tell, (shape){.blocks = 1, 1}, params);
  em_grid *a = em_launch_begin(&first), *b = em_launch_begin(&second);
  assert_true(em_run_one() == b && b->ended && !a->ended);
  assert_true(em_run_one() == a && a->ended);
  em_grid_free(a), em_grid_free(b);
  for (uint32_t i = 0; i < 128; i++) assert_int_equal(out[i], 9);
  em_module_free(m);
}

static void test_clock(void **state) {
  (void)state;
  assert_runs(
      HEAD OUT("") "{" MINE
                   "mov.u64 %rd3, %clock64; more: mov.u64 %rd4, %clock64; sub.s64 %rd5, %rd4, %rd3;\n"
                   "setp.lt.s64 %p1, %rd5, 5000; @%p1 bra more; cvt.u32.u64 %r4, %rd5; st.global.u32 [%rd2], %r4; }\n",
      1, 32);
  assert_in_range(out[0], 5000, 5100);
}

// A wait that cannot end is named; a lane that is not there, too.
static void test_deadlock(void **state) {
  (void)state;
  assert_refused("nothing can go on: block (1, 0, 0) warp 0 lanes 0xffffffff: bar.sync 0, 64;",
                 HEAD OUT("") "{" MINE
                              "setp.eq.s32 %p1, %r2, 0; @%p1 ret; mov.u32 %r4, %tid.x; setp.gt.s32 %p1, %r4, 31;\n"
                              "@%p1 ret; bar.sync 0, 64; ret; }\n",
                 2, 64);
  assert_refused("lanes 0xfffffff0: bar.warp.sync 0xffffffff;",
                 HEAD OUT("") "{" MINE
                              "setp.lt.s32 %p1, %r1, 4; @%p1 bra other; bar.warp.sync 0xffffffff; ret;\n"
                              "other: bar.sync 0; ret; }\n",
                 1, 32);
}

// So is one that asks again and again.
static void test_for_ever(void **state) {
  (void)state;
  assert_refused(
      "waits for ever: block (0, 0, 0) warp 0 lanes 0x1:",
      HEAD OUT("") "{" MINE
                   "wait: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.s32 %p1, %r4, 0; @%p1 bra wait; ret; }\n",
      1, 1);
}

static void test_faults(void **state) {
  (void)state;
  assert_refused("k: block (1, 0, 0) warp 1 lane 8: @%p1 trap: the kernel gives up",
                 HEAD OUT("") "{" MINE "setp.eq.s32 %p1, %r1, 104; @%p1 trap; ret; }\n", 2, 64);
  assert_refused("st.global.u32 [%rd1+16384], %r1", HEAD OUT("") "{" MINE "st.global.u32 [%rd1+16384], %r1; ret; }\n",
                 1, 1);
  const char *fine = HEAD ".extern .shared .align 16 .b8 memory[];\n" OUT("") ".maxntid 64, 1, 1 {" MINE
                                                                              "mov.u32 %r4, memory; ret; }\n";
  assert_runs(fine, 1, 64, .dynamic = EM_BLOCK_SHARED);
  assert_refused("more shared memory", fine, 1, 64, .dynamic = EM_BLOCK_SHARED + 16);
  assert_refused("more threads", fine, 1, 65);
  assert_refused("whole clusters", fine, 3, 32, .cluster = 2);
  assert_refused("a launch of nothing", fine, 0, 32);
  assert_runs(fine, EM_SMS, 64, .dynamic = EM_BLOCK_SHARED, .cooperative = true);
  assert_refused("cooperative", fine, EM_SMS + 1, 64, .dynamic = EM_BLOCK_SHARED, .cooperative = true);
}

// What is not known is not guessed.
static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *said, *body;
  } of[] = {
      {"line 12: frobnicate.s32 is not known", "\nfrobnicate.s32 %r4, %r1;"},
      {"add", "add.s32.sideways %r4, %r1, %r1;"},
      {"%r99 is not known", "mov.u32 %r4, %r99;"},
      {"%frob is not known", "mov.u32 %r4, %frob;"},
      {"there is no label away", "bra away;"},
      {"; was due", "mov.u32 %r4, %r1 mov.u32 %r4, %r1;"},
      {"there is no function f", "call.uni f, (param0);"},
      {"has no body", "{ .param .b32 p; st.param.b32 [p], 1; call.uni away, (p); }"},
      {"otherwise than its function takes it", "{ .param .b64 p; st.param.b64 [p], 1; call.uni self, (p); }"},
      {"self calls itself", "{ .param .b32 p; st.param.b32 [p], 1; call.uni self, (p); }"},
      {"another width", "mov.f32 %f1, 0d4000000000000000;"},
      {"] was due", "ld.global.u32 %r4, [%rd1;"},
      {".frob", ".frob 3;"},
      {"a guard", "@%r1 bra away;"},
      {"! of what is no predicate", "mov.u32 %r4, !%r1;"},
      {"as param memory", "ld.param.u32 %r4, [k2];"},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[4000];
    snprintf(text, sizeof text, "%s%s{ %s%s ret; }\n",
             HEAD
             ".extern .func away(.param .b32 n);\n"
             ".func self(.param .b32 n) { .param .b32 p; call.uni self, (p); ret; }\n.global .b32 k2;\n",
             OUT(""), MINE, of[i].body);
    assert_false(run(text, (shape){.blocks = 1, 32}));
    if (!strstr(em_message(), of[i].said)) fail_msg("%s: said: %s", of[i].body, em_message());
  }
  assert_refused("there is no function k", HEAD ".entry other() { ret; }\n", 1, 1);
  assert_refused(".frob", HEAD ".frob\n", 1, 1);
  assert_refused("a body without an end", HEAD ".entry k() { ret; \n", 1, 1);
}

// Registers share places where their lives allow it, and nobody notices: sums of what is written long before.
static void test_places(void **state) {
  (void)state;
  enum { MANY = 400 };
  char *text = malloc(200000), *at = text;
  at += sprintf(at, "%s%s{ .reg .b32 %%a<%d>; .reg .b64 %%d<%d>; %s mov.u32 %%r4, 0;\n", HEAD, OUT(""), 2 * MANY, MANY,
                MINE);
  for (int i = 0; i < MANY; i++) {
    at += sprintf(at, "add.s32 %%a%d, %%r1, %d; cvt.u64.u32 %%d%d, %%a%d;\n", i, i, i, i);
    if (i >= 10)
      at += sprintf(at, "cvt.u32.u64 %%a%d, %%d%d; add.s32 %%r4, %%r4, %%a%d;\n", MANY + i, i - 10, MANY + i);
  }
  sprintf(at, "st.global.u32 [%%rd2], %%r4; ret; }\n");
  assert_runs(text, 1, 64);
  for (uint32_t i = 0; i < 64; i++) assert_int_equal(out[i], (MANY - 10) * i + (MANY - 10) * (MANY - 11) / 2);
  em_module *m = em_module_read(text, "test");
  const em_function *f = em_module_find(m, "k");
  assert_true(f && f->file_bytes - f->constants_bytes < 40 * 256);
  em_module_free(m);
  free(text);
}

// What wgmma writes is written late: nobody else has its place, though nothing reads it.
static void test_late_places(void **state) {
  (void)state;
  em_module *m = em_module_read(HEAD OUT("") "{ .reg .f32 %a<4>, %b<9>; .reg .b64 %rd<3>; .reg .pred %p;\n"
                                "mov.u64 %rd1, 0; mov.u64 %rd2, 0; setp.eq.s64 %p, %rd1, 0;\n"
                                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%a0, %a1, %a2, %a3}, %rd1, %rd2, %p, 1, 1, 0, 0;\n"
                                "mov.f32 %b0, 0f00000000; mov.f32 %b1, %b0; mov.f32 %b2, %b1; mov.f32 %b3, %b2; mov.f32 %b4, %b3;\n"
                                "wgmma.wait_group.sync.aligned 0; ret; }\n", "test");
  const em_function *f = em_module_find(m, "k");
  if (!f) fail_msg("%s", em_message());
  const em_operand *late = f->code[3].operand[0].items;
  assert_int_equal(f->code[3].operand[0].count, 4);
  for (int i = 4; i < 9; i++) {
    for (int k = 0; k < 4; k++) assert_int_not_equal(f->code[i].operand[0].at, late[k].at);
  }
  assert_int_equal(f->code[4].operand[0].at, f->code[6].operand[0].at);  // others have the same places in turn
  em_module_free(m);
}

// Blocks go where there is room, the emptiest multiprocessor first.
static void test_multiprocessors(void **state) {
  (void)state;
  const char *text = HEAD ".extern .shared .align 16 .b8 memory[];\n" OUT(
      "") "{" MINE
          "mov.u32 %r4, memory; mov.u32 %r5, %smid; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd3, %rd1, %rd3;\n"
          "setp.ne.s32 %p1, %r1, 0; add.s32 %r6, %r5, 1; st.global.u32 [%rd2+8192], %r6;\n"
          "atom.global.add.u32 %r4, [%rd3], 1; ret; }\n";
  assert_runs(text, EM_SMS, 1, .dynamic = EM_BLOCK_SHARED, .cooperative = true);
  for (int i = 0; i < EM_SMS; i++) assert_int_equal(out[i], 1);
  assert_runs(text, EM_SMS, 1, .cooperative = true);
  for (int i = 0; i < EM_SMS; i++) assert_int_equal(out[i], 1);
  assert_runs(text, 3 * EM_SMS, 1, .dynamic = EM_SM_SHARED / 3 - 1024, .cooperative = true);
  for (int i = 0; i < EM_SMS; i++) assert_int_equal(out[i], 3);
  assert_runs(text, 100, 1, .dynamic = EM_BLOCK_SHARED);
  uint32_t all = 0;
  for (int i = 0; i < EM_SMS; i++) all += out[i];
  assert_int_equal(all, 100);
  em_module *m = em_module_read(text, "test");
  const em_function *f = em_module_find(m, "k");
  assert_non_null(f);
  static const struct {
    shape of;
    int due;
  } fits[] = {{{.blocks = 1, 1024}, 2 * EM_SMS},
              {{.blocks = 1, 32}, 32 * EM_SMS},
              {{.blocks = 1, 33}, 32 * EM_SMS},
              {{.blocks = 1, 96}, 21 * EM_SMS},
              {{.blocks = 1, 32, .dynamic = EM_BLOCK_SHARED}, EM_SMS},
              {{.blocks = 1, 32, .dynamic = EM_BLOCK_SHARED / 2 - 512}, 2 * EM_SMS},
              {{.blocks = 1, 32, .dynamic = EM_BLOCK_SHARED / 2 - 496}, EM_SMS},
              {{.blocks = 16, 32, .cluster = 16, .dynamic = EM_BLOCK_SHARED}, 1},
              {{.blocks = 12, 32, .cluster = 12, .dynamic = EM_BLOCK_SHARED}, 1},
              {{.blocks = 2, 1024, .cluster = 2}, EM_SMS},
              {{.blocks = 17, 32, .cluster = 17}, 0}};
  for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
    em_launch l = launch_of(f, fits[i].of, NULL);
    assert_int_equal(em_clusters_at_once(&l), fits[i].due);
  }
  em_module_free(m);
}

// A launch that may begin early waits for the one before, where it says so; and is let in as all blocks say so.
static void test_early(void **state) {
  (void)state;
  em_module *m = em_module_read(
      HEAD OUT("") "{" MINE
                   "griddepcontrol.launch_dependents; mov.u32 %r4, 0;\n"
                   "more: ld.volatile.global.u32 %r5, [%rd1+8192]; add.s32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 1000;\n"
                   "@%p1 bra more; st.global.u32 [%rd2], 5; ret; }\n"
                   ".entry after(.param .u64 out) {" MINE
                   "ld.global.u32 %r6, [%rd2]; griddepcontrol.wait;\n"
                   "ld.global.u32 %r5, [%rd2]; mad.lo.s32 %r5, %r6, 10, %r5; st.global.u32 [%rd2+4096], %r5; ret; }\n",
      "test");
  const em_function *f = em_module_find(m, "k"), *after = em_module_find(m, "after");
  assert_true(f && after);
  void *params[] = {&out};
  memset(out, 0, 16384);
  em_launch l = launch_of(f, (shape){.blocks = 2, 32}, params);
  em_grid *first = em_launch_begin(&l);
  assert_true(em_run_one() == first && first->released && !first->ended);
  l = launch_of(after, (shape){.blocks = 2, 32}, params);
  l.before = first;
  em_grid *second = em_launch_begin(&l);
  while (!second->ended) assert_non_null(em_run_one());
  assert_true(first->ended);
  for (int i = 0; i < 64; i++) assert_int_equal(out[1024 + i], 5);
  em_grid_free(first), em_grid_free(second);
  em_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),     cmocka_unit_test(test_loops),           cmocka_unit_test(test_calls),
      cmocka_unit_test(test_scopes),      cmocka_unit_test(test_shared),          cmocka_unit_test(test_spinning),
      cmocka_unit_test(test_clock),       cmocka_unit_test(test_side_by_side),    cmocka_unit_test(test_deadlock),
      cmocka_unit_test(test_for_ever),    cmocka_unit_test(test_faults),          cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_places),      cmocka_unit_test(test_calls_apart),     cmocka_unit_test(test_lives),
      cmocka_unit_test(test_late_places), cmocka_unit_test(test_multiprocessors), cmocka_unit_test(test_early),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
