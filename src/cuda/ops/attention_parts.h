/* What both kernels of attention have: rows of heads on their way to shared memory, and masks. */
#ifndef RDT_CUDA_OPS_ATTENTION_PARTS_H
#define RDT_CUDA_OPS_ATTENTION_PARTS_H

#include "cuda/device_common.h"
#include "cuda/fast.h"
#include "cuda/ops/attention.h"
#include "cuda/ptx/memory.h"

RDT_DEVICE uint4 rdt_load16_shared(uint32_t at) {
  uint32_t x[4];
  rdt_load_shared(x, at);
  return make_uint4(x[0], x[1], x[2], x[3]);
}

/* The share of pieces in a bit-sum (check/bitsum.h), of which each is told with the number of its first word: the
 * products with the sum's constant are made once for all of them. */
struct rdt_attention_sum {
  uint64_t plain, placed;

  __device__ __forceinline__ void add(const uint4 &x, uint64_t number) {
    const uint64_t all = (uint64_t)x.x + x.y + x.z + x.w;
    plain += all;
    placed += all * number + ((uint64_t)x.y + x.z + x.z + x.w + x.w + x.w);
  }
  __device__ __forceinline__ uint64_t total() const {
    return plain + placed * 0x3c6ef37200000002u;
  }
};

/* Rows of 16-byte pieces that THREADS have, each the same column of every so many rows. In shared memory rows are 16
 * bytes longer than they need be, so that eight of them lie in different banks; or swapped: rows of 128 bytes, as wgmma
 * reads them (ptx/wgmma.h). */
template <int D, int COUNT, int THREADS, bool swapped = false>
struct rdt_attention_rows {
  static constexpr int PITCH = swapped ? 128 : 2 * D + 16;
  static constexpr int COLUMNS = D <= 32 ? 4 : D <= 64 ? 8 : 16; /* D / 8, or more: those have nothing to do */
  static constexpr int APART = THREADS / COLUMNS, EACH = COUNT / APART;
  static_assert(COUNT % APART == 0, "each thread has as many rows");
  static_assert(!swapped || (APART % 8 == 0 && D <= 64), "a thread's rows are swapped alike");
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
    const int column = thread % COLUMNS, r = thread / COLUMNS;
    return (uint32_t)(r * PITCH + (swapped ? column ^ (r % 8) : column) * 16);
  }
  /* `left` rows are there, from the first of all threads' on. */
  __device__ __forceinline__ void load(uint32_t to, int left) const {
    if (COLUMNS > D / 8 && bytes < 0) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) rdt_copy16(to + i * APART * PITCH, piece(i), row + i * APART < left ? bytes : 0);
  }
  /* The same from memory once more, into registers; zero where nothing is. */
  __device__ __forceinline__ void fetch(int left, uint4 (&x)[EACH]) const {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      x[i] = make_uint4(0, 0, 0, 0);
      if (bytes > 0 && row + i * APART < left)
        asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w)
                     : "l"(piece(i))
                     : "memory");
    }
  }
  __device__ __forceinline__ uint64_t sum(const uint4 (&x)[EACH], const void *base) const { /* of what was fetched */
    const uint64_t first = (uint64_t)(from - (const char *)base) / 4;
    rdt_attention_sum sum = {0, 0};
#pragma unroll
    for (int i = 0; i < EACH; i++) sum.add(x[i], first + (uint64_t)(i * (APART / 2 * (int)view.row)));
    return sum.total();
  }
  /* The bit-sum of what was loaded, whose whole begins at base. */
  __device__ __forceinline__ uint64_t sum(uint32_t at, int left, const void *base) const {
    const uint64_t first = (uint64_t)(from - (const char *)base) / 4;
    rdt_attention_sum sum = {0, 0};
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (bytes > 0 && row + i * APART < left)
        sum.add(rdt_load16_shared(at + i * APART * PITCH), first + (uint64_t)(i * (APART / 2 * (int)view.row)));
    return sum.total();
  }
};

RDT_DEVICE uint32_t rdt_attention_one(const uint16_t *p) {
  return __ldg(p);
}

/* Do a mask's numbers lie side by side, two and two? */
RDT_DEVICE bool rdt_attention_pairs(const rdt_gpu_attention &a) {
  return a.mask_key == 1 && (((uintptr_t)a.mask.data / 2 | a.mask.batch | a.mask.head | a.mask.row) & 1) == 0;
}

/* The mask's numbers for a query: two of each eight keys from key on. pairs: all of them are there, and lie side by
 * side. */
template <int N>
RDT_DEVICE void rdt_attention_mask(const rdt_gpu_attention &a, int batch, int head, int row, int key, bool pairs,
                                   uint32_t (&m)[N]) {
  const uint16_t *const from = (const uint16_t *)a.mask.data + batch * a.mask.batch + head * a.mask.head +
                               (row < a.queries ? row : a.queries - 1) * a.mask.row + key * a.mask_key;
  if (pairs) {
#pragma unroll
    for (int n = 0; n < N; n++) m[n] = __ldg((const uint32_t *)(const void *)(from + 8 * n));
    return;
  }
  const int most = a.keys - 1 - key; /* what lies behind is not looked at */
#pragma unroll
  for (int n = 0; n < N; n++)
    m[n] = rdt_attention_one(from + min(8 * n, most) * (int)a.mask_key) |
           rdt_attention_one(from + min(8 * n + 1, most) * (int)a.mask_key) << 16;
}

/* Stores rows that lie in shared memory at `at`, or compares them with what is stored; of whoever evaluates again, the
 * bit-sum of what should be there, or is. left: rows from the first of all threads' on. */
template <class Rows>
RDT_DEVICE uint64_t rdt_attention_put(const rdt_gpu_attention &a, const Rows &out, uint32_t at, int left, bool again) {
  uint32_t differ = 0, where = 0;
  rdt_attention_sum sum = {0, 0};
#pragma unroll
  for (int i = 0; i < Rows::EACH; i++) {
    if (out.bytes <= 0 || out.row + i * Rows::APART >= left) continue;
    const uint4 w = rdt_load16_shared(at + i * Rows::APART * Rows::PITCH);
    uint4 *const to = (uint4 *)(uintptr_t)out.piece(i);
    if (!again) {
      *to = w;
      continue;
    }
    const uint64_t number = (uint64_t)((const char *)to - (const char *)a.base) / 4;
    const uint4 is = a.check == RDT_OP_COMPARES ? *to : w;
    sum.add(is, number);
    if (!((is.x ^ w.x) | (is.y ^ w.y) | (is.z ^ w.z) | (is.w ^ w.w))) continue;
    if (differ++ == 0) where = (uint32_t)(2 * number);
  }
  if (differ) rdt_complain_of(a.verdict, RDT_CUDA_CERTAIN, where, differ);
  return sum.total();
}

/* Which block computes what: half of them once more what the others store, where the launch does both. */
struct rdt_attention_block {
  bool again;
  int tiles, tile, batch, head; /* tiles: of queries */

  __device__ __forceinline__ rdt_attention_block(const rdt_gpu_attention &a, int rows) {
    const bool both = a.check == RDT_OP_BOTH;
    const unsigned n = both ? gridDim.x / 2 : gridDim.x;
    tiles = (a.queries + rows - 1) / rows;
    again = a.check == RDT_OP_COMPARES || blockIdx.x >= n;
    const unsigned block = both ? again ? blockIdx.x - n : blockIdx.x : again ? (blockIdx.x + n / 2) % n : blockIdx.x;
    tile = (int)(block % (unsigned)tiles);
    head = (int)(block / (unsigned)tiles % (unsigned)a.heads);
    batch = (int)(block / (unsigned)tiles / (unsigned)a.heads);
  }
};

#endif
