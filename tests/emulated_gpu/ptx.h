// What ptx.c (modules), ptx_body.c (bodies of functions) and ptx_rows.c (where registers lie) tell each other, and what
// run.c needs of it: the rows that it sets.
#ifndef RDT_EMULATED_PTX_H
#define RDT_EMULATED_PTX_H

#include "emulated.h"

// A row that is set as a warp starts or a function is called.
typedef enum em_what {
  EM_TID_X,
  EM_TID_Y,
  EM_TID_Z,
  EM_NTID_X,
  EM_NTID_Y,
  EM_NTID_Z,
  EM_CTAID_X,
  EM_CTAID_Y,
  EM_CTAID_Z,
  EM_NCTAID_X,
  EM_NCTAID_Y,
  EM_NCTAID_Z,
  EM_LANEID,
  EM_WARPID,
  EM_NWARPID,
  EM_SMID,
  EM_NSMID,
  EM_GRIDID,
  EM_LANEMASK_EQ,
  EM_LANEMASK_LE,
  EM_LANEMASK_LT,
  EM_LANEMASK_GE,
  EM_LANEMASK_GT,
  EM_CLUSTERID_X,
  EM_CLUSTERID_Y,
  EM_CLUSTERID_Z,
  EM_NCLUSTERID_X,
  EM_NCLUSTERID_Y,
  EM_NCLUSTERID_Z,
  EM_CLUSTER_CTAID_X,
  EM_CLUSTER_CTAID_Y,
  EM_CLUSTER_CTAID_Z,
  EM_CLUSTER_NCTAID_X,
  EM_CLUSTER_NCTAID_Y,
  EM_CLUSTER_NCTAID_Z,
  EM_CLUSTER_CTARANK,
  EM_CLUSTER_NCTARANK,
  EM_IS_EXPLICIT_CLUSTER,
  EM_DYNAMIC_SMEM_SIZE,
  EM_TOTAL_SMEM_SIZE,
  EM_CLOCK,    // an instruction in front of what reads it sets it
  EM_PARAMS,   // address of the function's parameters
  EM_DEPOT,    // of its local variables
  EM_HANDED,   // of what it hands to the functions that it calls
  EM_DYNAMIC,  // of dynamic shared memory
} em_what;
typedef struct em_special {
  em_what what;
  uint8_t bytes;
  uint32_t at;
  int64_t add;
} em_special;

// What run.c and ops_control.c do that the decoder must know.
em_run em_run_bra, em_run_call, em_run_ret, em_read_clock;

// ---- Text ----

typedef struct ptx_name {
  const char *text;
  int length;
} ptx_name;
static inline bool ptx_same(ptx_name a, ptx_name b) {
  if (a.length != b.length) return false;
  for (int i = a.length; i-- > 0;) {  // names differ at their ends
    if (a.text[i] != b.text[i]) return false;
  }
  return true;
}
bool ptx_is(ptx_name name, const char *word);

typedef struct ptx_reader {
  const char *at;
  em_module *module;
} ptx_reader;
void ptx_skip(ptx_reader *r);                  // white space and comments
bool ptx_take(ptx_reader *r, char c);          // skips, too
ptx_name ptx_word(ptx_reader *r);              // a name or directive: length 0 where there is none
bool ptx_integer(ptx_reader *r, int64_t *to);  // decimal or hexadecimal, maybe negative
bool ptx_refuse(const ptx_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));  // false; with the line
em_type ptx_type(ptx_name word);            // "f32" without its dot
void ptx_pass_line(ptx_reader *r);

// What a declaration says: .align 8 .b8 name[16]
typedef struct ptx_variable {
  ptx_name name;
  em_type type;
  size_t align, bytes;
  bool open;  // name[]
  int64_t at;
} ptx_variable;
bool ptx_declaration(ptx_reader *r, ptx_variable *to);

// ---- Modules ----

typedef struct em_text {  // of a function: how it stands in the PTX
  ptx_name name;
  const char *body;  // NULL: declared only
  ptx_variable *param, *result;
  int results;
  bool decoded, decoding;
  int64_t common_end;  // of the shared memory that functions have in common, what this one uses of it
} em_text;

typedef struct em_ptx {
  const char *text;
  char *name;
  struct ptx_chunk *chunks;
  ptx_variable *shared;  // of the module: at is -1, or its place in what functions have in common
  int shareds;
  int64_t common;
  const char **word;  // modifiers, each once
  int words;
  struct ptx_opcode **opcode;  // a table by hash
  int opcodes;
} em_ptx;

void *ptx_keep(em_module *module, size_t bytes);  // zeros, until the module goes; NULL: none left
const char *ptx_intern(em_module *module, ptx_name word);
bool ptx_grow(void **array, int count, int *room, size_t item);  // room for one more
int ptx_function_at(const em_module *module, ptx_name name);     // -1: none
bool ptx_decode(em_module *module, em_function *function);

// ---- Bodies ----

typedef enum ptx_row_kind { PTX_REGISTER, PTX_CONSTANT, PTX_SHARED, PTX_SPECIAL } ptx_row_kind;
typedef struct ptx_row {
  uint8_t kind, bytes;  // bytes: 0 of a predicate
  bool alone;           // shares its place with no other register: written late
  em_what what;         // special
  int variable;         // shared: in the body's table
  int64_t value;        // constant; what is added to a variable's or a special's
  uint32_t at;
} ptx_row;

typedef struct ptx_code {  // operands' at are rows until they have been laid out
  em_instruction *in;
  uint8_t *writes;  // how many operands in front are written
  int length, room;
  ptx_row *row;
  int rows, row_room;
} ptx_code;
// Lays registers out from *at on, rows of one width that live at different times in one place; moves *at on.
bool ptx_place_registers(ptx_code *code, uint32_t *at);
// Calls it for every row that an instruction touches; written: it is (maybe in part) written.
typedef void ptx_touch(void *to, int row, bool written);
void ptx_touches(const em_instruction *in, int writes, ptx_touch *touch, void *to);

enum { PTX_WRITES_NONE = 0, PTX_WRITES_FIRST = 1, PTX_WRITES_LATE = 3 };

#endif
