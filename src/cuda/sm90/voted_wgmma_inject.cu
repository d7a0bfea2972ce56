/* The same with a fault: of fp16, of B with rows side by side. */
#include "cuda/sm90/gemm_wgmma_rows.h"
#include "cuda/sm90/voted_wgmma_body.h"

struct rdt_voted_planted {
  static constexpr bool on = true;
  rdt_voted_hit *h;

  /* row, column: of the tile that the warp has. */
  __device__ bool aimed(int copy, int vote, int row, int column, int *i) const {
    const int lane = (int)threadIdx.x % 32, r = h->element[0] - row, c = h->element[1] - column;
    if (h->sm >= 0) return *i = 0, lane == 0 && h->sm == (int)rdt_sm();
    *i = 4 * (c / 8) + r / 8 * 2 + c % 2;
    return vote == h->vote && r >= 0 && r < 16 && c >= 0 && c < RDT_VOTED_COLUMNS && lane == r % 8 * 4 + c % 8 / 2 &&
           h->mask[copy] != 0;
  }
  __device__ void accumulators(int copy, int vote, int row, int column, float (&c)[RDT_VOTED_HELD]) {
    int at;
    const bool hit = h->site == RDT_VOTED_ACCUM && aimed(copy, vote, row, column, &at);
#pragma unroll
    for (int i = 0; i < RDT_VOTED_HELD; i++)
      if (hit && i == at) c[i] = __uint_as_float(__float_as_uint(c[i]) ^ h->mask[h->sm >= 0 ? 0 : copy]);
    if (hit) atomicAdd(&h->done, 1u);
  }
  __device__ void digest(int copy, int vote, int row, int column, uint64_t &d) {
    int at;
    if (h->site != RDT_VOTED_DIGEST || !aimed(copy, vote, row, column, &at)) return;
    d ^= h->mask[h->sm >= 0 ? 0 : copy];
    atomicAdd(&h->done, 1u);
  }
};

template <int team>
__global__ void __launch_bounds__(RDT_VOTED_THREADS, 1)
    voted(const __grid_constant__ rdt_voted_args v, rdt_voted_hit *hit) {
  rdt_voted<rdt_f16, rdt_voted_shape<team>, 1>(v, rdt_voted_planted{hit});
}

extern "C" const void *const rdt_voted_inject[RDT_VOTED_TEAMS] = {
    (const void *)voted<RDT_VOTED_BLOCK>, (const void *)voted<RDT_VOTED_GRID>, (const void *)voted<RDT_VOTED_CLUSTER>,
    (const void *)voted<RDT_VOTED_SPLIT>, (const void *)voted<RDT_VOTED_SKINNY>};
