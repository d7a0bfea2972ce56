/* Runs of elements of any dtype <-> dense runs of the type that kernels compute in: f64 for f64; f32 for f32, bf16 and
 * f16; s32 for s8, u8 and s32. With these, the reference kernels are written over three types only. */
#ifndef RDT_CPU_GENERIC_CONVERT_H
#define RDT_CPU_GENERIC_CONVERT_H

#include "core/tensor.h"

typedef void rdt_load_fn(void *to, const void *from, int64_t stride, int64_t n);
typedef void rdt_store_fn(void *to, int64_t stride, const void *from, int64_t n); /* rounds to nearest even */

/* What a dtype is computed in; RDT_DTYPE_COUNT for those that nothing is computed in (s64, bool). */
rdt_dtype rdt_compute_type(rdt_dtype t);
rdt_load_fn *rdt_loader(rdt_dtype t); /* NULL where there is no compute type */
rdt_store_fn *rdt_storer(rdt_dtype t);

#endif
