#include "check/bitsum.h"

#include <string.h>

enum { LANES = 8 };

/* Odd multipliers: a change inside one 64-bit word never vanishes modulo 2^64, and neighbours that change by opposite
 * amounts, or swap, do not cancel. */
static const uint64_t weight[LANES] = {
    0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u,
    0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u,
};

uint64_t rdt_bitsum(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t sum[LANES] = {0}, total = 0;
  size_t i = 0;
  for (; i + sizeof sum <= bytes; i += sizeof sum) {
    uint64_t w[LANES];
    memcpy(w, p + i, sizeof w);
    for (int j = 0; j < LANES; j++) sum[j] += w[j];
  }
  for (int j = 0; i < bytes; i += 8, j++) { /* the tail, padded with zeros */
    uint64_t w = 0;
    memcpy(&w, p + i, bytes - i < 8 ? bytes - i : 8);
    sum[j] += w;
  }
  for (int j = 0; j < LANES; j++) total += sum[j] * weight[j];
  return total;
}

uint64_t rdt_bitsum_part(const void *data, size_t offset, size_t bytes) {
  return rdt_bitsum((const unsigned char *)data + offset, bytes);
}
