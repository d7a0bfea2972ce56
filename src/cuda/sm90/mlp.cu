/* Kernels of mlp.h. */
#include "cuda/sm90/mlp_body.h"

template <class T, int check>
static __global__ void __launch_bounds__(RDT_MLP_THREADS + (check == RDT_MLP_SIGNED ? RDT_MLP_MORE : 0), 1)
    mlp(const __grid_constant__ rdt_mlp_args p) {
  rdt_mlp<T, check>(p, rdt_no_hit{});
}
extern "C" const void *const rdt_mlp_code[RDT_MLP_CHECKS][2] = {
    {(const void *)mlp<rdt_type_f16, RDT_MLP_NONE>, (const void *)mlp<rdt_type_bf16, RDT_MLP_NONE>},
    {(const void *)mlp<rdt_type_f16, RDT_MLP_SIGNED>, (const void *)mlp<rdt_type_bf16, RDT_MLP_SIGNED>},
    {(const void *)mlp<rdt_type_f16, RDT_MLP_TWICE>, (const void *)mlp<rdt_type_bf16, RDT_MLP_TWICE>}};

/* A thread has one of k: of a block's neurons, and of their signed sums in parts. */
template <class T>
static __global__ void __launch_bounds__(RDT_MLP_PAIR) pack(const __grid_constant__ rdt_mlp_pack_args p) {
  typedef typename rdt_mlp_format<T>::type format;
  const int block = (int)blockIdx.x, pair = (int)blockIdx.y, k = pair * RDT_MLP_PAIR + (int)threadIdx.x;
  const int part = (int)threadIdx.x / 8, within = (int)threadIdx.x % 8; /* of the lane's eight */
  uint16_t *out = (uint16_t *)p.out + (int64_t)block * p.pairs * (p.tiles + p.check) * 256;
  double sum = 0.0, squares = 0.0;
  for (int j = 0; j < 8 * p.tiles; j++) {
    const int column = block % p.blocks * 8 * p.tiles + j;
    const uint16_t bits =
        k < p.k && column < p.n ? ((const uint16_t *)p.w)[k * p.row + column * p.column] : (uint16_t)0;
    const float x = format::wide(bits).x, size = x != 0.0f ? fmaxf(fabsf(x), T::least) : 0.0f;
    out[((pair * p.tiles + j / 8) * 32 + j % 8 * 4 + part) * 8 + within] = bits;
    sum += rdt_mma_sign((unsigned)column) ? -(double)x : (double)x;
    squares += x != x ? (double)x : (double)size * (double)size;
  }
  if (!p.check) return rdt_mlp_leave();
  out += (int64_t)p.pairs * p.tiles * 256 + pair * 256;
  const int parts = T::most < 1e6f ? 2 : 3; /* what T::expected joins */
  const double scale[3] = {1.0, parts == 2 ? 0x1p11 : 1.0, 1.0};
  for (int i = 0; i < 8; i++) {
    const uint32_t bits = i < parts ? format::narrow((float)(sum * scale[i < 3 ? i : 0]), 0.0f) : 0u;
    out[(i * 4 + part) * 8 + within] = (uint16_t)bits;
    if (i < parts) sum -= (double)format::wide(bits).x / scale[i < 3 ? i : 0];
  }
  if (!(fabs(sum) < 1.0)) squares = __longlong_as_double(0x7ff0000000000000); /* the first part overflowed */
  atomicMax((unsigned *)p.rho2 + block,
            __float_as_uint(fabsf((float)(squares * 1.001) + RDT_MMA_LOST))); /* NaN above all */
  rdt_mlp_leave();
}
extern "C" const void *const rdt_mlp_pack[2] = {(const void *)pack<rdt_type_f16>, (const void *)pack<rdt_type_bf16>};
