/* One run of a plan: computing, the first time and again. */
#include <omp.h>
#include <string.h>

#include "cpu/threads.h"
#include "plan/run.h"

rdt_status rdt_run_buffer(rdt_run *r, rdt_buffer which) {
  if (r->buf[which].data) return RDT_OK;
  r->buf[which].data = rdt_context_scratch(r->p->ctx, (rdt_scratch)which, rdt_tensor_bytes(&r->buf[RDT_BUF_RESULT]));
  if (r->buf[which].data) return RDT_OK;
  return rdt_fail(r->why, RDT_ERR_NOMEM, "node %s: out of memory for a second result", r->p->name);
}

rdt_operands rdt_run_raw(const rdt_run *r, rdt_buffer which) {
  rdt_operands o = *r->o;
  o.out = r->buf[which];
  o.epilogue = NULL;
  return o;
}

static int threads_of(const rdt_plan *p) {
  return p->twin ? 1 : p->threads;
}

rdt_status rdt_run_noting(rdt_run *r, rdt_buffer into, rdt_shares *s, rdt_reason *why) {
  RDT_TRY(rdt_run_buffer(r, into));
  const rdt_operands o = rdt_run_raw(r, into);
  return rdt_where_run(&r->where, s, r->p->kernel, r->p->state, threads_of(r->p), &o, NULL, why);
}

rdt_status rdt_run_compute(void *self, rdt_buffer into, bool other_path, rdt_reason *why) {
  rdt_run *r = self;
  rdt_plan *p = r->p;
  if (!other_path) return rdt_run_noting(r, into, &r->where.again, why);
  RDT_TRY(rdt_run_buffer(r, into));
  const rdt_operands o = rdt_run_raw(r, into);
  if (!p->other_state) {
    rdt_problem raw;
    RDT_TRY(rdt_problem_copy(&raw, &p->prob));
    raw.epilogue = RDT_EPILOGUE_NONE;
    raw.out = r->buf[RDT_BUF_RESULT];
    const rdt_status s = p->other->create(&raw, p->threads, &p->other_state, why);
    rdt_problem_clear(&raw);
    RDT_TRY(s);
  }
  return rdt_where_run(&r->where, &r->where.again, p->other, p->other_state, p->threads, &o, NULL, why);
}

bool rdt_run_armed(const rdt_run *r) {
  return r->p->fault && !r->p->injection->done;
}

/* Before anything else, where a fault is rdt_run_armed: what the result would have been, then the faults in data at
 * rest. */
rdt_status rdt_run_plant_at_rest(rdt_run *r) {
  const bool lane = r->p->broken && r->p->broken->lane >= 0 && r->p->known;
  rdt_plan_reason(r->p);
  if (!rdt_run_armed(r) && !lane) return RDT_OK;
  r->know_clean = r->p->scheme->impl != NULL;
  r->clean = r->buf[RDT_BUF_RESULT];
  r->clean.data = (void *)r->p->known;
  if (r->know_clean && !r->p->known) {
    RDT_TRY(rdt_run_compute(r, RDT_BUF_SPARE, false, r->why));
    r->clean.data = r->buf[RDT_BUF_SPARE].data;
  }
  rdt_plan_plant_at_rest(r->p, r->why);
  return RDT_OK;
}

rdt_status rdt_run_struck(rdt_run *r, rdt_buffer into, rdt_shares *s) {
  rdt_plan *p = r->p;
  rdt_kernel_hit hit;
  RDT_TRY(rdt_run_buffer(r, into));
  if (rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit)) {
    const rdt_operands o = rdt_run_raw(r, into);
    RDT_TRY(rdt_where_run(&r->where, s, p->kernel, p->state, threads_of(p), &o, &hit, r->why));
    rdt_plan_book_hit(p, &hit);
    return RDT_OK;
  }
  RDT_TRY(rdt_run_noting(r, into, s, r->why));
  rdt_plan_plant(p, rdt_kop_is_linear(p->prob.op) ? RDT_SITE_ACCUM : RDT_SITE_NONLINEAR, &r->buf[into]);
  return RDT_OK;
}

/* The first computation, where an armed fault may strike. */
rdt_status rdt_run_first(rdt_run *r) {
  rdt_plan *p = r->p;
  const rdt_tensor *raw = &r->buf[RDT_BUF_RESULT];
  RDT_TRY(rdt_run_struck(r, RDT_BUF_RESULT, &r->where.first));
  if (r->know_clean && p->injection->done && !r->booked && p->injection->site != RDT_SITE_RECOVERY) {
    r->booked = true; /* what is computed from the start again says nothing of it */
    rdt_plan_book_effect(p, r->o, &r->clean, raw);
  }
  return RDT_OK;
}

/* The second copy of a duplicated op: its own state, on another thread where there is one. */
rdt_status rdt_run_second(rdt_run *r, rdt_reason *why) {
  rdt_plan *p = r->p;
  RDT_TRY(rdt_run_buffer(r, RDT_BUF_SPARE));
  const rdt_operands o = rdt_run_raw(r, RDT_BUF_SPARE);
  rdt_status status = RDT_OK;
#pragma omp parallel num_threads(2) if (p->threads > 1)
  if (omp_get_thread_num() + 1 == omp_get_num_threads()) {
    rdt_where_copy_begins(&r->where, 1);
    status = p->kernel->run(p->twin, &o, why);
    rdt_where_copy_ends(&r->where, 1);
  }
  if (status == RDT_OK) rdt_where_strike(&r->where, 1, &o.out);
  return status;
}

/* The suspect tile only where the inputs were in order, and one core has computed it. */
static rdt_status compute_part(rdt_run *r, rdt_buffer into, rdt_reason *why) {
  rdt_tile tile;
  const bool one = r->where.suspect >= 0 || r->where.n_cores < 2;
  if (!one || r->inputs_restored || !rdt_plan_tile(r->p, &r->found, &tile)) return rdt_run_compute(r, into, false, why);
  RDT_TRY(rdt_run_buffer(r, into));
  memcpy(r->buf[into].data, r->buf[RDT_BUF_RESULT].data, rdt_tensor_bytes(&r->buf[into]));
  const rdt_operands o = rdt_run_raw(r, into);
  return rdt_plan_compute_tile(r->p, &r->where, &o, &tile, why);
}

rdt_status rdt_run_elsewhere(void *self, rdt_buffer into, const int *cores, int n, rdt_reason *why) {
  rdt_run *r = self;
  rdt_places places;
  rdt_where_pin(&r->where, cores, n, &places);
  const rdt_status status = compute_part(r, into, why);
  rdt_threads_restore(&places);
  return status;
}

/* For the ladder: the same code path again, on the same cores. */
rdt_status rdt_run_again(void *self, rdt_buffer into, bool other_path, rdt_reason *why) {
  rdt_run *r = self;
  if (r->p->twin && into == RDT_BUF_SPARE) return rdt_run_second(r, why);
  if (other_path || r->p->twin) return rdt_run_compute(self, into, other_path, why);
  return rdt_run_elsewhere(self, into, NULL, 0, why);
}

int rdt_run_cores(void *self, int *list, int room, int *suspect) {
  const rdt_where *w = &((rdt_run *)self)->where;
  const int n = w->n_cores < room ? w->n_cores : room;
  if (n > 0) memcpy(list, w->cores, (size_t)n * sizeof *list);
  *suspect = w->suspect;
  return n;
}

/* Both copies of a duplicated op at the same time, each on its own thread, where there are two. */
rdt_status rdt_run_twice(rdt_run *r) {
  rdt_plan *p = r->p;
  RDT_TRY(rdt_run_buffer(r, RDT_BUF_SPARE));
  if (p->threads < 2 || rdt_run_armed(r)) {
    RDT_TRY(rdt_run_first(r));
    const double t = rdt_clock();
    RDT_TRY(rdt_run_second(r, r->why));
    r->check += rdt_clock() - t;
    return RDT_OK;
  }
  const rdt_operands o[2] = {rdt_run_raw(r, RDT_BUF_RESULT), rdt_run_raw(r, RDT_BUF_SPARE)};
  rdt_status status[2] = {RDT_OK, RDT_OK};
  rdt_reason why[2];
  const double t = rdt_clock();
#pragma omp parallel for num_threads(2) schedule(static, 1)
  for (int copy = 0; copy < 2; copy++) {
    rdt_where_copy_begins(&r->where, copy);
    status[copy] = p->kernel->run(copy ? p->twin : p->state, &o[copy], &why[copy]);
    rdt_where_copy_ends(&r->where, copy);
  }
  r->check += (rdt_clock() - t) / 2;
  for (int copy = 0; copy < 2; copy++)
    if (status[copy] != RDT_OK) {
      *r->why = why[copy];
      return status[copy];
    }
  for (int copy = 0; copy < 2; copy++) rdt_where_strike(&r->where, copy, &o[copy].out);
  return RDT_OK;
}
