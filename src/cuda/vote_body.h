/* The vote of three copies: one pass that reads them once, and writes nothing where they agree. Compiled as it is
 * shipped (vote.cu), and once more with a fault in it (vote_inject.cu). */
#ifndef RDT_CUDA_VOTE_BODY_H
#define RDT_CUDA_VOTE_BODY_H

#include "cuda/vote.h"

#include "cuda/device_common.h"

RDT_DEVICE bool same(uint4 a, uint4 b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0;
}

RDT_DEVICE uint64_t element(const void *at, int size) {
  switch (size) {
    case 1:
      return *(const uint8_t *)at;
    case 2:
      return *(const uint16_t *)at;
    case 4:
      return *(const uint32_t *)at;
    default:
      return *(const uint64_t *)at;
  }
}

RDT_DEVICE void put(void *at, int size, uint64_t x) {
  switch (size) {
    case 1:
      *(uint8_t *)at = (uint8_t)x;
      break;
    case 2:
      *(uint16_t *)at = (uint16_t)x;
      break;
    case 4:
      *(uint32_t *)at = (uint32_t)x;
      break;
    default:
      *(uint64_t *)at = x;
  }
}

RDT_DEVICE void first(uint64_t *place, int64_t e) {
  atomicMax((unsigned long long *)place, (unsigned long long)~(uint64_t)e);
}

RDT_DEVICE void count(uint64_t *counter, uint64_t n) {
  atomicAdd((unsigned long long *)counter, (unsigned long long)n);
}

struct rdt_vote_unhit {
  __device__ __forceinline__ int loser(int64_t, int loser) const {
    return loser;
  }
  __device__ __forceinline__ uint64_t elected(int64_t, uint64_t x) const {
    return x;
  }
  __device__ __forceinline__ uint64_t counted(int64_t, uint64_t n) const {
    return n;
  }
};

/* Where all three differ somebody may compute that element once more when the pass is done. Here nobody does. */
struct rdt_vote_sure {
  __device__ __forceinline__ bool take(int64_t) const {
    return false;
  }
};

/* Of element e. complaint: RDT_CUDA_OUTVOTED, with who lost; RDT_CUDA_AGAIN, RDT_CUDA_CERTAIN: -1. sm: the loser's; ~0:
 * nobody knows. n: times. */
RDT_DEVICE void rdt_vote_tell(rdt_vote_found *f, int64_t e, int row, int column, int complaint, int loser, uint32_t sm,
                              uint64_t n) {
  const bool again = complaint == (int)RDT_CUDA_AGAIN;
  count(again ? &f->again : loser < 0 ? &f->undecided : &f->lost[loser], n);
  first(again ? &f->first_again : loser < 0 ? &f->first_undecided : &f->first[loser], e);
  const uint32_t slot = atomicAdd(&f->verdict.listed, 1u);
  atomicAdd(complaint == (int)RDT_CUDA_CERTAIN ? &f->verdict.certain : &f->verdict.suspect, 1u);
  if (sm < RDT_CUDA_SMS) atomicAdd(&f->verdict.sm[sm], 1u);
  if (slot >= RDT_CUDA_LISTED) return;
  rdt_cuda_finding *l = &f->verdict.list[slot];
  l->complaint = complaint;
  l->sm = (int)sm, l->row = row, l->column = column, l->rows = l->columns = 1;
  l->k_first = l->k_last = loser;
  l->observed = l->expected = l->tau2 = l->tau0 = 0.0f;
}

/* Who computed it is not known; who votes is none of anybody's business. */
RDT_DEVICE void tell(const rdt_vote_args &p, int64_t e, int complaint, int loser, uint64_t n) {
  rdt_vote_tell(p.found, e, (int)(e / p.columns), (int)(e % p.columns), complaint, loser, ~0u, n);
}

/* Elements one by one, some of which may differ; all of them lie in one row. */
template <class Hit, class Doubts>
static __device__ __noinline__ void settle(const rdt_vote_args &p, Hit hit, Doubts doubts, int64_t row, int64_t from,
                                           int bytes) {
  for (int64_t b = from; b < from + bytes; b += p.size) {
    const int64_t at = row * p.pitch + b, e = (row * p.row_bytes + b) / p.size;
    char *const result = (char *)p.copy[0] + at;
    const uint64_t x = element(result, p.size), y = element((const char *)p.copy[1] + at, p.size),
                   z = element((const char *)p.copy[2] + at, p.size);
    if (x == y && x == z) continue;
    const int loser = hit.loser(e, x == y ? 2 : x == z ? 1 : y == z ? 0 : -1);
    if (loser < 0 && doubts.take(e)) continue;
    if (loser == 0) put(result, p.size, hit.elected(e, y));
    tell(p, e, loser < 0 ? (int)RDT_CUDA_CERTAIN : (int)RDT_CUDA_OUTVOTED, loser, hit.counted(e, 1));
  }
}

/* at_once: vectors of each copy that a thread has on their way */
template <int at_once, class Hit, class Doubts>
RDT_DEVICE void rdt_vote_all(const rdt_vote_args &p, Hit hit, Doubts doubts) {
  const int64_t threads = (int64_t)gridDim.x * RDT_VOTE_THREADS;
  const int64_t me = (int64_t)blockIdx.x * RDT_VOTE_THREADS + threadIdx.x;
  const int64_t whole = p.vectors ? p.row_bytes / 16 : 0; /* vectors of a row */
  const int64_t all = p.rows * whole;
  const bool flat = p.rows == 1;
  for (int64_t i = me; i < all; i += at_once * threads) {
    uint4 x[at_once][RDT_VOTERS];
    unsigned differ = 0;
#pragma unroll
    for (int u = 0; u < at_once; u++) {
      const int64_t v = i + u * threads < all ? i + u * threads : i, row = flat ? 0 : v / whole;
      const int64_t at = row * p.pitch + 16 * (v - row * whole);
#pragma unroll
      for (int c = 0; c < RDT_VOTERS; c++) x[u][c] = __ldcg((const uint4 *)((const char *)p.copy[c] + at));
    }
#pragma unroll
    for (int u = 0; u < at_once; u++)
      if (!(same(x[u][0], x[u][1]) && same(x[u][0], x[u][2])) && i + u * threads < all) differ |= 1u << u;
#pragma unroll 1
    for (int u = 0; differ >> u; u++)
      if (differ >> u & 1u) {
        const int64_t v = i + u * threads, row = flat ? 0 : v / whole;
        settle(p, hit, doubts, row, 16 * (v - row * whole), 16);
      }
  }
  const int64_t rest = (p.row_bytes - 16 * whole) / p.size; /* elements at the end of a row */
#pragma unroll 1
  for (int64_t i = me; i < p.rows * rest; i += threads)
    settle(p, hit, doubts, i / rest, 16 * whole + i % rest * p.size, p.size);
}

#endif
