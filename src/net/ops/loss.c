/* Losses of a training graph that stayed in the model: weighted means of -p at the target class. */
#include <string.h>

#include "net/expand.h"
#include "net/ops/ops.h"

/* Class `target` along axis 1 of p, of the target's shape. */
static int picked(rdt_builder *b, int p, int target) {
  const int64_t one = 1;
  const int axis = rdt_build_constant(b, "axis", RDT_S64, 1, &one, &one);
  const int at = rdt_build(b, "GatherElements", "picked", p, rdt_build(b, "Unsqueeze", "target", target, axis));
  rdt_build_int(b, "axis", 1);
  return rdt_build(b, "Squeeze", "values", at, axis);
}

static int reduced(rdt_builder *b, const char *op, const char *what, int v) {
  const int y = rdt_build(b, op, what, v);
  rdt_build_int(b, "keepdims", 0);
  return y;
}

/* p (log of probabilities, or scores), target[, weight of each class]; output 1 of a softmax loss: the logs. */
rdt_status rdt_expand_loss(rdt_builder *b) {
  const rdt_attr *ignore = rdt_node_attr(&b->from, "ignore_index"), *how = rdt_node_attr(&b->from, "reduction");
  const char *reduction = how ? how->s : "mean";
  const int x = rdt_build_in(b, 0), weight = rdt_build_in(b, 2);
  int p = x, target = rdt_build_in(b, 1), ignored = -1, w = -1;
  if ((how && how->type != RDT_ATTR_STRING) || (ignore && ignore->type != RDT_ATTR_INT))
    return rdt_build_fail(b, RDT_ERR_FORMAT, "attribute reduction must be a string, ignore_index an integer");
  if (strcmp(reduction, "none") != 0 && strcmp(reduction, "sum") != 0 && strcmp(reduction, "mean") != 0)
    return rdt_build_fail(b, RDT_ERR_FORMAT, "attribute reduction must be none, sum or mean");
  if (strcmp(b->from.op->name, "SoftmaxCrossEntropyLoss") == 0) {
    p = rdt_build(b, "LogSoftmax", "log_prob", x);
    rdt_build_int(b, "axis", 1);
    b->result = p;
    if (b->from.output == 1) return b->status;
  }
  if (ignore) {
    ignored = rdt_build(b, "Equal", "ignored", target, rdt_build_like(b, "index", (double)ignore->i, target));
    target = rdt_build(b, "Where", "counted", ignored, rdt_build_like(b, "first", 0, target), target);
  }
  if (weight >= 0) w = rdt_build(b, "Gather", "weight", weight, target);
  if (ignore)
    w = rdt_build(b, "Where", "weights", ignored, rdt_build_like(b, "zero", 0, x),
                  w >= 0 ? w : rdt_build_like(b, "one", 1, x));
  int y = rdt_build(b, "Neg", "each", picked(b, p, target));
  if (w >= 0) y = rdt_build(b, "Mul", "weighted", y, w);
  if (strcmp(reduction, "sum") == 0 || (strcmp(reduction, "mean") == 0 && w >= 0))
    y = reduced(b, "ReduceSum", "sum", y);
  if (strcmp(reduction, "mean") == 0)
    y = w >= 0 ? rdt_build(b, "Div", "mean", y, reduced(b, "ReduceSum", "total", w))
               : reduced(b, "ReduceMean", "mean", y);
  b->result = y;
  return b->status;
}
