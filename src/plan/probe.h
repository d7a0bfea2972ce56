/* What the machine can do at most, measured beside the contenders: multiply-adds from registers, reading from memory.
 */
#ifndef RDT_PLAN_PROBE_H
#define RDT_PLAN_PROBE_H

#include <stddef.h>

#include "core/tensor.h"

typedef struct rdt_probe_room {
  char *memory; /* larger than any cache holds; NULL: not open */
  void *map;
  size_t mapped, bytes;
} rdt_probe_room;
bool rdt_probe_open(rdt_probe_room *r, int threads); /* its pages are first touched by so many threads */
void rdt_probe_close(rdt_probe_room *r);

/* The instruction that products of this datatype rest on here, for people: "avx2 f32 FMA". f16, and bf16 without a dot
 * product of its own, are multiplied as f32. */
const char *rdt_probe_name(rdt_dtype t);
/* Once, by all threads together. Operations (two a multiply-add) a second; bytes a second. */
double rdt_probe_peak(rdt_dtype t, int threads);
/* Seconds: of a parallel region in which nothing happens; of an addition in a chain of them. */
double rdt_probe_meeting(int threads);
double rdt_probe_step(void);
double rdt_probe_bandwidth(const rdt_probe_room *r, int threads);

#endif
