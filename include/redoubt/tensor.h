/* Tensors are strided views: Redoubt never owns the caller's memory. */
#ifndef REDOUBT_TENSOR_H
#define REDOUBT_TENSOR_H

#include <redoubt/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Expanded from src/core/dtypes.def; a test compares the two. */
typedef enum rdt_dtype {
  RDT_F64 = 0,
  RDT_F32 = 1,
  RDT_BF16 = 2,
  RDT_F16 = 3,
  RDT_S8 = 4,
  RDT_U8 = 5,
  RDT_S32 = 6,
  RDT_S64 = 7,
  RDT_BOOL = 8,
  RDT_F8E4M3 = 9,  /* as ONNX's FLOAT8E4M3FN: up to 448, no infinities */
  RDT_F8E5M2 = 10, /* up to 57344 */
  RDT_DTYPE_COUNT
} rdt_dtype;

#define RDT_MAX_RANK 8

/* A view: element (i0, i1, ...) is at data + (i0 stride[0] + i1 stride[1] + ...) * size of dtype.
 * Strides are in elements; 0 repeats (broadcast), negative is allowed for inputs. rank 0 is a scalar. */
typedef struct rdt_tensor {
  void *data;
  rdt_dtype dtype;
  int rank;
  int64_t shape[RDT_MAX_RANK];
  int64_t stride[RDT_MAX_RANK];
} rdt_tensor;

RDT_API size_t rdt_dtype_size(rdt_dtype t);      /* bytes of one element; 0 for an unknown dtype */
RDT_API const char *rdt_dtype_name(rdt_dtype t); /* "f32" */

/* A dense row-major view of shape[0..rank). */
RDT_API rdt_tensor rdt_tensor_dense(void *data, rdt_dtype dtype, int rank, const int64_t *shape);
/* Row-major matrix rows x cols with leading dimension ld >= cols; trans != 0 views its transpose (cols x rows). */
RDT_API rdt_tensor rdt_tensor_matrix(void *data, rdt_dtype dtype, int64_t rows, int64_t cols, int64_t ld, int trans);
/* Number of elements; -1 where a dimension is negative or the product overflows int64. */
RDT_API int64_t rdt_tensor_count(const rdt_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
