/* MatMul as numpy.matmul: batches broadcast, rank-1 operands are a row or a column. A dense left side with one matrix
 * on the right becomes a single tall product. */
#include "net/ops/ops.h"

/* Rank 1 as a matrix: a row (k) on the left, a column on the right. */
static rdt_tensor promoted(const rdt_tensor *t, bool left) {
  if (t->rank != 1) return *t;
  rdt_tensor v = {.data = t->data, .dtype = t->dtype, .rank = 2};
  v.shape[0] = left ? 1 : t->shape[0];
  v.shape[1] = left ? t->shape[0] : 1;
  v.stride[0] = left ? t->shape[0] : t->stride[0];
  v.stride[1] = left ? t->stride[0] : 1;
  return v;
}

/* The batch dimensions of an operand, broadcast to those of the product. */
static rdt_tensor with_batch(const rdt_tensor *t, int rank, const int64_t *batch) {
  rdt_tensor v = {.data = t->data, .dtype = t->dtype, .rank = rank};
  const int missing = rank - t->rank;
  for (int d = 0; d < rank; d++) {
    const int from = d - missing;
    const bool matrix = d >= rank - 2;
    v.shape[d] = matrix ? t->shape[from] : batch[d];
    v.stride[d] = from < 0 || (!matrix && t->shape[from] == 1) ? 0 : t->stride[from];
  }
  return v;
}

/* The output's (or residual's) view with the m and n dimensions that rank-1 operands took away. */
static rdt_tensor with_mn(const rdt_tensor *t, bool no_m, bool no_n) {
  rdt_tensor v = *t;
  if (no_m) {
    if (!no_n) {
      v.shape[v.rank] = v.shape[v.rank - 1];
      v.stride[v.rank] = v.stride[v.rank - 1];
      v.rank++;
      v.shape[v.rank - 2] = 1;
      v.stride[v.rank - 2] = 0;
      return v;
    }
    v.shape[v.rank] = 1;
    v.stride[v.rank++] = 0;
  }
  if (no_n) {
    v.shape[v.rank] = 1;
    v.stride[v.rank++] = 1;
  }
  return v;
}

static rdt_status infer(const rdt_op_args *a, const rdt_tensor *va, const rdt_tensor *vb, rdt_tensor *y,
                        int *batch_rank, int64_t *batch, rdt_reason *why) {
  const rdt_tensor *ta = rdt_op_in(a, 0), *tb = rdt_op_in(a, 1), *bias = rdt_op_in(a, 2);
  char sa[96], sb[96];
  rdt_tensor_text(ta, sa, sizeof sa);
  rdt_tensor_text(tb, sb, sizeof sb);
  if (ta->rank < 1 || tb->rank < 1)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "A %s, B %s: scalars have no product here", sa, sb);
  if (va->shape[va->rank - 1] != vb->shape[vb->rank - 2])
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "A %s, B %s: k is %lld in A and %lld in B", sa, sb,
                       (long long)va->shape[va->rank - 1], (long long)vb->shape[vb->rank - 2]);
  rdt_tensor ba = *va, bb = *vb;
  ba.rank -= 2;
  bb.rank -= 2;
  if (!rdt_shape_broadcast(&ba, &bb, batch_rank, batch))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "A %s, B %s: the batch dimensions do not fit together", sa, sb);
  *y = (rdt_tensor){.dtype = rdt_dtype_is_float(ta->dtype) ? ta->dtype : RDT_S32, .rank = 0};
  for (int d = 0; d < *batch_rank; d++) y->shape[y->rank++] = batch[d];
  if (ta->rank > 1) y->shape[y->rank++] = va->shape[va->rank - 2];
  if (tb->rank > 1) y->shape[y->rank++] = vb->shape[vb->rank - 1];
  if (bias && (bias->rank != 1 || bias->shape[0] != vb->shape[vb->rank - 1]))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the fused bias %s for n = %lld", rdt_tensor_text(bias, sa, sizeof sa),
                       (long long)vb->shape[vb->rank - 1]);
  return RDT_OK;
}

static rdt_status product(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *ta = rdt_op_in(a, 0), *tb = rdt_op_in(a, 1), *bias = rdt_op_in(a, 2);
  const rdt_tensor va = promoted(ta, true), vb = promoted(tb, false);
  rdt_tensor y, residual;
  int batch_rank;
  int64_t batch[RDT_MAX_RANK];
  RDT_TRY(infer(a, &va, &vb, &y, &batch_rank, batch, why));
  if (p) y = *out;
  RDT_TRY(rdt_op_residual(a, &y, &residual, why));
  *out = y;
  if (!p) return RDT_OK;

  RDT_TRY(rdt_problem_init(p, RDT_KOP_GEMM, 2));
  p->acc = rdt_op_accumulator(ta->dtype);
  const int rank = batch_rank + 2;
  p->in[0] = with_batch(&va, rank, batch);
  p->in[1] = with_batch(&vb, rank, batch);
  p->out = with_mn(out, ta->rank == 1, tb->rank == 1);
  if (residual.rank >= 0) {
    p->epilogue.residual = with_mn(&residual, ta->rank == 1, tb->rank == 1);
    p->epilogue.beta = 1.0;
  }
  p->epilogue.act = a->n->act;
  if (a->n->scale != 0.0) p->epilogue.alpha = a->n->scale;
  if (bias) p->epilogue.bias = *bias;
  if (vb.rank == 2 && batch_rank > 0) { /* one product, where the strides allow it */
    rdt_tensor la, ly, lr = {.rank = -1};
    if (rdt_view_merge(&p->in[0], 0, rank - 1, &la) && rdt_view_merge(&p->out, 0, rank - 1, &ly) &&
        (residual.rank < 0 || rdt_view_merge(&p->epilogue.residual, 0, rank - 1, &lr))) {
      p->in[0] = la;
      p->in[1] = vb;
      p->out = ly;
      p->epilogue.residual = lr;
    }
  }
  return RDT_OK;
}

rdt_status rdt_op_matmul(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  return product(a, out, p, why);
}

rdt_status rdt_op_matmul_integer(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_byte_inputs(a, why));
  return product(a, out, p, why);
}

rdt_status rdt_op_integer_matmul(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_byte_inputs(a, why));
  RDT_TRY(product(a, out, p, why));
  return rdt_op_requantized(a, out, p, why);
}
