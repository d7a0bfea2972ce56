/* A problem: one op with the shapes, strides and datatypes of its operands and its attributes. Kernels accept or refuse
 * problems, schemes protect them, plans hold them. */
#ifndef RDT_CORE_PROBLEM_H
#define RDT_CORE_PROBLEM_H

#include "core/fn.h"
#include "core/tensor.h"

/* clang-format off */
/* What kernels compute. ONNX operators (net/ops.def) lower to these.
 *   GEMM       in A [batch.. m k], B [batch.. k n] -> [batch.. m n]; batch dimensions of an operand may have stride 0
 *   CONV       in X [n ic i..], W [oc ic/groups k..] -> [n oc o..]; one to three spatial dimensions
 *   MAP        in x0[, x1[, x2]], all views of the output's shape (broadcast = stride 0); out = fn(x0, ..), elementwise
 *   QUANTIZE   in x, scale[, zero point], views of the output's shape; out = fn of class QUANT or DEQUANT
 *   COPY       in x of the output's shape (moves between strides: reshape, transpose, slice, expand, layout changes)
 *   BATCHNORM  in X [n c ...], scale, bias, mean, var [c] -> like X
 *   MAXPOOL    in X [n c i..] -> [n c o..]; one to three spatial dimensions. With fn ARGMAX: s64 positions of the first
 *              highest, counted over X in row-major order, or with ints[0] in column-major order of an image's channel;
 *              -1 where the window lies in the padding as a whole
 *   AVGPOOL    as MAXPOOL; over the whole image it is GlobalAveragePool
 *   SOFTMAX    in x -> same shape, along one axis
 *   REDUCE     in x -> its shape with 1 where it is reduced: fn over the elements between; positions (fn of class INDEX)
 *              count along axis, the only one that is reduced
 *   NORM       in x[, scale[, bias]], all views of the output's shape: the dimensions from axis on together are brought
 *              to norm 1 (fn of class NORM), then times scale plus bias
 *   CONCAT     in x0.. -> along one axis
 *   GATHER     in x, index tensors k = 0.. (s32, s64) of the output's shape -> elements of x. Dimension ints[k] of x
 *              goes by index k (negative: from the end), dimension ints[RDT_MAX_RANK + d] of x runs along dimension d
 *              of the output; -1: none. An index out of range: RDT_ERR_ARG
 *   SCATTER    in x, updates, index tensors of the updates' shape -> x with the updates in place, or combined by fn
 *              (ADD, MUL, MIN, MAX) in their order; ints as GATHER has them, with the output for x, the updates for the
 *              output
 *   PAD        in x[, one element] -> x with ints[d] before dimension d and ints[RDT_MAX_RANK + d] behind it (negative:
 *              less of it), filled as mode (rdt_pad_mode) says; the constant is the element, or else param[0]
 *   TRIANGLE   in x [.. m n] -> the elements on and below diagonal ints[0] (mode 0), or on and above it; zeros elsewhere
 *   RESIZE     in x -> same rank, the dimensions of another length or scale resampled by mode (rdt_resize_mode): ints
 *              are coordinates (rdt_resize_coordinates), rounding (rdt_resize_rounding), exclude_outside; param[0]
 *              cubic a
 *   CUMSUM     in x -> same shape, sums along axis; ints[0]: without the element itself, ints[1]: from the end
 *   TOPK       in x -> s64 positions along axis of the most extreme elements in order, as many as the output is long;
 *              ints[0]: the lowest. Equal ones in their order, NaN before all
 *
 * Integer products: in s8 or u8, less their zero points, out s32, exact modulo 2^32; or requantised to s8 or u8. */
#define RDT_KOP_TABLE(X)    \
  X(GEMM, "gemm")           \
  X(CONV, "conv")           \
  X(MAP, "map")             \
  X(QUANTIZE, "quantize")   \
  X(COPY, "copy")           \
  X(BATCHNORM, "batchnorm") \
  X(MAXPOOL, "maxpool")     \
  X(AVGPOOL, "avgpool")     \
  X(SOFTMAX, "softmax")     \
  X(CONCAT, "concat")       \
  X(REDUCE, "reduce")       \
  X(NORM, "norm")           \
  X(GATHER, "gather")       \
  X(SCATTER, "scatter")     \
  X(PAD, "pad")             \
  X(TRIANGLE, "triangle")   \
  X(RESIZE, "resize")       \
  X(CUMSUM, "cumsum")       \
  X(TOPK, "topk")
/* clang-format on */

typedef enum rdt_kop {
#define X(id, name) RDT_KOP_##id,
  RDT_KOP_TABLE(X)
#undef X
      RDT_KOP_COUNT
} rdt_kop;
const char *rdt_kop_name(rdt_kop op);

typedef enum rdt_fn_class {
  RDT_CLASS_FLOAT,
  RDT_CLASS_NUMBER,
  RDT_CLASS_COMPARE,
  RDT_CLASS_TEST,
  RDT_CLASS_LOGIC,
  RDT_CLASS_BITS,
  RDT_CLASS_CAST,
  RDT_CLASS_SELECT,
  RDT_CLASS_POWER,
  RDT_CLASS_QUANT,
  RDT_CLASS_DEQUANT,
  RDT_CLASS_REDUCE,
  RDT_CLASS_INDEX,
  RDT_CLASS_NORM,
  RDT_CLASS_SOFTMAX
} rdt_fn_class;

typedef struct rdt_fn_row {
  const char *name;
  int operands;
  rdt_fn_class class;
} rdt_fn_row;
const rdt_fn_row *rdt_fn_info(rdt_fn f); /* NULL for an unknown one */

enum { RDT_PARAMS = 4 };

/* A function of one operand with its parameters: what an epilogue ends with. */
typedef struct rdt_act {
  rdt_fn fn; /* RDT_FN_NONE, or of one operand and class FLOAT or NUMBER */
  double param[RDT_PARAMS];
} rdt_act;

/* What follows a linear op: out = act(alpha * raw + bias[channel] + beta * residual), computed in the accumulator's
 * precision and rounded once to out. Channel: n of a gemm, oc of a conv.
 * Of integers to s8 or u8, requantising: out = saturate(round((raw + bias[channel]) * factor[channel]) + zero), the sum
 * and the product in f32, halves to even, as a QUANTIZE of class QUANT does. */
typedef struct rdt_epilogue {
  double alpha, beta; /* 1 and 0 where unused */
  rdt_act act;
  rdt_tensor bias;     /* rank 1, dense; rank -1: none */
  rdt_tensor residual; /* view of out's shape; rank -1: none */
  rdt_tensor factor;   /* f32 of rank 1, dense or of stride 0; rank -1: none */
  int32_t zero;        /* with factor */
} rdt_epilogue;
#define RDT_EPILOGUE_NONE \
  ((rdt_epilogue){.alpha = 1.0, .beta = 0.0, .bias = {.rank = -1}, .residual = {.rank = -1}, .factor = {.rank = -1}})
bool rdt_epilogue_is_none(const rdt_epilogue *e);

enum { RDT_MAX_SPATIAL = 3 };

typedef struct rdt_window { /* of conv and pool, along each spatial dimension */
  int64_t kernel[RDT_MAX_SPATIAL], stride[RDT_MAX_SPATIAL], dilation[RDT_MAX_SPATIAL];
  int64_t before[RDT_MAX_SPATIAL], after[RDT_MAX_SPATIAL]; /* padding */
  int64_t groups;                                          /* conv */
  bool count_pad;                                          /* avgpool: padded cells count in the divisor */
} rdt_window;

typedef struct rdt_problem {
  rdt_kop op;
  int n_in;
  rdt_tensor
      *in; /* owned array (rdt_problem_clear); data pointers are the operands' buffers, NULL while only planning */
  rdt_tensor out;
  rdt_dtype acc;     /* accumulator: f64 for f64, s32 for integers, f32 otherwise. Raw linear outputs have this dtype */
  int32_t zero[2];   /* linear ops of integers: what counts as 0 in A and in B, and in the padding */
  rdt_window window; /* conv, pool */
  rdt_fn fn;         /* map, softmax, reductions */
  double param[RDT_PARAMS];       /* of fn; pad */
  int axis;                       /* softmax, concat, norm, cumsum, topk; reduce of class INDEX */
  double epsilon;                 /* batchnorm, norm */
  int64_t ints[2 * RDT_MAX_RANK]; /* of the op, as the table says */
  int mode;                       /* pad, triangle, resize */
  double scale[RDT_MAX_RANK];     /* resize */
  rdt_epilogue epilogue;          /* linear ops */
} rdt_problem;

rdt_status rdt_problem_init(rdt_problem *p, rdt_kop op, int n_in); /* zeroes, allocates in; epilogue none */
void rdt_problem_clear(rdt_problem *p);
rdt_status rdt_problem_copy(rdt_problem *to, const rdt_problem *from);
const char *rdt_problem_name(const rdt_problem *p); /* the op's, or its function's */
bool rdt_kop_is_linear(rdt_kop op);                 /* gemm, conv */
rdt_dtype rdt_dtype_accumulator(rdt_dtype in);      /* of a linear op */
int rdt_problem_channel(const rdt_problem *p); /* axis of out that bias and columns go by; -1 if the op is not linear */
int64_t rdt_tensor_pixels(const rdt_tensor *t); /* of an image or a filter: the product of dimensions 2.. */
/* m n k of a linear op; a conv as gemm: m = n o.., n = oc, k = ic/groups k.. (per group) */
void rdt_problem_mnk(const rdt_problem *p, int64_t *m, int64_t *n, int64_t *k);
double rdt_problem_flops(const rdt_problem *p);
bool rdt_problem_is_depthwise(const rdt_problem *p); /* a conv with one filter for each of several channels */
/* The ops that only move data, by indices, tables and conditions; what rdt_problem_check asks about them. */
bool rdt_kop_moves(rdt_kop op);
rdt_status rdt_problem_check_moves(const rdt_problem *p, rdt_reason *why);
/* Shapes agree with each other and with the window; overflow-safe. Every entry point calls it once. */
rdt_status rdt_problem_check(const rdt_problem *p, rdt_reason *why);

#endif
