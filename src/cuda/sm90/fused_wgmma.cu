/* Kernels of fused_wgmma.h. */
#include "cuda/sm90/fused_wgmma_body.h"

template <class T, class Tile, int ends>
static __global__ void __launch_bounds__(Tile::all, Tile::blocks)
    fused(const __grid_constant__ rdt_fused_wide_args g) {
  rdt_fused_wide<T, Tile, ends>(g, rdt_no_hit{});
}

/* Tiles whose parts are not 64 columns have no end that is short. */
#define TILE(check, ends, BM, BN, parts, ...) \
  rdt_fused_wide_tile<BM, BN, parts, __VA_ARGS__, check, (ends) == RDT_FUSED_WIDE_ALONE>
#define SHORT(BN, parts) (BN) / (parts) == RDT_FUSED_WIDE_SHORT ? RDT_FUSED_WIDE_ALONE : RDT_FUSED_WIDE_BOUND
#define CODE(T, check, ends, ...) (const void *)fused<rdt_type_##T, TILE(check, ends, __VA_ARGS__), ends>
#define ALL(T, check, BM, BN, parts, ...)                                      \
  {                                                                            \
    CODE(T, check, RDT_FUSED_WIDE_BOUND, BM, BN, parts, __VA_ARGS__),          \
        CODE(T, check, RDT_FUSED_WIDE_GELU, BM, BN, parts, __VA_ARGS__),       \
        CODE(T, check, RDT_FUSED_WIDE_ANY, BM, BN, parts, __VA_ARGS__),        \
        CODE(T, check, SHORT(BN, parts), BM, BN, parts, __VA_ARGS__)               \
  }
#define EACH(check, what, ...) TILE(check, RDT_FUSED_WIDE_BOUND, __VA_ARGS__)::what
#define OF_ALONE(check, BM, BN, parts, ...) TILE(check, SHORT(BN, parts), BM, BN, parts, __VA_ARGS__)::all
#define X(name, BM, BN, ...)                                                             \
  {"fused_wgmma_" #name,                                                                 \
   BM,                                                                                   \
   BN,                                                                                   \
   EACH(true, BK, BM, BN, __VA_ARGS__),                                                  \
   {EACH(false, all, BM, BN, __VA_ARGS__), EACH(true, all, BM, BN, __VA_ARGS__)},        \
   {OF_ALONE(false, BM, BN, __VA_ARGS__), OF_ALONE(true, BM, BN, __VA_ARGS__)},          \
   {EACH(false, stage_bytes, BM, BN, __VA_ARGS__), EACH(true, stage_bytes, BM, BN, __VA_ARGS__)}, \
   EACH(true, sums_bytes, BM, BN, __VA_ARGS__),                                          \
   {EACH(false, blocks, BM, BN, __VA_ARGS__), EACH(true, blocks, BM, BN, __VA_ARGS__)},  \
   EACH(true, part, BM, BN, __VA_ARGS__),                                                \
   EACH(true, left, BM, BN, __VA_ARGS__),                                                \
   {{ALL(f16, false, BM, BN, __VA_ARGS__), ALL(f16, true, BM, BN, __VA_ARGS__)},         \
    {ALL(bf16, false, BM, BN, __VA_ARGS__), ALL(bf16, true, BM, BN, __VA_ARGS__)}}},
extern "C" const rdt_fused_wide_kernel rdt_fused_wide_kernels[] = {
#include "cuda/sm90/fused_wgmma.def"
};
#undef X
extern "C" const int rdt_fused_wide_count = (int)(sizeof rdt_fused_wide_kernels / sizeof *rdt_fused_wide_kernels);

/* A thread has one of k: a column of what is packed. */
template <class T>
static __global__ void __launch_bounds__(128) pack(const __grid_constant__ rdt_fused_pack_args p) {
  const int k = (int)blockIdx.y * 128 + (int)threadIdx.x, tile = (int)blockIdx.x;
  if (k >= p.k) return;
  const int tap = k / p.channels;
  const uint16_t *w = (const uint16_t *)p.w + tap * p.tap + (k - tap * p.channels) * p.row;
  uint16_t *out = (uint16_t *)p.out + (int64_t)tile * p.pitch * p.k + k;
  double sum = 0.0, squares = 0.0;
  for (int j = 0; j < p.columns; j++) {
    const int column = tile * p.columns + j;
    const uint16_t bits = column < p.n ? w[column * p.column] : (uint16_t)0;
    const float x = rdt_fused_format<T>::type::wide(bits).x, size = x != 0.0f ? fmaxf(fabsf(x), T::least) : 0.0f;
    out[(int64_t)j * p.k] = bits;
    sum += rdt_wide_minus(tile, j) ? -(double)x : (double)x;
    squares += x != x ? (double)x : (double)size * (double)size;
  }
  if (!p.rho2) return;
  const double scale[3] = {1.0, T::bytes == 2 && T::most < 1e6f ? 0x1p11 : 1.0, 1.0};
  const int parts = T::most < 1e6f ? 2 : 3; /* what T::expected joins */
  for (int i = 0; i < parts; i++) {
    const uint32_t bits = rdt_fused_format<T>::type::narrow((float)(sum * scale[i]), 0.0f);
    out[(int64_t)(p.columns + i) * p.k] = (uint16_t)bits;
    sum -= (double)rdt_fused_format<T>::type::wide(bits).x / scale[i];
  }
  if (!(fabs(sum) < 1.0)) squares = __longlong_as_double(0x7ff0000000000000); /* the first part overflowed */
  atomicMax((unsigned *)p.rho2 + tile,
            __float_as_uint(fabsf((float)(squares * 1.001) + RDT_MMA_LOST))); /* NaN above all */
}
extern "C" const void *const rdt_fused_pack[2] = {(const void *)pack<rdt_type_f16>, (const void *)pack<rdt_type_bf16>};
