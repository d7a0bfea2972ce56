#include "net/tensor_proto.h"

#include <string.h>

#include "core/memory.h"
#include "net/scan.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "raw tensor data is little-endian, as this machine must be"
#endif

rdt_dtype rdt_dtype_of_onnx(int64_t onnx) {
  for (int t = 0; t < RDT_DTYPE_COUNT; t++)
    if (rdt_dtype_info((rdt_dtype)t)->onnx == onnx) return (rdt_dtype)t;
  return RDT_DTYPE_COUNT;
}

const char *rdt_onnx_type_name(int64_t onnx) {
  const ProtobufCEnumValue *v =
      onnx < 0 || onnx > INT32_MAX
          ? NULL
          : protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, (int)onnx);
  return v ? v->name : "unknown";
}

static rdt_status shape_of(const Onnx__TensorProto *proto, const char *what, rdt_tensor *t, rdt_reason *why) {
  int64_t shape[RDT_MAX_RANK];
  const rdt_dtype dtype = rdt_dtype_of_onnx(proto->data_type);
  if (!proto->has_data_type || proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: no datatype is given: this is no tensor", what);
  if (dtype == RDT_DTYPE_COUNT)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: datatype %d (%s) is not available", what, (int)proto->data_type,
                    rdt_onnx_type_name(proto->data_type));
  if (proto->n_dims > RDT_MAX_RANK)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: rank %zu; at most %d is available", what, proto->n_dims,
                    RDT_MAX_RANK);
  for (size_t d = 0; d < proto->n_dims; d++) shape[d] = proto->dims[d];
  *t = rdt_tensor_dense(NULL, dtype, (int)proto->n_dims, shape);
  return rdt_tensor_check(t, what, why);
}

/* int32_data holds everything of up to 32 bits, one element each. */
static rdt_status from_int32(const Onnx__TensorProto *proto, const char *what, const rdt_tensor *t, rdt_reason *why) {
  static const struct {
    int32_t least, most;
  } range[RDT_DTYPE_COUNT] = {[RDT_S8] = {-128, 127},  [RDT_U8] = {0, 255},     [RDT_BOOL] = {0, 1},
                              [RDT_F16] = {0, 65535},  [RDT_BF16] = {0, 65535}, [RDT_S32] = {INT32_MIN, INT32_MAX},
                              [RDT_F8E4M3] = {0, 255}, [RDT_F8E5M2] = {0, 255}};
  const size_t bytes = rdt_dtype_size(t->dtype);
  for (size_t i = 0; i < proto->n_int32_data; i++) {
    const int32_t v = proto->int32_data[i];
    if (v < range[t->dtype].least || v > range[t->dtype].most)
      return rdt_fail(why, RDT_ERR_FORMAT, "%s: element %zu is %d, which is no %s", what, i, (int)v,
                      rdt_dtype_name(t->dtype));
    memcpy((char *)t->data + i * bytes, &v, bytes); /* the low bytes, on a little-endian machine */
  }
  return RDT_OK;
}

/* Where the elements are: raw bytes, here or in another file, or the typed list for this datatype. */
typedef struct place {
  const void *data;
  size_t bytes, count; /* count of elements */
} place;

static place typed_data(const Onnx__TensorProto *p, rdt_dtype dtype) {
  const size_t size = rdt_dtype_size(dtype);
  switch (dtype) {
    case RDT_F32:
      return (place){p->float_data, p->n_float_data * size, p->n_float_data};
    case RDT_F64:
      return (place){p->double_data, p->n_double_data * size, p->n_double_data};
    case RDT_S64:
      return (place){p->int64_data, p->n_int64_data * size, p->n_int64_data};
    default:
      return (place){NULL, p->n_int32_data * size, p->n_int32_data};
  }
}

/* A decimal number of bytes; false for anything else and for what no file can have. */
static bool byte_count(const char *text, size_t *out) {
  uint64_t n = 0;
  const char *c = text;
  for (; *c >= '0' && *c <= '9'; c++)
    if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*c - '0'), &n)) return false;
  *out = n;
  return c != text && *c == '\0' && n <= INT64_MAX;
}

/* location, offset and length of data in another file; a checksum is not looked at. */
static rdt_status external_data(const Onnx__TensorProto *proto, const rdt_source *source, const char *what,
                                size_t bytes, place *from, rdt_origin *at, rdt_reason *why) {
  static const char *const keys[] = {"location", "offset", "length"};
  const char *value[3] = {NULL};
  size_t length = bytes;
  at->offset = 0;
  for (size_t i = 0; i < proto->n_external_data; i++)
    for (int k = 0; k < 3; k++) {
      const Onnx__StringStringEntryProto *entry = proto->external_data[i];
      if (!entry->key || strcmp(entry->key, keys[k]) != 0) continue;
      if (value[k]) return rdt_fail(why, RDT_ERR_FORMAT, "%s: the %s of its data is given twice", what, keys[k]);
      value[k] = entry->value ? entry->value : "";
    }
  if (!value[0] || !*value[0])
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: its data is in another file, but which is not said", what);
  if ((value[1] && !byte_count(value[1], &at->offset)) || (value[2] && !byte_count(value[2], &length)))
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%s: offset '%.40s', length '%.40s' of its data in another file: no numbers of bytes", what,
                    value[1] ? value[1] : "", value[2] ? value[2] : "");
  RDT_TRY(rdt_maps_find(source->maps, value[0], what, &at->map, why));
  const rdt_map *map = &source->maps->list[at->map];
  if (at->offset > map->bytes || length > map->bytes - at->offset)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: its data is said to be bytes %zu to %zu of %.120s, which has only %zu",
                    what, at->offset, at->offset + length, map->path, map->bytes);
  *from = (place){map->data + at->offset, length, 0};
  return RDT_OK;
}

static rdt_status find_data(const Onnx__TensorProto *proto, const rdt_source *source, const char *what,
                            const rdt_tensor *t, place *from, rdt_origin *at, rdt_reason *why) {
  const size_t typed = proto->n_float_data + proto->n_int32_data + proto->n_int64_data + proto->n_double_data +
                       proto->n_uint64_data + proto->n_string_data;
  const bool external = proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  const size_t bytes = (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
  char text[96];
  size_t expected = 0;
  rdt_tensor_text(t, text, sizeof text);
  *at = (rdt_origin){.map = -1};
  if (external && !source->maps)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s: its data is in another file, which only a model that is a file itself can name", what);
  if (external != (proto->n_external_data > 0) || (external && proto->has_raw_data))
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: is its data in another file or here? Both is said", what);
  if (external) {
    RDT_TRY(external_data(proto, source, what, bytes, from, at, why));
  } else if (proto->has_raw_data) {
    const rdt_wire_bytes raw = rdt_wire_raw(proto, source->message);
    *from = (place){raw.data, raw.bytes, 0};
    if (source->maps && proto->raw_data.data != raw.data)
      *at = (rdt_origin){.map = 0, .offset = (size_t)(raw.data - (const unsigned char *)source->message)};
  } else {
    *from = typed_data(proto, t->dtype);
    expected = from->count;
  }
  if (typed != expected)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: %s, but there is data of another datatype", what, text);
  if (from->bytes != bytes)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: %s takes %zu bytes, the file has %zu", what, text, bytes, from->bytes);
  return RDT_OK;
}

rdt_status rdt_tensor_of_proto(const Onnx__TensorProto *proto, const rdt_source *source, const char *what,
                               rdt_tensor *t, rdt_origin *at, rdt_reason *why) {
  place from = {0};
  if (proto->segment) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: a tensor in segments is not available", what);
  RDT_TRY(shape_of(proto, what, t, why));
  RDT_TRY(find_data(proto, source, what, t, &from, at, why));
  const size_t align = rdt_dtype_size(t->dtype);
  at->mapped = at->map >= 0 && from.bytes > 0 && (uintptr_t)from.data % align == 0;
  t->data = at->mapped ? (void *)from.data : rdt_alloc(from.bytes, 1);
  if (!t->data) return rdt_fail(why, RDT_ERR_NOMEM, "%s: no memory for %zu bytes", what, from.bytes);
  rdt_status status = RDT_OK;
  if (!from.data && from.bytes)
    status = from_int32(proto, what, t, why);
  else if (from.bytes && !at->mapped)
    memcpy(t->data, from.data, from.bytes);
  for (size_t i = 0; status == RDT_OK && t->dtype == RDT_BOOL && i < from.bytes; i++)
    if (((const unsigned char *)t->data)[i] > 1)
      status = rdt_fail(why, RDT_ERR_FORMAT, "%s: element %zu is neither true nor false", what, i);
  if (status != RDT_OK) {
    if (!at->mapped) rdt_free(t->data);
    t->data = NULL;
  }
  return status;
}
