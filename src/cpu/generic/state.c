#include "cpu/generic/state.h"

#include "core/memory.h"
#include "cpu/generic/convert.h"

rdt_status rdt_generic_create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  rdt_generic *s = rdt_calloc(1, sizeof *s);
  if (!s || rdt_problem_copy(&s->p, p) != RDT_OK) {
    rdt_free(s);
    return rdt_fail(why, RDT_ERR_NOMEM, "%s: no memory for the kernel's state", rdt_kop_name(p->op));
  }
  s->threads = threads < 1 ? 1 : threads;
  *state = s;
  return RDT_OK;
}

void rdt_generic_destroy(void *state) {
  rdt_generic *s = state;
  if (!s) return;
  rdt_problem_clear(&s->p);
  rdt_free(s);
}

rdt_status rdt_generic_fixed(void *state, rdt_vault *frame) {
  rdt_generic *s = state;
  RDT_TRY(rdt_vault_add(frame, s, sizeof *s));
  return rdt_vault_add(frame, s->p.in, (size_t)s->p.n_in * sizeof *s->p.in);
}

rdt_status rdt_generic_accept_alike(const rdt_problem *p, bool integers, rdt_reason *why) {
  const rdt_dtype t = p->out.dtype;
  if (rdt_compute_type(t) == RDT_DTYPE_COUNT || (!integers && !rdt_dtype_is_float(t))) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s is not computed in %s", rdt_kop_name(p->op), rdt_dtype_name(t));
  }
  for (int i = 0; i < p->n_in; i++) {
    if (p->in[i].dtype != t) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "operand %d is %s, the output %s: they must be alike", i,
                      rdt_dtype_name(p->in[i].dtype), rdt_dtype_name(t));
    }
  }
  return RDT_OK;
}

rdt_status rdt_generic_accept_any(const rdt_problem *p, rdt_reason *why) {
  (void)p;
  (void)why;
  return RDT_OK;
}
