/* Kernels of mlp_wgmma.h. */
#include "cuda/sm90/mlp_wgmma_body.h"

template <class T, int R, bool check>
static __global__ void __launch_bounds__(RDT_MLPW_THREADS + RDT_MLPW_MORE, 1)
    mlp_wgmma(const __grid_constant__ rdt_mlpw_args p) {
  rdt_mlpw<T, R, check>(p, rdt_no_hit{});
}
#define TYPES(R, check) \
  { (const void *)mlp_wgmma<rdt_type_f16, R, check>, (const void *)mlp_wgmma<rdt_type_bf16, R, check> }
extern "C" const void *const rdt_mlpw_code[RDT_MLPW_SIZES][2][2] = {{TYPES(32, false), TYPES(32, true)},
                                                                    {TYPES(64, false), TYPES(64, true)}};
#undef TYPES

/* A block has a piece, in which 64 of k of a neuron are 128 bytes; the first one of a tile has its biases too. */
static __global__ void __launch_bounds__(256) pack(const __grid_constant__ rdt_mlpw_pack_args p) {
  const int piece = (int)blockIdx.x, tile = piece / p.chunks, first = piece % p.chunks * RDT_MLPW_TILE;
  const int64_t copy = blockIdx.y * p.apart;
  uint16_t *to = (uint16_t *)(p.pieces + copy + (int64_t)piece * RDT_MLPW_PIECE);
  for (int i = (int)threadIdx.x; i < RDT_MLPW_TILE * RDT_MLPW_TILE; i += 256) {
    const int row = i / RDT_MLPW_TILE, at = i % RDT_MLPW_TILE, neuron = tile * RDT_MLPW_TILE + row, k = first + at;
    const bool there = neuron < p.n && k < p.k;
    to[64 * row + 8 * (at / 8 ^ row % 8) + at % 8] =
        there ? ((const uint16_t *)p.w)[k * p.row + neuron * p.column] : (uint16_t)0;
  }
  if (first == 0 && threadIdx.x < RDT_MLPW_TILE) {
    const int neuron = tile * RDT_MLPW_TILE + (int)threadIdx.x;
    float *bias = (float *)((char *)p.biases + copy) + neuron;
    *bias = p.bias && neuron < p.n ? rdt_mlp_number(p.bias, neuron, p.bias_type) : 0.0f;
  }
  rdt_mlp_leave();
}
extern "C" const void *const rdt_mlpw_pack = (const void *)pack;
