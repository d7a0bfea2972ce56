// What the emulated GPU's lanes compute with floating-point numbers, and how they convert them, against other ways to
// compute it.
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "test_lanes.h"

static const struct {
  const char *name;
  int mode;
} roundings[] = {
    {"", FE_TONEAREST}, {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

// ---- Arithmetic, in 113 bits and then to the type's ----

// What is left of an operation in 113 bits that rounds towards zero goes into the last bit, so that the next rounding,
// to fewer bits, is right: the odd one is never taken for a tie.
static __float128 odd(__float128 x) {
  if (fetestexcept(FE_INEXACT)) {
    unsigned __int128 bits;
    memcpy(&bits, &x, sizeof bits);
    bits |= 1;
    memcpy(&x, &bits, sizeof bits);
  }
  return x;
}

static __attribute__((noinline)) __float128 exactly(char what, double a, double b, double c) {
  volatile __float128 x = a, y = b, z = c, result = 0;
  fesetround(FE_TOWARDZERO);
  feclearexcept(FE_ALL_EXCEPT);
  switch (what) {
    case '+':
      result = x + y;
      break;
    case '-':
      result = x - y;
      break;
    case '*':
      result = x * y;
      break;
    case '/':
      result = x / y;
      break;
    default:
      result = x * y;
      result = result + z;
  }
  const __float128 whole = odd(result);
  fesetround(FE_TONEAREST);
  return whole;
}

static __attribute__((noinline)) uint64_t narrowed(__float128 value, bool is_double, int mode) {
  volatile __float128 x = value;
  fesetround(mode);
  volatile double d = is_double ? (double)x : 0;
  volatile float f = is_double ? 0 : (float)x;
  fesetround(FE_TONEAREST);
  return is_double ? of_double(d) : f == f ? of_float(f) : 0x7fffffff;
}

// The sum of two numbers that cancel is -0 downwards, else 0; 113 bits have been made towards zero.
static uint64_t expected(char what, double a, double b, double c, bool is_double, int mode) {
  const __float128 exact = exactly(what, a, b, c);
  if (exact == 0 && mode == FE_DOWNWARD && what != '*' && what != '/') {
    const double x = what == 'f' ? a * b : a, y = what == 'f' ? c : what == '-' ? -b : b;
    const bool both_plus = what == 'f' ? (signbit(a) == signbit(b)) && !signbit(c) : !signbit(x) && !signbit(y);
    return both_plus && (what != 'f' || a == 0 || b == 0) && x == 0 && y == 0 ? 0
           : is_double                                                        ? of_double(-0.)
                                                                              : of_float(-0.f);
  }
  return narrowed(exact, is_double, mode);
}

// A NaN is always the same one.
static void assert_number(uint64_t now, uint64_t want, bool is_double) {
  assert_int_equal(now, is_double && isnan(to_double(want)) ? UINT64_C(0xfff8000000000000) : want);
}

static void try_arithmetic(const char *name, char what, int sources, bool is_double, int rounding) {
  char words[32];
  snprintf(words, sizeof words, "%s%s.%s", name, roundings[rounding].name, is_double ? "f64" : "f32");
  em_instruction in;
  const char r = is_double ? 'd' : 'w', registers[] = {r, r, sources > 1 ? r : 0, sources > 2 ? r : 0, 0};
  assert_null(make(&in, words, registers));
  for (int round = 0; round < (is_double ? 100 : 200); round++) {
    for (int lane = 0; lane < EM_LANES; lane++) {
      for (int i = 1; i <= sources; i++) {
        put(&in, i, lane, is_double ? a_double() : a_float());
      }
      if (sources == 3 && lane % 4 == 0) {  // what nearly cancels
        if (is_double) {
          put(&in, 3, lane, of_double(-to_double(got(&in, 1, lane)) * to_double(got(&in, 2, lane))));
        } else {
          put(&in, 3, lane, of_float(-to_float(got(&in, 1, lane)) * to_float(got(&in, 2, lane))));
        }
      }
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      double v[4] = {0};
      for (int i = 1; i <= sources; i++) {
        v[i] = is_double ? to_double(got(&in, i, lane)) : to_float(got(&in, i, lane));
      }
      const uint64_t want = sources == 1 ? expected(what, 1, v[1], 0, is_double, roundings[rounding].mode)
                                         : expected(what, v[1], v[2], v[3], is_double, roundings[rounding].mode);
      assert_number(got(&in, 0, lane), want, is_double);
    }
  }
}

static void test_arithmetic(void **state) {
  (void)state;
  for (int is_double = 0; is_double < 2; is_double++) {
    for (int rounding = 0; rounding < 5; rounding++) {
      try_arithmetic("add", '+', 2, is_double, rounding);
      try_arithmetic("sub", '-', 2, is_double, rounding);
      try_arithmetic("mul", '*', 2, is_double, rounding);
      try_arithmetic("div", '/', 2, is_double, rounding);
      try_arithmetic("rcp", '/', 1, is_double, rounding);
      try_arithmetic("fma", 'f', 3, is_double, rounding);
    }
  }
}

// A root is right if its neighbours' squares are on either side, in 113 bits: exact for 24 bits, and 53.
static void test_roots(void **state) {
  (void)state;
  for (int kind = 0; kind < 10; kind++) {
    const bool is_double = kind % 2;
    char words[32];
    snprintf(words, sizeof words, "sqrt%s.%s", roundings[kind / 2].name, is_double ? "f64" : "f32");
    em_instruction in;
    assert_null(make(&in, words, is_double ? "dd" : "ww"));
    for (int round = 0; round < 100; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, is_double ? a_double() : a_float());
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t now = got(&in, 0, lane);
        const double a = is_double ? to_double(got(&in, 1, lane)) : to_float(got(&in, 1, lane));
        const double root = is_double ? to_double(now) : to_float(now);
        if (!(a > 0) || isinf(a)) {
          assert_number(now, a == a && a >= 0 ? got(&in, 1, lane) : is_double ? of_double(NAN) : 0x7fffffff, is_double);
          continue;
        }
        const double below = is_double ? nextafter(root, 0) : nextafterf((float)root, 0);
        const double above = is_double ? nextafter(root, INFINITY) : nextafterf((float)root, INFINITY);
        const __float128 r = root, least = r * r, x = a;
        const __float128 low = (r + below) / 2, high = (r + above) / 2;
        switch (roundings[kind / 2].mode) {
          case FE_TONEAREST:
            assert_true(low * low < x && x < high * high);
            break;
          case FE_UPWARD:
            assert_true((__float128)below * below < x && x <= least);
            break;
          default:
            assert_true(least <= x && x < (__float128)above * above);
        }
      }
    }
  }
}

// ---- Signs, extremes, comparisons ----

static void test_signs(void **state) {
  (void)state;
  for (int is_double = 0; is_double < 2; is_double++) {
    const uint64_t top = is_double ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    static const char *const names[] = {"neg", "abs", "copysign"};
    for (int kind = 0; kind < 3; kind++) {
      char words[32];
      snprintf(words, sizeof words, "%s.%s", names[kind], is_double ? "f64" : "f32");
      em_instruction in;
      const char *registers = is_double ? "ddd" : "www";
      assert_null(make(&in, words, registers + (kind < 2)));
      for (int i = 0; i < 20; i++) {
        for (int lane = 0; lane < EM_LANES; lane++) {
          put(&in, 1, lane, is_double ? a_double() : a_float());
          put(&in, 2, lane, is_double ? a_double() : a_float());
        }
        run(&in);
        for (int lane = 0; lane < EM_LANES; lane++) {
          const uint64_t a = got(&in, 1, lane), b = got(&in, 2, lane);
          assert_int_equal(got(&in, 0, lane), !kind ? a ^ top : kind == 1 ? a & ~top : (b & ~top) | (a & top));
        }
      }
    }
  }
}

// By the order of the bits: negative numbers run backwards.
static int64_t order_of(uint64_t bits, int width) {
  const uint64_t magnitude = bits & ((UINT64_C(1) << (width - 1)) - 1);
  return bits >> (width - 1) & 1 ? -1 - (int64_t)magnitude : (int64_t)magnitude;
}
static bool is_nan(uint64_t bits, int width, int fraction) {
  const uint64_t infinity = ((UINT64_C(1) << (width - 1 - fraction)) - 1) << fraction;
  return (bits & ((UINT64_C(1) << (width - 1)) - 1)) > infinity;
}
static uint64_t extreme_of(uint64_t a, uint64_t b, int width, int fraction, bool greatest, bool with_nan) {
  const bool a_nan = is_nan(a, width, fraction), b_nan = is_nan(b, width, fraction);
  if (with_nan ? a_nan || b_nan : a_nan && b_nan) {
    return (UINT64_C(1) << (width - 1)) - 1;
  }
  if (a_nan || b_nan) {
    return a_nan ? b : a;
  }
  return (order_of(a, width) < order_of(b, width)) == greatest ? b : a;
}

static void test_extremes(void **state) {
  (void)state;
  static const struct {
    const char *type, *registers;
    int width, fraction, parts;
  } kinds[] = {{"f32", "www", 32, 23, 1},   {"f64", "ddd", 64, 52, 1}, {"f16", "hhh", 16, 10, 1},
               {"f16x2", "www", 16, 10, 2}, {"bf16", "hhh", 16, 7, 1}, {"bf16x2", "www", 16, 7, 2}};
  static const uint16_t halves[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x3c00, 0xbc00, 0x3f80, 0x7bff,
                                    0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xfe00, 0x7f80, 0xff80, 0x7f81, 0x7fff};
  for (int i = 0; i < 6 * 4; i++) {
    const int kind = i / 4, width = kinds[kind].width;
    const bool greatest = i % 2, with_nan = i / 2 % 2;
    char words[32];
    snprintf(words, sizeof words, "%s%s.%s", greatest ? "max" : "min", with_nan ? ".NaN" : "", kinds[kind].type);
    em_instruction in;
    const char *why = make(&in, words, kinds[kind].registers);
    if (width == 64 && with_nan) {
      assert_non_null(why);
      continue;
    }
    assert_null(why);
    for (int round = 0; round < 50; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        for (int source = 1; source < 3; source++) {
          const uint32_t two = (uint32_t)halves[draw() % 19] << 16 | halves[draw() % 19];
          put(&in, source, lane, width == 64 ? a_double() : width == 32 ? a_float() : draw() % 2 ? two : draw());
        }
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        for (int part = 0; part < kinds[kind].parts; part++) {
          const uint64_t a = cut(got(&in, 1, lane) >> 16 * part, width), b = cut(got(&in, 2, lane) >> 16 * part, width);
          const uint64_t now = cut(got(&in, 0, lane) >> 16 * part, width);
          const uint64_t want = extreme_of(a, b, width, kinds[kind].fraction, greatest, with_nan);
          assert_number(now, want, width == 64);
        }
      }
    }
  }
}

static const struct {
  const char *name;
  bool less, equal, greater, unordered;
} orders[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},  {"gt", 0, 0, 1, 0},
              {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1},
              {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1}, {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
enum { ORDERS = sizeof orders / sizeof *orders };

static bool ordered(int how, uint64_t a, uint64_t b, int width, int fraction) {
  if (is_nan(a, width, fraction) || is_nan(b, width, fraction)) {
    return orders[how].unordered;
  }
  const uint64_t magnitudes = (UINT64_C(1) << (width - 1)) - 1;
  if (order_of(a, width) == order_of(b, width) || !((a | b) & magnitudes)) {
    return orders[how].equal;
  }
  return order_of(a, width) < order_of(b, width) ? orders[how].less : orders[how].greater;
}

static void test_comparisons(void **state) {
  (void)state;
  for (int i = 0; i < ORDERS * 3; i++) {
    const int how = i / 3, kind = i % 3;
    char words[32];
    em_instruction in;
    snprintf(words, sizeof words, kind == 2 ? "set.%s.u32.f16x2" : "setp.%s.%s", orders[how].name,
             kind ? "f64" : "f32");
    assert_null(make(&in, words, kind == 2 ? "www" : kind ? "pdd" : "pww"));
    for (int round = 0; round < 50; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t a = kind == 2 ? draw() & draw() : kind ? a_double() : a_float();
        const uint64_t b = kind == 2 ? draw() & draw() : kind ? a_double() : a_float();
        put(&in, 1, lane, a), put(&in, 2, lane, draw() % 4 ? b : kind == 2 ? a ^ 0x80000000 : a);
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t a = got(&in, 1, lane), b = got(&in, 2, lane);
        if (kind == 2) {
          const uint64_t low = ordered(how, a & 0xffff, b & 0xffff, 16, 10) ? 0xffff : 0;
          assert_int_equal(got(&in, 0, lane), low | (ordered(how, a >> 16, b >> 16, 16, 10) ? 0xffff0000 : 0));
        } else {
          assert_int_equal(got(&in, 0, lane), ordered(how, a, b, kind ? 64 : 32, kind ? 52 : 23));
        }
      }
    }
  }
  static const char *const classes[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  for (int i = 0; i < 12; i++) {
    char words[32];
    em_instruction in;
    snprintf(words, sizeof words, "testp.%s.%s", classes[i / 2], i % 2 ? "f64" : "f32");
    assert_null(make(&in, words, i % 2 ? "pd" : "pw"));
    for (int at = 0; at < FLOATS + 16; at++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, i % 2 ? double_at(at) : floats[at % FLOATS]);
      }
      run(&in);
      const int class = i % 2 ? fpclassify(to_double(double_at(at))) : fpclassify(to_float(floats[at % FLOATS]));
      const bool want[] = {class != FP_INFINITE && class != FP_NAN,
                           class == FP_INFINITE,
                           class != FP_NAN,
                           class == FP_NAN,
                           class == FP_NORMAL,
                           class == FP_SUBNORMAL};
      assert_int_equal(got(&in, 0, 7), want[i / 2]);
    }
  }
}

// ---- Conversions ----

static void test_integers_to_integers(void **state) {
  (void)state;
  for (int i = 0; i < 8 * 8 * 9; i++) {
    const int to = i % 8, from = i / 8 % 8, to_register = 16 << i / 64 % 3, from_register = 16 << i / 192;
    const int to_bits = 8 << to % 4, from_bits = 8 << from % 4;
    char words[32], registers[] = {letter(to_register), letter(from_register), 0};
    snprintf(words, sizeof words, "cvt.%c%d.%c%d", "us"[to / 4], to_bits, "us"[from / 4], from_bits);
    em_instruction in;
    const char *why = make(&in, words, registers);
    if (to_bits > to_register || from_bits > from_register ||
        (from > 3 && to < 4 && from_bits < to_bits && to_bits < to_register)) {
      assert_non_null(why);
      continue;
    }
    assert_null(why);
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, an_integer());
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t x = cut(got(&in, 1, lane), from_bits);
      const uint64_t value = cut(from > 3 ? (uint64_t)as_signed(x, from_bits) : x, to_bits);
      assert_int_equal(got(&in, 0, lane), cut(to > 3 ? (uint64_t)as_signed(value, to_bits) : value, to_register));
    }
  }
}

static void test_integers_to_numbers(void **state) {
  (void)state;
  for (int i = 0; i < 8 * 3 * 2 * 4; i++) {
    const int from = i % 8, from_register = 16 << i / 8 % 3, from_bits = 8 << from % 4, rounding = 1 + i / 48;
    const bool is_double = i / 24 % 2;
    if (from_bits > from_register) {
      continue;
    }
    char words[32], registers[] = {is_double ? 'd' : 'w', letter(from_register), 0};
    snprintf(words, sizeof words, "cvt%s.f%d.%c%d", roundings[rounding].name, is_double ? 64 : 32, "us"[from / 4],
             from_bits);
    em_instruction in;
    assert_null(make(&in, words, registers));
    for (int round = 0; round < 20; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, an_integer() << (lane % 2 ? draw() % 40 : 0));
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t x = cut(got(&in, 1, lane), from_bits);
        const __float128 exact = from > 3 ? (__float128)(int64_t)as_signed(x, from_bits) : (__float128)x;
        assert_int_equal(got(&in, 0, lane), narrowed(exact, is_double, roundings[rounding].mode));
      }
    }
  }
}

static __attribute__((noinline)) double whole(double x, int mode) {
  volatile double y = x;
  fesetround(mode);
  y = nearbyint(y);
  fesetround(FE_TONEAREST);
  return y;
}

static void test_numbers_to_integers(void **state) {
  (void)state;
  static const char *const names[] = {"", "rni", "rzi", "rmi", "rpi"};
  for (int i = 0; i < 4 * 4 * 2; i++) {
    const int rounding = 1 + i % 4, bits = 32 << i / 4 % 2;
    const bool sign = i / 8 % 2, is_double = i / 16;
    char words[32], registers[] = {letter(bits), is_double ? 'd' : 'w', 0};
    snprintf(words, sizeof words, "cvt.%s.%c%d.f%d", names[rounding], "us"[sign], bits, is_double ? 64 : 32);
    em_instruction in;
    assert_null(make(&in, words, registers));
    for (int round = 0; round < 100; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        const float small = (float)(int)(draw() % 4001 - 2000) / 8;
        put(&in, 1, lane,
            is_double  ? lane % 2 ? a_double() : of_double(small)
             : lane % 2 ? a_float()
                       : of_float(small));
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t from = got(&in, 1, lane);
        const double x = whole(is_double ? to_double(from) : to_float(from), roundings[rounding].mode);
        const double least = sign ? -ldexp(1, bits - 1) : 0, end = ldexp(1, bits - sign);
        uint64_t want = 0;
        if (isnan(x)) {
          want = is_double || bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
        } else {
          want = x >= end     ? ~UINT64_C(0) >> (64 - bits + sign)
                 : x <= least ? (sign ? UINT64_C(1) << (bits - 1) : 0)
                 : x < 0      ? (uint64_t)(int64_t)x
                              : (uint64_t)x;
        }
        assert_int_equal(got(&in, 0, lane), cut(want, bits));
      }
    }
    snprintf(words, sizeof words, "cvt.%s.f%d.f%d", names[rounding], is_double ? 64 : 32, is_double ? 64 : 32);
    assert_null(make(&in, words, is_double ? "dd" : "ww"));
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t from = got(&in, 1, lane);
      const double x = whole(is_double ? to_double(from) : to_float(from), roundings[rounding].mode);
      assert_number(got(&in, 0, lane),
                    is_double  ? of_double(x)
                    : isnan(x) ? 0x7fffffff
                               : of_float((float)x),
                    is_double);
    }
  }
}

static void test_numbers_to_numbers(void **state) {
  (void)state;
  em_instruction in;
  for (int rounding = 1; rounding < 5; rounding++) {
    char words[32];
    snprintf(words, sizeof words, "cvt%s.f32.f64", roundings[rounding].name);
    assert_null(make(&in, words, "wd"));
    for (int round = 0; round < 200; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane,
            lane % 2 ? a_double() : (draw() & ~(UINT64_C(0x7ff) << 52)) | (1023 - 160 + draw() % 300) << 52);
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        assert_int_equal(got(&in, 0, lane), narrowed(to_double(got(&in, 1, lane)), false, roundings[rounding].mode));
      }
    }
  }
  for (int at = 0; at < FLOATS; at++) {
    const float x = to_float(floats[at]);
    assert_null(make(&in, "cvt.f64.f32", "dw"));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, floats[at]);
    }
    run(&in);
    assert_number(got(&in, 0, 3), of_double(x), true);
    assert_null(make(&in, "cvt.sat.f32.f32", "ww"));
    run(&in);
    assert_int_equal(got(&in, 0, 3), of_float(!(x > 0) ? 0 : x > 1 ? 1 : x));
    assert_null(make(&in, "cvt.rna.tf32.f32", "ww"));
    run(&in);
    const double steps = ldexp(x, 10 - (x != 0 && fabs(x) >= FLT_MIN && isfinite(x) ? ilogb(x) : -126));
    const double near =
        ldexp(copysign(floor(fabs(steps) + 0.5), x), -(10 - (x != 0 && fabs(x) >= FLT_MIN ? ilogb(x) : -126)));
    assert_int_equal(got(&in, 0, 3), isnan(x) ? 0x7fffffff : isinf(x) ? floats[at] : of_float((float)near));
  }
}

// The value of a small number, of so many bits of exponent and fraction; NaN and infinity as IEEE has them.
static double small(uint32_t bits, int exponents, int fraction) {
  const int bias = (1 << (exponents - 1)) - 1, exponent = (int)(bits >> fraction & ((1u << exponents) - 1));
  const uint32_t f = bits & ((1u << fraction) - 1);
  const double sign = bits >> (exponents + fraction) & 1 ? -1 : 1;
  if (exponent == (1 << exponents) - 1) {
    return f ? NAN : sign * INFINITY;
  }
  return sign * ldexp(exponent ? f + (1u << fraction) : f, (exponent ? exponent : 1) - bias - fraction);
}

// x between two neighbours, or one of them: the nearer, or the even one.
static uint32_t nearest_small(float x, int exponents, int fraction) {
  const uint32_t sign = signbit(x) ? 1u << (exponents + fraction) : 0;
  uint32_t low = 0, high = ((1u << exponents) - 1) << fraction;  // infinity, taken for the number that would be there
  const double a = fabs((double)x), beyond = ldexp(1, 1 << (exponents - 1));
  if (a >= beyond) {
    return sign | high;
  }
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    *(small(middle, exponents, fraction) <= a ? &low : &high) = middle;
  }
  const double down = a - small(low, exponents, fraction);
  const double up = (isinf(small(high, exponents, fraction)) ? beyond : small(high, exponents, fraction)) - a;
  return sign | (down < up || (down == up && low % 2 == 0) ? low : high);
}

static void try_small_of(float x, float y) {
  static const struct {
    const char *words;
    int exponents, fraction;
  } kinds[] = {{"cvt.rn.f16x2.f32", 5, 10}, {"cvt.rn.bf16x2.f32", 8, 7}};
  for (int i = 0; i < 2; i++) {
    em_instruction in;
    assert_null(make(&in, kinds[i].words, "www"));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, of_float(x)), put(&in, 2, lane, of_float(y));
    }
    run(&in);
    const uint64_t now = got(&in, 0, 5);
    assert_int_equal(now >> 16, isnan(x) ? 0x7fff : nearest_small(x, kinds[i].exponents, kinds[i].fraction));
    assert_int_equal(now & 0xffff, isnan(y) ? 0x7fff : nearest_small(y, kinds[i].exponents, kinds[i].fraction));
    assert_null(make(&in, i ? "cvt.rn.bf16.f32" : "cvt.rn.f16.f32", "hw"));
    run(&in);
    assert_int_equal(got(&in, 0, 5), now >> 16);
  }
}

static void test_halves(void **state) {
  (void)state;
  em_instruction in;
  for (uint32_t bits = 0; bits < 0x10000; bits += EM_LANES) {
    for (int i = 0; i < 2; i++) {
      assert_null(make(&in, i ? "cvt.f32.bf16" : "cvt.f32.f16", "wh"));
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, bits + (uint32_t)lane);
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const double x = small(bits + (uint32_t)lane, i ? 8 : 5, i ? 7 : 10);
        assert_int_equal(isnan(x) ? isnan(to_float(got(&in, 0, lane))) : got(&in, 0, lane) == of_float((float)x), 1);
      }
    }
  }
  for (int at = 0; at < FLOATS; at++) {
    try_small_of(to_float(floats[at]), to_float(floats[FLOATS - 1 - at]));
  }
  for (uint32_t bits = 0; bits < 0x7c00; bits += 1 + bits / 97) {  // numbers, ties, and beside them
    const double tie = (small(bits, 5, 10) + small(bits + 1 < 0x7c00 ? bits + 1 : bits, 5, 10)) / 2;
    try_small_of((float)small(bits, 5, 10), -(float)tie);
    try_small_of(nextafterf((float)tie, 0), nextafterf((float)tie, INFINITY));
    const double other = (small(bits, 8, 7) + small(bits + 1, 8, 7)) / 2;
    try_small_of((float)other, nextafterf(-(float)other, 0));
  }
  try_small_of(65519.99f, 65520), try_small_of(nextafterf(65520, 0), -65536);
}

static void test_eights(void **state) {
  (void)state;
  static const struct {
    const char *to, *from;
    int exponents, fraction;
    float largest;
  } kinds[] = {{"cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.f16x2.e4m3x2", 4, 3, 448},
               {"cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.f16x2.e5m2x2", 5, 2, 57344}};
  for (int k = 0; k < 2; k++) {
    em_instruction in;
    float value[256];
    for (uint32_t bits = 0; bits < 256; bits++) {
      // the numbers of e4m3 go on where infinity would be, but for one that is none
      const bool more = k == 0 && (bits & 0x78) == 0x78;
      const double x = !more             ? small(bits, kinds[k].exponents, kinds[k].fraction)
                       : (bits & 7) == 7 ? NAN
                                         : (bits & 128 ? -256. : 256.) * (1 + (bits & 7) / 8.);
      value[bits] = (float)x;
      assert_null(make(&in, kinds[k].from, "wh"));
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, bits << 8 | (bits ^ 0x80));
      }
      run(&in);
      const double high = small((uint32_t)got(&in, 0, 9) >> 16, 5, 10),
                   low = small((uint32_t)got(&in, 0, 9) & 0xffff, 5, 10);
      assert_true(isnan(x) ? isnan(high) && isnan(low)
                           : of_double(high) == of_double(x) && of_double(low) == of_double(-x));
    }
    const int last = k ? 0x7b : 0x7e;  // the largest one
    for (int bits = 0; bits <= last + 1; bits++) {
      for (int beside = -1; beside < 2; beside++) {  // ties and their neighbours, at last beyond all
        float x = bits <= last ? value[bits] : INFINITY;
        x = bits < last ? (value[bits] + value[bits + 1]) / 2 : x;
        x = beside ? nextafterf(x, beside < 0 ? 0 : INFINITY) : x;
        assert_null(make(&in, kinds[k].to, "hww"));
        for (int lane = 0; lane < EM_LANES; lane++) {
          put(&in, 1, lane, of_float(x)), put(&in, 2, lane, of_float(-x));
        }
        run(&in);
        const int want = bits >= last ? last : beside < 0 ? bits : beside > 0 ? bits + 1 : bits + bits % 2;
        assert_int_equal(got(&in, 0, 9), want << 8 | want | 0x80);
      }
    }
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, 0xffc00001), put(&in, 2, lane, of_float(-0.f));
    }
    run(&in);
    assert_int_equal(got(&in, 0, 9), 0x7f80);
  }
}

// ---- Approximations: of a last bit or so ----

static double f_rcp(double x) {
  return 1 / x;
}
static double f_rsqrt(double x) {
  return 1 / sqrt(x);
}

static void test_approximations(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double (*is)(double);
    bool has_ftz;
  } functions[] = {{"ex2", exp2, true},      {"lg2", log2, true}, {"rcp", f_rcp, true}, {"sqrt", sqrt, true},
                   {"rsqrt", f_rsqrt, true}, {"sin", sin, true},  {"cos", cos, true},   {"tanh", tanh, false}};
  for (int i = 0; i < 16; i++) {
    const bool ftz = i % 2;
    char words[32];
    snprintf(words, sizeof words, "%s.approx%s.f32", functions[i / 2].name, ftz ? ".ftz" : "");
    em_instruction in;
    const char *why = make(&in, words, "ww");
    if (ftz && !functions[i / 2].has_ftz) {
      assert_non_null(why);
      continue;
    }
    assert_null(why);
    for (int round = 0; round < 300; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        const float x = (float)(draw() >> 40) * 0x1p-24f * 310 - 155;
        put(&in, 1, lane, lane % 2 ? a_float() : of_float(x));
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        float x = to_float(got(&in, 1, lane));
        x = ftz && fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
        const float now = to_float(got(&in, 0, lane));
        float want = (float)functions[i / 2].is(x);
        if (isnan(want)) {
          assert_int_equal(of_float(now), 0x7fffffff);
        } else if (ftz && fabsf(want) < FLT_MIN) {
          assert_int_equal(of_float(now), of_float(copysignf(0, want)));
        } else {
          assert_true(now == want || now == nextafterf(want, INFINITY) || now == nextafterf(want, -INFINITY));
          assert_int_equal(signbit(now), signbit(want));
        }
      }
    }
  }
}

// Divisions that are made of these, and roughly.
static void test_beginnings(void **state) {
  (void)state;
  em_instruction in;
  for (int kind = 0; kind < 2; kind++) {
    assert_null(make(&in, kind ? "rsqrt.approx.ftz.f64" : "rcp.approx.ftz.f64", "dd"));
    for (int round = 0; round < 200; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, a_double());
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const double x = to_double(got(&in, 1, lane)), now = to_double(got(&in, 0, lane));
        const double seen = fabs(x) < DBL_MIN ? copysign(0, x) : x, exact = kind ? 1 / sqrt(seen) : 1 / seen;
        assert_int_equal(got(&in, 0, lane) & 0xffffffff, 0);
        if (isnan(exact)) {
          assert_true(isnan(now));
        } else if (isinf(exact) || fabs(exact) < DBL_MIN) {
          assert_int_equal(of_double(now), of_double(isinf(exact) ? exact : copysign(0, exact)));
        } else {
          assert_true(fabs(now / exact - 1) < 0x1p-18);
        }
      }
    }
  }
  static const struct {
    float a, b, is;
  } divisions[] = {{6, 3, 2},        {1, 0x1.8p126f, 0},     {-1, 0x1p127f, 0}, {INFINITY, 0x1p127f, NAN},
                   {1, 0, INFINITY}, {0x1p126f, 0x1p126f, 1}};
  assert_null(make(&in, "div.approx.f32", "www"));
  for (int i = 0; i < 6; i++) {
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, of_float(divisions[i].a)), put(&in, 2, lane, of_float(divisions[i].b));
    }
    run(&in);
    const float now = to_float(got(&in, 0, 30));
    assert_true(isnan(divisions[i].is) ? isnan(now) : now == divisions[i].is);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arithmetic),
      cmocka_unit_test(test_roots),
      cmocka_unit_test(test_signs),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_comparisons),
      cmocka_unit_test(test_integers_to_integers),
      cmocka_unit_test(test_integers_to_numbers),
      cmocka_unit_test(test_numbers_to_integers),
      cmocka_unit_test(test_numbers_to_numbers),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_eights),
      cmocka_unit_test(test_approximations),
      cmocka_unit_test(test_beginnings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
