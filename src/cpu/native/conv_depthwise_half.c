/* Depthwise convolutions in 16 bits: images are converted, the kernel of single precision does the rest, and a result
 * of 16 bits is rounded once. No check rides along, since the conversions are not its business: passes apart, or a
 * second copy, cover all of it. */
#include <stddef.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/kernel.h"
#include "cpu/native/layout.h"

extern const rdt_kernel rdt_kernel_conv_depthwise_f32_native;
static const rdt_kernel *const single = &rdt_kernel_conv_depthwise_f32_native;

enum { PART = 1 << 14 /* elements that a thread converts at a time */ };

typedef struct state {
  void *made; /* of the kernel in single precision */
  rdt_dtype dtype;
  int threads;
  int64_t inputs, outputs; /* elements; outputs: of a result of 16 bits, else 0 */
  void *own, *lent;        /* scratch of a run */
} state;

static rdt_tensor widened(const rdt_tensor *t, void *data) {
  rdt_tensor x = *t;
  x.dtype = RDT_F32;
  x.data = data;
  return x;
}

/* The same problem in single precision; in: room for its inputs, weights: theirs */
static rdt_problem in_single(const rdt_problem *p, rdt_tensor in[2], void *weights) {
  rdt_problem q = *p;
  in[0] = widened(&p->in[0], NULL);
  in[1] = widened(&p->in[1], weights);
  q.in = in;
  q.out = widened(&p->out, p->out.data);
  return q;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype x = p->in[0].dtype, y = p->out.dtype;
  rdt_tensor in[2];
  if (!rdt_dtype_is_half(x) || p->in[1].dtype != x || (y != x && y != RDT_F32))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes bf16 and f16");
  if (!rdt_tensor_is_packed(&p->in[0]) || !rdt_tensor_is_packed(&p->in[1]) ||
      (y != RDT_F32 && !rdt_tensor_is_packed(&p->out)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "converts operands without gaps");
  const rdt_problem q = in_single(p, in, p->in[1].data);
  return single->accept(&q, why);
}

static void convert(rdt_dtype dtype, float *to, const void *from, int64_t n, int threads) {
  rdt_load_fn *const load = rdt_loader(dtype);
  const int64_t parts = (n + PART - 1) / PART;
#pragma omp parallel for num_threads(threads) if (threads > 1 && parts > 1)
  for (int64_t i = 0; i < parts; i++)
    load(to + i * PART, (const uint16_t *)from + i * PART, 1, rdt_least(PART, n - i * PART));
}

static void convert_back(rdt_dtype dtype, void *to, const float *from, int64_t n, int threads) {
  rdt_store_fn *const store = rdt_storer(dtype);
  const int64_t parts = (n + PART - 1) / PART;
#pragma omp parallel for num_threads(threads) if (threads > 1 && parts > 1)
  for (int64_t i = 0; i < parts; i++)
    store((uint16_t *)to + i * PART, 1, from + i * PART, rdt_least(PART, n - i * PART));
}

/* Weights in single precision, for as long as they are packed. */
static rdt_status with_weights(const rdt_tensor *w, rdt_tensor *to, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(w);
  *to = widened(w, rdt_alloc((size_t)n, sizeof(float)));
  if (!to->data) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for weights in single precision");
  convert(w->dtype, to->data, w->data, n, 1);
  return RDT_OK;
}

static rdt_status pack(void *made, const rdt_tensor *w, rdt_reason *why) {
  state *s = made;
  rdt_tensor wide;
  RDT_TRY(with_weights(w, &wide, why));
  const rdt_status status = single->pack(s->made, &wide, why);
  rdt_free(wide.data);
  return status;
}

static void packed(void *made, void **data, size_t *bytes, rdt_dtype *dtype) {
  const state *s = made;
  single->packed(s->made, data, bytes, dtype);
}

static void destroy(void *made) {
  state *s = made;
  if (!s) return;
  if (s->made) single->destroy(s->made);
  rdt_free(s->own);
  rdt_free(s);
}

static rdt_status create(const rdt_problem *p, int threads, void **out, rdt_reason *why) {
  rdt_tensor in[2], wide;
  state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->dtype = p->in[0].dtype;
  s->threads = threads < 1 ? 1 : threads;
  s->inputs = rdt_tensor_count(&p->in[0]);
  s->outputs = p->out.dtype == RDT_F32 ? 0 : rdt_tensor_count(&p->out);
  rdt_status status = with_weights(&p->in[1], &wide, why);
  if (status == RDT_OK) {
    const rdt_problem q = in_single(p, in, wide.data);
    status = single->create(&q, threads, &s->made, why);
    rdt_free(wide.data);
  }
  if (status != RDT_OK) {
    destroy(s);
    return status;
  }
  *out = s;
  return RDT_OK;
}

static size_t own_scratch(const state *s, rdt_layout *l, float **x, float **y) {
  *x = rdt_layout_take(l, s->inputs, sizeof(float));
  *y = rdt_layout_take(l, s->outputs, sizeof(float));
  return l->used;
}

static size_t scratch(void *made, void *memory) {
  state *s = made;
  rdt_layout l = {NULL, 0};
  float *x, *y;
  const size_t mine = own_scratch(s, &l, &x, &y), its = single->scratch(s->made, memory ? (char *)memory + mine : NULL);
  if (memory) rdt_layout_lend(&s->own, &s->lent, memory);
  return mine + its;
}

static rdt_status run_with(state *s, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  rdt_layout count = {NULL, 0};
  float *x, *y;
  const size_t mine = own_scratch(s, &count, &x, &y);
  rdt_layout l = {rdt_layout_memory(&s->own, s->lent, mine), 0};
  if (!l.base) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for images in single precision");
  own_scratch(s, &l, &x, &y);
  convert(s->dtype, x, o->in[0].data, s->inputs, s->threads);
  const rdt_tensor in[2] = {widened(&o->in[0], x), o->in[1]};
  rdt_operands q = *o;
  q.in = in;
  if (s->outputs > 0) q.out = widened(&o->out, y);
  RDT_TRY(hit ? single->run_inject(s->made, &q, hit, why) : single->run(s->made, &q, why));
  if (s->outputs > 0) convert_back(s->dtype, o->out.data, y, s->outputs, s->threads);
  return RDT_OK;
}

static rdt_status run(void *made, const rdt_operands *o, rdt_reason *why) {
  return run_with(made, o, NULL, why);
}

static rdt_status run_inject(void *made, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  return run_with(made, o, hit, why);
}

static rdt_status fixed(void *made, rdt_vault *frame) {
  state *s = made;
  RDT_TRY(rdt_vault_add(frame, s, offsetof(state, own)));
  return single->fixed(s->made, frame);
}

const rdt_kernel rdt_kernel_conv_depthwise_half_native = {.name = "conv_depthwise_half_native",
                                                          .op = RDT_KOP_CONV,
                                                          .isa = RDT_ISA_GENERIC,
                                                          .deterministic = true,
                                                          .accept = accept,
                                                          .create = create,
                                                          .run = run,
                                                          .run_inject = run_inject,
                                                          .pack = pack,
                                                          .packed = packed,
                                                          .scratch = scratch,
                                                          .fixed = fixed,
                                                          .destroy = destroy};
