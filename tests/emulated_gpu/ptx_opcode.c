// Opcodes: which table's row does one, its modifiers and types, how wide its immediates are, what it writes.
#include <stdlib.h>
#include <string.h>

#include "ptx_body.h"

enum { PTX_ROWS = 1024, PTX_OPCODES = 4096 };

static const em_op *const tables[] = {em_ops_arithmetic, em_ops_memory, em_ops_sync,
                                      em_ops_matrix,     em_ops_bulk,   em_ops_control};
static const em_op *rows[PTX_ROWS];  // by hash

static uint32_t hash_of(const char *text, int length) {
  uint32_t hash = 2166136261u;
  for (int i = 0; i < length; i++) hash = (hash ^ (uint8_t)text[i]) * 16777619u;
  return hash;
}

static const em_op *find_row(ptx_name name) {
  if (!rows[0]) {
    static const em_op none = {.name = ""};
    rows[0] = &none;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
      for (const em_op *op = tables[t]; op->name; op++) {
        uint32_t at = hash_of(op->name, (int)strlen(op->name)) % PTX_ROWS;
        while (rows[at]) at = (at + 1) % PTX_ROWS;
        rows[at] = op;
      }
    }
  }
  for (uint32_t at = hash_of(name.text, name.length) % PTX_ROWS; rows[at]; at = (at + 1) % PTX_ROWS) {
    if (ptx_is(name, rows[at]->name)) return rows[at];
  }
  return NULL;
}

static bool begins(ptx_name text, const char *with) {
  size_t n = strlen(with);
  return (size_t)text.length >= n && memcmp(text.text, with, n) == 0 &&
         ((size_t)text.length == n || text.text[n] == '.');
}

static bool any(ptx_name text, const char *const *of) {
  for (; *of; of++) {
    if (begins(text, *of)) return true;
  }
  return false;
}

static const struct {
  const char *name;
  em_space space;
} spaces[] = {{"global", EM_GLOBAL}, {"shared", EM_SHARED}, {"shared::cta", EM_SHARED}, {"shared::cluster", EM_CLUSTER},
              {"local", EM_LOCAL},   {"param", EM_PARAM},   {"const", EM_CONST}};

static bool read_modifiers(ptx_reader *r, ptx_opcode *op, int from) {
  int n = 0;
  while (from < op->text.length) {
    ptx_name word = {op->text.text + from + 1, 0};
    while (from + 1 + word.length < op->text.length && word.text[word.length] != '.') word.length++;
    from += 1 + word.length;
    if (n == EM_MODIFIERS) return ptx_refuse(r, "too many modifiers");
    if (!(op->modifier[n++] = ptx_intern(r->module, word))) return ptx_refuse(r, "no memory");
    em_type type = ptx_type(word);
    if (type != EM_NONE) op->from = op->type, op->type = type;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
      if (op->space == EM_GENERIC && ptx_is(word, spaces[i].name)) op->space = spaces[i].space;
    }
  }
  return true;
}

static void judge(ptx_opcode *op) {
  static const char *const narrow[] = {"bar",       "barrier",    "mbarrier", "cp",    "shfl",
                                       "vote",      "match",      "redux",    "wgmma", "elect",
                                       "nanosleep", "setmaxnreg", "st.async", "mapa",  NULL};
  static const char *const counts[] = {"shl", "shr", "bfi", "bfe", NULL};  // behind the second they have 32 bits
  static const char *const none[] = {
      "st",         "red",     "bra",   "ret",      "exit",           "trap",      "fence",
      "membar",     "cp",      "call",  "stmatrix", "prefetch",       "prefetchu", "nanosleep",
      "setmaxnreg", "discard", "brkpt", "bar",      "griddepcontrol", "barrier",   NULL};
  size_t bytes = em_type_bytes(op->type);
  op->bytes = (uint8_t)(bytes == 1 ? 2 : bytes ? bytes : 4);
  op->narrow = any(op->text, narrow), op->narrow_from = 255;
  if (op->narrow) op->bytes = 4;
  if (any(op->text, counts)) op->narrow_from = begins(op->text, "bfi") ? 3 : 2;
  op->writes = begins(op->text, "bar.red") || !any(op->text, none) ? PTX_WRITES_FIRST : PTX_WRITES_NONE;
  if (begins(op->text, "wgmma.mma_async")) op->writes = PTX_WRITES_LATE;
  if (begins(op->text, "cvt")) {
    em_type destination = op->from;
    op->from = op->type, op->type = destination;
  }
  op->shape = begins(op->text, "bra") ? PTX_BRANCH : begins(op->text, "call") ? PTX_CALL : PTX_PLAIN;
}

const ptx_opcode *ptx_find_opcode(ptx_reader *r, ptx_name text) {
  em_ptx *p = r->module->ptx;
  if (!p->opcode && !(p->opcode = calloc(PTX_OPCODES, sizeof *p->opcode))) return ptx_refuse(r, "no memory"), NULL;
  uint32_t at = hash_of(text.text, text.length) % PTX_OPCODES;
  for (; p->opcode[at]; at = (at + 1) % PTX_OPCODES) {
    if (ptx_same(p->opcode[at]->text, text)) return p->opcode[at];
  }
  ptx_opcode *op = ptx_keep(r->module, sizeof *op);
  if (!op || p->opcodes == PTX_OPCODES - 1) return ptx_refuse(r, "no memory for opcodes"), NULL;
  op->text = text;
  ptx_name name = text;
  while (name.length && !(op->row = find_row(name))) {
    do name.length--;
    while (name.length && name.text[name.length] != '.');
  }
  if (!op->row) return ptx_refuse(r, "%.*s is not known", text.length, text.text), NULL;
  if (!read_modifiers(r, op, name.length)) return NULL;
  judge(op);
  p->opcodes++;
  return p->opcode[at] = op;
}
