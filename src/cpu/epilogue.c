#include "cpu/epilogue.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/cpu_info.h"

/* A line is at most this long: raw, residual, bias and result of one line stay in the first-level cache. */
enum { LINE_MAX = 1024 };

typedef struct operand { /* one view, its axes permuted as the nest's */
  const rdt_tensor *t;
  int64_t stride[RDT_MAX_RANK];
} operand;

enum { RAW, OUT, RESIDUAL, OPERANDS };

/* The views as loops: axes in order of out's memory, merged where all views allow it; the last one is the line. */
typedef struct nest {
  const rdt_epilogue *e;
  rdt_dtype acc;
  int rank;
  int64_t shape[RDT_MAX_RANK];
  operand op[OPERANDS];
  int64_t bias_stride[RDT_MAX_RANK]; /* channels from element to element: 0 or 1 */
  int64_t period;                    /* > 0: channels repeat along the merged line with this period */
  int64_t lines, chunk, chunks;
} nest;

static void *address(const rdt_tensor *t, int64_t offset) {
  return (char *)t->data + offset * (int64_t)rdt_dtype_size(t->dtype);
}

static const rdt_epilogue_table *best_table(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return &rdt_epilogue_avx512;
    case RDT_ISA_AVX2:
      return &rdt_epilogue_avx2;
    default:
      break;
  }
#endif
  return &rdt_epilogue_generic;
}

/* Asked for by every row of a check: looked up once. */
static const rdt_epilogue_table *table(void) {
  static _Atomic(const rdt_epilogue_table *) best; /* any thread finds the same */
  const rdt_epilogue_table *t = atomic_load_explicit(&best, memory_order_relaxed);
  if (!t) atomic_store_explicit(&best, t = best_table(), memory_order_relaxed);
  return t;
}

/* Can axis i absorb axis i + 1? */
static bool mergeable(const nest *n, int i) {
  const int64_t len = n->shape[i + 1];
  for (int v = 0; v < OPERANDS; ++v)
    if (n->op[v].t && n->op[v].stride[i] != n->op[v].stride[i + 1] * len) return false;
  return true;
}

static void merge(nest *n, int i) {
  n->shape[i] *= n->shape[i + 1];
  for (int a = i; a + 1 < n->rank; ++a) {
    if (a > i) n->shape[a] = n->shape[a + 1];
    for (int v = 0; v < OPERANDS; ++v) n->op[v].stride[a] = n->op[v].stride[a + 1];
    n->bias_stride[a] = n->bias_stride[a + 1];
  }
  n->rank--;
}

/* Axes of more than one element, longest stride first. */
static int sort_axes(const rdt_tensor *t, int *order) {
  int rank = 0;
  for (int a = 0; a < t->rank; ++a) {
    if (t->shape[a] == 1) continue;
    int at = rank++;
    for (; at > 0 && t->stride[order[at - 1]] < t->stride[a]; --at) order[at] = order[at - 1];
    order[at] = a;
  }
  return rank;
}

/* Row-major logical index of the element at this offset of an output (positive strides, no overlap). */
static int64_t logical_index(const rdt_tensor *t, int64_t offset) {
  int order[RDT_MAX_RANK];
  int64_t index[RDT_MAX_RANK] = {0}, logical = 0;
  const int rank = sort_axes(t, order);
  for (int i = 0; i < rank; ++i) {
    index[order[i]] = offset / t->stride[order[i]];
    offset %= t->stride[order[i]];
  }
  for (int a = 0; a < t->rank; ++a) logical = logical * t->shape[a] + index[a];
  return logical;
}

static void nest_axes(nest *n, int channel) {
  const rdt_tensor *out = n->op[OUT].t;
  int order[RDT_MAX_RANK];
  const int rank = sort_axes(out, order);
  n->rank = rank;
  for (int i = 0; i < rank; ++i) {
    const int a = order[i];
    n->shape[i] = out->shape[a];
    n->bias_stride[i] = (n->e->bias.rank >= 0 || n->e->factor.rank >= 0) && a == channel;
    for (int v = 0; v < OPERANDS; ++v) n->op[v].stride[i] = n->op[v].t ? n->op[v].t->stride[a] : 0;
  }
  if (rank == 0) { /* a scalar */
    n->rank = 1;
    n->shape[0] = 1;
    n->bias_stride[0] = 0;
    for (int v = 0; v < OPERANDS; ++v) n->op[v].stride[0] = 1;
  }
}

static nest nest_make(const rdt_epilogue *e, const rdt_tensor *raw, const rdt_tensor *out, int channel) {
  nest n = {.e = e};
  n.acc = raw->dtype == RDT_S32 && out->dtype != RDT_S32 ? RDT_F32 : raw->dtype;
  n.op[RAW].t = raw;
  n.op[OUT].t = out;
  n.op[RESIDUAL].t = e->residual.rank >= 0 ? &e->residual : NULL;
  nest_axes(&n, channel);
  for (int i = n.rank - 2; i >= 0; --i)
    if (n.bias_stride[i] == 0 && n.bias_stride[i + 1] == 0 && mergeable(&n, i)) merge(&n, i);
  const int64_t inner = n.shape[n.rank - 1];
  n.chunk = LINE_MAX;
  if (n.rank > 1 && n.bias_stride[n.rank - 1] && inner > 0 && inner <= LINE_MAX / 2 && mergeable(&n, n.rank - 2)) {
    n.period = inner; /* short lines of channels: several of them make one line, with the bias repeated */
    n.chunk = LINE_MAX / inner * inner;
    merge(&n, n.rank - 2);
  }
  n.lines = 1;
  for (int i = 0; i + 1 < n.rank; ++i) n.lines *= n.shape[i];
  n.chunks = (n.shape[n.rank - 1] + n.chunk - 1) / n.chunk;
  return n;
}

/* Values of a strided line as the accumulator's type: in place where they lie so, else gathered into buf. */
static const void *fetch(const rdt_tensor *t, rdt_dtype acc, int64_t offset, int64_t stride, int64_t n, void *buf) {
  if (t->dtype == acc && stride == 1) return address(t, offset);
  if (acc == RDT_F64) {
    for (int64_t i = 0; i < n; ++i) ((double *)buf)[i] = rdt_load(t->data, t->dtype, offset + i * stride);
  } else if (acc == RDT_S32) {
    for (int64_t i = 0; i < n; ++i)
      ((uint32_t *)buf)[i] = (uint32_t)(int64_t)rdt_load(t->data, t->dtype, offset + i * stride);
  } else if (t->dtype == RDT_F32) {
    const float *x = (const float *)t->data + offset;
    for (int64_t i = 0; i < n; ++i) ((float *)buf)[i] = x[i * stride];
  } else if (t->dtype == RDT_BF16) {
    const uint16_t *x = (const uint16_t *)t->data + offset;
    for (int64_t i = 0; i < n; ++i) ((float *)buf)[i] = rdt_bf16_to_f32(x[i * stride]);
  } else {
    for (int64_t i = 0; i < n; ++i) ((float *)buf)[i] = (float)rdt_load(t->data, t->dtype, offset + i * stride);
  }
  return buf;
}

/* Rounds a line of accumulators to the output's dtype, dense. */
static void convert(void *dst, rdt_dtype to, const void *acc, rdt_dtype from, int64_t n) {
  if (to == RDT_BF16 && from == RDT_F32)
    for (int64_t i = 0; i < n; ++i) ((uint16_t *)dst)[i] = rdt_f32_to_bf16(((const float *)acc)[i]);
  else if (to == RDT_F16 && from == RDT_F32)
    for (int64_t i = 0; i < n; ++i) ((uint16_t *)dst)[i] = rdt_f32_to_f16(((const float *)acc)[i]);
  else
    for (int64_t i = 0; i < n; ++i) rdt_store(dst, to, i, rdt_load(acc, from, i));
}

typedef struct work { /* of one thread */
  _Alignas(64) double raw[LINE_MAX];
  double bias[LINE_MAX], residual[LINE_MAX], result[LINE_MAX], rounded[LINE_MAX];
  bool bias_ready;
} work;

/* Where a line begins in each view, and how long it is. */
typedef struct place {
  int64_t offset[OPERANDS], bias, n;
} place;

static place place_of(const nest *n, int64_t unit) {
  place p = {{0}, 0, 0};
  const int last = n->rank - 1;
  const int64_t begin = unit % n->chunks * n->chunk;
  int64_t line = unit / n->chunks, index = begin;
  for (int a = last; a >= 0; --a) {
    if (a < last) {
      index = line % n->shape[a];
      line /= n->shape[a];
    }
    for (int v = 0; v < OPERANDS; ++v) p.offset[v] += index * n->op[v].stride[a];
    if (!n->period) p.bias += index * n->bias_stride[a];
  }
  p.n = n->shape[last] - begin < n->chunk ? n->shape[last] - begin : n->chunk;
  return p;
}

static const void *line_bias(const nest *n, const place *p, work *w, bool *scalar) {
  const rdt_tensor *bias = &n->e->bias;
  const int64_t stride = n->bias_stride[n->rank - 1] * bias->stride[0];
  *scalar = stride == 0;
  if (bias->rank < 0) return NULL;
  if (!n->period)
    return fetch(bias, n->acc, p->bias * bias->stride[0], stride ? stride : 1, stride ? p->n : 1, w->bias);
  if (!w->bias_ready) { /* repeated once: the same for every line */
    const size_t bytes = (size_t)n->period * rdt_dtype_size(n->acc);
    const void *one = fetch(bias, n->acc, 0, stride, n->period, w->bias);
    if (one != w->bias) memcpy(w->bias, one, bytes);
    for (int64_t i = 1; i < n->chunk / n->period; ++i) memcpy((char *)w->bias + (size_t)i * bytes, w->bias, bytes);
    w->bias_ready = true;
  }
  return w->bias;
}

static rdt_epilogue_line line_of(const nest *n, const place *p, work *w, void *dst) {
  const int last = n->rank - 1;
  rdt_epilogue_line l = {.n = p->n, .act = &n->e->act, .alpha = n->e->alpha, .beta = n->e->beta, .dst = dst};
  l.raw = fetch(n->op[RAW].t, n->acc, p->offset[RAW], n->op[RAW].stride[last], p->n, w->raw);
  l.bias = line_bias(n, p, w, &l.bias_scalar);
  if (n->op[RESIDUAL].t)
    l.residual = fetch(n->op[RESIDUAL].t, n->acc, p->offset[RESIDUAL], n->op[RESIDUAL].stride[last], p->n, w->residual);
  return l;
}

/* Runs of one channel, or of channels that follow each other. */
static void requantize(const nest *n, const place *p, const float *x, void *dst) {
  const rdt_tensor *f = &n->e->factor;
  const int64_t along = n->bias_stride[n->rank - 1] * f->stride[0];
  const rdt_dtype to = n->op[OUT].t->dtype;
  float factors[LINE_MAX];
  for (int64_t i = 0; i < p->n; ++i) {
    const int64_t channel = n->period ? i % n->period : p->bias;
    factors[i] = ((const float *)f->data)[n->period ? channel * f->stride[0] : channel * f->stride[0] + i * along];
  }
  rdt_requantize(x, factors, p->n, n->e->zero, to, dst);
}

/* Computes one line; returns it dense in out's dtype: at direct where that is given, else in w. */
static const void *line_compute(const nest *n, const place *p, const rdt_epilogue_table *t, work *w, void *direct) {
  const rdt_dtype to = n->op[OUT].t->dtype;
  const rdt_epilogue_line l = line_of(n, p, w, to == n->acc && direct ? direct : w->result);
  (n->acc == RDT_F64 ? t->f64 : n->acc == RDT_S32 ? t->s32 : t->f32)(&l);
  if (to == n->acc) return l.dst;
  void *rounded = direct ? direct : w->rounded;
  if (n->e->factor.rank >= 0)
    requantize(n, p, l.dst, rounded);
  else
    convert(rounded, to, l.dst, n->acc, p->n);
  return rounded;
}

static void copy_element(void *dst, int64_t d, const void *src, int64_t s, size_t size) {
  memcpy((char *)dst + d * (int64_t)size, (const char *)src + s * (int64_t)size, size);
}

static void line_apply(const nest *n, int64_t unit, const rdt_epilogue_table *t, work *w) {
  const place p = place_of(n, unit);
  const rdt_tensor *out = n->op[OUT].t;
  const int64_t stride = n->op[OUT].stride[n->rank - 1];
  void *direct = stride == 1 ? address(out, p.offset[OUT]) : NULL;
  const void *result = line_compute(n, &p, t, w, direct);
  if (direct) return;
  for (int64_t i = 0; i < p.n; ++i)
    copy_element(out->data, p.offset[OUT] + i * stride, result, i, rdt_dtype_size(out->dtype));
}

/* What one thread found. */
typedef struct verified {
  int64_t different, first;
  uint64_t bitsum;
} verified;

static void line_verify(const nest *n, int64_t unit, const rdt_epilogue_table *t, work *w, bool sums, verified *v) {
  const place p = place_of(n, unit);
  const rdt_tensor *out = n->op[OUT].t;
  const int64_t stride = n->op[OUT].stride[n->rank - 1], size = (int64_t)rdt_dtype_size(out->dtype);
  const char *is = address(out, p.offset[OUT]);
  if (sums) v->bitsum += rdt_bitsum_part(out->data, (size_t)(p.offset[OUT] * size), (size_t)(p.n * size));
  if (stride == 1 && n->acc == RDT_F32 && out->dtype == RDT_F32) {
    const rdt_epilogue_line l = line_of(n, &p, w, NULL);
    if (t->same_f32(&l, is)) return;
  }
  const char *should = line_compute(n, &p, t, w, NULL);
  if (stride == 1 && memcmp(is, should, (size_t)(p.n * size)) == 0) return;
  for (int64_t i = 0; i < p.n; ++i) {
    if (memcmp(is + i * stride * size, should + i * size, (size_t)size) == 0) continue;
    const int64_t at = logical_index(out, p.offset[OUT] + i * stride);
    if (v->first < 0 || at < v->first) v->first = at;
    ++v->different;
  }
}

static int team(const nest *n, int threads) {
  const int64_t units = n->lines * n->chunks;
  return threads < 1 ? 1 : threads > units ? (int)units : threads;
}

static void apply_lines(const nest *n, int64_t part, int64_t parts) {
  const int64_t units = n->lines * n->chunks;
  const rdt_epilogue_table *t = table();
  work w;
  w.bias_ready = false;
  for (int64_t u = units * part / parts; u < units * (part + 1) / parts; ++u) line_apply(n, u, t, &w);
}

void rdt_epilogue_apply(const rdt_epilogue *e, const rdt_tensor *raw, const rdt_tensor *out, int channel, int threads) {
  if (rdt_tensor_count(out) <= 0) return;
  const nest n = nest_make(e, raw, out, channel);
  const int size = team(&n, threads);
  if (size == 1) { /* also inside of the callers' own parallel passes */
    apply_lines(&n, 0, 1);
    return;
  }
#pragma omp parallel num_threads(size)
  apply_lines(&n, omp_get_thread_num(), omp_get_num_threads());
}

bool rdt_epilogue_sums(const rdt_tensor *out) {
  return rdt_tensor_is_packed(out);
}

int64_t rdt_epilogue_verify(const rdt_epilogue *e, const rdt_tensor *raw, const rdt_tensor *out, int channel,
                            int threads, int64_t *first, uint64_t *bitsum) {
  verified all = {.first = -1};
  const bool sums = bitsum && rdt_epilogue_sums(out);
  if (rdt_tensor_count(out) > 0) {
    const nest n = nest_make(e, raw, out, channel);
    const rdt_epilogue_table *t = table();
    const int64_t units = n.lines * n.chunks;
#pragma omp parallel num_threads(team(&n, threads)) if (team(&n, threads) > 1)
    {
      work w;
      w.bias_ready = false;
      const int64_t parts = omp_get_num_threads(), part = (omp_get_thread_num() + 1) % parts; /* the neighbour's part */
      verified mine = {.first = -1};
      for (int64_t u = units * part / parts; u < units * (part + 1) / parts; ++u)
        line_verify(&n, u, t, &w, sums, &mine);
#pragma omp critical(rdt_epilogue)
      {
        all.different += mine.different;
        all.bitsum += mine.bitsum;
        if (mine.first >= 0 && (all.first < 0 || mine.first < all.first)) all.first = mine.first;
      }
    }
  }
  *first = all.first;
  if (bitsum) *bitsum = all.bitsum;
  return all.different;
}
