/* Faults in what checks: no single one hides a bad result, harms a good one, or goes by another name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check/verdict.h"
#include "core/memory.h"
#include "plan/plan.h"
#include "util_problem.h"
#include "util_sample.h"

/* ---- the second bound ---- */

static double uniform(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(*seed >> 11) * 0x1p-53;
}

/* Never below the first one, whatever was measured; and not far above where nothing is capped. */
static void the_second_bound_covers_the_first(void **state) {
  static const rdt_dtype types[] = {RDT_F64, RDT_F32, RDT_BF16};
  uint64_t seed = 1;
  int close = 0;
  (void)state;
  for (int i = 0; i < 20000; i++) {
    const rdt_dtype in = types[i % 3], acc = rdt_dtype_accumulator(in);
    rdt_tolerance t = {.acc = rdt_accumulator_of(in, acc),
                       .k = 1 + (int64_t)exp(uniform(&seed) * 10.0),
                       .u_check = i % 2 ? 0x1p-53 : 0x1p-24,
                       .depth_sum = i % 5 ? 0 : 40,
                       .depth_dot = i % 7 ? 0 : 20,
                       .u_beta = i % 2 ? 0x1p-53 : 0x1p-24,
                       .depth_beta = i % 4 ? 0 : 30,
                       .lambda = 1.0 + 8.0 * uniform(&seed)};
    if (i % 6 == 0) t.acc.depth = 1 + (int64_t)(uniform(&seed) * 200.0);
    const int64_t n = 1 + (int64_t)exp(uniform(&seed) * 9.0);
    const double q = exp(60.0 * (uniform(&seed) - 0.5)), c2 = q * exp(4.0 * (uniform(&seed) - 0.5));
    rdt_terms m = {.n = n,
                   .abs_c = NAN,
                   .c2 = c2,
                   .s = sqrt((double)n * c2) * (uniform(&seed) - 0.5),
                   .ag = i % 8 ? NAN : sqrt((double)n * (double)t.k * q) * uniform(&seed),
                   .q = q,
                   .dot = sqrt((double)n * c2) * (uniform(&seed) - 0.5),
                   .a_beta = NAN,
                   .q_beta = i % 3 ? NAN : q * (double)n * uniform(&seed),
                   .m2 = NAN,
                   .sbar = NAN};
    const rdt_bound b = rdt_bound_of(&t, &m);
    const rdt_squared factors = rdt_squared_of(&t, n);
    const double squared = rdt_squared_at(&factors, &m);
    assert_true(b.tau2 * b.tau2 <= squared);
    close += squared <= 1.5 * b.tau2 * b.tau2;
  }
  assert_true(close > 10000);
}

/* Also where squares overflow, or nothing is known of them: one bound that is finite has another that is no less. */
static void the_second_bound_is_there_with_the_first(void **state) {
  static const double values[] = {0.0, 1.0, 1e20, 1e160, INFINITY, NAN};
  enum { VALUES = sizeof values / sizeof *values };
  (void)state;
  for (int type = 0; type < 2; type++)
    for (int which = 0; which < VALUES * VALUES * VALUES * VALUES * VALUES; which++) {
      double pick[5];
      for (int j = 0, rest = which; j < 5; j++, rest /= VALUES) pick[j] = values[rest % VALUES];
      const rdt_tolerance t = {.acc = rdt_accumulator_of(type ? RDT_F64 : RDT_F32, type ? RDT_F64 : RDT_F32),
                               .k = 50,
                               .u_check = 0x1p-53,
                               .lambda = 6.0};
      const rdt_terms m = {.n = 20,
                           .abs_c = 1.0,
                           .c2 = pick[0],
                           .s = 1.0,
                           .ag = pick[1],
                           .q = pick[2],
                           .dot = 1.0,
                           .a_beta = pick[3],
                           .q_beta = pick[4],
                           .m2 = NAN,
                           .sbar = NAN};
      const rdt_bound b = rdt_bound_of(&t, &m);
      const rdt_squared factors = rdt_squared_of(&t, m.n);
      if (isfinite(b.tau0) && isfinite(b.tau2) && !(b.tau2 * b.tau2 <= rdt_squared_at(&factors, &m)))
        fail_msg("c2 %g, ag %g, q %g, a_beta %g, q_beta %g: %g, squared %g", m.c2, m.ag, m.q, m.a_beta, m.q_beta,
                 b.tau2, rdt_squared_at(&factors, &m));
    }
}

/* ---- counters ---- */

static rdt_findings some(int failed, int without_bound) {
  rdt_findings f;
  rdt_findings_init(&f);
  for (int i = 0; i < 20; i++) rdt_findings_check(&f, RDT_CHECK_ROW, i, -1, 1.0 + 0.01 * i, 1.0, (rdt_bound){9.0, 1.0});
  for (int i = 0; i < failed; i++)
    rdt_findings_check(&f, RDT_CHECK_ROW, i, -1, i % 2 ? NAN : 5.0, 1.0, (rdt_bound){9.0, 1.0});
  for (int i = 0; i < without_bound; i++)
    rdt_findings_check(&f, RDT_CHECK_ROW, i, -1, 5.0, 1.0, (rdt_bound){INFINITY, INFINITY});
  return f;
}

static void no_bit_of_a_counter_makes_bad_good(void **state) {
  (void)state;
  for (int failed = 0; failed < 3; failed++)
    for (int cannot = 0; cannot < 2; cannot++) {
      const rdt_findings good = some(failed, cannot);
      assert_true(rdt_findings_agree(&good));
      assert_int_equal(rdt_findings_complain(&good), failed > 0 || cannot > 0);
      for (int counter = 0; counter < 5; counter++)
        for (int bit = 0; bit < 64; bit++) {
          rdt_findings f = good;
          (&f.checks)[counter] ^= (int64_t)(UINT64_C(1) << bit);
          assert_true(rdt_findings_complain(&f)); /* a clean one too: each of its counters is known twice */
        }
    }
}

static void findings_add_up(void **state) {
  rdt_findings all = some(0, 0);
  const rdt_findings bad = some(2, 1);
  (void)state;
  rdt_findings_merge(&all, &bad);
  assert_true(rdt_findings_agree(&all));
  assert_int_equal(~all.seconded, 40);
  rdt_findings_init(&all);
  rdt_findings_bits(&all, 100, 0, -1);
  assert_false(rdt_findings_complain(&all));
  rdt_findings_bits(&all, 100, 3, 17);
  assert_true(rdt_findings_agree(&all));
  assert_int_equal(all.suspects, 1);
  for (int which = 0; which < 2; which++) { /* half of the answer is none */
    rdt_findings_init(&all);
    rdt_findings_bits(&all, 100, which ? 3 : 0, which ? -1 : 17);
    assert_false(rdt_findings_agree(&all));
  }
}

/* ---- verdicts ---- */

static void no_bit_of_a_verdict_counts(void **state) {
  (void)state;
  for (int v = RDT_CLEAN; v <= RDT_DETECTED; v++)
    for (int word = 0; word < 3; word++)
      for (int bit = 0; bit < 32; bit++) {
        rdt_ruling r = rdt_ruling_clean();
        bool hit;
        rdt_ruling_raise(&r, (rdt_verdict)v);
        rdt_ruling_raise(&r, RDT_CLEAN);
        assert_int_equal(rdt_ruling_read(&r, &hit), v);
        assert_false(hit);
        (&r.plain)[word] ^= 1u << bit;
        assert_int_equal(rdt_ruling_read(&r, &hit), v);
        assert_true(hit || (word == 2 && bit < v)); /* a lesser one was told too: nothing is lost */
        assert_int_equal(rdt_ruling_read(&r, &hit), v);
        assert_false(hit && word != 2);
      }
}

static void without_two_alike_it_is_detected(void **state) {
  rdt_ruling r = rdt_ruling_clean();
  bool hit;
  (void)state;
  r.plain ^= 1u;
  r.inverted ^= 2u;
  assert_int_equal(rdt_ruling_read(&r, &hit), RDT_DETECTED);
  assert_true(hit);
}

/* ---- vaults ---- */

static void a_vault_gives_back_what_was_put_in(void **state) {
  uint64_t a[5] = {1, 2, 3, 4, 5}, b[2] = {6, 7};
  const uint64_t kept[5] = {1, 2, 3, 4, 5};
  char odd[3] = {8, 9, 10};
  rdt_vault v = {0};
  (void)state;
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_INTACT); /* empty */
  assert_int_equal(rdt_vault_add(&v, a, sizeof a), RDT_OK);
  assert_int_equal(rdt_vault_add(&v, b, sizeof b), RDT_OK);
  assert_int_equal(rdt_vault_add(&v, odd, sizeof odd), RDT_OK);
  assert_int_equal(rdt_vault_add(&v, NULL, 8), RDT_OK);
  assert_int_equal(rdt_vault_close(&v), RDT_OK);
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_INTACT);
  assert_int_equal(rdt_vault_bytes(&v), sizeof a + sizeof b + sizeof odd);
  for (size_t bit = 0; bit < 8 * sizeof a; bit++) {
    a[bit / 64] ^= UINT64_C(1) << bit % 64;
    assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_RESTORED);
    assert_memory_equal(a, kept, sizeof a);
  }
  odd[2] ^= 64;
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_RESTORED);
  assert_int_equal(odd[2], 10);
  memcpy(a, (uint64_t[]){2, 1, 3, 4, 5}, sizeof a); /* swapped */
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_RESTORED);
  rdt_vault_clear(&v);
}

/* The vault's own words, its list and its copy. */
static void a_vault_guards_itself(void **state) {
  uint64_t a[5] = {1, 2, 3, 4, 5};
  rdt_vault v = {0};
  (void)state;
  assert_int_equal(rdt_vault_add(&v, a, sizeof a), RDT_OK);
  assert_int_equal(rdt_vault_add(&v, a, 8), RDT_OK);
  assert_int_equal(rdt_vault_close(&v), RDT_OK);
  for (size_t bit = 0; bit < 8 * sizeof v.lid; bit++) {
    ((unsigned char *)&v.lid)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_RESTORED);
    assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_INTACT);
  }
  for (size_t bit = 0; bit < 8 * sizeof *v.lid.parts; bit++) {
    ((unsigned char *)v.lid.parts)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_RESTORED);
    assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_INTACT);
  }
  const size_t at = 2 * sizeof *v.lid.parts + 3; /* in the copy of the first word */
  v.lid.copy[at] ^= 4;
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_INTACT); /* nobody needs it */
  a[0] ^= 1;
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_LOST);
  a[0] ^= 1;
  v.spare.n ^= 1, v.lid.n ^= 2;
  assert_int_equal(rdt_vault_secure(&v), RDT_VAULT_LOST);
  v.spare.n ^= 1, v.lid.n ^= 2;
  rdt_vault_clear(&v);
}

/* ---- whole plans ---- */

typedef struct seen {
  rdt_diagnosis diagnosis;
  int events;
} seen;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  s->diagnosis = e->diagnosis;
  s->events++;
}

static rdt_context *context(const char *scheme, int threads, seen *log) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_context *ctx;
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  rdt_context_on_event(ctx, on_event, log);
  return ctx;
}

static rdt_tensor filled(rdt_dtype t, int rank, const int64_t *shape, uint64_t seed) {
  rdt_tensor x = rdt_tensor_dense(NULL, t, rank, shape);
  const int64_t n = rdt_tensor_count(&x);
  x.data = rdt_calloc((size_t)n, rdt_dtype_size(t));
  for (int64_t i = 0; i < n; i++)
    rdt_store(x.data, t, i, rdt_dtype_is_float(t) ? uniform(&seed) - 0.5 : floor(uniform(&seed) * 9.0));
  return x;
}

/* A plan, what it works on, and what became of it. */
typedef struct trial {
  seen log;
  rdt_context *ctx;
  rdt_tensor in, weights, out;
  rdt_plan *p;
  rdt_result r;
} trial;

static void open_product(trial *t, const char *scheme, int threads, rdt_dtype in, rdt_dtype out, int64_t m) {
  *t = (trial){.ctx = context(scheme, threads, &t->log)};
  t->in = filled(in, 2, (int64_t[]){m, 30}, 1);
  t->weights = filled(in, 2, (int64_t[]){30, 40}, 2);
  t->out = filled(out, 2, (int64_t[]){m, 40}, 3);
  assert_int_equal(rdt_plan_gemm(t->ctx, &t->in, &t->weights, &t->out, &t->p), RDT_OK);
}

static void close_case(trial *t) {
  rdt_plan_destroy(t->p);
  rdt_context_destroy(t->ctx);
  rdt_free(t->in.data), rdt_free(t->weights.data), rdt_free(t->out.data);
}

static rdt_status execute(trial *t) {
  return rdt_plan_execute(t->p, &t->in, &t->out, &t->r);
}

static int each(void) {
  return util_one_in(1, 3);
}

/* Every way of every site of what checks: the same bits, told as the checker's. What recovery computes is told as what
 * is computed, and hit so that its checks see it. */
static void attack(trial *t, int *planted, int *found) {
  static const char *const kinds[] = {"bit:62", "bit", "bit:1", "random", "bit:51", "zero"};
  rdt_plan *p = t->p;
  seen *log = &t->log;
  const size_t bytes = rdt_tensor_bytes(&t->out);
  void *clean = rdt_alloc(bytes, 1);
  const rdt_result *r = &t->r;
  assert_int_equal(execute(t), RDT_OK);
  assert_int_equal(r->verdict, RDT_CLEAN);
  const int64_t checks = r->checks;
  memcpy(clean, t->out.data, bytes);
  for (int site = 0; site < RDT_SITE_COUNT; site++)
    for (int seed = 0; seed < 30 / each() && rdt_site_checks((rdt_site)site) && rdt_plan_has_site(p, (rdt_site)site);
         seed++) {
      char spec[64];
      const bool again = site == RDT_SITE_RECOVERY;
      const rdt_diagnosis told = again ? RDT_DIAG_PERSISTENT : RDT_DIAG_CHECKER;
      snprintf(spec, sizeof spec, "%s@%s,seed=%d", kinds[again ? 0 : seed % 6], rdt_site_name((rdt_site)site), seed);
      assert_int_equal(rdt_plan_inject(p, spec), RDT_OK);
      log->events = 0;
      memset(t->out.data, 0, bytes);
      if (execute(t) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(p->ctx));
      if (!p->injection->done) fail_msg("%s: not planted, scheme %s", spec, rdt_plan_scheme(p));
      assert_memory_equal(clean, t->out.data, bytes);
      *planted += 1;
      *found += r->faults > 0;
      assert_true(r->verdict == RDT_CLEAN || r->verdict == RDT_RECOMPUTED);
      assert_int_equal(r->verdict == RDT_RECOMPUTED, r->faults > 0);
      if (r->checks < 1 || r->checks > 4 * checks || r->suspects < 0 || r->suspects > r->checks || r->unchecked < 0 ||
          r->unchecked > r->checks)
        fail_msg("%s: %s, scheme %s, counts %lld checks, %lld suspects, %lld without a bound", spec, p->injection->text,
                 rdt_plan_scheme(p), (long long)r->checks, (long long)r->suspects, (long long)r->unchecked);
      const bool plan = site == RDT_SITE_PLAN && r->diagnosis == RDT_DIAG_MEMORY;
      const bool as_told =
          (log->diagnosis == told && r->diagnosis == told) || (again && r->diagnosis == RDT_DIAG_TRANSIENT);
      if (r->faults > 0 && !plan && !as_told)
        fail_msg("%s: %s told as %s, scheme %s", spec, p->injection->text, rdt_diagnosis_name(r->diagnosis),
                 rdt_plan_scheme(p));
      if (site == RDT_SITE_VERDICT && strncmp(spec, "zero", 4) != 0)
        assert_true(r->faults > 0 || p->injection->element == 2);
      log->events = 0;
      assert_int_equal(execute(t), RDT_OK); /* nothing stays behind */
      assert_int_equal(r->verdict, RDT_CLEAN);
      assert_int_equal(r->checks, checks);
      assert_int_equal(log->events, 0);
    }
  rdt_free(clean);
}

static void products_survive_their_checkers(void **state) {
  static const char *const schemes[] = {"auto",    "row",     "col",       "rowcol",     "global", "tile",
                                        "thread1", "thread2", "replicate", "replicate1", "row:2",  "dup"};
  static const struct { rdt_dtype in, out; } types[] = {{RDT_F32, RDT_F32}, {RDT_F64, RDT_F64}, {RDT_U8, RDT_S32}};
  int planted = 0, found = 0;
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
      trial x;
      open_product(&x, schemes[s], 1 + (int)(t % 2), types[t].in, types[t].out, 90);
      attack(&x, &planted, &found);
      close_case(&x);
    }
  assert_true(planted * each() > 2000);
  assert_true(found > planted / 4);
}

static void convolutions_survive_their_checkers(void **state) {
  static const char *const schemes[] = {"auto", "fc", "ic", "fic", "dup"};
  int planted = 0, found = 0;
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++)
    for (int threads = 1; threads < 3; threads++) {
      const rdt_conv_params params = {.stride = {1, 1}, .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1};
      trial t = {.ctx = context(schemes[s], threads, &t.log)};
      t.in = filled(RDT_F32, 4, (int64_t[]){2, 3, 9, 9}, 1);
      t.weights = filled(RDT_F32, 4, (int64_t[]){8, 3, 3, 3}, 2);
      t.out = filled(RDT_F32, 4, (int64_t[]){2, 8, 9, 9}, 3);
      assert_int_equal(rdt_plan_conv(t.ctx, &t.in, &t.weights, &t.out, &params, &t.p), RDT_OK);
      attack(&t, &planted, &found);
      close_case(&t);
    }
  assert_true(planted * each() > 500);
  assert_true(found > planted / 4);
}

/* ---- a checker that never agrees with itself ---- */

static const rdt_scheme *honest;

static rdt_status undecided(void *state, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f,
                            rdt_reason *why) {
  RDT_TRY(honest->verify(state, o, fin, f, why));
  f->seconded++; /* one less */
  return RDT_OK;
}

static void who_never_agrees_lets_nothing_pass(void **state) {
  trial t;
  (void)state;
  open_product(&t, "rowcol:2", 1, RDT_F32, RDT_F32, 20);
  rdt_plan *p = t.p;
  const rdt_scheme_info *kept = p->scheme;
  rdt_scheme_info info = *kept;
  rdt_scheme broken = *info.impl;
  honest = info.impl;
  broken.verify = undecided;
  info.impl = &broken;
  p->scheme = &info;
  assert_int_equal(rdt_plan_seal(p, NULL, 0), RDT_OK);
  assert_int_equal(execute(&t), RDT_ERR_FAULT);
  assert_int_equal(t.r.verdict, RDT_DETECTED);
  assert_true(t.log.events >= 2); /* the checker's fault, and that it could not be settled */
  p->scheme = kept;
  assert_int_equal(rdt_plan_seal(p, NULL, 0), RDT_OK);
  assert_int_equal(execute(&t), RDT_OK);
  assert_int_equal(t.r.verdict, RDT_CLEAN);
  close_case(&t);
}

/* Plan and copy spoilt: it says so, and touches nothing. Signs that changed and make no check cry come back on
 * schedule. */
static void plans_are_sealed(void **state) {
  trial t;
  (void)state;
  open_product(&t, "rowcol", 1, RDT_F32, RDT_F32, 20);
  rdt_plan *p = t.p;
  double *sign = rdt_vault_word(&p->tables, 0);
  assert_true(*sign == 1.0 || *sign == -1.0);
  const double kept = *sign;
  *sign *= 1.0 + 0x1p-50; /* far below any bound */
  int runs = 0;
  do {
    assert_int_equal(execute(&t), RDT_OK);
    runs++;
  } while (t.r.verdict == RDT_CLEAN && runs < 40);
  assert_int_equal(t.r.verdict, RDT_RECOMPUTED);
  assert_int_equal(t.r.diagnosis, RDT_DIAG_CHECKER);
  assert_true(*sign == kept);
  assert_in_range(runs, 1, 16);
  t.ctx->policy.scrub_every = 1;
  p->threads ^= 2;
  assert_int_equal(execute(&t), RDT_OK);
  assert_int_equal(t.r.verdict, RDT_RECOMPUTED);
  assert_int_equal(t.r.diagnosis, RDT_DIAG_MEMORY);
  assert_int_equal(p->threads, 1);
  p->threads ^= 2;
  p->frame.lid.copy[rdt_vault_bytes(&p->frame)] ^= 1;
  assert_int_equal(execute(&t), RDT_ERR_FAULT);
  assert_int_equal(t.r.verdict, RDT_DETECTED);
  assert_non_null(strstr(rdt_context_error(t.ctx), "copy"));
  p->threads ^= 2;
  assert_int_equal(execute(&t), RDT_OK);
  assert_int_equal(t.r.verdict, RDT_CLEAN);
  close_case(&t);
}

/* What C held is restored from C while that is possible, and otherwise C is not handed out as right. */
static void what_c_held_is_verified(void **state) {
  (void)state;
  for (int seed = 0; seed < 20; seed++) {
    seen log = {0};
    rdt_context *ctx = context(seed % 2 ? "auto" : "dup", 1, &log);
    rdt_tensor a = filled(RDT_F32, 2, (int64_t[]){9, 30}, 1), b = filled(RDT_F32, 2, (int64_t[]){30, 40}, 2);
    rdt_tensor c = filled(RDT_F32, 2, (int64_t[]){9, 40}, 3), d = filled(RDT_F32, 2, (int64_t[]){9, 40}, 3);
    char spec[64];
    rdt_result r;
    assert_int_equal(rdt_gemm(ctx, 2.0, &a, &b, 0.5, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    snprintf(spec, sizeof spec, "bit@input,seed=%d", seed);
    assert_int_equal(rdt_gemm_struck(ctx, 2.0, &a, &b, 0.5, &d, &r, spec), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(r.diagnosis, RDT_DIAG_MEMORY);
    assert_memory_equal(c.data, d.data, 9 * 40 * sizeof(float));
    snprintf(spec, sizeof spec, "bit@output,seed=%d", seed);
    assert_int_equal(rdt_gemm_struck(ctx, 2.0, &a, &b, 0.5, &d, &r, spec), RDT_ERR_FAULT);
    assert_int_equal(r.verdict, RDT_DETECTED);
    assert_int_equal(log.diagnosis, RDT_DIAG_MEMORY);
    assert_int_equal(log.events, 2);
    rdt_context_destroy(ctx);
    rdt_free(a.data), rdt_free(b.data), rdt_free(c.data), rdt_free(d.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_second_bound_covers_the_first),
                                     cmocka_unit_test(the_second_bound_is_there_with_the_first),
                                     cmocka_unit_test(no_bit_of_a_counter_makes_bad_good),
                                     cmocka_unit_test(findings_add_up),
                                     cmocka_unit_test(no_bit_of_a_verdict_counts),
                                     cmocka_unit_test(without_two_alike_it_is_detected),
                                     cmocka_unit_test(products_survive_their_checkers),
                                     cmocka_unit_test(convolutions_survive_their_checkers),
                                     cmocka_unit_test(who_never_agrees_lets_nothing_pass),
                                     cmocka_unit_test(a_vault_gives_back_what_was_put_in),
                                     cmocka_unit_test(a_vault_guards_itself),
                                     cmocka_unit_test(plans_are_sealed),
                                     cmocka_unit_test(what_c_held_is_verified)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
