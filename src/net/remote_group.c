/* Steps that a device computes by one launch: attention (cuda/ops/attention.h), chains of small linear layers
 * (cuda/mlp.h). What lies between them is not in memory; who asks about it, by a fault that is planted there, gets a
 * run in which they go one by one. */
#include <string.h>

#include "core/memory.h"
#include "cuda/ops/ops.h"
#include "net/remote.h"

const rdt_remote_group *rdt_remote_group_of(const rdt_remote *r, int i) {
  const int g = r->steps[i].group;
  if (g < 0) return NULL;
  const bool hit = r->target >= 0 && r->steps[r->target].group == g;
  const rdt_site site = r->model->fault.site;
  const bool inside = r->groups[g].mlp && (site == RDT_SITE_WEIGHT || site == RDT_SITE_ACCUM); /* of the last one too */
  return hit && (inside || r->target != rdt_remote_end(&r->groups[g])) ? NULL : &r->groups[g];
}

bool rdt_remote_absorbed(const rdt_remote *r, int i) {
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  return g && i != rdt_remote_end(g);
}

const rdt_cuda_verdict *rdt_remote_verdict(const rdt_remote *r, int i) {
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  return !g ? r->steps[i].verdict : r->protected && i == rdt_remote_end(g) ? rdt_remote_group_verdict(r, g) : NULL;
}

bool rdt_remote_reads(const rdt_remote *r, int i, int value) {
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  for (int m = 0; m < (g ? g->n : 1); m++) {
    const rdt_step *s = &r->model->steps[g ? g->steps[m] : i];
    for (int k = 0; k < s->n_reads; k++)
      if (s->reads[k] == value) return true;
  }
  return false;
}

/* ---- recognition ---- */

static int writer_of(const rdt_remote *r, int value) {
  for (int i = 0; i < r->model->n_steps; i++)
    if (r->model->steps[i].writes == value && r->steps[i].here) return i;
  return -1;
}

/* A node that the device computes, and the only step that reads what step `before` has written; -1: none. Views are no
 * steps. */
static int next_of(const rdt_remote *r, int before) {
  const rdt_model *m = r->model;
  const int v = m->steps[before].writes;
  int next = -1;
  for (int i = before + 1; i < m->n_steps; i++) {
    const rdt_step *s = &m->steps[i];
    bool reads = false;
    for (int k = 0; k < s->n_reads; k++) reads = reads || s->reads[k] == v;
    if (!reads || (!r->steps[i].here && !r->steps[i].host)) continue;
    if (next >= 0 || s->kind != RDT_STEP_NODE || !r->steps[i].here) return -1;
    next = i;
  }
  return next;
}

/* Attention by wgmma: where it has a block for half of the multiprocessors; fewer queries a block fill more of them. */
static int wide_of(const rdt_cuda_device *d) {
  return d->major == 9 ? (d->sms + 1) / 2 : 0;
}

static bool find_group(const rdt_remote *r, int softmax, rdt_remote_group *g) {
  const rdt_model *m = r->model;
  const rdt_step *s = &m->steps[softmax];
  rdt_reason why;
  const int scores = s->n_reads == 1 ? writer_of(r, s->reads[0]) : -1;
  if (scores < 0 || m->steps[scores].kind != RDT_STEP_NODE) return false;
  const int mix = next_of(r, softmax);
  if (next_of(r, scores) != softmax || mix < 0) return false;
  const int copy = next_of(r, mix);
  for (int n = copy >= 0 ? 4 : 3; n >= 3; n--) { /* with the copy, where it takes part */
    const rdt_attention_steps steps = {&r->steps[scores].prob, &r->steps[softmax].prob, &r->steps[mix].prob,
                                       n == 4 ? &r->steps[copy].prob : NULL};
    *g = (rdt_remote_group){.steps = {scores, softmax, mix, copy}, .n = n, .reads = {-1, -1, -1}};
    if (rdt_attention_prepare(&steps, wide_of(&r->machine->device), &g->op, &why) == RDT_OK) return true;
  }
  return false;
}

static void take(rdt_remote *r) { /* the group behind the last one */
  const rdt_remote_group *g = &r->groups[r->n_groups];
  for (int k = 0; k < g->n; k++) r->steps[g->steps[k]].group = r->n_groups;
  r->n_groups++;
}

/* A constant, or what was computed while planning; none is one, too. */
static bool is_constant(const rdt_remote *r, const rdt_tensor *t) {
  const rdt_mirror *steps = &r->mirrors[0]; /* what they write */
  const char *at = t->data;
  return t->rank < 0 || at < steps->there || at >= steps->there + steps->bytes;
}

/* A linear layer of its own, of which a check of rows, or another computation, may be had. Chains have its weights, and
 * its bias, before anything of a run is computed. */
static bool is_layer(const rdt_remote *r, int i) {
  const rdt_step *s = &r->model->steps[i];
  if (!r->steps[i].here || !r->steps[i].linear || r->steps[i].group >= 0 || !rdt_kop_is_linear(r->steps[i].prob.op))
    return false;
  if (!is_constant(r, &r->steps[i].prob.epilogue.bias)) return false;
  return s->kind == RDT_STEP_NODE && r->model->graph->values[r->model->graph->nodes[s->subject].in[1]].data;
}

/* The longest chain that begins with step `first`, of which each reads what the one before it has written, and is worth
 * it. RDT_ERR_UNSUPPORTED: there is none. */
static rdt_status find_chain(rdt_remote *r, int first, rdt_remote_group *g, rdt_reason *why) {
  rdt_machine *m = r->machine;
  const rdt_problem *problems[RDT_GROUP_STEPS];
  rdt_cuda_linear *steps[RDT_GROUP_STEPS];
  rdt_status status = RDT_ERR_UNSUPPORTED;
  const char *scheme = r->model->ctx->scheme;
  const bool any = !r->protected || strcmp(scheme, "auto") == 0;
  const rdt_cuda_mlp_form form = {
      .protect = r->protected, .lambda = r->model->ctx->policy.lambda, .scheme = any ? NULL : scheme};
  *g = (rdt_remote_group){.reads = {-1, -1, -1}};
  for (int i = first; i >= 0 && g->n < RDT_GROUP_STEPS && is_layer(r, i); i = next_of(r, i)) {
    problems[g->n] = &r->steps[i].prob;
    steps[g->n] = r->steps[i].linear;
    g->steps[g->n++] = i;
  }
  for (; g->n >= 2 && status == RDT_ERR_UNSUPPORTED; g->n -= status != RDT_OK) {
    status = m->mlp_create(m, problems, steps, g->n, &form, &g->mlp, why);
    if (status == RDT_ERR_NOMEM) status = RDT_ERR_UNSUPPORTED; /* layers go one by one without it */
  }
  return status;
}

static rdt_status find_chains(rdt_remote *r, rdt_reason *why) {
  const rdt_context *ctx = r->model->ctx;
  static const char *const schemes[] = {"auto", "row", "replicate", "none"};
  bool asked = r->machine->mlp_create && !ctx->policy.permanent, any = false;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) any = any || strcmp(ctx->scheme, schemes[s]) == 0;
  for (int i = 0; asked && any && i < r->model->n_steps; i++) {
    if (!is_layer(r, i)) continue;
    const rdt_status status = find_chain(r, i, &r->groups[r->n_groups], why);
    if (status == RDT_OK) take(r);
    if (status != RDT_OK && status != RDT_ERR_UNSUPPORTED) return status;
  }
  return RDT_OK;
}

rdt_status rdt_remote_find_groups(rdt_remote *r, rdt_reason *why) {
  const rdt_model *m = r->model;
  r->groups = rdt_calloc((size_t)m->n_steps + 1, sizeof *r->groups);
  if (!r->groups) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory to plan for a device");
  for (int i = 0; i < m->n_steps; i++)
    if (r->steps[i].here && r->steps[i].prob.op == RDT_KOP_SOFTMAX && find_group(r, i, &r->groups[r->n_groups]))
      take(r);
  return find_chains(r, why);
}

/* ---- sums ---- */

/* The operands among what step k has written, as bits; 0: all of it is not read exactly once. */
static unsigned covered(const rdt_remote *r, const rdt_remote_group *g, int k) {
  const rdt_tensor *t = &r->steps[k].prob.out;
  const size_t bytes = rdt_tensor_bytes(t);
  unsigned char *seen = bytes % 16 == 0 ? rdt_calloc(bytes / 16 + 1, 1) : NULL;
  unsigned which = 0;
  bool good = seen != NULL;
  for (int w = 0; w < 3 && good; w++) {
    const char *at = g->op.in[w].data, *from = t->data;
    if (at < from || at >= from + bytes) continue;
    which |= 1u << w;
    good = rdt_attention_marks(&g->op, w, from, bytes, seen);
  }
  for (size_t i = 0; i < bytes / 16 && good; i++) good = seen[i];
  rdt_free(seen);
  return good ? which : 0;
}

bool rdt_remote_group_sums(rdt_remote *r, int i, int k) {
  const int at = r->steps[i].group;
  rdt_remote_group *g = at >= 0 ? &r->groups[at] : NULL;
  if (!g || g->mlp || !r->protected || i != rdt_remote_end(g) || r->steps[k].group == at) return false;
  const unsigned which = covered(r, g, k);
  for (int w = 0; w < 3; w++) {
    if (!(which >> w & 1)) continue;
    g->op.read_base[w] = r->steps[k].prob.out.data;
    g->reads[w] = r->steps[k].slot;
  }
  return which != 0;
}

/* ---- a launch ---- */

rdt_gpu_attention rdt_remote_group_task(const rdt_remote *r, const rdt_remote_group *g) {
  rdt_gpu_attention a = g->op;
  a.verdict = (rdt_cuda_verdict *)(uintptr_t)&r->verdicts[rdt_remote_end(g)];
  a.sum = rdt_remote_expected(r, r->steps[rdt_remote_end(g)].slot);
  a.visits = &((rdt_answer *)(void *)r->board)->visits;
  for (int w = 0; w < 3; w++) a.read[w] = g->reads[w] >= 0 ? rdt_remote_found(r, g->reads[w]) : NULL;
  return a;
}

rdt_status rdt_remote_group_launch(rdt_remote *r, rdt_lane lane, const rdt_remote_group *g, rdt_op_form form,
                                   rdt_reason *why) {
  const int end = rdt_remote_end(g);
  if (g->mlp) {
    rdt_box_sum_to to = {NULL, NULL};
    if (r->protected)
      to = (rdt_box_sum_to){rdt_remote_expected(r, r->steps[end].slot), &((rdt_answer *)(void *)r->board)->visits};
    return r->machine->mlp_launch(r->machine, g->mlp, r->steps[g->steps[0]].prob.in[0].data,
                                  r->steps[end].prob.out.data, to, why);
  }
  rdt_gpu_attention a = rdt_remote_group_task(r, g);
  a.check = form;
  return r->machine->launch(r->machine, lane, RDT_OP_ATTENTION, &a, rdt_attention_grid(&a), why);
}

int64_t rdt_remote_group_blocks(const rdt_remote *r, const rdt_remote_group *g) {
  return g->mlp ? r->machine->mlp_blocks(g->mlp) : rdt_attention_blocks(&g->op);
}

const rdt_cuda_verdict *rdt_remote_group_verdict(const rdt_remote *r, const rdt_remote_group *g) {
  return g->mlp ? r->machine->mlp_verdict(g->mlp) : &r->verdicts[rdt_remote_end(g)];
}

rdt_status rdt_remote_group_renew(rdt_remote *r, const rdt_remote_group *g, rdt_reason *why) {
  const void *weights[RDT_GROUP_STEPS];
  if (!g->mlp) return RDT_OK;
  for (int k = 0; k < g->n; k++) weights[k] = r->steps[g->steps[k]].prob.in[1].data;
  return r->machine->mlp_renew(r->machine, g->mlp, weights, why);
}

/* By their plans, one after the other; the sums of what lies between are not those of a run. */
rdt_status rdt_remote_group_on_host(rdt_remote *r, const rdt_remote_group *g, rdt_reason *why) {
  const int end = rdt_remote_end(g);
  rdt_status worst = RDT_OK;
  r->steps[end].doubt = false;
  for (int k = 0; k < g->n; k++) {
    const rdt_status status = rdt_remote_by_plan(r, g->steps[k], why);
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (status != RDT_OK) worst = status;
    if (!r->steps[g->steps[k]].doubt) continue;
    r->steps[end].doubt = true;
    break;
  }
  for (int k = 0; k + 1 < g->n; k++)
    RDT_TRY(r->machine->clear(r->machine, RDT_LANE_MAIN, rdt_remote_expected(r, r->steps[g->steps[k]].slot),
                              sizeof(uint64_t), why));
  RDT_TRY(r->machine->wait(r->machine, why));
  return worst;
}
