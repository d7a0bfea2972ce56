/* OneHot, Compress, ReverseSequence, LRN and the pools of powers, as other operators put together. */
#include <string.h>

#include "net/expand.h"
#include "net/ops/ops.h"

static int ints(rdt_builder *b, const char *what, int64_t n, const int64_t *values) {
  return rdt_build_constant(b, what, RDT_S64, 1, &n, values);
}

static int number(rdt_builder *b, const char *what, int64_t value) {
  return rdt_build_constant(b, what, RDT_S64, 0, NULL, &value);
}

/* Squeeze and Unsqueeze, whose axes were an attribute before opset 13. */
static int with_axis(rdt_builder *b, const char *op, const char *what, int v, int64_t axis) {
  if (b->g->opset >= 13) return rdt_build(b, op, what, v, ints(b, "axes", 1, &axis));
  const int y = rdt_build(b, op, what, v);
  rdt_build_ints(b, "axes", 1, &axis);
  return y;
}

static double real(rdt_builder *b, const char *name, double def) {
  const rdt_attr *t = rdt_node_attr(&b->from, name);
  if (t && t->type != RDT_ATTR_FLOAT) rdt_build_fail(b, RDT_ERR_FORMAT, "an attribute must be a float");
  return t ? t->f : def;
}

static int64_t whole(rdt_builder *b, const char *name, int64_t def) {
  const rdt_attr *t = rdt_node_attr(&b->from, name);
  if (t && t->type != RDT_ATTR_INT) rdt_build_fail(b, RDT_ERR_FORMAT, "an attribute must be an integer");
  return rdt_node_int(&b->from, name, def);
}

/* index == position ? on : off, where an index below 0 counts from the end. */
rdt_status rdt_expand_onehot(rdt_builder *b) {
  const int64_t axis = whole(b, "axis", -1);
  const int depth = rdt_build_in(b, 1), values = rdt_build_in(b, 2);
  const int index = with_axis(b, "Unsqueeze", "index", rdt_build_in(b, 0), axis);
  int at = rdt_build(b, "Positions", "positions", rdt_build(b, "Shape", "shape", index), depth);
  rdt_build_int(b, "axis", axis);
  at = rdt_build(b, "CastLike", "classes", at, index);
  const int behind = rdt_build(b, "Add", "from_the_end", index, rdt_build(b, "CastLike", "depth", depth, index));
  const int low = rdt_build(b, "Less", "negative", index, rdt_build_like(b, "zero", 0, index));
  const int hot = rdt_build(b, "Equal", "hot", rdt_build(b, "Where", "counted", low, behind, index), at);
  const int off = rdt_build(b, "Gather", "off", values, number(b, "first", 0));
  const int on = rdt_build(b, "Gather", "on", values, number(b, "second", 1));
  b->result = rdt_build(b, "Where", "values", hot, on, off);
  return b->status;
}

rdt_status rdt_expand_compress(rdt_builder *b) {
  const int64_t all = -1, axis = whole(b, "axis", 0);
  int x = rdt_build_in(b, 0);
  if (!rdt_node_attr(&b->from, "axis")) x = rdt_build(b, "Reshape", "flat", x, ints(b, "all", 1, &all));
  const int chosen = rdt_build(b, "NonZero", "chosen", rdt_build_in(b, 1));
  b->result = rdt_build(b, "Gather", "kept", x, with_axis(b, "Squeeze", "list", chosen, 0));
  rdt_build_int(b, "axis", axis);
  return b->status;
}

/* Element t of sequence b comes from length - 1 - t where t is within the length. */
rdt_status rdt_expand_reverse(rdt_builder *b) {
  const int64_t time = whole(b, "time_axis", 0), batch = whole(b, "batch_axis", 1);
  const int x = rdt_build_in(b, 0), one = number(b, "one", 1), zero = number(b, "zero", 0);
  if (time < 0 || time > 1 || batch != 1 - time)
    return rdt_build_fail(b, RDT_ERR_FORMAT, "time_axis and batch_axis must be 0 and 1");
  const int shape = rdt_build(b, "Shape", "shape", x);
  const int length = rdt_build(b, "Gather", "length", shape, number(b, "time_axis", time));
  const int count = rdt_build(b, "Gather", "count", shape, number(b, "batch_axis", batch));
  const int t = with_axis(b, "Unsqueeze", "times", rdt_build(b, "Range", "time", zero, length, one), batch);
  const int each = with_axis(b, "Unsqueeze", "sequences", rdt_build(b, "Range", "batch", zero, count, one), time);
  const int n = with_axis(b, "Unsqueeze", "lengths", rdt_build_in(b, 1), time);
  const int back = rdt_build(b, "Sub", "back", rdt_build(b, "Sub", "end", n, one), t);
  const int from = rdt_build(b, "Where", "from", rdt_build(b, "Less", "within", t, n), back, t);
  const int same = rdt_build(b, "Add", "sequence", rdt_build(b, "Mul", "nothing", from, zero), each);
  const int row = with_axis(b, "Unsqueeze", "row", time == 0 ? from : same, -1);
  const int column = with_axis(b, "Unsqueeze", "column", time == 0 ? same : from, -1);
  const int place = rdt_build(b, "Concat", "places", row, column);
  rdt_build_int(b, "axis", -1);
  b->result = rdt_build(b, "GatherND", "reversed", x, place);
  return b->status;
}

/* x / (bias + alpha mean)^beta: the mean of the squares of `size` channels, a pool along the channels. */
rdt_status rdt_expand_lrn(rdt_builder *b) {
  const int64_t size = whole(b, "size", 0), image[4] = {0, 0, 0, -1};
  const double alpha = real(b, "alpha", 1e-4), beta = real(b, "beta", 0.75), bias = real(b, "bias", 1);
  const int x = rdt_build_in(b, 0);
  if (size < 1) return rdt_build_fail(b, RDT_ERR_FORMAT, "attribute size must be a positive integer");
  const int square = rdt_build(b, "Mul", "squares", x, x);
  const int apart = with_axis(b, "Unsqueeze", "channels", square, 1);
  const int rows = rdt_build(b, "Reshape", "rows", apart, ints(b, "image", 4, image));
  const int mean = rdt_build(b, "AveragePool", "mean", rows);
  rdt_build_ints(b, "kernel_shape", 2, (const int64_t[]){size, 1});
  rdt_build_ints(b, "pads", 4, (const int64_t[]){(size - 1) / 2, 0, size / 2, 0});
  rdt_build_int(b, "count_include_pad", 1);
  const int back = rdt_build(b, "Reshape", "means", mean, rdt_build(b, "Shape", "shape", x));
  const int sum =
      rdt_build(b, "Add", "biased", rdt_build(b, "Mul", "scaled", back, rdt_build_like(b, "alpha", alpha, x)),
                rdt_build_like(b, "bias", bias, x));
  b->result = rdt_build(b, "Div", "normed", x, rdt_build(b, "Pow", "power", sum, rdt_build_like(b, "beta", beta, x)));
  return b->status;
}

/* The sum of |x|^p is the mean of it, zeros of the padding counted, times the elements of the window. */
rdt_status rdt_expand_lppool(rdt_builder *b) {
  static const char *const kept[] = {"auto_pad", "kernel_shape", "pads", "strides", "dilations", "p", "ceil_mode"};
  const bool global = strcmp(b->from.op->name, "GlobalLpPool") == 0;
  const int64_t p = whole(b, "p", 2);
  const rdt_attr *kernel = rdt_node_attr(&b->from, "kernel_shape");
  const int x = rdt_build_in(b, 0);
  double cells = 1;
  if (p < 1 || whole(b, "ceil_mode", 0) != 0)
    return rdt_build_fail(b, RDT_ERR_UNSUPPORTED, "takes p of 1 and more, and no ceil_mode");
  if (!global && (!kernel || kernel->type != RDT_ATTR_INTS))
    return rdt_build_fail(b, RDT_ERR_FORMAT, "attribute kernel_shape must be a list of integers");
  for (int i = 0; i < b->from.n_attrs; i++) {
    bool known = false;
    for (int k = 0; k < 7; k++) known = known || strcmp(b->from.attrs[i].name, kept[k]) == 0;
    if (!known) return rdt_build_fail(b, RDT_ERR_FORMAT, "has an attribute that it does not take");
  }
  const int raised =
      rdt_build(b, "Pow", "raised", rdt_build(b, "Abs", "magnitudes", x), rdt_build_like(b, "p", (double)p, x));
  const int mean = rdt_build(b, global ? "GlobalAveragePool" : "AveragePool", "mean", raised);
  int count = -1;
  if (global) {
    count =
        rdt_build(b, "CastLike", "cells",
                  rdt_build(b, "Div", "count", rdt_build(b, "Size", "all", x), rdt_build(b, "Size", "means", mean)), x);
  } else {
    rdt_build_same_attrs(b);
    rdt_build_int(b, "count_include_pad", 1);
    for (int i = 0; i < kernel->n; i++) cells *= (double)kernel->ints[i];
    count = rdt_build_like(b, "cells", cells, x);
  }
  b->result =
      rdt_build(b, "Pow", "root", rdt_build(b, "Mul", "sum", mean, count), rdt_build_like(b, "1/p", 1 / (double)p, x));
  return b->status;
}
