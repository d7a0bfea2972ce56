/* Body of the own depthwise convolutions, included by each ISA directory with DEPTHWISE_TABLE defined: once plain, once
 * with RDT_INJECT, which can plant one fault in one accumulator. */
#include "cpu/generic/product.h"
#include "cpu/native/depthwise.h"
#include "cpu/vector_body.h"

enum { NV = 2, NR = NV * VL, PX = RDT_DEPTHWISE_PIXELS };
typedef double D __attribute__((vector_size(VL * 4))); /* half a vector in double */

INLINE void store_some(float *p, V x, int count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1u), (__m512)x);
#elif defined(__FMA__)
  _mm256_maskstore_ps(p, lanes_of(count), (__m256)x);
#else
  memcpy(p, &x, (size_t)count * sizeof(float));
#endif
}

/* some: only count lanes of the one vector are there. */
INLINE V fetch(const float *p, const bool some, int count) {
  return some ? load_first(p, count) : load(p);
}

INLINE void put(float *p, V x, const bool some, int count) {
  if (some)
    store_some(p, x, count);
  else
    store(p, x);
}

/* A group of channels: nv whole vectors, or one in part. */
typedef struct group {
  int64_t channel;
  int count; /* channels; less than VL: in part */
} group;

/* ---- the product ---- */

/* One tap of PX pixels. all: of all of them, or else of those that mask names. */
INLINE void add_tap(const float *x, int64_t step, const float *w, const group *g, const int nv, const bool some,
                    const bool all, unsigned mask, V (*acc)[NV]) {
  V b[NV];
#pragma GCC unroll 2
  for (int v = 0; v < nv; ++v) b[v] = load(w + v * VL);
#pragma GCC unroll 8
  for (int p = 0; p < PX; ++p)
    if (all || (mask >> p & 1u))
#pragma GCC unroll 2
      for (int v = 0; v < nv; ++v) acc[p][v] = MADD(fetch(x + p * step + v * VL, some, g->count), b[v], acc[p][v]);
}

/* out += taps [from, to) of PX pixels. */
INLINE void multiply(const rdt_depthwise_area *a, const rdt_depthwise_row *row, int64_t tile, const group *g,
                     int64_t from, int64_t to, const int nv, const bool some, const bool fresh, V (*out)[NV]) {
  const rdt_depthwise *d = a->d;
  const int64_t step = d->step, at = row->at + tile * PX * step + g->channel;
  const float *w = d->weights + g->channel * d->taps + from * nv * VL;
  const uint8_t *masks = d->masks + tile * d->taps;
  V acc[PX][NV];
#pragma GCC unroll 8
  for (int p = 0; p < PX; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) acc[p][v] = fresh ? (V){0} : out[p][v];
#pragma GCC unroll 1
  for (int64_t t = from; t < to; ++t, w += nv * VL) {
    const float *x = a->x + (at + d->offset[t]);
    if (__builtin_expect(masks[t] == (1u << PX) - 1u, 1))
      add_tap(x, step, w, g, nv, some, true, 0, acc);
    else
      add_tap(x, step, w, g, nv, some, false, masks[t], acc);
  }
#pragma GCC unroll 8
  for (int p = 0; p < PX; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) out[p][v] = acc[p][v];
}

/* ---- what follows ---- */

#define EACH(p, v) \
  _Pragma("GCC unroll 8") for (int p = 0; p < PX; ++p) _Pragma("GCC unroll 2") for (int v = 0; v < nv; ++v)

typedef struct place { /* of a tile: where its result goes, where its residual comes from */
  float *out;
  const float *residual, *bias;
  int pixels; /* that are there */
} place;

/* Sums of a tile, pixels that are not there being zeros: four roundings, then one for each tile. */
INLINE void observe(V (*tile)[NV], float *lanes, float sign, const int nv) {
  V even[NV], odd[NV], sq[2][NV];
  for (int v = 0; v < nv; ++v) even[v] = odd[v] = sq[0][v] = sq[1][v] = (V){0};
  EACH(p, v) {
    const V x = tile[p][v];
    if (p % 2)
      odd[v] = odd[v] + x;
    else
      even[v] = even[v] + x;
    sq[p % 2][v] = MADD(x, x, sq[p % 2][v]);
  }
  for (int v = 0; v < nv; ++v) {
    float *to = lanes + v * VL;
    store(to, MADD(even[v] - odd[v], spread(sign), load(to)));
    store(to + NR, load(to + NR) + (sq[0][v] + sq[1][v]));
  }
}

/* The epilogue, step by step where there is one. */
INLINE void evaluate(V (*tile)[NV], const rdt_depthwise_area *a, const place *to, const int nv, const bool some,
                     int count) {
  const rdt_native_finish *f = &a->finish;
  const bool scale = f->alpha != 1.0f || (f->residual && f->beta != 1.0f);
  if (scale) EACH(p, v) tile[p][v] = tile[p][v] * f->alpha;
  if (to->bias) {
    V b[NV];
    for (int v = 0; v < nv; ++v) b[v] = load(to->bias + v * VL);
    EACH(p, v) tile[p][v] = value(tile[p][v], f, b[v], NULL, false, true, false, 0);
  }
  if (to->residual) EACH(p, v) if (p < to->pixels) {
      float residual[VL];
      store(residual, fetch(to->residual + p * f->residual_ld + v * VL, some, count));
      if (scale) store(residual, load(residual) * f->beta);
      tile[p][v] = value(tile[p][v], f, tile[p][v], residual, false, false, true, 0);
    }
  if (f->bound == RDT_BOUND_RELU)
    EACH(p, v) tile[p][v] = value(tile[p][v], f, tile[p][v], NULL, false, false, false, RDT_BOUND_RELU);
  if (f->bound == RDT_BOUND_CLIP)
    EACH(p, v) tile[p][v] = value(tile[p][v], f, tile[p][v], NULL, false, false, false, RDT_BOUND_CLIP);
}

/* ---- rows ---- */

INLINE void multiply_tile(const rdt_depthwise_area *a, const rdt_depthwise_row *row, int64_t tile, const group *g,
                          const int nv, const bool some, V (*out)[NV]) {
#if RDT_INJECT
  const int64_t p = row->hit_x - tile * PX, c = row->hit_channel - g->channel, t = row->hit_tap;
  const bool here = row->hit && !a->hit_stored && p >= 0 && p < PX && c >= 0 && c < g->count;
  const int64_t until = !here || t < row->from ? row->from : t > row->to ? row->to : t;
  multiply(a, row, tile, g, row->from, until, nv, some, true, out);
  if (here) rdt_kernel_hit_apply(row->hit, (char *)&out[p][0] + c * (int64_t)sizeof(float), RDT_F32);
  multiply(a, row, tile, g, until, row->to, nv, some, false, out);
#else
  multiply(a, row, tile, g, row->from, row->to, nv, some, true, out);
#endif
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void flush(const rdt_depthwise_row *row, const group *g, float *lanes) {
  for (int i = 0; i < g->count; ++i) {
    row->dot[g->channel + i] += (double)lanes[i];
    row->sq[g->channel + i] += (double)lanes[NR + i];
  }
  memset(lanes, 0, 2 * NR * sizeof(float));
}

/* One tile of a row. differ: lanes in which the second evaluation is not what was stored. */
INLINE void run_tile(const rdt_depthwise_area *a, const rdt_depthwise_row *row, int64_t number, const group *g,
                     const int nv, const bool some, const bool check, float *lanes, I *differ) {
  const rdt_native_finish *f = &a->finish;
  const int64_t x = number * PX, pixel = row->pixel + x;
  const place to = {.out = a->out + pixel * a->ld + g->channel,
                    .residual = f->residual ? (const float *)f->residual + pixel * f->residual_ld + g->channel : NULL,
                    .bias = f->bias ? f->bias + g->channel : NULL,
                    .pixels = (int)least(PX, a->d->ow - x)};
  V tile[PX][NV], raw[PX][NV];
  multiply_tile(a, row, number, g, nv, some, tile);
  if (check) {
    EACH(p, v) raw[p][v] = tile[p][v];
    __asm__ volatile("" : "+m"(raw)); /* the second evaluation is one */
    observe(tile, lanes, x % 2 ? -row->sign : row->sign, nv);
  }
  evaluate(tile, a, &to, nv, some, g->count);
  EACH(p, v) if (p < to.pixels) put(to.out + p * a->ld + v * VL, tile[p][v], some, g->count);
#if RDT_INJECT
  const int64_t at = row->hit_x - x, c = row->hit_channel - g->channel;
  if (row->hit && a->hit_stored && at >= 0 && at < to.pixels && c >= 0 && c < g->count)
    rdt_kernel_hit_apply(row->hit, to.out + at * a->ld + c, RDT_F32);
#endif
  if (!check) return;
  __asm__ volatile("" : "+m"(raw) : : "memory");
  EACH(p, v) tile[p][v] = raw[p][v];
  evaluate(tile, a, &to, nv, some, g->count);
  I wrong = {0};
  EACH(p, v) if (p < to.pixels) wrong |= apart(tile[p][v], fetch(to.out + p * a->ld + v * VL, some, g->count));
  *differ |= wrong;
}

/* All rows of a group; false: the second evaluation is not what was stored. */
INLINE bool run_rows(const rdt_depthwise_area *a, const group *g, const int nv, const bool some, const bool check) {
  float lanes[2 * NR] = {0};
  I differ = {0};
  for (const rdt_depthwise_row *row = a->rows; row < a->rows + a->count; ++row) {
    for (int64_t tile = 0; tile < a->d->tiles; ++tile) run_tile(a, row, tile, g, nv, some, check, lanes, &differ);
    if (check && row->dot) flush(row, g, lanes);
  }
  int32_t any = 0;
  for (int i = 0; check && i < (some ? g->count : VL); ++i) any |= differ[i];
  return any == 0;
}

INLINE void run_groups(rdt_depthwise_area *a, const bool check) {
  bool good = true;
  group g = {0, 0};
  for (; g.channel < a->d->channels; g.channel += g.count) {
    const int64_t left = a->d->channels - g.channel;
    g.count = left >= NR ? NR : (int)least(left, VL);
    good &= g.count == NR   ? run_rows(a, &g, NV, false, check)
            : g.count == VL ? run_rows(a, &g, 1, false, check)
                            : run_rows(a, &g, 1, true, check);
  }
  if (!good) a->differ = true;
}

static void area(rdt_depthwise_area *a) {
  if (a->check)
    run_groups(a, true);
  else
    run_groups(a, false);
}

/* ---- the check ---- */

/* Alternating sums of the core of nv vectors, and squares: chains of 16, their tree, then one rounding each 64. */
INLINE void sum_core(const float *x, int64_t step, int64_t n, const int nv, const bool some, int count, V *dot, V *sq) {
  enum { BLOCK = 64 };
  for (int v = 0; v < nv; ++v) dot[v] = (V){0};
  while (n > 0) {
    const int64_t end = n < BLOCK ? n : BLOCK;
    V a[4][NV], q[2][NV];
    for (int i = 0; i < 4; ++i)
      for (int v = 0; v < nv; ++v) a[i][v] = q[i % 2][v] = (V){0};
    int64_t k = 0;
#pragma GCC unroll 1
    for (; k + 4 <= end; k += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < nv; ++v) {
          const V y = fetch(x + (k + i) * step + v * VL, some, count);
          a[i][v] = a[i][v] + y;
          q[i % 2][v] = MADD(y, y, q[i % 2][v]);
        }
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i)
      if (k + i < end)
        for (int v = 0; v < nv; ++v) {
          const V y = fetch(x + (k + i) * step + v * VL, some, count);
          a[i][v] = a[i][v] + y;
          q[i % 2][v] = MADD(y, y, q[i % 2][v]);
        }
    for (int v = 0; v < nv; ++v) {
      dot[v] = dot[v] + ((a[0][v] - a[1][v]) + (a[2][v] - a[3][v]));
      sq[v] = sq[v] + (q[0][v] + q[1][v]);
    }
    x += end * step;
    n -= end;
  }
}

/* Of one row and nv vectors of channels. Squares that several columns have apart from the core count several times. */
INLINE void sum_group(const rdt_depthwise *d, const float *x, const int nv, const bool some, int count, float *to) {
  const int64_t step = d->step;
  V sq[NV], most[NV];
  for (int v = 0; v < nv; ++v) sq[v] = most[v] = (V){0};
  for (int q = 0; q < d->cores; ++q) {
    V core[NV];
    sum_core(x + d->core[q].from * d->pixel, step, d->core[q].count, nv, some, count, core, sq);
    for (int64_t s = 0; s < d->kw; ++s) {
      const rdt_depthwise_column *c = &d->columns[s];
      V sum[NV];
      if (c->core != q) continue;
      for (int v = 0; v < nv; ++v) sum[v] = core[v] * spread(c->sign);
      for (int e = 0; e < 2; ++e) {
        const float *p = x + c->edge[e].from * d->pixel;
        V sign = spread(c->edge[e].sign);
        for (int64_t k = 0; k < c->edge[e].count; ++k, p += step, sign = -sign)
          for (int v = 0; v < nv; ++v) {
            const V y = fetch(p + v * VL, some, count);
            sum[v] = MADD(y, sign, sum[v]);
            sq[v] = MADD(y, y, sq[v]);
          }
      }
      for (int v = 0; v < nv; ++v) {
        store(to + s * d->padded + v * VL, sum[v]);
        most[v] = MAX(most[v], sum[v] * sum[v]);
      }
    }
  }
  for (int v = 0; v < nv; ++v) store(to + d->kw * d->padded + v * VL, MAX(most[v], sq[v])); /* NaN if sq is */
}

static void sums(const rdt_depthwise *d, const float *x, float *to) {
  int64_t c = 0;
  for (; c + NR <= d->channels; c += NR) sum_group(d, x + c, NV, false, VL, to + c);
  for (; c + VL <= d->channels; c += VL) sum_group(d, x + c, 1, false, VL, to + c);
  if (c < d->channels) sum_group(d, x + c, 1, true, (int)(d->channels - c), to + c);
}

enum { ABREAST = 4 };

/* A half of a vector in double. */
INLINE D wide(V x, const int half) {
#if defined(__FMA__) && !defined(__AVX512F__)
  return (D)_mm256_cvtps_pd(half ? _mm256_extractf128_ps((__m256)x, 1) : _mm256_castps256_ps128((__m256)x));
#else
  typedef float H __attribute__((vector_size(VL * 2)));
  H h;
  memcpy(&h, (const char *)&x + half * (int)sizeof h, sizeof h);
  return __builtin_convertvector(h, D);
#endif
}

/* Each row of the result is a chain of chains over the taps; rows are added in double, squares of a block in single.
 * Of nv vectors side by side, whose chains do not wait for each other. */
INLINE void expect_vectors(const rdt_depthwise *d, const float *const *rows, int64_t n, int64_t kh, const float *w,
                           const float *squares, int64_t c, const int nv, const bool some, int count, double *dot,
                           double *sq) {
  D total[ABREAST][2];
  V q[ABREAST];
  for (int v = 0; v < nv; ++v) total[v][0] = total[v][1] = (D){0}, q[v] = (V){0};
  for (int64_t y = 0; y < n; ++y) {
    V sum[ABREAST];
    for (int v = 0; v < nv; ++v) sum[v] = (V){0};
    for (int64_t r = 0; r < kh; ++r) {
      const float *t = rows[y * kh + r], *weight = w + r * d->kw * d->channels + c;
      if (!t) continue;
      t += c;
      V row[ABREAST];
      for (int v = 0; v < nv; ++v) row[v] = (V){0};
#pragma GCC unroll 1
      for (int64_t s = 0; s < d->kw; ++s, weight += d->channels, t += d->padded)
#pragma GCC unroll 4
        for (int v = 0; v < nv; ++v) row[v] = MADD(fetch(weight + v * VL, some, count), load(t + v * VL), row[v]);
      const float *square = squares + r * d->channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < nv; ++v) {
        sum[v] = sum[v] + row[v];
        q[v] = MADD(fetch(square + v * VL, some, count), load(t + v * VL), q[v]);
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < nv; ++v)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) total[v][h] = y % 2 ? total[v][h] - wide(sum[v], h) : total[v][h] + wide(sum[v], h);
  }
  for (int v = 0; v < nv; ++v) {
    const D all[2] = {wide(q[v], 0), wide(q[v], 1)};
    memcpy(dot + c + v * VL, total[v], (size_t)(some ? count : VL) * sizeof(double));
    memcpy(sq + c + v * VL, all, (size_t)(some ? count : VL) * sizeof(double));
  }
}

static void expect(const rdt_depthwise *d, const float *const *rows, int64_t n, const float *w, const float *squares,
                   double *dot, double *sq) {
  const int64_t kh = d->taps / d->kw;
  int64_t c = 0;
  for (; c + ABREAST * VL <= d->channels; c += ABREAST * VL)
    expect_vectors(d, rows, n, kh, w, squares, c, ABREAST, false, VL, dot, sq);
  for (; c + VL <= d->channels; c += VL) expect_vectors(d, rows, n, kh, w, squares, c, 1, false, VL, dot, sq);
  if (c < d->channels) expect_vectors(d, rows, n, kh, w, squares, c, 1, true, (int)(d->channels - c), dot, sq);
}

const rdt_depthwise_table DEPTHWISE_TABLE = {.lanes = VL, .cols = NR, .area = area, .sums = sums, .expect = expect};
