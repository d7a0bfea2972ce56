/* Body of the own integer products, included by each ISA directory with INT8_TABLE defined, and INT8_QUADS where
 * bytes are multiplied: once plain, once with RDT_INJECT, which can plant one fault in one accumulator. */
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "cpu/generic/product.h"
#include "cpu/native/int8.h"

#if defined(__AVX512BW__)
enum { VL = 16, MR = 12, NV = 2 };
#elif defined(__AVX2__) && defined(INT8_QUADS) && !defined(__AVXVNNI__)
enum { VL = 8, MR = 4, NV = 2 }; /* a product takes two registers more */
#elif defined(__AVX2__)
enum { VL = 8, MR = 6, NV = 2 };
#else
enum { VL = 4, MR = 4, NV = 2 };
#endif
enum {
  NR = NV * VL,
#ifdef INT8_QUADS
  UNIT = 4,
#else
  UNIT = 2,
#endif
  BLOCK = (16 << 10) / (4 * NR) /* words of k: that much of a panel stays in the first-level cache */
};
typedef int32_t V __attribute__((vector_size(VL * 4), may_alias));
typedef uint32_t U __attribute__((vector_size(VL * 4), may_alias));
typedef int32_t V_loose __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef float F __attribute__((vector_size(VL * 4), may_alias));
typedef float F_loose __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int8_t B __attribute__((vector_size(NR), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Nothing computed from x or read from memory before is known any more: what follows is a second computation. */
#if defined(__x86_64__) && !defined(RDT_EMULATED_AVX512)
#define AGAIN(x) __asm__ volatile("" : "+x"(x) : : "memory")
#else
#define AGAIN(x) __asm__ volatile("" : "+m"(x) : : "memory")
#endif

/* Sums are those modulo 2^32: only unsigned numbers have them in C. */
INLINE V plus(V a, V b) {
  return (V)((U)a + (U)b);
}

/* acc + the products of a word of A with one of B, in each lane */
INLINE V dot(V acc, V a, V b) {
#if defined(INT8_QUADS) && defined(__AVX512VNNI__)
  return (V)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#elif defined(INT8_QUADS) && defined(__AVXVNNI__)
  return (V)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#elif defined(INT8_QUADS) && defined(__AVX2__) /* of small weights: no two products add up beyond 16 bits */
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return plus(acc, (V)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#elif defined(INT8_QUADS)
  for (int i = 0; i < VL; ++i)
    for (int u = 0; u < 4; ++u) {
      const int32_t x = (uint8_t)((uint32_t)a[i] >> 8 * u), y = (int8_t)((uint32_t)b[i] >> 8 * u);
      acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)(x * y));
    }
  return acc;
#elif defined(__AVX512BW__)
  return plus(acc, (V)_mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif defined(__AVX2__)
  return plus(acc, (V)_mm256_madd_epi16((__m256i)a, (__m256i)b));
#elif defined(__SSE2__)
  return plus(acc, (V)_mm_madd_epi16((__m128i)a, (__m128i)b));
#else
  return plus(acc, plus((a >> 16) * (b >> 16), ((a << 16) >> 16) * ((b << 16) >> 16)));
#endif
}

INLINE V load(const int32_t *p) {
  return *(const V_loose *)p;
}
INLINE void store(int32_t *p, V x) {
  *(V_loose *)p = x;
}
INLINE F load_f(const float *p) {
  return *(const F_loose *)p;
}
INLINE V spread(int32_t x) {
  return x - (V){0};
}

/* out (+)= words [from, to) of the reduction, of nr rows. */
INLINE void multiply(const rdt_int8_strip *s, int64_t row, const V *b, int64_t from, int64_t to, const int nr,
                     const bool fresh, V (*out)[NV]) {
  V acc[MR][NV];
  const int32_t *p[MR];
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r) {
    p[r] = (const int32_t *)(s->rows + (row + r) * s->ld);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) acc[r][v] = fresh ? (V){0} : out[r][v];
  }
#pragma GCC unroll 1
  for (int64_t t = from; t < to; ++t) {
    V q[NV];
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) q[v] = b[t * NV + v];
#pragma GCC unroll 16
    for (int r = 0; r < nr; ++r) {
      const V a = spread(p[r][t]);
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) acc[r][v] = dot(acc[r][v], a, q[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) out[r][v] = acc[r][v];
}

/* ---- what follows the reduction ---- */

/* As the generic quantize does: NaN becomes the lowest. */
INLINE V quantized(V raw, const rdt_int8_finish *f, F factor, F bias, const bool has_bias) {
  F x = __builtin_convertvector(raw, F);
  if (has_bias) x = x + bias;
  x = x * factor;
#if defined(__AVX512BW__)
  const __m512 y = _mm512_min_ps(_mm512_max_ps((__m512)x, _mm512_set1_ps(f->low)), _mm512_set1_ps(f->high));
  return (V)_mm512_cvtps_epi32(y) + f->zero;
#elif defined(__AVX2__)
  const __m256 y = _mm256_min_ps(_mm256_max_ps((__m256)x, _mm256_set1_ps(f->low)), _mm256_set1_ps(f->high));
  return (V)_mm256_cvtps_epi32(y) + f->zero;
#else
  const F low = f->low - (F){0}, high = f->high - (F){0}, rounder = 0x1.8p23f - (F){0};
  const V above = x > low;
  x = (F)((above & (V)x) | (~above & (V)low));
  const V within = x < high;
  x = (F)((within & (V)x) | (~within & (V)high));
  return __builtin_convertvector((x + rounder) - rounder, V) + f->zero;
#endif
}

/* The low bytes of a tile's row. */
INLINE B narrow(const V *y) {
#if defined(__AVX2__) && !defined(__AVX512BW__)
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)y[0], (__m256i)y[1]), 0xd8);
  const __m256i low = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
  return (B)_mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
#else
  typedef int8_t part __attribute__((vector_size(VL), may_alias));
  B all;
  for (int v = 0; v < NV; ++v) ((part *)&all)[v] = __builtin_convertvector(y[v], part);
  return all;
#endif
}

typedef struct place { /* of a tile: where its result goes */
  char *const *out;
  int64_t at; /* bytes from where a row begins */
  int rows;   /* that are there */
#if RDT_INJECT
  char *hit; /* element whose stored value is hit */
  int hit_row;
#endif
} place;

/* What a tile's results are summed along: their rows (of blocks as well), their columns. */
enum { ALONG = 1, DOWN = 2 };

/* Sums, epilogue and store of a tile; false: the second evaluation is not what was stored. */
INLINE bool finish(const rdt_int8_strip *s, int64_t row, int64_t col, V (*tile)[NV], const place *to, const int sums,
                   const bool quantize, const bool has_bias) {
  const rdt_int8_finish *f = &s->finish;
  const bool check = sums != 0;
  F factor[NV], bias[NV];
  V sign[NV], down[NV];
  for (int v = 0; v < NV; ++v) {
    factor[v] = quantize ? load_f(f->factor + col + v * VL) : (F){0};
    bias[v] = has_bias ? load_f(f->bias + col + v * VL) : (F){0};
    sign[v] = sums & ALONG ? load(s->w + col + v * VL) : (V){0};
    down[v] = sums & DOWN ? load((const int32_t *)s->seen + col + v * VL) : (V){0};
  }
  V differ = {0};
  B apart = {0};
#pragma GCC unroll 1
  for (int r = 0; r < to->rows; ++r) {
    char *out = to->out[r] + to->at;
    V raw[NV];
    for (int v = 0; v < NV; ++v) raw[v] = tile[r][v];
    if (sums & ALONG) {
      V sum = load(s->lanes + (row + r) * VL);
      for (int v = 0; v < NV; ++v) sum = plus(sum, raw[v] ^ sign[v]);
      store(s->lanes + (row + r) * VL, sum);
    }
    for (int v = 0; (sums & DOWN) && v < NV; ++v) down[v] = plus(down[v], raw[v] ^ spread(s->u[row + r]));
    if (quantize) {
      V y[NV];
      for (int v = 0; v < NV; ++v) y[v] = quantized(raw[v], f, factor[v], bias[v], has_bias);
      const B bytes = narrow(y);
      memcpy(out, &bytes, NR);
    }
    for (int v = 0; !quantize && v < NV; ++v) store((int32_t *)(void *)out + v * VL, raw[v]);
#if RDT_INJECT
    if (to->hit && r == to->hit_row) rdt_kernel_hit_apply(s->hit, to->hit, quantize ? RDT_U8 : RDT_S32);
#endif
    for (int v = 0; check && v < NV; ++v) AGAIN(raw[v]);
    if (check && quantize) {
      V again[NV];
      B is;
      for (int v = 0; v < NV; ++v) {
        const F b = has_bias ? load_f(f->bias + col + v * VL) : (F){0};
        again[v] = quantized(raw[v], f, load_f(f->factor + col + v * VL), b, has_bias);
      }
      memcpy(&is, out, NR);
      apart |= is ^ narrow(again);
    }
    for (int v = 0; check && !quantize && v < NV; ++v)
      differ |= raw[v] ^ load((const int32_t *)(const void *)out + v * VL);
  }
  for (int v = 0; (sums & DOWN) && v < NV; ++v) store((int32_t *)s->seen + col + v * VL, down[v]);
  int32_t any = 0;
  for (int i = 0; check && i < VL; ++i) any |= differ[i];
  for (int i = 0; check && i < NR; ++i) any |= apart[i];
  return any == 0;
}

typedef bool finish_fn(const rdt_int8_strip *s, int64_t row, int64_t col, V (*tile)[NV], const place *to);
#define FINISH(name, sums, quantize, bias)                                                             \
  static bool name(const rdt_int8_strip *s, int64_t row, int64_t col, V(*tile)[NV], const place *to) { \
    return finish(s, row, col, tile, to, sums, quantize, bias);                                        \
  }
#define FINISHES(name, sums)                  \
  FINISH(name, sums, false, false)            \
  FINISH(name##_quantized, sums, true, false) \
  FINISH(name##_biased, sums, true, true)
FINISHES(plain, 0)
FINISHES(along, ALONG)
FINISHES(down, DOWN)
FINISHES(across, ALONG | DOWN)

static finish_fn *finish_of(const rdt_int8_strip *s) {
  static finish_fn *const list[4][3] = {{plain, plain_quantized, plain_biased},
                                        {along, along_quantized, along_biased},
                                        {down, down_quantized, down_biased},
                                        {across, across_quantized, across_biased}};
  const rdt_int8_finish *f = &s->finish;
  const int sums =
      (s->forms & (RDT_FORM_ROWS | RDT_FORM_BLOCKS) ? ALONG : 0) | (s->forms & RDT_FORM_COLUMNS ? DOWN : 0);
  return list[sums][(f->factor != NULL) + (f->factor && f->bias)];
}

/* A tile that reaches beyond the last column, or whose columns lie apart, is finished in a buffer; what is there of it
 * is copied, and compared. */
static bool finish_edge(const rdt_int8_strip *s, finish_fn *fn, int64_t row, int64_t col, V (*tile)[NV],
                        const place *to, int64_t cols) {
  char out[MR][NR * 4], *begin[MR];
  const int64_t size = s->finish.factor ? 1 : 4;
  const place edge = {.out = begin, .rows = to->rows};
  for (int r = 0; r < to->rows; ++r) {
    begin[r] = out[r];
    memset((int32_t *)&tile[r][0] + cols, 0, (size_t)(NR - cols) * sizeof(int32_t)); /* the check sums them too */
  }
  bool good = fn(s, row, col, tile, &edge);
  for (int r = 0; r < to->rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      memcpy(to->out[r] + to->at + c * s->step * size, out[r] + c * size, (size_t)size);
#if RDT_INJECT
  if (to->hit) rdt_kernel_hit_apply(s->hit, to->hit, size == 1 ? RDT_U8 : RDT_S32);
#endif
  if (!s->forms) return true;
  __asm__ volatile("" : : : "memory");
  for (int r = 0; r < to->rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      good = good && memcmp(to->out[r] + to->at + c * s->step * size, out[r] + c * size, (size_t)size) == 0;
  return good;
}

/* ---- strips ---- */

/* Two thirds of a tile still keep the multipliers busy, one third does not: the last rows share what is left. */
enum { THIRD = (MR + 2) / 3, THIRDS = (2 * MR + 2) / 3 };

INLINE int64_t tile_rows(int64_t left) {
  return left > MR + THIRD ? MR : left > MR ? THIRDS : left;
}

static void multiply_rows(const rdt_int8_strip *s, int64_t row, const V *b, int64_t from, int64_t to, int rows,
                          bool fresh, V (*tile)[NV]) {
  if (rows > THIRDS)
    multiply(s, row, b, from, to, MR, fresh, tile);
  else if (rows > THIRD)
    multiply(s, row, b, from, to, THIRDS, fresh, tile);
  else
    multiply(s, row, b, from, to, THIRD, fresh, tile);
}

static void multiply_tile(const rdt_int8_strip *s, int64_t row, int64_t col, const V *b, int64_t from, int64_t to,
                          int rows, V (*tile)[NV]) {
#if RDT_INJECT
  const int64_t r = s->hit_row - row, c = s->hit_col - col, at = s->hit_word;
  const bool here = s->hit && !s->hit_stored && r >= 0 && r < rows && c >= 0 && c < NR && at >= from &&
                    (at < to || (at == to && to == s->words));
  if (here) {
    multiply_rows(s, row, b, from, at, rows, from == 0, tile);
    rdt_kernel_hit_apply(s->hit, (char *)&tile[r][0] + c * (int64_t)sizeof(int32_t), RDT_S32);
    multiply_rows(s, row, b, at, to, rows, false, tile);
    return;
  }
#endif
  (void)col;
  multiply_rows(s, row, b, from, to, rows, from == 0, tile);
}

/* The result is touched once, a line a row, and so are weights that come from memory: a share of the block that is next
 * comes while each tile of this one is multiplied. */
INLINE void fetch(const rdt_int8_strip *s, const char *next, int64_t bytes, int64_t row, int64_t rows, int64_t at) {
  enum { LINE = 64 };
  const int64_t from = bytes * row / s->count / LINE * LINE, to = bytes * (row + rows) / s->count;
  for (int64_t i = from; i < to; i += LINE) __builtin_prefetch(next + i, 0, 2);
  for (int64_t r = row; at >= 0 && r < row + rows; ++r) __builtin_prefetch(s->out[r] + at, 1);
}

/* Shifts and zero points come off. */
static void correct(const rdt_int8_strip *s, int64_t row, int64_t col, int rows, V (*tile)[NV]) {
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < NV; ++v) {
      if (s->columns) tile[r][v] = plus(tile[r][v], load(s->columns + col + v * VL));
      if (s->shifts) tile[r][v] = plus(tile[r][v], spread(s->shifts[row + r]));
    }
}

static bool end_tile(const rdt_int8_strip *s, finish_fn *fn, int64_t row, int64_t col, int rows, V (*tile)[NV]) {
  const int64_t cols = s->n - col < NR ? s->n - col : NR, size = s->finish.factor ? 1 : 4;
  place to = {.out = s->out + row, .at = col * s->step * size, .rows = rows};
#if RDT_INJECT
  const int64_t r = s->hit_row - row, c = s->hit_col - col;
  if (s->hit && s->hit_stored && r >= 0 && r < rows && c >= 0 && c < cols) {
    to.hit = to.out[r] + to.at + c * s->step * size;
    to.hit_row = (int)r;
  }
#endif
  if (s->columns || s->shifts) correct(s, row, col, rows, tile);
  return cols == NR && s->step == 1 ? fn(s, row, col, tile, &to) : finish_edge(s, fn, row, col, tile, &to, cols);
}

/* Of panels [from, to), whose lanes hold -x as ~x: what each row lacks. */
INLINE uint32_t minus_of(const rdt_int8_strip *s, int64_t from, int64_t to) {
  uint32_t minus = 0;
  const int64_t end = to * NR < s->n ? to * NR : s->n;
  for (int64_t j = from * NR; j < end; ++j) minus -= (uint32_t)s->w[j];
  return minus;
}

INLINE uint32_t total(V x) {
  uint32_t sum = 0;
  for (int l = 0; l < VL; ++l) sum += (uint32_t)x[l];
  return sum;
}

/* The sums along the rows, row by row. */
static void add_rows(const rdt_int8_strip *s) {
  const uint32_t minus = minus_of(s, s->from, s->to);
  for (int64_t i = 0; i < s->count; ++i) s->observed[i] += total(load(s->lanes + i * VL)) + minus;
}

/* The same of panels [from, to), of each block of rows that the strip has to do with, with the rows' signs. */
static void add_blocks(const rdt_int8_strip *s, int64_t from, int64_t to) {
  const rdt_int8_blocks *b = &s->blocks;
  const uint32_t minus = minus_of(s, from, to);
  for (int64_t i = 0, end; i < s->count; i = end) {
    const int64_t block = (s->first + i) / b->size[0], left = (block + 1) * b->size[0] - s->first;
    V sum = {0};
    uint32_t rows = 0;
    end = left < s->count ? left : s->count;
    for (int64_t r = i; r < end; ++r) {
      const V sign = spread(s->u[r]);
      sum = plus(sum, (V)((U)(load(s->lanes + r * VL) ^ sign) - (U)sign));
      rows += s->u[r] ? UINT32_MAX : 1;
    }
    b->sums[block * b->across + from * NR / b->size[1]] += total(sum) + rows * minus;
  }
  memset(s->lanes, 0, (size_t)(s->count * VL) * sizeof(int32_t));
}

/* Does a block end with panel j? */
INLINE bool ends_block(const rdt_int8_strip *s, int64_t j) {
  return (s->forms & RDT_FORM_BLOCKS) && ((j + 1) * NR % s->blocks.size[1] == 0 || j + 1 == s->to);
}

/* Sums down A's rows times words [from, to) of a panel, each digit as a row of its own. */
static void meet(const rdt_int8_strip *s, int64_t col, const V *b, int64_t from, int64_t to, V (*tile)[NV]) {
  enum { DIGITS = UNIT, BITS = 32 / UNIT };
  multiply_rows(s, s->alpha, b, from, to, DIGITS, from == 0, tile);
  if (to < s->words) return;
  for (int v = 0; v < NV; ++v) {
    U sum = (U)load((const int32_t *)s->met + col + v * VL);
    for (int d = 0; d < DIGITS; ++d) sum += (U)tile[d][v] << d * BITS;
    store((int32_t *)s->met + col + v * VL, (V)sum);
  }
}

static void strip(rdt_int8_strip *s) {
  finish_fn *const fn = finish_of(s);
  bool good = true;
  int64_t from = s->from; /* first panel of a block of columns */
  if (s->forms) memset(s->lanes, 0, (size_t)(s->count * VL) * sizeof(int32_t));
  for (int64_t j = s->from; j < s->to; ++j) {
    const V *b = (const V *)(const void *)(s->panels + j * s->words * NR * 4);
    for (int64_t k = 0, end; k < s->words || k == 0; k = end) {
      end = s->words - k < BLOCK ? s->words : k + BLOCK;
      const bool alone = k == 0 && end == s->words, last = end == s->words, more = !last || j + 1 < s->to;
      const char *const next = (const char *)(b + end * NV); /* panels lie one behind the other */
      const int64_t bytes = !more ? 0 : (last || s->words - end > BLOCK ? BLOCK : s->words - end) * NR * 4;
      V here[MR][NV];
      for (int64_t i = 0, rows; i < s->count; i += rows) {
        V(*tile)[NV] = alone ? here : (V(*)[NV])(void *)(s->tiles + i * NR);
        rows = tile_rows(s->count - i);
        fetch(s, next, bytes, i, rows, last ? j * NR * s->step * (s->finish.factor ? 1 : 4) : -1);
        multiply_tile(s, i, j * NR, b, k, end, (int)rows, tile);
        if (last) good &= end_tile(s, fn, i, j * NR, (int)rows, tile);
      }
      if (s->alpha) meet(s, j * NR, b, k, end, alone ? here : (V(*)[NV])(void *)(s->tiles + s->alpha * NR));
      if (last) break;
    }
    if (!ends_block(s, j)) continue;
    add_blocks(s, from, j + 1);
    from = j + 1;
  }
  if (s->forms & RDT_FORM_ROWS) add_rows(s);
  if (!good) s->differ = true;
}

/* ---- packing ---- */

INLINE int32_t value(const rdt_int8_bytes *b, uint8_t x) {
  return b->is_signed ? (int8_t)x : x;
}

/* 16 x 16 bytes, a line at x + i step becomes a column */
INLINE void turn_square(const uint8_t *x, int64_t step, uint8_t *to, int64_t ld) {
#if defined(__SSE2__)
  __m128i a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm_loadu_si128((const __m128i *)(const void *)(x + i * step));
#pragma GCC unroll 4
  for (int turns = 0; turns < 4; ++turns) { /* each brings a line beside the one 8 behind it */
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
  for (int i = 0; i < 16; ++i) _mm_storeu_si128((__m128i *)(void *)(to + i * ld), a[i]);
#else
  for (int i = 0; i < 16; ++i)
    for (int t = 0; t < 16; ++t) to[i * ld + t] = x[t * step + i];
#endif
}

static void turn(const uint8_t *x, int64_t step, int64_t rows, int64_t n, uint8_t *to, int64_t ld) {
  int64_t t = 0;
  for (; rows == 16 && t + 16 <= n; t += 16) turn_square(x + t * step, step, to + t, ld);
  for (; t < n; ++t)
    for (int64_t i = 0; i < rows; ++i) to[i * ld + t] = x[t * step + i];
}

static uint32_t pack(void *row, const rdt_int8_bytes *a) {
  const int64_t n = a->n;
  const uint8_t *const x = a->x;
#ifdef INT8_QUADS
  uint8_t *const y = row;
  const uint8_t flip = a->is_signed ? 128 : 0; /* adds 128 */
  uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t t = 0; t < n; ++t) sum += y[t] = x[t] ^ flip;
  return sum;
#else
  int16_t *const y = row;
  const int16_t zero = (int16_t)a->zero;
  if (a->is_signed)
#pragma omp simd
    for (int64_t t = 0; t < n; ++t) y[t] = (int16_t)((int8_t)x[t] - zero);
  else
#pragma omp simd
    for (int64_t t = 0; t < n; ++t) y[t] = (int16_t)(x[t] - zero);
  return 0;
#endif
}

/* A vector of s16, its products with another summed in pairs, as s32. */
#if defined(__AVX512BW__)
typedef __m512i S;
INLINE S widen(const uint8_t *x, bool is_signed) {
  const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)x);
  return is_signed ? _mm512_cvtepi8_epi16(b) : _mm512_cvtepu8_epi16(b);
}
#define LESS(x, zero) _mm512_sub_epi16(x, _mm512_set1_epi16(zero))
#define PRODUCTS(x, y) _mm512_madd_epi16(x, _mm512_loadu_si512(y))
#elif defined(__AVX2__)
typedef __m256i S;
INLINE S widen(const uint8_t *x, bool is_signed) {
  const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)x);
  return is_signed ? _mm256_cvtepi8_epi16(b) : _mm256_cvtepu8_epi16(b);
}
#define LESS(x, zero) _mm256_sub_epi16(x, _mm256_set1_epi16(zero))
#define PRODUCTS(x, y) _mm256_madd_epi16(x, _mm256_loadu_si256((const __m256i *)(const void *)(y)))
#endif

static uint32_t row_dot(const rdt_int8_bytes *a, const int16_t *low, const int16_t *high) {
  uint32_t sum = 0, upper = 0;
  int64_t t = 0;
#ifdef PRODUCTS
  V dots = {0}, uppers = {0};
  for (; t + 2 * VL <= a->n; t += 2 * VL) {
    const S x = LESS(widen(a->x + t, a->is_signed), (int16_t)a->zero);
    dots = plus(dots, (V)PRODUCTS(x, low + t));
    if (high) uppers = plus(uppers, (V)PRODUCTS(x, high + t));
  }
  for (int i = 0; i < VL; ++i) {
    sum += (uint32_t)dots[i];
    upper += (uint32_t)uppers[i];
  }
#endif
  for (; t < a->n; ++t) {
    const int32_t x = value(a, a->x[t]) - a->zero;
    sum += (uint32_t)(x * low[t]);
    if (high) upper += (uint32_t)(x * high[t]);
  }
  return sum + (upper << 16);
}

/* nr rows: their sum fits 16 bits */
INLINE void fall_rows(uint32_t *alpha, const uint8_t *const *rows, const int nr, const int32_t *u,
                      const rdt_int8_bytes *a) {
  const uint8_t *x[4];
  int16_t sign[4];
  uint32_t zeros = 0;
  int64_t t = 0;
  for (int r = 0; r < nr; ++r) {
    x[r] = rows[r];
    sign[r] = (int16_t)u[r];
    zeros += u[r] ? 0 - (uint32_t)a->zero : (uint32_t)a->zero;
  }
#ifdef PRODUCTS
  typedef int16_t W __attribute__((vector_size(VL * 4), may_alias));
  typedef int16_t half __attribute__((vector_size(VL * 2), may_alias));
  for (; t + 2 * VL <= a->n; t += 2 * VL) {
    W sum = {0};
    half part[2];
    for (int r = 0; r < nr; ++r) sum += ((W)widen(x[r] + t, a->is_signed) ^ sign[r]) - sign[r];
    memcpy(part, &sum, sizeof sum);
    for (int h = 0; h < 2; ++h) {
      int32_t *const to = (int32_t *)alpha + t + h * VL;
      store(to, plus(load(to), plus(__builtin_convertvector(part[h], V), spread((int32_t)(0 - zeros)))));
    }
  }
#endif
  for (; t < a->n; ++t) {
    int32_t sum = 0;
    for (int r = 0; r < nr; ++r) sum += (value(a, x[r][t]) ^ sign[r]) - sign[r];
    alpha[t] += (uint32_t)sum - zeros;
  }
}

static void fall(uint32_t *alpha, const uint8_t *const *rows, int64_t count, const int32_t *u,
                 const rdt_int8_bytes *a) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) fall_rows(alpha, rows + i, 4, u + i, a);
  for (; i < count; ++i) fall_rows(alpha, rows + i, 1, u + i, a);
}

static uint32_t inner(const uint32_t *a, const uint32_t *b, int64_t n) {
  uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t t = 0; t < n; ++t) sum += a[t] * b[t];
  return sum;
}

static void panel(void *panel, int64_t to, const rdt_int8_bytes *b, int64_t apart, int64_t cols, uint32_t *sums) {
#ifdef INT8_QUADS
  int8_t *const y = panel;
  const int32_t less = b->is_signed ? 0 : 128;
#else
  int16_t *const y = panel;
  const int32_t less = b->zero;
#endif
  for (int64_t t = 0; t < b->n; ++t) {
    const uint8_t *const x = b->x + t * b->step;
    const int64_t at = (to + t) / UNIT * NR * UNIT + (to + t) % UNIT;
    for (int64_t j = 0; j < cols; ++j) {
      const int32_t v = value(b, x[j * apart]) - less;
      y[at + j * UNIT] = (__typeof__(*y))v;
      sums[j] += (uint32_t)v;
    }
  }
}

static void weigh(uint32_t *beta, const rdt_int8_bytes *b, int64_t apart, int64_t cols, const int32_t *w) {
  const int32_t zero = b->zero, flip = b->is_signed ? 128 : 0; /* x ^ flip - flip: as it is, or as s8 */
  if (apart == 1) {
    for (int64_t t = 0; t < b->n; ++t) {
      const uint8_t *const x = b->x + t * b->step;
      uint32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < cols; ++j) sum += (uint32_t)((((x[j] ^ flip) - flip - zero) ^ w[j]) - w[j]);
      beta[t] += sum;
    }
    return;
  }
  for (int64_t j = 0; j < cols; ++j) {
    const uint8_t *const x = b->x + j * apart;
    const int32_t sign = w[j];
    for (int64_t t = 0; t < b->n; ++t) beta[t] += (uint32_t)((((x[t * b->step] ^ flip) - flip - zero) ^ sign) - sign);
  }
}

const rdt_int8_table INT8_TABLE = {.rows = MR,
                                   .cols = NR,
                                   .lanes = VL,
                                   .unit = UNIT,
                                   .strip = strip,
                                   .turn = turn,
                                   .pack = pack,
                                   .dot = row_dot,
                                   .fall = fall,
                                   .inner = inner,
                                   .panel = panel,
                                   .weigh = weigh};
