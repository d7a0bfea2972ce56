/* Products and convolutions: prepare once with the weights, execute many times, each time with a verdict. */
#ifndef REDOUBT_PLAN_H
#define REDOUBT_PLAN_H

#include <redoubt/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One line of `plan --explain`: a candidate that was taken, lost or refused. */
typedef struct rdt_choice {
  const char *kernel; /* "" where the scheme as such was refused */
  const char *scheme; /* "" where the kernel as such was refused */
  int fused;          /* the check rides along in the kernel */
  int taken, refused;
  double cost;        /* estimated overhead over the fastest unprotected candidate; NaN: nothing is known */
  double seconds;     /* median of what was measured, for one run; NaN: it was not */
  double spread[2];   /* of that 10 and 90 in 100 */
  double overhead;    /* over the fastest unprotected candidate; NaN: not measured */
  double interval[2]; /* 95 % bootstrap interval of that */
  const char *reason;
} rdt_choice;
/* Told of one candidate; its strings live until the call returns. */
typedef void (*rdt_choice_fn)(const rdt_choice *choice, void *user);

/* Measurements and choices that plans made later go by: those of a plan file (`redoubt plan -o`), or with path NULL
 * those that this user's cache has, if any. Read more than once, later ones replace earlier ones of the same problem.
 * Errors: RDT_ERR_IO, RDT_ERR_FORMAT no plan file, or changed since it was written, RDT_ERR_UNSUPPORTED made by another
 * machine, ISA, number of threads or version, or for another number of votes along k than the policy asks for
 * (rdt_policy.checkpoints; where it asks for none, networks that are loaded later have the file's) or an earlier file
 * has; the context's error says which. Without any, plans are chosen by estimates. */
RDT_API RDT_MUST_USE rdt_status rdt_context_read_plans(rdt_context *ctx, const char *path);
/* What the context has of them, measured or read, to a plan file, choices included; with path NULL the measurements to
 * the cache, which several processes may do at the same time. Errors: RDT_ERR_IO, RDT_ERR_NOMEM. */
RDT_API RDT_MUST_USE rdt_status rdt_context_write_plans(rdt_context *ctx, const char *path);

/* A prepared product or convolution, made by rdt_plan_gemm or rdt_plan_conv; its context must outlive it. */
typedef struct rdt_plan rdt_plan;

/* C = alpha A B + beta C. A: m x k, B: k x n, C: m x n, rank-2 views (transposes and leading dimensions are strides).
 * Datatypes (A, B, C): f64 f64 f64 | f32 f32 f32 | bf16 bf16 f32 or bf16 | f16 f16 f32 or f16 | s8 or u8, s8 or u8, s32
 * (alpha = 1, beta = 0; exact) | f8e4m3 or f8e5m2, the same, f32, bf16 or f16 (by plain C: correct, and slow). C must
 * not overlap A or B, nor itself. m, n or k may be 0. Checks are made on the product A B before alpha, beta and
 * rounding to C; result may be NULL. Errors: RDT_ERR_SHAPE, RDT_ERR_DTYPE, RDT_ERR_ARG, RDT_ERR_NOMEM, RDT_ERR_FAULT (C
 * known to be wrong), RDT_ERR_CANCELLED. */
RDT_API RDT_MUST_USE rdt_status rdt_gemm(rdt_context *ctx, double alpha, const rdt_tensor *a, const rdt_tensor *b,
                                         double beta, rdt_tensor *c, rdt_result *result);

/* Plans a product with fixed B (weights): packs B, prepares its checksums (Huang and Abraham; intensity-guided ABFT
 * section 2.5). a and c give shapes, strides and dtypes only (data may be NULL). B stays the caller's, must outlive the
 * plan and not change: the plan compares it with its load-time sum. With policy.keep_weights a change is repaired. */
RDT_API RDT_MUST_USE rdt_status rdt_plan_gemm(rdt_context *ctx, const rdt_tensor *a, const rdt_tensor *b,
                                              const rdt_tensor *c, rdt_plan **out);

/* How the windows of a convolution lie. */
typedef struct rdt_conv_params {
  int64_t stride[2];   /* vertical, horizontal; >= 1 */
  int64_t pad[4];      /* top, left, bottom, right; >= 0 */
  int64_t dilation[2]; /* >= 1 */
  int64_t groups;      /* >= 1, divides ic and oc */
} rdt_conv_params;

/* Plans Y = X * W. Logical shapes: X n ic ih iw, W oc ic/groups kh kw, Y n oc oh ow; strides as they lie in memory
 * (NCHW or NHWC). Checks: ABED (arXiv 2006.04984) section 3: fc, ic or fic. */
RDT_API RDT_MUST_USE rdt_status rdt_plan_conv(rdt_context *ctx, const rdt_tensor *x, const rdt_tensor *w,
                                              const rdt_tensor *y, const rdt_conv_params *params, rdt_plan **out);

/* Runs a plan on views of the planned shapes and strides. Errors as rdt_gemm. */
RDT_API RDT_MUST_USE rdt_status rdt_plan_execute(rdt_plan *plan, const rdt_tensor *in, rdt_tensor *out,
                                                 rdt_result *result);
/* What was chosen; the names live as long as the program. */
RDT_API const char *rdt_plan_kernel(const rdt_plan *plan);
RDT_API const char *rdt_plan_scheme(const rdt_plan *plan);
/* Arms a fault (docs/howto-inject.md: KIND@SITE[,at=I/J][,seed=S]) for the next execution. */
RDT_API RDT_MUST_USE rdt_status rdt_plan_inject(rdt_plan *plan, const char *spec);
RDT_API void rdt_plan_destroy(rdt_plan *plan); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
