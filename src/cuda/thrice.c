#include "cuda/thrice.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/trial.h"
#include "cuda/written.h"

enum { ALIGN = 16, BLOCKS_OF_ONE = 4 };

struct rdt_thrice {
  rdt_thrice_makers makers;
  rdt_vote_args args;
  const rdt_sm_groups *groups;
  bool beside; /* copies are made at the same time, on streams of their own */
  unsigned blocks;
  char *other[RDT_VOTERS];         /* of 1 and 2 */
  cudaStream_t stream[RDT_VOTERS]; /* NULL: the caller's */
  cudaEvent_t begun, done[RDT_VOTERS];
  rdt_vote_hit *hit; /* on the device; made when it is asked for */
};

static bool by_rows(const rdt_tensor *t) {
  return t->rank == 2 && (t->shape[1] <= 1 || t->stride[1] == 1) && (t->shape[0] <= 1 || t->stride[0] >= t->shape[1]);
}

rdt_status rdt_thrice_accept(const rdt_tensor *out, rdt_reason *why) {
  if (rdt_tensor_is_packed(out) || by_rows(out)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                  "tmr-kernel votes on results without gaps, or on rows whose elements lie side by side");
}

static rdt_vote_args args_of(const rdt_tensor *t) {
  const int64_t size = (int64_t)rdt_dtype_size(t->dtype), count = rdt_tensor_count(t), n = t->shape[t->rank - 1];
  const bool flat = rdt_tensor_is_packed(t) || t->shape[0] <= 1;
  return (rdt_vote_args){.rows = flat ? 1 : t->shape[0],
                         .row_bytes = size * (flat ? count : n),
                         .pitch = flat ? 0 : size * t->stride[0],
                         .columns = n > 0 ? n : 1,
                         .size = (int)size};
}

static bool many(const rdt_thrice_makers *m) {
  return m->of[0] != m->of[1] && m->of[0] != m->of[2] && m->of[1] != m->of[2];
}

static rdt_status open_streams(rdt_thrice *t, rdt_reason *why) {
  RDT_TRY(rdt_cuda_status(cudaEventCreateWithFlags(&t->begun, cudaEventDisableTiming), "cudaEventCreate", why));
  for (int i = 0; i < RDT_VOTERS; i++) {
    RDT_TRY(rdt_cuda_status(cudaEventCreateWithFlags(&t->done[i], cudaEventDisableTiming), "cudaEventCreate", why));
    if (t->groups)
      t->stream[i] = rdt_sm_groups_at(t->groups, i)->stream;
    else if (i > 0)
      RDT_TRY(
          rdt_cuda_status(cudaStreamCreateWithFlags(&t->stream[i], cudaStreamNonBlocking), "cudaStreamCreate", why));
  }
  return RDT_OK;
}

static rdt_status attempt(void *user, void *stream, rdt_reason *why) {
  return rdt_thrice_launch(((void **)user)[0], ((void **)user)[1], stream, why);
}

/* Side by side, or one after the other? Kernels that fill the device gain nothing, and streams have to meet. */
static rdt_status choose(rdt_thrice *t, const rdt_operands *trial, void *stream, rdt_reason *why) {
  double seconds[2];
  rdt_thrice_ballot b;
  void *user[2] = {t, (void *)(uintptr_t)trial};
  t->beside = t->groups != NULL;
  if (t->groups && trial) {
    RDT_TRY(attempt(user, stream, why)); /* what every group can run, and gives the same bits */
    RDT_TRY(rdt_thrice_read(t, stream, &b, why));
    if (b.lost[0] + b.lost[1] + b.lost[2] + b.undecided > 0)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "copies on different multiprocessors have other bits");
  }
  if (!many(&t->makers) || t->groups) return RDT_OK;
  for (int i = 0; i < 2; i++) {
    t->beside = i > 0;
    RDT_TRY(rdt_cuda_trial(attempt, user, stream, &seconds[i], why));
  }
  t->beside = seconds[1] < seconds[0];
  RDT_TRY(rdt_cuda_clear(t->args.found, sizeof *t->args.found, stream, why));
  return rdt_cuda_wait(stream, why);
}

static rdt_status prepare(rdt_thrice *t, const rdt_operands *trial, void *stream, rdt_reason *why) {
  int device = 0, sms = 0;
  void *memory;
  const size_t bytes = (size_t)(t->args.rows * (t->args.rows > 1 ? t->args.pitch : t->args.row_bytes));
  RDT_TRY(rdt_cuda_status(cudaGetDevice(&device), "cudaGetDevice", why));
  RDT_TRY(rdt_cuda_status(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "the device", why));
  const int64_t vectors = t->args.rows * (t->args.row_bytes / ALIGN + 1),
                wanted = (vectors + RDT_VOTE_THREADS - 1) / RDT_VOTE_THREADS;
  t->blocks = (unsigned)(wanted < (int64_t)sms * BLOCKS_OF_ONE ? wanted : (int64_t)sms * BLOCKS_OF_ONE);
  RDT_TRY(rdt_cuda_alloc(sizeof *t->args.found, &memory, why));
  t->args.found = memory;
  for (int i = 1; i < RDT_VOTERS; i++) {
    RDT_TRY(rdt_cuda_alloc(bytes + ALIGN, &memory, why));
    t->other[i] = memory;
  }
  if (many(&t->makers) || t->groups) RDT_TRY(open_streams(t, why));
  return choose(t, trial, stream, why);
}

rdt_status rdt_thrice_create(const rdt_tensor *out, const rdt_thrice_makers *makers, const rdt_sm_groups *groups,
                             const rdt_operands *trial, void *stream, rdt_thrice **result, rdt_reason *why) {
  *result = NULL;
  RDT_TRY(rdt_thrice_accept(out, why));
  rdt_thrice *t = rdt_calloc(1, sizeof *t);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  if (makers) t->makers = *makers;
  t->groups = groups;
  t->args = args_of(out);
  const rdt_status status = prepare(t, trial, stream, why);
  if (status == RDT_OK)
    *result = t;
  else
    rdt_thrice_destroy(t);
  return status;
}

void rdt_thrice_destroy(rdt_thrice *t) {
  if (!t) return;
  for (int i = 0; i < RDT_VOTERS; i++) {
    if (t->stream[i] && !t->groups) (void)cudaStreamDestroy(t->stream[i]);
    if (t->done[i]) (void)cudaEventDestroy(t->done[i]);
    rdt_cuda_free(t->other[i]);
  }
  if (t->begun) (void)cudaEventDestroy(t->begun);
  rdt_cuda_free(t->args.found), rdt_cuda_free(t->hit);
  rdt_free(t);
}

/* ---- running ---- */

/* Where out's first element is not at a multiple of 16, the copies' are neither. */
void *rdt_thrice_copy(const rdt_thrice *t, int copy, const void *out) {
  return t->other[copy] + (uintptr_t)out % ALIGN;
}

rdt_vote_args rdt_thrice_args(const rdt_thrice *t, void *out, unsigned *blocks) {
  rdt_vote_args a = t->args;
  a.copy[0] = out;
  for (int i = 1; i < RDT_VOTERS; i++) a.copy[i] = rdt_thrice_copy(t, i, out);
  a.vectors = (uintptr_t)out % ALIGN == 0 && a.pitch % ALIGN == 0;
  *blocks = t->blocks;
  return a;
}

static rdt_status vote_by(rdt_thrice *t, const void *code, void *out, void *stream, rdt_reason *why) {
  unsigned blocks;
  rdt_vote_args a = rdt_thrice_args(t, out, &blocks);
  void *arguments[] = {&a, &t->hit};
  const dim3 grid = {blocks, 1, 1}, block = {RDT_VOTE_THREADS, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "a vote", why);
}

rdt_status rdt_thrice_vote(rdt_thrice *t, void *out, void *stream, rdt_reason *why) {
  return vote_by(t, rdt_vote_code, out, stream, why);
}

rdt_status rdt_thrice_vote_struck(rdt_thrice *t, void *out, rdt_vote_hit *hit, void *stream, rdt_reason *why) {
  void *memory = t->hit;
  if (!memory) RDT_TRY(rdt_cuda_alloc(sizeof *hit, &memory, why));
  t->hit = memory;
  RDT_TRY(rdt_cuda_put(t->hit, hit, sizeof *hit, stream, why));
  RDT_TRY(vote_by(t, rdt_vote_inject, out, stream, why));
  return rdt_cuda_get(hit, t->hit, sizeof *hit, stream, why);
}

static rdt_status make_copy(rdt_thrice *t, int i, const rdt_operands *o, void *stream, rdt_reason *why) {
  rdt_operands as = *o;
  if (i > 0) as.out.data = rdt_thrice_copy(t, i, o->out.data);
  return t->makers.launch(t->makers.of[i], &as, stream, why);
}

/* On a stream of its own, which waits for what the caller's has been given, and is waited for. */
static rdt_status make_beside(rdt_thrice *t, int i, const rdt_operands *o, cudaStream_t stream, rdt_reason *why) {
  const cudaStream_t side = t->stream[i];
  RDT_TRY(rdt_cuda_status(cudaStreamWaitEvent(side, t->begun, 0), "cudaStreamWaitEvent", why));
  RDT_TRY(make_copy(t, i, o, side, why));
  RDT_TRY(rdt_cuda_status(cudaEventRecord(t->done[i], side), "cudaEventRecord", why));
  return rdt_cuda_status(cudaStreamWaitEvent(stream, t->done[i], 0), "cudaStreamWaitEvent", why);
}

rdt_status rdt_thrice_launch(rdt_thrice *t, const rdt_operands *o, void *stream, rdt_reason *why) {
  if (t->beside) RDT_TRY(rdt_cuda_status(cudaEventRecord(t->begun, stream), "cudaEventRecord", why));
  for (int i = 0; i < RDT_VOTERS; i++)
    RDT_TRY(t->beside && t->stream[i] ? make_beside(t, i, o, stream, why) : make_copy(t, i, o, stream, why));
  return rdt_thrice_vote(t, o->out.data, stream, why);
}

void *rdt_thrice_stream(const rdt_thrice *t, int copy) {
  return t->groups ? t->stream[copy] : NULL;
}

bool rdt_thrice_beside(const rdt_thrice *t) {
  return t->beside;
}

rdt_vote_found *rdt_thrice_found(const rdt_thrice *t) {
  return t->args.found;
}

rdt_cuda_verdict *rdt_thrice_verdict(const rdt_thrice *t) {
  return &t->args.found->verdict;
}

/* ---- what came out ---- */

rdt_thrice_ballot rdt_thrice_ballot_of(const rdt_vote_found *f) {
  rdt_thrice_ballot b;
  for (int i = 0; i < RDT_VOTERS; i++) {
    b.lost[i] = (int64_t)f->lost[i];
    b.first[i] = f->lost[i] ? (int64_t)~f->first[i] : -1;
  }
  b.undecided = (int64_t)f->undecided;
  b.first_undecided = f->undecided ? (int64_t)~f->first_undecided : -1;
  b.again = (int64_t)f->again;
  b.first_again = f->again ? (int64_t)~f->first_again : -1;
  const rdt_cuda_verdict *v = &f->verdict;
  const int64_t lost = b.lost[0] + b.lost[1] + b.lost[2] + b.again;
  if (lost != (int64_t)v->suspect || b.undecided != (int64_t)v->certain || lost + b.undecided != (int64_t)v->listed)
    b.undecided++, b.first_undecided = b.first_undecided < 0 ? 0 : b.first_undecided;
  return b;
}

rdt_status rdt_thrice_read(rdt_thrice *t, void *stream, rdt_thrice_ballot *b, rdt_reason *why) {
  rdt_vote_found f;
  RDT_TRY(rdt_cuda_get(&f, t->args.found, sizeof f, stream, why));
  *b = rdt_thrice_ballot_of(&f);
  return rdt_cuda_is_written(&f, sizeof f) ? rdt_cuda_clear(t->args.found, sizeof f, stream, why) : RDT_OK;
}
