#include "core/memory.h"

#include <malloc.h>
#include <math.h>
#include <redoubt/context.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64 /* a cache line and the widest vector */, HUGE_PAGE = 2 << 20 };

static atomic_size_t now, peak;

size_t rdt_memory_now(void) {
  return atomic_load_explicit(&now, memory_order_relaxed);
}

size_t rdt_memory_peak(void) {
  return atomic_load_explicit(&peak, memory_order_relaxed);
}

void rdt_memory_reset(void) {
  atomic_store_explicit(&peak, rdt_memory_now(), memory_order_relaxed);
}

void rdt_memory_book(size_t bytes, bool held) {
  if (!held) {
    atomic_fetch_sub_explicit(&now, bytes, memory_order_relaxed);
    return;
  }
  const size_t sum = atomic_fetch_add_explicit(&now, bytes, memory_order_relaxed) + bytes;
  size_t most = rdt_memory_peak();
  while (sum > most &&
         !atomic_compare_exchange_weak_explicit(&peak, &most, sum, memory_order_relaxed, memory_order_relaxed)) {
  }
}

double rdt_memory_available(void) {
  char line[128];
  double kib = INFINITY;
  FILE *f = fopen("/proc/meminfo", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
  if (f) fclose(f);
  return kib * 1024.0;
}

void *rdt_alloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX - 2 * ALIGN) return NULL;
  const size_t rounded = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
  void *p;
  if (posix_memalign(&p, rounded < HUGE_PAGE ? ALIGN : HUGE_PAGE, rounded) != 0) return NULL;
  /* weights are read once a run: with small pages, a third of the time goes into looking up where they are */
  if (rounded >= HUGE_PAGE) madvise(p, rounded / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
  rdt_memory_book(malloc_usable_size(p), true);
  return p;
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
  if (p) rdt_memory_book(malloc_usable_size(p), false);
  free(p);
}

void *rdt_reserve(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void rdt_reserve_empty(void *p, size_t bytes) {
  madvise(p, bytes, MADV_DONTNEED);
}

void rdt_reserve_free(void *p, size_t bytes) {
  munmap(p, bytes);
}

size_t rdt_memory_alike(const void *a, const void *b, size_t bytes) {
  enum { WORDS = 8 };
  const unsigned char *x = a, *y = b;
  size_t i = 0;
  for (uint64_t p[WORDS], q[WORDS]; bytes - i >= sizeof p; i += sizeof p) {
    uint64_t other = 0;
    memcpy(p, x + i, sizeof p);
    memcpy(q, y + i, sizeof q);
    for (int w = 0; w < WORDS; w++) other |= p[w] ^ q[w];
    if (other) break;
  }
  while (i < bytes && x[i] == y[i]) i++;
  return i;
}
