/* One product with fixed weights, in which a batch that shares them is one with more rows, or a batch of products of
 * activations; where RDT_HALF_ROW is defined, one of numbers in 16 bits. */
#include "core/memory.h"
#include "cpu/native/native.h"
#include "cpu/native/shares.h"

enum {
  FORMS = RDT_FORM_ROWS | RDT_FORM_COLUMNS | RDT_FORM_BLOCKS | RDT_FORM_PRODUCT | RDT_FORM_UNITS | RDT_FORM_CHECKPOINTS
};

static void point(const rdt_native *s, const char *x, int64_t first, int64_t count, const void *zeros,
                  const void **rows) {
  (void)zeros;
  const int64_t size = (int64_t)rdt_dtype_size(s->dtype);
  for (int64_t i = first; i < first + count; i++) {
    const int64_t batch = i < s->height ? 0 : i / s->height;
    const int64_t from = batch ? rdt_batch_offset(s->batch_rank, s->batch_shape, s->batch_stride[0], batch) : 0;
    *rows++ = x + (from + (i - batch * s->height) * s->stride[0]) * size;
  }
}

static int64_t offset(const rdt_native *s, const rdt_tensor *w, int64_t t, int64_t j) {
  (void)s;
  return t * w->stride[w->rank - 2] + j * w->stride[w->rank - 1];
}

static rdt_status pack(void *state, const rdt_tensor *w, rdt_reason *why) {
  (void)why;
  rdt_native_pack(state, w, offset);
  return RDT_OK;
}

static int64_t last(const rdt_tensor *t, int from_end, const int64_t *of) {
  return of[t->rank - 1 - from_end];
}

static rdt_status accept_as(const rdt_problem *p, rdt_native_operands operands, rdt_reason *why) {
  const rdt_tensor *b = &p->in[1], *c = &p->out, *e = &p->epilogue.residual;
  const rdt_fn fn = p->epilogue.act.fn;
  RDT_TRY(rdt_native_accept(p, operands, why));
  int64_t step;
  if (b->data && c->rank > 2 &&
      !(rdt_batch_is_one(b) && rdt_batch_is_even(c, &step) && (e->rank < 0 || rdt_batch_is_even(e, &step))))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "takes a batch with fixed weights where all share them and rows of C follow one another evenly");
  if (fn != RDT_FN_NONE && fn != RDT_FN_RELU && fn != RDT_FN_CLIP && last(c, 0, c->stride) != 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "ends with %s only where rows of C lie side by side",
                    rdt_fn_info(fn)->name);
  return RDT_OK;
}

static rdt_status accept_fused_as(const rdt_problem *p, rdt_native_operands operands, rdt_reason *why) {
  if (rdt_tensor_count(&p->in[0]) < 1 || rdt_tensor_count(&p->in[1]) < 1 || rdt_tensor_count(&p->out) < 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "has nothing to check where an operand is empty");
  return accept_as(p, operands, why);
}

static void set_batches(rdt_native *s, const rdt_problem *p) {
  s->batch_rank = p->out.rank - 2;
  s->batches = 1;
  for (int d = 0; d < s->batch_rank; d++) {
    s->batches *= s->batch_shape[d] = p->out.shape[d];
    s->batch_stride[0][d] = p->in[0].stride[d];
    s->batch_stride[1][d] = p->in[1].stride[d];
  }
  for (int i = 0; i < 2; i++) s->b_stride[i] = p->in[1].stride[s->batch_rank + i];
  if (!p->in[1].data) return;
  s->m *= s->batches; /* all rows are those of one product */
  s->batches = 1;
  if (!rdt_batch_is_even(&p->in[0], &s->apart)) s->apart = 0;
  for (int d = s->batch_rank; d >= 0; d--) /* along the rows */
    if (p->out.shape[s->row_dim] == 1) s->row_dim = d;
}

static rdt_status create_as(const rdt_problem *p, int threads, bool dot, void **state, rdt_reason *why) {
  const rdt_tensor *a = &p->in[0], *c = &p->out;
  rdt_native *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->dtype = a->dtype;
  s->dot = dot;
  s->m = s->height = last(c, 1, c->shape);
  s->n = last(c, 0, c->shape);
  s->k = s->length = last(a, 0, a->shape);
  s->segments = s->plane = 1;
  s->threads = threads < 1 ? 1 : threads;
  s->point = point;
  s->apart = s->stride[0] = last(a, 1, a->stride);
  s->step = last(a, 0, a->stride);
  s->row_dim = c->rank - 2;
  set_batches(s, p);
  s->sides = p->in[1].data != NULL;
  const rdt_status status = rdt_native_init(s, p->in[1].data, why);
  if (status != RDT_OK) {
    rdt_native_destroy(s);
    return status;
  }
  if (s->packed) rdt_native_pack(s, &p->in[1], offset);
  *state = s;
  return RDT_OK;
}

/* A row of the table */
#define ROW(NAME, OPERANDS, FORMS)                                                                    \
  static rdt_status accept_##NAME(const rdt_problem *p, rdt_reason *why) {                            \
    return accept_as(p, OPERANDS, why);                                                               \
  }                                                                                                   \
  static rdt_status accept_fused_##NAME(const rdt_problem *p, rdt_reason *why) {                      \
    return accept_fused_as(p, OPERANDS, why);                                                         \
  }                                                                                                   \
  static rdt_status create_##NAME(const rdt_problem *p, int threads, void **state, rdt_reason *why) { \
    return create_as(p, threads, (OPERANDS) == RDT_NATIVE_DOT, state, why);                           \
  }                                                                                                   \
  const rdt_kernel rdt_kernel_##NAME = {.name = #NAME,                                                \
                                        .op = RDT_KOP_GEMM,                                           \
                                        .accept = accept_##NAME,                                      \
                                        .create = create_##NAME,                                      \
                                        .fuses = FORMS,                                               \
                                        .unit = rdt_native_unit,                                      \
                                        .accept_fused = accept_fused_##NAME,                          \
                                        .pack = pack,                                                 \
                                        RDT_NATIVE_ROW}

#if RDT_REAL == 64
ROW(gemm_f64_native, RDT_NATIVE_REAL, FORMS);
#else
ROW(gemm_f32_native, RDT_NATIVE_REAL, FORMS);
ROW(gemm_half_native, RDT_NATIVE_HALF, FORMS);
ROW(gemm_bf16_native, RDT_NATIVE_DOT, RDT_FORM_ROWS | RDT_FORM_BLOCKS | RDT_FORM_PRODUCT | RDT_FORM_CHECKPOINTS);
#endif
