/* Chains of small products as one launch, layer by layer against their formula in double: numbers of rows, inputs and
 * neurons around the tiles', clusters of every size, biases of all types or none, what follows; sums of what is stored;
 * NaN; and faults at every site and layer, each of which must be noticed where it is large enough to matter, of chains
 * that are computed twice where it changes a bit of the result, by halves of a cluster in that case alone.
 *     gpu_mlp [--quick]
 * The last line says how much was checked; 1 where anything was wrong, 77 (skipped) without such a GPU. */
#include "cuda/mlp.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cuda/sm90/mlp.h"
#include "gpu.h"

enum { MOST = RDT_CUDA_MLP_LAYERS, LAMBDA = 6 };

typedef struct chain_case {
  int m, layers, width[MOST + 1];
  rdt_dtype type;
  rdt_fn hidden, last;
  bool bias, wide_bias; /* wide: of f32 */
  bool columns;         /* weights lie as neurons x inputs */
  int gap;              /* between rows of x */
  bool pixels;          /* convolutions of an image's pixels */
} chain_case;

typedef struct chain {
  chain_case s;
  rdt_problem p[MOST];
  const rdt_problem *list[MOST];
  const void *weights[MOST];
  void *host_w[MOST], *host_bias[MOST], *host_x, *host_out;
  size_t out_bytes;
  double *exact;
  rdt_cuda_mlp *c;
  uint64_t *board; /* on the device: sum, visits */
  char name[160];
} chain;

static int64_t clean, planted, found, above, wrong;
static rdt_cuda_device device;

static void complain(const chain *c, const char *what) {
  if (++wrong <= 20) printf("WRONG %s: %s\n", c->name, what);
}

static void must(rdt_status s, const char *what) {
  rdt_reason why = {""};
  gpu_must(s, what, &why);
}

static void *there(const void *host, size_t bytes) {
  rdt_reason why = {""};
  void *p;
  gpu_must(rdt_cuda_alloc(bytes + 16, &p, &why), "memory", &why);
  if (host) gpu_must(rdt_cuda_put(p, host, bytes, NULL, &why), "memory", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "memory", &why);
  return p;
}

static void *random_of(rdt_dtype t, size_t n, double scale, uint64_t *seed) {
  void *p = malloc(n * rdt_dtype_size(t) + 16);
  for (size_t i = 0; i < n; i++) rdt_store(p, t, (int64_t)i, scale * gpu_normal(seed));
  return p;
}

static double follow(rdt_fn fn, double x) {
  return fn == RDT_FN_RELU      ? fmax(x, 0.0)
         : fn == RDT_FN_SIGMOID ? 1.0 / (1.0 + exp(-x))
         : fn == RDT_FN_GELU    ? 0.5 * x * (1.0 + erf(x * sqrt(0.5)))
         : fn == RDT_FN_CLIP    ? fmin(fmax(x, 0.0), 6.0)
                                : x;
}

/* Each layer of what the one before it has stored, rounded as it is. */
static void compute(chain *c) {
  const chain_case *s = &c->s;
  const int64_t pitch = s->width[0] + s->gap;
  double *x = malloc((size_t)s->m * 4096 * sizeof *x), *y = malloc((size_t)s->m * 4096 * sizeof *y);
  for (int i = 0; i < s->m; i++)
    for (int k = 0; k < s->width[0]; k++) x[i * 4096 + k] = rdt_load(c->host_x, s->type, i * pitch + k);
  for (int l = 0; l < s->layers; l++) {
    const int K = s->width[l], N = s->width[l + 1];
#pragma omp parallel for
    for (int i = 0; i < s->m; i++)
      for (int j = 0; j < N; j++) {
        double sum = 0.0;
        for (int k = 0; k < K; k++)
          sum +=
              x[i * 4096 + k] * rdt_load(c->host_w[l], s->type, s->columns ? (int64_t)j * K + k : (int64_t)k * N + j);
        if (s->bias) sum += rdt_load(c->host_bias[l], s->wide_bias ? RDT_F32 : s->type, j);
        sum = follow(l + 1 < s->layers ? s->hidden : s->last, sum);
        uint16_t bits;
        rdt_store(&bits, s->type, 0, sum);
        y[i * 4096 + j] = rdt_load(&bits, s->type, 0);
      }
    double *swap = x;
    x = y, y = swap;
  }
  c->exact = x;
  free(y);
}

static rdt_tensor pixels_of(const rdt_tensor *rows) { /* of an image of one line, channels last */
  rdt_tensor t = {.data = rows->data, .dtype = rows->dtype, .rank = 4};
  const int64_t m = rows->shape[0], pitch = rows->stride[0];
  t.shape[0] = t.shape[2] = 1, t.shape[1] = rows->shape[1], t.shape[3] = m;
  t.stride[0] = t.stride[2] = m * pitch, t.stride[1] = 1, t.stride[3] = pitch;
  return t;
}

/* The same layer of pixels. */
static void turn(rdt_problem *p) {
  const rdt_tensor w = p->in[1];
  rdt_tensor *filters = &p->in[1];
  p->op = RDT_KOP_CONV;
  p->in[0] = pixels_of(&p->in[0]), p->out = pixels_of(&p->out);
  filters->rank = 4;
  filters->shape[0] = w.shape[1], filters->shape[1] = w.shape[0], filters->shape[2] = filters->shape[3] = 1;
  filters->stride[0] = w.stride[1], filters->stride[1] = w.stride[0], filters->stride[2] = filters->stride[3] = 1;
  p->window.groups = 1;
  for (int d = 0; d < 2; d++) p->window.kernel[d] = p->window.stride[d] = p->window.dilation[d] = 1;
}

static void make(chain *c, const chain_case *s, uint64_t *seed) {
  const rdt_dtype bias = s->wide_bias ? RDT_F32 : s->type;
  *c = (chain){.s = *s};
  int at = snprintf(c->name, sizeof c->name, "%s %d rows", rdt_dtype_name(s->type), s->m);
  for (int l = 0; l <= s->layers; l++)
    at += snprintf(c->name + at, sizeof c->name - (size_t)at, "%s%d", l ? "-" : " ", s->width[l]);
  const int64_t pitch = s->width[0] + s->gap;
  c->host_x = random_of(s->type, (size_t)(s->m * pitch), 1.0, seed);
  rdt_tensor x =
      rdt_tensor_dense(there(c->host_x, (size_t)(s->m * pitch) * 2), s->type, 2, (int64_t[]){s->m, s->width[0]});
  x.stride[0] = pitch;
  for (int l = 0; l < s->layers; l++) {
    const int64_t K = s->width[l], N = s->width[l + 1];
    rdt_problem *p = &c->p[l];
    must(rdt_problem_init(p, RDT_KOP_GEMM, 2), "problem");
    c->host_w[l] = random_of(s->type, (size_t)(K * N), 1.4 / sqrt((double)K), seed);
    p->in[0] = x;
    p->in[1] = rdt_tensor_dense(there(c->host_w[l], (size_t)(K * N) * 2), s->type, 2, (int64_t[]){K, N});
    if (s->columns) p->in[1].stride[0] = 1, p->in[1].stride[1] = K;
    p->acc = RDT_F32;
    p->epilogue = RDT_EPILOGUE_NONE;
    if (s->bias) {
      c->host_bias[l] = random_of(bias, (size_t)N, 0.5, seed);
      p->epilogue.bias = rdt_tensor_dense(there(c->host_bias[l], (size_t)N * rdt_dtype_size(bias)), bias, 1, &N);
    }
    p->epilogue.act.fn = l + 1 < s->layers ? s->hidden : s->last;
    if (p->epilogue.act.fn == RDT_FN_CLIP) p->epilogue.act.param[1] = 6.0;
    x = p->out = rdt_tensor_dense(there(NULL, (size_t)(s->m * N) * 2), s->type, 2, (int64_t[]){s->m, N});
    if (s->pixels) turn(p);
    c->list[l] = p, c->weights[l] = p->in[1].data;
  }
  c->out_bytes = (size_t)s->m * (size_t)s->width[s->layers] * 2;
  c->host_out = malloc(c->out_bytes + 16);
  c->board = there(NULL, 2 * sizeof *c->board);
}

static void drop(chain *c) {
  rdt_cuda_free(c->p[0].in[0].data), rdt_cuda_free(c->board);
  for (int l = 0; l < c->s.layers; l++) {
    rdt_cuda_free((void *)(uintptr_t)c->weights[l]), rdt_cuda_free(c->p[l].out.data);
    if (c->s.bias) rdt_cuda_free(c->p[l].epilogue.bias.data);
    free(c->host_w[l]), free(c->host_bias[l]);
    rdt_problem_clear(&c->p[l]);
  }
  rdt_cuda_mlp_destroy(c->c);
  free(c->host_x), free(c->host_out), free(c->exact);
}

/* One launch; what it has left. */
static void launch(chain *c, rdt_mlp_hit *hit, uint64_t board[2], rdt_cuda_verdict *v) {
  rdt_reason why = {""};
  void *out = c->p[c->s.layers - 1].out.data;
  const rdt_box_sum_to to = {c->board, c->board + 1};
  rdt_cuda_verdict *verdict = rdt_cuda_mlp_verdict(c->c);
  cudaMemset(out, 0xff, c->out_bytes), cudaMemset(c->board, 0, 2 * sizeof *board);
  gpu_must(hit ? rdt_cuda_mlp_strike(c->c, c->p[0].in[0].data, out, to, hit, NULL, &why)
               : rdt_cuda_mlp_launch(c->c, c->p[0].in[0].data, out, to, NULL, &why),
           c->name, &why);
  gpu_must(rdt_cuda_get(c->host_out, out, c->out_bytes, NULL, &why), c->name, &why);
  gpu_must(rdt_cuda_get(board, c->board, 2 * sizeof *board, NULL, &why), c->name, &why);
  gpu_must(rdt_cuda_get(v, verdict, sizeof *v, NULL, &why), c->name, &why);
  gpu_must(rdt_cuda_clear(verdict, sizeof *v, NULL, &why), c->name, &why);
  gpu_must(rdt_cuda_wait(NULL, &why), c->name, &why);
}

static void create(chain *c, const char *scheme, bool protect, int rows) {
  const rdt_cuda_mlp_form form = {.protect = protect, .lambda = LAMBDA, .scheme = scheme, .rows = rows};
  rdt_reason why = {""};
  double seconds = 0.0;
  gpu_must(rdt_cuda_mlp_create(&device, c->list, c->s.layers, &form, NULL, &c->c, &seconds, &why), c->name, &why);
}

/* Of all results together, and of the one that is furthest off: ten times as far, by their mean size. */
static double distance(const chain *c) {
  const int n = c->s.width[c->s.layers];
  double d = 0.0, norm = 0.0, most = 0.0;
  for (int i = 0; i < c->s.m; i++)
    for (int j = 0; j < n; j++) {
      const double x = c->exact[i * 4096 + j], y = rdt_load(c->host_out, c->s.type, (int64_t)i * n + j);
      const double square = (x - y) * (x - y);
      d += square, norm += x * x, most = square > most ? square : most;
    }
  const double mean = norm / c->s.m / n, one = 0.01 * most / (mean > 0.0 ? mean : 1.0);
  d /= norm > 0.0 ? norm : 1.0;
  return sqrt(one > d ? one : d);
}

static void run_clean(chain *c, bool protect) {
  uint64_t board[2];
  rdt_cuda_verdict v;
  launch(c, NULL, board, &v);
  clean++;
  const double d = distance(c);
  if (!(d <= (c->s.type == RDT_F16 ? 2e-3 : 1.6e-2))) {
    printf("%s, clusters of %d: off by %.2e\n", c->name, rdt_cuda_mlp_cluster(c->c), d);
    complain(c, "the result is not that of its formula");
  }
  if (v.suspect || v.certain || v.cannot) {
    printf("%s: layer %d, row %d, column %d: %g for %g, bounds %g %g\n", c->name, v.list[0].k_first, v.list[0].row,
           v.list[0].column, (double)v.list[0].observed, (double)v.list[0].expected, (double)v.list[0].tau2,
           (double)v.list[0].tau0);
    complain(c, "a clean run complains");
  }
  if (!protect) return;
  if (board[0] != rdt_bitsum(c->host_out, c->out_bytes)) complain(c, "the sum of what is stored is another");
  if ((int64_t)board[1] != rdt_cuda_mlp_blocks(c->c)) complain(c, "blocks are missing");
}

/* ---- faults ---- */

static int up(int x, int by) {
  return (x + by - 1) / by;
}

static rdt_mlp_hit draw(const chain *c, int site, uint64_t *seed) {
  const chain_case *s = &c->s;
  const bool twice = strcmp(rdt_cuda_mlp_scheme(c->c), "replicate") == 0; /* in the first half */
  const int cluster = rdt_cuda_mlp_cluster(c->c), sharers = twice ? cluster / 2 : cluster;
  const int group = (int)(gpu_random(seed) % (uint64_t)up(s->m, RDT_MLP_ROWS));
  const int rows = s->m - RDT_MLP_ROWS * group < RDT_MLP_ROWS ? s->m - RDT_MLP_ROWS * group : RDT_MLP_ROWS;
  const int layer = (int)(gpu_random(seed) % (uint64_t)s->layers);
  int tiles = 1;
  while (tiles * sharers < up(s->width[layer + 1], 8)) tiles *= 2;
  const int blocks = up(up(s->width[layer + 1], 8), tiles);
  rdt_mlp_hit h = {.site = site,
                   .layer = layer,
                   .block = group * cluster + (int)(gpu_random(seed) % (uint64_t)blocks),
                   .thread = (int)(gpu_random(seed) % RDT_MLP_THREADS),
                   .place = (int)(gpu_random(seed) % (uint64_t)(4 * tiles)),
                   .row = (int)(gpu_random(seed) % (uint64_t)rows),
                   .column = (int)(gpu_random(seed) % (uint64_t)(4 * tiles)),
                   .mask = 1u << (gpu_random(seed) % 32),
                   .bound = NAN};
  if (site == RDT_MLP_ACCUM || site == RDT_MLP_CHECKSUM) {
    if (site == RDT_MLP_CHECKSUM) h.place %= 4;
    const int high = h.place % 4 / 2 && rows > 8;
    h.place = h.place / 4 * 4 + 2 * high + h.place % 2;
    h.row = (int)(gpu_random(seed) % (uint64_t)(high ? rows - 8 : rows < 8 ? rows : 8));
    h.thread = h.thread / 32 * 32 + 4 * h.row + (site == RDT_MLP_CHECKSUM ? 0 : h.thread % 4);
    h.row += 8 * high;
  }
  if (site == RDT_MLP_WEIGHT || (site == RDT_MLP_INPUT && layer == 0))
    h.thread %= 32 * up(s->width[layer], RDT_MLP_PAIR) < RDT_MLP_THREADS ? 32 * up(s->width[layer], RDT_MLP_PAIR)
                                                                         : RDT_MLP_THREADS;
  if (site == RDT_MLP_INPUT) h.place = (int)(gpu_random(seed) % (uint64_t)up(s->width[layer], 2));
  return h;
}

/* The result without a fault. */
static char *unstruck(chain *c) {
  uint64_t board[2];
  rdt_cuda_verdict v;
  char *good = malloc(c->out_bytes);
  if (!good) gpu_die("malloc", "out of memory");
  launch(c, NULL, board, &v);
  return memcpy(good, c->host_out, c->out_bytes);
}

/* A launch with a fault; h says then what came of it. */
static void strike(chain *c, rdt_mlp_hit *on, rdt_mlp_hit *h, uint64_t board[2], rdt_cuda_verdict *v) {
  rdt_reason why = {""};
  gpu_must(rdt_cuda_put(on, h, sizeof *h, NULL, &why), "fault", &why);
  launch(c, on, board, v);
  gpu_must(rdt_cuda_get(h, on, sizeof *h, NULL, &why), "fault", &why);
}

static void plant(chain *c, int faults, uint64_t *seed) {
  rdt_mlp_hit *on = there(NULL, sizeof *on);
  uint64_t board[2];
  rdt_cuda_verdict v;
  char *good = unstruck(c);
  for (int i = 0; i < faults; i++) {
    rdt_mlp_hit h = draw(c, i % RDT_MLP_SITES, seed);
    strike(c, on, &h, board, &v);
    const bool other = memcmp(good, c->host_out, c->out_bytes) != 0;
    const bool stored = board[0] != rdt_bitsum(c->host_out, c->out_bytes), cries = v.suspect || v.certain || v.cannot;
    const double change = (h.after - h.before) * (h.site == RDT_MLP_CHECKSUM && h.place % 2 ? 0x1p-11 : 1.0);
    const bool beyond = !(fabs(change) <= 2.0 * h.bound) || !isfinite(h.bound);
    const bool last = h.layer + 1 == c->s.layers;
    const bool must_find = h.site == RDT_MLP_ACCUM || h.site == RDT_MLP_CHECKSUM ? beyond
                           : h.site == RDT_MLP_INPUT                             ? h.layer > 0
                           : h.site == RDT_MLP_STORED                            ? !last || other
                                                                                 : false;
    char text[160];
    snprintf(text, sizeof text, "site %d layer %d block %d thread %d place %d row %d mask %x: %g to %g, bound %g",
             h.site, h.layer, h.block, h.thread, h.place, h.row, h.mask, h.before, h.after, h.bound);
    planted++, found += cries || stored, above += must_find;
    if (!h.done) complain(c, "a fault was not planted"), puts(text);
    if (must_find && !cries && !stored) complain(c, "it was missed"), puts(text);
    if (h.site == RDT_MLP_TAKEN && other && !cries && !stored) complain(c, "other bits, and no word"), puts(text);
    if (h.site == RDT_MLP_CHECKSUM && (other || stored))
      complain(c, "a fault in a check changed the result"), puts(text);
    if (h.site == RDT_MLP_STORED && last && cries)
      complain(c, "it was stored wrongly, and the sums complain"), puts(text);
    const rdt_cuda_finding *f = &v.list[0];
    const int at = h.site == RDT_MLP_TAKEN || h.site == RDT_MLP_STORED ? h.layer + 1 : h.layer;
    if (v.suspect + v.certain > 0 && h.site != RDT_MLP_INPUT && f->k_first != at)
      complain(c, "another layer"), puts(text);
    if ((h.site == RDT_MLP_ACCUM || h.site == RDT_MLP_CHECKSUM) && cries &&
        f->row != h.row + h.block / rdt_cuda_mlp_cluster(c->c) * RDT_MLP_ROWS)
      complain(c, "another row"), puts(text);
    /* weights: found unless what they change is below the row's bound, which cannot be much of the result */
    if (h.site == RDT_MLP_WEIGHT && other && !cries && !stored) {
      double d = 0.0, norm = 0.0;
      for (int64_t j = 0; j < (int64_t)c->out_bytes / 2; j++) {
        const double x = rdt_load(good, c->s.type, j), y = rdt_load(c->host_out, c->s.type, j);
        d += (x - y) * (x - y), norm += x * x;
      }
      if (!(d <= 1e-4 * norm)) complain(c, "a wrong weight was missed"), puts(text);
    }
  }
  launch(c, NULL, board, &v);
  if (v.suspect || v.certain || memcmp(good, c->host_out, c->out_bytes) != 0) complain(c, "is not clean afterwards");
  free(good);
  rdt_cuda_free(on);
}

/* ---- chains that are computed twice ---- */

static rdt_mlp_hit draw_twice(const chain *c, int site, uint64_t *seed) {
  const chain_case *s = &c->s;
  const int rows = rdt_cuda_mlp_rows(c->c), layer = (int)(gpu_random(seed) % (uint64_t)s->layers);
  const int chunks = up(s->width[layer], 64), tiles = up(s->width[layer + 1], 64);
  rdt_mlp_hit h = {.site = site,
                   .layer = layer,
                   .block = (int)(gpu_random(seed) % (uint64_t)(2 * up(s->m, rows))),
                   .thread = (int)(gpu_random(seed) % 128),
                   .column = (int)(gpu_random(seed) % (uint64_t)tiles),
                   .mask = 1u << (gpu_random(seed) % 32)};
  int places = site == RDT_MLP_ACCUM ? rows / 2 : site == RDT_MLP_WEIGHT ? 2048 : rows / 4;
  if (site == RDT_MLP_WEIGHT) h.row = (int)(gpu_random(seed) % (uint64_t)chunks);
  if (site == RDT_MLP_INPUT) h.row = (int)(gpu_random(seed) % (uint64_t)rows), places = 32 * chunks;
  h.place = (int)(gpu_random(seed) % (uint64_t)places);
  for (int i = 0; site == RDT_MLP_CHECKSUM && i < layer; i++) h.column += up(s->width[i + 1], 64);
  return h;
}

static bool complains(const rdt_cuda_verdict *v) {
  return v->suspect || v->certain || v->cannot;
}

/* What one launch has made of a fault: all that changes the result is noticed, and where it is. */
static void judge_twice(chain *c, const rdt_mlp_hit *h, const char *good, const uint64_t board[2],
                        const rdt_cuda_verdict *v) {
  const bool other = memcmp(good, c->host_out, c->out_bytes) != 0, cries = complains(v);
  const bool stored = board[0] != rdt_bitsum(c->host_out, c->out_bytes), last = h->layer + 1 == c->s.layers;
  const bool must_find = other || h->site == RDT_MLP_CHECKSUM || h->site == RDT_MLP_TAKEN;
  const int rows = rdt_cuda_mlp_rows(c->c), at = v->list[0].k_first;
  int64_t before = wrong;
  planted++, found += cries || stored, above += must_find;
  if (!h->done) complain(c, "a fault was not planted");
  if (must_find && !cries && !stored) complain(c, "it was missed");
  if (h->site == RDT_MLP_CHECKSUM && (other || stored)) complain(c, "a fault in a check changed the result");
  if (h->site == RDT_MLP_STORED && last && cries) complain(c, "it was stored wrongly, and the comparison complains");
  if (cries && at != h->layer &&
      (h->site == RDT_MLP_ACCUM || h->site == RDT_MLP_TAKEN || h->site == RDT_MLP_CHECKSUM || at < h->layer))
    complain(c, "another layer");
  if (cries && v->list[0].row != h->block / 2 * rows) complain(c, "other rows");
  if (wrong > before)
    printf("site %d layer %d block %d thread %d place %d row %d column %d mask %x: %g to %g\n", h->site, h->layer,
           h->block, h->thread, h->place, h->row, h->column, (unsigned)h->mask, h->before, h->after);
}

/* A bit of a copy of the weights, at rest. */
static void change_copy(chain *c, const char *good, uint64_t *seed) {
  const int layer = (int)(gpu_random(seed) % (uint64_t)c->s.layers), block = (int)(gpu_random(seed) % 2);
  const int64_t k = (int64_t)(gpu_random(seed) % (uint64_t)c->s.width[layer]),
                column = (int64_t)(gpu_random(seed) % (uint64_t)c->s.width[layer + 1]);
  void *at = rdt_cuda_mlp_copy(c->c, block, layer, k, column);
  uint16_t was, is;
  uint64_t board[2];
  rdt_cuda_verdict v;
  rdt_reason why = {""};
  gpu_must(rdt_cuda_get(&was, at, sizeof was, NULL, &why), c->name, &why);
  if (rdt_load(&was, c->s.type, 0) !=
      rdt_load(c->host_w[layer], c->s.type,
               c->s.columns ? column * c->s.width[layer] + k : k * c->s.width[layer + 1] + column))
    complain(c, "a copy of a weight is not where it should be");
  is = was ^ (uint16_t)(1u << (gpu_random(seed) % 16));
  gpu_must(rdt_cuda_put(at, &is, sizeof is, NULL, &why), c->name, &why);
  launch(c, NULL, board, &v);
  gpu_must(rdt_cuda_put(at, &was, sizeof was, NULL, &why), c->name, &why);
  planted++, found += complains(&v), above += memcmp(good, c->host_out, c->out_bytes) != 0;
  if (memcmp(good, c->host_out, c->out_bytes) != 0 && !complains(&v)) complain(c, "a changed copy was missed");
  if (complains(&v) && v.list[0].k_first < layer) complain(c, "a changed copy: another layer");
}

/* In copies of weights; these are made anew then. */
static void plant_at_rest(chain *c, int faults, const char *good, uint64_t *seed) {
  uint64_t board[2];
  rdt_cuda_verdict v;
  rdt_reason why = {""};
  for (int i = 0; i < faults; i++) change_copy(c, good, seed);
  gpu_must(rdt_cuda_mlp_renew(c->c, c->weights, NULL, &why), c->name, &why);
  launch(c, NULL, board, &v);
  if (complains(&v) || memcmp(good, c->host_out, c->out_bytes) != 0) complain(c, "is not clean afterwards");
}

static void plant_twice(chain *c, int faults, uint64_t *seed) {
  rdt_mlp_hit *on = there(NULL, sizeof *on);
  char *good = unstruck(c);
  uint64_t board[2];
  rdt_cuda_verdict v;
  for (int i = 0; i < faults; i++) {
    rdt_mlp_hit h = draw_twice(c, i % RDT_MLP_SITES, seed);
    strike(c, on, &h, board, &v);
    judge_twice(c, &h, good, board, &v);
  }
  plant_at_rest(c, faults / RDT_MLP_SITES, good, seed);
  free(good);
  rdt_cuda_free(on);
}

static void check_twice(const chain_case *s, int faults, uint64_t *seed) {
  chain c;
  make(&c, s, seed);
  compute(&c);
  for (int protect = 0; protect < 2; protect++)
    for (int rows = 32; rows <= 64; rows *= 2) {
      create(&c, "replicate", protect, rows);
      if (rdt_cuda_mlp_rows(c.c) != rows) complain(&c, "blocks have other numbers of rows");
      if (strcmp(rdt_cuda_mlp_scheme(c.c), protect ? "replicate" : "none") != 0) complain(&c, "another scheme");
      run_clean(&c, protect);
      if (protect && s->type == RDT_F16) plant_twice(&c, faults, seed);
      rdt_cuda_mlp_destroy(c.c);
    }
  c.c = NULL;
  if (s->layers > RDT_MLP_LAYERS) { /* there is one form */
    create(&c, NULL, true, 0);
    if (strcmp(rdt_cuda_mlp_scheme(c.c), "replicate") != 0) complain(&c, "another form than there is");
  }
  drop(&c);
}

/* ---- by halves of a cluster ---- */

typedef struct outcome {
  bool other, stored, cries; /* bits of the result; what is stored is not what was summed; a complaint */
} outcome;

/* One launch; a complaint names what is wrong, but of a fault in the second half, where that is not stored. */
static outcome strike_half(chain *c, rdt_mlp_hit *on, rdt_mlp_hit h, const char *good) {
  const int n = c->s.width[c->s.layers], cluster = rdt_cuda_mlp_cluster(c->c);
  uint64_t board[2];
  rdt_cuda_verdict v;
  strike(c, on, &h, board, &v);
  const outcome o = {memcmp(good, c->host_out, c->out_bytes) != 0, board[0] != rdt_bitsum(c->host_out, c->out_bytes),
                     complains(&v)};
  const rdt_cuda_finding *f = &v.list[0];
  const int64_t before = wrong;
  const bool first = h.block % cluster < cluster / 2;
  planted++, found += o.cries || o.stored, above += o.other;
  if (h.done != 1) complain(c, "a fault was not planted");
  if ((int64_t)board[1] != rdt_cuda_mlp_blocks(c->c)) complain(c, "rows are missing");
  if (o.other && !first) complain(c, "the second half changed the result");
  if (v.suspect || v.cannot) complain(c, "a complaint that is not certain");
  if (o.cries && (f->k_first != c->s.layers - 1 || f->row < 0 || f->row >= c->s.m || f->column < 0 ||
                  f->column + f->columns > n || f->rows != 1 || f->columns < 1))
    complain(c, "another place");
  else if (o.cries && first &&
           memcmp(good + 2 * (f->row * n + f->column), (char *)c->host_out + 2 * (f->row * n + f->column),
                  (size_t)(2 * f->columns)) == 0)
    complain(c, "what is named is right");
  if (wrong > before)
    printf("site %d layer %d block %d of %d, thread %d place %d row %d column %d mask %x: %g to %g\n", h.site, h.layer,
           h.block, cluster, h.thread, h.place, h.row, h.column, (unsigned)h.mask, h.before, h.after);
  return o;
}

/* The same fault in either half: both are noticed, or neither changes a bit. */
static void plant_halves(chain *c, int faults, uint64_t *seed) {
  rdt_mlp_hit *on = there(NULL, sizeof *on);
  char *good = unstruck(c);
  for (int i = 0; i < faults; i++) {
    const int site = i % RDT_MLP_SITES;
    rdt_mlp_hit h = draw(c, site, seed);
    if (site == RDT_MLP_CHECKSUM) continue; /* there are none */
    const bool at_end = site == RDT_MLP_STORED && h.layer + 1 == c->s.layers;
    const outcome one = strike_half(c, on, h, good);
    h.block += rdt_cuda_mlp_cluster(c->c) / 2;
    const outcome two = strike_half(c, on, h, good);
    if (one.other != (at_end ? one.stored : one.cries)) complain(c, "other bits and no word, or a word and no others");
    if (one.other != (at_end ? two.stored : two.cries)) complain(c, "the second half says something else");
    if (at_end && (one.cries || two.cries)) complain(c, "it was stored wrongly, and the comparison complains");
  }
  plant_at_rest(c, (int)up(faults, RDT_MLP_SITES), good, seed);
  free(good);
  rdt_cuda_free(on);
}

static void check_halves(const chain_case *s, int faults, uint64_t *seed) {
  const rdt_cuda_mlp_form form = {.protect = true, .lambda = LAMBDA, .scheme = "replicate", .rows = RDT_MLP_ROWS};
  chain c;
  rdt_reason why = {""};
  bool wide = false; /* more neurons than half a cluster has */
  make(&c, s, seed);
  compute(&c);
  for (int l = 1; l <= s->layers; l++) wide = wide || s->width[l] > RDT_MLP_BLOCKS / 2 * RDT_MLP_COLUMNS;
  const rdt_status status = rdt_cuda_mlp_create(&device, c.list, s->layers, &form, NULL, &c.c, NULL, &why);
  if (status != (wide ? RDT_ERR_UNSUPPORTED : RDT_OK)) complain(&c, wide ? "too wide, and taken" : why.text);
  if (status == RDT_OK) {
    if (strcmp(rdt_cuda_mlp_scheme(c.c), "replicate") != 0 || rdt_cuda_mlp_rows(c.c) != RDT_MLP_ROWS)
      complain(&c, "another form");
    run_clean(&c, true);
    for (int blocks = 2; blocks <= RDT_MLP_BLOCKS; blocks *= 2) {
      if (rdt_cuda_mlp_use(c.c, blocks, c.weights, NULL, &why) != RDT_OK) continue;
      if (rdt_cuda_mlp_cluster(c.c) != blocks) complain(&c, "clusters of another size");
      run_clean(&c, true);
      if (faults && s->type == RDT_F16) plant_halves(&c, faults, seed);
    }
    rdt_cuda_mlp_destroy(c.c);
    create(&c, NULL, true, 0); /* whichever is the fastest */
    run_clean(&c, true);
  }
  drop(&c);
}

/* ---- all ---- */

static void check(const chain_case *s, int faults, uint64_t *seed) {
  chain c;
  rdt_reason why = {""};
  make(&c, s, seed);
  compute(&c);
  for (int protect = 0; protect < 2; protect++) {
    create(&c, "row", protect, 0);
    run_clean(&c, protect);
    for (int blocks = 2; blocks <= RDT_MLP_BLOCKS; blocks = blocks < 4 ? blocks + 1 : 2 * blocks) {
      if (rdt_cuda_mlp_use(c.c, blocks, c.weights, NULL, &why) != RDT_OK) continue;
      run_clean(&c, protect);
      if (protect && faults && s->type == RDT_F16) plant(&c, faults, seed);
    }
    if (!protect) rdt_cuda_mlp_destroy(c.c);
  }
  drop(&c);
}

static void check_nan(uint64_t *seed) { /* of one row: no bound, and no others; twice, the same bits */
  const chain_case s = {5, 3, {40, 64, 24, 8}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, true, false, false, 0, false};
  chain c;
  rdt_reason why = {""};
  uint64_t board[2];
  rdt_cuda_verdict v;
  make(&c, &s, seed);
  rdt_store(c.host_x, s.type, 2 * 40 + 7, NAN);
  gpu_must(rdt_cuda_put(c.p[0].in[0].data, c.host_x, 5 * 40 * 2, NULL, &why), "NaN", &why);
  for (int twice = 0; twice < 3; twice++) {
    create(&c, twice ? "replicate" : "row", true, (const int[]){0, RDT_MLP_ROWS, 32}[twice]);
    launch(&c, NULL, board, &v);
    if (twice && complains(&v)) complain(&c, "NaN among the inputs is no fault");
    if (!twice && (!v.cannot || v.suspect || v.certain || v.list[0].row != 2))
      complain(&c, "NaN among the inputs is not said");
    if (board[0] != rdt_bitsum(c.host_out, c.out_bytes)) complain(&c, "NaN: the sum of what is stored is another");
    for (int i = 0; i < 5; i++)
      if (isnan(rdt_load(c.host_out, s.type, i * 8)) != (i == 2)) complain(&c, "NaN in another row, or lost");
    rdt_cuda_mlp_destroy(c.c);
  }
  c.c = NULL;
  drop(&c);
}

static void check_refusals(uint64_t *seed) {
  chain_case s = {1, 2, {16, 32, 8}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, true, false, false, 0, false};
  const rdt_cuda_mlp_form any = {.protect = true, .lambda = LAMBDA}, twice = {.protect = true, .scheme = "replicate"},
                          odd = {.protect = true, .scheme = "replicate", .rows = 8};
  chain c;
  rdt_reason why = {""};
  make(&c, &s, seed);
  c.p[0].epilogue.alpha = 2.0;
  if (rdt_cuda_mlp_accept(&device, c.list, 2, &why) != RDT_ERR_UNSUPPORTED) complain(&c, "a factor is taken");
  c.p[0].epilogue.alpha = 1.0;
  void *const data = c.p[1].in[0].data;
  c.p[1].in[0].data = c.p[0].in[0].data;
  if (rdt_cuda_mlp_accept(&device, c.list, 2, &why) != RDT_ERR_UNSUPPORTED) complain(&c, "layers apart are taken");
  c.p[1].in[0].data = data;
  drop(&c);
  s.m = 2;
  make(&c, &s, seed);
  c.p[1].in[0].stride[0] += 8;
  if (rdt_cuda_mlp_accept(&device, c.list, 2, &why) != RDT_ERR_UNSUPPORTED)
    complain(&c, "rows are taken that are not those of the layer before");
  c.p[1].in[0].stride[0] -= 8;
  if (rdt_cuda_mlp_create(&device, c.list, 2, &odd, NULL, &c.c, NULL, &why) != RDT_ERR_UNSUPPORTED)
    complain(&c, "blocks of 8 rows are taken");
  if (rdt_cuda_mlp_accept(&device, c.list, MOST + 1, &why) != RDT_ERR_UNSUPPORTED)
    complain(&c, "seventeen layers are taken");
  drop(&c);
  s.layers = 3, s.width[0] = s.width[1] = s.width[2] = s.width[3] = 1024;
  make(&c, &s, seed);
  if (rdt_cuda_mlp_create(&device, c.list, 3, &any, NULL, &c.c, NULL, &why) != RDT_ERR_UNSUPPORTED)
    complain(&c, "more weights than a cluster holds are taken");
  if (rdt_cuda_mlp_create(&device, c.list, 3, &twice, NULL, &c.c, NULL, &why) != RDT_ERR_UNSUPPORTED)
    complain(&c, "more weights than a block holds are taken");
  drop(&c);
}

int main(int argc, char **argv) {
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  static const chain_case cases[] = {
      {1, 3, {13, 512, 256, 64}, RDT_F16, RDT_FN_RELU, RDT_FN_RELU, true, false, true, 0, false},
      {1, 3, {512, 512, 256, 1}, RDT_F16, RDT_FN_RELU, RDT_FN_SIGMOID, true, false, true, 0, false},
      {16, 3, {512, 512, 256, 1}, RDT_F16, RDT_FN_RELU, RDT_FN_SIGMOID, true, true, false, 0, false},
      {1, 1, {13, 1}, RDT_F16, RDT_FN_NONE, RDT_FN_NONE, false, false, false, 0, false},
      {3, 2, {13, 10, 7}, RDT_F16, RDT_FN_CLIP, RDT_FN_NONE, true, true, true, 3, false},
      {33, 3, {64, 100, 40, 3}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, false, false, false, 8, false},
      {17, 4, {24, 48, 200, 96, 33}, RDT_F16, RDT_FN_SIGMOID, RDT_FN_RELU, true, false, false, 0, false},
      {9, 8, {32, 32, 32, 32, 32, 32, 32, 32, 32}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, true, false, true, 0, false},
      {1, 3, {13, 512, 256, 64}, RDT_BF16, RDT_FN_RELU, RDT_FN_RELU, true, false, true, 0, false},
      {8, 3, {512, 512, 256, 1}, RDT_BF16, RDT_FN_RELU, RDT_FN_SIGMOID, true, true, false, 0, false},
      {130, 2, {100, 70, 20}, RDT_BF16, RDT_FN_CLIP, RDT_FN_NONE, false, false, false, 0, false},
      {2, 1, {1024, 1000}, RDT_F16, RDT_FN_NONE, RDT_FN_RELU, true, false, true, 0, false},
  };
  static const chain_case twice[] = {
      {70, 3, {27, 58, 58, 24}, RDT_F16, RDT_FN_GELU, RDT_FN_NONE, true, false, true, 0, true},
      {49, 3, {232, 232, 232, 232}, RDT_F16, RDT_FN_RELU, RDT_FN_RELU, true, true, false, 0, false},
      {100, 2, {64, 256, 64}, RDT_BF16, RDT_FN_CLIP, RDT_FN_NONE, true, true, true, 8, true},
      {33, 3, {16, 96, 16, 9}, RDT_BF16, RDT_FN_GELU, RDT_FN_SIGMOID, false, false, false, 0, false},
      {65, 2, {640, 64, 500}, RDT_F16, RDT_FN_SIGMOID, RDT_FN_NONE, true, false, true, 8, false},
      {1, 2, {40, 24, 7}, RDT_F16, RDT_FN_CLIP, RDT_FN_RELU, true, false, false, 3, false},
      {196,
       16,
       {116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116},
       RDT_F16,
       RDT_FN_RELU,
       RDT_FN_RELU,
       true,
       false,
       true,
       0,
       false},
      {3136, 3, {64, 64, 256, 64}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, true, false, false, 0, false},
  };
  rdt_reason why;
  uint64_t seed = 7;
  if (rdt_cuda_count(&why) == 0) return printf("skip: %s\n", why.text), 77;
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  if (device.major != 9) return printf("skip: chains of layers are for compute capability 9\n"), 77;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check(&cases[i], quick ? 6 : 600, &seed);
    check_halves(&cases[i], quick ? 6 : 300, &seed);
  }
  for (int m = 1; m <= 64; m += m < 17 ? 1 : 15) {
    const chain_case s = {m, 3, {21, 40, 75, 5}, RDT_F16, RDT_FN_RELU, RDT_FN_NONE, true, false, false, m % 2, false};
    check_halves(&s, quick ? 0 : 60, &seed);
  }
  const size_t few = sizeof twice / sizeof *twice - (quick ? 1 : 0);
  for (size_t i = 0; i < few; i++) check_twice(&twice[i], quick ? 14 : 700, &seed);
  check_nan(&seed);
  check_refusals(&seed);
  printf("gpu-mlp: %lld clean runs; %lld faults, %lld found, %lld had to be: %lld wrong\n", (long long)clean,
         (long long)planted, (long long)found, (long long)above, (long long)wrong);
  return wrong ? 1 : 0;
}
