/* Products of 8-bit integers: any strides, batched or not, fixed weights or not. A batch that shares fixed ones is one
 * product with more rows. */
#include "core/memory.h"
#include "cpu/native/int8.h"
#include "cpu/native/shares.h"

enum { FORMS = RDT_FORM_ROWS | RDT_FORM_COLUMNS | RDT_FORM_BLOCKS | RDT_FORM_PRODUCT };

static int64_t row_of(const rdt_int8 *s, const int64_t *batch_stride, int64_t step, int64_t row) {
  if (row < s->height) return row * step;
  return rdt_batch_offset(s->batch_rank, s->batch_shape, batch_stride, row / s->height) + row % s->height * step;
}

static void point(const rdt_int8 *s, const uint8_t *x, int64_t row, const uint8_t **runs) {
  runs[0] = x + row_of(s, s->batch_stride[0], s->stride[0], row);
}

static void place(const rdt_int8 *s, const rdt_tensor *t, int64_t first, int64_t count, int64_t *offset) {
  for (int64_t i = 0; i < count; i++) offset[i] = row_of(s, t->stride, t->stride[s->column_dim - 1], first + i);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_int8_accept(p, why);
}

static rdt_status accept_fused(const rdt_problem *p, rdt_reason *why) {
  if (p->in[1].data && !rdt_batch_is_one(&p->in[1]))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes a batch with fixed weights where all share them");
  if (rdt_tensor_count(&p->out) < 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "has nothing to check where the result is empty");
  return rdt_int8_accept(p, why);
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  const rdt_tensor *a = &p->in[0], *b = &p->in[1], *c = &p->out;
  const int r = c->rank;
  rdt_int8 *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->m = s->height = c->shape[r - 2];
  s->n = c->shape[r - 1];
  s->k = s->length = a->shape[r - 1];
  s->segments = s->plane = 1;
  s->threads = threads;
  s->point = point;
  s->place = place;
  s->stride[0] = a->stride[r - 2];
  s->inner[0] = a->stride[r - 1];
  s->inner[1] = b->stride[r - 2];
  s->apart = b->stride[r - 1];
  s->column_dim = r - 1;
  s->batch_rank = r - 2;
  s->batches = 1;
  s->sides = b->data && rdt_batch_is_one(b);
  for (int d = 0; d < s->batch_rank; d++) {
    s->batches *= s->batch_shape[d] = c->shape[d];
    s->batch_stride[0][d] = a->stride[d];
    s->batch_stride[1][d] = b->stride[d];
  }
  if (s->sides) {
    s->m *= s->batches;
    s->batches = 1;
  }
  return rdt_int8_init(s, p, state, why);
}

const rdt_kernel rdt_kernel_gemm_int8_native = {.name = "gemm_int8_native",
                                                .op = RDT_KOP_GEMM,
                                                .accept = accept,
                                                .create = create,
                                                .fuses = FORMS,
                                                .accept_fused = accept_fused,
                                                RDT_INT8_ROW};
