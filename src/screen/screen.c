#include "screen/screen.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "core/memory.h"
#include "core/team.h"
#include "cpu/threads.h"
#include "plan/plan.h"

static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
enum {
  DTYPES = sizeof dtypes / sizeof *dtypes,
  OFTEN = 4 /* one retest in so many: a bit that is stuck changes half of all results */
};
static const double slice = 0.05; /* seconds of a product, then comes the next */

static const struct {
  int seconds;
  rdt_known_size most;
} levels[] = {
#define X(level, seconds, size) {seconds, size},
    RDT_SCREEN_LEVELS(X)
#undef X
};

double rdt_screen_seconds(int level) {
  return levels[level - 1].seconds;
}

/* What the threads share. */
typedef struct screening {
  const rdt_screen_job *job;
  rdt_screen *s;
  double begun, seconds, each; /* each: of one product */
  atomic_bool stopped;
  rdt_status status;
  rdt_reason *why;
} screening;

/* What a core computes now. */
typedef struct turn {
  const screening *g;
  rdt_screen_unit *u;
  const rdt_screen_path *path;
  int known;
} turn;

/* ---- what there is to compute ---- */

static rdt_status add_path(rdt_screen *s, const rdt_kernel *k, rdt_isa isa, rdt_dtype t, rdt_reason *why) {
  rdt_screen_path *grown = rdt_grow(s->paths, (size_t)s->n_paths, (size_t)s->n_paths + 1, sizeof *grown);
  if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  s->paths = grown;
  rdt_screen_path *p = &grown[s->n_paths++];
  *p = (rdt_screen_path){.kernel = k, .isa = isa, .dtype = t};
  snprintf(p->name, sizeof p->name, "%s %s", k->name, rdt_isa_name(isa));
  return RDT_OK;
}

/* Does the kernel take products of that datatype when it is confined to an ISA? */
static bool takes(const rdt_kernel *k, const rdt_known *known, rdt_isa isa) {
  rdt_trial_product t = {.known = NULL}; /* a kernel above the ISA is not tried at all */
  rdt_reason why;
  const rdt_isa before = rdt_isa_confine(isa);
  const bool taken = k->isa <= isa && rdt_trial_product_create(k, known, &t, &why) == RDT_OK;
  rdt_isa_confine(before);
  rdt_trial_product_clear(&t);
  return taken;
}

/* Own products are there for each ISA; the reference is plain C, and a library takes what it finds. */
static rdt_status list_paths(rdt_screen *s, rdt_reason *why) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  const rdt_isa best = rdt_isa_detect();
  for (int d = 0; d < DTYPES; d++) {
    rdt_known known;
    rdt_problem any = {.op = RDT_KOP_GEMM};
    RDT_TRY(rdt_known_form(dtypes[d], RDT_KNOWN_CHECKER, RDT_KNOWN_SMALL, &known, why));
    rdt_status status = RDT_OK;
    for (int i = 0; i < n && status == RDT_OK; i++) {
      const bool reference = rows[i] == rdt_cpu_reference(&any);
      if (rows[i]->op != RDT_KOP_GEMM) continue;
      for (int isa = reference || !rows[i]->black_box ? RDT_ISA_GENERIC : (int)best;
           isa <= (reference ? RDT_ISA_GENERIC : (int)best) && status == RDT_OK; isa++)
        if (takes(rows[i], &known, (rdt_isa)isa)) status = add_path(s, rows[i], (rdt_isa)isa, dtypes[d], why);
    }
    rdt_known_clear(&known);
    RDT_TRY(status);
  }
  return RDT_OK;
}

/* Formed by the first core that can. */
static rdt_status form(void *self, rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k,
                       rdt_reason *why) {
  const rdt_screen *s = self;
  rdt_status status = RDT_ERR_FAULT;
  for (int i = 0; i < s->n_units && status == RDT_ERR_FAULT; i++) {
    rdt_places places;
    if (!rdt_threads_pin(1, &s->units[i].core, 1, &places))
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "the system does not let a thread stay on core %d", s->units[i].core);
    status = rdt_known_create(t, pattern, size, k, why);
    rdt_threads_restore(&places);
  }
  return status;
}

rdt_status rdt_screen_list_known(rdt_screen *s, int level, const rdt_dtype *list, int n, rdt_screen_form *one,
                                 void *self, rdt_reason *why) {
  const int sizes = (int)levels[level - 1].most + 1;
  s->known = rdt_calloc((size_t)(n * RDT_KNOWN_PATTERN_COUNT * sizes), sizeof *s->known);
  if (!s->known) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int d = 0; d < n; d++)
    for (int pattern = 0; pattern < RDT_KNOWN_PATTERN_COUNT; pattern++)
      for (int size = 0; size < sizes; size++) {
        RDT_TRY(one(self, list[d], (rdt_known_pattern)pattern, (rdt_known_size)size, &s->known[s->n_known], why));
        s->n_known++;
      }
  for (int p = 0; p < s->n_paths; p++)
    for (int k = 0; k < s->n_known; k++) s->cases += s->known[k].dtype == s->paths[p].dtype;
  return RDT_OK;
}

static rdt_status list_units(rdt_screen *s, rdt_reason *why) {
  int cores[CPU_SETSIZE];
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  s->units = rdt_calloc((size_t)n, sizeof *s->units);
  if (!s->units) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  s->n_units = n;
  for (int i = 0; i < n; i++) s->units[i] = (rdt_screen_unit){.core = cores[i], .clock = NAN};
  return RDT_OK;
}

/* ---- one core ---- */

/* One product; how many of its elements are wrong. */
static rdt_status try_once(const turn *now, rdt_trial_product *t, int64_t *wrong, int64_t *first, rdt_reason *why) {
  rdt_screen_unit *u = now->u;
  const rdt_fault *f = now->g->job->fault;
  RDT_TRY(rdt_trial_product_run(t, why));
  if (f && f->core == u->core) rdt_trial_product_strike(t, f, now->path->isa, u->products);
  u->products++;
  *wrong = rdt_trial_product_wrong(t, first);
  u->failures += *wrong != 0;
  return RDT_OK;
}

static uint64_t bits_of(const rdt_tensor *t, int64_t e) {
  uint64_t bits = 0;
  const size_t size = rdt_dtype_size(t->dtype);
  memcpy(&bits, (const char *)t->data + (size_t)e * size, size);
  return bits;
}

int rdt_screen_listed(const rdt_screen_unit *u) {
  return u->n_failed < RDT_SCREEN_MOST_FAILED ? u->n_failed : RDT_SCREEN_MOST_FAILED;
}

static rdt_screen_failed *find(const turn *now) {
  const int path = (int)(now->path - now->g->s->paths);
  for (int i = 0; i < rdt_screen_listed(now->u); i++)
    if (now->u->failed[i].path == path && now->u->failed[i].known == now->known) return &now->u->failed[i];
  return NULL;
}

/* The first time that this product is wrong here: what is wrong, and is it so every time? */
static rdt_status look_closer(const turn *now, rdt_trial_product *t, int64_t wrong, int64_t first, rdt_reason *why) {
  const rdt_tensor *c = &t->known->c;
  rdt_screen_unit *u = now->u;
  rdt_screen_failed f = {.path = (int)(now->path - now->g->s->paths),
                         .known = now->known,
                         .failures = 1,
                         .wrong = wrong,
                         .row = first / c->shape[1],
                         .column = first % c->shape[1],
                         .expected = rdt_load(c->data, c->dtype, first),
                         .actual = rdt_load(t->out.data, c->dtype, first),
                         .bits = bits_of(c, first) ^ bits_of(&t->out, first),
                         .retested = now->g->job->retests};
  const bool kept = rdt_screen_listed(u) < RDT_SCREEN_MOST_FAILED;
  if (kept && (f.result = rdt_alloc(rdt_tensor_bytes(c), 1)) != NULL)
    memcpy(f.result, t->out.data, rdt_tensor_bytes(c));
  rdt_status status = RDT_OK;
  for (int i = 0; i < f.retested && status == RDT_OK; i++) {
    status = try_once(now, t, &wrong, &first, why);
    f.retests_failed += status == RDT_OK && wrong != 0;
  }
  f.failures += f.retests_failed;
  u->retested += f.retested;
  u->retests_failed += f.retests_failed;
  if (kept) u->failed[u->n_failed] = f;
  u->n_failed++;
  return status;
}

/* A product over and over until its time is over. The core packs what it computes with itself. */
static rdt_status try_on(const turn *now, rdt_reason *why) {
  rdt_trial_product t;
  bool seen = false;
  const double until = rdt_clock() + now->g->each;
  const rdt_isa before = rdt_isa_confine(now->path->isa);
  rdt_status status = rdt_trial_product_create(now->path->kernel, &now->g->s->known[now->known], &t, why);
  while (status == RDT_OK) {
    int64_t wrong, first = -1;
    status = try_once(now, &t, &wrong, &first, why);
    if (status == RDT_OK && wrong != 0) {
      rdt_screen_failed *f = find(now);
      if (f) f->failures++;
      if (!f && !seen) status = look_closer(now, &t, wrong, first, why);
      seen = true;
    }
    if (rdt_clock() >= until) break;
  }
  rdt_trial_product_clear(&t);
  rdt_isa_confine(before);
  return status;
}

/* ---- all of them ---- */

/* Asked by one of the threads. */
static bool goes_on(const turn *now, double part) {
  return !now->g->job->progress || now->g->job->progress(now->g->job->user, part, now->path->name);
}

/* Each product once, or for its share of the time, and so on until the time is over: a core waits for no other. */
static rdt_status burn(screening *g, turn *now, bool asks, rdt_reason *why) {
  const rdt_screen *s = g->s;
  for (int64_t done = 0; done < s->cases || rdt_clock() - g->begun < g->seconds;)
    for (int p = 0; p < s->n_paths; p++)
      for (int k = 0; k < s->n_known; k++) {
        if (s->known[k].dtype != s->paths[p].dtype) continue;
        const double passed = (rdt_clock() - g->begun) / g->seconds, first = (double)done / (double)s->cases;
        if (done >= s->cases && passed >= 1.0) return RDT_OK;
        now->path = &s->paths[p];
        now->known = k;
        if (asks && !goes_on(now, passed < first || done >= s->cases ? passed : first)) atomic_store(&g->stopped, true);
        if (atomic_load(&g->stopped)) return rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
        RDT_TRY(try_on(now, why));
        done++;
      }
  return RDT_OK;
}

static rdt_status screen(screening *g) {
  const int n = g->s->n_units;
  RDT_TRY(rdt_team_try(n, g->why));
#pragma omp parallel num_threads(n)
  {
    const int i = omp_get_thread_num(), team = omp_get_num_threads();
    turn now = {.g = g, .u = &g->s->units[i]};
    rdt_reason why = {""};
    const rdt_status status = team < n
                                  ? rdt_fail(&why, RDT_ERR_UNSUPPORTED, "there are fewer threads than cores: %d", team)
                                  : burn(g, &now, i == 0, &why);
    if (status != RDT_OK) {
      atomic_store(&g->stopped, true);
#pragma omp critical(rdt_screen)
      if (g->status == RDT_OK || g->status == RDT_ERR_CANCELLED) {
        g->status = status;
        if (g->why) *g->why = why;
      }
    }
  }
  return g->status;
}

static rdt_status check_fault(const rdt_screen *s, const rdt_fault *f, rdt_reason *why) {
  if (!f) return RDT_OK;
  for (int i = 0; i < s->n_units; i++)
    if (s->units[i].core == f->core) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "a fault that a screen is to find is of a core that it may use: stuck1:22@accum,core=%d (of several "
                  "devices, layer=cpu makes it the cores' alone)",
                  s->n_units ? s->units[0].core : 0);
}

void rdt_screen_judge(rdt_screen *s) {
  for (int i = 0; i < s->n_units; i++) {
    rdt_screen_unit *u = &s->units[i];
    s->products += u->products;
    s->bad += u->failures > 0;
    if (u->failures > 0)
      u->diagnosis = u->retested == 0                          ? RDT_DIAG_UNKNOWN
                     : u->retests_failed * OFTEN < u->retested ? RDT_DIAG_TRANSIENT
                                                               : RDT_DIAG_PERSISTENT;
  }
}

static void sense(rdt_screen *s) {
  for (int i = 0; i < s->n_units; i++) s->units[i].clock = rdt_sensor_clock("", s->units[i].core);
  s->temperature[1] = rdt_sensor_temperature("");
}

rdt_status rdt_screen_run(const rdt_screen_job *job, rdt_screen *s, rdt_reason *why) {
  const double seconds = job->seconds > 0.0 ? job->seconds : rdt_screen_seconds(job->level);
  screening g = {.job = job, .s = s, .seconds = seconds, .status = RDT_OK, .why = why};
  rdt_places places;
  *s = (rdt_screen){.temperature = {NAN, NAN}};
  if (job->sms) return rdt_screen_sms(job, s, seconds, why);
  *s = (rdt_screen){.temperature = {rdt_sensor_temperature(""), NAN}};
  const double begun = rdt_clock();
  RDT_TRY(list_units(s, why));
  RDT_TRY(check_fault(s, job->fault, why));
  RDT_TRY(list_paths(s, why));
  RDT_TRY(rdt_screen_list_known(s, job->level, dtypes, DTYPES, form, s, why));
  int cores[CPU_SETSIZE];
  for (int i = 0; i < s->n_units; i++) cores[i] = s->units[i].core;
  if (!rdt_threads_pin(s->n_units, cores, s->n_units, &places))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "the system does not let threads stay on a core each");
  g.begun = rdt_clock();
  g.each = fmin(seconds / (double)s->cases, slice);
  const rdt_status status = screen(&g);
  sense(s);
  rdt_screen_judge(s);
  rdt_threads_restore(&places);
  s->seconds = rdt_clock() - begun;
  return status;
}

void rdt_screen_clear(rdt_screen *s) {
  for (int i = 0; i < s->n_units; i++)
    for (int k = 0; k < RDT_SCREEN_MOST_FAILED; k++) rdt_free(s->units[i].failed[k].result);
  for (int i = 0; i < s->n_known; i++) rdt_known_clear(&s->known[i]);
  rdt_free(s->units);
  rdt_free(s->known);
  rdt_free(s->paths);
  *s = (rdt_screen){.n_units = 0};
}
