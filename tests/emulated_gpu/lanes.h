// Instructions that compute each lane of its own registers: a table of rows (lanes_*.def), one for an opcode, its types
// and modifiers and its registers' widths, with what a lane computes. The rows become loops over lanes, for each
// instruction set of processors once (lanes_generic.c, lanes_avx2.c), and what is looked up as an instruction is loaded
// (ops_arithmetic.c).
#ifndef RDT_EMULATED_LANES_H
#define RDT_EMULATED_LANES_H

#include "emulated.h"

#define EM_OPCODES(OP)                                                                                                \
  OP(abs)                                                                                                             \
  OP(add)                                                                                                             \
  OP(addc)                                                                                                            \
  OP(and)                                                                                                             \
  OP(bfe) OP(bfi) OP(bfind) OP(brev) OP(clz) OP(copysign) OP(cos) OP(cvt) OP(div) OP(dp4a) OP(ex2) OP(extend) OP(fma) \
      OP(lg2) OP(mad) OP(madc) OP(max) OP(min) OP(mov) OP(mul) OP(neg) OP(not ) OP(or) OP(popc) OP(prmt) OP(rcp)      \
          OP(rem) OP(rsqrt) OP(selp) OP(set) OP(setp) OP(shf) OP(shl) OP(shr) OP(sin) OP(sqrt) OP(sub) OP(subc)       \
              OP(tanh) OP(testp) OP(xor)

// Modifiers that are no types: a bit each. LT, LE, GT and GE are also what setp's lo, ls, hi and hs become.
#define EM_WORDS(WORD)                                                                                                 \
  WORD(RN, "rn")                                                                                                       \
  WORD(RZ, "rz")                                                                                                       \
  WORD(RM, "rm")                                                                                                       \
  WORD(RP, "rp")                                                                                                       \
  WORD(RNI, "rni") WORD(RZI, "rzi") WORD(RMI, "rmi") WORD(RPI, "rpi") WORD(RNA, "rna") WORD(FTZ, "ftz")                \
      WORD(SAT, "sat") WORD(SATFINITE, "satfinite") WORD(RELU, "relu") WORD(APPROX, "approx") WORD(FULL, "full")       \
          WORD(LO, "lo") WORD(HI, "hi") WORD(WIDE, "wide") WORD(CC, "cc") WORD(QUIET, "NaN") WORD(EQ, "eq")            \
              WORD(NE, "ne") WORD(LT, "lt") WORD(LE, "le") WORD(GT, "gt") WORD(GE, "ge") WORD(LS, "ls") WORD(HS, "hs") \
                  WORD(EQU, "equ") WORD(NEU, "neu") WORD(LTU, "ltu") WORD(LEU, "leu") WORD(GTU, "gtu")                 \
                      WORD(GEU, "geu") WORD(NUM, "num") WORD(NAN, "nan") WORD(AND, "and") WORD(OR, "or")               \
                          WORD(XOR, "xor") WORD(LEFT, "l") WORD(RIGHT, "r") WORD(WRAP, "wrap") WORD(CLAMP, "clamp")    \
                              WORD(SHIFTAMT, "shiftamt") WORD(FINITE, "finite") WORD(INFINITE, "infinite")             \
                                  WORD(NUMBER, "number") WORD(NOTANUMBER, "notanumber") WORD(NORMAL, "normal")         \
                                      WORD(SUBNORMAL, "subnormal")

#define EM_NAMED(name) EM_OP_##name,
enum { EM_OPCODES(EM_NAMED) EM_OP_COUNT };
#undef EM_NAMED
#define EM_NAMED(name, text) EM_PLACE_##name,
enum { EM_WORDS(EM_NAMED) EM_WORD_COUNT };
#undef EM_NAMED
#define EM_NAMED(name, text) static const uint64_t EM_##name __attribute__((unused)) = UINT64_C(1) << EM_PLACE_##name;
EM_WORDS(EM_NAMED)
#undef EM_NAMED
// .rn or none is what the loop does, and .rz, .rm, .rp the same under another rounding of the processor.
#define EM_ROUNDS (UINT64_C(1) << 63)

typedef struct em_row {
  uint8_t op;
  uint8_t width[5];      // of the operands: bytes of a register; 1: a predicate; 0 ends them
  uint32_t types, from;  // sets of em_type (1 << type); from 0: whatever
  uint64_t words;        // its modifiers: all of these, no others
} em_row;

// The loops, in the order of the rows.
extern em_run *const em_lanes_generic[];
extern em_run *const em_lanes_avx2[];  // of x86-64

// Finds the row of an opcode that takes the instruction and sets run; a message where there is none. The types are
// in->type and in->from unless told otherwise (0: those).
const char *em_choose(em_instruction *in, int op, uint64_t words, uint32_t type);
// The set of the instruction's modifiers that are no types; false: one is not known.
bool em_words(const em_instruction *in, uint64_t *words);
const char *em_bind_mov(em_instruction *in);  // ops_convert.c's
const char *em_bind_cvt(em_instruction *in);

#endif
