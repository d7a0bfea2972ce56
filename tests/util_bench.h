/* A product to be broken: a context and a plan of three matrices, and what events tell of it. */
#ifndef TEST_UTIL_BENCH_H
#define TEST_UTIL_BENCH_H

#include <redoubt/redoubt.h>

enum { UTIL_BENCH_M = 160, UTIL_BENCH_K = 160, UTIL_BENCH_N = 96 }; /* large enough to be shared among threads */

typedef struct util_told {
  rdt_event last, fault; /* but for what their pointers point to */
  int faults, fallbacks;
  char text[400], scheme[32], rungs[256]; /* of the last; rungs: "recompute:failed checksum:intact" */
} util_told;
void util_told_note(const rdt_event *e, void *told);

typedef struct util_bench {
  rdt_context *ctx;
  rdt_plan *plan;
  rdt_tensor a, b, c;
  float *clean; /* c without a fault, where somebody keeps it */
  rdt_result r;
  util_told told;
} util_bench;

/* All fail the test with the context's error. */
void util_bench_open(util_bench *w, const rdt_policy *policy, int threads);
void util_bench_renew(util_bench *w, uint64_t seed); /* another A */
void util_bench_execute(util_bench *w);
void util_bench_close(util_bench *w);

#endif
