#include "cuda/voted.h"

#include <cuda_runtime_api.h>

#include "core/memory.h"
#include "cuda/early.h"
#include "cuda/wide.h"
#include "cuda/written.h"

extern const void *const rdt_voted_f16[RDT_VOTED_TEAMS][2], *const rdt_voted_bf16[RDT_VOTED_TEAMS][2],
                                                                *const rdt_voted_inject[RDT_VOTED_TEAMS];
extern const void *const rdt_voted_last_f16[2], *const rdt_voted_last_bf16[2], *const rdt_voted_last_inject;

struct rdt_voted {
  rdt_voted_args args;
  rdt_dtype type;
  bool columns; /* B's lie side by side */
  int team, blocks, sms;
  rdt_thrice *last;                /* SPLIT: the vote on results */
  cudaStream_t stream[RDT_VOTERS]; /* SPLIT: of 1 and 2 */
  cudaEvent_t begun, done[RDT_VOTERS];
  rdt_voted_hit *hit; /* on the device; made when it is asked for */
  float *kept;        /* for args.kept */
  bool keeps;
};

static int up(int x, int by) {
  return (x + by - 1) / by;
}

/* What TMA asks for, as of the other products on wgmma. */
static rdt_cuda_kernel as_kernel(rdt_dtype type) {
  const bool half = type == RDT_F16;
  rdt_cuda_kernel k = *rdt_cuda_kernel_find(half ? "gemm_f16_wgmma_64x256pp_none" : "gemm_bf16_wgmma_64x256pp_none");
  k.name = half ? "gemm_f16_wgmma_voted" : "gemm_bf16_wgmma_voted";
  return k;
}

rdt_status rdt_voted_accept(const rdt_cuda_device *d, const rdt_problem *p, rdt_reason *why) {
  if (p->op != RDT_KOP_GEMM || (p->in[0].dtype != RDT_F16 && p->in[0].dtype != RDT_BF16))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "votes within a launch are of products of f16 and bf16, not of %s of %s",
                    rdt_problem_name(p), rdt_dtype_name(p->in[0].dtype));
  if (d->major != 9)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "votes within a launch need compute capability 9.0; %s has %d.%d",
                    d->name, d->major, d->minor);
  if (p->out.rank != 2 || p->epilogue.act.fn == RDT_FN_GELU)
    return rdt_fail(
        why, RDT_ERR_UNSUPPORTED,
        "votes within a launch are of single products, followed by relu or nothing: not of batches or gelu");
  const rdt_cuda_kernel k = as_kernel(p->in[0].dtype);
  RDT_TRY(rdt_cuda_gemm_accept(&k, p, why));
  rdt_wide_sides s;
  return rdt_wide_sides_of(p, &s) && !rdt_wide_unaligned(&s)
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_UNSUPPORTED,
                        "votes within a launch take operands whose rows begin at multiples of 16 bytes: pad them");
}

/* ---- making ready ---- */

static const void *code_of(const rdt_voted *v) {
  return (v->type == RDT_F16 ? rdt_voted_f16 : rdt_voted_bf16)[v->team][v->columns];
}

static bool pairs(const rdt_voted *v) {
  return v->team == RDT_VOTED_GRID || v->team == RDT_VOTED_SPLIT;
}

enum {
  TURNS = 2, /* SPLIT: of what one share leaves, and the next one reads while it leaves its own; multiprocessors */
  PAGES = 2, /* of what is kept of a tile: agreed on, and not yet */
  HOWS = 2,
  AHEAD = 1024 /* tiles, from where on sums are not asked for ahead: they come to the caches' cost */
};
static cudaLaunchConfig_t launch_of(const rdt_voted *v, cudaLaunchAttribute how[HOWS], void *stream) {
  const unsigned together = pairs(v) ? RDT_VOTED_PAIR : RDT_VOTERS;
  how[0] = (cudaLaunchAttribute){.id = cudaLaunchAttributeClusterDimension, .val.clusterDim = {together, 1, 1}};
  how[1] = (cudaLaunchAttribute){.id = cudaLaunchAttributeCooperative, .val.cooperative = 1};
  return (cudaLaunchConfig_t){.gridDim = {(unsigned)v->blocks, 1, 1},
                              .blockDim = {RDT_VOTED_THREADS, 1, 1},
                              .dynamicSmemBytes = RDT_WGMMA_SHARED,
                              .stream = stream,
                              .attrs = how,
                              .numAttrs = v->team == RDT_VOTED_BLOCK  ? 0
                                          : v->team == RDT_VOTED_GRID ? 2
                                                                      : 1};
}

/* Teams that are there at once. */
static rdt_status count_teams(rdt_voted *v, const rdt_cuda_device *d, int *teams, rdt_reason *why) {
  cudaLaunchAttribute how[HOWS];
  int clusters;
  *teams = d->sms;
  if (v->team == RDT_VOTED_BLOCK) return RDT_OK;
  const int together = pairs(v) ? RDT_VOTED_PAIR : RDT_VOTERS;
  v->blocks = d->sms / together * together;
  const cudaLaunchConfig_t l = launch_of(v, how, NULL);
  RDT_TRY(rdt_cuda_status(cudaOccupancyMaxActiveClusters(&clusters, code_of(v), &l), "clusters", why));
  *teams = pairs(v) ? clusters / RDT_VOTERS * RDT_VOTED_PAIR : clusters;
  return RDT_OK;
}

/* Of those warps of a team that have rows. */
static size_t kept_bytes(const rdt_voted *v, size_t teams) {
  const size_t groups = v->team == RDT_VOTED_BLOCK ? 1 : RDT_VOTED_GROUPS;
  return teams * PAGES * groups * 128 * RDT_VOTED_HELD * sizeof *v->kept;
}

void rdt_voted_keep(rdt_voted *v, bool keeps) {
  v->keeps = keeps;
  v->args.kept = keeps ? v->kept : NULL;
}

static rdt_status take_memory(rdt_voted *v, size_t teams, rdt_reason *why) {
  rdt_voted_args *a = &v->args;
  void *memory;
  const size_t tiles = (size_t)a->w.tiles, voters = teams * RDT_VOTED_WARPS * RDT_VOTERS;
  if (v->last) {
    a->found = rdt_thrice_found(v->last);
  } else {
    RDT_TRY(rdt_cuda_alloc(sizeof *a->found, &memory, why));
    a->found = memory;
  }
  RDT_TRY(rdt_cuda_alloc(TURNS * tiles * RDT_VOTERS * sizeof *a->sms, &memory, why));
  a->sms = memory;
  if (v->team != RDT_VOTED_SPLIT && v->team != RDT_VOTED_SKINNY && a->votes > 1) {
    RDT_TRY(rdt_cuda_alloc(kept_bytes(v, teams), &memory, why));
    v->kept = memory;
    rdt_voted_keep(v, RDT_VOTED_KEEPS);
  }
  if (v->team == RDT_VOTED_BLOCK) return RDT_OK;
  if (v->team == RDT_VOTED_SPLIT) {
    const size_t warps = tiles * RDT_VOTED_WARPS * RDT_VOTERS;
    if (a->votes == 1) return RDT_OK;
    RDT_TRY(rdt_cuda_alloc(RDT_VOTED_ROOMS * warps * sizeof *a->posts, &memory, why));
    a->posts = memory;
    RDT_TRY(rdt_cuda_alloc(2 * sizeof *a->runs, &memory, why));
    a->runs = memory;
    RDT_TRY(rdt_cuda_alloc(RDT_VOTED_ROOMS * warps * 32 * RDT_VOTED_HELD * sizeof *a->values, &memory, why));
    a->values = memory;
    return RDT_OK;
  }
  RDT_TRY(rdt_cuda_alloc(2 * voters * 2 * sizeof *a->posts, &memory, why));
  a->posts = memory;
  RDT_TRY(rdt_cuda_alloc(voters * sizeof *a->met, &memory, why));
  a->met = memory;
  RDT_TRY(rdt_cuda_alloc(voters * 32 * RDT_VOTED_HELD * sizeof *a->values, &memory, why));
  a->values = memory;
  return RDT_OK;
}

static rdt_status open_streams(rdt_voted *v, const rdt_tensor *out, rdt_reason *why) {
  RDT_TRY(rdt_thrice_create(out, NULL, NULL, NULL, NULL, &v->last, why));
  RDT_TRY(rdt_cuda_status(cudaEventCreateWithFlags(&v->begun, cudaEventDisableTiming), "cudaEventCreate", why));
  for (int i = 1; i < RDT_VOTERS; i++) {
    RDT_TRY(rdt_cuda_status(cudaStreamCreateWithFlags(&v->stream[i], cudaStreamNonBlocking), "cudaStreamCreate", why));
    RDT_TRY(rdt_cuda_status(cudaEventCreateWithFlags(&v->done[i], cudaEventDisableTiming), "cudaEventCreate", why));
  }
  return RDT_OK;
}

static rdt_status prepare(rdt_voted *v, const rdt_cuda_device *d, const rdt_problem *p, int votes, rdt_reason *why) {
  rdt_wgmma_args *w = &v->args.w;
  rdt_mma_args *a = &w->p;
  const rdt_epilogue *e = &p->epilogue;
  int teams;
  v->sms = d->sms;
  if (v->team == RDT_VOTED_CLUSTER && p->out.shape[0] <= 64) v->team = RDT_VOTED_SKINNY;
  const int rows = 64 * (v->team == RDT_VOTED_BLOCK || v->team == RDT_VOTED_SKINNY ? 1 : RDT_VOTED_GROUPS);
  v->type = p->in[0].dtype, v->columns = rdt_wide_columns(&p->in[1]);
  a->m = (int)p->out.shape[0], a->n = (int)p->out.shape[1], a->k = (int)p->in[0].shape[1];
  a->lda = rdt_wide_pitch(&p->in[0], false), a->ldb = rdt_wide_pitch(&p->in[1], v->columns);
  a->ldc = rdt_wide_pitch(&p->out, false);
  a->ldr = e->residual.rank >= 0 && a->m > 1 ? e->residual.stride[0] : a->n;
  a->alpha = (float)e->alpha, a->beta = (float)e->beta;
  a->relu = e->act.fn == RDT_FN_RELU;
  a->c_type = p->out.dtype == RDT_F32 ? RDT_MMA_F32 : v->type == RDT_F16 ? RDT_MMA_F16 : RDT_MMA_BF16;
  if (e->bias.rank >= 0)
    a->bias_type = e->bias.dtype == RDT_F32 ? RDT_MMA_F32 : e->bias.dtype == RDT_F16 ? RDT_MMA_F16 : RDT_MMA_BF16;
  const int side = pairs(v) ? RDT_VOTED_PAIR : 1;
  a->column_blocks = up(a->n, RDT_VOTED_COLUMNS * side) * side;
  w->row_blocks = up(a->m, rows);
  w->tiles = w->row_blocks * a->column_blocks;
  const int most = up(a->k, 64);
  v->args.ahead = w->tiles < AHEAD;
  v->args.votes = votes < 1 ? 1 : votes < most ? votes : most;
  for (int i = 0; i < 2; i++)
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(i ? rdt_voted_inject[v->team] : code_of(v),
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize, RDT_WGMMA_SHARED),
                            "shared memory", why));
  RDT_TRY(count_teams(v, d, &teams, why));
  if (teams > w->tiles) teams = w->tiles;
  if (teams < 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has no room for three blocks that vote with each other", d->name);
  v->blocks = teams * (v->team == RDT_VOTED_BLOCK || v->team == RDT_VOTED_SPLIT ? 1 : RDT_VOTERS);
  if (v->team == RDT_VOTED_SPLIT) RDT_TRY(open_streams(v, &p->out, why));
  return take_memory(v, (size_t)teams, why);
}

rdt_status rdt_voted_create(const rdt_cuda_device *d, const rdt_problem *p, int team, int votes, rdt_voted **result,
                            rdt_reason *why) {
  *result = NULL;
  RDT_TRY(rdt_voted_accept(d, p, why));
  rdt_voted *v = rdt_calloc(1, sizeof *v);
  if (!v) return rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  v->team = team, v->keeps = RDT_VOTED_KEEPS;
  const rdt_status status = prepare(v, d, p, votes, why);
  if (status == RDT_OK)
    *result = v;
  else
    rdt_voted_destroy(v);
  return status;
}

void rdt_voted_destroy(rdt_voted *v) {
  if (!v) return;
  for (int i = 1; i < RDT_VOTERS; i++) {
    if (v->stream[i]) (void)cudaStreamDestroy(v->stream[i]);
    if (v->done[i]) (void)cudaEventDestroy(v->done[i]);
  }
  if (v->begun) (void)cudaEventDestroy(v->begun);
  if (!v->last) rdt_cuda_free(v->args.found);
  rdt_thrice_destroy(v->last);
  rdt_cuda_free(v->args.sms), rdt_cuda_free(v->args.posts);
  rdt_cuda_free(v->args.met), rdt_cuda_free(v->args.values), rdt_cuda_free(v->hit);
  rdt_cuda_free(v->args.runs), rdt_cuda_free(v->kept);
  rdt_free(v);
}

/* ---- running ---- */

static rdt_status launch_one(rdt_voted *v, rdt_voted_args *a, const void *code, void *stream, rdt_reason *why) {
  cudaLaunchAttribute how[HOWS];
  const rdt_mma_args *p = &a->w.p;
  void *arguments[] = {a, &v->hit};
  RDT_TRY(rdt_wide_maps(v->type, &(rdt_wide){.columns = v->columns}, &a->w, why));
  cudaLaunchConfig_t l = launch_of(v, how, stream);
  if (v->team == RDT_VOTED_SKINNY)
    RDT_TRY(rdt_wide_map(&a->w.a, v->type, p->a, p->k, p->m, p->lda, up(p->m, 16) * 16, why));
  if (!pairs(v) && rdt_begins_early(stream))
    how[l.numAttrs++] = (cudaLaunchAttribute){.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                              .val.programmaticStreamSerializationAllowed = 1};
  return rdt_cuda_status(cudaLaunchKernelExC(&l, code, arguments), "a product that votes", why);
}

/* What a share of k has and finds; or, of vote == votes, what the last vote does. */
static void place_share(const rdt_voted *v, rdt_voted_args *a) {
  const int stages = up(a->w.p.k, 64), rooms = v->keeps ? RDT_VOTED_ROOMS : TURNS;
  for (int i = 0; i < RDT_VOTED_ROOMS; i++) a->room[i] = a->vote < i || i >= rooms ? -1 : (a->vote - i) % rooms;
  a->from = (int)((int64_t)stages * a->vote / a->votes);
  a->to = a->vote < a->votes ? (int)((int64_t)stages * (a->vote + 1) / a->votes) : stages;
}

static rdt_status launch_last(rdt_voted *v, rdt_voted_args a, bool hit, cudaStream_t stream, rdt_reason *why) {
  unsigned blocks;
  rdt_vote_args p = rdt_thrice_args(v->last, a.w.p.c, &blocks);
  const void *code = hit                  ? rdt_voted_last_inject
                     : v->type == RDT_F16 ? rdt_voted_last_f16[v->columns]
                                          : rdt_voted_last_bf16[v->columns];
  void *arguments[] = {&p, &a, &v->hit};
  const dim3 grid = {blocks < (unsigned)v->sms ? blocks : (unsigned)v->sms, 1, 1}, block = {RDT_VOTE_THREADS, 1, 1};
  a.vote = a.votes, a.copy = 0;
  a.w.extra = a.w.p.bias || a.w.p.residual || a.w.p.relu; /* rdt_wide_maps says so to the copies */
  place_share(v, &a);
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "the last vote", why);
}

/* A share of k: the copies side by side, each on a third of the blocks. */
static rdt_status launch_share(rdt_voted *v, rdt_voted_args a, const void *code, cudaStream_t stream, rdt_reason *why) {
  void *const out = a.w.p.c;
  place_share(v, &a);
  RDT_TRY(rdt_cuda_status(cudaEventRecord(v->begun, stream), "cudaEventRecord", why));
  for (a.copy = 0; a.copy < RDT_VOTERS; a.copy++) {
    const cudaStream_t on = a.copy ? v->stream[a.copy] : stream;
    if (a.copy) {
      RDT_TRY(rdt_cuda_status(cudaStreamWaitEvent(on, v->begun, 0), "cudaStreamWaitEvent", why));
      a.w.p.c = rdt_thrice_copy(v->last, a.copy, out);
    }
    RDT_TRY(launch_one(v, &a, code, on, why));
    if (a.copy) RDT_TRY(rdt_cuda_status(cudaEventRecord(v->done[a.copy], on), "cudaEventRecord", why));
  }
  for (int i = 1; i < RDT_VOTERS; i++)
    RDT_TRY(rdt_cuda_status(cudaStreamWaitEvent(stream, v->done[i], 0), "cudaStreamWaitEvent", why));
  return RDT_OK;
}

static rdt_status launch(rdt_voted *v, const rdt_operands *o, bool hit, void *stream, rdt_reason *why) {
  const void *code = hit ? rdt_voted_inject[v->team] : code_of(v);
  rdt_voted_args a = v->args;
  rdt_mma_args *p = &a.w.p;
  const rdt_epilogue *e = o->epilogue;
  p->a = o->in[0].data, p->b = o->in[1].data, p->c = o->out.data;
  p->bias = e && e->bias.rank >= 0 ? e->bias.data : NULL;
  p->residual = e && e->residual.rank >= 0 && e->beta != 0.0 ? e->residual.data : NULL;
  if (v->team != RDT_VOTED_SPLIT) return launch_one(v, &a, code, stream, why);
  for (a.vote = 0; a.vote < a.votes; a.vote++) RDT_TRY(launch_share(v, a, code, stream, why));
  return launch_last(v, a, hit, stream, why);
}

rdt_status rdt_voted_run(rdt_voted *v, const rdt_operands *o, void *stream, rdt_reason *why) {
  return launch(v, o, false, stream, why);
}

rdt_status rdt_voted_strike(rdt_voted *v, const rdt_operands *o, rdt_voted_hit *hit, void *stream, rdt_reason *why) {
  void *memory = v->hit;
  if (v->type != RDT_F16 || v->columns)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "faults are planted in products of f16 whose B has rows side by side");
  if (!memory) RDT_TRY(rdt_cuda_alloc(sizeof *hit, &memory, why));
  v->hit = memory;
  RDT_TRY(rdt_cuda_put(v->hit, hit, sizeof *hit, stream, why));
  RDT_TRY(launch(v, o, true, stream, why));
  return rdt_cuda_get(hit, v->hit, sizeof *hit, stream, why);
}

/* ---- what came out ---- */

rdt_status rdt_voted_read(rdt_voted *v, void *stream, rdt_thrice_ballot *b, rdt_vote_found *found, rdt_reason *why) {
  rdt_vote_found f;
  RDT_TRY(rdt_cuda_get(&f, v->args.found, sizeof f, stream, why));
  *b = rdt_thrice_ballot_of(&f);
  if (found) *found = f;
  return rdt_cuda_is_written(&f, sizeof f) ? rdt_cuda_clear(v->args.found, sizeof f, stream, why) : RDT_OK;
}

rdt_cuda_verdict *rdt_voted_verdict(const rdt_voted *v) {
  return &v->args.found->verdict;
}

int rdt_voted_votes(const rdt_voted *v) {
  return v->args.votes;
}

int rdt_voted_tiles(const rdt_voted *v) {
  return v->args.w.tiles;
}

int rdt_voted_blocks(const rdt_voted *v) {
  return v->blocks;
}

rdt_status rdt_voted_where(const rdt_voted *v, void *stream, uint32_t *sms, rdt_reason *why) {
  const size_t all = (size_t)v->args.w.tiles * RDT_VOTERS;
  const bool second = v->team == RDT_VOTED_SPLIT && v->args.votes % TURNS == 0;
  return rdt_cuda_get(sms, v->args.sms + (second ? all : 0), all * sizeof *sms, stream, why);
}
