/* Three copies of an op, each element on another core each time as far as there are some: the same team computes three
 * times, and its threads move on by one core. */
#include <string.h>

#include "core/memory.h"
#include "plan/known.h"
#include "plan/run.h"

static rdt_status compute(rdt_run *r, int i, rdt_buffer into, rdt_shares *s, rdt_reason *why) {
  rdt_places places;
  rdt_where_turn(&r->where, i, &places);
  const rdt_status status = s == &r->where.first ? rdt_run_first(r) : rdt_run_noting(r, into, s, why);
  rdt_threads_restore(&places);
  return status;
}

static rdt_shares *shares_of(rdt_run *r, int i) {
  return i == 0 ? &r->where.first : &r->where.more[i - 1];
}

rdt_status rdt_run_thrice(rdt_run *r) {
  for (int i = 0; i < RDT_COPIES; i++) RDT_TRY(compute(r, i, (rdt_buffer)i, shares_of(r, i), r->why));
  return RDT_OK;
}

/* ---- what the vote asks for ---- */

static rdt_status copy(void *self, int i, rdt_buffer into, rdt_reason *why) {
  rdt_run *r = self;
  return compute(r, i, into, &r->where.again, why);
}

/* Bits of one element in the three copies: who is alone? -1: nobody, or each. */
static int alone(const char *const x[RDT_COPIES], size_t size) {
  const bool first = memcmp(x[0], x[1], size) == 0, second = memcmp(x[0], x[2], size) == 0;
  if (first != second) return first ? 2 : 1;
  return !first && memcmp(x[1], x[2], size) == 0 ? 0 : -1;
}

static void vote(void *self, bool elect, rdt_ballot *b) {
  rdt_run *r = self;
  const rdt_tensor *t = &r->buf[RDT_BUF_RESULT];
  const size_t size = rdt_dtype_size(t->dtype), bytes = rdt_tensor_bytes(t);
  *b = (rdt_ballot){.first = {-1, -1, -1}};
  for (size_t at = 0; at < bytes; at += size) {
    const char *x[RDT_COPIES];
    for (int i = 0; i < RDT_COPIES; i++) x[i] = (const char *)r->buf[i].data + at;
    const size_t same[] = {rdt_memory_alike(x[0], x[1], bytes - at), rdt_memory_alike(x[0], x[2], bytes - at)};
    const size_t skip = (same[0] < same[1] ? same[0] : same[1]) / size * size;
    at += skip;
    if (at >= bytes) return;
    for (int i = 0; i < RDT_COPIES; i++) x[i] += skip;
    const int loser = alone(x, size);
    b->undecided += loser < 0;
    if (loser < 0) continue;
    if (b->lost[loser]++ == 0) b->first[loser] = rdt_run_logical(t, (int64_t)(at / size));
    if (elect && loser == 0) memcpy((char *)t->data + at, x[1], size);
  }
}

static int core(void *self, int i, int64_t element) {
  rdt_run *r = self;
  int64_t place[2];
  rdt_place_at(&r->p->prob, element, place);
  return rdt_where_core(shares_of(r, i), place);
}

static rdt_status test(void *self, int *good, int *bad, int *failed, rdt_reason *why) {
  rdt_run *r = self;
  rdt_plan *p = r->p;
  *good = *bad = -1;
  *failed = 0;
  for (int i = 0; i < 2; i++) {
    bool passes;
    const int it = r->where.cores[i];
    RDT_TRY(rdt_known_test_core(it, p->prob.in[0].dtype, p->broken, &p->injection->turns, &passes, why));
    *failed += !passes;
    *(passes ? good : bad) = it;
  }
  return RDT_OK;
}

static rdt_status compute_on(void *self, rdt_buffer into, int it, rdt_reason *why) {
  rdt_run *r = self;
  rdt_places places;
  rdt_where_pin(&r->where, &it, 1, &places);
  const rdt_status status = rdt_run_noting(r, into, &r->where.again, why);
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
