/* What computes products of blocks, and where blocks lie: a row a device. All else of this room is the same for all. */
#ifndef RDT_OUTOFCORE_BACKEND_H
#define RDT_OUTOFCORE_BACKEND_H

#include "check/findings.h"
#include "core/context.h"
#include "cpu/sums.h"
#include "outofcore/matrix.h"

struct rdt_block;

enum { RDT_MOST_SLOTS = 2 };

typedef struct rdt_rates { /* of one second */
  double load, store;      /* bytes */
  double multiply;         /* operations */
  double check;            /* bytes of operands and results passed by checks */
} rdt_rates;

/* C = A B, or C += A B: rank-2 views in the backend's memory; data NULL: only shapes and strides. */
typedef struct rdt_block_product {
  rdt_tensor a, b, c;
  bool add, strassen; /* strassen: one level of it, where halves are possible */
} rdt_block_product;

/* A block of A (axis 0) or B (axis 1) that is loaded; protected: what checks need of it, too. */
typedef struct rdt_loading {
  const rdt_matrix *m;
  rdt_part_of part;
  rdt_tensor to;
  int axis;
  bool protected, strassen; /* strassen: sums of squares are folded (strassen.h) */
  int64_t from, count;      /* lines, in the file's order, where the backend is far; count 0: all of them */
  bool piece;               /* pieces come in any order: what checks need of all of it, fetched forms */
  const double *signs;      /* of A's rows, or B's columns, as the backend has them */
  double *sums;             /* dot, sq, and room for both of a piece, each so long: */
  int64_t most;
  uint64_t seal;  /* bit-sum of what was read, as a part of the block; written */
  double seconds; /* of copying; added to */
} rdt_loading;

/* Bytes that a lane needs beside its operands, of that a library; and who loads. */
typedef struct rdt_backend_space {
  size_t lane, library, loaded;
} rdt_backend_space;
/* What is lent to a backend before a pipeline begins. */
typedef struct rdt_backend_room {
  void *workspace[RDT_MOST_SLOTS], *loaded; /* of each lane; of who loads */
  char *halves[RDT_MOST_SLOTS];             /* of each lane, for Strassen's scheme */
  rdt_backend_space space;
} rdt_backend_room;

typedef struct rdt_backend {
  const char *name;
  bool copies;  /* loads and stores take time of what multiplies */
  bool far;     /* its memory is not the host's: blocks' vectors and signs are in both */
  int64_t unit; /* blocks are multiples of it, or all there is */
  int64_t tile; /* rows and columns that a product computes at once, whether they are there or not */
  size_t align; /* lines of a block begin at multiples of so many bytes */
  double line;  /* bytes of a file that are read, at the usual rate, in the time that the begin of another line takes */
  size_t trial; /* bytes of a file, and side of a product, that are measured */
  int64_t trial_side;
  rdt_rates (*usual)(rdt_dtype in); /* what blocks are chosen by */
  /* device: as it was asked for. in: of the operands; threads: of the host. */
  rdt_status (*open)(const char *device, rdt_dtype in, int threads, void **dev, rdt_reason *why);
  void (*close)(void *dev);
  double (*available)(void *dev); /* bytes; INFINITY: nobody knows */
  /* Bytes of the device's memory that are taken since it was opened, the context aside, by whomever; of the host, what
   * the process takes at most. */
  double (*taken)(void *dev);
  rdt_status (*alloc)(void *dev, size_t bytes, void **memory, rdt_reason *why);
  void (*release)(void *dev, void *memory);
  rdt_status (*workspace)(void *dev, const rdt_context *ctx, const rdt_block_product *p, bool protected, int threads,
                          rdt_backend_space *out, rdt_reason *why);
  void (*lend)(void *dev, const rdt_backend_room *room);
  rdt_status (*load)(void *dev, rdt_loading *l, rdt_reason *why);
  /* Several devices. May blocks be copied from the other one's memory, past the host? NULL: there is no such way. */
  bool (*near)(void *dev, void *other);
  /* Lines of a block, from where it lies in the other one's memory; it may go on until fetched, which waits for all of
   * them. whole: every line is there, and what checks need of the block is formed as load does. */
  rdt_status (*fetch)(void *dev, void *other, const void *block, const rdt_loading *l, rdt_reason *why);
  rdt_status (*fetched)(void *dev, const rdt_loading *l, bool whole, rdt_reason *why);
  /* sum: bit-sum of what went to the file. */
  rdt_status (*store)(void *dev, const rdt_matrix *m, const rdt_part_of *part, const rdt_tensor *from, uint64_t *sum,
                      rdt_reason *why);
  /* What follows is of a lane, in its order; it may go on meanwhile, until check, wait or a copy to the host.
   * other: on another code path, which may take its memory elsewhere. */
  rdt_status (*multiply)(void *dev, const rdt_context *ctx, int lane, const rdt_block_product *p, bool other,
                         int threads, rdt_reason *why);
  rdt_status (*begin)(struct rdt_block *b, rdt_reason *why); /* vectors are as the host has them */
  /* What rows and columns must sum to grows by a product (rdt_block_expect). sums: of A and B as load left them. */
  rdt_status (*expect)(struct rdt_block *b, const rdt_tensor *a, const rdt_tensor *m, double *const sums[2],
                       int64_t most, rdt_reason *why);
  /* Observed sums of C, for the host; or *judged, and f says how: all is well. seal: C's bit-sum; NULL: nobody asks. */
  rdt_status (*observe)(struct rdt_block *b, rdt_findings *f, bool *judged, uint64_t *seal, rdt_reason *why);
  /* Has an operand's bit-sum changed since? After check. */
  rdt_status (*changed)(void *dev, int lane, int axis, const rdt_tensor *x, uint64_t seal, int threads, bool *yes,
                        rdt_reason *why);
  rdt_status (*seal)(void *dev, int lane, const rdt_tensor *x, int threads, uint64_t *sum, rdt_reason *why);
  rdt_status (*wait)(void *dev, int lane, rdt_reason *why);
  double (*product_seconds)(void *dev); /* of the device, in products until now; 0: it keeps no time of its own */
  rdt_status (*get)(void *dev, int lane, void *to, const void *from, size_t bytes, int64_t count, size_t apart,
                    rdt_reason *why); /* count pieces, so far apart there */
  rdt_status (*put)(void *dev, int lane, void *to, const void *from, size_t bytes, rdt_reason *why);
  rdt_accumulator (*accumulator)(void *dev, int lane, rdt_dtype in, rdt_dtype out, int *splits);
} rdt_backend;

extern const rdt_backend rdt_backend_cpu, rdt_backend_cuda;
const rdt_backend *rdt_backend_find(const char *device); /* NULL: there is no such row */

/* A part as it lies in the backend's memory: in the file's order, lines aligned. */
rdt_tensor rdt_backend_view(const rdt_backend *on, const rdt_matrix *m, const rdt_part_of *part, void *data);
size_t rdt_backend_bytes(const rdt_backend *on, int64_t lines, int64_t length, rdt_dtype t);

#endif
