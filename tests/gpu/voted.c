/* make gpu-check: products whose three copies vote within one launch (cuda/voted.h), schemes tmr-block and tmr-sm.
 *     gpu_voted [TRIALS | --quick [TEAM | again]]
 * TEAM: block, grid, cluster or split alone, without faults. again: what is computed again alone.
 * TRIALS: faults of each team (default 200), and five times as many bad multiprocessors of those that have copies
 * apart.
 *
 * Results have the bits of the unprotected product on wgmma. Planted: an accumulator of one copy, of two alike, of two
 * and of all three differently, a digest, at each vote; two faults of one element at two steps of k; a multiprocessor
 * that is wrong every time. Where all three differ, what is computed again is hit too, in one copy and in all, and so
 * is what is kept of the vote before. 1 where anything was wrong, 77 (skipped) where there is no GPU of compute
 * capability 9.0. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/voted.h"
#include "gpu.h"

static rdt_cuda_device device;
static cudaStream_t stream;
static int64_t products, struck, wrong, tiles, bad[4], where[4], restarts, from_start, refused, fourths, unsettled;
static const char *const teams[] = {"block", "grid", "cluster", "split"};

static void complain(const char *what, int team, const gpu_shape *s) {
  if (++wrong <= 40) printf("WRONG %s, %s, %s %dx%dx%d\n", what, teams[team], rdt_dtype_name(s->in), s->m, s->n, s->k);
}

/* The unprotected product's bits, with what is between rows. */
static void *golden_of(gpu_case *c, const gpu_shape *s) {
  rdt_reason why = {""};
  rdt_cuda_gemm *g;
  const rdt_cuda_kernel *k =
      rdt_cuda_kernel_find(s->in == RDT_F16 ? "gemm_f16_wgmma_64x256pp_none" : "gemm_bf16_wgmma_64x256pp_none");
  void *golden = malloc(c->bytes[2] + 1);
  if (!golden) gpu_die("malloc", "out of memory");
  gpu_must(rdt_cuda_gemm_create(k, &device, &c->p, 6.0, 0, stream, &g, &why), k->name, &why);
  gpu_case_poison(c);
  gpu_must(rdt_cuda_gemm_run(g, &c->o, stream, &why), k->name, &why);
  gpu_must(rdt_cuda_wait(stream, &why), k->name, &why);
  gpu_case_fetch(c);
  memcpy(golden, c->host[2], c->bytes[2]);
  rdt_cuda_gemm_destroy(g);
  return golden;
}

static void check_where(rdt_voted *v, int team, const gpu_shape *s) {
  rdt_reason why = {""};
  uint32_t *sms = malloc((size_t)rdt_voted_tiles(v) * RDT_VOTERS * sizeof *sms);
  if (!sms) gpu_die("malloc", "out of memory");
  gpu_must(rdt_voted_where(v, stream, sms, &why), "where", &why);
  for (int t = 0; t < rdt_voted_tiles(v); t++) {
    const uint32_t *x = sms + RDT_VOTERS * t;
    const bool apart = x[0] != x[1] && x[0] != x[2] && x[1] != x[2], same = x[0] == x[1] && x[0] == x[2];
    /* Launches side by side may take turns. */
    if (team == RDT_VOTED_BLOCK ? !same : !apart && team != RDT_VOTED_SPLIT)
      complain("where copies were computed", team, s);
    tiles++, where[team] += apart;
  }
  free(sms);
}

static void clean(int team, const gpu_shape *s, int votes, uint64_t *seed) {
  rdt_reason why = {""};
  gpu_case c;
  rdt_voted *v;
  rdt_thrice_ballot b;
  gpu_case_make(&c, s, seed, false);
  void *golden = golden_of(&c, s);
  gpu_must(rdt_voted_create(&device, &c.p, team, votes, &v, &why), "a product", &why);
  for (int i = 0; i < 2; i++) { /* numbers of digests go on from launch to launch */
    gpu_case_poison(&c);
    gpu_must(rdt_voted_run(v, &c.o, stream, &why), "a product", &why);
    gpu_must(rdt_cuda_wait(stream, &why), teams[team], &why);
    gpu_case_fetch(&c);
    gpu_must(rdt_voted_read(v, stream, &b, NULL, &why), "a ballot", &why);
    if (b.lost[0] + b.lost[1] + b.lost[2] + b.undecided + b.again) complain("clean data lose votes", team, s);
    if (memcmp(golden, c.host[2], c.bytes[2]) != 0) complain("a clean result", team, s);
    products++;
  }
  check_where(v, team, s);
  rdt_voted_destroy(v);
  free(golden);
  gpu_case_free(&c);
}

/* What was hit before a vote is computed again from the one before it (0: the start), up to where that was noticed:
 * SPLIT begins the next share with it, others end it so. start: from the start whatever was agreed on. */
static void check_again(const rdt_voted *v, const rdt_vote_found *f, int team, const gpu_shape *s, int vote,
                        bool start) {
  const int stages = (s->k + 63) / 64, votes = rdt_voted_votes(v),
            noticed = vote + 1 + (team != RDT_VOTED_SPLIT && vote + 1 < votes),
            from = start ? 0 : stages * vote / votes;
  const int64_t rounds = stages * noticed / votes - from;
  if (f->restarts != 1 || f->rounds != (uint64_t)rounds || f->from_start != (from == 0)) {
    complain("how much was computed again", team, s);
    printf("  vote %d: %lld restarts, %lld from the start, %lld rounds, not %lld\n", vote, (long long)f->restarts,
           (long long)f->from_start, (long long)f->rounds, (long long)rounds);
  }
  restarts++, from_start += from == 0, refused += (int64_t)f->refused;
}

/* Clusters of few rows do not. */
static bool keeps_votes(int team, const gpu_shape *s) {
  return team != RDT_VOTED_CLUSTER || s->m > 64;
}

enum { ONE, TWO_ALIKE, TWO_OTHERS, DIGEST, KINDS };

static void strike(rdt_voted *v, gpu_case *c, const gpu_shape *s, int team, const void *golden, uint64_t *seed) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  rdt_vote_found f;
  const int kind = (int)(gpu_random(seed) % KINDS), copy = (int)(gpu_random(seed) % 3);
  const unsigned bit = 1u << gpu_random(seed) % 32, other = 1u << (gpu_random(seed) % 31 + 1) % 32;
  const int64_t before = wrong;
  rdt_voted_hit h = {.site = kind == DIGEST ? RDT_VOTED_DIGEST : RDT_VOTED_ACCUM, .sm = -1};
  h.element[0] = (int)(gpu_random(seed) % (uint64_t)s->m), h.element[1] = (int)(gpu_random(seed) % (uint64_t)s->n);
  /* SPLIT: the last vote is on what is stored; halves may have rounded a fault away, and have no digests. */
  const bool stored = team == RDT_VOTED_SPLIT && (s->out != RDT_F32 || kind == DIGEST);
  h.vote = (int)(gpu_random(seed) % (uint64_t)(rdt_voted_votes(v) - stored));
  if (kind == ONE || kind == DIGEST)
    h.mask[copy] = bit;
  else
    h.mask[(copy + 1) % 3] = 0x40000000u,
                        h.mask[(copy + 2) % 3] = kind == TWO_ALIKE ? 0x40000000u : 0x20000000u ^ (other & 0xff);
  gpu_case_poison(c);
  gpu_must(rdt_voted_strike(v, &c->o, &h, stream, &why), "a strike", &why);
  gpu_case_fetch(c);
  gpu_must(rdt_voted_read(v, stream, &b, &f, &why), "a ballot", &why);
  const int64_t e = (int64_t)h.element[0] * s->n + h.element[1];
  const bool good = memcmp(golden, c->host[2], c->bytes[2]) == 0;
  if (h.done != (kind == TWO_ALIKE || kind == TWO_OTHERS ? 2 : 1)) complain("a strike that did not come", team, s);
  /* What went into few bits may be rounded away before it is looked at, at the next vote. */
  const bool gone = kind == ONE && f.alike == 1 && !b.lost[copy] && good && h.vote + 1 < rdt_voted_votes(v);
  for (int i = 0; i < 3; i++) {
    /* Two alike outvote the right one. */
    const bool loses = ((kind == ONE && !gone) || kind == TWO_ALIKE) && i == copy;
    if (b.lost[i] != loses || (loses && b.first[i] != e)) complain("who lost", team, s);
  }
  /* Of SPLIT results are voted on at the end, and computed once more, maybe where the copy was that is right: then
   * nobody knows. */
  const bool others = kind == TWO_OTHERS, late = team == RDT_VOTED_SPLIT && h.vote + 1 == rdt_voted_votes(v),
             same_sm = others && late && b.undecided == 1;
  if (b.undecided != same_sm || (same_sm && b.first_undecided != e)) complain("what nobody knows", team, s);
  if (b.again != (others && !same_sm) || (b.again && b.first_again != e)) complain("what was computed again", team, s);
  if (others) check_again(v, &f, team, s, h.vote, !keeps_votes(team, s));
  if (f.alike != (kind == DIGEST || gone)) complain("a voter that was hit", team, s);
  if (good != (kind == ONE || kind == DIGEST || (others && (!same_sm || copy == 0))))
    complain("a struck result", team, s);
  if (kind == ONE && !gone &&
      (f.verdict.list[0].row != h.element[0] || f.verdict.list[0].column != h.element[1] ||
       f.verdict.list[0].k_first != copy || f.verdict.list[0].complaint != RDT_CUDA_OUTVOTED))
    complain("what is said of who lost", team, s);
  if (wrong > before)
    printf(
        "  kind %d, copy %d, vote %d, masks %x %x %x at %d, %d: lost %lld %lld %lld from %lld %lld %lld, undecided "
        "%lld, "
        "alike %lld\n",
        kind, copy, h.vote, h.mask[0], h.mask[1], h.mask[2], h.element[0], h.element[1], (long long)b.lost[0],
        (long long)b.lost[1], (long long)b.lost[2], (long long)b.first[0], (long long)b.first[1], (long long)b.first[2],
        (long long)b.undecided, (long long)f.alike);
  struck++;
}

enum { SAME_COPY, OTHER_SHARE, SAME_SHARE, ALIKE, COURSES };

/* A step of k within a share, behind which a fault comes; at its end it comes before the vote. */
static int step_of(const rdt_voted *v, const gpu_shape *s, int share, uint64_t *seed) {
  const int stages = (s->k + 63) / 64, votes = rdt_voted_votes(v), from = stages * share / votes,
            to = stages * (share + 1) / votes;
  return from + 1 + (int)(gpu_random(seed) % (uint64_t)(to - from));
}

/* Two faults of one element within a run, each at a step of its own: votes between them decide. Within a launch they
 * do so at the end of the next share: until then a second fault comes too early. */
static void strike_twice(rdt_voted *v, gpu_case *c, const gpu_shape *s, int team, const void *golden, int course,
                         uint64_t *seed) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  rdt_vote_found found;
  const bool split = team == RDT_VOTED_SPLIT; /* its last vote is on stored halves, which may have rounded it away */
  const int later = split ? 1 : 2, shares = rdt_voted_votes(v) - split - later;
  const int copy = (int)(gpu_random(seed) % 3), other = (copy + 1) % 3, third = (copy + 2) % 3,
            share = (int)(gpu_random(seed) % (uint64_t)shares);
  rdt_voted_hit h = {.site = RDT_VOTED_ACCUM, .sm = -1, .vote = -1, .n = 2};
  rdt_voted_fault *f = h.more;
  f[0] = (rdt_voted_fault){.copy = copy, .behind = step_of(v, s, share, seed), .mask = 0x40000000u};
  f[0].element[0] = (int)(gpu_random(seed) % (uint64_t)s->m),
  f[0].element[1] = (int)(gpu_random(seed) % (uint64_t)s->n);
  f[1] = f[0];
  if (course == SAME_COPY || course == OTHER_SHARE) f[1].behind = step_of(v, s, share + later, seed);
  if (course != SAME_COPY) f[1].copy = other;
  if (course == SAME_SHARE) f[1].behind = step_of(v, s, share, seed), f[1].mask = 0x20000000u;
  gpu_case_poison(c);
  gpu_must(rdt_voted_strike(v, &c->o, &h, stream, &why), "two strikes", &why);
  gpu_case_fetch(c);
  gpu_must(rdt_voted_read(v, stream, &b, &found, &why), "a ballot", &why);
  const bool good = memcmp(golden, c->host[2], c->bytes[2]) == 0;
  const int64_t lost[RDT_VOTERS] = {b.lost[copy], b.lost[other], b.lost[third]};
  const int64_t expected[COURSES][RDT_VOTERS] = {{2, 0, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 1}};
  if (h.done != 2) complain("two strikes that did not come", team, s);
  if (memcmp(lost, expected[course], sizeof lost) != 0) complain("who lost to two faults", team, s);
  if (b.undecided || b.again != (course == SAME_SHARE)) complain("two faults between votes", team, s);
  if (course == SAME_SHARE) check_again(v, &found, team, s, share, !keeps_votes(team, s));
  if (good != (course != ALIKE)) complain("a result with two faults", team, s);
  struck++;
}

/* All three copies of an element are hit differently before a vote, in one run: once; once, where nothing is kept; and
 * one of them in what is computed again; and all of them, differently; and what is kept of the vote before. The last
 * vote of SPLIT needs a copy that is right, and computes once: two are hit, and what it computes. */
enum { ONCE, NOT_KEPT, ONE_MORE, ALL_MORE, KEPT, FATES };

static void strike_all(rdt_voted *v, gpu_case *c, const gpu_shape *s, int team, const void *golden, int fate, int turn,
                       uint64_t *seed) {
  /* Signs, factors of two and halves of a fraction: what is added does not take it away again. */
  static const unsigned masks[2][RDT_VOTERS] = {{0x80000000u, 0x00800000u, 0x00400000u},
                                                {0x00c00000u, 0x80400000u, 0x80800000u}};
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  rdt_vote_found f;
  const bool split = team == RDT_VOTED_SPLIT, keeps = keeps_votes(team, s);
  if (!keeps && fate == KEPT) fate = NOT_KEPT;
  const bool kept = fate == KEPT, all = fate == ALL_MORE, more = all || fate == ONE_MORE;
  const int votes = rdt_voted_votes(v), stages = (s->k + 63) / 64, first = kept || fate == ONE_MORE,
            any = (int)(gpu_random(seed) % 3);
  int vote = first + turn % (votes - first - (split && more));
  if (split && more && vote == votes - 2) vote++; /* what is computed again there is voted on when it is stored */
  const bool fourth = split && vote == votes - 1;
  const int one = fourth && !more ? (int)(fourths % RDT_VOTERS) : any; /* each copy is the right one */
  /* A fault of what is kept has the site; its reason lies on the vote, and comes before it. */
  rdt_voted_hit h = {.site = kept ? RDT_VOTED_KEPT : RDT_VOTED_ACCUM, .vote = kept ? vote - 1 : vote, .sm = -1};
  h.element[0] = (int)(gpu_random(seed) % (uint64_t)s->m), h.element[1] = (int)(gpu_random(seed) % (uint64_t)s->n);
  for (int i = 0; i < RDT_VOTERS; i++) {
    const bool struck_again = fourth ? more && i == 0 : all || (fate == ONE_MORE && i == one);
    const bool spared = fourth && i == one;
    if (!kept && !spared) h.mask[i] = masks[0][i];
    if (!struck_again && (!kept || spared)) continue;
    rdt_voted_fault *at = &h.more[h.n++];
    *at = (rdt_voted_fault){.copy = i, .mask = masks[!kept][i], .again = !kept};
    if (kept) at->behind = stages * (vote + 1) / votes;
    memcpy(at->element, h.element, sizeof h.element);
  }
  if (kept) h.mask[0] = 1u << gpu_random(seed) % 32;
  rdt_voted_keep(v, fate != NOT_KEPT);
  gpu_case_poison(c);
  gpu_must(rdt_voted_strike(v, &c->o, &h, stream, &why), "strikes", &why);
  gpu_case_fetch(c);
  gpu_must(rdt_voted_read(v, stream, &b, &f, &why), "a ballot", &why);
  rdt_voted_keep(v, RDT_VOTED_KEEPS);
  const bool good = memcmp(golden, c->host[2], c->bytes[2]) == 0;
  const int64_t before = wrong, e = (int64_t)h.element[0] * s->n + h.element[1];
  if (h.done != RDT_VOTERS - (unsigned)fourth + (unsigned)kept || h.done_again != (kept ? 0u : (unsigned)h.n))
    complain("strikes that did not come", team, s);
  /* The fourth one may be computed where the copy was that is right: then nobody knows. */
  const bool same_sm = fourth && !more && b.undecided == 1, lost = all || (fourth && (more || same_sm)),
             again = !fourth || !lost;
  fourths += fourth && !more, unsettled += same_sm;
  if (b.again != again || (again && b.first_again != e)) complain("what was computed again", team, s);
  if (b.undecided != lost || (lost && b.first_undecided != e)) complain("what nobody knows twice", team, s);
  for (int i = 0; i < RDT_VOTERS; i++)
    if (b.lost[i] != (fate == ONE_MORE && i == one && !fourth))
      complain("who lost in what was computed again", team, s);
  if (f.refused != kept) complain("what was kept, and was wrong", team, s);
  check_again(v, &f, team, s, vote, kept || fate == NOT_KEPT || !keeps);
  if (good != (fourth && lost ? one == 0 : !lost)) complain("a result that was computed again", team, s);
  if (wrong > before)
    printf(
        "  fate %d, vote %d of %d, at %d, %d, copy %d: done %u, %u, again %lld, undecided %lld, lost %lld %lld %lld\n",
        fate, vote, votes, h.element[0], h.element[1], one, h.done, h.done_again, (long long)b.again,
        (long long)b.undecided, (long long)b.lost[0], (long long)b.lost[1], (long long)b.lost[2]);
  struck++;
}

/* The copies that a multiprocessor has lose, it is named, and the result is right. */
static void break_one(rdt_voted *v, gpu_case *c, const gpu_shape *s, int team, const void *golden, const uint32_t *sms,
                      uint64_t *seed) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  rdt_vote_found f;
  const int at = (int)(gpu_random(seed) % (uint64_t)(rdt_voted_tiles(v) * RDT_VOTERS));
  rdt_voted_hit h = {.site = RDT_VOTED_ACCUM, .sm = (int)sms[at]}; /* one that has copies */
  h.mask[0] = 1u << gpu_random(seed) % 31;
  gpu_case_poison(c);
  gpu_must(rdt_voted_strike(v, &c->o, &h, stream, &why), "a strike", &why);
  gpu_case_fetch(c);
  gpu_must(rdt_voted_read(v, stream, &b, &f, &why), "a ballot", &why);
  if (memcmp(golden, c->host[2], c->bytes[2]) != 0) complain("a result with a bad multiprocessor", team, s);
  const int64_t lost = b.lost[0] + b.lost[1] + b.lost[2];
  if (b.undecided || b.again || (lost > 0) != (h.done > 0)) complain("who lost to a bad multiprocessor", team, s);
  for (int i = 0; i < RDT_CUDA_SMS; i++)
    if ((f.verdict.sm[i] > 0) != (h.done > 0 && i == h.sm)) complain("a multiprocessor that is named", team, s);
  if (h.done) bad[team]++;
}

/* Within a block all copies are on one multiprocessor: one that is wrong every time is wrong in all alike, and nobody
 * sees it. */
static void break_unseen(rdt_voted *v, gpu_case *c, const gpu_shape *s, const void *golden, const uint32_t *sms) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  rdt_voted_hit h = {.site = RDT_VOTED_ACCUM, .sm = (int)sms[0], .mask = {0x40000000u}};
  gpu_case_poison(c);
  gpu_must(rdt_voted_strike(v, &c->o, &h, stream, &why), "a strike", &why);
  gpu_case_fetch(c);
  gpu_must(rdt_voted_read(v, stream, &b, NULL, &why), "a ballot", &why);
  if (b.lost[0] + b.lost[1] + b.lost[2] + b.undecided) complain("a vote among copies that are alike", 0, s);
  if (h.done && memcmp(golden, c->host[2], c->bytes[2]) != 0) bad[RDT_VOTED_BLOCK]++;
}

static void faulty(int team, const gpu_shape *s, int votes, int trials, bool again, uint64_t *seed) {
  rdt_reason why = {""};
  gpu_case c;
  rdt_voted *v;
  gpu_case_make(&c, s, seed, false);
  void *golden = golden_of(&c, s);
  gpu_must(rdt_voted_create(&device, &c.p, team, votes, &v, &why), "a product", &why);
  for (int i = 0; i < trials && !again; i++) strike(v, &c, s, team, golden, seed);
  for (int i = 0; i < trials && !again; i++) strike_twice(v, &c, s, team, golden, i % COURSES, seed);
  for (int i = 0; i < trials || (again && i < FATES * votes); i++) /* every fate at every vote */
    strike_all(v, &c, s, team, golden, i % FATES, i / FATES, seed);
  uint32_t *sms = malloc((size_t)rdt_voted_tiles(v) * RDT_VOTERS * sizeof *sms);
  if (!sms) gpu_die("malloc", "out of memory");
  gpu_must(rdt_voted_where(v, stream, sms, &why), "where", &why);
  for (int i = 0; i < 5 * trials && !again && (team == RDT_VOTED_GRID || team == RDT_VOTED_CLUSTER); i++)
    break_one(v, &c, s, team, golden, sms, seed);
  if (team == RDT_VOTED_BLOCK && !again) break_unseen(v, &c, s, golden, sms);
  free(sms);
  rdt_voted_destroy(v);
  free(golden);
  gpu_case_free(&c);
}

int main(int argc, char **argv) {
  rdt_reason why;
  uint64_t seed = 43;
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  const char *only = argc > 2 ? argv[2] : NULL; /* of the teams, without faults */
  const bool again = only && strcmp(only, "again") == 0;
  const int trials = quick ? 4 : argc > 1 ? atoi(argv[1]) : 200;
  if (rdt_cuda_count(&why) == 0) return printf("skip: %s\n", why.text), 77;
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  if (device.major != 9) return printf("skip: %s is no GPU of compute capability 9.0\n", device.name), 77;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  static const gpu_shape shapes[] = {{.m = 64, .n = 192, .k = 64},
                                     {.m = 1, .n = 8, .k = 8},
                                     {.m = 16, .n = 4096, .k = 512},
                                     {.m = 300, .n = 204, .k = 1000, .gap = 8, .bias = true, .relu = true},
                                     {.m = 193, .n = 385, .k = 456, .gap = 8, .residual = true, .beta = 0.5},
                                     {.m = 2048, .n = 2048, .k = 2048}};
  for (int team = 0; team < 4; team++)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes - quick; i++)
      for (int form = 0; form < 4 && (!only || strcmp(only, teams[team]) == 0); form++) {
        if (gpu_daily(quick) && i >= 2 && (i + (size_t)form) % 2 != 0)
          continue; /* every form with a large shape, each with two */
        gpu_shape s = shapes[i];
        s.in = form % 2 ? RDT_BF16 : RDT_F16, s.out = form == 2 ? RDT_F32 : s.in;
        s.columns = form >= 2, s.alpha = form == 3 ? 0.5 : 1.0, s.data = GPU_NORMAL;
        clean(team, &s, 1 + 3 * form, &seed);
      }
  for (int team = 0; team < 4; team++) {
    if (only && !again) continue;
    const gpu_shape small = {.m = 400, .n = 400, .k = 1024, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0},
                    few = {.m = 48, .n = 1000, .k = 768, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0},
                    least = {.m = 100, .n = 264, .k = 648, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0, .bias = true},
                    line = {.m = 20, .n = 136, .k = 648, .in = RDT_F16, .out = RDT_F32, .alpha = 0.5, .gap = 8},
                    large = {.m = 1088, .n = 1536, .k = 512, .in = RDT_F16, .out = RDT_F32, .alpha = 1.0};
    faulty(team, &least, 5, trials / 2, true, &seed);
    if (team == RDT_VOTED_CLUSTER) faulty(team, &line, 4, trials / 2, true, &seed);
    if (again) continue;
    faulty(team, &small, 5, trials / 2, false, &seed);
    if (team == RDT_VOTED_CLUSTER) faulty(team, &few, 4, trials / 4, false, &seed);
    if (team == RDT_VOTED_SPLIT) faulty(team, &line, 4, 4 * trials, false, &seed);
    if (!quick) faulty(team, &large, 3, trials - trials / 2, false, &seed);
    printf("%s: %lld strikes so far, %lld wrong\n", teams[team], (long long)struck, (long long)wrong);
    fflush(stdout);
  }
  if (fourths >= RDT_VOTERS && 2 * unsettled > fourths) /* at most one of three copies is where it is computed */
    wrong++, printf("WRONG: what is computed once more is rarely believed\n");
  printf(
      "gpu-voted: %lld products, %lld strikes, bad multiprocessors %lld (grid), %lld (clusters), not seen %lld (block, "
      "as "
      "it is said), %lld tiles and where they were (of split %lld on three), computed again %lld (from the start %lld, "
      "of %lld as what was kept was wrong; of %lld once more at the end %lld by the multiprocessor of the right copy): "
      "%lld wrong\n",
      (long long)products, (long long)struck, (long long)bad[RDT_VOTED_GRID], (long long)bad[RDT_VOTED_CLUSTER],
      (long long)bad[RDT_VOTED_BLOCK], (long long)tiles, (long long)where[RDT_VOTED_SPLIT], (long long)restarts,
      (long long)from_start, (long long)refused, (long long)fourths, (long long)unsettled, (long long)wrong);
  return wrong ? 1 : 0;
}
