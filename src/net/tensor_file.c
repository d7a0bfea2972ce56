#include "net/tensor_file.h"

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/npy.h"
#include "net/scan.h"
#include "net/tensor_proto.h"

/* Elements of a Fortran-ordered body into row-major order. */
static void turn(const char *from, const rdt_tensor *to) {
  const size_t size = rdt_dtype_size(to->dtype);
  rdt_tensor view = *to;
  int64_t stride = 1;
  for (int d = 0; d < to->rank; d++) {
    view.stride[d] = stride;
    stride *= to->shape[d];
  }
  char *out = to->data;
  for (rdt_iter it = rdt_iter_begin(&view); rdt_iter_next(&it); out += size)
    memcpy(out, from + (size_t)it.offset * size, size);
}

static rdt_status take_body(const rdt_npy *h, const char *body, size_t bytes, const char *what, rdt_tensor *t,
                            rdt_reason *why) {
  const rdt_dtype dtype = h->dtype;
  *t = rdt_tensor_dense(NULL, dtype, h->rank, h->shape);
  RDT_TRY(rdt_tensor_check(t, what, why));
  const size_t expected = (size_t)rdt_tensor_count(t) * rdt_dtype_size(dtype);
  char text[96];
  rdt_tensor_text(t, text, sizeof text);
  if (bytes != expected)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %s takes %zu bytes, the file has %zu", what, text, expected, bytes);
  t->data = rdt_alloc(bytes, 1);
  if (!t->data) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for %s", what, text);
  if (h->fortran && h->rank > 1)
    turn(body, t);
  else if (bytes)
    memcpy(t->data, body, bytes);
  for (size_t i = 0; dtype == RDT_BOOL && i < bytes; i++)
    if (((const unsigned char *)t->data)[i] > 1) {
      rdt_free(t->data);
      t->data = NULL;
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: element %zu is neither true nor false", what, i);
    }
  return RDT_OK;
}

static rdt_status parse_npy(const void *data, size_t bytes, const char *what, rdt_tensor *t, rdt_reason *why) {
  rdt_npy h;
  RDT_TRY(rdt_npy_parse(data, bytes, what, &h, why));
  return take_body(&h, (const char *)data + h.offset, bytes - h.offset, what, t, why);
}

static rdt_status parse(const void *data, size_t bytes, const char *what, rdt_tensor *t, rdt_reason *why) {
  ProtobufCMessage *message;
  if (rdt_npy_is(data, bytes)) return parse_npy(data, bytes, what, t, why);
  if (bytes == 0) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the file is empty", what);
  if (bytes >= 4 && memcmp(data, "PK\x03\x04", 4) == 0)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: an archive (.npz); save each array with numpy.save", what);
  const rdt_status s = rdt_wire_unpack(&onnx__tensor_proto__descriptor, data, bytes, what, &message, why);
  if (s == RDT_ERR_FORMAT) return rdt_fail(why, s, "%.200s: neither a .npy file nor an ONNX TensorProto", what);
  RDT_TRY(s);
  const rdt_source source = {.message = data};
  rdt_origin at;
  const rdt_status status = rdt_tensor_of_proto((const Onnx__TensorProto *)message, &source, what, t, &at, why);
  rdt_wire_free(message);
  return status;
}

rdt_status rdt_tensor_file_parse(const void *data, size_t bytes, rdt_tensor *t, rdt_reason *why) {
  return parse(data, bytes, "tensor", t, why);
}

rdt_status rdt_tensor_file_read(const char *path, rdt_tensor *t, rdt_reason *why) {
  void *data;
  size_t bytes;
  char what[160];
  RDT_TRY(rdt_file_read(path, &data, &bytes, why));
  snprintf(what, sizeof what, "%s", path);
  const rdt_status status = parse(data, bytes, what, t, why);
  rdt_free(data);
  return status;
}

/* Row-major copy of a view, widened to f32 where NumPy has no such type; NULL without memory. */
static void *packed(const rdt_tensor *t, rdt_dtype dtype, size_t count) {
  const size_t size = rdt_dtype_size(dtype);
  char *out = rdt_alloc(count, size), *p = out;
  if (!out) return NULL;
  for (rdt_iter it = rdt_iter_begin(t); rdt_iter_next(&it); p += size) {
    if (dtype != t->dtype) {
      const float wide = (float)rdt_load(t->data, t->dtype, it.offset);
      memcpy(p, &wide, size);
    } else {
      memcpy(p, (const char *)t->data + it.offset * (int64_t)size, size);
    }
  }
  return out;
}

rdt_status rdt_npy_write(const char *path, const rdt_tensor *t, rdt_reason *why) {
  RDT_TRY(rdt_tensor_check(t, path, why));
  const rdt_dtype dtype = *rdt_dtype_info(t->dtype)->npy ? t->dtype : RDT_F32;
  const size_t count = (size_t)rdt_tensor_count(t), bytes = count * rdt_dtype_size(dtype);
  char head[RDT_NPY_HEAD];
  const size_t total = rdt_npy_head(head, dtype, t->rank, t->shape);
  if (rdt_tensor_is_dense(t) && dtype == t->dtype) return rdt_file_write(path, head, total, t->data, bytes, why);
  void *body = packed(t, dtype, count);
  if (!body) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for %zu bytes", path, bytes);
  const rdt_status status = rdt_file_write(path, head, total, body, bytes, why);
  rdt_free(body);
  return status;
}
