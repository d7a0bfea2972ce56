/* `redoubt bench workloads`: networks by their layers, protected by each asked scheme and as planned, against their own
 * unprotected path and the best libraries. */
#ifndef RDT_BENCH_WORKLOADS_H
#define RDT_BENCH_WORKLOADS_H

#include "ops.h"
#include "plan/workloads.h"

typedef struct rdt_bench_network {
  const rdt_workload *workload;
  int64_t batch;
  char name[64]; /* with its batch */
} rdt_bench_network;

enum { RDT_BENCH_NETWORKS = 64 };
typedef struct rdt_bench_networks {
  rdt_bench_network at[RDT_BENCH_NETWORKS];
  int count;
} rdt_bench_networks;

/* Workloads with or without a batch, and groups of them, each with each of its batches; commas between. */
rdt_status rdt_bench_take_networks(const char *words, rdt_bench_networks *n, rdt_reason *why);

/* convolutions: as they are; else every layer as a product, images unfolded. The exit code, as rdt_bench_gemm. */
int rdt_bench_workloads(const rdt_bench_ask *ask, const rdt_bench_networks *networks, bool convolutions);

#endif
