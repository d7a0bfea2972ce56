/* What the threads of a pipeline share. */
#ifndef RDT_OUTOFCORE_PIPELINE_STATE_H
#define RDT_OUTOFCORE_PIPELINE_STATE_H

#include "outofcore/pipeline.h"

typedef struct rdt_pipeline {
  const rdt_pipeline_job *job;
  rdt_matmul_result *result;
  pthread_mutex_t lock;
  pthread_cond_t moved;
  /* under the lock */
  int64_t loaded, computed; /* steps */
  int64_t finished, stored; /* blocks of C */
  int64_t rows;             /* of A's first block that are loaded, B's being there; INT64_MAX: it is */
  bool ended, stop;         /* no more blocks come; something failed */
  rdt_status status;
  rdt_reason why;
  /* each slot is one thread's at a time, as the counters have it */
  uint64_t seal[2][RDT_MOST_SLOTS]; /* of A and B as they were loaded */
  rdt_block block[RDT_MOST_SLOTS];
  rdt_ledger_block entry[RDT_MOST_SLOTS];
  int threads; /* of a product */
  struct {     /* of each lane */
    rdt_step step;
    rdt_findings found;
    int changed; /* operand that has changed in memory: 0 A, 1 B; -1 none */
    rdt_status status;
    rdt_reason why;
  } lane[RDT_MOST_SLOTS];
  int64_t plant_i, plant_j, plant_part; /* where faults are planted; -1 none */
  double products_before;               /* seconds that the device had been in products when it began */
  double waited[2];                     /* that who computes has waited: for loads, for places of C */
} rdt_pipeline;

/* The operand's block at a step: 0 A, 1 B. */
rdt_part_of rdt_pipeline_part(const rdt_pipeline *p, const rdt_step *s, int x);
rdt_tensor rdt_pipeline_operand(const rdt_pipeline *p, const rdt_step *s, int x); /* where it lies */
typedef struct rdt_lines {                                                        /* of a block, in the file's order */
  int64_t from, count;
} rdt_lines;
/* Loads it into its slot, sums it, seals it. lines: some of them, one after the other, where the backend is far; NULL:
 * all. */
rdt_status rdt_pipeline_load(rdt_pipeline *p, const rdt_step *s, int x, const rdt_lines *lines, double *seconds,
                             rdt_reason *why);
/* One product is added to its block; other: on another code path. Not checked yet. */
rdt_status rdt_pipeline_multiply(rdt_pipeline *p, const rdt_step *s, bool other, rdt_reason *why);
void rdt_pipeline_place(const rdt_pipeline *p, const rdt_step *s, int64_t place[2]);
/* Checks the block; when its last product was added, with the bit-sum that whoever stores it must find. */
rdt_status rdt_pipeline_check(rdt_pipeline *p, const rdt_step *s, rdt_findings *f, rdt_reason *why);

/* settle.c: what a lane's check has found wrong is put in order. RDT_ERR_FAULT: it cannot be. */
rdt_status rdt_pipeline_settle(rdt_pipeline *p, int lane, rdt_reason *why);
/* plant.c: what --errors asks for. path: 0 the first computation, 1 the same code path again, 2 the other one. */
void rdt_pipeline_choose_plant(rdt_pipeline *p);
rdt_status rdt_pipeline_plant(rdt_pipeline *p, const rdt_step *s, rdt_site site, int path, rdt_reason *why);

#endif
