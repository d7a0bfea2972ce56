#include "bench_checkpoints_gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_common.h"
#include "bench_device.h"
#include "core/memory.h"
#include "output.h"
#include "plan/plan.h"

static const struct {
  const char *scheme, *form;
  int team;
} forms[] = {{"tmr-block", "block", RDT_VOTED_BLOCK},
             {"tmr-sm", "grid", RDT_VOTED_GRID},
             {"tmr-sm", "clusters", RDT_VOTED_CLUSTER},
             {"tmr-split", "split", RDT_VOTED_SPLIT}};
static const struct {
  int faults; /* of a run, and of what is computed again, if all of it is */
  bool apart; /* each in an element of its own; else all in one */
} doses[] = {{0, false}, {1, false}, {2, false}, {4, false}, {4, true}};
static const int checkpoints[] = {0, 1, 2, 4, 8, 16};
enum { FORMS = 4, DOSES = 5, STEPS = 6, STAGE = 64, WARM = 2 };

typedef struct cell {
  int runs, survived, restarted, detected, outvoted, wrong, twice;
} cell;

typedef struct study {
  rdt_machine *m;
  const rdt_bench_checkpoints_job *job;
  rdt_problem p;
  rdt_tensor in[2], out; /* on the device */
  rdt_operands o;
  rdt_cuda_linear *plain;
  void *plainly;        /* its tape */
  char *clean, *result; /* on the host; clean: of the first run, what all must come to */
  double *ratios;
  double over[FORMS][STEPS]; /* without a fault; NaN: there are no so many votes */
  cell cells[FORMS][STEPS][DOSES];
  bool broken;
} study;

/* ---- making ready ---- */

static rdt_status launch_plain(rdt_machine *m, const void *user, rdt_reason *why) {
  const study *s = user;
  const rdt_cuda_linear_task task = {.l = s->plain, .o = s->o};
  return m->linear_launch(m, &task, why);
}

static rdt_status open_study(study *s, rdt_reason *why) {
  static const rdt_bench_shape usual = {.m = 2048, .n = 2048, .k = 8192};
  const rdt_bench_shape *x = s->job->shape ? s->job->shape : &usual;
  uint64_t seed = 1;
  RDT_TRY(rdt_bench_device_random(s->m, &s->in[0], x->m, x->k, &seed, why));
  RDT_TRY(rdt_bench_device_random(s->m, &s->in[1], x->k, x->n, &seed, why));
  RDT_TRY(rdt_bench_device_random(s->m, &s->out, x->m, x->n, &seed, why));
  s->o = (rdt_operands){.in = s->in, .n_in = 2, .out = s->out};
  s->p = (rdt_problem){.op = RDT_KOP_GEMM, .n_in = 2, .in = s->in, .out = s->out, .epilogue = RDT_EPILOGUE_NONE};
  s->p.acc = RDT_F32;
  s->ratios = rdt_calloc((size_t)s->job->trials, sizeof *s->ratios);
  s->clean = rdt_calloc(rdt_tensor_bytes(&s->out), 1), s->result = rdt_calloc(rdt_tensor_bytes(&s->out), 1);
  if (!s->ratios || !s->clean || !s->result) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(s->m->linear_create(s->m, &s->p, "none", 6.0, &s->plain, why));
  return rdt_bench_device_record(s->m, launch_plain, s, &s->plainly, why);
}

static void close_study(study *s) {
  rdt_machine *m = s->m;
  if (s->plainly) m->erase(m, s->plainly);
  if (s->plain) m->linear_destroy(s->plain);
  m->release(m, s->in[0].data), m->release(m, s->in[1].data), m->release(m, s->out.data);
  rdt_free(s->ratios), rdt_free(s->clean), rdt_free(s->result);
}

/* ---- what it costs ---- */

typedef struct voters {
  const study *s;
  rdt_voted *v;
} voters;

static rdt_status launch_voted(rdt_machine *m, const void *user, rdt_reason *why) {
  const voters *x = user;
  return m->voted_launch(m, x->v, &x->s->o, why);
}

static rdt_status time_voted(study *s, rdt_voted *v, double *over, rdt_reason *why) {
  const voters x = {s, v};
  void *tape = NULL;
  rdt_status status = rdt_bench_device_record(s->m, launch_voted, &x, &tape, why);
  for (int t = -WARM; t < s->job->trials && status == RDT_OK; t++) {
    double one, three;
    status = rdt_bench_device_time(s->m, s->plainly, &one, why);
    if (status == RDT_OK) status = rdt_bench_device_time(s->m, tape, &three, why);
    if (status == RDT_OK && t >= 0) s->ratios[t] = three / one;
  }
  if (status == RDT_OK) *over = rdt_timing_median(s->ratios, s->job->trials);
  if (tape) s->m->erase(s->m, tape);
  return status;
}

/* ---- what it saves ---- */

typedef struct seen { /* by a run */
  bool right;
  int copies; /* that were hit */
  int64_t lost, undecided, again;
  bool from_start; /* a part of it was, within the launch */
} seen;

static rdt_status look(study *s, rdt_voted *v, void *to, seen *x, rdt_reason *why) {
  rdt_thrice_ballot b;
  rdt_vote_found found = {.restarts = 0};
  const size_t bytes = rdt_tensor_bytes(&s->out);
  RDT_TRY(s->m->voted_read(s->m, v, &b, &found, why));
  RDT_TRY(s->m->get(s->m, RDT_LANE_MAIN, to, s->out.data, bytes, why));
  RDT_TRY(s->m->wait(s->m, why));
  *x = (seen){.right = memcmp(to, s->clean, bytes) == 0,
              .lost = b.lost[0] + b.lost[1] + b.lost[2],
              .undecided = b.undecided,
              .again = b.again,
              .from_start = found.from_start > 0};
  return RDT_OK;
}

static rdt_status run_clean(study *s, rdt_voted *v, void *to, seen *x, rdt_reason *why) {
  RDT_TRY(s->m->clear(s->m, RDT_LANE_MAIN, s->out.data, rdt_tensor_bytes(&s->out), why));
  RDT_TRY(s->m->voted_launch(s->m, v, &s->o, why));
  return look(s, v, to, x, why);
}

static int draw(uint64_t *seed, int64_t below) {
  return (int)(rdt_bench_uniform(seed) * (double)below);
}

/* Bits of accumulators, each of another place in its word: those that are alike have campaigns of their own. As many
 * come where the launch computes again what nobody knows, if these steps of k are among it. */
static rdt_voted_hit faults_of(const study *s, int dose, uint64_t run) {
  uint64_t seed = (run + 1) * 0x9e3779b97f4a7c15u;
  rdt_voted_hit h = {.site = RDT_VOTED_ACCUM, .sm = -1, .vote = -1, .n = 2 * doses[dose].faults};
  const int64_t stages = (s->in[0].shape[1] + STAGE - 1) / STAGE;
  unsigned taken = 0;
  for (int i = 0; i < h.n; i++) {
    rdt_voted_fault *f = &h.more[i];
    f->element[0] = draw(&seed, s->out.shape[0]);
    f->element[1] = draw(&seed, s->out.shape[1]);
    if (i > 0 && !doses[dose].apart) memcpy(f->element, h.more[0].element, sizeof f->element);
    f->again = i >= doses[dose].faults;
    f->copy = draw(&seed, RDT_VOTERS);
    f->behind = 1 + draw(&seed, stages);
    do f->mask = 1u << draw(&seed, 32);
    while (taken & f->mask);
    taken |= f->mask;
  }
  return h;
}

static rdt_status run_struck(study *s, rdt_voted *v, int dose, uint64_t seed, seen *x, rdt_reason *why) {
  rdt_voted_hit h = faults_of(s, dose, seed);
  unsigned copies = 0;
  RDT_TRY(s->m->voted_strike(s->m, v, &s->o, &h, why));
  RDT_TRY(look(s, v, s->result, x, why));
  const int planted = doses[dose].faults;
  for (int i = 0; i < planted; i++) copies |= 1u << h.more[i].copy;
  x->copies = __builtin_popcount(copies);
  return (int)h.done == planted
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_FAULT, "%d faults were planted, and %u came about: the study says nothing",
                        planted, h.done);
}

/* What no vote decides, nor what the launch computes again from an earlier vote, is computed once more, from the start,
 * and hit as often. A right copy that is left is the word
 * of somebody: a wrong result is `wrong` where there is one, and no vote has said that a copy lost, or that all
 * differed (what was computed again was hit as well, and two came to the same). Where all three were hit they may be
 * stored alike (as infinity): outvoted, too. */
static rdt_status run_one(study *s, rdt_voted *v, int dose, uint64_t seed, cell *to, rdt_reason *why) {
  seen x;
  bool again = false;
  RDT_TRY(doses[dose].faults ? run_struck(s, v, dose, 2 * seed, &x, why) : run_clean(s, v, s->result, &x, why));
  if (x.undecided) {
    again = true, to->twice++;
    RDT_TRY(run_struck(s, v, dose, 2 * seed + 1, &x, why));
  }
  to->runs++;
  if (x.undecided)
    to->detected++;
  else if (!x.right)
    x.lost || x.again || x.copies == RDT_VOTERS ? to->outvoted++ : to->wrong++;
  else
    again || x.from_start ? to->restarted++ : to->survived++;
  return RDT_OK;
}

static rdt_status study_one(study *s, int form, int step, rdt_reason *why) {
  rdt_voted *v = NULL;
  seen x;
  const bool first = form == 0 && step == 0;
  s->over[form][step] = NAN;
  RDT_TRY(s->m->voted_create(s->m, &s->p, forms[form].team, checkpoints[step] + 1, &v, why));
  if (s->m->voted_votes(v) != checkpoints[step] + 1) return s->m->voted_destroy(v), RDT_OK; /* k is too short */
  rdt_status status = run_clean(s, v, first ? s->clean : s->result, &x, why);
  if (status == RDT_OK) s->broken = s->broken || (!first && !x.right) || x.lost || x.undecided || x.again;
  if (status == RDT_OK) status = time_voted(s, v, &s->over[form][step], why);
  for (int d = 0; d < DOSES && status == RDT_OK; d++)
    for (int t = 0; t < s->job->trials && status == RDT_OK; t++) {
      cell *to = &s->cells[form][step][d];
      status = run_one(s, v, d, (uint64_t)(t * DOSES + d), to, why);
      s->broken = s->broken || to->wrong > 0;
      const double done = (form * STEPS + step + (d + (double)t / s->job->trials) / DOSES) / (FORMS * STEPS);
      if (status == RDT_OK && s->job->progress && !s->job->progress(done, "checkpoints"))
        status = rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
    }
  s->m->voted_destroy(v);
  return status;
}

/* ---- the table ---- */

static double percent(int part, const cell *c) {
  return 100.0 * part / c->runs;
}

static void print_cell(rdt_bench_out *t, const study *s, int form, int step, int dose) {
  const cell *c = &s->cells[form][step][dose];
  const double again = (double)c->twice / c->runs;
  rdt_bench_text(t, forms[form].scheme);
  rdt_bench_text(t, forms[form].form);
  rdt_bench_integer(t, checkpoints[step]);
  rdt_bench_integer(t, doses[dose].faults);
  rdt_bench_integer(t, doses[dose].apart ? doses[dose].faults : doses[dose].faults > 0);
  rdt_bench_integer(t, c->runs);
  rdt_bench_fixed(t, s->over[form][step] * (1.0 + again), 2);
  rdt_bench_fixed(t, percent(c->survived, c), 1);
  rdt_bench_fixed(t, percent(c->restarted, c), 1);
  rdt_bench_fixed(t, percent(c->detected, c), 1);
  rdt_bench_fixed(t, percent(c->outvoted, c), 1);
  rdt_bench_integer(t, c->wrong);
}

static bool print(const study *s, FILE *to) {
  static const char *const columns[] = {"scheme",
                                        "form",
                                        "checkpoints",
                                        "faults|faults a run",
                                        "elements|elements hit",
                                        "runs",
                                        "time_ratio|time / unprotected",
                                        "survived|survived %",
                                        "restarted|from the start %",
                                        "detected|DETECTED %",
                                        "outvoted|outvoted %",
                                        "wrong"};
  char title[320];
  rdt_bench_out t;
  snprintf(title, sizeof title, "votes on the way along k: cost and survival; %s, f16, %lld x %lld x %lld, over %s",
           s->m->device.name, (long long)s->out.shape[0], (long long)s->out.shape[1], (long long)s->in[0].shape[1],
           s->m->linear_kernel(s->plain));
  const char *const kind = s->job->format == RDT_BENCH_JSON ? "checkpoints-gpu" : "checkpoints"; /* there: a schema */
  rdt_bench_begin(&t, to, s->job->format, kind, 1, s->job->head);
  rdt_bench_table(&t, "checkpoints", title, columns, sizeof columns / sizeof *columns);
  for (int form = 0; form < FORMS; form++)
    for (int dose = 0; dose < DOSES; dose++)
      for (int step = 0; step < STEPS; step++)
        if (!isnan(s->over[form][step])) print_cell(&t, s, form, step, dose);
  return rdt_bench_end(&t);
}

rdt_status rdt_bench_checkpoints_on(rdt_machine *m, const rdt_bench_checkpoints_job *job, bool *wrong,
                                    rdt_reason *why) {
  rdt_bench_file file;
  *wrong = false;
  study *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  s->m = m, s->job = job;
  rdt_status status = rdt_bench_file_open(&file, job->output, why);
  if (status != RDT_OK) return rdt_free(s), status;
  status = open_study(s, why);
  for (int form = 0; form < FORMS; form++)
    for (int step = 0; step < STEPS && status == RDT_OK; step++) status = study_one(s, form, step, why);
  *wrong = s->broken;
  if (job->progress && !job->progress(1.0, "") && status == RDT_OK)
    status = rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
  if (status == RDT_OK && !print(s, file.f))
    status = rdt_fail(why, RDT_ERR_IO, "out of memory, or the table could not be written");
  if (rdt_bench_file_close(&file, "bench checkpoints", status == RDT_OK ? 0 : RDT_TIMING_STOPPED) == 2)
    status = rdt_fail(why, RDT_ERR_IO, "the table could not be written");
  close_study(s);
  rdt_free(s);
  return status;
}

rdt_status rdt_bench_checkpoints_gpu(const rdt_bench_checkpoints_job *job, bool *wrong, rdt_reason *why) {
  rdt_machine *m;
  int index;
  RDT_TRY(rdt_device_index(job->device, &index, why));
  RDT_TRY(rdt_machine_open(index, &m, why));
  const rdt_status status = rdt_bench_checkpoints_on(m, job, wrong, why);
  m->close(m);
  return status;
}
