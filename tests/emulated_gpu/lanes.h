// Instructions that compute each lane of its own registers: a table of rows (lanes_*.def), one for an opcode, its types
// and modifiers and its registers' widths, with what a lane computes. The rows become loops over lanes, for each
// instruction set of processors once (lanes_generic.c, lanes_avx2.c), and what is looked up as an instruction is loaded
// (ops_arithmetic.c).
#ifndef RDT_EMULATED_LANES_H
#define RDT_EMULATED_LANES_H

#include "emulated.h"

#define OP(name) EM_OP_##name,
#define OWN(name) EM_OP_##name,
enum {
#include "lanes_opcodes.def"
  EM_OP_COUNT
};
#undef OP
#undef OWN
// Modifiers: a bit each.
#define WORD(name, text) EM_PLACE_##name,
enum {
#include "lanes_words.def"
  EM_WORD_COUNT
};
#undef WORD
#define WORD(name, text) static const uint64_t EM_##name __attribute__((unused)) = UINT64_C(1) << EM_PLACE_##name;
#include "lanes_words.def"
#undef WORD
// .rn or none is what the loop does, and .rz, .rm, .rp the same under another rounding of the processor.
#define EM_ROUNDS (UINT64_C(1) << 63)

typedef struct em_row {
  uint8_t op;
  uint8_t width[5];      // of the operands: bytes of a register; 1: a predicate; 0 ends them
  uint32_t types, from;  // sets of em_type (1 << type); from 0: whatever
  uint64_t words;        // its modifiers: all of these, no others
} em_row;

// The loops, in the order of the rows; NULL ends them.
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
