/* Views inside the house: addressing, conversion, comparison. */
#ifndef RDT_CORE_TENSOR_H
#define RDT_CORE_TENSOR_H

#include <redoubt/tensor.h>
#include <stdbool.h>

#include "core/error.h"

typedef struct rdt_dtype_row {
  const char *name;
  size_t bytes;
  double u;          /* unit roundoff; 0 for integers */
  double min_normal; /* smallest positive normal number */
  int onnx;
  const char *npy;
} rdt_dtype_row;

const rdt_dtype_row *rdt_dtype_info(rdt_dtype t); /* NULL for an unknown one */
bool rdt_dtype_is_float(rdt_dtype t);
bool rdt_dtype_is_half(rdt_dtype t);        /* bf16, f16 */
bool rdt_dtype_is_f8(rdt_dtype t);          /* f8e4m3, f8e5m2 */
rdt_dtype rdt_dtype_find(const char *name); /* RDT_DTYPE_COUNT: no datatype */

bool rdt_tensor_is_dense(const rdt_tensor *t);         /* row-major, no gaps */
bool rdt_tensor_is_channels_last(const rdt_tensor *t); /* rank 4 or 5, memory order n [d] h w c, no gaps */
bool rdt_tensor_is_packed(const rdt_tensor *t); /* some permutation of a dense tensor: count elements without gaps */
int64_t rdt_tensor_offset(const rdt_tensor *t, int64_t e); /* where element e in row-major order of its indices lies */
bool rdt_tensor_same_shape(const rdt_tensor *a, const rdt_tensor *b);
bool rdt_tensor_same_strides(const rdt_tensor *a, const rdt_tensor *b); /* dimensions of length 1 do not count */
rdt_tensor rdt_tensor_channels_last(void *data, rdt_dtype dtype, int rank, const int64_t *shape); /* n c [d] h w */
/* rank, dimensions >= 0, known dtype, count * size within PTRDIFF_MAX; what names the tensor in the message */
rdt_status rdt_tensor_check(const rdt_tensor *t, const char *what, rdt_reason *why);
/* "2x3x4 f32" into buf, returns buf */
char *rdt_tensor_text(const rdt_tensor *t, char *buf, size_t size);
/* Numpy-style broadcast of t to shape: a view with zero strides. RDT_ERR_SHAPE where it does not fit. */
rdt_status rdt_tensor_broadcast(const rdt_tensor *t, int rank, const int64_t *shape, rdt_tensor *out, rdt_reason *why);

/* Scalars of any dtype as double (s64 beyond 2^53 rounds); element offsets in elements from data. */
double rdt_load(const void *data, rdt_dtype t, int64_t offset);
void rdt_store(void *data, rdt_dtype t, int64_t offset, double value); /* rounds to nearest even; integers saturate */
int64_t rdt_load_int(const void *data, rdt_dtype t, int64_t offset);   /* of integer and bool datatypes, exactly */
void rdt_store_int(void *data, rdt_dtype t, int64_t offset, int64_t value); /* the low bits; bool: is it non-zero? */
float rdt_bf16_to_f32(uint16_t x);
uint16_t rdt_f32_to_bf16(float x); /* nearest even; NaN stays NaN */
float rdt_f16_to_f32(uint16_t x);
uint16_t rdt_f32_to_f16(float x);
float rdt_f8e4m3_to_f32(uint8_t x);
uint8_t rdt_f32_to_f8e4m3(float x); /* saturates, as ONNX's Cast does by default: infinities too; NaN stays NaN */
float rdt_f8e5m2_to_f32(uint8_t x);
uint8_t rdt_f32_to_f8e5m2(float x);

/* Walks the elements of a view in logical row-major order. Use: rdt_iter it = rdt_iter_begin(&t); while
 * (rdt_iter_next(&it)) use(it.offset); */
typedef struct rdt_iter {
  const rdt_tensor *t;
  int64_t index[RDT_MAX_RANK];
  int64_t offset; /* in elements */
  bool started, done;
} rdt_iter;
rdt_iter rdt_iter_begin(const rdt_tensor *t);
bool rdt_iter_next(rdt_iter *it);

/* Element by element between views of the same shape and datatype. */
void rdt_tensor_copy(const rdt_tensor *from, const rdt_tensor *to);

#endif
