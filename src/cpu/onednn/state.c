/* The state behind every oneDNN row: a primitive for concrete shapes, its packed weights, and what one run needs beside
 * the operands (memory objects, scratchpad, stream). The latter is a slot; the state owns one for every thread that
 * executes the primitive. A run that finds them busy makes its own, so that several threads may run one state at once.
 */
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/onednn/onednn.h"
#include "cpu/threads.h"

typedef struct slot {
  dnnl_stream_t stream;
  dnnl_memory_t memory[RDT_ONEDNN_ARGS], scratchpad;
  dnnl_memory_t user_w, packed_w; /* weights are packed anew by each run where they were not fixed at create */
  void *own, *lent;               /* memory that only a run needs: scratchpad, such weights, a copy of the input */
  bool placed;                    /* there */
  char *copy;
} slot;

typedef struct state {
  rdt_onednn_plan plan;
  dnnl_primitive_t primitive, reorder;
  dnnl_memory_desc_t scratch_md;
  int threads, team;        /* of the state; threads that execute the primitive, each on other images */
  int64_t images;           /* > 1: the primitive does one image on one thread, see rdt_onednn_create */
  int64_t x_image, y_image; /* bytes from image to image */
  rdt_dtype w_dtype;
  bool fixed;              /* weights packed once */
  bool epilogue, residual; /* part of the primitive */
  rdt_tensor from;         /* rank >= 0: the primitive's input is a dense copy of this view of in[0] */
  void *packed;
  dnnl_memory_t packed_memory;
  atomic_flag busy;
  slot *own; /* team of them */
} state;

/* What oneDNN calls the functions; those that are not here it lacks, or computes otherwise: its Relu (a slope of 0),
 * its Clip and, in convolutions by gemm:jit, its Sigmoid make a number of NaN. */
static rdt_status append_act(dnnl_post_ops_t ops, const rdt_act *act, rdt_reason *why) {
  static const struct {
    rdt_fn fn;
    dnnl_alg_kind_t alg;
    bool params; /* alpha and beta are the function's */
    float alpha; /* else */
  } algs[] = {
      {RDT_FN_LEAKYRELU, dnnl_eltwise_relu, true, 0.0f},       {RDT_FN_ELU, dnnl_eltwise_elu, true, 0.0f},
      {RDT_FN_GELU, dnnl_eltwise_gelu_erf, false, 0.0f},       {RDT_FN_GELU_TANH, dnnl_eltwise_gelu_tanh, false, 0.0f},
      {RDT_FN_TANH, dnnl_eltwise_tanh, false, 0.0f},           {RDT_FN_SILU, dnnl_eltwise_swish, false, 1.0f},
      {RDT_FN_HARDSWISH, dnnl_eltwise_hardswish, false, 0.0f}, {RDT_FN_MISH, dnnl_eltwise_mish, false, 0.0f}};
  if (act->fn == RDT_FN_NONE) return RDT_OK;
  for (size_t i = 0; i < sizeof algs / sizeof *algs; i++) {
    if (algs[i].fn != act->fn) continue;
    if (act->fn == RDT_FN_LEAKYRELU && (float)act->param[0] == 0.0f) break;
    if (act->fn == RDT_FN_HARDSWISH && ((float)act->param[0] != 1.0f / 6.0f || act->param[1] != 0.5)) break;
    const float alpha = algs[i].params ? (float)act->param[0] : algs[i].alpha;
    const float beta = algs[i].params ? (float)act->param[1] : 0.0f;
    return rdt_onednn_try(dnnl_post_ops_append_eltwise(ops, 1.0f, algs[i].alg, alpha, beta), "activation", why);
  }
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN has no activation %s with these parameters that keeps NaN",
                  rdt_fn_info(act->fn)->name);
}

static rdt_status make_attr(const rdt_problem *p, dnnl_primitive_attr_t *attr, rdt_reason *why) {
  const rdt_epilogue *e = &p->epilogue;
  dnnl_post_ops_t ops = NULL;
  rdt_status status;
  if (e->alpha == 0.0) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN makes 0 of NaN where alpha is 0");
  if (e->alpha != 1.0 && e->bias.rank >= 0)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN scales the bias too: with one, alpha must be 1");
  if (e->residual.rank >= 0 && (e->residual.dtype != p->out.dtype || !rdt_tensor_is_packed(&p->out) ||
                                !rdt_tensor_same_strides(&e->residual, &p->out))) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "the residual must lie in memory as the output does, in its datatype");
  }
  RDT_TRY(rdt_onednn_try(dnnl_primitive_attr_create(attr), "attributes", why));
  RDT_TRY_GOTO(
      rdt_onednn_try(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user), "scratchpad", why),
      fail);
  if (e->alpha != 1.0) {
    const float alpha = (float)e->alpha;
    RDT_TRY_GOTO(rdt_onednn_try(dnnl_primitive_attr_set_output_scales(*attr, 1, 0, &alpha), "alpha", why), fail);
  }
  RDT_TRY_GOTO(rdt_onednn_try(dnnl_post_ops_create(&ops), "post-ops", why), fail);
  if (e->residual.rank >= 0) {
    /* Not the binary post-op: in oneDNN 2.6 gemm:jit adds wrong elements in grouped channels-last convolutions. */
    RDT_TRY_GOTO(rdt_onednn_try(dnnl_post_ops_append_sum(ops, (float)e->beta), "residual", why), fail);
  }
  RDT_TRY_GOTO(append_act(ops, &e->act, why), fail);
  RDT_TRY_GOTO(rdt_onednn_try(dnnl_primitive_attr_set_post_ops(*attr, ops), "post-ops", why), fail);
  dnnl_post_ops_destroy(ops);
  return RDT_OK;
fail:
  if (ops) dnnl_post_ops_destroy(ops);
  dnnl_primitive_attr_destroy(*attr);
  return status;
}

static rdt_status make_plan(const rdt_problem *p, rdt_onednn_build_fn *build, rdt_onednn_plan *plan, rdt_reason *why) {
  dnnl_primitive_attr_t attr;
  dnnl_engine_t engine;
  const char *name = "";
  memset(plan, 0, sizeof *plan);
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(make_attr(p, &attr, why));
  rdt_status status = build(p, attr, plan, why);
  dnnl_primitive_attr_destroy(attr);
  if (status == RDT_OK) {
    status = rdt_onednn_try(dnnl_primitive_desc_query(plan->pd, dnnl_query_impl_info_str, 0, &name), "query", why);
  }
  if (status == RDT_OK && strstr(name, "ref")) {
    status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN has only its slow reference (%s) for this problem", name);
  }
  if (status != RDT_OK && plan->pd) {
    dnnl_primitive_desc_destroy(plan->pd);
    plan->pd = NULL; /* a state that is cleared later has none */
  }
  return status;
}

rdt_status rdt_onednn_accept(const rdt_problem *p, rdt_onednn_build_fn *build, rdt_reason *why) {
  rdt_onednn_plan plan;
  if (p->zero[0] || p->zero[1] || p->epilogue.factor.rank >= 0)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes no zero points, and does not requantise");
  RDT_TRY(make_plan(p, build, &plan, why));
  dnnl_primitive_desc_destroy(plan.pd);
  return RDT_OK;
}

rdt_status rdt_onednn_accept_linear(const rdt_problem *p, rdt_onednn_build_fn *build, rdt_dtype t, rdt_reason *why) {
  if (p->in[0].dtype != t || p->in[1].dtype != t)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes %s by %s", rdt_dtype_name(t), rdt_dtype_name(t));
  return rdt_onednn_accept(p, build, why);
}

static void slot_clear(slot *s) {
  for (int i = 0; i < RDT_ONEDNN_ARGS; i++) {
    if (s->memory[i]) dnnl_memory_destroy(s->memory[i]);
  }
  if (s->scratchpad) dnnl_memory_destroy(s->scratchpad);
  if (s->user_w) dnnl_memory_destroy(s->user_w);
  if (s->packed_w) dnnl_memory_destroy(s->packed_w);
  if (s->stream) dnnl_stream_destroy(s->stream);
  rdt_free(s->own);
  memset(s, 0, sizeof *s);
}

static size_t lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* Bytes of a slot that only a run needs: the copy of the input, weights, the scratchpad. */
static size_t slot_bytes(const state *s, size_t *weights, size_t *scratchpad) {
  const bool packs = s->plan.has_weights && !s->fixed;
  *weights = s->from.rank >= 0 ? lines((size_t)rdt_tensor_count(&s->from) * rdt_dtype_size(s->from.dtype)) : 0;
  *scratchpad = *weights + (packs ? lines(dnnl_memory_desc_get_size(&s->plan.packed_w)) : 0);
  return *scratchpad + lines(dnnl_memory_desc_get_size(&s->scratch_md));
}

static rdt_status slot_place(const state *s, slot *x, rdt_reason *why) {
  size_t weights, scratchpad;
  const size_t bytes = slot_bytes(s, &weights, &scratchpad);
  if (!x->lent && !x->own) x->own = rdt_alloc(bytes, 1);
  char *at = x->lent ? x->lent : x->own;
  if (!at) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for oneDNN's scratchpad");
  RDT_TRY(rdt_onednn_try(dnnl_memory_set_data_handle(x->scratchpad, at + scratchpad), "scratchpad", why));
  if (x->packed_w) RDT_TRY(rdt_onednn_try(dnnl_memory_set_data_handle(x->packed_w, at + weights), "weights", why));
  x->copy = at;
  x->placed = true;
  return RDT_OK;
}

static rdt_status slot_make(const state *s, slot *x, rdt_reason *why) {
  const rdt_onednn_plan *plan = &s->plan;
  dnnl_engine_t engine;
  memset(x, 0, sizeof *x);
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_try(dnnl_stream_create(&x->stream, engine, dnnl_stream_default_flags), "stream", why));
  for (int i = 0; i < plan->n_args; i++) {
    if (plan->has_weights && plan->args[i].source == RDT_FROM_W) continue;
    RDT_TRY(
        rdt_onednn_try(dnnl_memory_create(&x->memory[i], &plan->args[i].md, engine, DNNL_MEMORY_NONE), "memory", why));
  }
  RDT_TRY(
      rdt_onednn_try(dnnl_memory_create(&x->scratchpad, &s->scratch_md, engine, DNNL_MEMORY_NONE), "scratchpad", why));
  if (!plan->has_weights) return RDT_OK;
  RDT_TRY(rdt_onednn_try(dnnl_memory_create(&x->user_w, &plan->user_w, engine, DNNL_MEMORY_NONE), "weights", why));
  if (s->fixed) return RDT_OK;
  return rdt_onednn_try(dnnl_memory_create(&x->packed_w, &plan->packed_w, engine, DNNL_MEMORY_NONE), "weights", why);
}

static void slots_free(const state *s, slot *slots) {
  for (int i = 0; slots && i < s->team; i++) slot_clear(&slots[i]);
  rdt_free(slots);
}

static rdt_status slots_make(const state *s, slot **slots, rdt_reason *why) {
  rdt_status status = RDT_OK;
  *slots = rdt_calloc((size_t)s->team, sizeof **slots);
  if (!*slots) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  for (int i = 0; i < s->team && status == RDT_OK; i++) status = slot_make(s, &(*slots)[i], why);
  return status;
}

static rdt_status reorder_weights(const state *s, slot *x, dnnl_memory_t to, void *from, rdt_reason *why) {
  RDT_TRY(rdt_onednn_try(dnnl_memory_set_data_handle(x->user_w, from), "weights", why));
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, x->user_w}, {DNNL_ARG_TO, to}};
  RDT_TRY(rdt_onednn_try(dnnl_primitive_execute(s->reorder, x->stream, 2, args), "packing weights", why));
  return rdt_onednn_try(dnnl_stream_wait(x->stream), "packing weights", why);
}

/* The sum post-op adds to what the output holds: the residual. Callers that let both share a buffer save the copy. */
static void place_residual(char *to, const char *from, int64_t bytes, int threads) {
  const int64_t part = 1 << 16;
  if (to == from) return;
#pragma omp parallel for num_threads(bytes > 4 * part ? threads : 1) schedule(static)
  for (int64_t at = 0; at < bytes; at += part)
    memcpy(to + at, from + at, (size_t)(bytes - at < part ? bytes - at : part));
}

/* Reads a buffer once, in order: it then lies in the second-level cache. */
static void warm(const char *data, int64_t bytes) {
  int sum = 0;
  for (int64_t at = 0; at < bytes; at += 64) sum += data[at];
  __asm__ volatile("" : : "r"(sum));
}

/* Pixels of a channels-last view, one after the other. */
static void gather(char *to, const rdt_tensor *from, int threads) {
  const int64_t size = (int64_t)rdt_dtype_size(from->dtype), pixel = from->shape[1] * size;
  const int64_t rows = from->shape[0] * from->shape[2], width = from->shape[3];
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * width * pixel > 1 << 17)
  for (int64_t r = 0; r < rows; r++) {
    const int64_t n = r / from->shape[2], y = r % from->shape[2];
    const char *line = (const char *)from->data + (n * from->stride[0] + y * from->stride[2]) * size;
    for (int64_t x = 0; x < width; x++)
      memcpy(to + (r * width + x) * pixel, line + x * from->stride[3] * size, (size_t)pixel);
  }
}

static rdt_status execute(const state *s, slot *x, const rdt_operands *o, int64_t image, rdt_reason *why) {
  const rdt_onednn_plan *plan = &s->plan;
  dnnl_exec_arg_t args[RDT_ONEDNN_ARGS + 1];
  if (!x->placed) RDT_TRY(slot_place(s, x, why));
  void *data[] = {[RDT_FROM_X] = (char *)o->in[0].data + image * s->x_image,
                  [RDT_FROM_W] = o->n_in > 1 ? o->in[1].data : NULL,
                  [RDT_FROM_OUT] = (char *)o->out.data + image * s->y_image,
                  [RDT_FROM_BIAS] = o->epilogue ? o->epilogue->bias.data : NULL};
  if (s->residual) {
    const int64_t bytes = rdt_tensor_count(&o->out) / s->images * (int64_t)rdt_dtype_size(o->out.dtype);
    place_residual(data[RDT_FROM_OUT], (const char *)o->epilogue->residual.data + image * s->y_image, bytes,
                   s->threads / s->team);
  }
  if (s->from.rank >= 0) {
    rdt_tensor from = s->from;
    from.data = data[RDT_FROM_X];
    gather(x->copy, &from, s->threads);
    data[RDT_FROM_X] = x->copy;
  }
  if (s->images > 1) warm(data[RDT_FROM_X], s->x_image);
  for (int i = 0; i < plan->n_args; i++) {
    args[i].arg = plan->args[i].arg;
    args[i].memory = x->memory[i];
    if (plan->has_weights && plan->args[i].source == RDT_FROM_W) {
      args[i].memory = s->fixed ? s->packed_memory : x->packed_w;
      if (!s->fixed) RDT_TRY(reorder_weights(s, x, x->packed_w, data[RDT_FROM_W], why));
    } else {
      RDT_TRY(rdt_onednn_try(dnnl_memory_set_data_handle(x->memory[i], data[plan->args[i].source]), "operand", why));
    }
  }
  args[plan->n_args].arg = DNNL_ARG_SCRATCHPAD;
  args[plan->n_args].memory = x->scratchpad;
  RDT_TRY(rdt_onednn_try(dnnl_primitive_execute(s->primitive, x->stream, plan->n_args + 1, args), "executing", why));
  return rdt_onednn_try(dnnl_stream_wait(x->stream), "executing", why);
}

/* oneDNN cuts the work for the number of threads at create: with fewer, parts would be missing. */
static rdt_status check_team(const state *s, rdt_reason *why) {
  if (s->threads == 1 || !rdt_threads_nested()) return RDT_OK;
  return rdt_fail(why, RDT_ERR_INTERNAL,
                  "a state made for %d threads cannot run inside a parallel region: make it for 1", s->threads);
}

static rdt_status execute_all(const state *s, slot *slots, const rdt_operands *o, rdt_reason *why) {
  if (s->images == 1) return execute(s, slots, o, 0, why);
  rdt_status status = RDT_OK;
#pragma omp parallel for num_threads(s->team) schedule(static)
  for (int64_t i = 0; i < s->images; i++) {
    rdt_reason reason;
    const rdt_status one = execute(s, &slots[omp_get_thread_num()], o, i, &reason);
    if (one == RDT_OK) continue;
#pragma omp critical(rdt_onednn)
    {
      status = one;
      if (why) *why = reason;
    }
  }
  return status;
}

rdt_status rdt_onednn_run(void *p, const rdt_operands *o, rdt_reason *why) {
  state *s = p;
  RDT_TRY(check_team(s, why));
  if (s->epilogue != (o->epilogue && !rdt_epilogue_is_none(o->epilogue))) {
    return rdt_fail(why, RDT_ERR_INTERNAL, "the state was made %s an epilogue: run it so",
                    s->epilogue ? "with" : "without");
  }
  slot *slots = s->own;
  rdt_status status = RDT_OK;
  const bool mine = !atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire);
  const int previous = rdt_threads_enter(s->threads / s->team);
  if (!mine) status = slots_make(s, &slots, why);
  if (status == RDT_OK) status = execute_all(s, slots, o, why);
  rdt_threads_leave(previous);
  if (mine) {
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
  } else {
    slots_free(s, slots);
  }
  return status;
}

rdt_status rdt_onednn_pack(void *p, const rdt_tensor *w, rdt_reason *why) {
  state *s = p;
  if (!s->fixed) return RDT_OK;
  RDT_TRY(check_team(s, why));
  const int previous = rdt_threads_enter(s->threads / s->team);
  memset(s->packed, 0, dnnl_memory_desc_get_size(&s->plan.packed_w)); /* gaps of the layout oneDNN does not write */
  const rdt_status status = reorder_weights(s, s->own, s->packed_memory, w->data, why);
  rdt_threads_leave(previous);
  return status;
}

void rdt_onednn_packed(void *p, void **data, size_t *bytes, rdt_dtype *dtype) {
  const state *s = p;
  *data = s->packed;
  *bytes = s->packed ? dnnl_memory_desc_get_size(&s->plan.packed_w) : 0;
  *dtype = s->w_dtype;
}

void rdt_onednn_from(void *p, const rdt_tensor *view) {
  ((state *)p)->from = *view;
}

size_t rdt_onednn_scratch(void *p, void *memory) {
  state *s = p;
  size_t weights, scratchpad;
  const size_t bytes = slot_bytes(s, &weights, &scratchpad);
  for (int i = 0; memory && i < s->team; i++) {
    slot *x = &s->own[i];
    rdt_free(x->own);
    x->own = NULL;
    x->lent = (char *)memory + (size_t)i * bytes;
    x->placed = false;
  }
  return (size_t)s->team * bytes;
}

static rdt_status make_weights(state *s, const rdt_problem *p, rdt_reason *why) {
  dnnl_engine_t engine;
  dnnl_primitive_desc_t pd;
  if (!s->plan.has_weights) return RDT_OK;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(
      rdt_onednn_try(dnnl_reorder_primitive_desc_create(&pd, &s->plan.user_w, engine, &s->plan.packed_w, engine, NULL),
                     "packing weights", why));
  const dnnl_status_t made = dnnl_primitive_create(&s->reorder, pd);
  dnnl_primitive_desc_destroy(pd);
  RDT_TRY(rdt_onednn_try(made, "packing weights", why));
  s->w_dtype = p->in[1].dtype;
  s->fixed = p->in[1].data != NULL;
  if (!s->fixed) return RDT_OK;
  const size_t bytes = dnnl_memory_desc_get_size(&s->plan.packed_w);
  s->packed = rdt_calloc(bytes, 1); /* padding of the layout holds zeros */
  if (!s->packed) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for %zu bytes of packed weights", bytes);
  return rdt_onednn_try(dnnl_memory_create(&s->packed_memory, &s->plan.packed_w, engine, s->packed), "weights", why);
}

static rdt_status make_state(state *s, const rdt_problem *p, rdt_onednn_build_fn *build, rdt_reason *why) {
  s->epilogue = !rdt_epilogue_is_none(&p->epilogue);
  s->residual = p->epilogue.residual.rank >= 0;
  RDT_TRY(make_plan(p, build, &s->plan, why));
  RDT_TRY(rdt_onednn_try(dnnl_primitive_create(&s->primitive, s->plan.pd), "making the primitive", why));
  s->scratch_md = *dnnl_primitive_desc_query_md(s->plan.pd, dnnl_query_scratchpad_md, 0);
  RDT_TRY(make_weights(s, p, why));
  RDT_TRY(slots_make(s, &s->own, why));
  return s->fixed ? reorder_weights(s, s->own, s->packed_memory, p->in[1].data, why) : RDT_OK;
}

rdt_status rdt_onednn_create(const rdt_problem *p, rdt_onednn_build_fn *build, int64_t images, int threads, void **out,
                             rdt_reason *why) {
  state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->threads = threads < 1 ? 1 : threads;
  s->images = images;
  s->team = images > 1 ? s->threads : 1;
  s->x_image = p->in[0].stride[0] * (int64_t)rdt_dtype_size(p->in[0].dtype);
  s->y_image = p->out.stride[0] * (int64_t)rdt_dtype_size(p->out.dtype);
  s->from.rank = -1;
  atomic_flag_clear(&s->busy);
  rdt_status status = check_team(s, why);
  if (status == RDT_OK) {
    const int previous = rdt_threads_enter(s->threads / s->team);
    status = make_state(s, p, build, why);
    rdt_threads_leave(previous);
  }
  if (status != RDT_OK) {
    rdt_onednn_destroy(s);
    return status;
  }
  *out = s;
  return RDT_OK;
}

void rdt_onednn_destroy(void *p) {
  state *s = p;
  if (!s) return;
  slots_free(s, s->own);
  if (s->packed_memory) dnnl_memory_destroy(s->packed_memory);
  if (s->reorder) dnnl_primitive_destroy(s->reorder);
  if (s->primitive) dnnl_primitive_destroy(s->primitive);
  if (s->plan.pd) dnnl_primitive_desc_destroy(s->plan.pd);
  rdt_free(s->packed);
  rdt_free(s);
}
