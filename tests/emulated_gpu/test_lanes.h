// Single instructions on lanes of a made-up warp, for the tests of what they compute. Each instruction that is tried
// runs for all lanes, for some (the others keep what they had), and by the loops of every instruction set.
#ifndef RDT_EMULATED_TEST_LANES_H
#define RDT_EMULATED_TEST_LANES_H

#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lanes.h"

#define UNUSED __attribute__((unused))

enum { SLOT = 256, OPERANDS = 8, FILE_BYTES = 64 * SLOT };
static _Alignas(64) uint8_t file[FILE_BYTES];
static em_warp warp = {.file = file};
static uint64_t random_state = 1;

UNUSED static uint64_t draw(void) {
  uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// ---- An instruction of the words and registers that are asked for ----

static const struct {
  const char *name;
  em_type type;
} types[] = {{"u8", EM_U8},     {"u16", EM_U16},   {"u32", EM_U32},       {"u64", EM_U64},       {"s8", EM_S8},
             {"s16", EM_S16},   {"s32", EM_S32},   {"s64", EM_S64},       {"b8", EM_U8},         {"b16", EM_U16},
             {"b32", EM_U32},   {"b64", EM_U64},   {"f16", EM_F16},       {"f16x2", EM_F16X2},   {"bf16", EM_BF16},
             {"f32", EM_F32},   {"f64", EM_F64},   {"bf16x2", EM_BF16X2}, {"e4m3x2", EM_E4M3X2}, {"e5m2x2", EM_E5M2X2},
             {"tf32", EM_TF32}, {"pred", EM_PRED}, {NULL, EM_NONE}};

// The registers: a letter each, h, w, d of 2, 4, 8 bytes, p a predicate, n its negation; operand i is in slot i.
UNUSED static const char *make(em_instruction *in, const char *words, const char *registers) {
  static char text[64];
  memset(in, 0, sizeof *in);
  snprintf(text, sizeof text, "%s", words);
  char *rest, *name = strtok_r(text, ".", &rest);
  em_type last = EM_NONE, before = EM_NONE;
  for (int i = 0; (in->modifier[i] = strtok_r(NULL, ".", &rest)); i++) {
    for (int t = 0; types[t].name; t++) {
      if (!strcmp(types[t].name, in->modifier[i])) {
        before = last;
        last = types[t].type;
      }
    }
  }
  const bool cvt = !strcmp(name, "cvt");
  in->type = cvt ? before : last;
  in->from = cvt ? last : before;
  in->operands = (uint8_t)strlen(registers);
  for (int i = 0; registers[i]; i++) {
    const char r = registers[i];
    in->operand[i] = (em_operand){.kind = r == 'p' || r == 'n' ? EM_PREDICATE : EM_REGISTER,
                                  .negated = r == 'n',
                                  .bytes = r == 'h'   ? 2
                                           : r == 'w' ? 4
                                           : r == 'd' ? 8
                                                      : 0,
                                  .at = (uint32_t)(i * SLOT)};
  }
  for (const em_op *op = em_ops_arithmetic; op->name; op++) {
    if (!strcmp(op->name, name)) {
      return op->bind(in);
    }
  }
  return "no such opcode";
}

UNUSED static void put(const em_instruction *in, int operand, int lane, uint64_t value) {
  const em_operand *o = &in->operand[operand];
  if (o->kind == EM_PREDICATE) {
    const uint32_t bit = UINT32_C(1) << lane;
    *em_bits(&warp, o) = (*em_bits(&warp, o) & ~bit) | (value & 1 ? bit : 0);
  } else {
    em_set(&warp, o, lane, value);
  }
}

UNUSED static uint64_t got(const em_instruction *in, int operand, int lane) {
  const em_operand *o = &in->operand[operand];
  return o->kind == EM_PREDICATE ? *em_bits(&warp, o) >> lane & 1 : em_get(&warp, o, lane);
}

#ifdef __x86_64__
// The same instruction by the loops for any processor, where others were chosen.
UNUSED static void make_generic(em_instruction *in) {
  const bool wraps = in->wide != 0;  // in another rounding
  for (int i = 0; em_lanes_avx2[i]; i++) {
    if ((wraps ? (em_run *)(intptr_t)in->wide : in->run) == em_lanes_avx2[i]) {
      if (wraps) {
        in->wide = (int64_t)(intptr_t)em_lanes_generic[i];
      } else {
        in->run = em_lanes_generic[i];
      }
      return;
    }
  }
}
#else
UNUSED static void make_generic(em_instruction *in) {
  (void)in;
}
#endif

// Runs it in all the ways there are; operand 0 then holds what the lanes got.
UNUSED static void run(const em_instruction *in) {
  uint8_t before[SLOT], all[SLOT];
  memcpy(before, file, SLOT);
  const uint32_t carry = warp.carry;
  assert_int_equal(in->run(&warp, in, UINT32_MAX), EM_NEXT);
  const uint32_t carry_all = warp.carry;
  memcpy(all, file, SLOT);
  em_instruction generic = *in;
  make_generic(&generic);
  const uint32_t some = (uint32_t)draw() | 1;
  for (int way = 0; way < 3; way++) {  // the generic one for all lanes, both for some
    const uint32_t lanes = way ? some : UINT32_MAX;
    memcpy(file, before, SLOT);
    warp.carry = carry;
    const em_instruction *one = way < 2 ? &generic : in;
    assert_int_equal(one->run(&warp, one, lanes), EM_NEXT);
    assert_int_equal(warp.carry, (carry_all & lanes) | (carry & ~lanes));
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t now = got(in, 0, lane);
      memcpy(file + FILE_BYTES - SLOT, file, SLOT);
      memcpy(file, lanes >> lane & 1 ? all : before, SLOT);
      assert_int_equal(now, got(in, 0, lane));
      memcpy(file, file + FILE_BYTES - SLOT, SLOT);
    }
  }
  memcpy(file, all, SLOT);
  warp.carry = carry_all;
  assert_int_equal(fegetround(), FE_TONEAREST);
}

// ---- Values ----

UNUSED static uint64_t of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}
UNUSED static double to_double(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
UNUSED static uint32_t of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
UNUSED static float to_float(uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float x;
  memcpy(&x, &low, 4);
  return x;
}

UNUSED static const uint32_t floats[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x00800001, 0x34000000,
    0x3effffff, 0x3f000000, 0xbf000000, 0x3f7fffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x3fc00000, 0x40200000,
    0xc0200000, 0x40490fdb, 0x4b000001, 0x4b7fffff, 0x4effffff, 0x4f000000, 0xcf000000, 0xcf000001, 0x4f7fffff,
    0x4f800000, 0x5effffff, 0x5f000000, 0xdf000000, 0x5f7fffff, 0x5f800000, 0x7e800000, 0x7e800001, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001};
enum { FLOATS = sizeof floats / sizeof *floats };

UNUSED static uint64_t double_at(int i) {  // the same ones, and those about them that a float has not
  if (i < FLOATS) {
    return of_double(to_float(floats[i]));
  }
  static const uint64_t more[] = {1,
                                  UINT64_C(0x8000000000000001),
                                  UINT64_C(0x000fffffffffffff),
                                  UINT64_C(0x0010000000000000),
                                  UINT64_C(0x7fefffffffffffff),
                                  UINT64_C(0xffefffffffffffff),
                                  UINT64_C(0x3ff0000000000001),
                                  UINT64_C(0x36a0000000000000),
                                  UINT64_C(0x36a0000000000001),
                                  UINT64_C(0x369fffffffffffff),
                                  UINT64_C(0x47efffffe0000000),
                                  UINT64_C(0x47efffffefffffff),
                                  UINT64_C(0x47effffff0000000),
                                  UINT64_C(0x41dfffffffffffff),
                                  UINT64_C(0x41dfffffffc00000),
                                  UINT64_C(0xc1e0000000100000)};
  return more[(i - FLOATS) % 16];
}

UNUSED static const uint64_t integers[] = {0,
                                           1,
                                           2,
                                           3,
                                           7,
                                           31,
                                           32,
                                           33,
                                           63,
                                           64,
                                           65,
                                           127,
                                           128,
                                           255,
                                           256,
                                           0x7fff,
                                           0x8000,
                                           0xffff,
                                           0x10000,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           UINT64_C(0x100000000),
                                           UINT64_C(0x7fffffffffffffff),
                                           UINT64_C(0x8000000000000000),
                                           UINT64_C(0xfffffffffffffffe),
                                           UINT64_C(0xffffffffffffffff),
                                           UINT64_C(0x5555555555555555)};
enum { INTEGERS = sizeof integers / sizeof *integers };

UNUSED static uint64_t an_integer(void) {
  const uint64_t r = draw();
  return r % 3 ? integers[r / 3 % INTEGERS] : draw() >> draw() % 64;
}
UNUSED static uint64_t a_float(void) {
  return draw() % 2 ? floats[draw() % FLOATS] : (uint32_t)draw();
}
UNUSED static uint64_t a_double(void) {
  return draw() % 2 ? double_at((int)(draw() % (FLOATS + 16))) : draw();
}

UNUSED static uint64_t cut(uint64_t x, int bits) {
  return bits < 64 ? x & ((UINT64_C(1) << bits) - 1) : x;
}
UNUSED static __int128 as_signed(uint64_t x, int bits) {
  return (__int128)((int64_t)(x << (64 - bits)) >> (64 - bits));
}
UNUSED static char letter(int bits) {
  return bits == 16 ? 'h' : bits == 32 ? 'w' : 'd';
}

#endif
