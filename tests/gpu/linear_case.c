#include "linear_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/linear.h"
#include "gpu.h"

static size_t bytes_of(const rdt_tensor *t) {
  int64_t last = 0;
  for (int d = 0; d < t->rank; d++) last += (t->shape[d] - 1) * t->stride[d];
  return (size_t)(last + 1) * rdt_dtype_size(t->dtype);
}

void linear_put(linear_case *c, int which) {
  rdt_reason why;
  gpu_must(rdt_cuda_put(c->t[which].data, c->host[which], c->bytes[which], c->stream, &why), "operand", &why);
  gpu_must(rdt_cuda_wait(c->stream, &why), "operand", &why);
}

void linear_add(linear_case *c, int which, rdt_tensor t, double scale, uint64_t *seed) {
  rdt_reason why;
  c->bytes[which] = bytes_of(&t);
  c->host[which] = malloc(c->bytes[which]);
  if (!c->host[which]) gpu_die("malloc", "out of memory");
  gpu_must(rdt_cuda_alloc(c->bytes[which], &t.data, &why), "operand", &why);
  memset(c->host[which], 0xff, c->bytes[which]); /* NaN between rows: nobody may read it */
  if (which != OUT) {
    rdt_iter it = rdt_iter_begin(&t);
    while (rdt_iter_next(&it)) rdt_store(c->host[which], t.dtype, it.offset, scale * gpu_normal(seed));
  }
  c->t[which] = t;
  linear_put(c, which);
}

double linear_at(const linear_case *c, int which, int64_t offset) {
  return rdt_load(c->host[which], c->t[which].dtype, offset);
}

static double act(const rdt_act *a, double x) {
  const double p = a->param[0], q = a->param[1];
  switch (a->fn) {
    case RDT_FN_RELU:
      return x < 0 ? 0 : x;
    case RDT_FN_CLIP:
      return fmin(fmax(x, p), q);
    case RDT_FN_GELU:
      return 0.5 * x * erfc(-x / sqrt(2.0));
    case RDT_FN_GELU_TANH:
      return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
    case RDT_FN_SIGMOID:
      return 1 / (1 + exp(-x));
    case RDT_FN_SILU:
      return x / (1 + exp(-x));
    case RDT_FN_HARDSWISH:
      return x * fmin(fmax(p * x + q, 0), 1);
    case RDT_FN_TANH:
      return tanh(x);
    case RDT_FN_LEAKYRELU:
      return x < 0 ? p * x : x;
    default:
      return x;
  }
}

/* Raw result and sum of magnitudes of the element with these indices. */
static void raw_gemm(const linear_case *c, const int64_t *i, double *x, double *y) {
  const int r = c->p.out.rank;
  int64_t a = i[r - 2] * c->t[IN].stride[r - 2], b = i[r - 1] * c->t[WEIGHTS].stride[r - 1];
  for (int d = 0; d < r - 2; d++) a += i[d] * c->t[IN].stride[d], b += i[d] * c->t[WEIGHTS].stride[d];
  for (int64_t t = 0; t < c->t[IN].shape[r - 1]; t++) {
    const double v =
        linear_at(c, IN, a + t * c->t[IN].stride[r - 1]) * linear_at(c, WEIGHTS, b + t * c->t[WEIGHTS].stride[r - 2]);
    *x += v, *y += fabs(v);
  }
}

static void raw_conv(const linear_case *c, const int64_t *i, double *x, double *y) {
  const rdt_tensor *in = &c->t[IN], *w = &c->t[WEIGHTS];
  const rdt_window *win = &c->p.window;
  const int dims = in->rank - 2;
  const int64_t share = w->shape[1], group = i[1] / (w->shape[0] / win->groups);
  int64_t taps = 1;
  for (int d = 0; d < dims; d++) taps *= w->shape[2 + d];
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t rest = tap, from = i[0] * in->stride[0], weight = i[1] * w->stride[0];
    bool inside = true;
    for (int d = dims - 1; d >= 0; d--) {
      const int64_t k = rest % w->shape[2 + d], h = i[2 + d] * win->stride[d] + k * win->dilation[d] - win->before[d];
      rest /= w->shape[2 + d];
      inside = inside && h >= 0 && h < in->shape[2 + d];
      from += h * in->stride[2 + d], weight += k * w->stride[2 + d];
    }
    for (int64_t ch = 0; inside && ch < share; ch++) {
      const double v = linear_at(c, IN, from + (group * share + ch) * in->stride[1]) *
                       linear_at(c, WEIGHTS, weight + ch * w->stride[1]);
      *x += v, *y += fabs(v);
    }
  }
}

void linear_compute(linear_case *c) {
  const rdt_tensor *out = &c->t[OUT];
  const int64_t count = rdt_tensor_count(out);
  const int channel = rdt_problem_channel(&c->p);
  const rdt_epilogue *e = &c->p.epilogue;
  c->exact = malloc((size_t)count * sizeof(double)), c->magnitude = malloc((size_t)count * sizeof(double));
  if (!c->exact || !c->magnitude) gpu_die("malloc", "out of memory");
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t n = 0; n < count; n++) {
    int64_t index[RDT_MAX_RANK], rest = n, residual = 0;
    double x = 0.0, y = 0.0;
    for (int d = out->rank - 1; d >= 0; d--) index[d] = rest % out->shape[d], rest /= out->shape[d];
    if (c->p.op == RDT_KOP_CONV)
      raw_conv(c, index, &x, &y);
    else
      raw_gemm(c, index, &x, &y);
    x *= e->alpha, y *= fabs(e->alpha);
    double more[2] = {0.0, 0.0};
    if (e->bias.rank >= 0) more[0] = linear_at(c, BIAS, index[channel]);
    for (int d = 0; d < out->rank && e->residual.rank >= 0; d++) residual += index[d] * e->residual.stride[d];
    if (e->residual.rank >= 0) more[1] = e->beta * linear_at(c, RESIDUAL, residual);
    c->exact[n] = act(&e->act, x + more[0] + more[1]);
    c->magnitude[n] = y + fabs(more[0]) + fabs(more[1]);
  }
}

void linear_ready(linear_case *c, rdt_kop op, double alpha, double beta, rdt_act a) {
  rdt_reason why;
  const rdt_window window = c->p.window;
  gpu_must(rdt_problem_init(&c->p, op, 2), "problem", &why);
  c->p.window = window;
  c->p.in[0] = c->t[IN], c->p.in[1] = c->t[WEIGHTS], c->p.out = c->t[OUT];
  c->p.acc = rdt_dtype_accumulator(c->t[IN].dtype);
  c->p.epilogue = (rdt_epilogue){.alpha = alpha,
                                 .beta = c->t[RESIDUAL].rank >= 0 ? beta : 0.0,
                                 .act = a,
                                 .bias = c->t[BIAS],
                                 .residual = c->t[RESIDUAL],
                                 .factor = {.rank = -1}};
  c->o = (rdt_operands){.in = c->t, .n_in = 2, .out = c->t[OUT], .epilogue = &c->p.epilogue};
  gpu_must(rdt_problem_check(&c->p, &why), "case", &why);
}

void linear_free(linear_case *c) {
  for (int i = 0; i < OPERANDS; i++)
    if (c->host[i]) free(c->host[i]), rdt_cuda_free(c->t[i].data);
  free(c->exact), free(c->magnitude);
  rdt_problem_clear(&c->p);
}
