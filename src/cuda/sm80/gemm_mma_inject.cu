/* The same source once more, with faults: one code a scheme. */
#include "cuda/ptx/strike.h"
#include "cuda/sm80/gemm_mma_rows.h"

struct rdt_hit {
  static constexpr bool on = true;
  rdt_mma_hit *h;
  bool mine;
  int step;

  __device__ void begin() {
    mine = h->sm >= 0 ? (int)rdt_sm() == h->sm && threadIdx.x % 32 == 0 : block() && (int)threadIdx.x == h->thread;
    step = 0;
  }

  __device__ float flip(float x) {
    return __uint_as_float(__float_as_uint(x) ^ (uint32_t)h->mask);
  }
  __device__ int flip(int x) {
    return x ^ (int)h->mask;
  }
  __device__ uint32_t flip(uint32_t x) {
    return x ^ (uint32_t)h->mask;
  }
  __device__ double flip(double x) {
    return __longlong_as_double(__double_as_longlong(x) ^ (long long)h->mask);
  }

  template <class R>
  __device__ R strike(R x) {
    const R y = flip(x);
    h->before = (double)x, h->after = (double)y;
    atomicAdd(&h->done, 1u);
    return y;
  }

  template <class R, int MT, int regs>
  __device__ void fragments(R (&a)[MT][regs]) { /* the upper or the lower half of the rows: half of the registers */
    if (!mine || h->site != RDT_MMA_FRAGMENT || step != h->step) return;
    const int row = h->fragment / (4 * h->columns), half = h->fragment % 4 / 2;
#pragma unroll
    for (int i = 0; i < MT; i++)
      if (i == row) {
        R &x = half ? a[i][regs == 8 ? 4 : 1] : a[i][0];
        x = strike(x);
      }
  }

  template <class R, int MT, int NT>
  __device__ void accumulators(R (&c)[MT][NT][4]) {
    const int at = h->fragment;
    if (mine && h->site == RDT_MMA_ACCUM && step == h->step && at >= 0 && at < MT * NT * 4) {
      R before = 0;
#pragma unroll
      for (int i = 0; i < MT * NT * 4; i++) rdt_strike_if(c[i / (NT * 4)][i / 4 % NT][i % 4], before, i, at, h->mask);
      strike(before);
    }
    step++;
  }

  template <class R>
  __device__ void checksum(R &part) {
    if (!mine || h->site != RDT_MMA_CHECKSUM || step - 1 != h->step) return;
    part = flip(part);
    atomicAdd(&h->done, 1u);
  }

  template <class R>
  __device__ void reduced(int row, int column, R (&v)[4]) {
    if (h->site != RDT_MMA_REDUCED || row != h->element[0]) return;
    for (int e = 0; e < h->several; e++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (h->places[e] - column == i) v[i] += (R)h->changes[e], atomicAdd(&h->done, 1u);
    if (h->several) return;
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (h->element[1] - column == i) v[i] = strike(v[i]);
  }

  /* Of the check that has the fragment: by its place, its row fragment, its column fragment, or all of a column. */
  template <int check>
  __device__ bool looks(int slot, int r) const {
    const int place = h->fragment % 4, column = h->fragment / 4 % h->columns, row = h->fragment / (4 * h->columns);
    bool that = mine && r == place;
    if (check == RDT_MMA_THREAD1) that = that && slot == row;
    if (check == RDT_MMA_THREAD1A) that = that && slot == column;
    if (check == RDT_MMA_COL)
      that = block() && (int)threadIdx.x / 32 == h->thread / 32 && threadIdx.x % 4 == (unsigned)h->thread % 4 &&
             slot == column && r == place % 2;
    return that;
  }

  template <int check>
  __device__ void bound(int slot, int r, double tau) {
    if (looks<check>(slot, r)) h->bound = tau;
  }

  /* The squares that this check's bound is made of. */
  template <int check, class R>
  __device__ R squares(int slot, int r, R q) {
    return h->site == RDT_MMA_BOUND && looks<check>(slot, r) ? strike(q) : q;
  }

  __device__ bool block() const {
    return h->sm < 0 && (int)blockIdx.x == h->block[0] && (int)blockIdx.y == h->block[1] &&
           (int)blockIdx.z == h->block[2];
  }

  template <class R>
  __device__ R squares_of_row(int row, R q) {
    return h->site == RDT_MMA_BOUND && (row == -1 || row == h->element[0]) ? strike(q) : q;
  }

  __device__ void bound_of_row(int row, double tau) {
    if (row == -1 || row == h->element[0]) h->bound = tau;
  }
};

template <class T, class Tile, int check>
__global__ void __launch_bounds__(Tile::threads, 1)
    gemm_mma_inject(const __grid_constant__ rdt_mma_args p, rdt_mma_hit *h) {
  rdt_gemm_mma<T, Tile, check, rdt_hit>(p, rdt_hit{h, false, 0});
}

#define ROW(type, tile, scheme)                                            \
  extern "C" const void *const rdt_mma_inject_##type##_##tile##_##scheme = \
      (const void *)gemm_mma_inject<rdt_type_##type, rdt_tile_##tile<rdt_type_##type>, rdt_check_##scheme>;

RDT_CUDA_INJECTING(ROW)
