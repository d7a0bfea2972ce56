// Tensor cores of the emulated GPU: what a step adds, against sums that are made one number after the other, and where
// operands lie.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "later.h"
#include "matrix.h"
#include "runtime.h"

static uint64_t seed;

static uint32_t draw(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 32);
}

// ---- Steps ----

static const struct {
  const char *name;
  int bytes, mantissa, bias, kept, last;  // of sums: fraction bits that are kept while they are made, and then
} types[EM_NUMBERS] = {[EM_NUMBER_F16] = {"f16", 2, 10, 15, 25, 23},    [EM_NUMBER_BF16] = {"bf16", 2, 7, 127, 25, 23},
                       [EM_NUMBER_TF32] = {"tf32", 4, 23, 127, 25, 23}, [EM_NUMBER_E4M3] = {"e4m3", 1, 3, 7, 13, 13},
                       [EM_NUMBER_E5M2] = {"e5m2", 1, 2, 15, 13, 13},   [EM_NUMBER_S8] = {"s8", 1, 0, 0, 0, 0},
                       [EM_NUMBER_U8] = {"u8", 1, 0, 0, 0, 0}};

// Of a number's bits its value, and the exponent that it is aligned by.
static double value_of(em_number type, uint32_t bits, int *aligned) {
  const int m = types[type].mantissa, width = 8 * types[type].bytes;
  if (type == EM_NUMBER_S8) return (int8_t)bits;
  if (type == EM_NUMBER_U8) return (uint8_t)bits;
  if (type == EM_NUMBER_TF32) bits &= ~0x1fffu;
  const int field = (int)(bits >> m & ((1u << (width - 1 - m)) - 1)), most = (1 << (width - 1 - m)) - 1;
  const uint32_t fraction = bits & ((1u << m) - 1);
  const double sign = bits >> (width - 1) ? -1.0 : 1.0;
  *aligned = (field ? field : 1) - types[type].bias;
  if (type == EM_NUMBER_E4M3 && (bits & 0x7f) == 0x7f) return NAN;
  if (type != EM_NUMBER_E4M3 && field == most) return fraction ? NAN : sign * INFINITY;
  return sign * ldexp((double)fraction + (field ? ldexp(1.0, m) : 0.0), *aligned - m);
}

static double cut(double x, int exponent) {
  return ldexp(trunc(ldexp(x, -exponent)), exponent);
}

static float expected(const em_step *s, int row, int column, float c) {
  double term[33], total = 0.0, plain = 0.0;
  int most = -100000, n = 0;
  for (int k = 0; k < s->k; k++) {
    const int bytes = types[s->a].bytes;
    uint32_t x = 0, y = 0;
    int ex = 0, ey = 0;
    memcpy(&x, &s->left[row][k * bytes], (size_t)bytes), memcpy(&y, &s->right[column][k * bytes], (size_t)bytes);
    term[n] = value_of(s->a, x, &ex) * value_of(s->b, y, &ey) * (s->a_minus != s->b_minus ? -1.0 : 1.0);
    plain += term[n];
    if (term[n] != 0.0 && ex + ey > most) most = ex + ey;
    n++;
  }
  if (s->a >= EM_NUMBER_S8) {
    int32_t before;
    memcpy(&before, &c, sizeof before);
    const uint32_t sum = (uint32_t)before + (uint32_t)(int32_t)plain;
    memcpy(&c, &sum, sizeof c);
    return c;
  }
  if (!isfinite(plain) || !isfinite(c)) return (float)plain + c;
  const bool none = most == -100000;
  if (c != 0.0f && (ilogb(c) < -126 ? -126 : ilogb(c)) > most) most = ilogb(c) < -126 ? -126 : ilogb(c);
  if (none) return c + 0.0f;
  term[n++] = (double)c;
  for (int i = 0; i < n; i++) total += cut(term[i], most - types[s->a].kept);
  if (total == 0.0) return 0.0f;
  const int last = ilogb(total) - types[s->a].last;
  return (float)cut(total, last < -149 ? -149 : last);
}

typedef struct tile {
  uint8_t left[EM_M][EM_K_BYTES], right[EM_MOST_N][EM_K_BYTES];
  float c[EM_MOST_N / 2][EM_LANES], d[EM_MOST_N / 2][EM_LANES];
} tile;

static float *c_rows[EM_MOST_N / 2], *d_rows[EM_MOST_N / 2];

static em_step step_of(tile *t, em_number a, em_number b, int k_bytes, int n) {
  for (int i = 0; i < n / 2; i++) c_rows[i] = t->c[i], d_rows[i] = t->d[i];
  return (em_step){.a = a,
                   .b = b,
                   .k = k_bytes / types[a].bytes,
                   .n = n,
                   .left = (const uint8_t(*)[EM_K_BYTES])t->left,
                   .right = (const uint8_t(*)[EM_K_BYTES])t->right,
                   .c = c_rows,
                   .d = d_rows};
}

static bool same(float x, float y) {
  return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y));
}

static void compare(const em_step *s, const tile *t, const char *what) {
  for (int row = 0; row < EM_M; row++)
    for (int column = 0; column < s->n; column++) {
      const int i = column / 8 * 4 + row / 8 * 2 + column % 2, lane = row % 8 * 4 + column % 8 / 2;
      const float want = expected(s, row, column, s->c ? t->c[i][lane] : 0.0f);
      if (!same(t->d[i][lane], want))
        fail_msg("%s: %s, row %d, column %d: %a, expected %a", what, types[s->a].name, row, column,
                 (double)t->d[i][lane], (double)want);
    }
}

// Numbers whose exponents lie within some of each other; or any bits at all.
static void fill(tile *t, em_number type, int spread) {
  uint8_t *at[] = {t->left[0], t->right[0]};
  const size_t bytes[] = {sizeof t->left, sizeof t->right};
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < bytes[side]; i += (size_t)types[type].bytes) {
      uint32_t bits = draw();
      const int m = types[type].mantissa;
      if (spread && type < EM_NUMBER_S8) {
        const uint32_t sign = bits >> 31 << (8 * types[type].bytes - 1), fraction = draw() & ((1u << m) - 1);
        const int field = types[type].bias + (int)(draw() % (uint32_t)spread) - spread / 2;
        bits = draw() % 16 ? sign | (uint32_t)(field < 0 ? 0 : field) << m | fraction : sign;
      }
      memcpy(at[side] + i, &bits, (size_t)types[type].bytes);
    }
  for (int i = 0; i < EM_MOST_N / 2; i++)
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint32_t bits = draw();
      const float x = ldexpf((float)(int32_t)bits, -31 + (int)(draw() % 8) - 4);
      memcpy(&t->c[i][lane], &bits, sizeof bits);
      if (spread && type < EM_NUMBER_S8) t->c[i][lane] = draw() % 8 ? x : 0.0f;
    }
}

static void test_steps(void **state) {
  static tile t;
  static const int spreads[] = {1, 4, 12, 30, 0};
  (void)state;
  for (int way = 0; way < em_step_ways(); way++) {
    em_step_way(way);
    for (int type = 0; type < EM_NUMBERS; type++)
      for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++)
        for (int turn = 0; turn < 6; turn++) {
          seed = (uint64_t)(turn + 1);
          fill(&t, (em_number)type, spreads[i]);
          em_step s = step_of(&t, (em_number)type, (em_number)type, turn == 1 ? 16 : 32, turn == 2 ? 256 : 24);
          s.a_minus = turn == 3, s.b_minus = turn == 4 && type < EM_NUMBER_S8;
          s.a_minus = s.a_minus && type < EM_NUMBER_S8;
          if (turn == 5) s.c = NULL;
          em_step_do(&s);
          compare(&s, &t, spreads[i] ? "numbers" : "bits");
        }
  }
  em_step_way(-1);
}

// Left and right of different types; the sum in the accumulator's own place.
static void test_mixes(void **state) {
  static const em_number pairs[][2] = {{EM_NUMBER_S8, EM_NUMBER_U8},
                                       {EM_NUMBER_U8, EM_NUMBER_S8},
                                       {EM_NUMBER_E4M3, EM_NUMBER_E5M2},
                                       {EM_NUMBER_E5M2, EM_NUMBER_E4M3}};
  static tile t, before;
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    seed = i + 1;
    fill(&t, EM_NUMBER_S8, 0);
    if (pairs[i][0] < EM_NUMBER_S8)  // no NaN among them
      for (int r = 0; r < 48; r++)
        for (int k = 0; k < EM_K_BYTES; k++) (r < EM_M ? t.left[r] : t.right[r - EM_M])[k] &= 0xbf;
    for (int r = 0; r < EM_MOST_N / 2; r++)
      for (int lane = 0; lane < EM_LANES; lane++) t.c[r][lane] = (float)(int)(draw() % 64);
    before = t;
    em_step s = step_of(&t, pairs[i][0], pairs[i][1], 32, 32);
    s.d = c_rows;
    em_step_do(&s);
    memcpy(t.d, t.c, sizeof t.d);
    memcpy(t.c, before.c, sizeof t.c);
    compare(&s, &t, "a mix");
  }
}

// Where one number stands out: what is lost, what is not finite, what is too large.
static void test_ends(void **state) {
  static tile t;
  static const struct {
    uint16_t a, b, a2, b2;  // f16
    float c, sum;
  } cases[] = {
      {0x3c00, 0x3c00, 0, 0, 0x1p-25f, 1.0f},                     // kept while it is added, then cut off
      {0x3c00, 0x3c00, 0x0c00, 0x3c00, 0.0f, 0x1.001p0f},         // 2^-12
      {0x3c00, 0x3c00, 0xbc00, 0x3c00, 0x1p-25f, 0x1p-25f},       // the rest of 1 - 1
      {0x3c00, 0x3c00, 0xbc00, 0x3c00, 0x1.8p-25f, 0x1p-25f},     // of which so much is kept
      {0x3c00, 0x3c00, 0xbc00, 0x3c00, 0x1.8p-26f, 0.0f},         // nothing
      {0x0001, 0x0001, 0, 0, 0.0f, 0x1p-48f},                     // the smallest numbers
      {0x0001, 0x3c00, 0, 0, 0x1p-40f, 0x1p-24f + 0x1p-39f * 0},  // aligned as 2^-14: 2^-40 is cut off
      {0x7c00, 0x3c00, 0, 0, -1.0f, INFINITY},
      {0x7c00, 0x0000, 0, 0, 1.0f, NAN},
      {0x7c00, 0x3c00, 0xfc00, 0x3c00, 0.0f, NAN},
      {0x7e00, 0x3c00, 0, 0, 0.0f, NAN},
      {0x3c00, 0x3c00, 0, 0, -INFINITY, -INFINITY},
      {0x7bff, 0x7bff, 0, 0, FLT_MAX, FLT_MAX},
      {0, 0, 0, 0, -0.0f, 0.0f},
      {0, 0, 0, 0, 0x1p-149f, 0x1p-149f},
  };
  (void)state;
  for (int way = 0; way < em_step_ways(); way++) {
    em_step_way(way);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      memset(&t, 0, sizeof t);
      memcpy(&t.left[3][6], &cases[i].a, 2), memcpy(&t.right[5][6], &cases[i].b, 2);
      memcpy(&t.left[3][30], &cases[i].a2, 2), memcpy(&t.right[5][30], &cases[i].b2, 2);
      t.c[1][3 * 4 + 2] = cases[i].c;
      const em_step s = step_of(&t, EM_NUMBER_F16, EM_NUMBER_F16, 32, 8);
      em_step_do(&s);
      const float sum = t.d[1][3 * 4 + 2];
      if (!same(sum, cases[i].sum))
        fail_msg("case %zu, way %d: %a, expected %a", i, way, (double)sum, (double)cases[i].sum);
    }
  }
  em_step_way(-1);
}

static void test_doubles(void **state) {
  static double a[4][EM_LANES], b[2][EM_LANES], c[4][EM_LANES], d[4][EM_LANES];
  double *const to[] = {d[0], d[1], d[2], d[3]};
  const double *const left[] = {a[0], a[1], a[2], a[3]}, *const right[] = {b[0], b[1]},
                      *const add[] = {c[0], c[1], c[2], c[3]};
  (void)state;
  for (int way = 0; way < em_step_ways(); way++) {
    em_step_way(way);
    seed = 3;
    for (int i = 0; i < 4; i++)
      for (int lane = 0; lane < EM_LANES; lane++) {
        a[i][lane] = (double)(int32_t)draw() / 3.0, b[i % 2][lane] = (double)(int32_t)draw() / 7.0;
        c[i][lane] = (double)(int32_t)draw() * 1e6;
      }
    em_step_f64(to, left, right, add);
    for (int row = 0; row < 16; row++)
      for (int column = 0; column < 8; column++) {
        const int i = row / 8 * 2 + column % 2, lane = row % 8 * 4 + column / 2;
        double sum = c[i][lane];
        for (int k = 0; k < 8; k++)
          sum = fma(a[row / 8 + k / 4 * 2][row % 8 * 4 + k % 4], b[k / 4][column * 4 + k % 4], sum);
        assert_true(d[i][lane] == sum);
      }
  }
  em_step_way(-1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_mixes),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_doubles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
