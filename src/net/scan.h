/* Before protobuf-c unpacks a message, its wire format is walked once: protobuf-c recurses without a limit and
 * allocates for every submessage, so a small hostile file could overflow the stack or fill the memory. */
#ifndef RDT_NET_SCAN_H
#define RDT_NET_SCAN_H

#include <onnx.pb-c.h>

#include "core/error.h"

enum { RDT_SCAN_MAX_DEPTH = 32, RDT_SCAN_MAX_FIELDS = 1 << 24 };

/* RDT_ERR_FORMAT: truncated, bad tags, nested deeper than RDT_SCAN_MAX_DEPTH. RDT_ERR_NOMEM: beyond 2^31 - 1 bytes or
 * RDT_SCAN_MAX_FIELDS fields. what names the file. */
rdt_status rdt_wire_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                         rdt_reason *why);
/* Scans, then unpacks with an allocator that is bounded by the size of the file. Free with rdt_wire_free. The bytes of
 * tensors (raw_data) are left where they are: unpacked is a copy of the message in which each is replaced by a
 * reference, which rdt_wire_raw follows. */
rdt_status rdt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                           ProtobufCMessage **out, rdt_reason *why);
/* raw_data of a tensor that came out of rdt_wire_unpack(.., data, ..). */
typedef struct rdt_wire_bytes {
  const unsigned char *data;
  size_t bytes;
} rdt_wire_bytes;
rdt_wire_bytes rdt_wire_raw(const Onnx__TensorProto *tensor, const void *data);
void rdt_wire_free(ProtobufCMessage *message);

#endif
