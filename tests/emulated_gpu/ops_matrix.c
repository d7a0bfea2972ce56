// Products on tensor cores: mma.sync at once, wgmma when its group is waited for, or by chance before.
//
// A warp does its 16 rows of a warpgroup's 64, for itself: what it reads of shared memory is what is there at that
// time. The four warps have to ask for the same, which is checked.
#include <stdlib.h>
#include <string.h>

#include "later.h"
#include "matrix.h"
#include "race.h"

enum { MOST_ROWS = EM_MOST_N / 2, LOG = 64, WARPGROUP = 4 };

// ---- What an instruction multiplies: .m64n128k16.f32.f16.f16 and the like ----

static const struct {
  const char *name;
  em_number number;
} numbers[] = {{"f16", EM_NUMBER_F16},   {"bf16", EM_NUMBER_BF16}, {"tf32", EM_NUMBER_TF32}, {"e4m3", EM_NUMBER_E4M3},
               {"e5m2", EM_NUMBER_E5M2}, {"s8", EM_NUMBER_S8},     {"u8", EM_NUMBER_U8}};

static int number_of(const char *name) {
  for (int i = 0; name && i < EM_NUMBERS; i++)
    if (!strcmp(numbers[i].name, name)) return (int)numbers[i].number;
  return -1;
}

typedef struct shape {
  int m, n, k, a, b;
} shape;

// Packed into in->wide as it is loaded.
static int64_t packed(const shape *s) {
  return (int64_t)s->m << 48 | (int64_t)s->n << 32 | (int64_t)s->k << 16 | s->a << 8 | s->b;
}

static shape shape_of(const em_instruction *in) {
  const int64_t w = in->wide;
  return (shape){(int)(w >> 48), (int)(w >> 32 & 0xffff), (int)(w >> 16 & 0xffff), (int)(w >> 8 & 0xff),
                 (int)(w & 0xff)};
}

static const char *read_shape(const em_instruction *in, shape *s) {
  const char *text = NULL;
  int i = 0;
  for (; i < EM_MODIFIERS && in->modifier[i] && !text; i++)
    if (in->modifier[i][0] == 'm' && in->modifier[i][1] >= '0' && in->modifier[i][1] <= '9') text = in->modifier[i];
  if (!text) return "no shape";
  char *end;
  s->m = (int)strtol(text + 1, &end, 10);
  s->n = *end == 'n' ? (int)strtol(end + 1, &end, 10) : 0;
  s->k = *end == 'k' ? (int)strtol(end + 1, &end, 10) : 0;
  if (*end) return "a shape that is not known";
  if (em_has(in, "row")) {  // mma
    if (!em_has(in, "col")) return "layouts that are not known";
    i += 2;
  }
  const char *const *type = in->modifier + i;  // d, a, b{, c}
  s->a = number_of(type[0] ? type[1] : NULL);
  s->b = number_of(type[0] && type[1] ? type[2] : NULL);
  if (s->a < 0 || s->b < 0) return "types that are not known";
  const bool bytes = s->a >= EM_NUMBER_S8, f8 = s->a == EM_NUMBER_E4M3 || s->a == EM_NUMBER_E5M2;
  if (strcmp(type[0], bytes ? "s32" : "f32")) return "accumulators that are not known";
  if (bytes != (s->b >= EM_NUMBER_S8) || (!bytes && !f8 && s->a != s->b) ||
      (f8 && s->b != EM_NUMBER_E4M3 && s->b != EM_NUMBER_E5M2))
    return "types that do not go together";
  return NULL;
}

static bool are(const em_operand *o, int count, int bytes) {
  if (o->kind != EM_VECTOR || o->count != count) return false;
  for (int i = 0; i < count; i++)
    if (o->items[i].kind != EM_REGISTER || o->items[i].bytes != bytes) return false;
  return true;
}

// All lanes have to be there: the rest of the warp comes, or never will.
static em_turn all_here(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  if (lanes == 0xffffffffu) return EM_NEXT;
  if (warp->alive != 0xffffffffu)
    return em_fault(warp, in, -1, "lanes of the warp have ended (%#x have not)", warp->alive);
  return EM_WAIT;
}

// Fragments of 32 bits as rows of 32 bytes of k: register c 2 + h of lane 4 g + t is bytes 16 c + 4 t of row 8 h + g.
static void rows_of(uint8_t (*rows)[EM_K_BYTES], const uint32_t *const *fragment, int registers, int halves) {
  for (int i = 0; i < registers; i++)
    for (int g = 0; g < 8; g++) memcpy(&rows[i % halves * 8 + g][16 * (i / halves)], fragment[i] + 4 * g, 16);
}

// ---- mma.sync ----

static em_turn run_mma(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  if (here != EM_NEXT) return here;
  const shape s = shape_of(in);
  uint8_t a[EM_M][EM_K_BYTES] = {{0}}, b[8][EM_K_BYTES] = {{0}};
  const uint32_t *left[4], *right[2];
  float *c[4], *d[4], before[4][EM_LANES];
  const int chunks = s.k * em_number_bytes((em_number)s.a) / 16;
  for (int i = 0; i < 2 * chunks; i++) left[i] = EM_ROW(const uint32_t, warp, &in->operand[1].items[i]);
  for (int i = 0; i < chunks; i++)
    right[i] =
        EM_ROW(const uint32_t, warp, in->operand[2].kind == EM_VECTOR ? &in->operand[2].items[i] : &in->operand[2]);
  for (int i = 0; i < 4; i++) {  // rows that are written may be others of those that are read
    c[i] = memcpy(before[i], EM_ROW(float, warp, &in->operand[3].items[i]), sizeof before[i]);
    d[i] = EM_ROW(float, warp, &in->operand[0].items[i]);
  }
  rows_of(a, left, 2 * chunks, 2);
  rows_of(b, right, chunks, 1);
  em_step_do(&(em_step){.a = (em_number)s.a,
                        .b = (em_number)s.b,
                        .k = s.k,
                        .n = 8,
                        .left = (const uint8_t(*)[EM_K_BYTES])a,
                        .right = (const uint8_t(*)[EM_K_BYTES])b,
                        .c = c,
                        .d = d});
  return EM_NEXT;
}

static em_turn run_mma_f64(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  const double *a[4], *b[2], *c[4];
  double *d[4];
  if (here != EM_NEXT) return here;
  for (int i = 0; i < 4; i++) {
    d[i] = EM_ROW(double, warp, &in->operand[0].items[i]), a[i] = EM_ROW(double, warp, &in->operand[1].items[i]);
    c[i] = EM_ROW(double, warp, &in->operand[3].items[i]);
  }
  for (int i = 0; i < 2; i++) b[i] = EM_ROW(double, warp, &in->operand[2].items[i]);
  em_step_f64(d, a, b, c);
  return EM_NEXT;
}

static const char *bind_mma(em_instruction *in) {
  shape s;
  if (!em_has(in, "sync") || !em_has(in, "aligned") || em_has(in, "satfinite")) return "a form that is not known";
  if (em_has(in, "f64")) {
    in->run = run_mma_f64;
    return em_has(in, "m16n8k8") && in->operands == 4 && are(&in->operand[0], 4, 8) && are(&in->operand[1], 4, 8) &&
                   are(&in->operand[2], 2, 8) && are(&in->operand[3], 4, 8)
               ? NULL
               : "a shape of f64 that is not known";
  }
  const char *wrong = read_shape(in, &s);
  if (wrong) return wrong;
  const int bytes = s.k * em_number_bytes((em_number)s.a), chunks = bytes / 16;
  if (s.m != EM_M || s.n != 8 || (bytes != 16 && bytes != 32)) return "a shape that is not known";
  const bool right =
      chunks == 2 ? are(&in->operand[2], 2, 4)
                  : are(&in->operand[2], 1, 4) || (in->operand[2].kind == EM_REGISTER && in->operand[2].bytes == 4);
  if (in->operands != 4 || !are(&in->operand[0], 4, 4) || !are(&in->operand[1], 2 * chunks, 4) || !right ||
      !are(&in->operand[3], 4, 4))
    return "operands that are not known";
  in->wide = packed(&s);
  return NULL;
}

// ---- wgmma ----

enum { A_IN_REGISTERS = 1, A_ACROSS = 2, B_ACROSS = 4, A_MINUS = 8, B_MINUS = 16, ADD = 32 };

typedef struct product {
  const em_instruction *in;
  uint8_t *file;   // of registers, as it was asked
  uint64_t a, b;   // descriptors
  uint32_t group;  // of commits
  int how;
  uint32_t left[4][EM_LANES];  // A in registers
} product;

enum { EM_COMMITTED = 16 };
typedef struct mine {  // warp->matrix
  em_later later;      // while products are under way
  em_warp *warp;
  product *list;  // a ring
  int first, count, room;
  uint32_t groups, asked;
  uint32_t committed[EM_COMMITTED];  // what had been asked for with the last groups
  bool fenced;
} mine;

static mine *of_warp(em_warp *warp) {
  if (!warp->matrix) {
    mine *m = calloc(1, sizeof *m);
    if (!m) abort();
    m->warp = warp;
    warp->matrix = m;
  }
  return warp->matrix;
}

typedef struct side {  // where an operand lies in shared memory
  em_block *block;
  em_warp *asks;                                // only looks for races with what the warp asks for; else NULL
  const em_instruction *in;                     // of it
  bool shared;                                  // one of the four warps looks for each chunk
  uint32_t start, leading, stride, span, mask;  // span: of the swizzle, 16 bytes where there is none
} side;

static bool read_side(uint64_t descriptor, em_block *block, side *s) {
  memset(s, 0, sizeof *s);
  const int swizzle = (int)(descriptor >> 62);
  s->block = block;
  s->start = (uint32_t)(descriptor & 0x3fff) << 4;
  s->leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
  s->stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
  s->span = swizzle ? 256u >> swizzle : 16;
  s->mask = s->span / 16 - 1;
  // A pattern that begins elsewhere takes a base offset, which is not known here.
  return !(descriptor >> 49 & 7) && !(s->start >> 7 & s->mask);
}

// 16 bytes of shared memory, swizzled; NULL: they are not the block's.
static const uint8_t *chunk(const side *s, uint32_t at) {
  at ^= (at >> 7 & s->mask) << 4;
  if (at < EM_SHARED_FIRST || at + 16 > s->block->shared_bytes) return NULL;
  if (s->asks && (!s->shared || at / 16 % WARPGROUP == (uint32_t)s->asks->index % WARPGROUP) &&
      !em_race_wgmma(s->asks, s->in, s->block, at, 16))
    return NULL;
  return s->block->shared + at;
}

// Rows of 32 bytes of k from row `first` on, which lie so: 8 rows of a span after the other.
static bool along_k(const side *s, int first, int rows, uint8_t (*to)[EM_K_BYTES]) {
  for (int r = 0; r < rows; r++)
    for (uint32_t i = 0; i < 2; i++) {
      const uint32_t row = (uint32_t)(first + r);
      const uint8_t *at =
          chunk(s, s->start + row / 8 * s->stride + row % 8 * s->span + i * (s->mask ? 16 : s->leading));
      if (!at) return false;
      memcpy(to[r] + 16 * i, at, 16);
    }
  return true;
}

// The same where 16-bit numbers of neighbouring rows lie side by side: 8 of k after the other, spans of rows apart.
static bool across(const side *s, int first, int rows, uint8_t (*to)[EM_K_BYTES]) {
  const uint32_t each = s->span / 2;
  for (uint32_t k = 0; k < 16; k++)
    for (int r = 0; r < rows; r += 8) {
      const uint32_t row = (uint32_t)(first + r);
      const uint32_t by_row = s->mask ? s->leading : s->stride, by_k = s->mask ? s->stride : s->leading;
      const uint8_t *at = chunk(s, s->start + row / each * by_row + row % each * 2 + k % 8 * s->span + k / 8 * by_k);
      if (!at) return false;
      for (int i = 0; i < 8; i++) memcpy(to[r + i] + 2 * k, at + 2 * i, 2);
    }
  return true;
}

static bool multiply(mine *m, const product *p) {
  static uint8_t a[EM_M][EM_K_BYTES], b[EM_MOST_N][EM_K_BYTES];
  const shape s = shape_of(p->in);
  const em_warp *warp = m->warp;
  float *d[MOST_ROWS];
  side left, right;
  bool inside = true;
  if (p->how & A_IN_REGISTERS) {
    const uint32_t *fragment[4] = {p->left[0], p->left[1], p->left[2], p->left[3]};
    rows_of(a, fragment, 4, 2);
  } else {
    const int first = warp->index % WARPGROUP * EM_M;
    inside = read_side(p->a, warp->block, &left) && (p->how & A_ACROSS ? across : along_k)(&left, first, EM_M, a);
  }
  inside = inside && read_side(p->b, warp->block, &right) && (p->how & B_ACROSS ? across : along_k)(&right, 0, s.n, b);
  if (!inside) {
    em_fault(warp, p->in, -1, "descriptors %#llx, %#llx: outside of shared memory, or not at their swizzle's begin",
             (unsigned long long)p->a, (unsigned long long)p->b);
    return false;
  }
  for (int i = 0; i < s.n / 2; i++) d[i] = (float *)(void *)(p->file + p->in->operand[0].items[i].at);
  em_step_do(&(em_step){.a = (em_number)s.a,
                        .b = (em_number)s.b,
                        .k = s.k,
                        .n = s.n,
                        .a_minus = p->how & A_MINUS,
                        .b_minus = p->how & B_MINUS,
                        .left = (const uint8_t(*)[EM_K_BYTES])a,
                        .right = (const uint8_t(*)[EM_K_BYTES])b,
                        .c = p->how & ADD ? d : NULL,
                        .d = d});
  return true;
}

static bool first_product(em_later *later) {
  mine *m = (mine *)(void *)later;
  const product *p = &m->list[m->first];
  m->first = (m->first + 1) % m->room;
  if (!--m->count) em_later_done(later);
  return multiply(m, p);
}

static void drop_products(em_later *later) {
  mine *m = (mine *)(void *)later;
  free(m->list);
  m->list = NULL, m->count = m->room = 0;
}

static product *new_product(mine *m) {
  if (m->count == m->room) {
    const int room = m->room ? 2 * m->room : 8;
    product *grown = malloc((size_t)room * sizeof *grown);
    if (!grown) abort();
    for (int i = 0; i < m->count; i++) grown[i] = m->list[(m->first + i) % m->room];
    free(m->list);
    m->list = grown, m->room = room, m->first = 0;
  }
  if (!m->count) {
    m->later = (em_later){.one = first_product, .drop = drop_products};
    em_later_add(&m->later, m->warp->block->grid, m->warp->block);
  }
  return &m->list[(m->first + m->count++) % m->room];
}

// What a warp of the group has asked for as its n-th product, and the others have to as well.
typedef struct asked {
  const em_instruction *in;
  uint64_t a, b;
  uint32_t number;
} asked;

static bool agrees(em_warp *warp, const em_instruction *in, const product *p, uint32_t number) {
  em_warp *first = &warp->block->warp[warp->index / WARPGROUP * WARPGROUP];
  for (int i = 0; i < WARPGROUP; i++) {
    const em_warp *w = first + i;
    const mine *m = w->matrix;
    if (w == warp || !m || m->asked < number || !m->count) continue;
    // Its products that are under way: the last of them is number m->asked.
    const uint32_t back = m->asked - number;
    if (back >= (uint32_t)m->count) continue;
    const product *q = &m->list[(m->first + m->count - 1 - (int)back) % m->room];
    if (q->in != in || q->b != p->b || (!(p->how & A_IN_REGISTERS) && q->a != p->a)) {
      em_fault(warp, in, -1, "warp %d of the warpgroup asks for another product: %.60s", w->index, q->in->text);
      return false;
    }
  }
  return true;
}

// The same chunks as multiply() will read: no race for any of them. What is outside of shared memory it says itself.
static bool race_free(em_warp *warp, const product *p) {
  static uint8_t rows[EM_MOST_N][EM_K_BYTES];
  const shape s = shape_of(p->in);
  side left, right;
  if (!(p->how & A_IN_REGISTERS) && read_side(p->a, warp->block, &left)) {
    left.asks = warp, left.in = p->in;
    const int first = warp->index % WARPGROUP * EM_M;
    if (!(p->how & A_ACROSS ? across : along_k)(&left, first, EM_M, rows)) return false;
  }
  if (!read_side(p->b, warp->block, &right)) return true;
  right.asks = warp, right.in = p->in, right.shared = true;
  return (p->how & B_ACROSS ? across : along_k)(&right, 0, s.n, rows);
}

static bool is_one(em_warp *warp, const em_operand *o) {
  if (o->kind == EM_PREDICATE) return (*em_bits(warp, o) & 1) != o->negated;
  return em_get(warp, o, 0) != 0;
}

static em_turn run_async(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  if (here != EM_NEXT) return here;
  mine *m = of_warp(warp);
  if (!m->fenced) return em_fault(warp, in, -1, "no wgmma.fence before it");
  if (warp->block->warps / WARPGROUP <= warp->index / WARPGROUP)
    return em_fault(warp, in, -1, "a warpgroup has four warps");
  product *p = new_product(m);
  const em_operand *o = in->operand;
  *p = (product){.in = in, .file = warp->file, .group = m->groups, .how = in->form, .b = em_get(warp, &o[2], 0)};
  if (in->form & A_IN_REGISTERS) {
    for (int i = 0; i < 4; i++) memcpy(p->left[i], EM_ROW(uint32_t, warp, &o[1].items[i]), sizeof p->left[i]);
  } else {
    p->a = em_get(warp, &o[1], 0);
  }
  for (int lane = 1; lane < EM_LANES; lane++)
    if (em_get(warp, &o[2], lane) != p->b || (!(in->form & A_IN_REGISTERS) && em_get(warp, &o[1], lane) != p->a))
      return em_fault(warp, in, lane, "the lanes have different descriptors");
  p->how |= is_one(warp, &o[3]) ? ADD : 0;
  if (in->operands > 4) {
    p->how |= (int32_t)em_get(warp, &o[4], 0) < 0 ? A_MINUS : 0;
    p->how |= (int32_t)em_get(warp, &o[5], 0) < 0 ? B_MINUS : 0;
  }
  const int turned = in->form & A_IN_REGISTERS ? 0 : 1;  // behind the signs: A's layout, if A has one, then B's
  if (in->operands > 6 && turned) p->how |= em_get(warp, &o[6], 0) ? A_ACROSS : 0;
  if (in->operands > 6 + turned) p->how |= em_get(warp, &o[6 + turned], 0) ? B_ACROSS : 0;
  if (!agrees(warp, in, p, ++m->asked)) return EM_FAULT;
  if (em_race_on && !race_free(warp, p)) return EM_FAULT;
  return !em_later_now(warp->block->grid) || first_product(&m->later) ? EM_NEXT : EM_FAULT;
}

static const char *bind_async(em_instruction *in) {
  shape s;
  const char *wrong = read_shape(in, &s);
  if (wrong) return wrong;
  const int bytes = em_number_bytes((em_number)s.a);
  if (!em_has(in, "sync") || !em_has(in, "aligned") || em_has(in, "satfinite") || em_has(in, "sp"))
    return "a form that is not known";
  if (s.m != 64 || s.n % 8 || s.n < 8 || s.n > EM_MOST_N || s.k * bytes != EM_K_BYTES)
    return "a shape that is not known";
  const bool integers = s.a >= EM_NUMBER_S8;
  if (integers && s.n > 32 && s.n % 16) return "a shape of integers that is not known";
  if (are(&in->operand[1], 4, 4)) in->form |= A_IN_REGISTERS;
  const int turns = bytes == 2 ? in->form & A_IN_REGISTERS ? 1 : 2 : 0;  // of 16 bits alone
  const int operands = 4 + (integers ? 0 : 2) + turns;
  if (in->operands != operands || !are(&in->operand[0], s.n / 2, 4) || in->operand[2].bytes != 8 ||
      (!(in->form & A_IN_REGISTERS) && in->operand[1].bytes != 8))
    return "operands that are not known";
  in->wide = packed(&s);
  return NULL;
}

static em_turn run_fence(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  if (here == EM_NEXT) of_warp(warp)->fenced = true;
  return here;
}

static em_turn run_commit(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  if (here != EM_NEXT) return here;
  mine *m = of_warp(warp);
  m->committed[++m->groups % EM_COMMITTED] = m->asked;
  if (em_race_on) em_race_commit(warp, EM_WGMMA, lanes);
  return EM_NEXT;
}

// A product is the whole warpgroup's: it is done when all four warps have asked for it, and then for all of them: none
// reads shared memory any more when one has waited.
static em_turn do_together(em_warp *warp, uint32_t number) {
  const em_warp *first = &warp->block->warp[warp->index / WARPGROUP * WARPGROUP];
  for (int i = 0; number > 0 && i < WARPGROUP; i++) {
    const mine *m = first[i].matrix;
    if (!m || m->asked < number) return EM_WAIT;
  }
  for (int i = 0; number > 0 && i < WARPGROUP; i++) {
    mine *m = first[i].matrix;
    while (m->count && m->asked - (uint32_t)m->count < number)
      if (!first_product(&m->later)) return EM_FAULT;
  }
  return EM_NEXT;
}

static em_turn run_wait(em_warp *warp, const em_instruction *in, uint32_t lanes) {
  const em_turn here = all_here(warp, in, lanes);
  if (here != EM_NEXT) return here;
  mine *m = of_warp(warp);
  const uint32_t n = (uint32_t)em_get(warp, &in->operand[0], 0);
  const em_turn done =
      do_together(warp, n < m->groups && n < EM_COMMITTED ? m->committed[(m->groups - n) % EM_COMMITTED] : 0);
  if (done != EM_NEXT) return done;
  if (em_race_on) em_race_wait(warp, EM_WGMMA, lanes, n);
  return EM_NEXT;
}

static const char *bind_plain(em_instruction *in) {
  return em_has(in, "sync") && em_has(in, "aligned") ? NULL : "a form that is not known";
}

static const char *bind_wait(em_instruction *in) {
  return in->operands == 1 ? bind_plain(in) : "operands that are not known";
}

void em_matrix_warp(em_warp *warp) {
  mine *m = warp->matrix;
  if (!m) return;
  if (m->count) em_later_done(&m->later);
  drop_products(&m->later);
}

const em_op em_ops_matrix[] = {{"wgmma.mma_async", run_async, bind_async},
                               {"wgmma.fence", run_fence, bind_plain},
                               {"wgmma.commit_group", run_commit, bind_plain},
                               {"wgmma.wait_group", run_wait, bind_wait},
                               {"mma", run_mma, bind_mma},
                               {NULL, NULL, NULL}};
