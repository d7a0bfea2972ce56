/* Shapes and datatypes of the ops that move elements by indices, tables and conditions, and of those that resample and
 * run along an axis. */
#include "core/problem.h"

bool rdt_kop_moves(rdt_kop op) {
  return op == RDT_KOP_GATHER || op == RDT_KOP_SCATTER || op == RDT_KOP_PAD || op == RDT_KOP_TRIANGLE;
}

/* ints as GATHER and SCATTER have them: target's dimensions, each by an index or along one of listed's, within it. */
static bool index_lists_fit(const rdt_problem *p, const rdt_tensor *target, const rdt_tensor *listed, int indices) {
  bool used[RDT_MAX_RANK] = {false};
  for (int k = 0; k < RDT_MAX_RANK; k++) {
    const int64_t axis = p->ints[k];
    if (k >= indices ? axis >= 0 : axis < 0 || axis >= target->rank || used[axis]) return false;
    if (k < indices) used[axis] = true;
  }
  for (int d = 0; d < listed->rank; d++) {
    const int64_t axis = p->ints[RDT_MAX_RANK + d];
    if (axis < 0) continue;
    if (axis >= target->rank || used[axis] || listed->shape[d] > target->shape[axis]) return false;
    used[axis] = true;
  }
  for (int d = 0; d < target->rank; d++)
    if (!used[d]) return false;
  return true;
}

static rdt_status check_gather(const rdt_problem *p, rdt_reason *why) {
  char tx[96], ty[96];
  bool ok = p->n_in >= 2 && p->n_in <= 1 + RDT_MAX_RANK && p->in[0].dtype == p->out.dtype;
  for (int k = 1; ok && k < p->n_in; k++)
    ok = rdt_tensor_same_shape(&p->in[k], &p->out) && (p->in[k].dtype == RDT_S32 || p->in[k].dtype == RDT_S64);
  if (ok && index_lists_fit(p, &p->in[0], &p->out, p->n_in - 1)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_SHAPE, "gather of %s to %s by %d indices does not fit",
                  rdt_tensor_text(&p->in[0], tx, sizeof tx), rdt_tensor_text(&p->out, ty, sizeof ty), p->n_in - 1);
}

static rdt_status check_scatter(const rdt_problem *p, rdt_reason *why) {
  char tx[96], ty[96];
  bool ok = p->n_in >= 3 && p->n_in <= 2 + RDT_MAX_RANK && rdt_tensor_same_shape(&p->in[0], &p->out) &&
            p->in[0].dtype == p->out.dtype && p->in[1].dtype == p->out.dtype &&
            (p->fn == RDT_FN_NONE || (p->out.dtype != RDT_BOOL && (p->fn == RDT_FN_ADD || p->fn == RDT_FN_MUL ||
                                                                   p->fn == RDT_FN_MIN || p->fn == RDT_FN_MAX)));
  for (int k = 2; ok && k < p->n_in; k++)
    ok = rdt_tensor_same_shape(&p->in[k], &p->in[1]) && (p->in[k].dtype == RDT_S32 || p->in[k].dtype == RDT_S64);
  if (ok && index_lists_fit(p, &p->out, &p->in[1], p->n_in - 2)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_SHAPE, "scatter of %s into %s by %d indices does not fit",
                  rdt_tensor_text(&p->in[p->n_in > 1], tx, sizeof tx), rdt_tensor_text(&p->out, ty, sizeof ty),
                  p->n_in - 2);
}

static rdt_status check_pad(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *y = &p->out;
  bool ok = p->n_in <= 2 && x->dtype == y->dtype && x->rank == y->rank && p->mode >= 0 && p->mode <= RDT_PAD_WRAP;
  if (p->n_in == 2) ok = ok && p->in[1].dtype == y->dtype && p->in[1].rank == 0;
  for (int d = 0; ok && d < y->rank; d++) {
    int64_t length;
    ok = !__builtin_add_overflow(x->shape[d], p->ints[d], &length) &&
         !__builtin_add_overflow(length, p->ints[RDT_MAX_RANK + d], &length) && length == y->shape[d] &&
         (p->mode == RDT_PAD_CONSTANT || x->shape[d] > 0 || y->shape[d] == 0);
  }
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_SHAPE, "pad: the pads do not take the operand to the result");
}

static rdt_status check_resize(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *y = &p->out;
  int resized = 0;
  bool ok = p->n_in == 1 && x->dtype == y->dtype && x->rank == y->rank && p->mode >= RDT_RESIZE_NEAREST &&
            p->mode <= RDT_RESIZE_CUBIC && p->ints[0] >= RDT_HALF_PIXEL && p->ints[0] <= RDT_TF_HALF_PIXEL_FOR_NN &&
            p->ints[1] >= RDT_PREFER_FLOOR && p->ints[1] <= RDT_ROUND_CEIL &&
            (p->mode == RDT_RESIZE_NEAREST || x->dtype != RDT_BOOL);
  for (int d = 0; ok && d < x->rank; d++) {
    ok = p->scale[d] > 0 && p->scale[d] < 0x1p31 && (x->shape[d] > 0 || y->shape[d] == 0);
    resized += x->shape[d] != y->shape[d] || p->scale[d] != 1;
  }
  if (ok && p->mode == RDT_RESIZE_CUBIC && resized > 3)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "cubic resize of %d dimensions; at most 3 are available", resized);
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_SHAPE, "resize: the scales do not take the operand to the result");
}

static rdt_status check_line(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *y = &p->out;
  const bool top = p->op == RDT_KOP_TOPK;
  bool ok = p->n_in == 1 && x->rank == y->rank && p->axis >= 0 && p->axis < x->rank && x->dtype != RDT_BOOL &&
            y->dtype == (top ? RDT_S64 : x->dtype);
  for (int d = 0; ok && d < x->rank; d++)
    ok = top && d == p->axis ? y->shape[d] <= x->shape[d] : y->shape[d] == x->shape[d];
  return ok ? RDT_OK
            : rdt_fail(why, RDT_ERR_SHAPE, "%s along axis %d: shapes or datatypes do not fit", rdt_kop_name(p->op),
                       p->axis);
}

rdt_status rdt_problem_check_moves(const rdt_problem *p, rdt_reason *why) {
  switch (p->op) {
    case RDT_KOP_GATHER:
      return check_gather(p, why);
    case RDT_KOP_SCATTER:
      return check_scatter(p, why);
    case RDT_KOP_PAD:
      return check_pad(p, why);
    case RDT_KOP_TRIANGLE:
      if (p->n_in == 1 && p->out.rank >= 2 && p->in[0].dtype == p->out.dtype &&
          rdt_tensor_same_shape(&p->in[0], &p->out))
        return RDT_OK;
      return rdt_fail(why, RDT_ERR_SHAPE, "triangle takes matrices to matrices alike");
    case RDT_KOP_RESIZE:
      return check_resize(p, why);
    case RDT_KOP_CUMSUM:
    case RDT_KOP_TOPK:
      return check_line(p, why);
    default:
      return rdt_fail(why, RDT_ERR_INTERNAL, "%s moves nothing", rdt_kop_name(p->op));
  }
}
