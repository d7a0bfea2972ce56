/* The host's side of repair in the stream (mend.h). */
#ifndef RDT_CUDA_MENDER_H
#define RDT_CUDA_MENDER_H

#include "cuda/kernel.h"
#include "cuda/mend.h"
#include "cuda/tall.h"

/* Of a product on wgmma of many columns: a row of tiles, and one more, as a product of its own. */
typedef struct rdt_mend_part {
  const rdt_cuda_kernel *kernel; /* compares rows: the product's, or that of the same tile which does */
  rdt_wide wide;
  rdt_mma_args args; /* a, c, residual: where its rows are brought to */
  void *memory;      /* of all; NULL: not made ready */
} rdt_mend_part;

typedef struct rdt_mender {
  rdt_mend *there; /* NULL: the kernel has no check, or none that is within its launch; or nobody has asked yet */
  rdt_mend_part part;
  void *graph; /* executable, for these arguments */
  rdt_mma_args args;
  const void *const *code;
  const float *factor;
  const rdt_mma_hit *hit;
  int sms; /* of the device, and bytes of shared memory that a block may have */
  size_t most;
  bool used;
} rdt_mender;

bool rdt_mend_takes(const rdt_cuda_kernel *k);
/* Bytes on the device for a product of so many blocks, and the same put in order there; a: complete; fold: of a
 * product of few columns. */
size_t rdt_mend_bytes(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks);
rdt_status rdt_mend_ready(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, int fold, int row_blocks,
                          const rdt_cuda_device *d, void *memory, void *stream, rdt_reason *why);
/* The same of a product on wgmma of many columns: allocates, and waits. RDT_ERR_UNSUPPORTED with the reason. */
rdt_status rdt_mend_ready_rows(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_wide *w,
                               int row_blocks, const rdt_accumulator *acc, double lambda, const rdt_cuda_device *d,
                               void *stream, rdt_reason *why);
/* Behind the product with these arguments, compared; tall, wide: of a kernel of that family. struck NULL: by the kernel
 * that is shipped; else it is struck again. In a stream that is captured, nodes of that graph; else a graph of its own,
 * or (at_once) launches one by one, for which the host may wait. */
rdt_status rdt_mend_enqueue(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_tall *tall,
                            const rdt_wide *wide, int row_blocks, rdt_mma_hit *struck, bool at_once, void *stream,
                            rdt_reason *why);
void rdt_mend_drop(rdt_mender *h);
void rdt_mend_merge(rdt_cuda_verdict *to, const rdt_cuda_verdict *more);

#endif
