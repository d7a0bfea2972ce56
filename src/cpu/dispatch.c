#include "cpu/kernel.h"

#define X(op, name, limits) extern const rdt_kernel rdt_kernel_##name;
#include "cpu/kernels.def"
#undef X

static const rdt_kernel *const rows[] = {
#define X(op, name, limits) &rdt_kernel_##name,
#include "cpu/kernels.def"
#undef X
};

static const char *const row_limits[] = {
#define X(op, name, limits) limits,
#include "cpu/kernels.def"
#undef X
};

enum { ROWS = sizeof rows / sizeof *rows };

const rdt_kernel *const *rdt_cpu_kernels(int *n) {
  *n = ROWS;
  return rows;
}

const char *rdt_cpu_kernel_limits(const rdt_kernel *k) {
  for (int i = 0; i < ROWS; i++) {
    if (rows[i] == k) return row_limits[i];
  }
  return "";
}

static rdt_status accept(const rdt_kernel *k, const rdt_problem *p, rdt_isa isa, rdt_reason *why) {
  if (k->isa > isa) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "needs %s, but this run is limited to %s", rdt_isa_name(k->isa),
                    rdt_isa_name(isa));
  }
  return k->accept(p, why);
}

const rdt_kernel *rdt_cpu_dispatch(const rdt_problem *p, rdt_isa isa, rdt_refusal_fn fn, void *user) {
  for (int i = 0; i < ROWS; i++) {
    rdt_reason why = {""};
    if (rows[i]->op != p->op) continue;
    if (accept(rows[i], p, isa, &why) == RDT_OK) return rows[i];
    if (fn) fn(rows[i], why.text, user);
  }
  return NULL;
}

const rdt_kernel *rdt_cpu_reference(const rdt_problem *p) {
  for (int i = ROWS - 1; i >= 0; i--) {
    if (rows[i]->op == p->op) return rows[i];
  }
  return NULL;
}
