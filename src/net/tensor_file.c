#include "net/tensor_file.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"
#include "net/scan.h"
#include "net/tensor_proto.h"

static const char magic[] = "\x93NUMPY";

/* The header of a .npy file: a Python dictionary, read without an interpreter. */
typedef struct header {
  const char *p, *end;
  const char *what;
  rdt_reason *why;
  char descr[16];
  bool fortran;
  int rank;
  int64_t shape[RDT_MAX_RANK];
} header;

static rdt_status malformed(const header *h, const char *text) {
  return rdt_fail(h->why, RDT_ERR_FORMAT, "%.200s: the .npy header %s; save it again with numpy.save", h->what, text);
}

static void skip_blanks(header *h) {
  while (h->p < h->end && isspace((unsigned char)*h->p)) h->p++;
}

/* Takes c if it is next, after blanks. */
static bool take(header *h, char c) {
  skip_blanks(h);
  if (h->p == h->end || *h->p != c) return false;
  h->p++;
  return true;
}

static bool take_word(header *h, const char *word) {
  const size_t n = strlen(word);
  skip_blanks(h);
  if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n) != 0) return false;
  h->p += n;
  return true;
}

static bool take_string(header *h, char *out, size_t size) {
  const char quote = take(h, '\'') ? '\'' : '"';
  size_t n = 0;
  if (quote == '"' && !take(h, '"')) return false;
  while (h->p < h->end && *h->p != quote && n + 1 < size) out[n++] = *h->p++;
  out[n] = '\0';
  return h->p < h->end && *h->p++ == quote;
}

static rdt_status read_shape(header *h) {
  if (!take(h, '(')) return malformed(h, "has a shape that is no tuple");
  while (!take(h, ')')) {
    int64_t v = 0;
    if (h->p == h->end || !isdigit((unsigned char)*h->p))
      return malformed(h, "has a shape that is not made of lengths");
    while (h->p < h->end && isdigit((unsigned char)*h->p))
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->p++ - '0', &v))
        return rdt_fail(h->why, RDT_ERR_SHAPE, "%.200s: a dimension overflows", h->what);
    take(h, 'L'); /* Python 2 */
    if (h->rank == RDT_MAX_RANK)
      return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: more than %d dimensions are not available", h->what,
                      RDT_MAX_RANK);
    h->shape[h->rank++] = v;
    if (!take(h, ',')) {
      if (!take(h, ')')) return malformed(h, "has a shape that does not end");
      return RDT_OK;
    }
  }
  return RDT_OK;
}

static rdt_status read_entry(header *h, unsigned *seen) {
  char key[24];
  if (!take_string(h, key, sizeof key) || !take(h, ':')) return malformed(h, "is no dictionary");
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  int k = 0;
  while (k < 3 && strcmp(key, keys[k]) != 0) k++;
  if (k == 3 || (*seen & (1u << k))) return malformed(h, "has unknown or repeated entries");
  *seen |= 1u << k;
  if (k == 2) return read_shape(h);
  if (k == 1) {
    h->fortran = take_word(h, "True");
    return h->fortran || take_word(h, "False") ? RDT_OK
                                               : malformed(h, "has a fortran_order that is neither True nor False");
  }
  if (take(h, '['))
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: structured arrays are not available; save one field",
                    h->what);
  return take_string(h, h->descr, sizeof h->descr) ? RDT_OK : malformed(h, "has a descr that is no short string");
}

static rdt_status read_header(header *h) {
  unsigned seen = 0;
  if (!take(h, '{')) return malformed(h, "is no dictionary");
  while (!take(h, '}')) {
    RDT_TRY(read_entry(h, &seen));
    if (!take(h, ',') && (h->p == h->end || *h->p != '}')) return malformed(h, "does not end");
  }
  skip_blanks(h);
  if (h->p != h->end) return malformed(h, "goes on behind its end");
  return seen == 7 ? RDT_OK : malformed(h, "misses descr, fortran_order or shape");
}

static rdt_status dtype_of(const header *h, rdt_dtype *out) {
  const char *d = h->descr;
  const bool order = *d == '<' || *d == '>' || *d == '=' || *d == '|';
  const char *type = order ? d + 1 : d;
  if (*d == '>')
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED,
                    "%.200s: big-endian data ('%s') is not available; convert with a.astype(a.dtype.newbyteorder('<'))",
                    h->what, d);
  if (*type == 'O')
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: an array of Python objects; convert it to numbers first",
                    h->what);
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
    const char *npy = rdt_dtype_info((rdt_dtype)t)->npy;
    if (!*npy || strcmp(npy + 1, type) != 0) continue;
    *out = (rdt_dtype)t;
    return RDT_OK;
  }
  return rdt_fail(h->why, RDT_ERR_DTYPE, "%.200s: datatype '%s' is not available; take f8 f4 f2 i8 i4 i1 u1 or b1",
                  h->what, d);
}

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

static rdt_status take_body(const header *h, const char *body, size_t bytes, rdt_tensor *t) {
  rdt_dtype dtype = RDT_DTYPE_COUNT;
  RDT_TRY(dtype_of(h, &dtype));
  *t = rdt_tensor_dense(NULL, dtype, h->rank, h->shape);
  RDT_TRY(rdt_tensor_check(t, h->what, h->why));
  const size_t expected = (size_t)rdt_tensor_count(t) * rdt_dtype_size(dtype);
  char text[96];
  rdt_tensor_text(t, text, sizeof text);
  if (bytes != expected)
    return rdt_fail(h->why, RDT_ERR_FORMAT, "%.200s: %s takes %zu bytes, the file has %zu", h->what, text, expected,
                    bytes);
  t->data = rdt_alloc(bytes, 1);
  if (!t->data) return rdt_fail(h->why, RDT_ERR_NOMEM, "%.200s: no memory for %s", h->what, text);
  if (h->fortran && h->rank > 1)
    turn(body, t);
  else if (bytes)
    memcpy(t->data, body, bytes);
  for (size_t i = 0; dtype == RDT_BOOL && i < bytes; i++)
    if (((const unsigned char *)t->data)[i] > 1) {
      rdt_free(t->data);
      t->data = NULL;
      return rdt_fail(h->why, RDT_ERR_FORMAT, "%.200s: element %zu is neither true nor false", h->what, i);
    }
  return RDT_OK;
}

static rdt_status parse_npy(const unsigned char *data, size_t bytes, const char *what, rdt_tensor *t, rdt_reason *why) {
  header h = {.what = what, .why = why};
  const size_t fixed = sizeof magic - 1 + 2;
  if (bytes < fixed + 2) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy file is truncated", what);
  const int version = data[fixed - 2];
  if (version < 1 || version > 3)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: .npy version %d; 1 to 3 are available", what, version);
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  if (bytes < fixed + width) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy file is truncated", what);
  for (size_t i = 0; i < width; i++) length |= (size_t)data[fixed + i] << (8 * i);
  if (length > bytes - fixed - width)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy header is longer than the file", what);
  h.p = (const char *)data + fixed + width;
  h.end = h.p + length;
  const char *body = h.end;
  RDT_TRY(read_header(&h));
  return take_body(&h, body, bytes - fixed - width - length, t);
}

static rdt_status parse(const void *data, size_t bytes, const char *what, rdt_tensor *t, rdt_reason *why) {
  ProtobufCMessage *message;
  if (bytes >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0)
    return parse_npy(data, bytes, what, t, why);
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
  char head[384], shape[RDT_MAX_RANK * 22 + 2] = "";
  for (int d = 0, n = 0; d < t->rank; d++)
    n += snprintf(shape + n, sizeof shape - (size_t)n,
                  t->rank == 1 ? "%lld,"
                  : d          ? ", %lld"
                               : "%lld",
                  (long long)t->shape[d]);
  const int fixed = 10, text = snprintf(head + fixed, sizeof head - (size_t)fixed,
                                        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                                        rdt_dtype_info(dtype)->npy, shape);
  const int total = (fixed + text + 1 + 63) / 64 * 64; /* numpy aligns the data to 64 */
  memcpy(head, magic, sizeof magic - 1);
  head[6] = 1;
  head[7] = 0;
  head[8] = (char)((total - fixed) & 0xff);
  head[9] = (char)((total - fixed) >> 8);
  memset(head + fixed + text, ' ', (size_t)(total - fixed - text));
  head[total - 1] = '\n';
  if (rdt_tensor_is_dense(t) && dtype == t->dtype)
    return rdt_file_write(path, head, (size_t)total, t->data, bytes, why);
  void *body = packed(t, dtype, count);
  if (!body) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for %zu bytes", path, bytes);
  const rdt_status status = rdt_file_write(path, head, (size_t)total, body, bytes, why);
  rdt_free(body);
  return status;
}
