#include "net/tensor_proto.h"

#include <string.h>

#include "core/memory.h"

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
  } range[RDT_DTYPE_COUNT] = {[RDT_S8] = {-128, 127}, [RDT_U8] = {0, 255},     [RDT_BOOL] = {0, 1},
                              [RDT_F16] = {0, 65535}, [RDT_BF16] = {0, 65535}, [RDT_S32] = {INT32_MIN, INT32_MAX}};
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

/* Where the elements are: raw bytes or the typed list for this datatype. */
typedef struct source {
  const void *data;
  size_t bytes, count; /* count of elements */
} source;

static source source_of(const Onnx__TensorProto *p, rdt_dtype dtype) {
  const size_t size = rdt_dtype_size(dtype);
  if (p->has_raw_data) return (source){p->raw_data.data, p->raw_data.len, p->raw_data.len / size};
  switch (dtype) {
    case RDT_F32:
      return (source){p->float_data, p->n_float_data * size, p->n_float_data};
    case RDT_F64:
      return (source){p->double_data, p->n_double_data * size, p->n_double_data};
    case RDT_S64:
      return (source){p->int64_data, p->n_int64_data * size, p->n_int64_data};
    default:
      return (source){NULL, p->n_int32_data * size, p->n_int32_data};
  }
}

rdt_status rdt_tensor_of_proto(const Onnx__TensorProto *proto, const char *what, rdt_tensor *t, rdt_reason *why) {
  char text[96];
  if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL || proto->n_external_data)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: data in another file is not available; save the model in one file",
                    what);
  if (proto->segment) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: a tensor in segments is not available", what);
  RDT_TRY(shape_of(proto, what, t, why));
  const size_t typed = proto->n_float_data + proto->n_int32_data + proto->n_int64_data + proto->n_double_data +
                       proto->n_uint64_data + proto->n_string_data;
  const source from = source_of(proto, t->dtype);
  const size_t count = (size_t)rdt_tensor_count(t), bytes = count * rdt_dtype_size(t->dtype);
  rdt_tensor_text(t, text, sizeof text);
  if (proto->has_raw_data ? typed != 0 : typed != from.count)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: %s, but there is data of another datatype", what, text);
  if (from.bytes != bytes)
    return rdt_fail(why, RDT_ERR_FORMAT, "%s: %s takes %zu bytes, the file has %zu", what, text, bytes, from.bytes);
  t->data = rdt_alloc(bytes, 1);
  if (!t->data) return rdt_fail(why, RDT_ERR_NOMEM, "%s: no memory for %s", what, text);
  rdt_status status = RDT_OK;
  if (!from.data && bytes)
    status = from_int32(proto, what, t, why);
  else if (bytes)
    memcpy(t->data, from.data, bytes);
  for (size_t i = 0; status == RDT_OK && t->dtype == RDT_BOOL && i < bytes; i++)
    if (((const unsigned char *)t->data)[i] > 1)
      status = rdt_fail(why, RDT_ERR_FORMAT, "%s: element %zu is neither true nor false", what, i);
  if (status != RDT_OK) {
    rdt_free(t->data);
    t->data = NULL;
  }
  return status;
}
