/* Builds ONNX models in memory. Everything is copied and freed with the builder; out of memory ends the test. */
#ifndef TEST_UTIL_ONNX_H
#define TEST_UTIL_ONNX_H

#include <onnx.pb-c.h>
#include <redoubt/tensor.h>

typedef struct util_onnx {
  Onnx__ModelProto model;
  Onnx__GraphProto graph;
  Onnx__OperatorSetIdProto opset;
  Onnx__OperatorSetIdProto *opsets[1];
} util_onnx;

/* An attribute of a node: UTIL_INT("axis", 1), UTIL_INTS("pads", 4, 1, 1, 1, 1), ... */
typedef struct util_attr {
  const char *name;
  int type; /* AttributeProto.AttributeType; 0 ends a list */
  int64_t i;
  float f;
  const char *s;
  int n;
  int64_t ints[8];
  float floats[8];
  Onnx__TensorProto *t; /* from util_tensor_proto; the builder takes it */
} util_attr;
#define UTIL_INT(name_, value) \
  { .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, .i = value }
#define UTIL_FLOAT(name_, value) \
  { .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, .f = value }
#define UTIL_STRING(name_, value) \
  { .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, .s = value }
#define UTIL_INTS(name_, count, ...)                                                                        \
  {                                                                                                         \
    .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, .n = count, .ints = { __VA_ARGS__ } \
  }
#define UTIL_FLOATS(name_, count, ...)                                                                          \
  {                                                                                                             \
    .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, .n = count, .floats = { __VA_ARGS__ } \
  }
#define UTIL_TENSOR(name_, proto) \
  { .name = name_, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR, .t = proto }
#define UTIL_ATTRS(...) ((const util_attr[]){__VA_ARGS__, {.name = NULL}})

void util_onnx_init(util_onnx *m, int64_t opset);
void util_onnx_clear(util_onnx *m);

/* shape entries of -1 are left open, all with the same name; those of UTIL_UNNAMED without any. rank -1: no shape at
 * all.
 */
enum { UTIL_UNNAMED = -1000 };
void util_onnx_input(util_onnx *m, const char *name, rdt_dtype dtype, int rank, const int64_t *shape);
void util_onnx_output(util_onnx *m, const char *name, rdt_dtype dtype, int rank, const int64_t *shape);
/* raw_data from a dense buffer; returns the proto for further mischief. */
Onnx__TensorProto *util_onnx_initializer(util_onnx *m, const char *name, rdt_dtype dtype, int rank,
                                         const int64_t *shape, const void *data);
/* The tensor's data is said to be in another file; takes the raw data out. NULL leaves an entry away. */
void util_onnx_external(Onnx__TensorProto *t, const char *location, const char *offset, const char *length);
Onnx__TensorProto *util_tensor_proto(const char *name, rdt_dtype dtype, int rank, const int64_t *shape,
                                     const void *data);
/* inputs and outputs: names separated by blanks; "-" is an absent one. name may be NULL; attrs NULL or UTIL_ATTRS(...).
 */
Onnx__NodeProto *util_onnx_node(util_onnx *m, const char *op, const char *name, const char *inputs, const char *outputs,
                                const util_attr *attrs);

/* The file; free() it. */
void *util_onnx_pack(const util_onnx *m, size_t *bytes);
void util_onnx_save(const util_onnx *m, const char *path);
void util_onnx_spoil(const char *path); /* every byte of the file becomes zero */

/* n values of a fixed pseudo-random sequence in [-1, 1), seeded. */
void util_fill(float *data, int64_t n, uint64_t seed);

#endif
