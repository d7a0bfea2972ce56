#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { A, B, C, BIAS, RESIDUAL, FACTOR };
const char *const gpu_data_name[GPU_DATA_COUNT] = {"normal", "positive", "relu", "heavy", "cancelling", "small"};

void gpu_die(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

void gpu_must(rdt_status s, const char *what, const rdt_reason *why) {
  if (s != RDT_OK) gpu_die(what, why->text);
}

bool gpu_daily(bool quick) {
  return quick && !getenv("RDT_WALK_ALL");
}

uint64_t gpu_random(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double gpu_normal(uint64_t *state) {
  const double u = ((double)(gpu_random(state) >> 11) + 0.5) * 0x1p-53, v = (double)(gpu_random(state) >> 11) * 0x1p-53;
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static double draw(gpu_data kind, int operand, int64_t row, uint64_t *seed) {
  const double x = gpu_normal(seed);
  switch (kind) {
    case GPU_POSITIVE:
      return fabs(x);
    case GPU_RELU:
      return operand == A ? fmax(x, 0.0) : 0.05 * x;
    case GPU_HEAVY:
      return x * exp2(2.0 * gpu_normal(seed));
    case GPU_CANCELLING: /* what the first half of k adds the second takes away, nearly */
      return operand == A ? 1.0 + 0.01 * x : row % 2 ? 1.0 + 0.01 * x : -1.0 - 0.01 * x;
    case GPU_SMALL: /* partly below fp16's normal range */
      return x * 0x1p-13;
    default:
      return x;
  }
}

static void *allocate(size_t bytes) {
  void *p = malloc(bytes + 1);
  if (!p) gpu_die("malloc", "out of memory");
  return p;
}

/* Rows of one operand, on both sides; the view lies on the device. */
static rdt_tensor operand(gpu_case *c, int which, const gpu_shape *s, rdt_dtype type, int64_t rows, int64_t columns) {
  const size_t size = rdt_dtype_info(type)->bytes;
  const int64_t pitch = (columns + 15) / 16 * 16 + s->gap;
  rdt_reason why = {""};
  c->skip[which] = (size_t)s->offset * size;
  c->bytes[which] = c->skip[which] + (size_t)(rows * pitch) * size;
  c->host[which] = allocate(c->bytes[which]);
  gpu_must(rdt_cuda_alloc(c->bytes[which], &c->device[which], &why), "operand", &why);
  rdt_tensor t = {.data = (char *)c->device[which] + c->skip[which], .dtype = type, .rank = 2};
  t.shape[0] = rows, t.shape[1] = columns, t.stride[0] = pitch, t.stride[1] = 1;
  return t;
}

/* What a type holds: 8-bit integers are drawn so that all of them occur. */
static double fitted(double x, rdt_dtype type) {
  return type == RDT_U8    ? fmin(255.0, rint(fabs(80.0 * x)))
         : type == RDT_S8  ? fmax(-128.0, fmin(127.0, rint(40.0 * x)))
         : type == RDT_S32 ? rint(1000.0 * x)
                           : x;
}

/* Of one list of lines, whichever operand they are of. */
static double alike(int64_t line, int64_t term) {
  enum { LINES = 4001 };
  uint64_t state = (uint64_t)(line % LINES) << 32 | (uint64_t)term;
  return gpu_normal(&state);
}

/* terms: its rows are those of the reduction. */
static void fill(gpu_case *c, int which, const rdt_tensor *t, gpu_data kind, bool terms, uint64_t *seed) {
  rdt_reason why = {""};
  char *host = (char *)c->host[which] + c->skip[which];
  const uint64_t base = gpu_random(seed);
  memset(c->host[which], 0xff, c->bytes[which]); /* NaN between the rows: nobody may read it */
#pragma omp parallel for
  for (int64_t i = 0; i < t->shape[0]; i++) {
    uint64_t mine = base + (uint64_t)i * 0x9e3779b97f4a7c15u;
    mine = gpu_random(&mine);
    for (int64_t j = 0; j < t->shape[1]; j++)
      rdt_store(host, t->dtype, i * t->stride[0] + j,
                fitted(kind != GPU_ALIKE ? draw(kind, which, i, &mine)
                       : terms           ? alike(j, i)
                                         : alike(i, j),
                       t->dtype));
  }
  gpu_must(rdt_cuda_put(c->device[which], c->host[which], c->bytes[which], NULL, &why), "operand", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "operand", &why);
}

/* What tensor cores take of an f32. */
static double upper(double x) {
  union {
    float value;
    uint32_t bits;
  } f = {.value = (float)x};
  f.bits &= 0xffffe000u;
  return (double)f.value;
}

static double *wide(const gpu_case *c, int which, const rdt_tensor *t, int batch, bool tf32) {
  const int d = t->rank - 2;
  const int64_t rows = t->shape[d], columns = t->shape[d + 1], first = d ? batch * t->stride[0] : 0;
  double *x = allocate((size_t)(rows * columns) * sizeof *x);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      const double v =
          rdt_load((char *)c->host[which] + c->skip[which], t->dtype, first + i * t->stride[d] + j * t->stride[d + 1]);
      x[i * columns + j] = tf32 ? upper(v) : v;
    }
  return x;
}

static bool is_byte(rdt_dtype t) {
  return t == RDT_S8 || t == RDT_U8;
}

/* What rdt_problem.h says of it: the sum and the product in f32, halves to even. */
static double requantized(const gpu_case *c, double sum, int64_t column) {
  const rdt_epilogue *e = &c->epilogue;
  float x = (float)sum;
  if (e->bias.rank >= 0) x = x + (float)rdt_load((char *)c->host[BIAS] + c->skip[BIAS], RDT_S32, column);
  x = x * (float)rdt_load((char *)c->host[FACTOR] + c->skip[FACTOR], RDT_F32, column * e->factor.stride[0]);
  const double least = c->p.out.dtype == RDT_S8 ? -128.0 : 0.0, y = rint((double)x) + e->zero;
  return fmax(least, fmin(least + 255.0, y));
}

static void compute(gpu_case *c, const gpu_shape *s, int batch) {
  const int64_t m = s->m, n = s->n, k = s->k;
  double *a = wide(c, A, &c->in[0], batch, s->tf32), *b = wide(c, B, &c->in[1], batch, s->tf32);
#pragma omp parallel for
  for (int64_t i = 0; i < m; i++) {
    const int64_t row = batch * m + i;
    double *x = c->exact + row * n, *y = c->magnitude + row * n;
    for (int64_t j = 0; j < n; j++) x[j] = y[j] = 0.0;
    for (int64_t t = 0; t < k; t++) {
      const double v = a[i * k + t];
      for (int64_t j = 0; j < n; j++) {
        x[j] += v * b[t * n + j];
        y[j] += fabs(v) * fabs(b[t * n + j]);
      }
    }
    for (int64_t j = 0; j < n; j++) {
      const rdt_tensor *r = &c->epilogue.residual, *bias = &c->epilogue.bias;
      x[j] *= s->alpha, y[j] *= fabs(s->alpha);
      double more[2] = {0.0, 0.0};
      if (is_byte(s->out)) {
        x[j] = requantized(c, x[j], j), y[j] = 0.0;
        continue;
      }
      if (s->bias) more[0] = rdt_load((char *)c->host[BIAS] + c->skip[BIAS], bias->dtype, j);
      if (s->residual)
        more[1] = s->beta *
                  rdt_load((char *)c->host[RESIDUAL] + c->skip[RESIDUAL], r->dtype, row * r->stride[r->rank - 2] + j);
      x[j] += more[0] + more[1];
      if (s->relu) x[j] = fmax(x[j], 0.0);
      if (s->gelu) x[j] = 0.5 * x[j] * (1.0 + erf(x[j] * 0.70710678118654752));
      y[j] += fabs(more[0]) + fabs(more[1]);
    }
  }
  free(a), free(b);
}

/* What a problem says of matrices that lie one below the other; same: there is one. */
static rdt_tensor batched(rdt_tensor t, int batches, bool same, bool columns) {
  const int64_t rows = t.shape[0] / (same ? 1 : batches);
  const int d = batches > 1;
  rdt_tensor b = t;
  if (d) b.rank = 3, b.shape[0] = batches, b.stride[0] = same ? 0 : rows * t.stride[0];
  b.shape[d + columns] = rows, b.stride[d + columns] = t.stride[0];
  b.shape[d + !columns] = t.shape[1], b.stride[d + !columns] = 1;
  return b;
}

void gpu_case_make(gpu_case *c, const gpu_shape *s, uint64_t *seed, bool exact) {
  rdt_reason why = {""};
  const int n = s->batches > 1 ? s->batches : 1, n_b = s->same_b ? 1 : n;
  *c = (gpu_case){.epilogue = RDT_EPILOGUE_NONE, .m = s->m, .k = s->k, .batches = n};
  gpu_must(rdt_problem_init(&c->p, RDT_KOP_GEMM, 2), "problem", &why);
  c->in[0] = operand(c, A, s, s->in, n * (s->a_columns ? s->k : s->m), s->a_columns ? s->m : s->k);
  const rdt_dtype weights = s->in == RDT_U8 ? RDT_S8 : s->in;
  c->in[1] = operand(c, B, s, weights, n_b * (s->columns ? s->n : s->k), s->columns ? s->k : s->n);
  fill(c, A, &c->in[0], s->data, s->a_columns, seed);
  fill(c, B, &c->in[1], s->data, !s->columns, seed);
  c->in[0] = batched(c->in[0], n, false, s->a_columns), c->in[1] = batched(c->in[1], n, s->same_b, s->columns);
  c->all = operand(c, C, s, s->out, n * s->m, s->n);
  c->p.out = batched(c->all, n, false, false);
  if (s->relu) c->epilogue.act.fn = RDT_FN_RELU;
  if (s->gelu) c->epilogue.act.fn = RDT_FN_GELU;
  c->epilogue.alpha = s->alpha, c->epilogue.beta = s->beta;
  if (s->bias) {
    rdt_tensor t = operand(c, BIAS, s, is_byte(s->out) ? RDT_S32 : s->out, 1, s->n);
    fill(c, BIAS, &t, GPU_NORMAL, false, seed);
    t.rank = 1, t.shape[0] = s->n, t.stride[0] = 1;
    c->epilogue.bias = t;
  }
  if (s->residual) {
    const rdt_tensor t = operand(c, RESIDUAL, s, s->out, n * s->m, s->n);
    fill(c, RESIDUAL, &t, GPU_NORMAL, false, seed);
    c->epilogue.residual = batched(t, n, false, false);
  }
  if (is_byte(s->out)) { /* such that few results are cut off */
    rdt_tensor t = operand(c, FACTOR, s, RDT_F32, 1, s->n);
    fill(c, FACTOR, &t, GPU_NORMAL, false, seed);
    float *factors = (float *)((char *)c->host[FACTOR] + c->skip[FACTOR]);
    for (int j = 0; j < s->n; j++) factors[j] *= 0.03f / sqrtf((float)s->k);
    gpu_must(rdt_cuda_put(c->device[FACTOR], c->host[FACTOR], c->bytes[FACTOR], NULL, &why), "operand", &why);
    gpu_must(rdt_cuda_wait(NULL, &why), "operand", &why);
    t.rank = 1, t.shape[0] = s->n, t.stride[0] = s->same_b ? 0 : 1; /* one for all, sometimes */
    c->epilogue.factor = t, c->epilogue.zero = s->out == RDT_S8 ? -3 : 120;
  }
  c->p.in[0] = c->in[0], c->p.in[1] = c->in[1];
  c->p.acc = s->in == RDT_S8 || s->in == RDT_U8 ? RDT_S32 : s->in == RDT_F64 ? RDT_F64 : RDT_F32;
  c->p.epilogue = c->epilogue;
  c->o = (rdt_operands){.in = c->in, .n_in = 2, .out = c->p.out, .epilogue = &c->epilogue};
  if (!exact) return;
  c->exact = allocate((size_t)(n * s->m * s->n) * sizeof(double));
  c->magnitude = allocate((size_t)(n * s->m * s->n) * sizeof(double));
  for (int batch = 0; batch < n; batch++) compute(c, s, batch);
}

void gpu_case_poison(gpu_case *c) {
  rdt_reason why = {""};
  memset(c->host[C], 0xff, c->bytes[C]);
  gpu_must(rdt_cuda_put(c->device[C], c->host[C], c->bytes[C], NULL, &why), "poison", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "poison", &why);
}

void gpu_case_fetch(gpu_case *c) {
  rdt_reason why = {""};
  gpu_must(rdt_cuda_get(c->host[C], c->device[C], c->bytes[C], NULL, &why), "the kernel", &why);
}

bool gpu_case_gaps_kept(const gpu_case *c) {
  const rdt_tensor *t = &c->all;
  const size_t size = rdt_dtype_info(t->dtype)->bytes;
  const unsigned char *bytes = c->host[C];
  for (size_t i = 0; i < c->skip[C]; i++)
    if (bytes[i] != 0xff) return false;
  for (int64_t i = 0; i < t->shape[0]; i++)
    for (size_t j = (size_t)t->shape[1] * size; j < (size_t)t->stride[0] * size; j++)
      if (bytes[c->skip[C] + (size_t)(i * t->stride[0]) * size + j] != 0xff) return false;
  return true;
}

double gpu_case_value(const gpu_case *c, int64_t i, int64_t j) {
  return rdt_load((char *)c->host[C] + c->skip[C], c->all.dtype, i * c->all.stride[0] + j);
}

void gpu_case_free(gpu_case *c) {
  for (int i = 0; i < 6; i++) free(c->host[i]), rdt_cuda_free(c->device[i]);
  free(c->exact), free(c->magnitude);
  rdt_problem_clear(&c->p);
}
