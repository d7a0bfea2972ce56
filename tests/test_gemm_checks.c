/* The checksum schemes of products: silent on clean data, loud and right about the place on planted faults, honest
 * about what cannot be checked, over dtypes, layouts, batches and degenerate shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/sums.h"
#include "schemes/checks.h"
#include "schemes/scheme.h"

static const char *const scheme_names[] = {"row", "col", "rowcol", "global", "tile"};
enum { SCHEMES = 5, LINES = 3 }; /* the first ones check lines */

static uint64_t seed = 7;
static double uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 33) / (double)(1u << 30) - 1.0;
}

/* ---- products to check ------------------------------------------------------------------------------------------ */

typedef enum view { PLAIN, PADDED, TRANSPOSED, SPREAD, VIEWS } view;

typedef struct product {
  rdt_problem p;
  rdt_tensor raw;
  rdt_operands o;
} product;

/* A batch of rows x cols in the asked layout, filled; batch <= 0: no batch axis. */
static rdt_tensor operand(rdt_dtype t, int64_t batch, int64_t rows, int64_t cols, view v, bool fill) {
  const int64_t ld = v == TRANSPOSED ? rows + 1 : v == SPREAD ? 2 * cols + 3 : v == PADDED ? cols + 5 : cols;
  const int64_t one = (v == TRANSPOSED ? cols : rows) * ld, size = (batch > 0 ? batch : 1) * one + 1;
  rdt_tensor x = rdt_tensor_matrix(NULL, t, rows, cols, v == TRANSPOSED ? cols : ld, 0);
  if (v == TRANSPOSED) x.stride[0] = 1, x.stride[1] = ld;
  if (v == SPREAD) x.stride[1] = 2;
  if (batch > 0) {
    x.rank = 3;
    x.shape[2] = cols, x.shape[1] = rows, x.shape[0] = batch;
    x.stride[2] = x.stride[1], x.stride[1] = x.stride[0], x.stride[0] = one;
  }
  x.data = rdt_calloc((size_t)size, rdt_dtype_size(t));
  for (int64_t i = 0; fill && i < size; ++i)
    rdt_store(x.data, t, i, rdt_dtype_is_float(t) ? uniform() : t == RDT_U8 ? 127 + 127 * uniform() : 127 * uniform());
  return x;
}

static int64_t offset_of(const rdt_tensor *t, int64_t batch, int64_t i, int64_t j) {
  const int r = t->rank;
  return (r > 2 ? batch * t->stride[0] : 0) + i * t->stride[r - 2] + j * t->stride[r - 1];
}

/* raw = A B, one term after the other, in the accumulator's precision. */
static void multiply(product *x) {
  const rdt_tensor *a = &x->p.in[0], *b = &x->p.in[1], *c = &x->raw;
  const int64_t batches = c->rank > 2 ? c->shape[0] : 1, k = a->shape[a->rank - 1];
  for (int64_t z = 0; z < batches; ++z)
    for (int64_t i = 0; i < c->shape[c->rank - 2]; ++i)
      for (int64_t j = 0; j < c->shape[c->rank - 1]; ++j) {
        double wide = 0;
        float narrow = 0;
        uint32_t whole = 0;
        for (int64_t t = 0; t < k; ++t) {
          const double u = rdt_load(a->data, a->dtype, offset_of(a, z, i, t));
          const double v = rdt_load(b->data, b->dtype, offset_of(b, z, t, j));
          wide += u * v;
          if (x->p.acc == RDT_S32)
            whole += (uint32_t)(int64_t)(u * v);
          else
            narrow += (float)u * (float)v;
        }
        rdt_store(c->data, c->dtype, offset_of(c, z, i, j),
                  x->p.acc == RDT_F64   ? wide
                  : x->p.acc == RDT_S32 ? (double)(int32_t)whole
                                        : (double)narrow);
      }
}

static product make(rdt_dtype ta, rdt_dtype tb, int64_t batch, int64_t m, int64_t n, int64_t k, view va, view vb,
                    view vc) {
  product x;
  assert_int_equal(rdt_problem_init(&x.p, RDT_KOP_GEMM, 2), RDT_OK);
  x.p.acc = ta == RDT_F64 ? RDT_F64 : rdt_dtype_is_float(ta) ? RDT_F32 : RDT_S32;
  x.p.in[0] = operand(ta, batch, m, k, va, true);
  x.p.in[1] = operand(tb, batch, k, n, vb, true);
  x.raw = operand(x.p.acc, batch, m, n, vc, false);
  x.p.out = x.raw;
  x.o = (rdt_operands){.in = x.p.in, .n_in = 2, .out = x.raw};
  multiply(&x);
  return x;
}

static void destroy(product *x) {
  rdt_free(x->p.in[0].data);
  rdt_free(x->p.in[1].data);
  rdt_free(x->raw.data);
  rdt_problem_clear(&x->p);
}

static const rdt_scheme *scheme_of(int i) {
  return rdt_scheme_find(scheme_names[i])->impl;
}

static void *state_of_sets(const rdt_scheme *s, const product *x, bool fixed, int sets, int threads) {
  void *state = NULL;
  rdt_reason why = {""};
  if (s->accept(&x->p, &why) != RDT_OK) fail_msg("%s", why.text);
  if (s->create(&x->p, fixed, 6.0, sets, threads, &state, &why) != RDT_OK) fail_msg("%s", why.text);
  return state;
}

static void *state_of(const rdt_scheme *s, const product *x, bool fixed, int threads) {
  return state_of_sets(s, x, fixed, 1, threads);
}

static rdt_findings verify(const rdt_scheme *s, void *state, const product *x, const rdt_tensor *fin) {
  rdt_findings f;
  rdt_reason why;
  rdt_findings_init(&f);
  assert_int_equal(s->verify(state, &x->o, fin, &f, &why), RDT_OK);
  return f;
}

static rdt_findings check_threads(int scheme, const product *x, int threads) {
  const rdt_scheme *s = scheme_of(scheme);
  void *state = state_of(s, x, true, threads);
  const rdt_findings f = verify(s, state, x, NULL);
  s->destroy(state);
  return f;
}

static rdt_findings check(int scheme, const product *x) {
  return check_threads(scheme, x, 1);
}

static const rdt_dtype dtypes[][2] = {{RDT_F64, RDT_F64},       {RDT_F32, RDT_F32},      {RDT_BF16, RDT_BF16},
                                      {RDT_F16, RDT_F16},       {RDT_S8, RDT_S8},        {RDT_U8, RDT_S8},
                                      {RDT_F8E4M3, RDT_F8E4M3}, {RDT_F8E5M2, RDT_F8E4M3}};
enum { DTYPES = 8 };

/* ---- clean data ------------------------------------------------------------------------------------------------- */

static void assert_clean(const rdt_findings *f, int64_t checks) {
  assert_int_equal(f->checks, checks);
  assert_int_equal(f->certain, 0);
  assert_int_equal(f->cannot, 0);
  assert_int_equal(f->suspects, 0);
}

static void test_clean(void **unused) {
  (void)unused;
  const int64_t m = 150, n = 141, k = 67, expected[SCHEMES] = {m, n, m + n, 1, 4};
  for (int d = 0; d < DTYPES; ++d)
    for (int v = 0; v < VIEWS; ++v) {
      product x =
          make(dtypes[d][0], dtypes[d][1], 0, m, n, k, (view)v, (view)((v + d) % VIEWS), (view)((v + 2 * d) % VIEWS));
      for (int s = 0; s < SCHEMES; ++s) {
        const rdt_findings f = check_threads(s, &x, 1 + v % 2);
        assert_clean(&f, expected[s]);
      }
      destroy(&x);
    }
}

static void test_clean_generic_isa(void **state) {
  const char *before = getenv("REDOUBT_ISA");
  char kept[32];
  snprintf(kept, sizeof kept, "%s", before ? before : "");
  setenv("REDOUBT_ISA", "generic", 1);
  test_clean(state);
  if (before)
    setenv("REDOUBT_ISA", kept, 1);
  else
    unsetenv("REDOUBT_ISA");
}

static void test_dynamic_weights_and_batches(void **unused) {
  (void)unused;
  const int64_t m = 9, n = 140, k = 33, batch = 3,
                expected[SCHEMES] = {batch * m, batch * n, batch * (m + n), batch, 2 * batch};
  for (int shared = 0; shared < 2; ++shared) {
    product x = make(RDT_F32, RDT_F32, batch, m, n, k, PLAIN, TRANSPOSED, PADDED);
    if (shared) x.p.in[1].stride[0] = 0;
    multiply(&x);
    for (int s = 0; s < SCHEMES; ++s)
      for (int fixed = 0; fixed < 2; ++fixed) {
        const rdt_scheme *impl = scheme_of(s);
        void *state = state_of(impl, &x, fixed, 1);
        rdt_findings f = verify(impl, state, &x, NULL);
        assert_clean(&f, expected[s]);
        float *victim = (float *)x.raw.data + offset_of(&x.raw, 2, 4, 5);
        const float good = *victim;
        *victim += 1.0f;
        f = verify(impl, state, &x, NULL);
        assert_true(f.suspects >= 1);
        if (s == 0) assert_int_equal(f.list[0].place[0], 2 * m + 4);
        if (s == 1) assert_int_equal(f.list[0].place[1], 5);
        *victim = good;
        impl->destroy(state);
      }
    destroy(&x);
  }
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static void assert_found(int s, const rdt_findings *f, int64_t i, int64_t j) {
  int64_t place[2];
  assert_true(f->suspects >= 1 && f->listed >= 1);
  rdt_findings_locate(f, place);
  if (s == 0 || s == 2) assert_int_equal(place[0], i);
  if (s == 1 || s == 2) assert_int_equal(place[1], j);
  if (s == 4) {
    assert_int_equal(place[0], i / 128 * 128);
    assert_int_equal(place[1], j / 128 * 128);
  }
}

static void test_faults_above_the_floor(void **unused) {
  (void)unused;
  const double sizes[] = {1.01, -3, 100, 1e6, INFINITY, NAN};
  const int64_t m = 140, n = 150, k = 50;
  for (int d = 0; d < DTYPES; ++d) {
    product x = make(dtypes[d][0], dtypes[d][1], 0, m, n, k, PLAIN, PLAIN, PLAIN);
    const bool whole = x.p.acc == RDT_S32;
    for (int s = 0; s < SCHEMES; ++s) {
      const rdt_findings clean = check(s, &x);
      for (int e = 0; e < (whole ? 3 : 6); ++e)
        for (int at = 0; at < 4; ++at) {
          const int64_t i = at & 1 ? 137 : 3, j = at & 2 ? 149 : 0, o = offset_of(&x.raw, 0, i, j);
          const double good = rdt_load(x.raw.data, x.raw.dtype, o);
          rdt_store(x.raw.data, x.raw.dtype, o, whole ? good + sizes[e] : good + sizes[e] * clean.floor);
          const rdt_findings f = check(s, &x);
          assert_found(s, &f, i, j);
          if (whole || !(fabs(sizes[e]) < 1e6)) assert_true(f.certain >= 1);
          rdt_store(x.raw.data, x.raw.dtype, o, good);
        }
    }
    destroy(&x);
  }
}

/* The same with two threads: enough elements for both. */
static void test_two_threads(void **unused) {
  (void)unused;
  const int64_t m = 270, n = 290, k = 20;
  for (int v = 0; v < VIEWS; ++v) {
    product x = make(RDT_F32, RDT_F32, 0, m, n, k, (view)v, PLAIN, (view)v);
    for (int s = 0; s < SCHEMES; ++s) {
      const rdt_findings clean = check_threads(s, &x, 2), again = check_threads(s, &x, 2);
      assert_int_equal(clean.suspects + clean.cannot, 0);
      assert_memory_equal(&clean.ratio, &again.ratio, sizeof clean.ratio);
      float *victim = (float *)x.raw.data + offset_of(&x.raw, 0, 200, 131);
      const float good = *victim;
      *victim += (float)(1.01 * clean.floor);
      const rdt_findings f = check_threads(s, &x, 2);
      assert_found(s, &f, 200, 131);
      *victim = good;
    }
    destroy(&x);
  }
}

/* Of the weights of f sets: faults of these sizes in the columns (rows) of a line, which all but the last set miss. */
static void cancel(int sets, const int64_t *at, int64_t n, uint64_t which, double *error) {
  double w[RDT_MOST_SETS][64], a[RDT_MOST_SETS][RDT_MOST_SETS + 1];
  assert_true(n <= 64);
  for (int s = 0; s < sets; ++s) rdt_checks_weights(w[s], n, n, which, s);
  for (int s = 0; s + 1 < sets; ++s) /* sum over i of w[s][at[i]] error[i] = 0 with error[sets - 1] = 1 */
    for (int i = 0; i < sets; ++i) a[s][i] = w[s][at[i]];
  for (int p = 0; p + 1 < sets; ++p) {
    int best = p;
    for (int s = p; s + 1 < sets; ++s)
      if (fabs(a[s][p]) > fabs(a[best][p])) best = s;
    for (int i = 0; i < sets; ++i) {
      const double t = a[p][i];
      a[p][i] = a[best][i];
      a[best][i] = t;
    }
    for (int s = 0; s + 1 < sets; ++s) {
      const double by = s == p ? 0.0 : a[s][p] / a[p][p];
      for (int i = 0; i < sets; ++i) a[s][i] -= by * a[p][i];
    }
  }
  error[sets - 1] = 1.0;
  for (int i = 0; i + 1 < sets; ++i) error[i] = -a[i][sets - 1] / a[i][i];
}

/* f faults in one line that the checks with fewer sets do not see: NAME:f does. */
static void test_faults_that_cancel(void **unused) {
  (void)unused;
  const int64_t m = 37, n = 41, k = 30;
  product x = make(RDT_F64, RDT_F64, 0, m, n, k, PLAIN, PLAIN, PLAIN);
  for (int s = 0; s < LINES; ++s)
    for (int sets = 2; sets <= RDT_MOST_SETS; ++sets)
      for (int across = 0; across < 2; ++across) { /* along a row, along a column */
        const rdt_scheme *impl = scheme_of(s);
        void *few = state_of_sets(impl, &x, true, sets - 1, 1), *all = state_of_sets(impl, &x, true, sets, 1);
        double error[RDT_MOST_SETS], kept[RDT_MOST_SETS];
        int64_t at[RDT_MOST_SETS];
        rdt_findings f = verify(impl, all, &x, NULL);
        assert_int_equal(f.suspects, 0);
        assert_int_equal(f.checks, sets * (s == 0 ? m : s == 1 ? n : m + n));
        for (int i = 0; i < sets; ++i) at[i] = 4 * i + 1;
        cancel(sets, at, across ? m : n, across ? 1 : 2, error);
        for (int i = 0; i < sets; ++i) {
          double *c = (double *)x.raw.data + (across ? at[i] * n + 7 : 7 * n + at[i]);
          kept[i] = *c;
          *c += error[i];
        }
        f = verify(impl, few, &x, NULL);
        if (s == across) assert_int_equal(f.suspects, 0);
        f = verify(impl, all, &x, NULL);
        assert_true(f.suspects >= 1);
        for (int i = 0; i < f.listed && s == across; ++i) assert_int_equal(f.list[i].place[across], 7);
        for (int i = 0; i < sets; ++i) ((double *)x.raw.data)[across ? at[i] * n + 7 : 7 * n + at[i]] = kept[i];
        impl->destroy(few);
        impl->destroy(all);
      }
  destroy(&x);
}

/* Any f columns of f sets are independent, also of neighbours and of the closest ones: two faults are seen. */
static void test_sets_are_independent(void **unused) {
  (void)unused;
  enum { N = 600 };
  static double w[2][N];
  for (int s = 0; s < 2; ++s) rdt_checks_weights(w[s], N, N, 2, s);
  double least = INFINITY;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < i; ++j) least = fmin(least, fabs(w[0][i] * w[1][j] - w[0][j] * w[1][i]));
  assert_true(least > 0.5 / N);
}

/* More sets: more is verified, more is kept, and every one of them is sealed and made again alike. */
static void test_sets_are_kept(void **unused) {
  (void)unused;
  product x = make(RDT_F32, RDT_F32, 3, 20, 30, 25, PLAIN, PLAIN, PLAIN);
  for (int s = 0; s < LINES; ++s) {
    const rdt_scheme *impl = scheme_of(s);
    for (int fixed = 0; fixed < 2; ++fixed) {
      void *one = state_of(impl, &x, fixed, 1), *three = state_of_sets(impl, &x, fixed, 3, 2), *data;
      size_t size[2];
      rdt_dtype t;
      rdt_reason why;
      impl->checksums(one, &data, &size[0], &t);
      impl->checksums(three, &data, &size[1], &t);
      assert_int_equal(size[1], 3 * size[0]);
      rdt_findings f = verify(impl, three, &x, NULL);
      assert_clean(&f, 3 * 3 * (s == 0 ? 20 : s == 1 ? 30 : 50));
      if (data && size[1] > 0) {
        double *last = (double *)data + 2 * (size[1] / sizeof *last) / 3;
        const double good = *last;
        *last += 1.0;
        assert_true(verify(impl, three, &x, NULL).suspects >= 1);
        assert_int_equal(impl->recreate(three, &x.p.in[1], &why), RDT_OK);
        assert_memory_equal(last, &good, sizeof good);
      }
      impl->destroy(one);
      impl->destroy(three);
    }
  }
  destroy(&x);
}

/* A wrong input of the kernel's own copy shows in the result: an element of A or B that the check reads but the kernel
 * did not (and the other way round). col does not claim the weights, yet reads them at run time. */
static void test_operand_faults(void **unused) {
  (void)unused;
  product x = make(RDT_F32, RDT_F32, 0, 40, 30, 20, PLAIN, PLAIN, PLAIN);
  for (int s = 0; s < SCHEMES; ++s) {
    const rdt_scheme *impl = scheme_of(s);
    void *state = state_of(impl, &x, true, 1);
    float *a = (float *)x.p.in[0].data + 7, *b = (float *)x.p.in[1].data + 11;
    const float a0 = *a, b0 = *b;
    *a += 0.5f;
    multiply(&x); /* the kernel saw another A than the check will */
    *a = a0;
    assert_true(verify(impl, state, &x, NULL).suspects >= 1);
    *b += 0.5f; /* rotted before the product, after the checksums were made */
    multiply(&x);
    const rdt_findings f = verify(impl, state, &x, NULL);
    if (rdt_scheme_find(scheme_names[s])->covers_weights) assert_true(f.suspects >= 1);
    *b = b0;
    multiply(&x);
    impl->destroy(state);
  }
  destroy(&x);
}

static void test_checksum_faults(void **unused) {
  (void)unused;
  product x = make(RDT_F32, RDT_F32, 0, 33, 40, 21, PLAIN, PLAIN, PLAIN);
  rdt_tensor fin = operand(RDT_F32, 0, 33, 40, PLAIN, false);
  const size_t bytes = 33 * 40 * sizeof(float);
  float *raw = rdt_alloc(bytes, 1);
  memcpy(raw, x.raw.data, bytes);
  for (int s = 0; s < SCHEMES; ++s) {
    const rdt_scheme *impl = scheme_of(s);
    void *state = state_of(impl, &x, true, 1), *data;
    size_t size;
    rdt_dtype t;
    rdt_reason why;
    impl->checksums(state, &data, &size, &t);
    assert_int_equal(data != NULL, s != 1); /* col keeps none */
    if (data) {
      assert_int_equal(t, RDT_F64);
      ((double *)data)[3] += 1.0;
      assert_true(verify(impl, state, &x, &fin).suspects >= 1);
      assert_memory_equal(x.raw.data, raw, bytes);
      assert_memory_equal(fin.data, raw, bytes);
      assert_int_equal(impl->recreate(state, &x.p.in[1], &why), RDT_OK);
    }
    assert_int_equal(verify(impl, state, &x, &fin).suspects, 0);
    impl->destroy(state);
  }
  rdt_free(raw);
  rdt_free(fin.data);
  destroy(&x);
}

/* ---- NaN, Inf, overflow, nothing -------------------------------------------------------------------------------- */

static void test_not_finite(void **unused) {
  (void)unused;
  const int64_t m = 40, n = 37, k = 19, cannot[SCHEMES][2] = {{1, m}, {n, 1}, {1 + n, m + 1}, {1, 1}, {1, 1}};
  for (int which = 0; which < 2; ++which) /* one bad element of A, of B */
    for (int bad = 0; bad < 2; ++bad) {
      product x = make(RDT_F32, RDT_F32, 0, m, n, k, PLAIN, PLAIN, PLAIN);
      ((float *)x.p.in[which].data)[5] = bad ? INFINITY : NAN;
      multiply(&x);
      for (int s = 0; s < SCHEMES; ++s) {
        const rdt_findings f = check(s, &x);
        assert_int_equal(f.cannot, cannot[s][which]);
        assert_int_equal(f.suspects, 0);
      }
      destroy(&x);
    }
}

static void test_overflow_is_not_a_fault(void **unused) {
  (void)unused;
  product x = make(RDT_F32, RDT_F32, 0, 20, 21, 22, PLAIN, PLAIN, PLAIN);
  for (int64_t i = 0; i < 20 * 22; ++i) ((float *)x.p.in[0].data)[i] *= 1e25f;
  for (int64_t i = 0; i < 21 * 22; ++i) ((float *)x.p.in[1].data)[i] *= 1e25f;
  multiply(&x);
  for (int s = 0; s < SCHEMES; ++s) {
    const rdt_findings f = check(s, &x);
    assert_int_equal(f.certain, 0);
    assert_int_equal(f.cannot, f.checks);
  }
  destroy(&x);
}

static void test_nothing(void **unused) {
  (void)unused;
  for (int zero = 0; zero < 3; ++zero) {
    product x = make(RDT_F32, RDT_F32, 0, zero == 0 ? 0 : 5, zero == 1 ? 0 : 6, zero == 2 ? 0 : 7, PLAIN, PLAIN, PLAIN);
    for (int s = 0; s < SCHEMES; ++s) {
      rdt_findings f = check(s, &x);
      assert_int_equal(f.suspects + f.cannot, 0);
      if (zero < 2) {
        assert_int_equal(f.checks, 0);
      } else { /* an empty sum is 0 */
        ((float *)x.raw.data)[3] = 1e-30f;
        f = check(s, &x);
        assert_true(f.certain >= 1);
        ((float *)x.raw.data)[3] = 0.0f;
      }
    }
    destroy(&x);
  }
}

/* Zeros, ones and huge or tiny scales: never a suspect. */
static void test_scales(void **unused) {
  (void)unused;
  const float scales[] = {0.0f, 1e-25f, 1e-12f, 1e12f, 1e18f};
  for (int k = 0; k < 5; ++k) {
    product x = make(RDT_F32, RDT_F32, 0, 30, 31, 32, PLAIN, PLAIN, PLAIN);
    for (int i = 0; i < 30 * 32; ++i) ((float *)x.p.in[0].data)[i] *= scales[k];
    for (int i = 0; i < 31 * 32; ++i) ((float *)x.p.in[1].data)[i] *= scales[k];
    multiply(&x);
    for (int s = 0; s < SCHEMES; ++s) assert_int_equal(check(s, &x).suspects, 0);
    destroy(&x);
  }
}

/* ---- epilogue in the pass, passes of the ISAs, cost ------------------------------------------------------------- */

static void test_epilogue_in_the_pass(void **unused) {
  (void)unused;
  const int64_t m = 65, n = 1100, k = 3;
  for (int v = 0; v < VIEWS; ++v) {
    product x = make(RDT_F32, RDT_F32, 2, m, n, k, PLAIN, PLAIN, (view)v);
    rdt_tensor fin = operand(RDT_F32, 2, m, n, PADDED, false), plain = operand(RDT_F32, 2, m, n, PADDED, false);
    rdt_epilogue e = RDT_EPILOGUE_NONE;
    e.alpha = 1.5, e.beta = 0.5, e.act.fn = RDT_FN_RELU;
    e.bias = operand(RDT_F32, 0, 1, n, PLAIN, true);
    e.bias = rdt_tensor_dense(e.bias.data, RDT_F32, 1, &n);
    e.residual = operand(RDT_F32, 2, m, n, TRANSPOSED, true);
    x.o.epilogue = &e;
    rdt_epilogue_apply(&e, &x.raw, &plain, 2, 1);
    for (int s = 0; s < SCHEMES; ++s) {
      const rdt_scheme *impl = scheme_of(s);
      void *state = state_of(impl, &x, true, 2);
      memset(fin.data, 0, (size_t)(2 * m * (n + 5)) * sizeof(float));
      assert_int_equal(verify(impl, state, &x, &fin).suspects, 0);
      assert_memory_equal(fin.data, plain.data, (size_t)(2 * m * (n + 5)) * sizeof(float));
      impl->destroy(state);
    }
    rdt_free(fin.data);
    rdt_free(plain.data);
    rdt_free(e.bias.data);
    rdt_free(e.residual.data);
    destroy(&x);
  }
}

/* Sides: 1 right, 2 left, 3 both. */
static void compare_sums(const rdt_tensor *x, int sides, int64_t block, int threads) {
  enum { N = 420 };
  static double w[N], q[N], sums[2][4][N * 14];
  const char *before = getenv("REDOUBT_ISA");
  for (int i = 0; i < N; ++i) w[i] = uniform(), q[i] = 1 + uniform();
  for (int isa = 0; isa < 2; ++isa) {
    rdt_sums s = {.x = *x};
    if (sides & 1) s.right = (rdt_side){{w, q}, {sums[isa][0], sums[isa][1]}, block};
    if (sides & 2) s.left = (rdt_side){{w, NULL}, {sums[isa][2], sums[isa][3]}, block};
    if (isa && !before) setenv("REDOUBT_ISA", "generic", 1);
    assert_int_equal(rdt_sums_run(&s, 1, isa ? 1 : threads), RDT_OK);
    if (isa && !before) unsetenv("REDOUBT_ISA");
  }
  const rdt_accumulator a = {.u = rdt_dtype_info(RDT_F64)->u};
  const double bound = rdt_gamma(&a, N) * 4 * N; /* |x| <= 1, |w| <= 1, q <= 2 */
  const int64_t rows = x->shape[0], cols = x->shape[1];
  for (int k = 0; k < 4; ++k)
    for (int64_t i = 0; i < (k < 2 ? rows * ((cols + block - 1) / block) : cols * ((rows + block - 1) / block)); ++i)
      if (!(fabs(sums[0][k][i] - sums[1][k][i]) <= bound)) fail_msg("sum %d at %ld differs", k, (long)i);
}

static void test_isas_agree(void **unused) {
  (void)unused;
  for (int d = 0; d < DTYPES - 2; ++d)
    for (int v = 0; v < VIEWS; ++v) {
      rdt_tensor x = operand(dtypes[d][0], 0, 413, 327, (view)v, true);
      for (int sides = 1; sides <= 3; ++sides) {
        compare_sums(&x, sides, 77, 1);
        compare_sums(&x, sides, 30, 2);
        compare_sums(&x, sides, 300, 2);
      }
      rdt_free(x.data);
    }
}

/* Sums of integers are those modulo 2^32, whatever the weights: along the rows and down the columns. */
static void compare_words(const rdt_tensor *x, int sides, int64_t block, int threads) {
  enum { N = 1100 };
  static double w[2][N], sums[4][N * 16];
  const int64_t rows = x->shape[0], cols = x->shape[1];
  rdt_sums s = {.x = *x, .modulo = true};
  for (int i = 0; i < N; ++i)
    for (int k = 0; k < 2; ++k) w[k][i] = floor(uniform() * 0x1p50);
  if (sides & 1) s.right = (rdt_side){{w[0], NULL}, {sums[0], sums[1]}, block};
  if (sides & 2) s.left = (rdt_side){{w[1], NULL}, {sums[2], sums[3]}, block};
  assert_int_equal(rdt_sums_run(&s, 1, threads), RDT_OK);
  for (int side = 0; side < 2; ++side) {
    const int64_t lines = side ? cols : rows, length = side ? rows : cols;
    for (int64_t at = 0; (sides >> side & 1) && at < length; at += block)
      for (int64_t i = 0; i < lines; ++i) {
        uint32_t sum = 0;
        for (int64_t t = at; t < at + block && t < length; ++t)
          sum += (uint32_t)rdt_load_int(x->data, x->dtype, side ? offset_of(x, 0, t, i) : offset_of(x, 0, i, t)) *
                 (uint32_t)(int64_t)w[side][t];
        if (rdt_checks_modulo(sums[2 * side][at / block * lines + i]) != sum)
          fail_msg("side %d: sum %ld of block %ld", side, (long)i, (long)(at / block));
      }
  }
}

static void test_words(void **unused) {
  static const rdt_dtype integers[] = {RDT_S8, RDT_U8, RDT_S32};
  static const int64_t shapes[][2] = {{13, 1100}, {301, 7}, {64, 129}};
  (void)unused;
  for (int d = 0; d < 3; ++d)
    for (int v = 0; v < VIEWS; ++v)
      for (int i = 0; i < 3; ++i) {
        rdt_tensor x = operand(integers[d], 0, shapes[i][0], shapes[i][1], (view)v, true);
        rdt_iter it = rdt_iter_begin(&x);
        while (d == 2 && rdt_iter_next(&it)) ((int32_t *)x.data)[it.offset] = (int32_t)(uniform() * 0x1p31);
        for (int sides = 1; sides <= 3; ++sides) {
          compare_words(&x, sides, 2000, 1);
          compare_words(&x, sides, 77, 2);
        }
        rdt_free(x.data);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean),
                                     cmocka_unit_test(test_clean_generic_isa),
                                     cmocka_unit_test(test_dynamic_weights_and_batches),
                                     cmocka_unit_test(test_faults_above_the_floor),
                                     cmocka_unit_test(test_two_threads),
                                     cmocka_unit_test(test_faults_that_cancel),
                                     cmocka_unit_test(test_sets_are_independent),
                                     cmocka_unit_test(test_sets_are_kept),
                                     cmocka_unit_test(test_operand_faults),
                                     cmocka_unit_test(test_checksum_faults),
                                     cmocka_unit_test(test_not_finite),
                                     cmocka_unit_test(test_overflow_is_not_a_fault),
                                     cmocka_unit_test(test_nothing),
                                     cmocka_unit_test(test_scales),
                                     cmocka_unit_test(test_epilogue_in_the_pass),
                                     cmocka_unit_test(test_isas_agree),
                                     cmocka_unit_test(test_words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
