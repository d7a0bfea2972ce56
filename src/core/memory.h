/* Allocation with overflow checks and 64-byte alignment, counted. All return NULL on failure; free with rdt_free. */
#ifndef RDT_CORE_MEMORY_H
#define RDT_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *rdt_alloc(size_t count, size_t size);  /* not initialised; count * size may be 0 (a valid pointer comes back) */
void *rdt_calloc(size_t count, size_t size); /* zeroed */
void *rdt_grow(void *p, size_t old_count, size_t new_count,
               size_t size); /* keeps old_count elements; NULL leaves p alone */
char *rdt_strdup(const char *s);
void rdt_free(void *p);
/* Addresses that take no memory until they are written, and none any more after rdt_reserve_empty. Not counted. */
void *rdt_reserve(size_t bytes);
void rdt_reserve_empty(void *p, size_t bytes);
void rdt_reserve_free(void *p, size_t bytes);
/* Books bytes that are held or given back by other means (rdt_memory_now, rdt_memory_peak). */
void rdt_memory_book(size_t bytes, bool held);
/* Bytes that may be had without swapping; INFINITY: the system does not say. */
double rdt_memory_available(void);
/* How many bytes are alike before the first that is not. */
size_t rdt_memory_alike(const void *a, const void *b, size_t bytes);

#endif
