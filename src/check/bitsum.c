#include "check/bitsum.h"

#include <string.h>

/* Sum of w_i m_i modulo 2^64 over the 32-bit words, with odd multipliers that differ for every i below 2^31. A change
 * of one word is d m_i with 0 < |d| < 2^32: never 0. Two single-bit changes cancel only if 2^a m_i = 2^b m_j: for odd
 * multipliers only with i = j. A plain sum would miss two sign bits. */
static uint64_t multiplier(uint64_t i) {
  return (uint32_t)(i * 0x9e3779b2u) + 1u; /* twice an odd constant: even, and distinct for i below 2^31 */
}

uint64_t rdt_bitsum_part(const void *data, size_t offset, size_t bytes) {
  enum { LANES = 8 };
  const unsigned char *p = (const unsigned char *)data + offset;
  const uint64_t first = offset / 4;
  uint64_t sum[LANES] = {0}, total = 0;
  uint32_t m[2 * LANES];
  size_t i = 0;
  for (int j = 0; j < 2 * LANES; j++) m[j] = (uint32_t)multiplier(first + (uint64_t)j);
  for (; i + 8 * LANES <= bytes; i += 8 * LANES) {
    uint64_t w[LANES];
    memcpy(w, p + i, sizeof w);
    for (int j = 0; j < LANES; j++) sum[j] += (w[j] & 0xffffffffu) * m[2 * j] + (w[j] >> 32) * m[2 * j + 1];
    for (int j = 0; j < 2 * LANES; j++) m[j] += (uint32_t)(2 * LANES * 0x9e3779b2u);
  }
  for (; i < bytes; i += 4) { /* the tail, padded with zeros */
    uint32_t w = 0;
    memcpy(&w, p + i, bytes - i < 4 ? bytes - i : 4);
    total += w * multiplier(first + i / 4);
  }
  for (int j = 0; j < LANES; j++) total += sum[j];
  return total;
}

uint64_t rdt_bitsum(const void *data, size_t bytes) {
  return rdt_bitsum_part(data, 0, bytes);
}
