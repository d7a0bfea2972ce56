/* Running a network on a device: the steps in one lane, what checks them in the other; then all sums, all verdicts, and
 * one small answer. The second run is recorded, and every later one is that record, played. */
#include <stdio.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cuda/ops/ops.h"
#include "net/remote.h"

/* ---- inputs ---- */

/* Element by element: what lies dense in memory is as the caller has it. */
static bool same_elements(const rdt_tensor *a, const rdt_tensor *b) {
  const size_t size = rdt_dtype_size(a->dtype);
  rdt_iter x = rdt_iter_begin(a), y = rdt_iter_begin(b);
  while (rdt_iter_next(&x) && rdt_iter_next(&y))
    if (memcmp((const char *)a->data + x.offset * (int64_t)size, (const char *)b->data + y.offset * (int64_t)size,
               size) != 0)
      return false;
  return true;
}

enum { ASLEEP = 1 << 24 }; /* bytes */

/* Of what goes to the device, or comes from it, meanwhile the host's team sleeps: to wake 64 threads took 10 to 30 ms
 * of a busy machine, one core sums up what is smaller in one. */
static uint64_t sum_of(const rdt_remote *r, const void *data, size_t bytes) {
  return rdt_bitsum_shared(data, bytes, bytes < ASLEEP ? 1 : r->model->ctx->threads);
}

rdt_status rdt_remote_carry(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why) {
  const rdt_graph *g = r->model->graph;
  for (int i = 0; i < g->n_inputs; i++) {
    const rdt_tensor *in = &inputs[i];
    const rdt_tensor dense = rdt_tensor_dense(r->in.host + r->in.at[i], in->dtype, in->rank, in->shape);
    const size_t bytes = rdt_tensor_bytes(in);
    const bool as_it_is = rdt_tensor_is_dense(in);
    if (as_it_is)
      memcpy(dense.data, in->data, bytes);
    else
      rdt_tensor_copy(in, &dense);
    if (!r->protected) continue;
    r->input_sums[i] = sum_of(r, as_it_is ? in->data : dense.data, bytes);
    if (!as_it_is && !same_elements(in, &dense))
      return rdt_fail(why, RDT_ERR_FAULT, "input %s was copied wrongly", g->values[g->inputs[i]].name);
  }
  return RDT_OK;
}

static rdt_status send_inputs(rdt_remote *r, rdt_reason *why) {
  const rdt_graph *g = r->model->graph;
  rdt_machine *m = r->machine;
  RDT_TRY(m->put(m, RDT_LANE_MAIN, r->in.there, r->in.host, r->in.bytes, why));
  return m->put(m, RDT_LANE_MAIN, rdt_remote_expected(r, g->n_outputs), r->input_sums,
                (size_t)g->n_inputs * sizeof(uint64_t), why);
}

/* ---- a step ---- */

/* The sum of what lies at host, and the same on the device. */
static rdt_status expect(rdt_remote *r, int slot, uint64_t sum, rdt_reason *why) {
  rdt_machine *m = r->machine;
  RDT_TRY(m->put(m, RDT_LANE_MAIN, rdt_remote_expected(r, slot), &sum, sizeof sum, why));
  return m->wait(m, why);
}

rdt_status rdt_remote_on_host(rdt_remote *r, int i, rdt_reason *why) {
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  return g ? rdt_remote_group_on_host(r, g, why) : rdt_remote_by_plan(r, i, why);
}

/* By the step's plan, in the host's memory, which has the device's layout. */
rdt_status rdt_remote_by_plan(rdt_remote *r, int i, rdt_reason *why) {
  rdt_model *model = r->model;
  rdt_machine *m = r->machine;
  rdt_step *s = &model->steps[i];
  uint64_t sum = 0;
  if (s->kind == RDT_STEP_NODE && !s->plan) RDT_TRY(rdt_step_plan(s));
  if (!s->plan) return rdt_fail(why, RDT_ERR_FAULT, "the device copies wrongly, time and again");
  RDT_TRY(m->follow(m, RDT_LANE_MAIN, why)); /* the sums of what it reads */
  r->steps[i].doubt = false;
  for (int k = 0; k < s->n_reads; k++) {
    const int v = s->reads[k], slot = rdt_remote_slot(r, v);
    if (slot < 0) continue;
    const rdt_tensor *t = &model->layout.views[v];
    bool good = !r->protected;
    for (int tries = 0; tries < 2 && (tries == 0 || !good); tries++) { /* the copy may be hit too */
      RDT_TRY(m->get(m, RDT_LANE_MAIN, t->data, rdt_remote_there(r, t->data), rdt_tensor_bytes(t), why));
      RDT_TRY(m->get(m, RDT_LANE_MAIN, &sum, rdt_remote_expected(r, slot), sizeof sum, why));
      RDT_TRY(m->wait(m, why));
      model->sums[v] = r->protected ? rdt_activation_sum(model, v) : 0;
      good = good || model->sums[v] == sum;
    }
    r->steps[i].doubt = r->steps[i].doubt || !good;
  }
  if (r->steps[i].doubt)
    return RDT_OK; /* is it the device's memory? The end of the run will tell, and comes back here */
  const rdt_status status = rdt_step_run(s);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  const rdt_tensor *out = &model->layout.views[s->writes];
  RDT_TRY(m->put(m, RDT_LANE_MAIN, r->steps[i].prob.out.data, out->data, rdt_tensor_bytes(out), why));
  RDT_TRY(expect(r, r->steps[i].slot, model->sums[s->writes], why));
  return status;
}

int rdt_remote_slot(const rdt_remote *r, int value) {
  const rdt_model *m = r->model;
  for (int i = 0; i < m->n_steps; i++)
    if (m->steps[i].writes == value && r->steps[i].slot >= 0) return r->steps[i].slot;
  return -1;
}

static uint64_t *visits_of(const rdt_remote *r) {
  return &((rdt_answer *)(void *)r->board)->visits;
}

/* Ops that are no products are evaluated twice by one launch. Where a fault is planted, and where one is mended, a
 * second launch compares element by element, and says which. */
static bool joint(const rdt_remote *r) {
  return r->protected && !r->model->armed && !r->mending && !r->timing;
}

rdt_cuda_linear_task rdt_remote_task(const rdt_remote *r, const rdt_remote_step *s) {
  const rdt_problem *p = &s->prob;
  rdt_cuda_linear_task t = {
      s->linear, {.in = p->in, .n_in = p->n_in, .out = p->out, .epilogue = &p->epilogue}, {NULL, NULL}, {NULL, NULL}};
  if (r->protected && s->blocks) t.to = (rdt_box_sum_to){rdt_remote_expected(r, s->slot), visits_of(r)};
  for (int k = 0; k < 2; k++)
    if (s->reads[k] >= 0) t.read[k] = rdt_remote_found(r, s->reads[k]);
  return t;
}

static rdt_status sum_parts(rdt_remote *r, rdt_lane lane, int first, int n, rdt_reason *why) {
  const rdt_sums_args sums = {r->parts + first, visits_of(r)};
  return n > 0 ? r->machine->launch(r->machine, lane, RDT_OP_SUMS, &sums, n, why) : RDT_OK;
}

/* Each launch and each meeting of the lanes takes its microsecond, and small checks fill a device only together: they
 * go by so many steps, one by one where a fault is planted between. Those that read operands and results again take
 * room that products want: they go in front of one that follows what is none, a few at least, as its blocks have their
 * places before that ends, and those of checks take what is left. */
enum { TOGETHER = 8, ENOUGH = 3 };

static rdt_status check_linear(rdt_remote *r, const rdt_remote_step *first, const rdt_remote_step *end,
                               rdt_reason *why) {
  rdt_cuda_linear_task list[TOGETHER + ENOUGH];
  int n = 0;
  for (const rdt_remote_step *s = first; s < end; s++) {
    if (!s->here || !s->linear || rdt_remote_group_of(r, (int)(s - r->steps))) continue;
    list[n++] = rdt_remote_task(r, s);
  }
  return n > 0 ? r->machine->linear_check(r->machine, list, n, why) : RDT_OK;
}

static rdt_status check_ops(rdt_remote *r, const rdt_remote_step *s, rdt_reason *why) {
  const int i = (int)(s - r->steps);
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  if (joint(r)) return RDT_OK;
  if (g && (g->mlp || i != rdt_remote_end(g))) return RDT_OK;
  if (g) return rdt_remote_group_launch(r, RDT_LANE_SIDE, g, RDT_OP_COMPARES, why);
  for (int k = 0; s->here && k < s->n_ops; k++) {
    rdt_gpu_op a = s->ops[k];
    a.check = RDT_OP_COMPARES;
    RDT_TRY(r->machine->launch(r->machine, RDT_LANE_SIDE, a.kind, &a, rdt_ops_grid(&a), why));
  }
  return RDT_OK;
}

/* What checks the steps that wait for it, beside those that follow; and what nobody reads any more is summed. end: with
 * all that a run has left to sum. */
static rdt_status check_pending(rdt_remote *r, bool end, rdt_reason *why) {
  const rdt_remote_step *first = &r->steps[r->pending], *behind = &r->steps[r->issued];
  const int from = r->pending < r->issued ? first->rest : r->parts_rest;
  int part = 0, parts = 0, rest = 0;
  if (r->pending == r->issued && !end) return RDT_OK;
  RDT_TRY(r->machine->follow(r->machine, RDT_LANE_SIDE, why));
  RDT_TRY(check_linear(r, first, behind, why));
  for (const rdt_remote_step *s = first; s < behind; s++) {
    RDT_TRY(check_ops(r, s, why));
    rest += s->n_rest; /* they lie in the order of the steps */
    if (!s->n_parts || rdt_remote_group_of(r, (int)(s - r->steps))) continue;
    if (parts == 0) part = s->part; /* these too, but for those in groups, which are checked alone */
    parts += s->n_parts;
  }
  if (parts > 0) RDT_TRY(sum_parts(r, RDT_LANE_SIDE, part, parts, why));
  r->pending = r->issued;
  return sum_parts(r, RDT_LANE_SIDE, from, end ? r->parts_run - from : rest, why);
}

static bool is_launched(const rdt_remote *r, int i) { /* views are no work */
  return r->steps[i].here && !rdt_remote_absorbed(r, i);
}

static int waiting(const rdt_remote *r) { /* launches that are not checked yet */
  int n = 0;
  for (int k = r->pending; k < r->issued; k++) n += is_launched(r, k);
  return n;
}

static bool multiplies(const rdt_remote *r, int i) {
  return r->steps[i].linear && !rdt_remote_group_of(r, i);
}

static bool reads_again(const rdt_remote *r) { /* what waits */
  for (int k = r->pending; k < r->issued; k++)
    if (is_launched(r, k) && multiplies(r, k) && !r->machine->linear_inside(r->steps[k].linear)) return true;
  return false;
}

/* Fewer than that many launches follow. At the end everybody waits for checks: what is left then goes together. */
static bool soon(const rdt_remote *r, int i, int launches) {
  for (int k = i + 1; k < r->model->n_steps && launches > 0; k++) launches -= is_launched(r, k);
  return launches > 0;
}

static rdt_status check_later(rdt_remote *r, int i, rdt_reason *why) {
  RDT_TRY(rdt_remote_mark(r, i, 1, why));
  r->issued = i + 1;
  if (!r->protected) r->pending = r->issued;
  const bool enough = waiting(r) >= TOGETHER && !soon(r, i, ENOUGH);
  return r->model->armed || r->timing || enough ? check_pending(r, false, why) : RDT_OK;
}

static bool begins_product(const rdt_remote *r, int i) { /* behind a launch that is none */
  int before = i - 1;
  while (before >= 0 && !is_launched(r, before)) before--;
  return multiplies(r, i) && before >= 0 && !multiplies(r, before);
}

rdt_status rdt_remote_catch_up(rdt_remote *r, rdt_reason *why) {
  RDT_TRY(check_pending(r, false, why));
  return r->machine->follow(r->machine, RDT_LANE_MAIN, why);
}

rdt_status rdt_remote_issue(rdt_remote *r, int i, rdt_reason *why) {
  rdt_machine *m = r->machine;
  const rdt_remote_step *s = &r->steps[i];
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  if (r->issued != i) r->pending = r->issued = i; /* alone, or the first */
  if (s->host) {                                  /* it asks for the sums of what it reads */
    RDT_TRY(check_pending(r, false, why));
    r->issued = i + 1;
    const rdt_status status = rdt_remote_on_host(r, i, why);
    RDT_TRY(rdt_remote_mark(r, i, 1, why));
    return status;
  }
  if (!is_launched(r, i)) return check_later(r, i, why);
  if (begins_product(r, i) && waiting(r) >= ENOUGH && reads_again(r)) RDT_TRY(check_pending(r, false, why));
  RDT_TRY(rdt_remote_plant(r, i, RDT_BEFORE, why));
  if (g) {
    RDT_TRY(rdt_remote_group_launch(r, RDT_LANE_MAIN, g, joint(r) ? RDT_OP_BOTH : RDT_OP_STORES, why));
  } else if (s->linear) {
    const rdt_cuda_linear_task t = rdt_remote_task(r, s);
    RDT_TRY(m->linear_launch(m, &t, why));
  }
  for (int k = 0; k < s->n_ops && !g; k++) {
    rdt_gpu_op a = s->ops[k];
    a.check = joint(r) ? RDT_OP_BOTH : RDT_OP_STORES;
    RDT_TRY(m->launch(m, RDT_LANE_MAIN, a.kind, &a, rdt_ops_grid(&a), why));
  }
  RDT_TRY(rdt_remote_plant(r, i, RDT_WRITTEN, why));
  RDT_TRY(check_later(r, i, why));
  return rdt_remote_plant(r, i, RDT_CHECKED, why);
}

/* ---- the whole ---- */

/* The one whose steps go one by one; NULL: none. */
static const rdt_remote_group *group_apart(const rdt_remote *r) {
  const int g = r->target >= 0 ? r->steps[r->target].group : -1;
  return g >= 0 && !rdt_remote_group_of(r, r->target) ? &r->groups[g] : NULL;
}

/* Blocks that check in a run. */
static uint64_t count_visits(const rdt_remote *r) {
  const rdt_remote_group *apart = group_apart(r);
  uint64_t n = (uint64_t)r->parts_run + (apart ? (uint64_t)(apart->end_rest - apart->rest) : 0);
  for (int i = 0; i < r->model->n_steps; i++) {
    const rdt_remote_step *s = &r->steps[i];
    const rdt_remote_group *g = rdt_remote_group_of(r, i);
    if (g) {
      n += i == rdt_remote_end(g) ? (uint64_t)rdt_remote_group_blocks(r, g) : 0;
      continue;
    }
    n += (uint64_t)s->n_parts + (uint64_t)s->blocks;
    for (int k = 0; k < s->n_ops; k++) n += (uint64_t)rdt_ops_blocks(&s->ops[k]);
  }
  return n;
}

/* The last checks and the comparison are beside the copy of the outputs, and answer by themselves: the device's way to
 * write to the host's memory is shorter than another copy. */
rdt_status rdt_remote_close(rdt_remote *r, bool all, rdt_reason *why) {
  rdt_machine *m = r->machine;
  const rdt_answer *there = (const rdt_answer *)(const void *)r->board;
  const rdt_remote_group *apart = group_apart(r);
  const int first = !apart ? 0 : all ? apart->inner : apart->rest;
  if (r->protected) {
    const rdt_close_args end = {.slots = r->slots,
                                .verdicts = r->asked,
                                .n_slots = r->n_always,
                                .n_verdicts = r->n_asked,
                                .told = r->model->graph->n_outputs,
                                .visits = &there->visits,
                                .summary = &r->answer->summary,
                                .sums = (uint64_t *)(void *)(r->answer + 1)};
    RDT_TRY(check_pending(r, !all, why));
    if (all) {
      RDT_TRY(m->follow(m, RDT_LANE_SIDE, why));
      RDT_TRY(sum_parts(r, RDT_LANE_SIDE, 0, r->parts_always, why));
    }
    if (apart) RDT_TRY(sum_parts(r, RDT_LANE_SIDE, first, apart->end_rest - first, why));
    RDT_TRY(m->launch(m, RDT_LANE_SIDE, RDT_OP_CLOSE, &end, 1, why));
  }
  RDT_TRY(m->get(m, RDT_LANE_MAIN, r->out.host, r->out.there, r->out.bytes, why));
  return m->follow(m, RDT_LANE_MAIN, why);
}

static rdt_status issue_all(rdt_remote *r, rdt_reason *why) {
  rdt_machine *m = r->machine;
  if (r->protected) RDT_TRY(m->clear(m, RDT_LANE_MAIN, r->board, r->board_bytes, why));
  RDT_TRY(send_inputs(r, why));
  RDT_TRY(m->follow(m, RDT_LANE_SIDE, why));
  bool lost = false;
  for (int i = 0; i < r->model->n_steps; i++) {
    RDT_TRY(rdt_remote_mark(r, i, 0, why));
    const rdt_status status = rdt_remote_issue(r, i, why);
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (r->timing) RDT_TRY(rdt_remote_catch_up(r, why));
    RDT_TRY(rdt_remote_mark(r, i, 2, why));
    lost = lost || status != RDT_OK; /* a plan of the host's that could not repair */
  }
  RDT_TRY(rdt_remote_close(r, false, why));
  return lost ? RDT_ERR_FAULT : RDT_OK;
}

void rdt_remote_forget(rdt_remote *r) {
  memset(r->answer, 0, sizeof *r->answer + (size_t)r->model->graph->n_outputs * sizeof(uint64_t));
}

bool rdt_remote_is_clean(const rdt_remote *r, bool counted) {
  const rdt_summary *s = &r->answer->summary;
  return (!counted || s->visits == count_visits(r)) && s->agree == (uint32_t)r->n_always && s->disagree == 0 &&
         s->clean == (uint32_t)r->n_asked && s->complain == 0;
}

bool rdt_remote_publish(rdt_remote *r) {
  rdt_model *m = r->model;
  const uint64_t *sums = (const uint64_t *)(const void *)(r->answer + 1);
  bool good = true;
  for (int i = 0; i < m->graph->n_outputs; i++) {
    const size_t bytes = rdt_tensor_bytes(&m->outputs[i]);
    memcpy(m->outputs[i].data, r->out.host + r->out.at[i], bytes);
    if (!r->protected) continue;
    m->output_sums[i] = sums[i];
    good = good && sum_of(r, m->outputs[i].data, bytes) == sums[i];
  }
  return good;
}

rdt_status rdt_remote_scrub(rdt_remote *r, bool *changed, rdt_reason *why) {
  rdt_machine *m = r->machine;
  const int first = r->n_written, n = r->n_slots - first;
  if (n == 0) return RDT_OK;
  uint64_t *sums = rdt_alloc((size_t)n, 2 * sizeof *sums);
  if (!sums) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to verify constants");
  rdt_status status = RDT_OK;
  RDT_TRY_GOTO(m->clear(m, RDT_LANE_MAIN, rdt_remote_found(r, first), (size_t)n * sizeof *sums, why), end);
  RDT_TRY_GOTO(sum_parts(r, RDT_LANE_MAIN, r->parts_always, r->parts_slots - r->parts_always, why), end);
  RDT_TRY_GOTO(m->get(m, RDT_LANE_MAIN, sums, rdt_remote_found(r, first), (size_t)n * sizeof *sums, why), end);
  RDT_TRY_GOTO(m->wait(m, why), end);
  for (int c = 1; c < r->n_mirrors; c++) {
    const rdt_mirror *x = &r->mirrors[c];
    const rdt_value *value = &r->model->graph->values[x->value];
    changed[c] = sums[x->slot - first] != (value->data ? value->bitsum : r->model->sums[x->value]);
  }
end:
  rdt_free(sums);
  return status;
}

/* Of weights that checks cover, too: has one changed? */
static rdt_status look_at_constants(rdt_remote *r, bool *found, rdt_reason *why) {
  bool *changed = rdt_calloc((size_t)r->n_mirrors, sizeof *changed);
  if (!changed) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to verify constants");
  const rdt_status status = rdt_remote_scrub(r, changed, why);
  for (int c = 1; c < r->n_mirrors; c++) *found = *found || changed[c];
  rdt_free(changed);
  return status;
}

static rdt_status scrub_on_schedule(rdt_remote *r, bool *found, rdt_reason *why) {
  const int every = r->model->ctx->policy.scrub_every;
  *found = false;
  if (!r->protected || every <= 0 || (r->runs + 1) % every != 0) return RDT_OK;
  return look_at_constants(r, found, why);
}

/* Layers of a chain that go one by one have other checks, which need not cover the weights that the chain covers. */
static rdt_status scrub_apart(rdt_remote *r, bool *found, rdt_reason *why) {
  const bool apart = r->target >= 0 && r->steps[r->target].group >= 0 && !rdt_remote_group_of(r, r->target);
  return r->protected && apart && !*found ? look_at_constants(r, found, why) : RDT_OK;
}

/* The second run of a network writes down what is to be done; the tape is what runs then. */
static rdt_status run_once(rdt_remote *r, rdt_reason *why) {
  rdt_machine *m = r->machine;
  const bool plain = r->hybrid || r->model->armed || r->timing || r->runs == 0;
  if (!plain && !r->tape) {
    RDT_TRY(m->record(m, why));
    const rdt_status issued = issue_all(r, why);
    rdt_reason inner;
    const rdt_status ended = m->recorded(m, &r->tape, issued == RDT_OK ? why : &inner);
    if (issued != RDT_OK || ended != RDT_OK) {
      if (r->tape) m->erase(m, r->tape);
      r->tape = NULL;
      return issued != RDT_OK ? issued : ended;
    }
  }
  rdt_remote_forget(r);
  const rdt_status status = plain ? issue_all(r, why) : m->replay(m, r->tape, why);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  RDT_TRY(m->wait(m, why));
  return status;
}

static void book_clean(rdt_remote *r) {
  rdt_model *m = r->model;
  for (int i = 0; i < m->n_steps; i++) {
    rdt_result *res = &m->steps[i].result;
    const bool view = !r->steps[i].here && !r->steps[i].host;
    *res = (rdt_result){.verdict = r->protected ? RDT_CLEAN : RDT_UNCHECKED, .place = {-1, -1}};
    res->seconds = r->steps[i].seconds;
    res->seconds_check = r->steps[i].seconds_check;
    if (r->protected && !view) res->checks = 1 + (rdt_remote_verdict(r, i) != NULL);
  }
}

/* A planted fault that nobody noticed does not outlive its run. */
static rdt_status end_experiment(rdt_remote *r, rdt_reason *why) {
  bool *changed = rdt_calloc((size_t)r->n_mirrors, sizeof *changed);
  if (!changed) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to verify constants");
  rdt_status status = rdt_remote_scrub(r, changed, why);
  for (int c = 1; c < r->n_mirrors && status == RDT_OK; c++)
    if (changed[c]) status = rdt_remote_restore(r, c, why);
  rdt_free(changed);
  return status;
}

rdt_status rdt_remote_run(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why) {
  rdt_model *m = r->model;
  bool rotten;
  if (atomic_load(&m->ctx->cancelled)) return rdt_fail(why, RDT_ERR_CANCELLED, "cancelled before %s", m->graph->path);
  m->ruling = rdt_ruling_clean();
  bool doubt = false;
  for (int i = 0; i < m->n_steps; i++) {
    m->steps[i].handed_out = false;
    if (m->steps[i].kind == RDT_STEP_IMPORT) m->steps[i].prob.in[0].data = inputs[m->steps[i].subject].data;
  }
  m->at = m->graph->n_inputs + m->graph->n_nodes;
  book_clean(r);
  RDT_TRY(rdt_remote_carry(r, inputs, why));
  RDT_TRY(scrub_on_schedule(r, &rotten, why));
  const rdt_status done = run_once(r, why);
  if (done != RDT_OK && done != RDT_ERR_FAULT) return done;
  RDT_TRY(scrub_apart(r, &rotten, why));
  for (int i = 0; i < m->n_steps; i++) doubt = doubt || r->steps[i].doubt;
  const bool clean = !rotten && !doubt && (!r->protected || rdt_remote_is_clean(r, true));
  const bool good = rdt_remote_publish(r);
  rdt_status status = clean && good ? RDT_OK : rdt_remote_mend(r, inputs, why);
  if (status == RDT_OK) status = done;
  if (m->injection.done && status == RDT_OK) status = end_experiment(r, why);
  for (int i = 0; i < m->n_steps; i++) rdt_ruling_raise(&m->ruling, m->steps[i].result.verdict);
  r->runs++;
  return status;
}
