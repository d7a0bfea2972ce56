/* Checks that kernels make on a device, step by step as the kernels make them, on data that is as bad as can be: what a
 * clean product's sums are apart is within the bounds of its kernel, and a fault above the floor is not. Tensor cores
 * are emulated as the probe knows them: products of a step and the accumulator are aligned to the largest, cut off at
 * f bits, added, and cut off again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "cuda/gemm_bounds.h"
#include "cuda/sm90/gemm_wgmma.h"
#include "util_sample.h"

enum { MOST_ROWS = 2048, MOST_COLUMNS = 128, MOST_K = 1024, PARTS = 6, TILE = 128 };

/* The last three: of columns, u A by B; HANDED: u A of what a product before has stored */
typedef enum where { MMA, WIDE, TALL, FUSED, MLP, STRIPS, SETTLED, HANDED } where;
typedef struct kind {
  const char *name;
  where where;
  rdt_dtype type;
  bool tf32;
  int check;
  bool scalar;
  int tile[7]; /* rows, columns, k of a stage, rows of a warp, columns of a warp, warps along k, threads */
  int m, n, k; /* of the product: rows that are emulated, columns, terms */
  int splits;  /* of columns: copies of sums */
} kind;

#define T64 \
  { 64, 64, 64, 32, 32, 2, 256 }
#define T16 \
  { 16, 32, 256, 16, 32, 8, 256 }
#define T128 \
  { 128, 128, 32, 64, 32, 1, 256 }
#define W128 \
  { 128, 128, 64, 16, 128, 1, 384 }
#define A128 /* four warps sum A */ \
  { 128, 128, 64, 16, 128, 1, 512 }
#define D128 \
  { 128, 128, 128, 16, 128, 1, 384 }
static const kind kinds[] = {
    {"f16 thread1", MMA, RDT_F16, false, RDT_MMA_THREAD1, false, T64, 1, 4, 256, 1},
    {"f16 thread1, short", MMA, RDT_F16, false, RDT_MMA_THREAD1, false, T64, 1, 4, 16, 1},
    {"f16 thread2", MMA, RDT_F16, false, RDT_MMA_THREAD2, false, T128, 4, 4, 256, 1},
    {"f16 thread2, short", MMA, RDT_F16, false, RDT_MMA_THREAD2, false, T128, 4, 4, 16, 1},
    {"f16 thread1a", MMA, RDT_F16, false, RDT_MMA_THREAD1A, false, T128, 4, 1, 256, 1},
    {"f16 col", MMA, RDT_F16, false, RDT_MMA_COL, false, T64, 32, 1, 256, 1},
    {"f16 replicate1", MMA, RDT_F16, false, RDT_MMA_REPLICATE1, false, T64, 2, 4, 256, 1},
    {"bf16 thread1", MMA, RDT_BF16, false, RDT_MMA_THREAD1, false, T64, 1, 4, 256, 1},
    {"bf16 thread2", MMA, RDT_BF16, false, RDT_MMA_THREAD2, false, T128, 4, 4, 64, 1},
    {"f32 thread1", MMA, RDT_F32, false, RDT_MMA_THREAD1, false, T128, 1, 4, 64, 1},
    {"f32 thread2", MMA, RDT_F32, false, RDT_MMA_THREAD2, false, T128, 4, 4, 256, 1},
    {"f32 replicate1", MMA, RDT_F32, false, RDT_MMA_REPLICATE1, false, T128, 4, 4, 64, 1},
    {"f64 thread1", MMA, RDT_F64, false, RDT_MMA_THREAD1, false, T64, 1, 4, 64, 1},
    {"f64 col", MMA, RDT_F64, false, RDT_MMA_COL, false, T64, 32, 1, 256, 1},
    {"f16 row", MMA, RDT_F16, false, RDT_MMA_SUMS, false, T64, 1, 128, 512, 1},
    {"f16 row, short", MMA, RDT_F16, false, RDT_MMA_SUMS, false, T64, 1, 64, 16, 1},
    {"f16 row, split-K", MMA, RDT_F16, false, RDT_MMA_SUMS, false, T16, 1, 32, 1024, 4},
    {"f16 global", MMA, RDT_F16, false, RDT_MMA_SUMS, true, T64, 64, 32, 64, 1},
    {"bf16 row", MMA, RDT_BF16, false, RDT_MMA_SUMS, false, T64, 1, 128, 512, 1},
    {"f32 row", MMA, RDT_F32, false, RDT_MMA_SUMS, false, T128, 1, 128, 512, 1},
    {"f64 row", MMA, RDT_F64, false, RDT_MMA_SUMS, false, T64, 1, 64, 512, 1},
    {"f64 global", MMA, RDT_F64, false, RDT_MMA_SUMS, true, T64, 64, 16, 16, 1},
    {"f16 wgmma row", WIDE, RDT_F16, false, RDT_MMA_SUMS, false, W128, 1, 128, 512, 1},
    {"f16 wgmma tile", WIDE, RDT_F16, false, RDT_WGMMA_TILE, false, W128, 1, 128, 512, 1},
    {"bf16 wgmma tile", WIDE, RDT_BF16, false, RDT_WGMMA_TILE, false, W128, 1, 128, 512, 1},
    {"f16 wgmma global", WIDE, RDT_F16, false, RDT_MMA_SUMS, true, W128, 64, 32, 64, 1},
    {"tf32 wgmma row", WIDE, RDT_F32, true, RDT_MMA_SUMS, false, {128, 128, 32, 16, 128, 1, 384}, 1, 128, 256, 1},
    {"f8e4m3 wgmma row", WIDE, RDT_F8E4M3, false, RDT_MMA_SUMS, false, D128, 1, 128, 512, 1},
    {"f8e5m2 wgmma row", WIDE, RDT_F8E5M2, false, RDT_MMA_SUMS, false, D128, 1, 128, 512, 1},
    {"f16 few columns", TALL, RDT_F16, false, RDT_WGMMA_TILE, false, {64, 32, 64, 16, 32, 1, 416}, 1, 8, 256, 1},
    {"f16 folded rows", TALL, RDT_F16, false, RDT_WGMMA_TILE, false, {64, 32, 64, 16, 32, 1, 416}, 1, 32, 256, 4},
    {"f16 fused", FUSED, RDT_F16, false, RDT_WGMMA_TILE, false, W128, 1, 64, 512, 1},
    {"f16 fused, cluster", FUSED, RDT_F16, false, RDT_WGMMA_TILE, false, W128, 1, 64, 1024, 8},
    {"bf16 fused", FUSED, RDT_BF16, false, RDT_WGMMA_TILE, false, W128, 1, 64, 512, 1},
    {"f16 chain of layers", MLP, RDT_F16, false, RDT_WGMMA_TILE, false, W128, 1, 32, 512, 8},
    {"f16 columns", STRIPS, RDT_F16, false, RDT_WGMMA_ROWCOL, false, W128, 128, 1, 256, 16},
    {"f16 columns, few", STRIPS, RDT_F16, false, RDT_WGMMA_ROWCOL, false, W128, 7, 1, 512, 16},
    {"f16 columns, short", STRIPS, RDT_F16, false, RDT_WGMMA_ROWCOL, false, W128, 128, 1, 16, 16},
    {"f16 columns, long", STRIPS, RDT_F16, false, RDT_WGMMA_ROWCOL, false, A128, 2048, 1, 16, 1},
    {"f16 columns, long, copies", STRIPS, RDT_F16, false, RDT_WGMMA_ROWCOL, false, A128, 2048, 1, 16, 16},
    {"f16 columns, last", SETTLED, RDT_F16, false, RDT_WGMMA_ROWCOL, false, A128, 300, 1, 64, 2},
    {"bf16 columns", STRIPS, RDT_BF16, false, RDT_WGMMA_ROWCOL, false, A128, 300, 1, 64, 2},
    {"bf16 columns, long", STRIPS, RDT_BF16, false, RDT_WGMMA_ROWCOL, false, W128, 1500, 1, 16, 1},
    {"f16 columns, handed on", HANDED, RDT_F16, false, RDT_WGMMA_ROWCOL, false, W128, 128, 1, 256, 16},
    {"f16 columns, handed on, long", HANDED, RDT_F16, false, RDT_WGMMA_ROWCOL, false, W128, 2048, 1, 16, 1},
    {"bf16 columns, handed on", HANDED, RDT_BF16, false, RDT_WGMMA_ROWCOL, false, W128, 300, 1, 64, 2},
    {"bf16 columns, last", SETTLED, RDT_BF16, false, RDT_WGMMA_ROWCOL, false, W128, 128, 1, 256, 16},
};

typedef enum family {
  NORMAL,
  POSITIVE,
  ALIGNED,
  LEADER,
  CANCELLING,
  BLOCKS,
  HEAVY,
  LOW, /* at the lower end of the normal range */
  SUBNORMAL,
  EQUALS, /* the row of A is a column of B */
  ALIKE,  /* columns of B are one */
  SPARSE,
  FAR, /* squares of one side vanish, products do not */
  FAMILIES
} family;
static const char *const family_name[] = {"normal", "positive",  "aligned", "leader", "cancelling", "blocks", "heavy",
                                          "low",    "subnormal", "equals",  "alike",  "sparse",     "far"};

static struct {
  const kind *kind;
  rdt_cuda_tile tile;
  rdt_cuda_kernel kernel;
  rdt_mma_args args;
  rdt_accumulator acc;
  rdt_columns columns;
  rdt_device_bound bound;
  double u, least; /* of the operands' type */
  double lean;     /* 1, -1: what rounds errs by as much as it may, up or down, and not to nearest; 0: it does not */
  double a[MOST_ROWS][MOST_K], b[MOST_COLUMNS][MOST_K], c[MOST_ROWS][MOST_COLUMNS];
  uint64_t seed;
} now;

/* ---- numbers ---- */

static double uniform(void) {
  now.seed = now.seed * 6364136223846793005u + 1442695040888963407u;
  return ((double)(now.seed >> 11) + 0.5) * 0x1p-53;
}

static double gauss(void) {
  const double u = uniform();
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * uniform());
}

static double as_operand(double x) {
  double y[1];
  if (now.kind->type == RDT_F64) return x;
  if (now.kind->tf32) { /* to nearest, ties away */
    int e;
    const double m = frexp(x, &e);
    return ldexp(round(ldexp(m, 11)), e - 11);
  }
  rdt_store(y, now.kind->type, 0, x);
  return rdt_load(y, now.kind->type, 0);
}

static double r(double x) { /* as accumulators and sums are */
  if (now.lean != 0.0) return x * (1.0 + now.lean * now.acc.u);
  return now.kind->type == RDT_F64 ? x : (double)(float)x;
}

/* ---- tensor cores ---- */

static double aligned(double a, double b) { /* what a product counts as when it is aligned */
  return a == 0.0 || b == 0.0 ? 0.0 : rdt_tilde(&now.acc, a) * rdt_tilde(&now.acc, b);
}

static double cut(double x, int bits) {
  return x == 0.0 || !isfinite(x) ? x : ldexp(trunc(ldexp(x, bits - ilogb(x))), ilogb(x) - bits);
}

static double step(double c, const double *a, const double *b, int n) {
  double most = fabs(c), sum = 0.0;
  for (int i = 0; i < n; i++) most = fmax(most, aligned(a[i], b[i]));
  if (most == 0.0) return c;
  if (now.lean != 0.0) {
    const double cuts = n * ldexp(1.0, -now.acc.f);
    for (int i = 0; i < n; i++) c += a[i] * b[i];
    return c * (1.0 + now.lean * (cuts + ldexp(1.0 + cuts, -now.acc.fo)));
  }
  const double unit = ldexp(1.0, ilogb(most) - now.acc.f);
  for (int i = 0; i < n; i++) sum += trunc(a[i] * b[i] / unit);
  return r(cut((sum + trunc(c / unit)) * unit, now.acc.fo));
}

static double chain(double c, const double *a, const double *b, int k) {
  if (now.acc.rounding == RDT_ROUND_NEAREST)
    for (int t = 0; t < k; t++)
      c = now.lean != 0.0             ? r(c + a[t] * b[t])
          : now.kind->type == RDT_F64 ? fma(a[t], b[t], c)
                                      : (double)fmaf((float)a[t], (float)b[t], (float)c);
  else
    for (int t = 0; t < k; t += now.acc.kb) c = step(c, a + t, b + t, k - t < now.acc.kb ? k - t : now.acc.kb);
  return c;
}

/* All that is multiplied for one output: shares of k, each of warps, added in order; 8-bit floats are promoted. */
static double multiply(const double *a, const double *b) {
  const kind *x = now.kind;
  const int warps = now.tile.warps_k, each = x->tile[2] / warps;
  double total = 0.0, ra[MOST_K], rb[MOST_K];
  if (rdt_dtype_is_f8(x->type)) {
    for (int t = 0; t < x->k; t += x->tile[2])
      total = r(total + chain(0.0, a + t, b + t, x->k - t < x->tile[2] ? x->k - t : x->tile[2]));
    return total;
  }
  if (x->where >= STRIPS) return chain(0.0, a, b, x->k);
  if (x->where == FUSED || x->where == MLP) {
    const int share = (x->k + x->splits - 1) / x->splits;
    for (int t = 0; t < x->k; t += share)
      total = r(total + chain(0.0, a + t, b + t, x->k - t < share ? x->k - t : share));
    return total;
  }
  for (int s = 0; s < now.args.splits; s++) {
    double part = 0.0;
    for (int w = 0; w < warps; w++) {
      int n = 0;
      for (int t = s * now.args.k_split; t < x->k && t < (s + 1) * now.args.k_split; t++)
        if (t % x->tile[2] / each == w) ra[n] = a[t], rb[n++] = b[t];
      part = r(part + chain(0.0, ra, rb, n));
    }
    total = r(total + part);
  }
  return total;
}

/* ---- data ---- */

static bool minus(int i) {
  return ((i ^ (i >> 1) ^ (i >> 2)) & 1) != 0;
}

static bool of_columns(void) {
  return now.kind->check == RDT_WGMMA_ROWCOL;
}

static bool of_thread(void) {
  return now.kind->check != RDT_MMA_SUMS && now.kind->check != RDT_WGMMA_TILE && !of_columns();
}

/* Of columns' rows: a bent function of four bits of the row's number, another one for each sixteen of a tile. */
static double bent_sign(int i) {
  static const int bit[] = {6, 3, 1, 0};
  const int row = i % now.tile.rows;
  const unsigned signs = rdt_columns_signs(i / now.tile.rows, row / 16 % 4 * 2 + row / 4 % 2);
  unsigned sign = rdt_columns_sign(signs, 0);
  for (int b = 0; b < 4; b++) sign ^= row >> bit[b] & 1 ? rdt_columns_sign(signs, b + 1) : 0;
  return (sign != 0) != ((row >> 6 & row >> 3 & 1) != (row >> 1 & row & 1)) ? -1.0 : 1.0;
}

static double row_sign(int i) {
  const int each = now.kind->tile[3] / 16; /* rows of a thread; col: of all of a warp's */
  if (of_columns()) return bent_sign(i);
  if (now.kind->check == RDT_MMA_REPLICATE1) return 1.0;
  if (now.kind->check == RDT_MMA_COL) return minus(i % each) != minus(i / each) ? -1.0 : 1.0;
  if (of_thread()) return minus(i) ? -1.0 : 1.0;
  return now.kind->scalar && rdt_mma_sign((unsigned)i) ? -1.0 : 1.0;
}

static double column_sign(int j) {
  if (now.kind->check == RDT_MMA_REPLICATE1 || of_columns()) return 1.0;
  if (of_thread()) return minus(j) ? -1.0 : 1.0;
  return (now.kind->where == WIDE ? rdt_wide_sign(j, now.kind->tile[1]) : rdt_mma_sign((unsigned)j)) ? -1.0 : 1.0;
}

static double draw(family f, bool left, int t) {
  const double x = gauss(), full = 1.0 + uniform(), k = now.kind->k;
  switch (f) {
    case POSITIVE:
      return fabs(x);
    case ALIGNED:
      return full;
    case LEADER: /* what follows is as small as loses most */
      return t == 0 ? 16.0 : full * ldexp(1.0, -(int)(8.0 * uniform()) - (left ? 0 : 4));
    case CANCELLING:
      return left ? x : x;
    case BLOCKS:
      return (left && t >= k / 2 ? -1.0 : 1.0) * fabs(x);
    case HEAVY:
      return x * exp(2.0 * gauss());
    case LOW:
      return x * 8.0 * now.least;
    case SUBNORMAL:
      return left ? x * now.least * 0.125 : x;
    case FAR:
      return now.kind->type == RDT_F64                                          ? ldexp(x, left ? -600 : 500)
             : rdt_dtype_size(now.kind->type) == 1 || now.kind->type == RDT_F16 ? x
                                                                                : ldexp(x, left ? -80 : 55);
    case SPARSE:
      return left || of_columns() || uniform() < 0.02 ? x : 0.0;
    default:
      return x;
  }
}

static void fill(family f) {
  const kind *x = now.kind;
  for (int i = 0; i < x->m; i++)
    for (int t = 0; t < x->k; t++) now.a[i][t] = as_operand(draw(f, true, t) * (f == ALIGNED ? row_sign(i) : 1.0));
  for (int j = 0; j < x->n; j++)
    for (int t = 0; t < x->k; t++)
      now.b[j][t] =
          f == ALIKE && j ? now.b[0][t] : as_operand(draw(f, false, t) * (f == ALIGNED ? column_sign(j) : 1.0));
  if (f == ALIKE)
    for (int j = 0; j < x->n; j++)
      for (int t = 0; t < x->k; t++) now.b[j][t] = fabs(now.b[j][t]) * column_sign(j);
  if (f == ALIKE && of_columns()) /* rows of A are */
    for (int i = 0; i < x->m; i++)
      for (int t = 0; t < x->k; t++) now.a[i][t] = fabs(now.a[0][t]) * row_sign(i);
  if (f == CANCELLING) /* the second half takes away what the first has added */
    for (int t = x->k / 2; t < x->k; t++) {
      for (int i = 0; i < x->m; i++) now.a[i][t] = -now.a[i][t - x->k / 2];
      for (int j = 0; j < x->n; j++) now.b[j][t] = now.b[j][t - x->k / 2];
    }
  if (f == EQUALS)
    for (int i = 0; i < x->m; i += of_columns() ? TILE : 1) memcpy(now.a[i], now.b[i % x->n], sizeof now.a[i]);
  if (f == SPARSE && of_columns()) /* rows of padding, between others */
    for (int i = 0; i < x->m; i++)
      for (int t = 0; t < x->k; t++) now.a[i][t] = i & 10 ? 0.0 : fabs(now.a[i][t]);
  if (x->where == TALL &&
      x->splits > 1) { /* splits: rows that are folded into one: the columns of each meet their own */
    const int each = x->k / x->splits, columns = x->n / x->splits;
    for (int j = 0; j < x->n; j++)
      for (int t = 0; t < x->k; t++)
        if (t / each != j / columns) now.b[j][t] = 0.0;
  }
}

/* ---- both sides ---- */

/* In order within groups of so many, groups of a block as a tree, blocks in order. */
static double sum_of(const double *v, int n, int each, int block) {
  double total = 0.0;
  for (int first = 0; first < n; first += block) {
    double part[MOST_COLUMNS] = {0.0};
    int count = 0;
    for (int i = first; i < n && i < first + block; i += each, count++)
      for (int x = i; x < i + each && x < n && x < first + block; x++) part[count] = r(part[count] + v[x]);
    for (; count > 1; count = (count + 1) / 2)
      for (int i = 0; i < count / 2 + count % 2; i++)
        part[i] = 2 * i + 1 < count ? r(part[2 * i] + part[2 * i + 1]) : part[2 * i];
    total = r(total + part[0]);
  }
  return total;
}

static double observed(int i, double *c2) {
  const kind *x = now.kind;
  double v[MOST_COLUMNS];
  const int width = x->where == MMA ? x->tile[1] : x->n;
  *c2 = 0.0;
  for (int j = 0; j < x->n; j++) {
    v[j] = column_sign(j) * now.c[i][j];
    const bool counts = x->where != WIDE ||
                        (x->check == RDT_MMA_SUMS && rdt_dtype_size(x->type) != 2 ? j / 8 % 2 == 0 : j / 8 % 4 == 0);
    if (counts) *c2 += now.c[i][j] * now.c[i][j];
  }
  return of_thread() ? sum_of(v, x->n, x->n, x->n) : sum_of(v, x->n, x->where == MMA ? 4 : (x->n + 3) / 4, width);
}

static double scale_of(void) {
  return (double)(of_columns() ? now.columns.scale : rdt_gemm_scale(&now.kernel, now.kind->n));
}

/* Sums of columns in parts that the kernels multiply, the smaller ones first times a factor; how many. */
static int split(double sum, double part[PARTS], double factor[PARTS]) {
  const bool f8 = rdt_dtype_is_f8(now.kind->type), f16 = now.kind->type == RDT_F16;
  const double digit = f8 ? 1.0 / now.u : f16 && !of_thread() ? 0x1p11 : 1.0;
  const double scale = scale_of();
  const int count = f8 ? 6 : f16 ? 2 : now.kind->type == RDT_BF16 || now.kind->tf32 ? 3 : of_thread() ? 1 : 2;
  double rest = sum * scale, unit = 1.0;
  for (int p = 0; p < count; p++) {
    part[p] = now.kind->type == RDT_F32 && !now.kind->tf32 ? (double)(float)rest : as_operand(rest);
    factor[p] = unit / scale;
    rest = (rest - part[p]) * digit, unit /= digit;
  }
  return count;
}

static double sum_of_b(int t) {
  long double sum = 0.0L;
  for (int j = 0; j < now.kind->n; j++) sum += column_sign(j) * now.b[j][t];
  return (double)sum;
}

/* What a line makes of sums, in their parts. */
static double meets(const double *line, double (*sum)(int t)) {
  static double part[PARTS][MOST_K];
  double factor[PARTS], e = 0.0;
  int count = 0;
  for (int t = 0; t < now.kind->k; t++) {
    double p[PARTS];
    count = split(sum(t), p, factor);
    for (int d = 0; d < count; d++) part[d][t] = p[d];
  }
  for (int d = count - 1; d >= 0; d--) e = r(e + r(multiply(line, part[d]) * factor[d]));
  return e;
}

/* The signed sum of some numbers as a thread forms it of its fragments. */
static double formed(const double *v, int n) {
  double x = v[0];
  for (int i = 1; i < n; i++) x = r(minus(i) ? x - v[i] : x + v[i]);
  return x;
}

static double expected_thread(void) {
  const kind *x = now.kind;
  static double left[PARTS][MOST_K], right[PARTS][MOST_K];
  double level[2] = {0.0, 0.0}, factor[PARTS], p[PARTS], v[MOST_ROWS], ra[16 * 8], rb[16 * 8];
  const bool from_a = x->check == RDT_MMA_THREAD2 || x->check == RDT_MMA_THREAD1A || x->check == RDT_MMA_COL,
             from_b = x->check == RDT_MMA_THREAD1 || x->check == RDT_MMA_THREAD2;
  const int size = now.acc.rounding == RDT_ROUND_NEAREST ? 4 : 16,
            group = x->check == RDT_MMA_COL ? x->tile[3] / 16 : x->m;
  double total = 0.0;
  for (int first = 0; first < x->m; first += group) { /* col: threads' rows, then all */
    int count = 1;
    level[0] = level[1] = 0.0;
    for (int t = 0; t < x->k; t++) {
      for (int i = 0; i < group; i++) v[i] = now.a[first + i][t];
      count = from_a ? split(formed(v, group), p, factor) : 1;
      for (int d = 0; d < PARTS; d++) left[d][t] = d < count ? (from_a ? p[d] : v[0]) : 0.0;
      for (int j = 0; j < x->n; j++) v[j] = now.b[j][t];
      const int other = from_b ? split(formed(v, x->n), p, factor) : 1;
      for (int d = 0; d < PARTS; d++) right[d][t] = d < other ? (from_b ? p[d] : v[0]) : 0.0;
      count = count > other ? count : other;
    }
    for (int t = 0; t < x->k; t += size) {
      const int n = x->k - t < size ? x->k - t : size;
      if (x->check == RDT_MMA_REPLICATE1) {
        for (int i = 0; i < x->m; i++)
          for (int j = 0; j < x->n; j++) level[0] = chain(level[0], now.a[i] + t, now.b[j] + t, n);
        continue;
      }
      for (int pa = 0; pa < (from_a ? count : 1); pa++)
        for (int pb = 0; pb < (from_b ? count : 1); pb++) {
          if (pa + pb >= count) continue;
          memcpy(ra, left[pa] + t, sizeof *ra * (size_t)n), memcpy(rb, right[pb] + t, sizeof *rb * (size_t)n);
          level[pa + pb > 0] = chain(level[pa + pb > 0], ra, rb, n);
        }
    }
    const double e = r(level[0] + level[1]);
    total = r(total + (x->check == RDT_MMA_COL ? (minus(first / group) ? -e : e) : e));
  }
  return total;
}

/* ---- columns of the whole product ---- */

/* The signed numbers of a tile's rows. */
static void signed_rows(double v[TILE], int tile, const double *x, int64_t pitch) {
  for (int i = 0, row = tile * TILE; i < TILE; i++, row++)
    v[i] = row < now.kind->m ? row_sign(row) * x[row * pitch] : 0.0;
}

/* Numbers of rows that differ in a bit are added. */
static void fold(double v[TILE], int bit) {
  for (int i = 0; i < TILE; i++)
    if (!(i & bit)) v[i] = r(v[i] + v[i + bit]);
}

/* Four warps of each tile add to a copy. */
static double observed_column(double *c2) {
  double v[TILE], copy[16] = {0.0}, squares[16] = {0.0}, s = 0.0;
  for (int tile = 0; tile * TILE < now.kind->m; tile++) {
    const int to = tile % now.columns.copies;
    signed_rows(v, tile, now.c[0], MOST_COLUMNS);
    fold(v, 8), fold(v, 64), fold(v, 1), fold(v, 2);
    for (int i = 0; i < 64; i += 16) {
      copy[to] = r(copy[to] + r(v[i] + v[i + 4]));
      squares[to] = r(squares[to] + fma(v[i], v[i], r(v[i + 4] * v[i + 4])));
    }
  }
  *c2 = 0.0;
  for (int i = 0; i < now.columns.copies; i++) s = r(s + copy[i]), *c2 = r(*c2 + squares[i]);
  return s;
}

/* Two or four warps of each tile add to u A. Lanes have every fourth row of sets of sixteen. */
static double sum_of_a(int t) {
  const int warps = now.tile.threads == 384 ? 2 : 4, sets = 8 / warps;
  double v[TILE], sum = 0.0;
  for (int tile = 0; tile * TILE < now.kind->m; tile++) {
    signed_rows(v, tile, now.a[0] + t, MOST_K);
    fold(v, 8), fold(v, 64);
    for (int warp = 0; warp < warps; warp++) {
      double lane[4] = {0.0};
      for (int set = warp * sets; set < (warp + 1) * sets; set++)
        for (int i = 0; i < 4; i++) lane[i] = r(lane[i] + v[set / 2 * 16 + set % 2 * 4 + i]);
      sum = r(sum + r(r(lane[0] + lane[2]) + r(lane[1] + lane[3])));
    }
  }
  return sum;
}

/* A warp of each tile of what was stored, in two pieces of 64 rows. */
static double sum_of_stored(int t) {
  double v[TILE], sum = 0.0;
  for (int tile = 0; tile * TILE < now.kind->m; tile++) {
    double lane[4] = {0.0};
    signed_rows(v, tile, now.a[0] + t, MOST_K);
    fold(v, 8);
    for (int set = 0; set < 16; set++)
      for (int i = 0; i < 4; i++) lane[i] = r(lane[i] + v[set / 2 * 16 + set % 2 * 4 + i]);
    sum = r(sum + r(r(lane[0] + lane[2]) + r(lane[1] + lane[3])));
  }
  return sum;
}

/* The last run's, in f32: eight warps share k. */
static double settled_column(void) {
  double warp[8] = {0.0}, e = 0.0;
  for (int t = 0; t < now.kind->k; t++) warp[t % 8] = r(fma(sum_of_a(t), now.b[0][t], warp[t % 8]));
  for (int i = 0; i < 8; i++) e = r(e + warp[i]);
  return e;
}

static double norm(int i, bool estimated) { /* |a|^2, as it is measured */
  const kind *x = now.kind;
  if (estimated && x->where == WIDE && x->check == RDT_MMA_SUMS) { /* of signs alone, on average */
    const int parts = x->type == RDT_F16 ? 2 : rdt_dtype_is_f8(x->type) ? 6 : 3;
    double sum = 0.0, s[MOST_K];
    for (int p = parts; p < RDT_WGMMA_SUMS; p++) {
      for (int t = 0; t < x->k; t++) s[t] = rdt_mma_sign((unsigned)(RDT_WGMMA_SUMS * t + p)) ? -1.0 : 1.0;
      const double y = multiply(now.a[i], s);
      sum += y * y;
    }
    return r(sum / (RDT_WGMMA_SUMS - parts));
  }
  if (x->where == MMA) return multiply(now.a[i], now.a[i]);
  double sum = 0.0;
  for (int t = 0; t < x->k; t++) sum = (double)fmaf((float)now.a[i][t], (float)now.a[i][t], (float)sum);
  return sum;
}

static double rho2(void) {
  double most = 0.0;
  for (int t = 0; t < now.kind->k; t++) {
    double sum = 0.0;
    for (int j = 0; j < now.kind->n; j++) {
      const double y = now.b[j][t], size = now.least > 0.0 && y != 0.0 && now.kind->type != RDT_F64
                                               ? fmax(fabs(y), rdt_dtype_size(now.kind->type) <= 2 ? now.least : 0.0)
                                               : fabs(y);
      sum += r(size * size);
    }
    most = fmax(most, sum);
  }
  most = r(most * 1.001);
  return now.kind->type == RDT_F64   ? fmax(most, RDT_MMA_LEAST64)
         : now.kind->type == RDT_F32 ? fmax(most, (double)RDT_MMA_LEAST)
                                     : r(most + (double)RDT_MMA_LOST);
}

/* ---- the comparison ---- */

typedef struct sums {
  double s, c2, e, a2, q;
} sums;
typedef struct judged {
  double residual, tau2, tau0;
} judged;

static judged judge(const sums *x) { /* rdt_judge_sums, in the kernel's precision */
  const rdt_device_bound *b = &now.bound;
  const double root = sqrt(x->q), most = fmin(x->c2, b->cap * x->q);
  const double s = fmin(fabs(x->s), sqrt(b->s_cap * most)), e = fmin(fabs(x->e), sqrt(b->e_cap) * root), e2 = r(e * e);
  const double over = x->q > 0.0 ? b->theta / x->q : 0.0;
  const double v = r(b->q * x->q) + r(b->c2 * most) + r(b->e2 * e2) + r(b->a2 * x->a2) +
                   b->drift * (fmin(1.0, over * most) * most + fmin(1.0, over * e2) * e2);
  const double tau0 = b->q0 * root + b->a0 * sqrt(x->a2);
  return (judged){fabs(x->s - x->e), fmin(tau0, b->line * (s + e) + b->lambda * sqrt(r(v))), tau0};
}

/* C's side of a check. */
static void observe(sums *all) {
  all->s = all->c2 = 0.0;
  if (of_columns()) all->s = observed_column(&all->c2);
  for (int i = 0; i < now.kind->m && !of_columns(); i++) {
    double c2;
    all->s = r(all->s + row_sign(i) * observed(i, &c2)), all->c2 = r(all->c2 + c2);
  }
}

static double expected(void) {
  const kind *x = now.kind;
  double e = 0.0;
  if (of_thread()) return expected_thread();
  if (x->where == SETTLED) return settled_column();
  if (of_columns()) return meets(now.b[0], x->where == HANDED ? sum_of_stored : sum_of_a);
  for (int i = 0; i < x->m; i++) e = r(e + row_sign(i) * meets(now.a[i], sum_of_b));
  return e;
}

static sums compute(void) {
  const kind *x = now.kind;
  const double lean = now.lean, raised = (double)now.bound.a2_floor;
  sums all = {0};
  for (int i = 0; i < x->m; i++)
    for (int j = 0; j < x->n; j++) now.c[i][j] = multiply(now.a[i], now.b[j]);
  observe(&all);
  now.lean = -lean;
  all.e = expected();
  now.lean = 0.0;
  for (int i = 0; i < x->m; i++) all.a2 = r(all.a2 + norm(i, lean == 0.0));
  if (of_columns()) {
    double peak = 0.0;
    for (int t = 0; t < x->k; t++) peak = fmax(peak, r(aligned(now.b[0][t], now.b[0][t])));
    all.q = isfinite(all.e) ? r(r(all.a2 + x->m * raised) * r(peak + (double)RDT_MMA_LOST)) : INFINITY;
    all.a2 = r(x->k * peak + raised);
  } else {
    all.a2 = r(all.a2 + (x->type == RDT_F64 ? RDT_MMA_LEAST64 : raised));
    all.q = r(all.a2 * rho2());
  }
  now.lean = lean;
  return all;
}

static void use(const kind *x, double lambda) {
  const rdt_dtype_row *row = rdt_dtype_info(x->type);
  const int *t = x->tile;
  now.kind = x;
  now.tile = (rdt_cuda_tile){"", t[0], t[1], t[3], t[4], t[5], t[6], 0};
  now.kernel = (rdt_cuda_kernel){.family = x->where == MMA    ? RDT_CUDA_MMA
                                           : x->where == TALL ? RDT_CUDA_TALL
                                                              : RDT_CUDA_WGMMA,
                                 .dtype = x->type,
                                 .tf32 = x->tf32,
                                 .tile = &now.tile,
                                 .k = t[2],
                                 .check = x->check};
  now.u = row->u, now.least = row->min_normal;
  const int splits = x->where == MMA ? x->splits : 1, stages = (x->k + t[2] - 1) / t[2];
  now.args = (rdt_mma_args){.m = x->m, .n = x->n, .k = x->k, .scalar = x->scalar, .sets = 1};
  if (of_thread()) now.args.m = t[0], now.args.n = t[1], now.args.k = x->k; /* a share of a larger product */
  now.args.k_split = (stages + splits - 1) / splits * t[2],
  now.args.splits = (x->k + now.args.k_split - 1) / now.args.k_split;
  now.args.column_blocks = (now.args.n + t[1] - 1) / t[1];
  if (of_thread()) now.tile.warps_k = 1, now.args.k_split = x->k;
  now.acc = x->type == RDT_F64 || (x->type == RDT_F32 && !x->tf32) ? rdt_accumulator_of(x->type, x->type)
                                                                   : rdt_accumulator_mma(9, 0, x->type);
  int bits = 0; /* as rdt_wide_sums_of has it */
  while (1 << bits < x->m) bits += 2;
  now.columns = (rdt_columns){.copies = x->splits,
                              .before = x->where == HANDED ? (const float *)now.a : NULL, /* which is looked at alone */
                              .scale = ldexpf(1.0f, -bits / 2),
                              .back = ldexpf(1.0f, bits / 2)};
  if (x->where == FUSED)
    now.bound = rdt_fused_wide_bound(x->type, x->k, x->k / x->splits, x->splits, x->n, &now.acc, lambda);
  else if (x->where == MLP)
    now.bound = rdt_mlp_bound(x->type, x->k, x->k / x->splits, x->splits, x->n / 8, &now.acc, lambda);
  else if (of_columns())
    now.bound = rdt_gemm_columns_bound(&now.kernel, &now.args, &now.columns, 0, &now.acc, lambda);
  else
    now.bound = rdt_gemm_bound(&now.kernel, &now.args, (x->m + t[0] - 1) / t[0], &now.acc, lambda);
}

/* What nearly all checks end with: of f32 d^2 vanishes where squares do. */
static bool passes(const sums *x) {
  const double d = r(x->s - x->e), most = r(now.bound.surely * x->q);
  return r(d * d) <= most && isfinite(most);
}

static void must(bool holds, family f, const judged *j, const char *what) {
  if (holds) return;
  fail_msg("%s, %s data: %s: residual %g, tau2 %g, tau0 %g", now.kind->name, family_name[f], what, j->residual, j->tau2,
           j->tau0);
}

/* A fault in one output, above the floor, above what is certain: the sum shows it, and the squares have it too. */
static void strike(const sums *clean, const judged *j, family f) {
  for (int times = 2; times <= 3; times++) {
    const double bound = times == 2 ? j->tau2 : j->tau0, leaning = clean->s >= clean->e ? -1.0 : 1.0;
    const double fault = leaning * (times == 2 ? 2.01 * bound + 0x1p-20 * fabs(clean->s) : 3.0 * bound);
    const double c = now.c[0][0], hit = r(c + fault * row_sign(0) * column_sign(0));
    sums x = *clean;
    now.c[0][0] = hit, observe(&x), now.c[0][0] = c;
    if (fabs(hit - c) < 0.999 * fabs(fault)) continue; /* the output has no such digits */
    const judged found = judge(&x);
    must(!passes(&x) && found.residual > found.tau2, f, &found, "a fault above the floor is missed");
    if (times == 3) must(found.residual > found.tau0, f, &found, "a fault that is certain is not");
  }
}

/* Data that adds up and is taken away again, and data of which one term dwarfs all others, leave T2 room to cry: it
 * does not know the order (docs/tolerance.md). Nor does it expect thousands of rows that have the signs they are summed
 * with. */
static bool claimed(family f) {
  return f != BLOCKS && f != LEADER && !(f == ALIKE && of_columns());
}

static void test_within(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    use(&kinds[i], 6.0);
    for (family f = 0; f < FAMILIES; f++) {
      now.seed = 1 + (uint64_t)f;
      for (int trial = 0; trial < (kinds[i].scalar ? 2 : 8 / util_one_in(2, 2)); trial++) {
        fill(f);
        const sums x = compute();
        const judged j = judge(&x);
        must(isfinite(j.tau0), f, &j, "there is no bound");
        if (passes(&x)) {
          must(j.residual <= j.tau0 || r(j.residual * j.residual) == 0.0, f, &j, "what passes is beyond the bound");
        } else {
          must(j.residual <= j.tau0, f, &j, "a clean product is a certain fault");
          must(j.residual <= (claimed(f) ? 1.0 : 2.0) * j.tau2, f, &j, "a clean product is suspect");
        }
        if (trial == 0 && j.residual <= j.tau2 && isnormal((float)(j.tau2 * j.tau2))) strike(&x, &j, f);
      }
    }
  }
}

/* The floor in units of what it is the floor of, for data of one size. */
static double floor_at(const kind *x, double size) {
  double floor = 0.0;
  use(x, 6.0);
  now.seed = 5;
  for (int trial = 0; trial < 8; trial++) {
    fill(NORMAL);
    for (int t = 0; t < x->k; t++) {
      for (int i = 0; i < x->m; i++) now.a[i][t] = as_operand(now.a[i][t] * size);
      for (int j = 0; j < x->n; j++) now.b[j][t] = as_operand(now.b[j][t] * size);
    }
    const sums now_sums = compute();
    floor += judge(&now_sums).tau2 / sqrt(now_sums.c2);
  }
  return floor;
}

/* A fault of a size is found in small numbers as in large ones, down to where the type, or f32 of squares, ends. */
static void test_floors(void **state) {
  (void)state;
  int looked = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const double small = kinds[i].type == RDT_F64    ? 0x1p-150
                         : kinds[i].type == RDT_BF16 ? 0x1p-24
                         : kinds[i].type == RDT_F16  ? 0x1p-8
                         : kinds[i].type == RDT_F32  ? 0x1p-12
                                                     : 0x1p-1;
    const double usual = floor_at(&kinds[i], 1.0), low = floor_at(&kinds[i], small);
    if (!(low <= 1.5 * usual && low >= usual / 1.5))
      fail_msg("%s: the floor is %g of numbers of size 1, %g of size %g", kinds[i].name, usual, low, small);
    looked++;
  }
  assert_true(looked > 30);
}

/* Blocks, warps that share k have as many steps less each: their bounds are no wider for it. */
static void test_shares(void **state) {
  (void)state;
  kind whole = {"f16 fused", FUSED, RDT_F16, false, RDT_WGMMA_TILE, false, W128, 1, 64, 1024, 1}, shared = whole;
  shared.splits = 8;
  assert_true(floor_at(&shared, 1.0) < 0.5 * floor_at(&whole, 1.0));
  whole.where = shared.where = MLP;
  assert_true(floor_at(&shared, 1.0) < 0.5 * floor_at(&whole, 1.0));
}

/* What is said of the parts of sums holds for sums: what is left of them, and what they count as when they are aligned.
 */
static void test_parts(void **state) {
  static const struct {
    rdt_dtype type;
    bool tf32;
    double u_beta;
    int check, rows; /* ROWCOL: of A, by whose number sums are scaled */
  } types[] = {{RDT_F16, false, 0x1p-22, RDT_MMA_SUMS, 1},        {RDT_BF16, false, 0x1p-24, RDT_MMA_SUMS, 1},
               {RDT_F32, true, 0x1p-33, RDT_MMA_SUMS, 1},         {RDT_F8E4M3, false, 0x1p-24, RDT_MMA_SUMS, 1},
               {RDT_F8E5M2, false, 0x1p-18, RDT_MMA_SUMS, 1},     {RDT_F16, false, 0x1p-22, RDT_WGMMA_ROWCOL, 2048},
               {RDT_BF16, false, 0x1p-24, RDT_WGMMA_ROWCOL, 2048}};
  (void)state;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const kind of = {"parts", WIDE, types[i].type, types[i].tf32, types[i].check, false, D128, types[i].rows, 128,
                     64,      1};
    rdt_tolerance t = {.k = 64};
    double worst = 0.0, largest = 0.0;
    use(&of, 6.0);
    rdt_tolerance_parts(&t, types[i].type, scale_of());
    assert_true(t.u_beta == types[i].u_beta);
    assert_true((double)now.bound.a0 >= t.eta_out * sqrt((double)of.k)); /* that of the kernel has it as well */
    for (int trial = 0; trial < 200000; trial++) {
      double part[PARTS], factor[PARTS], rest, aligned_as = 0.0;
      const double sum = gauss() * ldexp(1.0, -(trial % 24));
      const int count = split(sum, part, factor);
      rest = sum;
      for (int p = 0; p < count; p++)
        rest -= part[p] * factor[p], aligned_as += rdt_tilde(&now.acc, part[p]) * factor[p];
      worst = fmax(worst, fabs(rest) / (t.u_beta * fabs(sum) + t.eta_out));
      largest = fmax(largest, aligned_as / ((1.0 + t.parts) * fabs(sum) + t.raised));
    }
    if (!(worst <= 1.0 && worst > 0.2 && largest <= 1.0 && largest > 0.2))
      fail_msg("type %d: parts leave %g of what is said, and count as %g of it", (int)types[i].type, worst, largest);
  }
}

/* All that rounds errs by as much as it may, up on C's side and down on the other, of terms of one sign that are the
 * larger the more often they are rounded: no further than the bound, and not far from it, so a bound that forgets some
 * of it is too small. Random errors are a hundredth of that. (Sums of doubles here are no more exact than theirs.) */
static void test_worst(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kind *x = &kinds[i];
    if (x->type == RDT_F64) continue;
    use(x, 6.0);
    const int each = now.acc.kb ? now.acc.kb : 1;
    for (int t = 0; t < x->k; t++) {
      const double size = 1.0 + (double)(each - t / each * each) / x->k;
      for (int row = 0; row < x->m; row++)
        now.a[row][t] = as_operand(row_sign(row) * size * (1.0 + (double)(2 * TILE - row) / x->m));
      for (int j = 0; j < x->n; j++) now.b[j][t] = column_sign(j);
    }
    now.lean = 1.0;
    const sums y = compute();
    now.lean = 0.0;
    const judged j = judge(&y);
    must(j.residual <= j.tau0, ALIGNED, &j, "roundings at their worst are a certain fault");
    must(j.residual > 0.3 * j.tau0, ALIGNED, &j, "the bound is far from what roundings may do");
  }
}

/* u A that f16 does not hold, in parts, and squares that f32 does not: no verdict. Just below there is one. */
static void test_overflow(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int beyond = 0; beyond < 2; beyond++) {
      const kind *x = &kinds[i];
      use(x, 6.0);
      if (!of_columns()) continue;
      const bool f16 = x->type == RDT_F16;
      const double largest = f16 ? 65504.0 * (double)now.columns.back / x->m : 0x1p64 / sqrt((double)x->m * x->k),
                   size = as_operand(largest * (beyond ? 1.02 : 0.98));
      for (int t = 0; t < x->k; t++) {
        for (int row = 0; row < x->m; row++) now.a[row][t] = row_sign(row) * size;
        now.b[0][t] = 1.0;
      }
      const sums y = compute();
      const judged j = judge(&y);
      const bool holds = !beyond || (f16 && x->where == SETTLED); /* which multiplies it as it is */
      must(isfinite(j.tau0) == holds && (holds || !passes(&y)), ALIGNED, &j, "a bound is there, or none, by mistake");
      if (holds) must(j.residual <= j.tau0, ALIGNED, &j, "a clean product is a certain fault");
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_within), cmocka_unit_test(test_floors),
                                     cmocka_unit_test(test_shares), cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_worst),  cmocka_unit_test(test_overflow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
