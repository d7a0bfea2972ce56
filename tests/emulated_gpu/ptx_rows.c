// Where a function's registers lie. PTX has thousands, each written once or twice; in a warp's file those of one width
// whose lives do not overlap share a place, so that the files of a block fit into the caches. A life goes from the
// first to the last instruction at which the register may still be read (jumps backwards counted in).
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

typedef struct life {
  int first, last, row;
} life;

typedef struct lives {
  const ptx_code *code;
  uint64_t *in, *first;  // of each basic block: what lives as it begins; what it reads before it writes it
  uint64_t *kill;
  int *begin;  // of a block; its end is the next one's
  int blocks, words;
  int *place;  // scratch: of an instruction: the block that begins there, else -1
  life *of;    // a row's
  int block, at;
} lives;

static void touch_operand(const em_operand *o, bool written, ptx_touch *touch, void *to) {
  if (o->kind == EM_VECTOR) {
    for (int i = 0; i < o->count; i++) touch_operand(&o->items[i], written, touch, to);
  } else if (o->kind != EM_SINK) {
    touch(to, (int)o->at, written && o->kind != EM_ADDRESS);
  }
}

void ptx_touches(const em_instruction *in, int writes, ptx_touch *touch, void *to) {
  if (in->guard.kind == EM_PREDICATE) touch(to, (int)in->guard.at, false);
  int written = writes == PTX_WRITES_LATE ? 0 : writes;
  for (int i = written; i < in->operands; i++) touch_operand(&in->operand[i], false, touch, to);
  for (int i = 0; i < written && i < in->operands; i++) touch_operand(&in->operand[i], true, touch, to);
}

static bool bit(const uint64_t *set, int i) {
  return set[i / 64] >> (i % 64) & 1;
}
static void put(uint64_t *set, int i) {
  set[i / 64] |= UINT64_C(1) << (i % 64);
}

static void note_first(void *to, int row, bool written) {
  lives *l = to;
  uint64_t *kill = l->kill + (size_t)l->block * (size_t)l->words;
  if (l->code->row[row].kind != PTX_REGISTER) return;
  if (!written && !bit(kill, row)) put(l->first + (size_t)l->block * (size_t)l->words, row);
  // A guarded write leaves other lanes' values.
  if (written && l->code->in[l->at].guard.kind == EM_SINK) put(kill, row);
}

static void extend(life *of, int at) {
  if (of->first < 0 || at < of->first) of->first = at;
  if (at > of->last) of->last = at;
}

static void note_life(void *to, int row, bool written) {
  (void)written;
  lives *l = to;
  if (l->code->row[row].kind == PTX_REGISTER) extend(&l->of[row], l->at);
}

static void note_late(void *to, int row, bool written) {
  (void)written;
  ((lives *)to)->code->row[row].alone = true;
}

static bool find_blocks(lives *l) {
  const ptx_code *c = l->code;
  for (int i = 0; i <= c->length; i++) l->place[i] = i == 0 ? 0 : -1;
  for (int i = 0; i < c->length; i++) {
    if (c->in[i].run == em_run_bra) l->place[c->in[i].target] = 0, l->place[i + 1] = 0;
    if (c->in[i].run == em_run_ret) l->place[i + 1] = 0;
  }
  for (int i = 0; i < c->length; i++) {
    if (l->place[i] >= 0) l->place[i] = l->blocks, l->begin[l->blocks++] = i;
  }
  l->begin[l->blocks] = c->length;
  l->words = (c->rows + 63) / 64;
  size_t all = (size_t)l->blocks * (size_t)l->words;
  l->in = calloc(all + 1, 8), l->first = calloc(all + 1, 8), l->kill = calloc(all + 1, 8);
  return l->in && l->first && l->kill;
}

// What lives behind a block, word by word: what lives at the beginnings of those that may follow.
static uint64_t behind(const lives *l, int block, int word) {
  const em_instruction *last = &l->code->in[l->begin[block + 1] - 1];
  uint64_t live = 0;
  bool jumps = last->run == em_run_bra, ends = last->run == em_run_ret;
  if (jumps) live = l->in[(size_t)l->place[last->target] * (size_t)l->words + (size_t)word];
  if (block + 1 < l->blocks && (!(jumps || ends) || last->guard.kind != EM_SINK)) {
    live |= l->in[(size_t)(block + 1) * (size_t)l->words + (size_t)word];
  }
  return live;
}

static void find_live(lives *l) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int b = l->blocks; b-- > 0;) {
      size_t at = (size_t)b * (size_t)l->words;
      for (int w = 0; w < l->words; w++) {
        uint64_t live = l->first[at + (size_t)w] | (behind(l, b, w) & ~l->kill[at + (size_t)w]);
        if (live != l->in[at + (size_t)w]) l->in[at + (size_t)w] = live, changed = true;
      }
    }
  }
  for (int b = 0; b < l->blocks; b++) {
    for (int w = 0; w < l->words; w++) {
      uint64_t in = l->in[(size_t)b * (size_t)l->words + (size_t)w], out = behind(l, b, w);
      for (; in; in &= in - 1) extend(&l->of[w * 64 + __builtin_ctzll(in)], l->begin[b]);
      for (; out; out &= out - 1) extend(&l->of[w * 64 + __builtin_ctzll(out)], l->begin[b + 1] - 1);
    }
  }
}

static int by_first(const void *a, const void *b) {
  const life *x = a, *y = b;
  return x->first != y->first ? (x->first > y->first ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

// Registers of one width, in the order in which they begin to live, each in the first place that is free.
static bool place_width(lives *l, life *sorted, int count, int bytes, uint32_t *at) {
  uint32_t size = bytes ? (uint32_t)bytes * EM_LANES : 4;
  int *until = malloc(sizeof *until * (size_t)(count + 1));
  if (!until) return false;
  int places = 0;
  for (int i = 0; i < count; i++) {
    ptx_row *row = &l->code->row[sorted[i].row];
    if (row->bytes != bytes) continue;
    int p = 0;
    while (!row->alone && p < places && until[p] >= sorted[i].first) p++;
    if (row->alone) p = places;
    if (p == places) places++;
    until[p] = row->alone ? l->code->length : sorted[i].last;
    row->at = *at + (uint32_t)p * size;
  }
  *at = (*at + (uint32_t)places * size + 63) & ~63u;
  free(until);
  return true;
}

bool ptx_place_registers(ptx_code *code, uint32_t *at) {
  size_t n = (size_t)code->length + 2, rows = (size_t)code->rows + 1;
  lives l = {.code = code,
             .begin = calloc(n, sizeof(int)),
             .place = calloc(n, sizeof(int)),
             .of = calloc(rows + 64, sizeof(life))};
  life *sorted = calloc(rows, sizeof *sorted);
  bool fine = l.begin && l.place && l.of && sorted && find_blocks(&l);
  if (fine) {
    for (size_t i = 0; i < rows + 64; i++) l.of[i] = (life){-1, -1, (int)i};
    for (l.block = 0; l.block < l.blocks; l.block++) {
      for (l.at = l.begin[l.block]; l.at < l.begin[l.block + 1]; l.at++) {
        const em_instruction *in = &code->in[l.at];
        ptx_touches(in, code->writes[l.at], note_first, &l);
        ptx_touches(in, code->writes[l.at], note_life, &l);
        if (code->writes[l.at] == PTX_WRITES_LATE) ptx_touches(in, PTX_WRITES_LATE, note_late, &l);
      }
    }
    find_live(&l);
    int count = 0;
    for (int i = 0; i < code->rows; i++) {
      if (l.of[i].first >= 0 && code->row[i].kind == PTX_REGISTER) sorted[count++] = l.of[i];
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_first);
    static const int widths[] = {0, 4, 8, 2};
    for (int i = 0; fine && i < 4; i++) fine = place_width(&l, sorted, count, widths[i], at);
  }
  free(l.in), free(l.first), free(l.kill), free(l.begin), free(l.place), free(l.of), free(sorted);
  return fine;
}
