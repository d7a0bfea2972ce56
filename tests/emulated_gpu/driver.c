// Tensor maps, with what cuda.h says of their parameters for a device of compute capability 9.0.
#include <cuda.h>
#include <string.h>

#include "emulated.h"

enum { MOST_RANK = 5, MOST_BOX = 256, MOST_PIXELS = 1024, MOST_STEP = 8 };

static const uint8_t element_bytes[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = 1,       [CU_TENSOR_MAP_DATA_TYPE_UINT16] = 2,
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = 4,      [CU_TENSOR_MAP_DATA_TYPE_INT32] = 4,
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = 8,      [CU_TENSOR_MAP_DATA_TYPE_INT64] = 8,
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = 2,     [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = 4,
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = 8,     [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = 2,
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = 4, [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = 4,
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = 4};

// What both kinds of maps have in common. False: a parameter that is not allowed.
static bool begin(em_map *m, const CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, const void *address,
                  const cuuint64_t *size, const cuuint64_t *pitch, const cuuint32_t *step,
                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                  CUtensorMapFloatOOBfill fill) {
  const uint64_t aligned = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  if (!map || (uintptr_t)map % 64 || (unsigned)type >= sizeof element_bytes || !rank || rank > MOST_RANK) return false;
  if (!address || (uintptr_t)address % aligned || !size || (rank > 1 && !pitch) || !step) return false;
  if ((unsigned)interleave > CU_TENSOR_MAP_INTERLEAVE_32B || (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
      (unsigned)l2 > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
      (unsigned)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return false;
  if (interleave && rank < 3) return false;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B) return false;
  if (fill && type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16) return false;
  *m = (em_map){.magic = EM_MAP_MAGIC,
                .type = (uint8_t)type,
                .rank = (uint8_t)rank,
                .swizzle = (uint8_t)swizzle,
                .interleave = (uint8_t)interleave,
                .l2 = (uint8_t)l2,
                .fill = (uint8_t)fill,
                .element_bytes = element_bytes[type],
                .base = (uintptr_t)address};
  for (cuuint32_t i = 0; i < rank; i++) {
    if (!size[i] || size[i] > UINT64_C(1) << 32) return false;
    if (!step[i] || step[i] > MOST_STEP) return false;
    m->size[i] = size[i];
    m->step[i] = i || interleave ? (uint8_t)step[i] : 1;
    if (i && (pitch[i - 1] % aligned || pitch[i - 1] >= UINT64_C(1) << 40)) return false;
    if (i) m->pitch[i - 1] = pitch[i - 1];
  }
  return true;
}

// Elements side by side: whole pieces of 16 bytes, and no more than a swizzle spans.
static bool allowed_inner(const em_map *m, cuuint32_t elements) {
  const size_t bytes = (size_t)elements * m->element_bytes;
  if (!elements || elements > MOST_BOX) return false;
  return m->interleave || (bytes % 16 == 0 && (!m->swizzle || bytes <= 16u << m->swizzle));
}

static CUresult end(const em_map *m, CUtensorMap *map) {
  memset(map, 0, sizeof *map);
  memcpy(map, m, sizeof *m);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                        const cuuint64_t *size, const cuuint64_t *pitch, const cuuint32_t *box,
                                        const cuuint32_t *step, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                        CUtensorMapFloatOOBfill fill) {
  em_map m;
  if (!begin(&m, map, type, rank, address, size, pitch, step, interleave, swizzle, l2, fill) || !box)
    return CUDA_ERROR_INVALID_VALUE;
  if (!allowed_inner(&m, box[0])) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; i++) {
    if (!box[i] || box[i] > MOST_BOX) return CUDA_ERROR_INVALID_VALUE;
    m.box[i] = (uint16_t)box[i];
  }
  return end(&m, map);
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                         const cuuint64_t *size, const cuuint64_t *pitch, const int *low,
                                         const int *high, cuuint32_t channels, cuuint32_t pixels,
                                         const cuuint32_t *step, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                         CUtensorMapFloatOOBfill fill) {
  static const int most[] = {32767, 127, 15};  // of corners, by rank
  em_map m;
  if (!begin(&m, map, type, rank, address, size, pitch, step, interleave, swizzle, l2, fill) || !low || !high ||
      rank < 3)
    return CUDA_ERROR_INVALID_VALUE;
  if (!allowed_inner(&m, channels) || !pixels || pixels > MOST_PIXELS) return CUDA_ERROR_INVALID_VALUE;
  m.im2col = true;
  m.box[0] = (uint16_t)channels, m.box[1] = (uint16_t)pixels;
  for (cuuint32_t i = 0; i < rank - 2; i++) {
    const int limit = most[rank - 3];
    if (low[i] > limit || low[i] < -limit - 1 || high[i] > limit || high[i] < -limit - 1)
      return CUDA_ERROR_INVALID_VALUE;
    if (low[i] >= (int64_t)size[i + 1] + high[i]) return CUDA_ERROR_INVALID_VALUE;  // a box without pixels
    m.low[i] = (int16_t)low[i], m.high[i] = (int16_t)high[i];
  }
  return end(&m, map);
}
