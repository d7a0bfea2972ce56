#include "net/scan.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/memory.h"

enum { RAW_DATA = 9 }; /* field number in TensorProto */

typedef struct scanner {
  const uint8_t *start, *p, *end;
  uint8_t *out, *out_end; /* where the message without the bytes of its tensors goes; NULL while it is only measured */
  bool changed;           /* it takes more than was measured: the file changes while it is read */
  size_t references, spared; /* bytes that the copy is shorter by */
  size_t fields;
  const char *what;
  rdt_reason *why;
} scanner;

/* What stands for raw_data of at least this size. A file cannot forge one: its own raw_data of the same size is
 * replaced too. */
typedef struct reference {
  uint64_t offset, bytes;
} reference;

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

/* In as many bytes as it had when it was longer. */
static void put_varint(uint8_t *to, size_t width, uint64_t value) {
  for (size_t i = 0; i < width; i++, value >>= 7) to[i] = (uint8_t)((value & 0x7f) | (i + 1 < width ? 0x80 : 0));
}

static void copy(scanner *s, const uint8_t *from, const uint8_t *end) {
  const size_t bytes = (size_t)(end - from);
  s->changed = s->changed || (s->out && bytes > (size_t)(s->out_end - s->out));
  if (!s->out || s->changed) return;
  memcpy(s->out, from, bytes);
  s->out += bytes;
}

static rdt_status scan_message(scanner *s, const ProtobufCMessageDescriptor *type, int depth);

/* A submessage from s->p to next; its length was written at *length. */
static rdt_status scan_nested(scanner *s, const ProtobufCMessageDescriptor *type, const uint8_t *next,
                              const uint8_t *length, int depth) {
  const uint8_t *end = s->end;
  uint8_t *out = s->out;
  const size_t width = (size_t)(s->p - length);
  s->end = next;
  RDT_TRY(scan_message(s, type, depth + 1));
  s->end = end;
  if (out && !s->changed) put_varint(out - width, width, (uint64_t)(s->out - out));
  return RDT_OK;
}

static void spare_bytes(scanner *s, const uint8_t *next, const uint8_t *length) {
  const reference r = {(uint64_t)(s->p - s->start), (uint64_t)(next - s->p)};
  const size_t width = (size_t)(s->p - length);
  s->references++;
  s->spared += r.bytes - sizeof r;
  if (s->out && !s->changed) put_varint(s->out - width, width, sizeof r);
  copy(s, (const uint8_t *)&r, (const uint8_t *)(&r + 1));
}

/* Fields of one message up to s->end. */
static rdt_status scan_message(scanner *s, const ProtobufCMessageDescriptor *type, int depth) {
  if (depth > RDT_SCAN_MAX_DEPTH) return bad(s, s->p, "messages are nested more than 32 deep");
  while (s->p < s->end) {
    const uint8_t *at = s->p, *number;
    uint64_t tag, length = 0;
    if (++s->fields > RDT_SCAN_MAX_FIELDS)
      return rdt_fail(s->why, RDT_ERR_NOMEM, "%.200s: more than %d fields: larger than any model meant for this",
                      s->what, RDT_SCAN_MAX_FIELDS);
    if (!varint(s, &tag)) return bad(s, at, "truncated tag");
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return bad(s, at, "field number out of range");
    number = s->p;
    switch (tag & 7) {
      case PROTOBUF_C_WIRE_TYPE_VARINT:
        if (!varint(s, &length)) return bad(s, at, "truncated number");
        length = 0;
        break;
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
    const bool prefixed = (tag & 7) == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED && field;
    copy(s, at, s->p);
    if (prefixed && field->type == PROTOBUF_C_TYPE_MESSAGE)
      RDT_TRY(scan_nested(s, field->descriptor, next, number, depth));
    else if (prefixed && field->id == RAW_DATA && type == &onnx__tensor_proto__descriptor &&
             length >= sizeof(reference))
      spare_bytes(s, next, number);
    else
      copy(s, s->p, next);
    s->p = next;
  }
  return RDT_OK;
}

static rdt_status scan(scanner *s, const ProtobufCMessageDescriptor *type, const void *data, size_t bytes,
                       const char *what, rdt_reason *why) {
  if (bytes > INT_MAX)
    return rdt_fail(why, RDT_ERR_NOMEM,
                    "%.200s: %zu bytes; at most 2 GiB can be read: save the weights as external data", what, bytes);
  *s = (scanner){.start = data, .p = data, .end = (const uint8_t *)data + bytes, .what = what, .why = why};
  return scan_message(s, type, 1);
}

rdt_status rdt_wire_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                         rdt_reason *why) {
  scanner s;
  return scan(&s, type, data, bytes, what, why);
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

static rdt_status unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                         ProtobufCMessage **out, rdt_reason *why) {
  budget b = {.left = 16 * bytes + ((size_t)64 << 20)};
  ProtobufCAllocator allocator = {budget_alloc, budget_free, &b};
  *out = protobuf_c_message_unpack(type, &allocator, bytes, data);
  if (*out) return RDT_OK;
  if (b.exceeded) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: takes too much memory to read", what);
  return rdt_fail(why, RDT_ERR_FORMAT,
                  "%.200s: a field has a type that the format does not give it; the file is damaged", what);
}

rdt_status rdt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t bytes, const char *what,
                           ProtobufCMessage **out, rdt_reason *why) {
  scanner s;
  RDT_TRY(scan(&s, type, data, bytes, what, why));
  if (s.references == 0) return unpack(type, data, bytes, what, out, why);
  const size_t rest = bytes - s.spared;
  uint8_t *skeleton = rdt_alloc(rest, 1);
  if (!skeleton) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for %zu bytes", what, rest);
  s = (scanner){.start = data, .p = data, .end = s.end, .what = what, .why = why};
  s.out = skeleton;
  s.out_end = skeleton + rest;
  rdt_status status = scan_message(&s, type, 1);
  if (status == RDT_OK && (s.changed || s.out != s.out_end))
    status = rdt_fail(why, RDT_ERR_IO, "%.200s: the file changes while it is read", what);
  if (status == RDT_OK) status = unpack(type, skeleton, rest, what, out, why);
  rdt_free(skeleton);
  return status;
}

rdt_wire_bytes rdt_wire_raw(const Onnx__TensorProto *tensor, const void *data) {
  reference r;
  if (tensor->raw_data.len < sizeof r) return (rdt_wire_bytes){tensor->raw_data.data, tensor->raw_data.len};
  memcpy(&r, tensor->raw_data.data, sizeof r);
  return (rdt_wire_bytes){(const unsigned char *)data + r.offset, r.bytes};
}

void rdt_wire_free(ProtobufCMessage *message) {
  ProtobufCAllocator allocator = {budget_alloc, budget_free, NULL};
  if (message) protobuf_c_message_free_unpacked(message, &allocator);
}
