#include "core/tensor.h"

#include <stdio.h>
#include <string.h>

static const rdt_dtype_row rows[] = {
#define X(id, name, bytes, u, min_normal, onnx, npy) [RDT_##id] = {name, bytes, u, min_normal, onnx, npy},
#include "core/dtypes.def"
#undef X
};

const rdt_dtype_row *rdt_dtype_info(rdt_dtype t) {
  return (unsigned)t < RDT_DTYPE_COUNT ? &rows[t] : NULL;
}

size_t rdt_dtype_size(rdt_dtype t) {
  return (unsigned)t < RDT_DTYPE_COUNT ? rows[t].bytes : 0;
}

const char *rdt_dtype_name(rdt_dtype t) {
  return (unsigned)t < RDT_DTYPE_COUNT ? rows[t].name : "unknown";
}

bool rdt_dtype_is_float(rdt_dtype t) {
  return (unsigned)t < RDT_DTYPE_COUNT && rows[t].u > 0.0;
}

bool rdt_dtype_is_half(rdt_dtype t) {
  return t == RDT_BF16 || t == RDT_F16;
}

bool rdt_dtype_is_f8(rdt_dtype t) {
  return t == RDT_F8E4M3 || t == RDT_F8E5M2;
}

rdt_dtype rdt_dtype_find(const char *name) {
  int t = 0;
  while (t < RDT_DTYPE_COUNT && strcmp(rows[t].name, name) != 0) t++;
  return (rdt_dtype)t;
}

int64_t rdt_tensor_offset(const rdt_tensor *t, int64_t e) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; e /= t->shape[d--]) offset += e % t->shape[d] * t->stride[d];
  return offset;
}

rdt_tensor rdt_tensor_dense(void *data, rdt_dtype dtype, int rank, const int64_t *shape) {
  rdt_tensor t = {.data = data, .dtype = dtype, .rank = rank};
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    t.shape[d] = shape[d];
    t.stride[d] = stride;
    if (shape[d] > 0 && __builtin_mul_overflow(stride, shape[d], &stride)) stride = 0; /* rdt_tensor_check refuses it */
  }
  return t;
}

rdt_tensor rdt_tensor_matrix(void *data, rdt_dtype dtype, int64_t rows_, int64_t cols, int64_t ld, int trans) {
  rdt_tensor t = {.data = data, .dtype = dtype, .rank = 2};
  t.shape[0] = trans ? cols : rows_;
  t.shape[1] = trans ? rows_ : cols;
  t.stride[0] = trans ? 1 : ld;
  t.stride[1] = trans ? ld : 1;
  return t;
}

rdt_tensor rdt_tensor_channels_last(void *data, rdt_dtype dtype, int rank, const int64_t *shape) {
  rdt_tensor t = rdt_tensor_dense(data, dtype, rank, shape);
  t.stride[1] = 1;
  int64_t stride = shape[1];
  for (int d = rank - 1; d >= 2; stride *= shape[d--]) t.stride[d] = stride;
  t.stride[0] = stride;
  return t;
}

int64_t rdt_tensor_count(const rdt_tensor *t) {
  int64_t n = 1;
  bool zero = false;
  if (t->rank < 0 || t->rank > RDT_MAX_RANK) return -1;
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] < 0) return -1;
    if (t->shape[d] == 0)
      zero = true; /* the other dimensions are still looked at */
    else if (__builtin_mul_overflow(n, t->shape[d], &n))
      return -1;
  }
  return zero ? 0 : n;
}

/* Is the memory order given by dims (outermost first) gapless? */
static bool packed_in_order(const rdt_tensor *t, const int *dims) {
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    const int d = dims[i];
    if (t->shape[d] != 1 && t->stride[d] != stride) return false;
    stride *= t->shape[d];
  }
  return true;
}

bool rdt_tensor_is_dense(const rdt_tensor *t) {
  int dims[RDT_MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = d;
  return rdt_tensor_count(t) == 0 || packed_in_order(t, dims);
}

bool rdt_tensor_is_channels_last(const rdt_tensor *t) {
  int dims[RDT_MAX_RANK] = {0};
  if (t->rank != 4 && t->rank != 5) return false;
  for (int d = 1; d < t->rank; d++) dims[d] = d + 1 < t->rank ? d + 1 : 1;
  return rdt_tensor_count(t) == 0 || packed_in_order(t, dims);
}

bool rdt_tensor_is_packed(const rdt_tensor *t) {
  int dims[RDT_MAX_RANK];
  if (rdt_tensor_count(t) == 0) return true;
  for (int d = 0; d < t->rank; d++) { /* insertion sort by stride, largest first; dimensions of length 1 last */
    int i = d;
    while (i > 0 && (t->shape[dims[i - 1]] == 1 || (t->shape[d] != 1 && t->stride[dims[i - 1]] < t->stride[d]))) {
      dims[i] = dims[i - 1];
      i--;
    }
    dims[i] = d;
  }
  return packed_in_order(t, dims);
}

bool rdt_tensor_same_shape(const rdt_tensor *a, const rdt_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return true;
}

bool rdt_tensor_same_strides(const rdt_tensor *a, const rdt_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if ((a->shape[d] != 1 || b->shape[d] != 1) && a->stride[d] != b->stride[d]) return false;
  return true;
}

rdt_status rdt_tensor_check(const rdt_tensor *t, const char *what, rdt_reason *why) {
  if (!t) return rdt_fail(why, RDT_ERR_ARG, "%s: no tensor given", what);
  if (!rdt_dtype_info(t->dtype)) return rdt_fail(why, RDT_ERR_DTYPE, "%s: unknown datatype %d", what, (int)t->dtype);
  if (t->rank < 0 || t->rank > RDT_MAX_RANK)
    return rdt_fail(why, RDT_ERR_SHAPE, "%s: rank %d is not within 0..%d", what, t->rank, RDT_MAX_RANK);
  for (int d = 0; d < t->rank; d++)
    if (t->shape[d] < 0)
      return rdt_fail(why, RDT_ERR_SHAPE, "%s: dimension %d is negative (%lld)", what, d, (long long)t->shape[d]);
  const int64_t count = rdt_tensor_count(t);
  if (count < 0 || count > PTRDIFF_MAX / (int64_t)rdt_dtype_size(t->dtype))
    return rdt_fail(why, RDT_ERR_SHAPE, "%s: the dimensions overflow the address space", what);
  int64_t reach = 0; /* of the outermost element, in elements */
  for (int d = 0; d < t->rank && count > 0; d++) {
    const int64_t stride = t->stride[d] < 0 ? -t->stride[d] : t->stride[d];
    int64_t far;
    if (t->stride[d] == INT64_MIN || __builtin_mul_overflow(t->shape[d] - 1, stride, &far) ||
        __builtin_add_overflow(reach, far, &reach) || reach > PTRDIFF_MAX / (int64_t)rdt_dtype_size(t->dtype))
      return rdt_fail(why, RDT_ERR_SHAPE, "%s: stride %d overflows the address space", what, d);
  }
  return RDT_OK;
}

char *rdt_tensor_text(const rdt_tensor *t, char *buf, size_t size) {
  size_t used = 0;
  if (size == 0) return buf;
  buf[0] = '\0';
  for (int d = 0; d < t->rank && used < size; d++) {
    const int n = t->shape[d] < 0 ? snprintf(buf + used, size - used, d ? "x?" : "?")
                                  : snprintf(buf + used, size - used, d ? "x%lld" : "%lld", (long long)t->shape[d]);
    used += (size_t)n;
  }
  if (used < size) snprintf(buf + used, size - used, used ? " %s" : "scalar %s", rdt_dtype_name(t->dtype));
  return buf;
}

rdt_status rdt_tensor_broadcast(const rdt_tensor *t, int rank, const int64_t *shape, rdt_tensor *out, rdt_reason *why) {
  rdt_tensor r = {.data = t->data, .dtype = t->dtype, .rank = rank};
  for (int d = 0; d < rank; d++) {
    const int from = d - (rank - t->rank);
    r.shape[d] = shape[d];
    r.stride[d] = from < 0 || (t->shape[from] == 1 && shape[d] != 1) ? 0 : t->stride[from];
    if (from >= 0 && t->shape[from] != 1 && t->shape[from] != shape[d]) {
      char a[96], b[96];
      const rdt_tensor target = rdt_tensor_dense(NULL, t->dtype, rank, shape);
      return rdt_fail(why, RDT_ERR_SHAPE, "%s does not broadcast to %s", rdt_tensor_text(t, a, sizeof a),
                      rdt_tensor_text(&target, b, sizeof b));
    }
  }
  if (t->rank > rank) return rdt_fail(why, RDT_ERR_SHAPE, "rank %d does not broadcast to rank %d", t->rank, rank);
  *out = r;
  return RDT_OK;
}

rdt_iter rdt_iter_begin(const rdt_tensor *t) {
  rdt_iter it = {.t = t, .done = rdt_tensor_count(t) <= 0};
  return it;
}

bool rdt_iter_next(rdt_iter *it) {
  if (it->done) return false;
  if (!it->started) return it->started = true;
  for (int d = it->t->rank - 1; d >= 0; d--) {
    it->offset += it->t->stride[d];
    if (++it->index[d] < it->t->shape[d]) return true;
    it->offset -= it->t->stride[d] * it->t->shape[d];
    it->index[d] = 0;
  }
  it->done = true;
  return false;
}

void rdt_tensor_copy(const rdt_tensor *from, const rdt_tensor *to) {
  const size_t size = rdt_dtype_size(from->dtype);
  if (rdt_tensor_is_packed(from) && memcmp(from->stride, to->stride, (size_t)from->rank * sizeof *from->stride) == 0) {
    memcpy(to->data, from->data, (size_t)rdt_tensor_count(from) * size);
    return;
  }
  rdt_iter in = rdt_iter_begin(from), out = rdt_iter_begin(to);
  while (rdt_iter_next(&in) && rdt_iter_next(&out))
    memcpy((unsigned char *)to->data + out.offset * (int64_t)size,
           (const unsigned char *)from->data + in.offset * (int64_t)size, size);
}
