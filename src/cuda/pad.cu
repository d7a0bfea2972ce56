/* Rows copied to where TMA takes them, and compared: pad.h. */
#include "cuda/pad.h"

#include "cuda/device_common.h"

template <class E>
RDT_DEVICE void copy_rows(const rdt_pad &p) {
  const int warps = (int)(gridDim.x * blockDim.x / 32), lane = (int)threadIdx.x % 32;
  for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32; i < p.rows * p.batches; i += warps) {
    const int batch = i / p.rows, row = i % p.rows;
    const E *from = (const E *)p.from + batch * p.from_next + row * p.from_pitch;
    E *to = (E *)p.to + batch * p.to_next + row * p.to_pitch;
#pragma unroll 8
    for (int j = lane; j < p.columns; j += 32) to[j] = from[j];
  }
}

template <class E>
RDT_DEVICE void compare_rows(const rdt_pad &p) {
  const int warps = (int)(gridDim.x * blockDim.x / 32), lane = (int)threadIdx.x % 32;
  for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32; i < p.rows * p.batches; i += warps) {
    const int batch = i / p.rows, row = i % p.rows;
    const E *from = (const E *)p.from + batch * p.from_next + row * p.from_pitch;
    const E *to = (const E *)p.to + batch * p.to_next + row * p.to_pitch;
    int other = -1; /* the first column that differs */
#pragma unroll 8
    for (int j = lane; j < p.columns; j += 32)
      if (__ldcg(from + j) != __ldcg(to + j) && other < 0) other = j;
    const unsigned all = __ballot_sync(0xffffffffu, other >= 0);
    if (all && lane == __ffs((int)all) - 1)
      rdt_complain_inline(p.verdict, RDT_CUDA_CERTAIN,
                          rdt_place_of{p.of_c ? i : -1, -1, p.of_c ? 1 : p.rows, p.columns, 0, 0},
                          (float)__ldcg(to + other), (float)__ldcg(from + other), 0.0f, 0.0f);
  }
}

static __global__ void __launch_bounds__(256) pad_copy(const __grid_constant__ rdt_pad p) {
  if (p.size == 1)
    copy_rows<uint8_t>(p);
  else if (p.size == 2)
    copy_rows<uint16_t>(p);
  else
    copy_rows<uint32_t>(p);
}

static __global__ void __launch_bounds__(256) pad_compare(const __grid_constant__ rdt_pad p) {
  if (p.size == 1)
    compare_rows<uint8_t>(p);
  else if (p.size == 2)
    compare_rows<uint16_t>(p);
  else
    compare_rows<uint32_t>(p);
}

extern "C" const void *const rdt_pad_copy = (const void *)pad_copy;
extern "C" const void *const rdt_pad_compare = (const void *)pad_compare;
