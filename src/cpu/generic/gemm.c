/* Reference product: any strides, broadcast batches, zero sizes. */
#include "cpu/generic/product.h"
#include "cpu/generic/state.h"

/* Offset of matrix `batch` (row-major number over the batch dimensions of the output). */
static int64_t matrix_offset(const rdt_product *q, const rdt_tensor *t, int64_t batch) {
  int64_t offset = 0;
  for (int d = q->o->out.rank - 3; d >= 0; d--) {
    offset += batch % q->o->out.shape[d] * t->stride[d];
    batch /= q->o->out.shape[d];
  }
  return offset;
}

static void load_a(const rdt_product *q, int64_t batch, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to,
                   int64_t ld) {
  const rdt_tensor *a = &q->o->in[0];
  const int64_t si = a->stride[a->rank - 2], sk = a->stride[a->rank - 1];
  const int64_t base = matrix_offset(q, a, batch) + k * sk;
  const int64_t step = ld * (int64_t)rdt_dtype_size(rdt_compute_type(a->dtype));
  for (int64_t r = 0; r < rows; r++) {
    q->load[0]((char *)to + r * step, rdt_at(a, base + (i + r) * si), sk, depth);
    rdt_product_centre(q, 0, (char *)to + r * step, depth);
  }
}

static void load_b(const rdt_product *q, int64_t batch, int64_t k, int64_t depth, int64_t j, int64_t cols, void *to,
                   int64_t ld) {
  const rdt_tensor *b = &q->o->in[1];
  const int64_t sk = b->stride[b->rank - 2], sj = b->stride[b->rank - 1];
  const int64_t base = matrix_offset(q, b, batch) + j * sj;
  const int64_t step = ld * (int64_t)rdt_dtype_size(rdt_compute_type(b->dtype));
  for (int64_t r = 0; r < depth; r++) {
    q->load[1]((char *)to + r * step, rdt_at(b, base + (k + r) * sk), sj, cols);
    rdt_product_centre(q, 1, (char *)to + r * step, cols);
  }
}

static int64_t row(const rdt_product *q, const rdt_tensor *t, int64_t batch, int64_t i) {
  return matrix_offset(q, t, batch) + i * t->stride[t->rank - 2];
}

static rdt_product product_of(const rdt_generic *s, const rdt_operands *o) {
  const rdt_tensor *a = &o->in[0], *c = &o->out;
  const int r = c->rank;
  rdt_product q = {.p = &s->p,
                   .o = o,
                   .batches = 1,
                   .m = c->shape[r - 2],
                   .n = c->shape[r - 1],
                   .k = a->shape[r - 1],
                   .column_dim = r - 1,
                   .channel_groups = 1,
                   .load = {rdt_loader(a->dtype), rdt_loader(o->in[1].dtype)},
                   .load_a = load_a,
                   .load_b = load_b,
                   .row = row};
  for (int d = 0; d < r - 2; d++) q.batches *= c->shape[d];
  return q;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_product q = product_of(s, o);
  return rdt_product_run(&q, s->threads, why);
}

static rdt_status run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_product q = product_of(s, o);
  const int64_t size = q.m * q.n > 0 ? q.m * q.n : 1;
  const rdt_product_hit h = {hit->element / size, hit->element % size / (q.n > 0 ? q.n : 1),
                             hit->element % (q.n > 0 ? q.n : 1), hit};
  return rdt_product_run_inject(&q, s->threads, &h, why);
}

const rdt_kernel rdt_kernel_gemm_generic = {.name = "gemm_generic",
                                            .op = RDT_KOP_GEMM,
                                            .isa = RDT_ISA_GENERIC,
                                            .deterministic = true,
                                            .accept = rdt_product_accept,
                                            .create = rdt_generic_create,
                                            .run = run,
                                            .run_inject = run_inject,
                                            .fixed = rdt_generic_fixed,
                                            .destroy = rdt_generic_destroy};
