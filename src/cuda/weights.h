/* What the checks need to know of B, formed on the device. */
#ifndef RDT_CUDA_WEIGHTS_H
#define RDT_CUDA_WEIGHTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdt_weights_args {
  const void *b; /* k x n, rows of unit stride */
  int64_t ldb;
  int64_t next; /* products on wgmma: elements from one batch of B to the next, whose sums follow each other */
  int k, n;
  int fragments; /* of eight columns: of each group, whose columns a thread sums; 1: single columns */
  void *rho2;    /* largest sum of squares of a group in a row: [n / fragments], or of whole rows: [1], 0 before */
  void *parts;   /* k x part_columns: signed sums of the rows, split, RDT_MMA_PARTS_EACH columns for each check */
  int part_columns, sets;
  const float *turns; /* weights of columns in checks after the first; from one to the next: */
  int64_t turns_pitch;
  float scale; /* of 8-bit floats: sums are stored times this */
  int abreast; /* on wgmma, of 16 bits: the parts of a row side by side, not those of all rows */
} rdt_weights_args;

enum rdt_weights_type {
  RDT_WEIGHTS_F16,
  RDT_WEIGHTS_BF16,
  RDT_WEIGHTS_S8,
  RDT_WEIGHTS_F64,
  RDT_WEIGHTS_F32, /* on wgmma: tf32 */
  RDT_WEIGHTS_F8E4M3,
  RDT_WEIGHTS_F8E5M2,
  RDT_WEIGHTS_TYPES
};
/* Products on wgmma: B with rows and with columns side by side: ldb is from one column to the next. NULL: there is no
 * such product. A block of 256 threads for each row. */
extern const void *const rdt_weights_wgmma[RDT_WEIGHTS_TYPES][2];
/* Kernels (args), of each type; exact ones need no squares. */
extern const void *const rdt_weights_groups[]; /* a block of 256 threads for each `fragments` times eight columns */
extern const void *const rdt_weights_rows[];   /* the same for each row (x) in each check (y) */

#ifdef __cplusplus
}
#endif
#endif
