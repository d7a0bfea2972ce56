/* The nodes of a network as problems, without a plan: what there is to choose for. */
#include <stdio.h>

#include "core/memory.h"
#include "net/model.h"

/* Fixed weights of a linear problem: constants. */
static bool is_fixed(const rdt_graph *g, const rdt_node *n, const rdt_problem *p) {
  return rdt_kop_is_linear(p->op) && g->values[n->in[1]].data;
}

rdt_status rdt_layout_is_cold(const rdt_graph *g, const rdt_layout *l, bool *cold, rdt_reason *why) {
  double bytes = 0.0;
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_problem p;
    const rdt_node *n = &g->nodes[i];
    const int y = n->out[0];
    if (l->folded[y] || l->alias[y] != y) continue;
    RDT_TRY(rdt_node_lower(g, n, l->views, &p, why));
    if (is_fixed(g, n, &p)) bytes += (double)rdt_tensor_count(&p.in[1]) * (double)rdt_dtype_size(p.in[1].dtype);
    rdt_problem_clear(&p);
  }
  *cold = rdt_weights_are_cold(bytes);
  return RDT_OK;
}

static rdt_status add_node(const rdt_model *m, const rdt_layout *l, const rdt_node *n, rdt_survey *s) {
  const rdt_graph *g = m->graph;
  const int y = n->out[0];
  rdt_problem p;
  if (l->folded[y] || l->alias[y] != y) {
    RDT_TRY(rdt_survey_add(s, n->name, n->label, NULL, false, 1));
    s->list[s->n - 1].idle = l->folded[y] ? "folded" : "view";
    s->list[s->n - 1].prob.out = l->views[y];
    return RDT_OK;
  }
  RDT_TRY(rdt_node_lower(g, n, l->views, &p, &m->ctx->error));
  const rdt_status status = rdt_survey_add(s, n->name, n->label, &p, is_fixed(g, n, &p), 1);
  rdt_problem_clear(&p);
  return status;
}

rdt_status rdt_model_survey(rdt_model *m, const rdt_tensor *inputs, size_t n, rdt_survey *s) {
  const rdt_graph *g = m->graph;
  rdt_layout l = {0};
  *s = (rdt_survey){0};
  RDT_TRY(rdt_model_votes_fit(m));
  if (inputs && n != (size_t)g->n_inputs)
    return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "%s takes %d inputs, got %zu", g->path, g->n_inputs, n);
  rdt_tensor *defaults = inputs ? NULL : rdt_calloc((size_t)g->n_inputs, sizeof *defaults);
  rdt_status status = inputs || defaults ? RDT_OK : rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK && !inputs) status = rdt_model_default_inputs(m, defaults);
  if (status == RDT_OK) RDT_TRY_GOTO(rdt_layout_init(&l, g, &m->ctx->error), end);
  if (status == RDT_OK) status = rdt_graph_infer(g, inputs ? inputs : defaults, g->n_inputs, &l, &m->ctx->error);
  if (status == RDT_OK) status = rdt_layout_is_cold(g, &l, &s->cold, &m->ctx->error);
  for (int i = 0; i < g->n_nodes && status == RDT_OK; i++) {
    status = add_node(m, &l, &g->nodes[i], s);
    if (status == RDT_ERR_NOMEM) rdt_fail(&m->ctx->error, status, "out of memory");
  }
  rdt_layout_clear(&l);
end:
  rdt_free(defaults);
  return status;
}

rdt_status rdt_model_measure(rdt_model *m, const rdt_tensor *inputs, size_t n) {
  const rdt_survey_watch watch = {.each = m->on_progress, .user = m->on_progress_user};
  rdt_survey s;
  int measured;
  RDT_TRY(rdt_cores_enter(m->ctx));
  rdt_status status = rdt_model_survey(m, inputs, n, &s);
  if (status == RDT_OK) status = rdt_survey_measure(m->ctx, &s, &watch, &measured);
  rdt_cores_leave(m->ctx);
  rdt_offers *o = rdt_alloc(1, sizeof *o);
  if (!o && status == RDT_OK) status = rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; i < s.n && status == RDT_OK; i++) {
    o->words = false;
    if (s.list[i].idle) continue;
    rdt_survey_choose(m->ctx, &s, i, true, o);
    status = rdt_survey_note(m->ctx, &s, i, o);
  }
  if (status == RDT_OK && m->ctx->book && !m->ctx->machine) m->ctx->book->checkpoints = rdt_context_checkpoints(m->ctx);
  rdt_free(o);
  rdt_survey_free(&s);
  return status;
}
