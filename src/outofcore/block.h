/* A block of C that products are added to, and its checksums (Huang and Abraham 1984): what each row and each column
 * must sum to grows with every product, from A times the sums of B, and from the sums of A times B. So the block as it
 * has become is compared after each product, not the product alone; what is wrong in one row or one column is rebuilt
 * from the checksums of the other axis. */
#ifndef RDT_OUTOFCORE_BLOCK_H
#define RDT_OUTOFCORE_BLOCK_H

#include "check/findings.h"
#include "cpu/sums.h"
#include "outofcore/backend.h"
#include "schemes/checks.h"

/* Of one axis: what rows (0) or columns (1) must sum to, what they do, and the squares of what they were before. */
typedef struct rdt_block_side {
  rdt_pair expected, observed, step; /* step: of one product */
  double *between;
  const double *weight; /* of the elements that such a sum takes */
} rdt_block_side;

typedef struct rdt_block {
  const rdt_backend *on;
  void *dev;
  int lane; /* of the product at hand */
  rdt_tensor c;
  rdt_dtype in;
  int64_t k;          /* of all products so far */
  int steps, threads; /* products so far */
  double lambda;
  bool strassen;                  /* products by that scheme, and its bounds */
  rdt_block_side side[2], far[2]; /* the host's; the backend's, where that is elsewhere: then the host's are fetched
                                     when something is wrong */
  double *memory, *far_memory;    /* that both lie in, so many doubles: */
  int64_t doubles;
  double *line; /* room for a row or column of C */
  double moved; /* what rebuilding has changed expected sums by: the corner does not hold more exactly than that */
} rdt_block;

/* Doubles that a block's vectors take; lent at memory. far: the same of the backend's, or NULL. */
int64_t rdt_block_doubles(int64_t rows, int64_t cols);
void rdt_block_lend(rdt_block *b, double *memory, double *far, int64_t rows, int64_t cols);
typedef struct rdt_block_signs { /* of its rows and columns; far: as the backend has them */
  const double *rows, *cols, *far_rows, *far_cols;
} rdt_block_signs;
rdt_status rdt_block_begin(rdt_block *b, const rdt_block_signs *s, rdt_reason *why);

/* A product was added. sums: of A's columns with the rows' signs, of B's rows with the columns' signs, as load left
 * them: most squares behind most sums. */
rdt_status rdt_block_expect(rdt_block *b, const rdt_tensor *a, const rdt_tensor *m, double *const sums[2], int64_t most,
                            rdt_reason *why);
/* Observed sums of C, and their comparison with what they must be. place: of the block's first element. seal: C's
 * bit-sum; NULL: nobody asks. */
rdt_status rdt_block_check(rdt_block *b, const int64_t place[2], rdt_findings *f, uint64_t *seal, rdt_reason *why);
rdt_tolerance rdt_block_tolerance(const rdt_block *b, int axis);

/* What a complaint came to. */
typedef enum rdt_settled {
  RDT_SETTLED_AGAIN,     /* not located, or not by what the sums say alone: the block must be computed again */
  RDT_SETTLED_REBUILT,   /* the line's faults are rebuilt, and the block was checked again */
  RDT_SETTLED_CHECKSUM,  /* a checksum was hit: it is formed again, C is as it was */
  RDT_SETTLED_UNCHECKED, /* NaN or Inf in the operands: some sums say nothing; what can be compared is in order */
} rdt_settled;
typedef struct rdt_settlement {
  rdt_settled how;
  int64_t count;       /* elements rebuilt, or sums */
  int axis;            /* the line's: a row (0) or column (1); of sums: theirs */
  int64_t line, other; /* where, in the block: of a single element, or the first */
  double bound;        /* rebuilt: no element is further from the value without the fault */
  double before, after;
  bool certain;     /* of AGAIN: more than rounding can do */
  bool overflowing; /* of AGAIN: sums fail that have no finite bound, as the product may exceed its datatype */
} rdt_settlement;
/* rebuild false: only what needs no change of C. f: of the check before; then of the last one. */
rdt_status rdt_block_settle(rdt_block *b, const int64_t place[2], bool rebuild, rdt_findings *f, rdt_settlement *out,
                            rdt_reason *why);

#endif
