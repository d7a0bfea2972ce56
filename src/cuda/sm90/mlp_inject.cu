/* The same source once more, with faults. */
#include "cuda/sm90/mlp_body.h"
#include "cuda/sm90/mlp_hit.h"

struct rdt_hit : rdt_mlp_strikes {
  template <int N>
  __device__ void accumulators(int site, int layer, float (&c)[N][4]) {
    if (!here(site, layer) || (int)threadIdx.x != h->thread) return;
#pragma unroll
    for (int i = 0; i < 4 * N; i++)
      if (i == h->place) c[i / 4][i % 4] = strike(c[i / 4][i % 4]);
  }

  __device__ void weights(int layer, uint32_t at, int pairs, int tiles) { /* the thread's own */
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, tile = h->place / 4 % tiles;
    if (here(RDT_MLP_WEIGHT, layer) && (int)threadIdx.x == h->thread && warp < pairs)
      word(at + (uint32_t)((warp * tiles + tile) * 512 + 16 * lane + h->place % 4 * 4));
  }
  __device__ void loaded(int layer, bool first, uint4 &x) { /* of the first layer */
    if (!here(RDT_MLP_INPUT, layer) || layer > 0 || !first || (int)threadIdx.x != h->thread) return;
    x.x = strike(x.x);
  }
  __device__ void arrived(int layer, uint32_t at, uint32_t pitch, int rows) { /* before anybody reads it */
    if (here(RDT_MLP_INPUT, layer) && threadIdx.x % 32 == 0 && h->row < rows)
      word(at + (uint32_t)h->row * pitch + 4u * (uint32_t)h->place);
    __syncwarp();
  }

  __device__ void taken(int layer, int row, int pair, float2 &x) {
    if (here(RDT_MLP_TAKEN, layer) && row == h->row && pair == h->column) x.x = strike(x.x);
  }
  __device__ void stored(int layer, int row, int pair, uint32_t &y) {
    if (!here(RDT_MLP_STORED, layer) || row != h->row || pair != h->column) return;
    y = strike(y);
  }
  __device__ void bound_of(int layer, int row, float tau) {
    if (layer == h->layer && (int)blockIdx.x == h->block && row == h->row) h->bound = (double)tau;
  }
};

template <int check>
static __global__ void __launch_bounds__(RDT_MLP_THREADS + (check == RDT_MLP_SIGNED ? RDT_MLP_MORE : 0), 1)
    mlp_inject(const __grid_constant__ rdt_mlp_args p, rdt_mlp_hit *h) {
  rdt_mlp<rdt_type_f16, check>(p, rdt_hit{{h}});
}
extern "C" const void *const rdt_mlp_inject[RDT_MLP_CHECKS] = {nullptr, (const void *)mlp_inject<RDT_MLP_SIGNED>,
                                                               (const void *)mlp_inject<RDT_MLP_TWICE>};
