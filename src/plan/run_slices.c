/* Both copies of a duplicated op slice by slice, the second one compared while the first still lies in the cache:
 * memory is written once, and read no more than twice. A slice is a run of the result's memory that the kernel can
 * compute by itself. */
#include <omp.h>
#include <string.h>

#include "check/bitsum.h"
#include "cpu/epilogue.h"
#include "plan/run.h"

enum {
  SLICE = 1 << 17,  /* bytes: with what it is computed from and its second copy well within the second-level cache */
  MOST = 8 * SLICE, /* where rows cannot be cut finer */
  ALIGNED = 64,     /* bit-sums of parts begin at multiples of this */
  INPUTS = 3
};

typedef struct slices {
  int n_outer, outer[RDT_MAX_RANK]; /* dimensions of which a slice has one index, outermost in memory first */
  int cut;                          /* the one of which it has a range: */
  int64_t step, cuts;               /* this many indices each; ranges in all */
  int64_t count;                    /* slices */
  size_t bytes;                     /* the largest one's */
} slices;

/* May the kernel compute indices of dimension d by themselves? */
static bool separable(const rdt_plan *p, int d) {
  switch (p->kernel->slices) {
    case RDT_SLICES_ANY:
      return true;
    case RDT_SLICES_BEFORE_AXIS:
      return d < p->prob.axis;
    case RDT_SLICES_BESIDE_AXIS:
      return d != p->prob.axis;
    default:
      return false;
  }
}

/* Dimensions of a packed tensor that are longer than 1, as they lie in memory, outermost first; how many. */
static int by_stride(const rdt_tensor *t, int *dims) {
  int n = 0;
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] == 1) continue;
    int at = n++;
    for (; at > 0 && t->stride[dims[at - 1]] < t->stride[d]; at--) dims[at] = dims[at - 1];
    dims[at] = d;
  }
  return n;
}

/* false: it has none. */
static bool slices_of(const rdt_plan *p, const rdt_tensor *out, slices *s) {
  int dims[RDT_MAX_RANK];
  const int n = by_stride(out, dims);
  const int64_t size = (int64_t)rdt_dtype_size(out->dtype);
  *s = (slices){.cut = -1, .count = 1};
  if (n == 0 || rdt_tensor_count(out) == 0) return false;
  for (int i = 0; i < n && separable(p, dims[i]); i++) {
    if (s->cut >= 0) { /* one index of it was still too much */
      s->outer[s->n_outer++] = s->cut;
      s->count *= out->shape[s->cut];
    }
    s->cut = dims[i];
    if (out->stride[s->cut] * size <= SLICE) break;
  }
  if (s->cut < 0) return false;
  const int64_t length = out->shape[s->cut], inner = out->stride[s->cut] * size, most = SLICE / inner;
  s->cuts = most < 1 ? length : (length + most - 1) / most;
  if (s->n_outer == 0) s->cuts = (s->cuts + p->threads - 1) / p->threads * p->threads; /* shares of one size */
  s->step = (length + s->cuts - 1) / s->cuts;
  s->cuts = (length + s->step - 1) / s->step;
  s->count *= s->cuts;
  s->bytes = (size_t)(s->step * inner);
  return s->bytes <= MOST;
}

/* Slice i of a view, its length along the cut. */
static void move_to(const slices *s, const rdt_tensor *whole, int64_t i, rdt_tensor *t) {
  const int64_t from = i % s->cuts * s->step, left = whole->shape[s->cut] - from;
  int64_t offset = from * whole->stride[s->cut], rest = i / s->cuts;
  t->shape[s->cut] = left < s->step ? left : s->step;
  for (int k = s->n_outer - 1; k >= 0; k--) {
    const int d = s->outer[k];
    t->shape[d] = 1;
    offset += rest % whole->shape[d] * whole->stride[d];
    rest /= whole->shape[d];
  }
  t->data = (char *)whole->data + offset * (int64_t)rdt_dtype_size(whole->dtype);
}

/* What the threads share. */
typedef struct job {
  rdt_run *r;
  slices s;
  rdt_operands whole;
  char *room;  /* a second copy for each thread */
  bool sums;   /* bit-sums slice by slice */
  int64_t bad; /* a slice that did not come out twice alike; -1 none */
  int64_t good;
  int team;
  uint64_t bitsum;
  rdt_status status;
  rdt_reason why;
} job;

/* Slice i into its place in the result, or (second copy) to `to`. Its bytes in *bytes. */
static rdt_status compute(const job *j, void *state, int64_t i, char *to, const char **at, size_t *bytes,
                          rdt_reason *why) {
  rdt_tensor in[INPUTS];
  rdt_operands o = j->whole;
  for (int v = 0; v < o.n_in; v++) {
    in[v] = j->whole.in[v];
    move_to(&j->s, &j->whole.in[v], i, &in[v]);
  }
  o.in = in;
  move_to(&j->s, &j->whole.out, i, &o.out);
  *at = o.out.data;
  *bytes = rdt_tensor_bytes(&o.out);
  if (to) o.out.data = to;
  return j->r->p->kernel->run(state, &o, why);
}

/* Slices [from, to) for the first time, or once more: then they are compared. */
static void run_part(job *j, int64_t from, int64_t to, bool first, bool second, char *room) {
  const rdt_plan *p = j->r->p;
  int64_t bad = -1, good = 0;
  uint64_t bitsum = 0;
  rdt_status status = RDT_OK;
  rdt_reason why;
  for (int64_t i = from; i < to && status == RDT_OK; i++) {
    const char *at;
    size_t bytes;
    if (first) status = compute(j, p->state, i, NULL, &at, &bytes, &why);
    if (!second || status != RDT_OK) continue;
    status = compute(j, p->twin, i, room, &at, &bytes, &why);
    const bool alike = memcmp(at, room, bytes) == 0;
    if (!alike && bad < 0) bad = i;
    good += alike;
    if (j->sums) bitsum += rdt_bitsum_part(j->whole.out.data, (size_t)(at - (char *)j->whole.out.data), bytes);
  }
#pragma omp critical(rdt_slices)
  {
    if (bad >= 0) j->bad = bad;
    j->good += good;
    j->bitsum += bitsum;
    if (status != RDT_OK && j->status == RDT_OK) {
      j->status = status;
      j->why = why;
    }
  }
}

/* One thread: each slice twice before the next. Several: each computes its share, then checks its neighbour's. */
static void run_all(job *j, int team, rdt_shares *cores) {
  static const int64_t from[2] = {0, 0}, to[2] = {INT64_MAX, INT64_MAX};
  const int64_t n = j->s.count;
  rdt_shares_expect(cores, team);
  if (team == 1) {
    j->team = 1;
    rdt_share_begin(cores, 0, from, to);
    run_part(j, 0, n, true, true, j->room);
    rdt_share_end(cores, 0, false);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int me = omp_get_thread_num(), all = omp_get_num_threads(), next = (me + 1) % all;
    char *const room = j->room + (size_t)me * j->s.bytes;
    if (me == 0) j->team = all;
    rdt_share_begin(cores, me, from, to);
    run_part(j, n * me / all, n * (me + 1) / all, true, all == 1, room);
    if (all > 1) {
#pragma omp barrier
      run_part(j, n * next / all, n * (next + 1) / all, false, true, room);
    }
    rdt_share_end(cores, me, false);
  }
}

/* Who has computed the first copy of a slice, and who the second. */
static void note_cores(const job *j, int64_t slice, rdt_shares *cores) {
  int owner = 0;
  while (owner + 1 < j->team && slice >= j->s.count * (owner + 1) / j->team) owner++;
  if (cores->n < j->team) return;
  j->r->where.copy[0] = cores->list[owner];
  j->r->where.copy[1] = cores->list[(owner + 1) % j->team];
  cores->n = 0;
}

rdt_status rdt_run_slices(rdt_run *r, rdt_slices_found *found) {
  rdt_plan *p = r->p;
  job j = {.r = r, .whole = rdt_run_raw(r, RDT_BUF_RESULT), .bad = -1, .status = RDT_OK};
  *found = RDT_SLICES_CANNOT;
  if (p->kernel->slices == RDT_SLICES_NONE || rdt_run_armed(r) || p->broken || j.whole.n_in > INPUTS) return RDT_OK;
  if (!slices_of(p, &j.whole.out, &j.s)) return RDT_OK;
  const int team = p->threads < j.s.count ? p->threads : (int)j.s.count;
  const size_t room = (j.s.bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  j.s.bytes = room;
  j.room = rdt_context_scratch(p->ctx, RDT_SCRATCH_SPARE, (size_t)team * room);
  if (!j.room) return RDT_OK;
  j.sums = r->raw_is_out && rdt_epilogue_sums(&j.whole.out);
  run_all(&j, team, &r->where.first);
  if (j.status != RDT_OK) return rdt_fail(r->why, j.status, "%s", j.why.text);
  note_cores(&j, j.bad >= 0 ? j.bad : 0, &r->where.first);
  *found = j.bad < 0 && j.good == j.s.count ? RDT_SLICES_ALIKE : RDT_SLICES_DIFFER;
  p->out_seal = j.bitsum;
  p->out_sealed = j.sums && *found == RDT_SLICES_ALIKE;
  return RDT_OK;
}
