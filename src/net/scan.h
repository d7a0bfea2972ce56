/* Before protobuf-c unpacks a message, its wire format is walked once: protobuf-c recurses without a limit and
 * allocates for every submessage, so a small hostile file could overflow the stack or fill the memory. */
#ifndef RDT_NET_SCAN_H
#define RDT_NET_SCAN_H

#include <protobuf-c/protobuf-c.h>

#include "core/error.h"

enum { RDT_SCAN_MAX_DEPTH = 32, RDT_SCAN_MAX_FIELDS = 1 << 24 };

/* RDT_ERR_FORMAT: truncated, bad tags, nested deeper than RDT_SCAN_MAX_DEPTH. RDT_ERR_NOMEM: beyond 2^31 - 1 bytes or
 * RDT_SCAN_MAX_FIELDS fields. what names the file. */
rdt_status rdt_wire_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                         rdt_reason *why);
/* Scans, then unpacks with an allocator that is bounded by the size of the file. Free with rdt_wire_free. */
rdt_status rdt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                           ProtobufCMessage **out, rdt_reason *why);
void rdt_wire_free(ProtobufCMessage *message);

#endif
