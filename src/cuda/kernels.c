#include "cuda/kernels.def"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <string.h>

#include "cuda/kernel.h"
#include "cuda/sm80/gemm_mma.h"
#include "cuda/sm90/gemm_tall.h"
#include "cuda/sm90/gemm_wgmma.h"

#define X(type, tile, scheme) extern const void *const rdt_mma_##type##_##tile##_##scheme;
RDT_CUDA_TABLE(X)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_mma_inject_##type##_##tile##_##scheme;
RDT_CUDA_INJECTING(X)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS];
RDT_CUDA_WIDE(X)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_tall_##type##_##tile##_##scheme;
RDT_CUDA_TALL(X)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_tall_inject_##type##_##tile##_##scheme;
RDT_CUDA_TALL_INJECTING(X)
#undef X
#define X(type, tile, scheme) extern const void *const rdt_wgmma_inject_##type##_##tile##_##scheme[RDT_WGMMA_FORMS];
RDT_CUDA_WIDE_INJECTING(X)
#undef X

enum { /* what rows name, so that they can be pasted together */
       check_none = RDT_MMA_NONE,
       check_thread1 = RDT_MMA_THREAD1,
       check_thread1a = RDT_MMA_THREAD1A,
       check_col = RDT_MMA_COL,
       check_thread2 = RDT_MMA_THREAD2,
       check_replicate = RDT_MMA_REPLICATE,
       check_replicate1 = RDT_MMA_REPLICATE1,
       check_row = RDT_MMA_SUMS,
       check_global = RDT_MMA_SUMS,
       check_global_classic = RDT_MMA_CLASSIC,
       wide_none = RDT_MMA_NONE,
       wide_row = RDT_MMA_SUMS,
       wide_global = RDT_MMA_SUMS,
       wide_tile = RDT_WGMMA_TILE,
       wide_rowcol = RDT_WGMMA_ROWCOL,
       wide_col = RDT_WGMMA_ROWCOL,
       tall_none = RDT_MMA_NONE,
       tall_row = RDT_WGMMA_TILE /* a tile has all columns */
};
/* Names: one is no identifier */
#define SCHEME_none "none"
#define SCHEME_thread1 "thread1"
#define SCHEME_thread1a "thread1a"
#define SCHEME_col "col"
#define SCHEME_thread2 "thread2"
#define SCHEME_replicate "replicate"
#define SCHEME_replicate1 "replicate1"
#define SCHEME_row "row"
#define SCHEME_rowcol "rowcol"
#define SCHEME_global "global"
#define SCHEME_tile "tile"
#define SCHEME_global_classic "global-classic"
#define NAME(type, unit, tile, scheme) "gemm_" #type "_" unit "_" #tile "_" SCHEME_##scheme
/* dtype, bytes of an element, k of an instruction's step, bytes of an accumulator */
enum { dtype_f16 = RDT_F16, bytes_f16 = 2, step_f16 = 16, sum_f16 = 4 };
enum { dtype_bf16 = RDT_BF16, bytes_bf16 = 2, step_bf16 = 16, sum_bf16 = 4 };
enum { dtype_s8 = RDT_S8, bytes_s8 = 1, step_s8 = 32, sum_s8 = 4 };
enum { dtype_u8 = RDT_U8, bytes_u8 = 1, step_u8 = 32, sum_u8 = 4 };
enum { dtype_tf32 = RDT_F32, bytes_tf32 = 4, step_tf32 = 8, sum_tf32 = 4 };
enum { dtype_f8e4m3 = RDT_F8E4M3, bytes_f8e4m3 = 1, step_f8e4m3 = 32, sum_f8e4m3 = 4 };
enum { dtype_f8e5m2 = RDT_F8E5M2, bytes_f8e5m2 = 1, step_f8e5m2 = 32, sum_f8e5m2 = 4 };
enum { dtype_f64 = RDT_F64, bytes_f64 = 8, step_f64 = 8, sum_f64 = 8 };
enum { dtype_f32 = RDT_F32, bytes_f32 = 4, step_f32 = 4, sum_f32 = 4 };
#define unit_f16 "mma"
#define unit_bf16 "mma"
#define unit_s8 "mma"
#define unit_f64 "mma"
#define unit_f32 "fma"

enum { /* shared memory: bytes of the stages; numbers of the warps' sums and the rows' squares; whichever is more */
#define X(name, bm, bn, depth, wm, wn, wk, stages, blocks)                                        \
  loop_##name = (stages) * ((bm) + (bn)) * (depth)*2, sums_##name = (wk) * (bm) * ((bn) + 4 + 1), \
  depth_##name = (depth),
#include "cuda/tiles.def"
#undef X
};
static const rdt_cuda_tile tiles[] = {
#define X(name, bm, bn, depth, wm, wn, wk, stages, blocks) \
  {#name, bm, bn, wm, wn, wk, 32 * ((bm) / (wm)) * ((bn) / (wn)) * (wk), 0},
#include "cuda/tiles.def"
#undef X
};
enum {
#define X(name, ...) tile_##name,
#include "cuda/tiles.def"
#undef X
};

static const rdt_cuda_tile wide_tiles[] = {
#define X(name, rows, columns, stages, groups) \
  {#name, 64 * (rows) * (groups), columns, 16, columns, 1, RDT_WGMMA_THREADS, 0},
#include "cuda/wide.def"
#undef X
};
enum {
#define X(name, ...) wide_##name,
#include "cuda/wide.def"
#undef X
};
enum {
#define X(name, rows, columns, ...) columns_##name = (columns),
#include "cuda/wide.def"
#undef X
};

static const rdt_cuda_tile tall_tiles[] = {
#define X(name, rows, columns, two, alone) \
  {#name, 64 * (rows), columns, 16, columns, 1, 128 * (alone) + 32, 128 * (two) + 32},
#include "cuda/tall.def"
#undef X
};
enum {
#define X(name, ...) at_##name,
#include "cuda/tall.def"
#undef X
};

static const rdt_cuda_kernel table[] = {
#define X(type, shape, how)                                                                                           \
  {.name = NAME(type, unit_##type, shape, how),                                                                       \
   .scheme = SCHEME_##how,                                                                                            \
   .dtype = (rdt_dtype)dtype_##type,                                                                                  \
   .tile = &tiles[tile_##shape],                                                                                      \
   .k = 2 * depth_##shape / bytes_##type,                                                                             \
   .step = step_##type,                                                                                               \
   .sum = sum_##type,                                                                                                 \
   .shared = (int)loop_##shape > sums_##shape * (int)sum_##type ? (int)loop_##shape : sums_##shape * (int)sum_##type, \
   .least = 8,                                                                                                        \
   .check = check_##how,                                                                                              \
   .code = &rdt_mma_##type##_##shape##_##how},
    RDT_CUDA_TABLE(X)
#undef X
#define X(type, shape, how)                               \
  {.family = RDT_CUDA_WGMMA,                              \
   .name = NAME(type, "wgmma", shape, how),               \
   .scheme = SCHEME_##how,                                \
   .dtype = (rdt_dtype)dtype_##type,                      \
   .tf32 = (int)dtype_##type == RDT_F32,                  \
   .tile = &wide_tiles[wide_##shape],                     \
   .k = 128 / bytes_##type,                               \
   .step = step_##type,                                   \
   .sum = sum_##type,                                     \
   .shared = RDT_WGMMA_SHARED,                            \
   .least = 9,                                            \
   .check = RDT_WGMMA_CHECK(wide_##how, columns_##shape), \
   .code = rdt_wgmma_##type##_##shape##_##how},
        RDT_CUDA_WIDE(X)
#undef X
#define X(type, shape, how)                 \
  {.family = RDT_CUDA_TALL,                 \
   .name = NAME(type, "wgmma", shape, how), \
   .scheme = SCHEME_##how,                  \
   .dtype = (rdt_dtype)dtype_##type,        \
   .tile = &tall_tiles[at_##shape],         \
   .k = RDT_TALL_K,                         \
   .step = step_##type,                     \
   .sum = sum_##type,                       \
   .shared = RDT_WGMMA_SHARED,              \
   .least = 9,                              \
   .check = tall_##how,                     \
   .code = &rdt_tall_##type##_##shape##_##how},
            RDT_CUDA_TALL(X)
#undef X
};

static const struct {
  const char *name;
  const void *const *code;
} injecting[] = {
#define X(type, tile, scheme) {NAME(type, unit_##type, tile, scheme), &rdt_mma_inject_##type##_##tile##_##scheme},
    RDT_CUDA_INJECTING(X)
#undef X
#define X(type, tile, scheme) {NAME(type, "wgmma", tile, scheme), rdt_wgmma_inject_##type##_##tile##_##scheme},
        RDT_CUDA_WIDE_INJECTING(X)
#undef X
#define X(type, tile, scheme) {NAME(type, "wgmma", tile, scheme), &rdt_tall_inject_##type##_##tile##_##scheme},
            RDT_CUDA_TALL_INJECTING(X)
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

const void *const *rdt_cuda_kernel_inject(const rdt_cuda_kernel *k) {
  for (size_t i = 0; i < sizeof injecting / sizeof *injecting; i++)
    if (strcmp(injecting[i].name, k->name) == 0) return injecting[i].code;
  return NULL;
}

rdt_status rdt_cuda_kernel_admit(const rdt_cuda_kernel *k, rdt_reason *why) {
  const void *const *codes[] = {k->code, rdt_cuda_kernel_inject(k)};
  const int bytes = k->shared + (k->family == RDT_CUDA_MMA ? RDT_MMA_AGAIN : 0);
  for (int i = 0; i < 2; i++)
    for (int j = 0; codes[i] && j < (k->family == RDT_CUDA_WGMMA ? RDT_WGMMA_FORMS : 1); j++)
      if (codes[i][j])
        RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(codes[i][j], cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                                k->name, why));
  return RDT_OK;
}

rdt_dtype rdt_cuda_kernel_weights(const rdt_cuda_kernel *k) {
  return k->dtype == RDT_U8 ? RDT_S8 : k->dtype;
}

int rdt_cuda_kernel_columns(const rdt_cuda_kernel *k) {
  const bool row = k->check == RDT_WGMMA_TILE && strcmp(k->scheme, "row") == 0;
  return row || k->family == RDT_CUDA_TALL ? k->tile->columns : INT_MAX / 2;
}

bool rdt_cuda_kernel_batches(const rdt_cuda_kernel *k) {
  return k->family == RDT_CUDA_WGMMA && k->check != RDT_WGMMA_ROWCOL && strcmp(k->scheme, "global") != 0;
}

int rdt_cuda_kernel_sets(const rdt_cuda_kernel *k) {
  const bool several = k->family == RDT_CUDA_MMA && k->dtype != RDT_S8 && strcmp(k->scheme, "row") == 0;
  return several ? RDT_MMA_SETS : 1;
}
