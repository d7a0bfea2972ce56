/* Faults planted on a device, between two launches of a run that is not recorded: an element comes to the host, is hit
 * there, and goes back. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/remote.h"

const rdt_mirror *rdt_remote_weights(const rdt_remote *r, int i) {
  const rdt_step *s = &r->model->steps[i];
  if (!r->steps[i].linear || s->kind != RDT_STEP_NODE) return NULL;
  const int v = r->model->graph->nodes[s->subject].in[1];
  for (int c = 1; c < r->n_mirrors; c++)
    if (r->mirrors[c].value == v) return &r->mirrors[c];
  return NULL;
}

/* A value that the step, or the group that it ends, reads and another one has written; -1: none. */
static int activation_of(const rdt_remote *r, int i) {
  const int at = r->steps[i].group;
  const rdt_remote_group *g = at >= 0 && i == rdt_remote_end(&r->groups[at]) ? &r->groups[at] : NULL;
  const rdt_step *s = &r->model->steps[g ? g->steps[0] : i];
  for (int k = 0; k < s->n_reads; k++)
    if (rdt_remote_slot(r, s->reads[k]) >= 0) return s->reads[k];
  return -1;
}

bool rdt_remote_has_site(const rdt_remote *r, int i, rdt_site site) {
  const rdt_remote_step *s = &r->steps[i];
  const rdt_remote_group *g = s->group >= 0 ? &r->groups[s->group] : NULL;
  const bool ends = g && !g->mlp && i == rdt_remote_end(g); /* it is the launch of attention */
  if (!s->here || r->model->steps[i].kind != RDT_STEP_NODE) return false;
  switch (site) {
    case RDT_SITE_INPUT:
      return activation_of(r, i) >= 0;
    case RDT_SITE_WEIGHT:
      return !ends && rdt_remote_weights(r, i) != NULL;
    case RDT_SITE_NONLINEAR:
      return s->n_ops > 0 || ends;
    case RDT_SITE_ACCUM: /* between a library's result and its check */
      return s->linear && s->blocks > 0 && !ends;
    case RDT_SITE_OUTPUT:
      return true;
    default:
      return false;
  }
}

rdt_status rdt_remote_arm(rdt_remote *r, rdt_reason *why) {
  const rdt_model *m = r->model;
  int n = 0;
  r->target = -1;
  if (!m->armed) return RDT_OK;
  if (m->fault.core >= 0)
    return rdt_fail(
        why, RDT_ERR_ARG,
        "core=%d: networks on a device take no multiprocessor that computes wrongly, as libraries do not say "
        "which one computes what; a product does: redoubt inject gemm:MxNxK --device cuda:N",
        m->fault.core);
  if (m->fault.copies || m->fault.cores)
    return rdt_fail(why, RDT_ERR_ARG,
                    "copies= and cores= are of products on a device, and of networks on the CPU: redoubt inject "
                    "gemm:MxNxK --device cuda:N --scheme tmr-sm");
  for (int pass = 0; pass < 2; pass++) {
    const int chosen = pass ? (int)(rdt_fault_random(&m->fault, 11) % (uint64_t)n) : -1;
    int seen = 0;
    for (int i = 0; i < m->n_steps; i++) {
      const rdt_step *s = &m->steps[i];
      if (!rdt_remote_has_site(r, i, m->fault.site)) continue;
      if (!rdt_fault_matches(&m->fault, m->graph->nodes[s->subject].name)) continue;
      if (seen++ == chosen) r->target = i;
    }
    n = seen;
    if (n == 0)
      return rdt_fail(why, RDT_ERR_NAME,
                      "no node on the device matches layer=%s and has the site '%s': a device has input, weight, "
                      "accum, nonlinear and output",
                      m->fault.layer, rdt_site_name(m->fault.site));
  }
  return RDT_OK;
}

/* t: a packed view, wherever its data are; they lie on the device at there. */
static rdt_status strike(rdt_remote *r, rdt_tensor t, void *there, rdt_reason *why) {
  rdt_model *m = r->model;
  const rdt_step *s = &m->steps[r->target];
  const size_t bytes = rdt_tensor_bytes(&t);
  rdt_plan *p = rdt_calloc(1, sizeof *p); /* as much of one as planting asks for */
  t.data = rdt_alloc(bytes, 1);
  rdt_status status = p && t.data ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory to plant a fault");
  if (status == RDT_OK) status = r->machine->wait(r->machine, why);
  if (status == RDT_OK) status = r->machine->get(r->machine, RDT_LANE_MAIN, t.data, there, bytes, why);
  if (status == RDT_OK) status = r->machine->wait(r->machine, why);
  if (status == RDT_OK) {
    p->prob = s->prob;
    p->fault = &m->fault;
    p->injection = &m->injection;
    snprintf(p->name, sizeof p->name, "%s", m->graph->nodes[s->subject].name);
    rdt_plan_plant(p, m->fault.site, &t);
    status = r->machine->put(r->machine, RDT_LANE_MAIN, there, t.data, bytes, why);
  }
  if (status == RDT_OK) status = r->machine->wait(r->machine, why);
  rdt_free(t.data);
  rdt_free(p);
  return status;
}

rdt_status rdt_remote_plant(rdt_remote *r, int i, rdt_moment when, rdt_reason *why) {
  const rdt_model *m = r->model;
  if (!m->armed || r->target != i || m->injection.done) return RDT_OK;
  const rdt_site site = m->fault.site;
  if (when == RDT_BEFORE && site == RDT_SITE_INPUT) {
    const rdt_tensor *t = &m->layout.views[activation_of(r, i)];
    return strike(r, *t, rdt_remote_there(r, t->data), why);
  }
  if (when == RDT_BEFORE && site == RDT_SITE_WEIGHT) {
    const rdt_mirror *w = rdt_remote_weights(r, i);
    const rdt_dtype dtype = m->graph->values[w->value].dtype;
    const int64_t n = (int64_t)(w->bytes / rdt_dtype_size(dtype));
    return strike(r, rdt_tensor_dense(NULL, dtype, 1, &n), w->there, why);
  }
  if ((when == RDT_WRITTEN && (site == RDT_SITE_NONLINEAR || site == RDT_SITE_ACCUM)) ||
      (when == RDT_CHECKED && site == RDT_SITE_OUTPUT))
    return strike(r, r->steps[i].prob.out, r->steps[i].prob.out.data, why);
  return RDT_OK;
}
