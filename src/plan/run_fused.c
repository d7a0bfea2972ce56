/* One run of a plan whose kernel checks as it goes. */
#include <string.h>

#include "core/memory.h"
#include "cpu/epilogue.h"
#include "plan/run.h"

/* What an armed fault did to the raw result, which a fused kernel does not leave behind. */
static rdt_status book_fused(rdt_run *r, const rdt_kernel_hit *hit) {
  rdt_plan *p = r->p;
  rdt_kernel_hit again = *hit;
  if (!r->know_clean || !p->injection->done || p->fault->site == RDT_SITE_EPILOGUE) return RDT_OK;
  r->booked = true;
  if (r->raw_is_out) { /* it does leave it behind */
    rdt_plan_book_effect(p, r->o, &r->clean, &r->o->out);
    return RDT_OK;
  }
  RDT_TRY(rdt_run_buffer(r, RDT_BUF_THIRD));
  const rdt_operands o = rdt_run_raw(r, RDT_BUF_THIRD);
  if (p->fault->site == RDT_SITE_ACCUM)
    RDT_TRY(p->kernel->run_inject(p->state, &o, &again, r->why));
  else
    RDT_TRY(p->kernel->run(p->state, &o, r->why));
  rdt_plan_book_effect(p, r->o, &r->clean, &r->buf[RDT_BUF_THIRD]);
  return RDT_OK;
}

/* A result's sum is for its owner, who verifies it when somebody reads it. */
static rdt_fused ask(const rdt_run *r) {
  rdt_fused f = rdt_fused_ask(r->p->fused);
  f.seal = r->p->host.secure != NULL;
  if (r->p->checkpoints) f.forms |= rdt_plan_checkpoints(r->p);
  return f;
}

/* The kernel makes its own checks on the way. */
static rdt_status compute_fused(rdt_run *r, rdt_fused *f) {
  rdt_plan *p = r->p;
  rdt_kernel_hit hit = {.done = false};
  const rdt_kernel_hit *asked = &hit;
  *f = ask(r);
  if (rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit)) {
    f->hit = &hit;
  } else if (rdt_plan_kernel_hit(p, RDT_SITE_EPILOGUE, &hit)) {
    f->hit = &hit;
    f->hit_stored = true;
  }
  RDT_TRY(rdt_where_run_fused(&r->where, &r->where.fused, p->state, r->o, f, r->why));
  if (f->hit) rdt_plan_book_hit(p, &hit);
  return book_fused(r, asked);
}

/* A copy of the result: packed as it is, else dense. */
static rdt_status keep_result(rdt_run *r, rdt_tensor *kept) {
  const rdt_tensor *out = &r->o->out;
  *kept = rdt_tensor_is_packed(out) ? *out : rdt_tensor_dense(NULL, out->dtype, out->rank, out->shape);
  kept->data = rdt_alloc(rdt_tensor_bytes(kept), 1);
  if (!kept->data) return rdt_fail(r->why, RDT_ERR_NOMEM, "node %s: out of memory for a second result", r->p->name);
  rdt_tensor_copy(out, kept);
  return RDT_OK;
}

/* How many elements differ in their bits, and the logical number of the first. */
static int64_t differ_from(const rdt_run *r, const rdt_tensor *kept, int64_t *first) {
  const rdt_tensor *out = &r->o->out;
  const size_t size = rdt_dtype_size(out->dtype);
  rdt_iter it = rdt_iter_begin(out);
  int64_t n = 0;
  *first = -1;
  if (rdt_tensor_is_packed(out)) {
    n = rdt_tensors_differ(out, kept, r->p->threads, first, NULL);
    if (n > 0) *first = rdt_run_logical(out, *first);
    return n;
  }
  for (int64_t i = 0; rdt_iter_next(&it); i++)
    if (memcmp((const char *)out->data + it.offset * (int64_t)size, (const char *)kept->data + i * (int64_t)size,
               size) != 0 &&
        n++ == 0)
      *first = i;
  return n;
}

/* What a fused check has complained of, and how it was settled. */
typedef struct complaint {
  rdt_findings first;
  bool differ; /* the epilogue did not come out twice alike */
  rdt_rest rest;
  bool persists; /* the same code path failed again */
  bool rounding; /* so it did, but for checkpoints */
  rdt_recovered v;
} complaint;

/* A later computation was clean: what was it? */
static void tell_fused(rdt_run *r, complaint *q) {
  const rdt_rest *rest = &q->rest;
  rdt_recovered *v = &q->v;
  const bool memory = rdt_rest_memory(rest);
  v->fault = true;
  v->verdict = RDT_RECOMPUTED;
  v->what = memory || rest->checksum ? rdt_rest_what(rest) : q->first.suspects ? "result" : "epilogue";
  v->diagnosis = memory           ? RDT_DIAG_MEMORY
                 : rest->checksum ? RDT_DIAG_CHECKER
                 : q->persists    ? RDT_DIAG_PERSISTENT
                                  : RDT_DIAG_TRANSIENT;
  if (v->changed > 0 || memory || rest->checksum) return;
  if (q->rounding && q->first.certain == 0 && !q->differ) { /* the same bits, and checkpoints explain the residual */
    r->p->checkpoints = true;
    v->fault = false;
    v->verdict = RDT_CLEAN;
    return;
  }
  if (!q->persists || q->first.certain > 0 || q->differ) { /* the same bits again: what checks was hit */
    v->what = "checksum";
    v->diagnosis = RDT_DIAG_CHECKER;
    return;
  }
  v->fault = false; /* the same bits, the same complaint, and another check has none */
  v->verdict = RDT_CLEAN;
}

/* What remains of two computations of the result: the bits that the later one has changed. */
static void compare_fused(rdt_run *r, complaint *q, const rdt_tensor *kept) {
  const rdt_tensor *out = &r->o->out;
  q->v.changed = differ_from(r, kept, &q->v.first);
  if (q->v.changed == 0) return;
  q->v.valued = true;
  q->v.expected = rdt_run_value(out, q->v.first);
  q->v.actual = rdt_run_value(kept, q->v.first);
}

/* What suspects name, where everything else is in order and one core has computed it, and where it is a small part of
 * the result: its weights are packed and summed for it. */
static bool part_of(const rdt_run *r, const complaint *q, rdt_tile *tile) {
  const rdt_tensor *out = &r->p->prob.out;
  if (r->where.suspect < 0 && r->where.n_cores > 1) return false;
  if (q->differ || r->inputs_restored || q->rest.checksum || !rdt_plan_tile(r->p, &q->first, tile)) return false;
  const double beside = 12.0; /* rows: packing and summing a weight takes as long as that many products with it */
  double rows = (double)tile->length[0], all = (double)out->shape[0];
  if (r->p->prob.op == RDT_KOP_CONV) {
    rows *= (double)rdt_tensor_pixels(out);
    all *= (double)rdt_tensor_pixels(out);
  }
  return 4.0 * (double)tile->length[1] * (rows + beside) < (double)out->shape[1] * all;
}

/* The same kernel with the same checks once more, of the part that is suspect where that is known (tile), or of all. A
 * bound that is missing stays so. */
static rdt_status again_fused(rdt_run *r, complaint *q, const rdt_tile *tile, double *since, bool *good) {
  rdt_plan *p = r->p;
  rdt_fused f = ask(r);
  *good = false;
  rdt_findings_init(&r->found);
  if (q->first.suspects == 0 && !q->differ) return RDT_OK;
  if (tile) {
    bool differ;
    rdt_places places;
    rdt_where_pin(&r->where, NULL, 0, &places); /* on the core in doubt, whoever of the threads computes it */
    const rdt_status status = rdt_plan_fuse_tile(p, &r->where, r->o, tile, &r->found, &differ, &q->rounding, r->why);
    rdt_threads_restore(&places);
    RDT_TRY(status);
    *good = !differ && !rdt_findings_complain(&r->found);
    q->persists = differ || r->found.suspects > 0 || !rdt_findings_agree(&r->found);
    rdt_recovered_rung(&q->v, "recompute", *good ? "passed" : q->persists ? "failed" : "unchecked", since);
    return RDT_OK;
  }
  RDT_TRY(rdt_plan_fuse_again(p, &r->where, p->fused, p->state, r->o, &f, &r->found, &q->rounding, r->why));
  *good = !f.differ && !rdt_findings_complain(&r->found);
  q->persists = f.differ || r->found.suspects > 0 || !rdt_findings_agree(&r->found);
  p->out_seal = f.bitsum;
  p->out_sealed = *good && f.seal && rdt_epilogue_sums(&r->o->out);
  rdt_recovered_rung(&q->v, "recompute", *good ? "passed" : q->persists ? "failed" : "unchecked", since);
  return RDT_OK;
}

/* Of a part sums may be formed, and rounded, in another order: what has passed there with the same bits was rounding
 * where the sums of all are suspect again, and a check that was hit where they are not. */
static bool could_be_rounding(const complaint *q) {
  return q->v.changed == 0 && q->first.certain == 0 && !q->differ && !q->rounding && !rdt_rest_memory(&q->rest) &&
         !q->rest.checksum;
}

/* From the start with passes apart, where every rung of the ladder is. *told: the ladder has told what it was. */
static rdt_status redo_apart(rdt_run *r, complaint *q, const rdt_tensor *kept, double *since, bool *told) {
  const int64_t faults = r->res->faults;
  rdt_findings_init(&r->found);
  RDT_TRY(rdt_run_buffer(r, RDT_BUF_RESULT));
  RDT_TRY(rdt_run_apart(r));
  *told = r->res->faults > faults;
  if (*told) return RDT_OK;
  compare_fused(r, q, kept); /* also where a part has no bound: what was wrong elsewhere is told all the same */
  rdt_recovered_rung(&q->v, "apart", q->v.changed == 0 ? "agreed" : "passed", since);
  *told = q->first.suspects == 0 && !q->differ && q->v.changed == 0 && !rdt_rest_memory(&q->rest) &&
          !q->rest.checksum; /* only the bound was missing */
  return RDT_OK;
}

rdt_status rdt_run_settle(rdt_run *r, bool differ) {
  rdt_plan *p = r->p;
  rdt_tensor kept;
  complaint q = {.first = r->found, .differ = differ, .v = {.first = -1, .core = RDT_CORE_OF_PLACE}};
  rdt_places places = {.n = 0};
  rdt_tile tile;
  bool good = false, told = false;
  double since = rdt_clock();
  rdt_status status = RDT_OK;
  r->settled = true;
  rdt_findings_init(&r->found);
  p->out_sealed = false; /* of the first result */
  RDT_TRY(keep_result(r, &kept));
  RDT_TRY_GOTO(rdt_run_secure(r, &q.rest, r->why), end);
  q.v.rot = q.rest.rot;
  rdt_recovered_rung(&q.v, "secure", rdt_rest_outcome(&q.rest), &since);
  if (q.rest.lost) {
    q.v.verdict = RDT_DETECTED;
    q.v.diagnosis = RDT_DIAG_MEMORY;
    q.v.what = rdt_rest_what(&q.rest);
    q.v.fault = true;
    rdt_run_tell(r, RDT_EVENT_FAULT, &q.v);
    goto end;
  }
  rdt_where_doubt(&r->where, &r->where.fused, &q.first);
  rdt_where_pin(&r->where, r->where.again_on, p->threads, &places); /* on the same cores */
  const bool part = part_of(r, &q, &tile);
  RDT_TRY_GOTO(again_fused(r, &q, part ? &tile : NULL, &since, &good), end);
  if (good) compare_fused(r, &q, &kept);
  if (good && part && could_be_rounding(&q)) RDT_TRY_GOTO(again_fused(r, &q, NULL, &since, &good), end);
  if (!good) RDT_TRY_GOTO(redo_apart(r, &q, &kept, &since, &told), end);
  if (told) goto end;
  tell_fused(r, &q);
  if (q.v.fault && !rdt_run_repairs(p)) { /* the result stays as it is */
    rdt_tensor_copy(&kept, &r->o->out);
    p->out_sealed = false;
    if (q.v.changed > 0) q.v.verdict = RDT_DETECTED;
  }
  if (rdt_findings_agree(&q.first)) r->found = q.first;
  rdt_run_tell(r, q.v.fault ? RDT_EVENT_FAULT : RDT_EVENT_SUSPECT, &q.v);
end:
  rdt_threads_restore(&places);
  rdt_free(kept.data);
  return status;
}

rdt_status rdt_run_fused(rdt_run *r) {
  rdt_plan *p = r->p;
  rdt_fused f;
  RDT_TRY(compute_fused(r, &f));
  r->checking = rdt_clock();
  rdt_plan_strike(p, &r->found, &r->strike);
  rdt_fused_judge(p->fused, &f, &r->found);
  p->out_seal = f.bitsum;
  p->out_sealed = f.seal && rdt_epilogue_sums(&r->o->out);
  const bool differ = !rdt_run_agree(r) || f.differ;
  return differ || rdt_findings_complain(&r->found) ? rdt_run_settle(r, differ) : RDT_OK;
}
