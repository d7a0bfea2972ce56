#include <cuda_runtime_api.h>
#include <limits.h>

#include "check/weights.h"
#include "core/memory.h"
#include "cuda/blas.h"
#include "cuda/box/boxes.h"

enum { A, B, C, RESIDUAL, MATRICES };

/* A batch of matrices, as few dimensions as it can be told in. */
typedef struct lay {
  int64_t m, n, k;
  int64_t row[MATRICES], column[MATRICES];
  int dims; /* of the batch: two at most */
  int64_t shape[RDT_MAX_RANK], stride[RDT_MAX_RANK][MATRICES];
} lay;

struct rdt_box_product {
  lay l;
  rdt_blas *blas;
  bool protect, fixed;
  bool beside;          /* others run while it is checked */
  int sets;             /* of checks; those after the first have turns */
  size_t weights_bytes; /* of a set */
  float *turns;         /* n of each set but the first */
  bool vector;          /* the residual is the same for all rows: a bias */
  bool inside;          /* all that follows but the activation is the library's; then raw is of the result's type */
  bool whole;           /* the activation as well: there is nothing behind it */
  rdt_dtype in, weights, acc, out; /* in: of A */
  int64_t outer;                   /* launches of the library */
  int64_t raw_next;                /* from one of them to the next, in the raw result */
  rdt_rows_args check, sums;
  int rows;          /* of a group */
  bool fast, packed; /* packed: the result has no gaps */
  bool reads;        /* each element of A once, in memory without gaps, of 16 bits */
  const void *check_code, *more_code, *sums_code;
  void *raw; /* NULL: it is the result */
  size_t raw_bytes;
  rdt_box_tail tail;
  rdt_cuda_verdict *verdict;
};

/* ---- what a problem is ---- */

static const rdt_tensor *matrix_of(const rdt_problem *p, int which) {
  return which == A ? &p->in[0] : which == B ? &p->in[1] : which == C ? &p->out : &p->epilogue.residual;
}

static bool follows(const lay *l, int d, int which) { /* the rows of the next of dimension d come after this one's */
  return l->stride[d][which] == l->m * l->row[which];
}

static bool drop(lay *l, int d) {
  for (l->dims--; d < l->dims; d++) {
    l->shape[d] = l->shape[d + 1];
    for (int i = 0; i < MATRICES; i++) l->stride[d][i] = l->stride[d + 1][i];
  }
  return true;
}

/* One simplification; false: there is none. Rows of batches that share B are rows of one matrix. */
static bool simpler(lay *l, bool residual) {
  for (int d = 0; d < l->dims; d++)
    if (l->shape[d] == 1) return drop(l, d);
  const int last = l->dims - 1;
  if (last >= 0 && l->stride[last][B] == 0 && follows(l, last, A) && follows(l, last, C) &&
      (!residual || follows(l, last, RESIDUAL))) {
    l->m *= l->shape[last];
    return drop(l, last);
  }
  for (int d = 0; d < last; d++) {
    bool merge = true;
    for (int i = 0; i < MATRICES; i++)
      merge = merge && (l->stride[d][i] == l->shape[d + 1] * l->stride[d + 1][i] || (i == RESIDUAL && !residual));
    if (!merge) continue;
    l->shape[d + 1] *= l->shape[d];
    return drop(l, d);
  }
  return false;
}

static lay lay_of(const rdt_problem *p) {
  const int r = p->out.rank;
  lay l = {.m = p->out.shape[r - 2], .n = p->out.shape[r - 1], .k = p->in[0].shape[r - 1], .dims = r - 2};
  const bool residual = p->epilogue.residual.rank >= 0;
  for (int i = 0; i < MATRICES; i++) {
    const rdt_tensor *t = matrix_of(p, i);
    if (i == RESIDUAL && !residual) continue;
    l.row[i] = t->stride[r - 2], l.column[i] = t->stride[r - 1];
    for (int d = 0; d < r - 2; d++) l.stride[d][i] = t->stride[d];
  }
  for (int d = 0; d < r - 2; d++) l.shape[d] = p->out.shape[d];
  while (simpler(&l, residual)) {
  }
  return l;
}

static rdt_dtype raw_type(rdt_dtype in) {
  return in == RDT_F64 ? RDT_F64 : in == RDT_S8 ? RDT_S32 : RDT_F32;
}

/* The library takes matrices with elements side by side along one dimension, and no row twice. */
static bool packed(const lay *l, int which) {
  const int64_t rows = which == B ? l->k : l->m, columns = which == A ? l->k : l->n;
  const int64_t row = l->row[which], column = l->column[which];
  return ((column == 1 || columns == 1) && (row >= columns || rows == 1)) ||
         ((row == 1 || rows == 1) && (column >= rows || columns == 1));
}

rdt_status rdt_box_product_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  if (p->op != RDT_KOP_GEMM) return rdt_fail(why, no, "cuBLASLt multiplies matrices; this is %s", rdt_problem_name(p));
  const rdt_dtype in = p->in[0].dtype, out = p->out.dtype;
  const int r = p->out.rank;
  const bool f8 = rdt_dtype_is_f8(in) && rdt_dtype_is_f8(p->in[1].dtype);
  if ((in != p->in[1].dtype && !f8) || !rdt_rows_weights(in))
    return rdt_fail(
        why, no,
        "products of cuBLASLt are of f64, f32, f16, bf16 or s8 by the same, or of f8e4m3 and f8e5m2, not %s "
        "by %s",
        rdt_dtype_name(in), rdt_dtype_name(p->in[1].dtype));
  if (f8 && in == RDT_F8E5M2 && p->in[1].dtype == in)
    return rdt_fail(why, no, "cuBLASLt has no product of f8e5m2 by f8e5m2: take f8e4m3 for one of them");
  if (out != raw_type(in) && !(rdt_dtype_is_half(in) && out == in) && !(f8 && rdt_dtype_is_half(out)))
    return rdt_fail(why, no, "products of %s on the GPU are %s%s%s, not %s", rdt_dtype_name(in),
                    rdt_dtype_name(raw_type(in)), f8 || rdt_dtype_is_half(in) ? " or " : "",
                    f8                      ? "bf16 or f16"
                    : rdt_dtype_is_half(in) ? rdt_dtype_name(in)
                                            : "",
                    rdt_dtype_name(out));
  if (p->zero[0] || p->zero[1]) return rdt_fail(why, no, "products of cuBLASLt have no zero points");
  if (r < 2 || p->in[0].rank != r || p->in[1].rank != r)
    return rdt_fail(why, no, "products of cuBLASLt have operands of one rank");
  for (int d = 0; d < r; d++)
    if (p->out.shape[d] < 1 || p->in[0].shape[d] < 1)
      return rdt_fail(why, no, "products of cuBLASLt take no zero-size dimension");
  const lay l = lay_of(p);
  if (l.dims > 2) return rdt_fail(why, no, "batches of products on the GPU lie in two dimensions at most");
  if (!packed(&l, A) || !packed(&l, B))
    return rdt_fail(why, no, "products of cuBLASLt take matrices whose rows or columns lie side by side");
  for (int i = 0; i < MATRICES; i++)
    if (l.row[i] < 0 || l.column[i] < 0) return rdt_fail(why, no, "products of cuBLASLt take no negative strides");
  int64_t rows = l.m;
  for (int d = 0; d < l.dims; d++) rows = rows > INT_MAX / l.shape[d] ? INT_MAX : rows * l.shape[d];
  if (rows > INT_MAX / 2 || l.n > INT_MAX / 2 || l.k > INT_MAX / 2)
    return rdt_fail(why, no, "products on the GPU have lengths up to %d, all batches together", INT_MAX / 2);
  return rdt_box_finish_accept(p, why);
}

/* ---- making ready ---- */

static int64_t shape_of(const lay *l, int from_last) {
  return from_last < l->dims ? l->shape[l->dims - 1 - from_last] : 1;
}
static int64_t stride_of(const lay *l, int from_last, int which) {
  return from_last < l->dims ? l->stride[l->dims - 1 - from_last][which] : 0;
}

static int along(const rdt_rows_matrix *x, int64_t columns, int64_t rows, int64_t step, int step_rows) {
  const int64_t others = x->outer | x->inner;
  if ((x->column == 1 || columns == 1) && (x->row % step == 0 || rows == 1) && others % step == 0) return 1;
  if ((x->row == 1 || rows == 1) && (x->column % step_rows == 0 || columns == 1) && others % step_rows == 0) return 2;
  return 0;
}

/* Columns that one thread takes, where they do not all come by 16 bytes. */
static int64_t some(rdt_dtype type) {
  return rdt_dtype_size(type) == 8 ? 2 : 4;
}

static rdt_rows_matrix rows_matrix(const lay *l, int which, int64_t step, int rows) {
  rdt_rows_matrix x = {.row = l->row[which],
                       .column = l->column[which],
                       .outer = stride_of(l, 1, which),
                       .inner = stride_of(l, 0, which)};
  x.along = along(&x, which == A ? l->k : l->n, which == B ? l->k : l->m, step, rows);
  return x;
}

static bool narrow(rdt_dtype in) { /* sums of it are kept in f32 */
  return rdt_dtype_is_half(in) || rdt_dtype_is_f8(in);
}

static rdt_status tolerance_of(const rdt_cuda_device *d, const rdt_box_product *b, bool adds, double lambda,
                               rdt_tolerance *t, rdt_reason *why) {
  const double u = rdt_dtype_info(narrow(b->in) ? RDT_F32 : RDT_F64)->u;
  const int64_t step = b->fast            ? 16 / (int64_t)rdt_dtype_size(b->out)
                       : b->in == RDT_F64 ? 2
                                          : 4,
                share = step << b->check.log_threads, tree = 5 + RDT_BOX_THREADS / 32 + 1;
  *t = (rdt_tolerance){.acc = rdt_accumulator_of(b->in, b->acc),
                       .k = b->l.k,
                       .u_check = u,
                       .u_beta = u,
                       .depth_dot = (b->l.k + share - 1) / share * step + tree,
                       .depth_sum = (b->l.n + share - 1) / share * step + tree + (b->sets > 1), /* a turn */
                       .lambda = lambda};
  if (narrow(b->in)) {
    RDT_TRY(rdt_box_accumulator(d, b->in, rdt_blas_on_tensor_cores(b->blas), &t->acc, why));
    t->splits = 32; /* of a black box, at most */
  }
  rdt_box_rounded(t, b->inside ? b->out : b->acc, adds, b->inside && b->check.finish.alpha != 1.0);
  return RDT_OK;
}

/* Threads of a group, as a power of two: two warps for each scheduler, and no more than have something to do. */
static int threads_of(const rdt_cuda_device *d, int64_t groups, int64_t length, int64_t step) {
  int log = 5;
  while (1 << log < RDT_BOX_THREADS && groups << log < 256 * (int64_t)d->sms && step << log < length) log++;
  return log;
}

/* The same of a check beside what follows: nobody waits for it, but blocks of a product that find it on each
 * multiprocessor do. So it is on a quarter of them, and takes its time. */
static int threads_beside(const rdt_cuda_device *d, int64_t groups, int64_t length, int64_t step) {
  enum { USUAL = 6 };
  const int most = threads_of(d, groups, length, step);
  int log = USUAL;
  while (groups << log < 32 * (int64_t)d->sms) log++;
  return log < most ? log : most;
}

/* As nearly all are, for which there is shorter code: rows side by side, all of A's type. */
static bool is_fast(const rdt_box_product *b, const rdt_problem *p) {
  const lay *l = &b->l;
  const rdt_epilogue *e = &p->epilogue;
  const int64_t in = rdt_dtype_size(b->in) == 1 ? 4 : 16 / (int64_t)rdt_dtype_size(b->in),
                out = 16 / (int64_t)rdt_dtype_size(b->out);
  const bool f8 = b->in == RDT_F8E4M3 && rdt_dtype_is_half(b->out);
  bool fast = b->inside && (b->out == b->in || b->in == RDT_S8 || f8) && l->n % out == 0 && l->k % in == 0 &&
              rows_matrix(l, A, in, RDT_ROWS_FEW).along == 1 && rows_matrix(l, C, out, RDT_ROWS_FEW).along == 1;
  if (e->bias.rank >= 0) fast = fast && e->bias.dtype == b->out;
  if (e->residual.rank >= 0)
    fast = fast && e->residual.dtype == b->out && rows_matrix(l, RESIDUAL, out, RDT_ROWS_FEW).along == 1;
  return fast && (!b->raw || (b->packed && rdt_ends_act(b->out, 2)));
}

/* A curve is evaluated twice where it is applied; a bound by the check. */
static bool joint(const rdt_box_product *b) {
  return b->raw && b->tail.flat && rdt_box_ends(&b->check.finish) == 2;
}

static rdt_status set_check(rdt_box_product *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                            rdt_reason *why) {
  const lay *l = &b->l;
  const int64_t inner = shape_of(l, 0), batches = inner * shape_of(l, 1);
  const int64_t inner_sets = stride_of(l, 0, B) ? inner : 1, outer_sets = stride_of(l, 1, B) ? shape_of(l, 1) : 1;
  rdt_rows_args *c = &b->check, *s = &b->sums;
  b->fast = is_fast(b, p);
  b->rows = b->fast && batches * l->m >= RDT_ROWS_MANY * (int64_t)d->sms * 3 / 4 ? RDT_ROWS_MANY : RDT_ROWS_FEW;
  c->log_threads = (b->beside ? threads_beside : threads_of)(d, batches * ((l->m + b->rows - 1) / b->rows),
                                                             l->n > l->k ? l->n : l->k,
                                                             b->fast ? 16 / (int64_t)rdt_dtype_size(b->out) : 4);
  c->m = (int)l->m, c->n = (int)l->n, c->k = (int)l->k, c->batches = (int)batches, c->inner = (int)inner;
  c->a = rows_matrix(l, A, some(b->in), b->rows), c->out = rows_matrix(l, C, some(b->out), b->rows);
  c->residual = rows_matrix(l, RESIDUAL, some(b->out), b->rows);
  if (b->raw && !b->inside) {
    c->raw = (rdt_rows_matrix){.row = l->n, .column = 1, .outer = inner * l->m * l->n, .inner = l->m * l->n};
    c->raw.along = along(&c->raw, l->n, l->m, some(b->acc), b->rows);
  } else {
    c->raw = c->out;
  }
  c->a.type = b->in, c->raw.type = b->inside ? b->out : b->acc;
  c->sets_inner = inner_sets > 1, c->sets_outer = outer_sets > 1 ? inner_sets : 0;
  c->finish = rdt_box_finish_of(p);
  c->finish.on = b->raw != NULL, c->finish.inside = b->inside;
  c->verdict = b->verdict;
  const rdt_ends_args ends = {.m = c->m,
                              .n = c->n,
                              .batches = c->batches,
                              .inner = c->inner,
                              .raw = c->raw,
                              .residual = c->residual,
                              .out = c->out,
                              .finish = c->finish};
  rdt_box_tail_of(&b->tail, &ends, b->inside ? b->out : b->acc, b->inside && b->packed, b->protect && !b->fast);
  if (!b->protect) return RDT_OK;
  const bool adds = b->inside && (p->epilogue.bias.rank >= 0 || p->epilogue.residual.rank >= 0);
  rdt_tolerance t;
  RDT_TRY(tolerance_of(d, b, adds, lambda, &t, why));
  c->least2 = rdt_box_least2(&t.acc, b->in);
  c->bound = rdt_box_bound_of(&t, l->n, adds);
  s->m = (int)l->k, s->n = (int)l->n, s->batches = (int)(inner_sets * outer_sets), s->inner = (int)inner_sets;
  s->log_threads = threads_of(d, s->batches * ((l->k + RDT_ROWS_FEW - 1) / RDT_ROWS_FEW), l->n, 4);
  s->raw = rows_matrix(l, B, some(b->in), RDT_ROWS_FEW);
  s->raw.type = b->weights;
  s->least2 = c->least2;
  s->weights = c->weights;
  return RDT_OK;
}

/* The library's part: A, B to raw, or to the result with what follows inside. */
static rdt_blas_product product_of(const rdt_box_product *b, const rdt_problem *p) {
  const lay *l = &b->l;
  const bool inside = b->inside, own = b->raw && !inside;
  const rdt_epilogue *e = &p->epilogue;
  return (rdt_blas_product){.in = {b->in, b->weights},
                            .out = inside ? b->out : b->acc,
                            .m = l->m,
                            .n = l->n,
                            .k = l->k,
                            .batches = shape_of(l, 0),
                            .a = {l->row[A], l->column[A]},
                            .b = {l->row[B], l->column[B]},
                            .c = own ? l->n : l->row[C],
                            .a_next = stride_of(l, 0, A),
                            .b_next = stride_of(l, 0, B),
                            .c_next = own ? l->m * l->n : stride_of(l, 0, C),
                            .alpha = inside ? e->alpha : 1.0,
                            .beta = inside && e->residual.rank >= 0 ? e->beta : 0.0,
                            .bias = inside && e->bias.rank >= 0,
                            .act = !b->whole                       ? RDT_BLAS_NO_ACT
                                   : e->act.fn == RDT_FN_RELU      ? RDT_BLAS_RELU
                                   : e->act.fn == RDT_FN_GELU_TANH ? RDT_BLAS_GELU_TANH
                                                                   : RDT_BLAS_NO_ACT};
}

/* As the mask of attention is. */
static bool is_vector(const rdt_box_product *b, const rdt_problem *p) {
  const rdt_epilogue *e = &p->epilogue;
  const lay *l = &b->l;
  bool is = e->residual.rank >= 0 && e->bias.rank < 0 && e->beta == 1.0 && l->row[RESIDUAL] == 0 &&
            (l->column[RESIDUAL] == 1 || l->n == 1);
  for (int d = 0; d < l->dims; d++) is = is && l->stride[d][RESIDUAL] == 0;
  return is;
}

/* The same product, with a vector where it has one. */
static rdt_epilogue epilogue_of(const rdt_box_product *b, const rdt_epilogue *e) {
  rdt_epilogue r = *e;
  if (!b->vector) return r;
  r.bias = r.residual, r.residual.rank = -1, r.beta = 0.0;
  r.bias.rank = 1, r.bias.shape[0] = b->l.n, r.bias.stride[0] = 1;
  return r;
}

/* All that follows but the activation. */
static bool can_have_inside(const rdt_box_product *b, const rdt_problem *p) {
  const rdt_epilogue *e = &p->epilogue;
  const lay *l = &b->l;
  if ((l->column[C] != 1 && l->n > 1) || (l->m > 1 && l->row[C] < l->n)) return false;
  if (b->in == RDT_S8) return rdt_epilogue_is_none(e);
  if (rdt_dtype_is_f8(b->in) && b->out == RDT_F32 && e->bias.rank >= 0) return false; /* the library's would be bf16 */
  if (e->bias.rank >= 0 && e->bias.dtype != b->out) return false;
  if (e->residual.rank < 0) return true;
  if (b->protect && !b->fixed) return false; /* a mask of attention: in a sum it would swallow what it is added to */
  bool same = e->residual.dtype == b->out && l->row[C] == l->row[RESIDUAL] && l->column[C] == l->column[RESIDUAL];
  for (int d = 0; d < l->dims; d++) same = same && l->stride[d][C] == l->stride[d][RESIDUAL];
  return same;
}

static rdt_status launch_library(rdt_box_product *b, const rdt_operands *o, void *stream, rdt_reason *why) {
  const lay *l = &b->l;
  const bool own = b->raw && !b->inside;
  const size_t in = rdt_dtype_size(b->in), out = rdt_dtype_size(own ? b->acc : b->out);
  char *to = b->raw ? b->raw : o->out.data;
  const char *residual = rdt_box_residual(o);
  for (int64_t i = 0; i < b->outer; i++) {
    const int64_t c = i * (own ? b->raw_next : stride_of(l, 1, C)) * (int64_t)out;
    const rdt_blas_operands x = {.a = (const char *)o->in[0].data + i * stride_of(l, 1, A) * (int64_t)in,
                                 .b = (const char *)o->in[1].data + i * stride_of(l, 1, B) * (int64_t)in,
                                 .bias = rdt_box_bias(o),
                                 .residual = residual ? residual + i * stride_of(l, 1, RESIDUAL) * (int64_t)out : NULL,
                                 .c = to + c};
    RDT_TRY(rdt_blas_launch(b->blas, &x, stream, why));
  }
  return RDT_OK;
}

/* Arguments of the check with this number, or of its weights. */
static rdt_rows_args of_set(const rdt_box_product *b, const rdt_rows_args *first, int set) {
  rdt_rows_args s = *first;
  s.weights = (char *)s.weights + (size_t)set * b->weights_bytes;
  s.turns = set ? b->turns + (int64_t)(set - 1) * b->l.n : NULL;
  return s;
}

static rdt_status weigh(const rdt_box_product *b, const void *weights, rdt_box_batch *batch, rdt_reason *why) {
  for (int i = 0; i < b->sets; i++) {
    rdt_rows_args s = of_set(b, &b->sums, i);
    s.raw.data = weights;
    RDT_TRY(rdt_box_batch_rows(batch, b->sums_code, true, rdt_box_rows_blocks(&s, RDT_ROWS_FEW), &s, why));
  }
  return RDT_OK;
}

static rdt_status take_turns(rdt_box_product *b, void *stream, rdt_reason *why) {
  void *memory;
  if (b->sets < 2) return RDT_OK;
  const size_t n = (size_t)b->l.n, count = n * (size_t)(b->sets - 1);
  RDT_TRY(rdt_cuda_alloc(count * sizeof(float), &memory, why));
  b->turns = memory;
  float *turns = rdt_alloc(count, sizeof *turns);
  if (!turns) return rdt_fail(why, RDT_ERR_NOMEM, "a product: out of memory");
  for (size_t i = 0; i < count; i++) turns[i] = (float)rdt_check_weight((int64_t)(i % n), (int)(i / n) + 1);
  rdt_status s = rdt_cuda_put(memory, turns, count * sizeof *turns, stream, why);
  if (s == RDT_OK) s = rdt_cuda_wait(stream, why);
  rdt_free(turns);
  return s;
}

rdt_status rdt_box_product_renew(rdt_box_product *b, const void *weights, void *stream, rdt_reason *why) {
  rdt_box_batch batch = {NULL, 0, 0};
  if (!b->protect || !b->fixed) return RDT_OK;
  rdt_status s = weigh(b, weights, &batch, why);
  if (s == RDT_OK) s = rdt_box_batch_launch(&batch, stream, why);
  rdt_box_batch_free(&batch);
  return s;
}

static rdt_status connect(rdt_box_product *b, const rdt_problem *p, void *stream, rdt_reason *why) {
  rdt_box_trial t;
  RDT_TRY(rdt_box_trial_make(p, &t, why));
  const rdt_blas_product product = product_of(b, p);
  const rdt_blas_operands x = {.a = t.o.in[0].data,
                               .b = t.o.in[1].data,
                               .bias = t.epilogue.bias.rank >= 0 ? t.epilogue.bias.data : NULL,
                               .residual = t.epilogue.residual.rank >= 0 ? t.epilogue.residual.data : NULL,
                               .c = b->raw ? b->raw : t.o.out.data};
  const rdt_status s = rdt_blas_create(&product, &x, stream, &b->blas, why);
  rdt_box_trial_free(&t);
  return s;
}

/* With as much inside as the library has. */
static rdt_status join(rdt_box_product *b, const rdt_problem *p, bool acts, size_t raw, void *stream, rdt_reason *why) {
  b->inside = can_have_inside(b, p);
  b->whole = b->inside && !b->protect && (p->epilogue.act.fn == RDT_FN_RELU || p->epilogue.act.fn == RDT_FN_GELU_TANH);
  if (b->whole && connect(b, p, stream, why) == RDT_OK) return RDT_OK;
  b->whole = false; /* not this activation: a pass of ours */
  b->raw_bytes = rdt_box_bytes_of(&p->out, p->out.dtype);
  if (b->inside && acts) RDT_TRY(rdt_cuda_alloc(b->raw_bytes, &b->raw, why));
  if (b->inside && connect(b, p, stream, why) == RDT_OK) return RDT_OK;
  b->inside = false;
  rdt_cuda_free(b->raw), b->raw = NULL;
  b->raw_bytes = raw;
  RDT_TRY(rdt_cuda_alloc(raw, &b->raw, why));
  return connect(b, p, stream, why);
}

static rdt_status prepare(rdt_box_product *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                          void *stream, rdt_reason *why) {
  const lay *l = &b->l;
  const int64_t batches = shape_of(l, 0) * shape_of(l, 1);
  const bool acts = p->epilogue.act.fn != RDT_FN_NONE;
  void *memory;
  b->outer = shape_of(l, 1);
  b->raw_next = shape_of(l, 0) * l->m * l->n;
  RDT_TRY(rdt_cuda_alloc(sizeof *b->verdict, &memory, why));
  b->verdict = memory;
  if (b->protect) {
    const int64_t sets = (stride_of(l, 0, B) ? shape_of(l, 0) : 1) * (stride_of(l, 1, B) ? shape_of(l, 1) : 1);
    b->weights_bytes = (size_t)(sets * l->k) * 2 * (narrow(b->in) ? sizeof(float) : sizeof(double));
    b->weights_bytes = (b->weights_bytes + 15) / 16 * 16;
    RDT_TRY(rdt_cuda_alloc((size_t)b->sets * b->weights_bytes, &memory, why));
    b->check.weights = memory;
  }
  RDT_TRY(take_turns(b, stream, why));
  b->packed = rdt_tensor_is_packed(&p->out);
  b->reads = rdt_dtype_is_half(b->in) && rdt_tensor_is_packed(&p->in[0]) &&
             rdt_tensor_count(&p->in[0]) == batches * l->m * l->k;
  RDT_TRY(join(b, p, acts, (size_t)(batches * l->m * l->n) * rdt_dtype_size(b->acc), stream, why));
  RDT_TRY(set_check(b, d, p, lambda, why));
  b->check_code = rdt_rows_check(b->in, b->check.raw.type, b->rows, b->fast);
  b->more_code = rdt_rows_more(b->in);
  b->sums_code = rdt_rows_weights(b->weights);
  if (b->fixed) RDT_TRY(rdt_box_product_renew(b, p->in[1].data, stream, why));
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_box_product_create(const rdt_cuda_device *d, const rdt_problem *p, int sets, bool beside, double lambda,
                                  void *stream, rdt_box_product **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_box_product_accept(p, why));
  if (sets > 1 && !rdt_rows_more(p->in[0].dtype))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "products of %s on the GPU have one check of a row",
                    rdt_dtype_name(p->in[0].dtype));
  rdt_box_product *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a product: out of memory");
  b->l = lay_of(p);
  b->protect = sets > 0, b->beside = beside, b->sets = sets, b->fixed = p->in[1].data != NULL;
  b->in = p->in[0].dtype, b->weights = p->in[1].dtype, b->acc = raw_type(b->in), b->out = p->out.dtype;
  rdt_problem as = *p;
  b->vector = is_vector(b, p);
  as.epilogue = epilogue_of(b, &p->epilogue);
  const rdt_status s = prepare(b, d, &as, lambda, stream, why);
  if (s != RDT_OK) {
    rdt_box_product_destroy(b);
    return s;
  }
  *out = b;
  return RDT_OK;
}

rdt_status rdt_box_product_twin(const rdt_box_product *b, rdt_box_product **twin, rdt_reason *why) {
  void *memory;
  *twin = NULL;
  rdt_box_product *t = rdt_calloc(1, sizeof *t);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "a product: out of memory");
  *t = *b;
  t->blas = NULL, t->raw = NULL, t->verdict = NULL, t->check.weights = NULL, t->turns = NULL;
  rdt_status s = rdt_blas_twin(b->blas, &t->blas, why);
  if (s == RDT_OK && b->raw) s = rdt_cuda_alloc(b->raw_bytes, &t->raw, why);
  if (s == RDT_OK && (s = rdt_cuda_alloc(sizeof *t->verdict, &memory, why)) == RDT_OK) t->verdict = memory;
  if (s == RDT_OK)
    *twin = t;
  else
    rdt_box_product_destroy(t);
  return s;
}

/* ---- running ---- */

/* o, with the vector where the product has it. */
static rdt_operands operands_of(const rdt_box_product *b, const rdt_operands *o, rdt_epilogue *e) {
  rdt_operands r = *o;
  if (!b->vector || !o->epilogue) return r;
  *e = epilogue_of(b, o->epilogue);
  r.epilogue = e;
  return r;
}

static rdt_rows_args args_of(const rdt_box_product *b, const rdt_operands *o) {
  rdt_rows_args c = b->check;
  c.a.data = o->in[0].data, c.raw.data = b->raw ? b->raw : o->out.data, c.out.data = o->out.data;
  c.residual.data = rdt_box_residual(o);
  c.finish.bias = rdt_box_bias(o);
  return c;
}

rdt_status rdt_box_product_launch(rdt_box_product *b, const rdt_operands *given, rdt_box_sum_to to, void *stream,
                                  rdt_reason *why) {
  rdt_epilogue e;
  const rdt_operands as = operands_of(b, given, &e), *o = &as;
  const void *const data[] = {o->in[0].data, o->in[1].data, o->out.data, rdt_box_residual(o), rdt_box_bias(o)};
  for (int i = 0; i < 5; i++)
    if (!rdt_box_aligned(data[i]))
      return rdt_fail(why, RDT_ERR_ARG, "a product on the GPU: operands lie at multiples of 16 bytes");
  const rdt_box_sum_to nowhere = {NULL, NULL};
  RDT_TRY(launch_library(b, o, stream, why));
  return b->raw ? rdt_box_tail_launch(&b->tail, b->raw, o, joint(b) ? to : nowhere, stream, why) : RDT_OK;
}

int64_t rdt_box_product_blocks(const rdt_box_product *b) {
  if (!b->protect) return 0;
  return joint(b) ? b->tail.blocks : b->fast && b->packed ? rdt_box_rows_blocks(&b->check, b->rows) : 0;
}

unsigned rdt_box_product_reads(const rdt_box_product *b) {
  return b->protect && b->fast && b->reads ? RDT_BOX_READS_IN : 0;
}

rdt_status rdt_box_product_check(const rdt_box_product *b, const rdt_operands *given, rdt_box_sum_to to, uint64_t *read,
                                 rdt_box_batch *batch, rdt_reason *why) {
  rdt_epilogue e;
  const rdt_operands as = operands_of(b, given, &e), *o = &as;
  if (!b->protect) return RDT_OK;
  if (!b->fixed) RDT_TRY(weigh(b, o->in[1].data, batch, why));
  rdt_rows_args c = args_of(b, o);
  if (!joint(b)) c.to = to;
  c.read = read;
  RDT_TRY(rdt_box_batch_rows(batch, b->check_code, false, rdt_box_rows_blocks(&c, b->rows), &c, why));
  for (int i = 1; i < b->sets; i++) {
    rdt_rows_args more = of_set(b, &c, i);
    more.to = (rdt_box_sum_to){NULL, NULL}, more.read = NULL;
    RDT_TRY(rdt_box_batch_rows(batch, b->more_code, false, rdt_box_rows_blocks(&more, RDT_ROWS_FEW), &more, why));
  }
  return RDT_OK;
}

rdt_cuda_verdict *rdt_box_product_verdict(const rdt_box_product *b) {
  return b->verdict;
}

void rdt_box_product_destroy(rdt_box_product *b) {
  if (!b) return;
  rdt_blas_destroy(b->blas);
  rdt_cuda_free(b->raw);
  rdt_cuda_free(b->check.weights), rdt_cuda_free(b->turns), rdt_cuda_free(b->verdict);
  rdt_free(b);
}
