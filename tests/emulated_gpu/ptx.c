// PTX text -> em_module: what stands outside of functions' bodies. Bodies are passed over, and decoded (ptx_body.c)
// when they are needed.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"
#include "run.h"

// ---- Memory ----

typedef struct ptx_chunk {
  struct ptx_chunk *next;
  size_t used, room;
  _Alignas(64) uint8_t bytes[];
} ptx_chunk;

void *ptx_keep(em_module *module, size_t bytes) {
  em_ptx *p = module->ptx;
  bytes = (bytes + 63) & ~(size_t)63;
  if (!p->chunks || p->chunks->room - p->chunks->used < bytes) {
    size_t room = bytes > 65536 ? bytes : 65536;
    ptx_chunk *chunk = aligned_alloc(64, sizeof *chunk + room);
    if (!chunk) return NULL;
    *chunk = (ptx_chunk){.next = p->chunks, .room = room};
    memset(chunk->bytes, 0, room);
    p->chunks = chunk;
  }
  void *at = p->chunks->bytes + p->chunks->used;
  p->chunks->used += bytes;
  return at;
}

bool ptx_grow(void **array, int count, int *room, size_t item) {
  if (count < *room) return true;
  int more = *room ? *room * 2 : 64;
  void *grown = realloc(*array, (size_t)more * item);
  if (!grown) return false;
  *array = grown, *room = more;
  return true;
}

const char *ptx_intern(em_module *module, ptx_name word) {
  em_ptx *p = module->ptx;
  for (int i = 0; i < p->words; i++) {
    if (ptx_is(word, p->word[i])) return p->word[i];
  }
  if (p->words % 64 == 0) {
    const char **grown = realloc(p->word, sizeof *grown * (size_t)(p->words + 64));
    if (!grown) return NULL;
    p->word = grown;
  }
  char *own = ptx_keep(module, (size_t)word.length + 1);
  if (own) memcpy(own, word.text, (size_t)word.length), p->word[p->words++] = own;
  return own;
}

// ---- Words ----

bool ptx_refuse(const ptx_reader *r, const char *format, ...) {
  char said[300];
  va_list more;
  va_start(more, format);
  vsnprintf(said, sizeof said, format, more);
  va_end(more);
  int line = 1;
  for (const char *c = r->module->ptx->text; c < r->at; c++) line += *c == '\n';
  em_fault(NULL, NULL, -1, "%s, line %d: %s", r->module->ptx->name, line, said);
  return false;
}

bool ptx_is(ptx_name name, const char *word) {
  return strncmp(name.text, word, (size_t)name.length) == 0 && word[name.length] == 0;
}

void ptx_skip(ptx_reader *r) {
  const char *c = r->at;
  for (;;) {
    while (*c == ' ' || *c == '\t' || *c == '\n' || *c == '\r') c++;
    if (c[0] == '/' && c[1] == '/') {
      while (*c && *c != '\n') c++;
    } else if (c[0] == '/' && c[1] == '*') {
      const char *end = strstr(c + 2, "*/");
      c = end ? end + 2 : c + strlen(c);
    } else {
      break;
    }
  }
  r->at = c;
}

bool ptx_take(ptx_reader *r, char c) {
  ptx_skip(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
static bool digit(char c) {
  return c >= '0' && c <= '9';
}

// A name may begin with % or a dot; behind a % (%tid.x) there may be one within.
ptx_name ptx_word(ptx_reader *r) {
  ptx_skip(r);
  const char *begin = r->at, *c = begin;
  bool dots = *c == '%';
  if (*c == '%' || *c == '.') c++;
  if (!letter(*c)) return (ptx_name){begin, 0};
  while (letter(*c) || digit(*c) || (dots && *c == '.')) c++;
  r->at = c;
  return (ptx_name){begin, (int)(c - begin)};
}

bool ptx_integer(ptx_reader *r, int64_t *to) {
  ptx_skip(r);
  const char *c = r->at;
  bool negative = *c == '-';
  if (negative || *c == '+') c++;
  if (!digit(*c)) return false;
  uint64_t value = 0;
  if (c[0] == '0' && (c[1] == 'x' || c[1] == 'X')) {
    char *end;
    value = strtoull(c, &end, 16), c = end;
  } else {
    while (digit(*c)) value = value * 10 + (uint64_t)(*c++ - '0');
  }
  if (*c == 'U') c++;
  r->at = c, *to = (int64_t)(negative ? 0 - value : value);
  return true;
}

void ptx_pass_line(ptx_reader *r) {
  while (*r->at && *r->at != '\n') r->at++;
}

// ---- Types ----

static const struct {
  const char *name;
  em_type type;
} types[] = {
    {"b8", EM_U8},         {"b16", EM_U16},       {"b32", EM_U32},   {"b64", EM_U64},   {"u8", EM_U8},
    {"u16", EM_U16},       {"u32", EM_U32},       {"u64", EM_U64},   {"s8", EM_S8},     {"s16", EM_S16},
    {"s32", EM_S32},       {"s64", EM_S64},       {"f16", EM_F16},   {"f32", EM_F32},   {"f64", EM_F64},
    {"f16x2", EM_F16X2},   {"bf16", EM_BF16},     {"tf32", EM_TF32}, {"pred", EM_PRED}, {"bf16x2", EM_BF16X2},
    {"e4m3x2", EM_E4M3X2}, {"e5m2x2", EM_E5M2X2},
};

em_type ptx_type(ptx_name word) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (ptx_is(word, types[i].name)) return types[i].type;
  }
  return EM_NONE;
}

size_t em_type_bytes(em_type type) {
  static const uint8_t bytes[] = {
      [EM_U8] = 1,     [EM_S8] = 1,     [EM_U16] = 2, [EM_S16] = 2, [EM_F16] = 2,  [EM_BF16] = 2,
      [EM_E4M3X2] = 2, [EM_E5M2X2] = 2, [EM_U32] = 4, [EM_S32] = 4, [EM_F32] = 4,  [EM_F16X2] = 4,
      [EM_BF16X2] = 4, [EM_U64] = 8,    [EM_S64] = 8, [EM_F64] = 8, [EM_TF32] = 4,
  };
  return bytes[type];
}

bool em_has(const em_instruction *in, const char *modifier) {
  for (int i = 0; in->modifier[i]; i++) {
    if (strcmp(in->modifier[i], modifier) == 0) return true;
  }
  return false;
}

// ---- Declarations ----

// Behind .param, .shared, .local, .global, .const: [.align n] .type [.ptr [.space] [.align n]] name [[n]]
bool ptx_declaration(ptx_reader *r, ptx_variable *to) {
  *to = (ptx_variable){.align = 0, .at = -1};
  int64_t number;
  bool pointer = false;
  for (;;) {
    ptx_name word = ptx_word(r);
    if (!word.length) return ptx_refuse(r, "a declaration without a name");
    if (word.text[0] != '.') {
      to->name = word;
      break;
    }
    em_type type = ptx_type((ptx_name){word.text + 1, word.length - 1});
    if (ptx_is(word, ".align")) {
      if (!ptx_integer(r, &number) || number <= 0 || (number & (number - 1)))
        return ptx_refuse(r, "an .align of nothing");
      if (!pointer) to->align = (size_t)number;
    } else if (ptx_is(word, ".ptr")) {
      pointer = true;
    } else if (type != EM_NONE) {
      to->type = type;
    } else if (!pointer) {
      return ptx_refuse(r, "%.*s in a declaration", word.length, word.text);
    }
  }
  size_t one = em_type_bytes(to->type);
  if (!one) return ptx_refuse(r, "%.*s has no type that memory holds", to->name.length, to->name.text);
  if (!to->align) to->align = one;
  to->bytes = one;
  if (ptx_take(r, '[')) {
    if (ptx_take(r, ']')) return to->open = true, to->bytes = 0, true;
    if (!ptx_integer(r, &number) || number < 0 || !ptx_take(r, ']')) return ptx_refuse(r, "an array without a size");
    to->bytes = one * (size_t)number;
  }
  return true;
}

static bool initial_values(ptx_reader *r, const ptx_variable *v, uint8_t *data) {
  size_t one = em_type_bytes(v->type), at = 0;
  bool list = ptx_take(r, '{');
  do {
    int64_t value;
    ptx_skip(r);
    if (r->at[0] == '0' && (r->at[1] == 'f' || r->at[1] == 'd')) {
      char *end;
      value = (int64_t)strtoull(r->at + 2, &end, 16), r->at = end;
    } else if (!ptx_integer(r, &value)) {
      return ptx_refuse(r, "what %.*s starts with is not a number", v->name.length, v->name.text);
    }
    if (at + one > v->bytes) return ptx_refuse(r, "%.*s starts with more than it holds", v->name.length, v->name.text);
    memcpy(data + at, &value, one), at += one;
  } while (list && ptx_take(r, ','));
  return !list || ptx_take(r, '}') || ptx_refuse(r, "values without an end");
}

static bool read_variable(ptx_reader *r, em_module *m, bool shared) {
  ptx_variable v;
  if (!ptx_declaration(r, &v)) return false;
  if (shared) {
    em_ptx *p = m->ptx;
    ptx_variable *grown = realloc(p->shared, sizeof v * (size_t)(p->shareds + 1));
    if (!grown) return ptx_refuse(r, "no memory");
    p->shared = grown, p->shared[p->shareds++] = v;
  } else {
    struct em_variable *grown = realloc(m->variable, sizeof *grown * (size_t)(m->variables + 1));
    size_t bytes = (v.bytes + 255) & ~(size_t)255;
    uint8_t *data = bytes ? aligned_alloc(256, bytes) : NULL;
    char *name = ptx_keep(m, (size_t)v.name.length + 1);
    if (grown) m->variable = grown;
    if (!grown || !data || !name) return free(data), ptx_refuse(r, "no memory for a variable");
    memset(data, 0, bytes), memcpy(name, v.name.text, (size_t)v.name.length);
    m->variable[m->variables++] = (struct em_variable){name, data, v.bytes};
    if (ptx_take(r, '=') && !initial_values(r, &v, data)) return false;
  }
  return ptx_take(r, ';') || ptx_refuse(r, "; was due behind %.*s", v.name.length, v.name.text);
}

// ---- Functions ----

int ptx_function_at(const em_module *m, ptx_name name) {
  for (int i = 0; i < m->functions; i++) {
    if (ptx_same(m->function[i].source->name, name)) return i;
  }
  return -1;
}

// (.param .. a, .param .. b) laid out from *at on.
static bool read_params(ptx_reader *r, ptx_variable **list, int *count, size_t *at) {
  ptx_variable *v = NULL;
  int n = 0, room = 0;
  bool fine = true;
  while (fine && !ptx_take(r, ')')) {
    if (n) ptx_take(r, ',');
    if (!ptx_is(ptx_word(r), ".param") || !ptx_grow((void **)&v, n, &room, sizeof *v)) {
      fine = ptx_refuse(r, "a parameter was due");
    } else if ((fine = ptx_declaration(r, &v[n]))) {
      *at = (*at + v[n].align - 1) & ~(v[n].align - 1);
      v[n].at = (int64_t)*at, *at += v[n].bytes, n++;
    }
  }
  if (fine && n) {
    *list = ptx_keep(r->module, sizeof *v * (size_t)n);
    fine = *list || ptx_refuse(r, "no memory");
    if (fine) memcpy(*list, v, sizeof *v * (size_t)n);
  }
  free(v);
  *count = n;
  return fine;
}

static bool pass_body(ptx_reader *r) {
  int depth = 0;
  const char *begin = r->at;
  for (const char *c = r->at; *c; c++) {
    if (*c == '/' && (c[1] == '/' || c[1] == '*')) {
      r->at = c, ptx_skip(r), c = r->at - 1;
    } else if (*c == '"') {
      for (c++; *c && *c != '"'; c++) {
      }
      if (!*c) break;
    } else if (*c == '{') {
      depth++;
    } else if (*c == '}' && --depth == 0) {
      return r->at = c + 1, true;
    }
  }
  r->at = begin;
  return ptx_refuse(r, "a body without an end");
}

static bool three(ptx_reader *r, int *to) {
  for (int i = 0; i < 3; i++) {
    int64_t number = 1;
    if (i && !ptx_take(r, ',')) return to[i] = 1, i == 2 ? true : (to[2] = 1, true);
    if (!ptx_integer(r, &number)) return ptx_refuse(r, "a number was due");
    to[i] = (int)number;
  }
  return true;
}

// What stands between a function's parameters and its body.
static bool read_demands(ptx_reader *r, em_function *f) {
  for (;;) {
    ptx_skip(r);
    if (*r->at == '{' || *r->at == ';') return true;
    ptx_name word = ptx_word(r);
    int n[3] = {0, 1, 1};
    bool flag = ptx_is(word, ".explicitcluster") || ptx_is(word, ".noreturn");
    if (!flag && (word.length == 0 || !three(r, n))) return ptx_refuse(r, "%.20s before a body", word.text);
    if (ptx_is(word, ".maxntid") || ptx_is(word, ".reqntid")) {
      f->max_threads = n[0] * n[1] * n[2];
    } else if (ptx_is(word, ".reqnctapercluster")) {
      for (int i = 0; i < 3; i++) f->cluster[i] = n[i];
    } else if (ptx_is(word, ".minnctapersm")) {
      f->min_blocks = n[0];
    } else if (!flag && !ptx_is(word, ".maxnreg") && !ptx_is(word, ".maxclusterrank")) {
      return ptx_refuse(r, "%.*s is not known", word.length, word.text);
    }
  }
}

static em_function *new_function(em_module *m, ptx_name name) {
  em_function *grown = realloc(m->function, sizeof *grown * (size_t)(m->functions + 1));
  if (!grown) return NULL;
  m->function = grown;
  em_function *f = &grown[m->functions];
  *f = (em_function){.module = m, .source = ptx_keep(m, sizeof *f->source)};
  char *own = ptx_keep(m, (size_t)name.length + 1);
  if (!own || !f->source) return NULL;
  memcpy(own, name.text, (size_t)name.length);
  f->name = own, f->source->name = name, m->functions++;
  return f;
}

static bool read_function(ptx_reader *r, em_module *m, bool entry) {
  ptx_variable *result = NULL, *param = NULL;
  int results = 0, params = 0;
  size_t at = 0;
  if (ptx_take(r, '(') && !read_params(r, &result, &results, &at)) return false;
  ptx_name name = ptx_word(r);
  if (!name.length) return ptx_refuse(r, "a function without a name");
  at = 0;
  if (ptx_take(r, '(') && !read_params(r, &param, &params, &at)) return false;
  int known = ptx_function_at(m, name);
  em_function *f = known >= 0 ? &m->function[known] : new_function(m, name);
  if (!f) return ptx_refuse(r, "no memory");
  f->entry = entry, f->params = params, f->param_bytes = at;
  f->param_at = ptx_keep(m, sizeof *f->param_at * (size_t)params + 1);
  f->param_size = ptx_keep(m, sizeof *f->param_size * (size_t)params + 1);
  if (!f->param_at || !f->param_size) return ptx_refuse(r, "no memory");
  for (int i = 0; i < params; i++) {
    f->param_at[i] = (uint32_t)param[i].at, f->param_size[i] = (uint32_t)param[i].bytes;
  }
  for (int i = 0; i < results; i++) {  // behind the parameters
    at = (at + result[i].align - 1) & ~(result[i].align - 1);
    result[i].at = (int64_t)at, at += result[i].bytes;
  }
  f->return_bytes = at - f->param_bytes;
  em_text *s = f->source;
  s->param = param, s->result = result, s->results = results;
  if (!read_demands(r, f)) return false;
  if (ptx_take(r, ';')) return true;
  if (s->body) return ptx_refuse(r, "%s has two bodies", f->name);
  s->body = r->at;
  return pass_body(r);
}

// ---- Modules ----

static bool read_module(ptx_reader *r, em_module *m) {
  for (;;) {
    ptx_skip(r);
    if (!*r->at) return true;
    ptx_name word = ptx_word(r);
    if (ptx_is(word, ".version") || ptx_is(word, ".target") || ptx_is(word, ".address_size") || ptx_is(word, ".file")) {
      ptx_pass_line(r);
    } else if (ptx_is(word, ".entry") || ptx_is(word, ".func")) {
      if (!read_function(r, m, ptx_is(word, ".entry"))) return false;
    } else if (ptx_is(word, ".global") || ptx_is(word, ".const") || ptx_is(word, ".shared")) {
      if (!read_variable(r, m, ptx_is(word, ".shared"))) return false;
    } else if (!ptx_is(word, ".visible") && !ptx_is(word, ".extern") && !ptx_is(word, ".weak")) {
      return ptx_refuse(r, "%.20s is not known outside of functions", word.text);
    }
  }
}

em_module *em_module_read(const char *text, const char *name) {
  em_module *m = calloc(1, sizeof *m);
  if (m) m->ptx = calloc(1, sizeof *m->ptx);
  if (m && m->ptx) m->ptx->name = strdup(name);
  if (!m || !m->ptx || !m->ptx->name) {
    em_fault(NULL, NULL, -1, "%s: no memory", name);
  } else {
    m->ptx->text = text;
    m->ptx->common = EM_SHARED_FIRST;
    ptx_reader r = {text, m};
    if (read_module(&r, m)) return m;
  }
  em_module_free(m);
  return NULL;
}

void em_module_free(em_module *m) {
  if (!m) return;
  for (int i = 0; i < m->functions; i++) {
    em_frames_free(&m->function[i]);
    free(m->function[i].code), free(m->function[i].constants), free(m->function[i].special);
  }
  for (int i = 0; i < m->variables; i++) free(m->variable[i].data);
  if (m->ptx) {
    for (ptx_chunk *c = m->ptx->chunks, *next; c; c = next) next = c->next, free(c);
    free(m->ptx->shared), free(m->ptx->word), free(m->ptx->opcode), free(m->ptx->name), free(m->ptx);
  }
  free(m->function), free(m->variable), free(m);
}

const em_function *em_module_find(em_module *m, const char *name) {
  int at = ptx_function_at(m, (ptx_name){name, (int)strlen(name)});
  if (at < 0) return em_fault(NULL, NULL, -1, "%s: there is no function %s", m->ptx->name, name), NULL;
  return ptx_decode(m, &m->function[at]) ? &m->function[at] : NULL;
}
