/* Gemm: Y = alpha A' B' + beta C. C along n is the bias, any other C is added like a residual. */
#include "net/ops/ops.h"

static rdt_tensor maybe_transposed(const rdt_tensor *t, int64_t trans) {
  rdt_tensor v = *t;
  if (trans) {
    v.shape[0] = t->shape[1];
    v.shape[1] = t->shape[0];
    v.stride[0] = t->stride[1];
    v.stride[1] = t->stride[0];
  }
  return v;
}

static bool along_n(const rdt_tensor *c, int64_t n) {
  for (int d = 0; d < c->rank - 1; d++)
    if (c->shape[d] != 1) return false;
  return c->rank >= 1 && c->shape[c->rank - 1] == n;
}

static rdt_status addend(const rdt_op_args *a, const rdt_tensor *y, double beta, rdt_epilogue *e, rdt_reason *why) {
  const rdt_tensor *c = rdt_op_in(a, 2);
  rdt_tensor residual;
  RDT_TRY(rdt_op_residual(a, y, &residual, why));
  if (residual.rank >= 0) {
    e->residual = residual;
    e->beta = 1.0;
  }
  if (!c || beta == 0.0) return RDT_OK;
  if (beta == 1.0 && along_n(c, y->shape[1])) {
    e->bias = rdt_tensor_dense(c->data, c->dtype, 1, &y->shape[1]);
    return RDT_OK;
  }
  if (residual.rank >= 0)
    return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "an addition was fused into a Gemm whose C is not a bias");
  rdt_reason inner;
  const rdt_status s = rdt_tensor_broadcast(c, 2, y->shape, &e->residual, &inner);
  if (s != RDT_OK) return rdt_op_fail(a, why, s, "C: %s", inner.text);
  e->beta = beta;
  return RDT_OK;
}

rdt_status rdt_op_gemm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *ta = rdt_op_in(a, 0), *tb = rdt_op_in(a, 1);
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  int64_t trans_a, trans_b;
  double beta;
  char sa[96], sb[96];
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  RDT_TRY(rdt_op_int(a, "transA", 0, &trans_a, why));
  RDT_TRY(rdt_op_int(a, "transB", 0, &trans_b, why));
  RDT_TRY(rdt_op_float(a, "alpha", 1.0, &e.alpha, why));
  RDT_TRY(rdt_op_float(a, "beta", 1.0, &beta, why));
  rdt_tensor_text(ta, sa, sizeof sa);
  rdt_tensor_text(tb, sb, sizeof sb);
  if (ta->rank != 2 || tb->rank != 2)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "A %s, B %s: both must be matrices", sa, sb);
  const rdt_tensor va = maybe_transposed(ta, trans_a), vb = maybe_transposed(tb, trans_b);
  if (va.shape[1] != vb.shape[0])
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "A %s%s, B %s%s: k is %lld in A and %lld in B", sa,
                       trans_a ? " transposed" : "", sb, trans_b ? " transposed" : "", (long long)va.shape[1],
                       (long long)vb.shape[0]);
  const rdt_tensor y = p ? *out : (rdt_tensor){.dtype = ta->dtype, .rank = 2, .shape = {va.shape[0], vb.shape[1]}};
  RDT_TRY(addend(a, &y, beta, &e, why));
  *out = y;
  if (!p) return RDT_OK;
  RDT_TRY(rdt_problem_init(p, RDT_KOP_GEMM, 2));
  p->acc = rdt_op_accumulator(ta->dtype);
  p->in[0] = va;
  p->in[1] = vb;
  p->out = *out;
  p->epilogue = e;
  p->epilogue.act = a->n->act;
  if (a->n->scale != 0.0) p->epilogue.alpha *= a->n->scale;
  return RDT_OK;
}
