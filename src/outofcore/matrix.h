/* Matrices in .npy files, read and written by blocks. */
#ifndef RDT_OUTOFCORE_MATRIX_H
#define RDT_OUTOFCORE_MATRIX_H

#include "core/npy.h"

typedef struct rdt_matrix {
  int fd;           /* -1: not open */
  const char *path; /* the caller's */
  rdt_dtype dtype;
  bool fortran;
  int64_t rows, cols;
  size_t offset, bytes; /* of the data in the file, and their length */
  int64_t modified;     /* nanoseconds */
  char *map;            /* the file in memory; NULL: it is read or written by the system's calls */
} rdt_matrix;

/* A part of a matrix. */
typedef struct rdt_part_of {
  int64_t row, rows, col, cols;
} rdt_part_of;

/* For reading. RDT_ERR_IO, RDT_ERR_FORMAT (short and long files too), RDT_ERR_SHAPE no matrix, RDT_ERR_DTYPE. */
rdt_status rdt_matrix_open(const char *path, rdt_matrix *m, rdt_reason *why);
/* Row-major, of zeros, at path, replacing what is there; all its space is taken at once. RDT_ERR_IO */
rdt_status rdt_matrix_create(const char *path, rdt_dtype dtype, int64_t rows, int64_t cols, rdt_matrix *m,
                             rdt_reason *why);
void rdt_matrix_close(rdt_matrix *m);
/* Has the file the length and the time of change that it had when it was opened? RDT_ERR_IO */
rdt_status rdt_matrix_unchanged(const rdt_matrix *m, rdt_reason *why);
/* For rdt_matrix_write_sum: many threads may then write at once; a file's writes go one after the other otherwise.
 * Nothing where its space is not all taken: who writes into a hole of a full disk is killed. */
void rdt_matrix_map(rdt_matrix *m);
/* Where it lies in memory already, as in /dev/shm or the page cache: rdt_matrix_read_sum then takes it from there,
 * which calls of the system do more slowly. */
void rdt_matrix_map_read(rdt_matrix *m);

/* How a part lies in memory: without gaps, in the file's order. */
rdt_tensor rdt_matrix_view(const rdt_matrix *m, const rdt_part_of *part, void *data);
rdt_status rdt_matrix_read(const rdt_matrix *m, const rdt_part_of *part, void *data, rdt_reason *why);
rdt_status rdt_matrix_write(const rdt_matrix *m, const rdt_part_of *part, const void *data, rdt_reason *why);
/* With its bit-sum, as a part that begins so many bytes behind a block's begin; of what is read it may be NULL. */
rdt_status rdt_matrix_read_sum(const rdt_matrix *m, const rdt_part_of *part, void *data, size_t offset, uint64_t *sum,
                               rdt_reason *why);
rdt_status rdt_matrix_write_sum(const rdt_matrix *m, const rdt_part_of *part, const void *data, size_t offset,
                                uint64_t *sum, rdt_reason *why);
/* Bit-sum of a part (check/bitsum.h, as it lies in memory), through room bytes at buffer: 64 KiB at least. */
rdt_status rdt_matrix_sum(const rdt_matrix *m, const rdt_part_of *part, void *buffer, size_t room, uint64_t *sum,
                          rdt_reason *why);
/* To the disk; and what was read is read from there again. */
rdt_status rdt_matrix_sync(const rdt_matrix *m, rdt_reason *why);

#endif
