/* CUDA devices, as far as the house needs them; without CUDA types, and the same where nothing of CUDA was built in. */
#ifndef RDT_CUDA_DEVICE_H
#define RDT_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

typedef struct rdt_cuda_device {
  int index;
  char name[96];
  int major, minor; /* compute capability */
  int sms;
  size_t memory, l2, shared; /* bytes; shared: of a block, at most */
  int driver, runtime;       /* 13000: version 13.0 */
  int kept_off;              /* a multiprocessor that copies on different ones keep off: its number + 1; 0: none */
  int votes;                 /* along k, of copies that vote within one launch; 0: as many as usual */
} rdt_cuda_device;

bool rdt_cuda_built(void);
/* How many devices there are; with 0, why says what is missing. RDT_ERR_DEVICE where there is a driver that cannot
 * tell, so that there may be some. */
rdt_status rdt_cuda_find(int *count, rdt_reason *why);
/* The same, 0 where it cannot be told. Never fails. */
int rdt_cuda_count(rdt_reason *why);
/* "cuda:2", or "cuda" for the first one. RDT_ERR_NAME where it is no such name, RDT_ERR_DEVICE where there is no GPU.
 */
rdt_status rdt_device_index(const char *name, int *index, rdt_reason *why);
/* RDT_ERR_NAME where there is no such device, RDT_ERR_UNSUPPORTED where it is older than the kernels (8.0). */
rdt_status rdt_cuda_open(int index, rdt_cuda_device *d, rdt_reason *why);

/* Where a part of an allocation lies that has these bytes, behind the parts before it, which end with *end. */
static inline size_t rdt_cuda_place(size_t *end, size_t bytes) {
  const size_t at = *end;
  *end += (bytes + 255) / 256 * 256;
  return at;
}
/* Memory of the current device. */
rdt_status rdt_cuda_alloc(size_t bytes, void **p, rdt_reason *why); /* zeroed */
void rdt_cuda_free(void *p);
rdt_status rdt_cuda_put(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why);
/* Waits for the stream. */
rdt_status rdt_cuda_get(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why);
rdt_status rdt_cuda_move(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why); /* within it */
rdt_status rdt_cuda_clear(void *p, size_t bytes, void *stream, rdt_reason *why);
rdt_status rdt_cuda_wait(void *stream, rdt_reason *why); /* what went wrong in it comes out here */

/* A status for what the runtime answered while it did `what` (0: RDT_OK). Out of memory: RDT_ERR_NOMEM; what only a bug
 * of ours can bring: RDT_ERR_INTERNAL; all else, a lost device among it: RDT_ERR_DEVICE, exit code 3. */
rdt_status rdt_cuda_status(int error, const char *what, rdt_reason *why);
/* A function of the driver, as of that version of CUDA (12050: 12.5). RDT_ERR_UNSUPPORTED where it is older. */
rdt_status rdt_cuda_driver_function(const char *name, int version, void **function, rdt_reason *why);

#endif
