/* Sum, Mean, Max, Min of any number of operands: a chain of the operator of two. */
#include <string.h>

#include "net/expand.h"
#include "net/ops/ops.h"

rdt_status rdt_expand_chain(rdt_builder *b) {
  const char *name = b->from.op->name;
  const bool mean = strcmp(name, "Mean") == 0;
  const char *op = mean || strcmp(name, "Sum") == 0 ? "Add" : name;
  const int n = b->from.n_in;
  if (n == 2 && op == name) return RDT_OK; /* it is the operator of two itself */
  int y = n == 1 ? rdt_build(b, "Identity", "only", rdt_build_in(b, 0)) : rdt_build_in(b, 0);
  for (int i = 1; i < n; i++) y = rdt_build(b, op, op, y, rdt_build_in(b, i));
  if (mean && n > 1) y = rdt_build(b, "Div", "divided", y, rdt_build_like(b, "count", n, rdt_build_in(b, 0)));
  b->result = y;
  return b->status;
}
