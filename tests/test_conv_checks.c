/* fc, ic and fic over dtypes, geometries and layouts: quiet on clean data, loud and at the right place on faults. The
 * raw outputs come from the reference kernels. */
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
#include "cpu/conv_sums.h"
#include "cpu/epilogue.h"
#include "schemes/scheme.h"
#include "util_problem.h"

typedef struct dtypes {
  rdt_dtype x, w, raw;
} dtypes;
static const dtypes kinds[] = {{RDT_F32, RDT_F32, RDT_F32}, {RDT_F64, RDT_F64, RDT_F64}, {RDT_BF16, RDT_BF16, RDT_F32},
                               {RDT_F16, RDT_F16, RDT_F32}, {RDT_S8, RDT_S8, RDT_S32},   {RDT_U8, RDT_S8, RDT_S32},
                               {RDT_U8, RDT_U8, RDT_S32}};
#define KINDS (sizeof kinds / sizeof kinds[0])

typedef struct named {
  const char *name;
  const rdt_scheme *impl;
} named;
static const named schemes[] = {{"fc", &rdt_scheme_fc}, {"ic", &rdt_scheme_ic}, {"fic", &rdt_scheme_fic}};
enum { FC, IC, FIC, SCHEMES };

static void run_reference(const util_case *c) {
  const rdt_kernel *k = rdt_cpu_reference(&c->p);
  rdt_reason why;
  void *state = NULL;
  assert_non_null(k);
  assert_int_equal(k->create(&c->p, 1, &state, &why), RDT_OK);
  const rdt_operands o = {.in = c->p.in, .n_in = 2, .out = c->p.out};
  assert_int_equal(k->run(state, &o, &why), RDT_OK);
  k->destroy(state);
}

static void *plan(const util_case *c, int scheme, bool fixed, int threads) {
  rdt_reason why;
  void *state = NULL;
  assert_int_equal(schemes[scheme].impl->accept(&c->p, &why), RDT_OK);
  assert_int_equal(schemes[scheme].impl->create(&c->p, fixed, 6.0, 1, threads, &state, &why), RDT_OK);
  return state;
}

static rdt_findings check(const util_case *c, int scheme, void *state, const rdt_tensor *fin) {
  rdt_findings f;
  rdt_reason why;
  rdt_findings_init(&f);
  const rdt_operands o = {.in = c->p.in, .n_in = 2, .out = c->p.out, .epilogue = &c->p.epilogue};
  assert_int_equal(schemes[scheme].impl->verify(state, &o, fin, &f, &why), RDT_OK);
  return f;
}

static rdt_findings check_once(const util_case *c, int scheme, bool fixed, int threads) {
  void *state = plan(c, scheme, fixed, threads);
  const rdt_findings f = check(c, scheme, state, NULL);
  schemes[scheme].impl->destroy(state);
  return f;
}

static int64_t checks_of(const util_case *c, int scheme) {
  const int64_t *y = c->p.out.shape;
  if (rdt_tensor_count(&c->p.out) == 0) return 0;
  return scheme == FC ? y[0] * rdt_tensor_pixels(&c->p.out) : scheme == IC ? y[0] * y[1] : y[0];
}

/* Operands that repeat themselves round alike: the statistical bound does not hold for them, the rigorous one does. */
static bool repeats(const util_case *c) {
  for (int i = 0; i < 2; i++)
    for (int d = 0; d < c->in[i].rank; d++)
      if (c->in[i].stride[d] == 0 && c->in[i].shape[d] > 1) return true;
  return false;
}

static void expect_quiet(const util_case *c, int scheme, const rdt_findings *f) {
  char x[96], w[96];
  const bool quiet = f->cannot == 0 && f->certain == 0 && (f->suspects == 0 || repeats(c));
  if (!quiet)
    print_error("%s of %s with %s, %d groups: ratio %g, %lld suspects, %lld certain, %lld cannot\n",
                schemes[scheme].name, rdt_tensor_text(&c->p.in[0], x, sizeof x),
                rdt_tensor_text(&c->p.in[1], w, sizeof w), (int)c->p.window.groups, f->ratio, (long long)f->suspects,
                (long long)f->certain, (long long)f->cannot);
  assert_true(quiet);
  assert_int_equal(f->checks, checks_of(c, scheme));
}

static void make(util_case *c, util_random *r, size_t kind, bool plain) {
  rdt_reason why;
  util_case_make(c, r, RDT_KOP_CONV, kinds[kind].x, kinds[kind].w, kinds[kind].raw, plain);
  assert_int_equal(rdt_problem_check(&c->p, &why), RDT_OK);
  run_reference(c);
}

/* A fixed geometry, channels-last as the fast path has it. */
typedef struct geometry {
  int spatial;
  int64_t n, ic, oc, image[3];
  rdt_window window;
} geometry;

static const geometry geometries[] = {
    {2, 1, 64, 64, {14, 14}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false}},
    {2, 3, 16, 24, {9, 11}, {{1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1, false}},
    {2, 2, 16, 8, {10, 9}, {{1, 1}, {2, 3}, {1, 1}, {0}, {0}, 1, false}},
    {2, 1, 3, 13, {21, 20}, {{7, 7}, {2, 2}, {1, 1}, {3, 3}, {2, 3}, 1, false}},
    {2, 2, 12, 12, {8, 8}, {{3, 3}, {1, 2}, {2, 3}, {2, 3}, {2, 3}, 12, false}},
    {2, 1, 20, 30, {6, 7}, {{2, 5}, {1, 1}, {1, 1}, {0, 2}, {1, 2}, 5, false}},
    {2, 5, 1, 8, {8, 8}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false}},
    {2, 2, 5, 7, {2, 3}, {{5, 6}, {1, 1}, {1, 1}, {2, 3}, {2, 3}, 1, false}},
    {2, 9, 130, 33, {1, 1}, {{1, 1}, {1, 1}, {1, 1}, {0}, {0}, 1, false}},
    {2, 1, 4, 4, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, {4, 4}, {4, 4}, 1, false}},
    {3, 1, 16, 24, {6, 7, 8}, {{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, false}},
    {3, 3, 3, 8, {9, 10, 11}, {{5, 3, 7}, {2, 1, 2}, {1, 2, 1}, {2, 0, 3}, {1, 3, 2}, 1, false}},
    {3, 2, 12, 6, {5, 4, 6}, {{2, 1, 3}, {1, 3, 1}, {3, 1, 1}, {0, 0, 1}, {2, 1, 0}, 6, false}},
    {3, 1, 20, 9, {3, 2, 2}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {3, 0, 1}, {0, 2, 1}, 1, false}},
    {1, 2, 24, 16, {50}, {{5}, {2}, {3}, {6}, {5}, 2, false}},
};
#define GEOMETRIES (sizeof geometries / sizeof geometries[0])

static void make_fixed(util_case *c, util_random *r, size_t kind, const geometry *g) {
  *c = (util_case){0};
  assert_int_equal(rdt_problem_init(&c->p, RDT_KOP_CONV, 2), RDT_OK);
  rdt_free(c->p.in);
  c->p.in = c->in;
  c->p.window = g->window;
  c->p.acc = kinds[kind].raw;
  const rdt_window *w = &g->window;
  int64_t x[5] = {g->n, g->ic}, f[5] = {g->oc, g->ic / w->groups}, y[5] = {g->n, g->oc};
  for (int d = 0; d < g->spatial; d++) {
    const int64_t room = g->image[d] + w->before[d] + w->after[d] - (w->kernel[d] - 1) * w->dilation[d] - 1;
    x[2 + d] = g->image[d];
    f[2 + d] = w->kernel[d];
    y[2 + d] = room < 0 ? 0 : room / w->stride[d] + 1;
  }
  c->in[0] = util_view(c, r, kinds[kind].x, 2 + g->spatial, x, UTIL_CHANNELS_LAST);
  c->in[1] = util_view(c, r, kinds[kind].w, 2 + g->spatial, f, UTIL_DENSE);
  c->p.out = util_view(c, r, kinds[kind].raw, 2 + g->spatial, y, UTIL_CHANNELS_LAST);
  rdt_reason why;
  assert_int_equal(rdt_problem_check(&c->p, &why), RDT_OK);
  run_reference(c);
}

static void quiet_everywhere(util_case *c) {
  for (int s = 0; s < SCHEMES; s++)
    for (int threads = 1; threads <= 3; threads++) {
      const rdt_findings f = check_once(c, s, threads != 2, threads);
      expect_quiet(c, s, &f);
    }
}

static void test_clean_random(void **state) {
  (void)state;
  util_random r = {11};
  for (size_t kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < 60; i++) {
      util_case c;
      make(&c, &r, kind, i % 2 == 0);
      quiet_everywhere(&c);
      util_case_free(&c);
    }
}

static void test_clean_geometries(void **state) {
  (void)state;
  util_random r = {12};
  for (size_t kind = 0; kind < KINDS; kind++)
    for (size_t g = 0; g < GEOMETRIES; g++) {
      util_case c;
      make_fixed(&c, &r, kind, &geometries[g]);
      quiet_everywhere(&c);
      util_case_free(&c);
    }
}

static int64_t offset_of(const rdt_tensor *t, const int64_t *i) {
  int64_t offset = 0;
  for (int d = 0; d < t->rank; d++) offset += i[d] * t->stride[d];
  return offset;
}

static void pick_output(util_random *r, const rdt_tensor *t, int64_t *i) {
  for (int d = 0; d < t->rank; d++) i[d] = (int64_t)(util_next(r) % (uint64_t)t->shape[d]);
}

/* Is there a suspect of the right kind at the place that the scheme names for output i? */
static bool located(const rdt_findings *f, int scheme, const rdt_tensor *y, const int64_t *i) {
  int64_t row = scheme == FC ? i[0] : -1;
  for (int d = 2; scheme == FC && d < y->rank; d++) row = row * y->shape[d] + i[d];
  const int64_t col = scheme == IC ? i[1] : -1;
  const rdt_check_kind kind = scheme == FC ? RDT_CHECK_ROW : scheme == IC ? RDT_CHECK_COL : RDT_CHECK_SCALAR;
  return f->suspects == 1 && f->listed == 1 && f->list[0].kind == kind && f->list[0].place[0] == row &&
         f->list[0].place[1] == col;
}

static void plant_and_expect(util_case *c, util_random *r, int scheme) {
  const rdt_tensor *y = &c->p.out;
  void *state = plan(c, scheme, true, 2);
  for (int round = 0; round < 4; round++) {
    const rdt_findings clean = check(c, scheme, state, NULL);
    int64_t i[5];
    pick_output(r, y, i);
    const int64_t at = offset_of(y, i);
    const double before = rdt_load(y->data, y->dtype, at);
    double after;
    if (y->dtype == RDT_S32)
      after = (double)((int32_t)before ^ (int32_t)(1u << util_next(r) % 32));
    else
      after = round == 3 ? NAN : before + (round % 2 ? 1.25 : -1.25) * (round == 2 ? 1e6 : 1.0) * clean.floor;
    rdt_store(y->data, y->dtype, at, after);
    const rdt_findings f = check(c, scheme, state, NULL);
    if (!located(&f, scheme, y, i)) {
      char x[96], w[96];
      print_error("%s of %s with %s, %d groups, round %d: %g instead of %g is not found alone: ratio %g, %d listed\n",
                  schemes[scheme].name, rdt_tensor_text(&c->p.in[0], x, sizeof x),
                  rdt_tensor_text(&c->p.in[1], w, sizeof w), (int)c->p.window.groups, round, after, before, f.ratio,
                  f.listed);
    }
    assert_true(located(&f, scheme, y, i));
    if (round >= 2) assert_int_equal(f.certain, 1);
    rdt_store(y->data, y->dtype, at, before);
  }
  schemes[scheme].impl->destroy(state);
}

static void test_faults(void **state) {
  (void)state;
  util_random r = {13};
  for (size_t kind = 0; kind < KINDS; kind++)
    for (int i = 0; i < 40 + (int)GEOMETRIES; i++) {
      util_case c;
      if (i < (int)GEOMETRIES)
        make_fixed(&c, &r, kind, &geometries[i]);
      else
        make(&c, &r, kind, false);
      /* without products the outputs are exact zeros, and so are bound and floor */
      const bool trivial = rdt_tensor_count(&c.p.out) == 0 || rdt_tensor_count(&c.p.in[1]) == 0 || repeats(&c);
      for (int s = 0; s < SCHEMES && !trivial; s++) {
        const rdt_findings clean = check_once(&c, s, true, 1);
        if (clean.floor > 0.0 || c.p.acc == RDT_S32) plant_and_expect(&c, &r, s);
      }
      util_case_free(&c);
    }
}

/* A swap of two pixels and a pair of opposite errors: unsigned sums would miss them. The signs of two places are equal
 * half of the time, so most pairs must be found. */
static void test_pairs(void **state) {
  (void)state;
  util_random r = {14};
  util_case c;
  make_fixed(&c, &r, 0, &geometries[0]);
  for (int s = 0; s < SCHEMES; s++) {
    void *st = plan(&c, s, true, 1);
    const rdt_findings clean = check(&c, s, st, NULL);
    int found = 0;
    for (int round = 0; round < 40; round++) {
      int64_t i[4], j[4];
      pick_output(&r, &c.p.out, i);
      memcpy(j, i, sizeof i);
      j[s == IC ? 3 : 1] = (i[s == IC ? 3 : 1] + 1 + round % 12) % c.p.out.shape[s == IC ? 3 : 1];
      const int64_t at[2] = {offset_of(&c.p.out, i), offset_of(&c.p.out, j)};
      float *y = c.p.out.data;
      const float before[2] = {y[at[0]], y[at[1]]};
      y[at[0]] += (float)(10 * clean.floor);
      y[at[1]] -= (float)(10 * clean.floor);
      found += check(&c, s, st, NULL).suspects > 0;
      y[at[0]] = before[0];
      y[at[1]] = before[1];
    }
    assert_true(found >= 10);
    schemes[s].impl->destroy(st);
  }
  util_case_free(&c);
}

/* A fault in a stored checksum is noticed, changes no data, and recreate heals it. */
static void test_checksum_faults(void **state) {
  (void)state;
  util_random r = {15};
  for (size_t kind = 0; kind < KINDS; kind++) {
    util_case c;
    make_fixed(&c, &r, kind, &geometries[0]);
    const size_t bytes = (size_t)rdt_tensor_count(&c.p.out) * rdt_dtype_size(c.p.out.dtype);
    void *copy = malloc(bytes);
    memcpy(copy, c.p.out.data, bytes);
    for (int s = 0; s < SCHEMES; s++) {
      const rdt_scheme *impl = schemes[s].impl;
      void *st = plan(&c, s, true, 1), *data = NULL;
      size_t size = 0;
      rdt_dtype dtype = RDT_BOOL;
      rdt_reason why;
      impl->checksums(st, &data, &size, &dtype);
      assert_true(s == IC ? (c.p.acc == RDT_S32) == (size == 0) : size > 0);
      if (size > 0) {
        void *sums = malloc(size);
        memcpy(sums, data, size);
        const int64_t first = c.p.in[1].shape[2] * c.p.in[1].shape[3] * c.p.in[0].shape[1];
        const int64_t at = (int64_t)(util_next(&r) % (uint64_t)(s == IC ? (int64_t)(size / 8) : first));
        if (dtype == RDT_S32)
          ((uint32_t *)data)[at] ^= 1u << 20;
        else
          ((double *)data)[at] = ((double *)data)[at] * 1000.0 + 1000.0;
        const rdt_findings f = check(&c, s, st, NULL);
        if (s != IC) assert_true(f.suspects > 0);
        assert_memory_equal(copy, c.p.out.data, bytes);
        assert_int_equal(impl->recreate(st, &c.p.in[1], &why), RDT_OK);
        assert_memory_equal(sums, data, size);
        free(sums);
      }
      const rdt_findings again = check(&c, s, st, NULL);
      expect_quiet(&c, s, &again);
      impl->destroy(st);
    }
    free(copy);
    util_case_free(&c);
  }
}

/* Weights that rot after create: the filter checksum remembers them, the input checksum sums with the rotten ones. */
static void test_rotten_weight(void **state) {
  (void)state;
  util_random r = {16};
  for (size_t kind = 0; kind < KINDS; kind++) {
    util_case c;
    make_fixed(&c, &r, kind, &geometries[0]);
    for (int s = 0; s < SCHEMES; s++) {
      void *st = plan(&c, s, true, 2);
      const int64_t at = (int64_t)(util_next(&r) % (uint64_t)rdt_tensor_count(&c.p.in[1]));
      const double before = rdt_load(c.p.in[1].data, c.p.in[1].dtype, at);
      rdt_store(c.p.in[1].data, c.p.in[1].dtype, at,
                c.p.acc == RDT_S32 ? before < 64 ? before + 32 : before - 32 : 8.0);
      run_reference(&c);
      const rdt_findings f = check(&c, s, st, NULL);
      assert_int_equal(f.suspects > 0, s != IC);
      rdt_store(c.p.in[1].data, c.p.in[1].dtype, at, before);
      run_reference(&c);
      schemes[s].impl->destroy(st);
    }
    util_case_free(&c);
  }
}

static void test_not_finite(void **state) {
  (void)state;
  util_random r = {17};
  static const double bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t kind = 0; kind < 4; kind++)
    for (int b = 0; b < 3; b++)
      for (int which = 0; which < 2; which++) { /* 0: input, 1: weight */
        util_case c;
        const geometry two = {2, 2, 8, 6, {9, 9}, {{3, 3}, {1, 1}, {1, 1}, {0}, {0}, 2, false}};
        make_fixed(&c, &r, kind, &two);
        const rdt_tensor *t = &c.p.in[which];
        const int64_t mid[2][4] = {{1, 1, 4, 4}, {2, 1, 1, 1}};
        rdt_store(t->data, t->dtype, offset_of(t, mid[which]), bad[b]);
        run_reference(&c);
        for (int s = 0; s < SCHEMES; s++) {
          const rdt_findings f = check_once(&c, s, true, 2);
          /* input: 9 windows; the 3 channels of its group; its image. Weight: every window; its channel; every image */
          const int64_t expected = which == 0 ? (s == FC ? 9 : s == IC ? 3 : 1) : (s == FC ? 98 : 2);
          assert_int_equal(f.cannot, expected);
          assert_int_equal(f.suspects, 0);
          assert_int_equal(f.checks, checks_of(&c, s));
        }
        util_case_free(&c);
      }
}

/* Whether padding meets a weight is the kernel's choice: one that is not a number leaves no bound to what sees nothing
 * but padding either. */
static void test_not_finite_in_the_padding(void **state) {
  (void)state;
  util_random r = {22};
  static const double bad[] = {NAN, INFINITY, -INFINITY};
  static const geometry wide = {2, 2, 4, 6, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, {4, 4}, {4, 4}, 1, false}};
  for (size_t kind = 0; kind < 4; kind++)
    for (int b = 0; b < 3; b++)
      for (int met = 0; met < 2; met++) {
        util_case c;
        make_fixed(&c, &r, kind, &wide);
        const int64_t weight[4] = {2, 1, 0, 0}, pixel[4] = {1, 2, 0, 0};
        rdt_store(c.p.in[1].data, c.p.in[1].dtype, offset_of(&c.p.in[1], weight), bad[b]);
        run_reference(&c);
        rdt_store(c.p.out.data, c.p.out.dtype, offset_of(&c.p.out, pixel), met ? NAN : 0.0);
        for (int s = 0; s < SCHEMES; s++)
          for (int fixed = 0; fixed < 2; fixed++) {
            const rdt_findings f = check_once(&c, s, fixed, 2);
            assert_int_equal(f.suspects, 0);
            assert_int_equal(f.cannot, s == IC ? 2 : checks_of(&c, s));
          }
        util_case_free(&c);
      }
}

/* Inputs whose products overflow: correct outputs may be Inf, so Inf proves nothing. */
static void test_overflow(void **state) {
  (void)state;
  util_random r = {18};
  util_case c;
  make_fixed(&c, &r, 0, &geometries[1]);
  for (int i = 0; i < 2; i++)
    for (int64_t e = 0; e < rdt_tensor_count(&c.p.in[i]); e++) ((float *)c.in[i].data)[e] *= 1e30f;
  run_reference(&c);
  for (int s = 0; s < SCHEMES; s++) {
    const rdt_findings f = check_once(&c, s, true, 1);
    assert_int_equal(f.cannot, f.checks);
  }
  /* Large and tiny data without overflow are as quiet as any. */
  static const float scales[][2] = {{1e-18f, 1e-3f}, {1e28f, 1e-18f}, {1e12f, 1e4f}};
  for (int t = 0; t < 3; t++) {
    util_case_free(&c);
    make_fixed(&c, &r, 0, &geometries[0]);
    for (int i = 0; i < 2; i++)
      for (int64_t e = 0; e < rdt_tensor_count(&c.p.in[i]); e++) ((float *)c.in[i].data)[e] *= scales[t][i];
    run_reference(&c);
    quiet_everywhere(&c);
  }
  util_case_free(&c);
}

/* Where no output overflows but sums of floats do, sums in double check all the same. */
static void test_large(void **state) {
  (void)state;
  util_random r = {23};
  static const double scales[][2] = {{1e38, 1e-2}, {3e38, 1e-20}};
  static const size_t large[] = {0, 2}; /* f32, bf16 */
  for (size_t k = 0; k < 2; k++)
    for (size_t g = 0; g < GEOMETRIES; g++)
      for (int t = 0; t < 2; t++) {
        util_case c;
        make_fixed(&c, &r, large[k], &geometries[g]);
        for (int i = 0; i < 2; i++)
          for (int64_t e = 0; e < rdt_tensor_count(&c.p.in[i]); e++)
            rdt_store(c.in[i].data, c.in[i].dtype, e, rdt_load(c.in[i].data, c.in[i].dtype, e) * scales[t][i]);
        run_reference(&c);
        for (int s = IC; s < SCHEMES; s++) {
          const rdt_findings f = check_once(&c, s, true, 2), clean = check_once(&c, s, false, 1);
          expect_quiet(&c, s, &f);
          expect_quiet(&c, s, &clean);
          if (rdt_tensor_count(&c.p.out) == 0 || !(clean.floor > 0.0)) continue;
          const double before = rdt_load(c.p.out.data, c.p.out.dtype, 0);
          rdt_store(c.p.out.data, c.p.out.dtype, 0, before + 1.25 * clean.floor);
          assert_int_equal(check_once(&c, s, true, 1).suspects, 1);
          rdt_store(c.p.out.data, c.p.out.dtype, 0, before);
        }
        util_case_free(&c);
      }
}

static void test_epilogue_in_the_pass(void **state) {
  (void)state;
  util_random r = {19};
  for (size_t kind = 0; kind < 4; kind++)
    for (int i = 0; i < 24; i++) {
      util_case c;
      make(&c, &r, kind, i % 2 == 0);
      if (rdt_tensor_count(&c.p.out) > 0) {
        util_case_epilogue(&c, &r, true);
        const rdt_dtype to = i % 3 == 0 ? kinds[kind].x : kinds[kind].raw;
        util_case want = {0}, got = {0};
        want.p.out = util_view(&want, &r, to, c.p.out.rank, c.p.out.shape, UTIL_DENSE);
        got.p.out = util_view(&got, &r, to, c.p.out.rank, c.p.out.shape, UTIL_DENSE);
        rdt_epilogue_apply(&c.p.epilogue, &c.p.out, &want.p.out, 1, 1);
        for (int s = 0; s < SCHEMES; s++) {
          void *st = plan(&c, s, true, 1 + i % 3);
          memset(got.out_base, 0xff, got.out_bytes);
          const rdt_findings f = check(&c, s, st, &got.p.out);
          expect_quiet(&c, s, &f);
          assert_memory_equal(want.out_base, got.out_base, want.out_bytes);
          schemes[s].impl->destroy(st);
        }
        for (int b = 0; b < want.n_buffers; b++) free(want.buffers[b]);
        for (int b = 0; b < got.n_buffers; b++) free(got.buffers[b]);
      }
      util_case_free(&c);
    }
}

/* Every instruction set gives the sums of the generic one; integers small enough make all sums but those of the squares
 * exact. */
static void test_isa(void **state) {
  (void)state;
  util_random r = {20};
  static const rdt_dtype accs[] = {RDT_F32, RDT_F64, RDT_S32};
  enum { PIXELS = 2 * RDT_CONV_CHUNK + 5, CHANNELS = 77, TAPS = 7 };
  static double x[PIXELS * CHANNELS], w[TAPS * CHANNELS], coef[PIXELS * TAPS], out[2][PIXELS * TAPS + TAPS * CHANNELS];
  for (int a = 0; a < 3; a++)
    for (int64_t channels = 1; channels <= CHANNELS; channels += 1 + channels / 9) {
      const rdt_conv_sums *const sets[2] = {rdt_conv_sums_of(RDT_ISA_GENERIC, accs[a]),
                                            rdt_conv_sums_of(rdt_isa_detect(), accs[a])};
      const bool exact = accs[a] == RDT_S32;
      const rdt_dtype sum = sets[0]->sum;
      const size_t bytes = rdt_dtype_size(sum);
      const rdt_accumulator acc = rdt_accumulator_of(accs[a], accs[a]);
      const double u = 2.0 * rdt_gamma(&acc, RDT_CONV_CHUNK + 2);
      double mag[2][3 * PIXELS + 2 * CHANNELS] = {{0}};
      const void *rows[TAPS];
      for (int64_t i = 0; i < PIXELS * channels; i++) rdt_store(x, accs[a], i, floor(util_uniform(&r) * 0x1p18));
      for (int64_t i = 0; i < TAPS * CHANNELS; i++) rdt_store(w, sum, i, floor(util_uniform(&r) * 0x1p18));
      for (int64_t i = 0; i < PIXELS * TAPS; i++) rdt_store(coef, accs[a], i, (double)(util_next(&r) % 3) - 1.0);
      for (int i = 0; i < TAPS; i++) rows[i] = (char *)w + (size_t)(i * CHANNELS) * bytes;
      for (int taps = 1; taps <= TAPS; taps++) {
        for (int i = 0; i < 2; i++)
          sets[i]->columns(x, channels, channels, PIXELS, coef, taps, out[i], exact || taps == 1 ? NULL : mag[i],
                           exact ? NULL : mag[i] + channels);
        assert_memory_equal(out[0], out[1], (size_t)(taps * channels) * bytes);
        for (int i = 0; i < 2; i++) sets[i]->dots(x, channels, channels, PIXELS, rows, taps, out[i]);
        assert_memory_equal(out[0], out[1], (size_t)(taps * PIXELS) * bytes);
      }
      for (int64_t i = 0; i < 2 * channels; i++) assert_true(fabs(mag[0][i] - mag[1][i]) <= u * mag[0][i]);
      for (int i = 0; i < 2; i++) sets[i]->add(out[i], w, -1, TAPS * channels);
      assert_memory_equal(out[0], out[1], (size_t)(TAPS * channels) * bytes);
      if (exact) continue;
      double typed[3 * CHANNELS], *const rows3[3] = {typed, typed + CHANNELS, typed + 2 * CHANNELS};
      for (int64_t i = 0; i < channels; i++)
        for (int j = 0; j < 3; j++) rdt_store(rows3[j], accs[a], i, w[j * CHANNELS + i]);
      for (int plain = 0; plain < 2; plain++) {
        for (int i = 0; i < 2; i++)
          sets[i]->mags(x, channels, channels, PIXELS, plain ? NULL : rows3[0], rows3[1], rows3[2], mag[i]);
        for (int64_t i = 0; i < PIXELS; i++) {
          double want[3] = {0.0}, size[3] = {0.0};
          for (int64_t c = 0; c < channels; c++) {
            const double e = fabs(rdt_load(x, accs[a], i * channels + c)), square = e * e;
            const double terms[3] = {plain ? e : e * w[c], plain ? square : square * w[CHANNELS + c],
                                     plain ? 0.0 : square * w[2 * CHANNELS + c]};
            for (int j = 0; j < 3; j++) want[j] += terms[j], size[j] += fabs(terms[j]);
          }
          for (int k = 0; k < 2; k++)
            for (int j = 0; j < 3; j++) assert_true(fabs(mag[k][3 * i + j] - want[j]) <= 2.0 * u * size[j]);
        }
      }
    }
}

static void test_generic_isa(void **state) {
  setenv("REDOUBT_ISA", "generic", 1);
  test_clean_geometries(state);
  test_faults(state);
  unsetenv("REDOUBT_ISA");
}

static void test_repeatable(void **state) {
  (void)state;
  util_random r = {21};
  util_case c;
  make_fixed(&c, &r, 0, &geometries[0]);
  for (int s = 0; s < SCHEMES; s++) {
    const rdt_findings a = check_once(&c, s, true, 2), b = check_once(&c, s, true, 2);
    assert_memory_equal(&a.ratio, &b.ratio, sizeof a.ratio);
    assert_true(a.ratio > 0.0 && a.ratio < 1.0);
    assert_true(a.floor > 0.0);
  }
  util_case_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_clean_random),
      cmocka_unit_test(test_clean_geometries),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_checksum_faults),
      cmocka_unit_test(test_rotten_weight),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_not_finite_in_the_padding),
      cmocka_unit_test(test_overflow),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_isa),
      cmocka_unit_test(test_epilogue_in_the_pass),
      cmocka_unit_test(test_generic_isa),
      cmocka_unit_test(test_repeatable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
