/* What the programs here share: launches as graphs that are replayed in turn, so that whatever drifts drifts for all.
 */
#ifndef RDT_BENCH_GPU_TURNS_H
#define RDT_BENCH_GPU_TURNS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/tensor.h"

enum { TURNS_MOST = 32 };

typedef struct turns { /* of one contender */
  cudaGraphExec_t graph;
  int launches;               /* in the graph */
  double seconds[TURNS_MOST]; /* of one launch, turn by turn */
  int count;
} turns;

void turns_must(cudaError_t e, const char *what); /* or the program ends with 3 */

/* The i-th launch of a graph, on the stream; false: it refuses. */
typedef bool turns_launch(void *user, int i, cudaStream_t stream);
/* Launches once, then captures; false: it refused, and there is no graph. */
bool turns_capture(turns *t, int launches, turns_launch *fn, void *user, cudaStream_t stream);
void turns_free(turns *t);
/* Each of the list `warm` times, then `trials` times, each time beginning with another one. */
void turns_take(turns *const *list, int n, int warm, int trials, cudaStream_t stream);
double turns_at(const turns *t, double quantile);           /* of its seconds: 0.5 is the median */
double turns_ratio(const turns *t, const turns *reference); /* median of the ratios turn by turn */
void turns_put(FILE *f, const turns *t);                    /* "us": 0.000, "us_low": 0.000, "us_high": 0.000 */

/* Device memory of so many elements: some numbers, again and again. normal: of mean 0 and variance 1; else uniform with
 * variance 1; 8-bit integers all over their range. Integers are uniform whatever is asked. */
void turns_fill(void *to, rdt_dtype type, size_t elements, uint64_t seed, bool normal, cudaStream_t stream);

/* The head of a record: schema, commit, date, device; it is left open. NULL where there is no path, or "-". */
FILE *turns_record(const char *path, const char *schema, const char *device);

#endif
