/* Every bound in the project. See docs/tolerance.md for the derivations.
 *
 * A check compares an observed sum of outputs with an expected one formed from the inputs. Two bounds:
 *   tau0  rigorous (R0): rounding can never exceed it. A residual above is a certain fault.
 *   tau2  statistical (T2; T3 where checkpoints are given): a residual above is suspect and is settled by a recompute.
 * tau2 <= tau0 always. */
#ifndef RDT_CHECK_TOLERANCE_H
#define RDT_CHECK_TOLERANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tensor.h"

typedef enum rdt_rounding { RDT_ROUND_NEAREST, RDT_ROUND_TRUNCATE } rdt_rounding;

/* How an accumulator behaves. */
typedef struct rdt_accumulator {
  rdt_rounding rounding;
  double u;      /* nearest: unit roundoff of the accumulator (2^-53, 2^-24); 0: exact integers */
  int64_t depth; /* longest chain of roundings where known (blocked, pairwise); 0: k. Truncate: device bounds only */
  int kb, f, fo; /* truncate (tensor cores): products a step, fraction bits of alignment, of the result */
  double flush;  /* subnormal operands are aligned as if they were this: measure ag on rdt_tilde of them; 0: none */
} rdt_accumulator;

rdt_accumulator rdt_accumulator_of(rdt_dtype in, rdt_dtype acc); /* CPU, round to nearest */
double rdt_tilde(const rdt_accumulator *a, double x);            /* |x|, non-zero subnormals raised to flush */
double rdt_gamma(const rdt_accumulator *a, int64_t k); /* rigorous accumulation error factor; INFINITY where k u >= 1 */

/* What is the same for all checks of a kind on one problem. */
typedef struct rdt_tolerance {
  rdt_accumulator acc;
  int64_t k;          /* length of the reduction */
  double u_out;       /* rounding of the checked outputs; 0: the accumulators themselves are summed */
  double eta_out;     /* smallest subnormal of the output dtype, with u_out */
  double u_check;     /* precision in which the check is computed: 2^-53, or 2^-24 */
  int64_t depth_sum;  /* longest chain of roundings (of u_check) in the sum over the outputs; 0: outputs summed */
  int64_t depth_dot;  /* the same in the expected side; 0: k */
  double u_form;      /* precision in which the checksum vectors are formed; 0: 2^-53 */
  int64_t depth_beta; /* the same (of u_form) in forming them; 0: outputs summed */
  double u_beta;      /* relative rounding of the stored checksum vector: 2^-53 where it is kept in double */
  int splits;         /* extra additions of partial results (split-K) */
  int64_t segments;   /* T3: between checkpoints; 0: eight */
  double lambda;      /* 6 by default */
  /* of rdt_device_bound_of alone: what the expected side loses besides, at most. T2 has no need to count it, but for
   * depth_more */
  double parts;       /* accumulators of the smaller parts of sums, as a share of what that of the largest errs by */
  double lost;        /* relative, where sums are formed, joined and cut into parts */
  double raised;      /* of all parts of a sum, what subnormal ones count as when they are aligned */
  int64_t depth_more; /* roundings in adding up what is expected, that are not among splits */
} rdt_tolerance;

/* Magnitudes that one check measured. Row check of row i with weights w (|w_j| = 1): sums over the outputs C_ij, with
 * a = a_i, beta = B w, g = |B||w|, rho_t = ||B_t,:||_2. Column check: the transpose. Tile, scalar: both sides weighted;
 * fields are sums over the rows of the tile. Over-estimates are allowed (looser), except in dot and s.
 * Fields that were not measured are NAN: each takes a safe fallback (tolerance.c); ag or q must be there, and both must
 * not be finite where an input is not. */
typedef struct rdt_terms {
  int64_t n;     /* outputs summed */
  double abs_c;  /* sum |C| */
  double c2;     /* sum C^2 */
  double s;      /* sum w C */
  double ag;     /* sum |a_t| g_t */
  double q;      /* sum a_t^2 rho_t^2 */
  double dot;    /* a . beta */
  double a_beta; /* sum |a_t| |beta_t|, or |a|_2 |beta|_2 */
  double q_beta; /* sum a_t^2 beta_t^2 */
  double m2;     /* T3: checkpoint mean M2; NAN: no checkpoints, T2 */
  double sbar;   /* T3, truncate: w . sbar */
} rdt_terms;

typedef struct rdt_bound {
  double tau0, tau2;
} rdt_bound;

rdt_bound rdt_bound_of(const rdt_tolerance *t, const rdt_terms *m);

/* tau2 once more, evaluated in another way: its square is linear in the measured squares, with factors that are made
 * once for all checks of n outputs. Never below the square of tau2, and up to the caps of rdt_bound_of as large. Of
 * checks whose c2, s and dot were measured; m2 where there are segments. */
typedef struct rdt_squared {
  double q, c2, s2, dot2, q_beta, m2; /* factors; q_beta: of q where that was not measured */
  double rest;                        /* whatever was measured */
  double most;                        /* no c2 is more than so many q */
} rdt_squared;
rdt_squared rdt_squared_of(const rdt_tolerance *t, int64_t n);
/* NaN where the inputs leave no bound. */
double rdt_squared_at(const rdt_squared *b, const rdt_terms *m);
/* A check that a GPU makes of a kernel's accumulators, in their precision: n outputs of reductions of length t.k are
 * summed with signs, and compared with the product of the inputs and the signed sums of B, which comes from the same
 * instructions. Factors for the kernel, which measures s, the sum, e, what was expected, c2 and, of the inputs, a2 =
 * |a|^2 (subnormals raised) and rho2 = max_t rho_t^2: q = a2 rho2, c2 <= cap q, |s| <= sqrt(n c2), |e| <= sqrt(n k q),
 * theta^2(x) = min(1, theta x / q) v = c2 c2 + theta^2(c2) drift c2 + q q + e2 e^2 + theta^2(e^2) drift e^2 + a2 a2
 *   tau0 = q0 sqrt(q) + a0 sqrt(a2)      tau2 = min(tau0, line (|s| + |e|) + lambda sqrt(v))
 * t: acc, k, depth_sum, depth_dot (products in the chain of the expected side; 0: as many as in that of an output),
 * splits, lambda, u_beta (what is lost when a sum of B is formed and split into numbers of the inputs' type),
 * eta_out (the same below that type's normal range), and what is of this alone. */
typedef struct rdt_device_bound {
  float cap, s_cap, e_cap; /* s_cap: n, e_cap: n k */
  float theta, drift;
  float c2, q, e2, a2;
  float line, lambda;
  float q0, a0;
  float a2_floor; /* added to a2: operands below the normal range */
  float surely;   /* (s - e)^2 <= surely q: no more than tau2, whatever else was measured */
} rdt_device_bound;
rdt_device_bound rdt_device_bound_of(const rdt_tolerance *t, int64_t n);
/* u_beta, eta_out, parts, lost and raised where sums of B are formed in double, stored times scale as so many numbers
 * of the inputs' type (f32: tf32) as have 22 bits or more, or of 8 bits as six of them, and multiplied each by itself.
 */
void rdt_tolerance_parts(rdt_tolerance *t, rdt_dtype in, double scale);
/* A check in double that a GPU makes of what a library computed: n outputs of reductions of length t.k are summed with
 * signs. Factors for the kernel, which measures s, the sum, e, what was expected, c2, and q, or more than it:
 *   most = min(c2, cap q)
 *   v = c2 most + min(1, theta most / q) drift most + q q + s2 s^2 + e2 e^2 + rest
 *   tau0 = q0 sqrt(q) + least      tau2 = min(tau0, line |s| + lambda sqrt(v) + least)
 * Where s is not finite, that is a fault only where cap q < limit: else correct outputs may overflow.
 * added: outputs had more added to them (bias, residual) before they were rounded, and the check takes that away; c2 is
 * then of the sums of both magnitudes, which nothing caps: most = c2, tau0 + added sqrt(c2), and what is not finite
 * leaves no verdict. */
typedef struct rdt_box_bound {
  double cap, limit, added;
  double theta, drift;
  double c2, q, s2, e2, rest;
  double line, lambda;
  double q0, least;
  double surely;  /* (s - e)^2 <= surely q: no more than tau2, whatever else was measured */
  double clearly; /* the same of clearly most */
} rdt_box_bound;
rdt_box_bound rdt_box_bound_of(const rdt_tolerance *t, int64_t n, bool added);
/* Tensor cores of a compute capability, floating-point inputs of 16 and 8 bits, f32: tf32; what is not known gets the
 * widest. */
rdt_accumulator rdt_accumulator_mma(int major, int minor, rdt_dtype in);
/* R2: rigorous with checkpoints every kc; sum_abs_s = sum over checkpoints and outputs of |s_ij^(c)|. */
double rdt_bound_r2(const rdt_tolerance *t, const rdt_terms *m, int64_t kc, double sum_abs_s);
/* T3 checkpoint mean from the accumulators' squares and neighbour products: count+1 checkpoints, the first is 0. */
double rdt_checkpoint_m2(const double *norm2, const double *cross, int count);

typedef enum rdt_outcome { RDT_PASS = 0, RDT_SUSPECT = 1, RDT_CERTAIN = 2, RDT_CANNOT = 3 } rdt_outcome;
/* !(|observed - expected| <= bound), so that NaN fails. RDT_CANNOT: a bound is not finite (NaN or Inf in the inputs, or
 * sums beyond the range): the caller decides by recompute. */
rdt_outcome rdt_compare(double observed, double expected, rdt_bound b);
/* Exact check of integers: observed == expected modulo 2^32. */
rdt_outcome rdt_compare_exact(uint32_t observed, uint32_t expected);
/* The second comparison: by squares. What passes rdt_compare with a bound passes here with its square. */
static inline bool rdt_compare_squared(double observed, double expected, double squared) {
  const double d = expected - observed;
  return d * d <= squared;
}
/* Detection floor of a check: a fault whose weighted sum exceeds it is found for certain (T2 or T3: as suspect). */
double rdt_floor_of(rdt_bound b);
/* How far one output of two code paths may be apart where a check of this bound is suspect. Not narrower where a small
 * lambda makes more suspects: what is a fault does not depend on it. */
double rdt_bound_apart(rdt_bound b, double lambda);
/* An output that was rebuilt from a checksum: value = expected - sum of the other outputs, stored as acc. No further
 * than tau0 from the exact value, nor from what the kernel computes without a fault; tau2 in the statistical sense. m:
 * terms of the checksum with value. */
rdt_bound rdt_bound_rebuilt(const rdt_tolerance *t, const rdt_terms *m, rdt_dtype acc, double value);
/* Elementwise: how far two correct evaluations of one output may differ; abs_dot = sum |a_t||b_t|. Both accumulate in
 * acc. */
double rdt_bound_element(const rdt_tolerance *t, double abs_dot);
/* How far an epilogue's or oracle's result may be from the exact one is nobody else's business: literal tolerances of
 * tests come from here too. */
double rdt_tolerance_operator(rdt_dtype t); /* relative, for one operator against its definition in more digits */
double rdt_tolerance_constant(rdt_dtype t); /* relative, for a number of a formula that a file holds: rounded twice */
double rdt_tolerance_network(rdt_dtype t); /* relative, for whole small networks against another engine: 1e-5 for f32 */
double rdt_tolerance_reference(rdt_dtype t); /* relative, for whole large networks on two code paths of ours, each
                                                right: campaigns refuse to start beyond */
/* Whether a floating-point output of a case of the ONNX backend suite is the expected one: within the suite's own
 * tolerances; NaN is expected as NaN, Inf as the same Inf. */
bool rdt_conforms(double observed, double expected);

#endif
