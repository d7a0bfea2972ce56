/* Rebuilding single and collinear faults from checksums (Huang and Abraham 1984). Row and column checks say which rows
 * and columns are wrong. Where that is one row, each of its faults lies in a column of its own, whose checksum sees
 * only it, and likewise for one column:  c_ij = expected sum of the column - sum of its other elements. */
#ifndef RDT_CHECK_CORRECT_H
#define RDT_CHECK_CORRECT_H

#include "check/findings.h"

/* Outputs that one checksum covers: the bound of what is rebuilt grows with them. */
enum { RDT_CORRECT_BLOCK = 16 };

/* A linear op as a product, line by line, from the operands as the caller keeps them. Axis 0: rows of the result,
 * which are rows of A; axis 1: columns, which are columns of B. Places as checks name them. */
typedef struct rdt_lines {
  void *self;
  int64_t k; /* length of an operand's line */
  rdt_dtype acc;
  rdt_tolerance tol; /* of a sum of raw outputs, in double */
  /* Lines from .. to - 1 around `at` may be summed: they meet the same lines of the other operand. */
  void (*span)(void *self, int axis, int64_t at, int64_t *from, int64_t *to);
  /* The operand's line behind row place[0] (axis 0) or column place[1] (axis 1). */
  void (*operand)(void *self, int axis, const int64_t place[2], double *line);
  double *(*scratch)(void *self); /* 4 k numbers */
  double (*load)(void *self, const int64_t place[2]);
  void (*store)(void *self, const int64_t place[2], double value);
} rdt_lines;

typedef struct rdt_rebuilt {
  int64_t count; /* elements rebuilt; 0: declined, nothing was changed */
  double bound;  /* none of them is further from the value without the fault */
  int axis;      /* the row (0) or column (1) that all of them lie in, and whose own checksum none was rebuilt from */
  int64_t line;
  double spread; /* what rebuilding adds to its statistical bound */
  bool passed;   /* rdt_correct_holds, by who has the result checked again */
} rdt_rebuilt;

/* Changes the result where the findings of a row and of a column check, each complete, name the crossings of one line
 * with up to RDT_MAX_SUSPECTS others, and at least one value there is wrong for certain: rounding cannot explain it. */
void rdt_correct(const rdt_lines *l, const rdt_findings *rows, const rdt_findings *cols, rdt_rebuilt *out);
/* Do row and column checks of the rebuilt result pass? A rebuilt value carries the rounding of all outputs of its
 * checksum, and the line that they lie in sums theirs. */
bool rdt_correct_holds(const rdt_rebuilt *b, const rdt_findings *rows, const rdt_findings *cols);

#endif
