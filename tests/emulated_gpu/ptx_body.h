// A function's body while it is decoded: ptx_body.c (operands) and ptx_decode.c (instructions).
#ifndef RDT_EMULATED_PTX_BODY_H
#define RDT_EMULATED_PTX_BODY_H

#include "ptx.h"

typedef enum ptx_symbol_kind {
  PTX_ROW,     // registers
  PTX_OWN,     // the function's parameters and what it returns
  PTX_HANDED,  // those of a call
  PTX_LOCAL,
  PTX_BLOCKS,  // shared memory
  PTX_OPEN,    // dynamic shared memory
  PTX_GLOBAL
} ptx_symbol_kind;
typedef struct ptx_symbol {
  ptx_name name;  // of a range of registers: what they begin with
  ptx_symbol_kind kind;
  int range;   // how many registers; 0: one of this name
  int64_t at;  // row, offset, index of a shared variable, address
  size_t bytes;
} ptx_symbol;

// What an opcode with its modifiers says, looked up once.
typedef struct ptx_opcode {
  ptx_name text;
  const em_op *row;
  const char *modifier[EM_MODIFIERS + 1];
  em_type type, from;
  em_space space;
  uint8_t bytes;        // of immediates
  uint8_t narrow_from;  // from this operand on they have 4
  bool narrow;          // all have 4, of .pred, too
  uint8_t writes;       // PTX_WRITES_..
  enum { PTX_PLAIN, PTX_BRANCH, PTX_CALL } shape;
} ptx_opcode;

typedef struct ptx_label {
  ptx_name name;
  int at;  // label: of the instruction behind it; branch: its own
} ptx_label;

enum { PTX_CONSTANTS = 8192 };

typedef struct ptx_shared {
  const ptx_variable *variable;
  int common;  // index in the module's, -1: the function's own
  int64_t at;
} ptx_shared;

typedef struct ptx_body {
  ptx_reader r;
  em_function *function;
  ptx_code code;
  ptx_symbol *symbol;
  int symbols, symbol_room;
  ptx_label *label, *branch;
  int labels, label_room, branches, branch_room;
  int constant[PTX_CONSTANTS], constants;  // table by hash: 1 + row
  ptx_shared *shared;
  int shareds, shared_room;
  int64_t handed;  // bytes of the calls' parameters in this scope
  int64_t most_handed, local;
  int clock;  // row that the instruction reads, -1: none
} ptx_body;

// Operand of an instruction: appended to it (of [a, {b}] two).
bool ptx_operand(ptx_body *b, const ptx_opcode *op, em_instruction *in, int bytes);
int ptx_constant(ptx_body *b, int64_t value, int bytes);                   // row; -1: too many
const ptx_symbol *ptx_add_symbol(ptx_body *b, int at, ptx_symbol symbol);  // in front of the symbols from at on
int ptx_add_shared(ptx_body *b, const ptx_variable *variable, int common);
const ptx_opcode *ptx_find_opcode(ptx_reader *r, ptx_name text);  // NULL: refused

#endif
