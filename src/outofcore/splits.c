#include "outofcore/splits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "outofcore/strassen.h"

static const rdt_strategy_row strategies[] = {
#define X(id, name, a, b, c, lanes, text) {name, {a, b, c}, lanes, text},
#include "outofcore/strategies.def"
#undef X
};

const rdt_strategy_row *rdt_strategy_info(rdt_strategy s) {
  return &strategies[s];
}

rdt_strategy rdt_strategy_find(const char *name) {
  int s = 0;
  while (s < RDT_STRATEGY_COUNT && strcmp(strategies[s].name, name) != 0) s++;
  return (rdt_strategy)s;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

int64_t rdt_blocks_of(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

rdt_part_of rdt_part_of_a(const rdt_task *t, const rdt_splits *s, int64_t i, int64_t part) {
  return (rdt_part_of){i * s->m, least(s->m, t->m - i * s->m), part * s->k, least(s->k, t->k - part * s->k)};
}

rdt_part_of rdt_part_of_b(const rdt_task *t, const rdt_splits *s, int64_t part, int64_t j) {
  return (rdt_part_of){part * s->k, least(s->k, t->k - part * s->k), j * s->n, least(s->n, t->n - j * s->n)};
}

rdt_part_of rdt_part_of_c(const rdt_task *t, const rdt_splits *s, int64_t i, int64_t j) {
  return (rdt_part_of){i * s->m, least(s->m, t->m - i * s->m), j * s->n, least(s->n, t->n - j * s->n)};
}

/* ---- memory ---- */

typedef struct taker {
  char *base[RDT_MEMORIES];
  size_t used[RDT_MEMORIES];
} taker;

static void *take(taker *t, int memory, size_t bytes) {
  void *p = t->base[memory] ? t->base[memory] + t->used[memory] : NULL;
  t->used[memory] += (bytes + 127) & ~(size_t)127;
  return p;
}

static int threads_of_lane(const rdt_task *t, int lanes) {
  return t->threads / lanes > 1 ? t->threads / lanes : 1;
}

/* Lines and their length of A's and B's largest blocks. */
static void lines_of(const rdt_task *t, const rdt_splits *s, int x, int64_t *lines, int64_t *length) {
  const int64_t shape[2] = {x == 0 ? s->m : s->k, x == 0 ? s->k : s->n};
  *lines = shape[t->fortran[x]];
  *length = shape[!t->fortran[x]];
}

static rdt_tensor largest(const rdt_task *t, const rdt_splits *s, int x) {
  const rdt_matrix m = {.dtype = x < 2 ? t->in : t->out, .fortran = x < 2 && t->fortran[x]};
  const rdt_part_of part = {0, x == 1 ? s->k : s->m, 0, x == 0 ? s->k : s->n};
  return rdt_backend_view(t->on, &m, &part, NULL);
}

static void widen(size_t *most, size_t bytes) {
  if (bytes > *most) *most = bytes;
}

/* Of every block: a kernel may divide one at an edge otherwise, and need more for it than for a whole one, and more for
 * the first of a sum than for those that are added. Of a device it is what its library has, whatever the block. */
static rdt_status workspace_of(const rdt_task *t, const rdt_splits *s, int threads, rdt_backend_space *out,
                               rdt_reason *why) {
  enum { M = 1, N = 2, K = 4, ADD = 8, ALL = 16 };
  const int64_t edge[3] = {t->m % s->m, t->n % s->n, t->k % s->k};
  *out = (rdt_backend_space){0};
  for (int i = 0; i < ALL; i++) {
    const bool there = (!(i & M) || edge[0]) && (!(i & N) || edge[1]) && (!(i & K) || edge[2]);
    const bool whole = !(i & (M | N | K)), adds = !(i & ADD);
    if (!there || (adds && s->k >= t->k) || (!adds && s->k < t->k && t->on->far) || (!whole && t->on->far)) continue;
    const rdt_splits one = {s->strategy, i & M ? edge[0] : s->m, i & N ? edge[1] : s->n, i & K ? edge[2] : s->k};
    const rdt_block_product p = {.a = largest(t, &one, 0),
                                 .b = largest(t, &one, 1),
                                 .c = largest(t, &one, 2),
                                 .add = adds,
                                 .strassen = t->strassen};
    rdt_backend_space x;
    RDT_TRY(t->on->workspace(t->dev, t->ctx, &p, t->protected, threads, &x, why));
    widen(&out->lane, x.lane), widen(&out->library, x.library), widen(&out->loaded, x.loaded);
  }
  return RDT_OK;
}

enum {
  BESIDE = 1 << 18, /* stacks of two threads as far as they are used, states of kernels, lines of the list of sums */
  LINE = 16         /* columns of which a pass over a matrix gives a thread eight at least */
};

/* Places that a strategy uses: no more than there are blocks. */
static int slots_for(const rdt_splits *s, const int64_t count[3], int x) {
  const int64_t blocks = count[x == 1 ? 2 : 0] * count[x == 0 ? 2 : 1];
  return (int)least(blocks, strategies[s->strategy].slots[x]);
}

static int slots_of(const rdt_task *t, const rdt_splits *s, int x) {
  const int64_t count[3] = {rdt_blocks_of(t->m, s->m), rdt_blocks_of(t->n, s->n), rdt_blocks_of(t->k, s->k)};
  return slots_for(s, count, x);
}

/* What checks keep. Sums of operands are the backend's own. */
static void arrange_checks(const rdt_task *t, const rdt_splits *s, taker *at, rdt_arrangement *out) {
  const int own = t->on->far ? RDT_MEMORY_BACKEND : RDT_MEMORY_HOST;
  const size_t vectors = (size_t)rdt_block_doubles(s->m, s->n) * sizeof(double);
  const int64_t longest = s->m > s->n ? s->m : s->n, whole[2] = {s->m, s->n};
  for (int x = 0; x < 2; x++)
    for (int i = 0; i < slots_of(t, s, x); i++) out->sums[x][i] = take(at, own, 4 * (size_t)s->k * sizeof(double));
  for (int i = 0; i < slots_of(t, s, 2); i++) {
    out->block[i] = take(at, RDT_MEMORY_HOST, vectors);
    out->line[i] = take(at, RDT_MEMORY_HOST, (size_t)longest * sizeof(double));
    if (t->on->far) out->far_block[i] = take(at, own, vectors);
  }
  for (int axis = 0; axis < 2; axis++)
    for (int last = 0; last < 2; last++) {
      out->signs[axis][last] = take(at, RDT_MEMORY_HOST, (size_t)whole[axis] * sizeof(double));
      if (t->on->far) out->far_signs[axis][last] = take(at, own, (size_t)whole[axis] * sizeof(double));
    }
}

rdt_status rdt_arrange(const rdt_task *t, const rdt_splits *s, char *const base[RDT_MEMORIES], rdt_arrangement *out,
                       rdt_reason *why) {
  const rdt_strategy_row *row = &strategies[s->strategy];
  const int threads = threads_of_lane(t, row->lanes);
  taker at = {.base = {base ? base[0] : NULL, base ? base[1] : NULL}};
  rdt_backend_space *space = &out->room.space;
  *out = (rdt_arrangement){.beside = t->on->far ? 0 : BESIDE};
  RDT_TRY(workspace_of(t, s, threads, space, why));
  for (int x = 0; x < 3; x++) {
    int64_t lines = s->m, length = s->n;
    if (x < 2) lines_of(t, s, x, &lines, &length);
    const size_t bytes = rdt_backend_bytes(t->on, lines, length, x < 2 ? t->in : t->out);
    for (int i = 0; i < slots_of(t, s, x); i++) out->slot[x][i] = take(&at, RDT_MEMORY_BACKEND, bytes);
  }
  for (int i = 0; i < row->lanes; i++) out->room.workspace[i] = take(&at, RDT_MEMORY_BACKEND, space->lane);
  if (t->strassen) {
    const rdt_block_product p = {.a = largest(t, s, 0), .b = largest(t, s, 1), .c = largest(t, s, 2)};
    size_t halves;
    rdt_strassen_halves(&p, NULL, &halves);
    for (int i = 0; i < row->lanes; i++) out->room.halves[i] = take(&at, RDT_MEMORY_BACKEND, halves);
  }
  out->room.loaded = take(&at, RDT_MEMORY_BACKEND, space->loaded);
  if (t->protected) arrange_checks(t, s, &at, out);
  const int64_t blocks = rdt_blocks_of(t->m, s->m) * rdt_blocks_of(t->n, s->n);
  out->done = take(&at, RDT_MEMORY_HOST, (size_t)(blocks + 7) / 8);
  out->buffer = take(&at, RDT_MEMORY_HOST, RDT_ARRANGED_BUFFER);
  memcpy(out->bytes, at.used, sizeof out->bytes);
  /* A pass of several threads over C has each of them sum the columns for itself. */
  const int64_t longest = s->n > 8 * LINE * threads ? s->n : 8 * LINE * threads;
  if (t->protected && threads > 1 && !t->on->far)
    out->beside += (size_t)(row->lanes * 3 * 2 * threads) * (size_t)longest * sizeof(double);
  return RDT_OK;
}

/* Of a device's memory a 64th is left to what libraries load when they are first used. */
size_t rdt_arranged_bytes(const rdt_task *t, const rdt_arrangement *a) {
  const size_t bytes = a->bytes[RDT_MEMORY_BACKEND];
  return bytes + (t->on->far ? bytes / 64 : a->bytes[RDT_MEMORY_HOST]);
}

/* ---- order ---- */

void rdt_walk_begin(rdt_walk *w, const rdt_task *t, const rdt_splits *s, const unsigned char *done) {
  *w = (rdt_walk){.s = s,
                  .done = done,
                  .count = {rdt_blocks_of(t->m, s->m), rdt_blocks_of(t->n, s->n), rdt_blocks_of(t->k, s->k)},
                  .down = rdt_walks_down(t, s)};
  for (int x = 0; x < 2; x++)
    for (int i = 0; i < RDT_MOST_SLOTS; i++) w->slot[x][i].row = w->slot[x][i].col = -1;
}

bool rdt_block_is_done(const unsigned char *done, int64_t block) {
  return done && (done[block / 8] >> block % 8 & 1);
}

void rdt_block_mark(unsigned char *done, int64_t block, bool is_done) {
  const unsigned char bit = (unsigned char)(1u << block % 8);
  if (is_done)
    done[block / 8] |= bit;
  else
    done[block / 8] &= (unsigned char)~bit;
}

/* The next blocks of C, side by side where there is more than one lane: always the same ones, in the same order of
 * parts, whatever is done already, so that the bits of a block do not depend on it. What was loaded last comes first:
 * it is there already. */
static bool next_group(rdt_walk *w) {
  const int64_t lanes = w->down ? 1 : strategies[w->s->strategy].lanes;
  const int64_t across = w->down ? w->count[0] : w->count[1], lines = w->down ? w->count[1] : w->count[0];
  const int64_t groups = rdt_blocks_of(across, lanes);
  w->lanes = w->lane = 0;
  w->part = 0;
  for (; w->at < lines * groups && w->lanes == 0; w->at++) {
    const int64_t line = w->at / groups, q = w->at % groups, first = (line % 2 ? groups - 1 - q : q) * lanes;
    for (int64_t i = first; i < first + lanes && i < across; i++) {
      const int64_t block = w->down ? i * lines + line : line * across + i;
      if (!rdt_block_is_done(w->done, block)) w->group[w->lanes++] = block;
    }
    w->backwards = w->at % 2;
  }
  w->blocks += w->lanes;
  return w->lanes > 0;
}

/* The slot of operand x that has this block of it, or the one that was not used last. */
static void place(rdt_walk *w, int x, int64_t row, int64_t col, rdt_step *step) {
  const int slots = slots_for(w->s, w->count, x);
  int i = 0;
  while (i < slots && (w->slot[x][i].row != row || w->slot[x][i].col != col)) i++;
  step->load[x] = i == slots;
  if (i == slots) i = (w->newest[x] + 1) % slots;
  step->after[x] = w->slot[x][i].user;
  w->slot[x][i].row = row;
  w->slot[x][i].col = col;
  w->slot[x][i].user = w->steps;
  w->newest[x] = i;
  step->slot[x] = i;
}

bool rdt_walk_next(rdt_walk *w, rdt_step *step) {
  if (w->lane >= w->lanes && w->lanes > 0) w->lane = 0, w->part++;
  if ((w->lanes == 0 || w->part >= w->count[2]) && !next_group(w)) return false;
  const int64_t block = w->group[w->lane], i = block / w->count[1], j = block % w->count[1];
  const int64_t t = w->backwards ? w->count[2] - 1 - w->part : w->part;
  *step = (rdt_step){.i = i,
                     .j = j,
                     .t = t,
                     .part = w->part,
                     .backwards = w->backwards,
                     .first = w->part == 0,
                     .last = w->part + 1 == w->count[2],
                     .again = w->lane + 1 < w->lanes,
                     .lane = w->lane,
                     .ordinal = w->blocks - w->lanes + w->lane};
  w->steps++;
  place(w, 0, i, t, step);
  place(w, 1, t, j, step);
  step->slot[2] = (int)(step->ordinal % strategies[w->s->strategy].slots[2]);
  w->lane++;
  return true;
}

/* ---- time ---- */

static double elements(const rdt_part_of *p) {
  return (double)p->rows * (double)p->cols;
}

typedef struct clocks { /* when each is free */
  double taken;         /* from the products, by loads and stores */
  double idle;          /* while a place was waited for: a far backend loads the next block that stays then */
  double loader, saver, product, slot[2][RDT_MOST_SLOTS], block[RDT_MOST_SLOTS];
  rdt_timeline *spans;
} clocks;

/* How much longer a block of an operand takes to read than its bytes say, so many of them a second: lines of the file
 * are short where it is narrow, and the begin of one takes its time however fast the bytes come. */
static double lines_of_file(const rdt_task *t, int x, int64_t rows, int64_t cols, double load) {
  const bool whole = t->fortran[x] ? rows == (x == 0 ? t->m : t->k) : cols == (x == 0 ? t->k : t->n);
  const double line = (double)(t->fortran[x] ? rows : cols) * (double)rdt_dtype_size(t->in);
  return whole ? 1.0 : 1.0 + t->on->line / line * (load / t->on->usual(t->in).load);
}

/* What a product takes of its tiles that lie beyond its block. */
static double tiles(const rdt_task *t, int64_t m, int64_t n) {
  const double tile = (double)t->on->tile, rows = (double)m, cols = (double)n;
  return ceil(rows / tile) * tile / rows * (ceil(cols / tile) * tile / cols);
}

static double load_step(const rdt_task *t, const rdt_splits *s, const rdt_walk *w, const rdt_step *step,
                        const rdt_rates *r, clocks *c, rdt_forecast *f) {
  const rdt_part_of part[2] = {rdt_part_of_a(t, s, step->i, step->t), rdt_part_of_b(t, s, step->t, step->j)};
  double ready = 0.0;
  for (int x = 0; x < 2; x++) {
    if (!step->load[x]) continue;
    const double bytes = elements(&part[x]) * (double)rdt_dtype_size(t->in);
    const double begin = fmax(c->loader, c->slot[x][step->slot[x]]);
    const double seconds = bytes * lines_of_file(t, x, part[x].rows, part[x].cols, r->load) / r->load;
    const bool stays = x == rdt_walk_stays(w);
    const double before = stays ? fmin(c->idle, seconds) : 0.0;
    c->idle = stays ? 0.0 : c->idle + (t->on->far ? begin - c->loader : 0.0);
    c->loader = begin + seconds - before;
    const rdt_span span = {.kind = x == 0 ? RDT_SPAN_LOAD_A : RDT_SPAN_LOAD_B,
                           .row = x == 0 ? step->i : step->t,
                           .col = x == 0 ? step->t : step->j,
                           .begin = begin,
                           .end = c->loader,
                           .bytes = bytes};
    rdt_timeline_add(c->spans, &span);
    if (t->on->copies && strategies[s->strategy].slots[x] > 1) c->taken += seconds / t->threads;
    f->loading += seconds;
    f->load_bytes += bytes;
    ready = c->loader;
  }
  return ready;
}

static double flops_of(const rdt_task *t, const rdt_splits *s, const rdt_step *step) {
  const rdt_part_of a = rdt_part_of_a(t, s, step->i, step->t), b = rdt_part_of_b(t, s, step->t, step->j);
  return 2.0 * elements(&a) * (double)b.cols;
}

static double multiply_seconds(const rdt_task *t, const rdt_splits *s, const rdt_step *step, const rdt_rates *r,
                               rdt_forecast *f) {
  const rdt_part_of a = rdt_part_of_a(t, s, step->i, step->t), b = rdt_part_of_b(t, s, step->t, step->j);
  const double in = (double)rdt_dtype_size(t->in), out = (double)rdt_dtype_size(t->out);
  const double flops = flops_of(t, s, step);
  const double passed = (elements(&a) + elements(&b)) * in + (double)a.rows * (double)b.cols * out;
  const double seconds = flops * tiles(t, a.rows, b.cols) / r->multiply + (t->protected ? passed / r->check : 0.0);
  f->multiplying += seconds;
  f->flops += flops;
  return seconds;
}

static void store_block(const rdt_task *t, const rdt_splits *s, const rdt_step *step, const rdt_rates *r, clocks *c,
                        rdt_forecast *f) {
  const rdt_part_of part = rdt_part_of_c(t, s, step->i, step->j);
  const double bytes = elements(&part) * (double)rdt_dtype_size(t->out);
  const double begin = fmax(c->saver, c->product);
  c->saver = begin + bytes / r->store;
  const rdt_span span = {
      .kind = RDT_SPAN_STORE, .row = step->i, .col = step->j, .begin = begin, .end = c->saver, .bytes = bytes};
  rdt_timeline_add(c->spans, &span);
  if (t->on->copies && strategies[s->strategy].slots[2] > 1) c->taken += bytes / r->store / t->threads;
  c->block[step->slot[2]] = c->saver;
  f->storing += bytes / r->store;
  f->store_bytes += bytes;
  f->blocks++;
}

enum { FORESEEN = 1 << 22 }; /* steps that are followed one by one; the others take as long on average */

static double steps_of(const rdt_walk *w) {
  int64_t blocks = w->count[0] * w->count[1];
  if (w->done)
    for (int64_t i = w->count[0] * w->count[1] - 1; i >= 0; i--) blocks -= rdt_block_is_done(w->done, i);
  return (double)blocks * (double)w->count[2];
}

/* Of so many, as of those that were followed. */
static double extend(double steps, double seconds, rdt_forecast *f) {
  const double by = steps / (double)f->steps;
  double *const sums[] = {&f->loading, &f->multiplying, &f->storing, &f->load_bytes, &f->store_bytes, &f->flops};
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sums[i] *= by;
  f->blocks = (int64_t)((double)f->blocks * by);
  f->steps = (int64_t)steps;
  return seconds * by;
}

static double time_line(const rdt_task *t, const rdt_splits *s, const unsigned char *done, const rdt_rates *r,
                        bool apart, rdt_forecast *f, rdt_timeline *spans) {
  rdt_walk w;
  rdt_step step[RDT_MOST_SLOTS];
  clocks c = {.spans = spans};
  rdt_walk_begin(&w, t, s, done);
  while (f->steps < FORESEEN && rdt_walk_next(&w, &step[0])) {
    double ready = c.product, seconds = 0.0, longest = 0.0;
    int n = 1;
    while (step[n - 1].again && rdt_walk_next(&w, &step[n])) n++;
    for (int i = 0; i < n; i++) {
      ready = fmax(ready, load_step(t, s, &w, &step[i], r, &c, f));
      if (step[i].first) ready = fmax(ready, c.block[step[i].slot[2]]);
      const double own = multiply_seconds(t, s, &step[i], r, f);
      seconds += own;
      longest = fmax(longest, own);
      f->steps++;
    }
    c.product = ready + (apart ? longest : seconds) + c.taken;
    c.taken = 0.0;
    for (int i = 0; i < n; i++) {
      const rdt_span span = {.kind = RDT_SPAN_PRODUCT,
                             .lane = i,
                             .row = step[i].i,
                             .col = step[i].j,
                             .begin = ready,
                             .end = c.product,
                             .flops = flops_of(t, s, &step[i])};
      rdt_timeline_add(spans, &span);
      for (int x = 0; x < 2; x++) c.slot[x][step[i].slot[x]] = c.product;
      if (step[i].last) store_block(t, s, &step[i], r, &c, f);
    }
  }
  const double seconds = fmax(c.product, c.saver);
  return f->steps < FORESEEN ? seconds : extend(steps_of(&w), seconds, f);
}

void rdt_forecast_of(const rdt_task *t, const rdt_splits *s, const unsigned char *done, const rdt_rates *r,
                     rdt_forecast *f, rdt_timeline *spans, rdt_timeline *best) {
  rdt_forecast unused = {0};
  *f = (rdt_forecast){0};
  f->seconds = time_line(t, s, done, r, false, f, spans);
  f->best = strategies[s->strategy].lanes > 1 ? time_line(t, s, done, r, true, &unused, best) : f->seconds;
}

/* ---- choice ---- */

static int64_t smallest_block(const rdt_task *t) {
  return 2 * t->on->unit;
}

static int64_t cut(const rdt_task *t, int64_t length, int64_t parts) {
  const int64_t unit = t->on->unit, block = (rdt_blocks_of(length, parts) + unit - 1) / unit * unit;
  return least(length, block);
}

/* Of a plan; SIZE_MAX where there is none. */
static size_t bytes_of(const rdt_task *t, const rdt_splits *s) {
  rdt_arrangement store;
  rdt_reason why;
  return rdt_arrange(t, s, NULL, &store, &why) == RDT_OK ? rdt_arranged_bytes(t, &store) + store.beside : SIZE_MAX;
}

static bool fits(const rdt_task *t, const rdt_splits *s, size_t limit) {
  return bytes_of(t, s) <= limit;
}

/* What a step costs beside its work: threads meet, files are asked. */
static const double STEP = 1e-4;
/* Bytes that are loaded, as many as long lines would take as long to read: by rows of blocks of C, or by columns. */
static double loads(const rdt_task *t, const rdt_splits *s, bool down) {
  const double i = (double)rdt_blocks_of(t->m, s->m), j = (double)rdt_blocks_of(t->n, s->n);
  const double in = (double)rdt_dtype_size(t->in), lanes = fmin(strategies[s->strategy].lanes, j);
  const double load = t->on->usual(t->in).load;
  const double a = (double)t->m * (double)t->k * in * lines_of_file(t, 0, s->m, s->k, load);
  const double b = (double)t->k * (double)t->n * in * lines_of_file(t, 1, s->k, s->n, load);
  const bool parts = s->k < t->k;
  if (down) return a * (i > 1.0 ? j : 1.0) + b;
  return a * (parts ? j / lanes : 1.0) + b * (j > 1.0 || parts ? i : 1.0);
}

bool rdt_walks_down(const rdt_task *t, const rdt_splits *s) {
  if (s->k < t->k || strategies[s->strategy].lanes > 1 || !t->on || !t->on->far) return false;
  return loads(t, s, true) < loads(t, s, false);
}

/* As the time line would have it, were everything spread evenly. */
static double rough(const rdt_task *t, const rdt_splits *s, const rdt_rates *r) {
  const rdt_strategy_row *row = &strategies[s->strategy];
  const double i = (double)rdt_blocks_of(t->m, s->m), j = (double)rdt_blocks_of(t->n, s->n);
  const double parts = (double)rdt_blocks_of(t->k, s->k), in = (double)rdt_dtype_size(t->in);
  const double a = (double)t->m * (double)t->k * in, b = (double)t->k * (double)t->n * in;
  const double c = (double)t->m * (double)t->n * (double)rdt_dtype_size(t->out);
  const double load = loads(t, s, rdt_walks_down(t, s)) / r->load;
  const double passes = t->protected ? (a * j + b * i + c * parts) / r->check : 0.0;
  const double store = c / r->store, copies = t->on->copies ? (load + store) / t->threads : 0.0;
  const double added = c * (parts - 1.0) / r->check; /* the block of C is read and written once more */
  const double work = 2.0 * (double)t->m * (double)t->n * (double)t->k * tiles(t, s->m, s->n) / r->multiply + passes +
                      added + STEP * i * j * parts;
  if (row->slots[0] == 1) return load + work + store; /* as loads wait for products */
  /* Where copies take nothing from the products, what is left is what cannot overlap: the first load, the last store.
   */
  const double ends = t->on->copies ? 0.0
                                    : (double)s->k * ((double)s->m / RDT_FIRST_PARTS + (double)s->n) * in / r->load +
                                          (row->slots[2] > 1 ? store / (i * j) : 0.0);
  return ends + (row->slots[2] == 1 ? fmax(load, work + load * copies / (load + store)) + store
                                    : fmax(fmax(load, work + copies), store));
}

static int64_t more(int64_t parts) {
  return parts < 4 ? parts + 1 : parts + parts / 3;
}

/* The fewest columns of blocks that fit, given the others. */
static bool widest(const rdt_task *t, rdt_splits *s, size_t limit) {
  int64_t low = 1, high = rdt_blocks_of(t->n, least(smallest_block(t), t->n));
  s->n = cut(t, t->n, high);
  if (!fits(t, s, limit)) return false;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    s->n = cut(t, t->n, middle);
    if (fits(t, s, limit))
      high = middle;
    else
      low = middle + 1;
  }
  s->n = cut(t, t->n, low);
  return true;
}

static rdt_splits smallest_of(const rdt_task *t, rdt_strategy strategy) {
  const int64_t block = smallest_block(t);
  return (rdt_splits){strategy, least(t->m, block), least(t->n, block), least(t->k, block)};
}

/* The plan that takes the least: not always that of the smallest blocks, of which there are many, each with a bit that
 * says whether it is done; and an operand that is one block has one place only. */
static rdt_splits least_of(const rdt_task *t, rdt_strategy strategy) {
  const int64_t block = smallest_block(t);
  rdt_splits least_yet = smallest_of(t, strategy);
  size_t bytes = bytes_of(t, &least_yet);
  const int64_t reduction[2] = {least_yet.k, t->k};
  for (int i = 0; i < 2; i++)
    for (int64_t down = 1; (down - 1) * block < t->m; down = more(down))
      for (int64_t across = 1; (across - 1) * block < t->n; across = more(across)) {
        const rdt_splits s = {strategy, cut(t, t->m, down), cut(t, t->n, across), reduction[i]};
        const size_t x = bytes_of(t, &s);
        if (x < bytes) bytes = x, least_yet = s;
      }
  return least_yet;
}

/* Of several devices, one that has more blocks than its share keeps the others waiting. */
static double uneven(const rdt_task *t, const rdt_splits *s) {
  const int64_t blocks = rdt_blocks_of(t->m, s->m) * rdt_blocks_of(t->n, s->n), n = t->devices > 1 ? t->devices : 1;
  return (double)(rdt_blocks_of(blocks, n) * n) / (double)blocks;
}

static bool best_of(const rdt_task *t, rdt_strategy strategy, size_t limit, rdt_splits *out) {
  const rdt_rates usual = t->on->usual(t->in);
  const int64_t block = smallest_block(t);
  double quickest = INFINITY;
  *out = smallest_of(t, strategy);
  if (!fits(t, out, limit)) *out = least_of(t, strategy);
  if (!fits(t, out, limit)) return false;
  for (int64_t parts = 1; (parts - 1) * block < t->k; parts = more(parts))
    for (int64_t down = 1; (down - 1) * block < t->m; down = more(down)) {
      rdt_splits s = {strategy, cut(t, t->m, down), t->n, cut(t, t->k, parts)};
      if (!widest(t, &s, limit)) continue;
      const double seconds = rough(t, &s, &usual) * uneven(t, &s);
      if (!(seconds < quickest)) continue;
      quickest = seconds;
      *out = s;
    }
  return true;
}

/* The least limit, and whose plan that is: of a strategy, or of all of them. */
static size_t least_limit(const rdt_task *t, rdt_strategy strategy, rdt_strategy *whose) {
  size_t bytes = SIZE_MAX;
  for (int i = 0; i < RDT_STRATEGY_COUNT; i++) {
    if (strategy != RDT_STRATEGY_AUTO && strategy != (rdt_strategy)i) continue;
    const rdt_splits s = least_of(t, (rdt_strategy)i);
    const size_t x = bytes_of(t, &s);
    if (x < bytes) bytes = x, *whose = s.strategy;
  }
  return bytes;
}

static rdt_status too_little(const rdt_task *t, rdt_strategy strategy, size_t limit, rdt_reason *why) {
  rdt_strategy s = RDT_STRATEGY_SIMPLE, unused = s;
  rdt_task alone = *t;
  char threads[96] = "";
  const size_t bytes = least_limit(t, strategy, &s);
  const rdt_splits any = smallest_of(t, s);
  rdt_arrangement store;
  if (bytes == SIZE_MAX) RDT_TRY(rdt_arrange(t, &any, NULL, &store, why)); /* it says why there is no plan */
  alone.threads = 1;
  const size_t of_one = t->threads > 1 && !t->on->far ? least_limit(&alone, strategy, &unused) : bytes;
  if (of_one < bytes / 2) /* then it is they who take the memory */
    snprintf(threads, sizeof threads, " with %d threads, %zu with --threads 1", t->threads, of_one);
  return rdt_fail(why, RDT_ERR_NOMEM, "--mem-limit %zu is too little: the smallest plan (%s) takes %zu bytes%s", limit,
                  strategies[s].name, bytes, threads);
}

rdt_status rdt_splits_choose(const rdt_task *task, rdt_strategy strategy, size_t limit, const rdt_rates *r,
                             rdt_splits *out, rdt_reason *why) {
  rdt_task protected = *task; /* unprotected, a result has the same blocks, and the same bits */
  const rdt_task *t = &protected;
  double quickest = INFINITY;
  protected.protected = true;
  for (int i = 0; i < RDT_STRATEGY_COUNT; i++) {
    rdt_splits s;
    rdt_forecast f;
    if (strategy != RDT_STRATEGY_AUTO && strategy != (rdt_strategy)i) continue;
    if (!best_of(t, (rdt_strategy)i, limit, &s)) continue;
    rdt_forecast_of(t, &s, NULL, r, &f, NULL, NULL);
    if (!(f.seconds < quickest)) continue;
    quickest = f.seconds;
    *out = s;
  }
  if (quickest < INFINITY) return RDT_OK;
  return too_little(t, strategy, limit, why);
}
