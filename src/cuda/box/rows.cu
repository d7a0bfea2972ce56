/* Products that a library computed: rows of C against A times the signed sums of B's rows; integers modulo 2^32. A
 * group of threads takes a few rows of both, so that it has everything of their checks and compares them by itself.
 * Threads walk along the columns and take all rows of the group with each step: what belongs to a column is loaded
 * once. */
#include "cuda/box/finish.h"

enum { WARPS = RDT_BOX_THREADS / 32 };

template <class T>
struct rdt_step { /* columns of a thread */
  static constexpr int V = sizeof(T) == 8 ? 2 : 4;
};

template <class S>
struct rdt_weight { /* of a row of B: its signed sum, and the larger of its square and the sum of squares */
  S sum, square;
};

RDT_DEVICE int64_t rdt_batch_at(const rdt_rows_matrix &x, const rdt_rows_args &p, int batch) {
  if (p.batches == 1) return 0; /* divisions are long code */
  return batch / p.inner * x.outer + batch % p.inner * x.inner;
}

/* What a kernel is made for. fast: all rows lie side by side at multiples of V elements, are as long, and bias and
 * residual are of the result's type O; code that runs once costs as much as it is long. ends: 0 no epilogue, 1 with
 * bounds at most, 2 with any activation. */
template <bool fast_, int ends_, class O_>
struct rdt_form {
  static constexpr bool fast = fast_;
  static constexpr int ends = ends_;
  typedef O_ O;
};

/* Where a thread is: its group's first row, and its place among the group's threads. */
struct rdt_rows_place {
  int batch, row, rows, x, threads;
  template <int R>
  __device__ __forceinline__ void set(const rdt_rows_args &p) {
    threads = 1 << p.log_threads;
    const int blocks = (p.m + R - 1) / R, group = (int)(blockIdx.x * RDT_BOX_THREADS + threadIdx.x) >> p.log_threads;
    x = (int)threadIdx.x & (threads - 1);
    batch = p.batches == 1 ? group >= blocks : group / blocks; /* divisions are long code */
    row = (group - batch * blocks) * R;
    rows = min(p.m - row, R);
    if (batch >= p.batches) batch = 0, row = 0, rows = 0; /* nothing is left */
  }
};

/* R rows by V columns; what is not there is zero, or what the last row has. */
template <bool fast, class T, int R, int V>
RDT_DEVICE void rdt_tile_load(const rdt_rows_matrix &x, int64_t base, const rdt_rows_place &at, int column, int columns,
                              T (&t)[R][V]) {
  const T *from = (const T *)x.data + base + at.row * x.row + column * x.column;
  if constexpr (fast) {
#pragma unroll
    for (int r = 0; r < R; r++) rdt_load_pack<T, V>(from + (r < at.rows ? r * x.row : 0), t[r]);
  } else if (x.along == 1 && columns - column >= V) {
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
      for (int v = 0; v < V; v++) t[r][v] = T{};
      if (r < at.rows) rdt_load_pack<T, V>(from + r * x.row, t[r]);
    }
  } else if (x.along == 2 && at.rows == R) {
#pragma unroll
    for (int v = 0; v < V; v++) {
      T y[R];
#pragma unroll
      for (int r = 0; r < R; r++) y[r] = T{};
      if (column + v < columns) rdt_load_pack<T, R>(from + v * x.column, y);
#pragma unroll
      for (int r = 0; r < R; r++) t[r][v] = y[r];
    }
  } else {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int v = 0; v < V; v++) {
        t[r][v] = T{};
        if (r < at.rows && column + v < columns) t[r][v] = from[r * x.row + v * x.column];
      }
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

/* What the rows should sum to. */
template <class F, class T, int R, class S>
RDT_DEVICE void rdt_rows_expect(const rdt_rows_args &p, const rdt_rows_place &at, S (&dot)[R], S (&square)[R]) {
  constexpr int V = rdt_step<T>::V;
  const int64_t base = rdt_batch_at(p.a, p, at.batch);
  const rdt_weight<S> *weights = (const rdt_weight<S> *)p.weights;
  if (p.batches > 1) weights += (at.batch / p.inner * p.sets_outer + at.batch % p.inner * p.sets_inner) * (int64_t)p.k;
  const S least2 = (S)p.least2;
#pragma unroll 2
  for (int column = V * at.x; column < p.k; column += V * at.threads) {
    T t[R][V];
    rdt_weight<S> w[V];
    rdt_tile_load<F::fast, T, R, V>(p.a, base, at, column, p.k, t);
    if constexpr (F::fast) {
      rdt_load_pack<rdt_weight<S>, V>(weights + column, w);
    } else {
#pragma unroll
      for (int v = 0; v < V; v++) w[v] = column + v < p.k ? weights[column + v] : rdt_weight<S>{0, 0};
    }
#pragma unroll
    for (int v = 0; v < V; v++)
#pragma unroll
      for (int r = 0; r < R; r++) {
        const S x = (S)rdt_widen(t[r][v]);
        dot[r] += x * w[v].sum;
        if (sizeof(T) > 1) square[r] += rdt_box_square(x, least2) * w[v].square;
      }
  }
}

template <class W, int R, int V, class S>
RDT_DEVICE void rdt_tile_sum(int column, const W (&x)[R][V], S (&sum)[R], S (&square)[R]) {
  const unsigned signs = rdt_box_signs((unsigned)column >> 5) >> (column & 31);
#pragma unroll
  for (int v = 0; v < V; v++) {
    const S sign = signs >> v & 1u ? (S)-1 : (S)1;
#pragma unroll
    for (int r = 0; r < R; r++) {
      const S y = (S)x[r][v];
      sum[r] += sign * y;
      square[r] += y * y;
    }
  }
}

/* The results of a tile, by whoever: as they are stored. */
template <class F, class W, int R, int V>
RDT_DEVICE void rdt_tile_end(const rdt_rows_args &p, const rdt_rows_place &at, int64_t residual, int column,
                             const W (&t)[R][V], rdt_box_words (&words)[R]) {
  typedef typename F::O O;
  const bool more = p.residual.data != NULL;
  const int count = p.n - column;
  W x[R * V], bias[V];
#pragma unroll
  for (int v = 0; v < V; v++) bias[v] = 0;
  if (p.finish.bias) {
    if constexpr (F::fast)
      rdt_load_as<W, O, V>((const O *)p.finish.bias + column, 1, V, true, bias);
    else
      rdt_box_load<W, V>(p.finish.bias, column, 1, count, true, p.finish.bias_type, bias);
  }
#pragma unroll
  for (int r = 0; r < R; r++) {
    W y[V];
    const int64_t from = residual + (at.row + r) * p.residual.row + column * p.residual.column;
#pragma unroll
    for (int v = 0; v < V; v++) y[v] = 0;
    if (more && r < at.rows) {
      if constexpr (F::fast)
        rdt_load_as<W, O, V>((const O *)p.residual.data + from, 1, V, true, y);
      else
        rdt_box_load<W, V>(p.residual.data, from, p.residual.column, count, p.residual.along == 1,
                           p.finish.residual_type, y);
    }
#pragma unroll
    for (int v = 0; v < V; v++) x[r * V + v] = rdt_box_sum<W>(p.finish, t[r][v], bias[v], y[v], more);
  }
  rdt_box_act<F::ends == 2, R * V, W>(p.finish, x);
#pragma unroll
  for (int r = 0; r < R; r++) words[r] = rdt_box_narrow(x + r * V, F::fast ? rdt_box_dtype((O *)NULL) : p.finish.out);
}

template <class F, int R, int V>
RDT_DEVICE void rdt_tile_store(const rdt_rows_args &p, const rdt_rows_place &at, int64_t base, int column,
                               const rdt_box_words (&words)[R]) {
  const rdt_dtype type = F::fast ? rdt_box_dtype((typename F::O *)NULL) : p.finish.out;
  void *to = (void *)p.out.data;
  const int64_t first = base + at.row * p.out.row + column * p.out.column;
#pragma unroll
  for (int r = 0; r < R; r++) {
    if (r >= at.rows) break;
    if (F::fast || (p.out.along == 1 && p.n - column >= V)) {
      rdt_box_store_pack(to, first + r * p.out.row, type, words[r]);
    } else {
#pragma unroll
      for (int v = 0; v < V; v++)
        if (column + v < p.n) rdt_box_store_one(to, first + r * p.out.row + v * p.out.column, type, words[r], v);
    }
  }
}

template <class F, int R, int V>
RDT_DEVICE void rdt_tile_verify(const rdt_rows_args &p, const rdt_rows_place &at, int64_t base, int column,
                                const rdt_box_words (&words)[R], int2 &wrong) {
  const rdt_dtype type = F::fast ? rdt_box_dtype((typename F::O *)NULL) : p.finish.out;
  const int64_t first = base + at.row * p.out.row + column * p.out.column;
#pragma unroll
  for (int r = 0; r < R; r++) {
    if (r >= at.rows) break;
    bool same = true;
    if (F::fast || (p.out.along == 1 && p.n - column >= V)) {
      same = rdt_box_same_pack(p.out.data, first + r * p.out.row, type, words[r]);
    } else {
#pragma unroll
      for (int v = 0; v < V; v++)
        if (column + v < p.n)
          same = same && rdt_box_same_one(p.out.data, first + r * p.out.row + v * p.out.column, type, words[r], v);
    }
    if (!same) wrong = make_int2(at.row + r, column);
  }
}

/* What the rows sum to; and their epilogue, a second time by other threads. Elements that differ there, the first of V.
 */
template <class F, class T, int R, class S>
RDT_DEVICE int2 rdt_rows_observe(const rdt_rows_args &p, const rdt_rows_place &at, S (&sum)[R], S (&square)[R]) {
  constexpr int V = rdt_step<T>::V;
  typedef typename rdt_box_type<T>::wide W;
  const int64_t base = rdt_batch_at(p.raw, p, at.batch);
  int2 wrong = make_int2(-1, -1);
  if constexpr (F::ends == 0) {
#pragma unroll 2
    for (int column = V * at.x; column < p.n; column += V * at.threads) {
      W t[R][V]; /* a raw result is as wide as it is computed with */
      rdt_tile_load<F::fast, W, R, V>(p.raw, base, at, column, p.n, t);
      rdt_tile_sum<W, R, V, S>(column, t, sum, square);
    }
    return wrong;
  }
  const int64_t to = rdt_batch_at(p.out, p, at.batch), residual = rdt_batch_at(p.residual, p, at.batch);
#pragma unroll 1
  for (int turn = 0; turn <= p.check; turn++) {
    const int mine = turn ? (at.x + at.threads / 2 + 1) & (at.threads - 1) : at.x;
    if (turn) {
      if (at.threads == 32)
        __syncwarp();
      else
        __syncthreads();
    }
#pragma unroll 1
    for (int column = V * mine; column < p.n; column += V * at.threads) {
      W t[R][V];
      rdt_box_words words[R];
      rdt_tile_load<F::fast, W, R, V>(p.raw, base, at, column, p.n, t);
      if (!turn) rdt_tile_sum<W, R, V, S>(column, t, sum, square);
      rdt_tile_end<F, W, R, V>(p, at, residual, column, t, words);
      if (turn)
        rdt_tile_verify<F, R, V>(p, at, to, column, words, wrong);
      else
        rdt_tile_store<F, R, V>(p, at, to, column, words);
    }
  }
  return wrong;
}

template <class A, class C, int R, class F>
static __global__ void __launch_bounds__(RDT_BOX_THREADS, R == RDT_ROWS_FEW ? 3 : 2)
    rows_check(const __grid_constant__ rdt_rows_args p) {
  typedef typename rdt_box_type<A>::sum S;
  rdt_rows_place at;
  at.set<R>(p);
  S x[4][R] = {}, sum[4]; /* expected, its squares; observed, its squares */
  if (p.check) rdt_rows_expect<F, A, R, S>(p, at, x[0], x[1]);
  const int2 wrong = rdt_rows_observe<F, C, R, S>(p, at, x[2], x[3]);
  if (!p.check) return;
  rdt_gather<R, 4, S>(at, x, sum);
  rdt_box_place place = {at.batch * p.m + at.row + at.x, -1, 1, p.n};
  const auto squares = sum[1] + rdt_box_lost(sum[1], p.k);
  if (at.x < at.rows && __builtin_expect(!rdt_box_passes(p.bound, sum[2], sum[0], squares), 0))
    rdt_box_compare(p.bound, p.verdict, place, p.k, sum[2], sum[3] + rdt_box_lost(sum[3], p.n), sum[0], squares);
  if (__builtin_expect(wrong.x < 0, 1)) return;
  place = {at.batch * p.m + wrong.x, wrong.y, 1, rdt_step<C>::V};
  rdt_box_complain(p.verdict, RDT_CUDA_CERTAIN, place, p.k, 0.0, 0.0, 0.0, 0.0);
}

/* Sums in double, whatever they are kept in. */
template <class T>
static __global__ void __launch_bounds__(RDT_BOX_THREADS) rows_weights(const __grid_constant__ rdt_rows_args p) {
  constexpr int R = RDT_ROWS_FEW, V = rdt_step<T>::V;
  typedef typename rdt_box_type<T>::sum S;
  rdt_rows_place at;
  at.set<R>(p);
  const int64_t base = rdt_batch_at(p.raw, p, at.batch);
  double x[2][R] = {}, sum[2];
#pragma unroll 2
  for (int column = V * at.x; column < p.n; column += V * at.threads) {
    T t[R][V];
    double y[R][V];
    rdt_tile_load<false, T, R, V>(p.raw, base, at, column, p.n, t);
#pragma unroll
    for (int i = 0; i < R * V; i++) y[i / V][i % V] = (double)rdt_widen(t[i / V][i % V]);
    rdt_tile_sum<double, R, V, double>(column, y, x[0], x[1]);
  }
  rdt_gather<R, 2, double>(at, x, sum);
  if (at.x >= at.rows) return;
  const double own = sum[0] * sum[0], squares = sum[1] + p.least2 * p.n, most = own <= squares ? squares : own;
  rdt_weight<S> *w = (rdt_weight<S> *)p.weights + (int64_t)at.batch * p.m + at.row + at.x;
  if constexpr (sizeof(S) == 8)
    *w = {sum[0], most};
  else if constexpr (sizeof(T) == 1)
    *w = {(uint32_t)(int64_t)sum[0], 0};
  else
    *w = {(float)sum[0], most < 0x1p-126 ? 0x1p-126f : __double2float_ru(most)}; /* NaN stays */
}

#define KERNEL(A, C, R, fast, ends, O) (const void *)rows_check<A, C, R, rdt_form<fast, ends, O>>
#define FAST(A, C, ends, O) \
  many ? KERNEL(A, C, RDT_ROWS_MANY, true, ends, O) : KERNEL(A, C, RDT_ROWS_FEW, true, ends, O)
#define ANY(A, C, ends) KERNEL(A, C, RDT_ROWS_FEW, false, ends, C)
#define BY_ENDS(A, C, O) return !fast ? ANY(A, C, 2) : ends == 2 ? (FAST(A, C, 2, O)) : (FAST(A, C, 1, O))
extern "C" const void *rdt_rows_check(rdt_dtype a, int rows, int fast, int ends) {
  const bool many = rows == RDT_ROWS_MANY;
  switch (a) {
    case RDT_F64:
      if (ends) return ANY(double, double, 1);
      return fast ? FAST(double, double, 0, double) : ANY(double, double, 0);
    case RDT_S8:
      if (ends) return ANY(int8_t, int32_t, 1);
      return fast ? FAST(int8_t, int32_t, 0, int32_t) : ANY(int8_t, int32_t, 0);
    case RDT_F32:
      if (!ends) return fast ? FAST(float, float, 0, float) : ANY(float, float, 0);
      BY_ENDS(float, float, float);
    case RDT_F16:
      BY_ENDS(rdt_box_f16, float, rdt_box_f16);
    case RDT_BF16:
      BY_ENDS(rdt_box_bf16, float, rdt_box_bf16);
    default:
      return NULL;
  }
}

extern "C" const void *rdt_rows_weights(rdt_dtype b) {
  switch (b) {
    case RDT_F64:
      return (const void *)rows_weights<double>;
    case RDT_F32:
      return (const void *)rows_weights<float>;
    case RDT_F16:
      return (const void *)rows_weights<rdt_box_f16>;
    case RDT_BF16:
      return (const void *)rows_weights<rdt_box_bf16>;
    case RDT_S8:
      return (const void *)rows_weights<int8_t>;
    default:
      return NULL;
  }
}
