/* Products that a library computed: rows of C against A times the signed sums of B's rows; integers modulo 2^32. A
 * group of threads takes a few rows of both, so that it has everything of their checks and compares them by itself.
 * Threads walk along the columns and take all rows of the group with each step: what belongs to a column is loaded
 * once. What follows the product is evaluated once more, and the bit-sum of the result formed on the way. */
#include "cuda/box/finish.h"

enum { WARPS = RDT_BOX_THREADS / 32 };

/* Columns that a thread takes: 16 bytes where it is fast. */
template <class T, bool fast>
struct rdt_step {
  static constexpr int V = fast ? 16 / (sizeof(T) == 1 ? 4 : sizeof(T)) : sizeof(T) == 8 ? 2 : 4;
};

template <class S>
struct rdt_weight { /* of a row of B: its signed sum, and the larger of its square and the sum of squares */
  S sum, square;
};

RDT_DEVICE int64_t rdt_batch_at(const rdt_rows_matrix &x, const rdt_rows_args &p, int batch) {
  if (p.batches == 1) return 0; /* divisions are long code */
  return batch / p.inner * x.outer + batch % p.inner * x.inner;
}

/* What a kernel is made for. fast: all rows lie side by side at multiples of 16 bytes, bias and residual are of raw's
 * type, and nothing is evaluated again; code that runs once costs as much as it is long. Else ends: 1 with bounds at
 * most, 2 with any activation. */
template <bool fast_, int ends_>
struct rdt_form {
  static constexpr bool fast = fast_, turned = false;
  static constexpr int ends = ends_;
};
struct rdt_turned { /* one more check of rows that have one, with other weights */
  static constexpr bool fast = false, turned = true;
  static constexpr int ends = 0;
};

/* Where a thread is: its group's first row, and its place among the group's threads. */
struct rdt_rows_place {
  int batch, row, rows, x, threads;
  template <int R>
  __device__ __forceinline__ void set(const rdt_rows_args &p, unsigned block) {
    threads = 1 << p.log_threads;
    const int blocks = (p.m + R - 1) / R, group = (int)(block * RDT_BOX_THREADS + threadIdx.x) >> p.log_threads;
    x = (int)threadIdx.x & (threads - 1);
    batch = p.batches == 1 ? group >= blocks : group / blocks; /* divisions are long code */
    row = (group - batch * blocks) * R;
    rows = min(p.m - row, R);
    if (batch >= p.batches) batch = 0, row = 0, rows = 0; /* nothing is left */
  }
};

/* R rows by V columns, fast; of rows that are not there what the first has. */
template <class T, int R, int V>
RDT_DEVICE void rdt_tile_load_packs(const rdt_rows_matrix &x, int64_t base, const rdt_rows_place &at, int column,
                                    T (&t)[R][V]) {
  const T *from = (const T *)x.data + base + at.row * x.row + column * x.column;
#pragma unroll
  for (int r = 0; r < R; r++) rdt_load_pack<T, V>(from + (r < at.rows ? r * x.row : 0), t[r]);
}

/* However they lie; what is not there is zero. */
template <class T, class W, int R, int V>
RDT_DEVICE void rdt_tile_load_as(const rdt_rows_matrix &x, int64_t base, const rdt_rows_place &at, int column,
                                 int columns, W (&t)[R][V]) {
  const T *from = (const T *)x.data + base + at.row * x.row + column * x.column;
  if (x.along == 2 && at.rows == R) {
#pragma unroll
    for (int v = 0; v < V; v++) {
      T y[R];
#pragma unroll
      for (int r = 0; r < R; r++) y[r] = T{};
      if (column + v < columns) rdt_load_pack<T, R>(from + v * x.column, y);
#pragma unroll
      for (int r = 0; r < R; r++) t[r][v] = (W)rdt_widen(y[r]);
    }
  } else {
#pragma unroll
    for (int r = 0; r < R; r++)
      rdt_load_as<W, T, V>(from + r * x.row, x.column, r < at.rows ? columns - column : 0, x.along == 1, t[r]);
  }
}
template <class T, class W, int R, int V>
RDT_DEVICE void rdt_tile_load(const T *, const rdt_rows_matrix &x, int64_t base, const rdt_rows_place &at, int column,
                              int columns, W (&t)[R][V]) {
  rdt_tile_load_as<T>(x, base, at, column, columns, t);
}
template <class W, int R, int V>
RDT_DEVICE void rdt_tile_load(const rdt_box_any *, const rdt_rows_matrix &x, int64_t base, const rdt_rows_place &at,
                              int column, int columns, W (&t)[R][V]) {
  switch (x.type) {
    case RDT_F16:
      return rdt_tile_load_as<rdt_box_f16>(x, base, at, column, columns, t);
    case RDT_BF16:
      return rdt_tile_load_as<rdt_box_bf16>(x, base, at, column, columns, t);
    case RDT_F8E4M3:
      return rdt_tile_load_as<rdt_box_e4m3>(x, base, at, column, columns, t);
    case RDT_F8E5M2:
      return rdt_tile_load_as<rdt_box_e5m2>(x, base, at, column, columns, t);
    case RDT_F32:
      return rdt_tile_load_as<float>(x, base, at, column, columns, t);
    default:
      __trap(); /* nobody has said */
  }
}

/* Sums over a warp of R numbers: lane i has that of number i / (32 / R). */
template <int R, class S>
RDT_DEVICE S rdt_fold(S (&x)[R]) {
  int width = 16;
#pragma unroll
  for (int half = R / 2; half >= 1; half /= 2, width /= 2) {
    const bool upper = (threadIdx.x & width) != 0;
#pragma unroll
    for (int i = 0; i < half; i++) {
      const S keep = upper ? x[i + half] : x[i], send = upper ? x[i] : x[i + half];
      x[i] = keep + __shfl_xor_sync(0xffffffffu, send, width);
    }
  }
  for (; width >= 1; width /= 2) x[0] += __shfl_xor_sync(0xffffffffu, x[0], width);
  return x[0];
}

/* Sums over a group, in a fixed order: its thread r < R has those of row r. */
template <int R, int Q, class S>
RDT_DEVICE void rdt_gather(const rdt_rows_place &at, S (&x)[Q][R], S (&sum)[Q]) {
  __shared__ S parts[Q][WARPS][R];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp - at.x / 32;
#pragma unroll
  for (int q = 0; q < Q; q++) {
    const S s = rdt_fold<R>(x[q]);
    if (lane % (32 / R) == 0) parts[q][warp][lane / (32 / R)] = s;
    sum[q] = 0;
  }
  __syncthreads();
  if (at.x >= R) return;
  for (int w = first; w < first + at.threads / 32; w++)
#pragma unroll
    for (int q = 0; q < Q; q++) sum[q] += parts[q][w][at.x];
}

/* What the rows should sum to; read: the bit-sum of A, where somebody asks. */
template <class F, class T, int R, class S>
RDT_DEVICE void rdt_rows_expect(const rdt_rows_args &p, const rdt_rows_place &at, S (&dot)[R], S (&square)[R],
                                uint64_t &read) {
  constexpr int V = rdt_step<T, F::fast>::V;
  const int64_t base = rdt_batch_at(p.a, p, at.batch);
  const rdt_weight<S> *weights = (const rdt_weight<S> *)p.weights;
  if (p.batches > 1) weights += (at.batch / p.inner * p.sets_outer + at.batch % p.inner * p.sets_inner) * (int64_t)p.k;
  const S least2 = (S)p.least2;
#pragma unroll 2
  for (int column = V * at.x; column < p.k; column += V * at.threads) {
    T t[R][V];
    typename rdt_box_type<T>::wide y[R][V];
    rdt_weight<S> w[V];
    if constexpr (F::fast) {
      rdt_tile_load_packs(p.a, base, at, column, t);
#pragma unroll
      for (int i = 0; i < R * V; i++) y[i / V][i % V] = rdt_widen(t[i / V][i % V]);
      rdt_load_pack<rdt_weight<S>, V>(weights + column, w);
    } else {
      rdt_tile_load((const T *)NULL, p.a, base, at, column, p.k, y);
#pragma unroll
      for (int v = 0; v < V; v++) w[v] = column + v < p.k ? weights[column + v] : rdt_weight<S>{0, 0};
    }
#pragma unroll
    for (int v = 0; v < V; v++)
#pragma unroll
      for (int r = 0; r < R; r++) {
        const S x = (S)y[r][v];
        dot[r] += x * w[v].sum;
        if (!rdt_box_type<T>::integer) square[r] += rdt_box_square(x, least2) * w[v].square;
      }
    if constexpr (F::fast && sizeof(T) == 2) {
      if (p.read) {
#pragma unroll
        for (int r = 0; r < R; r++)
          if (r < at.rows) read += rdt_box_share_of(t[r], (uint64_t)(base + (at.row + r) * p.a.row + column));
      }
    }
  }
}

/* A row of a tile, and the magnitudes of all that went into it. */
template <class W, int V, class S>
RDT_DEVICE void rdt_tile_sum(unsigned signs, const W (&x)[V], const W (&size)[V], S &sum, S &square) {
#pragma unroll
  for (int v = 0; v < V; v++) {
    const S y = (S)x[v], z = (S)size[v];
    sum += (signs >> v & 1u ? (S)-1 : (S)1) * y;
    square += z * z;
  }
}

RDT_DEVICE unsigned rdt_tile_signs(int column) {
  return rdt_box_signs((unsigned)column >> 5) >> (column & 31);
}

RDT_DEVICE float rdt_tile_turn(const rdt_rows_args &p, int column) {
  return column < p.n ? p.turns[column] : 0.0f;
}

/* What is added to a row of a tile: bias and residual as they are; where there is none, zero. */
template <class F, class C, class W, int V>
RDT_DEVICE void rdt_tile_bias(const rdt_rows_args &p, int column, W (&bias)[V]) {
#pragma unroll
  for (int v = 0; v < V; v++) bias[v] = 0;
  if (!p.finish.bias) return;
  if constexpr (F::fast)
    rdt_load_as<W, C, V>((const C *)p.finish.bias + column, 1, V, true, bias);
  else
    rdt_box_load<W, V>(p.finish.bias, column, 1, p.n - column, true, p.finish.bias_type, bias);
}

template <class F, class C, class W, int V>
RDT_DEVICE void rdt_tile_more(const rdt_rows_args &p, int64_t from, int column, W (&more)[V]) {
#pragma unroll
  for (int v = 0; v < V; v++) more[v] = 0;
  if (!p.residual.data) return;
  if constexpr (F::fast)
    rdt_load_as<W, C, V>((const C *)p.residual.data + from, 1, V, true, more);
  else
    rdt_box_load<W, V>(p.residual.data, from, p.residual.column, p.n - column, p.residual.along == 1,
                       p.finish.residual_type, more);
}

/* A row of the results of a tile once more: is it what is stored? */
template <class F, class W, int V>
RDT_DEVICE bool rdt_tile_verify(const rdt_rows_args &p, int64_t place, int column, W (&x)[V]) {
  const rdt_dtype type = p.finish.out;
  rdt_box_act<F::ends == 2, V, W>(p.finish, x);
  const rdt_box_words words = rdt_box_narrow(x, type);
  if (p.out.along == 1 && p.n - column >= V) return rdt_box_same(rdt_box_load_pack(p.out.data, place, type), words);
  bool same = true;
#pragma unroll
  for (int v = 0; v < V; v++)
    if (column + v < p.n) same = same && rdt_box_same_one(p.out.data, place + v * p.out.column, type, words, v);
  return same;
}

/* A bound, once more: what should be stored. */
template <class C, class W, int V>
RDT_DEVICE void rdt_tile_act(const rdt_box_finish &f, W (&y)[V], rdt_pack<C, V> &t) {
  constexpr rdt_dtype type = rdt_box_dtype((C *)NULL);
  rdt_box_act<false, V, W>(f, y);
  if constexpr (V >= 4) {
    const rdt_box_words low = rdt_box_narrow(y, type), high = rdt_box_narrow(y + V - 4, type);
    *(uint4 *)(void *)&t = V == 8 ? make_uint4(low.w[0], low.w[1], high.w[0], high.w[1])
                                  : make_uint4(low.w[0], low.w[1], low.w[2], low.w[3]);
  }
}

/* What the rows sum to; what follows, a second time. Elements that differ there, the first of V. Where it is fast, the
 * sum is formed of what should be stored: what is there is summed later. */
template <class F, class C, int R, class S>
RDT_DEVICE int2 rdt_rows_observe(const rdt_rows_args &p, const rdt_rows_place &at, S (&sum)[R], S (&square)[R],
                                 uint64_t &bits) {
  constexpr int V = rdt_step<C, F::fast>::V;
  typedef typename rdt_box_type<C>::wide W;
  const int64_t base = rdt_batch_at(p.raw, p, at.batch), to = rdt_batch_at(p.out, p, at.batch);
  const int64_t residual = rdt_batch_at(p.residual, p, at.batch);
  const W beta = (W)p.finish.beta;
  const bool adds = p.finish.bias || p.residual.data, acts = F::fast && p.finish.on && p.to.sum;
  int2 wrong = make_int2(-1, -1);
#pragma unroll 1
  for (int column = V * at.x; column < p.n; column += V * at.threads) {
    const unsigned signs = rdt_tile_signs(column);
    rdt_pack<C, V> t[R];
    W raws[R][V], bias[V];
    if constexpr (F::fast) {
#pragma unroll
      for (int r = 0; r < R; r++)
        t[r] = *(const rdt_pack<C, V> *)((const C *)p.raw.data + base + (at.row + (r < at.rows ? r : 0)) * p.raw.row +
                                         column);
    } else {
      rdt_tile_load((const C *)NULL, p.raw, base, at, column, p.n, raws);
    }
    rdt_tile_bias<F, C, W, V>(p, column, bias);
#pragma unroll
    for (int r = 0; r < R; r++) {
      W x[V], size[V], y[V];
      if (r >= at.rows) break;
#pragma unroll
      for (int v = 0; v < V; v++) {
        if constexpr (F::fast) raws[r][v] = (W)rdt_widen(t[r].x[v]);
        y[v] = x[v] = size[v] = raws[r][v];
      }
      if (adds) {
        W more[V];
        rdt_tile_more<F, C, W, V>(p, residual + (at.row + r) * p.residual.row + column * p.residual.column, column,
                                  more);
#pragma unroll
        for (int v = 0; v < V; v++) {
          const W raw = y[v], other = rdt_mul(beta, more[v]);
          if (F::fast || p.finish.inside) {
            x[v] = raw - bias[v] - other;
            size[v] = (raw < 0 ? -raw : raw) + (bias[v] < 0 ? -bias[v] : bias[v]) + (other < 0 ? -other : other);
          } else {
            y[v] = rdt_box_sum<W>(p.finish, raw, bias[v], more[v], p.residual.data != NULL);
          }
        }
      } else if (!F::fast && !p.finish.inside) {
#pragma unroll
        for (int v = 0; v < V; v++) y[v] = rdt_mul((W)p.finish.alpha, y[v]);
      }
      if constexpr (F::turned) {
        S turned[V], sizes[V];
#pragma unroll
        for (int v = 0; v < V; v++)
          turned[v] = rdt_mul((S)x[v], (S)rdt_tile_turn(p, column + v)), sizes[v] = (S)size[v];
        rdt_tile_sum<S, V, S>(signs, turned, sizes, sum[r], square[r]);
      } else {
        rdt_tile_sum<W, V, S>(signs, x, size, sum[r], square[r]);
      }
      if constexpr (F::turned) {
      } else if constexpr (F::fast) {
        if (acts) rdt_tile_act<C, W, V>(p.finish, y, t[r]);
        const uint4 w = *(const uint4 *)(const void *)&t[r];
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
        bits += rdt_box_share<4>(words, (uint64_t)(base + (at.row + r) * p.raw.row + column) * sizeof(C) / 4);
      } else {
        const int64_t place = to + (at.row + r) * p.out.row + column * p.out.column;
        if (!rdt_tile_verify<F, W, V>(p, place, column, y)) wrong = make_int2(at.row + r, column);
      }
    }
  }
  return wrong;
}

template <class A, class C, int R, class F>
static __global__ void __launch_bounds__(RDT_BOX_THREADS, 2) rows_check(const __grid_constant__ rdt_rows_tasks all) {
  typedef typename rdt_box_type<A>::sum S;
  unsigned block;
  const rdt_rows_args &p = all.task[rdt_box_task(all, block)];
  rdt_rows_place at;
  at.set<R>(p, block);
  S x[4][R] = {}, sum[4]; /* expected, its squares; observed, its squares */
  uint64_t bits = 0, read = 0;
  rdt_rows_expect<F, A, R, S>(p, at, x[0], x[1], read);
  const int2 wrong = rdt_rows_observe<F, C, R, S>(p, at, x[2], x[3], bits);
  rdt_gather<R, 4, S>(at, x, sum);
  if constexpr (F::fast) rdt_box_add<RDT_BOX_THREADS>(p.to, bits, p.read, read);
  rdt_place_of place = {at.batch * p.m + at.row + at.x, -1, 1, p.n, 0, p.k};
  typedef typename rdt_box_exact<S>::type D;
  D squares = sum[1] + rdt_box_lost(sum[1], p.k);
  const D seen = sum[3] + rdt_box_lost(sum[3], p.n);
  D expected = sum[0];
  if (p.finish.inside) rdt_box_scale(p.finish.alpha, expected, squares);
  if (at.x < at.rows && __builtin_expect(!rdt_box_passes(p.bound, sum[2], seen, expected, squares), 0))
    rdt_box_compare(p.bound, p.verdict, place, sum[2], seen, expected, squares);
  if (__builtin_expect(wrong.x < 0, 1)) return;
  place = {at.batch * p.m + wrong.x, wrong.y, 1, rdt_step<C, F::fast>::V, 0, p.k};
  rdt_complain(p.verdict, RDT_CUDA_CERTAIN, place, 0.0f, 0.0f, 0.0f, 0.0f);
}

/* What the rows sum to is given. */
template <class A, int R>
static __global__ void __launch_bounds__(RDT_BOX_THREADS, 2) rows_given(const __grid_constant__ rdt_rows_tasks all) {
  unsigned block;
  const rdt_rows_args &p = all.task[rdt_box_task(all, block)];
  rdt_rows_place at = {};
  at.set<R>(p, block);
  float x[2][R] = {}, sum[2], s = 0.0f, c2 = 0.0f;
  uint64_t read = 0;
  if (at.x < at.rows)
    for (int b = 0; b < p.given_blocks; b++) {
      const float2 part = ((const float2 *)p.given)[(int64_t)b * p.m + at.row + at.x];
      s += part.x, c2 += part.y;
    }
  rdt_rows_expect<rdt_form<true, 0>, A, R, float>(p, at, x[0], x[1], read);
  rdt_gather<R, 2, float>(at, x, sum);
  rdt_box_add<RDT_BOX_THREADS>({NULL, NULL}, 0, p.read, read);
  rdt_box_collect(p.tiles, block);
  if (at.x >= at.rows) return;
  const double expected = sum[0], squares = sum[1] + rdt_box_lost(sum[1], p.k), seen = c2 + rdt_box_lost(c2, p.n);
  if (__builtin_expect(rdt_box_passes(p.bound, s, seen, expected, squares), 1)) return;
  const rdt_place_of place = {at.row + at.x, -1, 1, p.n, 0, p.k};
  rdt_box_compare(p.bound, p.verdict, place, s, seen, expected, squares);
}

/* Sums in double, whatever they are kept in. */
template <class T>
static __global__ void __launch_bounds__(RDT_BOX_THREADS) rows_weights(const __grid_constant__ rdt_rows_tasks all) {
  constexpr int R = RDT_ROWS_FEW, V = rdt_step<T, false>::V;
  typedef typename rdt_box_type<T>::sum S;
  unsigned block;
  const rdt_rows_args &p = all.task[rdt_box_task(all, block)];
  rdt_rows_place at;
  at.set<R>(p, block);
  const int64_t base = rdt_batch_at(p.raw, p, at.batch);
  double x[2][R] = {}, sum[2];
#pragma unroll 2
  for (int column = V * at.x; column < p.n; column += V * at.threads) {
    typename rdt_box_type<T>::wide t[R][V];
    rdt_tile_load((const T *)NULL, p.raw, base, at, column, p.n, t);
#pragma unroll
    for (int r = 0; r < R; r++) {
      double y[V], turned[V];
#pragma unroll
      for (int v = 0; v < V; v++) {
        y[v] = (double)t[r][v];
        turned[v] = p.turns ? y[v] * (double)rdt_tile_turn(p, column + v) : y[v];
      }
      rdt_tile_sum<double, V, double>(rdt_tile_signs(column), turned, y, x[0][r], x[1][r]);
    }
  }
  rdt_gather<R, 2, double>(at, x, sum);
  if (at.x >= at.rows) return;
  const double own = sum[0] * sum[0], squares = sum[1] + p.least2 * p.n, most = own <= squares ? squares : own;
  rdt_weight<S> *w = (rdt_weight<S> *)p.weights + (int64_t)at.batch * p.m + at.row + at.x;
  if constexpr (sizeof(S) == 8)
    *w = {sum[0], most};
  else if constexpr (rdt_box_type<T>::integer)
    *w = {(uint32_t)(int64_t)sum[0], 0};
  else
    *w = {(float)sum[0], most < 0x1p-126 ? 0x1p-126f : __double2float_ru(most)}; /* NaN stays */
}

#define KERNEL(A, C, R, fast, ends) (const void *)rows_check<A, C, R, rdt_form<fast, ends>>
#define FAST(A, C) (many ? KERNEL(A, C, RDT_ROWS_MANY, true, 0) : KERNEL(A, C, RDT_ROWS_FEW, true, 0))
static const void *rdt_rows_fast(rdt_dtype a, rdt_dtype raw, bool many) {
  switch (a) {
    case RDT_F64:
      return FAST(double, double);
    case RDT_S8:
      return FAST(int8_t, int32_t);
    case RDT_F32:
      return FAST(float, float);
    case RDT_F16:
      return FAST(rdt_box_f16, rdt_box_f16);
    case RDT_BF16:
      return FAST(rdt_box_bf16, rdt_box_bf16);
    case RDT_F8E4M3:
      return raw == RDT_F16 ? FAST(rdt_box_e4m3, rdt_box_f16) : FAST(rdt_box_e4m3, rdt_box_bf16);
    default:
      return NULL;
  }
}

/* The others of 16 and 8 bits are one kernel: what rows that do not lie so take is the loads. */
#define ANY(A, C, ends) KERNEL(A, C, RDT_ROWS_FEW, false, ends)
extern "C" const void *rdt_rows_check(rdt_dtype a, rdt_dtype raw, int rows, int fast) {
  if (fast) return rdt_rows_fast(a, raw, rows == RDT_ROWS_MANY);
  switch (a) {
    case RDT_F64:
      return ANY(double, double, 1);
    case RDT_S8:
      return ANY(int8_t, int32_t, 1);
    case RDT_F32:
      return ANY(float, float, 2);
    case RDT_F16:
    case RDT_BF16:
    case RDT_F8E4M3:
    case RDT_F8E5M2:
      return ANY(rdt_box_any, rdt_box_any, 2);
    default:
      return NULL;
  }
}

#define TURNED(A) (const void *)rows_check<A, A, RDT_ROWS_FEW, rdt_turned>
extern "C" const void *rdt_rows_more(rdt_dtype a) {
  switch (a) {
    case RDT_F64:
      return TURNED(double);
    case RDT_F32:
      return TURNED(float);
    case RDT_F16:
    case RDT_BF16:
      return TURNED(rdt_box_any);
    default:
      return NULL;
  }
}

extern "C" const void *rdt_rows_given(rdt_dtype a, int rows) {
  const bool many = rows == RDT_ROWS_MANY;
  if (a == RDT_F16)
    return many ? (const void *)rows_given<rdt_box_f16, RDT_ROWS_MANY>
                : (const void *)rows_given<rdt_box_f16, RDT_ROWS_FEW>;
  if (a == RDT_BF16)
    return many ? (const void *)rows_given<rdt_box_bf16, RDT_ROWS_MANY>
                : (const void *)rows_given<rdt_box_bf16, RDT_ROWS_FEW>;
  return NULL;
}

extern "C" const void *rdt_rows_weights(rdt_dtype b) {
  switch (b) {
    case RDT_F64:
      return (const void *)rows_weights<double>;
    case RDT_F32:
      return (const void *)rows_weights<float>;
    case RDT_S8:
      return (const void *)rows_weights<int8_t>;
    case RDT_F16:
    case RDT_BF16:
    case RDT_F8E4M3:
    case RDT_F8E5M2:
      return (const void *)rows_weights<rdt_box_any>;
    default:
      return NULL;
  }
}
