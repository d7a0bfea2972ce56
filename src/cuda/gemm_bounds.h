/* How far a clean product's sums may be apart, of each kernel: see docs/tolerance.md. */
#ifndef RDT_CUDA_GEMM_BOUNDS_H
#define RDT_CUDA_GEMM_BOUNDS_H

#include "cuda/kernel.h"
#include "cuda/sm90/gemm_wgmma.h"

/* Outputs that a check of the kernel sums. Of args count m, n, k, k_split, splits, column_blocks, scalar, sets. */
int64_t rdt_gemm_outputs(const rdt_cuda_kernel *k, const rdt_mma_args *a);
/* What sums of columns of 8-bit floats are stored times, so that none is too large; 1 of other types. */
float rdt_gemm_scale(const rdt_cuda_kernel *k, int n);
rdt_device_bound rdt_gemm_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks,
                                const rdt_accumulator *acc, double lambda);
/* Of a column of all rows: what c says of scale, copies and who has summed A is known. squares: of A, that a lane sums
 * (rdt_wide_squares, rdt_wide_squares_stored). */
rdt_device_bound rdt_gemm_columns_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_columns *c,
                                        int64_t squares, const rdt_accumulator *acc, double lambda);
rdt_box_bound rdt_gemm_classic_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_accumulator *acc,
                                     double lambda);
/* The same of the fused kernels on wgmma, whose checks sum so many columns, and of chains of small layers, whose checks
 * sum so many tiles of eight. depth: terms that one block, one warp, has of k, which so many share. */
rdt_device_bound rdt_fused_wide_bound(rdt_dtype type, int k, int depth, int splits, int columns,
                                      const rdt_accumulator *acc, double lambda);
rdt_device_bound rdt_mlp_bound(rdt_dtype type, int k, int depth, int warps, int tiles, const rdt_accumulator *acc,
                               double lambda);

#endif
