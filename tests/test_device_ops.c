/* The bodies of the GPU's ops, in plain C, against the CPU's reference kernels: elementwise ops and those that move
 * data bit by bit, others within rounding; the sum of the result, and an element that is wrong. On a GPU: tests/gpu. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/bitsum.h"
#include "check/tolerance.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cuda/ops/ops.h"
#include "plan/plan.h"
#include "util_device.h"
#include "util_problem.h"
#include "util_sample.h"

static void reference(const rdt_problem *p) {
  const rdt_kernel *k = rdt_cpu_reference(p);
  const rdt_operands o = {.in = p->in, .n_in = p->n_in, .out = p->out, .epilogue = &p->epilogue};
  rdt_reason why;
  void *state;
  if (k->create(p, 1, &state, &why) != RDT_OK || k->run(state, &o, &why) != RDT_OK) fail_msg("%s", why.text);
  k->destroy(state);
}

static bool exact(rdt_kop op) {
  return op == RDT_KOP_MAP || op == RDT_KOP_COPY || op == RDT_KOP_CONCAT || op == RDT_KOP_MAXPOOL ||
         rdt_kop_moves(op) || op == RDT_KOP_QUANTIZE || op == RDT_KOP_RESIZE || op == RDT_KOP_CUMSUM ||
         op == RDT_KOP_TOPK || rdt_kop_is_linear(op);
}

static void run_device(rdt_gpu_op *list, int n, rdt_op_form form, uint64_t *sum, rdt_cuda_verdict *v) {
  uint64_t visits = 0, expected = 0;
  *sum = 0;
  *v = (rdt_cuda_verdict){0};
  for (int i = 0; i < n; i++) {
    list[i].check = form;
    list[i].sum = sum;
    list[i].visits = &visits;
    list[i].verdict = v;
    expected += form != RDT_OP_STORES ? (uint64_t)rdt_ops_blocks(&list[i]) : 0;
    util_device_op(&list[i]);
  }
  assert_int_equal(visits, expected);
}

static void compare(const rdt_problem *p, const void *expected, size_t bytes, uint64_t seed) {
  if (exact(p->op)) {
    if (memcmp(p->out.data, expected, bytes) != 0)
      fail_msg("%s of %s, seed %llu: other bits", rdt_problem_name(p), rdt_dtype_name(p->in[0].dtype),
               (unsigned long long)seed);
    return;
  }
  const double u = rdt_dtype_info(p->out.dtype)->u;
  for (int64_t i = 0; i < rdt_tensor_count(&p->out); i++) {
    const double x = rdt_load(p->out.data, p->out.dtype, i), y = rdt_load(expected, p->out.dtype, i);
    const double bound = 64.0 * 0x1p-24 * fmax(1.0, fabs(y)) + 2.0 * u * fabs(y);
    if (!(fabs(x - y) <= bound) && !(isnan(x) && isnan(y)))
      fail_msg("%s of %s, seed %llu: element %lld is %g, not %g", rdt_problem_name(p), rdt_dtype_name(p->out.dtype),
               (unsigned long long)seed, (long long)i, x, y);
  }
}

/* false: refused */
static bool try_case(const rdt_problem *p, uint64_t seed) {
  rdt_gpu_op *list;
  rdt_reason why;
  rdt_cuda_verdict v;
  uint64_t sum;
  int n;
  const rdt_status status = rdt_ops_prepare(p, &list, &n, &why);
  if (status == RDT_ERR_UNSUPPORTED) return false;
  if (status != RDT_OK) fail_msg("%s", why.text);
  const size_t bytes = rdt_tensor_bytes(&p->out);
  void *expected = malloc(bytes + 1);
  memset(p->out.data, 0xff, bytes);
  reference(p);
  memcpy(expected, p->out.data, bytes);
  memset(p->out.data, 0xff, bytes);
  run_device(list, n, RDT_OP_STORES, &sum, &v);
  compare(p, expected, bytes, seed);
  memset(p->out.data, 0xff, bytes);
  run_device(list, n, RDT_OP_BOTH, &sum, &v);
  compare(p, expected, bytes, seed);
  assert_true(sum == rdt_bitsum(p->out.data, bytes));
  run_device(list, n, RDT_OP_COMPARES, &sum, &v);
  assert_int_equal(v.certain + v.cannot + v.suspect, 0);
  assert_true(sum == rdt_bitsum(p->out.data, bytes));
  if (bytes > 0) { /* what is wrong is noticed */
    ((unsigned char *)p->out.data)[seed % bytes] ^= 0x10;
    run_device(list, n, RDT_OP_COMPARES, &sum, &v);
    assert_int_equal(v.certain, 1);
    assert_true(sum == rdt_bitsum(p->out.data, bytes));
  }
  free(expected);
  rdt_free(list);
  return true;
}

static void test_every_op(void **state) {
  static const rdt_kop ops[] = {RDT_KOP_MAP,     RDT_KOP_COPY,    RDT_KOP_CONCAT,    RDT_KOP_MAXPOOL,
                                RDT_KOP_AVGPOOL, RDT_KOP_SOFTMAX, RDT_KOP_BATCHNORM, RDT_KOP_NORM,
                                RDT_KOP_REDUCE,  RDT_KOP_GATHER,  RDT_KOP_PAD,       RDT_KOP_TRIANGLE,
                                RDT_KOP_SCATTER, RDT_KOP_RESIZE,  RDT_KOP_CUMSUM,    RDT_KOP_TOPK};
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F16, RDT_BF16, RDT_F64, RDT_S64, RDT_S32, RDT_U8, RDT_BOOL};
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    int done = 0;
    const int one_in = util_one_in(2, 6);
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (uint64_t seed = 0; seed < (uint64_t)(120 / one_in); seed++) {
        util_case c = {0};
        util_random r = {seed * 1000 + t};
        rdt_reason why;
        util_case_make(&c, &r, ops[i], dtypes[t], dtypes[t], dtypes[t], seed % 2);
        if (rdt_problem_check(&c.p, &why) == RDT_OK && rdt_cpu_reference(&c.p)->accept(&c.p, &why) == RDT_OK)
          done += try_case(&c.p, seed);
        util_case_free(&c);
      }
    if (done * one_in < 20) fail_msg("%s: only %d cases were taken", rdt_kop_name(ops[i]), done);
  }
}

static void test_quantizing(void **state) {
  (void)state;
  for (int i = 0; i < UTIL_QUANTISING; i++) {
    util_case c;
    rdt_reason why;
    util_case_make_quantising(&c, i, 9, 0.75);
    if (rdt_problem_check(&c.p, &why) != RDT_OK) fail_msg("%s", why.text);
    assert_true(try_case(&c.p, (uint64_t)i));
    util_case_free(&c);
  }
}

/* Products and convolutions of bytes: the host's bits. */
static void test_bytes(void **state) {
  int done = 0;
  (void)state;
  const int one_in = util_one_in(1, 3);
  for (uint64_t seed = 0; seed < (uint64_t)(150 / one_in); seed++) {
    util_case c;
    util_random r = {seed};
    rdt_reason why;
    util_case_make_bytes(&c, &r);
    if (rdt_problem_check(&c.p, &why) != RDT_OK) fail_msg("seed %d: %s", (int)seed, why.text);
    done += try_case(&c.p, seed);
    util_case_free(&c);
  }
  assert_true(done * one_in > 120);
}

/* An index that is out of range is noticed, by scatter as by gather. */
static void test_wrong_indices(void **state) {
  static const int64_t shape[] = {6}, few[] = {2};
  float x[6] = {0}, updates[2] = {1, 2}, y[6];
  int64_t at[2] = {3, 6};
  rdt_gpu_op *list;
  rdt_cuda_verdict v;
  rdt_problem p;
  rdt_reason why;
  uint64_t sum;
  int n;
  (void)state;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_SCATTER, 3), RDT_OK);
  p.in[0] = rdt_tensor_dense(x, RDT_F32, 1, shape);
  p.in[1] = rdt_tensor_dense(updates, RDT_F32, 1, few);
  p.in[2] = rdt_tensor_dense(at, RDT_S64, 1, few);
  p.out = rdt_tensor_dense(y, RDT_F32, 1, shape);
  for (int d = 0; d < RDT_MAX_RANK; d++) p.ints[d] = p.ints[RDT_MAX_RANK + d] = -1;
  p.ints[0] = 0;
  assert_int_equal(rdt_problem_check(&p, &why), RDT_OK);
  assert_int_equal(rdt_ops_prepare(&p, &list, &n, &why), RDT_OK);
  run_device(list, n, RDT_OP_STORES, &sum, &v);
  assert_true(v.cannot > 0);
  at[1] = -1;
  run_device(list, n, RDT_OP_STORES, &sum, &v);
  assert_true(v.cannot == 0 && y[3] == 1 && y[5] == 2);
  rdt_free(list);
  rdt_problem_clear(&p);
}

/* What the device has no kernel for is refused with a reason. */
static void test_refusals(void **state) {
  static const int64_t shape[] = {2, 3};
  double data[6] = {0};
  rdt_gpu_op *list;
  rdt_reason why;
  rdt_problem p;
  int n;
  (void)state;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_AVGPOOL, 1), RDT_OK);
  p.in[0] = p.out = rdt_tensor_dense(data, RDT_S64, 2, shape);
  assert_int_equal(rdt_ops_prepare(&p, &list, &n, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "takes floats"));
  p.in[0].dtype = p.out.dtype = RDT_F8E4M3;
  assert_int_equal(rdt_ops_prepare(&p, &list, &n, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "8-bit floats"));
  p.in[0].dtype = p.out.dtype = RDT_F32;
  p.op = RDT_KOP_MAXPOOL;
  p.fn = RDT_FN_ARGMAX;
  assert_int_equal(rdt_ops_prepare(&p, &list, &n, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "no kernel"));
  p.op = RDT_KOP_COPY;
  p.out.stride[0] = 4;
  assert_int_equal(rdt_ops_prepare(&p, &list, &n, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "gaps"));
  rdt_problem_clear(&p);
}

/* Parts of memory have the sums that the host forms, whatever their length. */
static void test_sums(void **state) {
  uint32_t words[100];
  (void)state;
  for (uint32_t i = 0; i < 100; i++) words[i] = i * 2654435761u + 12345;
  for (size_t bytes = 0; bytes <= sizeof words; bytes++) {
    uint64_t sum = 0;
    const rdt_sum_part p = {.data = words, .bytes = bytes, .first = 1000, .sum = &sum};
    assert_true(util_device_part(&p) == rdt_bitsum_apart(words, 4000, bytes));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op), cmocka_unit_test(test_quantizing),
                                     cmocka_unit_test(test_bytes),    cmocka_unit_test(test_wrong_indices),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
