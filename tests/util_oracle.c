#include <math.h>

#include "util_problem.h"

static double at(const rdt_tensor *t, const int64_t *index) {
  int64_t offset = 0;
  for (int d = 0; d < t->rank; d++) offset += index[d] * t->stride[d];
  return rdt_load(t->data, t->dtype, offset);
}

static double gemm(const rdt_problem *p, const int64_t *i, double *scale) {
  const rdt_tensor *x = &p->in[0], *y = &p->in[1];
  const int row = p->out.rank - 2, col = p->out.rank - 1;
  int64_t a = 0, b = 0;
  double sum = 0;
  for (int d = 0; d <= col; d++) {
    if (d != col) a += i[d] * x->stride[d];
    if (d != row) b += i[d] * y->stride[d];
  }
  for (int64_t k = 0; k < x->shape[col]; k++) {
    const double product = rdt_load(x->data, x->dtype, a) * rdt_load(y->data, y->dtype, b);
    sum += product;
    *scale += fabs(product);
    a += x->stride[col];
    b += y->stride[row];
  }
  return sum;
}

/* Where tap number `tap` (row-major) of the window of output i falls in x: false outside the image; *padded: within it
 * and its padding. */
static bool inside(const rdt_problem *p, const int64_t *i, int64_t tap, int64_t *x, bool *padded) {
  const rdt_window *w = &p->window;
  bool in = true;
  *padded = true;
  for (int d = p->out.rank - 1; d >= 2; d--) {
    x[d] = i[d] * w->stride[d - 2] + tap % w->kernel[d - 2] * w->dilation[d - 2] - w->before[d - 2];
    tap /= w->kernel[d - 2];
    in = in && x[d] >= 0 && x[d] < p->in[0].shape[d];
    *padded = *padded && x[d] < p->in[0].shape[d] + w->after[d - 2];
  }
  return in;
}

static int64_t taps_of(const rdt_problem *p) {
  int64_t taps = 1;
  for (int d = 2; d < p->out.rank; d++) taps *= p->window.kernel[d - 2];
  return taps;
}

static double conv(const rdt_problem *p, const int64_t *i, double *scale) {
  const rdt_tensor *f = &p->in[1];
  const int64_t group = i[1] / (f->shape[0] / p->window.groups), taps = taps_of(p);
  int64_t x[RDT_MAX_RANK] = {i[0]}, k[RDT_MAX_RANK] = {i[1]};
  double sum = 0;
  bool padded;
  for (int64_t c = 0; c < f->shape[1]; c++) {
    x[1] = group * f->shape[1] + c;
    k[1] = c;
    for (int64_t t = 0; t < taps; t++) {
      if (!inside(p, i, t, x, &padded)) continue;
      for (int64_t d = f->rank - 1, left = t; d >= 2; left /= f->shape[d--]) k[d] = left % f->shape[d];
      const double product = at(&p->in[0], x) * at(f, k);
      sum += product;
      *scale += fabs(product);
    }
  }
  return sum;
}

/* The place of x among all elements; with columns, that within its channel by columns. */
static double position_of(const rdt_tensor *t, const int64_t *x, bool columns) {
  int64_t pixels = 1, number = 0, step = 1;
  for (int d = 2; d < t->rank; d++) pixels *= t->shape[d];
  for (int k = 2; k < t->rank; k++) {
    const int d = columns ? k : t->rank + 1 - k;
    number += x[d] * step;
    step *= t->shape[d];
  }
  return (double)((x[0] * t->shape[1] + x[1]) * pixels + number);
}

static double pool(const rdt_problem *p, const int64_t *i, double *scale) {
  double sum = 0, max = -INFINITY, cells = 0, position = -1;
  int64_t x[RDT_MAX_RANK] = {i[0], i[1]};
  const int64_t taps = taps_of(p);
  for (int64_t t = 0; t < taps; t++) {
    bool padded;
    const bool in = inside(p, i, t, x, &padded);
    cells += in || (p->window.count_pad && padded);
    if (!in) continue;
    const double v = at(&p->in[0], x);
    sum += v;
    *scale += fabs(v);
    if (v > max) position = position_of(&p->in[0], x, p->ints[0] != 0);
    max = fmax(max, v);
  }
  if (p->op == RDT_KOP_AVGPOOL) return cells > 0 ? sum / cells : 0;
  *scale = 0; /* a maximum is exact */
  if (p->fn == RDT_FN_ARGMAX) return position;
  return max > -INFINITY           ? max
         : p->out.dtype == RDT_S8  ? -128
         : p->out.dtype == RDT_U8  ? 0
         : p->out.dtype == RDT_S32 ? -0x1p31
                                   : max;
}

static double softmax(const rdt_problem *p, const int64_t *i, double *scale) {
  int64_t j[RDT_MAX_RANK], top = 0;
  double max = -INFINITY, sum = 0;
  for (int d = 0; d < p->out.rank; d++) j[d] = i[d];
  for (j[p->axis] = 0; j[p->axis] < p->out.shape[p->axis]; j[p->axis]++) {
    if (at(&p->in[0], j) > max) top = j[p->axis];
    max = fmax(max, at(&p->in[0], j));
  }
  for (j[p->axis] = 0; j[p->axis] < p->out.shape[p->axis]; j[p->axis]++) sum += exp(at(&p->in[0], j) - max);
  const double d = at(&p->in[0], i) - max;
  if (p->fn == RDT_FN_HARDMAX) return i[p->axis] == top;
  if (p->fn == RDT_FN_LOGSOFTMAX) return *scale = 1 + fabs(d) + log(sum), d - log(sum);
  return *scale = exp(d) / sum;
}

static double batchnorm(const rdt_problem *p, const int64_t *i, double *scale) {
  const double x = at(&p->in[0], i), s = at(&p->in[1], i + 1), b = at(&p->in[2], i + 1), mean = at(&p->in[3], i + 1),
               inverse = 1 / sqrt(at(&p->in[4], i + 1) + p->epsilon);
  *scale = (fabs(x) + fabs(mean)) * fabs(s) * inverse + fabs(b);
  return (x - mean) * s * inverse + b;
}

static double concat(const rdt_problem *p, const int64_t *i) {
  int64_t j[RDT_MAX_RANK];
  for (int d = 0; d < p->out.rank; d++) j[d] = i[d];
  int from = 0;
  while (j[p->axis] >= p->in[from].shape[p->axis]) j[p->axis] -= p->in[from++].shape[p->axis];
  return at(&p->in[from], j);
}

static double map(const rdt_problem *p, const int64_t *i, double x, double *scale) {
  switch (p->fn) {
    case RDT_FN_ADD:
      *scale = fabs(x) + fabs(at(&p->in[1], i));
      return x + at(&p->in[1], i);
    case RDT_FN_MUL:
      return *scale = x * at(&p->in[1], i);
    default: /* relu */
      return x < 0 ? 0 : x;
  }
}

/* The elements behind result i, one after the other: false at the end. it has the input's strides and the lengths that
 * are reduced. */
static rdt_tensor behind(const rdt_problem *p, const int64_t *i, int axis) {
  rdt_tensor t = p->in[0];
  int64_t offset = 0;
  for (int d = 0; d < t.rank; d++) {
    const bool one = p->op == RDT_KOP_NORM ? d < axis : p->out.shape[d] == t.shape[d];
    if (!one) continue;
    offset += i[d] * t.stride[d];
    t.shape[d] = 1;
  }
  t.data = (char *)t.data + offset * (int64_t)rdt_dtype_size(t.dtype);
  return t;
}

static long double power_sum(const rdt_tensor *t, int power, long double centre) {
  long double sum = 0;
  rdt_iter it = rdt_iter_begin(t);
  while (rdt_iter_next(&it)) {
    const long double v = rdt_load(t->data, t->dtype, it.offset) - centre;
    sum += power == 0 ? fabsl(v) : power == 1 ? v : v * v;
  }
  return sum;
}

static double reduce(const rdt_problem *p, const int64_t *i, double *scale) {
  const rdt_tensor t = behind(p, i, 0);
  const long double n = (long double)rdt_tensor_count(&t), mean = power_sum(&t, 1, 0) / n;
  long double min = INFINITY, max = -INFINITY, product = 1, exps = 0;
  int64_t low = 0, high = 0, k = 0;
  rdt_iter it = rdt_iter_begin(&t);
  for (; rdt_iter_next(&it); k++) {
    const long double v = rdt_load(t.data, t.dtype, it.offset);
    if (v > max || (v == max && p->param[0] == 1)) high = k;
    if (v < min || (v == min && p->param[0] == 1)) low = k;
    max = fmaxl(max, v);
    min = fminl(min, v);
    product *= v;
    exps += expl(v);
  }
  switch (p->fn) {
    case RDT_FN_REDUCE_SUM:
      *scale = (double)power_sum(&t, 0, 0);
      return (double)(mean * n);
    case RDT_FN_REDUCE_MEAN:
      *scale = (double)(power_sum(&t, 0, 0) / n);
      return (double)mean;
    case RDT_FN_REDUCE_MAX:
      return (double)max;
    case RDT_FN_REDUCE_MIN:
      return (double)min;
    case RDT_FN_ARGMAX:
      return (double)high;
    case RDT_FN_ARGMIN:
      return (double)low;
    case RDT_FN_REDUCE_PROD:
      return *scale = (double)product;
    case RDT_FN_REDUCE_L1:
      return *scale = (double)power_sum(&t, 0, 0);
    case RDT_FN_REDUCE_L2:
      return *scale = (double)sqrtl(power_sum(&t, 2, 0));
    case RDT_FN_REDUCE_SQUARES:
      return *scale = (double)power_sum(&t, 2, 0);
    case RDT_FN_REDUCE_LOGSUM:
      *scale = 1 + (double)fabsl(logl(mean * n));
      return (double)logl(mean * n);
    case RDT_FN_REDUCE_LOGSUMEXP:
      *scale = 1 + (double)fabsl(logl(exps));
      return (double)logl(exps);
    default: /* invstd */
      return *scale = (double)(1 / sqrtl(power_sum(&t, 2, mean) / n + p->param[0]));
  }
}

static double norm(const rdt_problem *p, const int64_t *i, double x, double *scale) {
  const rdt_tensor t = behind(p, i, p->axis);
  const long double n = (long double)rdt_tensor_count(&t);
  const bool centred = p->fn == RDT_FN_NORM_LAYER || p->fn == RDT_FN_NORM_MVN;
  const long double mean = centred ? power_sum(&t, 1, 0) / n : 0, squares = power_sum(&t, 2, mean);
  const long double by = p->fn == RDT_FN_NORM_L1    ? power_sum(&t, 0, 0)
                         : p->fn == RDT_FN_NORM_L2  ? sqrtl(squares)
                         : p->fn == RDT_FN_NORM_MVN ? sqrtl(squares / n) + p->epsilon
                                                    : sqrtl(squares / n + p->epsilon);
  const double g = p->n_in > 1 ? at(&p->in[1], i) : 1, b = p->n_in > 2 ? at(&p->in[2], i) : 0;
  *scale = (double)((fabs(x) + fabsl(mean)) / by * fabs(g) + fabs(b));
  return (double)((x - mean) / by * g + b);
}

static double element(const rdt_problem *p, const int64_t *i, double *scale) {
  if (p->op == RDT_KOP_RESIZE || p->op == RDT_KOP_CUMSUM || p->op == RDT_KOP_TOPK) return util_oracle_rest(p, i, scale);
  const double x = p->op == RDT_KOP_CONCAT || p->op == RDT_KOP_REDUCE || rdt_kop_is_linear(p->op) ||
                           p->op == RDT_KOP_MAXPOOL || p->op == RDT_KOP_AVGPOOL
                       ? 0
                       : at(&p->in[0], i);
  switch (p->op) {
    case RDT_KOP_GEMM:
      return gemm(p, i, scale);
    case RDT_KOP_CONV:
      return conv(p, i, scale);
    case RDT_KOP_MAXPOOL:
    case RDT_KOP_AVGPOOL:
      return pool(p, i, scale);
    case RDT_KOP_SOFTMAX:
      return softmax(p, i, scale);
    case RDT_KOP_BATCHNORM:
      return batchnorm(p, i, scale);
    case RDT_KOP_CONCAT:
      return concat(p, i);
    case RDT_KOP_REDUCE:
      return reduce(p, i, scale);
    case RDT_KOP_NORM:
      return norm(p, i, x, scale);
    case RDT_KOP_MAP:
      return map(p, i, x, scale);
    default:
      return x;
  }
}

static double epilogue(const rdt_problem *p, const int64_t *i, double raw, double *scale) {
  const rdt_epilogue *e = &p->epilogue;
  double v = e->alpha * raw;
  *scale *= fabs(e->alpha);
  if (e->bias.rank >= 0) {
    const double b = rdt_load(e->bias.data, e->bias.dtype, i[p->op == RDT_KOP_CONV ? 1 : p->out.rank - 1]);
    v += b;
    *scale += fabs(b);
  }
  if (e->residual.rank >= 0) {
    const double x = e->beta * at(&e->residual, i);
    v += x;
    *scale += fabs(x);
  }
  return e->act.fn == RDT_FN_RELU && v < 0 ? 0 : v;
}

void util_oracle(const rdt_problem *p, double *expected, double *scale) {
  if (rdt_kop_moves(p->op)) {
    for (int64_t i = 0; i < rdt_tensor_count(&p->out); i++) scale[i] = 0;
    util_oracle_move(p, expected);
    return;
  }
  rdt_iter it = rdt_iter_begin(&p->out);
  for (int64_t n = 0; rdt_iter_next(&it); n++) {
    scale[n] = 0;
    expected[n] = element(p, it.index, &scale[n]);
    if (rdt_kop_is_linear(p->op)) expected[n] = epilogue(p, it.index, expected[n], &scale[n]);
    scale[n] = fabs(scale[n]);
  }
}

int64_t util_reduction(const rdt_problem *p) {
  switch (p->op) {
    case RDT_KOP_GEMM:
      return p->in[0].shape[p->in[0].rank - 1];
    case RDT_KOP_CONV:
      return p->in[1].shape[1] * taps_of(p);
    case RDT_KOP_AVGPOOL:
      return taps_of(p);
    case RDT_KOP_REDUCE:
      return rdt_tensor_count(&p->in[0]) / rdt_tensor_count(&p->out);
    case RDT_KOP_SOFTMAX:
    case RDT_KOP_BATCHNORM:
      return 4;
    case RDT_KOP_NORM:
      return 8;
    default:
      return 1;
  }
}
