/* The checks of products on mma.sync that threads make of their fragments, in registers; and how sums are compared. */
#ifndef RDT_CUDA_GEMM_MMA_CHECKS_H
#define RDT_CUDA_GEMM_MMA_CHECKS_H

#include "cuda/mend_device.h"
#include "cuda/sm80/gemm_mma_stage.h"

struct rdt_no_hit {
  static constexpr bool on = false;
};

RDT_DEVICE uint32_t rdt_bits(float x) {
  return __float_as_uint(x);
}
RDT_DEVICE uint32_t rdt_bits(int x) {
  return (uint32_t)x;
}
RDT_DEVICE uint64_t rdt_bits(double x) {
  return (uint64_t)__double_as_longlong(x);
}

/* Sums of integers wrap. */
RDT_DEVICE int rdt_plus(int x, int y) {
  return (int)((unsigned)x + (unsigned)y);
}
RDT_DEVICE int rdt_less(int x, int y) {
  return (int)((unsigned)x - (unsigned)y);
}
template <class R>
RDT_DEVICE R rdt_plus(R x, R y) {
  return x + y;
}
template <class R>
RDT_DEVICE R rdt_less(R x, R y) {
  return x - y;
}

RDT_DEVICE float rdt_infinite(float) {
  return __int_as_float(0x7f800000);
}
RDT_DEVICE double rdt_infinite(double) {
  return __longlong_as_double(0x7ff0000000000000);
}

/* ---- comparing ---- */

/* What is added to |a|^2. */
RDT_DEVICE float rdt_a2_floor(const rdt_device_bound &b, float) {
  return b.a2_floor;
}
RDT_DEVICE double rdt_a2_floor(const rdt_device_bound &, double) {
  return RDT_MMA_LEAST64;
}

/* Within the part of the bound that comes from the inputs alone, as nearly all are: no need to ask for more. Code that
 * runs once costs as much as it is long, for it has to be fetched. */
template <class R>
RDT_DEVICE bool rdt_passes(const rdt_device_bound &b, R s, R e, R q) {
  const R d = s - e, most = (R)b.surely * q;
  return d * d <= most && most < rdt_infinite(q);
}
RDT_DEVICE bool rdt_passes(const rdt_device_bound &, int s, int e, int) {
  return s == e;
}

/* See rdt_device_bound. What there is to complain of; 0: nothing. */
template <class R>
RDT_DEVICE int rdt_judge_sums(const rdt_device_bound &b, R s, R c2, R e, R a2, R q, R *tau2, R *tau0) {
  const R infinity = rdt_infinite(q), one = (R)1.0;
  const R root = sqrt(q), most = fmin(c2, (R)b.cap * q);
  const R s_most = fmin(fabs(s), sqrt((R)b.s_cap * most)), e_most = fmin(fabs(e), sqrt((R)b.e_cap) * root);
  const R e2 = e_most * e_most, over = q > (R)0.0 ? (R)b.theta / q : (R)0.0;
  R variance = (R)b.q * q + (R)b.c2 * most + (R)b.e2 * e2 + (R)b.a2 * a2;
  variance += (R)b.drift * (fmin(one, over * most) * most + fmin(one, over * e2) * e2);
  *tau0 = (R)b.q0 * root + (R)b.a0 * sqrt(a2);
  *tau2 = fmin(*tau0, (R)b.line * (s_most + e_most) + (R)b.lambda * sqrt(variance));
  const R residual = fabs(s - e);
  if (!(*tau0 < infinity)) return RDT_CUDA_CANNOT;
  return residual <= *tau2 ? 0 : residual <= *tau0 ? RDT_CUDA_SUSPECT : RDT_CUDA_CERTAIN;
}

/* The bound is returned. */
template <class R>
static __device__ __noinline__ R rdt_compare_sums(const rdt_mma_args &p, rdt_place_of at, R s, R c2, R e, R a2, R q) {
  R tau2, tau0;
  const int complaint = rdt_judge_sums(p.bound, s, c2, e, a2, q, &tau2, &tau0);
  if (complaint) rdt_complain(p.verdict, complaint, at, (float)s, (float)e, (float)tau2, (float)tau0);
  return tau2;
}
static __device__ __noinline__ int rdt_compare_sums(const rdt_mma_args &p, rdt_place_of at, int s, int, int e, int,
                                                    int) {
  if (s != e) rdt_complain(p.verdict, RDT_CUDA_CERTAIN, at, (float)s, (float)e, 0.0f, 0.0f);
  return 0;
}

/* ---- what a warp keeps beside its accumulators ---- */

RDT_DEVICE constexpr bool rdt_sums_a(int check) { /* over row fragments, as fragments */
  return check == RDT_MMA_THREAD2 || check == RDT_MMA_THREAD1A || check == RDT_MMA_COL;
}
RDT_DEVICE constexpr bool rdt_sums_b(int check) {
  return check == RDT_MMA_THREAD1 || check == RDT_MMA_THREAD2;
}
RDT_DEVICE constexpr bool rdt_of_thread(int check) {
  return rdt_sums_a(check) || rdt_sums_b(check) || check == RDT_MMA_REPLICATE1;
}

/* Two sets of accumulators. Where rows are twofold one has both, in its halves. */
template <class Tile, int check>
RDT_DEVICE constexpr bool rdt_twins() {
  return check == RDT_MMA_REPLICATE && !Tile::twofold;
}

template <class T, class Tile, int check>
struct rdt_extra {
  typedef typename T::sum R;
  static constexpr bool sums = rdt_of_thread(check), norms = !T::exact && (sums || check == RDT_MMA_SUMS);
  static constexpr bool together = sums && check != RDT_MMA_THREAD1; /* all rows of a thread are in each check */
  static constexpr int count = check == RDT_MMA_THREAD1                            ? Tile::MT
                               : check == RDT_MMA_THREAD1A || check == RDT_MMA_COL ? Tile::NT
                                                                                   : 1;
  static constexpr int levels = check == RDT_MMA_REPLICATE1              ? 1
                                : rdt_sums_a(check) != rdt_sums_b(check) ? (T::levels < 2 ? T::levels : 2)
                                                                         : T::levels;
  R level[sums ? levels : 1][sums ? count : 1][4]; /* of what is expected */
  typename T::norm norm[norms ? (together ? 1 : Tile::norms) : 1];
  R twin[rdt_twins<Tile, check>() ? Tile::MT : 1][rdt_twins<Tile, check>() ? Tile::NT : 1][4];

  __device__ __forceinline__ R expected(int i, int r) const {
    return T::join(level[0][i][r], levels > 1 ? level[levels > 1 ? 1 : 0][i][r] : (R)0,
                   levels > 2 ? level[levels > 2 ? 2 : 0][i][r] : (R)0);
  }
};

template <class T, class Tile>
struct rdt_fragments { /* of a step of k */
  typename T::reg a[Tile::MT][T::a_regs], b[Tile::NT][T::b_regs];
};

/* |a|^2 of each row. Warps that share rows share the work. */
template <class T, class Tile, int check>
RDT_DEVICE void rdt_norms(rdt_extra<T, Tile, check> &x, const typename T::reg (&a)[Tile::MT][T::a_regs], int column) {
  if constexpr (rdt_extra<T, Tile, check>::norms) {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
      if (Tile::columns == 1 || i % Tile::columns == column)
        x.norm[rdt_extra<T, Tile, check>::together ? 0 : i / Tile::columns].add(a[i]);
  }
}

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_check_step(rdt_extra<T, Tile, check> &x, const typename T::reg (&a)[Tile::MT][T::a_regs],
                               const typename T::reg (&b)[Tile::NT][T::b_regs], Hit &hit) {
  typename T::reg left[T::parts][T::a_regs], right[T::parts][T::b_regs];
  constexpr bool from_a = rdt_sums_a(check) && Tile::MT > 1, from_b = rdt_sums_b(check);
  if constexpr (from_b) {
    T::total(right, b);
    if constexpr (Hit::on) hit.checksum(right[0][0]);
  }
  if constexpr (from_a) {
    T::total(left, a);
    if constexpr (Hit::on && !from_b) hit.checksum(left[0][0]);
  }
  if constexpr (check == RDT_MMA_THREAD1 || (check == RDT_MMA_THREAD2 && !from_a)) {
#pragma unroll
    for (int i = 0; i < rdt_extra<T, Tile, check>::count; i++)
#pragma unroll
      for (int p = 0; p < T::parts; p++) T::product(RDT_WHOLE, p, x.level[T::level(0, p)][i], a[i], right[p]);
  } else if constexpr (check == RDT_MMA_THREAD2) {
#pragma unroll
    for (int p = 0; p < T::parts; p++)
#pragma unroll
      for (int q = 0; q < T::parts; q++)
        if (T::level(p, q) >= 0) T::product(p, q, x.level[T::level(p, q)][0], left[p], right[q]);
  } else if constexpr (from_a) {
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int p = 0; p < T::parts; p++) T::product(p, RDT_WHOLE, x.level[T::level(p, 0)][j], left[p], b[j]);
  } else if constexpr (check == RDT_MMA_REPLICATE1) {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) T::mma(x.level[0][0], a[i], b[j]);
  } else if constexpr (rdt_twins<Tile, check>()) {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) T::mma(x.twin[i][j], a[i], b[j]);
  }
}

/* ---- the checks of threads, at the end of their run of k ---- */

template <class R>
struct rdt_terms_of { /* a check */
  R s, e, c2, a2, rho2;
};

/* Calls fn(slot, r, terms) for each of a thread's checks: r, the place in a fragment, slot: the row fragment (thread1)
 * or the column fragment (thread1a, col). norm: of the thread's first row. */
template <class T, class Tile, int check, class Fn>
RDT_DEVICE void rdt_each_check(const rdt_mma_args &p, const typename T::sum (&c)[Tile::MT][Tile::NT][4],
                               const rdt_extra<T, Tile, check> &x, const typename T::sum *norm,
                               const typename T::sum *rho2, Fn fn) {
  typedef typename T::sum R;
  constexpr bool one_row = check == RDT_MMA_THREAD1, by_column = check == RDT_MMA_THREAD1A || check == RDT_MMA_COL;
  constexpr bool minus = check != RDT_MMA_REPLICATE1;
  const int g = (int)(threadIdx.x % 32) / 4;
#pragma unroll
  for (int slot = 0; slot < rdt_extra<T, Tile, check>::count; slot++) {
    rdt_terms_of<R> both[2];
#pragma unroll
    for (int r = 0; r < 4; r++) {
      rdt_terms_of<R> t = {0, x.expected(slot, r), 0, 0, 0};
      if constexpr (!T::exact) {
        t.a2 = rdt_a2_floor(p.bound, (R)0);
        t.rho2 = rho2[by_column ? 2 * slot + r % 2 : r % 2];
#pragma unroll
        for (int i = 0; i < (one_row ? 1 : Tile::MT); i++) t.a2 += norm[16 * (one_row ? slot : i) + 8 * (r / 2)];
      }
#pragma unroll
      for (int i = one_row ? slot : 0; i < (one_row ? slot + 1 : Tile::MT); i++)
#pragma unroll
        for (int j = by_column ? slot : 0; j < (by_column ? slot + 1 : Tile::NT); j++) {
          const bool other = minus && (!one_row && rdt_minus(i)) != (!by_column && rdt_minus(j));
          t.s = other ? rdt_less(t.s, c[i][j][r]) : rdt_plus(t.s, c[i][j][r]);
          if constexpr (!T::exact) t.c2 = fma(c[i][j][r], c[i][j][r], t.c2);
        }
      if constexpr (check != RDT_MMA_COL) {
        fn(slot, r, t);
      } else { /* over all rows of the warp, which lie in eight threads */
        const bool other = rdt_minus(g) != (r / 2 == 1);
        t.s = other ? rdt_less((R)0, t.s) : t.s, t.e = other ? rdt_less((R)0, t.e) : t.e;
        if (r < 2) {
          both[r] = t;
          continue;
        }
        rdt_terms_of<R> u = both[r - 2];
        u.s = rdt_plus(u.s, t.s), u.e = rdt_plus(u.e, t.e), u.c2 = rdt_plus(u.c2, t.c2), u.a2 = rdt_plus(u.a2, t.a2);
#pragma unroll
        for (int d = 4; d < 32; d *= 2) {
          u.s = rdt_plus(u.s, __shfl_xor_sync(0xffffffffu, u.s, d));
          u.e = rdt_plus(u.e, __shfl_xor_sync(0xffffffffu, u.e, d));
          if constexpr (!T::exact) {
            u.c2 = rdt_plus(u.c2, __shfl_xor_sync(0xffffffffu, u.c2, d));
            u.a2 = rdt_plus(u.a2, __shfl_xor_sync(0xffffffffu, u.a2, d));
          }
        }
        if (g == slot % 8) fn(slot, r - 2, u);
      }
    }
  }
}

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_check_thread(const rdt_mma_args &p, const typename T::sum (&c)[Tile::MT][Tile::NT][4],
                                 const rdt_extra<T, Tile, check> &x, const typename T::sum *norm,
                                 const typename T::sum *rho2, int row, int column, int k_first, int k_last, Hit &hit) {
  typedef typename T::sum R;
  constexpr bool one_row = check == RDT_MMA_THREAD1, by_column = check == RDT_MMA_THREAD1A || check == RDT_MMA_COL;
  const int g = (int)(threadIdx.x % 32) / 4, t = threadIdx.x % 4, r0 = row * Tile::WM + g;
  bool good = !Hit::on;
  rdt_each_check<T, Tile, check>(p, c, x, norm + r0, rho2, [&](int, int, const rdt_terms_of<R> &m) {
    good = rdt_passes(p.bound, m.s, m.e, (R)(m.a2 * m.rho2)) && good;
  });
  if (__builtin_expect(check == RDT_MMA_COL ? __all_sync(0xffffffffu, good) : good, 1)) return;
  rdt_each_check<T, Tile, check>(p, c, x, norm + r0, rho2, [&](int slot, int r, const rdt_terms_of<R> &m) {
    const rdt_place_of at = {(int)blockIdx.y * Tile::BM + (one_row ? r0 + 16 * slot + 8 * (r / 2)
                                                                   : row * Tile::WM + (check == RDT_MMA_COL ? 0 : g)),
                             (int)blockIdx.x * Tile::BN + column * Tile::WN +
                                 (by_column ? T::column(slot, t, r % 2) : T::column(0, t, r % 2)),
                             one_row ? 1 : Tile::WM,
                             by_column ? 1 : Tile::WN,
                             k_first,
                             k_last};
    R a2 = m.a2;
    if constexpr (rdt_sums_a(check) && !T::exact) /* sums of A that its type may not hold leave no bound */
      if (!(a2 * (R)Tile::MT < (R)T::most * (R)T::most)) a2 = rdt_infinite(a2);
    R q = (R)(a2 * m.rho2);
    if constexpr (Hit::on) q = hit.template squares<check>(slot, r, q);
    const R tau = rdt_compare_sums(p, at, m.s, m.c2, m.e, a2, q);
    if constexpr (Hit::on) hit.template bound<check>(slot, r, (double)tau);
  });
}

/* The second of an accumulator: of twofold rows that of the lower half. */
template <class T, class Tile>
RDT_DEVICE typename T::sum rdt_twin_of(const typename T::sum (&c)[Tile::MT][Tile::NT][4],
                                       const rdt_extra<T, Tile, RDT_MMA_REPLICATE> &x, int i, int j, int r) {
  if constexpr (Tile::twofold)
    return c[i][j][r + 2];
  else
    return x.twin[i][j][r];
}

template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_check_twin(const rdt_mma_args &p, const typename T::sum (&c)[Tile::MT][Tile::NT][4],
                               const rdt_extra<T, Tile, RDT_MMA_REPLICATE> &x, int row, int column, int k_first,
                               int k_last) {
  const int g = (int)(threadIdx.x % 32) / 4, t = threadIdx.x % 4;
  constexpr int each = Tile::twofold ? 2 : 4; /* of a fragment */
  auto differ = rdt_bits((typename T::sum)0);
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int r = 0; r < each; r++) differ |= rdt_bits(c[i][j][r]) ^ rdt_bits(rdt_twin_of<T, Tile>(c, x, i, j, r));
  if (__builtin_expect(!differ, 1)) return;
  rdt_place_of at = {0, 0, 1, 1, k_first, k_last}; /* the last that differs */
  float seen = 0.0f, twin = 0.0f;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int r = 0; r < each; r++) {
        const typename T::sum second = rdt_twin_of<T, Tile>(c, x, i, j, r);
        if (rdt_bits(c[i][j][r]) != rdt_bits(second)) {
          at.row = (int)blockIdx.y * Tile::BM + row * Tile::WM + 16 * i + 8 * (r / 2) + g;
          at.column = (int)blockIdx.x * Tile::BN + column * Tile::WN + T::column(j, t, r % 2);
          seen = (float)c[i][j][r], twin = (float)second;
        }
      }
  rdt_complain(p.verdict, RDT_CUDA_CERTAIN, at, seen, twin, 0.0f, 0.0f);
}

#endif
