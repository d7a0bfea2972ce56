#include "core/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 }; /* a cache line and the widest vector */

void *rdt_alloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX - 2 * ALIGN) return NULL;
  const size_t rounded = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return aligned_alloc(ALIGN, rounded);
}

void *rdt_calloc(size_t count, size_t size) {
  void *p = rdt_alloc(count, size);
  if (p) memset(p, 0, count * size);
  return p;
}

void *rdt_grow(void *p, size_t old_count, size_t new_count, size_t size) {
  void *q = rdt_alloc(new_count, size);
  if (!q) return NULL;
  if (p) memcpy(q, p, (old_count < new_count ? old_count : new_count) * size);
  rdt_free(p);
  return q;
}

char *rdt_strdup(const char *s) {
  const size_t n = strlen(s) + 1;
  char *copy = rdt_alloc(n, 1);
  if (copy) memcpy(copy, s, n);
  return copy;
}

void rdt_free(void *p) {
  free(p);
}
