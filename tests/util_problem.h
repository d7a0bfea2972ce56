/* Random problems with owned buffers, and an oracle that computes them one element at a time in double. */
#ifndef UTIL_PROBLEM_H
#define UTIL_PROBLEM_H

#include "core/problem.h"

typedef struct util_random {
  uint64_t state;
} util_random;
uint64_t util_next(util_random *r);
int64_t util_pick(util_random *r, const int64_t *list, int n);
double util_uniform(util_random *r); /* [-1, 1) */

/* How a view lies in memory. Every buffer is exactly as long as its view reaches, so that a sanitizer sees any overrun.
 */
typedef enum util_layout {
  UTIL_DENSE,
  UTIL_CHANNELS_LAST,
  UTIL_TRANSPOSED,
  UTIL_STRIDED,
  UTIL_NEGATIVE,
  UTIL_BROADCAST
} util_layout;

enum { UTIL_MAX_IN = 8 };
typedef struct util_case {
  rdt_problem p;
  rdt_tensor in[UTIL_MAX_IN]; /* p.in points here while the case lives */
  void *buffers[UTIL_MAX_IN + 4];
  int n_buffers;
  void *out_base;
  size_t out_bytes;
} util_case;

rdt_tensor util_view(util_case *c, util_random *r, rdt_dtype t, int rank, const int64_t *shape, util_layout layout);
util_layout util_layout_of(util_random *r, bool plain, bool input); /* a random one */
/* A random problem of an op with these dtypes (b: second operand, where it differs); plain: layouts that vendor
 * libraries take, no broadcast. */
void util_case_make(util_case *c, util_random *r, rdt_kop op, rdt_dtype a, rdt_dtype b, rdt_dtype out, bool plain);
void util_case_epilogue(util_case *c, util_random *r, bool alpha);
void util_case_free(util_case *c);
void util_case_poison(util_case *c); /* output buffer to 0xff: NaN in every float dtype */

/* The same for ops that only move data: c->p.op is set (util_moves_problem.c). */
void util_case_make_move(util_case *c, util_random *r, rdt_dtype a, bool plain);
void util_oracle_move(const rdt_problem *p, double *expected);

/* The same for resize, cumsum and topk (util_rest_problem.c). */
void util_case_make_rest(util_case *c, util_random *r, rdt_dtype a);
double util_oracle_rest(const rdt_problem *p, const int64_t *out, double *scale);

/* A product or convolution of bytes with zero points, requantised or not, channels last (util_bytes_problem.c). */
void util_case_make_bytes(util_case *c, util_random *r);
/* To bytes and back, of each real type, with zero points and without, scales by column: so many cases, of values step
 * apart. */
enum { UTIL_QUANTISING = 4 * 2 * 3 * 2, UTIL_QUANTISED_ROWS = 7 };
void util_case_make_quantising(util_case *c, int i, int columns, double step);

/* expected and scale have rdt_tensor_count(out) elements, in logical row-major order; scale: sum of magnitudes that
 * went into the element. */
void util_oracle(const rdt_problem *p, double *expected, double *scale);
/* The length of the reduction behind an element. */
int64_t util_reduction(const rdt_problem *p);

#endif
