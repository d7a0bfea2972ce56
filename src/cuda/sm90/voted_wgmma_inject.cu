/* The same with a fault: of fp16, of B with rows side by side. */
#include "cuda/ptx/strike.h"
#include "cuda/sm90/gemm_wgmma_rows.h"
#include "cuda/sm90/voted_wgmma_body.h"
#include "cuda/sm90/voted_wgmma_last.h"

/* apart: what is kept is in parts, one by each copy. */
template <int apart>
struct rdt_voted_planted {
  static constexpr bool on = true;
  rdt_voted_hit *h;

  /* Whether this thread has an element, in the tile of its warp at row, column, and which of its accumulators. */
  static __device__ bool has(const int *element, int row, int column, int *i) {
    const int lane = (int)threadIdx.x % 32, r = element[0] - row, c = element[1] - column;
    *i = 4 * (c / 8) + r / 8 * 2 + c % 2;
    return r >= 0 && r < 16 && c >= 0 && c < RDT_VOTED_COLUMNS && lane == r % 8 * 4 + c % 8 / 2;
  }
  __device__ bool aimed(int copy, int vote, int row, int column, int *i) const {
    if (h->sm >= 0) return *i = 0, threadIdx.x % 32 == 0 && h->sm == (int)rdt_sm();
    return vote == h->vote && h->mask[copy] != 0 && has(h->element, row, column, i);
  }
  static __device__ void flip(float (&c)[RDT_VOTED_HELD], int at, unsigned mask) {
    float before = 0.0f;
#pragma unroll
    for (int i = 0; i < RDT_VOTED_HELD; i++) rdt_strike_if(c[i], before, i, at, mask);
  }
  /* The rounds that are done where the next fault comes, or all of these. */
  __device__ int next(int round, int end) const {
    for (int i = 0; i < h->n; i++)
      if (!h->more[i].again && h->more[i].behind > round) end = min(end, h->more[i].behind);
    return end;
  }
  __device__ void behind(int round, int copy, int row, int column, float (&c)[RDT_VOTED_HELD]) {
#pragma unroll 1
    for (int i = 0; i < h->n; i++) {
      const rdt_voted_fault *f = &h->more[i];
      int at;
      if (f->again || f->behind != round || f->copy != copy || !has(f->element, row, column, &at)) continue;
      flip(c, at, f->mask);
      atomicAdd(&h->done, 1u);
    }
  }
  __device__ void accumulators(int copy, int vote, int row, int column, float (&c)[RDT_VOTED_HELD]) {
    int at;
    if (h->site != RDT_VOTED_ACCUM || !aimed(copy, vote, row, column, &at)) return;
    flip(c, at, h->mask[h->sm >= 0 ? 0 : copy]);
    atomicAdd(&h->done, 1u);
  }
  /* At the end of stages that were computed again. */
  __device__ void again(int from, int to, int copy, int row, int column, float (&c)[RDT_VOTED_HELD]) {
    int at;
    if (h->sm >= 0) accumulators(copy, 0, row, column, c);
#pragma unroll 1
    for (int i = 0; i < h->n; i++) {
      const rdt_voted_fault *f = &h->more[i];
      if (!f->again || f->copy != copy || !has(f->element, row, column, &at)) continue;
      if (f->behind && (f->behind <= from || f->behind > to)) continue;
      flip(c, at, f->mask);
      atomicAdd(&h->done_again, 1u);
    }
  }
  /* What is kept in memory of a vote: by who has written it. SPLIT: by the first copy. */
  __device__ void kept(int copy, int vote, int row, int column, float4 *to) {
    int i;
    if (h->site != RDT_VOTED_KEPT || vote != h->vote || !has(h->element, row, column, &i)) return;
    if (copy != i / 4 % RDT_VOTERS * apart) return;
    unsigned *const at = (unsigned *)(to + 8 * (i / 4 * 4)) + i % 4;
    __stcg(at, __ldcg(at) ^ h->mask[0]);
    atomicAdd(&h->done, 1u);
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
  rdt_voted<rdt_f16, rdt_voted_shape<team>, 1>(v, rdt_voted_planted<team != RDT_VOTED_SPLIT>{hit});
}

__global__ void __launch_bounds__(RDT_VOTE_THREADS) last(const __grid_constant__ rdt_vote_args p,
                                                         const __grid_constant__ rdt_voted_args v, rdt_voted_hit *hit) {
  rdt_voted_last<rdt_f16, 1>(p, v, rdt_voted_planted<0>{hit});
}

extern "C" const void *const rdt_voted_last_inject = (const void *)last;
extern "C" const void *const rdt_voted_inject[RDT_VOTED_TEAMS] = {
    (const void *)voted<RDT_VOTED_BLOCK>, (const void *)voted<RDT_VOTED_GRID>, (const void *)voted<RDT_VOTED_CLUSTER>,
    (const void *)voted<RDT_VOTED_SPLIT>, (const void *)voted<RDT_VOTED_SKINNY>};
