#include "cuda/ops/attention.h"

#include <string.h>

static const rdt_tensor *scores_of(const rdt_attention_steps *s) {
  return &s->scores->out;
}

static rdt_status refuse(rdt_reason *why, const char *text) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "attention: %s", text);
}

/* The same elements at the same places. */
static bool is_same(const rdt_tensor *a, const rdt_tensor *b) {
  return a->data == b->data && a->dtype == b->dtype && rdt_tensor_same_shape(a, b) && rdt_tensor_same_strides(a, b);
}

static bool is_plain(const rdt_epilogue *e) {
  return e->act.fn == RDT_FN_NONE && e->bias.rank < 0 && e->factor.rank < 0;
}

/* Does the group compute what one launch does? */
static rdt_status check_steps(const rdt_attention_steps *s, rdt_reason *why) {
  const rdt_tensor *scores = scores_of(s), *weights = &s->softmax->out;
  const int r = scores->rank;
  if (s->scores->op != RDT_KOP_GEMM || s->mix->op != RDT_KOP_GEMM || s->softmax->op != RDT_KOP_SOFTMAX)
    return refuse(why, "no softmax between two products");
  if (!rdt_dtype_is_half(scores->dtype) || scores->dtype != s->scores->in[0].dtype ||
      scores->dtype != s->mix->in[1].dtype || scores->dtype != s->mix->out.dtype)
    return refuse(why, "numbers of 16 bits throughout");
  if (s->softmax->fn != RDT_FN_NONE || s->softmax->axis != r - 1 || !is_same(scores, &s->softmax->in[0]) ||
      !is_same(weights, &s->mix->in[0]))
    return refuse(why, "the softmax is one of rows, whose results are multiplied");
  if (r < 2 || r > 4 || s->mix->out.rank != r) return refuse(why, "one matrix, or batches of heads");
  if (!is_plain(&s->scores->epilogue) || !rdt_epilogue_is_none(&s->mix->epilogue))
    return refuse(why, "something else follows a product");
  const rdt_tensor *mask = &s->scores->epilogue.residual;
  if (mask->rank >= 0 && mask->dtype != scores->dtype) return refuse(why, "a mask of another datatype");
  return RDT_OK;
}

/* The strides of a matrix of each head; false: numbers of a row do not lie side by side, in 16 bytes at a time. */
static bool view_of(const rdt_tensor *t, int row, int side, rdt_attention_view *v) {
  const int r = t->rank;
  *v = (rdt_attention_view){.data = t->data, .row = t->stride[row]};
  if (r > 2 && t->shape[r - 3] > 1) v->head = t->stride[r - 3];
  if (r > 3 && t->shape[r - 4] > 1) v->batch = t->stride[r - 4];
  if (t->shape[row] == 1) v->row = 0;
  const bool good = t->stride[side] == 1 && (uintptr_t)t->data % 16 == 0;
  return good && (v->row | v->head | v->batch) % 8 == 0 && v->row >= 0 && v->head >= 0 && v->batch >= 0 &&
         v->row * (t->shape[row] + RDT_ATTENTION_WIDE) < INT32_MAX;
}

/* Where the copy puts the results of the second product: their strides there. false: it does not take them as they are.
 */
static bool through(const rdt_problem *copy, const rdt_tensor *from, rdt_tensor *to) {
  const rdt_tensor *x = &copy->in[0];
  int used = 0, wanted = 0;
  if (copy->op != RDT_KOP_COPY || x->data != from->data || x->dtype != from->dtype || copy->out.dtype != from->dtype ||
      rdt_tensor_count(x) != rdt_tensor_count(from) || !rdt_tensor_is_packed(from))
    return false;
  *to = *from;
  to->data = copy->out.data;
  for (int d = 0; d < from->rank; d++) {
    if (from->shape[d] == 1) continue;
    int k = 0;
    while (k < x->rank && (x->shape[k] != from->shape[d] || x->stride[k] != from->stride[d])) k++;
    if (k == x->rank) return false;
    to->stride[d] = copy->out.stride[k];
    wanted++;
  }
  for (int k = 0; k < x->rank; k++) used += x->shape[k] > 1;
  return used == wanted;
}

static rdt_status fill_mask(const rdt_tensor *mask, rdt_gpu_attention *a, rdt_reason *why) {
  const int r = mask->rank;
  if (r < 0) return RDT_OK;
  a->mask.data = mask->data;
  a->mask.row = mask->shape[r - 2] > 1 ? mask->stride[r - 2] : 0;
  a->mask_key = mask->shape[r - 1] > 1 ? mask->stride[r - 1] : 0;
  if (r > 2 && mask->shape[r - 3] > 1) a->mask.head = mask->stride[r - 3];
  if (r > 3 && mask->shape[r - 4] > 1) a->mask.batch = mask->stride[r - 4];
  return a->mask_key >= 0 && a->mask_key < INT32_MAX ? RDT_OK : refuse(why, "a mask that runs backwards");
}

rdt_status rdt_attention_prepare(const rdt_attention_steps *s, int wide, rdt_gpu_attention *a, rdt_reason *why) {
  RDT_TRY(check_steps(s, why));
  const rdt_tensor *scores = scores_of(s);
  const int r = scores->rank;
  rdt_tensor out = s->mix->out;
  if (s->copy && !through(s->copy, &s->mix->out, &out))
    return refuse(why, "its result goes on in another order than one of dimensions");
  const int64_t depth = s->scores->in[0].shape[r - 1];
  *a = (rdt_gpu_attention){.dtype = (int32_t)scores->dtype,
                           .batches = (int32_t)(r > 3 ? scores->shape[0] : 1),
                           .heads = (int32_t)(r > 2 ? scores->shape[r - 3] : 1),
                           .queries = (int32_t)scores->shape[r - 2],
                           .keys = (int32_t)scores->shape[r - 1],
                           .depth = (int32_t)depth,
                           .rows = RDT_ATTENTION_WIDE,
                           .alpha = (float)s->scores->epilogue.alpha,
                           .beta = (float)s->scores->epilogue.beta};
  if (depth != out.shape[r - 1] || depth % 16 != 0 || depth < 16 || depth > RDT_ATTENTION_DEPTH)
    return refuse(why, "heads of 16, 32 .. 128 numbers");
  if (rdt_tensor_count(scores) == 0 ||
      rdt_tensor_count(scores) / scores->shape[r - 1] > INT32_MAX / RDT_ATTENTION_DEPTH ||
      scores->shape[r - 1] > INT32_MAX / 2)
    return refuse(why, "empty, or too large");
  if (depth > RDT_ATTENTION_WIDE_DEPTH || wide == 0 || rdt_attention_blocks(a) < wide) a->rows = RDT_ATTENTION_QUERIES;
  rdt_attention_view to;
  if (!view_of(&s->scores->in[0], r - 2, r - 1, &a->in[RDT_ATTENTION_Q]) ||
      !view_of(&s->scores->in[1], r - 1, r - 2, &a->in[RDT_ATTENTION_K]) ||
      !view_of(&s->mix->in[1], r - 2, r - 1, &a->in[RDT_ATTENTION_V]) || !view_of(&out, r - 2, r - 1, &to))
    return refuse(why, "numbers of a head do not lie side by side");
  a->out = to;
  a->base = out.data;
  return fill_mask(&s->scores->epilogue.residual, a, why);
}

int64_t rdt_attention_blocks(const rdt_gpu_attention *a) {
  const int64_t tiles = ((int64_t)a->queries + a->rows - 1) / a->rows;
  return tiles * a->heads * a->batches;
}

int64_t rdt_attention_grid(const rdt_gpu_attention *a) {
  return rdt_attention_blocks(a) * (a->check == RDT_OP_BOTH ? 2 : 1);
}

bool rdt_attention_marks(const rdt_gpu_attention *a, int which, const void *base, size_t bytes, unsigned char *seen) {
  const rdt_attention_view *v = &a->in[which];
  const int rows = which == RDT_ATTENTION_Q ? a->queries : a->keys;
  const int64_t begin = ((const char *)v->data - (const char *)base) / 2;
  for (int64_t b = 0; b < a->batches; b++)
    for (int64_t h = 0; h < a->heads; h++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < a->depth; d += 8) {
          const int64_t at = begin + b * v->batch + h * v->head + r * v->row + d;
          if (at < 0 || (size_t)at * 2 + 16 > bytes || seen[at / 8]) return false;
          seen[at / 8] = 1;
        }
  return true;
}
