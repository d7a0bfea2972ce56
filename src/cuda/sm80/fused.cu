/* Kernels of fused.h. */
#include "cuda/sm80/fused_body.h"

template <class T, class Tile, bool curves>
static __global__ void __launch_bounds__(Tile::threads, Tile::blocks) fused(const __grid_constant__ rdt_fused_args p) {
  rdt_fused<T, Tile, curves>(p);
}

#define X(name, ...) \
  template <class T> \
  using rdt_fused_##name = rdt_tile<T, __VA_ARGS__>;
#include "cuda/sm80/fused.def"
#undef X

template <class Tile>
constexpr int shared_of() {
  return Tile::stage_bytes * Tile::stages > Tile::sums_bytes ? Tile::stage_bytes * Tile::stages : Tile::sums_bytes;
}

#define CODE(name, T, curves) (const void *)fused<T, rdt_fused_##name<T>, curves>
#define X(name, ...)                                                   \
  {"fused_" #name,                                                     \
   rdt_fused_##name<rdt_type_f16>::BM,                                 \
   rdt_fused_##name<rdt_type_f16>::BN,                                 \
   rdt_fused_##name<rdt_type_f16>::BK,                                 \
   rdt_fused_##name<rdt_type_f16>::threads,                            \
   shared_of<rdt_fused_##name<rdt_type_f16>>(),                        \
   {{CODE(name, rdt_type_f16, false), CODE(name, rdt_type_f16, true)}, \
    {CODE(name, rdt_type_bf16, false), CODE(name, rdt_type_bf16, true)}}},
extern "C" const rdt_fused_kernel rdt_fused_kernels[] = {
#include "cuda/sm80/fused.def"
};
#undef X
extern "C" const int rdt_fused_count = (int)(sizeof rdt_fused_kernels / sizeof *rdt_fused_kernels);
