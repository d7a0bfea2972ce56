/* ONNX TensorProto -> dense tensor. */
#ifndef RDT_NET_TENSOR_PROTO_H
#define RDT_NET_TENSOR_PROTO_H

#include <onnx.pb-c.h>

#include "net/graph.h"
#include "net/maps.h"

/* RDT_DTYPE_COUNT for an ONNX datatype that is not available here. */
rdt_dtype rdt_dtype_of_onnx(int64_t onnx);
const char *rdt_onnx_type_name(int64_t onnx); /* "STRING"; "unknown" */
/* Where tensors find their bytes: the message that they were unpacked from and, where that is a mapped file, the files
 * beside it. */
typedef struct rdt_source {
  const void *message;
  rdt_maps *maps; /* NULL: the message is in memory that will be gone; data in other files is refused */
} rdt_source;

/* The data must fill the shape exactly. t->data lies in the map at->map where at->mapped, and is new (rdt_free)
 * otherwise. what names file and tensor in messages. */
rdt_status rdt_tensor_of_proto(const Onnx__TensorProto *proto, const rdt_source *source, const char *what,
                               rdt_tensor *t, rdt_origin *at, rdt_reason *why);

#endif
