#include "cuda/kernels.def"

#include <string.h>

#include "cuda/kernel.h"
#include "cuda/sm80/gemm_mma.h"

#define X(type, tile, scheme) extern const void *const rdt_mma_##type##_##tile##_##scheme;
RDT_CUDA_ROWS(X, f16)
RDT_CUDA_ROWS(X, bf16)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_mma_inject_##type##_##tile##_##scheme;
RDT_CUDA_INJECTING(X)
#undef X

enum { /* what rows name, so that they can be pasted together */
       check_none = RDT_MMA_NONE,
       check_thread1 = RDT_MMA_THREAD1,
       check_thread2 = RDT_MMA_THREAD2,
       check_replicate = RDT_MMA_REPLICATE,
       check_row = RDT_MMA_SUMS,
       check_global = RDT_MMA_SUMS,
       dtype_f16 = RDT_F16,
       dtype_bf16 = RDT_BF16
};

enum { /* bytes of shared memory: the stages, or the warps' sums with the rows' squares, whichever is more */
#define X(name, bm, bn, bk, wm, wn, wk, stages, blocks)                                            \
  loop_##name = (stages) * ((bm) + (bn)) * (bk)*2, sums_##name = (wk) * (bm) * ((bn) + 4 + 1) * 4, \
  shared_##name = (int)loop_##name > (int)sums_##name ? (int)loop_##name : (int)sums_##name,
#include "cuda/tiles.def"
#undef X
};
static const rdt_cuda_tile tiles[] = {
#define X(name, bm, bn, bk, wm, wn, wk, stages, blocks) \
  {#name, bm, bn, bk, wm, wn, wk, 32 * ((bm) / (wm)) * ((bn) / (wn)) * (wk), shared_##name},
#include "cuda/tiles.def"
#undef X
};
enum {
#define X(name, ...) tile_##name,
#include "cuda/tiles.def"
#undef X
};

static const rdt_cuda_kernel table[] = {
#define X(type, tile, scheme)                                                                                         \
  {"gemm_" #type "_mma_" #tile "_" #scheme, #scheme, (rdt_dtype)dtype_##type, &tiles[tile_##tile], 8, check_##scheme, \
   &rdt_mma_##type##_##tile##_##scheme},
    RDT_CUDA_ROWS(X, f16) RDT_CUDA_ROWS(X, bf16)
#undef X
};

static const struct {
  const char *name;
  const void *const *code;
} injecting[] = {
#define X(type, tile, scheme) {"gemm_" #type "_mma_" #tile "_" #scheme, &rdt_mma_inject_##type##_##tile##_##scheme},
    RDT_CUDA_INJECTING(X)
#undef X
};

const rdt_cuda_kernel *rdt_cuda_kernels(int *n) {
  *n = (int)(sizeof table / sizeof *table);
  return table;
}

const rdt_cuda_kernel *rdt_cuda_kernel_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

const void *rdt_cuda_kernel_inject(const rdt_cuda_kernel *k) {
  for (size_t i = 0; i < sizeof injecting / sizeof *injecting; i++)
    if (strcmp(injecting[i].name, k->name) == 0) return *injecting[i].code;
  return NULL;
}
