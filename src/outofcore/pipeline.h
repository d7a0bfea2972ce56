/* One thread loads, one stores, the calling one computes: they wait for each other where a block's place is not free or
 * not filled yet, and the strategy's numbers of places make all the difference. */
#ifndef RDT_OUTOFCORE_PIPELINE_H
#define RDT_OUTOFCORE_PIPELINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "outofcore/ledger.h"
#include "outofcore/matmul.h"
#include "outofcore/peers.h"

/* What the pipelines of several devices have in common. */
typedef struct rdt_pipeline_shared {
  pthread_mutex_t lock; /* of the list of sums, events, timelines, progress */
  double began, flops, all;
  atomic_bool stop; /* one of them has failed */
} rdt_pipeline_shared;

typedef struct rdt_pipeline_job {
  rdt_pipeline_shared *shared;
  rdt_peers *peers;
  int number;         /* of the device */
  const char *device; /* its name */
  rdt_context *ctx;
  const rdt_matmul_job *asked;
  const rdt_task *task;
  const rdt_splits *splits;
  const rdt_arrangement *where;
  const rdt_matrix *a, *b, *c;
  int ledger; /* that finished blocks are appended to */
  const char *ledger_path;
} rdt_pipeline_job;

rdt_status rdt_pipeline_run(const rdt_pipeline_job *job, rdt_matmul_result *result, rdt_reason *why);

#endif
