#include "check/bitsum.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdatomic.h>

#include "core/cpu_info.h"
#endif

/* Sum of w_i m_i modulo 2^64 over the 32-bit words, with m_i = 1 + i * step, odd and different for every i below 2^31.
 * A change of one word is d m_i with 0 < |d| < 2^32: never 0. Two single-bit changes cancel only if 2^a m_i = 2^b m_j
 * or 2^a m_i = -2^b m_j with a, b < 32: for odd multipliers only with a = b, and then 2^a step (i - j) would have to be
 * 0, of which 2^62 is the highest power of two, or m_i + m_j be a multiple of 2^33: step is 2 modulo 2^33, so it is 2
 * (i + j + 1) there, too small. A plain sum would miss two sign bits. */
static const uint64_t step = 0x3c6ef37200000002u;

static uint64_t plain(const unsigned char *p, size_t bytes, uint64_t first) {
  uint64_t total = 0, m = first * step + 1u;
  uint32_t w;
  for (; bytes >= sizeof w; bytes -= sizeof w, p += sizeof w, m += step) {
    memcpy(&w, p, sizeof w);
    total += w * m;
  }
  w = 0;                               /* the tail, padded with zeros */
  if (bytes > 0) memcpy(&w, p, bytes); /* of nothing, p is NULL */
  return total + w * m;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { PIECE = 64 };

typedef struct moments { /* of numbers x_q: their sum, and that of q x_q */
  uint64_t sum, place;
} moments;

/* Two words at a time, no multiplication: x_q of the pairs as they lie, and of their second words alone, say all. */
static uint64_t from_pairs(moments pairs, moments second, uint64_t first) {
  const uint64_t carried = 0xffffffffu; /* a second word counts 2^32 in its pair, and should count 1 */
  pairs.sum -= carried * second.sum;
  pairs.place -= carried * second.place;
  return (first * step + 1u) * pairs.sum + 2 * step * pairs.place + step * second.sum;
}

#if defined(__x86_64__)
#define ONE_LOAD(w) __asm__("" : "+x"(w))
#else
#define ONE_LOAD(w)
#endif

#define PUT_NOTHING(to, w) (void)0
#define PUT_COPY(to, w) memcpy(to, &(w), sizeof(w))
#define PUT_PAST_CACHES(to, w) _mm256_stream_si256((__m256i *)(void *)(to), (__m256i)(w))

/* n pieces of PIECE bytes, so many bytes apart; first: the number of the first word. PUT: what is done with a piece, at
 * `to`, side by side. */
#define PIECES(name, PUT, LANES, ...)                                                                            \
  __VA_ARGS__ static uint64_t pieces_##name(const unsigned char *p, unsigned char *to, uint64_t n, size_t apart, \
                                            uint64_t first) {                                                    \
    enum { CHAINS = PIECE / (8 * LANES) };                                                                       \
    (void)to;                                                                                                    \
    typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));                                              \
    lanes pair[CHAINS] = {{0}}, pairs[CHAINS] = {{0}}, second[CHAINS] = {{0}}, seconds[CHAINS] = {{0}};          \
    for (uint64_t i = 0; i < n; i++, p += apart)                                                                 \
      for (int c = 0; c < CHAINS; c++) {                                                                         \
        lanes w;                                                                                                 \
        memcpy(&w, p + (size_t)c * sizeof w, sizeof w);                                                          \
        ONE_LOAD(w);                                                                                             \
        PUT(to + i * PIECE + (size_t)c * sizeof w, w);                                                           \
        pair[c] += w;                                                                                            \
        pairs[c] += pair[c];                                                                                     \
        second[c] += w >> 32;                                                                                    \
        seconds[c] += second[c];                                                                                 \
      }                                                                                                          \
    lanes all[4] = {{0}}, chained[2] = {{0}}; /* over the chains; and as often as their numbers say */           \
    for (int c = 0; c < CHAINS; c++) {                                                                           \
      all[0] += pair[c];                                                                                         \
      all[1] += second[c];                                                                                       \
      all[2] += pairs[c];                                                                                        \
      all[3] += seconds[c];                                                                                      \
      for (int i = 0; i < c; i++) chained[0] += pair[c], chained[1] += second[c];                                \
    }                                                                                                            \
    moments x = {0, 0}, y = {0, 0};                                                                              \
    uint64_t twice[2] = {0, 0};                                                                                  \
    for (uint64_t l = 0; l < LANES; l++) {                                                                       \
      x.sum += all[0][l];                                                                                        \
      y.sum += all[1][l];                                                                                        \
      x.place += l * all[0][l] + LANES * chained[0][l];                                                          \
      y.place += l * all[1][l] + LANES * chained[1][l];                                                          \
      twice[0] += all[2][l];                                                                                     \
      twice[1] += all[3][l];                                                                                     \
    }                                                                                                            \
    x.place += apart / 8 * (n * x.sum - twice[0]); /* what came with piece i has been added n - i times */       \
    y.place += apart / 8 * (n * y.sum - twice[1]);                                                               \
    return from_pairs(x, y, first);                                                                              \
  }

PIECES(two, PUT_NOTHING, 2, )
PIECES(two_copied, PUT_COPY, 2, )
#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
PIECES(avx2, PUT_NOTHING, 4, AVX2)
PIECES(avx2_copied, PUT_COPY, 4, AVX2)
PIECES(avx2_past, PUT_PAST_CACHES, 4, AVX2)

typedef uint64_t pieces_fn(const unsigned char *p, unsigned char *to, uint64_t n, size_t apart, uint64_t first);

static bool has_avx2(void) {
  static atomic_int known; /* any thread finds the same */
  int k = atomic_load_explicit(&known, memory_order_relaxed);
  if (!k) atomic_store_explicit(&known, k = rdt_isa_detect() >= RDT_ISA_AVX2 ? 2 : 1, memory_order_relaxed);
  return k == 2;
}

static uint64_t pieces(const unsigned char *p, unsigned char *to, bool past, uint64_t n, size_t apart, uint64_t first) {
  if (!has_avx2()) return to ? pieces_two_copied(p, to, n, apart, first) : pieces_two(p, NULL, n, apart, first);
  if (!to) return pieces_avx2(p, NULL, n, apart, first);
  if (!past || (uintptr_t)to % 32) return pieces_avx2_copied(p, to, n, apart, first);
  const uint64_t sum = pieces_avx2_past(p, to, n, apart, first);
  _mm_sfence();
  return sum;
}
#else
static uint64_t pieces(const unsigned char *p, unsigned char *to, bool past, uint64_t n, size_t apart, uint64_t first) {
  (void)past;
  return to ? pieces_two_copied(p, to, n, apart, first) : pieces_two(p, NULL, n, apart, first);
}
#endif
#else
enum { PIECE = 4 };
static uint64_t pieces(const unsigned char *p, unsigned char *to, bool past, uint64_t n, size_t apart, uint64_t first) {
  uint64_t total = 0;
  (void)past;
  for (uint64_t i = 0; i < n; i++) {
    if (to) memcpy(to + i * PIECE, p + i * apart, PIECE);
    total += plain(p + i * apart, PIECE, first + i * apart / 4);
  }
  return total;
}
#endif

enum { FEW = 256 /* bytes: adding up what the pieces hold costs more */ };

/* to: copied there, too; NULL: not. What is not whole pieces is a few bytes, which are read twice. */
static uint64_t sum_of(const unsigned char *p, unsigned char *to, bool past, size_t offset, size_t bytes) {
  uint64_t total = 0;
  if (offset % 4) { /* what ends a word that begins in another part */
    const size_t n = bytes < 4 - offset % 4 ? bytes : 4 - offset % 4;
    unsigned char word[4] = {0};
    memcpy(word + offset % 4, p, n);
    total = plain(word, sizeof word, offset / 4);
    if (to) memcpy(to, word + offset % 4, n), to += n;
    p += n, offset += n, bytes -= n;
  }
  const size_t whole = bytes <= FEW ? 0 : bytes / PIECE * PIECE;
  if (whole > 0) total += pieces(p, to, past, whole / PIECE, PIECE, offset / 4);
  if (to && bytes > whole) memcpy(to + whole, p + whole, bytes - whole), p = to; /* what is summed is what is there */
  return total + plain(p + whole, bytes - whole, (offset + whole) / 4);
}

uint64_t rdt_bitsum_apart(const void *part, size_t offset, size_t bytes) {
  return sum_of(part, NULL, false, offset, bytes);
}

uint64_t rdt_bitsum_copy(void *to, const void *part, size_t offset, size_t bytes, bool past) {
  return sum_of(part, to, past, offset, bytes);
}

enum { SHORT = 512 /* bytes: a run of its own costs more than its sum */ };

uint64_t rdt_bitsum_rows(const void *data, size_t offset, size_t bytes, size_t apart, size_t rows) {
  const bool down = bytes % PIECE == 0 && bytes <= SHORT && offset % 4 == 0 && apart % 8 == 0;
  uint64_t sum = 0;
  for (size_t at = 0; down && at < bytes; at += PIECE)
    sum += pieces((const unsigned char *)data + offset + at, NULL, false, rows, apart, (offset + at) / 4);
  for (size_t i = 0; !down && i < rows; i++) sum += rdt_bitsum_part(data, offset + i * apart, bytes);
  return sum;
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
  if (parts <= 2 || threads <= 1) return rdt_bitsum(data, bytes); /* a team of one costs a call of the system, too */
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
  for (int64_t i = 0; i < parts; i++) {
    const size_t from = (size_t)i * PART;
    sum += rdt_bitsum_part(data, from, bytes - from < PART ? bytes - from : PART);
  }
  return sum;
}
