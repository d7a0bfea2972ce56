#include "bench_gemm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "core/memory.h"
#include "field.h"

enum { COLD_BYTES = 192 << 20 /* more than any last-level cache here */ };

typedef rdt_bench_gemm_job options;

/* What all contenders multiply: C = act(A B + bias), one problem for each copy of B. */
typedef struct data {
  rdt_problem *problems;
  int copies;
} data;

/* ---- data ------------------------------------------------------------------------------------------------------- */

static void data_free(data *d) {
  rdt_problem *first = d->problems;
  for (int i = 0; first && i < d->copies; ++i) {
    rdt_problem *p = &first[i];
    if (i == 0) { /* A, C and the bias are the same for all */
      if (p->in) rdt_free(p->in[0].data);
      rdt_free(p->out.data);
      if (p->epilogue.bias.rank >= 0) rdt_free(p->epilogue.bias.data);
    }
    if (p->in) rdt_free(p->in[1].data);
    rdt_problem_clear(p);
  }
  rdt_free(first);
}

/* The first problem with data of its own, but for B. */
static bool first_problem(const options *o, rdt_problem *p, uint64_t *seed) {
  const int64_t m = o->m, n = o->n, k = o->k;
  p->acc = rdt_dtype_accumulator(o->dtype);
  p->in[0] = rdt_tensor_matrix(NULL, o->dtype, m, k, k, 0);
  p->out = rdt_tensor_matrix(NULL, p->acc, m, n, n, 0);
  if (strcmp(o->epilogue, "none") != 0) {
    if (p->acc != RDT_F32) return false;
    p->epilogue.bias = rdt_tensor_dense(NULL, RDT_F32, 1, &n);
    if (!rdt_bench_random(&p->epilogue.bias, seed)) return false;
  }
  if (strcmp(o->epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  return rdt_bench_random(&p->in[0], seed) && rdt_bench_random(&p->out, seed);
}

static bool data_make(const options *o, data *d) {
  const int64_t bytes = o->k * o->n * (int64_t)rdt_dtype_size(o->dtype);
  uint64_t seed = 1;
  d->copies = o->cold ? (int)(COLD_BYTES / bytes) + 2 : 1;
  d->problems = rdt_calloc((size_t)d->copies, sizeof *d->problems);
  bool ok = d->problems != NULL;
  for (int i = 0; ok && i < d->copies; ++i) {
    rdt_problem *p = &d->problems[i];
    p->epilogue = RDT_EPILOGUE_NONE;
    ok = rdt_problem_init(p, RDT_KOP_GEMM, 2) == RDT_OK;
    if (ok && i == 0) ok = first_problem(o, p, &seed);
    if (ok && i > 0) {
      const rdt_problem *like = d->problems;
      p->acc = like->acc;
      p->in[0] = like->in[0];
      p->out = like->out;
      p->epilogue = like->epilogue;
    }
    if (ok) p->in[1] = rdt_tensor_matrix(NULL, o->dtype, o->k, o->n, o->n, 0);
    ok = ok && rdt_bench_random(&p->in[1], &seed);
  }
  return ok;
}

/* ---- OpenBLAS, where it can be loaded ---------------------------------------------------------------------------- */

typedef struct blas {
  void *gemm;
  char core[64];
} blas;

static int run_blas(void *user, const rdt_problem *p) {
  const blas *x = user;
  const int m = (int)p->out.shape[0], n = (int)p->out.shape[1], k = (int)p->in[1].shape[0];
  const void *a = p->in[0].data, *b = p->in[1].data;
  enum { ROW_MAJOR = 101, NO_TRANS = 111 };
  if (p->out.dtype == RDT_F64) {
    void (*dgemm)(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int);
    memcpy(&dgemm, &x->gemm, sizeof dgemm);
    dgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0, a, k, b, n, 0.0, p->out.data, n);
  } else {
    void (*sgemm)(int, int, int, int, int, int, float, const void *, int, const void *, int, float, void *, int);
    memcpy(&sgemm, &x->gemm, sizeof sgemm);
    sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0f, a, k, b, n, 0.0f, p->out.data, n);
  }
  return 0;
}

/* It must not spin beside the others when idle. NULL: it is not there, or has no such product. */
static blas *blas_open(blas *x, const rdt_problem *p, int threads) {
  const rdt_dtype t = p->out.dtype;
  if (!rdt_epilogue_is_none(&p->epilogue) || (t != RDT_F32 && t != RDT_F64) || p->in[1].dtype != t) return NULL;
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 0);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  char *(*corename)(void);
  void (*set_threads)(int);
  void *f = dlsym(library, "openblas_get_corename"), *g = dlsym(library, "openblas_set_num_threads");
  x->gemm = dlsym(library, t == RDT_F64 ? "cblas_dgemm" : "cblas_sgemm");
  if (!f || !g || !x->gemm) return NULL;
  memcpy(&corename, &f, sizeof f);
  memcpy(&set_threads, &g, sizeof g);
  set_threads(threads);
  snprintf(x->core, sizeof x->core, "OpenBLAS (%s)", corename());
  return x;
}

/* ---- one number of threads -------------------------------------------------------------------------------------- */

static const char *const columns[] = {"m", "n", "k", "dtype", "epilogue", "weights", RDT_FIELD_COLUMNS};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void print_row(const options *o, const rdt_field *f, rdt_bench_out *t, const rdt_timing *timing, int i,
                      int vendor) {
  rdt_bench_fixed(t, (double)o->m, 0);
  rdt_bench_fixed(t, (double)o->n, 0);
  rdt_bench_fixed(t, (double)o->k, 0);
  rdt_bench_text(t, rdt_dtype_name(o->dtype));
  rdt_bench_text(t, o->epilogue);
  rdt_bench_text(t, o->cold ? "cold" : "warm");
  rdt_field_cells(f, t, timing, i, vendor);
}

static int bench_threads(const options *o, const data *d, rdt_bench_out *t, int turn) {
  const int threads = (int)o->threads[turn];
  rdt_timing timing;
  rdt_field field;
  blas x;
  rdt_timing_init(&timing, o->trials);
  timing.progress = o->progress;
  timing.turn = turn;
  timing.turns = o->n_threads;
  snprintf(timing.what, sizeof timing.what, "threads %d", threads);
  rdt_field_begin(&field, "bench gemm", d->problems, d->copies, threads);
  const int vendor = rdt_field_add_vendor(&field, "oneDNN");
  bool ready = rdt_field_add_none(&field);
  rdt_field_add_foreign(&field, x.core, "cblas", run_blas, NULL, blas_open(&x, d->problems, threads));
  ready = ready && rdt_field_add_schemes(&field, o->scheme);
  const int code = ready ? rdt_field_time(&field, &timing) : 2;
  for (int i = 0; field.timed && i < field.count; ++i) print_row(o, &field, t, &timing, i, vendor);
  rdt_field_end(&field);
  rdt_timing_free(&timing);
  return code;
}

int rdt_bench_gemm(const rdt_bench_gemm_job *o) {
  data d = {0};
  rdt_bench_file out;
  if (!rdt_bench_file_open(&out, o->output)) {
    fputs("redoubt bench gemm: out of memory\n", stderr);
    return 2;
  }
  int code = 2;
  if (data_make(o, &d)) {
    rdt_bench_out t;
    rdt_bench_begin_rows(&t, out.f, o->format, "gemm", columns, COLUMNS);
    code = 0;
    for (int i = 0; code == 0 && i < o->n_threads; ++i) code = bench_threads(o, &d, &t, i);
    if (!rdt_bench_end(&t)) {
      fputs("redoubt bench gemm: writing the table failed\n", stderr);
      code = 2;
    }
  } else {
    fputs("redoubt bench gemm: not enough memory, or an epilogue that only f32 accumulators take\n", stderr);
  }
  data_free(&d);
  return rdt_bench_file_close(&out, "bench gemm", code);
}
