#include "bench_conv.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "blocked_conv.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "plan/plan.h"
#include "schemes/scheme.h"
#include "timing.h"

static const char usage[] =
    "usage: redoubt bench conv [--n 1,8] [--ic C --oc K --ih H --iw W --kh R --kw S] [--stride N] [--pad N]\n"
    "                          [--dilation N] [--groups G] [--dtype f32|f64|bf16|f16|s8] [--threads 1,2]\n"
    "                          [--scheme auto|NAME|all] [--epilogue none|bias|bias+relu] [--trials N]\n"
    "                          [--format md|csv|json | --json] [-o FILE]\n"
    "Protected against unprotected convolutions of random data, interleaved; medians, and ratios with 95 % bootstrap\n"
    "intervals. / oneDNN compares with the faster of oneDNN in its own blocked formats and oneDNN in NHWC, epilogue\n"
    "fused; / none with this program's own unprotected path. Defaults: 56 x 56, 64 to 64 channels, 3 x 3, pad 1.\n"
    "  redoubt bench conv --n 8 --threads 2 --scheme all\n"
    "  redoubt bench conv --ic 512 --oc 512 --ih 7 --iw 7 --epilogue bias+relu\n";

typedef struct options {
  long long ic, oc, ih, iw, kh, kw, stride, pad, dilation, groups, trials;
  long long n[RDT_BENCH_LIST], threads[RDT_BENCH_LIST];
  int n_count, thread_count;
  rdt_dtype dtype;
  const char *scheme, *epilogue, *output;
  rdt_bench_format format;
} options;

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum { NUMBERS = 11 };
static const struct option names[] = {{"ic", 1, 0, 0},         {"oc", 1, 0, 1},        {"ih", 1, 0, 2},
                                      {"iw", 1, 0, 3},         {"kh", 1, 0, 4},        {"kw", 1, 0, 5},
                                      {"stride", 1, 0, 6},     {"pad", 1, 0, 7},       {"dilation", 1, 0, 8},
                                      {"groups", 1, 0, 9},     {"trials", 1, 0, 10},   {"n", 1, 0, 'n'},
                                      {"dtype", 1, 0, 'd'},    {"threads", 1, 0, 't'}, {"scheme", 1, 0, 's'},
                                      {"epilogue", 1, 0, 'e'}, {"format", 1, 0, 'f'},  {"output", 1, 0, 'o'},
                                      {"json", 0, 0, 'j'},     {"help", 0, 0, 'h'},    {0, 0, 0, 0}};

static bool parse_one(int c, const char *value, options *o) {
  long long *const numbers[NUMBERS] = {&o->ic,     &o->oc,  &o->ih,       &o->iw,     &o->kh,    &o->kw,
                                       &o->stride, &o->pad, &o->dilation, &o->groups, &o->trials};
  if (c >= 0 && c < NUMBERS) return rdt_bench_parse_number(value, numbers[c] == &o->pad ? 0 : 1, numbers[c]);
  switch (c) {
    case 'n':
      return rdt_bench_parse_list(value, o->n, &o->n_count);
    case 't':
      return rdt_bench_parse_list(value, o->threads, &o->thread_count);
    case 'd':
      return rdt_bench_parse_dtype(value, &o->dtype);
    case 's':
      o->scheme = value;
      return rdt_bench_parse_scheme(value, RDT_KOP_CONV);
    case 'e':
      o->epilogue = value;
      return rdt_bench_parse_epilogue(value);
    case 'f':
      return rdt_bench_format_parse(value, &o->format);
    case 'j':
      return rdt_bench_format_parse("json", &o->format);
    case 'o':
      o->output = value;
      return true;
    default:
      return false;
  }
}

/* 0, or -1 after --help, or the exit code. */
static int parse(int argc, char **argv, options *o) {
  *o = (options){.ic = 64, .oc = 64, .ih = 56, .iw = 56, .kh = 3, .kw = 3, .stride = 1, .pad = 1, .dilation = 1};
  o->groups = 1;
  o->trials = 31;
  o->n[0] = o->threads[0] = 1;
  o->n[1] = 8;
  o->threads[1] = o->n_count = o->thread_count = 2;
  o->dtype = RDT_F32;
  o->scheme = "auto";
  o->epilogue = "none";
  int c;
  optind = 0;
  while ((c = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
    if (c == 'h') {
      fputs(usage, stdout);
      return -1;
    }
    if (!parse_one(c, optarg, o)) {
      if (c != '?') fprintf(stderr, "redoubt bench conv: '%s' is not a value of that option\n", optarg);
      fputs(usage, stderr);
      return 2;
    }
  }
  if (optind < argc) fprintf(stderr, "redoubt bench conv: unexpected '%s'\n%s", argv[optind], usage);
  return optind < argc ? 2 : 0;
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static bool random_values(rdt_tensor *t, uint64_t *seed) {
  const int64_t n = rdt_tensor_count(t);
  t->data = n < 0 ? NULL : rdt_alloc((size_t)n, rdt_dtype_size(t->dtype));
  for (int64_t i = 0; t->data && i < n; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    const double x = (double)(int64_t)(*seed >> 33) / (double)(1 << 30) - 1.0;
    rdt_store(t->data, t->dtype, i, t->dtype == RDT_S8 ? 127 * x : x);
  }
  return t->data != NULL;
}

static void data_free(rdt_problem *p) {
  for (int i = 0; p->in && i < 2; i++) rdt_free(p->in[i].data);
  rdt_free(p->out.data);
  if (p->epilogue.bias.rank >= 0) rdt_free(p->epilogue.bias.data);
  rdt_problem_clear(p);
}

static rdt_status data_make(const options *o, int64_t n, rdt_problem *p, rdt_reason *why) {
  uint64_t seed = 1;
  *p = (rdt_problem){.epilogue = RDT_EPILOGUE_NONE};
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONV, 2));
  p->acc = rdt_dtype_accumulator(o->dtype);
  p->window = (rdt_window){.kernel = {o->kh, o->kw},
                           .stride = {o->stride, o->stride},
                           .dilation = {o->dilation, o->dilation},
                           .pad = {o->pad, o->pad, o->pad, o->pad},
                           .groups = o->groups};
  const int64_t out[2] = {(o->ih + 2 * o->pad - (o->kh - 1) * o->dilation - 1) / o->stride + 1,
                          (o->iw + 2 * o->pad - (o->kw - 1) * o->dilation - 1) / o->stride + 1};
  p->in[0] = rdt_tensor_channels_last(NULL, o->dtype, (int64_t[]){n, o->ic, o->ih, o->iw});
  p->in[1] = rdt_tensor_dense(NULL, o->dtype, 4, (int64_t[]){o->oc, o->ic / o->groups, o->kh, o->kw});
  p->out = rdt_tensor_channels_last(NULL, p->acc, (int64_t[]){n, o->oc, out[0], out[1]});
  const int64_t channels = o->oc;
  if (strcmp(o->epilogue, "none") != 0) p->epilogue.bias = rdt_tensor_dense(NULL, p->acc, 1, &channels);
  if (strcmp(o->epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  RDT_TRY(rdt_problem_check(p, why));
  const bool ok = random_values(&p->in[0], &seed) && random_values(&p->in[1], &seed) && random_values(&p->out, &seed) &&
                  (p->epilogue.bias.rank < 0 || random_values(&p->epilogue.bias, &seed));
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "not enough memory");
}

/* ---- contenders ------------------------------------------------------------------------------------------------- */

typedef struct contender {
  const rdt_problem *p;
  const char *name;
  int threads;
  rdt_context *ctx; /* one of: a plan of ours, a bare kernel, oneDNN in its own formats */
  rdt_plan *plan;
  const rdt_kernel *kernel;
  void *state;
  rdt_blocked_conv *blocked;
  double ratio;
  int64_t suspects, faults;
  rdt_verdict verdict;
} contender;

static int run_plan(contender *x) {
  const rdt_operands o = {.in = x->p->in, .n_in = 2, .out = x->p->out, .epilogue = &x->p->epilogue};
  rdt_result r;
  const rdt_status status = rdt_plan_run(x->plan, &o, &r);
  if (r.ratio > x->ratio) x->ratio = r.ratio;
  x->suspects += r.suspects;
  x->faults += r.faults;
  if (r.verdict > x->verdict) x->verdict = r.verdict;
  return (int)status;
}

static int run(void *user) {
  contender *x = user;
  if (x->plan) return run_plan(x);
  const rdt_operands o = {.in = x->p->in, .n_in = 2, .out = x->p->out, .epilogue = &x->p->epilogue};
  const int threads = rdt_threads_enter(x->threads);
  const int code = x->kernel ? (int)x->kernel->run(x->state, &o, NULL) : rdt_blocked_conv_run(x->blocked);
  rdt_threads_leave(threads);
  return code;
}

static void contender_free(contender *x) {
  rdt_plan_destroy(x->plan);
  rdt_context_destroy(x->ctx);
  if (x->state) x->kernel->destroy(x->state);
  rdt_blocked_conv_destroy(x->blocked);
}

static bool plan_contender(contender *x, const char *scheme) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  if (rdt_context_create(&x->ctx, x->threads) != RDT_OK) return false;
  if (rdt_context_set_policy(x->ctx, &policy) == RDT_OK &&
      rdt_plan_create(x->ctx, x->p, "conv", "conv", NULL, &x->plan) == RDT_OK)
    return true;
  fprintf(stderr, "redoubt bench conv: %s: %s\n", scheme, rdt_context_error(x->ctx));
  return false;
}

/* The best vendor row for this problem, bare: weights packed, epilogue as post-ops. */
static bool kernel_contender(contender *x) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && !x->kernel; i++)
    if (rows[i]->op == RDT_KOP_CONV && rows[i]->black_box && rdt_isa_detect() >= rows[i]->isa &&
        rows[i]->accept(x->p, NULL) == RDT_OK)
      x->kernel = rows[i];
  return x->kernel && x->kernel->create(x->p, x->threads, &x->state, NULL) == RDT_OK;
}

static bool blocked_contender(contender *x) {
  const int threads = rdt_threads_enter(x->threads);
  x->blocked = rdt_blocked_conv_create(x->p);
  rdt_threads_leave(threads);
  return x->blocked != NULL;
}

/* ---- one batch size and number of threads ----------------------------------------------------------------------- */

typedef struct session {
  const options *o;
  rdt_problem p;
  contender list[RDT_TIMING_CASES];
  int count, blocked, nhwc, none; /* baselines, -1: not there */
} session;

static contender *add(session *s, const char *name, int threads) {
  s->list[s->count] = (contender){.p = &s->p, .name = name, .threads = threads};
  return &s->list[s->count];
}

/* A contender that does not take the problem is left out. */
static int keep(session *s, bool ok) {
  if (ok) return s->count++;
  contender_free(&s->list[s->count]);
  return -1;
}

static bool gather(session *s, int threads) {
  int n;
  const rdt_scheme_info *schemes = rdt_scheme_table(&n);
  const bool all = strcmp(s->o->scheme, "all") == 0;
  s->count = 0;
  s->blocked = keep(s, blocked_contender(add(s, "oneDNN blocked", threads)));
  s->nhwc = keep(s, kernel_contender(add(s, "oneDNN NHWC", threads)));
  s->none = keep(s, plan_contender(add(s, "redoubt none", threads), "none"));
  if (!all && strcmp(s->o->scheme, "none") != 0)
    return keep(s, plan_contender(add(s, "redoubt", threads), s->o->scheme)) >= 0;
  for (int i = 0; all && i < n; i++)
    if (schemes[i].id != RDT_SCHEME_NONE && rdt_scheme_serves(&schemes[i], RDT_KOP_CONV))
      keep(s, plan_contender(add(s, "redoubt", threads), schemes[i].name));
  return s->none >= 0;
}

static const char *const columns[] = {"n",
                                      "shape",
                                      "dtype",
                                      "epilogue",
                                      "threads",
                                      "what",
                                      "kernel",
                                      "scheme",
                                      "ms",
                                      "p10",
                                      "p90",
                                      "GFLOP/s",
                                      "/ oneDNN",
                                      "low",
                                      "high",
                                      "/ none",
                                      "low none",
                                      "high none",
                                      "worst residual / bound",
                                      "suspects",
                                      "verdict"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static int yardstick(const session *s, const rdt_timing *timing) {
  if (s->blocked < 0 || s->nhwc < 0) return s->blocked < 0 ? s->nhwc : s->blocked;
  return rdt_timing_stat_of(timing, s->blocked).median <= rdt_timing_stat_of(timing, s->nhwc).median ? s->blocked
                                                                                                     : s->nhwc;
}

static void print_row(const session *s, rdt_bench_out *t, const rdt_timing *timing, int i) {
  const contender *x = &s->list[i];
  const options *o = s->o;
  const rdt_timing_stat stat = rdt_timing_stat_of(timing, i);
  const bool checked = x->plan && i != s->none;
  char shape[128];
  snprintf(shape, sizeof shape, "%lld x %lld, %lld to %lld, %lld x %lld s%lld p%lld g%lld", o->ih, o->iw, o->ic, o->oc,
           o->kh, o->kw, o->stride, o->pad, o->groups);
  rdt_bench_fixed(t, (double)s->p.out.shape[0], 0);
  rdt_bench_text(t, shape);
  rdt_bench_text(t, rdt_dtype_name(o->dtype));
  rdt_bench_text(t, o->epilogue);
  rdt_bench_fixed(t, x->threads, 0);
  rdt_bench_text(t, x->name);
  rdt_bench_text(t, x->plan ? rdt_plan_kernel(x->plan) : x->kernel ? x->kernel->name : "dnnl any");
  rdt_bench_text(t, x->plan ? rdt_plan_scheme(x->plan) : "none");
  rdt_bench_fixed(t, 1e3 * stat.median, 4);
  rdt_bench_fixed(t, 1e3 * stat.p10, 4);
  rdt_bench_fixed(t, 1e3 * stat.p90, 4);
  rdt_bench_fixed(t, rdt_problem_flops(&s->p) / stat.median * 1e-9, 1);
  rdt_bench_ratio(t, timing, i, yardstick(s, timing));
  rdt_bench_ratio(t, timing, i, s->none);
  rdt_bench_fixed(t, checked ? x->ratio : NAN, 3);
  rdt_bench_fixed(t, checked ? (double)x->suspects : NAN, 0);
  rdt_bench_text(t, rdt_verdict_name(checked ? x->verdict : RDT_UNCHECKED));
}

static int bench_case(session *s, rdt_bench_out *t, int64_t n, int threads) {
  rdt_timing timing;
  rdt_reason why = {.text = ""};
  rdt_timing_init(&timing, (int)s->o->trials);
  s->count = 0;
  int code = data_make(s->o, n, &s->p, &why) == RDT_OK ? 0 : 2;
  if (code != 0) fprintf(stderr, "redoubt bench conv: %s\n", why.text);
  if (code == 0 && !gather(s, threads)) code = 2;
  for (int i = 0; code == 0 && i < s->count; i++) rdt_timing_add(&timing, s->list[i].name, run, &s->list[i]);
  if (code == 0) {
    const int stopped = rdt_timing_run(&timing);
    if (stopped != 0) fprintf(stderr, "redoubt bench conv: stopped: %s\n", rdt_status_text((rdt_status)stopped));
    code = stopped == 0 ? 0 : stopped == RDT_ERR_FAULT ? 1 : 2;
  }
  for (int i = 0; code == 0 && i < s->count; i++) print_row(s, t, &timing, i);
  for (int i = 0; i < s->count; i++) {
    if (code == 0 && s->list[i].faults) code = 1;
    contender_free(&s->list[i]);
  }
  rdt_timing_free(&timing);
  data_free(&s->p);
  return code;
}

int rdt_bench_conv(int argc, char **argv) {
  options o;
  session s = {.o = &o};
  const int bad = parse(argc, argv, &o);
  if (bad) return bad < 0 ? 0 : bad;
  rdt_bench_file out;
  if (!rdt_bench_file_open(&out, o.output)) {
    fputs("redoubt bench conv: out of memory\n", stderr);
    return 2;
  }
  rdt_bench_out t;
  rdt_bench_begin_rows(&t, out.f, o.format, "conv", columns, COLUMNS);
  int code = 0;
  for (int n = 0; n < o.n_count; n++)
    for (int i = 0; code != 2 && i < o.thread_count; i++) {
      const int c = bench_case(&s, &t, o.n[n], (int)o.threads[i]);
      if (c > code) code = c;
    }
  if (!rdt_bench_end(&t)) {
    fputs("redoubt bench conv: writing the table failed\n", stderr);
    code = 2;
  }
  return rdt_bench_file_close(&out, "bench conv", code);
}
