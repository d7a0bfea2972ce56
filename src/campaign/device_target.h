/* A product on a GPU as a target: what its own file (target_device.c) shares with that of products that are computed
 * three times (target_copies.c), which it asks. */
#ifndef RDT_CAMPAIGN_DEVICE_TARGET_H
#define RDT_CAMPAIGN_DEVICE_TARGET_H

#include "campaign/op.h"
#include "cuda/machine.h"

typedef struct rdt_device_target {
  rdt_target base;
  rdt_context *ctx;
  rdt_machine *machine;
  const rdt_cuda_kernel *kernel, *bare;
  int sets;                     /* of checks of a row */
  char scheme[RDT_SCHEME_TEXT]; /* "row", "row:2" */
  rdt_accumulator acc;
  rdt_op op;     /* the data, on the host */
  rdt_problem p; /* the same product with the device's addresses */
  void *there[3];
  rdt_cuda_gemm *gemm, *plain;
  bool apart;            /* copies on different multiprocessors */
  rdt_sms *sms;          /* NULL, until one of these is suspected */
  rdt_thrice *votes;     /* NULL: another scheme; what checks the kernel makes do not count beside them */
  unsigned char *copies; /* as they were before the vote, on the host */
  rdt_vote_hit voter;    /* what the next vote is struck with; mask 0: nothing */
  rdt_voted *voted[2];   /* kernels that vote on the way, a layer each; none: another scheme */
  int n_voted, layer;    /* layer: the one that runs */
  uint64_t turns;        /* of a multiprocessor that is wrong now and then: copies that it was asked about */
  rdt_target_data data;
} rdt_device_target;

size_t rdt_device_target_bytes(const rdt_device_target *t, int i); /* of an operand, 2: the result */
/* What lies there, in the result on the host. */
rdt_status rdt_device_target_fetch(rdt_device_target *t, const void *there, rdt_reason *why);

/* ---- target_copies.c ---- */

bool rdt_copies_of(const rdt_device_target *t, const char *scheme);     /* does this scheme compute three times? */
bool rdt_copies_on_way(const rdt_device_target *t, const char *scheme); /* and vote on the way? */
bool rdt_copies_there(const rdt_device_target *t);                      /* the target does */
/* Makes ready what computes, and votes, where the scheme does so three times. */
rdt_status rdt_copies_make(rdt_device_target *t, rdt_reason *why);
void rdt_copies_drop(rdt_device_target *t);
/* RDT_ERR_ARG: not such a fault. */
rdt_status rdt_copies_take(const rdt_device_target *t, const rdt_fault *f, const char *spec, rdt_reason *why);
bool rdt_copies_have_site(const rdt_device_target *t, rdt_site site);
/* A layer for each kernel that votes on the way: its name and its kernel's; false: there are no more. */
bool rdt_copies_layer(const rdt_device_target *t, int i, const char **name, const char **kernel);
rdt_dtype rdt_copies_dtype(const rdt_device_target *t); /* of what is struck */
/* As they are shipped, with the vote; the result on the host. */
rdt_status rdt_copies_compute(rdt_device_target *t, rdt_cuda_verdict *v, rdt_reason *why);
/* Struck. Those that vote on the way have voted; of others what is struck is on the host, and the vote comes next. */
rdt_status rdt_copies_strike(rdt_device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_cuda_verdict *v,
                             rdt_reason *why);
rdt_status rdt_copies_vote(rdt_device_target *t, rdt_cuda_verdict *v, rdt_reason *why);
/* Have two copies the same wrong bits anywhere, so that they are two votes for what is wrong? */
rdt_status rdt_copies_alike(rdt_device_target *t, bool *alike, rdt_reason *why);

#endif
