/* One execution of a plan: compute, check, recover, finish, report. */
#include "plan/run.h"

#include "cpu/epilogue.h"
#include "cpu/threads.h"

/* Memory is checked when it is read; weights that the scheme's check covers, only on schedule. */
static rdt_status secure_before(rdt_run *r) {
  const rdt_plan *p = r->p;
  rdt_rest rest = {0};
  double since = r->started;
  const bool due = rdt_plan_is_due(p), much = due || p->host.secure || !p->scheme->covers_packed;
  RDT_TRY(rdt_run_secure_some(r, due, &rest, r->why));
  if (rdt_rest_memory(&rest) || rest.checksum) {
    rdt_recovered v = {.verdict = rest.lost ? RDT_DETECTED : RDT_RECOMPUTED,
                       .diagnosis = rdt_rest_memory(&rest) ? RDT_DIAG_MEMORY : RDT_DIAG_CHECKER,
                       .what = rdt_rest_what(&rest),
                       .fault = true,
                       .rot = rest.rot,
                       .core = -1,
                       .first = -1};
    rdt_recovered_rung(&v, "secure", rdt_rest_outcome(&rest), &since);
    rdt_run_tell(r, RDT_EVENT_FAULT, &v);
  }
  if (much) r->check += rdt_clock() - r->started; /* a glance at a few checksums takes no longer than the clock */
  return RDT_OK;
}

/* What was counted is asked once more: a counter that was hit since goes into no total. */
static rdt_status confirm(rdt_run *r) {
  rdt_run_plant_counter(r, true);
  if (r->settled ? rdt_findings_agree(&r->found) : !rdt_findings_complain(&r->found)) return RDT_OK;
  if (r->settled) { /* what they counted is over, and told */
    rdt_findings_init(&r->found);
    if (r->res->verdict != RDT_DETECTED) rdt_run_tell_checker(r, RDT_RECOMPUTED, "counter");
    return RDT_OK;
  }
  if (r->p->fused) return rdt_run_settle(r, true);
  if (r->p->scheme->impl)
    RDT_TRY(rdt_run_check(r, RDT_BUF_RESULT, &r->found, r->why));
  else
    RDT_TRY(rdt_run_compare(r));
  rdt_run_tell_checker(r, rdt_findings_complain(&r->found) ? RDT_DETECTED : RDT_RECOMPUTED, "counter");
  return RDT_OK;
}

static rdt_status run_protected(rdt_run *r) {
  if (!r->p->fused || rdt_plan_plants_several(r->p)) {
    if (r->p->fused) RDT_TRY(rdt_run_buffer(r, RDT_BUF_RESULT));
    RDT_TRY(rdt_run_apart(r));
  } else {
    RDT_TRY(rdt_run_fused(r));
  }
  RDT_TRY(confirm(r));
  rdt_plan_plant_words(r->p, RDT_SITE_VERDICT, &r->ruling, 3, RDT_S32);
  return RDT_OK;
}

/* Unprotected: the kernel does the epilogue itself, or it follows. */
static rdt_status run_plain(rdt_run *r) {
  rdt_plan *p = r->p;
  const rdt_operands o = p->finish ? rdt_run_raw(r, RDT_BUF_RESULT) : *r->o;
  rdt_tensor *out = (rdt_tensor *)&r->o->out;
  rdt_kernel_hit hit;
  const bool inside = rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit);
  if (inside) {
    RDT_TRY(rdt_where_run(&r->where, &r->where.first, p->kernel, p->state, p->threads, &o, &hit, r->why));
    rdt_plan_book_hit(p, &hit);
  } else {
    RDT_TRY(rdt_where_run(&r->where, &r->where.first, p->kernel, p->state, p->threads, &o, NULL, r->why));
    rdt_plan_plant(p, rdt_kop_is_linear(p->prob.op) ? RDT_SITE_ACCUM : RDT_SITE_NONLINEAR, &o.out);
  }
  if (p->finish) rdt_epilogue_apply(r->o->epilogue, &o.out, out, rdt_problem_channel(&p->prob), p->threads);
  if (!inside) rdt_plan_plant(p, RDT_SITE_EPILOGUE, out);
  return RDT_OK;
}

/* May the raw result lie where the final one will? */
static bool raw_in_place(const rdt_plan *p, const rdt_operands *o, bool protected) {
  if (protected) return p->raw_is_out;
  if (!p->finish) return true;
  const rdt_tensor *residual = &o->epilogue->residual;
  return p->prob.out.dtype == p->prob.acc && rdt_tensor_is_packed(&p->prob.out) &&
         (residual->rank < 0 || residual->data != o->out.data);
}

static void finish(rdt_run *r) {
  rdt_result *res = r->res;
  bool hit;
  rdt_ruling_read(&r->ruling, &hit);
  if (hit) rdt_run_tell_checker(r, RDT_RECOMPUTED, "verdict");
  res->verdict = rdt_ruling_read(&r->ruling, &hit);
  res->checks += r->found.checks;
  res->suspects = r->found.suspects;
  res->unchecked = r->found.cannot;
  res->ratio = r->found.ratio;
  res->residual = r->found.worst.residual;
  res->bound = r->found.worst.bound.tau2;
  res->floor = r->found.floor;
  const double ended = rdt_clock();
  res->seconds = ended - r->started;
  res->seconds_check = r->check + (r->checking > 0.0 ? ended - r->checking : 0.0);
}

/* A planted fault that nobody noticed does not outlive its run. */
static rdt_status end_experiment(rdt_run *r, rdt_status status) {
  rdt_rest rest = {0};
  rdt_reason why;
  r->p->fault = NULL;
  const rdt_status mended = rdt_run_secure_some(r, true, &rest, &why);
  return status == RDT_OK && mended != RDT_OK ? rdt_fail(r->why, mended, "%s", why.text) : status;
}

/* What a kernel needs only while it runs, all plans of a context share: it stays in the caches from one to the next. A
 * network has lent memory of its own. */
static void lend(const rdt_plan *p) {
  if (p->host.secure || !p->kernel->scratch) return;
  void *memory = rdt_context_scratch(p->ctx, RDT_SCRATCH_KERNEL, p->kernel->scratch(p->state, NULL));
  if (memory) p->kernel->scratch(p->state, memory); /* else it tries for itself, and says so */
}

rdt_status rdt_plan_run(rdt_plan *p, const rdt_operands *o, rdt_result *result) {
  rdt_result local;
  const bool look = rdt_plan_is_due(p) || rdt_plan_armed(p, RDT_SITE_PLAN);
  rdt_plan_plant_plan(p);
  const rdt_vault_state frame = look ? rdt_vault_secure(&p->frame) : RDT_VAULT_INTACT;
  if (frame == RDT_VAULT_LOST) return rdt_plan_lost(p, result);
  rdt_run r = {.p = p, .o = o, .res = result ? result : &local, .started = rdt_clock(), .why = &p->ctx->error};
  *r.res = (rdt_result){.place = {-1, -1}};
  r.ruling = rdt_ruling_clean();
  rdt_findings_init(&r.found);
  rdt_where_begin(&r.where, p);
  p->out_sealed = false;
  if (atomic_load(&p->ctx->cancelled)) return rdt_fail(r.why, RDT_ERR_CANCELLED, "cancelled before %s", p->name);
  const bool protected = p->scheme->id != RDT_SCHEME_NONE;
  lend(p);
  r.buf[RDT_BUF_RESULT] = p->raw;
  r.raw_is_out = raw_in_place(p, o, protected);
  if (r.raw_is_out)
    r.buf[RDT_BUF_RESULT] = o->out;
  else if (!p->fused || !protected) /* a fused check needs it when it complains */
    RDT_TRY(rdt_run_buffer(&r, RDT_BUF_RESULT));
  r.buf[RDT_BUF_SPARE] = r.buf[RDT_BUF_THIRD] = r.buf[RDT_BUF_RESULT];
  r.buf[RDT_BUF_SPARE].data = r.buf[RDT_BUF_THIRD].data = NULL;
  const int threads = rdt_threads_enter(p->threads);
  rdt_places places;
  rdt_where_break(&r.where, &places);
  if (frame == RDT_VAULT_RESTORED) rdt_run_tell_found(&r, RDT_RECOMPUTED, RDT_DIAG_MEMORY, "plan");
  rdt_status status = rdt_run_plant_at_rest(&r);
  if (status == RDT_OK && protected) status = secure_before(&r);
  if (status == RDT_OK && r.res->verdict != RDT_DETECTED) status = protected ? run_protected(&r) : run_plain(&r);
  rdt_threads_restore(&places);
  rdt_threads_leave(threads);
  rdt_where_count(&r.where, p->fused ? &r.where.fused : &r.where.first);
  if (status == RDT_ERR_ARG) { /* the kernel's, about the operands' values */
    const rdt_reason inner = *r.why;
    rdt_fail(r.why, status, "node %.80s (%.60s): %.300s", p->name, p->label, inner.text);
  }
  p->runs++;
  if (p->fault && p->injection->done) status = end_experiment(&r, status);
  if (!protected) rdt_ruling_raise(&r.ruling, RDT_UNCHECKED);
  finish(&r);
  rdt_plan_watch(p, r.res);
  if (status == RDT_OK && r.res->verdict == RDT_DETECTED) status = RDT_ERR_FAULT;
  return status;
}
