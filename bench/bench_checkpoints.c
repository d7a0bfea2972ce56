#include "bench_checkpoints.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_common.h"
#include "core/context.h"
#include "core/memory.h"
#include "output.h"
#include "plan/chunks.h"

static const int cores[] = {2, 3};                   /* that are simulated */
static const double faults[] = {0.0, 1.0, 2.0, 4.0}; /* a run without any repair would meet, on average */
static const int checkpoints[] = {0, 1, 2, 4, 8, 16};
enum { CORES = 2, FAULTS = 4, STEPS = 6 };

/* What the runs with some checkpoints, faults and cores came to. */
typedef struct cell {
  int runs, survived, restarted, detected, wrong; /* wrong: and nobody said so */
  double over;                                    /* median time over the unprotected product beside it */
} cell;

typedef struct study {
  rdt_context *ctx;
  rdt_problem p;
  rdt_tensor in[2];
  rdt_plan *plain;
  float *clean;
  int again; /* shares of the run that were computed again: nothing decided them */
  double *ratios;
} study;

/* On two cores all that differ, on more what no majority decides. */
static void on_event(const rdt_event *e, void *user) {
  study *s = user;
  bool again = false;
  for (int i = 0; i < e->n_rungs; i++) {
    const rdt_rung *r = &e->rungs[i];
    again = again || strcmp(r->name, "known answers") == 0 ||
            (strcmp(r->name, "vote") == 0 && strcmp(r->outcome, "failed") == 0);
  }
  s->again += again;
}

static rdt_status open_study(study *s, const rdt_bench_checkpoints_job *job, rdt_reason *why) {
  static const rdt_bench_shape usual = {.m = 256, .n = 256, .k = 8192};
  const rdt_bench_shape *x = job->shape ? job->shape : &usual;
  s->ratios = rdt_calloc((size_t)job->trials, sizeof *s->ratios);
  s->clean = rdt_alloc((size_t)(x->m * x->n), sizeof *s->clean);
  if (!s->ratios || !s->clean || !rdt_bench_product(&s->p, s->in, x))
    return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(rdt_context_open(&s->ctx, job->threads, why));
  rdt_context_on_event(s->ctx, on_event, s);
  const rdt_status status = rdt_plan_create_as(s->ctx, "none", &s->p, "gemm", "gemm", NULL, &s->plain);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(s->ctx));
}

static void close_study(study *s) {
  rdt_plan_destroy(s->plain);
  rdt_context_destroy(s->ctx);
  rdt_free(s->in[0].data), rdt_free(s->in[1].data), rdt_free(s->p.out.data);
  rdt_free(s->ratios), rdt_free(s->clean);
}

static rdt_status time_plain(study *s, double *seconds, rdt_reason *why) {
  const rdt_operands o = {.in = s->in, .n_in = 2, .out = s->p.out};
  const double begun = rdt_clock();
  const rdt_status status = rdt_plan_run(s->plain, &o, NULL);
  *seconds = rdt_clock() - begun;
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(s->ctx));
}

/* One run: three copies of n shares, each of which is hit with the same probability wherever it is computed. */
static rdt_status run_one(study *s, rdt_chunks *c, int trial, double rate, int on, cell *to, rdt_reason *why) {
  const size_t bytes = rdt_tensor_bytes(&s->p.out);
  char spec[96];
  double plain;
  rdt_result r;
  snprintf(spec, sizeof spec, "bit@accum,core=any,rate=%.9f,cores=%d", rate, on);
  RDT_TRY(rdt_chunks_inject(c, rate > 0.0 ? spec : NULL, (uint64_t)trial + 1, why));
  RDT_TRY(time_plain(s, &plain, why));
  s->again = 0;
  const double begun = rdt_clock();
  const rdt_status status = rdt_chunks_run(c, &s->in[0], &s->p.out, &r, why);
  s->ratios[trial] = (rdt_clock() - begun) / plain;
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  const bool right = memcmp(s->clean, s->p.out.data, bytes) == 0, detected = status == RDT_ERR_FAULT;
  const bool restarted = rdt_chunks_count(c) == 1 && s->again > 0;
  to->runs++;
  to->detected += detected;
  to->wrong += !detected && !right;
  to->restarted += !detected && right && restarted;
  to->survived += !detected && right && !restarted;
  return RDT_OK;
}

static rdt_status fill(study *s, const rdt_bench_checkpoints_job *job, int step, cell to[CORES][FAULTS],
                       rdt_reason *why) {
  rdt_chunks *c;
  RDT_TRY(rdt_chunks_create(s->ctx, &s->p, "tmr-sm", checkpoints[step], &c, why));
  const int copies = RDT_COPIES * rdt_chunks_count(c);
  rdt_status status = rdt_chunks_run(c, &s->in[0], &s->p.out, NULL, why); /* what is right, to the last bit */
  memcpy(s->clean, s->p.out.data, rdt_tensor_bytes(&s->p.out));
  for (int on = 0; on < CORES; on++)
    for (int f = 0; f < FAULTS && status == RDT_OK; f++) {
      const double rate = 1.0 - exp(-faults[f] / copies);
      cell *now = &to[on][f];
      *now = (cell){.runs = 0};
      for (int t = 0; t < job->trials && status == RDT_OK; t++) {
        status = run_one(s, c, t, rate, cores[on], now, why);
        const double done = ((double)step + (double)(on * FAULTS + f) / (CORES * FAULTS)) / STEPS;
        if (status == RDT_OK && job->progress && !job->progress(done, "checkpoints"))
          status = rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
      }
      if (status == RDT_OK) now->over = rdt_timing_median(s->ratios, job->trials);
    }
  rdt_chunks_destroy(c);
  return status;
}

static double percent(int part, const cell *c) {
  return 100.0 * part / c->runs;
}

static bool print(const rdt_bench_checkpoints_job *job, FILE *to, cell cells[STEPS][CORES][FAULTS], int n,
                  const study *s) {
  static const char *const columns[] = {"cores",
                                        "checkpoints",
                                        "faults|faults a run",
                                        "runs",
                                        "time_ratio|time / plain",
                                        "survived|survived %",
                                        "restarted|from the start %",
                                        "detected|DETECTED %",
                                        "wrong"};
  char title[256];
  rdt_bench_out t;
  snprintf(title, sizeof title, "votes on the way along k: cost and survival; f32, %lld x %lld x %lld, %s",
           (long long)s->p.out.shape[0], (long long)s->p.out.shape[1], (long long)s->in[0].shape[1],
           rdt_plan_kernel(s->plain));
  rdt_bench_begin(&t, to, job->format, "checkpoints", 1, job->head);
  rdt_bench_table(&t, "checkpoints", title, columns, sizeof columns / sizeof *columns);
  for (int on = 0; on < CORES; on++)
    for (int f = 0; f < FAULTS; f++)
      for (int i = 0; i < n; i++) {
        const cell *c = &cells[i][on][f];
        rdt_bench_integer(&t, cores[on]);
        rdt_bench_integer(&t, checkpoints[i]);
        rdt_bench_number(&t, faults[f], 3);
        rdt_bench_integer(&t, c->runs);
        rdt_bench_fixed(&t, c->over, 2);
        rdt_bench_fixed(&t, percent(c->survived, c), 1);
        rdt_bench_fixed(&t, percent(c->restarted, c), 1);
        rdt_bench_fixed(&t, percent(c->detected, c), 1);
        rdt_bench_integer(&t, c->wrong);
      }
  return rdt_bench_end(&t);
}

rdt_status rdt_bench_checkpoints(const rdt_bench_checkpoints_job *job, bool *wrong, rdt_reason *why) {
  cell cells[STEPS][CORES][FAULTS];
  study s = {.ctx = NULL};
  rdt_bench_file file;
  *wrong = false;
  RDT_TRY(rdt_bench_file_open(&file, job->output, why));
  rdt_status status = open_study(&s, job, why);
  int n = STEPS;
  while (status == RDT_OK && n > 1 && checkpoints[n - 1] >= s.in[0].shape[1])
    n--; /* a share has a step of k at least */
  for (int i = 0; i < n && status == RDT_OK; i++) status = fill(&s, job, i, cells[i], why);
  for (int i = 0; i < n && status == RDT_OK; i++)
    for (int on = 0; on < CORES; on++)
      for (int f = 0; f < FAULTS; f++) *wrong = *wrong || cells[i][on][f].wrong > 0;
  if (job->progress && !job->progress(1.0, "") && status == RDT_OK)
    status = rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
  if (status == RDT_OK && !print(job, file.f, cells, n, &s))
    status = rdt_fail(why, RDT_ERR_IO, "out of memory, or the table could not be written");
  if (rdt_bench_file_close(&file, "bench checkpoints", status == RDT_OK ? 0 : RDT_TIMING_STOPPED) == 2)
    status = rdt_fail(why, RDT_ERR_IO, "the table could not be written");
  close_study(&s);
  return status;
}
