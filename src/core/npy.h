/* Headers of NumPy .npy files (1.0 to 3.0, C and Fortran order, little-endian). */
#ifndef RDT_CORE_NPY_H
#define RDT_CORE_NPY_H

#include "core/tensor.h"

typedef struct rdt_npy {
  rdt_dtype dtype;
  bool fortran; /* the first index runs fastest */
  int rank;
  int64_t shape[RDT_MAX_RANK];
  size_t offset; /* of the data from the file's begin */
} rdt_npy;

bool rdt_npy_is(const void *data, size_t bytes);
/* The header at the begin of a file, of which so many bytes are at hand; what names it in messages. RDT_ERR_FORMAT,
 * RDT_ERR_SHAPE, RDT_ERR_DTYPE, RDT_ERR_UNSUPPORTED. */
rdt_status rdt_npy_parse(const void *begin, size_t bytes, const char *what, rdt_npy *out, rdt_reason *why);
/* The header of row-major data; its length. A datatype that NumPy has. */
enum { RDT_NPY_HEAD = 384 };
size_t rdt_npy_head(char head[RDT_NPY_HEAD], rdt_dtype dtype, int rank, const int64_t *shape);

#endif
