/* Elementwise functions against libm in long double: every function, datatype and stride pattern, special values; the
 * same bits on every ISA; errors in f32 over a sweep of the floats (MATH_STEP=1: all of them). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "core/memory.h"
#include "cpu/kernel.h"
#include "cpu/maps.h"

typedef long double real;

static real sigmoid(real x) {
  return 1 / (1 + expl(-x));
}

/* The definitions of functions.def. */
#define ONE(X)                                                                     \
  X(RELU, a < 0 ? 0 : a)                                                           \
  X(CLIP, a<p ? p : a> q ? q : a)                                                  \
  X(ABS, fabsl(a))                                                                 \
  X(NEG, -a)                                                                       \
  X(SIGN, a > 0 ? 1 : a < 0 ? -1 : a)                                              \
  X(SHRINK, isnan(a) ? a : a<-p ? a + q : a> p ? a - q : 0)                        \
  X(ACOS, acosl(a))                                                                \
  X(ACOSH, acoshl(a))                                                              \
  X(ASIN, asinl(a))                                                                \
  X(ASINH, asinhl(a))                                                              \
  X(ATAN, atanl(a))                                                                \
  X(ATANH, atanhl(a))                                                              \
  X(CEIL, ceill(a))                                                                \
  X(CELU, a < 0 ? p * expm1l(a / p) : a)                                           \
  X(COS, cosl(a))                                                                  \
  X(COSH, coshl(a))                                                                \
  X(ELU, a < 0 ? p * expm1l(a) : a)                                                \
  X(ERF, erfl(a))                                                                  \
  X(EXP, expl(a))                                                                  \
  X(FLOOR, floorl(a))                                                              \
  X(GELU, a / 2 * erfcl(-a * sqrtl(0.5L)))                                         \
  X(GELU_TANH, a *sigmoid(2 * sqrtl(2 / acosl(-1)) * (a + 0.044715L * a * a * a))) \
  X(HARDSIGMOID, isnan(a) ? a : fminl(fmaxl(p *a + q, 0), 1))                      \
  X(HARDSWISH, isnan(a) ? a : a *fminl(fmaxl(p *a + q, 0), 1))                     \
  X(LEAKYRELU, a < 0 ? p * a : a)                                                  \
  X(LOG, logl(a))                                                                  \
  X(MISH, a *tanhl(a > 0 ? a + log1pl(expl(-a)) : log1pl(expl(a))))                \
  X(RECIPROCAL, 1 / a)                                                             \
  X(ROUND, rintl(a))                                                               \
  X(SELU, q *(a < 0 ? p * expm1l(a) : a))                                          \
  X(SIGMOID, sigmoid(a))                                                           \
  X(SILU, a *sigmoid(a))                                                           \
  X(SIN, sinl(a))                                                                  \
  X(SINH, sinhl(a))                                                                \
  X(SOFTPLUS, a > 0 ? a + log1pl(expl(-a)) : log1pl(expl(a)))                      \
  X(SOFTSIGN, a / (1 + fabsl(a)))                                                  \
  X(SQRT, sqrtl(a))                                                                \
  X(TAN, tanl(a))                                                                  \
  X(TANH, tanhl(a))                                                                \
  X(THRESHOLDEDRELU, a > p ? a : 0)                                                \
  X(ISINF, (p != 0 && a == -INFINITY) || (q != 0 && a == INFINITY))                \
  X(ISNAN, isnan(a))                                                               \
  X(NOT, a == 0)

#define CASE(id, value) \
  case RDT_FN_##id:     \
    return value;

static real one(rdt_fn fn, real a, real p, real q) {
  switch (fn) {
    ONE(CASE)
    default:
      fail_msg("no definition of %s", rdt_fn_info(fn)->name);
      return 0;
  }
}

/* p: with the sign of a; otherwise with that of b. */
static real modulo(real a, real b, real p) {
  const real r = fmodl(a, b);
  return p == 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define TWO(X)                                       \
  X(ADD, a + b)                                      \
  X(SUB, a - b)                                      \
  X(MUL, a *b)                                       \
  X(DIV, a / b)                                      \
  X(MOD, modulo(a, b, p))                            \
  X(MAX, isnan(a) || isnan(b) ? NAN : a > b ? a : b) \
  X(MIN, isnan(a) || isnan(b) ? NAN : a < b ? a : b) \
  X(PRELU, a < 0 ? b * a : a)                        \
  X(POW, powl(a, b))                                 \
  X(EQUAL, a == b)                                   \
  X(GREATER, a > b)                                  \
  X(GREATEREQUAL, a >= b)                            \
  X(LESS, a < b)                                     \
  X(LESSEQUAL, a <= b)                               \
  X(AND, a != 0 && b != 0)                           \
  X(OR, a != 0 || b != 0)                            \
  X(XOR, (a != 0) != (b != 0))

static real two(rdt_fn fn, real a, real b, real p) {
  switch (fn) {
    TWO(CASE)
    default:
      fail_msg("no definition of %s", rdt_fn_info(fn)->name);
      return 0;
  }
}

/* In units in the last place of the datatype at the expected value. Large only where cancellation is in the formula. */
static double allowed(rdt_fn fn, rdt_dtype t) {
  const bool tail = fn == RDT_FN_GELU || fn == RDT_FN_GELU_TANH; /* in f64 the rounding of the exponent shows */
  if (t != RDT_F32) return t == RDT_F64 ? (tail ? 800 : 8) : 1;
  switch (fn) {
    case RDT_FN_MISH:
      return 3.5;
    case RDT_FN_HARDSIGMOID:
    case RDT_FN_HARDSWISH:
      return INFINITY; /* p a + q cancels: by values below */
    default:
      return 3;
  }
}

/* Beside that: Gelu's error is relative to its operand. */
static double slack(rdt_fn fn, rdt_dtype t, real x) {
  return fn == RDT_FN_GELU && t != RDT_F64 ? 4 * 0x1p-24 * fmin(fabs((double)x), 20) : 0;
}

static double ulp_of(rdt_dtype t, real x) {
  const rdt_dtype_row *d = rdt_dtype_info(t);
  const double m = fmax(fabs((double)x), d->min_normal);
  return ldexp(2 * d->u, ilogb(m));
}

static void check_value(rdt_fn fn, rdt_dtype t, real x, double got, real expected) {
  double rounded;
  rdt_store(&rounded, RDT_F64, 0, 0);
  unsigned char bits[8];
  rdt_store(bits, t, 0, (double)expected);
  rounded = rdt_load(bits, t, 0);
  if (isnan(rounded) || isinf(rounded)) {
    if (!(isnan(rounded) ? isnan(got) : got == rounded || fabs(got) > 1e37 || t == RDT_F16))
      fail_msg("%s(%Lg) of %s: %g, expected %Lg", rdt_fn_info(fn)->name, x, rdt_dtype_name(t), got, expected);
    return;
  }
  const double error = (fabs((double)((real)got - expected)) - slack(fn, t, x)) / ulp_of(t, expected);
  if (!(error <= allowed(fn, t)) &&
      !(allowed(fn, t) == INFINITY && fabs(got - (double)expected) <= 4 * ulp_of(t, 1 + fabsl(expected))))
    fail_msg("%s(%La = %Lg) of %s: %.9g, expected %.9Lg, %.2f ulp", rdt_fn_info(fn)->name, x, x, rdt_dtype_name(t), got,
             expected, error);
}

static const double specials[] = {0.0,    -0.0,     1.0,    -1.0, 0.5,   -0.5,     1.5,       2.5,   -2.5, 1e-40,
                                  -1e-40, 0x1p-149, 3.0,    -3.0, 20.0,  -20.0,    87.0,      -87.0, 88.8, -88.8,
                                  -103.5, 104.0,    -110.0, 1e30, -1e30, INFINITY, -INFINITY, NAN};
enum { SPECIALS = sizeof specials / sizeof *specials, N = 4 * SPECIALS };

static double value_at(int i) {
  return i < SPECIALS ? specials[i] : 6 * sin(i * 12.9898) * (i % 3 + 0.25);
}

static void run_kernel(const rdt_kernel *k, rdt_problem *p) {
  rdt_reason why = {""};
  void *state;
  if (rdt_problem_check(p, &why) != RDT_OK) fail_msg("%s: %s", rdt_fn_info(p->fn)->name, why.text);
  assert_int_equal(k->accept(p, &why), RDT_OK);
  assert_int_equal(k->create(p, 2, &state, &why), RDT_OK);
  const rdt_operands o = {.in = p->in, .n_in = p->n_in, .out = p->out};
  assert_int_equal(k->run(state, &o, &why), RDT_OK);
  k->destroy(state);
}

/* All rows that run here give one result; it lies in out afterwards. */
static void run_all(rdt_problem *p) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  const size_t bytes = 8 * 2 * N;
  unsigned char *first = calloc(1, bytes);
  bool any = false;
  for (int i = 0; i < n; i++) {
    if (rows[i]->op != RDT_KOP_MAP || rows[i]->isa > rdt_isa_detect() ||
        rows[i]->accept(p, &(rdt_reason){""}) != RDT_OK)
      continue;
    memset(p->out.data, 0xa5, bytes);
    run_kernel(rows[i], p);
    if (any && memcmp(first, p->out.data, bytes) != 0)
      fail_msg("%s: other bits by %s", rdt_fn_info(p->fn)->name, rows[i]->name);
    memcpy(first, p->out.data, bytes);
    any = true;
  }
  assert_true(any);
  free(first);
}

static bool is_kind(rdt_fn_class class) {
  return class == RDT_CLASS_FLOAT || class == RDT_CLASS_NUMBER || class == RDT_CLASS_TEST ||
         class == RDT_CLASS_COMPARE || class == RDT_CLASS_POWER;
}

/* stride: of the operands, 0 broadcasts the second; -1 runs backwards; the result lies with steps of 2 then. */
static void check_floats(rdt_fn fn, rdt_dtype t, int stride) {
  static double x[2][2 * N], y[2 * N];
  const rdt_fn_row *f = rdt_fn_info(fn);
  rdt_tensor in[2];
  const int64_t length = N;
  for (int v = 0; v < 2; v++) {
    const int step = stride == 0 ? (v ? 0 : 1) : stride;
    in[v] = rdt_tensor_dense(x[v], t, 1, &length);
    for (int i = 0; i < 2 * N; i++) rdt_store(x[v], t, i, value_at((i * (v ? 7 : 1) + v * 3) % N));
    in[v].stride[0] = step;
    if (step < 0) in[v].data = (char *)x[v] + (N - 1) * rdt_dtype_size(t);
  }
  rdt_problem p = {
      .op = RDT_KOP_MAP, .fn = fn, .n_in = f->operands, .in = in, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  p.param[0] = fn == RDT_FN_CLIP ? -1.25 : fn == RDT_FN_MOD ? 1.0 : 0.75;
  p.param[1] = 0.5;
  const bool to_bool = f->class == RDT_CLASS_TEST || f->class == RDT_CLASS_COMPARE;
  p.out = rdt_tensor_dense(y, to_bool ? RDT_BOOL : t, 1, &length);
  if (stride != 1) p.out.stride[0] = 2;
  run_all(&p);
  for (int64_t i = 0; i < N; i++) {
    const real a = rdt_load(in[0].data, t, i * in[0].stride[0]), b = rdt_load(in[1].data, t, i * in[1].stride[0]);
    const real c = t == RDT_F64 ? (real)p.param[0] : (real)(float)p.param[0],
               d = t == RDT_F64 ? (real)p.param[1] : (real)(float)p.param[1];
    const real expected = f->operands == 1 ? one(fn, a, c, d) : two(fn, a, b, c);
    const double got = rdt_load(y, p.out.dtype, i * p.out.stride[0]);
    if (to_bool)
      assert_true(got == (double)expected);
    else
      check_value(fn, t, a, got, expected);
  }
}

static void test_floats(void **state) {
  static const rdt_dtype types[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16};
  static const int strides[] = {1, 2, 0, -1};
  (void)state;
  for (int fn = RDT_FN_RELU; fn < RDT_FN_COUNT; fn++) {
    const rdt_fn_row *f = rdt_fn_info((rdt_fn)fn);
    if (!is_kind(f->class) || f->operands > 2) continue;
    for (int t = 0; t < 4; t++)
      for (int s = 0; s < 4; s++) check_floats((rdt_fn)fn, types[t], strides[s]);
  }
}

/* By definition modulo the width; what C leaves undefined is defined. */
static void test_integers(void **state) {
  static const struct {
    rdt_fn fn;
    rdt_dtype t;
    int64_t a, b;
    double p;
    int64_t y;
  } cases[] = {{RDT_FN_ADD, RDT_S8, 127, 1, 0, -128},
               {RDT_FN_SUB, RDT_U8, 0, 1, 0, 255},
               {RDT_FN_MUL, RDT_S32, 1 << 20, 1 << 12, 0, 0},
               {RDT_FN_MUL, RDT_S64, INT64_MAX, 2, 0, -2},
               {RDT_FN_DIV, RDT_S64, 7, 0, 0, 0},
               {RDT_FN_DIV, RDT_S64, INT64_MIN, -1, 0, INT64_MIN},
               {RDT_FN_DIV, RDT_S32, -7, 2, 0, -3},
               {RDT_FN_DIV, RDT_S32, INT32_MIN, -1, 0, INT32_MIN},
               {RDT_FN_MOD, RDT_S32, -7, 3, 0, 2},
               {RDT_FN_MOD, RDT_S32, -7, 3, 1, -1},
               {RDT_FN_MOD, RDT_S64, 5, 0, 0, 0},
               {RDT_FN_MOD, RDT_S64, INT64_MIN, -1, 0, 0},
               {RDT_FN_MAX, RDT_S64, INT64_MAX, INT64_MAX - 1, 0, INT64_MAX},
               {RDT_FN_MIN, RDT_U8, 200, 100, 0, 100},
               {RDT_FN_POW, RDT_S32, 3, 4, 0, 81},
               {RDT_FN_POW, RDT_S32, 2, -1, 0, 0},
               {RDT_FN_POW, RDT_S32, -1, -3, 0, -1},
               {RDT_FN_SHIFT, RDT_U8, 129, 1, 1, 2},
               {RDT_FN_SHIFT, RDT_U8, 129, 1, 0, 64},
               {RDT_FN_SHIFT, RDT_U8, 1, 200, 1, 0},
               {RDT_FN_BITAND, RDT_S32, 12, 10, 0, 8},
               {RDT_FN_BITOR, RDT_S32, 12, 10, 0, 14},
               {RDT_FN_BITXOR, RDT_S32, 12, 10, 0, 6},
               {RDT_FN_PRELU, RDT_S32, -3, 5, 0, -15}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static int64_t a, b, y[2 * N];
    const int64_t length = 1;
    const rdt_dtype t = cases[i].t;
    memcpy(&a, &cases[i].a, 8); /* little-endian: the low bytes are the value */
    memcpy(&b, &cases[i].b, 8);
    rdt_tensor in[2] = {rdt_tensor_dense(&a, t, 1, &length), rdt_tensor_dense(&b, t, 1, &length)};
    rdt_problem p = {.op = RDT_KOP_MAP,
                     .fn = cases[i].fn,
                     .n_in = 2,
                     .in = in,
                     .out = rdt_tensor_dense(y, t, 1, &length),
                     .acc = RDT_S32,
                     .epilogue = RDT_EPILOGUE_NONE};
    p.param[0] = cases[i].p;
    run_all(&p);
    if (memcmp(y, &cases[i].y, rdt_dtype_size(t)) != 0)
      fail_msg("%s of %s, case %zu", rdt_fn_info(cases[i].fn)->name, rdt_dtype_name(t), i);
  }
}

/* Every pair of datatypes, and what does not fit. */
static void test_cast(void **state) {
  static const double values[] = {0, 1, -1, 2.5, -2.5, 100, 127, 1e10, -1e10, NAN, INFINITY};
  static double x[16];
  static int64_t y[2 * N];
  const int64_t length = 11;
  (void)state;
  for (int from = 0; from < RDT_DTYPE_COUNT; from++)
    for (int to = 0; to < RDT_DTYPE_COUNT; to++) {
      for (int i = 0; i < 11; i++) rdt_store(x, (rdt_dtype)from, i, values[i]);
      rdt_tensor in = rdt_tensor_dense(x, (rdt_dtype)from, 1, &length);
      rdt_problem p = {.op = RDT_KOP_MAP,
                       .fn = RDT_FN_CAST,
                       .n_in = 1,
                       .in = &in,
                       .acc = RDT_F32,
                       .out = rdt_tensor_dense(y, (rdt_dtype)to, 1, &length),
                       .epilogue = RDT_EPILOGUE_NONE};
      run_all(&p);
      for (int i = 0; i < 11; i++) {
        const double a = rdt_load(x, (rdt_dtype)from, i), got = rdt_load(y, (rdt_dtype)to, i);
        unsigned char bits[8];
        if (rdt_dtype_is_float((rdt_dtype)to)) {
          rdt_store(bits, (rdt_dtype)to, 0, a);
          const double should = rdt_load(bits, (rdt_dtype)to, 0);
          assert_true(isnan(should) ? isnan(got) : got == should);
        } else if (to == RDT_BOOL) {
          assert_true(got == (a != 0));
        } else if (fabs(a) <= 127 && (to != RDT_U8 || a >= 0)) {
          assert_true(got == trunc(a));
        } else if (to == RDT_S32 && (isnan(a) || isinf(a))) {
          assert_true(got == (double)INT32_MIN);
        }
      }
    }
}

static void test_sweep(void **state) {
  static const rdt_fn fns[] = {RDT_FN_EXP,       RDT_FN_LOG,  RDT_FN_TANH, RDT_FN_ERF,      RDT_FN_SIGMOID, RDT_FN_GELU,
                               RDT_FN_GELU_TANH, RDT_FN_SILU, RDT_FN_MISH, RDT_FN_SOFTPLUS, RDT_FN_ELU};
  const char *asked = getenv("MATH_STEP");
  const uint64_t step = asked ? strtoull(asked, NULL, 10) : 99991;
  static const double param[RDT_PARAMS] = {1, 1};
  (void)state;
  for (size_t f = 0; f < sizeof fns / sizeof *fns; f++) {
    float x[512], y[512];
    for (uint64_t at = 0; at < UINT64_C(1) << 32;) {
      int n = 0;
      for (; n < 512 && at < UINT64_C(1) << 32; n++, at += step) {
        const uint32_t bits = (uint32_t)at;
        memcpy(&x[n], &bits, 4);
      }
      rdt_maps_generic.f32[fns[f]](y, (const void *const[]){x}, n, param);
      for (int i = 0; i < n; i++) check_value(fns[f], RDT_F32, x[i], y[i], one(fns[f], x[i], 1, 1));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats), cmocka_unit_test(test_integers),
                                     cmocka_unit_test(test_cast), cmocka_unit_test(test_sweep)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
