/* Runs of elements of any dtype <-> dense runs of the type that kernels compute in. With these, the reference kernels
 * are written over few types only. */
#ifndef RDT_CPU_GENERIC_CONVERT_H
#define RDT_CPU_GENERIC_CONVERT_H

#include "core/tensor.h"

typedef void rdt_load_fn(void *to, const void *from, int64_t stride, int64_t n);
typedef void rdt_store_fn(void *to, int64_t stride, const void *from, int64_t n);

/* What products and pools are computed in: f64 for f64; f32 for f32, bf16, f16 and 8-bit floats; s32 for s8, u8 and
 * s32. RDT_DTYPE_COUNT for those that none is computed in (s64, bool). */
rdt_dtype rdt_compute_type(rdt_dtype t);
rdt_load_fn *rdt_loader(rdt_dtype t); /* to and from that type; NULL where there is none */
rdt_store_fn *rdt_storer(rdt_dtype t);

/* What elementwise functions are computed in: floats as above, all integers and bools in s64. */
rdt_dtype rdt_map_type(rdt_dtype t);
/* Any dtype to and from f64, f32, s32, s64; one rounding, to nearest even. Floats to integers: towards zero, and what
 * does not fit or is NaN becomes the smallest 32-bit (64-bit) integer, which is what x86 does and NumPy and ONNX
 * Runtime therefore give. Integers wrap. Anything but zero is true. */
rdt_load_fn *rdt_loader_to(rdt_dtype t, rdt_dtype compute);
rdt_store_fn *rdt_storer_from(rdt_dtype t, rdt_dtype compute);

#endif
