/* A problem: one op with the shapes, strides and datatypes of its operands and its attributes. Kernels accept or refuse
 * problems, schemes protect them, plans hold them. */
#ifndef RDT_CORE_PROBLEM_H
#define RDT_CORE_PROBLEM_H

#include "core/tensor.h"

/* What kernels compute. ONNX operators (net/ops.def) lower to these.
 *   GEMM       in A [batch.. m k], B [batch.. k n] -> [batch.. m n]; batch dimensions of an operand may have stride 0
 *   CONV       in X [n ic ih iw], W [oc ic/groups kh kw] -> [n oc oh ow]
 *   ADD MUL    in a, b, both views of the output's shape (broadcast = stride 0)
 *   RELU COPY  in x of the output's shape (COPY moves between strides: reshape, flatten, identity, layout changes)
 *   BATCHNORM  in X [n c ...], scale, bias, mean, var [c] -> like X
 *   MAXPOOL AVGPOOL  in X [n c ih iw] -> [n c oh ow] (AVGPOOL over the whole image is GlobalAveragePool)
 *   SOFTMAX    in x -> same shape, along one axis
 *   CONCAT     in x0.. -> along one axis
 * Integer products: in s8 or u8, out s32, exact modulo 2^32. */
#define RDT_KOP_TABLE(X) \
  X(GEMM, "gemm")        \
  X(CONV, "conv")        \
  X(ADD, "add")          \
  X(MUL, "mul")          \
  X(RELU, "relu")        \
  X(COPY, "copy")        \
  X(BATCHNORM, "batchnorm") X(MAXPOOL, "maxpool") X(AVGPOOL, "avgpool") X(SOFTMAX, "softmax") X(CONCAT, "concat")

typedef enum rdt_kop {
#define X(id, name) RDT_KOP_##id,
  RDT_KOP_TABLE(X)
#undef X
      RDT_KOP_COUNT
} rdt_kop;
const char *rdt_kop_name(rdt_kop op);

typedef enum rdt_act { RDT_ACT_NONE = 0, RDT_ACT_RELU } rdt_act;

/* What follows a linear op: out = act(alpha * raw + bias[channel] + beta * residual), computed in the accumulator's
 * precision and rounded once to out. Channel: n of a gemm, oc of a conv. */
typedef struct rdt_epilogue {
  double alpha, beta; /* 1 and 0 where unused */
  rdt_act act;
  rdt_tensor bias;     /* rank 1, dense; rank -1: none */
  rdt_tensor residual; /* view of out's shape; rank -1: none */
} rdt_epilogue;
#define RDT_EPILOGUE_NONE ((rdt_epilogue){.alpha = 1.0, .beta = 0.0, .bias = {.rank = -1}, .residual = {.rank = -1}})
bool rdt_epilogue_is_none(const rdt_epilogue *e);

typedef struct rdt_window { /* of conv and pool */
  int64_t kernel[2], stride[2], dilation[2];
  int64_t pad[4]; /* top, left, bottom, right */
  int64_t groups; /* conv */
  bool count_pad; /* avgpool: padded cells count in the divisor */
} rdt_window;

typedef struct rdt_problem {
  rdt_kop op;
  int n_in;
  rdt_tensor
      *in; /* owned array (rdt_problem_clear); data pointers are the operands' buffers, NULL while only planning */
  rdt_tensor out;
  rdt_dtype acc;     /* accumulator: f64 for f64, s32 for integers, f32 otherwise. Raw linear outputs have this dtype */
  rdt_window window; /* conv, pool */
  int axis;          /* softmax, concat */
  double epsilon;    /* batchnorm */
  rdt_epilogue epilogue; /* linear ops */
} rdt_problem;

rdt_status rdt_problem_init(rdt_problem *p, rdt_kop op, int n_in); /* zeroes, allocates in; epilogue none */
void rdt_problem_clear(rdt_problem *p);
rdt_status rdt_problem_copy(rdt_problem *to, const rdt_problem *from);
bool rdt_kop_is_linear(rdt_kop op);            /* gemm, conv */
rdt_dtype rdt_dtype_accumulator(rdt_dtype in); /* of a linear op */
int rdt_problem_channel(const rdt_problem *p); /* axis of out that bias and columns go by; -1 if the op is not linear */
/* m n k of a linear op; a conv as gemm: m = n oh ow, n = oc, k = ic/groups kh kw (per group) */
void rdt_problem_mnk(const rdt_problem *p, int64_t *m, int64_t *n, int64_t *k);
double rdt_problem_flops(const rdt_problem *p);
/* Shapes agree with each other and with the window; overflow-safe. Every entry point calls it once. */
rdt_status rdt_problem_check(const rdt_problem *p, rdt_reason *why);

#endif
