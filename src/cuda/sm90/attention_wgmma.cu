/* Attention on wgmma, for heads of up to 64 numbers (ops/attention.h). A block is one warpgroup with 64 queries of a
 * head, a warp 16 of them, and goes through tiles of 64 keys: values are multiplied while the powers of the next tile
 * are computed. Tiles lie in a ring of three; what is asked for in a turn is there in the next one. Powers stay in
 * registers, where the second product takes them from. */
#include "cuda/ops/attention_parts.h"
#include "cuda/ops/ops.h"
#include "cuda/ptx/chain.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"

enum { KEYS = 64, STAGES = 3, WIDE_THREADS = 128 };

/* o += p v: 16 keys, whose powers are in registers, as mma.sync has them; values side by side. */
template <class T, int D>
struct rdt_attention_mix;
#define MIX(type, name, D, ...)                                                                          \
  template <>                                                                                            \
  struct rdt_attention_mix<type, D> {                                                                    \
    static __device__ __forceinline__ void step(float (&o)[D / 2], const uint32_t (&p)[4], uint64_t v) { \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #D "k16.f32." name "." name " {" __VA_ARGS__      \
    }                                                                                                    \
  };
#define O4(i) "+f"(o[i]), "+f"(o[i + 1]), "+f"(o[i + 2]), "+f"(o[i + 3])
#define O16(i) O4(i), O4(i + 4), O4(i + 8), O4(i + 12)
#define FROM "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v)
#define MIX32                                                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, 1, 1, 1, 1;"    \
      : O16(0)                                                                                                       \
      : FROM);
#define MIX64                                                                         \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                                \
  "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                                                           \
      : O16(0), O16(16)                                                                                              \
      : FROM);
MIX(rdt_f16, "f16", 32, MIX32)
MIX(rdt_bf16, "bf16", 32, MIX32)
MIX(rdt_f16, "f16", 64, MIX64)
MIX(rdt_bf16, "bf16", 64, MIX64)

template <class T, int D>
struct rdt_attention_group {
  typedef rdt_attention_rows<D, KEYS, WIDE_THREADS, true> rows; /* of queries, keys, values: as many */
  static constexpr int PITCH = rows::PITCH, TILE = KEYS * PITCH, STAGE = 2 * TILE;
  static constexpr int SUMS = TILE + STAGES * STAGE, SHARED = 1024 + SUMS + (3 * WIDE_THREADS + 4 * WIDE_THREADS / 32) * 8; /* tiles begin at 1024 */
  static_assert((int)KEYS == (int)RDT_ATTENTION_WIDE, "rows are alike");

  const rdt_gpu_attention &a;
  const rdt_attention_block of;
  const int warp, lane, tiles;
  const uint32_t base; /* in shared memory: queries, stages, sums */
  uint64_t *const sums; /* of queries, keys, values as they are at rest: each thread's; [warp]: of those, of the result */
  const bool pairs;
  rows k, v; /* of the tile to be loaded next */
  float s[KEYS / 2], o[D / 2], most[2], total[2];
  uint32_t p[KEYS / 16][4];
  uint32_t m[2][KEYS / 8]; /* the mask for the thread's two rows, of the next tile */

  __device__ __forceinline__ rdt_attention_group(const rdt_gpu_attention &args, char *memory)
      : a(args),
        of(args, RDT_ATTENTION_WIDE),
        warp((int)threadIdx.x / 32),
        lane((int)threadIdx.x % 32),
        tiles((args.keys + KEYS - 1) / KEYS),
        base(rdt_shared(memory)),
        sums((uint64_t *)(void *)(memory + SUMS)),
        pairs(rdt_attention_pairs(args)),
        k(args.in[RDT_ATTENTION_K], (int)threadIdx.x, of.batch, of.head, 0, args.depth),
        v(args.in[RDT_ATTENTION_V], (int)threadIdx.x, of.batch, of.head, 0, args.depth) {}

  __device__ __forceinline__ uint32_t stage(int i) const {
    return base + TILE + (uint32_t)(i % STAGES) * STAGE;
  }
  __device__ __forceinline__ void load(int i) {
    if (i < tiles) {
      const uint32_t to = stage(i) + rows::place((int)threadIdx.x);
      k.load(to, a.keys - i * KEYS);
      v.load(to + TILE, a.keys - i * KEYS);
      k.from += KEYS * 2 * a.in[RDT_ATTENTION_K].row;
      v.from += KEYS * 2 * a.in[RDT_ATTENTION_V].row;
    }
    rdt_copy_commit();
  }

  __device__ __forceinline__ void ask_mask(int i) {
    const bool whole = pairs && a.keys >= (i + 1) * KEYS;
    const int row = of.tile * RDT_ATTENTION_WIDE + warp * 16 + lane / 4, key = i * KEYS + 2 * (lane % 4);
    if (!a.mask.data || i >= tiles) return;
    rdt_attention_mask(a, of.batch, of.head, row, key, whole, m[0]);
    if (a.mask.row != 0) rdt_attention_mask(a, of.batch, of.head, row + 8, key, whole, m[1]);
  }

  __device__ __forceinline__ void score(int i) { /* asynchronous */
    rdt_wgmma_begin();
#pragma unroll
    for (int d = 0; d < D / 16; d++)
      rdt_wgmma<T, KEYS, 0, 0>::step(s, rdt_wgmma_place(base + 32 * d, 16), rdt_wgmma_place(stage(i) + 32 * d, 16),
                                     d ? 1 : 0);
    rdt_wgmma_commit();
  }

  __device__ __forceinline__ void scale(int i) {
    const int left = a.keys - i * KEYS;
    const float alpha = a.alpha, beta = a.beta;
    if (!a.mask.data) {
#pragma unroll
      for (int n = 0; n < KEYS / 2; n++) s[n] *= alpha;
    } else {
      const bool other = a.mask.row != 0;
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        const float2 x = T::wide(m[0][n]), y = T::wide(other ? m[1][n] : m[0][n]);
        s[4 * n] = fmaf(s[4 * n], alpha, __fmul_rn(x.x, beta));
        s[4 * n + 1] = fmaf(s[4 * n + 1], alpha, __fmul_rn(x.y, beta));
        s[4 * n + 2] = fmaf(s[4 * n + 2], alpha, __fmul_rn(y.x, beta));
        s[4 * n + 3] = fmaf(s[4 * n + 3], alpha, __fmul_rn(y.y, beta));
      }
    }
    if (left < KEYS) {
#pragma unroll
      for (int n = 0; n < KEYS / 2; n++)
        if (n / 4 * 8 + 2 * (lane % 4) + n % 2 >= left) s[n] = -INFINITY;
    }
  }

  /* Scores become powers; back: what brings the sums so far to the new maximum. */
  __device__ __forceinline__ void power(float (&back)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float high[4] = {most[r], -INFINITY, -INFINITY, -INFINITY}, part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        const float two = rdt_fast_most(s[4 * n + 2 * r], s[4 * n + 2 * r + 1]);
        high[n % 4] = rdt_fast_most(high[n % 4], two);
      }
      float here = rdt_fast_most(rdt_fast_most(high[0], high[1]), rdt_fast_most(high[2], high[3]));
      here = rdt_fast_most(here, __shfl_xor_sync(0xffffffffu, here, 1));
      here = rdt_fast_most(here, __shfl_xor_sync(0xffffffffu, here, 2));
      const float by = here == -INFINITY ? 0.0f : here; /* nothing but masks so far */
      back[r] = rdt_fast_power(T(), most[r], by);
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        float &x = s[4 * n + 2 * r], &y = s[4 * n + 2 * r + 1];
        x = rdt_fast_power(T(), x, by), y = rdt_fast_power(T(), y, by);
        part[n % 4] = __fadd_rn(part[n % 4], __fadd_rn(x, y));
      }
      total[r] = fmaf(total[r], back[r], __fadd_rn(__fadd_rn(part[0], part[1]), __fadd_rn(part[2], part[3])));
      most[r] = here;
    }
  }

  /* As the second product takes them. */
  __device__ __forceinline__ void narrow() {
#pragma unroll
    for (int n = 0; n < KEYS / 4; n++) p[n / 4][n % 4] = T::narrow(s[2 * n], s[2 * n + 1]);
  }

  __device__ __forceinline__ void mix(int i) { /* asynchronous */
    rdt_wgmma_begin();
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++)
      rdt_attention_mix<T, D>::step(o, p[n], rdt_wgmma_place(stage(i) + TILE + 16 * PITCH * n, 16));
    rdt_wgmma_commit();
  }

  /* Memory that nobody reads later is summed by who evaluates again: its queries, and each tile of keys and values by
   * one block of a head. It is fetched while the first tiles are on their way, and added up while they are multiplied:
   * between the tiles everybody would wait for it. */
  struct at_rest {
    uint4 x[3][rows::EACH];
  };
  __device__ __forceinline__ rows part(int which, int i) const { /* i: of tiles */
    return rows(a.in[which], (int)threadIdx.x, of.batch, of.head, i * KEYS, a.depth);
  }
  __device__ __forceinline__ void fetch(int first, int i, at_rest &t) const { /* from this operand on */
#pragma unroll
    for (int w = 0; w < 3; w++) {
      const int count = w == RDT_ATTENTION_Q ? a.queries : a.keys;
      if (w >= first) part(w, i).fetch(a.read[w] ? count - i * KEYS : 0, t.x[w]);
    }
  }
  __device__ __forceinline__ void sum(int first, int i, const at_rest &t) const {
#pragma unroll
    for (int w = 0; w < 3; w++) {
      uint64_t *const to = sums + w * WIDE_THREADS + threadIdx.x;
      if (w >= first) *to = part(w, i).sum(t.x[w], a.read_base[w]) + (first ? *to : 0);
    }
  }
  __device__ __forceinline__ void sum_others() const { /* of more keys than queries */
#pragma unroll 1
    for (int i = of.tile + of.tiles; i < tiles; i += of.tiles) {
      at_rest t;
      fetch(RDT_ATTENTION_K, i, t);
      sum(RDT_ATTENTION_K, i, t);
    }
  }

  __device__ __forceinline__ void walk() {
    const int first = of.tile * RDT_ATTENTION_WIDE;
    const rows q(a.in[RDT_ATTENTION_Q], (int)threadIdx.x, of.batch, of.head, first, a.depth);
    float back[2];
    q.load(base + rows::place((int)threadIdx.x), a.queries - first);
    load(0);
    load(1);
    ask_mask(0);
    at_rest mine;
    if (of.again) fetch(0, of.tile, mine);
#pragma unroll
    for (int n = 0; n < D / 2; n++) o[n] = 0.0f;
    most[0] = most[1] = -INFINITY, total[0] = total[1] = 0.0f;
    rdt_copy_wait<1>();
    rdt_tma_fence();
    __syncthreads();
    score(0);
    if (of.again) {
      sum(0, of.tile, mine);
      sum_others();
    }
    rdt_wgmma_wait<0>();
    rdt_wgmma_keep(s);
    scale(0);
    ask_mask(1);
    power(back);
    narrow();
    for (int i = 0; i + 1 < tiles; i++) {
      rdt_copy_wait<0>();
      rdt_tma_fence();
      __syncthreads(); /* the next tile is there, and nobody reads the last one */
      load(i + 2);
      score(i + 1);
      mix(i);
      rdt_wgmma_wait<1>();
      rdt_wgmma_keep(s);
      scale(i + 1);
      ask_mask(i + 2);
      power(back);
      rdt_wgmma_wait<0>();
      rdt_wgmma_keep(o);
#pragma unroll
      for (int n = 0; n < D / 2; n++) o[n] *= back[n / 2 % 2];
      narrow();
    }
    mix(tiles - 1);
    rdt_wgmma_wait<0>();
    rdt_wgmma_keep(o);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      total[r] = __fadd_rn(total[r], __shfl_xor_sync(0xffffffffu, total[r], 1));
      total[r] = __fadd_rn(total[r], __shfl_xor_sync(0xffffffffu, total[r], 2));
    }
  }

  /* By way of shared memory, where the queries were, so that 16 bytes are stored at once. */
  __device__ __forceinline__ void store() const {
    const int first = of.tile * RDT_ATTENTION_WIDE;
    __syncthreads(); /* nobody multiplies them any more */
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = warp * 16 + lane / 4 + 8 * r;
      const float part = rdt_fast_reciprocal(total[r]);
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(base + row * PITCH + 16 * (n ^ (row % 8)) + 4 * (lane % 4)),
                     "r"(T::narrow(o[4 * n + 2 * r] * part, o[4 * n + 2 * r + 1] * part))
                     : "memory");
    }
    __syncthreads();
    const rows out(a.out, (int)threadIdx.x, of.batch, of.head, first, a.depth);
    const uint64_t sum = rdt_attention_put(a, out, base + rows::place((int)threadIdx.x), a.queries - first, of.again);
    if (!of.again) return;
    uint64_t all[4] = {0, 0, 0, sum}, *const of_warps = sums + 3 * WIDE_THREADS;
#pragma unroll
    for (int w = 0; w < 3; w++) all[w] = sums[w * WIDE_THREADS + threadIdx.x];
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
#pragma unroll
      for (int w = 0; w < 4; w++) all[w] += __shfl_xor_sync(0xffffffffu, all[w], d);
    if (lane == 0)
#pragma unroll
      for (int w = 0; w < 4; w++) of_warps[4 * warp + w] = all[w];
    __syncthreads();
    if (threadIdx.x >= 4) return;
    uint64_t total_of = 0;
#pragma unroll
    for (int w = 0; w < WIDE_THREADS / 32; w++) total_of += of_warps[4 * w + threadIdx.x];
    uint64_t *const to = threadIdx.x < 3 ? a.read[threadIdx.x] : a.sum;
    if (to) atomicAdd((unsigned long long *)to, (unsigned long long)total_of);
    if (threadIdx.x == 3) atomicAdd((unsigned long long *)a.visits, 1ull);
  }
};

template <class T, int D>
static __global__ void __launch_bounds__(WIDE_THREADS, 3) attention_wide(const __grid_constant__ rdt_gpu_attention a) {
  extern __shared__ __align__(1024) char memory[];
  rdt_attention_group<T, D> x(a, memory + (-rdt_shared(memory) & 1023u));
  rdt_chain_wait(), rdt_chain_next();
  x.walk();
  x.store();
}

#define OF(D)                                                                            \
  {(const void *)attention_wide<rdt_f16, D>, (const void *)attention_wide<rdt_bf16, D>}, \
      rdt_attention_group<rdt_f16, D>::SHARED
extern "C" const void *rdt_attention_wide(const rdt_gpu_attention *a, unsigned *threads, unsigned *shared) {
  static const struct {
    const void *kernel[2];
    unsigned shared;
  } list[] = {{OF(32)}, {OF(64)}};
  const int i = a->depth > 32;
  *threads = WIDE_THREADS;
  *shared = list[i].shared;
  return list[i].kernel[a->dtype == RDT_BF16];
}
