/* Passes over a block of a matrix in the device's memory: sums of its lines, of what lies across them, and of its bits,
 * so that each element is read once. In double; squares of fp16, which only bounds take, in float. */
#ifndef RDT_CUDA_BLOCK_SUMS_H
#define RDT_CUDA_BLOCK_SUMS_H

#include <stdint.h>

#include "check/tolerance.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RDT_PASS_THREADS = 256, /* each warp has 32 x 16 bytes of a line */
  RDT_PASS_FLUSH = 64,
  RDT_PASS_LINES = 256,   /* of a thread block: the least, a multiple of it; the most */
  RDT_PASS_BLOCKS = 1024, /* wanted: less leaves the device waiting for memory */
  RDT_PASS_BYTES = RDT_PASS_THREADS * 16,
  RDT_PASS_STAGES = 4, /* of four lines each: enough of them on their way, so that memory is never waited for */
  RDT_PASS_SHARED = RDT_PASS_STAGES * 4 * RDT_PASS_BYTES,
  RDT_PASS_CASES = 4 /* sums of lines: 1, across: 2 */
};

static inline int64_t rdt_pass_lines(int64_t lines, int64_t length, int64_t element) {
  const int64_t across = (length * element + RDT_PASS_BYTES - 1) / RDT_PASS_BYTES;
  int64_t each = RDT_PASS_LINES;
  while (each > RDT_PASS_FLUSH && (lines + each - 1) / each * across < RDT_PASS_BLOCKS) each /= 2;
  return each;
}

typedef struct rdt_pass_args { /* doubles unless it says otherwise */
  const void *x;
  int64_t lines, length, pitch;         /* pitch: elements from line to line, a multiple of 16 bytes */
  const double *along_dot, *along_sq;   /* weights of the elements of a line; sq NULL: ones */
  const double *across_dot, *across_sq; /* of the lines */
  int64_t each;                         /* lines of a thread block */
  double *line_parts, *cross_parts;     /* [part][line or element] of (dot, sq) */
  unsigned long long *seal;             /* the bit-sum is added to it, of the block without gaps; NULL: none */
} rdt_pass_args;

/* Parts are added up in their order, whichever way. */
typedef struct rdt_gather_args {
  const double *parts;
  int64_t n;
  int count;
  double *dot, *sq; /* what comes of it */
  /* added to, NULL: nothing is; and before the first product of a block: between */
  double *total_dot, *total_sq, *between;
  const double *seen_sq;
  /* Strassen's scheme: squares of i and of half + i are added up, and what is added to the total is so many times that;
   * half 0: neither. */
  int64_t half;
  double factor;
} rdt_gather_args;

/* What comparisons came to; zero before. */
typedef struct rdt_block_found {
  unsigned int suspect, cannot;    /* cannot: no finite bound */
  unsigned int passed, seconded;   /* by two comparisons */
  unsigned long long ratio, floor; /* bits of doubles: the largest |residual| / tau2, 2 tau2 */
} rdt_block_found;
typedef struct rdt_compare_args {
  int64_t n;
  const double *observed_dot, *observed_sq, *expected_dot, *expected_sq;
  rdt_box_bound bound;
  int widest; /* observed squares say nothing: as large as they may be */
  rdt_block_found *found;
} rdt_compare_args;

/* to = x + sign y, y NULL: sign x; kept: added to what is there. Lines of neighbours. */
typedef struct rdt_halves_args {
  void *to;
  const void *x, *y;
  int64_t lines, length, to_pitch, x_pitch, y_pitch;
  double sign;
  int kept;
} rdt_halves_args;

/* C = A B or C += A B, by multiply-adds in order: the code path that no library knows. Any strides of A and B. */
typedef struct rdt_plain_args {
  const void *a, *b;
  void *c;
  int64_t m, n, k, a_row, a_column, b_row, b_column, c_row;
  int add;
} rdt_plain_args;
enum { RDT_PLAIN_THREADS = 256, RDT_PLAIN_SIDE = 64 };

enum rdt_block_type { RDT_BLOCK_F16, RDT_BLOCK_BF16, RDT_BLOCK_F32, RDT_BLOCK_F64, RDT_BLOCK_TYPES };
/* Kernels (args). Passes: blocks of RDT_PASS_THREADS with RDT_PASS_SHARED bytes, x: RDT_PASS_BYTES of a line, y:
 * rdt_pass_lines. */
extern const void *const rdt_pass_code[RDT_BLOCK_TYPES][RDT_PASS_CASES];
extern const void *const rdt_halves_code[2]; /* of f32, f64: x: RDT_PASS_THREADS of a line, y: lines */
extern const void *const rdt_gather_code, *const rdt_compare_code; /* blocks of RDT_PASS_THREADS, one a thread */
extern const void *const rdt_plain_code[RDT_BLOCK_TYPES];          /* x: columns, y: rows by RDT_PLAIN_SIDE */

#ifdef __cplusplus
}
#endif
#endif
