/* The same source once more, with faults: whose columns are compared, too. */
#include "cuda/sm90/gemm_wgmma_hit.h"

RDT_CUDA_WIDE_COLUMNS_INJECTING(RDT_WGMMA_INJECT)

template <class T, bool side>
static __global__ void __launch_bounds__(256) settle(const __grid_constant__ rdt_columns_args a, rdt_mma_hit *h) {
  rdt_columns_settle_of<T, side>(a, rdt_hit{h});
}
extern "C" const void *const rdt_columns_settle_inject[2][2] = {
    {(const void *)settle<rdt_f16, true>, (const void *)settle<rdt_f16, false>},
    {(const void *)settle<rdt_bf16, true>, (const void *)settle<rdt_bf16, false>}};
