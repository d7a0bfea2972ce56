#include "util_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t util_next(util_random *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t util_pick(util_random *r, const int64_t *list, int n) {
  return list[util_next(r) % (uint64_t)n];
}

double util_uniform(util_random *r) {
  return (double)(int64_t)util_next(r) * 0x1p-63;
}

static void fill(util_random *r, void *data, rdt_dtype t, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const double u = util_uniform(r);
    switch (t) {
      case RDT_S8:
        rdt_store(data, t, i, floor(u * 128.0));
        break;
      case RDT_U8:
      case RDT_BOOL:
        rdt_store(data, t, i, floor((u + 1.0) * 128.0));
        break;
      case RDT_S32:
      case RDT_S64:
        rdt_store(data, t, i, floor(u * 0x1p30));
        break;
      default:
        rdt_store(data, t, i, u);
    }
  }
}

static void order_of(util_random *r, int rank, util_layout layout, int *order) {
  for (int d = 0; d < rank; d++) order[d] = d;
  if (layout == UTIL_CHANNELS_LAST && rank >= 3) {
    for (int d = 1; d < rank - 1; d++) order[d] = d + 1;
    order[rank - 1] = 1;
  }
  if (layout == UTIL_TRANSPOSED && rank >= 2) {
    order[rank - 1] = rank - 2;
    order[rank - 2] = rank - 1;
  }
  if (layout == UTIL_STRIDED || layout == UTIL_NEGATIVE) {
    for (int d = rank - 1; d > 0; d--) {
      const int other = (int)(util_next(r) % (uint64_t)(d + 1)), keep = order[d];
      order[d] = order[other];
      order[other] = keep;
    }
  }
}

rdt_tensor util_view(util_case *c, util_random *r, rdt_dtype t, int rank, const int64_t *shape, util_layout layout) {
  rdt_tensor v = {.dtype = t, .rank = rank};
  int order[RDT_MAX_RANK];
  const bool gaps = layout == UTIL_STRIDED || layout == UTIL_NEGATIVE;
  int64_t reach = gaps ? 1 + (int64_t)(util_next(r) % 2) : 1, low = 0, high = 0;
  bool empty = false;
  order_of(r, rank, layout, order);
  for (int i = rank - 1; i >= 0; i--) {
    const int d = order[i];
    v.shape[d] = shape[d];
    v.stride[d] = reach;
    if (layout == UTIL_BROADCAST && util_next(r) % 2) v.stride[d] = 0;
    if (layout == UTIL_NEGATIVE && util_next(r) % 2) v.stride[d] = -reach;
    if (v.stride[d] != 0) reach = reach * (shape[d] > 0 ? shape[d] : 1) + (gaps ? (int64_t)(util_next(r) % 4) : 0);
    empty = empty || shape[d] == 0;
    if (shape[d] > 0) *(v.stride[d] < 0 ? &low : &high) += (shape[d] - 1) * v.stride[d];
  }
  const int64_t n = empty ? 0 : high - low + 1;
  void *data = malloc((size_t)n * rdt_dtype_size(t) + (n == 0));
  fill(r, data, t, n);
  c->buffers[c->n_buffers++] = data;
  c->out_base = data;
  c->out_bytes = (size_t)n * rdt_dtype_size(t);
  v.data = (char *)data + (empty ? 0 : -low * (int64_t)rdt_dtype_size(t));
  return v;
}

static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 17, 33, 64, 65, 131};
static const int64_t small[] = {1, 2, 3, 5, 8, 17};
#define PICK(list) util_pick(r, list, (int)(sizeof(list) / sizeof *(list)))

util_layout util_layout_of(util_random *r, bool plain, bool input) {
  static const int64_t vendor[] = {UTIL_DENSE, UTIL_CHANNELS_LAST, UTIL_TRANSPOSED};
  static const int64_t ours[] = {UTIL_DENSE,   UTIL_CHANNELS_LAST, UTIL_TRANSPOSED,
                                 UTIL_STRIDED, UTIL_NEGATIVE,      UTIL_BROADCAST};
  return (util_layout)(plain ? util_pick(r, vendor, input ? 3 : 2) : util_pick(r, ours, input ? 6 : 4));
}

static void make_gemm(util_case *c, util_random *r, rdt_dtype a, rdt_dtype b, rdt_dtype out, bool plain) {
  const int rank = 2 + (int)(util_next(r) % 3);
  int64_t sa[4] = {0}, sb[4], sc[4];
  for (int d = 0; d < rank - 2; d++) sa[d] = 1 + (int64_t)(util_next(r) % 3);
  memcpy(sb, sa, sizeof sa);
  memcpy(sc, sa, sizeof sa);
  const int64_t m = PICK(sizes), n = PICK(sizes), k = PICK(sizes);
  const uint64_t zero = util_next(r) % 24;
  sa[rank - 2] = sc[rank - 2] = zero == 0 ? 0 : m;
  sb[rank - 1] = sc[rank - 1] = zero == 1 ? 0 : n;
  sa[rank - 1] = sb[rank - 2] = zero == 2 ? 0 : k;
  c->in[0] = util_view(c, r, a, rank, sa, util_layout_of(r, plain, true));
  c->in[1] = util_view(c, r, b, rank, sb, util_layout_of(r, plain, true));
  c->p.out = util_view(c, r, out, rank, sc, plain ? UTIL_DENSE : util_layout_of(r, plain, false));
}

/* One to three spatial dimensions, as many lengths of the input in image; returns the rank of an image. */
static int make_window(util_case *c, util_random *r, bool conv, int64_t *image) {
  static const int64_t dimensions[] = {1, 2, 2, 3};
  rdt_window *w = &c->p.window;
  const int spatial = (int)PICK(dimensions);
  const uint64_t most = spatial == 3 ? 3 : 4, more = spatial == 3 ? 5 : 9;
  for (int d = 0; d < spatial; d++) {
    w->kernel[d] = 1 + (int64_t)(util_next(r) % most);
    w->stride[d] = 1 + (int64_t)(util_next(r) % 3);
    w->dilation[d] = 1 + (int64_t)(util_next(r) % 4 == 0);
    w->before[d] = (int64_t)(util_next(r) % (uint64_t)w->kernel[d]);
    w->after[d] = (int64_t)(util_next(r) % (uint64_t)w->kernel[d]);
    image[d] = w->kernel[d] * w->dilation[d] + (int64_t)(util_next(r) % more);
  }
  w->groups = 1;
  w->count_pad = !conv && util_next(r) % 2;
  return spatial + 2;
}

/* Output length, floor or ceil; a window that does not fit gives 0. */
static int64_t length_of(const rdt_window *w, int axis, int64_t in, bool ceil_mode) {
  const int64_t room = in + w->before[axis] + w->after[axis] - (w->kernel[axis] - 1) * w->dilation[axis] - 1;
  return room < 0 ? 0 : (room + (ceil_mode ? w->stride[axis] - 1 : 0)) / w->stride[axis] + 1;
}

static void make_conv(util_case *c, util_random *r, rdt_dtype a, rdt_dtype b, rdt_dtype out, bool plain) {
  static const int64_t groups[] = {1, 1, 1, 2, 3, 8};
  rdt_window *w = &c->p.window;
  int64_t x[5], f[5], y[5];
  const int rank = make_window(c, r, true, x + 2);
  w->groups = PICK(groups);
  int64_t icg = util_next(r) % 20 == 0 ? 0 : PICK(small), ocg = PICK(small);
  if (util_next(r) % 4 == 0) { /* depthwise */
    static const int64_t channels[] = {2, 8, 17, 40, 131};
    w->groups = PICK(channels);
    icg = ocg = 1;
  }
  x[0] = y[0] = util_next(r) % 20 == 0 ? 0 : 1 + (int64_t)(util_next(r) % 3);
  x[1] = icg * w->groups;
  f[0] = y[1] = ocg * w->groups;
  f[1] = icg;
  for (int d = 0; d < rank - 2; d++) {
    f[2 + d] = w->kernel[d];
    y[2 + d] = length_of(w, d, x[2 + d], false);
  }
  const util_layout l = util_next(r) % 4 ? UTIL_CHANNELS_LAST : UTIL_DENSE;
  c->in[0] = util_view(c, r, a, rank, x, plain ? l : util_layout_of(r, plain, true));
  c->in[1] = util_view(c, r, b, rank, f, plain ? UTIL_DENSE : util_layout_of(r, plain, true));
  c->p.out = util_view(c, r, out, rank, y, plain ? l : util_layout_of(r, plain, false));
}

static void make_pool(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  rdt_window *w = &c->p.window;
  int64_t x[5], y[5];
  const int rank = make_window(c, r, false, x + 2);
  const bool ceil_mode = util_next(r) % 3 == 0;
  x[0] = y[0] = 1 + (int64_t)(util_next(r) % 2);
  x[1] = y[1] = PICK(sizes);
  for (int d = 0; d < rank - 2; d++) y[2 + d] = length_of(w, d, x[2 + d], ceil_mode);
  if (c->p.op == RDT_KOP_MAXPOOL && !plain && util_next(r) % 3 == 0) {
    c->p.fn = RDT_FN_ARGMAX;
    c->p.ints[0] = (int64_t)(util_next(r) % 2);
  }
  const util_layout l = plain ? UTIL_CHANNELS_LAST * (util_next(r) % 2) : util_layout_of(r, plain, true);
  c->in[0] = util_view(c, r, a, rank, x, l);
  c->p.out =
      util_view(c, r, c->p.fn == RDT_FN_ARGMAX ? RDT_S64 : a, rank, y, plain ? l : util_layout_of(r, plain, false));
}

static void make_like(util_case *c, util_random *r, rdt_kop op, rdt_dtype a, bool plain) {
  const int rank =
      op == RDT_KOP_BATCHNORM ? 2 + (int)(util_next(r) % 3) : (int)(util_next(r) % 5) + (op == RDT_KOP_SOFTMAX);
  int64_t shape[5];
  for (int d = 0; d < rank; d++) shape[d] = d < rank - 2 ? 1 + (int64_t)(util_next(r) % 5) : PICK(sizes);
  if (rank > 0 && util_next(r) % 16 == 0) shape[util_next(r) % (uint64_t)rank] = 0;
  const util_layout l = util_layout_of(r, plain, false);
  for (int i = 0; i < c->p.n_in; i++) {
    const bool channel = op == RDT_KOP_BATCHNORM && i > 0;
    c->in[i] = util_view(c, r, a, channel ? 1 : rank, channel ? shape + 1 : shape,
                         channel ? UTIL_DENSE
                         : plain ? l
                                 : util_layout_of(r, plain, true));
    for (int64_t j = 0; channel && i == 4 && j < shape[1]; j++) { /* variances are not negative */
      rdt_store(c->in[i].data, a, j, fabs(rdt_load(c->in[i].data, a, j)));
    }
  }
  c->p.axis = op == RDT_KOP_SOFTMAX ? (int)(util_next(r) % (uint64_t)rank) : 0;
  if (op == RDT_KOP_SOFTMAX) {
    static const rdt_fn fns[] = {RDT_FN_NONE, RDT_FN_LOGSOFTMAX, RDT_FN_HARDMAX};
    c->p.fn = fns[util_next(r) % 3];
  }
  c->p.epsilon = 1e-5;
  c->p.out = util_view(c, r, a, rank, shape, l);
}

/* Integers only where double holds the result; logarithms of what is positive. */
static rdt_fn reduction_of(util_random *r, rdt_dtype a) {
  static const rdt_fn all[] = {
      RDT_FN_REDUCE_MAX,    RDT_FN_REDUCE_MIN,    RDT_FN_ARGMAX,          RDT_FN_ARGMIN,    RDT_FN_REDUCE_L1,
      RDT_FN_REDUCE_SUM,    RDT_FN_REDUCE_MEAN,   RDT_FN_REDUCE_PROD,     RDT_FN_REDUCE_L2, RDT_FN_REDUCE_SQUARES,
      RDT_FN_REDUCE_LOGSUM, RDT_FN_REDUCE_INVSTD, RDT_FN_REDUCE_LOGSUMEXP};
  const bool wraps = a == RDT_S8 || a == RDT_U8 || a == RDT_S32;
  return all[util_next(r) % (a == RDT_BOOL || wraps ? 4 : rdt_dtype_is_float(a) ? 13 : 6)];
}

static void make_reduce(util_case *c, util_random *r, rdt_dtype a) {
  const int rank = 1 + (int)(util_next(r) % 4);
  int64_t shape[4], out[4];
  c->p.fn = reduction_of(r, a);
  const bool index = rdt_fn_info(c->p.fn)->class == RDT_CLASS_INDEX;
  c->p.axis = (int)(util_next(r) % (uint64_t)rank);
  for (int d = 0; d < rank; d++) {
    shape[d] = d < rank - 2 ? 1 + (int64_t)(util_next(r) % 3) : d < rank - 1 ? PICK(small) : PICK(sizes);
    out[d] = (index ? d == c->p.axis : util_next(r) % 2 == 0) ? 1 : shape[d];
  }
  c->in[0] = util_view(c, r, a, rank, shape, util_layout_of(r, false, true));
  if (c->p.fn == RDT_FN_REDUCE_LOGSUM) {
    rdt_iter it = rdt_iter_begin(&c->in[0]);
    while (rdt_iter_next(&it))
      rdt_store(c->in[0].data, a, it.offset, fabs(rdt_load(c->in[0].data, a, it.offset)) + 0.25);
  }
  c->p.param[0] = index ? (double)(util_next(r) % 2) : 1e-3;
  c->p.out = util_view(c, r, index ? RDT_S64 : a, rank, out, util_layout_of(r, false, false));
}

static void make_norm(util_case *c, util_random *r, rdt_dtype a) {
  const int rank = 1 + (int)(util_next(r) % 4);
  int64_t shape[4];
  c->p.fn = (rdt_fn)(RDT_FN_NORM_LAYER + (int)(util_next(r) % 5));
  c->p.n_in = 1 + (int)(util_next(r) % 3);
  c->p.axis = (int)(util_next(r) % (uint64_t)(rank + 1));
  c->p.epsilon = 1e-3;
  for (int d = 0; d < rank; d++)
    shape[d] = d < rank - 2 ? 1 + (int64_t)(util_next(r) % 3) : d < rank - 1 ? PICK(small) : PICK(sizes);
  for (int i = 0; i < c->p.n_in; i++) c->in[i] = util_view(c, r, a, rank, shape, util_layout_of(r, false, true));
  c->p.out = util_view(c, r, a, rank, shape, util_layout_of(r, false, false));
}

static void make_concat(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  const int rank = 1 + (int)(util_next(r) % 4);
  int64_t shape[4], total = 0;
  for (int d = 0; d < rank; d++) shape[d] = PICK(small);
  c->p.axis = (int)(util_next(r) % (uint64_t)rank);
  for (int i = 0; i < c->p.n_in; i++) {
    shape[c->p.axis] = (int64_t)(util_next(r) % 6);
    total += shape[c->p.axis];
    c->in[i] = util_view(c, r, a, rank, shape, util_layout_of(r, plain, true));
  }
  shape[c->p.axis] = total;
  c->p.out = util_view(c, r, a, rank, shape, util_layout_of(r, plain, false));
}

void util_case_make(util_case *c, util_random *r, rdt_kop op, rdt_dtype a, rdt_dtype b, rdt_dtype out, bool plain) {
  static const int arity[RDT_KOP_COUNT] = {
      [RDT_KOP_BATCHNORM] = 5, [RDT_KOP_GEMM] = 2, [RDT_KOP_CONV] = 2, [RDT_KOP_MAP] = 2, [RDT_KOP_CONCAT] = 3};
  memset(c, 0, sizeof *c);
  c->p = (rdt_problem){.op = op, .n_in = arity[op] ? arity[op] : 1, .in = c->in, .epilogue = RDT_EPILOGUE_NONE};
  c->p.acc = a == RDT_F64 ? RDT_F64 : rdt_dtype_is_float(a) ? RDT_F32 : RDT_S32;
  if (op == RDT_KOP_MAP) { /* integers are taken by relu only */
    static const rdt_fn fns[] = {RDT_FN_RELU, RDT_FN_ADD, RDT_FN_MUL};
    c->p.fn = fns[rdt_dtype_is_float(a) ? util_next(r) % 3 : 0];
    c->p.n_in = rdt_fn_info(c->p.fn)->operands;
  }
  if (rdt_kop_moves(op)) {
    util_case_make_move(c, r, a, plain);
    return;
  }
  switch (op) {
    case RDT_KOP_GEMM:
      make_gemm(c, r, a, b, out, plain);
      break;
    case RDT_KOP_CONV:
      make_conv(c, r, a, b, out, plain);
      break;
    case RDT_KOP_MAXPOOL:
    case RDT_KOP_AVGPOOL:
      make_pool(c, r, a, plain);
      break;
    case RDT_KOP_REDUCE:
      make_reduce(c, r, a);
      break;
    case RDT_KOP_NORM:
      make_norm(c, r, a);
      break;
    case RDT_KOP_RESIZE:
    case RDT_KOP_CUMSUM:
    case RDT_KOP_TOPK:
      util_case_make_rest(c, r, a);
      break;
    case RDT_KOP_CONCAT:
      make_concat(c, r, a, plain);
      break;
    default:
      make_like(c, r, op, a, plain);
  }
}

void util_case_epilogue(util_case *c, util_random *r, bool alpha) {
  rdt_epilogue *e = &c->p.epilogue;
  const rdt_tensor *y = &c->p.out;
  void *const base = c->out_base;
  const size_t bytes = c->out_bytes;
  if (util_next(r) % 2)
    e->bias = util_view(c, r, c->p.acc, 1, &y->shape[c->p.op == RDT_KOP_CONV ? 1 : y->rank - 1], UTIL_DENSE);
  if (util_next(r) % 2) {
    const bool last = rdt_tensor_is_channels_last(y) && util_next(r) % 4;
    e->residual = util_view(c, r, y->dtype, y->rank, y->shape, last ? UTIL_CHANNELS_LAST : UTIL_DENSE);
    e->beta = alpha ? 0.5 : 1.0;
  }
  e->act.fn = util_next(r) % 2 ? RDT_FN_RELU : RDT_FN_NONE;
  if (alpha) e->alpha = -0.75;
  c->out_base = base;
  c->out_bytes = bytes;
}

void util_case_free(util_case *c) {
  for (int i = 0; i < c->n_buffers; i++) free(c->buffers[i]);
}

void util_case_poison(util_case *c) {
  memset(c->out_base, 0xff, c->out_bytes);
}
