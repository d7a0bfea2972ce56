#include "check/bitsum.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdatomic.h>

#include "core/cpu_info.h"
#endif

/* Sum of w_i m_i modulo 2^64 over the 32-bit words, with odd multipliers that differ for every i below 2^31. A change
 * of one word is d m_i with 0 < |d| < 2^32: never 0. Two single-bit changes cancel only if 2^a m_i = 2^b m_j: for odd
 * multipliers only with i = j. A plain sum would miss two sign bits. */
static const uint32_t step = 0x9e3779b2u; /* twice an odd number: i * step is even and distinct for i below 2^31 */

static uint64_t plain(const unsigned char *p, size_t bytes, uint64_t first) {
  uint64_t total = 0;
  for (size_t i = 0; i < bytes; i += 4) { /* the tail, padded with zeros */
    uint32_t w = 0;
    memcpy(&w, p + i, bytes - i < 4 ? bytes - i : 4);
    total += (uint64_t)w * ((uint32_t)(first + i / 4) * step + 1u);
  }
  return total;
}

#if defined(__x86_64__)
enum { UNROLL = 4, CHUNK = 32 * UNROLL };

/* Multipliers of the even words from word i on, one in each 64-bit lane; those of the odd words with i + 1. */
#define MULTIPLIER(i) (int64_t)(uint32_t)((i)*step + 1u)

/* SSE2, part of every x86-64: two 64-bit lanes a register, even words times their multipliers, odd words times theirs.
 */
static uint64_t chunks_sse2(const unsigned char *p, size_t bytes, uint32_t first) {
  const __m128i next = _mm_set1_epi64x((int64_t)(uint32_t)(4u * UNROLL * step));
  __m128i even[UNROLL], odd[UNROLL], sum[UNROLL];
  for (uint32_t u = 0; u < UNROLL; u++) {
    const uint32_t i = first + 4 * u;
    even[u] = _mm_set_epi64x(MULTIPLIER(i + 2), MULTIPLIER(i));
    odd[u] = _mm_set_epi64x(MULTIPLIER(i + 3), MULTIPLIER(i + 1));
    sum[u] = _mm_setzero_si128();
  }
  for (size_t at = 0; at < bytes; at += 16 * UNROLL)
    for (int u = 0; u < UNROLL; u++) {
      const __m128i w = _mm_loadu_si128((const __m128i *)(p + at + 16 * (size_t)u));
      const __m128i products = _mm_add_epi64(_mm_mul_epu32(w, even[u]), _mm_mul_epu32(_mm_srli_epi64(w, 32), odd[u]));
      sum[u] = _mm_add_epi64(sum[u], products);
      even[u] = _mm_add_epi32(even[u], next); /* the product takes the low halves: they step modulo 2^32 */
      odd[u] = _mm_add_epi32(odd[u], next);
    }
  uint64_t lanes[2], total = 0;
  for (int u = 0; u < UNROLL; u++) {
    _mm_storeu_si128((__m128i *)lanes, sum[u]);
    total += lanes[0] + lanes[1];
  }
  return total;
}

/* The same sum with four lanes a register. */
__attribute__((target("avx2"))) static uint64_t chunks_avx2(const unsigned char *p, size_t bytes, uint32_t first) {
  const __m256i next = _mm256_set1_epi64x((int64_t)(uint32_t)(8u * UNROLL * step));
  __m256i even[UNROLL], odd[UNROLL], sum[UNROLL];
  for (uint32_t u = 0; u < UNROLL; u++) {
    const uint32_t i = first + 8 * u;
    even[u] = _mm256_set_epi64x(MULTIPLIER(i + 6), MULTIPLIER(i + 4), MULTIPLIER(i + 2), MULTIPLIER(i));
    odd[u] = _mm256_set_epi64x(MULTIPLIER(i + 7), MULTIPLIER(i + 5), MULTIPLIER(i + 3), MULTIPLIER(i + 1));
    sum[u] = _mm256_setzero_si256();
  }
  for (size_t at = 0; at < bytes; at += 32 * UNROLL)
    for (int u = 0; u < UNROLL; u++) {
      const __m256i w = _mm256_loadu_si256((const __m256i *)(p + at + 32 * (size_t)u));
      const __m256i products =
          _mm256_add_epi64(_mm256_mul_epu32(w, even[u]), _mm256_mul_epu32(_mm256_srli_epi64(w, 32), odd[u]));
      sum[u] = _mm256_add_epi64(sum[u], products);
      even[u] = _mm256_add_epi32(even[u], next);
      odd[u] = _mm256_add_epi32(odd[u], next);
    }
  uint64_t lanes[4], total = 0;
  for (int u = 0; u < UNROLL; u++) {
    _mm256_storeu_si256((__m256i *)lanes, sum[u]);
    total += lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  return total;
}

typedef uint64_t chunks_fn(const unsigned char *p, size_t bytes, uint32_t first);

static uint64_t chunks(const unsigned char *p, size_t bytes, uint64_t first) {
  static _Atomic(chunks_fn *) best; /* any thread finds the same */
  chunks_fn *fn = atomic_load_explicit(&best, memory_order_relaxed);
  if (!fn) {
    fn = rdt_isa_detect() >= RDT_ISA_AVX2 ? chunks_avx2 : chunks_sse2;
    atomic_store_explicit(&best, fn, memory_order_relaxed);
  }
  return fn(p, bytes, (uint32_t)first);
}
#else
enum { CHUNK = 4 };
#define chunks plain
#endif

uint64_t rdt_bitsum_apart(const void *part, size_t offset, size_t bytes) {
  const unsigned char *p = part;
  uint64_t total = 0;
  if (offset % 4) { /* what ends a word that begins in another part */
    const size_t n = bytes < 4 - offset % 4 ? bytes : 4 - offset % 4;
    unsigned char word[4] = {0};
    memcpy(word + offset % 4, p, n);
    total = plain(word, sizeof word, offset / 4);
    p += n, offset += n, bytes -= n;
  }
  const size_t whole = bytes / CHUNK * CHUNK;
  return total + chunks(p, whole, offset / 4) + plain(p + whole, bytes - whole, (offset + whole) / 4);
}

uint64_t rdt_bitsum_part(const void *data, size_t offset, size_t bytes) {
  return rdt_bitsum_apart((const unsigned char *)data + offset, offset, bytes);
}

uint64_t rdt_bitsum(const void *data, size_t bytes) {
  return rdt_bitsum_part(data, 0, bytes);
}

enum { PART = 1 << 16 }; /* bytes; 2.5 us on one core, about what waking a thread that still spins costs */

uint64_t rdt_bitsum_shared(const void *data, size_t bytes, int threads) {
  const int64_t parts = (int64_t)((bytes + PART - 1) / PART);
  uint64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum) if (parts > 2 && threads > 1)
  for (int64_t i = 0; i < parts; i++) {
    const size_t from = (size_t)i * PART;
    sum += rdt_bitsum_part(data, from, bytes - from < PART ? bytes - from : PART);
  }
  return sum;
}
