/* Tiles of products on mma.sync, and how operands get into shared memory: in the background, 16 bytes at a time. */
#ifndef RDT_CUDA_GEMM_MMA_STAGE_H
#define RDT_CUDA_GEMM_MMA_STAGE_H

#include "cuda/sm80/types.h"

/* See tiles.def. depth: of a stage, in units of two bytes, so that a tile takes as much memory whatever it multiplies.
 */
template <class T, int bm, int bn, int depth, int wm, int wn, int wk, int stages_, int blocks_>
struct rdt_tile {
  static constexpr int BM = bm, BN = bn, BK = 2 * depth / T::bytes, WM = wm, WN = wn, WK = wk, stages = stages_,
                       blocks = blocks_;
  /* 8 rows of a warp, of 16 that an instruction has: each is multiplied twice, in its upper and its lower half. */
  static constexpr bool twofold = wm == 8;
  static constexpr int MT = twofold ? 1 : wm / 16, NT = wn / 8, rows = bm / wm, columns = bn / wn; /* of warps */
  static constexpr int threads = 32 * rows * columns * wk;
  static constexpr int steps = BK / wk / T::k;               /* of a warp, each stage */
  static constexpr int norms = (MT + columns - 1) / columns; /* row fragments whose squares a warp sums */
  static constexpr int a_chunks = depth / 8, b_chunks = bn * T::bytes / 16; /* of a row */
  static constexpr int a_bytes = bm * depth * 2, stage_bytes = a_bytes + bn * depth * 2;
  static constexpr int pitch = bn + 4; /* of a row of sums: rows start in other banks */
  static constexpr int sums_bytes = wk * bm * pitch * (int)sizeof(typename T::sum);
  static constexpr int loop_bytes = stages_ * stage_bytes;
  static constexpr int ends_bytes = (int)sizeof(typename T::sum) * wk * bm + sums_bytes; /* and the rows' squares */
  static constexpr int shared = loop_bytes > ends_bytes ? loop_bytes : ends_bytes;       /* of a launch */
  static_assert(BK % (T::k * wk) == 0 && wn % 16 == 0 && (twofold ? bm == 8 && T::bytes == 2 : wm % 16 == 0),
                "whole fragments");
};

/* 16 bytes whose address is not aligned, of which so many elements are there. */
template <class T>
static __device__ __noinline__ void rdt_copy_slowly(uint32_t to, const typename T::element *from, int left) {
  typename T::element x[16 / T::bytes];
#pragma unroll
  for (int e = 0; e < 16 / T::bytes; e++) x[e] = e < left ? from[e] : 0;
  uint32_t word[4];
#pragma unroll
  for (int w = 0; w < 4; w++) {
    if constexpr (T::bytes == 8)
      word[w] = (uint32_t)(w % 2 ? __double2hiint((double)x[w / 2]) : __double2loint((double)x[w / 2]));
    else if constexpr (T::bytes == 4)
      word[w] = __float_as_uint((float)x[w]);
    else {
      word[w] = 0;
#pragma unroll
      for (int e = 0; e < 4 / T::bytes; e++) word[w] |= (uint32_t)x[w * (4 / T::bytes) + e] << (8 * T::bytes * e);
    }
  }
  rdt_store16_shared(to, make_uint4(word[0], word[1], word[2], word[3]));
}

/* Where a chunk of A (operand 0) or B lies. */
template <class T, int operand, int chunks>
RDT_DEVICE int rdt_place(int row, int chunk) {
  return operand ? T::template place_b<chunks>(row, chunk) : T::template place_a<chunks>(row, chunk);
}

/* A stage's rows of one operand: rows x columns at (row0, column0) of a matrix of height x width. */
template <class T, int operand, int rows, int columns, int threads>
static __device__ __noinline__ void rdt_stage(uint32_t to, const void *matrix, int64_t pitch, int row0, int column0,
                                              int height, int width, bool aligned) {
  constexpr int each = 16 / T::bytes, chunks = columns / each, total = rows * chunks;
  static_assert(total % threads == 0, "every thread copies as much");
  const typename T::element *from = (const typename T::element *)matrix;
#pragma unroll 1
  for (int i = 0; i < total / threads; i++) {
    const int at = (int)threadIdx.x + i * threads, r = at / chunks, c = at % chunks;
    const int row = row0 + r, column = column0 + each * c;
    const int left = row < height ? min(max(width - column, 0), each) : 0;
    const typename T::element *source = left > 0 ? from + row * pitch + column : from;
    const uint32_t target = to + 16u * (uint32_t)rdt_place<T, operand, chunks>(r, c);
    if (aligned)
      rdt_copy16(target, source, T::bytes * left);
    else
      rdt_copy_slowly<T>(target, source, left);
  }
}

/* The same where addresses are aligned and all k of the stage are there: what a thread copies lies in one column. */
template <class T, int operand, int rows, int columns, int threads>
struct rdt_feed {
  static constexpr int each = 16 / T::bytes, chunks = columns / each, step = threads / chunks, count = rows / step;
  static_assert(step % (operand ? T::period_b : T::period_a) == 0 && rows % step == 0,
                "rows of a thread are swizzled alike");
  const char *next;
  int64_t below, ahead; /* bytes to the thread's next row, and to the next stage */
  uint32_t to, there;   /* there: bits of the rows that exist */
  int bytes;

  __device__ __forceinline__ rdt_feed(const void *matrix, int64_t pitch, int row0, int column0, int height, int width,
                                      int64_t ahead_) {
    const int r = (int)threadIdx.x / chunks, c = (int)threadIdx.x % chunks, column = column0 + each * c;
    next = (const char *)matrix + T::bytes * ((row0 + r) * pitch + column);
    below = T::bytes * step * pitch, ahead = T::bytes * ahead_;
    to = 16u * (uint32_t)rdt_place<T, operand, chunks>(r, c);
    bytes = T::bytes * min(max(width - column, 0), each);
    there = 0;
#pragma unroll
    for (int i = 0; i < count; i++)
      if (row0 + r + i * step < height) there |= 1u << i;
  }

  __device__ __forceinline__ void copy(uint32_t stage) {
#pragma unroll
    for (int i = 0; i < count; i++)
      rdt_copy16(stage + to + i * (step * chunks * 16), next + i * below, there >> i & 1 ? bytes : 0);
    next += ahead;
  }
};

#endif
