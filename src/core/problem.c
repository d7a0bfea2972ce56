#include "core/problem.h"

#include <string.h>

#include "core/memory.h"

const char *rdt_kop_name(rdt_kop op) {
  static const char *const names[] = {
#define X(id, name) name,
      RDT_KOP_TABLE(X)
#undef X
  };
  return (unsigned)op < RDT_KOP_COUNT ? names[op] : "unknown";
}

const rdt_fn_row *rdt_fn_info(rdt_fn f) {
  static const rdt_fn_row rows[] = {
#define X(id, name, operands, class) [RDT_FN_##id] = {name, operands, RDT_CLASS_##class},
#include "core/functions.def"
#undef X
  };
  return (unsigned)f < RDT_FN_COUNT ? &rows[f] : NULL;
}

bool rdt_kop_is_linear(rdt_kop op) {
  return op == RDT_KOP_GEMM || op == RDT_KOP_CONV;
}

int rdt_problem_channel(const rdt_problem *p) {
  return p->op == RDT_KOP_CONV ? 1 : p->op == RDT_KOP_GEMM ? p->out.rank - 1 : -1;
}

bool rdt_epilogue_is_none(const rdt_epilogue *e) {
  return e->alpha == 1.0 && e->act.fn == RDT_FN_NONE && e->bias.rank < 0 && e->residual.rank < 0 && e->factor.rank < 0;
}

rdt_status rdt_problem_init(rdt_problem *p, rdt_kop op, int n_in) {
  *p = (rdt_problem){.op = op, .n_in = n_in, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  p->in = rdt_calloc((size_t)n_in, sizeof *p->in);
  return p->in ? RDT_OK : RDT_ERR_NOMEM;
}

void rdt_problem_clear(rdt_problem *p) {
  rdt_free(p->in);
  p->in = NULL;
  p->n_in = 0;
}

rdt_status rdt_problem_copy(rdt_problem *to, const rdt_problem *from) {
  *to = *from;
  to->in = rdt_alloc((size_t)from->n_in, sizeof *to->in);
  if (!to->in) return RDT_ERR_NOMEM;
  memcpy(to->in, from->in, (size_t)from->n_in * sizeof *to->in);
  return RDT_OK;
}

int64_t rdt_tensor_pixels(const rdt_tensor *t) {
  int64_t n = 1;
  for (int d = 2; d < t->rank; d++) n *= t->shape[d];
  return n;
}

void rdt_problem_mnk(const rdt_problem *p, int64_t *m, int64_t *n, int64_t *k) {
  const rdt_tensor *out = &p->out;
  if (p->op == RDT_KOP_CONV) {
    *m = out->shape[0] * rdt_tensor_pixels(out);
    *n = out->shape[1];
    *k = p->in[1].shape[1] * rdt_tensor_pixels(&p->in[1]);
    return;
  }
  *m = 1;
  for (int d = 0; d < out->rank - 1; d++) *m *= out->shape[d];
  *n = out->shape[out->rank - 1];
  *k = p->in[0].shape[p->in[0].rank - 1];
}

bool rdt_problem_is_depthwise(const rdt_problem *p) {
  const int64_t groups = p->window.groups;
  return p->op == RDT_KOP_CONV && groups > 1 && p->in[0].shape[1] == groups && p->out.shape[1] == groups;
}

double rdt_problem_flops(const rdt_problem *p) {
  if (rdt_kop_is_linear(p->op)) {
    int64_t m, n, k;
    rdt_problem_mnk(p, &m, &n, &k);
    return 2.0 * (double)m * (double)n * (double)k;
  }
  double window = 1.0;
  if (p->op == RDT_KOP_MAXPOOL || p->op == RDT_KOP_AVGPOOL)
    for (int i = 0; i < p->out.rank - 2; i++) window *= (double)p->window.kernel[i];
  return window * (double)rdt_tensor_count(p->op == RDT_KOP_REDUCE ? &p->in[0] : &p->out);
}

rdt_dtype rdt_dtype_accumulator(rdt_dtype in) {
  return in == RDT_F64 ? RDT_F64 : rdt_dtype_is_float(in) ? RDT_F32 : RDT_S32;
}

const char *rdt_problem_name(const rdt_problem *p) {
  return p->fn != RDT_FN_NONE && rdt_fn_info(p->fn) ? rdt_fn_info(p->fn)->name : rdt_kop_name(p->op);
}
