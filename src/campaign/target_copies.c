/* A product on a GPU that is computed three times, as a target: by three launches and a vote (tmr-kernel, tmr-sm), or
 * by kernels that vote on the way (tmr-block, tmr-split, tmr-sm with checkpoints). */
#include <stdio.h>
#include <string.h>

#include "campaign/device_target.h"
#include "core/memory.h"

static bool votes_of(const char *scheme) {
  return strcmp(scheme, "tmr-kernel") == 0 || strcmp(scheme, "tmr-sm") == 0;
}

/* Kernels that vote on the way, a layer each where a scheme has several; tmr-sm where checkpoints are asked for. */
static const struct {
  const char *scheme, *layer, *kernel;
  int team;
} on_the_way[] = {{"tmr-block", "gemm", "gemm_f16_wgmma_voted_block", RDT_VOTED_BLOCK},
                  {"tmr-split", "gemm", "gemm_f16_wgmma_voted_split", RDT_VOTED_SPLIT},
                  {"tmr-sm", "grid", "gemm_f16_wgmma_voted_grid", RDT_VOTED_GRID},
                  {"tmr-sm", "clusters", "gemm_f16_wgmma_voted_cluster", RDT_VOTED_CLUSTER}};
enum { ON_THE_WAY = sizeof on_the_way / sizeof *on_the_way };

static bool is_on_the_way(const rdt_device_target *t, int i, const char *scheme) {
  return strcmp(on_the_way[i].scheme, scheme) == 0 && (strcmp(scheme, "tmr-sm") != 0 || t->machine->device.votes);
}

bool rdt_copies_on_way(const rdt_device_target *t, const char *scheme) {
  for (int i = 0; i < ON_THE_WAY; i++)
    if (is_on_the_way(t, i, scheme)) return true;
  return false;
}

bool rdt_copies_of(const rdt_device_target *t, const char *scheme) {
  return votes_of(scheme) || rdt_copies_on_way(t, scheme);
}

bool rdt_copies_there(const rdt_device_target *t) {
  return t->votes || t->n_voted;
}

bool rdt_copies_layer(const rdt_device_target *t, int i, const char **name, const char **kernel) {
  int at = 0;
  while (at < ON_THE_WAY && (!is_on_the_way(t, at, t->scheme) || i-- > 0)) at++;
  if (at == ON_THE_WAY) return false;
  *name = on_the_way[at].layer, *kernel = on_the_way[at].kernel;
  return true;
}

rdt_status rdt_copies_make(rdt_device_target *t, rdt_reason *why) {
  rdt_machine *m = t->machine;
  const int votes = m->device.votes ? m->device.votes : RDT_VOTED_USUAL;
  t->apart = strcmp(t->scheme, "tmr-sm") == 0;
  for (int i = 0; i < ON_THE_WAY; i++) {
    if (!is_on_the_way(t, i, t->scheme)) continue;
    RDT_TRY(m->voted_create(m, &t->p, on_the_way[i].team, votes, &t->voted[t->n_voted], why));
    t->n_voted++;
  }
  return !t->n_voted && votes_of(t->scheme) ? m->votes_create(m, &t->p.out, t->apart, &t->votes, why) : RDT_OK;
}

void rdt_copies_drop(rdt_device_target *t) {
  if (t->votes) t->machine->votes_destroy(t->votes);
  for (int i = 0; i < t->n_voted; i++) t->machine->voted_destroy(t->voted[i]);
  rdt_free(t->copies);
}

bool rdt_copies_have_site(const rdt_device_target *t, rdt_site site) {
  const bool apart = site == RDT_SITE_PACKED || site == RDT_SITE_EPILOGUE || site == RDT_SITE_VOTE;
  return site == RDT_SITE_ACCUM || (t->votes && apart);
}

/* ---- runs ---- */

static void *copy_at(const rdt_device_target *t, int i) {
  return i ? t->machine->votes_copy(t->votes, i, t->there[2]) : t->there[2];
}

/* Of three copies the vote, as a finding: suspect where one lost, or all differed and were computed again on the way;
 * certain where nobody knows. */
static void finding_of(const rdt_device_target *t, const rdt_thrice_ballot *b, rdt_cuda_verdict *v) {
  const int64_t n = t->op.out.shape[1];
  int loser = -1;
  *v = (rdt_cuda_verdict){0};
  for (int i = 0; i < RDT_VOTERS; i++) {
    v->suspect += (uint32_t)b->lost[i];
    if (b->lost[i] > 0 && (loser < 0 || b->first[i] < b->first[loser])) loser = i;
  }
  v->suspect += (uint32_t)b->again;
  v->certain = (uint32_t)b->undecided;
  v->listed = v->suspect + v->certain > 0;
  const int64_t first = b->undecided ? b->first_undecided
                        : loser >= 0 ? b->first[loser]
                        : b->again   ? b->first_again
                                     : 0;
  v->list[0] = (rdt_cuda_finding){.complaint = b->undecided ? RDT_CUDA_CERTAIN
                                               : loser < 0  ? (int)RDT_CUDA_AGAIN
                                                            : (int)RDT_CUDA_OUTVOTED,
                                  .sm = -1,
                                  .row = (int32_t)(first / n),
                                  .column = (int32_t)(first % n),
                                  .k_first = b->undecided ? -1 : loser};
}

rdt_status rdt_copies_vote(rdt_device_target *t, rdt_cuda_verdict *v, rdt_reason *why) {
  rdt_thrice_ballot b;
  rdt_vote_hit *hit = t->voter.mask ? &t->voter : NULL;
  RDT_TRY(t->machine->vote(t->machine, t->votes, t->there[2], hit, &b, why));
  finding_of(t, &b, v);
  return rdt_device_target_fetch(t, t->there[2], why);
}

/* By the kernel that votes on the way; hit NULL: as it is shipped. */
static rdt_status compute_voted(rdt_device_target *t, rdt_voted_hit *hit, rdt_cuda_verdict *v, rdt_reason *why) {
  rdt_machine *m = t->machine;
  rdt_voted *k = t->voted[t->layer];
  rdt_thrice_ballot b;
  rdt_vote_found found;
  const rdt_operands o = {.in = t->p.in, .n_in = 2, .out = t->p.out, .epilogue = &t->p.epilogue};
  RDT_TRY(hit ? m->voted_strike(m, k, &o, hit, why) : m->voted_launch(m, k, &o, why));
  RDT_TRY(m->voted_read(m, k, &b, &found, why));
  finding_of(t, &b, v);
  if (v->suspect && !v->certain && v->list[0].k_first >= 0) v->list[0].sm = found.verdict.list[0].sm;
  return rdt_device_target_fetch(t, t->there[2], why);
}

/* Is a copy hit? One that the fault chooses, and the next one where two are; every one, or a share of them, where a
 * multiprocessor is broken. */
static bool is_hit(const rdt_device_target *t, const rdt_fault *f, int i) {
  const int first = rdt_fault_copy(f);
  if (f->core < 0) return i == first || (f->copies != RDT_COPIES_ONE && i == (first + 1) % RDT_VOTERS);
  const uint64_t r = rdt_fault_random(f, 1000 + t->turns + (uint64_t)i);
  return !(f->rate < 1.0) || (double)(r >> 11) * 0x1p-53 < f->rate;
}

/* What the second of two copies is struck with. */
static rdt_cuda_strike second_of(const rdt_device_target *t, const rdt_fault *f, const rdt_cuda_strike *s,
                                 rdt_dtype type) {
  const rdt_tensor *out = &t->op.out;
  const int width = 8 * (int)rdt_dtype_size(type);
  rdt_cuda_strike other = *s;
  if (f->copies == RDT_COPIES_APART)
    other.hit.element = rdt_fault_position(f, s->hit.element, rdt_tensor_count(out), 1);
  if (f->copies == RDT_COPIES_DIFFER && s->hit.mask) { /* a high bit more, or less: no rounding makes them alike */
    const uint64_t bit = UINT64_C(1) << (width - 3);
    other.hit.mask ^= s->hit.mask == bit ? bit >> 1 : bit;
  }
  return other;
}

/* What is struck, on the host too: one copy, before the vote, or two; all that are, where a multiprocessor is broken.
 * strike NULL: by the kernel that is shipped. */
static rdt_status compute_thrice(rdt_device_target *t, rdt_cuda_strike *strike, const rdt_fault *f, rdt_reason *why) {
  rdt_cuda_verdict own;
  rdt_machine *m = t->machine;
  int struck = -1;
  rdt_operands o = {.in = t->p.in, .n_in = 2, .out = t->p.out, .epilogue = &t->p.epilogue};
  for (int n = 0; n < RDT_VOTERS; n++) {
    const int i = strike ? (rdt_fault_copy(f) + n) % RDT_VOTERS : n; /* the one that is told of comes first */
    const bool hit = strike && is_hit(t, f, i);
    rdt_cuda_strike other;
    rdt_cuda_strike *now = strike;
    o.out.data = copy_at(t, i);
    if (hit && struck >= 0) other = second_of(t, f, strike, t->op.out.dtype), now = &other;
    if (hit) now->hit.done = false;
    RDT_TRY(m->gemm_run(m, t->gemm, &o, hit ? now : NULL, &own, m->votes_stream(t->votes, i), why));
    if (hit && now->hit.done && struck < 0) struck = i;
  }
  if (strike) strike->hit.done = struck >= 0;
  return strike ? rdt_device_target_fetch(t, copy_at(t, struck < 0 ? 0 : struck), why) : RDT_OK;
}

rdt_status rdt_copies_alike(rdt_device_target *t, bool *alike, rdt_reason *why) {
  rdt_machine *m = t->machine;
  const size_t bytes = rdt_device_target_bytes(t, 2), size = rdt_dtype_size(t->op.out.dtype);
  *alike = false;
  if (!t->copies) t->copies = rdt_alloc(bytes, RDT_VOTERS);
  if (!t->copies) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for three copies");
  for (int i = 0; i < RDT_VOTERS; i++)
    RDT_TRY(m->get(m, RDT_LANE_MAIN, t->copies + (size_t)i * bytes, copy_at(t, i), bytes, why));
  RDT_TRY(m->wait(m, why));
  for (size_t at = 0; at < bytes && !*alike; at += size)
    for (size_t i = 0; i < RDT_VOTERS; i++) {
      const unsigned char *x = t->copies + i * bytes + at, *y = t->copies + (i + 1) % RDT_VOTERS * bytes + at;
      *alike = *alike || (memcmp(x, y, size) == 0 && memcmp(x, t->op.clean + at, size) != 0);
    }
  return RDT_OK;
}

/* What strikes copies that vote on the way. */
static rdt_voted_hit hit_of(const rdt_device_target *t, const rdt_fault *f, const rdt_cuda_strike *s) {
  const int64_t n = t->op.out.shape[1];
  const int copy = rdt_fault_copy(f), other = (copy + 1) % RDT_VOTERS;
  rdt_voted_hit h = {.site = RDT_VOTED_ACCUM,
                     .vote = (int)(s->hit.position * t->machine->voted_votes(t->voted[t->layer])),
                     .sm = f->core};
  h.element[0] = (int)(s->hit.element / n), h.element[1] = (int)(s->hit.element % n);
  h.mask[f->core >= 0 ? 0 : copy] = (unsigned)s->hit.mask;
  if (f->core < 0 && f->copies != RDT_COPIES_ONE) h.mask[other] = (unsigned)second_of(t, f, s, RDT_F32).hit.mask;
  return h;
}

static rdt_status strike_voted(rdt_device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_cuda_verdict *v,
                               rdt_reason *why) {
  rdt_voted_hit h = hit_of(t, f, s);
  RDT_TRY(compute_voted(t, &h, v, why));
  s->hit.done = h.done > 0;
  return RDT_OK;
}

/* The kernels that vote on the way flip bits in one place, and tell nobody what was there. */
rdt_status rdt_copies_take(const rdt_device_target *t, const rdt_fault *f, const char *spec, rdt_reason *why) {
  const bool looks = rdt_fault_mask(f, 0, RDT_F32) != rdt_fault_mask(f, ~(uint64_t)0, RDT_F32);
  if (!t->n_voted || (!looks && f->copies != RDT_COPIES_APART)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "%s: copies that vote on the way are hit by bit, bits, adjacent or burst, at one place: %s", spec,
                  looks ? "no fault that depends on what is there" : "no copies=apart");
}

/* A vote is hit where it has something to vote on: one copy is, too, and the vote on that element. */
static rdt_status strike_voter(rdt_device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_reason *why) {
  const rdt_tensor *out = &t->op.out;
  const rdt_fault reason = rdt_fault_reason(f, out->dtype);
  rdt_cuda_strike first = *s;
  first.hit.mask = rdt_fault_mask(&reason, 0, out->dtype);
  RDT_TRY(compute_thrice(t, &first, &reason, why));
  int what = (int)(rdt_fault_random(f, 21) % RDT_VOTE_HITS);
  if (what == RDT_VOTE_ELECTED && rdt_fault_copy(&reason) != 0) what = RDT_VOTE_LOSER; /* nothing is written */
  t->voter = (rdt_vote_hit){.what = what, .element = s->hit.element, .mask = rdt_fault_mask(f, 0, out->dtype)};
  return RDT_OK;
}

/* Accumulators of three copies that vote on the way are f32, whatever is stored. */
rdt_dtype rdt_copies_dtype(const rdt_device_target *t) {
  return t->n_voted ? RDT_F32 : t->op.out.dtype;
}

rdt_status rdt_copies_compute(rdt_device_target *t, rdt_cuda_verdict *v, rdt_reason *why) {
  if (t->n_voted) return compute_voted(t, NULL, v, why);
  RDT_TRY(compute_thrice(t, NULL, NULL, why));
  return rdt_copies_vote(t, v, why);
}

rdt_status rdt_copies_strike(rdt_device_target *t, const rdt_fault *f, rdt_cuda_strike *s, rdt_cuda_verdict *v,
                             rdt_reason *why) {
  return t->n_voted                 ? strike_voted(t, f, s, v, why)
         : f->site == RDT_SITE_VOTE ? strike_voter(t, f, s, why)
                                    : compute_thrice(t, s, f, why);
}
