/* What goes on between the launches of a product that is repaired: what there is to do, what bits there are, and what
 * that says about a fault. */
#include "cuda/mend_device.h"

enum { THREADS = RDT_MEND_THREADS };
static_assert((int)THREADS == (int)RDT_CUDA_SMS, "a thread a multiprocessor");

#define EACH(i, count) for (int i = (int)threadIdx.x; i < (count); i += THREADS)

/* ---- what there is to do ---- */

/* Rows of findings are those of all batches. */
static __device__ int row_of_tiles(const rdt_mend *m, int row) {
  return m->by_rows ? row / m->rows * m->each + row % m->rows / m->tile[0] : row / m->tile[0];
}

/* The tiles that a finding speaks of. Checks of threads lie within one; they name more rows than that has at times.
 * By rows, whole rows of tiles are computed, and columns of C are checked. */
static __device__ rdt_mend_place place_of(const rdt_mend *m, const rdt_cuda_finding *f) {
  rdt_mend_place p = {{0, 0}, {m->across, m->down}, 1, 1, 1u << f->complaint, 0};
  if (f->row >= 0) p.from[1] = row_of_tiles(m, f->row), p.to[1] = p.from[1] + 1;
  if (f->row >= 0 && m->by_rows) p.to[1] = min(m->down, row_of_tiles(m, f->row + max(f->rows, 1) - 1) + 1);
  if (f->column >= 0 && !m->by_rows) p.from[0] = f->column / m->tile[1], p.to[0] = p.from[0] + 1;
  return p;
}

static __device__ bool same_place(const rdt_mend_place &a, const rdt_mend_place &b) {
  return a.from[0] == b.from[0] && a.from[1] == b.from[1] && a.to[0] == b.to[0] && a.to[1] == b.to[1];
}

static __device__ unsigned kinds(const rdt_cuda_verdict *v) {
  return (v->suspect ? 1u << RDT_CUDA_SUSPECT : 0u) | (v->certain ? 1u << RDT_CUDA_CERTAIN : 0u) |
         (v->cannot ? 1u << RDT_CUDA_CANNOT : 0u);
}

/* Rows and columns that complain of the same are one place: what p shares rows with is taken into it. */
static __device__ void join(rdt_mend *m, rdt_mend_place *p) {
  for (int i = 0; i < m->n;) {
    const rdt_mend_place at = m->place[i];
    if (at.from[1] >= p->to[1] || p->from[1] >= at.to[1]) {
      i++;
      continue;
    }
    p->from[1] = min(p->from[1], at.from[1]), p->to[1] = max(p->to[1], at.to[1]), p->first |= at.first;
    m->place[i] = m->place[--m->n], i = 0;
  }
}

static __device__ void list_places(rdt_mend *m, const rdt_cuda_verdict *v) {
  m->n = 0;
  if (v->listed > RDT_CUDA_LISTED || v->listed == 0) { /* who knows where */
    m->place[m->n++] = {{0, 0}, {m->across, m->down}, 1, 1, kinds(v), 0};
  } else {
    for (unsigned i = 0; i < v->listed; i++) {
      rdt_mend_place p = place_of(m, &v->list[i]);
      if (m->by_rows) join(m, &p);
      int at = 0;
      while (at < m->n && !same_place(m->place[at], p)) at++;
      if (at < m->n)
        m->place[at].first |= p.first;
      else
        m->place[m->n++] = p;
    }
  }
  const rdt_mend_place *p = &m->place[0];
  m->outcome.told.whole += m->n == 1 && p->to[0] - p->from[0] == m->across && p->to[1] - p->from[1] == m->down;
}

/* By all threads. */
static __device__ void merge(rdt_cuda_verdict *to, const rdt_cuda_verdict *more) {
  to->sm[threadIdx.x] += more->sm[threadIdx.x];
  if (threadIdx.x != 0) return;
  to->suspect += more->suspect, to->certain += more->certain, to->cannot += more->cannot;
  for (unsigned i = 0; i < more->listed; i++, to->listed++)
    if (i < RDT_CUDA_LISTED && to->listed < RDT_CUDA_LISTED) to->list[to->listed] = more->list[i];
}

static __device__ void forget(rdt_cuda_verdict *v) {
  v->sm[threadIdx.x] = 0;
  if (threadIdx.x == 0) v->suspect = v->certain = v->cannot = v->listed = 0;
}

/* What nobody has taken yet. */
static __device__ void count_left(rdt_mend *m) {
  __shared__ unsigned left;
  const int blocks = m->across * m->down;
  if (threadIdx.x == 0) left = 0;
  __syncthreads();
  EACH(i, blocks)
  if (rdt_mend_find(m, i % m->across, i / m->across))
    for (int z = 0; z < m->splits; z++) {
      const int block = z * blocks + i;
      if (!(m->taken[block / 32] >> (block % 32) & 1)) atomicAdd(&left, 1u);
    }
  __syncthreads();
  if (threadIdx.x == 0) m->left = left, m->held = 0;
}

/* by_rows: the row of tiles to be computed next, of those in the earliest pass. */
static __device__ void choose(rdt_mend *m) {
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  EACH(y, m->down) {
    const rdt_mend_place *p = rdt_mend_find(m, 0, y);
    const int block = y * m->across;
    if (p && !(m->taken[block / 32] >> (block % 32) & 1))
      atomicMin(&first, (unsigned long long)p->pass << 32 | (unsigned)y);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    m->at = first == ~0ull ? -1 : (int)(first & 0xffffffffu), m->launch = (int)(first >> 32) - 1, m->apart = 0;
  }
  __syncthreads();
}

static __device__ void take(rdt_mend *m) {
  if (m->at < 0) return;
  EACH(x, m->across) {
    const int block = m->at * m->across + x;
    atomicOr(&m->taken[block / 32], 1u << (block % 32));
  }
}

/* One look where nobody complained. */
static __global__ void __launch_bounds__(THREADS)
    mend_look(rdt_mend *m, const rdt_cuda_verdict *v, cudaGraphConditionalHandle graph) {
  const int t = (int)threadIdx.x;
  if (!(v->suspect | v->certain | v->cannot)) return;
  EACH(i, (m->across * m->down * m->splits + 31) / 32) m->taken[i] = m->moved[i] = 0;
  m->lost[t] = v->sm[t] > 0, m->votes[t] = 0;
  if (t < RDT_CUDA_SMS / 32) m->avoided[t] = 0;
  merge(&m->outcome.told.seen, v);
  if (t == 0) {
    m->outcome.told.products++;
    list_places(m, v);
    m->open = m->n, m->spent = 0, m->launch = 0, m->avoiding = m->shut = 0, m->graph = graph;
    if (graph) cudaGraphSetConditional(graph, 1);
  }
  __syncthreads();
  count_left(m);
  if (m->by_rows) choose(m), take(m);
}

/* ---- bits ---- */

static __device__ uint64_t bits_at(const rdt_mend_matrix &c, const void *data, int64_t at) {
  return c.bytes == 1   ? ((const uint8_t *)data)[at]
         : c.bytes == 2 ? ((const uint16_t *)data)[at]
         : c.bytes == 4 ? ((const uint32_t *)data)[at]
                        : ((const uint64_t *)data)[at];
}

static __device__ uint64_t mixed(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdu, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

static __device__ int slot_of(int pass) { /* of sums; 0: before the first */
  return pass == 0 ? 0 : 1 + (pass & 1);
}

/* Each tile that is called for. */
static __global__ void __launch_bounds__(THREADS)
    mend_sum(rdt_mend *m, const __grid_constant__ rdt_mend_matrix c, int first) {
  __shared__ uint64_t warps[THREADS / 32];
  const int x = (int)blockIdx.x, y = m->by_rows ? m->at : (int)blockIdx.y;
  const rdt_mend_place *p = m->open ? rdt_mend_find(m, x, y) : nullptr;
  if (!p || (m->by_rows && first && p->pass > 1)) return;
  const int64_t batch = y / m->each;
  uint64_t sum = 0;
  bool apart = false;
  EACH(i, m->tile[0] * m->tile[1]) {
    const int row = y % m->each * m->tile[0] + i / m->tile[1], column = x * m->tile[1] + i % m->tile[1];
    if (row >= c.rows || column >= c.columns) continue;
    const uint64_t bits = bits_at(c, c.data, batch * c.next + row * c.pitch + column);
    sum += mixed(bits + mixed((uint64_t)i + 1));
    if (c.second && !first)
      apart = apart || bits != bits_at(c, c.second, batch * c.second_next + i / m->tile[1] * c.second_pitch + column);
  }
  if (apart) atomicOr(&m->apart, 1u);
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < THREADS / 32; w++) sum += warps[w];
  m->sums[(int64_t)(first ? 0 : slot_of(p->pass)) * m->columns * m->down + y * m->columns + x] = sum;
}

/* ---- what it was ---- */

typedef enum ending { GOES_ON, AGAIN, SETTLED } ending;

/* All that was complained of in this launch and lies in a place. */
static __device__ unsigned complaints_in(const rdt_mend *m, const rdt_mend_place *p) {
  const rdt_cuda_verdict *v = &m->now;
  unsigned found = 0;
  if (m->by_rows) return m->at >= p->from[1] && m->at < p->to[1] ? kinds(v) | m->apart : 0;
  if (v->listed > RDT_CUDA_LISTED) return kinds(v); /* who knows where */
  for (unsigned i = 0; i < v->listed; i++) {
    const rdt_mend_place f = place_of(m, &v->list[i]);
    if (f.from[0] < p->to[0] && p->from[0] < f.to[0] && f.from[1] < p->to[1] && p->from[1] < f.to[1]) found |= f.first;
  }
  return found;
}

/* Is there one that was wrong more than once? Of sums: that has computed more than all others of what changed; else -1.
 */
static __device__ int most_voted(const rdt_mend *m) {
  int best = -1;
  bool alone = false;
  for (int s = 0; s < RDT_CUDA_SMS; s++) {
    if (m->votes[s] < 1 || (best >= 0 && m->votes[s] < m->votes[best])) continue;
    alone = best < 0 || m->votes[s] > m->votes[best];
    best = s;
  }
  return alone ? best : -1;
}

static __device__ bool lost_again(const rdt_mend *m) {
  for (int s = 0; s < RDT_CUDA_SMS; s++)
    if (m->lost[s] > 1) return true;
  return m->by_sums != 0;
}

static __device__ void book(rdt_mend *m, const rdt_mend_place *p, bool changed) {
  rdt_cuda_mended *t = &m->outcome.told;
  const unsigned certain = 1u << RDT_CUDA_CERTAIN, cannot = 1u << RDT_CUDA_CANNOT;
  t->changed += changed;
  if (p->now & cannot) /* whatever else the place had */
    t->unchecked++, m->outcome.stands.cannot++;
  else if (!p->now && changed && p->pass > 1 && lost_again(m))
    t->persistent++;
  else if (changed)
    t->transient++;
  else if (!p->now || (p->first & certain))
    t->checker++;
  else
    t->rounding++;
}

enum {              /* what there is to say about the blocks of a place */
       LEFT = 1,    /* some have not run in this pass */
       OTHER = 2,   /* bits differ from those of the pass before */
       CHANGED = 4, /* from the first ones */
       STAYED = 8   /* since they are what they are, some have run on one multiprocessor alone */
};

/* Settled, or to be computed once more? Bits that come again, from other multiprocessors, and are within the rigorous
 * bound, are the result. By rows that is each pass's, whose bits are of two; as they have one B, and it may have been
 * loaded wrongly for both, another launch has to have had them too. */
static __device__ ending judge_place(rdt_mend *m, rdt_mend_place *p, unsigned state, bool last) {
  const unsigned certain = 1u << RDT_CUDA_CERTAIN, apart = 1;
  p->now |= complaints_in(m, p);
  if (state & LEFT) return GOES_ON;
  const bool same = p->pass > 1 && !(state & OTHER),
             again = m->by_rows ? same || !(state & CHANGED) : same && (!(state & STAYED) || last);
  if (p->now && ((p->now & (certain | apart)) || !again)) return AGAIN;
  book(m, p, (state & CHANGED) != 0);
  return SETTLED;
}

/* Who has computed what changed from one pass to the next; of a last one that is right, the one before alone. */
static __device__ void vote(rdt_mend *m, const rdt_mend_place *p, bool both) {
  const int tiles = m->columns * m->down;
  const int64_t blocks = (int64_t)m->across * m->down * m->splits;
  EACH(i, tiles) {
    const int x = i % m->columns, y = i / m->columns;
    const bool in = x >= p->from[0] && x < p->to[0] && y >= p->from[1] && y < p->to[1];
    if (!in || m->sums[(int64_t)tiles + i] == m->sums[(int64_t)tiles * 2 + i]) continue;
    for (int z = 0; z < m->splits; z++)
      for (int pass = p->pass - 1; pass <= p->pass - !both; pass++) {
        const unsigned sm = m->ran[(pass & 1) * blocks + (int64_t)(z * m->down + y) * m->across + x];
        if (sm < RDT_CUDA_SMS) atomicAdd(&m->votes[sm], 1u);
      }
  }
}

/* In the next launch. Half of all at most, or nobody would be left; of sums, a third of all where nobody is known,
 * another one each time, and in the first launch and the last nobody. */
static __device__ void avoid(rdt_mend *m) {
  const int t = (int)threadIdx.x;
  __shared__ unsigned most;
  if (t == 0) {
    most = 0;
    if (!m->by_rows) m->launch++;
  }
  __syncthreads();
  atomicMax(&most, m->votes[t]);
  __syncthreads();
  const bool third = t < m->sms && (t + m->launch) % 3 == 0 && m->launch > 0 && m->launch + 1 < RDT_MEND_LAUNCHES;
  const bool named = !m->by_sums && (!m->by_rows || kinds(&m->now)); /* who complains has multiplied */
  const bool mine = named ? rdt_mend_avoids(m, t) || m->now.sm[t] : most ? m->votes[t] == most : third;
  const int count = __syncthreads_count(mine), used = count <= m->sms / 2 ? count : 0;
  const unsigned bits = __ballot_sync(0xffffffffu, mine && used);
  if (t % 32 == 0) m->avoided[t / 32] = bits;
  if (t == 0) m->avoiding = (unsigned)used, m->shut = 0;
}

static __device__ void call_again(rdt_mend *m, const rdt_mend_place *p, bool other) {
  const int across = p->to[0] - p->from[0], down = p->to[1] - p->from[1];
  EACH(i, across * down * m->splits) {
    const int x = p->from[0] + i % across, y = p->from[1] + i / across % down, z = i / across / down;
    const int block = (z * m->down + y) * m->across + x;
    const uint32_t bit = 1u << (block % 32);
    atomicAnd(&m->taken[block / 32], ~bit);
    if (other) atomicAnd(&m->moved[block / 32], ~bit);
  }
}

static __device__ unsigned examine(rdt_mend *m, const rdt_mend_place *p) {
  const int across = p->to[0] - p->from[0], down = p->to[1] - p->from[1];
  const int64_t tiles = (int64_t)m->columns * m->down, blocks = (int64_t)m->across * m->down * m->splits;
  const int64_t now = slot_of(p->pass) * tiles, before = slot_of(p->pass - 1) * tiles;
  bool left = false, other = false, changed = false, stayed = false;
  EACH(i, across * down) {
    const int x = p->from[0] + i % across, y = p->from[1] + i / across, at = y * m->columns + x;
    for (int z = 0; z < m->splits; z++) {
      const int block = (z * m->down + y) * m->across + x;
      const uint32_t bit = 1u << (block % 32);
      left = left || !(m->taken[block / 32] & bit);
      if (p->pass > 1 && m->ran[block] != m->ran[blocks + block])
        atomicOr(&m->moved[block / 32], bit);
      else
        stayed = stayed || !(m->moved[block / 32] & bit);
    }
    if (x >= m->columns) continue;
    other = other || m->sums[now + at] != m->sums[before + at];
    changed = changed || m->sums[now + at] != m->sums[at];
  }
  unsigned state = 0;
  if (__syncthreads_or(left)) state |= LEFT;
  if (__syncthreads_or(other)) state |= OTHER;
  if (__syncthreads_or(changed)) state |= CHANGED;
  if (__syncthreads_or(stayed)) state |= STAYED;
  return state;
}

/* Nothing more is computed. Tickets of tiles that were left half done say so still. */
static __device__ void finish(rdt_mend *m, rdt_cuda_verdict *v) {
  const int open = m->open + m->spent;
  __syncthreads();
  if (open) {
    EACH(i, m->n_tickets) m->tickets[i] = 0;
    merge(&m->outcome.stands, v);
  }
  forget(v);
  if (threadIdx.x == 0) {
    rdt_cuda_mended *t = &m->outcome.told;
    t->left += (unsigned)open, m->open = 0;
    for (int i = 0; i < m->n; i++) t->passes = max(t->passes, (unsigned)m->place[i].pass);
    const int voted = most_voted(m);
    if (m->by_sums && voted >= 0) t->wrong[voted]++;
  }
  if (!m->by_sums && m->lost[threadIdx.x] > 1) m->outcome.told.wrong[threadIdx.x]++;
}

static __global__ void __launch_bounds__(THREADS) mend_judge(rdt_mend *m, rdt_cuda_verdict *v, int last) {
  __shared__ ending end;
  if (m->open == 0) {
    if (threadIdx.x == 0 && m->graph) cudaGraphSetConditional(m->graph, 0);
    return;
  }
  m->lost[threadIdx.x] += m->now.sm[threadIdx.x] > 0;
  m->outcome.told.seen.sm[threadIdx.x] += m->now.sm[threadIdx.x];
  __syncthreads();
  for (int i = 0; i < m->n; i++) {
    rdt_mend_place *p = &m->place[i];
    if (!p->open) continue;
    const bool ends = last || (m->by_rows && p->pass == RDT_MEND_LAUNCHES);
    const unsigned state = examine(m, p);
    if (threadIdx.x == 0) end = judge_place(m, p, state, ends);
    __syncthreads();
    if (m->by_sums && !m->by_rows && end != GOES_ON && p->pass > 1) vote(m, p, end == AGAIN); /* who ran it is known */
    if (end == AGAIN) call_again(m, p, state & OTHER);
    __syncthreads();
    if (threadIdx.x == 0) {
      if (end == SETTLED || (end == AGAIN && ends && m->by_rows)) p->open = 0, m->open--, m->spent += end == AGAIN;
      if (end == AGAIN && !ends) p->pass++, p->now = 0;
    }
    __syncthreads();
  }
  if (m->by_rows) choose(m);
  avoid(m);
  __syncthreads();
  forget(&m->now);
  count_left(m);
  __syncthreads();
  if (m->by_rows) take(m);
  if (m->open == 0 || last) finish(m, v);
  __syncthreads();
  if (threadIdx.x == 0 && m->graph && m->open == 0) cudaGraphSetConditional(m->graph, 0);
}

/* ---- by rows ---- */

/* A warp of a block has a line, as it lies in memory, in turns. */
#define EACH_LINE(i, count, block) \
  for (int i = (int)((block) * THREADS + threadIdx.x) / 32; i < (count); i += (int)gridDim.x * THREADS / 32)
#define EACH_LANE(i, count) for (int i = (int)threadIdx.x % 32; i < (count); i += 32)

/* The second time by another block: what is copied wrongly is on both sides of a check. Other batches have zeros. */
template <class E>
static __device__ void bring(const rdt_mend *m, const rdt_mend_rows &r) {
  const int tile = m->tile[0], first = m->at % m->each * tile, mine = m->at / m->each;
#pragma unroll 1
  for (int turn = 0; turn < 2 * r.batches; turn++) {
    const int half = turn % 2, batch = turn / 2;
    const E *const all = (const E *)r.all + batch * r.next;
    E *const part = (E *)r.part + batch * r.part_next + (r.turned ? half * tile : half * tile * r.part_pitch);
    EACH_LINE(i, r.turned ? r.width : tile, half ? gridDim.x - 1 - blockIdx.x : blockIdx.x)
    EACH_LANE(j, r.turned ? tile : r.width) {
      const int64_t row = first + (r.turned ? j : i);
      const E *const from = all + (r.turned ? i * r.pitch + row : row * r.pitch + j);
      part[i * r.part_pitch + j] = batch == mine && row < m->rows ? *from : (E)0;
    }
  }
}
template <class E>
static __device__ void put(const rdt_mend *m, const rdt_mend_rows &r) {
  const int tile = m->tile[0], first = m->at % m->each * tile;
  const int64_t batch = m->at / m->each;
  EACH_LINE(i, min(tile, m->rows - first), blockIdx.x) {
    const E *const from = (const E *)r.part + batch * r.part_next + i * r.part_pitch;
    E *const to = (E *)r.all + batch * r.next + (first + i) * r.pitch;
    EACH_LANE(j, r.width) to[j] = from[j];
  }
}

template <class Copy>
static __device__ void by_size(int bytes, const Copy &copy) {
  if (bytes == 1)
    copy(uint8_t());
  else if (bytes == 2)
    copy(uint16_t());
  else
    copy(uint32_t());
}

static __global__ void __launch_bounds__(THREADS, 1) mend_bring(rdt_mend *m, const __grid_constant__ rdt_mend_rows r) {
  if (m->open == 0 || m->at < 0) return;
  by_size(r.size, [&](auto element) { bring<decltype(element)>(m, r); });
}
static __global__ void __launch_bounds__(THREADS) mend_put(rdt_mend *m, const __grid_constant__ rdt_mend_rows r) {
  if (m->open == 0 || m->at < 0) return;
  by_size(r.size, [&](auto element) { put<decltype(element)>(m, r); });
}
static __global__ void mend_ran(rdt_mend *m) {
  m->held = m->left;
}

/* ---- keeping blocks away ---- */

static __global__ void mend_shut(rdt_mend *m) {
  if (m->open == 0 || m->avoiding == 0) return;
  const long long most = 100000, begun = clock64();
  if (rdt_mend_avoids(m, rdt_sm())) {
    atomicAdd(&m->shut, 1u);
    rdt_mend_wait(m);
  } else { /* or the next block would come here */
    while (rdt_mend_now(&m->shut) < m->avoiding && clock64() - begun < most) __nanosleep(100);
  }
}

static __global__ void mend_gate(rdt_mend *m) {
  const long long most = 200000, begun = clock64();
  if (m->open == 0) return;
  while (rdt_mend_now(&m->shut) < m->avoiding && clock64() - begun < most) __nanosleep(100);
}

extern "C" const void *const rdt_mend_look = (const void *)mend_look;
extern "C" const void *const rdt_mend_sum = (const void *)mend_sum;
extern "C" const void *const rdt_mend_judge = (const void *)mend_judge;
extern "C" const void *const rdt_mend_shut = (const void *)mend_shut;
extern "C" const void *const rdt_mend_gate = (const void *)mend_gate;
extern "C" const void *const rdt_mend_bring = (const void *)mend_bring;
extern "C" const void *const rdt_mend_put = (const void *)mend_put;
extern "C" const void *const rdt_mend_ran = (const void *)mend_ran;
