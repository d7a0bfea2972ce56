/* Products on wgmma whose columns are compared, too; and their last run's columns. */
#include "cuda/sm90/gemm_wgmma_shipped.h"

RDT_CUDA_WIDE_COLUMNS(ROW, f16)
RDT_CUDA_WIDE_COLUMNS(ROW, bf16)

template <class T, bool side>
static __global__ void __launch_bounds__(256) settle(const __grid_constant__ rdt_columns_args a) {
  rdt_columns_settle_of<T, side>(a, rdt_no_hit());
}
template <class T, bool side>
static __global__ void __launch_bounds__(256) peaks(const __grid_constant__ rdt_columns_args a, float least) {
  rdt_columns_peaks_of<T, side>(a, least);
}

extern "C" const void *const rdt_columns_settle[2][2] = {
    {(const void *)settle<rdt_f16, true>, (const void *)settle<rdt_f16, false>},
    {(const void *)settle<rdt_bf16, true>, (const void *)settle<rdt_bf16, false>}};
extern "C" const void *const rdt_columns_peaks[2][2] = {
    {(const void *)peaks<rdt_f16, true>, (const void *)peaks<rdt_f16, false>},
    {(const void *)peaks<rdt_bf16, true>, (const void *)peaks<rdt_bf16, false>}};
