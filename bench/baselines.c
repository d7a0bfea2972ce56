#include "baselines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_info.h"

/* How libraries of one kind are made to run their best code and asked which it is. NULL: there is no way, or need. */
typedef struct family {
  void (*before)(void);                       /* environment that it reads when it is opened */
  void (*after)(void *handle);                /* that it reads when it is first called */
  void (*ask)(void *handle, rdt_baseline *x); /* core and version */
  bool wide;                                  /* its number of threads is a long */
} family;

typedef struct rdt_library {
  const char *word, *name, *files, *package, *threads;
  const family *family;
} row;

/* A symbol's address as a function's: C knows no way, POSIX says that they are alike. */
#define FUNCTION(type, f, handle, symbol)      \
  type f = NULL;                               \
  {                                            \
    void *address = dlsym((handle), (symbol)); \
    memcpy(&f, &address, sizeof f);            \
  }
typedef const char *(*text_fn)(void);
typedef const char *(*name_fn)(int number);
typedef int (*number_fn)(void);
typedef void (*call_fn)(void);

/* What the user has set stays. */
static void set(const char *name, const char *value) {
  setenv(name, value, 0);
}

static void keep(char *to, size_t size, const char *text) {
  snprintf(to, size, "%s", text ? text : "");
}

/* ---- OpenBLAS: takes Haswell's code on processors that it does not know; must not spin beside the others ---- */

static void openblas_before(void) {
  set("OPENBLAS_THREAD_TIMEOUT", "4");
  if (rdt_isa_hardware() >= RDT_ISA_AVX512) set("OPENBLAS_CORETYPE", "SKYLAKEX");
}

static void openblas_ask(void *handle, rdt_baseline *x) {
  FUNCTION(text_fn, core, handle, "openblas_get_corename")
  FUNCTION(text_fn, config, handle, "openblas_get_config")
  FUNCTION(number_fn, parallel, handle, "openblas_get_parallel")
  enum { OPENMP = 2 };
  x->openmp = parallel && parallel() == OPENMP;
  if (core) keep(x->core, sizeof x->core, core());
  if (config) keep(x->version, sizeof x->version, config());
}

static const family OPENBLAS = {.before = openblas_before, .ask = openblas_ask};

/* ---- BLIS: takes plain C on processors that it does not know; wants the number of a configuration ---- */

/* -1: this BLIS has none of that name. */
static int blis_number(name_fn name, const char *wanted) {
  for (int i = 0; i < 64; i++) {
    const char *s = name(i);
    if (!s) return -1;
    if (strcmp(s, wanted) == 0) return i;
    if (strcmp(s, "generic") == 0) return -1; /* the last one */
  }
  return -1;
}

static void blis_after(void *handle) {
  static const char *const wide[] = {"zen5", "zen4", "skx", NULL}, *const zen[] = {"zen3", "zen2", "zen", NULL};
  static const char *const others[] = {"skx", NULL}, *const narrow[] = {"haswell", NULL};
  FUNCTION(name_fn, name, handle, "bli_arch_string")
  FUNCTION(call_fn, init, handle, "bli_init")
  char cpu[128], number[16];
  const rdt_isa isa = rdt_isa_hardware();
  const bool amd = strncmp(rdt_cpu_name(cpu, sizeof cpu), "AMD", 3) == 0;
  const char *const *wanted = isa >= RDT_ISA_AVX512 ? amd ? wide : others : amd ? zen : narrow;
  int found = -1;
  for (int i = 0; name && isa >= RDT_ISA_AVX2 && found < 0 && wanted[i]; i++) found = blis_number(name, wanted[i]);
  snprintf(number, sizeof number, "%d", found);
  if (found >= 0) set("BLIS_ARCH_TYPE", number);
  if (init) init();
}

static void blis_ask(void *handle, rdt_baseline *x) {
  FUNCTION(name_fn, name, handle, "bli_arch_string")
  FUNCTION(number_fn, number, handle, "bli_arch_query_id")
  FUNCTION(text_fn, version, handle, "bli_info_get_version_str")
  FUNCTION(number_fn, openmp, handle, "bli_info_get_enable_openmp")
  x->openmp = openmp && openmp();
  if (name && number) keep(x->core, sizeof x->core, name(number()));
  if (version) keep(x->version, sizeof x->version, version());
}

static const family BLIS = {.after = blis_after, .ask = blis_ask, .wide = true};

/* ---- MKL ---- */

static void mkl_before(void) {
  if (rdt_isa_hardware() >= RDT_ISA_AVX512) set("MKL_ENABLE_INSTRUCTIONS", "AVX512");
}

static void mkl_ask(void *handle, rdt_baseline *x) {
  typedef struct mkl_version { /* its MKLVersion */
    int major, minor, update;
    const char *status, *build, *processor, *platform;
  } mkl_version;
  typedef void (*version_fn)(mkl_version * v);
  mkl_version v = {0};
  FUNCTION(version_fn, version, handle, "MKL_Get_Version")
  if (!version) return;
  version(&v);
  snprintf(x->version, sizeof x->version, "%d.%d.%d", v.major, v.minor, v.update);
  keep(x->core, sizeof x->core, v.processor);
}

static const family MKL = {.before = mkl_before, .ask = mkl_ask};

/* ---- the table ---- */

static const row rows[] = {
#define X(word, name, files, package, threads, family) {word, name, files, package, threads, &family},
#include "libraries.def"
#undef X
};
enum { ROWS = sizeof rows / sizeof *rows };

static const row plain = {"", "BLAS", "", "", "", &(const family){.wide = false}}; /* by its path, and of no row */
/* What is not opened: it is part of the program. */
static const struct { const char *word, *name; } linked[] = {{"onednn", "oneDNN"}, {"own", "own kernel"}};
enum { LINKED = sizeof linked / sizeof *linked };

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static rdt_status take_word(const char *word, size_t n, rdt_baselines *b, rdt_reason *why) {
  const row *found = NULL;
  const char *name = NULL;
  const bool path = memchr(word, '/', n) != NULL;
  for (int i = 0; i < ROWS; i++)
    if (strlen(rows[i].word) == n && strncmp(rows[i].word, word, n) == 0) found = &rows[i];
  for (int i = 0; i < LINKED; i++)
    if (strlen(linked[i].word) == n && strncmp(linked[i].word, word, n) == 0) name = linked[i].name;
  if (path) found = &plain;
  if (!found && !name)
    return rdt_fail(why, RDT_ERR_ARG,
                    "--baseline takes onednn, own, openblas, blis, aocl, mkl, paths of libraries, or none, not '%.*s'",
                    (int)n, word);
  if (b->count == RDT_BASELINES)
    return rdt_fail(why, RDT_ERR_ARG, "--baseline names more than %d libraries", RDT_BASELINES);
  rdt_baseline *x = &b->list[b->count++];
  *x = (rdt_baseline){.row = found};
  if (snprintf(x->file, sizeof x->file, "%.*s", (int)n, word) >= (int)sizeof x->file)
    return rdt_fail(why, RDT_ERR_ARG, "--baseline: the path is too long: %.*s", (int)n, word);
  keep(x->name, sizeof x->name, !found ? name : path ? base_name(x->file) : found->name);
  return RDT_OK;
}

rdt_status rdt_baselines_take(const char *words, rdt_baselines *b, rdt_reason *why) {
  b->count = 0;
  if (strcmp(words, "none") == 0) return RDT_OK;
  for (;;) {
    const size_t n = strcspn(words, ",");
    RDT_TRY(take_word(words, n, b, why));
    if (!words[n]) return RDT_OK;
    words += n + 1;
  }
}

/* ---- opening ---- */

static void *open_first(const char *files) {
  char name[64];
  while (*files) {
    const size_t n = strcspn(files, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, files);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    files += n + (files[n] == ' ');
  }
  return NULL;
}

/* The row that a library belongs to by its symbols. */
static const row *row_of(void *handle) {
  for (int i = 0; i < ROWS; i++)
    if (dlsym(handle, rows[i].threads)) return &rows[i];
  return &plain;
}

void rdt_baseline_refuse(const char *command, rdt_baseline *x, const char *text) {
  if (*x->status) return;
  fprintf(stderr, "redoubt %s: %s: %s\n", command, x->name, text);
  keep(x->status, sizeof x->status, text);
}

static void open_one(const char *command, rdt_baseline *x) {
  const bool path = x->row == &plain;
  char text[160];
  for (int i = 0; i < ROWS; i++)
    if ((path || &rows[i] == x->row) && rows[i].family->before) rows[i].family->before();
  x->handle = path ? dlopen(x->file, RTLD_NOW | RTLD_LOCAL) : open_first(x->row->files);
  snprintf(text, sizeof text, path ? "it cannot be opened" : "not found: install %s, or give the library's path",
           x->row->package);
  if (!x->handle) return rdt_baseline_refuse(command, x, text);
  if (path) x->row = row_of(x->handle);
  const family *f = x->row->family;
  x->sgemm = dlsym(x->handle, "cblas_sgemm");
  x->dgemm = dlsym(x->handle, "cblas_dgemm");
  x->bgemm = dlsym(x->handle, "cblas_sbgemm");
  if (!x->bgemm) x->bgemm = dlsym(x->handle, "cblas_gemm_bf16bf16f32"); /* oneMKL's */
  if (!x->sgemm && !x->dgemm) return rdt_baseline_refuse(command, x, "it has neither cblas_sgemm nor cblas_dgemm");
  if (f->after) f->after(x->handle);
  if (f->ask) f->ask(x->handle, x);
  const size_t used = strlen(x->name);
  if (*x->core) snprintf(x->name + used, sizeof x->name - used, " (%s)", x->core);
}

void rdt_baselines_open(const char *command, rdt_baselines *b) {
  for (int i = 0; i < b->count; i++)
    if (b->list[i].row) open_one(command, &b->list[i]);
}

rdt_baseline *rdt_baselines_find(rdt_baselines *b, const char *word) {
  for (int i = 0; i < b->count; i++)
    if (strcmp(b->list[i].file, word) == 0) return &b->list[i];
  return NULL;
}

/* ---- products ---- */

static void *product_of(const rdt_baseline *x, const rdt_problem *p) {
  const rdt_dtype t = p->in[0].dtype, c = p->out.dtype;
  if (p->in[1].dtype != t) return NULL;
  return t == RDT_F64 && c == t ? x->dgemm : c != RDT_F32 ? NULL : t == c ? x->sgemm : t == RDT_BF16 ? x->bgemm : NULL;
}

const char *rdt_baseline_refuses(const rdt_baseline *x, const rdt_problem *p) {
  if (*x->status) return x->status;
  if (!product_of(x, p)) return "it has no such product";
  return rdt_epilogue_is_none(&p->epilogue) ? NULL : "its products have no epilogue";
}

void rdt_baseline_threads(const rdt_baseline *x, int threads) {
  typedef void (*int_fn)(int n);
  typedef void (*long_fn)(long n);
  if (!*x->row->threads) return; /* OpenMP's number, if any */
  if (x->row->family->wide) {
    FUNCTION(long_fn, wide, x->handle, x->row->threads)
    if (wide) wide(threads);
  } else {
    FUNCTION(int_fn, narrow, x->handle, x->row->threads)
    if (narrow) narrow(threads);
  }
}

int rdt_baseline_run(void *baseline, const rdt_problem *p) {
  const rdt_baseline *x = baseline;
  const int m = (int)p->out.shape[0], n = (int)p->out.shape[1], k = (int)p->in[1].shape[0];
  const void *a = p->in[0].data, *b = p->in[1].data;
  enum { ROW_MAJOR = 101, NO_TRANS = 111 };
  if (p->out.dtype == RDT_F64) {
    void (*dgemm)(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int);
    memcpy(&dgemm, &x->dgemm, sizeof dgemm);
    dgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0, a, k, b, n, 0.0, p->out.data, n);
  } else {
    void (*sgemm)(int, int, int, int, int, int, float, const void *, int, const void *, int, float, void *, int);
    void *const product = product_of(x, p); /* that of bf16 has the same arguments */
    memcpy(&sgemm, &product, sizeof sgemm);
    sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, m, n, k, 1.0f, a, k, b, n, 0.0f, p->out.data, n);
  }
  return 0;
}
