#include "net/scan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/memory.h"

typedef struct scanner {
  const uint8_t *start, *p, *end;
  size_t fields;
  const char *what;
  rdt_reason *why;
} scanner;

static rdt_status bad(const scanner *s, const uint8_t *at, const char *text) {
  return rdt_fail(s->why, RDT_ERR_FORMAT, "%.200s: byte %zu: %s; the file is damaged or not of this format", s->what,
                  (size_t)(at - s->start), text);
}

static bool varint(scanner *s, uint64_t *out) {
  *out = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (s->p == s->end) return false;
    const uint8_t byte = *s->p++;
    if (shift < 64) *out |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

/* Fields of one message up to s->end. */
static rdt_status scan_message(scanner *s, const ProtobufCMessageDescriptor *type, int depth) {
  if (depth > RDT_SCAN_MAX_DEPTH) return bad(s, s->p, "messages are nested more than 32 deep");
  while (s->p < s->end) {
    const uint8_t *at = s->p;
    uint64_t tag, length = 0;
    if (++s->fields > RDT_SCAN_MAX_FIELDS)
      return rdt_fail(s->why, RDT_ERR_NOMEM, "%.200s: more than %d fields: larger than any model meant for this",
                      s->what, RDT_SCAN_MAX_FIELDS);
    if (!varint(s, &tag)) return bad(s, at, "truncated tag");
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return bad(s, at, "field number out of range");
    switch (tag & 7) {
      case PROTOBUF_C_WIRE_TYPE_VARINT:
        if (!varint(s, &length)) return bad(s, at, "truncated number");
        continue;
      case PROTOBUF_C_WIRE_TYPE_64BIT:
        length = 8;
        break;
      case PROTOBUF_C_WIRE_TYPE_32BIT:
        length = 4;
        break;
      case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!varint(s, &length)) return bad(s, at, "truncated length");
        break;
      default:
        return bad(s, at, "unknown wire type");
    }
    if (length > (uint64_t)(s->end - s->p)) return bad(s, at, "a field reaches beyond the end");
    const uint8_t *next = s->p + length;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
    if ((tag & 7) == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED && field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
      const uint8_t *end = s->end;
      s->end = next;
      RDT_TRY(scan_message(s, field->descriptor, depth + 1));
      s->end = end;
    }
    s->p = next;
  }
  return RDT_OK;
}

rdt_status rdt_wire_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                         rdt_reason *why) {
  if (bytes > INT_MAX) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: %zu bytes; at most 2 GiB can be read", what, bytes);
  scanner s = {.start = data, .p = data, .end = (const uint8_t *)data + bytes, .what = what, .why = why};
  return scan_message(&s, type, 1);
}

/* A packed byte becomes an element of at most 8 bytes, a submessage of 2 bytes a struct of some 200. Fields were
 * counted. */
typedef struct budget {
  size_t left;
  bool exceeded;
} budget;

static void *budget_alloc(void *user, size_t size) {
  budget *b = user;
  void *p = size > b->left ? NULL : rdt_alloc(size, 1);
  if (p)
    b->left -= size;
  else
    b->exceeded = true;
  return p;
}

static void budget_free(void *user, void *p) {
  (void)user;
  rdt_free(p);
}

rdt_status rdt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                           ProtobufCMessage **out, rdt_reason *why) {
  RDT_TRY(rdt_wire_scan(type, data, bytes, what, why));
  budget b = {.left = 16 * bytes + ((size_t)64 << 20)};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &b};
  *out = protobuf_c_message_unpack(type, &allocator, bytes, data);
  if (*out) return RDT_OK;
  if (b.exceeded) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: takes too much memory to read", what);
  return rdt_fail(why, RDT_ERR_FORMAT,
                  "%.200s: a field has a type that the format does not give it; the file is damaged", what);
}

void rdt_wire_free(ProtobufCMessage *message) {
  ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
  if (message) protobuf_c_message_free_unpacked(message, &allocator);
}
