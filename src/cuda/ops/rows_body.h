/* Softmax and norms of rows, computed in T; included by body.h with T, REAL(view, at), OF(x, dtype), NAME(x),
 * OWN(name) and KEPT, of a row's elements those that a thread keeps. */
BODY T NAME(in_row)(const rdt_gpu_op *a, const int64_t *row, uint32_t i) {
  int64_t at[RDT_OP_VIEWS_OF_ROWS];
  if (a->rank == a->outer + 1) return REAL(&a->view[1], row[1] + (int64_t)i * a->view[1].stride[a->outer]);
  rdt_op_row_at(a, row, i, at);
  return REAL(&a->view[1], at[1]);
}
BODY void NAME(keep)(const rdt_gpu_op *a, const int64_t *row, uint32_t me, uint32_t all, T *kept) {
  UNROLL for (uint32_t k = 0; k < KEPT; k++) kept[k] =
      me + k * all < a->inner ? NAME(in_row)(a, row, me + k * all) : (T)0;
}
BODY void NAME(softmax)(const rdt_gpu_op *a, uint32_t r, uint32_t me, uint32_t all, rdt_op_found *f) {
  int64_t row[4] = {0, 0, 0, 0}, at[4];
  T most = -INFINITY, kept[KEPT];
  double sum = 0.0; /* its rounding does not grow with the length, here and below */
  rdt_op_walk(a, 0, a->outer, r, row, 4);
  NAME(keep)(a, row, me, all, kept);
  RDT_OP_ROW(a, i, x, most = x > most || x != x ? x : most;)
  most = (T)rdt_op_together(most, RDT_OP_MOST);
  RDT_OP_ROW(a, i, x, sum += OWN(exp)(x - most);)
  sum = rdt_op_together(sum, RDT_OP_SUM);
  const int logarithm = a->fn == RDT_FN_LOGSOFTMAX;
  const T back = logarithm ? OWN(log)((T)sum) : (T)0, whole = (T)sum;
  RDT_OP_ROW(a, i, x, {
    rdt_op_row_at(a, row, i, at);
    const T d = x - most;
    rdt_op_take(a, f, r * a->inner + i, at[0], OF(logarithm ? d - back : OWN(exp)(d) / whole, a->view[0].dtype));
  })
}

/* What a row is multiplied with; sum: of its magnitudes or squares. */
BODY T NAME(norm_factor)(const rdt_gpu_op *a, double sum) {
  const double n = a->inner, epsilon = a->epsilon;
  switch (a->fn) {
    case RDT_FN_NORM_LAYER:
    case RDT_FN_NORM_RMS:
      return (T)(1.0 / sqrt_f64(sum / n + epsilon));
    case RDT_FN_NORM_MVN:
      return (T)(1.0 / (sqrt_f64(sum / n) + epsilon));
    default:
      if (a->fn == RDT_FN_NORM_L2) sum = sqrt_f64(sum);
      return sum == 0.0 ? (T)0 : (T)(1.0 / sum);
  }
}

/* Views: x[, gain[, shift]]. */
BODY void NAME(norm)(const rdt_gpu_op *a, uint32_t r, uint32_t me, uint32_t all, rdt_op_found *f) {
  int64_t row[4] = {0, 0, 0, 0}, at[4];
  double sum = 0.0;
  T centre = (T)0, factor, kept[KEPT];
  const double n = a->inner;
  rdt_op_walk(a, 0, a->outer, r, row, 4);
  NAME(keep)(a, row, me, all, kept);
  if (a->fn == RDT_FN_NORM_LAYER || a->fn == RDT_FN_NORM_MVN) {
    RDT_OP_ROW(a, i, x, sum += x;)
    centre = (T)(rdt_op_together(sum, RDT_OP_SUM) / n);
  }
  sum = 0.0;
  RDT_OP_ROW(a, i, x, {
    const T d = x - centre;
    sum += a->fn == RDT_FN_NORM_L1 ? OWN(fabs)(d) : (double)d * d;
  })
  factor = NAME(norm_factor)(a, rdt_op_together(sum, RDT_OP_SUM));
  RDT_OP_ROW(a, i, x, {
    rdt_op_row_at(a, row, i, at);
    T y = (x - centre) * factor;
    if (a->views > 2) y *= REAL(&a->view[2], at[2]);
    if (a->views > 3) y += REAL(&a->view[3], at[3]);
    rdt_op_take(a, f, r * a->inner + i, at[0], OF(y, a->view[0].dtype));
  })
}

#undef T
#undef REAL
#undef OF
#undef NAME
#undef OWN
#undef KEPT
