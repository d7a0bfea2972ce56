// The body of a function: its declarations, labels and instructions, one after the other; and what becomes of them.
#include <stdlib.h>
#include <string.h>

#include "ptx_body.h"

// ---- Scopes ----

const ptx_symbol *ptx_add_symbol(ptx_body *b, int at, ptx_symbol symbol) {
  if (!ptx_grow((void **)&b->symbol, b->symbols, &b->symbol_room, sizeof symbol)) return NULL;
  memmove(b->symbol + at + 1, b->symbol + at, sizeof symbol * (size_t)(b->symbols - at));
  b->symbol[at] = symbol, b->symbols++;
  return &b->symbol[at];
}

int ptx_add_shared(ptx_body *b, const ptx_variable *variable, int common) {
  if (!ptx_grow((void **)&b->shared, b->shareds, &b->shared_room, sizeof *b->shared)) return -1;
  b->shared[b->shareds] = (ptx_shared){variable, common, -1};
  return b->shareds++;
}

static bool no_memory(const ptx_body *b) {
  return ptx_refuse(&b->r, "no memory");
}

// .reg .b32 %r<35>, x;
static bool read_registers(ptx_body *b) {
  ptx_reader *r = &b->r;
  ptx_name word = ptx_word(r);
  em_type type = word.length > 1 ? ptx_type((ptx_name){word.text + 1, word.length - 1}) : EM_NONE;
  size_t bytes = em_type_bytes(type);
  if (type == EM_NONE) return ptx_refuse(r, "registers of a type that is not known");
  if (bytes == 1) bytes = 2;
  do {
    int64_t range = 0;
    ptx_name name = ptx_word(r);
    if (!name.length) return ptx_refuse(r, "a register was due");
    if (ptx_take(r, '<') && (!ptx_integer(r, &range) || range < 1 || range > 1000000 || !ptx_take(r, '>'))) {
      return ptx_refuse(r, "a range of registers was due");
    }
    ptx_symbol s = {.name = name, .kind = PTX_ROW, .range = (int)range, .at = b->code.rows};
    if (!ptx_add_symbol(b, b->symbols, s)) return no_memory(b);
    for (int64_t i = 0; i < (range ? range : 1); i++) {
      ptx_code *c = &b->code;
      if (!ptx_grow((void **)&c->row, c->rows, &c->row_room, sizeof *c->row)) return no_memory(b);
      c->row[c->rows++] = (ptx_row){.kind = PTX_REGISTER, .bytes = (uint8_t)bytes};
    }
  } while (ptx_take(r, ','));
  return true;
}

// .local, .shared and .param within a body.
static bool read_declared(ptx_body *b, ptx_name word) {
  ptx_variable v;
  if (!ptx_declaration(&b->r, &v)) return false;
  ptx_symbol s = {.name = v.name, .bytes = v.bytes};
  if (ptx_is(word, ".shared")) {
    s.kind = v.open ? PTX_OPEN : PTX_BLOCKS;
    if (v.open && v.align > b->function->dynamic_align) b->function->dynamic_align = v.align;
    ptx_variable *own = ptx_keep(b->r.module, sizeof v);
    if (!own) return no_memory(b);
    *own = v;
    if (!v.open && (s.at = ptx_add_shared(b, own, -1)) < 0) return no_memory(b);
  } else {
    int64_t *end = ptx_is(word, ".local") ? &b->local : &b->handed;
    s.kind = end == &b->local ? PTX_LOCAL : PTX_HANDED;
    s.at = (*end + (int64_t)v.align - 1) & -(int64_t)v.align;
    *end = s.at + (int64_t)v.bytes;
    if (b->handed > b->most_handed) b->most_handed = b->handed;
  }
  return ptx_add_symbol(b, b->symbols, s) || no_memory(b);
}

static bool read_directive(ptx_body *b) {
  ptx_reader *r = &b->r;
  ptx_name word = ptx_word(r);
  if (ptx_is(word, ".loc") || ptx_is(word, ".file")) return ptx_pass_line(r), true;
  if (ptx_is(word, ".pragma")) {
    while (*r->at && *r->at != ';' && *r->at != '\n') r->at++;
  } else if (ptx_is(word, ".reg")) {
    if (!read_registers(b)) return false;
  } else if (ptx_is(word, ".local") || ptx_is(word, ".param") || ptx_is(word, ".shared")) {
    if (!read_declared(b, word)) return false;
  } else if (!ptx_is(word, ".extern")) {
    return ptx_refuse(r, "%.20s is not known in a body", word.text);
  } else {
    return true;
  }
  return ptx_take(r, ';') || ptx_refuse(r, "; was due");
}

// As a scope ends: its labels are known; what jumps to others is left to the scope around it.
static bool find_labels(ptx_body *b, int labels, int branches, bool last) {
  int left = branches;
  for (int i = branches; i < b->branches; i++) {
    const ptx_label *branch = &b->branch[i];
    int at = b->labels - 1;
    while (at >= labels && !ptx_same(b->label[at].name, branch->name)) at--;
    if (at >= labels) {
      b->code.in[branch->at].target = b->label[at].at;
    } else if (last) {
      return ptx_refuse(&b->r, "there is no label %.*s", branch->name.length, branch->name.text);
    } else {
      b->branch[left++] = *branch;
    }
  }
  b->branches = left, b->labels = labels;
  return true;
}

// ---- Instructions ----

static em_instruction *append(ptx_body *b, const em_instruction *in, int writes) {
  ptx_code *c = &b->code;
  if (c->length == c->room) {
    int room = c->room ? c->room * 2 : 256;
    em_instruction *grown = realloc(c->in, sizeof *grown * (size_t)room);
    uint8_t *more = realloc(c->writes, (size_t)room);
    if (grown) c->in = grown;
    if (more) c->writes = more;
    if (!grown || !more) return NULL;
    c->room = room;
  }
  c->writes[c->length] = (uint8_t)writes;
  c->in[c->length] = *in;
  return &c->in[c->length++];
}

static bool names_handed(ptx_body *b, const ptx_variable *due, int count) {
  ptx_reader *r = &b->r;
  for (int i = 0; i < count; i++) {
    if (i && !ptx_take(r, ',')) return ptx_refuse(r, "a call hands too little");
    ptx_name name = ptx_word(r);
    int at = b->symbols - 1;
    while (at >= 0 && !ptx_same(b->symbol[at].name, name)) at--;
    if (at < 0 || b->symbol[at].kind != PTX_HANDED || b->symbol[at].at != due[i].at ||
        b->symbol[at].bytes != due[i].bytes) {
      return ptx_refuse(r, "a call hands %.*s otherwise than its function takes it", name.length, name.text);
    }
  }
  return true;
}

// call.uni (retval0), name, (param0, param1);
static bool read_call(ptx_body *b, em_instruction *in) {
  ptx_reader *r = &b->r;
  em_module *m = r->module;
  ptx_skip(r);
  const char *results = ptx_take(r, '(') ? r->at : NULL;
  if (results) {
    while (*r->at && *r->at != ')') r->at++;
    if (!ptx_take(r, ')') || !ptx_take(r, ',')) return ptx_refuse(r, "a function was due");
  }
  ptx_name name = ptx_word(r);
  in->target = ptx_function_at(m, name);
  if (in->target < 0) return ptx_refuse(r, "there is no function %.*s", name.length, name.text);
  const em_text *s = m->function[in->target].source;
  bool hands = ptx_take(r, ',');
  if (hands && !ptx_take(r, '(')) return ptx_refuse(r, "( was due");
  if (!names_handed(b, s->param, m->function[in->target].params)) return false;
  if (hands && !ptx_take(r, ')')) return ptx_refuse(r, "a call hands too much");
  const char *end = r->at;
  if (!results != !s->results) return ptx_refuse(r, "what %.*s returns", name.length, name.text);
  if (results) {
    r->at = results;
    if (!names_handed(b, s->result, s->results)) return false;
    r->at = end;
  }
  if (!s->body) {
    if (!ptx_is(name, "cudaGraphSetConditional")) return ptx_refuse(r, "%.*s has no body", name.length, name.text);
    in->target = -1;
  }
  return true;
}

static bool read_operands(ptx_body *b, const ptx_opcode *op, em_instruction *in, int *writes) {
  ptx_reader *r = &b->r;
  ptx_skip(r);
  if (*r->at == ';') return true;
  for (;;) {
    int bytes = op->narrow_from <= in->operands ? 4 : op->bytes;
    if (in->operands > 0 && op->text.length > 4 && memcmp(op->text.text, "cvt.", 4) == 0) {
      bytes = (int)em_type_bytes(op->from);
    }
    if (in->operands == 3 && em_has(in, "wide")) bytes *= 2;
    if (!ptx_operand(b, op, in, bytes)) return false;
    if (ptx_take(r, '|')) {
      *writes = 2;
    } else if (!ptx_take(r, ',')) {
      return true;
    }
  }
}

static bool read_guard(ptx_body *b, em_instruction *in) {
  static const ptx_opcode predicate = {.type = EM_PRED};
  em_instruction guard = {.operands = 0};
  if (!ptx_operand(b, &predicate, &guard, 4)) return false;
  in->guard = guard.operand[0];
  return in->guard.kind == EM_PREDICATE || ptx_refuse(&b->r, "a guard that is no predicate");
}

static bool read_instruction(ptx_body *b) {
  ptx_reader *r = &b->r;
  em_instruction in = {.text = r->at, .target = -1};
  b->clock = -1;
  if (ptx_take(r, '@') && !read_guard(b, &in)) return false;
  ptx_skip(r);
  ptx_name text = {r->at, 0};
  for (const char *c = r->at; *c && *c != ';' && *c != ' ' && *c != '\t' && *c != '\n' && *c != '\r'; c++)
    text.length++;
  const ptx_opcode *op = ptx_find_opcode(r, text);
  if (!op) return false;
  r->at += text.length;
  memcpy(in.modifier, op->modifier, sizeof in.modifier);
  in.run = op->row->run, in.type = op->type, in.from = op->from, in.space = op->space;
  int writes = op->writes;
  if (op->shape == PTX_BRANCH) {
    if (!ptx_grow((void **)&b->branch, b->branches, &b->branch_room, sizeof *b->branch)) return no_memory(b);
    b->branch[b->branches++] = (ptx_label){ptx_word(r), b->code.length};
  } else if (op->shape == PTX_CALL) {
    if (!read_call(b, &in)) return false;
  } else if (!read_operands(b, op, &in, &writes)) {
    return false;
  }
  if (!ptx_take(r, ';')) return ptx_refuse(r, "; was due behind %.*s", text.length, text.text);
  const char *wrong = op->row->bind ? op->row->bind(&in) : NULL;
  if (wrong) {
    r->at = in.text;
    return ptx_refuse(r, "%.*s: %s", text.length, text.text, wrong);
  }
  if (b->clock >= 0) {
    em_instruction read = {.run = em_read_clock, .text = in.text, .operands = 1};
    uint8_t bytes = b->code.row[b->clock].bytes;
    read.operand[0] = (em_operand){.kind = EM_REGISTER, .bytes = bytes, .at = (uint32_t)b->clock};
    if (!append(b, &read, PTX_WRITES_FIRST)) return no_memory(b);
    if (op->shape == PTX_BRANCH) b->branch[b->branches - 1].at++;
  }
  return append(b, &in, writes) || no_memory(b);
}

// name: in front of an instruction
static bool read_label(ptx_body *b, bool *is) {
  ptx_reader *r = &b->r;
  const char *begin = r->at;
  ptx_name name = ptx_word(r);
  ptx_skip(r);
  *is = name.length && *r->at == ':' && r->at[1] != ':';
  if (!*is) return r->at = begin, true;
  r->at++;
  if (!ptx_grow((void **)&b->label, b->labels, &b->label_room, sizeof *b->label)) return no_memory(b);
  b->label[b->labels++] = (ptx_label){name, b->code.length};
  return true;
}

static bool read_scope(ptx_body *b, int depth) {
  ptx_reader *r = &b->r;
  int labels = b->labels, branches = b->branches;
  int64_t handed = b->handed;
  if (depth > 16 || !ptx_take(r, '{')) return ptx_refuse(r, "{ was due");
  int symbols = b->symbols;
  while (!ptx_take(r, '}')) {
    bool is = false;
    int before = b->symbols;
    ptx_skip(r);
    if (*r->at == 0) return ptx_refuse(r, "a body without an end");
    if (*r->at == '{') {
      if (!read_scope(b, depth + 1)) return false;
    } else if (*r->at == '.') {
      if (!read_directive(b)) return false;
      before = b->symbols;
    } else if (!ptx_take(r, ';')) {
      if (!read_label(b, &is) || (!is && !read_instruction(b))) return false;
    }
    symbols += b->symbols - before;  // the module's, put in front as they were named
  }
  b->symbols = symbols, b->handed = handed;
  return find_labels(b, labels, branches, depth == 0);
}

// ---- What becomes of it ----

// What it calls is decoded first: what it needs of stack and shared memory is known then.
static bool decode_called(ptx_body *b, em_function *f) {
  em_module *m = f->module;
  size_t most = 0;
  for (int i = 0; i < b->code.length; i++) {
    const em_instruction *in = &b->code.in[i];
    if (in->run != em_run_call || in->target < 0) continue;
    em_function *called = &m->function[in->target];
    if (!ptx_decode(m, called)) return false;
    if (called->stack_bytes > most) most = called->stack_bytes;
    if (called->dynamic_align > f->dynamic_align) f->dynamic_align = called->dynamic_align;
    if (called->source->common_end > f->source->common_end) f->source->common_end = called->source->common_end;
  }
  int64_t end = (b->local + 15) & -INT64_C(16);
  f->local_bytes = (size_t)end;
  f->stack_bytes = (size_t)((end + b->most_handed + 15) & -INT64_C(16)) + most;
  return true;
}

// Shared variables that functions name lie in front, in one place for the whole module; an entry's own behind those
// that it and what it calls have.
static void place_shared(ptx_body *b, em_function *f) {
  em_ptx *p = f->module->ptx;
  for (int i = 0; i < b->shareds; i++) {
    ptx_shared *s = &b->shared[i];
    int64_t align = (int64_t)s->variable->align;
    if (s->common >= 0 && p->shared[s->common].at >= 0) {
      s->at = p->shared[s->common].at;
    } else if (!f->entry) {
      s->at = (p->common + align - 1) & -align, p->common = s->at + (int64_t)s->variable->bytes;
      if (s->common >= 0) p->shared[s->common].at = s->at;
    } else {
      continue;
    }
    int64_t end = s->at + (int64_t)s->variable->bytes;
    if (end > f->source->common_end) f->source->common_end = end;
  }
  int64_t end = f->source->common_end;
  if (end < EM_SHARED_FIRST) end = EM_SHARED_FIRST;
  for (int i = 0; i < b->shareds; i++) {
    ptx_shared *s = &b->shared[i];
    int64_t align = (int64_t)s->variable->align;
    if (s->at < 0) s->at = (end + align - 1) & -align, end = s->at + (int64_t)s->variable->bytes;
  }
  f->shared_bytes = (size_t)end;
}

static void fill_row(uint8_t *to, const ptx_row *row) {
  uint32_t bits = row->value ? UINT32_MAX : 0;
  if (!row->bytes) memcpy(to, &bits, 4);
  for (int lane = 0; row->bytes && lane < EM_LANES; lane++) memcpy(to + lane * row->bytes, &row->value, row->bytes);
}

// Constants, then special rows, then registers.
static bool place_rows(ptx_body *b, em_function *f) {
  ptx_code *c = &b->code;
  uint32_t at = 0;
  int specials = 0;
  for (int i = 0; i < c->rows; i++) {
    ptx_row *row = &c->row[i];
    if (row->kind == PTX_SHARED) row->kind = PTX_CONSTANT, row->value += b->shared[row->variable].at;
    specials += row->kind == PTX_SPECIAL;
    if (row->kind == PTX_CONSTANT) row->at = at, at += row->bytes ? (uint32_t)row->bytes * EM_LANES : 64;
  }
  f->constants_bytes = at;
  f->constants = calloc(1, at + 1);
  f->special = calloc((size_t)specials + 1, sizeof *f->special);
  if (!f->constants || !f->special) return no_memory(b);
  for (int i = 0; i < c->rows; i++) {
    ptx_row *row = &c->row[i];
    if (row->kind == PTX_CONSTANT) fill_row(f->constants + row->at, row);
    if (row->kind != PTX_SPECIAL) continue;
    row->at = at, at += row->bytes ? (uint32_t)row->bytes * EM_LANES : 64;
    f->special[f->specials++] = (em_special){row->what, row->bytes, row->at, row->value};
  }
  if (!ptx_place_registers(c, &at)) return no_memory(b);
  f->file_bytes = (at + 63) & ~63u;
  return true;
}

static void set_places(em_operand *o, const ptx_row *row) {
  if (o->kind == EM_VECTOR) {
    for (int i = 0; i < o->count; i++) set_places(&o->items[i], row);
  } else if (o->kind != EM_SINK) {
    o->at = row[o->at].at;
  }
}

static bool finish(ptx_body *b, em_function *f) {
  em_instruction end = {.run = em_run_ret, .text = "the end of the body", .target = -1};
  if (!append(b, &end, PTX_WRITES_NONE)) return no_memory(b);
  if (!decode_called(b, f)) return false;
  place_shared(b, f);
  if (!place_rows(b, f)) return false;
  for (int i = 0; i < b->code.length; i++) {
    em_instruction *in = &b->code.in[i];
    for (int k = 0; k < in->operands; k++) set_places(&in->operand[k], b->code.row);
    set_places(&in->guard, b->code.row);
  }
  f->length = b->code.length;
  f->code = realloc(b->code.in, sizeof *f->code * (size_t)f->length);
  if (!f->code) return no_memory(b);
  b->code.in = NULL;
  return true;
}

bool ptx_decode(em_module *m, em_function *f) {
  em_text *s = f->source;
  if (s->decoded) return true;
  ptx_body *b = calloc(1, sizeof *b);
  bool fine = b && s->body && !s->decoding;
  if (!fine) em_fault(NULL, NULL, -1, s->decoding ? "%s calls itself" : "%s has no body", f->name);
  s->decoding = true;
  if (fine) {
    b->r = (ptx_reader){s->body, m}, b->function = f;
    for (int i = 0; i < f->params + s->results; i++) {
      const ptx_variable *v = i < f->params ? &s->param[i] : &s->result[i - f->params];
      fine &= !!ptx_add_symbol(b, b->symbols, (ptx_symbol){.name = v->name, .kind = PTX_OWN, .at = v->at});
    }
    fine = fine && read_scope(b, 0) && finish(b, f);
    free(b->code.in), free(b->code.writes), free(b->code.row), free(b->symbol), free(b->label), free(b->branch);
    free(b->shared);
  }
  free(b);
  s->decoding = false;
  return s->decoded = fine;
}
