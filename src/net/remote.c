/* Planning a network for a device: which steps it computes, where things lie, which sums guard them. */
#include "net/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cuda/ops/ops.h"
#include "net/constant.h"

enum { ALIGN = 256 };

static size_t aligned(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static rdt_status no_memory(rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to plan for a device");
}

/* ---- the context's device ---- */

static void drop_machine(struct rdt_machine *m) {
  m->close(m);
}

rdt_status rdt_context_set_device(rdt_context *ctx, const char *name) {
  rdt_machine *machine = NULL;
  int index = 0;
  if (name && strcmp(name, "cpu") != 0) {
    RDT_TRY(rdt_device_index(name, &index, &ctx->error));
    RDT_TRY(rdt_machine_open(index, &machine, &ctx->error));
  }
  rdt_context_take_machine(ctx, machine);
  return RDT_OK;
}

void rdt_context_take_machine(rdt_context *ctx, rdt_machine *m) {
  if (ctx->machine) ctx->drop_machine(ctx->machine);
  ctx->machine = m;
  ctx->drop_machine = drop_machine;
  ctx->device_name[0] = '\0';
  if (!m) return;
  m->device.votes = ctx->policy.checkpoints;
  snprintf(ctx->device_name, sizeof ctx->device_name, "cuda:%d", m->device.index);
}

/* ---- addresses ---- */

uint64_t *rdt_remote_expected(const rdt_remote *r, int slot) {
  return (uint64_t *)(void *)(r->board + sizeof(rdt_answer)) + slot;
}

uint64_t *rdt_remote_found(const rdt_remote *r, int slot) {
  return rdt_remote_expected(r, r->n_slots + slot);
}

static const rdt_mirror *mirror_of(const rdt_remote *r, const void *host) {
  const char *p = host;
  for (int i = 0; i < r->n_mirrors; i++)
    if (p >= r->mirrors[i].host && p < r->mirrors[i].host + r->mirrors[i].bytes) return &r->mirrors[i];
  return NULL;
}

void *rdt_remote_there(const rdt_remote *r, const void *host) {
  const rdt_mirror *m = host ? mirror_of(r, host) : NULL;
  return m ? m->there + ((const char *)host - m->host) : NULL;
}

static bool translate(const rdt_remote *r, rdt_tensor *t) {
  if (t->rank < 0 || !t->data || rdt_tensor_count(t) == 0) return true;
  t->data = rdt_remote_there(r, t->data);
  return t->data != NULL;
}

/* ---- constants ---- */

/* What a value's memory is on the host, of those that do not change: constants, and what was computed while planning.
 */
static void *fixed_memory(const rdt_model *m, int v, size_t *bytes) {
  const rdt_value *value = &m->graph->values[v];
  *bytes = value->data ? value->bytes : m->layout.folded[v] ? rdt_tensor_bytes(&m->layout.views[v]) : 0;
  return value->data ? value->data : m->layout.folded[v];
}

static rdt_status find_constants(rdt_remote *r, rdt_reason *why) {
  rdt_model *m = r->model;
  size_t total = 0, bytes;
  r->mirrors = rdt_calloc((size_t)m->graph->n_values + 1, sizeof *r->mirrors);
  bool *read = rdt_calloc((size_t)m->graph->n_values + 1, sizeof *read);
  if (!r->mirrors || !read) {
    rdt_free(read);
    return no_memory(why);
  }
  for (int i = 0; i < m->n_steps; i++)
    for (int k = 0; k < m->steps[i].n_reads; k++) read[m->steps[i].reads[k]] = true;
  r->mirrors[r->n_mirrors++] = (rdt_mirror){.host = m->arena.data, .bytes = m->arena.bytes, .value = -1, .slot = -1};
  for (int v = 0; v < m->graph->n_values; v++) {
    void *host = read[v] ? fixed_memory(m, v, &bytes) : NULL;
    if (!host || bytes == 0) continue;
    r->mirrors[r->n_mirrors++] = (rdt_mirror){.host = host, .bytes = bytes, .value = v, .slot = -1};
    total += aligned(bytes);
  }
  rdt_free(read);
  void *block;
  RDT_TRY(r->machine->alloc(r->machine, m->arena.bytes, &block, why));
  r->mirrors[0].there = block;
  RDT_TRY(r->machine->alloc(r->machine, total, &block, why));
  r->constants = block;
  total = 0;
  for (int i = 1; i < r->n_mirrors; i++) {
    r->mirrors[i].there = r->constants + total;
    total += aligned(r->mirrors[i].bytes);
  }
  return RDT_OK;
}

static rdt_status upload(rdt_remote *r, const rdt_mirror *c, rdt_reason *why) {
  rdt_model *m = r->model;
  const bool constant = m->graph->values[c->value].data != NULL;
  if (constant) RDT_TRY(rdt_constant_hold(m->graph, c->value, why));
  rdt_status status = r->machine->put(r->machine, RDT_LANE_MAIN, c->there, c->host, c->bytes, why);
  if (status == RDT_OK) status = r->machine->wait(r->machine, why);
  if (constant) rdt_constant_release(m->graph, c->value);
  return status;
}

static uint64_t sum_known(const rdt_remote *r, const rdt_mirror *c) {
  const rdt_value *value = &r->model->graph->values[c->value];
  return value->data ? value->bitsum : r->model->sums[c->value];
}

/* From the host's copy, which is put in order first. */
rdt_status rdt_remote_restore(rdt_remote *r, int mirror, rdt_reason *why) {
  const rdt_mirror *c = &r->mirrors[mirror];
  rdt_graph *g = r->model->graph;
  rdt_rot rot = {.tiles = 0};
  if (g->values[c->value].data) {
    RDT_TRY(rdt_constant_hold(g, c->value, why));
    const rdt_status status = rdt_constant_is_good(g, c->value) ? RDT_OK : rdt_constant_restore(g, c->value, &rot, why);
    rdt_constant_release(g, c->value);
    RDT_TRY(status);
  } else if (rdt_bitsum(c->host, c->bytes) != sum_known(r, c)) {
    return rdt_fail(why, RDT_ERR_FAULT, "%s has changed in memory", g->values[c->value].name);
  }
  return upload(r, c, why);
}

/* ---- steps ---- */

static rdt_status translate_problem(rdt_remote *r, int i, rdt_reason *why) {
  const rdt_step *s = &r->model->steps[i];
  rdt_problem *p = &r->steps[i].prob;
  if (rdt_problem_copy(p, &s->prob) != RDT_OK) return no_memory(why);
  rdt_epilogue *e = &p->epilogue;
  bool found = s->kind == RDT_STEP_PUBLISH || translate(r, &p->out);
  for (int k = 0; k < p->n_in; k++) found = found && translate(r, &p->in[k]);
  found = found && translate(r, &e->bias) && translate(r, &e->residual) && translate(r, &e->factor);
  if (!found) return rdt_fail(why, RDT_ERR_INTERNAL, "step %d works on memory that the device does not know", i);
  if (s->kind == RDT_STEP_IMPORT) {
    const rdt_tensor *in = &s->prob.in[0];
    p->in[0] = rdt_tensor_dense(r->in.there + r->in.at[s->subject], in->dtype, in->rank, in->shape);
  } else if (s->kind == RDT_STEP_PUBLISH) {
    p->out.data = r->out.there + r->out.at[s->subject];
  }
  return RDT_OK;
}

static bool is_fixed(const rdt_model *m, const rdt_step *s) {
  return s->kind == RDT_STEP_NODE && m->graph->values[m->graph->nodes[s->subject].in[1]].data;
}

/* RDT_ERR_UNSUPPORTED: the host computes it. */
static rdt_status make_linear(rdt_remote *r, int i, rdt_reason *why) {
  const rdt_model *m = r->model;
  rdt_remote_step *s = &r->steps[i];
  const bool permanent = m->ctx->policy.permanent;
  const char *asked = permanent ? "tmr-sm" : m->ctx->scheme;
  void *const weights = s->prob.in[1].data;
  if (!is_fixed(m, &m->steps[i])) s->prob.in[1].data = NULL;
  rdt_status status = r->machine->linear_create(r->machine, &s->prob, strcmp(asked, "auto") == 0 ? NULL : asked,
                                                m->ctx->policy.lambda, &s->linear, why);
  if (status == RDT_ERR_UNSUPPORTED && r->protected && !permanent &&
      strcmp(asked, "auto") != 0) /* layers that cannot have it */
    status = r->machine->linear_create(r->machine, &s->prob, NULL, m->ctx->policy.lambda, &s->linear, why);
  s->prob.in[1].data = weights;
  if (status == RDT_OK && r->protected) {
    s->verdict = r->machine->linear_verdict(s->linear);
    s->blocks = r->machine->linear_blocks(s->linear);
  }
  return status;
}

/* The constant that is all of the step's table; NULL: there is none. */
static const rdt_mirror *table_of(const rdt_remote *r, int i, int64_t *rows, size_t *bytes) {
  const rdt_remote_step *s = &r->steps[i];
  if (!s->here || s->linear || !rdt_ops_by_table_rows(s->ops, s->n_ops, rows, bytes)) return NULL;
  for (int c = 1; c < r->n_mirrors; c++)
    if (r->mirrors[c].there == s->prob.in[0].data && r->mirrors[c].bytes == (size_t)*rows * *bytes)
      return &r->mirrors[c];
  return NULL;
}

rdt_status rdt_remote_sum_rows(rdt_remote *r, int i, rdt_reason *why) {
  rdt_graph *g = r->model->graph;
  int64_t rows;
  size_t bytes;
  const rdt_mirror *c = table_of(r, i, &rows, &bytes);
  const bool constant = g->values[c->value].data != NULL;
  uint64_t *sums = rdt_alloc((size_t)rows, sizeof *sums);
  if (!sums) return no_memory(why);
  rdt_status status = constant ? rdt_constant_hold(g, c->value, why) : RDT_OK;
  if (status == RDT_OK) {
    for (int64_t k = 0; k < rows; k++) sums[k] = rdt_bitsum_part(c->host, (size_t)k * bytes, bytes);
    if (constant) rdt_constant_release(g, c->value);
    status = r->machine->put(r->machine, RDT_LANE_MAIN, r->steps[i].rows, sums, (size_t)rows * sizeof *sums, why);
  }
  if (status == RDT_OK) status = r->machine->wait(r->machine, why);
  rdt_free(sums);
  return status;
}

static rdt_status take_rows(rdt_remote *r, int i, rdt_reason *why) {
  rdt_remote_step *s = &r->steps[i];
  void *memory;
  int64_t rows;
  size_t bytes;
  if (!r->protected || !table_of(r, i, &rows, &bytes)) return RDT_OK;
  RDT_TRY(r->machine->alloc(r->machine, (size_t)rows * sizeof *s->rows, &memory, why));
  s->ops->rows = s->rows = memory;
  return rdt_remote_sum_rows(r, i, why);
}

static rdt_status make_step(rdt_remote *r, int i, rdt_reason *why) {
  rdt_model *m = r->model;
  rdt_step *step = &m->steps[i];
  rdt_remote_step *s = &r->steps[i];
  const int v = step->writes;
  s->slot = s->reads[0] = s->reads[1] = s->group = -1;
  if (step->kind == RDT_STEP_NODE && (m->layout.folded[v] || m->layout.alias[v] != v)) return RDT_OK;
  RDT_TRY(translate_problem(r, i, why));
  const bool bytes = !rdt_dtype_is_float(s->prob.in[0].dtype);
  bool linear = rdt_kop_is_linear(s->prob.op);
  rdt_status status = linear ? make_linear(r, i, why) : rdt_ops_prepare(&s->prob, &s->ops, &s->n_ops, why);
  if (status == RDT_ERR_UNSUPPORTED && linear && bytes) { /* twice, like an op that is no product */
    linear = false;
    status = rdt_ops_prepare(&s->prob, &s->ops, &s->n_ops, why);
  }
  s->here = status == RDT_OK;
  s->host = status == RDT_ERR_UNSUPPORTED;
  if (s->here && !linear && r->protected) s->verdict = &r->verdicts[i];
  if (s->here) RDT_TRY(take_rows(r, i, why));
  if (!s->host) return status;
  snprintf(s->refusal, sizeof s->refusal, "%.199s", why->text);
  if (step->kind != RDT_STEP_NODE) return status;
  r->hybrid = true;
  return rdt_step_plan(step);
}

const char *rdt_remote_kernel(const rdt_remote *r, int step) {
  const rdt_remote_step *s = &r->steps[step];
  if (!s->here) return NULL;
  const rdt_remote_group *g = rdt_remote_group_of(r, step);
  if (g) return g->mlp ? r->machine->mlp_kernel(g->mlp) : rdt_ops_name(RDT_OP_ATTENTION);
  return s->linear ? r->machine->linear_kernel(s->linear) : s->n_ops ? rdt_ops_name(s->ops[0].kind) : "empty";
}

const char *rdt_remote_scheme(const rdt_remote *r, int step) {
  const rdt_remote_step *s = &r->steps[step];
  const rdt_remote_group *g = rdt_remote_group_of(r, step);
  if (!r->protected) return "none";
  if (g) return g->mlp ? r->machine->mlp_scheme(g->mlp) : "dup";
  return s->linear ? r->machine->linear_scheme(s->linear) : "dup";
}

/* ---- what comes and goes ---- */

static rdt_status make_carrier(rdt_remote *r, rdt_carrier *c, const rdt_tensor *list, int n, rdt_reason *why) {
  void *memory;
  c->at = rdt_calloc((size_t)n + 1, sizeof *c->at);
  if (!c->at) return no_memory(why);
  for (int i = 0; i < n; i++) {
    c->at[i] = c->bytes;
    c->bytes += aligned(rdt_tensor_bytes(&list[i]));
  }
  RDT_TRY(r->machine->alloc(r->machine, c->bytes, &memory, why));
  c->there = memory;
  RDT_TRY(r->machine->pin(r->machine, c->bytes, &memory, why));
  c->host = memory;
  memset(c->host, 0, c->bytes);
  return RDT_OK;
}

/* ---- slots and parts ---- */

typedef struct parts { /* while they are listed, on the host */
  rdt_sum_part *list;
  int n, room;
} parts;

static bool cut(parts *p, const char *data, size_t bytes, uint64_t *sum) {
  for (size_t at = 0; at < bytes; at += RDT_SUM_BYTES) {
    if (p->n == p->room) {
      const int room = p->room ? 2 * p->room : 256;
      rdt_sum_part *grown = rdt_grow(p->list, (size_t)p->n, (size_t)room, sizeof *grown);
      if (!grown) return false;
      p->list = grown;
      p->room = room;
    }
    const size_t left = bytes - at;
    p->list[p->n++] = (rdt_sum_part){data + at, left < RDT_SUM_BYTES ? left : RDT_SUM_BYTES, at / 4, sum};
  }
  return true;
}

/* Weights whose readers all notice if they change, and read them as weights only; and tables, of rows that are read. */
static void find_covered(rdt_remote *r) {
  const rdt_model *m = r->model;
  for (int c = 1; c < r->n_mirrors; c++) {
    bool covered = true;
    for (int i = 0; i < m->n_steps && covered; i++) {
      const rdt_remote_step *s = &r->steps[i];
      if (m->steps[i].kind != RDT_STEP_NODE || !(s->here || s->host)) continue;
      const rdt_node *n = &m->graph->nodes[m->steps[i].subject];
      int sets;
      const bool chain = s->group >= 0 && r->groups[s->group].mlp, linear = s->linear && (s->group < 0 || chain);
      const rdt_scheme_info *scheme = linear ? rdt_scheme_parse(rdt_remote_scheme(r, i), &sets) : NULL;
      for (int k = 0; k <= n->n_in; k++) {
        const int v = k < n->n_in ? n->in[k] : n->residual;
        if (v < 0 || m->layout.alias[v] != r->mirrors[c].value) continue;
        covered = covered && ((k == 1 && scheme && (scheme->covers_weights || chain)) || (k == 0 && s->rows));
      }
    }
    r->mirrors[c].covered = covered;
  }
}

/* In the order of the slots: outputs, inputs, what steps write, constants that are always verified, others. */
static void number_slots(rdt_remote *r) {
  const rdt_model *m = r->model;
  const int inputs = m->graph->n_inputs, outputs = m->graph->n_outputs;
  int slot = outputs + inputs;
  for (int i = 0; i < m->n_steps; i++) {
    rdt_remote_step *s = &r->steps[i];
    if (!s->here && !s->host) continue;
    s->slot = m->steps[i].kind == RDT_STEP_PUBLISH ? m->steps[i].subject : slot++;
  }
  r->n_written = slot;
  for (int pass = 0; pass < 2; pass++) {
    for (int c = 1; c < r->n_mirrors; c++)
      if (r->mirrors[c].covered == (pass == 1)) r->mirrors[c].slot = slot++;
    if (pass == 0) r->n_always = slot;
  }
  r->n_slots = slot;
}

/* The last step that reads each value, that of a group being its launch; -1: none. */
static int *last_readers(const rdt_remote *r) {
  const rdt_model *m = r->model;
  int *last = rdt_calloc((size_t)m->graph->n_values + 1, sizeof *last);
  for (int v = 0; last && v < m->graph->n_values; v++) last[v] = -1;
  for (int i = 0; last && i < m->n_steps; i++)
    for (int k = 0; k < m->steps[i].n_reads; k++) {
      int *at = &last[m->steps[i].reads[k]];
      const int end = r->steps[i].group >= 0 ? rdt_remote_end(&r->groups[r->steps[i].group]) : i;
      if (end > *at) *at = end;
    }
  return last;
}

/* in[0], or the residual. */
static const rdt_tensor *operand_of(const rdt_remote_step *s, int which) {
  return which ? &s->prob.epilogue.residual : &s->prob.in[0];
}

/* The check of step i sums the very memory that step k has written, as it is: as this operand; -1: as none. */
static int sums_result_of(const rdt_remote *r, int i, int k) {
  const rdt_remote_step *s = &r->steps[i];
  const rdt_tensor *y = &r->steps[k].prob.out;
  const unsigned reads = !r->protected || k >= i || s->group >= 0 ? 0
                         : s->linear                              ? r->machine->linear_reads(s->linear)
                                                                  : (unsigned)rdt_ops_sums(s->ops, s->n_ops, &s->prob);
  for (int which = 0; which < 2; which++) {
    const rdt_tensor *x = operand_of(s, which);
    if (reads >> which & 1 && s->reads[which] < 0 && x->data == y->data && rdt_tensor_bytes(x) == rdt_tensor_bytes(y))
      return which;
  }
  return -1;
}

/* What a group's launch does not write. */
static bool is_inner(const rdt_remote *r, int i) {
  return r->steps[i].group >= 0 && i != rdt_remote_end(&r->groups[r->steps[i].group]);
}

/* The sum of what step i has written, as it is. */
static bool cut_result(rdt_remote *r, parts *p, int i) {
  const rdt_tensor *t = &r->steps[i].prob.out;
  return cut(p, t->data, rdt_tensor_bytes(t), rdt_remote_found(r, r->steps[i].slot));
}

/* What the groups' launches sum of what they read, each once. */
static bool list_read(rdt_remote *r, parts *p, const rdt_remote_group *g) {
  bool good = true;
  for (int k = 0; k < r->model->n_steps; k++) {
    bool read = false;
    for (int w = 0; w < 3; w++) read = read || (r->steps[k].slot >= 0 && g->reads[w] == r->steps[k].slot);
    if (read) good = good && cut_result(r, p, k);
  }
  return good;
}

/* What every run verifies, and step i is the last to read. */
static bool list_rest(rdt_remote *r, parts *p, const int *last, int i) {
  const rdt_model *m = r->model;
  const int outputs = m->graph->n_outputs;
  bool good = true;
  if (m->steps[i].kind == RDT_STEP_IMPORT) {
    const int k = m->steps[i].subject;
    good = cut(p, r->in.there + r->in.at[k], rdt_tensor_bytes(&m->planned[k]), rdt_remote_found(r, outputs + k));
  }
  for (int k = 0; k <= i; k++) {
    const rdt_remote_step *s = &r->steps[k];
    const int v = m->steps[k].writes;
    if (s->slot < outputs || (v >= 0 && last[v] > k ? last[v] : k) != i || is_inner(r, k)) continue;
    if (rdt_remote_group_sums(r, i, k)) continue;
    const int as = sums_result_of(r, i, k);
    if (as >= 0) {
      r->steps[i].reads[as] = s->slot;
      continue;
    }
    good = good && cut_result(r, p, k);
  }
  for (int c = 1; c < r->n_mirrors; c++) {
    const rdt_mirror *x = &r->mirrors[c];
    if (!x->covered && last[x->value] == i) good = good && cut(p, x->there, x->bytes, rdt_remote_found(r, x->slot));
  }
  return good;
}

static bool list_parts(rdt_remote *r, parts *p) {
  const rdt_model *m = r->model;
  int *last = last_readers(r);
  bool good = last != NULL;
  for (int i = 0; i < m->n_steps && good; i++) {
    r->steps[i].rest = p->n;
    good = list_rest(r, p, last, i);
    r->steps[i].n_rest = p->n - r->steps[i].rest;
  }
  rdt_free(last);
  r->parts_rest = p->n; /* those of the last steps go with the outputs */
  for (int i = 0; i < m->graph->n_outputs; i++)
    good = good && cut(p, r->out.there + r->out.at[i], rdt_tensor_bytes(&m->outputs[i]), rdt_remote_found(r, i));
  r->parts_run = p->n;
  for (int i = 0; i < m->n_steps; i++) {
    const rdt_remote_step *s = &r->steps[i];
    for (int k = 0; k < 2; k++)
      if (s->reads[k] >= 0)
        good = good &&
               cut(p, operand_of(s, k)->data, rdt_tensor_bytes(operand_of(s, k)), rdt_remote_found(r, s->reads[k]));
  }
  for (int g = 0; g < r->n_groups; g++) good = good && list_read(r, p, &r->groups[g]);
  r->parts_always = p->n;
  for (int c = 1; c < r->n_mirrors; c++) {
    const rdt_mirror *x = &r->mirrors[c];
    good = good && cut(p, x->there, x->bytes, rdt_remote_found(r, x->slot));
  }
  r->parts_slots = p->n;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < m->n_steps; i++) { /* what is summed in no other way */
      rdt_remote_step *s = &r->steps[i];
      if ((s->group >= 0) != (pass == 1)) continue;
      s->part = p->n;
      if (s->linear && !s->blocks)
        good = good && cut(p, s->prob.out.data, rdt_tensor_bytes(&s->prob.out), rdt_remote_expected(r, s->slot));
      s->n_parts = p->n - s->part;
    }
  for (int i = 0; i < r->n_groups; i++) {
    rdt_remote_group *g = &r->groups[i];
    g->rest = p->n;
    good = good && list_read(r, p, g);
    g->inner = p->n;
    for (int k = 0; k + 1 < g->n; k++) good = good && cut_result(r, p, g->steps[k]);
    g->end_rest = p->n;
  }
  return good;
}

/* A table on the device. */
static rdt_status send(rdt_remote *r, const void *table, size_t bytes, void **there, rdt_reason *why) {
  RDT_TRY(r->machine->alloc(r->machine, bytes, there, why));
  RDT_TRY(r->machine->put(r->machine, RDT_LANE_MAIN, *there, table, bytes, why));
  return r->machine->wait(r->machine, why);
}

static rdt_status send_slots(rdt_remote *r, rdt_reason *why) {
  const size_t n = (size_t)r->n_slots;
  rdt_slot *slots = rdt_calloc(n + 1, sizeof *slots);
  uint64_t *known = rdt_calloc(n + 1, sizeof *known);
  const rdt_cuda_verdict **asked = rdt_calloc((size_t)(r->model->n_steps + r->n_groups) + 1, sizeof *asked);
  rdt_status status = slots && known && asked ? RDT_OK : no_memory(why);
  for (int c = 1; c < r->n_mirrors && status == RDT_OK; c++) known[r->mirrors[c].slot] = sum_known(r, &r->mirrors[c]);
  if (status == RDT_OK) status = send(r, known, (n + 1) * sizeof *known, (void **)&r->known, why);
  for (int s = 0; s < r->n_slots && status == RDT_OK; s++)
    slots[s] = (rdt_slot){s < r->n_written ? rdt_remote_expected(r, s) : r->known + s, rdt_remote_found(r, s)};
  if (status == RDT_OK) status = send(r, slots, (n + 1) * sizeof *slots, (void **)&r->slots, why);
  for (int i = 0; i < r->model->n_steps && status == RDT_OK; i++)
    if (r->steps[i].verdict) asked[r->n_asked++] = r->steps[i].verdict;
  for (int g = 0; g < r->n_groups && r->protected; g++) {
    const rdt_cuda_verdict *v = rdt_remote_group_verdict(r, &r->groups[g]);
    if (r->steps[rdt_remote_end(&r->groups[g])].verdict != v) asked[r->n_asked++] = v;
  }
  if (status == RDT_OK)
    status = send(r, asked, ((size_t)r->n_asked + 1) * sizeof *asked, (void **)(uintptr_t)&r->asked, why);
  rdt_free(slots);
  rdt_free(known);
  rdt_free(asked);
  return status;
}

static rdt_status make_checks(rdt_remote *r, rdt_reason *why) {
  void *memory;
  parts p = {0};
  const int outputs = r->model->graph->n_outputs, inputs = r->model->graph->n_inputs;
  find_covered(r);
  number_slots(r);
  r->board_bytes = sizeof(rdt_answer) + 2 * (size_t)r->n_slots * sizeof(uint64_t);
  RDT_TRY(r->machine->alloc(r->machine, r->board_bytes, &memory, why));
  r->board = memory;
  RDT_TRY(r->machine->pin(r->machine, sizeof(rdt_answer) + (size_t)outputs * sizeof(uint64_t), &memory, why));
  r->answer = memory;
  RDT_TRY(r->machine->pin(r->machine, ((size_t)inputs + 1) * sizeof(uint64_t), &memory, why));
  r->input_sums = memory;
  RDT_TRY(send_slots(r, why));
  rdt_status status = list_parts(r, &p) ? RDT_OK : no_memory(why);
  if (status == RDT_OK) status = send(r, p.list, (size_t)p.n * sizeof *p.list, (void **)&r->parts, why);
  rdt_free(p.list);
  RDT_TRY(status);
  for (int i = 0; i < r->model->n_steps; i++) {
    rdt_remote_step *s = &r->steps[i];
    for (int k = 0; k < s->n_ops; k++) {
      s->ops[k].sum = rdt_remote_expected(r, s->slot);
      s->ops[k].visits = &((rdt_answer *)(void *)r->board)->visits;
      s->ops[k].verdict = &r->verdicts[i];
      s->ops[k].read = s->reads[0] >= 0 ? rdt_remote_found(r, s->reads[0]) : NULL;
    }
  }
  return RDT_OK;
}

/* ---- all of it ---- */

/* What was made of weights meanwhile, anew: copies of what had changed would agree with one another. */
static rdt_status renew_all(rdt_remote *r, rdt_reason *why) {
  for (int g = 0; g < r->n_groups; g++) RDT_TRY(rdt_remote_group_renew(r, &r->groups[g], why));
  for (int i = 0; i < r->model->n_steps; i++) {
    const rdt_remote_step *s = &r->steps[i];
    if (s->linear && is_fixed(r->model, &r->model->steps[i]))
      RDT_TRY(r->machine->linear_renew(r->machine, s->linear, s->prob.in[1].data, why));
  }
  return r->machine->wait(r->machine, why);
}

/* Is what was sent what is there? Constants that are not are sent once more. */
static rdt_status verify_constants(rdt_remote *r, rdt_reason *why) {
  bool *changed = rdt_calloc((size_t)r->n_mirrors, sizeof *changed);
  if (!changed) return no_memory(why);
  bool any = true;
  rdt_status status = RDT_OK;
  for (int tries = 0; tries < 2 && any && status == RDT_OK; tries++) {
    any = false;
    status = rdt_remote_scrub(r, changed, why);
    for (int c = 1; c < r->n_mirrors && status == RDT_OK; c++) {
      if (!changed[c]) continue;
      any = true;
      status = rdt_remote_restore(r, c, why);
    }
    if (status == RDT_OK && any) status = renew_all(r, why);
  }
  rdt_free(changed);
  if (status == RDT_OK && any) return rdt_fail(why, RDT_ERR_FAULT, "constants keep changing in the device's memory");
  return status;
}

rdt_status rdt_remote_plan(rdt_model *m, rdt_reason *why) {
  rdt_remote *r = m->remote = rdt_calloc(1, sizeof *r);
  if (!r) return no_memory(why);
  r->model = m;
  r->machine = m->ctx->machine;
  r->target = -1;
  r->protected = strcmp(m->ctx->scheme, "none") != 0;
  r->steps = rdt_calloc((size_t)m->n_steps, sizeof *r->steps);
  if (!r->steps) return no_memory(why);
  RDT_TRY(make_carrier(r, &r->in, m->planned, m->graph->n_inputs, why));
  RDT_TRY(make_carrier(r, &r->out, m->outputs, m->graph->n_outputs, why));
  RDT_TRY(find_constants(r, why));
  for (int c = 1; c < r->n_mirrors; c++) RDT_TRY(upload(r, &r->mirrors[c], why));
  void *memory;
  RDT_TRY(r->machine->alloc(r->machine, (size_t)m->n_steps * sizeof *r->verdicts, &memory, why));
  r->verdicts = memory;
  for (int i = 0; i < m->n_steps; i++) RDT_TRY(make_step(r, i, why));
  RDT_TRY(rdt_remote_find_groups(r, why));
  RDT_TRY(make_checks(r, why));
  /* Checksums are made of the device's copy of weights: of what was in order after that, they are those of the file. */
  return verify_constants(r, why);
}

void rdt_remote_free(rdt_remote *r) {
  if (!r) return;
  rdt_machine *m = r->machine;
  if (r->tape) m->erase(m, r->tape);
  for (int i = 0; r->steps && i < r->model->n_steps; i++) {
    rdt_remote_step *s = &r->steps[i];
    if (s->linear) m->linear_destroy(s->linear);
    m->release(m, s->rows);
    rdt_free(s->ops);
    rdt_problem_clear(&s->prob);
  }
  for (int g = 0; g < r->n_groups; g++)
    if (r->groups[g].mlp) m->mlp_destroy(r->groups[g].mlp);
  if (r->mirrors) m->release(m, r->mirrors[0].there);
  void *const there[] = {r->constants, r->in.there, r->out.there, r->board,
                         r->known,     r->verdicts, r->slots,     (void *)(uintptr_t)r->asked,
                         r->parts};
  for (size_t i = 0; i < sizeof there / sizeof *there; i++) m->release(m, there[i]);
  void *const pinned[] = {r->in.host, r->out.host, r->answer, r->input_sums};
  for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++) m->unpin(m, pinned[i]);
  rdt_free(r->in.at);
  rdt_free(r->out.at);
  rdt_free(r->mirrors);
  rdt_free(r->groups);
  rdt_free(r->steps);
  rdt_free(r);
}
