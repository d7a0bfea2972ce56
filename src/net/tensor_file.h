/* Tensors in files: NumPy .npy (1.0 to 3.0, C and Fortran order, little-endian) and ONNX TensorProto .pb. */
#ifndef RDT_NET_TENSOR_FILE_H
#define RDT_NET_TENSOR_FILE_H

#include "core/tensor.h"

/* *t is dense row-major (Fortran files are turned), data owned by the caller (rdt_free). By content, not by file name.
 */
rdt_status rdt_tensor_file_read(const char *path, rdt_tensor *t, rdt_reason *why);
rdt_status rdt_tensor_file_parse(const void *data, size_t bytes, rdt_tensor *t, rdt_reason *why); /* fuzz entry */
/* .npy, any strides, bf16 widened to f32 (NumPy has no bf16; the values are the same). Written to a temporary file
 * beside path, synced and renamed; nothing is left behind on failure. */
rdt_status rdt_npy_write(const char *path, const rdt_tensor *t, rdt_reason *why);

#endif
