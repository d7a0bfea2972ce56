/* Rows of A, wherever they lie, into the order in which tiles read them; what checks expect is summed on the way. Where
 * a step of the product takes two terms (TERMS), pairs of elements are packed as they are. */

typedef rdt_real V_pairs __attribute__((vector_size(BYTES), aligned(2), may_alias));
enum { CHAIN = 16 / TERMS /* vectors before lanes go to double */, GROUP = VL * TERMS /* their elements */ };

/* n vectors of each row, and `rest` elements behind them, with zeros to the end of their vector; sums: CHAIN vectors at
 * most, and sums[r] += dot, sums[MR + r] += squares. Those that are summed are loaded once more: packing that goes
 * wrong is a fault like others. Or they are summed and not stored. */
INLINE void pack_vectors(const void *const *rows, int64_t n, int64_t rest, rdt_real *to, const rdt_real *beta,
                         const rdt_real *rho, double *sums, const bool store, const rdt_dtype dtype) {
  V x[2 * MR];
  const void *p[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    p[r] = rows[r];
    x[r] = x[MR + r] = (V){0};
  }
#pragma GCC unroll 1
  for (int64_t i = 0; i < n * GROUP; i += GROUP, to += MR * VL) {
    V b[TERMS], q[TERMS];
    for (int t = 0; t < TERMS; ++t) {
      b[t] = sums ? load(beta + i + t * VL) : (V){0};
      q[t] = sums ? load(rho + i + t * VL) : (V){0};
    }
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const void *from = at(p[r], i, dtype);
      if (store) *(V *)(to + r * VL) = TERMS > 1 ? (V)(*(const V_pairs *)from) : load_as(from, 0, dtype);
      if (!sums) continue;
      __asm__ volatile("" : "+r"(from));
      for (int t = 0; t < TERMS; ++t) {
        const V y = load_as(from, t * VL, dtype);
        x[r] = MADD(y, b[t], x[r]);
        x[MR + r] = MADD(y * y, q[t], x[MR + r]);
      }
    }
  }
  if (dtype == RDT_REAL_DTYPE && TERMS == 1 && rest > 0) {
    const V b = sums ? load_first(beta + n * GROUP, rest) : (V){0}, q = sums ? load_first(rho + n * GROUP, rest) : b;
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const rdt_real *from = (const rdt_real *)p[r] + n * GROUP;
      if (store) *(V *)(to + r * VL) = load_first(from, rest);
      if (!sums) continue;
      __asm__ volatile("" : "+r"(from));
      const V y = load_first(from, rest);
      x[r] = MADD(y, b, x[r]);
      x[MR + r] = MADD(y * y, q, x[MR + r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; sums && r < 2 * MR; r += 4) add_totals(sums + r, x + r);
}

static __attribute__((noinline)) void pack_plain(const void *const *p, int64_t n, int64_t rest, rdt_real *to,
                                                 rdt_dtype dtype) {
  BY_SOURCE(dtype, pack_vectors, p, n, rest, to, NULL, NULL, NULL, true);
}

static __attribute__((noinline)) void pack_summed(const void *const *p, int64_t n, int64_t rest, rdt_real *to,
                                                  const rdt_real *beta, const rdt_real *rho, double sums[2 * MR],
                                                  rdt_dtype dtype) {
  BY_SOURCE(dtype, pack_vectors, p, n, rest, to, beta, rho, sums, true);
}

static __attribute__((noinline)) void sum_vectors(const void *const *p, int64_t n, int64_t rest, const rdt_real *beta,
                                                  const rdt_real *rho, double sums[2 * MR]) {
  pack_vectors(p, n, rest, NULL, beta, rho, sums, false, RDT_REAL_DTYPE);
}

/* One element of each row, as step u of the block. */
static void pack_element(const void *const *p, int64_t u, rdt_real *packed, const rdt_real *beta, const rdt_real *rho,
                         double sums[2 * MR], rdt_dtype dtype) {
  const int64_t step = u / TERMS;
  rdt_real *to = packed ? packed + step / VL * MR * VL + step % VL : NULL;
  for (int r = 0; r < MR; ++r) {
    const void *from = p[r];
#if NATIVE_DOT /* always packed */
    const uint32_t half = *(const uint16_t *)from, first = u % 2 ? ((const word *)to)[r * VL] : 0;
    ((word *)to)[r * VL] = u % 2 ? first | half << 16 : half;
#else
    if (to) to[r * VL] = element_as(from, 0, dtype);
#endif
    if (!beta) continue;
    __asm__ volatile("" : "+r"(from));
    const double y = (double)element_as(from, 0, dtype);
    sums[r] += y * (double)beta[u];
    sums[MR + r] += y * y * (double)rho[u];
  }
}

/* n elements of each of a tile's rows, which lie beside one another, in whole spans. What is summed is loaded once
 * more. */
INLINE void pack_lines(const void *x, int64_t step, int64_t rows, int64_t n, rdt_real *to, const rdt_real *beta,
                       const rdt_real *rho, double *sums, const rdt_dtype dtype) {
  enum { VECTORS = BESIDE / VL };
  double all[2 * BESIDE] = {0};
  V dot[VECTORS] = {{0}}, sq[VECTORS] = {{0}}, line[VECTORS];
  for (int64_t i = 0; i < n; i += SPAN, to += SPAN * MR) {
    rdt_real lines[SPAN * BESIDE], square[SQUARE * SQUARE];
    for (int t = 0; t < SPAN; ++t) {
      load_beside(at(x, (i + t) * step, dtype), rows, line, dtype);
      for (int v = 0; v < VECTORS; ++v) store(lines + t * BESIDE + v * VL, line[v]);
    }
    for (int t = 0; t < SPAN; t += SQUARE)
      for (int r = 0; r < MR; r += SQUARE) {
        const int high = MR - r < SQUARE ? MR - r : SQUARE;
        const rdt_real *const from = lines + t * BESIDE + r;
        if (VL >= (int)SQUARE) {
          turn_square(from, BESIDE, to + (t / VL * MR + r) * VL + t % VL, VL, high);
          continue;
        }
        turn_square(from, BESIDE, square, SQUARE, high); /* of two groups */
        for (int j = 0; j < high; ++j)
          for (int g = 0; g < SQUARE; g += VL) store(to + (g / VL * MR + r + j) * VL, load(square + j * SQUARE + g));
      }
    if (!beta) continue;
    __asm__ volatile("" : : : "memory");
    for (int t = 0; t < SPAN; ++t) {
      load_beside(at(x, (i + t) * step, dtype), rows, line, dtype);
      for (int v = 0; v < VECTORS; ++v) {
        dot[v] = MADD(line[v], spread(beta[i + t]), dot[v]);
        sq[v] = MADD(line[v] * line[v], spread(rho[i + t]), sq[v]);
      }
    }
    if (i / SPAN % CHAIN_SPANS != CHAIN_SPANS - 1 && i + SPAN < n) continue;
    for (int v = 0; v < VECTORS; ++v) {
      add_wide(all + v * VL, dot[v]);
      add_wide(all + BESIDE + v * VL, sq[v]);
      dot[v] = sq[v] = (V){0};
    }
  }
  for (int r = 0; beta && r < MR; ++r) {
    sums[r] += all[r];
    sums[MR + r] += all[BESIDE + r];
  }
}

static __attribute__((noinline)) void pack_beside(const void *x, int64_t step, int64_t rows, int64_t n, rdt_real *to,
                                                  const rdt_real *beta, const rdt_real *rho, double sums[2 * MR],
                                                  rdt_dtype dtype) {
  if (rows == MR)
    BY_SOURCE(dtype, pack_lines, x, step, MR, n, to, beta, rho, sums);
  else
    BY_SOURCE(dtype, pack_lines, x, step, rows, n, to, beta, rho, sums);
}

/* n elements of each row, `step` apart: steps u ... of the block. */
static void pack_run(const void **p, int64_t step, int64_t n, int64_t u, rdt_real *packed, const rdt_real *beta,
                     const rdt_real *rho, double sums[2 * MR], rdt_dtype dtype) {
  const bool some = TERMS == 1 && dtype == RDT_REAL_DTYPE;                        /* of a vector, at the end */
  if (some && step == 1 && u % GROUP == 0 && packed && n < (CHAIN + 1) * GROUP) { /* mostly */
    rdt_real *const to = packed + u * MR;
    if (beta)
      pack_summed(p, n / GROUP, n % GROUP, to, beta + u, rho + u, sums, dtype);
    else
      pack_plain(p, n / GROUP, n % GROUP, to, dtype);
    return;
  }
  const int64_t beside = TERMS == 1 && step != 1 ? count_beside(p, MR, dtype) : 0;
  for (int64_t count; n > 0; n -= count, u += count) {
    rdt_real *to = packed ? packed + u / TERMS * MR : NULL;
    int64_t vectors = n / GROUP;
    if (beside > 1 && u % VL == 0 && n >= SPAN) {
      count = n / SPAN * SPAN;
      pack_beside(p[0], step, beside, count, to, beta ? beta + u : NULL, beta ? rho + u : NULL, sums, dtype);
    } else if (u % GROUP || step != 1 || (!vectors && !some)) {
      count = 1;
      pack_element(p, u, packed, beta, rho, sums, dtype);
    } else {
      if (beta && vectors > CHAIN) vectors = CHAIN;
      const int64_t left = n - vectors * GROUP, rest = some && left < GROUP ? left : 0;
      count = vectors * GROUP + rest;
      if (!beta)
        pack_plain(p, vectors, rest, to, dtype);
      else if (to)
        pack_summed(p, vectors, rest, to, beta + u, rho + u, sums, dtype);
      else
        sum_vectors(p, vectors, rest, beta + u, rho + u, sums);
    }
    for (int r = 0; count < n && r < MR; ++r) p[r] = at(p[r], count * step, dtype);
  }
}

/* Columns of B that lie along the reduction, ld apart, as a panel. */
static void turn(const rdt_real *b, int64_t ld, int64_t cols, int64_t k, rdt_real *panel) {
  const int64_t whole = k / SQUARE * SQUARE;
  for (int64_t j = 0; j < cols; j += SQUARE) {
    const bool square = cols - j >= SQUARE;
    for (int64_t t = 0; square && t < whole; t += SQUARE)
      turn_square(b + j * ld + t, ld, panel + t * NR + j, NR, SQUARE);
    for (int64_t t = square ? whole : 0; t < k; ++t)
      for (int64_t i = j; i < j + SQUARE && i < cols; ++i) panel[t * NR + i] = b[i * ld + t];
  }
}

/* Elements [from, to) of the reduction, of the rows of a tile. packed = NULL: they are only summed. */
static void pack_tile(const rdt_native_strip *s, int64_t row, int64_t rows, int64_t from, int64_t to, rdt_real *packed,
                      bool sums) {
  const rdt_native_rows *a = &s->rows;
  const rdt_real *beta = sums ? s->beta + from : NULL, *rho = sums ? s->rho + from : NULL;
  double x[2 * MR] = {0};
  int64_t segment = a->segments > 1 ? from / a->length : 0, t = from - segment * a->length;
  for (int64_t u = 0, n; u < to - from; u += n, ++segment, t = 0) {
    const void *p[MR];
    n = to - from - u < a->length - t ? to - from - u : a->length - t;
    for (int r = 0; r < MR; ++r)
      p[r] = at(a->at[segment * a->count + (r < rows ? row + r : row + rows - 1)], t * a->step, a->dtype);
    pack_run(p, a->step, n, u, packed, beta, rho, x, a->dtype);
  }
  if (!sums) return;
  for (int64_t r = 0; r < rows; ++r) {
    s->expected.dot[row + r] = x[r] + (from ? s->expected.dot[row + r] : 0.0);
    s->expected.sq[row + r] = x[MR + r] + (from ? s->expected.sq[row + r] : 0.0);
  }
}
