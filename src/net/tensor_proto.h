/* ONNX TensorProto -> dense tensor. */
#ifndef RDT_NET_TENSOR_PROTO_H
#define RDT_NET_TENSOR_PROTO_H

#include <onnx.pb-c.h>

#include "core/tensor.h"

/* RDT_DTYPE_COUNT for an ONNX datatype that is not available here. */
rdt_dtype rdt_dtype_of_onnx(int64_t onnx);
const char *rdt_onnx_type_name(int64_t onnx); /* "STRING"; "unknown" */
/* The data must fill the shape exactly. t->data is new (rdt_free). what names file and tensor in messages. */
rdt_status rdt_tensor_of_proto(const Onnx__TensorProto *proto, const char *what, rdt_tensor *t, rdt_reason *why);

#endif
