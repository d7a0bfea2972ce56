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
#include "cuda/kernel.h"
#include "cuda/linear.h"

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
  for (int major = 7; major < 12; major++)
    for (int type = 0; type < 2; type++)
      for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
          const double k = (double)depths[i], n = (double)counts[j];
          const rdt_tolerance t = {.acc = rdt_accumulator_mma(major, 0, type ? RDT_BF16 : RDT_F16),
                                   .k = depths[i],
                                   .u_check = 0x1p-53,
                                   .u_beta = 0x1p-22,
                                   .lambda = 6.0};
          const rdt_device_bound b = rdt_device_bound_of(&t, counts[j]);
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
  const rdt_accumulator unknown = rdt_accumulator_mma(7, 0, RDT_F16), hopper = rdt_accumulator_mma(9, 0, RDT_F16);
  assert_true(rdt_gamma(&unknown, 4096) > rdt_gamma(&hopper, 4096));
  assert_true(rdt_gamma(&unknown, 4096) ==
              rdt_gamma(&(rdt_accumulator){RDT_ROUND_TRUNCATE, 0x1p-24, 0, 4, 23, 23, 0}, 4096));
}

/* The bound of the passes around a library's results, over its parts, once more. */
static double box_tau2(const rdt_box_bound *b, double s, double e, double c2, double q) {
  const double size = b->cap * q, most = fmin(c2, size), over = fmin(1.0, b->theta * most / q);
  const double v = b->c2 * most + over * b->drift * most + b->q * q + b->s2 * s * s + b->e2 * e * e + b->rest;
  return fmin(b->q0 * sqrt(q) + b->least, b->line * fabs(s) + b->lambda * sqrt(v) + b->least);
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
               {rdt_accumulator_mma(8, 0, RDT_BF16), 0x1p-24, 0x1p-8, 0x1p-133}};
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
      const rdt_box_bound b = rdt_box_bound_of(&t, counts[j % 4]);
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
        assert_true(b.q0 * sqrt(q) + b.least >= host.tau0);
      }
    }
  const rdt_tolerance exact = {.acc = rdt_accumulator_of(RDT_S8, RDT_S32), .k = 8, .lambda = 6.0};
  assert_true(rdt_box_bound_of(&exact, 8).q0 == 0.0);
}

#ifdef RDT_TEST_CUDA

static rdt_status ask_linear(const rdt_problem *p, const char *scheme, char *text, size_t size) {
  rdt_reason why = {""};
  const rdt_status s = rdt_cuda_linear_accept(NULL, p, scheme, &why);
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
  REFUSED("fic", "no check fic");
  REFUSED("thread1", "f16 by f16");
  p.in[1].dtype = RDT_F16;
  REFUSED("row", "f32 by f16");
  p.out.dtype = RDT_F16;
  REFUSED("row", "are f32, not f16");
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

static void test_table(void **state) {
  (void)state;
  int n, injecting = 0;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    const rdt_cuda_kernel *k = &table[i];
    const rdt_cuda_tile *t = k->tile;
    assert_non_null(*k->code);
    assert_ptr_equal(rdt_cuda_kernel_find(k->name), k); /* names are unique */
    assert_non_null(strstr(k->name, t->name));
    assert_non_null(strstr(k->name, k->scheme));
    assert_true(t->threads >= 32 && t->threads <= 1024 && t->shared <= 227 * 1024);
    assert_int_equal(t->k % (16 * t->warps_k), 0);
    injecting += rdt_cuda_kernel_inject(k) != NULL;
  }
  assert_int_equal(injecting, 4); /* of one tile, each check */
  assert_null(rdt_cuda_kernel_find("gemm_f16_mma_16x32_"));
}

static rdt_status ask(rdt_problem *p, char *text, size_t size) {
  rdt_reason why = {""};
  const rdt_status s = rdt_cuda_gemm_accept(rdt_cuda_kernel_find("gemm_f16_mma_16x32_thread1"), p, &why);
  snprintf(text, size, "%s", why.text);
  return s;
}

static void test_refusals(void **state) {
  (void)state;
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){3, 5}),
                   b = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){5, 7});
  const rdt_tensor c = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 7});
#define FRESH p.in[0] = a, p.in[1] = b, p.out = c, p.acc = RDT_F32, p.epilogue = RDT_EPILOGUE_NONE
#define REFUSED(words)                                                         \
  do {                                                                         \
    assert_int_equal(ask(&p, text, sizeof text), RDT_ERR_UNSUPPORTED);         \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words); \
    FRESH;                                                                     \
  } while (0)
  FRESH;
  assert_int_equal(ask(&p, text, sizeof text), RDT_OK);
  p.in[1].dtype = RDT_BF16;
  REFUSED("f16 by f16, not f16 by bf16");
  p.out.dtype = RDT_F64;
  REFUSED("writes f16 or f32");
  p.in[0] = rdt_tensor_dense(NULL, RDT_F16, 3, (int64_t[]){2, 3, 5});
  REFUSED("no batches");
  p.in[1].stride[0] = 1, p.in[1].stride[1] = 5;
  REFUSED("side by side");
  p.in[0].shape[1] = 0;
  REFUSED("zero-size");
  p.epilogue.act.fn = RDT_FN_RELU;
  REFUSED("no activation");
  p.epilogue.bias = rdt_tensor_dense(NULL, RDT_F64, 1, (int64_t[]){7});
  REFUSED("bias");
  p.epilogue.residual = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){3, 7});
  REFUSED("residual");
  p.op = RDT_KOP_CONV;
  REFUSED("multiplies matrices");
  rdt_problem_clear(&p);
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
static void test_table(void **state) {
  (void)state;
  no_cuda();
}
static void test_refusals(void **state) {
  (void)state;
  no_cuda();
}
static void test_statuses(void **state) {
  (void)state;
  no_cuda();
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_absence),
                                     cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_box_bounds),
                                     cmocka_unit_test(test_linear_products),
                                     cmocka_unit_test(test_linear_convolutions),
                                     cmocka_unit_test(test_table),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_statuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
