/* What follows a linear op: out = act(alpha raw + bias[channel] + beta residual). One arithmetic for every caller:
 * plain, in the pass of a check, and in the second copy that verifies. No contraction, so the bits do not depend on the
 * ISA. */
#ifndef RDT_CPU_EPILOGUE_H
#define RDT_CPU_EPILOGUE_H

#include "core/problem.h"

/* The arithmetic of one dense line in the accumulator's type T (float, double, uint32_t), compiled for each ISA.
 * bias, residual: n values or NULL. dst may be src. */
typedef struct rdt_epilogue_line {
  int64_t n;
  const void *raw, *bias, *residual;
  void *dst;
  bool bias_scalar;   /* bias points to one value for the whole line */
  const rdt_act *act; /* NULL: none */
  double alpha, beta;
} rdt_epilogue_line;

typedef struct rdt_epilogue_table {
  void (*f32)(const rdt_epilogue_line *l);
  void (*f64)(const rdt_epilogue_line *l);
  void (*s32)(const rdt_epilogue_line *l); /* modulo 2^32; alpha and beta are integers, act is relu or none */
  /* Computes the line without writing it: has is the same bits? false also where that is not known. */
  bool (*same_f32)(const rdt_epilogue_line *l, const void *is);
} rdt_epilogue_table;
extern const rdt_epilogue_table rdt_epilogue_generic, rdt_epilogue_avx2, rdt_epilogue_avx512;

/* raw and out have the same shape (any strides, raw in the accumulator's dtype); channel is the axis of the bias: the
 * last one of a gemm, 1 of a conv. out may be raw when dtypes and strides are equal. */
void rdt_epilogue_apply(const rdt_epilogue *e, const rdt_tensor *raw, const rdt_tensor *out, int channel, int threads);

/* Computes again from raw, each part on another thread than rdt_epilogue_apply where there is one, and compares bits.
 * Returns how many elements of out differ; *first: logical row-major index of the first one, -1 if none. *bitsum (may
 * be NULL): out's bit-sum, formed in the same pass where rdt_epilogue_sums(out). Meaningless after an apply in place.
 */
int64_t rdt_epilogue_verify(const rdt_epilogue *e, const rdt_tensor *raw, const rdt_tensor *out, int channel,
                            int threads, int64_t *first, uint64_t *bitsum);
bool rdt_epilogue_sums(const rdt_tensor *out);

/* What ends a requantising epilogue: bytes at dst = saturate(round(x factor) + zero), halves to even; NaN becomes the
 * lowest. The bits of every kernel that does it on its own. */
void rdt_requantize(const float *x, const float *factor, int64_t n, int32_t zero, rdt_dtype to, void *dst);

#endif
