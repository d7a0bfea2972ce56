#include "cuda/pad.h"

#include <cuda_runtime_api.h>

#include "cuda/device.h"

enum { THREADS = 256, BLOCKS = 1024 };

void rdt_pads_drop(rdt_pads *p) {
  rdt_cuda_free(p->memory);
  *p = (rdt_pads){.memory = NULL};
}

rdt_status rdt_pads_run(const rdt_pads *p, int which, bool compare, void *const theirs[3], rdt_cuda_verdict *v,
                        void *stream, rdt_reason *why) {
  for (int i = 0; i < 3; i++) {
    rdt_pad one = p->of[i];
    if (!(which & 1 << i) || !p->own[i]) continue;
    one.from = i == 2 ? p->own[i] : theirs[i], one.to = i == 2 ? theirs[i] : p->own[i], one.verdict = v;
    const int64_t blocks = ((int64_t)one.rows * one.batches + THREADS / 32 - 1) / (THREADS / 32);
    const dim3 grid = {(unsigned)(blocks < BLOCKS ? blocks : BLOCKS), 1, 1}, block = {THREADS, 1, 1};
    void *arguments[] = {&one};
    RDT_TRY(
        rdt_cuda_status(cudaLaunchKernel(compare ? rdt_pad_compare : rdt_pad_copy, grid, block, arguments, 0, stream),
                        "a copy whose rows are aligned", why));
  }
  return RDT_OK;
}
