/* Attention on tensor cores, from sm_80 on (attention.h). A block has 32 queries of a head, 16 a warp, and two groups
 * of two warps that take turns with the tiles of keys: one after the other, they would wait for each other's powers and
 * products. Each group has a running maximum and sum of its own; they are put together at the end, in their order.
 * Of 12 heads of 64 numbers, 512 words, fp16, on an H200 (stores, both forms with sums, us a launch): tiles of 32
 * queries, two groups, 32 keys 11.2, 16.5; 64 queries 10.8, 17.8; and one group 13.3, 21.8; 32 queries, four groups
 * 10.7, 21.4.
 *
 * D: numbers of a row in shared memory; what the head has less of is zero. Rows are 16 bytes longer than they need be,
 * so that eight of them lie in different banks. 128 registers where D is 64, 41 KB of shared memory. */
#include "cuda/ops/attention_parts.h"
#include "cuda/ops/ops.h"
#include "cuda/ptx/chain.h"
#include "cuda/ptx/meet.h"
#include "cuda/ptx/total.h"

enum {
  GROUPS = 2,
  KEYS = 32, /* of a tile */
  ROWS = 16,
  WARPS = RDT_ATTENTION_QUERIES / ROWS,
  GROUP_THREADS = 32 * WARPS,
  BLOCK_THREADS = GROUPS * GROUP_THREADS
};

RDT_DEVICE void multiply(rdt_f16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  rdt_mma_f16(c, a, b);
}
RDT_DEVICE void multiply(rdt_bf16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  rdt_mma_bf16(c, a, b);
}

RDT_DEVICE void meet(int group) { /* the group's warps */
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(0 + GROUP_THREADS) : "memory");
}

template <class T, int D>
struct rdt_attention {
  typedef rdt_attention_rows<D, RDT_ATTENTION_QUERIES, BLOCK_THREADS> query_rows;
  typedef rdt_attention_rows<D, KEYS, GROUP_THREADS> key_rows;
  static constexpr int PITCH = key_rows::PITCH, TILE = KEYS * PITCH; /* bytes: of a row, of keys or values */
  static constexpr int STAGE = 2 * TILE, ROOM = 2 * STAGE;           /* of both; of a group */
  static constexpr int QUERIES = RDT_ATTENTION_QUERIES * PITCH;
  static constexpr int LEFT = 16 * D + 4 * 32; /* floats that a warp leaves for another group */
  static constexpr int SUMS = QUERIES + GROUPS * ROOM, SHARED = SUMS + 4 * 8;
  static_assert(ROOM >= WARPS * LEFT * 4, "what a group leaves has room in its stages");

  const rdt_gpu_attention &a;
  const int others; /* tiles of queries */
  char *const shared;
  const int group, warp, lane, thread; /* thread of the group */
  const bool again;
  const int tile, batch, head;
  float o[D / 8][4], most[2], total[2];

  __device__ __forceinline__ rdt_attention(const rdt_gpu_attention &args, const rdt_attention_block &of, char *memory)
      : a(args),
        others(of.tiles),
        shared(memory),
        group((int)threadIdx.x / GROUP_THREADS),
        warp((int)threadIdx.x / 32 % WARPS),
        lane((int)threadIdx.x % 32),
        thread((int)threadIdx.x % GROUP_THREADS),
        again(of.again),
        tile(of.tile),
        batch(of.batch),
        head(of.head) {}

  /* Sums of what is read, by operand, and of the result: of the block, until it adds them to those of the launch. */
  __device__ __forceinline__ void add(int which, uint64_t x) const {
    x = rdt_warp_total(x);
    if (lane == 0) atomicAdd((unsigned long long *)(void *)(shared + SUMS) + which, (unsigned long long)x);
  }

  /* Scores of the warp's queries and a tile of keys. */
  __device__ __forceinline__ void score(uint32_t keys, float (&s)[KEYS / 8][4]) const {
    const uint32_t queries = rdt_shared(shared) + (warp * ROWS + (lane & 15)) * PITCH + (lane >> 4) * 16;
    const uint32_t at = keys + ((lane & 7) + (lane >> 4) * 8) * PITCH + (lane >> 3 & 1) * 16;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
      uint32_t q[4];
      rdt_ldmatrix4(q, queries + k * 32);
#pragma unroll
      for (int n = 0; n < KEYS / 16; n++) {
        uint32_t b[4];
        rdt_ldmatrix4(b, at + n * 16 * PITCH + k * 32);
        multiply(T(), s[2 * n], q, b[0], b[1]);
        multiply(T(), s[2 * n + 1], q, b[2], b[3]);
      }
    }
  }

  /* The mask's numbers for row r of the thread's two. */
  __device__ __forceinline__ void mask_of(int r, int first, bool pairs, uint32_t (&m)[KEYS / 8]) const {
    rdt_attention_mask(a, batch, head, tile * RDT_ATTENTION_QUERIES + warp * ROWS + lane / 4 + 8 * r,
                       first + 2 * (lane % 4), pairs, m);
  }

  __device__ __forceinline__ void add_mask(int r, const uint32_t (&m)[KEYS / 8], float (&s)[KEYS / 8][4]) const {
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
      const float2 two = T::wide(m[n]);
      s[n][2 * r] = fmaf(s[n][2 * r], a.alpha, __fmul_rn(two.x, a.beta));
      s[n][2 * r + 1] = fmaf(s[n][2 * r + 1], a.alpha, __fmul_rn(two.y, a.beta));
    }
  }

  /* The powers, as the second product takes them; what came before is brought to the new maximum. */
  __device__ __forceinline__ void power(const float (&s)[KEYS / 8][4], uint32_t (&p)[KEYS / 16][4]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float here = most[r];
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) here = rdt_fast_most(here, rdt_fast_most(s[n][2 * r], s[n][2 * r + 1]));
      here = rdt_fast_most(here, __shfl_xor_sync(0xffffffffu, here, 1));
      here = rdt_fast_most(here, __shfl_xor_sync(0xffffffffu, here, 2));
      const float by = here == -INFINITY ? 0.0f : here; /* nothing but masks so far */
      const float back = rdt_fast_power(T(), most[r], by);
      float part[2] = {0.0f, 0.0f};
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) {
        const float x = rdt_fast_power(T(), s[n][2 * r], by), y = rdt_fast_power(T(), s[n][2 * r + 1], by);
        p[n / 2][n % 2 * 2 + r] = T::narrow(x, y);
        part[0] = __fadd_rn(part[0], x), part[1] = __fadd_rn(part[1], y);
      }
      total[r] = fmaf(total[r], back, __fadd_rn(part[0], part[1]));
      most[r] = here;
#pragma unroll
      for (int n = 0; n < D / 8; n++) o[n][2 * r] *= back, o[n][2 * r + 1] *= back;
    }
  }

  __device__ __forceinline__ void mix(uint32_t values, const uint32_t (&p)[KEYS / 16][4]) {
    const uint32_t at = values + (lane & 15) * PITCH + (lane >> 4) * 16;
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
      for (int n = 0; n < D / 16; n++) {
        uint32_t b[4];
        rdt_ldmatrix4_transposed(b, at + k * 16 * PITCH + n * 32);
        multiply(T(), o[2 * n], p[k], b[0], b[1]);
        multiply(T(), o[2 * n + 1], p[k], b[2], b[3]);
      }
  }

  __device__ __forceinline__ void walk() {
    const int tiles = (a.keys + KEYS - 1) / KEYS, first = tile * RDT_ATTENTION_QUERIES;
    const uint32_t queries = rdt_shared(shared), place = key_rows::place(thread);
    const uint32_t mine = queries + QUERIES + group * ROOM + place;
    const query_rows q(a.in[RDT_ATTENTION_Q], (int)threadIdx.x, batch, head, first, a.depth);
    key_rows k(a.in[RDT_ATTENTION_K], thread, batch, head, group * KEYS, a.depth);
    key_rows v(a.in[RDT_ATTENTION_V], thread, batch, head, group * KEYS, a.depth);
    const bool pairs = rdt_attention_pairs(a);
    q.load(queries + query_rows::place((int)threadIdx.x), a.queries - first);
    k.load(mine, a.keys - group * KEYS);
    v.load(mine + TILE, a.keys - group * KEYS);
    rdt_copy_commit();
    if (threadIdx.x < 4) ((uint64_t *)(void *)(shared + SUMS))[threadIdx.x] = 0;
#pragma unroll
    for (int n = 0; n < D / 8; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0.0f;
    most[0] = most[1] = -INFINITY, total[0] = total[1] = 0.0f;
    uint32_t m[KEYS / 8]; /* of the next tile, on its way while this one is computed */
    if (a.mask.data && group < tiles) mask_of(0, group * KEYS, pairs && a.keys >= (group + 1) * KEYS, m);
    rdt_copy_wait<0>();
    __syncthreads();
    if (again && a.read[RDT_ATTENTION_Q])
      add(RDT_ATTENTION_Q,
          q.sum(queries + query_rows::place((int)threadIdx.x), a.queries - first, a.read_base[RDT_ATTENTION_Q]));
    for (int i = group, stage = 0; i < tiles; i += GROUPS, stage ^= 1) {
      const uint32_t here = mine + stage * STAGE, next = mine + (stage ^ 1) * STAGE;
      const int left = a.keys - i * KEYS;
      float s[KEYS / 8][4];
      uint32_t p[KEYS / 16][4];
      if (i != group) {
        rdt_copy_wait<0>();
        meet(group); /* and all have left the other stage */
      }
      const bool sums = again && i % others == tile; /* each tile of keys by one block of a head */
      if (sums && a.read[RDT_ATTENTION_K]) add(RDT_ATTENTION_K, k.sum(here, left, a.read_base[RDT_ATTENTION_K]));
      if (sums && a.read[RDT_ATTENTION_V]) add(RDT_ATTENTION_V, v.sum(here + TILE, left, a.read_base[RDT_ATTENTION_V]));
      if (i + GROUPS < tiles) {
        k.from += GROUPS * KEYS * 2 * a.in[RDT_ATTENTION_K].row;
        v.from += GROUPS * KEYS * 2 * a.in[RDT_ATTENTION_V].row;
        k.load(next, left - GROUPS * KEYS);
        v.load(next + TILE, left - GROUPS * KEYS);
        rdt_copy_commit();
      }
      const bool whole = pairs && left >= KEYS;
      score(here - place, s);
      if (!a.mask.data) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int j = 0; j < 4; j++) s[n][j] *= a.alpha;
      } else {
        add_mask(0, m, s);
        if (a.mask.row != 0) mask_of(1, i * KEYS, whole, m);
        add_mask(1, m, s);
        if (i + GROUPS < tiles) mask_of(0, (i + GROUPS) * KEYS, pairs && left >= (GROUPS + 1) * KEYS, m);
      }
      if (left < KEYS) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (8 * n + 2 * (lane % 4) + j % 2 >= left) s[n][j] = -INFINITY;
      }
      power(s, p);
      mix(here - place + TILE, p);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      total[r] = __fadd_rn(total[r], __shfl_xor_sync(0xffffffffu, total[r], 1));
      total[r] = __fadd_rn(total[r], __shfl_xor_sync(0xffffffffu, total[r], 2));
    }
  }

  /* What the other groups have comes to the first one, in their order. */
  __device__ __forceinline__ void merge() {
    for (int g = 1; g < GROUPS; g++) {
      float4 *const there = (float4 *)(void *)(shared + QUERIES + g * ROOM + warp * LEFT * 4) + lane;
      __syncthreads(); /* nobody reads tiles there any more */
      if (group == g) {
#pragma unroll
        for (int n = 0; n < D / 8; n++) there[n * 32] = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
        there[D / 8 * 32] = make_float4(most[0], most[1], total[0], total[1]);
      }
      __syncthreads();
      if (group != 0) continue;
      const float4 e = there[D / 8 * 32];
      const float theirs[2] = {e.x, e.y}, theirs_total[2] = {e.z, e.w};
      float back[2], by[2];
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const float here = rdt_fast_most(most[r], theirs[r]), to = here == -INFINITY ? 0.0f : here;
        back[r] = rdt_fast_power(T(), most[r], to);
        by[r] = rdt_fast_power(T(), theirs[r], to);
        total[r] = fmaf(total[r], back[r], __fmul_rn(theirs_total[r], by[r]));
        most[r] = here;
      }
#pragma unroll
      for (int n = 0; n < D / 8; n++) {
        const float4 x = there[n * 32];
        const float y[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) o[n][i] = fmaf(o[n][i], back[i / 2], __fmul_rn(y[i], by[i / 2]));
      }
    }
  }

  /* The warp's rows, by way of shared memory, so that 16 bytes are stored at once. */
  __device__ __forceinline__ void store() const {
    typedef rdt_attention_rows<D, ROWS, 32> rows_of_warp;
    const uint32_t rows = rdt_shared(shared) + warp * ROWS * PITCH; /* of its queries, which nobody reads any more */
    const int first = tile * RDT_ATTENTION_QUERIES + warp * ROWS;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float part = rdt_fast_reciprocal(total[r]);
#pragma unroll
      for (int n = 0; n < D / 8; n++)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(rows + (lane / 4 + 8 * r) * PITCH + 16 * n + 4 * (lane % 4)),
                     "r"(T::narrow(o[n][2 * r] * part, o[n][2 * r + 1] * part))
                     : "memory");
    }
    __syncwarp();
    const rows_of_warp out(a.out, lane, batch, head, first, a.depth);
    const uint64_t sum = rdt_attention_put(a, out, rows + rows_of_warp::place(lane), a.queries - first, again);
    if (again) add(3, sum);
  }

  /* Of a block that evaluates again, its sums; all have been added. */
  __device__ __forceinline__ void finish() const {
    if (group != 0 || !again) return;
    meet(0);
    if (thread >= 4) return;
    uint64_t *const to = thread < 3 ? a.read[thread] : a.sum;
    const uint64_t sum = ((const uint64_t *)(const void *)(shared + SUMS))[thread];
    if (to) atomicAdd((unsigned long long *)to, (unsigned long long)sum);
    if (thread == 3) atomicAdd((unsigned long long *)a.visits, 1ull);
  }
};

template <class T, int D>
static __global__ void __launch_bounds__(BLOCK_THREADS, D <= 64 ? 4 : 2)
    attention(const __grid_constant__ rdt_gpu_attention a) {
  extern __shared__ __align__(16) char memory[];
  rdt_attention<T, D> x(a, rdt_attention_block(a, RDT_ATTENTION_QUERIES), memory);
  rdt_meet(a, threadIdx.x);
  rdt_chain_wait(), rdt_chain_next();
  x.walk();
  x.merge();
  if (x.group == 0) x.store();
  x.finish();
}

#define OF(D) \
  {(const void *)attention<rdt_f16, D>, (const void *)attention<rdt_bf16, D>}, rdt_attention<rdt_f16, D>::SHARED
extern "C" const void *rdt_ops_attention(const rdt_gpu_attention *a, unsigned *threads, unsigned *shared) {
  static const struct {
    const void *kernel[2];
    unsigned shared;
  } list[] = {{OF(32)}, {OF(64)}, {OF(96)}, {OF(128)}};
  const int i = (a->depth - 1) / 32;
  if (a->rows == RDT_ATTENTION_WIDE) return rdt_attention_wide(a, threads, shared);
  *threads = BLOCK_THREADS;
  *shared = list[i].shared;
  return list[i].kernel[a->dtype == RDT_BF16];
}
