/* Multiprocessors in groups that share none: what a group's stream is given runs on its multiprocessors alone, by the
 * driver's green contexts (CUDA 12.4 and later). */
#ifndef RDT_CUDA_GROUPS_H
#define RDT_CUDA_GROUPS_H

#include "core/error.h"

enum { RDT_GROUPS = 3, RDT_GROUP_MOST = 1024 };

typedef struct rdt_sm_group {
  void *stream;            /* a cudaStream_t */
  int sms[RDT_GROUP_MOST]; /* the numbers of its multiprocessors, as blocks that ran there have told */
  int n;
} rdt_sm_group;

typedef struct rdt_sm_groups rdt_sm_groups;
/* The current device's, as even as the driver splits them; the same ones at each call, for the process's life. avoid:
 * none of them has this multiprocessor; -1: nobody is avoided. Waits when they are made. RDT_ERR_UNSUPPORTED where the
 * driver has no green contexts, or blocks of two groups were seen on one multiprocessor. */
rdt_status rdt_sm_groups_of_device(int avoid, const rdt_sm_groups **g, rdt_reason *why);
const rdt_sm_group *rdt_sm_groups_at(const rdt_sm_groups *g, int i);

#endif
