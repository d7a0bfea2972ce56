/* Known products on wgmma, by one group of four warps: 64 rows and 128 columns of the result at a time. From round to
 * round rows move on by 16: those that a warp, and its quarter of the multiprocessor, computes are others. */
#ifndef RDT_CUDA_SM90_SMS_BODY_H
#define RDT_CUDA_SM90_SMS_BODY_H

#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sms_body.h"

enum { SMS_WIDE_THREADS = 128 };

/* Rows of 64 elements to where wgmma reads them, the first of them at `turn`. */
RDT_DEVICE void rdt_sms_stage(uint32_t to, const uint16_t *from, int rows, int turn, int pitch) {
  for (int i = (int)threadIdx.x; i < rows * 8; i += SMS_WIDE_THREADS) {
    const int row = i / 8, chunk = i % 8;
    const uint4 x = __ldg((const uint4 *)(from + (int64_t)((row + turn) % rows) * pitch + 8 * chunk));
    rdt_store16_shared(to + 128 * (uint32_t)row + 16 * (uint32_t)(chunk ^ (row & 7)), x);
  }
}

template <class T, class Hit>
RDT_DEVICE void rdt_sms_wide(const rdt_sms_args &p, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(1024) uint16_t a[RDT_SMS_ROWS * RDT_SMS_DEPTH], b[RDT_SMS_COLUMNS * RDT_SMS_DEPTH];
  __shared__ rdt_sms_shared shared;
  rdt_sms_judge<float, Hit> judge{p, shared, hit};
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  for (int round = 0; round < p.rounds; round++) {
    const int turn = (int)((p.first + (unsigned)round) % 4u) * 16;
    judge.begin((unsigned)round);
    for (int row = 0; row < p.m; row += RDT_SMS_ROWS)
      for (int column = 0; column < p.n; column += RDT_SMS_COLUMNS) {
        float c[64];
#pragma unroll
        for (int i = 0; i < 64; i++) c[i] = 0.0f;
        for (int k = 0; k < p.k; k += RDT_SMS_DEPTH) {
          __syncthreads(); /* what was multiplied last is read no more */
          rdt_sms_stage(rdt_shared(a), (const uint16_t *)p.a + (int64_t)row * p.k + k, RDT_SMS_ROWS, turn, p.k);
          rdt_sms_stage(rdt_shared(b), (const uint16_t *)p.b + (int64_t)column * p.k + k, RDT_SMS_COLUMNS, 0, p.k);
          rdt_tma_fence();
          __syncthreads();
          rdt_wgmma_keep(c);
          rdt_wgmma_begin();
#pragma unroll
          for (int s = 0; s < RDT_SMS_DEPTH / 16; s++)
            rdt_wgmma<T, RDT_SMS_COLUMNS, 0, 0>::step(c, rdt_wgmma_place(rdt_shared(a) + 32 * s, 16),
                                                      rdt_wgmma_place(rdt_shared(b) + 32 * s, 16), 1);
          rdt_wgmma_commit();
          rdt_wgmma_wait<0>();
          rdt_wgmma_keep(c);
        }
#pragma unroll
        for (int i = 0; i < 64; i++) {
          const int within = 16 * warp + i / 2 % 2 * 8 + lane / 4;
          judge.result(c[i], row + (within + turn) % RDT_SMS_ROWS, column + i / 4 * 8 + lane % 4 * 2 + i % 2);
        }
      }
    judge.end();
  }
#endif
}

#endif
