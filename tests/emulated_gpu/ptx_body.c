// The body of a function -> em_instruction's. Names are found in the scopes of braces; labels, too, as inline assembly
// has them. What an operand names is a row; ptx_rows.c says where the rows lie.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"
#include "ptx_body.h"

// ---- Rows ----

static int new_row(ptx_body *b, ptx_row row) {
  ptx_code *c = &b->code;
  if (!ptx_grow((void **)&c->row, c->rows, &c->row_room, sizeof row)) return -1;
  c->row[c->rows] = row;
  return c->rows++;
}

// Constants and what else is the same for the whole function: one row each.
static int shared_row(ptx_body *b, ptx_row row) {
  uint64_t hash =
      (uint64_t)row.value * 31 + row.kind * 7 + row.bytes + (uint64_t)row.what * 131 + (uint64_t)row.variable * 977;
  hash = (hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
  for (;; hash++) {
    int *slot = &b->constant[hash % PTX_CONSTANTS];
    if (!*slot) {
      if (++b->constants > PTX_CONSTANTS / 2) return -1;
      *slot = new_row(b, row) + 1;
      return *slot - 1;
    }
    const ptx_row *old = &b->code.row[*slot - 1];
    if (old->kind == row.kind && old->bytes == row.bytes && old->value == row.value && old->what == row.what &&
        old->variable == row.variable) {
      return *slot - 1;
    }
  }
}

int ptx_constant(ptx_body *b, int64_t value, int bytes) {
  if (bytes && bytes < 8) value &= (INT64_C(1) << bytes * 8) - 1;
  return shared_row(b, (ptx_row){.kind = PTX_CONSTANT, .bytes = (uint8_t)bytes, .value = value});
}

static int special_row(ptx_body *b, em_what what, int bytes, int64_t add) {
  return shared_row(b, (ptx_row){.kind = PTX_SPECIAL, .bytes = (uint8_t)bytes, .what = what, .value = add});
}

// ---- Names ----

static const struct {
  const char *name;
  em_what what;
  uint8_t bytes;
} special_names[] = {
    {"%tid.x", EM_TID_X, 4},
    {"%tid.y", EM_TID_Y, 4},
    {"%tid.z", EM_TID_Z, 4},
    {"%ntid.x", EM_NTID_X, 4},
    {"%ntid.y", EM_NTID_Y, 4},
    {"%ntid.z", EM_NTID_Z, 4},
    {"%ctaid.x", EM_CTAID_X, 4},
    {"%ctaid.y", EM_CTAID_Y, 4},
    {"%ctaid.z", EM_CTAID_Z, 4},
    {"%nctaid.x", EM_NCTAID_X, 4},
    {"%nctaid.y", EM_NCTAID_Y, 4},
    {"%nctaid.z", EM_NCTAID_Z, 4},
    {"%laneid", EM_LANEID, 4},
    {"%warpid", EM_WARPID, 4},
    {"%nwarpid", EM_NWARPID, 4},
    {"%smid", EM_SMID, 4},
    {"%nsmid", EM_NSMID, 4},
    {"%gridid", EM_GRIDID, 8},
    {"%lanemask_eq", EM_LANEMASK_EQ, 4},
    {"%lanemask_le", EM_LANEMASK_LE, 4},
    {"%lanemask_lt", EM_LANEMASK_LT, 4},
    {"%lanemask_ge", EM_LANEMASK_GE, 4},
    {"%lanemask_gt", EM_LANEMASK_GT, 4},
    {"%clusterid.x", EM_CLUSTERID_X, 4},
    {"%clusterid.y", EM_CLUSTERID_Y, 4},
    {"%clusterid.z", EM_CLUSTERID_Z, 4},
    {"%nclusterid.x", EM_NCLUSTERID_X, 4},
    {"%nclusterid.y", EM_NCLUSTERID_Y, 4},
    {"%nclusterid.z", EM_NCLUSTERID_Z, 4},
    {"%cluster_ctaid.x", EM_CLUSTER_CTAID_X, 4},
    {"%cluster_ctaid.y", EM_CLUSTER_CTAID_Y, 4},
    {"%cluster_ctaid.z", EM_CLUSTER_CTAID_Z, 4},
    {"%cluster_nctaid.x", EM_CLUSTER_NCTAID_X, 4},
    {"%cluster_nctaid.y", EM_CLUSTER_NCTAID_Y, 4},
    {"%cluster_nctaid.z", EM_CLUSTER_NCTAID_Z, 4},
    {"%cluster_ctarank", EM_CLUSTER_CTARANK, 4},
    {"%cluster_nctarank", EM_CLUSTER_NCTARANK, 4},
    {"%is_explicit_cluster", EM_IS_EXPLICIT_CLUSTER, 0},
    {"%dynamic_smem_size", EM_DYNAMIC_SMEM_SIZE, 4},
    {"%total_smem_size", EM_TOTAL_SMEM_SIZE, 4},
    {"%clock", EM_CLOCK, 4},
    {"%clock64", EM_CLOCK, 8},
    {"%globaltimer", EM_CLOCK, 8},
};

static em_operand row_operand(const ptx_body *b, int row) {
  uint8_t bytes = b->code.row[row].bytes;
  return (em_operand){.kind = bytes ? EM_REGISTER : EM_PREDICATE, .bytes = bytes, .at = (uint32_t)row};
}

static const ptx_symbol *find_symbol(const ptx_body *b, ptx_name name, int *number) {
  for (int i = b->symbols; i-- > 0;) {
    const ptx_symbol *s = &b->symbol[i];
    if (!s->range) {
      if (ptx_same(s->name, name)) return s;
    } else if (name.length > s->name.length && memcmp(name.text, s->name.text, (size_t)s->name.length) == 0) {
      int n = 0, at = s->name.length;
      while (at < name.length && name.text[at] >= '0' && name.text[at] <= '9' && n < s->range)
        n = n * 10 + (name.text[at++] - '0');
      if (at == name.length && n < s->range) return *number = n, s;
    }
  }
  return NULL;
}

// The row of an address: of a variable's, and what is to be added to it.
static int address_row(ptx_body *b, const ptx_symbol *s, int bytes, int64_t *offset) {
  em_what what = EM_PARAMS;
  switch (s->kind) {
    case PTX_OWN:
      break;
    case PTX_LOCAL:
      what = EM_DEPOT;
      break;
    case PTX_HANDED:
      what = EM_HANDED;
      break;
    case PTX_BLOCKS:
      if (bytes < 4) return -1;
      return shared_row(b, (ptx_row){.kind = PTX_SHARED, .bytes = (uint8_t)bytes, .variable = (int)s->at});
    case PTX_OPEN:
      return bytes < 4 ? -1 : special_row(b, EM_DYNAMIC, bytes, 0);
    case PTX_GLOBAL:
      return bytes == 8 ? ptx_constant(b, s->at, 8) : -1;
    default:
      return -1;
  }
  *offset += s->at;
  return bytes == 8 ? special_row(b, what, 8, 0) : -1;
}

// A variable of the module or the function; those of the module become the body's as they are first named.
static const ptx_symbol *find_variable(ptx_body *b, ptx_name name) {
  int number = 0;
  const ptx_symbol *s = find_symbol(b, name, &number);
  if (s) return s;
  const em_ptx *p = b->r.module->ptx;
  for (int i = 0; i < p->shareds; i++) {
    if (!ptx_same(p->shared[i].name, name)) continue;
    if (p->shared[i].open && p->shared[i].align > b->function->dynamic_align) {
      b->function->dynamic_align = p->shared[i].align;
    }
    if (p->shared[i].open) return ptx_add_symbol(b, 0, (ptx_symbol){.name = name, .kind = PTX_OPEN});
    int at = ptx_add_shared(b, &p->shared[i], i);
    return at < 0 ? NULL : ptx_add_symbol(b, 0, (ptx_symbol){.name = name, .kind = PTX_BLOCKS, .at = at});
  }
  for (int i = 0; i < b->r.module->variables; i++) {
    const struct em_variable *v = &b->r.module->variable[i];
    if (ptx_is(name, v->name)) {
      return ptx_add_symbol(b, 0, (ptx_symbol){.name = name, .kind = PTX_GLOBAL, .at = (int64_t)(intptr_t)v->data});
    }
  }
  return NULL;
}

// ---- Operands ----

static bool number_operand(ptx_body *b, const ptx_opcode *op, int bytes, em_operand *to) {
  ptx_reader *r = &b->r;
  int64_t value;
  const char *c = r->at + (*r->at == '-');
  if (c[0] == '0' && (c[1] == 'f' || c[1] == 'F' || c[1] == 'd' || c[1] == 'D')) {
    char *end;
    value = (int64_t)strtoull(c + 2, &end, 16), r->at = end;
    bool wide = c[1] == 'd' || c[1] == 'D';
    if (end != c + (wide ? 18 : 10) || bytes != (wide ? 8 : 4)) return ptx_refuse(r, "a number of another width");
  } else {
    const char *begin = r->at;
    if (!ptx_integer(r, &value)) return ptx_refuse(r, "an operand was due before %.20s", r->at);
    if (*r->at == '.') {
      char *end;
      double real = strtod(begin, &end);
      float single = (float)real;
      if (op->type != EM_F32 && op->type != EM_F64) return ptx_refuse(r, "a fraction as an integer");
      value = 0, r->at = end;
      memcpy(&value, op->type == EM_F32 ? (void *)&single : &real, op->type == EM_F32 ? 4 : 8);
    }
  }
  bool predicate = op->type == EM_PRED && !op->narrow;
  if (!predicate && op->narrow && (value != (int64_t)(int32_t)value && value != (int64_t)(uint32_t)value)) bytes = 8;
  int row = ptx_constant(b, predicate ? value != 0 : value, predicate ? 0 : bytes);
  if (row < 0) return ptx_refuse(r, "too many constants");
  *to = row_operand(b, row);
  return true;
}

static bool named_operand(ptx_body *b, ptx_name name, int bytes, em_operand *to) {
  ptx_reader *r = &b->r;
  int number = 0;
  const ptx_symbol *s = find_symbol(b, name, &number);
  int row = -1;
  if (s && s->kind == PTX_ROW) {
    *to = row_operand(b, (int)s->at + number);
    return true;
  }
  if (!s && name.text[0] == '%') {
    for (size_t i = 0; i < sizeof special_names / sizeof *special_names; i++) {
      if (!ptx_is(name, special_names[i].name)) continue;
      row = special_row(b, special_names[i].what, special_names[i].bytes, 0);
      if (special_names[i].what == EM_CLOCK) b->clock = row;
    }
    if (row < 0) return ptx_refuse(r, "%.*s is not known", name.length, name.text);
    *to = row_operand(b, row);
    return true;
  }
  if (!s) s = find_variable(b, name);
  if (!s) return ptx_refuse(r, "%.*s is not known", name.length, name.text);
  int64_t add = 0, more;
  ptx_skip(r);
  if ((*r->at == '+' || *r->at == '-') && ptx_integer(r, &more)) add = more;
  row = address_row(b, s, bytes, &add);
  if (row >= 0 && add) {
    ptx_row with = b->code.row[row];
    with.value += add, row = shared_row(b, with);
  }
  if (row < 0) return ptx_refuse(r, "the address of %.*s has no %d bytes", name.length, name.text, bytes);
  *to = row_operand(b, row);
  return true;
}

static bool bracket(ptx_body *b, const ptx_opcode *op, em_instruction *in) {
  ptx_reader *r = &b->r;
  em_operand *to = &in->operand[in->operands++];
  ptx_name name = ptx_word(r);
  int64_t offset = 0, more;
  if (!name.length) {
    if (!ptx_integer(r, &more)) return ptx_refuse(r, "an address was due");
    *to = row_operand(b, ptx_constant(b, more, 8));
  } else {
    int number = 0;
    const ptx_symbol *s = find_symbol(b, name, &number);
    if (!s) s = find_variable(b, name);
    if (!s) return ptx_refuse(r, "%.*s is not known", name.length, name.text);
    bool narrow = s->kind == PTX_BLOCKS || s->kind == PTX_OPEN;
    int row = s->kind == PTX_ROW ? (int)s->at + number : address_row(b, s, narrow ? 4 : 8, &offset);
    if (row < 0) return ptx_refuse(r, "%.*s is no address", name.length, name.text);
    *to = row_operand(b, row);
  }
  ptx_skip(r);
  if (*r->at == '+' || *r->at == '-') {
    if (*r->at == '+') r->at++;
    if (!ptx_integer(r, &more)) return ptx_refuse(r, "an offset was due");
    offset += more;
  }
  if (to->kind != EM_REGISTER || to->bytes < 4) return ptx_refuse(r, "an address of too few bytes");
  to->kind = EM_ADDRESS, to->offset = offset;
  if (ptx_take(r, ',')) {
    if (in->operands == EM_OPERANDS) return ptx_refuse(r, "too many operands");
    if (!ptx_operand(b, op, in, 4)) return false;
  }
  return ptx_take(r, ']') || ptx_refuse(r, "] was due");
}

static bool vector(ptx_body *b, const ptx_opcode *op, int bytes, em_operand *to) {
  em_instruction parts = {.operands = 0};
  em_operand items[256];
  int n = 0;
  do {
    if (n == 255) return ptx_refuse(&b->r, "too long a vector");
    parts.operands = 0;
    if (!ptx_operand(b, op, &parts, bytes)) return false;
    items[n++] = parts.operand[0];
  } while (ptx_take(&b->r, ','));
  if (!ptx_take(&b->r, '}')) return ptx_refuse(&b->r, "} was due");
  *to = (em_operand){.kind = EM_VECTOR, .count = (uint8_t)n};
  to->items = ptx_keep(b->r.module, sizeof *items * (size_t)n);
  if (!to->items) return ptx_refuse(&b->r, "no memory");
  memcpy(to->items, items, sizeof *items * (size_t)n);
  return true;
}

bool ptx_operand(ptx_body *b, const ptx_opcode *op, em_instruction *in, int bytes) {
  ptx_reader *r = &b->r;
  if (in->operands == EM_OPERANDS) return ptx_refuse(r, "too many operands");
  if (ptx_take(r, '[')) return bracket(b, op, in);
  em_operand *to = &in->operand[in->operands++];
  if (ptx_take(r, '{')) return vector(b, op, bytes, to);
  bool negated = ptx_take(r, '!');
  ptx_name name = ptx_word(r);
  if (!name.length) return number_operand(b, op, bytes, to);
  if (name.length == 1 && *name.text == '_') return *to = (em_operand){.kind = EM_SINK}, true;
  if (!named_operand(b, name, bytes, to)) return false;
  if (negated && to->kind != EM_PREDICATE) return ptx_refuse(r, "! of what is no predicate");
  to->negated = negated;
  return true;
}
