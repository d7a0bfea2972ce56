#include "plan/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "core/memory.h"
#include "cpu/threads.h"

char rdt_weights_to_come[1];

enum { QUALIFY = 3, MOST_TRIALS = 61, USUAL = 31, ENOUGH = 21, LEAST = 5 };
/* Who takes so many times as long as the best of his group by himself is not compared any further: on a busy machine a
 * sample may be off by half. */
static const double hopeless = 1.5;
/* Bytes of weights whose copies add up: below, the system is not asked for each candidate what is left. */
static const double scarce = 64e6;
/* Seconds of a run that is not repeated before the others are known. */
static const double lengthy = 0.05;

/* ---- caches ---- */

void rdt_cache_flush(const void *data, size_t bytes) {
#ifdef __x86_64__
  const char *p = data;
  _mm_mfence();
  for (size_t i = 0; i < bytes; i += 64) _mm_clflush(p + i);
  _mm_mfence();
#elif defined __aarch64__
  const char *p = data;
  for (size_t i = 0; i < bytes; i += 64) __asm__ volatile("dc civac, %0" ::"r"(p + i) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
#else
  (void)data, (void)bytes;
#endif
}

bool rdt_weights_are_cold(double bytes) {
  const double cache = rdt_cpu_cache();
  return bytes > 0.5 * cache; /* the other half is the activations' */
}

/* ---- data ---- */

typedef struct operands {
  rdt_problem prob; /* as it is planned, with data of its own */
  rdt_tensor in[2]; /* as it is run */
  void *owned[8];
  int n_owned;
} operands;

static double draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int32_t)(*seed >> 32) * 0x1p-31;
}

static void fill(void *data, rdt_dtype t, int64_t n, uint64_t *seed) {
  float *f = data;
  unsigned char *b = data;
  if (t == RDT_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)draw(seed);
  else if (t == RDT_S8 || t == RDT_U8)
    for (int64_t i = 0; i < n; i++) b[i] = (unsigned char)(int)(64.0 + 63.0 * draw(seed));
  else
    for (int64_t i = 0; i < n; i++) rdt_store(data, t, i, (rdt_dtype_is_float(t) ? 1.0 : 100.0) * draw(seed));
}

/* Memory of all that the view's strides reach. */
static rdt_status give(operands *x, rdt_tensor *t, uint64_t *seed, rdt_reason *why) {
  int64_t least = 0, most = 0, n;
  const int64_t size = (int64_t)rdt_dtype_size(t->dtype);
  bool bad = false;
  if (t->rank < 0) return RDT_OK;
  for (int d = 0; d < t->rank && rdt_tensor_count(t) > 0; d++) {
    int64_t reach;
    bad = bad || __builtin_mul_overflow(t->shape[d] - 1, t->stride[d], &reach) ||
          __builtin_add_overflow(reach < 0 ? least : most, reach, reach < 0 ? &least : &most);
  }
  bad = bad || __builtin_sub_overflow(most, least, &n) || __builtin_add_overflow(n, 1, &n);
  char *data = bad ? NULL : rdt_alloc((size_t)n, (size_t)size);
  if (!data) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for data to measure with");
  x->owned[x->n_owned++] = data;
  fill(data, t->dtype, n, seed);
  t->data = data - least * size;
  return RDT_OK;
}

static double bytes_of(const rdt_tensor *t) {
  return t->rank < 0 ? 0.0 : (double)rdt_tensor_count(t) * (double)rdt_dtype_size(t->dtype);
}

/* Memory that is promised and not there ends the process, or another one: a raw result and one packed copy of the
 * weights come to the operands. */
static rdt_status expect_room(const rdt_problem *p, rdt_reason *why) {
  const double needs = bytes_of(&p->in[0]) + 2.0 * bytes_of(&p->in[1]) + 2.0 * bytes_of(&p->out) +
                       bytes_of(&p->epilogue.residual),
               free = rdt_memory_available();
  if (needs <= free) return RDT_OK;
  return rdt_fail(
      why, RDT_ERR_NOMEM,
      "to measure it takes some %.3g GB, and %.3g GB are free: a smaller input or batch, or --policy model, "
      "which goes by estimates",
      1e-9 * needs, 1e-9 * free);
}

static rdt_status make_operands(operands *x, const rdt_problem *p, rdt_reason *why) {
  uint64_t seed = 1;
  *x = (operands){0};
  RDT_TRY(expect_room(p, why));
  RDT_TRY(rdt_problem_copy(&x->prob, p));
  rdt_epilogue *e = &x->prob.epilogue;
  const bool fixed = p->in[1].data != NULL;
  rdt_tensor *all[] = {&x->prob.in[0], &x->prob.in[1], &x->prob.out, &e->bias, &e->residual, &e->factor};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) RDT_TRY(give(x, all[i], &seed, why));
  for (int i = 0; i < 2; i++) x->in[i] = x->prob.in[i];
  if (!fixed) x->prob.in[1].data = NULL;
  return RDT_OK;
}

static void clear_operands(operands *x) {
  rdt_problem_clear(&x->prob);
  for (int i = 0; i < x->n_owned; i++) rdt_free(x->owned[i]);
}

/* ---- candidates ---- */

typedef struct runner {
  const struct profiler *all;
  int offer;
  rdt_plan *plan;
  int group;
  double samples[QUALIFY];
  int n_samples;
  double best;
  bool late; /* there was no time for it */
} runner;

/* Compared among themselves: what may be chosen, what protects but may not, and what does not protect. */
enum { MAY, MAY_NOT, UNPROTECTED, GROUPS };

typedef struct profiler {
  const rdt_context *caller;
  rdt_context *ctx;
  const rdt_profile *how;
  operands x;
  rdt_offers offers;
  runner *list;
  int n;
  double least[GROUPS]; /* best time so far */
  double begun;
} profiler;

static void flush(void *user) {
  const runner *r = user;
  const rdt_plan *p = r->plan;
  void *const states[2] = {p->state, p->twin};
  size_t bytes;
  rdt_dtype dtype;
  for (int i = 0; i < 2; i++) {
    const void *data = rdt_plan_packed(p, states[i], &bytes, &dtype);
    if (data) rdt_cache_flush(data, bytes);
  }
  const rdt_tensor *w = &r->all->x.in[1];
  rdt_cache_flush(w->data, (size_t)rdt_tensor_count(w) * rdt_dtype_size(w->dtype));
}

static int run(void *user) {
  runner *r = user;
  const operands *x = &r->all->x;
  rdt_result result;
  const rdt_operands o = {.in = x->in, .n_in = 2, .out = x->prob.out, .epilogue = &x->prob.epilogue};
  return (int)rdt_plan_run(r->plan, &o, &result);
}

static int group_of(const rdt_offer *x) {
  return x->way.scheme->id == RDT_SCHEME_NONE ? UNPROTECTED : x->eligible ? MAY : MAY_NOT;
}

static void add_case(const profiler *f, rdt_timing *t, runner *r) {
  const int at = rdt_timing_add(t, f->offers.list[r->offer].way.kernel->name, run, r);
  if (f->how->cold && f->x.prob.in[1].data) t->cases[at].before = flush;
}

static void prepare(const profiler *f, rdt_timing *t, int trials) {
  rdt_timing_init(t, trials);
  t->warm_up = 1;
  t->min_seconds = 1e-3;
  snprintf(t->what, sizeof t->what, "%.60s", f->how->what ? f->how->what : "");
  t->turn = 2 * f->how->turn + 1; /* the first half is qualifying */
  t->turns = f->how->turns > 0 ? 2 * f->how->turns : 2;
}

static bool is_hopeless(const profiler *f, const runner *r) {
  return !(r->best <= hopeless * f->least[r->group]);
}

static void take(profiler *f, runner *r, const double *samples, int n) {
  double best = INFINITY;
  for (int i = 0; i < n; i++) best = fmin(best, samples[i]);
  if (!(best < r->best)) return;
  memcpy(r->samples, samples, (size_t)n * sizeof *samples);
  r->n_samples = n;
  r->best = best;
  f->least[r->group] = fmin(f->least[r->group], best);
}

/* A run by itself, and a few more where that is soon done or may lead. false: it is out, because it fails or is
 * hopeless. */
static bool qualify(profiler *f, runner *r) {
  rdt_timing t;
  const rdt_way *w = &f->offers.list[r->offer].way;
  const double copy = bytes_of(&f->x.prob.in[1]);
  if (copy > scarce && 2.0 * copy > rdt_memory_available()) return false; /* each has packed its own */
  if (rdt_plan_create_way(f->ctx, w, &f->x.prob, "profile", NULL, &r->plan) != RDT_OK) return false;
  if (f->how->cold && f->x.prob.in[1].data) flush(r);
  const double begun = rdt_timing_now();
  if (run(r) != 0) return false;
  const double once = rdt_timing_now() - begun;
  if (once >= lengthy || (once >= 1e-3 && once > 2.0 * hopeless * f->least[r->group])) {
    take(f, r, &once, 1);
    return true;
  }
  prepare(f, &t, QUALIFY);
  add_case(f, &t, r);
  const int code = rdt_timing_run(&t);
  if (code == 0) take(f, r, t.cases[0].seconds, QUALIFY);
  rdt_timing_free(&t);
  return code == 0;
}

static void drop(runner *r) {
  rdt_plan_destroy(r->plan);
  r->plan = NULL;
}

/* In nearly every trial slower than the group's leader, by a share that shrinks as trials grow in number. */
static bool clearly_slower(const rdt_timing *t, int i, int leader) {
  const int n = t->cases[i].trials;
  const double share = n >= ENOUGH ? 1.02 : n >= LEAST + 2 ? 1.05 : 1.15;
  int slower = 0;
  for (int k = 0; k < n; k++) slower += t->cases[i].seconds[k] > share * t->cases[leader].seconds[k];
  return n >= 3 && slower >= n - n / LEAST;
}

/* Whoever leads was measured well enough, or there is somebody else on the machine, and it takes more. */
static bool is_calm(const rdt_timing *t, const int *leader) {
  for (int g = 0; g < GROUPS; g++)
    if (g != MAY_NOT && leader[g] >= 0 && rdt_timing_is_noisy(rdt_timing_samples_of(t, leader[g]))) return false;
  return true;
}

static bool eliminate(rdt_timing *t, void *user) {
  const profiler *f = user;
  int leader[GROUPS] = {-1, -1, -1}, left[GROUPS] = {0};
  double least[GROUPS] = {INFINITY, INFINITY, INFINITY};
  for (int i = 0; i < t->count; i++) {
    const runner *r = t->cases[i].user;
    const double median = rdt_timing_stat_of(t, i).median;
    if (t->cases[i].out || !(median < least[r->group])) continue;
    leader[r->group] = i;
    least[r->group] = median;
  }
  for (int i = 0; i < t->count; i++) {
    const runner *r = t->cases[i].user;
    rdt_timing_case *c = &t->cases[i];
    if (!c->out && i != leader[r->group]) c->out = clearly_slower(t, i, leader[r->group]);
    left[r->group] += !c->out;
  }
  const int n = leader[MAY] >= 0 ? t->cases[leader[MAY]].trials : t->trials;
  if (n >= (left[MAY] <= 1 ? ENOUGH : USUAL) && is_calm(t, leader)) return false;
  const bool hurried = f->how->seconds > 0.0;
  return n < (!hurried                  ? LEAST
              : f->least[MAY] < lengthy ? QUALIFY
                                        : 1) ||
         rdt_timing_now() - f->begun < (hurried ? f->how->seconds : 3.0);
}

static rdt_status keep(rdt_entry *e, const rdt_way *w, const double *seconds, int n, bool late) {
  rdt_timed *t = rdt_entry_add(e, w, n);
  if (!t) return RDT_ERR_NOMEM;
  t->late = late;
  if (n > 0) memcpy(t->seconds, seconds, (size_t)n * sizeof *seconds);
  return RDT_OK;
}

/* Those that qualified, in turn. */
static rdt_status compare(profiler *f, rdt_entry *e, rdt_reason *why) {
  rdt_timing t;
  rdt_status status = RDT_OK;
  prepare(f, &t, MOST_TRIALS);
  if (f->least[MAY] >= lengthy) t.warm_up = 0; /* each has just run */
  t.progress = f->how->progress;
  t.after = eliminate;
  t.after_user = f;
  for (int i = 0; i < f->n; i++)
    if (f->list[i].plan && t.count < RDT_TIMING_CASES) add_case(f, &t, &f->list[i]);
  if (f->how->choice && t.count == 1) { /* there is none left */
    const runner *r = t.cases[0].user;
    return keep(e, &f->offers.list[r->offer].way, r->samples, r->n_samples, false);
  }
  const int code = rdt_timing_run(&t);
  if (code == RDT_TIMING_STOPPED)
    status = RDT_ERR_CANCELLED;
  else if (code)
    status = rdt_fail(why, code < 0 ? RDT_ERR_NOMEM : (rdt_status)code, "%s", f->ctx->error.text);
  for (int i = 0; i < t.count && status == RDT_OK; i++) {
    const runner *r = t.cases[i].user;
    status = keep(e, &f->offers.list[r->offer].way, t.cases[i].seconds, t.cases[i].trials, false);
  }
  rdt_timing_free(&t);
  return status;
}

static bool go_on(const profiler *f, double part) {
  const rdt_profile *how = f->how;
  const int turns = how->turns > 0 ? how->turns : 1;
  return !how->progress || how->progress((how->turn + 0.5 * part) / turns, how->what ? how->what : "");
}

static bool is_over(const profiler *f) {
  return f->how->seconds > 0.0 && rdt_timing_now() - f->begun >= f->how->seconds;
}

/* Somebody else may have had the processor for longer than a few runs take: who is out is asked once more, later. */
static void second_chance(profiler *f) {
  for (int i = 0; i < f->n; i++) {
    runner *r = &f->list[i];
    if (r->plan || r->group == MAY_NOT || !isfinite(r->best) || r->best >= lengthy || is_over(f)) continue;
    if (!qualify(f, r) || is_hopeless(f, r)) drop(r);
  }
}

/* What is expected to be quick comes first: then others are soon known to be hopeless, or need not be asked. */
static void sort_runners(profiler *f) {
  for (int i = 1; i < f->n; i++) {
    const runner x = f->list[i];
    const double estimate = f->offers.list[x.offer].estimate;
    int k = i;
    for (; k > 0 && !(f->offers.list[f->list[k - 1].offer].estimate <= estimate); k--) f->list[k] = f->list[k - 1];
    f->list[k] = x;
  }
}

static rdt_status qualify_all(profiler *f, rdt_entry *e, rdt_reason *why) {
  for (int i = 0; i < f->offers.n; i++) {
    const rdt_offer *x = &f->offers.list[i];
    if (x->refused) continue;
    if (f->how->choice && group_of(x) != MAY) {
      if (keep(e, &x->way, NULL, 0, false) != RDT_OK) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
      continue;
    }
    f->list[f->n++] = (runner){.all = f, .offer = i, .group = group_of(x), .best = INFINITY};
  }
  sort_runners(f);
  for (int i = 0; i < f->n; i++) {
    runner *r = &f->list[i];
    if (!go_on(f, (double)i / f->n)) return RDT_ERR_CANCELLED;
    if (atomic_load(&f->caller->cancelled)) return RDT_ERR_CANCELLED;
    r->late = is_over(f) && isfinite(f->least[r->group]);
    if (r->late) continue;
    if (!qualify(f, r)) drop(r);
    for (int k = 0; k < f->n; k++) /* a new best may leave others behind */
      if (f->list[k].plan && is_hopeless(f, &f->list[k])) drop(&f->list[k]);
  }
  second_chance(f);
  for (int i = 0; i < f->n; i++) {
    const runner *r = &f->list[i];
    if (r->plan) continue; /* 0 samples: it fails, or there was no time for it */
    if (keep(e, &f->offers.list[r->offer].way, r->samples, r->n_samples, r->late && f->how->brief) != RDT_OK)
      return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  }
  return RDT_OK;
}

/* The caller's threads, ISA and policy; nobody hears of what random data does. */
static rdt_status own_context(const rdt_context *ctx, rdt_context **out) {
  RDT_TRY(rdt_context_create(out, ctx->threads));
  (*out)->isa = ctx->isa;
  (*out)->policy = ctx->policy;
  (*out)->policy.scheme = (*out)->scheme;
  (*out)->policy.suspect_rate = 0.0;
  (*out)->policy.keep_weights = 0;
  return RDT_OK;
}

static rdt_status profile(profiler *f, const rdt_problem *p, const rdt_demand *d, rdt_entry *e, rdt_reason *why) {
  char key[RDT_KEY_TEXT];
  if (!rdt_problem_key(p, f->how->cold, d, key))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "this problem cannot be named in a line");
  if (!(e->key = rdt_strdup(key))) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(make_operands(&f->x, p, why));
  f->offers.words = false;
  rdt_offers_list(&f->x.prob, f->ctx->isa, d, &f->offers);
  rdt_offers_decide(&f->x.prob, d, &f->offers);
  f->list = rdt_calloc((size_t)f->offers.n, sizeof *f->list);
  if (!f->list) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(qualify_all(f, e, why));
  return compare(f, e, why);
}

rdt_status rdt_problem_profile(const rdt_context *ctx, const rdt_problem *p, const rdt_demand *d,
                               const rdt_profile *how, rdt_entry *e, rdt_reason *why) {
  rdt_status status = RDT_ERR_NOMEM;
  *e = (rdt_entry){.choice = -1};
  profiler *f = rdt_calloc(1, sizeof *f);
  if (!f) return rdt_fail(why, status, "out of memory");
  f->how = how;
  f->caller = ctx;
  f->begun = rdt_timing_now();
  for (int i = 0; i < GROUPS; i++) f->least[i] = INFINITY;
  status = own_context(ctx, &f->ctx);
  if (status == RDT_OK) status = profile(f, p, d, e, why);
  for (int i = 0; i < f->n; i++) drop(&f->list[i]);
  rdt_free(f->list);
  clear_operands(&f->x);
  rdt_context_destroy(f->ctx);
  rdt_free(f);
  return status;
}
