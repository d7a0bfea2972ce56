/* BLAS libraries that products are compared with: opened where they are found, made to run their best code here, asked
 * which one it is. libraries.def has the rows. */
#ifndef RDT_BENCH_BASELINES_H
#define RDT_BENCH_BASELINES_H

#include "core/problem.h"

enum { RDT_BASELINES = 8 };

typedef struct rdt_baseline {
  char file[256];                       /* as --baseline has it */
  char name[64];                        /* "OpenBLAS (Zen)" */
  char core[64], version[128];          /* "": it does not say */
  char status[160];                     /* "" : usable; else why not */
  const struct rdt_library *row;        /* NULL: not a library that is opened (oneDNN, own) */
  bool openmp;                          /* its threads are those of everybody here */
  void *handle, *sgemm, *dgemm, *bgemm; /* bgemm: bf16 to f32 */
} rdt_baseline;

typedef struct rdt_baselines {
  rdt_baseline list[RDT_BASELINES];
  int count;
} rdt_baselines;

/* "onednn,openblas,blis", "none"; a word with a slash is the path of a library with CBLAS's cblas_sgemm. Nothing is
 * opened yet. why: a word that there is no row for. */
rdt_status rdt_baselines_take(const char *words, rdt_baselines *b, rdt_reason *why);
/* Opens those that are there. What is missing is told on stderr, and in status. */
void rdt_baselines_open(const char *command, rdt_baselines *b);
rdt_baseline *rdt_baselines_find(rdt_baselines *b, const char *word); /* NULL: not asked for */

/* It takes no part: said on stderr, and kept as its status, the first time. */
void rdt_baseline_refuse(const char *command, rdt_baseline *x, const char *text);
/* NULL, or why the library has no such product. */
const char *rdt_baseline_refuses(const rdt_baseline *x, const rdt_problem *p);
void rdt_baseline_threads(const rdt_baseline *x, int threads);
int rdt_baseline_run(void *baseline, const rdt_problem *p); /* an rdt_contender's run */

#endif
