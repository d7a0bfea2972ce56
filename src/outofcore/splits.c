#include "outofcore/splits.h"

#include <math.h>
#include <string.h>

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

static void *take(char **base, size_t *used, size_t bytes) {
  void *p = *base ? *base + *used : NULL;
  *used += (bytes + 63) & ~(size_t)63;
  return p;
}

static int threads_of_lane(const rdt_task *t, int lanes) {
  return t->threads / lanes > 1 ? t->threads / lanes : 1;
}

static rdt_status workspace_of(const rdt_task *t, const rdt_splits *s, int threads, size_t *bytes, rdt_reason *why) {
  const int64_t ld[2] = {t->fortran[0] ? s->m : s->k, t->fortran[1] ? s->k : s->n};
  const rdt_block_product p = {
      .a = rdt_tensor_matrix(NULL, t->in, t->fortran[0] ? s->k : s->m, ld[0], ld[0], t->fortran[0]),
      .b = rdt_tensor_matrix(NULL, t->in, t->fortran[1] ? s->n : s->k, ld[1], ld[1], t->fortran[1]),
      .c = rdt_tensor_matrix(NULL, t->out, s->m, s->n, s->n, 0),
      .add = s->k < t->k};
  return t->on->workspace(t->ctx, &p, threads, bytes, why);
}

enum {
  BESIDE = 1 << 18, /* stacks of two threads as far as they are used, states of kernels, lines of the list of sums */
  LINE = 16         /* columns of which a pass over a matrix gives a thread eight at least */
};

rdt_status rdt_arrange(const rdt_task *t, const rdt_splits *s, char *base, rdt_arrangement *out, rdt_reason *why) {
  const rdt_strategy_row *row = &strategies[s->strategy];
  const size_t in = rdt_dtype_size(t->in), result = rdt_dtype_size(t->out);
  const size_t bytes[3] = {(size_t)s->m * (size_t)s->k * in, (size_t)s->k * (size_t)s->n * in,
                           (size_t)s->m * (size_t)s->n * result};
  const int threads = threads_of_lane(t, row->lanes);
  size_t used = 0, workspace;
  *out = (rdt_arrangement){.beside = BESIDE};
  RDT_TRY(workspace_of(t, s, threads, &workspace, why));
  for (int x = 0; x < 3; x++)
    for (int i = 0; i < row->slots[x]; i++) out->slot[x][i] = take(&base, &used, bytes[x]);
  for (int i = 0; i < row->lanes; i++) out->workspace[i] = take(&base, &used, workspace);
  for (int x = 0; t->protected && x < 2; x++)
    for (int i = 0; i < row->slots[x]; i++) out->sums[x][i] = take(&base, &used, 4 * (size_t)s->k * sizeof(double));
  for (int i = 0; t->protected && i < row->slots[2]; i++)
    out->block[i] = take(&base, &used, (size_t)rdt_block_doubles(s->m, s->n) * sizeof(double));
  for (int last = 0; t->protected && last < 2; last++) {
    out->signs[0][last] = take(&base, &used, (size_t)s->m * sizeof(double));
    out->signs[1][last] = take(&base, &used, (size_t)s->n * sizeof(double));
  }
  const int64_t blocks = rdt_blocks_of(t->m, s->m) * rdt_blocks_of(t->n, s->n);
  out->done = take(&base, &used, (size_t)(blocks + 7) / 8);
  out->buffer = take(&base, &used, RDT_ARRANGED_BUFFER);
  out->bytes = used;
  /* A pass of several threads over C has each of them sum the columns for itself. */
  const int64_t longest = s->n > 8 * LINE * threads ? s->n : 8 * LINE * threads;
  if (t->protected && threads > 1)
    out->beside += (size_t)(row->lanes * 3 * 2 * threads) * (size_t)longest * sizeof(double);
  return RDT_OK;
}

/* ---- order ---- */

void rdt_walk_begin(rdt_walk *w, const rdt_task *t, const rdt_splits *s, const unsigned char *done) {
  *w = (rdt_walk){
      .s = s, .done = done, .count = {rdt_blocks_of(t->m, s->m), rdt_blocks_of(t->n, s->n), rdt_blocks_of(t->k, s->k)}};
  for (int x = 0; x < 2; x++)
    for (int i = 0; i < RDT_MOST_SLOTS; i++) w->slot[x][i].row = w->slot[x][i].col = -1;
}

static bool is_done(const rdt_walk *w, int64_t block) {
  return w->done && (w->done[block / 8] >> block % 8 & 1);
}

/* The next blocks of C, side by side where there is more than one lane: always the same ones, in the same order of
 * parts, whatever is done already, so that the bits of a block do not depend on it. What was loaded last comes first:
 * it is there already. */
static bool next_group(rdt_walk *w) {
  const int64_t lanes = strategies[w->s->strategy].lanes, across = w->count[1], all = w->count[0] * across;
  w->lanes = w->lane = 0;
  w->part = 0;
  while (w->at < all && w->lanes == 0) {
    const int64_t j = w->at % across, n = least(lanes - j % lanes, across - j);
    const int64_t number = w->at / across * rdt_blocks_of(across, lanes) + j / lanes;
    for (int64_t i = 0; i < n; i++, w->at++)
      if (!is_done(w, w->at)) w->group[w->lanes++] = w->at;
    w->backwards = number % 2;
  }
  w->blocks += w->lanes;
  return w->lanes > 0;
}

/* The slot of operand x that has this block of it, or the one that was not used last. */
static void place(rdt_walk *w, int x, int64_t row, int64_t col, rdt_step *step) {
  const int slots = strategies[w->s->strategy].slots[x];
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
  double loader, saver, product, slot[2][RDT_MOST_SLOTS], block[RDT_MOST_SLOTS];
} clocks;

static double load_step(const rdt_task *t, const rdt_splits *s, const rdt_step *step, const rdt_rates *r, clocks *c,
                        rdt_forecast *f) {
  const rdt_part_of part[2] = {rdt_part_of_a(t, s, step->i, step->t), rdt_part_of_b(t, s, step->t, step->j)};
  double ready = 0.0;
  for (int x = 0; x < 2; x++) {
    if (!step->load[x]) continue;
    const double bytes = elements(&part[x]) * (double)rdt_dtype_size(t->in);
    c->loader = fmax(c->loader, c->slot[x][step->slot[x]]) + bytes / r->load;
    if (t->on->copies && strategies[s->strategy].slots[x] > 1) c->taken += bytes / r->load / t->threads;
    f->loading += bytes / r->load;
    f->load_bytes += bytes;
    ready = c->loader;
  }
  return ready;
}

static double multiply_seconds(const rdt_task *t, const rdt_splits *s, const rdt_step *step, const rdt_rates *r,
                               rdt_forecast *f) {
  const rdt_part_of a = rdt_part_of_a(t, s, step->i, step->t), b = rdt_part_of_b(t, s, step->t, step->j);
  const double in = (double)rdt_dtype_size(t->in), out = (double)rdt_dtype_size(t->out);
  const double flops = 2.0 * elements(&a) * (double)b.cols;
  const double passed = (elements(&a) + elements(&b)) * in + (double)a.rows * (double)b.cols * out;
  const double seconds = flops / r->multiply + (t->protected ? passed / r->check : 0.0);
  f->multiplying += seconds;
  f->flops += flops;
  return seconds;
}

static void store_block(const rdt_task *t, const rdt_splits *s, const rdt_step *step, const rdt_rates *r, clocks *c,
                        rdt_forecast *f) {
  const rdt_part_of part = rdt_part_of_c(t, s, step->i, step->j);
  const double bytes = elements(&part) * (double)rdt_dtype_size(t->out);
  c->saver = fmax(c->saver, c->product) + bytes / r->store;
  if (t->on->copies && strategies[s->strategy].slots[2] > 1) c->taken += bytes / r->store / t->threads;
  c->block[step->slot[2]] = c->saver;
  f->storing += bytes / r->store;
  f->store_bytes += bytes;
  f->blocks++;
}

static double time_line(const rdt_task *t, const rdt_splits *s, const unsigned char *done, const rdt_rates *r,
                        bool apart, rdt_forecast *f) {
  rdt_walk w;
  rdt_step step[RDT_MOST_SLOTS];
  clocks c = {0};
  rdt_walk_begin(&w, t, s, done);
  while (rdt_walk_next(&w, &step[0])) {
    double ready = c.product, seconds = 0.0, longest = 0.0;
    int n = 1;
    while (step[n - 1].again && rdt_walk_next(&w, &step[n])) n++;
    for (int i = 0; i < n; i++) {
      ready = fmax(ready, load_step(t, s, &step[i], r, &c, f));
      if (step[i].first) ready = fmax(ready, c.block[step[i].slot[2]]);
      const double own = multiply_seconds(t, s, &step[i], r, f);
      seconds += own;
      longest = fmax(longest, own);
      f->steps++;
    }
    c.product = ready + (apart ? longest : seconds) + c.taken;
    c.taken = 0.0;
    for (int i = 0; i < n; i++) {
      for (int x = 0; x < 2; x++) c.slot[x][step[i].slot[x]] = c.product;
      if (step[i].last) store_block(t, s, &step[i], r, &c, f);
    }
  }
  return fmax(c.product, c.saver);
}

void rdt_forecast_of(const rdt_task *t, const rdt_splits *s, const unsigned char *done, const rdt_rates *r,
                     rdt_forecast *f) {
  rdt_forecast unused = {0};
  *f = (rdt_forecast){0};
  f->seconds = time_line(t, s, done, r, false, f);
  f->best = strategies[s->strategy].lanes > 1 ? time_line(t, s, done, r, true, &unused) : f->seconds;
}

/* ---- choice ---- */

enum { UNIT = 16 /* blocks are multiples of this, or all there is */, SMALLEST = 32 };

static int64_t cut(int64_t length, int64_t parts) {
  const int64_t block = (rdt_blocks_of(length, parts) + UNIT - 1) / UNIT * UNIT;
  return least(length, block);
}

static bool fits(const rdt_task *t, const rdt_splits *s, size_t limit) {
  rdt_arrangement store;
  rdt_reason why;
  return rdt_arrange(t, s, NULL, &store, &why) == RDT_OK && store.bytes + store.beside <= limit;
}

/* What a step costs beside its work: threads meet, files are asked. */
static const double STEP = 1e-4;
/* Of a usual machine: blocks are chosen by these alone, so that the bits of a result, which depend on how the reduction
 * is cut, do not depend on what was measured when. */
static const rdt_rates USUAL = {.load = 1e9, .store = 1e9, .multiply = 1e11, .check = 1e10};

/* As the time line would have it, were everything spread evenly. */
static double rough(const rdt_task *t, const rdt_splits *s, const rdt_rates *r) {
  const rdt_strategy_row *row = &strategies[s->strategy];
  const double i = (double)rdt_blocks_of(t->m, s->m), j = (double)rdt_blocks_of(t->n, s->n);
  const double parts = (double)rdt_blocks_of(t->k, s->k), in = (double)rdt_dtype_size(t->in);
  const double a = (double)t->m * (double)t->k * in, b = (double)t->k * (double)t->n * in;
  const double c = (double)t->m * (double)t->n * (double)rdt_dtype_size(t->out);
  const double lanes = fmin(row->lanes, j);
  const double load = (a * (parts > 1.0 ? j / lanes : 1.0) + b * (j > 1.0 || parts > 1.0 ? i : 1.0)) / r->load;
  const double passes = t->protected ? (a * j + b * i + c * parts) / r->check : 0.0;
  const double store = c / r->store, copies = t->on->copies ? (load + store) / t->threads : 0.0;
  const double added = c * (parts - 1.0) / r->check; /* the block of C is read and written once more */
  const double work =
      2.0 * (double)t->m * (double)t->n * (double)t->k / r->multiply + passes + added + STEP * i * j * parts;
  if (row->slots[0] == 1) return load + work + store; /* as loads wait for products */
  return row->slots[2] == 1 ? fmax(load, work + load * copies / (load + store)) + store
                            : fmax(fmax(load, work + copies), store);
}

static int64_t more(int64_t parts) {
  return parts < 4 ? parts + 1 : parts + parts / 3;
}

/* The fewest columns of blocks that fit, given the others. */
static bool widest(const rdt_task *t, rdt_splits *s, size_t limit) {
  int64_t low = 1, high = rdt_blocks_of(t->n, SMALLEST < t->n ? SMALLEST : t->n);
  s->n = cut(t->n, high);
  if (!fits(t, s, limit)) return false;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    s->n = cut(t->n, middle);
    if (fits(t, s, limit))
      high = middle;
    else
      low = middle + 1;
  }
  s->n = cut(t->n, low);
  return true;
}

static rdt_splits smallest_of(const rdt_task *t, rdt_strategy strategy) {
  return (rdt_splits){strategy, least(t->m, SMALLEST), least(t->n, SMALLEST), least(t->k, SMALLEST)};
}

static bool best_of(const rdt_task *t, rdt_strategy strategy, size_t limit, rdt_splits *out) {
  double quickest = INFINITY;
  for (int64_t parts = 1; (parts - 1) * SMALLEST < t->k; parts = more(parts))
    for (int64_t down = 1; (down - 1) * SMALLEST < t->m; down = more(down)) {
      rdt_splits s = {strategy, cut(t->m, down), t->n, cut(t->k, parts)};
      if (!widest(t, &s, limit)) continue;
      const double seconds = rough(t, &s, &USUAL);
      if (!(seconds < quickest)) continue;
      quickest = seconds;
      *out = s;
    }
  if (quickest < INFINITY) return true;
  *out = smallest_of(t, strategy);
  return fits(t, out, limit);
}

static rdt_status too_little(const rdt_task *t, rdt_strategy strategy, size_t limit, rdt_reason *why) {
  const rdt_strategy s = strategy == RDT_STRATEGY_AUTO ? RDT_STRATEGY_SIMPLE : strategy;
  const rdt_splits smallest = smallest_of(t, s);
  rdt_arrangement store;
  RDT_TRY(rdt_arrange(t, &smallest, NULL, &store, why));
  return rdt_fail(why, RDT_ERR_NOMEM, "--mem-limit %zu is too little: the smallest plan (%s) takes %zu bytes", limit,
                  strategies[s].name, store.bytes + store.beside);
}

rdt_status rdt_splits_choose(const rdt_task *t, rdt_strategy strategy, size_t limit, const rdt_rates *r,
                             rdt_splits *out, rdt_reason *why) {
  double quickest = INFINITY;
  for (int i = 0; i < RDT_STRATEGY_COUNT; i++) {
    rdt_splits s;
    rdt_forecast f;
    if (strategy != RDT_STRATEGY_AUTO && strategy != (rdt_strategy)i) continue;
    if (!best_of(t, (rdt_strategy)i, limit, &s)) continue;
    rdt_forecast_of(t, &s, NULL, r, &f);
    if (!(f.seconds < quickest)) continue;
    quickest = f.seconds;
    *out = s;
  }
  if (quickest < INFINITY) return RDT_OK;
  return too_little(t, strategy, limit, why);
}
