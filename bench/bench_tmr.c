#include "bench_tmr.h"

#include <math.h>
#include <redoubt/plan.h>
#include <stdio.h>
#include <string.h>

#include "bench_common.h"
#include "bench_device.h"
#include "core/context.h"
#include "core/memory.h"
#include "output.h"
#include "plan/plan.h"

/* Giuffrida and Fragassi, "Triple Modular Redundancy on CUTLASS", "Profiling results": nanoseconds. */
static const struct {
  const char *name;
  double published;
  const char *cpu, *gpu; /* schemes; NULL: not there */
} levels[] = {{"plain product", 13527795.0, "none", "none"},
              {"kernel", 54254158.0, NULL, "tmr-kernel"},
              {"thread block", 1866731859.0, NULL, "tmr-block"},
              {"several kernels along k", 2239077493.0, NULL, "tmr-split"},
              {"cooperative groups", 5419873818.0, "tmr-sm", "tmr-sm"}};
enum { LEVELS = sizeof levels / sizeof *levels };

typedef struct measured {
  double seconds[LEVELS], over[LEVELS]; /* NaN: there is none */
  char kernel[LEVELS][64];
  bool differed;
} measured;

static void nothing(measured *m) {
  *m = (measured){.differed = false};
  for (int i = 0; i < LEVELS; i++) m->seconds[i] = m->over[i] = NAN;
}

/* ---- the CPU: f32 ---- */

typedef struct host {
  rdt_context *ctx;
  rdt_problem p;
  rdt_tensor in[2];
  rdt_plan *plan[LEVELS];
  rdt_operands o;
  bool differed;
} host;

typedef struct turn {
  host *h;
  int level;
} turn;

static int run_plan(void *user) {
  const turn *t = user;
  rdt_result r;
  if (rdt_plan_run(t->h->plan[t->level], &t->h->o, &r) != RDT_OK) return 2;
  t->h->differed = t->h->differed || r.faults > 0;
  return 0;
}

static rdt_status make_host(host *h, const rdt_bench_tmr_job *job, rdt_reason *why) {
  static const rdt_bench_shape usual = {.m = 1024, .n = 1024, .k = 1024};
  const rdt_bench_shape *s = job->shape ? job->shape : &usual;
  if (!rdt_bench_product(&h->p, h->in, s)) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  h->o = (rdt_operands){.in = h->in, .n_in = 2, .out = h->p.out};
  RDT_TRY(rdt_context_open(&h->ctx, job->threads, why));
  for (int i = 0; i < LEVELS; i++)
    if (levels[i].cpu && rdt_plan_create_as(h->ctx, levels[i].cpu, &h->p, "gemm", "gemm", NULL, &h->plan[i]) != RDT_OK)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: %s", levels[i].cpu, rdt_context_error(h->ctx));
  return RDT_OK;
}

static void drop_host(host *h) {
  for (int i = 0; i < LEVELS; i++) rdt_plan_destroy(h->plan[i]);
  rdt_context_destroy(h->ctx);
  rdt_free(h->in[0].data), rdt_free(h->in[1].data), rdt_free(h->p.out.data);
}

static rdt_status time_host(host *h, const rdt_bench_tmr_job *job, measured *m, rdt_reason *why) {
  turn turns[LEVELS];
  int at[LEVELS];
  rdt_timing t;
  rdt_timing_init(&t, job->trials);
  t.progress = job->progress;
  snprintf(t.what, sizeof t.what, "CPU");
  for (int i = 0; i < LEVELS; i++) {
    turns[i] = (turn){h, i};
    at[i] = h->plan[i] ? rdt_timing_add(&t, levels[i].name, run_plan, &turns[i]) : -1;
  }
  const int code = rdt_timing_run(&t);
  for (int i = 0; code == 0 && i < LEVELS; i++) {
    if (at[i] < 0) continue;
    m->seconds[i] = rdt_timing_stat_of(&t, at[i]).median;
    m->over[i] = rdt_timing_ratio_of(&t, at[i], at[0]).ratio;
    snprintf(m->kernel[i], sizeof m->kernel[i], "%s", rdt_plan_kernel(h->plan[i]));
  }
  rdt_timing_free(&t);
  m->differed = h->differed;
  if (code == RDT_TIMING_STOPPED) return rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
  return code ? rdt_fail(why, RDT_ERR_FAULT, "%s", rdt_context_error(h->ctx)) : RDT_OK;
}

static rdt_status measure_host(const rdt_bench_tmr_job *job, measured *m, rdt_reason *why) {
  host h = {.ctx = NULL};
  nothing(m);
  rdt_status s = make_host(&h, job, why);
  if (s == RDT_OK) s = time_host(&h, job, m, why);
  drop_host(&h);
  return s;
}

/* ---- a GPU: f16 ---- */

enum { WARM = 2 };

typedef struct device {
  rdt_machine *m;
  rdt_tensor in[2], out; /* on the device */
  rdt_cuda_linear *l[LEVELS];
  void *tape[LEVELS];
} device;

static rdt_status launch(rdt_machine *m, const void *user, rdt_reason *why) {
  return m->linear_launch(m, user, why);
}

static rdt_status record(device *d, int i, rdt_reason *why) {
  const rdt_cuda_linear_task task = {.l = d->l[i], .o = {.in = d->in, .n_in = 2, .out = d->out}};
  return rdt_bench_device_record(d->m, launch, &task, &d->tape[i], why);
}

static rdt_status make_device(device *d, const rdt_bench_tmr_job *job, rdt_reason *why) {
  static const rdt_bench_shape usual = {.m = 4096, .n = 4096, .k = 4096};
  const rdt_bench_shape *s = job->shape ? job->shape : &usual;
  uint64_t seed = 1;
  int index = 0;
  if (job->device) RDT_TRY(rdt_device_index(job->device, &index, why));
  RDT_TRY(rdt_machine_open(index, &d->m, why));
  d->m->device.votes = job->votes;
  RDT_TRY(rdt_bench_device_random(d->m, &d->in[0], s->m, s->k, &seed, why));
  RDT_TRY(rdt_bench_device_random(d->m, &d->in[1], s->k, s->n, &seed, why));
  RDT_TRY(rdt_bench_device_random(d->m, &d->out, s->m, s->n, &seed, why));
  rdt_problem p = {.op = RDT_KOP_GEMM, .n_in = 2, .in = d->in, .out = d->out, .epilogue = RDT_EPILOGUE_NONE};
  p.acc = RDT_F32;
  for (int i = 0; i < LEVELS; i++) {
    rdt_reason its = {""};
    if (!levels[i].gpu) continue;
    const rdt_status status = d->m->linear_create(d->m, &p, levels[i].gpu, 6.0, &d->l[i], &its);
    if (status != RDT_OK && (i == 0 || status != RDT_ERR_UNSUPPORTED)) return rdt_fail(why, status, "%s", its.text);
    if (status == RDT_OK) RDT_TRY(record(d, i, why));
  }
  return RDT_OK;
}

static void drop_device(device *d) {
  if (!d->m) return;
  for (int i = 0; i < LEVELS; i++) {
    if (d->tape[i]) d->m->erase(d->m, d->tape[i]);
    if (d->l[i]) d->m->linear_destroy(d->l[i]);
  }
  d->m->release(d->m, d->in[0].data), d->m->release(d->m, d->in[1].data), d->m->release(d->m, d->out.data);
  d->m->close(d->m);
}

/* In turn, each time beginning with another one; of ratios, those of one turn. */
static rdt_status take(device *d, const rdt_bench_tmr_job *job, double *samples, measured *m, bool *stopped,
                       rdt_reason *why) {
  for (int t = -WARM; t < job->trials && !*stopped; t++)
    for (int i = 0; i < LEVELS && !*stopped; i++) {
      const int level = (i + t + WARM) % LEVELS;
      double seconds;
      if (!d->tape[level]) continue;
      RDT_TRY(rdt_bench_device_time(d->m, d->tape[level], &seconds, why));
      if (t >= 0) samples[level * job->trials + t] = seconds;
      *stopped = job->progress && !job->progress((double)(t + WARM) / (job->trials + WARM), "GPU");
    }
  for (int i = LEVELS - 1; i >= 0 && !*stopped; i--) { /* the first last: a median sorts */
    double *x = samples + i * job->trials, *ratios = samples + LEVELS * job->trials;
    rdt_cuda_verdict v;
    if (!d->tape[i]) continue;
    for (int t = 0; t < job->trials; t++) ratios[t] = x[t] / samples[t];
    m->over[i] = rdt_timing_median(ratios, job->trials);
    m->seconds[i] = rdt_timing_median(x, job->trials);
    snprintf(m->kernel[i], sizeof m->kernel[i], "%s", d->m->linear_kernel(d->l[i]));
    if (i == 0) continue;
    RDT_TRY(d->m->get(d->m, RDT_LANE_MAIN, &v, d->m->linear_verdict(d->l[i]), sizeof v, why));
    RDT_TRY(d->m->wait(d->m, why));
    m->differed = m->differed || v.suspect || v.certain;
  }
  return RDT_OK;
}

static rdt_status measure_device(const rdt_bench_tmr_job *job, measured *m, char *name, size_t size, rdt_reason *why) {
  device d = {.m = NULL};
  bool stopped = false;
  double *samples = rdt_calloc((size_t)((LEVELS + 1) * job->trials), sizeof *samples);
  nothing(m);
  rdt_status s = samples ? make_device(&d, job, why) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (s == RDT_OK) s = take(&d, job, samples, m, &stopped, why);
  if (s == RDT_OK) snprintf(name, size, "%s", d.m->device.name);
  drop_device(&d);
  rdt_free(samples);
  return s == RDT_OK && stopped ? rdt_fail(why, RDT_ERR_CANCELLED, "stopped") : s;
}

/* ---- the table ---- */

static void side(rdt_bench_out *t, const char *scheme, const measured *m, int i) {
  const bool there = !isnan(m->seconds[i]);
  rdt_bench_text(t, there ? scheme : "");
  rdt_bench_text(t, m->kernel[i]);
  rdt_bench_number(t, 1e3 * m->seconds[i], 4);
  rdt_bench_fixed(t, m->over[i], 2);
}

static bool print(const rdt_bench_tmr_job *job, FILE *to, const measured *cpu, const measured *gpu, const char *name) {
  static const char *const columns[] = {"level",
                                        "published_ms|published ms",
                                        "published_ratio|published / plain",
                                        "cpu_scheme|CPU scheme",
                                        "cpu_kernel|CPU kernel",
                                        "cpu_ms|CPU ms",
                                        "cpu_ratio|CPU / plain",
                                        "gpu_scheme|GPU scheme",
                                        "gpu_kernel|GPU kernel",
                                        "gpu_ms|GPU ms",
                                        "gpu_ratio|GPU / plain"};
  char title[256];
  rdt_bench_out t;
  snprintf(title, sizeof title, "three copies by level: published, on this CPU (f32), on a GPU (f16; %s)", name);
  rdt_bench_begin(&t, to, job->format, "tmr", 1, job->head);
  rdt_bench_table(&t, "levels", title, columns, sizeof columns / sizeof *columns);
  for (int i = 0; i < LEVELS; i++) {
    rdt_bench_text(&t, levels[i].name);
    rdt_bench_number(&t, 1e-6 * levels[i].published, 4);
    rdt_bench_fixed(&t, levels[i].published / levels[0].published, 2);
    side(&t, levels[i].cpu, cpu, i);
    side(&t, levels[i].gpu, gpu, i);
  }
  return rdt_bench_end(&t);
}

rdt_status rdt_bench_tmr(const rdt_bench_tmr_job *job, bool *differed, rdt_reason *why) {
  measured cpu, gpu;
  rdt_reason none = {""};
  rdt_bench_file file;
  char name[128] = "there is none";
  const bool wanted = !job->device || strcmp(job->device, "cpu") != 0;
  RDT_TRY(rdt_bench_file_open(&file, job->output, why));
  nothing(&gpu);
  rdt_status s = measure_host(job, &cpu, why);
  if (s == RDT_OK && wanted && (job->device || rdt_cuda_count(&none) > 0))
    s = measure_device(job, &gpu, name, sizeof name, why);
  if (job->progress && !job->progress(1.0, "") && s == RDT_OK) s = rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
  if (s == RDT_OK && !print(job, file.f, &cpu, &gpu, name))
    s = rdt_fail(why, RDT_ERR_IO, "out of memory, or the table could not be written");
  /* What could not be made is not written, and said by the caller. */
  if (rdt_bench_file_close(&file, "bench tmr", s == RDT_OK ? 0 : RDT_TIMING_STOPPED) == 2)
    s = rdt_fail(why, RDT_ERR_IO, "the table could not be written");
  *differed = cpu.differed || gpu.differed;
  return s;
}
