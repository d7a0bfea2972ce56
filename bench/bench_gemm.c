#include "bench_gemm.h"

#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "plan/plan.h"
#include "schemes/scheme.h"
#include "timing.h"

enum { COLD_BYTES = 192 << 20 /* more than any last-level cache here */ };

static const char usage[] =
    "usage: redoubt bench gemm [--mnk M:N:K | --m M --n N --k K] [--dtype f32|f64|bf16|f16|s8] [--threads 1,2]\n"
    "                          [--scheme auto|NAME|all] [--epilogue none|bias|bias+relu] [--cold] [--trials N]\n"
    "                          [--format md|csv|json | --json] [-o FILE]\n"
    "Protected against unprotected products, interleaved; medians, and ratios with 95 % bootstrap intervals.\n"
    "--cold rotates through at least 192 MB of weights.\n";

typedef struct options {
  long long m, n, k;
  rdt_dtype dtype;
  long long threads[RDT_BENCH_LIST], trials;
  int n_threads;
  const char *scheme, *epilogue, *output;
  bool cold;
  rdt_bench_format format;
} options;

/* What all cases multiply: C = act(A B + bias), B one of copies. */
typedef struct data {
  rdt_problem prob;
  rdt_tensor *b, c;
  int copies;
} data;

typedef struct contender {
  const data *d;
  const char *name;
  int threads, next;        /* next: which copy of B */
  rdt_context *ctx;         /* of the plans */
  rdt_plan **plans;         /* ours, one for each copy of B */
  const rdt_kernel *kernel; /* or a bare kernel, with one state for each copy */
  void **states;
  void *blas; /* or a cblas gemm */
  rdt_result worst;
} contender;

/* ---- options ---------------------------------------------------------------------------------------------------- */

static bool parse_mnk(const char *text, options *o) {
  int used = 0;
  return sscanf(text, "%lld:%lld:%lld%n", &o->m, &o->n, &o->k, &used) == 3 && text[used] == '\0' && o->m > 0 &&
         o->n > 0 && o->k > 0 && o->m < 1 << 20 && o->n < 1 << 20 && o->k < 1 << 20;
}

static bool parse_one(int c, const char *value, options *o) {
  switch (c) {
    case 'm':
      return rdt_bench_parse_number(value, 1, &o->m);
    case 'n':
      return rdt_bench_parse_number(value, 1, &o->n);
    case 'k':
      return rdt_bench_parse_number(value, 1, &o->k);
    case 'x':
      return parse_mnk(value, o);
    case 'd':
      return rdt_bench_parse_dtype(value, &o->dtype);
    case 't':
      return rdt_bench_parse_list(value, o->threads, &o->n_threads);
    case 's':
      o->scheme = value;
      return rdt_bench_parse_scheme(value, RDT_KOP_GEMM);
    case 'e':
      o->epilogue = value;
      return rdt_bench_parse_epilogue(value);
    case 'r':
      return rdt_bench_parse_number(value, 1, &o->trials);
    case 'f':
      return rdt_bench_format_parse(value, &o->format);
    case 'j':
      return rdt_bench_format_parse("json", &o->format);
    default:
      return false;
  }
}

static int parse(int argc, char **argv, options *o) {
  static const struct option names[] = {{"m", 1, 0, 'm'},      {"n", 1, 0, 'n'},        {"k", 1, 0, 'k'},
                                        {"mnk", 1, 0, 'x'},    {"dtype", 1, 0, 'd'},    {"threads", 1, 0, 't'},
                                        {"scheme", 1, 0, 's'}, {"epilogue", 1, 0, 'e'}, {"cold", 0, 0, 'c'},
                                        {"trials", 1, 0, 'r'}, {"format", 1, 0, 'f'},   {"output", 1, 0, 'o'},
                                        {"json", 0, 0, 'j'},   {"help", 0, 0, 'h'},     {0, 0, 0, 0}};
  *o = (options){.m = 1024,
                 .n = 1024,
                 .k = 1024,
                 .dtype = RDT_F32,
                 .threads = {1, 2},
                 .n_threads = 2,
                 .trials = 31,
                 .scheme = "auto",
                 .epilogue = "none"};
  int c;
  optind = 0;
  while ((c = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
    if (c == 'h') {
      fputs(usage, stdout);
      return -1;
    }
    if (c == 'o')
      o->output = optarg;
    else if (c == 'c')
      o->cold = true;
    else if (!parse_one(c, optarg, o)) {
      if (c != '?') fprintf(stderr, "redoubt bench gemm: '%s' is not a value of that option\n", optarg);
      fputs(usage, stderr);
      return 2;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "redoubt bench gemm: unexpected '%s'\n%s", argv[optind], usage);
    return 2;
  }
  return 0;
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

static void *random_values(rdt_dtype t, int64_t n, uint64_t *seed) {
  void *p = rdt_alloc((size_t)n, rdt_dtype_size(t));
  for (int64_t i = 0; p && i < n; ++i) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    const double x = (double)(int64_t)(*seed >> 33) / (double)(1 << 30) - 1.0;
    rdt_store(p, t, i, t == RDT_S8 ? 127 * x : x);
  }
  return p;
}

static void data_free(data *d) {
  rdt_free(d->prob.in ? d->prob.in[0].data : NULL);
  for (int i = 0; d->b && i < d->copies; ++i) rdt_free(d->b[i].data);
  rdt_free(d->b);
  rdt_free(d->c.data);
  rdt_free(d->prob.epilogue.bias.rank >= 0 ? d->prob.epilogue.bias.data : NULL);
  rdt_problem_clear(&d->prob);
}

static bool data_make(const options *o, data *d) {
  const int64_t m = o->m, n = o->n, k = o->k, bytes = k * n * (int64_t)rdt_dtype_size(o->dtype);
  uint64_t seed = 1;
  memset(d, 0, sizeof *d);
  d->prob.epilogue = RDT_EPILOGUE_NONE;
  if (rdt_problem_init(&d->prob, RDT_KOP_GEMM, 2) != RDT_OK) return false;
  d->prob.acc = rdt_dtype_accumulator(o->dtype);
  d->copies = o->cold ? (int)(COLD_BYTES / bytes) + 2 : 1;
  d->b = rdt_calloc((size_t)d->copies, sizeof *d->b);
  if (!d->b) return false;
  bool ok = true;
  for (int i = 0; i < d->copies; ++i) {
    d->b[i] = rdt_tensor_matrix(random_values(o->dtype, k * n, &seed), o->dtype, k, n, n, 0);
    ok = ok && d->b[i].data;
  }
  d->prob.in[0] = rdt_tensor_matrix(random_values(o->dtype, m * k, &seed), o->dtype, m, k, k, 0);
  d->c = rdt_tensor_matrix(rdt_calloc((size_t)(m * n), rdt_dtype_size(d->prob.acc)), d->prob.acc, m, n, n, 0);
  d->prob.in[1] = d->b[0];
  d->prob.out = d->c;
  if (strcmp(o->epilogue, "none") != 0) {
    d->prob.epilogue.bias = rdt_tensor_dense(random_values(RDT_F32, n, &seed), RDT_F32, 1, &n);
    d->prob.epilogue.bias.dtype = d->prob.acc == RDT_F64 ? RDT_F64 : RDT_F32;
    ok = ok && d->prob.epilogue.bias.data && d->prob.acc == RDT_F32;
  }
  if (strcmp(o->epilogue, "bias+relu") == 0) d->prob.epilogue.act.fn = RDT_FN_RELU;
  return ok && d->prob.in[0].data && d->c.data;
}

/* ---- contenders ------------------------------------------------------------------------------------------------- */

static int next_copy(contender *x) {
  const int i = x->next;
  x->next = (i + 1) % x->d->copies;
  return i;
}

static int run_plan(void *user) {
  contender *x = user;
  rdt_tensor out = x->d->c;
  rdt_result r;
  const rdt_status status = rdt_plan_execute(x->plans[next_copy(x)], &x->d->prob.in[0], &out, &r);
  if (r.ratio > x->worst.ratio) x->worst.ratio = r.ratio;
  x->worst.suspects += r.suspects;
  x->worst.faults += r.faults;
  if (r.verdict > x->worst.verdict) x->worst.verdict = r.verdict;
  return status == RDT_OK ? 0 : (int)status;
}

static int run_kernel(void *user) {
  contender *x = user;
  const int i = next_copy(x);
  const rdt_tensor in[2] = {x->d->prob.in[0], x->d->b[i]};
  const rdt_operands o = {.in = in, .n_in = 2, .out = x->d->c, .epilogue = &x->d->prob.epilogue};
  const int threads = rdt_threads_enter(x->threads);
  const rdt_status status = x->kernel->run(x->states[i], &o, NULL);
  rdt_threads_leave(threads);
  return status == RDT_OK ? 0 : (int)status;
}

static int run_blas(void *user) {
  contender *x = user;
  const data *d = x->d;
  const int m = (int)d->c.shape[0], n = (int)d->c.shape[1], k = (int)d->b->shape[0];
  const void *a = d->prob.in[0].data, *b = d->b[next_copy(x)].data;
  enum { ROW_MAJOR = 101, NO_TRANS = 111 };
  if (d->c.dtype == RDT_F64) {
    void (*dgemm)(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int);
    memcpy(&dgemm, &x->blas, sizeof dgemm);
    dgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0, a, k, b, n, 0.0, d->c.data, n);
  } else {
    void (*sgemm)(int, int, int, int, int, int, float, const void *, int, const void *, int, float, void *, int);
    memcpy(&sgemm, &x->blas, sizeof sgemm);
    sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0f, a, k, b, n, 0.0f, d->c.data, n);
  }
  return 0;
}

static void contender_free(contender *x) {
  for (int i = 0; x->plans && i < x->d->copies; ++i) rdt_plan_destroy(x->plans[i]);
  for (int i = 0; x->states && i < x->d->copies; ++i)
    if (x->states[i]) x->kernel->destroy(x->states[i]);
  rdt_free(x->plans);
  rdt_free(x->states);
  rdt_context_destroy(x->ctx);
}

static bool plan_contender(contender *x, const char *scheme) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  if (rdt_context_create(&x->ctx, x->threads) != RDT_OK || rdt_context_set_policy(x->ctx, &policy) != RDT_OK)
    return false;
  x->plans = rdt_calloc((size_t)x->d->copies, sizeof *x->plans);
  rdt_problem prob = x->d->prob;
  rdt_tensor in[2] = {prob.in[0], prob.in[1]};
  prob.in = in;
  for (int i = 0; x->plans && i < x->d->copies; ++i) {
    in[1] = x->d->b[i];
    if (rdt_plan_create(x->ctx, &prob, "gemm", "gemm", NULL, &x->plans[i]) != RDT_OK) {
      fprintf(stderr, "redoubt bench gemm: %s: %s\n", scheme, rdt_context_error(x->ctx));
      return false;
    }
  }
  return x->plans != NULL;
}

/* The best vendor row for this problem, bare: weights packed, epilogue as post-ops. */
static bool vendor_contender(contender *x) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  rdt_problem prob = x->d->prob;
  rdt_tensor in[2] = {prob.in[0], prob.in[1]};
  prob.in = in;
  for (int i = 0; i < n && !x->kernel; ++i)
    if (rows[i]->op == RDT_KOP_GEMM && rows[i]->black_box && rdt_isa_detect() >= rows[i]->isa &&
        rows[i]->accept(&prob, NULL) == RDT_OK)
      x->kernel = rows[i];
  if (!x->kernel) return false;
  x->states = rdt_calloc((size_t)x->d->copies, sizeof *x->states);
  for (int i = 0; x->states && i < x->d->copies; ++i) {
    in[1] = x->d->b[i];
    if (x->kernel->create(&prob, x->threads, &x->states[i], NULL) != RDT_OK) return false;
  }
  return x->states != NULL;
}

/* OpenBLAS where it can be loaded; it must not spin beside the others when idle. */
static bool blas_contender(contender *x, char *core, size_t size) {
  if (!rdt_epilogue_is_none(&x->d->prob.epilogue) || (x->d->c.dtype != RDT_F32 && x->d->c.dtype != RDT_F64) ||
      x->d->b->dtype != x->d->c.dtype)
    return false;
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  char *(*corename)(void);
  void (*set_threads)(int);
  void *f = dlsym(library, "openblas_get_corename"), *g = dlsym(library, "openblas_set_num_threads");
  x->blas = dlsym(library, x->d->c.dtype == RDT_F64 ? "cblas_dgemm" : "cblas_sgemm");
  if (!f || !g || !x->blas) return false;
  memcpy(&corename, &f, sizeof f);
  memcpy(&set_threads, &g, sizeof g);
  set_threads(x->threads);
  snprintf(core, size, "OpenBLAS (%s)", corename());
  return true;
}

/* ---- one number of threads -------------------------------------------------------------------------------------- */

typedef struct session {
  const options *o;
  data d;
  contender list[RDT_TIMING_CASES];
  int count, vendor, none; /* index of the baselines, -1 */
  char core[64];
} session;

static contender *add(session *s, const char *name, int threads) {
  s->list[s->count] = (contender){.d = &s->d, .name = name, .threads = threads};
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
  s->vendor = keep(s, vendor_contender(add(s, "oneDNN", threads)));
  s->none = keep(s, plan_contender(add(s, "redoubt none", threads), "none"));
  keep(s, blas_contender(add(s, s->core, threads), s->core, sizeof s->core));
  if (!all && strcmp(s->o->scheme, "none") != 0)
    return keep(s, plan_contender(add(s, "redoubt", threads), s->o->scheme)) >= 0;
  for (int i = 0; all && i < n; ++i)
    if (schemes[i].id != RDT_SCHEME_NONE && rdt_scheme_serves(&schemes[i], RDT_KOP_GEMM))
      keep(s, plan_contender(add(s, "redoubt", threads), schemes[i].name));
  return s->none >= 0;
}

static const char *const columns[] = {
    "m",        "n",      "k",      "dtype",  "epilogue", "weights",   "threads",
    "what",     "kernel", "scheme", "ms",     "p10",      "p90",       "GFLOP/s",
    "/ oneDNN", "low",    "high",   "/ none", "low none", "high none", "worst residual / bound",
    "suspects", "verdict"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void print_row(const session *s, rdt_bench_out *t, const rdt_timing *timing, int i) {
  const contender *x = &s->list[i];
  const rdt_timing_stat stat = rdt_timing_stat_of(timing, i);
  rdt_bench_fixed(t, (double)s->o->m, 0);
  rdt_bench_fixed(t, (double)s->o->n, 0);
  rdt_bench_fixed(t, (double)s->o->k, 0);
  rdt_bench_text(t, rdt_dtype_name(s->o->dtype));
  rdt_bench_text(t, s->o->epilogue);
  rdt_bench_text(t, s->o->cold ? "cold" : "warm");
  rdt_bench_fixed(t, x->threads, 0);
  rdt_bench_text(t, x->name);
  rdt_bench_text(t, x->plans ? rdt_plan_kernel(x->plans[0]) : x->kernel ? x->kernel->name : "cblas");
  rdt_bench_text(t, x->plans ? rdt_plan_scheme(x->plans[0]) : "none");
  rdt_bench_fixed(t, 1e3 * stat.median, 4);
  rdt_bench_fixed(t, 1e3 * stat.p10, 4);
  rdt_bench_fixed(t, 1e3 * stat.p90, 4);
  rdt_bench_fixed(t, rdt_problem_flops(&s->d.prob) / stat.median * 1e-9, 1);
  rdt_bench_ratio(t, timing, i, s->vendor);
  rdt_bench_ratio(t, timing, i, s->none);
  rdt_bench_fixed(t, x->plans && i != s->none ? x->worst.ratio : NAN, 3);
  rdt_bench_fixed(t, x->plans && i != s->none ? (double)x->worst.suspects : NAN, 0);
  rdt_bench_text(t, x->plans ? rdt_verdict_name(x->worst.verdict) : rdt_verdict_name(RDT_UNCHECKED));
}

static int bench_threads(session *s, rdt_bench_out *t, int threads) {
  rdt_timing timing;
  rdt_timing_init(&timing, (int)s->o->trials);
  int code = gather(s, threads) ? 0 : 2;
  for (int i = 0; code == 0 && i < s->count; ++i) {
    contender *x = &s->list[i];
    rdt_timing_add(&timing, x->name, x->plans ? run_plan : x->kernel ? run_kernel : run_blas, x);
  }
  if (code == 0) code = rdt_timing_run(&timing);
  for (int i = 0; code == 0 && i < s->count; ++i) print_row(s, t, &timing, i);
  for (int i = 0; code > 1 && i < s->count; ++i)
    if (s->list[i].ctx && *rdt_context_error(s->list[i].ctx))
      fprintf(stderr, "redoubt bench gemm: %s\n", rdt_context_error(s->list[i].ctx));
  for (int i = 0; i < s->count; ++i) {
    if (s->list[i].worst.faults) code = 1;
    contender_free(&s->list[i]);
  }
  rdt_timing_free(&timing);
  if (code != 0 && code != 1) fprintf(stderr, "redoubt bench gemm: stopped: %s\n", rdt_status_text((rdt_status)code));
  return code == 0 ? 0 : code == 1 || code == RDT_ERR_FAULT ? 1 : 2;
}

int rdt_bench_gemm(int argc, char **argv) {
  options o;
  session s = {.o = &o, .core = ""};
  const int bad = parse(argc, argv, &o);
  if (bad) return bad < 0 ? 0 : bad;
  rdt_bench_file out;
  if (!rdt_bench_file_open(&out, o.output)) {
    fputs("redoubt bench gemm: out of memory\n", stderr);
    return 2;
  }
  int code = 2;
  if (data_make(&o, &s.d)) {
    rdt_bench_out t;
    rdt_bench_begin_rows(&t, out.f, o.format, "gemm", columns, COLUMNS);
    code = 0;
    for (int i = 0; code == 0 && i < o.n_threads; ++i) code = bench_threads(&s, &t, (int)o.threads[i]);
    if (!rdt_bench_end(&t)) {
      fputs("redoubt bench gemm: writing the table failed\n", stderr);
      code = 2;
    }
  } else {
    fputs("redoubt bench gemm: not enough memory, or an epilogue that only f32 accumulators take\n", stderr);
  }
  data_free(&s.d);
  return rdt_bench_file_close(&out, "bench gemm", code);
}
