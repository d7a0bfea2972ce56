/* One product with fixed weights. */
#include "core/memory.h"
#include "cpu/native/native.h"

static void point(const rdt_native *s, const float *x, int64_t first, int64_t count, int64_t padded, const float *zeros,
                  const float **rows) {
  (void)zeros;
  for (int64_t i = 0; i < padded; i++) rows[i] = x + (first + (i < count ? i : count - 1)) * s->stride[0];
}

static float element(const rdt_native *s, const rdt_tensor *w, int64_t t, int64_t j) {
  (void)s;
  return ((const float *)w->data)[t * w->stride[0] + j * w->stride[1]];
}

static rdt_status pack(void *state, const rdt_tensor *w, rdt_reason *why) {
  (void)why;
  rdt_native_pack(state, w, element);
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *a = &p->in[0], *c = &p->out, *r = &p->epilogue.residual;
  if (a->dtype != RDT_F32 || p->in[1].dtype != RDT_F32 || c->dtype != RDT_F32)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes f32");
  if (!p->in[1].data || c->rank != 2) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes one product with fixed weights");
  if (c->shape[0] < 4) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "fewer than 4 rows leave a tile half empty");
  if (c->shape[1] < 1 || a->shape[1] < 1) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes no empty operand");
  if (a->stride[1] != 1 || a->stride[0] < 0 || c->stride[1] != 1 || c->stride[0] < c->shape[1])
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes rows of A and C side by side in memory");
  if (r->rank >= 0 && r->stride[1] != 1) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes a residual in rows");
  return rdt_native_accept_epilogue(p, why);
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  rdt_native *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->m = p->out.shape[0];
  s->n = p->out.shape[1];
  s->k = s->length = p->in[0].shape[1];
  s->segments = s->plane = 1;
  s->threads = threads < 1 ? 1 : threads;
  s->point = point;
  s->stride[0] = p->in[0].stride[0];
  s->out_ld = p->out.stride[0];
  const rdt_status status = rdt_native_init(s, why);
  if (status != RDT_OK) {
    rdt_native_destroy(s);
    return status;
  }
  rdt_native_pack(s, &p->in[1], element);
  *state = s;
  return RDT_OK;
}

const rdt_kernel rdt_kernel_gemm_f32_native = {.name = "gemm_f32_native",
                                               .op = RDT_KOP_GEMM,
                                               .isa = RDT_ISA_GENERIC,
                                               .deterministic = true,
                                               .accept = accept,
                                               .create = create,
                                               .run = rdt_native_run,
                                               .run_inject = rdt_native_run_inject,
                                               .accept_fused = accept,
                                               .run_fused = rdt_native_run_fused,
                                               .pack = pack,
                                               .packed = rdt_native_packed,
                                               .scratch = rdt_native_scratch,
                                               .destroy = rdt_native_destroy};
