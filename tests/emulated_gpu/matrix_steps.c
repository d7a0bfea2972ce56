// What tensor cores of sm_90 add: the products of a step and the accumulator, exact, are cut off at F fraction bits of
// the largest (whose exponent is the sum of its factors' exponents), added, and the sum is cut off at Fo
// (docs/tolerance.md: 25 and 23; 8-bit floats 13 and 13). Integers wrap.
//
// A vector of lanes at once: rows by four columns, as accumulators lie in registers. In f32 and 32-bit integers where
// no number is far from 1; in double, one number after the other, where some is, or is not finite.
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <string.h>

#include "lanes_numbers.h"
#include "matrix.h"

enum { MOST_K = 32, NOTHING = -4096, TINY = -100, HUGE_ = 97 };

typedef struct left {  // of lane 4 g + t: row 8 h + g
  float x[2][MOST_K][EM_LANES];
  int32_t e[2][MOST_K][EM_LANES];
  uint32_t odd[2], nan[2];  // lanes whose row has a number that is not finite, a NaN
} left;
typedef struct right {  // columns 8 j + 2 t + e
  float x[EM_MOST_N / 8][2][MOST_K][4];
  int32_t e[EM_MOST_N / 8][2][MOST_K][4];
  uint32_t odd[EM_MOST_N / 8][2], nan[EM_MOST_N / 8][2];  // of its columns
} right;
typedef struct range {  // of exponents, of finite numbers other than zero
  int low, high;
} range;

static left the_left __attribute__((aligned(64)));
static right the_right __attribute__((aligned(64)));

static const struct {
  int bytes, bits, most;  // F; the bits of a sum that go
} kind[EM_NUMBERS] = {{2, 25, 0}, {2, 25, 0}, {4, 25, 0}, {1, 13, 10}, {1, 13, 10}, {1, 0, 0}, {1, 0, 0}};

int em_number_bytes(em_number type) {
  return kind[type].bytes;
}

// ---- Numbers ----

static uint32_t little(const uint8_t *at, int bytes) {
  uint32_t x = 0;
  memcpy(&x, at, (size_t)bytes);
  return x;
}

static float number_at(em_number type, const uint8_t *at) {
  switch (type) {
    case EM_NUMBER_F16:
      return of_half(little(at, 2));
    case EM_NUMBER_BF16:
      return of_bfloat(little(at, 2));
    case EM_NUMBER_TF32:
      return f32_of(little(at, 4) & 0xffffe000u);
    case EM_NUMBER_E4M3:
      return of_half(half_of_e4m3(*at));
    case EM_NUMBER_E5M2:
      return of_half((uint32_t)*at << 8);
    case EM_NUMBER_S8:
      return (float)(int8_t)*at;
    default:
      return (float)*at;
  }
}

// The exponent that a number is aligned by: those below the normal range count as its least.
static int exponent(em_number type, float x) {
  static const int least[EM_NUMBERS] = {-14, -126, -126, -6, -14, 0, 0};
  const int e = (int)(bits_of(x) >> 23 & 255) - 127;
  return x == 0.0f ? NOTHING : e < least[type] ? least[type] : e;
}

typedef struct shape {  // of 16-bit and 8-bit numbers: all that there are
  float x[65536];
  int16_t e[65536];
  bool made;
} shape;
static shape shapes[EM_NUMBERS];

static const shape *shape_of(em_number type) {
  shape *s = &shapes[type];
  for (uint32_t i = 0; !s->made && i < 1u << 8 * kind[type].bytes; i++) {
    s->x[i] = number_at(type, (const uint8_t *)&i);
    s->e[i] = (int16_t)exponent(type, s->x[i]);
  }
  s->made = true;
  return s;
}

typedef enum ends { FINITE, WITH_INFINITY, WITH_NAN } ends;

// A row's numbers and exponents.
static ends read_row(em_number type, bool minus, int k, const uint8_t *row, float *x, int32_t *e, range *r) {
  const int bytes = kind[type].bytes;
  const shape *s = bytes < 4 ? shape_of(type) : NULL;
  for (int i = 0; i < k; i++) {
    const uint32_t bits = bytes == 2 ? little(row + 2 * i, 2) : row[i];
    const float y = s ? s->x[bits] : number_at(type, row + 4 * i);
    e[i] = s ? s->e[bits] : exponent(type, y);
    x[i] = minus ? -y : y;
  }
  int low = 4096, high = NOTHING;
  for (int i = 0; i < k; i++) {
    high = e[i] > high ? e[i] : high;
    low = e[i] != NOTHING && e[i] < low ? e[i] : low;
  }
  if (high <= 127) {
    r->high = high > r->high ? high : r->high;
    r->low = low < r->low ? low : r->low;
    return FINITE;
  }
  bool nan = false;
  for (int i = 0; i < k; i++) nan |= isnan(x[i]);
  return nan ? WITH_NAN : WITH_INFINITY;
}

static range read_left(const em_step *s) {
  range r = {.low = 4096, .high = NOTHING};
  memset(the_left.odd, 0, sizeof the_left.odd), memset(the_left.nan, 0, sizeof the_left.nan);
  for (int i = 0; i < EM_M; i++) {
    float x[MOST_K];
    int32_t e[MOST_K];
    const ends are = read_row(s->a, s->a_minus, s->k, s->left[i], x, e, &r);
    the_left.odd[i / 8] |= are ? 0xfu << i % 8 * 4 : 0;
    the_left.nan[i / 8] |= are == WITH_NAN ? 0xfu << i % 8 * 4 : 0;
    for (int k = 0; k < s->k; k++)
      for (int t = 0; t < 4; t++)
        the_left.x[i / 8][k][i % 8 * 4 + t] = x[k], the_left.e[i / 8][k][i % 8 * 4 + t] = e[k];
  }
  return r;
}

static bool same_right(const em_step *s) {
  static uint8_t bytes[EM_MOST_N][EM_K_BYTES];
  static int n, k;
  static em_number type;
  static bool minus;
  const bool same =
      n == s->n && k == s->k && type == s->b && minus == s->b_minus && !memcmp(bytes, s->right, (size_t)n * EM_K_BYTES);
  if (!same) {
    n = s->n, k = s->k, type = s->b, minus = s->b_minus;
    memcpy(bytes, s->right, (size_t)n * EM_K_BYTES);
  }
  return same;
}

// The four warps of a group have the same right side.
static range read_right(const em_step *s) {
  static range r;
  if (same_right(s)) return r;
  r = (range){.low = 4096, .high = NOTHING};
  memset(the_right.odd, 0, sizeof the_right.odd), memset(the_right.nan, 0, sizeof the_right.nan);
  for (int i = 0; i < s->n; i++) {
    float x[MOST_K];
    int32_t e[MOST_K];
    const ends are = read_row(s->b, s->b_minus, s->k, s->right[i], x, e, &r);
    the_right.odd[i / 8][i & 1] |= are ? 0x11111111u << i % 8 / 2 : 0;
    the_right.nan[i / 8][i & 1] |= are == WITH_NAN ? 0x11111111u << i % 8 / 2 : 0;
    for (int k = 0; k < s->k; k++)
      the_right.x[i / 8][i & 1][k][i % 8 / 2] = x[k], the_right.e[i / 8][i & 1][k][i % 8 / 2] = e[k];
  }
  return r;
}

// ---- One number after the other ----

// Powers of two, exponents of what is not 0 and truncation, all within the normal range of f64: products are not below
// 2^-298, and 2^last leaves 27 bits of them.
static double power(int e) {
  const union {
    uint64_t bits;
    double value;
  } x = {.bits = (uint64_t)(e + 1023) << 52};
  return x.value;
}
static double cut_at(double x, int last) {
  return (double)(int64_t)(x * power(-last)) * power(last);
}

static float cut(double x, int gone) {
  const union {
    double value;
    uint64_t bits;
  } now = {.value = x};
  if (x == 0.0) return 0.0f;
  const int e = (int)(now.bits >> 52 & 2047) - 1022;
  return (float)cut_at(x, e - 24 + gone < -149 ? -149 : e - 24 + gone);
}

static float sum_slowly(const em_step *s, int j, int h, int e, int lane, float c) {
  int most = c == 0.0f ? NOTHING : exponent(EM_NUMBER_TF32, c);
  double products = 0.0, total = 0.0;
  for (int k = 0; k < s->k; k++) {
    const int of = the_left.e[h][k][lane] + the_right.e[j][e][k][lane % 4];
    products += (double)the_left.x[h][k][lane] * (double)the_right.x[j][e][k][lane % 4];
    most = of > most ? of : most;
  }
  if (!isfinite(products) || !isfinite(c)) {  // as numbers without an end have it; NaN is one for all
    const float sum = (float)products + c;
    return isnan(sum) ? f32_of(0x7fffffffu) : sum;
  }
  if (most <= NOTHING) return 0.0f;
  const int last = most - kind[s->a].bits;
  for (int k = 0; k <= s->k; k++) {
    const double x = k == s->k ? (double)c : (double)the_left.x[h][k][lane] * (double)the_right.x[j][e][k][lane % 4];
    total += cut_at(x, last);
  }
  return cut(total, kind[s->a].most);
}

// c: of the row; NULL: zeros.
static void add_slowly(const em_step *s, int row, uint32_t lanes, const float *c) {
  const int j = row / 4, h = row >> 1 & 1, e = row & 1;
  const uint32_t nan = the_left.nan[h] | the_right.nan[j][e];
  for (int lane = 0; lane < EM_LANES; lane++)
    if (lanes >> lane & 1)
      s->d[row][lane] = nan >> lane & 1 ? f32_of(0x7fffffffu) : sum_slowly(s, j, h, e, lane, c ? c[lane] : 0.0f);
}

// ---- A vector at once ----

// For the processor: the same bits.
typedef struct ways {
  void (*floats)(const em_step *), (*more)(const em_step *), (*bytes)(const em_step *);
  void (*doubles)(double *const d[4], const double *const a[4], const double *const b[2], const double *const c[4]);
} ways;

// Of so many bytes: numbers of f32, of 32 bits.
#define VECTORS(bytes)                                                                        \
  typedef float floats##bytes __attribute__((vector_size(bytes), aligned(4), may_alias));     \
  typedef int32_t integers##bytes __attribute__((vector_size(bytes), aligned(4), may_alias)); \
  typedef uint32_t words##bytes __attribute__((vector_size(bytes), aligned(4), may_alias));
VECTORS(16)
VECTORS(32)
VECTORS(64)

#define NAME(x) x##_plain
#define BYTES 16
#define V floats16
#define I integers16
#define U words16
#define MAX(a, b) ((((a) > (b)) & (a)) | (~((a) > (b)) & (b)))
#include "matrix_body.h"
#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define NAME(x) x##_avx2
#define BYTES 32
#define V floats32
#define I integers32
#define U words32
#define MAX(a, b) ((I)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#include "matrix_body.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#define NAME(x) x##_avx512
#define BYTES 64
#define V floats64
#define I integers64
#define U words64
#define MAX(a, b) ((I)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#include "matrix_body.h"
#pragma GCC pop_options
#endif

static const ways *const *all_ways(int *count) {
  static const ways *all[3] = {&ways_plain};
  *count = 1;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all[(*count)++] = &ways_avx2;
  if (*count == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    all[(*count)++] = &ways_avx512;
#endif
  return all;
}

static int chosen = -1;

int em_step_ways(void) {
  int count;
  (void)all_ways(&count);
  return count;
}

void em_step_way(int which) {
  chosen = which;
}

static const ways *the_ways(void) {
  static const ways *best;
  int count;
  if (chosen >= 0) return all_ways(&count)[chosen];
  if (!best) {
    const ways *const *all = all_ways(&count);
    best = all[count - 1];
  }
  return best;
}

void em_step_do(const em_step *s) {
  const range a = read_left(s), b = read_right(s);
  if (s->a >= EM_NUMBER_S8) {
    the_ways()->bytes(s);
  } else if (a.low + b.low >= TINY && a.high + b.high <= HUGE_) {
    (kind[s->a].bits == 25 ? the_ways()->floats : the_ways()->more)(s);
  } else {
    for (int row = 0; row < s->n / 2; row++) add_slowly(s, row, 0xffffffffu, s->c ? s->c[row] : NULL);
  }
}

void em_step_f64(double *const d[4], const double *const a[4], const double *const b[2], const double *const c[4]) {
  the_ways()->doubles(d, a, b, c);
}
