// The 64 bits of an mbarrier: 16 of arrivals that are still to come, 16 of how many a phase has, 21 of bytes that are
// still to come (signed), the phase, and what tells that it has been initialised.
#ifndef RDT_EMULATED_BARRIER_H
#define RDT_EMULATED_BARRIER_H

#include "emulated.h"

enum { EM_BARRIER_MOST = 65535, EM_BARRIER_BYTES = (1 << 20) - 1 };
static inline bool em_barrier_valid(uint64_t word) {
  return word >> 54 == 0x2b5;
}
static inline bool em_barrier_phase(uint64_t word) {
  return word >> 53 & 1;
}
static inline uint64_t em_barrier_made(uint32_t left, uint32_t count, int64_t bytes, bool phase) {
  return UINT64_C(0x2b5) << 54 | (uint64_t)phase << 53 | ((uint64_t)bytes & 0x1fffff) << 32 | (uint64_t)count << 16 |
         left;
}
// So many bytes more are to come, then so many have arrived. NULL, or what is wrong.
static inline const char *em_barrier_change(uint64_t *word, uint32_t arrivals, int64_t bytes) {
  const uint64_t w = *word;
  uint32_t left = w & 0xffff;
  const uint32_t count = w >> 16 & 0xffff;
  int64_t open = (int64_t)(w << 11) >> 43;
  bool phase = em_barrier_phase(w);
  if (!em_barrier_valid(w)) return "no mbarrier has been initialised there";
  if (arrivals > left) return "more arrive at the mbarrier than its phase has";
  left -= arrivals, open += bytes;
  if (open > EM_BARRIER_BYTES || open < -EM_BARRIER_BYTES) return "the mbarrier counts up to 1048575 bytes";
  if (!left && !open) phase = !phase, left = count;
  *word = em_barrier_made(left, count, open, phase);
  return NULL;
}

#endif
