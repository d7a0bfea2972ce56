/* Loading and planning a network. */
#include "net/model.h"

#include <string.h>

#include "core/memory.h"
#include "net/remote.h"

rdt_status rdt_model_load(rdt_context *ctx, const char *path, rdt_model **out) {
  return rdt_model_load_replaced(ctx, path, NULL, 0, out);
}

rdt_status rdt_model_load_replaced(rdt_context *ctx, const char *path, const char *const *names, size_t n,
                                   rdt_model **out) {
  const rdt_replaced replaced = {(char **)(uintptr_t)names, n, ctx->machine ? 1 : rdt_context_checkpoints(ctx)};
  *out = NULL;
  ctx->error.text[0] = '\0';
  rdt_model *m = rdt_calloc(1, sizeof *m);
  if (!m) return rdt_fail(&ctx->error, RDT_ERR_NOMEM, "out of memory");
  m->ctx = ctx;
  rdt_status status = rdt_cores_enter(ctx);
  if (status == RDT_OK) {
    status = rdt_graph_load_replaced(path, ctx->threads, &replaced, &m->graph, &ctx->error);
    rdt_cores_leave(ctx);
  }
  if (status != RDT_OK) {
    rdt_free(m);
    return status;
  }
  *out = m;
  return RDT_OK;
}

rdt_status rdt_model_votes_fit(rdt_model *m) {
  rdt_context *ctx = m->ctx;
  const int has = m->graph->replaced.votes > 1 ? m->graph->replaced.votes : 1;
  const int of_plans = ctx->book ? ctx->book->checkpoints : 0;
  const int asked = ctx->machine ? 1 : rdt_context_checkpoints(ctx);
  if (has != asked)
    return rdt_fail(
        &ctx->error, RDT_ERR_UNSUPPORTED,
        "%.200s: was loaded with checkpoints %d, and it would be %d now%s: load it after policy, device and "
        "plans are set",
        m->graph->path, has, asked, ctx->machine ? " (a GPU divides no network)" : "");
  if (ctx->machine && of_plans > 1)
    return rdt_fail(&ctx->error, RDT_ERR_UNSUPPORTED,
                    "%.200s: the plan that was read was made with checkpoints %d, for a CPU, and this network runs on "
                    "%s: leave --plan out",
                    m->graph->path, of_plans, ctx->device_name);
  return of_plans ? rdt_context_checkpoints_fit(ctx, of_plans, "the plan that was read") : RDT_OK;
}

static void unplan(rdt_model *m) {
  rdt_remote_free(m->remote);
  m->remote = NULL;
  for (int i = 0; i < m->n_steps; i++) {
    rdt_step_release(&m->steps[i]);
    rdt_plan_destroy(m->steps[i].plan);
    rdt_problem_clear(&m->steps[i].prob);
    rdt_free(m->steps[i].reads);
    rdt_free(m->steps[i].row_sums);
  }
  for (int i = 0; m->outputs && i < m->graph->n_outputs; i++) rdt_free(m->outputs[i].data);
  rdt_arena_clear(&m->arena);
  rdt_free(m->steps);
  rdt_free(m->outputs);
  rdt_layout_clear(&m->layout);
  rdt_free(m->sums);
  rdt_free(m->output_sums);
  rdt_free(m->planned);
  rdt_free(m->lives);
  m->lives = NULL;
  m->steps = NULL;
  m->outputs = NULL;
  m->sums = m->output_sums = NULL;
  m->planned = NULL;
  m->n_steps = 0;
  m->ready = m->published = false;
}

void rdt_model_free(rdt_model *m) {
  if (!m) return;
  unplan(m);
  rdt_graph_free(m->graph);
  rdt_free(m);
}

static rdt_status io_info(const rdt_model *m, const int *list, int count, size_t i, rdt_io_info *info) {
  if (i >= (size_t)count)
    return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "there are %d of them, number %zu was asked for", count, i);
  const rdt_value *v = &m->graph->values[list[i]];
  *info = (rdt_io_info){.name = v->name, .dtype = v->dtype, .rank = v->rank};
  memcpy(info->shape, v->shape, sizeof info->shape);
  return RDT_OK;
}

size_t rdt_model_input_count(const rdt_model *m) {
  return (size_t)m->graph->n_inputs;
}

size_t rdt_model_output_count(const rdt_model *m) {
  return (size_t)m->graph->n_outputs;
}

rdt_status rdt_model_input_info(const rdt_model *m, size_t i, rdt_io_info *info) {
  return io_info(m, m->graph->inputs, m->graph->n_inputs, i, info);
}

rdt_status rdt_model_output_info(const rdt_model *m, size_t i, rdt_io_info *info) {
  return io_info(m, m->graph->outputs, m->graph->n_outputs, i, info);
}

/* ---- planning ---- */

static rdt_status out_of_memory(rdt_model *m, const char *what) {
  return rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "%s: out of memory for %s", m->graph->path, what);
}

/* ---- memory of the activations ---- */

static void needed_at(const rdt_model *m, rdt_lifetime *l, int v, int step) {
  if (v < 0) return;
  v = m->layout.alias[v];
  if (l[v].first >= 0 && l[v].last < step) l[v].last = step;
}

/* From the step that writes a value to the last one that reads it or a view of it. */
static rdt_status find_lifetimes(rdt_model *m, rdt_lifetime *l) {
  const rdt_graph *g = m->graph;
  const int nodes = g->n_inputs, publish = nodes + g->n_nodes;
  size_t total = 0;
  for (int v = 0; v < g->n_values; v++) {
    const rdt_tensor *t = &m->layout.views[v];
    l[v] = (rdt_lifetime){.first = -1, .last = -1};
    if (t->rank < 0 || m->layout.alias[v] != v || t->data) continue; /* unused; a view; a constant or folded */
    RDT_TRY(rdt_tensor_check(t, g->values[v].name, &m->ctx->error));
    l[v].bytes = (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
    l[v].first = g->values[v].producer >= 0 ? nodes + g->values[v].producer : 0;
    if (__builtin_add_overflow(total, l[v].bytes + 64, &total))
      return rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "%s: the activations overflow the address space", g->path);
  }
  for (int i = 0; i < g->n_inputs; i++) {
    const int v = g->inputs[i];
    if (l[v].first >= 0) l[v].first = l[v].last = i;
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    needed_at(m, l, n->out[0], nodes + i);
    for (int k = 0; k < n->n_in; k++) needed_at(m, l, n->in[k], nodes + i);
    needed_at(m, l, n->residual, nodes + i);
  }
  for (int i = 0; i < g->n_outputs; i++) needed_at(m, l, g->outputs[i], publish + i);
  for (int v = 0; v < g->n_values && m->ctx->machine; v++) /* a device keeps all that it computes: net/remote.h */
    if (l[v].first >= 0) l[v].first = 0, l[v].last = publish + g->n_outputs - 1;
  return RDT_OK;
}

static rdt_status make_arena(rdt_model *m, const rdt_lifetime *l) {
  const rdt_graph *g = m->graph;
  m->arena.data = rdt_alloc(m->arena.bytes, 1);
  if (!m->arena.data)
    return rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "%s: out of memory for %zu bytes of activations", g->path,
                    m->arena.bytes);
  for (int v = 0; v < g->n_values; v++)
    if (l[v].first >= 0) m->layout.views[v].data = (char *)m->arena.data + m->arena.offset[v];
  return RDT_OK;
}

/* Views point into the memory of others: their nodes are lowered once more, now that there is data. */
static rdt_status point_views(rdt_model *m) {
  const rdt_graph *g = m->graph;
  for (int i = 0; i < g->n_nodes; i++) {
    const int v = g->nodes[i].out[0];
    if (m->layout.folded[v]) m->sums[v] = rdt_activation_sum(m, v);
    if (m->layout.alias[v] == v) continue;
    RDT_TRY(rdt_node_view(g, &g->nodes[i], m->layout.views, &m->layout.views[v].data, &m->ctx->error));
  }
  return RDT_OK;
}

static rdt_status give_memory(rdt_model *m) {
  rdt_lifetime *l = m->lives = rdt_alloc((size_t)m->graph->n_values, sizeof *l);
  if (!l) return out_of_memory(m, "a plan");
  RDT_TRY(find_lifetimes(m, l));
  const int steps = m->graph->n_inputs + m->graph->n_nodes + m->graph->n_outputs;
  RDT_TRY(rdt_arena_plan(l, m->graph->n_values, steps, &m->arena, &m->ctx->error));
  RDT_TRY(make_arena(m, l));
  return point_views(m);
}

/* What a kernel needs only while it runs lies where no activation does then. */
static void lend_gaps(rdt_model *m) {
  for (int i = 0; i < m->n_steps; i++) {
    const rdt_plan *p = m->steps[i].plan;
    const size_t bytes = p && p->kernel->scratch ? p->kernel->scratch(p->state, NULL) : 0;
    size_t offset;
    if (bytes > 0 && rdt_arena_gap(&m->arena, m->lives, i, bytes, &offset))
      p->kernel->scratch(p->state, (char *)m->arena.data + offset);
  }
}

/* ---- steps ---- */

static rdt_status copy_problem(rdt_problem *p, const rdt_tensor *from, const rdt_tensor *to) {
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->in[0] = *from;
  p->out = *to;
  return RDT_OK;
}

/* What is read is the memory behind a view. */
static rdt_status add_read(rdt_step *s, int v) {
  v = s->model->layout.alias[v];
  for (int i = 0; i < s->n_reads; i++)
    if (s->reads[i] == v) return RDT_OK;
  int *reads = rdt_grow(s->reads, (size_t)s->n_reads, (size_t)s->n_reads + 1, sizeof *reads);
  if (!reads) return RDT_ERR_NOMEM;
  s->reads = reads;
  s->reads[s->n_reads++] = v;
  return RDT_OK;
}

static rdt_status plan_step(rdt_step *s, const char *name, const char *label) {
  const rdt_host host = {.self = s, .secure = rdt_step_secure};
  return rdt_plan_create(s->model->ctx, &s->prob, name, label, &host, &s->plan);
}

static rdt_status plan_import(rdt_step *s, const rdt_tensor *input) {
  rdt_model *m = s->model;
  s->writes = m->graph->inputs[s->subject];
  RDT_TRY(copy_problem(&s->prob, input, &m->layout.views[s->writes]));
  s->prob.in[0].data = NULL;
  if (m->ctx->machine) return RDT_OK;
  return plan_step(s, m->graph->values[s->writes].name, "input");
}

static rdt_status lower_node(rdt_step *s) {
  rdt_model *m = s->model;
  const rdt_node *n = &m->graph->nodes[s->subject];
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i] >= 0) RDT_TRY(add_read(s, n->in[i]));
  if (n->residual >= 0) RDT_TRY(add_read(s, n->residual));
  s->writes = n->out[0];
  if (m->layout.folded[s->writes] || m->layout.alias[s->writes] != s->writes) return RDT_OK; /* nothing to run */
  RDT_TRY(rdt_node_lower(m->graph, n, m->layout.views, &s->prob, &m->ctx->error));
  return m->ctx->machine ? RDT_OK : rdt_step_plan(s);
}

rdt_status rdt_step_plan(rdt_step *s) {
  rdt_model *m = s->model;
  const rdt_node *n = &m->graph->nodes[s->subject];
  /* a linear op whose weights are computed at run time has none to prepare for */
  if (rdt_kop_is_linear(s->prob.op) && !m->graph->values[n->in[1]].data) {
    void *data = s->prob.in[1].data;
    s->prob.in[1].data = NULL;
    const rdt_status status = plan_step(s, n->name, n->label);
    s->prob.in[1].data = data;
    return status;
  }
  RDT_TRY(rdt_step_hold(s, &m->ctx->error));
  RDT_TRY(plan_step(s, n->name, n->label));
  RDT_TRY(rdt_step_secure_weights(s, &m->ctx->error));
  RDT_TRY(rdt_rows_make(s, &m->ctx->error));
  if (s->plan->scheme->id == RDT_SCHEME_NONE && rdt_plan_has_site(s->plan, RDT_SITE_PACKED))
    rdt_step_release(s); /* nobody reads them: no check, and the kernel has its own */
  return RDT_OK;
}

static rdt_status plan_publish(rdt_step *s) {
  rdt_model *m = s->model;
  const int v = m->graph->outputs[s->subject];
  rdt_tensor *out = &m->outputs[s->subject];
  const rdt_tensor *view = &m->layout.views[v];
  s->writes = -1;
  RDT_TRY(add_read(s, v));
  *out = rdt_tensor_dense(NULL, view->dtype, view->rank, view->shape);
  out->data = rdt_alloc((size_t)rdt_tensor_count(out), rdt_dtype_size(out->dtype));
  if (!out->data) return RDT_ERR_NOMEM;
  RDT_TRY(copy_problem(&s->prob, view, out));
  if (m->ctx->machine) return RDT_OK;
  return plan_step(s, m->graph->values[v].name, "output");
}

static rdt_status plan_steps(rdt_model *m, const rdt_tensor *inputs) {
  const rdt_graph *g = m->graph;
  const struct {
    rdt_step_kind kind;
    int count;
  } parts[] = {{RDT_STEP_IMPORT, g->n_inputs}, {RDT_STEP_NODE, g->n_nodes}, {RDT_STEP_PUBLISH, g->n_outputs}};
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < parts[part].count; i++) {
      rdt_step *s = &m->steps[m->n_steps++];
      *s = (rdt_step){.model = m, .kind = parts[part].kind, .subject = i, .writes = -1};
      s->result = (rdt_result){.verdict = RDT_UNCHECKED, .place = {-1, -1}};
      RDT_TRY(s->kind == RDT_STEP_IMPORT ? plan_import(s, &inputs[i])
              : s->kind == RDT_STEP_NODE ? lower_node(s)
                                         : plan_publish(s));
    }
  return RDT_OK;
}

/* With each plan what its step hands to it, and where it finds what it verifies. */
static rdt_status seal_steps(rdt_model *m) {
  enum { MOST = 24 };
  for (int i = 0; i < m->n_steps; i++) {
    rdt_step *s = &m->steps[i];
    rdt_part parts[MOST] = {{&s->prob, sizeof s->prob}, {s->reads, (size_t)s->n_reads * sizeof *s->reads}};
    int n = 2;
    if (!s->plan) continue;
    if (s->kind != RDT_STEP_IMPORT) parts[n++] = (rdt_part){s->prob.in, (size_t)s->prob.n_in * sizeof *s->prob.in};
    if (s->writes >= 0) parts[n++] = (rdt_part){&m->layout.views[s->writes], sizeof *m->layout.views};
    for (int k = 0; k < s->n_reads && n < MOST; k++)
      parts[n++] = (rdt_part){&m->layout.views[s->reads[k]], sizeof *m->layout.views};
    RDT_TRY(rdt_plan_seal(s->plan, parts, n));
  }
  return RDT_OK;
}

/* Dense inputs of the declared shapes, open dimensions taken as 1. */
rdt_status rdt_model_default_inputs(const rdt_model *m, rdt_tensor *inputs) {
  for (int i = 0; i < m->graph->n_inputs; i++) {
    const rdt_value *v = &m->graph->values[m->graph->inputs[i]];
    int64_t shape[RDT_MAX_RANK];
    if (v->rank < 0)
      return rdt_fail(&m->ctx->error, RDT_ERR_SHAPE, "%s does not say the rank of input %s: give an input",
                      m->graph->path, v->name);
    for (int d = 0; d < v->rank; d++) shape[d] = v->shape[d] < 0 ? 1 : v->shape[d];
    inputs[i] = rdt_tensor_dense(NULL, v->dtype, v->rank, shape);
  }
  return RDT_OK;
}

static rdt_status plan_anew(rdt_model *m, const rdt_tensor *inputs, size_t n) {
  const rdt_graph *g = m->graph;
  unplan(m);
  RDT_TRY(rdt_model_votes_fit(m));
  if (inputs && n != (size_t)g->n_inputs)
    return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "%s takes %d inputs, got %zu", g->path, g->n_inputs, n);
  m->sums = rdt_calloc((size_t)g->n_values, sizeof *m->sums);
  m->planned = rdt_calloc((size_t)g->n_inputs, sizeof *m->planned);
  m->outputs = rdt_calloc((size_t)g->n_outputs, sizeof *m->outputs);
  m->output_sums = rdt_calloc((size_t)g->n_outputs, sizeof *m->output_sums);
  m->steps = rdt_calloc((size_t)g->n_inputs + (size_t)g->n_nodes + (size_t)g->n_outputs, sizeof *m->steps);
  rdt_status status = RDT_OK;
  if (!m->sums || !m->planned || !m->outputs || !m->output_sums || !m->steps) {
    status = out_of_memory(m, "a plan");
    goto fail;
  }
  if (inputs)
    memcpy(m->planned, inputs, n * sizeof *inputs);
  else
    RDT_TRY_GOTO(rdt_model_default_inputs(m, m->planned), fail);
  RDT_TRY_GOTO(rdt_model_secure_constants(m, &m->ctx->error), fail);
  RDT_TRY_GOTO(rdt_layout_init(&m->layout, g, &m->ctx->error), fail);
  RDT_TRY_GOTO(rdt_graph_infer(g, m->planned, g->n_inputs, &m->layout, &m->ctx->error), fail);
  RDT_TRY_GOTO(rdt_layout_is_cold(g, &m->layout, &m->ctx->cold, &m->ctx->error), fail);
  RDT_TRY_GOTO(give_memory(m), fail);
  RDT_TRY_GOTO(rdt_layout_is_cold(g, &m->layout, &m->ctx->cold, &m->ctx->error), fail);
  RDT_TRY_GOTO(plan_steps(m, m->planned), fail);
  if (m->ctx->machine) RDT_TRY_GOTO(rdt_remote_plan(m, &m->ctx->error), fail);
  lend_gaps(m);
  RDT_TRY_GOTO(seal_steps(m), fail);
  m->ready = true;
  return RDT_OK;
fail:
  if (status == RDT_ERR_NOMEM && m->ctx->error.text[0] == '\0') out_of_memory(m, "a plan");
  unplan(m);
  return status;
}

rdt_status rdt_model_plan(rdt_model *m, const rdt_tensor *inputs, size_t n) {
  RDT_TRY(rdt_cores_enter(m->ctx));
  const rdt_status status = plan_anew(m, inputs, n);
  m->ctx->cold = false; /* for plans that are no network's */
  rdt_cores_leave(m->ctx);
  return status;
}
