// What the emulated GPU's lanes compute with integers, bits and predicates, against other ways to compute it.
#include "test_lanes.h"

typedef __int128 integer_function(__int128 a, __int128 b, __int128 c, int bits);
static __int128 i_add(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a + b;
}
static __int128 i_sub(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a - b;
}
static __int128 i_mul(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, (__int128)((unsigned __int128)a * (unsigned __int128)b);
}
static __int128 i_mad(__int128 a, __int128 b, __int128 c, int bits) {
  return (__int128)((unsigned __int128)i_mul(a, b, c, bits) + (unsigned __int128)c);
}
static __int128 i_high(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c,
         a < 0 || b < 0 ? i_mul(a, b, c, bits) >> bits : (__int128)((unsigned __int128)i_mul(a, b, c, bits) >> bits);
}
static __int128 i_mad_high(__int128 a, __int128 b, __int128 c, int bits) {
  return i_high(a, b, c, bits) + c;
}
static __int128 i_div(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, b ? a / b : -1;
}
static __int128 i_rem(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, b ? a % b : -1;
}
static __int128 i_min(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a < b ? a : b;
}
static __int128 i_max(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a < b ? b : a;
}
static __int128 i_abs(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)b, (void)c, (void)bits, a < 0 ? -a : a;
}
static __int128 i_neg(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)b, (void)c, (void)bits, -a;
}
static __int128 i_and(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a & b;
}
static __int128 i_or(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a | b;
}
static __int128 i_xor(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)c, (void)bits, a ^ b;
}
static __int128 i_not(__int128 a, __int128 b, __int128 c, int bits) {
  return (void)b, (void)c, (void)bits, ~a;
}

// One of so many sources, whose result is so many times as wide; of these kinds of types.
static const struct integer_case {
  const char *name, *kinds;
  int sources, times;
  integer_function *is;
} integer_cases[] = {{"add", "us", 2, 1, i_add},      {"sub", "us", 2, 1, i_sub},         {"mul.lo", "us", 2, 1, i_mul},
                     {"mul.hi", "us", 2, 1, i_high},  {"mul.wide", "us", 2, 2, i_mul},    {"mad.lo", "us", 3, 1, i_mad},
                     {"mad.wide", "us", 3, 2, i_mad}, {"mad.hi", "us", 3, 1, i_mad_high}, {"div", "us", 2, 1, i_div},
                     {"rem", "us", 2, 1, i_rem},      {"min", "us", 2, 1, i_min},         {"max", "us", 2, 1, i_max},
                     {"abs", "s", 1, 1, i_abs},       {"neg", "s", 1, 1, i_neg},          {"and", "b", 2, 1, i_and},
                     {"or", "b", 2, 1, i_or},         {"xor", "b", 2, 1, i_xor},          {"not", "b", 1, 1, i_not}};

static void try_integers(const struct integer_case *c, char kind, int bits) {
  const int wide = bits * c->times;
  char words[32], registers[5] = {letter(wide), letter(bits), letter(bits), letter(wide), 0};
  registers[1 + c->sources] = 0;
  snprintf(words, sizeof words, "%s.%c%d", c->name, kind, bits);
  em_instruction in;
  const char *why = make(&in, words, registers);
  if (c->is == i_mad_high && bits != 32) {
    assert_non_null(why);
    return;
  }
  assert_null(why);
  for (int round = 0; round < 100; round++) {
    uint64_t value[3][EM_LANES];
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 0, lane, draw());
      for (int i = 0; i < c->sources; i++) {
        value[i][lane] = cut(an_integer(), i == 2 ? wide : bits);
        put(&in, 1 + i, lane, value[i][lane]);
      }
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      __int128 v[3] = {0};
      for (int i = 0; i < c->sources; i++) {
        v[i] = kind == 's' ? as_signed(value[i][lane], i == 2 ? wide : bits) : (__int128)value[i][lane];
      }
      assert_int_equal(got(&in, 0, lane), cut((uint64_t)c->is(v[0], v[1], v[2], bits), wide));
    }
  }
}

static void test_integers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof integer_cases / sizeof *integer_cases; i++) {
    const struct integer_case *c = &integer_cases[i];
    for (int bits = 16; bits <= 64; bits *= 2) {
      for (const char *kind = c->kinds; *kind; kind++) {
        if (bits * c->times <= 64) {
          try_integers(c, *kind, bits);
        }
      }
    }
  }
}

// Long numbers from 32 bits: what the carry is for.
static void try_carries(const char *const words[4], bool subtracts) {
  for (int round = 0; round < 200; round++) {
    unsigned __int128 a[EM_LANES], b[EM_LANES];
    uint32_t result[4][EM_LANES];
    for (int lane = 0; lane < EM_LANES; lane++) {
      a[lane] = (unsigned __int128)an_integer() << 64 | an_integer();
      b[lane] = (unsigned __int128)an_integer() << 64 | an_integer();
    }
    warp.carry = (uint32_t)draw();
    for (int part = 0; part < 4; part++) {
      em_instruction in;
      assert_null(make(&in, words[part], "www"));
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, (uint32_t)(a[lane] >> 32 * part));
        put(&in, 2, lane, (uint32_t)(b[lane] >> 32 * part));
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        result[part][lane] = (uint32_t)got(&in, 0, lane);
      }
    }
    for (int lane = 0; lane < EM_LANES; lane++) {
      const unsigned __int128 sum = subtracts ? a[lane] - b[lane] : a[lane] + b[lane];
      for (int part = 0; part < 4; part++) {
        assert_int_equal(result[part][lane], (uint32_t)(sum >> 32 * part));
      }
    }
  }
}

static void test_carries(void **state) {
  (void)state;
  try_carries((const char *const[]){"add.cc.u32", "addc.cc.u32", "addc.cc.u32", "addc.u32"}, false);
  try_carries((const char *const[]){"sub.cc.u32", "subc.cc.u32", "subc.cc.u32", "subc.u32"}, true);
  // 64 bits times 64 bits and 64 more, lower words: mad.lo.cc, then madc.hi with what it carried
  for (int round = 0; round < 200; round++) {
    uint64_t a[EM_LANES], b[EM_LANES], c[EM_LANES];
    uint32_t low[EM_LANES];
    em_instruction in;
    assert_null(make(&in, round % 2 ? "mad.lo.cc.u32" : "madc.lo.cc.u32", "wwww"));
    warp.carry = round % 2 ? (uint32_t)draw() : 0;
    for (int lane = 0; lane < EM_LANES; lane++) {
      a[lane] = (uint32_t)an_integer(), b[lane] = (uint32_t)an_integer(), c[lane] = an_integer();
      put(&in, 1, lane, a[lane]), put(&in, 2, lane, b[lane]), put(&in, 3, lane, (uint32_t)c[lane]);
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      low[lane] = (uint32_t)got(&in, 0, lane);
    }
    assert_null(make(&in, round % 3 ? "madc.hi.cc.u32" : "madc.hi.u32", "wwww"));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 3, lane, c[lane] >> 32);
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      assert_int_equal(got(&in, 0, lane) << 32 | low[lane], a[lane] * b[lane] + c[lane]);
      if (round % 3) {
        assert_int_equal(warp.carry >> lane & 1, ((unsigned __int128)a[lane] * b[lane] + c[lane]) >> 64 & 1);
      }
    }
  }
}

// ---- Bits, one by one ----

static bool bit_of(uint64_t x, uint64_t i) {
  return i < 64 && (x >> i & 1);
}

static uint64_t shifted(uint64_t x, uint64_t by, int bits, bool left, bool sign) {
  uint64_t result = 0;
  for (uint64_t i = 0; i < (uint64_t)bits; i++) {
    const bool one = left                      ? i >= by && bit_of(x, i - by)
                     : i + by < (uint64_t)bits ? bit_of(x, i + by)
                                               : sign && bit_of(x, (uint64_t)bits - 1);
    result |= (uint64_t)one << i;
  }
  return result;
}

static void test_shifts(void **state) {
  (void)state;
  for (int bits = 16; bits <= 64; bits *= 2) {
    for (int kind = 0; kind < 4; kind++) {
      char words[16], registers[] = {letter(bits), letter(bits), 'w', 0};
      snprintf(words, sizeof words, "%s.%c%d", kind ? "shr" : "shl", "bbus"[kind], bits);
      em_instruction in;
      assert_null(make(&in, words, registers));
      for (int round = 0; round < 50; round++) {
        uint64_t x[EM_LANES], by[EM_LANES];
        for (int lane = 0; lane < EM_LANES; lane++) {
          put(&in, 1, lane, x[lane] = cut(an_integer(), bits));
          put(&in, 2, lane, by[lane] = (uint32_t)(draw() % 4 ? draw() % 70 : an_integer()));
        }
        run(&in);
        for (int lane = 0; lane < EM_LANES; lane++) {
          assert_int_equal(got(&in, 0, lane), shifted(x[lane], by[lane], bits, !kind, kind == 3));
        }
      }
    }
  }
}

static void test_funnels(void **state) {
  (void)state;
  static const char *const words[] = {"shf.l.wrap.b32", "shf.l.clamp.b32", "shf.r.wrap.b32", "shf.r.clamp.b32"};
  for (int kind = 0; kind < 4; kind++) {
    em_instruction in;
    assert_null(make(&in, words[kind], "wwww"));
    uint32_t a[EM_LANES], b[EM_LANES];
    for (uint32_t by = 0; by < 70; by++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        put(&in, 1, lane, a[lane] = (uint32_t)draw()), put(&in, 2, lane, b[lane] = (uint32_t)draw()),
            put(&in, 3, lane, by);
      }
      run(&in);
      const uint32_t n = kind % 2 ? by < 32 ? by : 32 : by % 32;
      for (int lane = 0; lane < EM_LANES; lane++) {
        uint32_t result = 0;
        for (uint32_t i = 0; i < 32; i++) {
          const uint32_t from = kind < 2 ? 32 + i - n : i + n;
          result |= (uint32_t)bit_of((uint64_t)b[lane] << 32 | a[lane], from) << i;
        }
        assert_int_equal(got(&in, 0, lane), result);
      }
    }
  }
}

static uint64_t extracted(uint64_t a, uint32_t place, uint32_t length, int bits, bool sign) {
  const uint32_t last = place + length - 1 < (uint32_t)bits - 1 ? place + length - 1 : (uint32_t)bits - 1;
  const bool fill = sign && length && bit_of(a, last);
  uint64_t result = 0;
  for (uint32_t i = 0; i < (uint32_t)bits; i++) {
    result |= (uint64_t)(i < length && place + i < (uint32_t)bits ? bit_of(a, place + i) : fill) << i;
  }
  return result;
}

static void test_fields(void **state) {
  (void)state;
  for (int bits = 32; bits <= 64; bits += 32) {
    const char r = letter(bits);
    for (int kind = 0; kind < 3; kind++) {
      char words[16], registers[6] = {r, r, 'w', 'w', 0, 0};
      snprintf(words, sizeof words, "%s.%c%d", kind < 2 ? "bfe" : "bfi", "usb"[kind], bits);
      if (kind == 2) {
        memcpy(registers + 2, (const char[]){r, 'w', 'w'}, 3);
      }
      em_instruction in;
      assert_null(make(&in, words, registers));
      const int at = kind == 2 ? 3 : 2;
      for (int round = 0; round < 200; round++) {
        uint64_t a[EM_LANES], b[EM_LANES], place[EM_LANES], length[EM_LANES];
        for (int lane = 0; lane < EM_LANES; lane++) {
          put(&in, 1, lane, a[lane] = cut(an_integer(), bits));
          put(&in, 2, lane, b[lane] = cut(draw(), bits));
          put(&in, at, lane, place[lane] = draw() % (round % 4 ? 70 : 300));
          put(&in, at + 1, lane, length[lane] = draw() % (round % 4 ? 70 : 300));
        }
        run(&in);
        for (int lane = 0; lane < EM_LANES; lane++) {
          const uint32_t p = place[lane] & 255, n = length[lane] & 255;
          uint64_t want = b[lane];
          for (uint32_t i = 0; i < n && p + i < (uint32_t)bits; i++) {
            want = (want & ~(UINT64_C(1) << (p + i))) | (uint64_t)bit_of(a[lane], i) << (p + i);
          }
          assert_int_equal(got(&in, 0, lane), kind == 2 ? want : extracted(a[lane], p, n, bits, kind == 1));
        }
      }
    }
  }
}

static uint64_t counted(int what, uint64_t x, int bits) {
  uint64_t ones = 0, turned = 0, top = UINT32_MAX;
  for (int i = 0; i < bits; i++) {
    ones += bit_of(x, (uint64_t)i);
    turned |= (uint64_t)bit_of(x, (uint64_t)i) << (bits - 1 - i);
    top = bit_of(x, (uint64_t)i) ? (uint64_t)i : top;
  }
  const uint64_t above = top == UINT32_MAX ? (uint64_t)bits : (uint64_t)bits - 1 - top;
  return what == 0 ? ones : what == 1 ? turned : what == 2 ? above : what == 3 ? top : top == UINT32_MAX ? top : above;
}

static void test_counts(void **state) {
  (void)state;
  static const char *const names[] = {"popc.b", "brev.b", "clz.b", "bfind.u", "bfind.shiftamt.u", "bfind.s"};
  for (int bits = 32; bits <= 64; bits += 32) {
    for (int what = 0; what < 6; what++) {
      char words[24], registers[] = {what == 1 ? letter(bits) : 'w', letter(bits), 0};
      snprintf(words, sizeof words, "%s%d", names[what], bits);
      em_instruction in;
      assert_null(make(&in, words, registers));
      for (int round = 0; round < 50; round++) {
        uint64_t x[EM_LANES];
        for (int lane = 0; lane < EM_LANES; lane++) {
          put(&in, 1, lane, x[lane] = cut(an_integer(), bits));
        }
        run(&in);
        for (int lane = 0; lane < EM_LANES; lane++) {
          const uint64_t of = what == 5 && x[lane] >> (bits - 1) ? cut(~x[lane], bits) : x[lane];
          assert_int_equal(got(&in, 0, lane), counted(what == 5 ? 3 : what, of, bits));
        }
      }
    }
  }
}

static void test_bytes(void **state) {
  (void)state;
  em_instruction in;
  assert_null(make(&in, "prmt.b32", "wwww"));
  for (int round = 0; round < 100; round++) {
    uint8_t from[EM_LANES][8];
    uint32_t choice[EM_LANES];
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t x = draw();
      memcpy(from[lane], &x, 8);
      put(&in, 1, lane, (uint32_t)x), put(&in, 2, lane, x >> 32), put(&in, 3, lane, choice[lane] = (uint32_t)draw());
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t result = got(&in, 0, lane);
      for (int i = 0; i < 4; i++) {
        const uint32_t c = choice[lane] >> 4 * i & 15;
        const uint8_t byte = from[lane][c % 8];
        assert_int_equal(result >> 8 * i & 255, c < 8 ? byte : byte & 128 ? 255 : 0);
      }
    }
  }
  for (int kind = 0; kind < 4; kind++) {
    static const char *const words[] = {"dp4a.u32.u32", "dp4a.u32.s32", "dp4a.s32.u32", "dp4a.s32.s32"};
    assert_null(make(&in, words[kind], "wwww"));
    for (int lane = 0; lane < EM_LANES; lane++) {
      for (int i = 1; i < 4; i++) {
        put(&in, i, lane, (uint32_t)(lane % 2 ? draw() : UINT32_C(0x80ff7f01) * (uint32_t)lane));
      }
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      int64_t sum = (int64_t)got(&in, 3, lane);
      for (int i = 0; i < 4; i++) {
        const int x = (int)(got(&in, 1, lane) >> 8 * i & 255), y = (int)(got(&in, 2, lane) >> 8 * i & 255);
        sum += (kind & 2 && x > 127 ? x - 256 : x) * (kind & 1 && y > 127 ? y - 256 : y);
      }
      assert_int_equal(got(&in, 0, lane), (uint32_t)sum);
    }
  }
}

// ---- Moves, selections, predicates ----

static void test_moves(void **state) {
  (void)state;
  static const struct {
    const char *words, *registers;
  } moves[] = {{"mov.b16", "hh"}, {"mov.u32", "ww"},  {"mov.f32", "ww"},
               {"mov.b64", "dd"}, {"mov.pred", "pp"}, {"mov.pred", "pn"}};
  em_instruction in;
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
    assert_null(make(&in, moves[i].words, moves[i].registers));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, draw());
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      assert_int_equal(got(&in, 0, lane), got(&in, 1, lane) ^ (moves[i].registers[1] == 'n'));
    }
  }
  static const struct {
    const char *words, *registers;
  } selections[] = {{"selp.b16", "hhhp"}, {"selp.f32", "wwwp"}, {"selp.s32", "wwwn"}, {"selp.f64", "dddp"}};
  for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
    assert_null(make(&in, selections[i].words, selections[i].registers));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 0, lane, draw()), put(&in, 1, lane, draw()), put(&in, 2, lane, draw()), put(&in, 3, lane, draw());
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      const bool first = got(&in, 3, lane) ^ (selections[i].registers[3] == 'n');
      assert_int_equal(got(&in, 0, lane), got(&in, first ? 1 : 2, lane));
    }
  }
}

// A vector's registers are in the slots from 4 on; _ is nothing.
static const char *make_vector(em_instruction *in, const char *words, char whole, const char *parts, bool packs,
                               em_operand *items) {
  em_instruction part;
  (void)make(&part, "mov.b32", parts);
  for (int i = 0; i < 4 && parts[i]; i++) {  // of b8, b16, b32
    items[i] = part.operand[i];
    items[i].at += 4 * SLOT;
    items[i].kind = parts[i] == '_' ? EM_SINK : EM_REGISTER;
  }
  const char both[] = {whole, whole, 0};
  (void)make(in, words, both);
  in->operand[packs ? 1 : 0] = (em_operand){.kind = EM_VECTOR, .count = (uint8_t)strlen(parts), .items = items};
  return em_bind_mov(in);
}

static void test_vectors(void **state) {
  (void)state;
  static const struct {
    const char *words, *parts;
    char whole;
    int bits;
  } cases[] = {{"mov.b32", "hh", 'w', 16},  {"mov.b64", "ww", 'd', 32}, {"mov.b64", "hhhh", 'd', 16},
               {"mov.b32", "hhhh", 'w', 8}, {"mov.b16", "hh", 'h', 8},  {"mov.b64", "_w", 'd', 32},
               {"mov.b32", "h_", 'w', 16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int parts = (int)strlen(cases[i].parts);
    em_instruction in;
    em_operand items[4];
    if (!strchr(cases[i].parts, '_')) {
      assert_null(make_vector(&in, cases[i].words, cases[i].whole, cases[i].parts, true, items));
      uint64_t want[EM_LANES] = {0};
      for (int lane = 0; lane < EM_LANES; lane++) {
        for (int part = 0; part < parts; part++) {
          const uint64_t x = draw();
          em_set(&warp, &items[part], lane, x);
          want[lane] |= cut(x, cases[i].bits) << part * cases[i].bits;
        }
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        assert_int_equal(got(&in, 0, lane), want[lane]);
      }
    } else {
      assert_non_null(make_vector(&in, cases[i].words, cases[i].whole, cases[i].parts, true, items));
    }
    assert_null(make_vector(&in, cases[i].words, cases[i].whole, cases[i].parts, false, items));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, draw());
      for (int part = 0; part < parts; part++) {
        em_set(&warp, &items[part], lane, 0x1234);
      }
    }
    const uint32_t lanes = (uint32_t)draw();
    assert_int_equal(in.run(&warp, &in, lanes), EM_NEXT);
    for (int lane = 0; lane < EM_LANES; lane++) {
      for (int part = 0; part < parts; part++) {
        const uint64_t x = cut(got(&in, 1, lane) >> part * cases[i].bits, cases[i].bits);
        if (items[part].kind != EM_SINK) {
          assert_int_equal(em_get(&warp, &items[part], lane), lanes >> lane & 1 ? x : 0x1234);
        }
      }
    }
  }
  em_instruction in;
  em_operand items[4];
  assert_non_null(make_vector(&in, "mov.b64", 'd', "hh", true, items));
  assert_non_null(make_vector(&in, "mov.b32", 'w', "ww", false, items));
}

static void test_predicates(void **state) {
  (void)state;
  static const char *const names[] = {"and.pred", "or.pred", "xor.pred", "not.pred"};
  for (int i = 0; i < 16; i++) {
    em_instruction in;
    const char registers[] = {'p', "pn"[i / 4 % 2], "pn"[i / 8], 0};
    if (i % 4 == 3 && i >= 8) {
      continue;
    }
    assert_null(make(&in, names[i % 4], i % 4 == 3 ? (const char[]){'p', registers[1], 0} : registers));
    for (int lane = 0; lane < EM_LANES; lane++) {
      put(&in, 1, lane, draw()), put(&in, 2, lane, draw());
    }
    run(&in);
    for (int lane = 0; lane < EM_LANES; lane++) {
      const uint64_t a = got(&in, 1, lane) ^ (i / 4 % 2), b = got(&in, 2, lane) ^ (i / 8);
      const uint64_t want[] = {a & b, a | b, a ^ b, !a};
      assert_int_equal(got(&in, 0, lane), want[i % 4]);
    }
  }
}

static bool compared(const char *how, int order) {  // of the first letters: eq, ne, lt, le, gt, ge, lo, ls, hi, hs
  static const struct {
    const char *name;
    bool less, equal, greater;
  } all[] = {{"eq", 0, 1, 0}, {"ne", 1, 0, 1}, {"lt", 1, 0, 0}, {"le", 1, 1, 0}, {"gt", 0, 0, 1},
             {"ge", 0, 1, 1}, {"lo", 1, 0, 0}, {"ls", 1, 1, 0}, {"hi", 0, 0, 1}, {"hs", 0, 1, 1}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!strcmp(all[i].name, how)) {
      return order < 0 ? all[i].less : order ? all[i].greater : all[i].equal;
    }
  }
  return false;
}

static void test_comparisons(void **state) {
  (void)state;
  static const char *const how[] = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
  static const char *const joined[] = {"", ".and", ".or", ".xor"};
  for (int i = 0; i < 10 * 4 * 3 * 3; i++) {
    const int bits = 16 << i % 3, kind = i / 3 % 3, join = i / 9 % 4;
    char words[32], registers[] = {'p', letter(bits), letter(bits), join ? "pn"[i % 2] : 0, 0};
    snprintf(words, sizeof words, "setp.%s%s.%c%d", how[i / 36], joined[join], "usb"[kind], bits);
    em_instruction in;
    const char *why = make(&in, words, registers);
    if (i / 36 > 5 && kind == 1) {
      assert_non_null(why);
      continue;
    }
    assert_null(why);
    for (int round = 0; round < 10; round++) {
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t x = an_integer();
        put(&in, 1, lane, cut(x, bits)), put(&in, 2, lane, cut(draw() % 3 ? an_integer() : x, bits)),
            put(&in, 3, lane, draw());
      }
      run(&in);
      for (int lane = 0; lane < EM_LANES; lane++) {
        const uint64_t x = got(&in, 1, lane), y = got(&in, 2, lane);
        const __int128 a = kind == 1 ? as_signed(x, bits) : (__int128)x,
                       b = kind == 1 ? as_signed(y, bits) : (__int128)y;
        const bool outcome = compared(how[i / 36], a < b ? -1 : a > b), with = join && got(&in, 3, lane) ^ (i % 2);
        const bool want[] = {outcome, outcome && with, outcome || with, outcome != with};
        assert_int_equal(got(&in, 0, lane), want[join]);
      }
    }
  }
}

// What is not known is refused as it is loaded.
static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *words, *registers;
  } wrong[] = {
      {"add.s32", "wwd"},           {"add.s32", "ww"},           {"add.s32", "wwww"},        {"add.sat.s32", "www"},
      {"add.ftz.f32", "www"},       {"add.odd.s32", "www"},      {"add.pred", "ppp"},        {"fma.rn.sat.f32", "wwww"},
      {"mul.s32", "www"},           {"mul.wide.s64", "ddd"},     {"mov.b32", "wd"},          {"mov.volatile.b32", "ww"},
      {"setp.lt.s32", "www"},       {"setp.s32", "pww"},         {"setp.lt.and.s32", "pww"}, {"setp.lt.s32", "pwwp"},
      {"cvt.sat.u8.s32", "hw"},     {"cvt.u16.s8", "wh"},        {"cvt.f32.s32", "wh"},      {"cvt.rni.s32.f32", "dw"},
      {"cvt.rzi.rn.s32.f32", "ww"}, {"cvt.rz.f16x2.f32", "www"}, {"shl.b32", "wwd"},         {"selp.b32", "www"},
      {"bfe.s16", "hhww"},          {"dp4a.s32", "wwww"},        {"ex2.f32", "ww"},          {"rem.f32", "www"}};
  em_instruction in;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (!make(&in, wrong[i].words, wrong[i].registers)) {
      fail_msg("%s of %s was not refused", wrong[i].words, wrong[i].registers);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),   cmocka_unit_test(test_carries),     cmocka_unit_test(test_shifts),
      cmocka_unit_test(test_funnels),    cmocka_unit_test(test_fields),      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_bytes),      cmocka_unit_test(test_moves),       cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_predicates), cmocka_unit_test(test_comparisons), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
