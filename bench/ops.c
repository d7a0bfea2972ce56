#include "ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/threads.h"
#include "dnnl_op.h"
#include "output.h"
#include "plan/probe.h"
#include "results.h"
#include "schemes/scheme.h"

enum {
  COLD_BYTES = 192 << 20, /* more than any last-level cache here */
  MOST_COPIES = 4096,     /* each has a plan of its own for each contender */
  PROBES = 5              /* of the machine's limits, before a field and after it */
};

typedef struct session {
  const rdt_bench_ops *o;
  char command[32];
  rdt_probe_room room;
  rdt_bench_results results;
  bool told;    /* that no library takes the problem */
  double begin; /* when */
  double peak;  /* operations a second of one thread */
  double due;   /* samples that each contender still needs, in seconds; of all that there were */
  double all;
} session;

static int complain(const session *s, const char *text) {
  fprintf(stderr, "redoubt %s: %s\n", s->command, text);
  return 2;
}

/* ---- data ---- */

static void data_free(rdt_problem *first, int copies) {
  for (int i = 0; first && i < copies; i++) {
    rdt_problem *p = &first[i];
    if (i == 0) { /* what is no weight is the same for all */
      if (p->in) rdt_free(p->in[0].data);
      rdt_free(p->out.data);
      if (p->epilogue.bias.rank >= 0) rdt_free(p->epilogue.bias.data);
    }
    if (p->in) rdt_free(p->in[1].data);
    rdt_problem_clear(p);
  }
  rdt_free(first);
}

static rdt_status data_copy(const rdt_problem *first, rdt_problem *p, uint64_t *seed, rdt_reason *why) {
  rdt_tensor *in = p->in;
  *p = *first;
  p->in = in;
  p->in[0] = first->in[0];
  p->in[1] = first->in[1];
  p->in[1].data = NULL;
  return rdt_bench_random_weights(&p->in[1], seed) ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static rdt_status data_make(const rdt_bench_ops *o, int which, rdt_problem *list, int copies, rdt_reason *why) {
  uint64_t seed = 1;
  for (int i = 0; i < copies; i++) {
    list[i].epilogue = RDT_EPILOGUE_NONE;
    RDT_TRY(rdt_problem_init(&list[i], o->cases[which].op, 2));
    if (i == 0)
      RDT_TRY(o->fill(o->user, which, &list[i], &seed, why));
    else
      RDT_TRY(data_copy(list, &list[i], &seed, why));
  }
  return RDT_OK;
}

static int contenders(const rdt_bench_ops *o, rdt_kop op) {
  int n, count = o->ask->baselines->count + 1;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  for (int i = 0; i < o->ask->n_schemes; i++) {
    if (strcmp(o->ask->schemes[i], "all") != 0) {
      count++;
      continue;
    }
    for (int j = 0; j < n; j++) count += rdt_scheme_serves(&table[j], op);
  }
  return count;
}

/* How many copies of its weights a case takes. Each contender packs them all. */
static rdt_status copies_of(const rdt_bench_ops *o, int which, int *copies, rdt_reason *why) {
  const rdt_bench_case *c = &o->cases[which];
  const double cold = floor(COLD_BYTES / fmax(c->weights, 1.0)) + 2.0;
  const double needed = c->copies ? (double)c->copies : o->ask->cold ? cold : 1.0;
  if (needed > MOST_COPIES)
    return rdt_fail(why, RDT_ERR_ARG,
                    "%s: %.3g copies of its weights would make the %d MB that --cold rotates through: leave it out, or "
                    "take weights of %d KB and more",
                    c->name, needed, COLD_BYTES >> 20, COLD_BYTES / MOST_COPIES >> 10);
  const int all = contenders(o, c->op);
  const double bytes = c->data + needed * c->weights * (1 + all), free = rdt_memory_available();
  if (bytes > free)
    return rdt_fail(why, RDT_ERR_NOMEM,
                    "%s needs some %.3g GB for %d contenders, and %.3g GB are free: take fewer schemes, a smaller "
                    "shape, or leave --cold out",
                    c->name, bytes * 1e-9, all, free * 1e-9);
  *copies = (int)needed;
  return RDT_OK;
}

/* ---- one problem at one number of threads ---- */

/* A limit is what was reached once. */
static double highest(const double *list, int n) {
  double most = NAN;
  for (int i = 0; i < n; i++) most = fmax(most, list[i]);
  return most;
}

static void add_probes(const session *s, int threads, double *peak, double *bandwidth) {
  for (int i = 0; i < PROBES; i++) {
    peak[i] = rdt_probe_peak(s->o->ask->dtype, threads);
    bandwidth[i] = rdt_probe_bandwidth(&s->room, threads);
  }
}

void rdt_bench_add_dnnl(rdt_field *f, rdt_baselines *b, const char *name, bool plain) {
  static const rdt_foreign calls = {rdt_dnnl_op_run, rdt_dnnl_op_fetch, rdt_dnnl_op_destroy};
  rdt_baseline *library = rdt_baselines_find(b, "onednn");
  if (!library) return;
  const int before = rdt_threads_enter(f->threads);
  rdt_dnnl_op *op = rdt_dnnl_op_create(f->problems, f->copies, plain);
  rdt_threads_leave(before);
  rdt_field_add_foreign(f, library, name, plain ? "plain" : "blocked", &calls, op);
}

/* What is likely to be needed for a sample of a case, at half of what one thread may reach here. */
static double sample_of(const session *s, const rdt_bench_case *c, int threads) {
  const double work = 2.0 * c->flops / (s->peak * threads);
  return fmax(work, 2e-3);
}

static rdt_status gather(session *s, rdt_field *f, const rdt_bench_case *c, rdt_reason *why) {
  const rdt_bench_ask *ask = s->o->ask;
  rdt_baseline *const own = rdt_baselines_find(ask->baselines, "own");
  s->o->gather(s->o->user, f);
  rdt_field_add_kernel(f, own, own ? own->name : "", false);
  RDT_TRY(rdt_field_verify(f, why));
  if (f->count == 0 && ask->baselines->count > 0 && !s->told) {
    fprintf(stderr, "redoubt %s: no library that is there takes %s with epilogue %s: only Redoubt's own are compared\n",
            s->command, rdt_dtype_name(ask->dtype), ask->epilogue);
    s->told = true;
  }
  f->measure = 0.3 * ask->seconds * sample_of(s, c, f->threads) / s->all; /* 0: as long as it takes */
  const bool ready = rdt_field_add_none(f) && rdt_field_add_schemes(f, ask->schemes, ask->n_schemes);
  return ready ? RDT_OK : rdt_fail(why, RDT_ERR_UNSUPPORTED, "it cannot be planned");
}

/* So many trials that what is left is shared by what is still to come. Where that is too little for three of them,
 * none warms up: each run is long then. */
static int trials_of(session *s, const rdt_bench_case *c, int threads, int contenders, int *warm_up) {
  const rdt_bench_ask *ask = s->o->ask;
  const double sample = sample_of(s, c, threads);
  const double left = ask->seconds - (rdt_timing_now() - s->begin), share = left * sample / s->due;
  s->due -= sample;
  if (!(ask->seconds > 0.0)) return ask->trials;
  const double trials = share / (sample * contenders) - 1.0; /* it warms up as well */
  *warm_up = trials >= 3.0 || sample < 0.1;
  return trials < 3.0 ? 3 : trials > ask->trials ? ask->trials : (int)trials;
}

static int bench_one(session *s, const rdt_problem *problems, int copies, int which, int turn) {
  const rdt_bench_ask *ask = s->o->ask;
  const rdt_bench_case *c = &s->o->cases[which];
  const int threads = (int)ask->threads[turn];
  double peak[2 * PROBES], bandwidth[2 * PROBES];
  rdt_reason why = {""};
  rdt_timing timing;
  rdt_field field;
  rdt_timing_init(&timing, ask->trials);
  timing.progress = ask->progress;
  timing.turn = which * ask->n_threads + turn;
  timing.turns = s->o->count * ask->n_threads;
  snprintf(timing.what, sizeof timing.what, "%.40s, threads %d", c->name, threads);
  rdt_field_begin(&field, s->command, problems, copies, threads);
  int code = gather(s, &field, c, &why) == RDT_OK ? 0 : complain(s, why.text);
  if (code == 0) {
    add_probes(s, threads, peak, bandwidth);
    timing.trials = trials_of(s, c, threads, rdt_field_runs(&field), &timing.warm_up);
    code = rdt_field_time(&field, &timing);
    add_probes(s, threads, peak + PROBES, bandwidth + PROBES);
  }
  if (field.timed) {
    rdt_bench_row *row = &s->results.rows[s->results.count++];
    *row = (rdt_bench_row){.which = which, .threads = threads, .flops = rdt_problem_flops(problems)};
    row->bytes = ask->cold ? c->data + c->weights : NAN;
    row->peak = highest(peak, 2 * PROBES);
    row->bandwidth = highest(bandwidth, 2 * PROBES);
    rdt_bench_row_take(row, &field, &timing);
  } else {
    rdt_timing_free(&timing);
  }
  rdt_field_end(&field);
  return code;
}

static int bench_case(session *s, int which) {
  rdt_reason why = {""};
  int copies = 0, code = 0;
  rdt_problem *list = NULL;
  rdt_status status = copies_of(s->o, which, &copies, &why);
  if (status == RDT_OK) {
    list = rdt_calloc((size_t)copies, sizeof *list);
    status = list ? data_make(s->o, which, list, copies, &why) : RDT_ERR_NOMEM;
  }
  if (status != RDT_OK) code = complain(s, *why.text ? why.text : rdt_status_text(status));
  for (int i = 0; code < 2 && i < s->o->ask->n_threads; i++) {
    const int c = bench_one(s, list, copies, which, i);
    if (c > code) code = c;
  }
  data_free(list, copies);
  return code;
}

static void open_baselines(const session *s) {
  rdt_baseline *dnnl = rdt_baselines_find(s->o->ask->baselines, "onednn");
  if (dnnl) rdt_dnnl_about(dnnl->version, sizeof dnnl->version, dnnl->core, sizeof dnnl->core);
  rdt_baselines_open(s->command, s->o->ask->baselines);
}

int rdt_bench_ops_run(const rdt_bench_ops *o) {
  const rdt_bench_ask *ask = o->ask;
  session s = {.o = o, .begin = rdt_timing_now(), .results = {.ops = o}};
  rdt_bench_file out;
  rdt_bench_out t;
  int most = 1, code = 0;
  snprintf(s.command, sizeof s.command, "bench %s", o->name);
  for (int i = 0; i < ask->n_threads; i++) most = ask->threads[i] > most ? (int)ask->threads[i] : most;
  rdt_reason why = {""};
  if (rdt_bench_file_open(&out, ask->output, &why) != RDT_OK) return complain(&s, why.text);
  s.results.rows = rdt_calloc((size_t)o->count * (size_t)ask->n_threads, sizeof *s.results.rows);
  if (!o->count || !s.results.rows || !rdt_probe_open(&s.room, most)) code = complain(&s, "out of memory");
  if (code == 0) open_baselines(&s);
  s.peak = rdt_probe_peak(ask->dtype, 1);
  for (int i = 0; i < o->count; i++)
    for (int j = 0; j < ask->n_threads; j++) s.due += sample_of(&s, &o->cases[i], (int)ask->threads[j]);
  s.all = s.due;
  for (int i = 0; code < 2 && i < o->count; i++) {
    const int c = bench_case(&s, i);
    if (c > code) code = c;
  }
  if (code < 2) {
    rdt_bench_begin(&t, out.f, ask->format, o->name, o->version, ask->head);
    rdt_bench_print(&s.results, &t);
    if (!rdt_bench_end(&t)) code = complain(&s, "writing the table failed");
  }
  for (int i = 0; i < s.results.count; i++) rdt_timing_free(&s.results.rows[i].timing);
  rdt_free(s.results.rows);
  rdt_probe_close(&s.room);
  return rdt_bench_file_close(&out, s.command, code);
}
