/* A batch of products that share fixed weights is one product with more rows: its bits are those of the products one by
 * one, wherever their rows lie; every form of check rides along, is silent, and sees a fault in any of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "schemes/fused_check.h"
#include "util_problem.h"

extern const rdt_kernel rdt_kernel_gemm_f32_native, rdt_kernel_gemm_f64_native, rdt_kernel_gemm_half_native,
    rdt_kernel_gemm_int8_native;

static const struct {
  const rdt_kernel *kernel;
  rdt_dtype in, out;
} kinds[] = {{&rdt_kernel_gemm_f32_native, RDT_F32, RDT_F32},   {&rdt_kernel_gemm_f64_native, RDT_F64, RDT_F64},
             {&rdt_kernel_gemm_half_native, RDT_BF16, RDT_F32}, {&rdt_kernel_gemm_half_native, RDT_F16, RDT_F16},
             {&rdt_kernel_gemm_int8_native, RDT_S8, RDT_S32},   {&rdt_kernel_gemm_int8_native, RDT_U8, RDT_S32}};
static const unsigned forms[] = {RDT_FORM_ROWS, RDT_FORM_COLUMNS, RDT_FORM_ROWS | RDT_FORM_COLUMNS, RDT_FORM_BLOCKS,
                                 RDT_FORM_PRODUCT};
/* batch of two dimensions, m, n, k */
static const int64_t shapes[][5] = {{2, 3, 7, 33, 40}, {1, 4, 1, 16, 700}, {3, 1, 50, 150, 9}, {5, 2, 20, 8, 64}};

typedef struct job {
  rdt_tensor in[2], out;
  rdt_problem p;
} job;

/* ahead: the second dimension of A's batch comes first in memory, so that its rows do not follow one another evenly */
static void make(job *j, size_t kind, const int64_t *s, bool ahead, bool transposed) {
  const int64_t a[4] = {s[0], s[1], s[2], s[4]}, b[4] = {s[0], s[1], s[4], s[3]}, c[4] = {s[0], s[1], s[2], s[3]};
  const int64_t count[2] = {s[0] * s[1] * s[2] * s[4], s[4] * s[3]};
  util_random r = {kind + 1};
  const rdt_dtype t = kinds[kind].in;
  j->in[0] = rdt_tensor_dense(malloc((size_t)count[0] * 8), t, 4, a);
  j->in[1] = rdt_tensor_dense(malloc((size_t)count[1] * 8), t, 4, b);
  for (int i = 0; i < 2; i++)
    for (int64_t e = 0; e < count[i]; e++) rdt_store(j->in[i].data, t, e, floor(util_uniform(&r) * 4));
  j->in[1].stride[0] = j->in[1].stride[1] = 0;
  if (ahead) j->in[0].stride[0] = s[2] * s[4], j->in[0].stride[1] = s[0] * s[2] * s[4];
  if (transposed) j->in[0].stride[2] = 1, j->in[0].stride[3] = s[2];
  j->out = rdt_tensor_dense(calloc((size_t)(s[0] * s[1] * s[2] * s[3]), 8), kinds[kind].out, 4, c);
  j->p = (rdt_problem){.op = RDT_KOP_GEMM,
                       .n_in = 2,
                       .in = j->in,
                       .out = j->out,
                       .acc = rdt_dtype_accumulator(t),
                       .epilogue = RDT_EPILOGUE_NONE};
}

static void drop(job *j) {
  free(j->in[0].data);
  free(j->in[1].data);
  free(j->out.data);
}

static rdt_tensor matrix(const rdt_tensor *t, int64_t i, int64_t k) {
  rdt_tensor x = {.dtype = t->dtype, .rank = 2};
  for (int d = 0; d < 2; d++) {
    x.shape[d] = t->shape[2 + d];
    x.stride[d] = t->stride[2 + d];
  }
  x.data = (char *)t->data + (i * t->stride[0] + k * t->stride[1]) * (int64_t)rdt_dtype_size(t->dtype);
  return x;
}

/* What the products are one by one. */
static void expect_products(const job *j, size_t kind) {
  rdt_reason why;
  for (int64_t i = 0; i < j->out.shape[0]; i++)
    for (int64_t k = 0; k < j->out.shape[1]; k++) {
      rdt_tensor in[2] = {matrix(&j->in[0], i, k), matrix(&j->in[1], i, k)};
      const rdt_tensor is = matrix(&j->out, i, k);
      rdt_tensor out = rdt_tensor_dense(malloc(rdt_tensor_bytes(&is)), is.dtype, 2, is.shape);
      rdt_problem p = j->p;
      void *s;
      p.in = in;
      p.out = out;
      const rdt_operands o = {.in = in, .n_in = 2, .out = out};
      assert_int_equal(kinds[kind].kernel->create(&p, 1, &s, &why), RDT_OK);
      assert_int_equal(kinds[kind].kernel->run(s, &o, &why), RDT_OK);
      assert_memory_equal(is.data, out.data, rdt_tensor_bytes(&out));
      kinds[kind].kernel->destroy(s);
      free(out.data);
    }
}

static void check(const job *j, size_t kind, void *state, unsigned form, bool hit) {
  const rdt_kernel *k = kinds[kind].kernel;
  const int64_t count = rdt_tensor_count(&j->out), element = count * 2 / 3;
  rdt_reason why;
  rdt_fused_check *c;
  rdt_findings found;
  rdt_kernel_hit planted = {
      .element = element, .position = 0.6, .mask = UINT64_C(1) << (j->p.acc == RDT_F64 ? 61 : 29)};
  const rdt_operands o = {.in = j->in, .n_in = 2, .out = j->out};
  assert_int_equal(rdt_fused_create(&j->p, k, form, 6, &c, &why), RDT_OK);
  rdt_fused f = rdt_fused_ask(c);
  if (hit) f.hit = &planted;
  rdt_findings_init(&found);
  assert_int_equal(k->run_fused(state, &o, &f, &why), RDT_OK);
  rdt_fused_judge(c, &f, &found);
  assert_true(!hit || planted.done);
  assert_true(found.checks > 0 && !f.differ);
  if ((found.suspects > 0) != hit) fail_msg("kind %zu, form %u: %d suspects", kind, form, (int)found.suspects);
  if (hit && form == RDT_FORM_ROWS) assert_int_equal(found.list[0].place[0], element / j->out.shape[3]);
  rdt_fused_destroy(c);
}

static void batches_are_taller_products(void **state) {
  (void)state;
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
    for (int variant = 0; variant < 16; variant++) {
      const rdt_kernel *k = kinds[kind].kernel;
      rdt_reason why = {""};
      job j;
      void *s;
      make(&j, kind, shapes[variant % 4], variant & 4, variant & 8);
      if (k->accept(&j.p, &why) != RDT_OK || k->accept_fused(&j.p, &why) != RDT_OK) fail_msg("%s", why.text);
      assert_int_equal(k->create(&j.p, 1 + variant % 3, &s, &why), RDT_OK);
      const rdt_operands o = {.in = j.in, .n_in = 2, .out = j.out};
      assert_int_equal(k->run(s, &o, &why), RDT_OK);
      expect_products(&j, kind);
      for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        check(&j, kind, s, forms[i], true);
        check(&j, kind, s, forms[i], false);
        expect_products(&j, kind);
      }
      k->destroy(s);
      drop(&j);
    }
}

/* Weights of their own, or a result whose rows do not follow one another: others take those. */
static void others_are_refused(void **state) {
  rdt_reason why;
  job j;
  (void)state;
  make(&j, 0, shapes[0], false, false);
  j.p.out.stride[0] = shapes[0][2] * shapes[0][3];
  j.p.out.stride[1] = shapes[0][0] * shapes[0][2] * shapes[0][3];
  assert_int_equal(rdt_kernel_gemm_f32_native.accept(&j.p, &why), RDT_ERR_UNSUPPORTED);
  j.p.out = j.out;
  assert_int_equal(rdt_kernel_gemm_f32_native.accept(&j.p, &why), RDT_OK);
  j.in[1].stride[0] = shapes[0][3] * shapes[0][4];
  assert_int_equal(rdt_kernel_gemm_f32_native.accept(&j.p, &why), RDT_ERR_UNSUPPORTED);
  drop(&j);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(batches_are_taller_products),
                                     cmocka_unit_test(others_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
