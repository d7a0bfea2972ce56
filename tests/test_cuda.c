/* What the CUDA backend does without a GPU: it says so, its tables agree with themselves, kernels refuse with reasons,
 * and bounds that a device evaluates agree with those of the host. With a GPU: tests/gpu/check.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/tolerance.h"
#include "cuda/box/boxes.h"
#include "cuda/kernel.h"
#include "cuda/library.h"
#include "cuda/linear.h"
#include "cuda/probe.h"
#include "cuda/vote.h"
#include "cuda/wide.h"
#include "cuda/written.h"

static void test_absence(void **state) {
  (void)state;
  rdt_reason why = {""};
  rdt_cuda_device d;
  const int count = rdt_cuda_count(&why);
  if (count == 0) assert_non_null(strstr(why.text, rdt_cuda_built() ? "no GPU" : "without CUDA"));
  assert_int_equal(rdt_cuda_open(count, &d, &why), RDT_ERR_NAME);
  assert_true(*why.text);
  assert_int_equal(rdt_cuda_open(-1, &d, &why), RDT_ERR_NAME);
  int n;
  rdt_cuda_kernels(&n);
  assert_int_equal(n > 0, rdt_cuda_built());
}

/* A count without its finding is no complaint that is listed, and must not be read twice all the same. */
static void test_written(void **state) {
  (void)state;
  rdt_vote_found f = {.undecided = 0};
  assert_false(rdt_cuda_is_written(&f, sizeof f));
  f.lost[1] = 1;
  assert_true(rdt_cuda_is_written(&f, sizeof f));
  f = (rdt_vote_found){.verdict.sm[RDT_CUDA_SMS - 1] = 1};
  assert_true(rdt_cuda_is_written(&f, sizeof f) && !f.verdict.listed);
  f = (rdt_vote_found){.alike = (uint64_t)1 << 63};
  assert_true(rdt_cuda_is_written(&f, sizeof f));
}

/* The bound of a device over its parts, once more. */
static double device_tau2(const rdt_device_bound *b, double s, double e, double c2, double q, double a2) {
  const double over = b->theta / q, most = fmin(c2, b->cap * q), e2 = e * e;
  const double v = b->q * q + b->c2 * most + b->e2 * e2 + b->a2 * a2 +
                   b->drift * (fmin(1.0, over * most) * most + fmin(1.0, over * e2) * e2);
  return fmin(b->q0 * sqrt(q) + b->a0 * sqrt(a2), b->line * (fabs(s) + fabs(e)) + b->lambda * sqrt(v));
}

/* Both sides are summed on the device: its bounds are above the host's, whose check errs by nothing, and no wild
 * guesses. */
static void test_bounds(void **state) {
  (void)state;
  static const int64_t depths[] = {16, 128, 500, 4096}, counts[] = {4, 8, 32, 4096};
  for (int major = 7; major < 14; major++) /* beyond 11: f32 and f64 */
    for (int type = 0; type < 2; type++)
      for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
          const double k = (double)depths[i], n = (double)counts[j];
          const rdt_dtype plain = type ? RDT_F64 : RDT_F32;
          const bool nearest = major > 11, chained = major == 13; /* replicate1: one chain for all outputs */
          const rdt_tolerance t = {.acc = nearest ? rdt_accumulator_of(plain, plain)
                                                  : rdt_accumulator_mma(major, 0, type ? RDT_BF16 : RDT_F16),
                                   .k = depths[i],
                                   .u_check = 0x1p-53,
                                   .u_beta = nearest ? n * 0x1p-53 : 0x1p-22, /* as the host forms its sums */
                                   .depth_dot = chained ? depths[i] * counts[j] : 0,
                                   .lambda = 6.0};
          const rdt_device_bound b = rdt_device_bound_of(&t, counts[j]);
          if (chained) { /* wider than one chain an output, never narrower */
            rdt_tolerance single = t;
            single.depth_dot = 0;
            assert_true(b.q >= rdt_device_bound_of(&single, counts[j]).q);
            assert_true(b.q0 >= rdt_device_bound_of(&single, counts[j]).q0);
            continue;
          }
          for (int mean = 0; mean < 2; mean++) { /* data of random signs, and of one sign */
            const double a2 = k, q = k * n, c = mean ? 0.64 * k : sqrt(k), s = sqrt(n) * c, c2 = n * c * c;
            const double ag = 0.64 * k * n, tau2 = device_tau2(&b, s, s, c2, q, a2);
            const rdt_terms m = {.n = counts[j],
                                 .abs_c = n * c * 0.8,
                                 .c2 = c2,
                                 .s = s,
                                 .ag = ag,
                                 .q = q,
                                 .dot = s,
                                 .a_beta = ag,
                                 .q_beta = q,
                                 .m2 = NAN,
                                 .sbar = NAN};
            const rdt_bound host = rdt_bound_of(&t, &m);
            assert_true(tau2 >= 0.5 * host.tau2 && tau2 <= 50.0 * host.tau2);
            assert_true(b.surely * q <= tau2 * tau2 * 1.0001);
            assert_true(b.q0 * sqrt(q) >= host.tau0);
          }
        }
  const rdt_tolerance whole = {.acc = rdt_accumulator_of(RDT_S8, RDT_S32), .k = 100, .lambda = 6.0};
  assert_true(rdt_device_bound_of(&whole, 8).q0 == 0.0); /* integers: equal or not */
  const rdt_accumulator unknown = rdt_accumulator_mma(7, 0, RDT_F16), hopper = rdt_accumulator_mma(9, 0, RDT_F16);
  assert_true(rdt_gamma(&unknown, 4096) > rdt_gamma(&hopper, 4096));
  assert_true(rdt_gamma(&unknown, 4096) ==
              rdt_gamma(&(rdt_accumulator){RDT_ROUND_TRUNCATE, 0x1p-24, 0, 4, 23, 23, 0}, 4096));
}

/* The bound of the passes around a library's results, over its parts, once more. */
static double box_tau2(const rdt_box_bound *b, double s, double e, double c2, double q) {
  const double size = b->cap * q, most = b->added > 0.0 ? c2 : fmin(c2, size), over = fmin(1.0, b->theta * most / q);
  const double v = b->c2 * most + over * b->drift * most + b->q * q + b->s2 * s * s + b->e2 * e * e + b->rest;
  const double tau0 = b->q0 * sqrt(q) + b->added * sqrt(c2) + b->least;
  return fmin(tau0, b->line * fabs(s) + b->lambda * sqrt(v) + b->least);
}

/* Never below the bound of the terms themselves but for what theta leaves open, and no wild guess. */
static void test_box_bounds(void **state) {
  (void)state;
  static const int64_t depths[] = {1, 16, 500, 4096}, counts[] = {1, 64, 4096, 200000};
  const struct {
    rdt_accumulator acc;
    double u_check, u_out, eta_out;
  } cases[] = {{rdt_accumulator_of(RDT_F64, RDT_F64), 0x1p-53, 0.0, 0.0},
               {rdt_accumulator_of(RDT_F32, RDT_F32), 0x1p-53, 0.0, 0.0},
               {rdt_accumulator_mma(9, 0, RDT_F16), 0x1p-24, 0.0, 0.0},
               {rdt_accumulator_mma(9, 0, RDT_F16), 0x1p-24, 0x1p-11, 0x1p-24},
               {rdt_accumulator_mma(8, 0, RDT_BF16), 0x1p-24, 0x1p-8, 0x1p-133},
               {rdt_accumulator_mma(9, 0, RDT_F8E4M3), 0x1p-24, 0x1p-8, 0x1p-133}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int j = 0; j < 16; j++) {
      const double k = (double)depths[j / 4], n = (double)counts[j % 4];
      const rdt_tolerance t = {.acc = cases[i].acc,
                               .k = depths[j / 4],
                               .u_out = cases[i].u_out,
                               .eta_out = cases[i].eta_out,
                               .u_check = cases[i].u_check,
                               .depth_dot = 20,
                               .depth_sum = 20,
                               .u_beta = 0x1p-24,
                               .lambda = 6.0};
      const rdt_box_bound b = rdt_box_bound_of(&t, counts[j % 4], false),
                          more = rdt_box_bound_of(&t, counts[j % 4], true);
      for (int mean = 0; mean < 2; mean++) { /* data of random signs, and of one sign */
        const double q = k * n, c = mean ? 0.64 * k : sqrt(k), s = sqrt(n) * c, c2 = n * c * c;
        const rdt_terms m = {.n = counts[j % 4],
                             .abs_c = n * c * 0.8,
                             .c2 = c2,
                             .s = s,
                             .ag = 0.64 * k * n,
                             .q = q,
                             .dot = s,
                             .a_beta = 0.64 * k * n,
                             .q_beta = q,
                             .m2 = NAN,
                             .sbar = NAN};
        const rdt_bound host = rdt_bound_of(&t, &m);
        const double tau2 = box_tau2(&b, s, s, c2, q);
        assert_true(tau2 >= 0.7 * host.tau2 && tau2 <= 20.0 * host.tau2);
        assert_true(b.surely * q <= tau2 * tau2 * 1.0001);
        assert_true(b.clearly * fmin(c2, b.cap * q) <= tau2 * tau2 * 1.0001);
        /* Ten times the magnitude was added: the bound is that of what was rounded. */
        const double most = 121.0 * c2, added = box_tau2(&more, s, s, most, q);
        assert_true(added >= tau2 && more.clearly * most <= added * added * 1.0001);
        if (cases[i].u_out == 0.0) assert_true(more.added == 0.0);
        if (cases[i].u_out > 0.0) {
          assert_true(more.added * sqrt(most) >= cases[i].u_out * n * 11.0 * c); /* n roundings, as bad as can be */
          assert_true(added >= fmin(more.added * sqrt(most), 6.0 * cases[i].u_out * sqrt(most / 3.0)));
        }
        assert_true(b.q0 * sqrt(q) + b.least >= host.tau0);
      }
    }
  const rdt_tolerance exact = {.acc = rdt_accumulator_of(RDT_S8, RDT_S32), .k = 8, .lambda = 6.0};
  assert_true(rdt_box_bound_of(&exact, 8, false).q0 == 0.0);
}

#ifdef RDT_TEST_CUDA

static rdt_cuda_device device = {.major = 8};

static rdt_status ask_linear(const rdt_problem *p, const char *scheme, char *text, size_t size) {
  rdt_reason why = {""};
  const rdt_status s = rdt_cuda_linear_accept(&device, p, scheme, &why);
  snprintf(text, size, "%s", why.text);
  return s;
}

static void test_linear_products(void **state) {
  (void)state;
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 5}),
                   b = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){5, 7}),
                   c = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 7});
#define FRESH p.in[0] = a, p.in[1] = b, p.out = c, p.acc = RDT_F32, p.epilogue = RDT_EPILOGUE_NONE
#define REFUSED(scheme, words)                                                        \
  do {                                                                                \
    assert_int_equal(ask_linear(&p, scheme, text, sizeof text), RDT_ERR_UNSUPPORTED); \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words);        \
    FRESH;                                                                            \
  } while (0)
  FRESH;
  assert_int_equal(ask_linear(&p, "row", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, "none", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, NULL, text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, "thread1", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, "col", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, "row:2", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, "row:8", text, sizeof text), RDT_OK);
  REFUSED("row:9", "no check row:9");
  REFUSED("col:2", "no check col:2");
  REFUSED("fic", "no check fic");
  REFUSED("tile", "no check tile"); /* kernels on wgmma have it, which networks do not take */
  p.in[0].dtype = p.in[1].dtype = RDT_S8, p.out.dtype = RDT_S32;
  REFUSED("row:2", "s8 on the GPU have one check of a row, not row:2");
  p.in[1].dtype = RDT_F16;
  REFUSED("row", "f32 by f16");
  p.out.dtype = RDT_F16;
  REFUSED("row", "are f32, not f16");
  p.in[0].dtype = RDT_F8E4M3, p.in[1].dtype = RDT_F8E5M2, p.out.dtype = RDT_BF16;
  assert_int_equal(ask_linear(&p, "row", text, sizeof text), RDT_OK);
  p.in[0].dtype = RDT_F8E5M2;
  REFUSED("row", "f8e5m2 by f8e5m2: take f8e4m3");
  p.in[0].dtype = p.in[1].dtype = RDT_F8E4M3, p.out.dtype = RDT_F8E4M3;
  REFUSED("row", "f8e4m3 on the GPU are f32 or bf16 or f16, not f8e4m3");
  p.in[0].stride[0] = 10, p.in[0].stride[1] = 2;
  REFUSED("row", "side by side");
  p.in[0].shape[1] = p.in[1].shape[0] = 0;
  REFUSED("row", "zero-size");
  p.zero[0] = 1;
  REFUSED("row", "zero points");
  p.zero[0] = 0;
  p.epilogue.act.fn = RDT_FN_COSH;
  REFUSED("row", "no cosh");
  p.epilogue.factor = rdt_tensor_dense(NULL, RDT_F32, 1, (int64_t[]){7});
  REFUSED("row", "requantise");
  const int64_t shape[] = {2, 3, 4, 8, 8};
  for (int i = 0; i < 3; i++) { /* three dimensions of a batch that lie criss-cross */
    rdt_tensor *t = i == 0 ? &p.in[0] : i == 1 ? &p.in[1] : &p.out;
    *t = rdt_tensor_dense(NULL, RDT_F32, 5, shape);
    t->stride[0] = 100000, t->stride[1] = 64, t->stride[2] = 4096;
  }
  REFUSED("row", "two dimensions");
  p.op = RDT_KOP_MAP;
  REFUSED("row", "no linear op");
  rdt_problem_clear(&p);
#undef FRESH
#undef REFUSED
}

static void test_linear_convolutions(void **state) {
  (void)state;
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_CONV, 2), RDT_OK);
#define FRESH                                                                                    \
  p.in[0] = rdt_tensor_channels_last(NULL, RDT_F16, 4, (int64_t[]){2, 8, 9, 9}),                 \
  p.in[1] = rdt_tensor_channels_last(NULL, RDT_F16, 4, (int64_t[]){16, 8, 3, 3}),                \
  p.out = rdt_tensor_channels_last(NULL, RDT_F16, 4, (int64_t[]){2, 16, 9, 9}), p.acc = RDT_F32, \
  p.epilogue = RDT_EPILOGUE_NONE,                                                                \
  p.window = (rdt_window){                                                                       \
      .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1}
#define REFUSED(scheme, words)                                                        \
  do {                                                                                \
    assert_int_equal(ask_linear(&p, scheme, text, sizeof text), RDT_ERR_UNSUPPORTED); \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words);        \
    FRESH;                                                                            \
  } while (0)
  FRESH;
  assert_int_equal(ask_linear(&p, "fic", text, sizeof text), RDT_OK);
  assert_int_equal(ask_linear(&p, NULL, text, sizeof text), RDT_OK);
  REFUSED("row", "not row here");
  p.in[1].data = text; /* fixed */
  REFUSED("fc", "not fc here");
  device.major = 9;
  p.in[1].data = text;
  assert_int_equal(ask_linear(&p, "fc", text, sizeof text), RDT_OK);
  p.in[1].data = NULL;
  REFUSED("fc", "not fc here");
  device.major = 8;
  p.in[0].dtype = p.in[1].dtype = p.out.dtype = RDT_F64;
  REFUSED("fic", "not f64");
  p.window.before[0] = 0, p.window.after[0] = 2;
  REFUSED("fic", "alike on both sides");
  p.in[1].stride[0]++;
  REFUSED("fic", "packed filters");
  p.out.stride[2]++;
  REFUSED("fic", "without gaps");
  p.in[0].shape[0] = 0;
  REFUSED("fic", "zero-size");
  p.epilogue.residual = rdt_tensor_dense(NULL, RDT_F16, 4, (int64_t[]){2, 16, 9, 9});
  REFUSED("fic", "as the result does");
  p.in[1] = rdt_tensor_dense(NULL, RDT_F16, 4, (int64_t[]){16, 8, 1, 1});
  p.window.before[0] = p.window.before[1] = p.window.after[0] = p.window.after[1] = 0;
  p.window.kernel[0] = p.window.kernel[1] = 1;
  assert_int_equal(ask_linear(&p, "row", text, sizeof text), RDT_OK); /* a product of pixels and filters */
  rdt_problem_clear(&p);
#undef FRESH
#undef REFUSED
}

/* Tensor cores in software: steps of kb products and the accumulator, aligned to the largest and cut off at f bits. */
static float emulate(const rdt_probe_case *x, int kb, int f, bool rounds) {
  double sum = (double)x->c;
  for (int k = 0; k < RDT_PROBE_K; k += kb) {
    double terms[RDT_PROBE_K + 1] = {sum}, largest = fabs(sum), total = 0.0;
    for (int i = 0; i < kb; i++) {
      terms[i + 1] = (double)x->a[k + i] * (double)x->b[k + i];
      largest = fmax(largest, fabs(terms[i + 1]));
    }
    if (largest == 0.0) continue;
    const double unit = ldexp(1.0, ilogb(largest) - f);
    for (int i = 0; i <= kb; i++) total += trunc(terms[i] / unit) * unit;
    const double last = total == 0.0 ? 1.0 : ldexp(1.0, ilogb(total) - 23);
    sum = (rounds ? nearbyint(total / last) : trunc(total / last)) * last;
  }
  return (float)sum;
}

/* What a device is found to do is what it does; and only what is known of it is believed. */
static void test_probe(void **state) {
  (void)state;
  static const struct {
    int kb, f, major;
    bool rounds, known;
  } cores[] = {{16, 25, 9, false, true}, {8, 24, 8, false, true},  {16, 25, 8, false, false},
               {8, 24, 9, false, false}, {4, 24, 9, false, false}, {16, 27, 10, false, false},
               {16, 25, 9, true, false}, {16, 26, 9, false, false}};
  rdt_probe_case cases[RDT_PROBE_CASES];
  float results[RDT_PROBE_CASES];
  rdt_probe_make(cases);
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
    for (int j = 0; j < RDT_PROBE_CASES; j++) results[j] = emulate(&cases[j], cores[i].kb, cores[i].f, cores[i].rounds);
    const rdt_probed p = rdt_probe_read(results, cores[i].major, 0, RDT_F16);
    assert_int_equal(p.truncates, !cores[i].rounds);
    assert_int_equal(p.kb, cores[i].kb);
    assert_int_equal(p.f, cores[i].f);
    assert_int_equal(p.as_known, cores[i].known);
    const rdt_accumulator bound = rdt_probe_model(&p, cores[i].major, 0, RDT_F16),
                          believed = rdt_accumulator_mma(cores[i].major, 0, RDT_F16),
                          widest = rdt_accumulator_mma(0, 0, RDT_F16);
    assert_true(rdt_gamma(&bound, 4096) == rdt_gamma(cores[i].known ? &believed : &widest, 4096));
    assert_true(rdt_gamma(&widest, 4096) >= rdt_gamma(&believed, 4096));
    assert_true(cores[i].known == (rdt_gamma(&bound, 4096) < rdt_gamma(&widest, 4096)));
  }
}

/* Where a library does not say that it runs on tensor cores, the bound is above that of either way. */
static void test_box_accumulator(void **state) {
  (void)state;
  rdt_reason why = {""};
  rdt_accumulator unknown;
  const rdt_accumulator either[] = {rdt_accumulator_of(RDT_F16, RDT_F32), rdt_accumulator_mma(8, 0, RDT_F16),
                                    rdt_accumulator_mma(9, 0, RDT_F16)};
  assert_int_equal(rdt_box_accumulator(NULL, RDT_F16, false, &unknown, &why), RDT_OK);
  for (int i = 0; i < 3; i++)
    for (int64_t k = 1; k < 100000; k += 1 + k / 7) {
      assert_true(rdt_gamma(&unknown, k) >= rdt_gamma(&either[i], k));
      const rdt_tolerance wide = {.acc = unknown, .k = k, .u_check = 0x1p-24, .splits = 32, .lambda = 6.0};
      rdt_tolerance narrow = wide;
      narrow.acc = either[i];
      const rdt_box_bound w = rdt_box_bound_of(&wide, 64, false), n = rdt_box_bound_of(&narrow, 64, false);
      const double c2 = 64.0 * (double)k, q = c2; /* random signs: the sum of C is as large as one column's */
      assert_true(w.q0 >= n.q0);
      assert_true(box_tau2(&w, sqrt(c2), sqrt(c2), c2, q) >= box_tau2(&n, sqrt(c2), sqrt(c2), c2, q));
    }
}

static double number(uint64_t *seed) { /* of either sign, with all digits that f32 has */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(float)((*seed >> 63 ? -1.0 : 1.0) * (1.0 + (double)(*seed >> 34 & 0x1fffffff) * 0x1p-29));
}

/* Of short products each rounding counts: alpha's, and those of what was added and is taken away again. */
static void test_box_roundings(void **state) {
  (void)state;
  uint64_t seed = 3;
  int beyond = 0;
  rdt_tolerance t = {.acc = rdt_accumulator_of(RDT_F32, RDT_F32),
                     .u_check = 0x1p-53,
                     .u_beta = 0x1p-53,
                     .depth_dot = 20,
                     .depth_sum = 20,
                     .lambda = 6.0};
  for (int trial = 0; trial < 300000; trial++) {
    float sum = 0.0f;
    const float alpha = (float)number(&seed), bias = (float)(8.0 * number(&seed)), more = (float)(8.0 * number(&seed)),
                beta = (float)number(&seed);
    double exact = 0.0, q = 0.0;
    t.k = 1 + trial % 3;
    for (int i = 0; i < t.k; i++) {
      const double a = number(&seed), b = number(&seed);
      sum = fmaf((float)a, (float)b, sum);
      exact += (double)alpha * a * b, q += (double)alpha * (double)alpha * a * a * b * b;
    }
    rdt_box_rounded(&t, RDT_F32, false, false);
    const rdt_box_bound plain = rdt_box_bound_of(&t, 1, false);
    rdt_box_rounded(&t, RDT_F32, false, true);
    const rdt_box_bound scaled = rdt_box_bound_of(&t, 1, false);
    rdt_box_rounded(&t, RDT_F32, true, true);
    const rdt_box_bound added = rdt_box_bound_of(&t, 1, true);
    const float y = alpha * sum, other = beta * more, z = y + bias + other, back = z - bias - other;
    const double size = fabs((double)z) + fabs((double)bias) + fabs((double)other);
    beyond += !(fabs((double)y - exact) <= plain.q0 * sqrt(q) + plain.least);
    assert_true(fabs((double)y - exact) <= scaled.q0 * sqrt(q) + scaled.least);
    assert_true(fabs((double)back - exact) <= added.q0 * sqrt(q) + added.added * size + added.least);
  }
  assert_true(beyond > 0); /* without alpha's, clean products were faults */
}

/* Operands whose squares vanish count as something, others as what they are. */
static void test_box_squares(void **state) {
  (void)state;
  const rdt_accumulator half = rdt_accumulator_mma(9, 0, RDT_F16), brain = rdt_accumulator_mma(9, 0, RDT_BF16),
                        whole = rdt_accumulator_of(RDT_F64, RDT_F64);
  const float of_half = (float)rdt_box_least2(&half, RDT_F16), of_brain = (float)rdt_box_least2(&brain, RDT_BF16);
  const double of_whole = rdt_box_least2(&whole, RDT_F64);
  assert_true(of_half == 0x1p-28f && of_brain > 0.0f && of_whole > 0.0);
  assert_true(fmaf(0x1p-80f, 0x1p-80f, of_brain) > 0.0f && 1e-170 * 1e-170 + of_whole > 0.0);
  assert_true(fmaf(0x1p-40f, 0x1p-40f, of_brain) == 0x1p-80f && 1e-100 * 1e-100 + of_whole == 1e-100 * 1e-100);
}

/* A library that is not there, or lacks something, is told by its name and its file's, and asked for again each time.
 */
static void test_library(void **state) {
  (void)state;
  rdt_reason why = {""};
  int version;
  static const char *const nowhere[] = {"libno_such_library.so.7", NULL}, *const libm[] = {"libm.so.6", NULL};
  static void *function;
  static const rdt_library_symbol has[] = {{"cos", &function}}, lacks[] = {{"no_such_function", &function}};
  static rdt_library l = {.called = "such",
                          .names = nowhere,
                          .create = "sin",
                          .version = "tan",
                          .symbols = has,
                          .count = 1,
                          .lock = PTHREAD_MUTEX_INITIALIZER};
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(rdt_library_open(&l, &version, &why), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "such (libno_such_library.so.7) was not found"));
  }
  l.names = libm, l.symbols = lacks;
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(rdt_library_open(&l, &version, &why), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "such (libm.so.6) has no no_such_function"));
    assert_null(l.opened);
  }
  l.symbols = has, function = NULL;
  assert_int_equal(rdt_library_open(&l, NULL, &why), RDT_OK);
  assert_true(l.opened && function);
  l.symbols = lacks; /* it is open: nothing is looked for */
  assert_int_equal(rdt_library_open(&l, NULL, &why), RDT_OK);
}

static void test_statuses(void **state) {
  (void)state;
  rdt_reason why;
  assert_int_equal(rdt_cuda_status(0, "x", &why), RDT_OK);
  assert_int_equal(rdt_cuda_status(2, "x", &why), RDT_ERR_NOMEM);     /* cudaErrorMemoryAllocation */
  assert_int_equal(rdt_cuda_status(1, "x", &why), RDT_ERR_INTERNAL);  /* cudaErrorInvalidValue */
  assert_int_equal(rdt_cuda_status(719, "it", &why), RDT_ERR_DEVICE); /* cudaErrorLaunchFailure */
  assert_non_null(strstr(why.text, "lost"));
  assert_int_equal(rdt_cuda_status(214, "it", &why), RDT_ERR_DEVICE); /* cudaErrorECCUncorrectable */
  assert_non_null(strstr(why.text, "lost"));
}

#else

static void no_cuda(void) {
  print_message("skipped: built without CUDA\n");
  skip();
}
static void test_linear_products(void **state) {
  (void)state;
  no_cuda();
}
static void test_linear_convolutions(void **state) {
  (void)state;
  no_cuda();
}
static void test_box_roundings(void **state) {
  (void)state;
  no_cuda();
}
static void test_box_squares(void **state) {
  (void)state;
  no_cuda();
}
static void test_box_accumulator(void **state) {
  (void)state;
  no_cuda();
}
static void test_library(void **state) {
  (void)state;
  no_cuda();
}
static void test_statuses(void **state) {
  (void)state;
  no_cuda();
}
static void test_probe(void **state) {
  (void)state;
  no_cuda();
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_absence),         cmocka_unit_test(test_written),
                                     cmocka_unit_test(test_bounds),          cmocka_unit_test(test_box_bounds),
                                     cmocka_unit_test(test_linear_products), cmocka_unit_test(test_linear_convolutions),
                                     cmocka_unit_test(test_probe),           cmocka_unit_test(test_box_accumulator),
                                     cmocka_unit_test(test_box_roundings),   cmocka_unit_test(test_box_squares),
                                     cmocka_unit_test(test_library),         cmocka_unit_test(test_statuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
