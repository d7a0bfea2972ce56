/* Between the host's memory and a GPU's: threads read and write files, each through pinned memory of its own that the
 * copy engines take or fill meanwhile; products, sums and comparisons are the device's. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cuda/block/blocks.h"
#include "cuda/device.h"
#include "outofcore/block.h"
#include "outofcore/strassen.h"

enum { MOST_HANDS = 16, HALF = 4 << 20 /* bytes of a copy: the link needs that much at a time */ };

typedef struct side {   /* who loads, or who stores */
  pthread_mutex_t lock; /* a block that is computed again is loaded while another one is */
  rdt_hand hand[MOST_HANDS];
  int n;
} side;

typedef struct device {
  rdt_blocks *blocks;
  double before; /* bytes that were free when it was opened */
  side in, out;
  char *halves[RDT_MOST_SLOTS]; /* for Strassen's scheme */
  struct {
    bool begun; /* results were cleared, and sums of the operands added to them */
    uint64_t seal[2];
  } lane[RDT_MOST_SLOTS];
} device;

enum { SEAL_A, SEAL_B, SEAL_C };

/* ---- the device ---- */

static void close_device(void *dev) {
  device *d = dev;
  side *const sides[2] = {&d->in, &d->out};
  for (int s = 0; s < 2; s++) {
    for (int i = 0; i < sides[s]->n; i++) d->blocks->hand_close(d->blocks, &sides[s]->hand[i]);
    pthread_mutex_destroy(&sides[s]->lock);
  }
  if (d->blocks) d->blocks->close(d->blocks);
  rdt_free(d);
}

static rdt_status open_side(device *d, side *s, int hands, rdt_reason *why) {
  for (; s->n < hands && s->n < MOST_HANDS; s->n++) {
    const rdt_status status = d->blocks->hand_open(d->blocks, HALF, &s->hand[s->n], why);
    if (status == RDT_OK) continue;
    d->blocks->hand_close(d->blocks, &s->hand[s->n]);
    return status;
  }
  return RDT_OK;
}

static rdt_status open_device(const char *name, rdt_dtype in, int threads, void **dev, rdt_reason *why) {
  int index = 0;
  *dev = NULL;
  RDT_TRY(rdt_device_index(name, &index, why));
  device *d = rdt_calloc(1, sizeof *d);
  if (!d) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  pthread_mutex_init(&d->in.lock, NULL);
  pthread_mutex_init(&d->out.lock, NULL);
  rdt_status status = rdt_blocks_open(index, in, &d->blocks, why);
  const int store = threads / 4 < 1 ? 1 : threads / 4, load = threads - store < 1 ? 1 : threads - store;
  if (status == RDT_OK) status = open_side(d, &d->in, load, why); /* a core each */
  if (status == RDT_OK) status = open_side(d, &d->out, store, why);
  if (status != RDT_OK) {
    close_device(d);
    return status;
  }
  d->before = (double)d->blocks->free_bytes(d->blocks);
  *dev = d;
  return RDT_OK;
}

static double available(void *dev) {
  const device *d = dev;
  return (double)d->blocks->free_bytes(d->blocks);
}

static double taken(void *dev) {
  const device *d = dev;
  return d->before - available(dev);
}

static rdt_status take(void *dev, size_t bytes, void **memory, rdt_reason *why) {
  const device *d = dev;
  return d->blocks->alloc(d->blocks, bytes, memory, why);
}

static void release(void *dev, void *memory) {
  const device *d = dev;
  d->blocks->release(d->blocks, memory);
}

/* Of an H200, as measured: link 48 to 55 GB/s, cuBLASLt 690, 51 and 55 TFLOP/s. Where the rates of another device are
 * in another proportion, blocks are not the best ones. */
static rdt_rates usual(rdt_dtype in) {
  return (rdt_rates){.load = 4e10, .store = 3e10, .multiply = rdt_dtype_is_half(in) ? 6.9e14 : 5.2e13, .check = 2.2e12};
}

/* ---- memory that is lent ---- */

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t parts_of(const rdt_tensor *t) {
  const bool columns = t->stride[1] != 1;
  return rdt_blocks_parts(t->shape[columns], t->shape[!columns], rdt_dtype_size(t->dtype));
}

enum { LIBRARY = 32 << 20 /* bytes that cuBLASLt asks for at most */ };

static size_t library_of(const rdt_tensor *c) {
  const size_t bytes = (size_t)rdt_tensor_count(c) * rdt_dtype_size(c->dtype);
  return bytes < LIBRARY ? (bytes + RDT_BLOCKS_HEAD - 1) / RDT_BLOCKS_HEAD * RDT_BLOCKS_HEAD : LIBRARY;
}

/* Of a lane: results, the library's, what sums of A, B and C need one after the other, beside the product or behind it.
 */
static rdt_status workspace(void *dev, const rdt_context *ctx, const rdt_block_product *p, bool protected, int threads,
                            rdt_backend_space *out, rdt_reason *why) {
  (void)dev, (void)ctx, (void)threads, (void)why;
  const size_t loaded = protected ? parts_of(&p->b) : 0;
  const size_t lane = protected ? larger(loaded, larger(parts_of(&p->a), parts_of(&p->c))) : 0;
  out->library = library_of(&p->c);
  out->lane = RDT_BLOCKS_HEAD + out->library + lane;
  out->loaded = RDT_BLOCKS_HEAD + loaded;
  return RDT_OK;
}

static void lend(void *dev, const rdt_backend_room *room) {
  device *d = dev;
  for (int i = 0; i < RDT_MOST_SLOTS; i++)
    if (room->workspace[i]) d->blocks->lend(d->blocks, i, room->workspace[i], room->space.library);
  d->blocks->lend(d->blocks, RDT_BLOCKS_LOADED, room->loaded, 0);
  memcpy(d->halves, room->halves, sizeof d->halves);
  memset(d->lane, 0, sizeof d->lane);
}

/* ---- files ---- */

/* A block as it is moved: pieces of whole lines, or of one line where a line does not fit into one half of a hand. */
typedef struct moving {
  device *d;
  const rdt_matrix *m;
  rdt_part_of part;
  char *data; /* on the device */
  size_t line, pitch, size;
  int64_t from, lines;          /* lines that are moved: the first one, how many; 0: all */
  int64_t each, across, pieces; /* each: lines of a piece; across: pieces of a line */
  bool in, seals;               /* seals: loads are summed; stores always are */
  _Atomic(int64_t) next;
  _Atomic(uint64_t) seal;
  atomic_int status;
  pthread_mutex_t lock;
  rdt_reason why;
} moving;

typedef struct piece {
  int64_t first, count; /* lines */
  size_t from, bytes;   /* of each of them */
} piece;

static piece piece_of(const moving *v, int64_t i) {
  if (v->across == 1) {
    const int64_t first = i * v->each, left = v->lines - first;
    return (piece){v->from + first, left < v->each ? left : v->each, 0, v->line};
  }
  const size_t most = HALF / v->size * v->size, from = (size_t)(i % v->across) * most;
  return (piece){v->from + i / v->across, 1, from, v->line - from < most ? v->line - from : most};
}

static rdt_part_of part_of(const moving *v, const piece *p) {
  const int64_t at = (int64_t)(p->from / v->size), length = (int64_t)(p->bytes / v->size);
  if (v->m->fortran) return (rdt_part_of){v->part.row + at, length, v->part.col + p->first, p->count};
  return (rdt_part_of){v->part.row + p->first, p->count, v->part.col + at, length};
}

static size_t offset_of(const moving *v, const piece *p) { /* in the block without gaps */
  return (size_t)p->first * v->line + p->from;
}

static rdt_status copy(moving *v, rdt_hand *h, int which, const piece *p, rdt_reason *why) {
  return v->d->blocks->hand_copy(v->d->blocks, h, which, v->data + (size_t)p->first * v->pitch + p->from, p->bytes,
                                 p->count, v->pitch, v->in, why);
}

static rdt_status fill(moving *v, rdt_hand *h, rdt_reason *why) {
  rdt_blocks *b = v->d->blocks;
  for (int which = 0;; which = !which) {
    const int64_t i = atomic_fetch_add(&v->next, 1);
    if (i >= v->pieces || atomic_load(&v->status) != RDT_OK) break;
    const piece p = piece_of(v, i);
    const rdt_part_of part = part_of(v, &p);
    RDT_TRY(b->hand_wait(b, h, which, why));
    uint64_t sum = 0;
    RDT_TRY(rdt_matrix_read_sum(v->m, &part, h->half[which], offset_of(v, &p), v->seals ? &sum : NULL, why));
    RDT_TRY(copy(v, h, which, &p, why));
    atomic_fetch_add(&v->seal, sum);
  }
  for (int which = 0; which < 2; which++) RDT_TRY(b->hand_wait(b, h, which, why));
  return RDT_OK;
}

static rdt_status drain(moving *v, rdt_hand *h, rdt_reason *why) {
  rdt_blocks *b = v->d->blocks;
  piece p[2];
  bool busy[2] = {false, false};
  for (int which = 0;; which = !which) {
    const int64_t i = atomic_load(&v->status) == RDT_OK ? atomic_fetch_add(&v->next, 1) : v->pieces;
    if (i < v->pieces) {
      p[which] = piece_of(v, i);
      busy[which] = true;
      RDT_TRY(copy(v, h, which, &p[which], why));
    }
    const int other = !which;
    if (busy[other]) { /* while that one is copied */
      const rdt_part_of part = part_of(v, &p[other]);
      RDT_TRY(b->hand_wait(b, h, other, why));
      uint64_t sum;
      RDT_TRY(rdt_matrix_write_sum(v->m, &part, h->half[other], offset_of(v, &p[other]), &sum, why));
      atomic_fetch_add(&v->seal, sum);
      busy[other] = false;
    }
    if (!busy[which]) return RDT_OK;
  }
}

typedef struct worker {
  moving *v;
  rdt_hand *hand;
} worker;

static void *work(void *self) {
  const worker *w = self;
  moving *v = w->v;
  rdt_reason why = {""};
  rdt_status status = v->d->blocks->enter(v->d->blocks, &why);
  if (status == RDT_OK) status = v->in ? fill(v, w->hand, &why) : drain(v, w->hand, &why);
  if (status == RDT_OK) return NULL;
  pthread_mutex_lock(&v->lock);
  if (atomic_exchange(&v->status, status) == RDT_OK) v->why = why;
  pthread_mutex_unlock(&v->lock);
  return NULL;
}

static rdt_status move(moving *v, side *s, rdt_reason *why) {
  pthread_t thread[MOST_HANDS];
  worker w[MOST_HANDS];
  int n = 0;
  v->size = rdt_dtype_size(v->m->dtype);
  if (v->lines == 0) v->lines = v->m->fortran ? v->part.cols : v->part.rows;
  v->line = (size_t)(v->m->fortran ? v->part.rows : v->part.cols) * v->size;
  v->each = (int64_t)(HALF / v->line);
  v->across = v->each > 0 ? 1 : (int64_t)((v->line + HALF / v->size * v->size - 1) / (HALF / v->size * v->size));
  v->pieces = v->each > 0 ? (v->lines + v->each - 1) / v->each : v->lines * v->across;
  pthread_mutex_init(&v->lock, NULL);
  for (; n < s->n && n < v->pieces; n++) {
    w[n] = (worker){v, &s->hand[n]};
    if (n > 0 && pthread_create(&thread[n], NULL, work, &w[n]) != 0) break;
  }
  work(&w[0]);
  for (int i = 1; i < n; i++) pthread_join(thread[i], NULL);
  pthread_mutex_destroy(&v->lock);
  const rdt_status status = (rdt_status)atomic_load(&v->status);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", v->why.text);
}

static size_t pitch_of(const rdt_tensor *t) {
  return (size_t)(t->stride[1] != 1 ? t->stride[1] : t->stride[0]) * rdt_dtype_size(t->dtype);
}

/* Of B; A's are formed in the pass that its products need anyway. */
static rdt_status operand_sums(const device *d, const rdt_loading *l, rdt_reason *why) {
  if (!l->protected || l->axis == 0) return RDT_OK;
  const rdt_blocks_side rows = {.weight_dot = l->signs,
                                .dot = l->sums,
                                .sq = l->sums + l->most,
                                .half = l->strassen ? rdt_strassen_half(l->part.rows) : 0};
  return d->blocks->sums(d->blocks, RDT_BLOCKS_LOADED, &l->to, &rows, NULL, -1, why);
}

static rdt_status load_by(device *d, side *s, rdt_loading *l, rdt_reason *why) {
  moving v = {.d = d,
              .m = l->m,
              .part = l->part,
              .data = l->to.data,
              .pitch = pitch_of(&l->to),
              .from = l->from,
              .lines = l->count,
              .in = true,
              .seals = l->protected};
  const double began = rdt_clock();
  RDT_TRY(move(&v, s, why));
  l->seconds += rdt_clock() - began;
  l->seal = atomic_load(&v.seal);
  const bool last = l->count == 0 || l->from + l->count == (l->m->fortran ? l->part.cols : l->part.rows);
  return last && !l->piece ? operand_sums(d, l, why) : RDT_OK;
}

static rdt_status load(void *dev, rdt_loading *l, rdt_reason *why) {
  device *d = dev;
  side *s = &d->in;
  pthread_mutex_lock(&s->lock);
  const rdt_status status = load_by(d, s, l, why);
  pthread_mutex_unlock(&s->lock);
  return status;
}

static bool near(void *dev, void *other) {
  rdt_blocks *b = ((device *)dev)->blocks;
  return b->near(b, ((device *)other)->blocks);
}

/* Lines lie the same way in both: with what is between them they are one piece of memory. */
static rdt_status fetch(void *dev, void *other, const void *block, const rdt_loading *l, rdt_reason *why) {
  rdt_blocks *b = ((device *)dev)->blocks;
  const size_t pitch = pitch_of(&l->to), at = (size_t)l->from * pitch;
  return b->fetch(b, (char *)l->to.data + at, ((device *)other)->blocks, (const char *)block + at,
                  (size_t)l->count * pitch, why);
}

static rdt_status fetched(void *dev, const rdt_loading *l, bool whole, rdt_reason *why) {
  device *d = dev;
  RDT_TRY(d->blocks->enter(d->blocks, why));
  RDT_TRY(d->blocks->wait(d->blocks, RDT_BLOCKS_LOADED, why));
  if (!whole) return RDT_OK;
  pthread_mutex_lock(&d->in.lock); /* sums of a block that is loaded again have the same workspace */
  const rdt_status status = operand_sums(d, l, why);
  pthread_mutex_unlock(&d->in.lock);
  return status;
}

static rdt_status store(void *dev, const rdt_matrix *m, const rdt_part_of *part, const rdt_tensor *from, uint64_t *sum,
                        rdt_reason *why) {
  device *d = dev;
  moving v = {.d = d, .m = m, .part = *part, .data = from->data, .pitch = pitch_of(from)};
  RDT_TRY(move(&v, &d->out, why));
  *sum = atomic_load(&v.seal);
  return RDT_OK;
}

/* ---- products and checks ---- */

typedef struct halving { /* whose lane it is, for Strassen's scheme */
  rdt_blocks *blocks;
  int lane;
} halving;

static rdt_status multiply_halves(void *user, const rdt_block_product *p, rdt_reason *why) {
  const halving *h = user;
  const rdt_blocks_product x = {.a = p->a, .b = p->b, .c = p->c, .add = p->add};
  return h->blocks->multiply(h->blocks, h->lane, &x, why);
}

static rdt_status add_halves(void *user, const rdt_tensor *to, bool kept, const rdt_tensor *x, const rdt_tensor *y,
                             double sign, rdt_reason *why) {
  const halving *h = user;
  return h->blocks->add(h->blocks, h->lane, to, kept, x, y, sign, why);
}

static rdt_status multiply(void *dev, const rdt_context *ctx, int lane, const rdt_block_product *p, bool other,
                           int threads, rdt_reason *why) {
  device *d = dev;
  (void)ctx, (void)threads;
  if (!other && rdt_strassen_fits(p)) {
    halving h = {d->blocks, lane};
    const rdt_strassen_ops ops = {&h, add_halves, multiply_halves};
    RDT_TRY(d->blocks->enter(d->blocks, why));
    return rdt_strassen_run(p, d->halves[lane], &ops, why);
  }
  const rdt_blocks_product x = {.a = p->a, .b = p->b, .c = p->c, .add = p->add, .plain = other};
  RDT_TRY(d->blocks->enter(d->blocks, why));
  return d->blocks->multiply(d->blocks, lane, &x, why);
}

static rdt_status begin(rdt_block *b, rdt_reason *why) {
  rdt_blocks *on = ((device *)b->dev)->blocks;
  RDT_TRY(on->enter(on, why));
  return on->clear(on, RDT_BLOCKS_BESIDE + b->lane, b->far_memory, (size_t)b->doubles * sizeof(double), why);
}

static rdt_blocks_side growing(const rdt_block *b, int axis, const double *dot, const double *sq) {
  const rdt_block_side *s = &b->far[axis];
  const bool first = b->steps == 0;
  return (rdt_blocks_side){.weight_dot = dot,
                           .weight_sq = sq,
                           .dot = s->step.dot,
                           .sq = s->step.sq,
                           .total_dot = s->expected.dot,
                           .total_sq = s->expected.sq,
                           .half = b->strassen ? rdt_strassen_half(b->c.shape[axis]) : 0,
                           .factor = RDT_STRASSEN_FACTOR,
                           .between = first ? NULL : s->between,
                           .seen_sq = first ? NULL : s->observed.sq};
}

/* One pass over A, that needs B's sums and gives A's; then one over B: while the product goes on. */
static rdt_status expect(rdt_block *b, const rdt_tensor *a, const rdt_tensor *m, double *const sums[2], int64_t most,
                         rdt_reason *why) {
  device *d = b->dev;
  rdt_blocks *on = d->blocks;
  const rdt_blocks_side rows = growing(b, 0, sums[1], sums[1] + most), columns = growing(b, 1, sums[0], sums[0] + most);
  const rdt_blocks_side of_a = {.weight_dot = b->far[1].weight,
                                .dot = sums[0],
                                .sq = sums[0] + most,
                                .half = b->strassen ? rdt_strassen_half(a->shape[1]) : 0};
  const int beside = RDT_BLOCKS_BESIDE + b->lane;
  RDT_TRY(on->reset(on, beside, why));
  RDT_TRY(on->follow(on, beside, RDT_BLOCKS_LOADED, why));
  RDT_TRY(on->sums(on, beside, a, &rows, &of_a, SEAL_A, why));
  RDT_TRY(on->sums(on, beside, m, NULL, &columns, SEAL_B, why));
  d->lane[b->lane].begun = true;
  return RDT_OK;
}

static double number(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* What the device has found is believed where both of its comparisons let every sum pass. */
static void judge(const rdt_block *b, const rdt_block_found *found, rdt_findings *f, bool *judged) {
  const int64_t all = b->c.shape[0] + b->c.shape[1];
  *judged = found->passed == (uint64_t)all && found->seconded == (uint64_t)all && !found->suspect && !found->cannot;
  if (!*judged) return;
  const rdt_suspect worst = {.kind = RDT_CHECK_ROW, .place = {-1, -1}};
  rdt_findings_pass(f, all, &worst, number(found->floor));
  rdt_findings_second(f, all);
  f->ratio = number(found->ratio);
}

static rdt_status observe(rdt_block *b, rdt_findings *f, bool *judged, uint64_t *seal, rdt_reason *why) {
  device *d = b->dev;
  rdt_blocks *on = d->blocks;
  rdt_blocks_side s[2];
  rdt_blocks_results r;
  const bool begun = d->lane[b->lane].begun;
  d->lane[b->lane].begun = false;
  RDT_TRY(on->follow(on, b->lane, RDT_BLOCKS_BESIDE + b->lane, why));
  if (!begun) RDT_TRY(on->reset(on, b->lane, why));
  for (int axis = 0; axis < 2; axis++)
    s[axis] = (rdt_blocks_side){
        .weight_dot = b->far[axis].weight, .dot = b->far[axis].observed.dot, .sq = b->far[axis].observed.sq};
  RDT_TRY(on->sums(on, b->lane, &b->c, &s[0], &s[1], seal ? SEAL_C : -1, why));
  for (int axis = 0; axis < 2; axis++) {
    rdt_tolerance t = rdt_block_tolerance(b, axis);
    t.segments = 0;
    const rdt_box_bound bound = rdt_box_bound_of(&t, b->c.shape[1 - axis], false);
    RDT_TRY(on->compare(on, b->lane, b->c.shape[axis], b->far[axis].observed.dot, b->far[axis].observed.sq,
                        b->far[axis].expected.dot, b->far[axis].expected.sq, &bound, b->strassen, why));
  }
  RDT_TRY(on->results(on, b->lane, &r, why));
  if (begun) memcpy(d->lane[b->lane].seal, r.seal, sizeof d->lane[b->lane].seal);
  if (seal) *seal = r.seal[SEAL_C];
  judge(b, &r.found, f, judged);
  return RDT_OK;
}

static rdt_status changed(void *dev, int lane, int axis, const rdt_tensor *x, uint64_t seal, int threads, bool *yes,
                          rdt_reason *why) {
  const device *d = dev;
  (void)x, (void)threads, (void)why;
  *yes = d->lane[lane].seal[axis] != seal;
  return RDT_OK;
}

static rdt_status seal_of(void *dev, int lane, const rdt_tensor *x, int threads, uint64_t *sum, rdt_reason *why) {
  device *d = dev;
  rdt_blocks_results r;
  (void)threads;
  RDT_TRY(d->blocks->reset(d->blocks, lane, why));
  RDT_TRY(d->blocks->sums(d->blocks, lane, x, NULL, NULL, SEAL_C, why));
  RDT_TRY(d->blocks->results(d->blocks, lane, &r, why));
  *sum = r.seal[SEAL_C];
  return RDT_OK;
}

static rdt_status wait_lane(void *dev, int lane, rdt_reason *why) {
  const device *d = dev;
  return d->blocks->wait(d->blocks, lane, why);
}

static double product_seconds(void *dev) {
  const device *d = dev;
  double sum = 0.0;
  for (int i = 0; i < RDT_MOST_SLOTS; i++) sum += d->blocks->product_seconds(d->blocks, i);
  return sum;
}

static rdt_status get(void *dev, int lane, void *to, const void *from, size_t bytes, int64_t count, size_t apart,
                      rdt_reason *why) {
  const device *d = dev;
  RDT_TRY(d->blocks->follow(d->blocks, lane, RDT_BLOCKS_BESIDE + lane, why));
  return d->blocks->get(d->blocks, lane, to, from, bytes, count, apart, why);
}

static rdt_status put(void *dev, int lane, void *to, const void *from, size_t bytes, rdt_reason *why) {
  const device *d = dev;
  RDT_TRY(d->blocks->follow(d->blocks, lane, RDT_BLOCKS_BESIDE + lane, why));
  return d->blocks->put(d->blocks, lane, to, from, bytes, why);
}

static rdt_accumulator accumulator(void *dev, int lane, rdt_dtype in, rdt_dtype out, int *splits) {
  const device *d = dev;
  (void)in, (void)out;
  *splits = d->blocks->splits;
  return d->blocks->accumulator(d->blocks, lane);
}

const rdt_backend rdt_backend_cuda = {.name = "cuda",
                                      .far = true,
                                      .unit = 32,
                                      .tile = 256,
                                      .align = RDT_BLOCKS_ALIGN,
                                      .line = 6e3, /* 16 threads: 17 GB/s by lines of 4.5 KB, 39 by long ones */
                                      .trial = (size_t)512 << 20,
                                      .trial_side = 8192,
                                      .usual = usual,
                                      .open = open_device,
                                      .close = close_device,
                                      .available = available,
                                      .taken = taken,
                                      .alloc = take,
                                      .release = release,
                                      .workspace = workspace,
                                      .lend = lend,
                                      .load = load,
                                      .near = near,
                                      .fetch = fetch,
                                      .fetched = fetched,
                                      .store = store,
                                      .multiply = multiply,
                                      .begin = begin,
                                      .expect = expect,
                                      .observe = observe,
                                      .changed = changed,
                                      .seal = seal_of,
                                      .wait = wait_lane,
                                      .product_seconds = product_seconds,
                                      .get = get,
                                      .put = put,
                                      .accumulator = accumulator};
