/* All that can compute one product of 16 bits on a GPU with fixed weights, each as a graph of launches that is replayed
 * and timed: own kernels with every check, published ones, the library as a black box with checks around it, and,
 * unprotected, cublasGemmEx and the best of cuBLASLt. Operands stay where they are from run to run, so that what fits
 * the L2 is there. */
#ifndef RDT_CUDA_RIVALS_H
#define RDT_CUDA_RIVALS_H

#include "core/problem.h"
#include "cuda/device.h"

typedef enum rdt_rival_kind {
  RDT_RIVAL_OWN,
  RDT_RIVAL_LIBRARY,   /* unprotected, by cuBLAS */
  RDT_RIVAL_BOX,       /* the same with a check of rows around it */
  RDT_RIVAL_CHAINED,   /* global-classic as published: the product before has left the sums of A */
  RDT_RIVAL_UNCOMPARED /* and without the kernel that compares, as for all layers but the last: no verdict */
} rdt_rival_kind;

typedef struct rdt_rival {
  rdt_rival_kind kind;
  char kernel[64];    /* "gemm_f16_mma_64x64_row"; behind it "_t": weights lie as n x k, "_s4": four blocks share k,
                         "_chained", "_uncompared" */
  const char *scheme; /* "none", "row", ... */
  bool fused;         /* checks as it goes */
} rdt_rival;

/* What follows a kernel's name. */
const char *rdt_rival_suffix(rdt_rival_kind kind);
/* What a kernel of this name is: books have no more. */
rdt_rival_kind rdt_rival_kind_of(const char *kernel, const char *scheme);

typedef struct rdt_rivals rdt_rivals;
/* Of a device that is open. Takes memory for the operands. RDT_ERR_UNSUPPORTED: other types than f16 and bf16, or what
 * is no product; RDT_ERR_NOMEM. */
rdt_status rdt_rivals_open(const rdt_cuda_device *d, const rdt_problem *p, double lambda, rdt_rivals **r,
                           rdt_reason *why);
int rdt_rivals_count(const rdt_rivals *r);
const rdt_rival *rdt_rivals_at(const rdt_rivals *r, int i);
/* Makes it ready, waits. RDT_ERR_UNSUPPORTED: it refuses, with the reason. */
rdt_status rdt_rivals_ready(rdt_rivals *r, int i, rdt_reason *why);
/* Of one that is ready: so many runs at least, one after the other; seconds of one, by the device's clock. runs 1: as
 * few as there are in a graph, without others before them: to see who is in question. Waits. */
rdt_status rdt_rivals_run(rdt_rivals *r, int i, int runs, double *seconds, rdt_reason *why);
/* How many checks complained so far: none should, the data are clean. */
rdt_status rdt_rivals_complaints(rdt_rivals *r, int i, unsigned *complaints, rdt_reason *why);
void rdt_rivals_drop(rdt_rivals *r, int i); /* frees what made it ready */
void rdt_rivals_close(rdt_rivals *r);       /* NULL is nothing */

/* Who measures rivals: a GPU, or in tests who makes times up. What it does at most was measured when it was opened. */
typedef struct rdt_track {
  char name[96];
  int major, minor, sms, driver, library; /* library: cuBLASLt's version; 0: there is none */
  double bandwidth, flops;                /* bytes a second of a copy, read and written; operations of large products */
  void *user;
  rdt_status (*open)(void *user, const rdt_problem *p, void **race, rdt_reason *why);
  int (*count)(const void *race);
  const rdt_rival *(*at)(const void *race, int i);
  rdt_status (*ready)(void *race, int i, rdt_reason *why);
  rdt_status (*run)(void *race, int i, int runs, double *seconds, rdt_reason *why);
  rdt_status (*complaints)(void *race, int i, unsigned *complaints, rdt_reason *why);
  void (*drop)(void *race, int i);
  void (*close)(void *race);
  void (*clock)(void *user, double *mhz, double *celsius); /* of now; NaN: nobody says */
  void (*end)(void *user);
} rdt_track;

/* Products of this datatype on a device by its number. RDT_ERR_UNSUPPORTED: not of this datatype, or there is no
 * cuBLASLt to measure the roof with; as rdt_cuda_open. */
rdt_status rdt_track_open(int device, rdt_dtype t, double lambda, rdt_track *track, rdt_reason *why);
void rdt_track_close(rdt_track *t);

#endif
