/* Dense runs of f32 to integers of 8 bits and back, compiled for each ISA. Nothing is contracted: the bits are the same
 * everywhere, and those of cpu/generic/quantize_body.h. */
#ifndef RDT_CPU_QUANTIZE_H
#define RDT_CPU_QUANTIZE_H

#include "core/tensor.h"

typedef struct rdt_quantize_table {
  /* y = saturate(round(x s, or x / s) + zero) */
  void (*quantize)(const float *x, const float *s, const int32_t *zero, void *y, int64_t n, rdt_dtype to,
                   bool multiply);
  /* y = (x - zero) s */
  void (*dequantize)(const void *x, const float *s, const int32_t *zero, float *y, int64_t n, rdt_dtype from);
} rdt_quantize_table;
extern const rdt_quantize_table rdt_quantize_generic, rdt_quantize_avx2, rdt_quantize_avx512;

#endif
