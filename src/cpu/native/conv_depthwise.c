#include "cpu/native/depthwise.h"

#include <string.h>

#include "check/bitsum.h"
#include "core/cpu_info.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/native/layout.h"

enum { PX = RDT_DEPTHWISE_PIXELS, MOST_THREADS = 256, TILES = 16 }; /* added in single precision before a flush */
enum { AREA_BYTES = 256 << 10, ROWS = 64 };                         /* of the input; of the result, at most */

typedef struct state {
  const rdt_depthwise_table *table, *inject;
  rdt_depthwise d;
  rdt_window window;
  int64_t n, ih, iw, oh, block, blocks,
      slots;         /* output rows of a check, and checks of an image; input rows of a ring */
  int64_t stride[3]; /* of the input: image, row, pixel */
  int threads;
  float *packed;
  size_t packed_bytes;
  void *tables; /* what d points to, apart from the weights */
  size_t tables_bytes;
  void *own, *lent; /* scratch of a run */
} state;

static const rdt_depthwise_table *table(bool inject) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return inject ? &rdt_depthwise_avx512_inject : &rdt_depthwise_avx512;
    case RDT_ISA_AVX2:
      return inject ? &rdt_depthwise_avx2_inject : &rdt_depthwise_avx2;
    default:
      break;
  }
#endif
  return inject ? &rdt_depthwise_generic_inject : &rdt_depthwise_generic;
}

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* ---- memory ---- */

typedef struct worker { /* what one thread needs */
  float *lanes, *ring;  /* slots of kw sums and the squares' bound */
  int64_t *row;         /* that a slot holds; -1: none */
  const float **rows;   /* of a block: each output row's kernel rows */
  bool differ;
  uint64_t bitsum;
  rdt_kernel_hit *hit, own; /* what is planted here */
} worker;

static worker take_worker(const state *s, rdt_layout *l) {
  worker w = {.ring = rdt_layout_take(l, s->slots * (s->d.kw + 1) * s->d.padded, sizeof(float))};
  w.row = rdt_layout_take(l, s->slots, sizeof(int64_t));
  w.rows = rdt_layout_take(l, s->block * (s->d.taps / s->d.kw), sizeof(float *));
  return w;
}

static size_t scratch(void *made, void *memory) {
  state *s = made;
  rdt_layout l = {NULL, 0};
  rdt_layout_take(&l, s->d.padded, sizeof(float));
  for (int i = 0; i < s->threads; i++) take_worker(s, &l);
  if (memory) rdt_layout_lend(&s->own, &s->lent, memory);
  return l.used;
}

static char *memory_of(state *s) {
  return rdt_layout_memory(&s->own, s->lent, scratch(s, NULL));
}

/* ---- state ---- */

static int64_t modulo(int64_t a, int64_t b) {
  return (a % b + b) % b;
}

/* Pixels of the result whose tap of a kernel's column lies in the image: first .. end - 1. */
static void range_of(const state *s, int64_t column, int64_t *first, int64_t *end) {
  const int64_t stride = s->window.stride[1], off = column * s->window.dilation[1] - s->window.before[1];
  *first = off < 0 ? rdt_least(rdt_up(-off, stride) / stride, s->d.ow) : 0;
  *end = s->iw > off ? rdt_least((s->iw - off + stride - 1) / stride, s->d.ow) : 0;
  if (*end < *first) *end = *first;
}

static void set_core(const state *s, int number, rdt_depthwise_part *core, rdt_depthwise_column *columns) {
  const int64_t stride = s->window.stride[1];
  int64_t from = 0, to = INT64_MAX;
  for (int64_t c = 0; c < s->d.kw; c++) {
    int64_t first, end;
    const int64_t off = c * s->window.dilation[1] - s->window.before[1];
    if (columns[c].core != number) continue;
    range_of(s, c, &first, &end);
    from = most(from, first * stride + off);
    to = rdt_least(to, first < end ? end * stride + off : 0);
  }
  *core = (rdt_depthwise_part){.from = from < to ? from : 0, .count = from < to ? (to - from) / stride : 0, .sign = 1};
  for (int64_t c = 0; c < s->d.kw; c++) {
    int64_t first, end;
    const int64_t off = c * s->window.dilation[1] - s->window.before[1];
    if (columns[c].core != number) continue;
    range_of(s, c, &first, &end);
    const int64_t begin = core->count > 0 ? (core->from - off) / stride : end, after = begin + core->count;
    columns[c].sign = begin % 2 ? -1.0f : 1.0f;
    columns[c].edge[0] = (rdt_depthwise_part){first * stride + off, begin - first, first % 2 ? -1.0f : 1.0f};
    columns[c].edge[1] = (rdt_depthwise_part){after * stride + off, end - after, after % 2 ? -1.0f : 1.0f};
    for (int e = 0; e < 2; e++)
      if (columns[c].edge[e].count <= 0) columns[c].edge[e] = (rdt_depthwise_part){0, 0, 1};
  }
}

static rdt_status set_tables(state *s, rdt_reason *why) {
  rdt_depthwise *d = &s->d;
  const rdt_window *w = &s->window;
  int64_t *offset = NULL;
  uint8_t *masks = NULL;
  rdt_depthwise_part *core = NULL;
  rdt_depthwise_column *columns = NULL;
  rdt_layout l = {NULL, 0};
  for (int pass = 0; pass < 2; pass++) {
    if (pass) l = (rdt_layout){s->tables = rdt_calloc(s->tables_bytes = l.used, 1), 0};
    if (pass && !l.base) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
    offset = rdt_layout_take(&l, d->taps, sizeof *offset);
    masks = rdt_layout_take(&l, d->tiles * d->taps, 1);
    core = rdt_layout_take(&l, d->kw, sizeof *core);
    columns = rdt_layout_take(&l, d->kw, sizeof *columns);
  }
  for (int64_t t = 0; t < d->taps; t++)
    offset[t] = t / d->kw * w->dilation[0] * s->stride[1] + t % d->kw * w->dilation[1] * s->stride[2];
  for (int64_t c = 0; c < d->kw; c++) {
    int64_t first, end;
    range_of(s, c, &first, &end);
    for (int64_t x = first; x < end; x++)
      for (int64_t t = c; t < d->taps; t += d->kw) masks[x / PX * d->taps + t] |= (uint8_t)(1u << x % PX);
    columns[c].core = d->cores;
    const int64_t rest = modulo(c * w->dilation[1] - w->before[1], w->stride[1]);
    for (int64_t i = 0; i < c && columns[c].core == d->cores; i++)
      if (modulo(i * w->dilation[1] - w->before[1], w->stride[1]) == rest) columns[c].core = columns[i].core;
    d->cores += columns[c].core == d->cores;
  }
  for (int i = 0; i < d->cores; i++) set_core(s, i, &core[i], columns);
  d->offset = offset;
  d->masks = masks;
  d->core = core;
  d->columns = columns;
  return RDT_OK;
}

static rdt_status pack(void *made, const rdt_tensor *w, rdt_reason *why) {
  state *s = made;
  const int64_t cols = s->table->cols, vl = s->table->lanes, whole = s->d.channels / cols * cols;
  (void)why;
  memset(s->packed, 0, s->packed_bytes);
  for (int64_t c = 0; c < s->d.channels; c++) {
    const int64_t width = c < whole ? cols : vl, first = c < whole ? c / cols * cols : whole + (c - whole) / vl * vl;
    for (int64_t t = 0; t < s->d.taps; t++)
      s->packed[first * s->d.taps + t * width + c - first] =
          ((const float *)w->data)[c * w->stride[0] + t / s->d.kw * w->stride[2] + t % s->d.kw * w->stride[3]];
  }
  return RDT_OK;
}

static void packed(void *made, void **data, size_t *bytes, rdt_dtype *dtype) {
  const state *s = made;
  *data = s->packed;
  *bytes = s->packed_bytes;
  *dtype = RDT_F32;
}

static void destroy(void *made) {
  state *s = made;
  if (!s) return;
  rdt_free(s->packed);
  rdt_free(s->tables);
  rdt_free(s->own);
  rdt_free(s);
}

/* Pixels one after the other in memory, their channels side by side; any number of them in a pixel's place. */
static bool has_pixels(const rdt_tensor *t) {
  const int64_t *n = t->shape, *s = t->stride;
  return (n[1] == 1 || s[1] == 1) && s[3] >= n[1] && (n[2] == 1 || s[2] == s[3] * n[3]) &&
         (n[0] == 1 || s[0] == s[3] * n[3] * n[2]);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out, *r = &p->epilogue.residual;
  const rdt_fn fn = p->epilogue.act.fn;
  if (x->dtype != RDT_F32 || w->dtype != RDT_F32 || y->dtype != RDT_F32)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes f32");
  if (y->rank != 4) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes images");
  if (!rdt_problem_is_depthwise(p)) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes one filter for each channel");
  if (!w->data) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes fixed weights");
  if (rdt_tensor_count(x) < 1 || rdt_tensor_count(w) < 1 || rdt_tensor_count(y) < 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes no empty operand");
  if (x->stride[1] != 1 || !has_pixels(y) || (r->rank >= 0 && !has_pixels(r)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes channels side by side in memory");
  if (fn != RDT_FN_NONE && fn != RDT_FN_RELU && fn != RDT_FN_CLIP)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "has no %s", rdt_fn_info(fn)->name);
  return rdt_native_accept(p, RDT_NATIVE_REAL, why);
}

/* Where checks complain, the raw result is made in a buffer, which takes the layout of a packed result only. */
static rdt_status accept_fused(const rdt_problem *p, rdt_reason *why) {
  RDT_TRY(accept(p, why));
  if (!rdt_tensor_is_packed(&p->out)) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "checks a packed result");
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **out, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->table = table(false);
  s->inject = table(true);
  s->window = p->window;
  s->threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  s->n = y->shape[0];
  s->ih = x->shape[2];
  s->iw = x->shape[3];
  s->oh = y->shape[2];
  s->block = rdt_fused_rows(s->oh, y->shape[3]);
  s->blocks = rdt_up(s->oh, s->block) / s->block;
  s->slots = rdt_least((s->block - 1) * s->window.stride[0] + (w->shape[2] - 1) * s->window.dilation[0] + 1, s->ih);
  s->stride[0] = x->stride[0];
  s->stride[1] = x->stride[2];
  s->stride[2] = x->stride[3];
  s->d = (rdt_depthwise){.channels = y->shape[1],
                         .padded = rdt_up(y->shape[1], s->table->lanes),
                         .taps = w->shape[2] * w->shape[3],
                         .kw = w->shape[3],
                         .step = s->window.stride[1] * x->stride[3],
                         .pixel = x->stride[3],
                         .stride = s->window.stride[1],
                         .ow = y->shape[3],
                         .tiles = rdt_up(y->shape[3], PX) / PX};
  s->packed_bytes = (size_t)(s->d.padded * s->d.taps) * sizeof(float);
  s->d.weights = s->packed = rdt_calloc(s->packed_bytes, 1);
  rdt_status status = s->packed ? set_tables(s, why) : rdt_fail(why, RDT_ERR_NOMEM, "no memory for packed weights");
  if (status == RDT_OK) status = pack(s, w, why);
  if (status != RDT_OK) {
    destroy(s);
    return status;
  }
  *out = s;
  return RDT_OK;
}

/* ---- a run ---- */

typedef struct call {
  const state *s;
  const rdt_depthwise_table *table;
  const float *x;
  float *out;
  int64_t ld;
  rdt_fused *f; /* NULL: no check */
  rdt_kernel_hit *hit;
  rdt_shares *shares;
  rdt_native_finish finish;
  bool sums;
  int parts;
} call;

static void set_finish(const state *s, const rdt_epilogue *e, float *bias, rdt_native_finish *f) {
  *f = (rdt_native_finish){.alpha = 1.0f};
  if (!e) return;
  f->alpha = (float)e->alpha;
  f->beta = (float)e->beta;
  if (e->bias.rank >= 0) {
    memset(bias, 0, (size_t)s->d.padded * sizeof(float));
    memcpy(bias, e->bias.data, (size_t)s->d.channels * sizeof(float));
    f->bias = bias;
  }
  if (e->residual.rank >= 0) {
    f->residual = e->residual.data;
    f->residual_ld = e->residual.stride[3];
  }
  if (e->act.fn == RDT_FN_NONE) return;
  f->bound = e->act.fn == RDT_FN_RELU ? RDT_BOUND_RELU : RDT_BOUND_CLIP;
  if (f->bound == RDT_BOUND_RELU) return;
  f->low = (float)e->act.param[0];
  f->high = (float)e->act.param[1];
}

static void set_hit(const call *c, rdt_kernel_hit *hit, rdt_depthwise_row *r, int64_t image, int64_t y) {
  const state *s = c->s;
  const int64_t e = hit->element, rest = e / s->d.ow, channel = rest / s->oh;
  if (rest % s->oh != y || channel / s->d.channels != image) return;
  r->hit = hit;
  r->hit_x = e % s->d.ow;
  r->hit_channel = channel % s->d.channels;
  r->hit_tap = rdt_least((int64_t)(hit->position * (double)s->d.taps), s->d.taps);
}

static rdt_depthwise_row row_of(const call *c, const worker *w, int64_t image, int64_t y) {
  const state *s = c->s;
  const rdt_window *win = &s->window;
  const int64_t kh = win->kernel[0], dilation = win->dilation[0], top = y * win->stride[0] - win->before[0];
  const int64_t from = top < 0 ? rdt_least(rdt_up(-top, dilation) / dilation, kh) : 0;
  const int64_t to = s->ih > top ? rdt_least((s->ih - top + dilation - 1) / dilation, kh) : 0;
  rdt_depthwise_row r = {.at = image * s->stride[0] + top * s->stride[1] - win->before[1] * s->stride[2],
                         .from = from * s->d.kw,
                         .to = most(from, to) * s->d.kw,
                         .pixel = (image * s->oh + y) * s->d.ow,
                         .sign = y % s->block % 2 ? -1.0f : 1.0f};
  if (w->hit) set_hit(c, w->hit, &r, image, y);
  return r;
}

/* The sums of the input's rows that a block reads; rows of the image are kept for the blocks that follow. */
static void sum_rows(const call *c, worker *w, int64_t image, int64_t y, int64_t end) {
  const state *s = c->s;
  const rdt_window *win = &s->window;
  const float **to = w->rows;
  for (; y < end; y++)
    for (int64_t r = 0; r < win->kernel[0]; r++, to++) {
      const int64_t i = y * win->stride[0] + r * win->dilation[0] - win->before[0], slot = i % s->slots;
      *to = NULL;
      if (i < 0 || i >= s->ih) continue;
      float *ring = w->ring + slot * (s->d.kw + 1) * s->d.padded;
      *to = ring;
      if (w->row[slot] == image * s->ih + i) continue;
      w->row[slot] = image * s->ih + i;
      s->table->sums(&s->d, c->x + image * s->stride[0] + i * s->stride[1], ring);
    }
}

/* Where the sums of a row's channels go; *pending: tiles that wait for it. */
static void set_sums(const call *c, rdt_depthwise_row *r, int64_t unit, bool last, int64_t *pending) {
  const int64_t at = unit * c->s->d.channels;
  *pending += c->s->d.tiles;
  if (!last && *pending + c->s->d.tiles <= TILES) return;
  r->dot = c->f->observed.dot + at;
  r->sq = c->f->observed.sq + at;
  *pending = 0;
}

static void expect(const call *c, worker *w, int64_t image, int64_t y, int64_t end, int64_t unit) {
  const state *s = c->s;
  const rdt_fused *f = c->f;
  const int64_t at = unit * s->d.channels;
  sum_rows(c, w, image, y, end);
  s->table->expect(&s->d, w->rows, end - y, f->weights, f->squares, f->expected.dot + at, f->expected.sq + at);
  memset(f->observed.dot + at, 0, (size_t)s->d.channels * sizeof(double));
  memset(f->observed.sq + at, 0, (size_t)s->d.channels * sizeof(double));
}

/* Some blocks of one image, whose rows fit the second-level cache. */
static void run_blocks(const call *c, worker *w, int64_t first, int64_t end) {
  const state *s = c->s;
  rdt_depthwise_row rows[ROWS];
  rdt_depthwise_area a = {.d = &s->d, .rows = rows, .x = c->x, .out = c->out, .ld = c->ld, .finish = c->finish};
  const int64_t image = first / s->blocks;
  for (int64_t u = first; u < end; u++) {
    int64_t y = u % s->blocks * s->block, stop = rdt_least(y + s->block, s->oh), pending = 0;
    if (c->f) expect(c, w, image, y, stop, u);
    for (; y < stop; y++) {
      rows[a.count] = row_of(c, w, image, y);
      if (c->f) set_sums(c, &rows[a.count], u, y + 1 == stop, &pending);
      a.count++;
    }
  }
  a.check = c->f != NULL;
  a.hit_stored = c->f && c->f->hit_stored;
  c->table->area(&a);
  w->differ = w->differ || a.differ;
  const size_t row = (size_t)(s->d.ow * c->ld) * sizeof(float), at = (size_t)(rows[0].pixel * c->ld) * sizeof(float);
  if (c->sums) w->bitsum += rdt_bitsum_part(c->out, at, (size_t)a.count * row);
}

/* A fault of the core strikes in each share that begins there. */
static void plant(const call *c, worker *w, const int64_t from[2], const int64_t to[2]) {
  const int64_t plane = c->s->oh * c->s->d.ow;
  w->hit = c->hit;
  if (!c->hit || !c->hit->everywhere) return;
  w->own = *c->hit;
  w->hit = w->own.core == rdt_cpu_current() && to[0] > from[0] ? &w->own : NULL;
  if (!w->hit) return;
  const int64_t pixel = from[0] + (int64_t)(rdt_fault_random(w->own.fault, 1) % (uint64_t)(to[0] - from[0]));
  const int64_t channel = (int64_t)(rdt_fault_random(w->own.fault, 3) % (uint64_t)c->s->d.channels);
  w->own.element = (pixel / plane * c->s->d.channels + channel) * plane + pixel % plane;
}

/* The first pixel of a block. */
static int64_t pixel_of(const state *s, int64_t unit) {
  return (unit / s->blocks * s->oh + unit % s->blocks * s->block) * s->d.ow;
}

static void run_worker(const call *c, worker *w, int part) {
  const state *s = c->s;
  const int64_t units = s->n * s->blocks, end = units * (part + 1) / c->parts;
  const int64_t from[2] = {pixel_of(s, units * part / c->parts), 0}, to[2] = {pixel_of(s, end), s->d.channels};
  rdt_share_begin(c->shares, part, from, to);
  plant(c, w, from, to);
  const int64_t bytes = s->iw * s->d.channels * (int64_t)sizeof(float) * s->window.stride[0];
  const int64_t fit = most(rdt_least(AREA_BYTES / bytes, ROWS) / s->block, 1);
  for (int64_t i = 0; c->f && i < s->slots; i++) w->row[i] = -1;
  for (int64_t u = units * part / c->parts, n; u < end; u += n) {
    n = rdt_least(rdt_least(fit, end - u), s->blocks - u % s->blocks);
    run_blocks(c, w, u, u + n);
  }
  rdt_share_end(c->shares, part, w->differ);
}

static rdt_status run_all(state *s, const rdt_operands *o, rdt_fused *f, rdt_kernel_hit *hit, rdt_reason *why) {
  worker workers[MOST_THREADS];
  rdt_layout l = {memory_of(s), 0};
  if (!l.base) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a convolution's rows");
  call c = {.s = s,
            .table = hit ? s->inject : s->table,
            .x = o->in[0].data,
            .out = o->out.data,
            .ld = o->out.stride[3],
            .f = f,
            .hit = hit,
            .shares = o->shares,
            .sums = f && f->seal && rdt_epilogue_sums(&o->out),
            .parts = (int)rdt_least(s->threads, s->n * s->blocks)};
  set_finish(s, o->epilogue, rdt_layout_take(&l, s->d.padded, sizeof(float)), &c.finish);
  for (int i = 0; i < c.parts; i++) workers[i] = take_worker(s, &l);
  rdt_shares_expect(c.shares, c.parts);
#pragma omp parallel for num_threads(c.parts) schedule(static, 1) if (c.parts > 1)
  for (int i = 0; i < c.parts; i++) run_worker(&c, &workers[i], i);
  for (int i = 0; hit && hit->everywhere && i < c.parts; i++)
    if (workers[i].own.done) *hit = workers[i].own;
  if (!f) return RDT_OK;
  f->differ = false;
  f->bitsum = 0;
  for (int i = 0; i < c.parts; i++) {
    f->differ = f->differ || workers[i].differ;
    f->bitsum += workers[i].bitsum;
  }
  return RDT_OK;
}

static rdt_status run(void *made, const rdt_operands *o, rdt_reason *why) {
  return run_all(made, o, NULL, NULL, why);
}

static rdt_status run_inject(void *made, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  return run_all(made, o, NULL, hit, why);
}

static rdt_status run_fused(void *made, const rdt_operands *o, rdt_fused *f, rdt_reason *why) {
  return run_all(made, o, f, f->hit, why);
}

static rdt_status fixed(void *state_, rdt_vault *frame) {
  state *s = state_;
  RDT_TRY(rdt_vault_add(frame, s->tables, s->tables_bytes));
  return rdt_vault_add(frame, s, offsetof(state, own)); /* behind it lies the scratch, which is lent */
}

const rdt_kernel rdt_kernel_conv_depthwise_f32_native = {.name = "conv_depthwise_f32_native",
                                                         .op = RDT_KOP_CONV,
                                                         .isa = RDT_ISA_GENERIC,
                                                         .deterministic = true,
                                                         .accept = accept,
                                                         .create = create,
                                                         .run = run,
                                                         .run_inject = run_inject,
                                                         .fuses = RDT_FORM_COLUMNS,
                                                         .accept_fused = accept_fused,
                                                         .run_fused = run_fused,
                                                         .pack = pack,
                                                         .packed = packed,
                                                         .scratch = scratch,
                                                         .fixed = fixed,
                                                         .destroy = destroy};
