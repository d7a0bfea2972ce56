#include "util_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "core/memory.h"
#include "cpu/kernel.h"

rdt_graph *util_graph_load(const util_onnx *m) {
  size_t bytes;
  rdt_reason why = {""};
  rdt_graph *g = NULL;
  void *data = util_onnx_pack(m, &bytes);
  if (rdt_graph_load_memory(data, bytes, "test.onnx", &g, &why) != RDT_OK) fail_msg("%s", why.text);
  free(data);
  return g;
}

static rdt_status copy(const rdt_tensor *from, rdt_tensor *to) {
  const size_t size = rdt_dtype_size(to->dtype);
  rdt_iter a = rdt_iter_begin(from), b = rdt_iter_begin(to);
  while (rdt_iter_next(&a) && rdt_iter_next(&b))
    memcpy((char *)to->data + b.offset * (int64_t)size, (char *)from->data + a.offset * (int64_t)size, size);
  return RDT_OK;
}

static rdt_status run_node(const rdt_graph *g, const rdt_node *n, const rdt_layout *l, bool compute, rdt_reason *why) {
  const int y = n->out[0];
  rdt_problem p;
  void *state = NULL;
  if (l->folded[y]) return RDT_OK;
  if (l->alias[y] != y) return rdt_node_view(g, n, l->views, &l->views[y].data, why);
  RDT_TRY(rdt_node_lower(g, n, l->views, &p, why));
  const rdt_kernel *k = rdt_cpu_reference(&p);
  const rdt_operands o = {.in = p.in, .n_in = p.n_in, .out = p.out, .epilogue = &p.epilogue};
  rdt_status s = RDT_OK;
  if (compute) {
    s = k->create(&p, 1, &state, why);
    if (s == RDT_OK) s = k->run(state, &o, why);
    if (state) k->destroy(state);
  }
  rdt_problem_clear(&p);
  return s;
}

/* Is the memory of value v this run's own? */
static bool owned(const rdt_graph *g, const rdt_layout *l, int v) {
  return !g->values[v].data && !l->folded[v] && l->alias[v] == v && l->views[v].rank >= 0;
}

/* All values; with memory for everything where compute is set. */
static rdt_status run_all(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, bool compute, rdt_layout *l,
                          rdt_reason *why) {
  rdt_tensor *t;
  RDT_TRY(rdt_layout_init(l, g, why));
  t = l->views;
  RDT_TRY(rdt_graph_infer(g, inputs, n_inputs, l, why));
  for (int v = 0; compute && v < g->n_values; v++)
    if (owned(g, l, v)) t[v].data = rdt_calloc((size_t)rdt_tensor_count(&t[v]), rdt_dtype_size(t[v].dtype));
  for (int i = 0; compute && i < n_inputs; i++) RDT_TRY(copy(&inputs[i], &t[g->inputs[i]]));
  for (int i = 0; i < g->n_nodes; i++) RDT_TRY(run_node(g, &g->nodes[i], l, compute, why));
  return RDT_OK;
}

rdt_tensor util_graph_run(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, int i) {
  rdt_layout l;
  rdt_reason why = {""};
  if (run_all(g, inputs, n_inputs, true, &l, &why) != RDT_OK) fail_msg("%s", why.text);
  const rdt_tensor *y = &l.views[g->outputs[i]];
  rdt_tensor out = rdt_tensor_dense(NULL, y->dtype, y->rank, y->shape);
  out.data = rdt_alloc((size_t)rdt_tensor_count(&out), rdt_dtype_size(out.dtype));
  copy(y, &out);
  for (int v = 0; v < g->n_values; v++)
    if (owned(g, &l, v)) rdt_free(l.views[v].data);
  rdt_layout_clear(&l);
  return out;
}

rdt_status util_graph_try(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_reason *why) {
  rdt_layout l;
  const rdt_status s = run_all(g, inputs, n_inputs, false, &l, why);
  rdt_layout_clear(&l);
  return s;
}
