#include "util_machine.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "plan/plan.h"
#include "util_device.h"

struct rdt_cuda_linear {
  rdt_plan *plan;
  rdt_cuda_verdict *verdict;
  struct fake *machine;
  void *made;       /* as launch has left it: the check compares */
  uint64_t trusted; /* the sum of the weights that its checksums were made anew of; 0: never */
  bool apart;       /* every second one has a check apart */
};

/* A chain of layers as one launch, with copies of weights and biases; what lies between them is nowhere else. */
struct rdt_cuda_mlp {
  rdt_problem p[RDT_CUDA_MLP_LAYERS];
  void *weights[RDT_CUDA_MLP_LAYERS], *bias[RDT_CUDA_MLP_LAYERS];
  rdt_cuda_linear *list[RDT_CUDA_MLP_LAYERS];
  int n;
  void *between[2];
  rdt_cuda_verdict *verdict;
};
bool util_machine_chains, util_machine_chain_rots;

typedef enum call_kind { PUT, GET, CLEAR, LAUNCH, LINEAR, CHECK, CHAIN } call_kind;
typedef struct call {
  call_kind kind;
  void *to;
  const void *from;
  size_t bytes;
  int code;
  int64_t blocks;
  union {
    rdt_gpu_op op;
    rdt_sums_args sums;
    rdt_close_args close;
    rdt_gpu_attention attention;
  } args;
  rdt_cuda_linear *linear;
  const rdt_cuda_mlp *mlp;
  rdt_operands operands;
  rdt_box_sum_to sum;
  uint64_t *read;
} call;

typedef struct tape {
  call *list;
  int n;
} tape;

enum { MARKS = 256 };
typedef struct fake {
  rdt_machine machine;
  util_machine_faults faults;
  rdt_context *ctx;
  tape *recording;
  const rdt_cuda_linear *wrong; /* the one that is wrong once more */
  int made;                     /* products */
  int marks[MARKS];
} fake;

static void sums(const rdt_sums_args *a, int64_t blocks) {
  for (int64_t i = 0; i < blocks; i++) {
    *a->parts[i].sum += util_device_part(&a->parts[i]);
    ++*a->visits;
  }
}

/* ---- calls ---- */

static size_t made_bytes(const rdt_cuda_linear *l) {
  return (size_t)rdt_tensor_count(&l->plan->prob.out) * rdt_dtype_size(l->plan->prob.out.dtype);
}

static rdt_status run_linear(fake *f, rdt_cuda_linear *l, const rdt_operands *o, rdt_reason *why) {
  rdt_result result;
  rdt_plan *p = l->plan;
  if (p->fixed_weights && p->kernel->pack) /* it reads the device's memory at each run */
    RDT_TRY(p->kernel->pack(p->state, &p->prob.in[1], why));
  rdt_plan_rewind(p, 0, false);
  const rdt_status status = rdt_plan_run(p, o, &result);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return rdt_fail(why, status, "%s", rdt_context_error(f->ctx));
  const bool trusts = l->trusted && l->trusted == rdt_tensor_seal(&p->prob.in[1], 1);
  if (!trusts && !f->faults.deaf && (status != RDT_OK || result.faults > 0)) {
    l->verdict->certain++;
    l->verdict->listed = 1;
    l->verdict->list[0] = (rdt_cuda_finding){.sm = 7, .column = -1, .rows = 1, .observed = 2.0f, .tau2 = 1.0f};
  }
  const bool first = f->faults.linear > 0 && --f->faults.linear == 0;
  const bool again = !first && f->wrong == l && f->faults.linear_again > 0;
  f->faults.linear_again -= again;
  if (first) f->wrong = l;
  if (first || again) {
    if (!f->faults.silent) *(unsigned char *)o->out.data ^= 0x40;
    ++*(f->faults.outvoted ? &l->verdict->suspect : &l->verdict->certain);
    l->verdict->listed = 1;
    l->verdict->list[0] = (rdt_cuda_finding){.sm = 7, .column = -1, .rows = 1, .observed = 2.0f, .tau2 = 1.0f};
    if (f->faults.outvoted)
      l->verdict->list[0] = (rdt_cuda_finding){.complaint = RDT_CUDA_OUTVOTED, .sm = -1, .rows = 1, .k_first = 2};
    if (f->faults.outvoted && f->faults.on_the_way)
      l->verdict->list[0].complaint = RDT_CUDA_AGAIN, l->verdict->list[0].k_first = -1;
  }
  if (f->faults.products > 0 && f->faults.products--) {
    l->verdict->certain++, l->verdict->sm[7]++;
    l->verdict->list[l->verdict->listed++] = (rdt_cuda_finding){.sm = 7, .column = -1, .rows = 1, .observed = 2.0f};
  }
  memcpy(l->made, o->out.data, made_bytes(l));
  return RDT_OK;
}

static void complain_apart(rdt_cuda_linear *l, const rdt_tensor *out) {
  const util_machine_faults *faults = &l->machine->faults;
  const size_t size = rdt_dtype_size(out->dtype);
  for (int64_t i = 0; i < rdt_tensor_count(out); i++) {
    const double is = rdt_load(out->data, out->dtype, i), made = rdt_load(l->made, out->dtype, i);
    if (memcmp((char *)out->data + (size_t)i * size, (char *)l->made + (size_t)i * size, size) == 0) continue;
    if (faults->deaf || fabs(is - made) <= faults->bound) continue;
    l->verdict->certain++;
    if (faults->bound > 0.0 && l->verdict->listed < RDT_CUDA_LISTED)
      l->verdict->list[l->verdict->listed++] = (rdt_cuda_finding){
          .column = -1, .rows = 1, .observed = (float)is, .expected = (float)made, .tau2 = (float)faults->bound};
  }
}

static void check_linear(rdt_cuda_linear *l, const rdt_operands *o, rdt_box_sum_to to, uint64_t *read) {
  if (!l->apart) return;
  if (read) *read += rdt_bitsum(o->in[0].data, rdt_tensor_bytes(&o->in[0]));
  complain_apart(l, &o->out);
  *to.sum += rdt_bitsum(o->out.data, made_bytes(l));
  ++*to.visits;
}

static rdt_status run_chain(fake *f, const call *c, rdt_reason *why) {
  const rdt_cuda_mlp *l = c->mlp;
  rdt_result result;
  for (int i = 0; i < l->n; i++) {
    const rdt_problem *p = &l->p[i];
    rdt_plan *plan = l->list[i]->plan;
    rdt_tensor in[2] = {p->in[0], p->in[1]};
    rdt_epilogue epilogue = p->epilogue;
    rdt_operands o = {.in = in, .n_in = 2, .out = p->out, .epilogue = &epilogue};
    in[1].data = l->weights[i], epilogue.bias.data = l->bias[i];
    in[0].data = i ? l->between[i % 2] : (void *)(uintptr_t)c->from;
    o.out.data = i + 1 < l->n ? l->between[(i + 1) % 2] : c->to;
    if (plan->fixed_weights && plan->kernel->pack) RDT_TRY(plan->kernel->pack(plan->state, &in[1], why));
    rdt_plan_rewind(plan, 0, false);
    if (rdt_plan_run(plan, &o, &result) != RDT_OK) return rdt_fail(why, RDT_ERR_INTERNAL, "a layer of a chain");
    if (i + 1 < l->n) continue;
    if (c->sum.sum) *c->sum.sum += rdt_bitsum(o.out.data, rdt_tensor_bytes(&o.out)), *c->sum.visits += 2;
    if (f->faults.chain > 0 && f->faults.chain-- > 0) {
      *(unsigned char *)o.out.data ^= 0x40;
      if (f->faults.chain_complains) {
        l->verdict->certain = l->verdict->listed = 1;
        l->verdict->list[0] =
            (rdt_cuda_finding){.sm = 7, .rows = 1, .k_first = 1, .k_last = 1, .observed = 2.0f, .tau2 = 1.0f};
      }
    }
  }
  f->faults.chained++;
  return RDT_OK;
}

static rdt_status perform(fake *f, const call *c, rdt_reason *why) {
  if (f->faults.lose > 0 && --f->faults.lose == 0) return rdt_fail(why, RDT_ERR_DEVICE, "the device is lost");
  switch (c->kind) {
    case PUT:
    case GET:
      memcpy(c->to, c->from, c->bytes);
      return RDT_OK;
    case CLEAR:
      memset(c->to, 0, c->bytes);
      return RDT_OK;
    case LINEAR:
      return run_linear(f, c->linear, &c->operands, why);
    case CHECK:
      check_linear(c->linear, &c->operands, c->sum, c->read);
      return RDT_OK;
    case CHAIN:
      return run_chain(f, c, why);
    case LAUNCH:
      break;
  }
  f->faults.launches++;
  if (c->code == RDT_OP_SUMS) {
    sums(&c->args.sums, c->blocks);
  } else if (c->code == RDT_OP_CLOSE) {
    if (f->faults.mute == 0 || --f->faults.mute > 0) util_device_close(&c->args.close);
  } else if (c->code == RDT_OP_ATTENTION) {
    const rdt_gpu_attention *a = &c->args.attention;
    const bool stores = a->check == RDT_OP_STORES || a->check == RDT_OP_BOTH;
    util_device_attention(a);
    f->faults.attended += stores;
    if (stores && f->faults.attention > 0 && f->faults.attention-- > 0)
      *((unsigned char *)(uintptr_t)a->out.data + 1) ^= 0x40;
    if (!stores || a->check == RDT_OP_BOTH) {
      if (f->faults.sum > 0 && --f->faults.sum == 0) *a->sum ^= 1;
    }
  } else {
    const rdt_gpu_op *a = &c->args.op;
    util_device_op(a);
    if (f->faults.op > 0 && --f->faults.op == 0) *(unsigned char *)a->view[0].data ^= 0x40;
    if (f->faults.sum > 0 && --f->faults.sum == 0) *a->sum ^= 1;
  }
  return RDT_OK;
}

static rdt_status take(rdt_machine *m, const call *c, rdt_reason *why) {
  fake *f = (fake *)m;
  if (!f->recording) return perform(f, c, why);
  f->recording->list = realloc(f->recording->list, (size_t)(f->recording->n + 1) * sizeof *c);
  f->recording->list[f->recording->n++] = *c;
  return RDT_OK;
}

static rdt_status get_memory(rdt_machine *m, size_t bytes, void **p, rdt_reason *why) {
  (void)m, (void)why;
  *p = NULL;
  if (posix_memalign(p, 256, bytes ? bytes : 1) != 0) return RDT_ERR_NOMEM;
  memset(*p, 0, bytes);
  return RDT_OK;
}

static void free_memory(rdt_machine *m, void *p) {
  (void)m;
  free(p);
}

static rdt_status put(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why) {
  const call c = {.kind = PUT, .to = to, .from = from, .bytes = bytes};
  (void)l;
  return take(m, &c, why);
}

static rdt_status get(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why) {
  const call c = {.kind = GET, .to = to, .from = from, .bytes = bytes};
  (void)l;
  return take(m, &c, why);
}

static rdt_status clear(rdt_machine *m, rdt_lane l, void *p, size_t bytes, rdt_reason *why) {
  const call c = {.kind = CLEAR, .to = p, .bytes = bytes};
  (void)l;
  return take(m, &c, why);
}

static rdt_status wait(rdt_machine *m, rdt_reason *why) {
  return ((fake *)m)->recording ? rdt_fail(why, RDT_ERR_INTERNAL, "waits while it is recorded") : RDT_OK;
}

static rdt_status follow(rdt_machine *m, rdt_lane l, rdt_reason *why) {
  (void)m, (void)l, (void)why;
  return RDT_OK;
}

static rdt_status launch(rdt_machine *m, rdt_lane l, int code, const void *args, int64_t blocks, rdt_reason *why) {
  call c = {.kind = LAUNCH, .code = code, .blocks = blocks};
  (void)l;
  memcpy(&c.args, args,
         code == RDT_OP_SUMS        ? sizeof(rdt_sums_args)
         : code == RDT_OP_CLOSE     ? sizeof(rdt_close_args)
         : code == RDT_OP_ATTENTION ? sizeof(rdt_gpu_attention)
                                    : sizeof(rdt_gpu_op));
  return take(m, &c, why);
}

/* ---- products ---- */

static void linear_free(rdt_cuda_linear *l) {
  free(l->verdict);
  free(l->made);
  free(l);
}

static rdt_status linear_create(rdt_machine *m, const rdt_problem *p, const char *scheme, double lambda,
                                rdt_cuda_linear **out, rdt_reason *why) {
  fake *f = (fake *)m;
  rdt_cuda_linear *l = calloc(1, sizeof *l);
  (void)lambda;
  *out = NULL;
  l->machine = f;
  l->verdict = calloc(1, sizeof *l->verdict);
  const rdt_status status = rdt_plan_create_as(f->ctx, scheme ? scheme : "row", p, "linear", "linear", NULL, &l->plan);
  if (status != RDT_OK) {
    linear_free(l);
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s", rdt_context_error(f->ctx));
  }
  l->made = calloc(1, made_bytes(l) + 1);
  l->apart = f->made++ % 2 == 0;
  *out = l;
  return RDT_OK;
}

static rdt_status no_linear(rdt_machine *m, const rdt_problem *p, const char *scheme, double lambda,
                            rdt_cuda_linear **out, rdt_reason *why) {
  (void)m, (void)p, (void)scheme, (void)lambda;
  *out = NULL;
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "this device has no products");
}

static rdt_status linear_launch(rdt_machine *m, const rdt_cuda_linear_task *t, rdt_reason *why) {
  const call c = {.kind = LINEAR, .linear = t->l, .operands = t->o};
  return take(m, &c, why);
}

static rdt_status linear_check(rdt_machine *m, const rdt_cuda_linear_task *list, int n, rdt_reason *why) {
  for (int i = 0; i < n; i++) {
    const call c = {
        .kind = CHECK, .linear = list[i].l, .operands = list[i].o, .sum = list[i].to, .read = list[i].read[0]};
    RDT_TRY(take(m, &c, why));
  }
  return RDT_OK;
}

static rdt_status linear_renew(rdt_machine *m, rdt_cuda_linear *l, const void *weights, rdt_reason *why) {
  (void)m, (void)weights, (void)why;
  if (l->plan->fixed_weights) l->trusted = rdt_tensor_seal(&l->plan->prob.in[1], 1);
  return RDT_OK;
}

static int64_t linear_blocks(const rdt_cuda_linear *l) {
  return l->apart;
}

static unsigned linear_reads(const rdt_cuda_linear *l) {
  return l->apart && rdt_tensor_is_packed(&l->plan->prob.in[0]);
}

static bool linear_inside(const rdt_cuda_linear *l) {
  return !l->apart;
}

static const rdt_cuda_verdict *linear_verdict(const rdt_cuda_linear *l) {
  return l->verdict;
}

static const char *linear_kernel(const rdt_cuda_linear *l) {
  return rdt_plan_kernel(l->plan);
}

static const char *linear_scheme(const rdt_cuda_linear *l) {
  return l->plan->scheme_name;
}

static void linear_destroy(rdt_cuda_linear *l) {
  rdt_plan_destroy(l->plan);
  linear_free(l);
}

/* ---- chains of layers ---- */

static void copy_layers(const rdt_cuda_mlp *c, const void *const *weights) {
  for (int i = 0; i < c->n; i++) {
    const rdt_tensor *bias = &c->p[i].epilogue.bias;
    memcpy(c->weights[i], weights[i], rdt_tensor_bytes(&c->p[i].in[1]));
    if (bias->rank >= 0) memcpy(c->bias[i], bias->data, rdt_tensor_bytes(bias));
  }
}

static rdt_status mlp_create(rdt_machine *m, const rdt_problem *const *p, rdt_cuda_linear *const *steps, int n,
                             const rdt_cuda_mlp_form *form, rdt_cuda_mlp **out, rdt_reason *why) {
  const void *weights[RDT_CUDA_MLP_LAYERS];
  size_t most = 0;
  (void)m, (void)form;
  *out = NULL;
  if (!util_machine_chains) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "no chains");
  rdt_cuda_mlp *c = calloc(1, sizeof *c);
  c->n = n;
  c->verdict = calloc(1, sizeof *c->verdict);
  for (int i = 0; i < n; i++) {
    RDT_TRY(rdt_problem_copy(&c->p[i], p[i]));
    c->list[i] = steps[i];
    weights[i] = p[i]->in[1].data;
    RDT_TRY(get_memory(m, rdt_tensor_bytes(&p[i]->in[1]), &c->weights[i], why));
    if (p[i]->epilogue.bias.rank >= 0) RDT_TRY(get_memory(m, rdt_tensor_bytes(&p[i]->epilogue.bias), &c->bias[i], why));
    most = rdt_tensor_bytes(&p[i]->out) > most ? rdt_tensor_bytes(&p[i]->out) : most;
  }
  if (util_machine_chain_rots) *(unsigned char *)(uintptr_t)weights[n - 1] ^= 0x40;
  copy_layers(c, weights);
  for (int i = 0; i < 2; i++) RDT_TRY(get_memory(m, most, &c->between[i], why));
  *out = c;
  return RDT_OK;
}

static rdt_status mlp_launch(rdt_machine *m, const rdt_cuda_mlp *mlp, const void *x, void *out, rdt_box_sum_to to,
                             rdt_reason *why) {
  const call c = {.kind = CHAIN, .mlp = mlp, .from = x, .to = out, .sum = to};
  return take(m, &c, why);
}

static rdt_status mlp_renew(rdt_machine *m, const rdt_cuda_mlp *c, const void *const *weights, rdt_reason *why) {
  copy_layers(c, weights);
  for (int i = 0; i < c->n; i++) RDT_TRY(linear_renew(m, c->list[i], weights[i], why));
  return RDT_OK;
}

static int64_t mlp_blocks(const rdt_cuda_mlp *c) {
  (void)c;
  return 2;
}

static rdt_cuda_verdict *mlp_verdict(const rdt_cuda_mlp *c) {
  return c->verdict;
}

static const char *mlp_kernel(const rdt_cuda_mlp *c) {
  (void)c;
  return "mlp";
}

static const char *mlp_scheme(const rdt_cuda_mlp *c) {
  (void)c;
  return "row";
}

static void mlp_destroy(rdt_cuda_mlp *c) {
  for (int i = 0; i < c->n; i++) rdt_problem_clear(&c->p[i]), free(c->weights[i]), free(c->bias[i]);
  free(c->between[0]), free(c->between[1]), free(c->verdict), free(c);
}

/* ---- tapes ---- */

/* ---- a product of a campaign: sums in their order, and a check that knows the result ---- */

struct rdt_cuda_gemm {
  fake *machine;
  rdt_problem p;
  double bound;
};

static rdt_status gemm_create(rdt_machine *m, const rdt_cuda_kernel *k, const rdt_problem *p, int sets, double lambda,
                              rdt_cuda_gemm **g, rdt_reason *why) {
  (void)k, (void)sets, (void)lambda;
  *g = calloc(1, sizeof **g);
  (*g)->machine = (fake *)m;
  (*g)->bound = p->acc == RDT_S32 ? 0.0 : 1e-3;
  return rdt_problem_copy(&(*g)->p, p) == RDT_OK ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static void strike_element(rdt_cuda_gemm *g, const rdt_tensor *out, rdt_cuda_strike *s, rdt_cuda_verdict *v) {
  uint64_t bits = 0;
  rdt_kernel_hit *h = &s->hit;
  h->done = true;
  h->before = rdt_load(out->data, out->dtype, h->element);
  rdt_store(&bits, out->dtype, 0, h->before);
  bits ^= h->mask;
  h->after = rdt_load(&bits, out->dtype, 0);
  s->bound = s->reduced ? NAN : g->bound;
  const double change = fabs(h->after - h->before);
  if (!s->checksum)
    memcpy((char *)out->data + (size_t)h->element * rdt_dtype_size(out->dtype), &bits, rdt_dtype_size(out->dtype));
  if (h->mask == 0 || g->machine->faults.deaf || (!s->reduced && change <= g->bound)) return;
  v->certain = v->listed = 1;
  v->list[0] = (rdt_cuda_finding){.sm = 5,
                                  .row = (int32_t)(h->element / out->shape[1]),
                                  .column = -1,
                                  .observed = (float)h->after,
                                  .expected = (float)h->before,
                                  .tau2 = (float)g->bound};
}

static rdt_status gemm_mend(rdt_machine *m, rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *strike,
                            rdt_cuda_verdict *found, rdt_reason *why);

static rdt_status gemm_run(rdt_machine *m, rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *strike,
                           rdt_cuda_verdict *found, void *on, rdt_reason *why) {
  const rdt_tensor *a = &o->in[0], *b = &o->in[1];
  (void)m, (void)why;
  *found = (rdt_cuda_verdict){0};
  for (int64_t i = 0; i < o->out.shape[0]; i++)
    for (int64_t j = 0; j < o->out.shape[1]; j++) {
      double sum = 0.0;
      for (int64_t k = 0; k < a->shape[1]; k++)
        sum += rdt_load(a->data, a->dtype, i * a->stride[0] + k) * rdt_load(b->data, b->dtype, k * b->stride[0] + j);
      rdt_store(o->out.data, o->out.dtype, i * o->out.stride[0] + j, sum);
    }
  /* A multiprocessor computes what the group that has it computes: of three groups the second third of numbers. */
  if (!strike || (strike->sm >= 0 && on && (int)((uintptr_t)on - 1) != strike->sm / 44)) return RDT_OK;
  strike_element(g, &o->out, strike, found);
  return strike->mended ? gemm_mend(m, g, o, strike, found, why) : RDT_OK;
}

/* What was struck once is right in the second run; a multiprocessor that is wrong is wrong again, and avoided then. */
static rdt_status gemm_mend(rdt_machine *m, rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *strike,
                            rdt_cuda_verdict *found, rdt_reason *why) {
  rdt_cuda_mended *told = strike->mended;
  const rdt_cuda_verdict seen = *found;
  *told = (rdt_cuda_mended){.seen = seen};
  if (!seen.certain) return RDT_OK;
  told->products = told->passes = 1;
  if (g->machine->faults.hopeless) {
    told->left = 1;
    return RDT_OK;
  }
  RDT_TRY(gemm_run(m, g, o, NULL, found, NULL, why));
  ++*(strike->checksum ? &told->checker : strike->sm >= 0 ? &told->persistent : &told->transient);
  if (strike->sm >= 0) told->wrong[strike->sm] = 1, told->passes = 2, told->seen.sm[strike->sm] += 2;
  return RDT_OK;
}

static void gemm_destroy(rdt_cuda_gemm *g) {
  rdt_problem_clear(&g->p);
  free(g);
}

/* ---- votes ---- */

struct rdt_thrice {
  rdt_tensor out;
  void *other[RDT_VOTERS - 1];
  bool apart;
};

static void *votes_stream(const rdt_thrice *t, int copy) { /* a number that is no stream */
  return t->apart ? (void *)(uintptr_t)(copy + 1) : NULL;
}

static rdt_status votes_create(rdt_machine *m, const rdt_tensor *out, bool apart, rdt_thrice **t, rdt_reason *why) {
  *t = calloc(1, sizeof **t);
  (*t)->apart = apart;
  (*t)->out = *out;
  for (int i = 0; i + 1 < RDT_VOTERS; i++) RDT_TRY(get_memory(m, rdt_tensor_bytes(out), &(*t)->other[i], why));
  return RDT_OK;
}

static void *votes_copy(const rdt_thrice *t, int copy, const void *out) {
  (void)out;
  return t->other[copy - 1];
}

static rdt_status vote(rdt_machine *m, rdt_thrice *t, void *out, rdt_vote_hit *hit, rdt_thrice_ballot *b,
                       rdt_reason *why) {
  const size_t size = rdt_dtype_size(t->out.dtype);
  (void)why;
  *b = (rdt_thrice_ballot){.first = {-1, -1, -1}, .first_undecided = -1, .first_again = -1};
  if (((fake *)m)->faults.deaf) return RDT_OK;
  for (int64_t e = 0; e < rdt_tensor_count(&t->out); e++) {
    char *x = (char *)out + (size_t)e * size, *y = (char *)t->other[0] + (size_t)e * size,
         *z = (char *)t->other[1] + (size_t)e * size;
    const bool xy = memcmp(x, y, size) == 0, xz = memcmp(x, z, size) == 0, yz = memcmp(y, z, size) == 0;
    if (xy && xz) continue;
    int loser = xy ? 2 : xz ? 1 : yz ? 0 : -1;
    if (hit) hit->done = hit->element == e;
    if (hit && hit->done && hit->what == RDT_VOTE_LOSER) loser = (loser + 1) % RDT_VOTERS;
    if (loser == 0) memcpy(x, y, size);
    if (hit && hit->done && hit->what == RDT_VOTE_ELECTED) *x ^= (char)(hit->mask | 1);
    if (hit && hit->done && hit->what == RDT_VOTE_COUNTED) { /* seen, as it does not fit the other count */
      b->undecided++, b->first_undecided = e;
      continue;
    }
    int64_t *first = loser < 0 ? &b->first_undecided : &b->first[loser];
    if (*first < 0) *first = e;
    ++*(loser < 0 ? &b->undecided : &b->lost[loser]);
  }
  return RDT_OK;
}

static void votes_destroy(rdt_thrice *t) {
  for (int i = 0; i + 1 < RDT_VOTERS; i++) free(t->other[i]);
  free(t);
}

/* ---- copies that vote on the way ---- */

struct rdt_voted {
  rdt_problem p;
  int team, votes;
  bool deaf, again;
  rdt_thrice_ballot b;
  rdt_vote_found found;
};

static rdt_status voted_create(rdt_machine *m, const rdt_problem *p, int team, int votes, rdt_voted **v,
                               rdt_reason *why) {
  (void)why;
  *v = calloc(1, sizeof **v);
  (*v)->team = team, (*v)->votes = votes, (*v)->deaf = ((fake *)m)->faults.deaf;
  (*v)->again = ((fake *)m)->faults.on_the_way;
  (*v)->b = (rdt_thrice_ballot){.first = {-1, -1, -1}, .first_undecided = -1, .first_again = -1};
  return rdt_problem_copy(&(*v)->p, p);
}

static int voted_votes(const rdt_voted *v) {
  return v->votes;
}

static rdt_status voted_launch(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_reason *why) {
  rdt_cuda_verdict none;
  rdt_cuda_gemm g = {.p = v->p, .machine = (fake *)m};
  return gemm_run(m, &g, o, NULL, &none, NULL, why);
}

/* A vote on one element, of which copies differ from what is right by these bits, in f32. */
static void vote_at(rdt_voted *v, const rdt_operands *o, int64_t e, const unsigned mask[RDT_VOTERS], int sm) {
  const bool xy = mask[0] == mask[1], xz = mask[0] == mask[2], yz = mask[1] == mask[2];
  const int loser = xy ? 2 : xz ? 1 : yz ? 0 : -1;
  const unsigned elected = loser == 0 ? mask[1] : mask[0];
  float x = (float)rdt_load(o->out.data, o->out.dtype, e);
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  bits ^= loser < 0 && v->again ? 0 : elected;
  memcpy(&x, &bits, sizeof x);
  if (elected) rdt_store(o->out.data, o->out.dtype, e, (double)x);
  if ((xy && xz) || v->deaf) return;
  if (loser < 0 && v->again) {
    v->b.again = 1, v->b.first_again = e;
    return;
  }
  int64_t *first = loser < 0 ? &v->b.first_undecided : &v->b.first[loser];
  if (*first < 0) *first = e;
  ++*(loser < 0 ? &v->b.undecided : &v->b.lost[loser]);
  v->found.verdict.list[0].sm = sm;
}

/* Numbers of multiprocessors by copy: of the grid and of clusters 0 to 43, 44 to 87, and so on; a block has one. */
static rdt_status voted_strike(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_voted_hit *h, rdt_reason *why) {
  unsigned mask[RDT_VOTERS];
  RDT_TRY(voted_launch(m, v, o, why));
  for (int copy = 0; copy < RDT_VOTERS; copy++)
    mask[copy] = h->sm < 0 ? h->mask[copy] : v->team == RDT_VOTED_BLOCK || h->sm / 44 == copy ? h->mask[0] : 0;
  h->done = 1;
  vote_at(v, o, h->sm >= 0 ? 0 : h->element[0] * o->out.shape[1] + h->element[1], mask, h->sm >= 0 ? h->sm : 5);
  return RDT_OK;
}

static rdt_status voted_read(rdt_machine *m, rdt_voted *v, rdt_thrice_ballot *b, rdt_vote_found *found,
                             rdt_reason *why) {
  (void)m, (void)why;
  *b = v->b, *found = v->found;
  v->b = (rdt_thrice_ballot){.first = {-1, -1, -1}, .first_undecided = -1, .first_again = -1};
  v->found = (rdt_vote_found){.alike = 0};
  return RDT_OK;
}

static void voted_destroy(rdt_voted *v) {
  rdt_problem_clear(&v->p);
  free(v);
}

/* ---- known products: wrong is what a strike says, or the one that is bad ---- */

typedef struct fake_sms {
  rdt_sms sms;
  const fake *machine;
} fake_sms;

static const int sm_numbers[] = {0, 43, 44, 77, 131};
static const rdt_sms_path sm_paths[] = {{"fma f32", RDT_F32}};

static rdt_status sms_load(rdt_sms *s, int path, const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c,
                           rdt_reason *why) {
  (void)s, (void)path, (void)a, (void)b, (void)c, (void)why;
  return RDT_OK;
}

static rdt_status sms_run(rdt_sms *s, int rounds, const rdt_sms_strike *strike, rdt_sms_found *found, rdt_reason *why) {
  const int bad = ((fake_sms *)s)->machine->faults.bad_sm - 1;
  (void)why;
  for (int u = 0; u < s->n_units; u++)
    found[u] = (rdt_sms_found){
        .products = rounds, .failures = s->units[u] == bad || (strike && strike->sm == s->units[u]), .wrong = 1};
  return RDT_OK;
}

static void sms_sense(rdt_sms *s, double *mhz, double *celsius) {
  (void)s;
  *mhz = *celsius = NAN;
}

static void sms_close(rdt_sms *s) {
  free(s);
}

static rdt_status sms_open(rdt_machine *m, rdt_sms **s, rdt_reason *why) {
  fake_sms *x = calloc(1, sizeof *x);
  (void)why;
  x->machine = (fake *)m;
  x->sms = (rdt_sms){.name = "cuda:0",
                     .units = sm_numbers,
                     .n_units = 5,
                     .paths = sm_paths,
                     .n_paths = 1,
                     .load = sms_load,
                     .run = sms_run,
                     .sense = sms_sense,
                     .close = sms_close};
  *s = &x->sms;
  return RDT_OK;
}

/* Marks are the numbers of launches until then. */
static rdt_status mark(rdt_machine *m, rdt_lane l, int number, rdt_reason *why) {
  fake *f = (fake *)m;
  (void)l, (void)why;
  assert(number < MARKS && !f->recording);
  f->marks[number] = f->faults.launches;
  return RDT_OK;
}

static rdt_status between(rdt_machine *m, int from, int to, double *seconds, rdt_reason *why) {
  const fake *f = (fake *)m;
  (void)why;
  *seconds = f->marks[to] - f->marks[from];
  return RDT_OK;
}

static rdt_status record(rdt_machine *m, rdt_reason *why) {
  (void)why;
  ((fake *)m)->recording = calloc(1, sizeof(tape));
  return RDT_OK;
}

static rdt_status recorded(rdt_machine *m, void **out, rdt_reason *why) {
  (void)why;
  *out = ((fake *)m)->recording;
  ((fake *)m)->recording = NULL;
  return RDT_OK;
}

static rdt_status replay(rdt_machine *m, void *played, rdt_reason *why) {
  fake *f = (fake *)m;
  const tape *t = played;
  f->faults.replays++;
  for (int i = 0; i < t->n; i++) RDT_TRY(perform(f, &t->list[i], why));
  return RDT_OK;
}

static void erase(rdt_machine *m, void *played) {
  (void)m;
  free(((tape *)played)->list);
  free(played);
}

static void shut(rdt_machine *m) {
  fake *f = (fake *)m;
  rdt_context_destroy(f->ctx);
  free(f);
}

rdt_machine *util_machine_open(bool linear, util_machine_faults **faults) {
  fake *f = calloc(1, sizeof *f);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.on_fault = RDT_ON_FAULT_REPORT;
  if (rdt_context_create(&f->ctx, 1) != RDT_OK || rdt_context_set_policy(f->ctx, &policy) != RDT_OK) abort();
  f->machine = (rdt_machine){.device = {.name = "a device that is none", .sms = 132},
                             .alloc = get_memory,
                             .release = free_memory,
                             .pin = get_memory,
                             .unpin = free_memory,
                             .put = put,
                             .get = get,
                             .clear = clear,
                             .wait = wait,
                             .follow = follow,
                             .launch = launch,
                             .linear_create = linear ? linear_create : no_linear,
                             .linear_launch = linear_launch,
                             .linear_check = linear_check,
                             .linear_renew = linear_renew,
                             .linear_blocks = linear_blocks,
                             .linear_reads = linear_reads,
                             .linear_inside = linear_inside,
                             .linear_verdict = linear_verdict,
                             .linear_kernel = linear_kernel,
                             .linear_scheme = linear_scheme,
                             .linear_destroy = linear_destroy,
                             .mlp_create = mlp_create,
                             .mlp_launch = mlp_launch,
                             .mlp_renew = mlp_renew,
                             .mlp_blocks = mlp_blocks,
                             .mlp_verdict = mlp_verdict,
                             .mlp_kernel = mlp_kernel,
                             .mlp_scheme = mlp_scheme,
                             .mlp_destroy = mlp_destroy,
                             .gemm_create = gemm_create,
                             .gemm_run = gemm_run,
                             .gemm_destroy = gemm_destroy,
                             .votes_create = votes_create,
                             .votes_stream = votes_stream,
                             .votes_copy = votes_copy,
                             .sms_open = sms_open,
                             .vote = vote,
                             .votes_destroy = votes_destroy,
                             .voted_create = voted_create,
                             .voted_votes = voted_votes,
                             .voted_launch = voted_launch,
                             .voted_strike = voted_strike,
                             .voted_read = voted_read,
                             .voted_destroy = voted_destroy,
                             .mark = mark,
                             .between = between,
                             .record = record,
                             .recorded = recorded,
                             .replay = replay,
                             .erase = erase,
                             .close = shut};
  *faults = &f->faults;
  return &f->machine;
}
