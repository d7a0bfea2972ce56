/* What a product on wgmma has stored, read once more: has it the bit-sums that those who stored it had in registers? */
#include "cuda/device_common.h"
#include "cuda/ptx/mma.h"
#include "cuda/sm90/gemm_wgmma_bits.h"

/* 16 bytes of a row; elements from `left` on count as 0. */
template <int size>
RDT_DEVICE uint4 rdt_bits_load(const char *at, int left) {
  constexpr int each = 16 / size;
  uint32_t w[4] = {0, 0, 0, 0};
  if (left >= each && (uint64_t)at % 16 == 0) return __ldcg((const uint4 *)at);
  for (int i = 0; i < each; i++) {
    if (i >= left) continue;
    if constexpr (size == 4)
      w[i] = ((const uint32_t *)at)[i];
    else
      w[i / 2] |= (uint32_t)((const uint16_t *)at)[i] << (i % 2 * 16);
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/* What a lane has of a part, of whose words four lanes have loaded some: words lie as they are loaded, 16 bytes after
 * 16 bytes of a row. */
template <int size>
RDT_DEVICE uint32_t rdt_bits_of_lane(const uint32_t (&sum)[4]) {
  const int lane = (int)threadIdx.x % 32;
  const bool upper = lane & 2, odd = lane & 1;
  uint32_t two[2];
  if constexpr (size == 4) {
    two[0] = sum[0] + sum[1], two[1] = sum[2] + sum[3];
    return (upper ? two[1] : two[0]) + __shfl_xor_sync(0xffffffffu, upper ? two[0] : two[1], 2);
  } else {
#pragma unroll
    for (int i = 0; i < 2; i++)
      two[i] = (upper ? sum[2 + i] : sum[i]) + __shfl_xor_sync(0xffffffffu, upper ? sum[i] : sum[2 + i], 2);
    return (odd ? two[1] : two[0]) + __shfl_xor_sync(0xffffffffu, odd ? two[0] : two[1], 1);
  }
}

template <int size>
RDT_DEVICE void rdt_bits_check(const rdt_bits_args &a) {
  constexpr int each = 16 / size, chunks = 4 * size /* of 16 bytes, of 64 columns */;
  const int tile = (int)blockIdx.x, n = tile % a.column_blocks, r = tile / a.column_blocks, batch = r / a.row_blocks,
            m = r % a.row_blocks, line = batch * a.each_lines + (a.across ? m : m / RDT_WGMMA_CLUSTER),
            all = a.across ? line : line * RDT_WGMMA_CLUSTER + m % RDT_WGMMA_CLUSTER;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, column0 = n * a.columns,
            row0 = m * a.rows + (warp / 4 * a.strips * 4 + warp % 4) * 16,
            mine = size == 2 ? lane : lane / 4 * 4 + lane % 2 * 2 + lane % 4 / 2; /* whose words it has at last */
  if (row0 >= a.m) return;
  uint64_t sum = 0;
  for (int i = 0; i < a.strips; i++)
#pragma unroll 2
    for (int pass = 0; pass < a.columns / 64; pass++) {
      uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int q = 0; q < chunks / 4; q++) {
          const int row = row0 + 64 * i + 8 * h + lane / 4, chunk = lane % 4 + 4 * q,
                    column = column0 + 64 * pass + chunk * each;
          const uint4 x = rdt_bits_load<size>((const char *)a.c + (batch * a.next + row * a.pitch + column) * size,
                                              row < a.m ? a.n - column : 0);
          const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
          for (int t = 0; t < 4; t++)
            words[t] +=
                w[t] * (size == 2 ? rdt_bits_word(2 * chunk + h) : rdt_bits_word(chunk / 2 * 4 + 2 * h + t % 2));
        }
      sum += (uint64_t)rdt_bits_of_lane<size>(words) * rdt_bits_part(pass * a.strips + i);
    }
  const uint64_t found = rdt_bits_total(sum, rdt_bits_lane(mine)),
                 told = a.bits[((int64_t)all * a.column_blocks + n) * (blockDim.x / 32) + warp];
  if (lane == 0 && found != told)
    rdt_complain(
        a.verdict, RDT_CUDA_CERTAIN,
        rdt_place_of{batch * a.m + row0, column0, 64 * (a.strips - 1) + 16, min(a.columns, a.n - column0), a.k, a.k},
        (float)found, (float)told, 0.0f, 0.0f);
}

static __global__ void bits(const __grid_constant__ rdt_bits_args a) {
  if (a.size == 4)
    rdt_bits_check<4>(a);
  else
    rdt_bits_check<2>(a);
}

extern "C" const void *const rdt_wgmma_bits = (const void *)bits;
