#include <cuda_runtime_api.h>
#include <float.h>

#include "cuda/box/boxes.h"
#include "cuda/probe.h"

static bool curve(rdt_fn fn) { /* those of finish.h */
  switch (fn) {
    case RDT_FN_LEAKYRELU:
    case RDT_FN_HARDSIGMOID:
    case RDT_FN_HARDSWISH:
    case RDT_FN_ELU:
    case RDT_FN_SIGMOID:
    case RDT_FN_SILU:
    case RDT_FN_TANH:
    case RDT_FN_ERF:
    case RDT_FN_GELU:
    case RDT_FN_GELU_TANH:
      return true;
    default:
      return false;
  }
}

static bool loads(rdt_dtype t, rdt_dtype acc) { /* finish.h reads it, without loss */
  if (acc == RDT_S32) return t == RDT_S32;
  return t == RDT_F32 || t == RDT_F16 || t == RDT_BF16 || (t == RDT_F64 && acc == RDT_F64);
}

rdt_status rdt_box_finish_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  const rdt_epilogue *e = &p->epilogue;
  const rdt_fn fn = e->act.fn;
  if (e->factor.rank >= 0) return rdt_fail(why, no, "the GPU does not requantise");
  if (fn != RDT_FN_NONE && fn != RDT_FN_RELU && fn != RDT_FN_CLIP && !(curve(fn) && p->acc == RDT_F32))
    return rdt_fail(why, no, "no %s behind products of %s on the GPU", rdt_fn_info(fn)->name,
                    rdt_dtype_name(p->in[0].dtype));
  if (e->bias.rank >= 0 && !loads(e->bias.dtype, p->acc))
    return rdt_fail(why, no, "no bias of %s on the GPU", rdt_dtype_name(e->bias.dtype));
  if (e->bias.rank >= 0 && e->bias.shape[0] > 1 && e->bias.stride[0] != 1)
    return rdt_fail(why, no, "a bias whose elements do not lie side by side");
  if (e->residual.rank >= 0 && !loads(e->residual.dtype, p->acc))
    return rdt_fail(why, no, "no residual of %s on the GPU", rdt_dtype_name(e->residual.dtype));
  return RDT_OK;
}

rdt_box_finish rdt_box_finish_of(const rdt_problem *p) {
  const rdt_epilogue *e = &p->epilogue;
  return (rdt_box_finish){.on = !rdt_epilogue_is_none(e),
                          .out = p->out.dtype,
                          .bias_type = e->bias.rank >= 0 ? e->bias.dtype : p->out.dtype,
                          .residual_type = e->residual.rank >= 0 ? e->residual.dtype : p->out.dtype,
                          .act = (int)e->act.fn,
                          .alpha = e->alpha,
                          .beta = e->beta,
                          .p = e->act.param[0],
                          .q = e->act.param[1]};
}

int rdt_box_ends(const rdt_box_finish *f) {
  return !f->on ? 0 : curve((rdt_fn)f->act) ? 2 : 1;
}

rdt_status rdt_box_accumulator(const rdt_cuda_device *d, rdt_dtype in, bool tensor_cores, rdt_accumulator *acc,
                               rdt_reason *why) {
  if (tensor_cores && rdt_dtype_is_half(in)) return rdt_probe(d, in, NULL, acc, why);
  *acc = rdt_accumulator_mma(0, 0, in);
  return RDT_OK;
}

double rdt_box_least2(const rdt_accumulator *acc, rdt_dtype in) {
  const double lost = rdt_dtype_size(in) <= 2 ? (double)FLT_MIN : DBL_MIN, aligned = acc->flush * acc->flush;
  return aligned > lost ? aligned : lost;
}

/* Of what goes into a result y = alpha c + b + r, both sides together: alpha, b and r round in the library, r, y - b
 * and y - b - r in the check. That is u (|alpha c| + |y - r| + |y| + 2 |r| + |y - b| + |alpha c|), and all of these are
 * sums of |y|, |b| and |r|, none of which comes more than five times. */
void rdt_box_rounded(rdt_tolerance *t, rdt_dtype stored, bool adds, bool scaled) {
  const rdt_dtype_row *row = rdt_dtype_info(stored);
  const bool half = rdt_dtype_is_half(stored);
  if (!rdt_dtype_is_float(stored)) return;
  const double times = adds ? 5.0 : scaled ? 1.0 : 0.0;
  t->u_out = (half ? row->u : 0.0) + times * rdt_dtype_info(half ? RDT_F32 : stored)->u;
  t->eta_out = half ? 2.0 * row->u * row->min_normal : 0.0;
}

/* ---- what is left behind a result ---- */

unsigned rdt_box_rows_blocks(const rdt_rows_args *a, int rows) {
  const int64_t groups = (int64_t)a->batches * ((a->m + rows - 1) / rows);
  return (unsigned)(((groups << a->log_threads) + RDT_BOX_THREADS - 1) / RDT_BOX_THREADS);
}

enum { MOST_BLOCKS = 1056 }; /* they meet where the sum is added up */

void rdt_box_tail_of(rdt_box_tail *t, const rdt_ends_args *a, rdt_dtype type, bool flat, bool checked) {
  const int64_t count = (int64_t)a->m * a->n * a->batches, step = 16 / (int64_t)rdt_dtype_size(type);
  *t = (rdt_box_tail){.any = *a, .act = {.count = count, .finish = a->finish}};
  t->any.by_rows = a->raw.column != 1 && a->raw.row == 1;
  if (checked && rdt_dtype_is_half(type) && rdt_box_ends(&a->finish) == 2) flat = false;
  t->flat = flat && rdt_ends_act(type, 2) != NULL;
  t->code = t->flat ? rdt_ends_act(type, rdt_box_ends(&a->finish)) : rdt_ends_any(type);
  t->blocks = (unsigned)(((t->flat ? (count + step - 1) / step : count) + RDT_BOX_THREADS - 1) / RDT_BOX_THREADS);
  if (t->flat && t->blocks > MOST_BLOCKS) t->blocks = MOST_BLOCKS;
}

rdt_status rdt_box_tail_launch(const rdt_box_tail *t, const void *raw, const rdt_operands *o, rdt_box_sum_to to,
                               void *stream, rdt_reason *why) {
  rdt_ends_args any = t->any;
  rdt_act_args act = t->act;
  void *arguments[] = {t->flat ? (void *)&act : (void *)&any};
  const dim3 grid = {t->blocks, 1, 1}, block = {RDT_BOX_THREADS, 1, 1};
  act.to = to;
  any.raw.data = act.raw = raw, any.out.data = act.out = o->out.data;
  any.residual.data = rdt_box_residual(o), any.finish.bias = rdt_box_bias(o);
  return rdt_cuda_status(cudaLaunchKernel(t->code, grid, block, arguments, 0, stream), "what follows a product", why);
}

const void *rdt_box_bias(const rdt_operands *o) {
  return o->epilogue && o->epilogue->bias.rank >= 0 ? o->epilogue->bias.data : NULL;
}

const void *rdt_box_residual(const rdt_operands *o) {
  return o->epilogue && o->epilogue->residual.rank >= 0 && o->epilogue->beta != 0.0 ? o->epilogue->residual.data : NULL;
}

bool rdt_box_aligned(const void *p) {
  return (uintptr_t)p % 16 == 0;
}

size_t rdt_box_bytes_of(const rdt_tensor *t, rdt_dtype type) {
  int64_t last = 0;
  for (int d = 0; d < t->rank; d++) last += (t->shape[d] - 1) * t->stride[d];
  return (size_t)(last + 1) * rdt_dtype_size(type);
}

/* Ones, or nearly: what is measured neither overflows nor is all zero. */
static rdt_status ones(const rdt_tensor *t, void **memory, rdt_tensor *to, rdt_reason *why) {
  const size_t bytes = rdt_box_bytes_of(t, t->dtype);
  *to = *t;
  RDT_TRY(rdt_cuda_alloc(bytes, memory, why));
  to->data = *memory;
  RDT_TRY(rdt_cuda_status(cudaMemset(*memory, 0x3c, bytes), "cudaMemset", why));
  return rdt_cuda_wait(NULL, why); /* no stream of ours waits for it */
}

rdt_status rdt_box_trial_make(const rdt_problem *p, rdt_box_trial *t, rdt_reason *why) {
  rdt_status status;
  *t = (rdt_box_trial){.epilogue = p->epilogue};
  t->o = (rdt_operands){.in = t->in, .n_in = 2, .epilogue = &t->epilogue};
  t->in[1] = p->in[1];
  RDT_TRY_GOTO(ones(&p->in[0], &t->memory[0], &t->in[0], why), fail);
  if (!p->in[1].data) RDT_TRY_GOTO(ones(&p->in[1], &t->memory[1], &t->in[1], why), fail);
  RDT_TRY_GOTO(ones(&p->out, &t->memory[2], &t->o.out, why), fail);
  if (p->epilogue.bias.rank >= 0) RDT_TRY_GOTO(ones(&p->epilogue.bias, &t->memory[3], &t->epilogue.bias, why), fail);
  if (p->epilogue.residual.rank >= 0)
    RDT_TRY_GOTO(ones(&p->epilogue.residual, &t->memory[4], &t->epilogue.residual, why), fail);
  return RDT_OK;
fail:
  rdt_box_trial_free(t);
  return status;
}

void rdt_box_trial_free(rdt_box_trial *t) {
  for (int i = 0; i < 5; i++) rdt_cuda_free(t->memory[i]), t->memory[i] = NULL;
}
