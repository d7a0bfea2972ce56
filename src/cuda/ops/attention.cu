/* Attention on tensor cores, from sm_80 on (attention.h). A block has 32 queries of a head, 16 a warp, and two groups
 * of two warps that take turns with the tiles of keys: one after the other, they would wait for each other's powers and
 * products. Each group has a running maximum and sum of its own; they are put together at the end, in their order.
 * Of 12 heads of 64 numbers, 512 words, fp16, on an H200 (stores, both forms with sums, us a launch): tiles of 32
 * queries, two groups, 32 keys 11.2, 16.5; 64 queries 10.8, 17.8; and one group 13.3, 21.8; 32 queries, four groups
 * 10.7, 21.4.
 *
 * D: numbers of a row in shared memory; what the head has less of is zero. Rows are 16 bytes longer than they need be,
 * so that eight of them lie in different banks. 128 registers where D is 64, 41 KB of shared memory. */
#include "cuda/device_common.h"
#include "cuda/fast.h"
#include "cuda/ops/attention.h"
#include "cuda/ops/ops.h"
#include "cuda/ptx/memory.h"

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

RDT_DEVICE uint4 load16_shared(uint32_t at) {
  uint32_t x[4];
  rdt_load_shared(x, at);
  return make_uint4(x[0], x[1], x[2], x[3]);
}

RDT_DEVICE uint32_t one_of(const uint16_t *p) {
  return __ldg(p);
}

/* Rows of 16-byte pieces that THREADS have, each the same column of every so many rows. */
template <int D, int COUNT, int THREADS>
struct rdt_attention_rows {
  static constexpr int PITCH = 2 * D + 16;
  static constexpr int COLUMNS = D <= 32 ? 4 : D <= 64 ? 8 : 16; /* D / 8, or more: those have nothing to do */
  static constexpr int APART = THREADS / COLUMNS, EACH = COUNT / APART;
  static_assert(COUNT % APART == 0, "each thread has as many rows");
  const rdt_attention_view &view;
  const char *from; /* the thread's first piece */
  int row, bytes;   /* of a piece that is there; -1: the thread has none */

  __device__ __forceinline__ rdt_attention_rows(const rdt_attention_view &v, int thread, int batch, int head, int first,
                                                int depth)
      : view(v) {
    const int column = thread % COLUMNS;
    row = thread / COLUMNS;
    bytes = 8 * column < depth ? 16 : 8 * column < D ? 0 : -1;
    from = (const char *)v.data + 2 * (batch * v.batch + head * v.head + (first + row) * v.row + 8 * column);
  }
  __device__ __forceinline__ const char *piece(int i) const {
    return from + i * (2 * APART * (int)view.row);
  }
  static __device__ __forceinline__ uint32_t place(int thread) { /* in shared memory */
    return (uint32_t)(thread / COLUMNS * PITCH + thread % COLUMNS * 16);
  }
  /* `left` rows are there, from the first of all threads' on. */
  __device__ __forceinline__ void load(uint32_t to, int left) const {
    if (COLUMNS > D / 8 && bytes < 0) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) rdt_copy16(to + i * APART * PITCH, piece(i), row + i * APART < left ? bytes : 0);
  }
  /* The bit-sum of what was loaded, whose whole begins at base. */
  __device__ __forceinline__ uint64_t sum(uint32_t at, int left, const void *base) const {
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (bytes > 0 && row + i * APART < left)
        sum += rdt_half_share(load16_shared(at + i * APART * PITCH), (uint64_t)(piece(i) - (const char *)base) / 4);
    return sum;
  }
};

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
  char *const shared;
  const int group, warp, lane, thread; /* thread of the group */
  bool again;
  int tile, batch, head;
  float o[D / 8][4], most[2], total[2];

  __device__ __forceinline__ rdt_attention(const rdt_gpu_attention &args, char *memory)
      : a(args),
        shared(memory),
        group((int)threadIdx.x / GROUP_THREADS),
        warp((int)threadIdx.x / 32 % WARPS),
        lane((int)threadIdx.x % 32),
        thread((int)threadIdx.x % GROUP_THREADS) {
    const bool both = a.check == RDT_OP_BOTH;
    const unsigned n = both ? gridDim.x / 2 : gridDim.x, tiles = (unsigned)of_queries();
    again = a.check == RDT_OP_COMPARES || blockIdx.x >= n;
    const unsigned block = both ? again ? blockIdx.x - n : blockIdx.x : again ? (blockIdx.x + n / 2) % n : blockIdx.x;
    tile = (int)(block % tiles);
    head = (int)(block / tiles % (unsigned)a.heads);
    batch = (int)(block / tiles / (unsigned)a.heads);
  }

  __device__ __forceinline__ int of_queries() const { /* tiles */
    return (a.queries + RDT_ATTENTION_QUERIES - 1) / RDT_ATTENTION_QUERIES;
  }

  /* Sums of what is read, by operand, and of the result: of the block, until it adds them to those of the launch. */
  __device__ __forceinline__ void add(int which, uint64_t x) const {
    x = rdt_half_together(x);
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

  /* The mask's numbers for row r of the thread's two, two of each eight keys from `first` on. pairs: all of them are
   * there, and lie side by side. */
  __device__ __forceinline__ void mask_of(int r, int first, bool pairs, uint32_t (&m)[KEYS / 8]) const {
    const int row = tile * RDT_ATTENTION_QUERIES + warp * ROWS + lane / 4 + 8 * r, key = first + 2 * (lane % 4);
    const uint16_t *const from = (const uint16_t *)a.mask.data + batch * a.mask.batch + head * a.mask.head +
                                 (row < a.queries ? row : a.queries - 1) * a.mask.row + key * a.mask_key;
    if (pairs) {
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++) m[n] = __ldg((const uint32_t *)(const void *)(from + 8 * n));
      return;
    }
    const int most = a.keys - 1 - key; /* what lies behind is not looked at */
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
      m[n] = one_of(from + min(8 * n, most) * (int)a.mask_key) | one_of(from + min(8 * n + 1, most) * (int)a.mask_key)
                                                                     << 16;
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
    const int tiles = (a.keys + KEYS - 1) / KEYS, first = tile * RDT_ATTENTION_QUERIES, others = of_queries();
    const uint32_t queries = rdt_shared(shared), place = key_rows::place(thread);
    const uint32_t mine = queries + QUERIES + group * ROOM + place;
    const query_rows q(a.in[RDT_ATTENTION_Q], (int)threadIdx.x, batch, head, first, a.depth);
    key_rows k(a.in[RDT_ATTENTION_K], thread, batch, head, group * KEYS, a.depth);
    key_rows v(a.in[RDT_ATTENTION_V], thread, batch, head, group * KEYS, a.depth);
    const bool pairs =
        a.mask_key == 1 && (((uintptr_t)a.mask.data / 2 | a.mask.batch | a.mask.head | a.mask.row) & 1) == 0;
    q.load(queries + query_rows::place((int)threadIdx.x), a.queries - first);
    k.load(mine, a.keys - group * KEYS);
    v.load(mine + TILE, a.keys - group * KEYS);
    rdt_copy_commit();
    if (threadIdx.x < 4) ((uint64_t *)(void *)(shared + SUMS))[threadIdx.x] = 0;
#pragma unroll
    for (int n = 0; n < D / 8; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0.0f;
    most[0] = most[1] = -INFINITY, total[0] = total[1] = 0.0f;
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
      uint32_t m[KEYS / 8];
      const bool whole = pairs && left >= KEYS;
      if (a.mask.data) mask_of(0, i * KEYS, whole, m);
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
      if (group == g) {
        meet(group); /* nobody reads tiles there any more */
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
    uint32_t differ = 0, where = 0;
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < rows_of_warp::EACH; i++) {
      if (out.bytes <= 0 || first + out.row + i * rows_of_warp::APART >= a.queries) continue;
      const uint4 w = load16_shared(rows + rows_of_warp::place(lane) + i * rows_of_warp::APART * PITCH);
      uint4 *const at = (uint4 *)(uintptr_t)out.piece(i);
      if (!again) {
        *at = w;
        continue;
      }
      const uint64_t number = (uint64_t)((const char *)at - (const char *)a.base) / 4;
      const uint4 is = a.check == RDT_OP_COMPARES ? *at : w;
      sum += rdt_half_share(is, number);
      if (!((is.x ^ w.x) | (is.y ^ w.y) | (is.z ^ w.z) | (is.w ^ w.w))) continue;
      if (differ++ == 0) where = (uint32_t)(2 * number);
    }
    if (!again) return;
    if (differ) rdt_complain_of(a.verdict, RDT_CUDA_CERTAIN, where, differ);
    add(3, sum);
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
  rdt_attention<T, D> x(a, memory);
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
  *threads = BLOCK_THREADS;
  *shared = list[i].shared;
  return list[i].kernel[a->dtype == RDT_BF16];
}
