// The rows of lanes_*.def as loops over the lanes, and the table of those, EM_LANES_TABLE: included by a file for each
// instruction set (lanes_generic.c, lanes_avx2.c).
#include "lanes.h"
#include "lanes_numbers.h"

// A mask's bits, for loops that become vectors.
#define BITS_OF_4(i) 1u << (i), 2u << (i), 4u << (i), 8u << (i)
static const u32 em_bit[EM_LANES] = {BITS_OF_4(0),  BITS_OF_4(4),  BITS_OF_4(8),  BITS_OF_4(12),
                                     BITS_OF_4(16), BITS_OF_4(20), BITS_OF_4(24), BITS_OF_4(28)};
#undef BITS_OF_4

#define FUNCTION(name) static em_turn name(em_warp *w, const em_instruction *in, uint32_t lanes)
#define OPERAND(type, i) EM_ROW(type, w, &in->operand[i])
#define FIRST(a, ...) a
#define SECOND(a, b, ...) b
#define THIRD(a, b, c, ...) c
#define FOURTH(a, b, c, d, ...) d
#define FIFTH(a, b, c, d, e, ...) e
#define EACH _Pragma("GCC ivdep") for (int lane = 0; lane < EM_LANES; lane++)

// Writes what each lane of the mask computes; mostly it is all of them.
#define WRITE(...)                                          \
  do {                                                      \
    D *to = OPERAND(D, 0);                                  \
    if (lanes == UINT32_MAX) {                              \
      EACH {                                                \
        to[lane] = (D)(__VA_ARGS__);                        \
      }                                                     \
    } else {                                                \
      EACH {                                                \
        const D value = (D)(__VA_ARGS__);                   \
        to[lane] = lanes & em_bit[lane] ? value : to[lane]; \
      }                                                     \
    }                                                       \
  } while (0)

#define DESTINATION(types) \
  typedef FIRST types D;   \
  enum { WIDTH = 8 * (int)sizeof(D) }
#define UNARY(name, types, ...)                        \
  FUNCTION(name) {                                     \
    DESTINATION(types);                                \
    const SECOND types *as = OPERAND(SECOND types, 1); \
    WRITE(({                                           \
      const SECOND types a = as[lane];                 \
      __VA_ARGS__;                                     \
    }));                                               \
    return EM_NEXT;                                    \
  }
#define FLUSHED(name, types, ...)      \
  FUNCTION(name) {                     \
    DESTINATION(types);                \
    const f32 *as = OPERAND(f32, 1);   \
    WRITE(({                           \
      const f32 a = flushed(as[lane]); \
      flushed(__VA_ARGS__);            \
    }));                               \
    return EM_NEXT;                    \
  }
#define BINARY(name, types, ...)                       \
  FUNCTION(name) {                                     \
    DESTINATION(types);                                \
    const SECOND types *as = OPERAND(SECOND types, 1); \
    const THIRD types *bs = OPERAND(THIRD types, 2);   \
    WRITE(({                                           \
      const SECOND types a = as[lane];                 \
      const THIRD types b = bs[lane];                  \
      __VA_ARGS__;                                     \
    }));                                               \
    return EM_NEXT;                                    \
  }
#define TERNARY(name, types, ...)                      \
  FUNCTION(name) {                                     \
    DESTINATION(types);                                \
    const SECOND types *as = OPERAND(SECOND types, 1); \
    const THIRD types *bs = OPERAND(THIRD types, 2);   \
    const FOURTH types *cs = OPERAND(FOURTH types, 3); \
    WRITE(({                                           \
      const SECOND types a = as[lane];                 \
      const THIRD types b = bs[lane];                  \
      const FOURTH types c = cs[lane];                 \
      __VA_ARGS__;                                     \
    }));                                               \
    return EM_NEXT;                                    \
  }
#define QUATERNARY(name, types, ...)                   \
  FUNCTION(name) {                                     \
    DESTINATION(types);                                \
    const SECOND types *as = OPERAND(SECOND types, 1); \
    const THIRD types *bs = OPERAND(THIRD types, 2);   \
    const FOURTH types *cs = OPERAND(FOURTH types, 3); \
    const FIFTH types *es = OPERAND(FIFTH types, 4);   \
    WRITE(({                                           \
      const SECOND types a = as[lane];                 \
      const THIRD types b = bs[lane];                  \
      const FOURTH types c = cs[lane];                 \
      const FIFTH types e = es[lane];                  \
      __VA_ARGS__;                                     \
    }));                                               \
    return EM_NEXT;                                    \
  }

// Sums with a carry: twice as wide as what is written.
#define CARRY(name, three, out, ...)                                                   \
  FUNCTION(name) {                                                                     \
    u32 *to = OPERAND(u32, 0), carries = 0;                                            \
    const u32 *as = OPERAND(u32, 1), *bs = OPERAND(u32, 2), *cs = OPERAND(u32, three); \
    EACH {                                                                             \
      const u32 a = as[lane], b = bs[lane], c __attribute__((unused)) = cs[lane];      \
      const u32 carry __attribute__((unused)) = w->carry >> lane & 1;                  \
      const u64 sum = __VA_ARGS__;                                                     \
      to[lane] = lanes & em_bit[lane] ? (u32)sum : to[lane];                           \
      carries |= sum >> 32 & 1 ? em_bit[lane] : 0;                                     \
    }                                                                                  \
    if (out) {                                                                         \
      w->carry = (w->carry & ~lanes) | (carries & lanes);                              \
    }                                                                                  \
    return EM_NEXT;                                                                    \
  }
#define CARRY2(name, types, ...) CARRY(name, 2, false, __VA_ARGS__)
#define CARRY2_OUT(name, types, ...) CARRY(name, 2, true, __VA_ARGS__)
#define CARRY3(name, types, ...) CARRY(name, 3, false, __VA_ARGS__)
#define CARRY3_OUT(name, types, ...) CARRY(name, 3, true, __VA_ARGS__)

// Predicates are bits: of all lanes at once, or of the comparisons.
INLINE u32 predicate(em_warp *w, const em_operand *o) {
  return *em_bits(w, o) ^ (o->negated ? UINT32_MAX : 0);
}
INLINE em_turn write_predicate(em_warp *w, const em_instruction *in, u32 lanes, u32 bits) {
  u32 *to = em_bits(w, &in->operand[0]);
  *to = (*to & ~lanes) | (bits & lanes);
  return EM_NEXT;
}
#define LOGIC1(name, types, ...)                       \
  FUNCTION(name) {                                     \
    const u32 a = predicate(w, &in->operand[1]);       \
    return write_predicate(w, in, lanes, __VA_ARGS__); \
  }
#define LOGIC2(name, types, ...)                                                    \
  FUNCTION(name) {                                                                  \
    const u32 a = predicate(w, &in->operand[1]), b = predicate(w, &in->operand[2]); \
    return write_predicate(w, in, lanes, __VA_ARGS__);                              \
  }
#define COMPARISON(name, types, ...)                                                                       \
  FUNCTION(name) {                                                                                         \
    const SECOND types *as = OPERAND(SECOND types, 1);                                                     \
    const THIRD types *bs = OPERAND(THIRD types, 2);                                                       \
    u32 bits = 0;                                                                                          \
    EACH {                                                                                                 \
      const SECOND types a = as[lane];                                                                     \
      const THIRD types b = bs[lane];                                                                      \
      bits |= (__VA_ARGS__) ? em_bit[lane] : 0;                                                            \
    }                                                                                                      \
    if (in->form) {                                                                                        \
      const u32 with = predicate(w, &in->operand[3]);                                                      \
      bits = in->form == EM_PLACE_AND ? bits & with : in->form == EM_PLACE_OR ? bits | with : bits ^ with; \
    }                                                                                                      \
    return write_predicate(w, in, lanes, bits);                                                            \
  }
#define TEST(name, types, ...)                         \
  FUNCTION(name) {                                     \
    const SECOND types *as = OPERAND(SECOND types, 1); \
    u32 bits = 0;                                      \
    EACH {                                             \
      const SECOND types a = as[lane];                 \
      bits |= (__VA_ARGS__) ? em_bit[lane] : 0;        \
    }                                                  \
    return write_predicate(w, in, lanes, bits);        \
  }
#define HALVES_COMPARISON(name, types, ...)                                                                      \
  INLINE u32 name##_half(f32 a, f32 b) {                                                                         \
    return (__VA_ARGS__) ? 0xffff : 0;                                                                           \
  }                                                                                                              \
  BINARY(name, types,                                                                                            \
         name##_half(of_half(a & 0xffff), of_half(b & 0xffff)) | name##_half(of_half(a >> 16), of_half(b >> 16)) \
                                                                     << 16)
#define SELECT(name, types, ...)                      \
  FUNCTION(name) {                                    \
    DESTINATION(types);                               \
    const D *as = OPERAND(D, 1), *bs = OPERAND(D, 2); \
    const u32 bits = predicate(w, &in->operand[3]);   \
    WRITE(({                                          \
      const D a = as[lane], b = bs[lane];             \
      const bool yes = bits & em_bit[lane];           \
      __VA_ARGS__;                                    \
    }));                                              \
    return EM_NEXT;                                   \
  }

#define ROW(op, id, types, from, words, KIND, registers, ...) KIND(op##_##id, registers, __VA_ARGS__)
#include "lanes_rows_all.def"
#undef ROW

#define ROW(op, id, types, from, words, KIND, registers, ...) op##_##id,
em_run *const EM_LANES_TABLE[] = {
#include "lanes_rows_all.def"
    NULL};
#undef ROW
