/* What computes products of blocks, and where blocks lie: a row a device. All else of this room is the same for all. */
#ifndef RDT_OUTOFCORE_BACKEND_H
#define RDT_OUTOFCORE_BACKEND_H

#include "core/context.h"
#include "cpu/sums.h"
#include "outofcore/matrix.h"

/* C = A B, or C += A B: rank-2 views in the backend's memory; data NULL: only shapes and strides. */
typedef struct rdt_block_product {
  rdt_tensor a, b, c;
  bool add;
} rdt_block_product;

typedef struct rdt_backend {
  const char *name;
  bool copies;                  /* loads and stores take time of what multiplies */
  void *(*alloc)(size_t bytes); /* NULL: there is not so much */
  void (*release)(void *memory);
  /* Part of a file to the backend's memory and back. */
  rdt_status (*load)(const rdt_matrix *m, const rdt_part_of *part, void *data, rdt_reason *why);
  rdt_status (*store)(const rdt_matrix *m, const rdt_part_of *part, const void *data, rdt_reason *why);
  /* Bytes that multiply needs beside its operands. */
  rdt_status (*workspace)(const rdt_context *ctx, const rdt_block_product *p, int threads, size_t *bytes,
                          rdt_reason *why);
  /* other: on another code path, which may take its memory elsewhere. */
  rdt_status (*multiply)(const rdt_context *ctx, const rdt_block_product *p, bool other, int threads, void *workspace,
                         rdt_reason *why);
  rdt_status (*sums)(const rdt_sums *s, int count, int threads);
  uint64_t (*seal)(const void *data, size_t bytes, int threads);        /* bit-sum */
  uint64_t (*seal_part)(const void *part, size_t offset, size_t bytes); /* parts add up to the whole */
} rdt_backend;

const rdt_backend *rdt_backend_find(const char *device); /* NULL: there is no such row */

#endif
