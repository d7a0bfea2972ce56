/* Every row of kernels.def against an oracle in double: values within the bound, every element written and nothing
 * else, the same bits on every run. A new row is tested by being in the table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/tolerance.h"
#include "cpu/kernel.h"
#include "util_native.h"
#include "util_problem.h"
#include "util_sample.h"

/* Datatypes to try with an op: what rdt_problem_check lets through; rows refuse the rest of it. */
typedef struct dtypes {
  rdt_dtype a, b, out;
} dtypes;

static const dtypes linear_dtypes[] = {
    {RDT_F64, RDT_F64, RDT_F64},       {RDT_F32, RDT_F32, RDT_F32},        {RDT_BF16, RDT_BF16, RDT_F32},
    {RDT_BF16, RDT_BF16, RDT_BF16},    {RDT_F16, RDT_F16, RDT_F32},        {RDT_F16, RDT_F16, RDT_F16},
    {RDT_F8E4M3, RDT_F8E4M3, RDT_F32}, {RDT_F8E4M3, RDT_F8E5M2, RDT_BF16}, {RDT_F8E5M2, RDT_F8E4M3, RDT_F16},
    {RDT_S8, RDT_S8, RDT_S32},         {RDT_U8, RDT_S8, RDT_S32},          {RDT_S8, RDT_U8, RDT_S32},
    {RDT_U8, RDT_U8, RDT_S32}};

static dtypes dtypes_of(rdt_kop op, int i) {
  return rdt_kop_is_linear(op) ? linear_dtypes[i] : (dtypes){(rdt_dtype)i, (rdt_dtype)i, (rdt_dtype)i};
}

static int dtype_count(rdt_kop op) {
  return rdt_kop_is_linear(op) ? (int)(sizeof linear_dtypes / sizeof *linear_dtypes) : RDT_DTYPE_COUNT;
}

static rdt_tolerance tolerance_of(const rdt_problem *p) {
  const double u_out = p->out.dtype == p->acc ? 0.0 : rdt_dtype_info(p->out.dtype)->u;
  return (rdt_tolerance){.acc = rdt_accumulator_of(p->in[0].dtype, p->acc),
                         .k = util_reduction(p) + 3,
                         .u_out = u_out,
                         .eta_out = u_out > 0 ? 2.0 * u_out * rdt_dtype_info(p->out.dtype)->min_normal : 0.0,
                         .lambda = 6.0};
}

static bool moves_only(rdt_kop op) {
  return op == RDT_KOP_COPY || op == RDT_KOP_CONCAT || op == RDT_KOP_MAXPOOL || rdt_kop_moves(op);
}

static rdt_operands operands_of(const rdt_problem *p) {
  return (rdt_operands){.in = p->in,
                        .n_in = p->n_in,
                        .out = p->out,
                        .epilogue = rdt_epilogue_is_none(&p->epilogue) ? NULL : &p->epilogue};
}

static void *state_of(const rdt_kernel *k, const rdt_problem *p, int threads) {
  rdt_reason why = {""};
  void *state = NULL;
  if (k->create(p, threads, &state, &why) != RDT_OK) fail_msg("%s: create: %s", k->name, why.text);
  return state;
}

static void run_once(const rdt_kernel *k, void *state, const rdt_problem *p) {
  const rdt_operands o = operands_of(p);
  rdt_reason why = {""};
  if (k->run(state, &o, &why) != RDT_OK) fail_msg("%s: run: %s", k->name, why.text);
}

static void compare(const rdt_kernel *k, const rdt_problem *p, uint64_t seed) {
  const int64_t n = rdt_tensor_count(&p->out);
  double *expected = malloc((size_t)(2 * n + 1) * sizeof *expected), *scale = expected + n;
  const rdt_tolerance t = tolerance_of(p);
  rdt_iter it = rdt_iter_begin(&p->out);
  util_oracle(p, expected, scale);
  for (int64_t i = 0; rdt_iter_next(&it); i++) {
    const double got = rdt_load(p->out.data, p->out.dtype, it.offset);
    const double bound = moves_only(p->op) ? 0.0 : rdt_bound_element(&t, scale[i]);
    if (!(got == expected[i]) && !(fabs(got - expected[i]) <= bound)) {
      char text[96];
      fail_msg("%s seed %llu: element %lld of %s is %g, expected %g within %g", k->name, (unsigned long long)seed,
               (long long)i, rdt_tensor_text(&p->out, text, sizeof text), got, expected[i], bound);
    }
  }
  free(expected);
}

/* Bytes of the output buffer that no element of the view covers still hold the poison. */
static void check_gaps(const rdt_kernel *k, const util_case *c, uint64_t seed) {
  const size_t size = rdt_dtype_size(c->p.out.dtype);
  unsigned char *covered = calloc(1, c->out_bytes + 1);
  rdt_iter it = rdt_iter_begin(&c->p.out);
  while (rdt_iter_next(&it)) {
    memset(covered + ((char *)c->p.out.data - (char *)c->out_base) + it.offset * (int64_t)size, 1, size);
  }
  for (size_t i = 0; i < c->out_bytes; i++) {
    if (!covered[i] && ((unsigned char *)c->out_base)[i] != 0xff) {
      fail_msg("%s seed %llu: byte %zu between the output's elements was written", k->name, (unsigned long long)seed,
               i);
    }
  }
  free(covered);
}

static void check_case(const rdt_kernel *k, util_case *c, uint64_t seed) {
  unsigned char *first = malloc(c->out_bytes + 1);
  for (int threads = 1; threads <= 2; threads++) {
    void *state = state_of(k, &c->p, threads);
    for (int again = 0; again < 2; again++) {
      util_case_poison(c);
      run_once(k, state, &c->p);
      const bool same_promised = again == 1 ? k->deterministic : threads == 2 && !k->black_box;
      if (same_promised && memcmp(first, c->out_base, c->out_bytes) != 0) {
        fail_msg("%s seed %llu: other bits on run %d with %d threads", k->name, (unsigned long long)seed, again,
                 threads);
      }
      memcpy(first, c->out_base, c->out_bytes);
    }
    k->destroy(state);
    compare(k, &c->p, seed);
    check_gaps(k, c, seed);
  }
  free(first);
}

static rdt_reason last_refusal;

/* A row, one combination of dtypes, random problems from one on. Returns how many the row took. */
static int check_row(const rdt_kernel *k, const dtypes *t, int64_t first, int64_t cases) {
  int taken = 0;
  for (int64_t i = first; i < first + cases; i++) {
    const uint64_t seed = (uint64_t)i * 1000 + (uint64_t)t->a * 10 + (uint64_t)t->out;
    util_random r = {seed};
    util_case c;
    rdt_reason why = {""};
    util_case_make(&c, &r, k->op, t->a, t->b, t->out, i % 2);
    if (rdt_kop_is_linear(k->op) && rdt_dtype_is_float(t->a) && i % 3 == 0) util_case_epilogue(&c, &r, i / 3 % 2 == 1);
    if (rdt_problem_check(&c.p, &why) != RDT_OK)
      fail_msg("%s seed %llu: %s", k->name, (unsigned long long)seed, why.text);
    why.text[0] = '\0';
    const rdt_status status = (k->accept_fused ? k->accept_fused : k->accept)(&c.p, &why);
    if (status == RDT_OK) {
      taken++;
      check_case(k, &c, seed);
    } else {
      assert_int_equal(status, RDT_ERR_UNSUPPORTED);
      assert_true(why.text[0] != '\0');
      last_refusal = why;
      if (getenv("REFUSALS")) printf("  %s seed %llu: %s\n", k->name, (unsigned long long)seed, why.text);
    }
    util_case_free(&c);
  }
  return taken;
}

/* A row, one problem in so many of all that there are for it. */
static int check_problems(const rdt_kernel *row, int one_in) {
  int taken = 0;
  for (int t = 0; t < dtype_count(row->op); t++) {
    const dtypes d = dtypes_of(row->op, t);
    if (row->op == RDT_KOP_MAP && d.a == RDT_BOOL) continue;          /* its functions are about numbers */
    if (row->op == RDT_KOP_MAXPOOL && rdt_dtype_is_f8(d.a)) continue; /* the largest of nothing is -Inf */
    int64_t cases;                                                    /* vendor rows take f32 more than all else */
    const int64_t first = util_part(d.a == RDT_F32 ? 72 : 20, one_in, &cases);
    const int count = check_row(row, &d, first, cases);
    taken += count;
    const rdt_problem op = {.op = row->op};
    if (rdt_kop_is_linear(op.op) && row == rdt_cpu_reference(&op)) assert_int_equal(count, cases); /* takes all */
  }
  return taken;
}

static void test_rows(void **state) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  int vendor[RDT_KOP_COUNT] = {0};
  (void)state;
  for (int i = 0; i < n; i++) {
    if (rows[i]->isa > rdt_isa_detect() || rows[i]->op == RDT_KOP_QUANTIZE) continue; /* it: test_quant.c */
    int taken = check_problems(rows[i], util_one_in(2, 3));
    if (!taken) taken = check_problems(rows[i], 1); /* a row that takes few */
    printf("%-22s %d problems%s%s\n", rows[i]->name, taken, taken ? "" : ": ", taken ? "" : last_refusal.text);
    if (!rows[i]->black_box && util_native_can(rows[i])) assert_true(taken > 0);
    if (rows[i]->black_box) vendor[rows[i]->op] += taken;
  }
}

static void test_table(void **state) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)state;
  for (int i = 0; i < n; i++) {
    assert_true(rows[i]->create && rows[i]->run && rows[i]->destroy && rows[i]->accept);
    assert_true(!rows[i]->pack == !rows[i]->packed);
    assert_true(!(rows[i]->black_box && rows[i]->run_inject));
    assert_true(rdt_cpu_kernel_limits(rows[i])[0] != '\0');
    for (int j = 0; j < i; j++) assert_string_not_equal(rows[i]->name, rows[j]->name);
  }
  for (int op = 0; op < RDT_KOP_COUNT; op++) {
    const rdt_problem p = {.op = (rdt_kop)op};
    const rdt_kernel *reference = rdt_cpu_reference(&p);
    assert_non_null(reference);
    assert_int_equal(reference->op, op);
    assert_false(reference->black_box);
    assert_true(reference->deterministic);
    assert_int_equal(reference->isa, RDT_ISA_GENERIC);
  }
}

/* One NaN among the operands shows in every element that depends on it, and only there. */
static void test_nan(void **state) {
  static const struct {
    rdt_kop op;
    rdt_fn fn;
    int n_in;
    int64_t touched; /* of 4 x 4 elements */
  } cases[] = {{RDT_KOP_MAP, RDT_FN_ADD, 2, 1},      {RDT_KOP_MAP, RDT_FN_MUL, 2, 1},
               {RDT_KOP_MAP, RDT_FN_RELU, 1, 1},     {RDT_KOP_COPY, RDT_FN_NONE, 1, 1},
               {RDT_KOP_MAXPOOL, RDT_FN_NONE, 1, 4}, {RDT_KOP_AVGPOOL, RDT_FN_NONE, 1, 4},
               {RDT_KOP_SOFTMAX, RDT_FN_NONE, 1, 4}, {RDT_KOP_GEMM, RDT_FN_NONE, 2, 4}};
  static const rdt_dtype types[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int t = 0; t < 4; t++) {
      const bool pool = cases[i].op == RDT_KOP_MAXPOOL || cases[i].op == RDT_KOP_AVGPOOL;
      const int64_t pooled[4] = {1, 1, 5, 5}, image[4] = {1, 1, 4, 4}, matrix[2] = {4, 4};
      double buffers[3][25];
      rdt_tensor in[2];
      for (int b = 0; b < 2; b++) {
        in[b] = rdt_tensor_dense(buffers[b], types[t], pool ? 4 : 2, pool ? pooled : matrix);
        for (int64_t e = 0; e < rdt_tensor_count(&in[b]); e++) rdt_store(buffers[b], types[t], e, -1.0 - (double)e);
      }
      rdt_store(buffers[0], types[t], pool ? 12 : 6, NAN);
      const rdt_problem p = {.op = cases[i].op,
                             .fn = cases[i].fn,
                             .n_in = cases[i].n_in,
                             .in = in,
                             .out = rdt_tensor_dense(buffers[2], types[t], pool ? 4 : 2, pool ? image : matrix),
                             .acc = types[t] == RDT_F64 ? RDT_F64 : RDT_F32,
                             .window = {.kernel = {2, 2}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
                             .axis = 1,
                             .epilogue = RDT_EPILOGUE_NONE};
      void *made = state_of(rdt_cpu_reference(&p), &p, 1);
      int64_t nans = 0;
      run_once(rdt_cpu_reference(&p), made, &p);
      for (int64_t e = 0; e < 16; e++) nans += isnan(rdt_load(buffers[2], types[t], e));
      assert_int_equal(nans, cases[i].touched);
      rdt_cpu_reference(&p)->destroy(made);
    }
  }
}

/* Does the window of output element y cover the input's element x? */
static bool covers(const rdt_window *w, int spatial, const int64_t *y, const int64_t *x) {
  bool in = x[0] == y[0] && x[1] == y[1];
  for (int d = 0; in && d < spatial; d++) {
    const int64_t away = x[2 + d] - (y[2 + d] * w->stride[d] - w->before[d]);
    in = away >= 0 && away % w->dilation[d] == 0 && away / w->dilation[d] < w->kernel[d];
  }
  return in;
}

/* Every row of the pools, every layout: a NaN shows in the windows that hold it, and in no others. */
static void test_nan_in_windows(void **state) {
  static const rdt_dtype types[] = {RDT_F32, RDT_BF16, RDT_F16, RDT_F64};
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)state;
  for (int i = 0; i < n; i++) {
    if ((rows[i]->op != RDT_KOP_MAXPOOL && rows[i]->op != RDT_KOP_AVGPOOL) || rows[i]->isa > rdt_isa_detect()) continue;
    int seen = 0;
    for (int t = 0; t < 4 * 40; t++) {
      util_random r = {(uint64_t)t};
      util_case c;
      rdt_reason why;
      int64_t place[5], at = 0;
      util_case_make(&c, &r, rows[i]->op, types[t % 4], types[t % 4], types[t % 4], true);
      for (int d = 0; d < c.p.out.rank; d++) {
        place[d] = (int64_t)(util_next(&r) % (uint64_t)c.in[0].shape[d]);
        at += place[d] * c.in[0].stride[d];
      }
      rdt_store(c.in[0].data, types[t % 4], at, NAN);
      if (rows[i]->accept(&c.p, &why) == RDT_OK) {
        void *made = state_of(rows[i], &c.p, 1 + t % 2);
        run_once(rows[i], made, &c.p);
        rdt_iter it = rdt_iter_begin(&c.p.out);
        while (rdt_iter_next(&it)) {
          const bool wanted = covers(&c.p.window, c.p.out.rank - 2, it.index, place);
          if (isnan(rdt_load(c.p.out.data, types[t % 4], it.offset)) != wanted)
            fail_msg("%s case %d: NaN %s", rows[i]->name, t, wanted ? "is lost" : "from nowhere");
          seen += wanted;
        }
        rows[i]->destroy(made);
      }
      util_case_free(&c);
    }
    assert_true(seen > 0 || rows[i]->black_box);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_nan),
                                     cmocka_unit_test(test_nan_in_windows), cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
