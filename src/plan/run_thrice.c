/* Three copies of an op, each element on another core each time as far as there are some: the same team computes three
 * times, and its threads move on by one core. */
#include <string.h>

#include "core/cpu_info.h"
#include "core/memory.h"
#include "plan/known.h"
#include "plan/run.h"

/* strikes: an armed fault hits this one. */
static rdt_status compute(rdt_run *r, int i, rdt_buffer into, rdt_shares *s, bool strikes, rdt_reason *why) {
  rdt_places places;
  rdt_where_turn(&r->where, i, &places);
  const rdt_status status = strikes ? rdt_run_struck(r, into, s) : rdt_run_noting(r, into, s, why);
  rdt_threads_restore(&places);
  return status;
}

static rdt_shares *shares_of(rdt_run *r, int i) {
  return i == 0 ? &r->where.first : &r->where.more[i - 1];
}

rdt_status rdt_run_thrice(rdt_run *r) {
  const rdt_fault *f = r->p->fault;
  const int struck = f ? rdt_fault_copy(f) : -1;
  for (int i = 0; i < RDT_COPIES; i++) RDT_TRY(compute(r, i, (rdt_buffer)i, shares_of(r, i), i == struck, r->why));
  if (f) rdt_plan_plant_second(r->p, &r->buf[struck], &r->buf[(struck + 1) % RDT_COPIES]);
  return RDT_OK;
}

/* ---- what the vote asks for ---- */

static rdt_status copy(void *self, int i, rdt_buffer into, rdt_reason *why) {
  rdt_run *r = self;
  return compute(r, i, into, &r->where.again, false, why);
}

/* Bits of one element in the three copies: who is alone? -1: nobody, or each. */
static int alone(const char *const x[RDT_COPIES], size_t size) {
  const bool first = memcmp(x[0], x[1], size) == 0, second = memcmp(x[0], x[2], size) == 0;
  if (first != second) return first ? 2 : 1;
  return !first && memcmp(x[1], x[2], size) == 0 ? 0 : -1;
}

/* Some votes are hit where they count, some where they write. */
static void plant(rdt_run *r, bool elect, int64_t elected, rdt_ballot *b) {
  const rdt_tensor *t = &r->buf[RDT_BUF_RESULT];
  const bool writes = r->p->fault && rdt_fault_random(r->p->fault, 17) % 2 != 0;
  if (writes != elect) return;
  if (elected >= 0) {
    const rdt_tensor one = rdt_tensor_dense((char *)t->data + elected * (int64_t)rdt_dtype_size(t->dtype), t->dtype, 1,
                                            (const int64_t[]){1});
    rdt_plan_plant(r->p, RDT_SITE_VOTE, &one);
  } else {
    rdt_plan_plant_words(r->p, RDT_SITE_VOTE, b, (int)(sizeof *b / sizeof(int64_t)), RDT_S64);
  }
}

static void vote(void *self, bool elect, rdt_ballot *b) {
  rdt_run *r = self;
  int64_t elected = -1; /* the last one */
  const rdt_tensor *t = &r->buf[RDT_BUF_RESULT];
  const size_t size = rdt_dtype_size(t->dtype), bytes = rdt_tensor_bytes(t);
  *b = (rdt_ballot){.first = {-1, -1, -1}};
  for (size_t at = 0; at < bytes; at += size) {
    const char *x[RDT_COPIES];
    for (int i = 0; i < RDT_COPIES; i++) x[i] = (const char *)r->buf[i].data + at;
    const size_t same[] = {rdt_memory_alike(x[0], x[1], bytes - at), rdt_memory_alike(x[0], x[2], bytes - at)};
    const size_t skip = (same[0] < same[1] ? same[0] : same[1]) / size * size;
    at += skip;
    if (at >= bytes) break;
    for (int i = 0; i < RDT_COPIES; i++) x[i] += skip;
    const int loser = alone(x, size);
    b->undecided += loser < 0;
    if (loser < 0) continue;
    if (b->lost[loser]++ == 0) b->first[loser] = rdt_run_logical(t, (int64_t)(at / size));
    if (!elect || loser != 0) continue;
    elected = (int64_t)(at / size);
    memcpy((char *)t->data + at, x[1], size);
  }
  plant(r, elect, elected, b);
}

static int core(void *self, int i, int64_t element) {
  rdt_run *r = self;
  int64_t place[2];
  rdt_place_at(&r->p->prob, element, place);
  return rdt_where_core(shares_of(r, i), place);
}

/* One that is simulated is this one, with its fault. */
static rdt_status test_one(rdt_run *r, int core, bool *passes, rdt_reason *why) {
  const rdt_plan *p = r->p;
  const bool simulated = r->where.simulated > 0;
  rdt_fault here = p->broken ? *p->broken : (rdt_fault){.core = -1};
  const bool broken = here.core == core;
  if (simulated) core = rdt_cpu_current();
  here.core = core;
  int64_t none = 0;
  return rdt_known_test_core(core, p->prob.in[0].dtype, broken ? &here : NULL, broken ? &p->injection->turns : &none,
                             passes, why);
}

static rdt_status test(void *self, int *good, int *bad, int *failed, rdt_reason *why) {
  rdt_run *r = self;
  *good = *bad = -1;
  *failed = 0;
  for (int i = 0; i < 2; i++) {
    bool passes;
    const int it = r->where.simulated ? i : r->where.cores[i];
    RDT_TRY(test_one(r, it, &passes, why));
    *failed += !passes;
    *(passes ? good : bad) = it;
  }
  return RDT_OK;
}

static rdt_status compute_on(void *self, rdt_buffer into, int it, rdt_reason *why) {
  rdt_run *r = self;
  rdt_places places;
  rdt_where_pin(&r->where, &it, 1, &places);
  rdt_where_only(&r->where, it);
  const rdt_status status = rdt_run_noting(r, into, &r->where.again, why);
  rdt_where_only(&r->where, -1);
  rdt_threads_restore(&places);
  return status;
}

rdt_status rdt_run_elect(rdt_run *r, rdt_recovered *v) {
  const rdt_recovery recovery = rdt_run_recovery(r);
  const rdt_copies copies = {.cores = rdt_where_spread(&r->where),
                             .copy = copy,
                             .vote = vote,
                             .core = core,
                             .test = test,
                             .compute_on = compute_on};
  return rdt_recover_thrice(&recovery, &copies, rdt_run_repairs(r->p), v, r->why);
}
