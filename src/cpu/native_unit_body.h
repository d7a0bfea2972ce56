/* Checks whose unit is the register tile: what they need is formed in registers from what the tile has loaded anyway,
 * no operand is loaded and no sum is stored for them. The tile is half as high as that of other products: the rest of
 * the registers holds the extra accumulators. The result has the same bits, every element is the same chain.
 *
 *   one-sided   sum_r u_r C_r     =  (sum_r u_r a_r) B    a lane of each vector of B for itself
 *   two-sided   the same over the vectors too = (sum_r u_r a_r) (sum_v w_v B_v)                      lane by lane
 *   summed      sum_v C_rv        =  all products once more, of each row into one vector             lane by lane
 *   twice       C                 =  all products once more, bit by bit
 *
 * The signs u, w alternate. Accumulators rest between blocks of the reduction, these as those. */
enum { UNIT = MR / 2 };

INLINE int extras(const unsigned form) {
  return form == RDT_FORM_ONE_SIDED ? NV : form == RDT_FORM_TWO_SIDED ? 1 : form == RDT_FORM_SUMMED ? UNIT : UNIT * NV;
}

INLINE void step_unit(const rdt_real *a, const rdt_real *q, const unsigned form, V (*acc)[NV], V *more) {
  V b[NV], sum = {0};
#pragma GCC unroll 2
  for (int v = 0; v < NV; ++v) b[v] = *(const V *)(q + v * VL);
#pragma GCC unroll 16
  for (int r = 0; r < UNIT; ++r) {
    V x = spread(a[r * VL]);
    ALONE(x); /* sums of spread elements are not to be made of single ones */
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = MADD(x, b[v], acc[r][v]);
      if (form == RDT_FORM_TWICE) more[r * NV + v] = MADD(x, b[v], more[r * NV + v]);
      if (form == RDT_FORM_SUMMED) more[r] = MADD(x, b[v], more[r]);
    }
    if (r == 0)
      sum = x;
    else
      sum = r % 2 ? sum - x : sum + x;
  }
  if (form == RDT_FORM_ONE_SIDED)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) more[v] = MADD(sum, b[v], more[v]);
  if (form == RDT_FORM_TWO_SIDED) more[0] = MADD(sum, b[0] - b[1], more[0]);
}
_Static_assert(NV == 2, "two-sided: the difference of two vectors");

/* Terms [t, n) of a block: a is half of a packed tile. */
INLINE void multiply_unit(const rdt_real *a, int64_t t, const rdt_real *b, int64_t n, const unsigned form, V (*in)[NV],
                          V (*out)[NV], const V *from, V *to) {
  V acc[UNIT][NV], more[UNIT * NV];
  copy_tile(acc, in, UNIT, NV);
#pragma GCC unroll 16
  for (int i = 0; i < extras(form); ++i) {
    more[i] = from ? from[i] : (V){0};
    AGAIN(more[i]); /* the second time is no copy of the first */
  }
  for (; t % VL && t < n; ++t) step_unit(a + t / VL * MR * VL + t % VL, b + t * NR, form, acc, more);
  a += t / VL * MR * VL + t % VL;
  b += t * NR;
#pragma GCC unroll 1
  for (; t + VL <= n; t += VL, a += MR * VL, b += VL * NR)
#pragma GCC unroll 4
    for (int i = 0; i < VL; ++i) step_unit(a + i, b + i * NR, form, acc, more);
#pragma GCC unroll 1
  for (; t < n; ++t, ++a, b += NR) step_unit(a, b, form, acc, more);
  copy_tile(out, acc, UNIT, NV);
#pragma GCC unroll 16
  for (int i = 0; i < extras(form); ++i) to[i] = more[i];
}

typedef void unit_fn(const rdt_real *a, int64_t t, const rdt_real *b, int64_t n, V (*in)[NV], V (*out)[NV],
                     const V *from, V *to);

#define MULTIPLY_UNIT(name, form)                                                                                    \
  static __attribute__((noinline)) void name(const rdt_real *a, int64_t t, const rdt_real *b, int64_t n, V(*in)[NV], \
                                             V(*out)[NV], const V *from, V *to) {                                    \
    multiply_unit(a, t, b, n, form, in, out, from, to);                                                              \
  }
MULTIPLY_UNIT(multiply_one_sided, RDT_FORM_ONE_SIDED)
MULTIPLY_UNIT(multiply_two_sided, RDT_FORM_TWO_SIDED)
MULTIPLY_UNIT(multiply_twice, RDT_FORM_TWICE)
MULTIPLY_UNIT(multiply_summed, RDT_FORM_SUMMED)

INLINE unit_fn *unit_of(unsigned form) {
  return form == RDT_FORM_ONE_SIDED   ? multiply_one_sided
         : form == RDT_FORM_TWO_SIDED ? multiply_two_sided
         : form == RDT_FORM_TWICE     ? multiply_twice
                                      : multiply_summed;
}

/* ---- what must be equal ---- */

typedef struct unit_sums { /* of the lane that is worst in a unit so far, lane by lane */
  V seen, met, apart, sq;
} unit_sums;

/* NaN is infinitely far apart. */
INLINE void weigh_lanes(unit_sums *u, V seen, V met, V sq) {
  const I odd = seen - met != seen - met, infinite = (I)spread(INFINITY);
  const V d = MAX(seen - met, met - seen), apart = (V)((odd & infinite) | (~odd & (I)d));
  const I more = apart > u->apart;
  u->seen = (V)((more & (I)seen) | (~more & (I)u->seen));
  u->met = (V)((more & (I)met) | (~more & (I)u->met));
  u->apart = MAX(apart, u->apart);
  u->sq = MAX(u->sq, sq);
}

INLINE V signed_sum(V (*tile)[NV], int v, V *sq) {
  V sum = tile[0][v];
  *sq = sum * sum;
#pragma GCC unroll 16
  for (int r = 1; r < UNIT; ++r) {
    sum = r % 2 ? sum - tile[r][v] : sum + tile[r][v];
    *sq = MADD(tile[r][v], tile[r][v], *sq);
  }
  return sum;
}

static unit_sums sums_of(unsigned form, V (*tile)[NV], const V *more) {
  unit_sums u = {.apart = (V){0} - (rdt_real)1.0};
  V sq[NV], sum[NV];
  for (int v = 0; v < NV; ++v) sum[v] = signed_sum(tile, v, &sq[v]);
  if (form == RDT_FORM_ONE_SIDED)
    for (int v = 0; v < NV; ++v) weigh_lanes(&u, sum[v], more[v], sq[v]);
  else if (form == RDT_FORM_TWO_SIDED)
    weigh_lanes(&u, sum[0] - sum[1], more[0], sq[0] + sq[1]);
  for (int r = 0; form == RDT_FORM_SUMMED && r < UNIT; ++r)
    weigh_lanes(&u, tile[r][0] + tile[r][1], more[r], tile[r][0] * tile[r][0] + tile[r][1] * tile[r][1]);
  return u;
}

static bool same_bits(V (*tile)[NV], const V *more) {
  I differ = {0};
  for (int r = 0; r < UNIT; ++r)
    for (int v = 0; v < NV; ++v) differ |= (I)tile[r][v] ^ (I)more[r * NV + v];
  return is_zero(differ);
}

/* Books a unit: the lane where the two sides are furthest apart, and the largest squares of any lane. */
static void judge_unit(const rdt_native_strip *s, V (*tile)[NV], const V *more, int64_t row, int64_t col) {
  const rdt_native_sides *x = s->sides;
  const int64_t at = (s->first + row) / UNIT * x->across + col / NR;
  if (s->forms & RDT_FORM_TWICE) {
    x->observed.dot[at] = same_bits(tile, more) ? 0.0 : 1.0;
    x->expected.dot[at] = x->observed.sq[at] = 0.0;
    return;
  }
  const unit_sums u = sums_of(s->forms, tile, more);
  rdt_real apart[VL], sq[VL];
  store(apart, u.apart);
  store(sq, u.sq);
  int worst = 0;
  rdt_real most = sq[0];
  for (int l = 1; l < VL; ++l) {
    if (apart[l] > apart[worst]) worst = l;
    if (!(sq[l] <= most)) most = sq[l];
  }
  x->observed.dot[at] = (double)u.seen[worst];
  x->expected.dot[at] = (double)u.met[worst];
  x->observed.sq[at] = (double)most;
}
