#include "plan/cores.h"

#include <string.h>

#include "core/memory.h"

enum { MOST_CORES = CPU_SETSIZE, LOOK_EVERY = 64 };

void rdt_where_begin(rdt_where *w, rdt_plan *p) {
  const size_t team = (size_t)(p->threads > p->ctx->threads ? p->threads : p->ctx->threads),
               shares = (2 + RDT_COPIES) * team * sizeof(rdt_share);
  const size_t cores = (MOST_CORES + team) * sizeof(int);
  char *memory = rdt_context_scratch(p->ctx, RDT_SCRATCH_SHARES, shares + cores);
  const int room = memory ? (int)team : 0;
  rdt_share *list = (rdt_share *)memory;
  const rdt_fault *f = p->broken ? p->broken : p->fault;
  *w = (rdt_where){.p = p, .suspect = -1, .copy = {{.core = -1}, {.core = -1}}, .only = -1};
  w->simulated = f && rdt_plan_takes(p, f) ? f->cores : 0;
  w->first = (rdt_shares){.list = list, .room = room};
  w->fused = (rdt_shares){.list = memory ? list + team : NULL, .room = room};
  w->again = (rdt_shares){.list = memory ? list + 2 * team : NULL, .room = room};
  for (size_t i = 0; i < RDT_COPIES - 1; i++)
    w->more[i] = (rdt_shares){.list = memory ? list + (3 + i) * team : NULL, .room = room};
  w->cores = memory ? (int *)(memory + shares) : NULL;
  w->again_on = memory ? w->cores + MOST_CORES : NULL;
}

/* ---- computing ---- */

static const int64_t nothing[2] = {0, 0}, everything[2] = {INT64_MAX, INT64_MAX};

/* Where the team is; NULL where memory is short. */
static int *look(rdt_cores *c, int threads) {
  if (c->n_seen < threads) {
    int *grown = rdt_grow(c->seen, (size_t)c->n_seen, (size_t)threads, sizeof *grown);
    if (!grown) return NULL;
    c->seen = grown;
    c->n_seen = threads;
  }
  rdt_threads_look(threads, c->seen);
  return c->seen;
}

/* As if thread t of copy i had run on core t + i of those that are simulated. */
static int simulated(const rdt_where *w, int thread) {
  return w->only >= 0 ? w->only : (thread + w->turn) % w->simulated;
}

static void pretend(const rdt_where *w, rdt_shares *s) {
  for (int i = 0; w->simulated && i < s->n; i++) s->list[i].core = simulated(w, i), s->list[i].moved = false;
}

static void strike(rdt_where *w, const rdt_kernel *k, const rdt_shares *s, int threads, const rdt_tensor *raw) {
  int *cores = s->n == 0 ? look(&w->p->ctx->cores, threads) : NULL;
  for (int i = 0; w->simulated && cores && i < threads; i++) cores[i] = simulated(w, i);
  rdt_plan_core_strike(w->p, k, raw, s, cores, cores ? threads : 0);
}

rdt_status rdt_where_run(rdt_where *w, rdt_shares *s, const rdt_kernel *k, void *state, int threads,
                         const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  rdt_operands asked = *o;
  rdt_shares whole = {.list = &(rdt_share){.core = -1}, .n = 1, .room = 1};
  asked.shares = s;
  s->n = 0;
  rdt_share_begin(&whole, 0, nothing, everything);
  RDT_TRY(hit ? k->run_inject(state, &asked, hit, why) : k->run(state, &asked, why));
  rdt_share_end(&whole, 0, false);
  if (s->n == 0 && threads == 1 && s->room > 0) {
    s->n = 1;
    s->list[0] = whole.list[0];
  }
  pretend(w, s);
  if (w->p->broken) strike(w, k, s, threads, &o->out);
  if (s == &w->again) rdt_plan_plant(w->p, RDT_SITE_RECOVERY, &o->out);
  return RDT_OK;
}

rdt_status rdt_where_run_fused(rdt_where *w, rdt_shares *s, void *state, const rdt_operands *o, rdt_fused *f,
                               rdt_reason *why) {
  rdt_operands asked = *o;
  rdt_kernel_hit hit;
  const bool struck = rdt_plan_core_hit(w->p, &hit) || (s == &w->again && rdt_plan_recovery_hit(w->p, &o->out, &hit));
  asked.shares = s;
  s->n = 0;
  if (struck) f->hit = &hit;
  const rdt_status status = w->p->kernel->run_fused(state, &asked, f, why);
  if (!struck) return status;
  f->hit = NULL;
  rdt_plan_book_hit(w->p, &hit);
  return status;
}

void rdt_where_copy_begins(rdt_where *w, int i) {
  rdt_shares one = {.list = &w->copy[i], .n = 1, .room = 1};
  rdt_share_begin(&one, 0, nothing, everything);
}

void rdt_where_copy_ends(rdt_where *w, int i) {
  rdt_shares one = {.list = &w->copy[i], .n = 1, .room = 1};
  rdt_share_end(&one, 0, false);
}

void rdt_where_strike(rdt_where *w, int i, const rdt_tensor *raw) {
  const rdt_shares one = {.list = &w->copy[i], .n = 1, .room = 1};
  if (w->p->broken) rdt_plan_core_strike(w->p, w->p->kernel, raw, &one, NULL, 0);
}

static void count(rdt_cores *c, int core) {
  rdt_core_info *info = rdt_cores_at(c, core);
  if (info) info->products++;
}

void rdt_where_count(rdt_where *w, const rdt_shares *s) {
  rdt_cores *c = &w->p->ctx->cores;
  const int threads = w->p->threads;
  if (w->p->twin) {
    for (int i = 0; i < 2; i++) count(c, w->copy[i].core);
    return;
  }
  for (int i = 0; i < s->n; i++) count(c, s->list[i].core);
  for (int copy = 0; copy < RDT_COPIES - 1; copy++)
    for (int i = 0; i < w->more[copy].n; i++) count(c, w->more[copy].list[i].core);
  if (s->n > 0) return;
  if (c->unseen++ % LOOK_EVERY == 0 || c->n_seen < threads) look(c, threads);
  for (int i = 0; i < threads && i < c->n_seen; i++) count(c, c->seen[i]);
}

/* ---- recovering ---- */

static bool listed(const int *list, int n, int core) {
  for (int i = 0; i < n; i++)
    if (list[i] == core) return true;
  return false;
}

/* Each thread on a core of its own, as far as there are some: a core that is wrong is met again. */
static void spread(rdt_where *w, int threads) {
  int next = 0;
  for (int i = 0; i < threads; i++) {
    if (w->again_on[i] >= 0 && !listed(w->again_on, i, w->again_on[i])) continue;
    while (next < w->n_cores && listed(w->again_on, threads, w->cores[next])) next++;
    w->again_on[i] = w->cores[next < w->n_cores ? next : i % w->n_cores];
  }
}

static bool speaks_of(const rdt_findings *f, const rdt_suspect *q, const rdt_share *one) {
  for (int axis = 0; axis < 2; axis++) {
    const int64_t from = q->place[axis], to = from + rdt_suspect_extent(f, q, axis);
    if (from >= 0 && (from >= one->to[axis] || to <= one->from[axis])) return false;
  }
  return true;
}

/* The core that has computed all that a suspect names; -1: several. */
static int core_of(const rdt_shares *s, const rdt_findings *f, const rdt_suspect *q) {
  int core = -1;
  for (int i = 0; i < s->n; i++) {
    if (!speaks_of(f, q, &s->list[i])) continue;
    if (core >= 0 && s->list[i].core != core) return -1;
    core = s->list[i].core;
  }
  return core;
}

/* The one core that suspects name, or shares that have complained themselves; suspects that name none say nothing. */
static int suspect_of(const rdt_shares *s, const rdt_findings *f) {
  int core = -1;
  for (int i = 0; i < f->listed + s->n; i++) {
    const bool share = i >= f->listed;
    if (share && !s->list[i - f->listed].differ) continue;
    const int one = share ? s->list[i - f->listed].core : core_of(s, f, &f->list[i]);
    if (one >= 0 && core >= 0 && one != core) return -1;
    if (one >= 0) core = one;
  }
  return core;
}

/* Before anything is pinned. */
static bool knows_cores(rdt_where *w) {
  if (w->simulated) return false; /* nobody is moved */
  if (w->cores && w->n_cores == 0) w->n_cores = rdt_cores_allowed(w->cores, MOST_CORES);
  return w->n_cores > 0;
}

void rdt_where_break(rdt_where *w, rdt_places *places) {
  const rdt_fault *f = w->p->broken;
  *places = (rdt_places){.n = 0};
  if (!f || !knows_cores(w) || !listed(w->cores, w->n_cores, f->core)) return;
  const int threads = w->p->threads, chosen = (int)(rdt_fault_random(f, 5) % (uint64_t)threads);
  for (int i = 0; i < threads; i++) w->again_on[i] = i == chosen ? f->core : -1;
  spread(w, threads);
  rdt_threads_pin(threads, w->again_on, threads, places);
}

void rdt_where_turn(rdt_where *w, int i, rdt_places *places) {
  *places = (rdt_places){.n = 0};
  w->turn = i;
  if (!knows_cores(w)) return;
  for (int t = 0; t < w->p->threads; t++) w->again_on[t] = w->cores[(t + i) % w->n_cores];
  if (!rdt_threads_pin(w->p->threads, w->again_on, w->p->threads, places)) w->unpinned = true;
}

void rdt_where_only(rdt_where *w, int core) {
  w->only = core;
}

int rdt_where_spread(const rdt_where *w) {
  const int n = w->simulated ? w->simulated : w->unpinned ? 1 : w->n_cores;
  return n < 1 ? 1 : n < RDT_COPIES ? n : RDT_COPIES;
}

void rdt_where_doubt(rdt_where *w, const rdt_shares *s, const rdt_findings *f) {
  const int threads = w->p->threads;
  if (!knows_cores(w)) return;
  const int *seen = s->n > 0 ? NULL : look(&w->p->ctx->cores, threads);
  for (int i = 0; i < threads; i++) w->again_on[i] = i < s->n ? s->list[i].core : seen ? seen[i] : -1;
  if (s->n == 0) spread(w, threads);
  for (int i = 0; i < threads; i++)
    if (w->again_on[i] < 0) w->again_on[i] = w->cores[i % w->n_cores];
  w->suspect = suspect_of(s, f);
}

void rdt_where_pin(const rdt_where *w, const int *cores, int n, rdt_places *places) {
  const int threads = w->p->threads;
  *places = (rdt_places){.n = 0};
  if (w->n_cores == 0) return;
  if (n > 0)
    rdt_threads_pin(threads, cores, n, places);
  else if (w->suspect >= 0)
    rdt_threads_pin(threads, &w->suspect, 1, places);
  else
    rdt_threads_pin(threads, w->again_on, threads, places);
}

int rdt_where_core(const rdt_shares *s, const int64_t place[2]) {
  bool sure;
  const int core = rdt_shares_core(s, place[0], place[1], &sure);
  return sure ? core : -1;
}

/* ---- cores to avoid ---- */

rdt_status rdt_cores_enter(rdt_context *ctx) {
  rdt_cores *c = &ctx->cores;
  cpu_set_t set;
  if (!c->avoids || c->entered++ > 0) return RDT_OK;
  bool kept = sched_getaffinity(0, sizeof set, &set) == 0;
  for (int i = 0; kept && i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &c->avoided)) CPU_CLR(i, &set);
  kept = kept && rdt_threads_confine(ctx->threads, &set, &c->places);
  if (kept) return RDT_OK;
  c->entered--;
  return rdt_fail(
      &ctx->error, RDT_ERR_ARG,
      "the threads cannot be kept away from the cores to avoid: no other one is left to this process, or the "
      "system refuses");
}

void rdt_cores_leave(rdt_context *ctx) {
  rdt_cores *c = &ctx->cores;
  if (c->avoids && --c->entered == 0) rdt_threads_restore(&c->places);
}
