/* Of each kernel's check: what it sums, in which chains, and what of it is lost. */
#include "cuda/gemm_bounds.h"

#include <math.h>
#include <string.h>

#include "cuda/classic.h"
#include "cuda/sm90/gemm_wgmma.h"

static bool is_wide(const rdt_cuda_kernel *k) {
  return k->family != RDT_CUDA_MMA;
}

static bool by_column(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_THREAD1A || k->check == RDT_MMA_COL;
}

static bool threads(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_THREAD1 || k->check == RDT_MMA_THREAD2 || k->check == RDT_MMA_REPLICATE1 || by_column(k);
}

/* Fragments of a thread: of rows, of columns. */
static int rows_of(const rdt_cuda_tile *t) {
  return (t->warp_rows + 15) / 16;
}
static int columns_of(const rdt_cuda_tile *t) {
  return t->warp_columns / 8;
}

int64_t rdt_gemm_outputs(const rdt_cuda_kernel *k, const rdt_mma_args *a) {
  const rdt_cuda_tile *t = k->tile;
  switch (k->check) {
    case RDT_WGMMA_ROWCOL:
    case RDT_MMA_SUMS:
      return a->scalar ? (int64_t)a->m * a->n : a->n;
    case RDT_WGMMA_TILE:
      return a->n < t->columns ? a->n : t->columns;
    case RDT_MMA_THREAD1:
      return columns_of(t);
    case RDT_MMA_THREAD1A:
      return rows_of(t);
    case RDT_MMA_COL:
      return t->warp_rows;
    default:
      return (int64_t)rows_of(t) * columns_of(t);
  }
}

float rdt_gemm_scale(const rdt_cuda_kernel *k, int n) {
  int columns;
  (void)frexpf((float)n, &columns);
  return rdt_dtype_is_f8(k->dtype) ? ldexpf(1.0f, -columns) : 1.0f;
}

/* Sums of fragments are formed in f32, or as they are, and those of 16 bits cut into parts, which are as exact as
 * numbers of their type: all of them are multiples of the smallest subnormal one. The smaller parts share an
 * accumulator. */
static void of_fragments(const rdt_cuda_kernel *k, rdt_tolerance *t) {
  const rdt_dtype_row *row = rdt_dtype_info(k->dtype);
  const bool a = k->check == RDT_MMA_THREAD2 || by_column(k),
             b = k->check == RDT_MMA_THREAD1 || k->check == RDT_MMA_THREAD2;
  const double u = row->u, added = (a ? rows_of(k->tile) - 1 : 0) + (b ? columns_of(k->tile) - 1 : 0);
  if (!a && !b) return;
  if (rdt_dtype_size(k->dtype) >= 4) { /* as accumulators' errors: T2 has the mean square of additions */
    t->u_beta = u * sqrt(0.6 * added);
    t->lost = u * added;
    return;
  }
  const int parts = k->dtype == RDT_F16 ? 2 : 3;
  const bool both = a && b;
  const double whole = parts == 2 ? u * u : u * u * u, products = !both ? parts - 1 : parts == 2 ? 2 : 5;
  const double largest = (1.0 + u) * (both ? 1.0 + u : 1.0), smaller = both ? 2.0 * u + 3.0 * u * u : u + u * u;
  t->u_beta = whole;
  t->lost = (added + 1.0) * 0x1p-24 + (both ? (1.0 + parts) * whole : 0.0); /* of A alike, and what is not multiplied */
  t->parts = largest * (1.0 + 1.25 * products * smaller) - 1.0; /* a chain of so many products for each of k */
  t->raised = parts * row->min_normal;
}

static rdt_tolerance tolerance_of(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks,
                                  const rdt_accumulator *acc, double lambda) {
  const rdt_cuda_tile *t = k->tile;
  const int64_t chains = k->check == RDT_MMA_REPLICATE1 ? (int64_t)rows_of(t) * columns_of(t) : 1;
  rdt_tolerance r = {.acc = *acc, .k = a->k, .lambda = lambda};
  r.acc.depth = a->k_split / t->warps_k; /* what an accumulator sums */
  r.depth_dot = r.acc.depth * chains;
  if (threads(k)) { /* each checks what it has summed itself */
    r.k = r.acc.depth;
    of_fragments(k, &r);
    if (k->check == RDT_MMA_COL) r.depth_more = 4; /* sixteen threads' rows; those of C are among the outputs summed */
    return r;
  }
  if (rdt_dtype_size(k->dtype) >= 4 && !k->tf32)
    r.u_beta = 4.0 * rdt_dtype_info(k->dtype)->u * rdt_dtype_info(k->dtype)->u; /* two numbers of it */
  else
    rdt_tolerance_parts(&r, k->dtype, rdt_gemm_scale(k, a->n));
  r.splits = t->warps_k + a->splits;
  r.depth_sum = 4 + 5 + a->column_blocks + (a->sets > 1); /* of a thread, among threads, over blocks; a weight */
  if (a->scalar) r.depth_more = row_blocks + t->rows, r.depth_sum += r.depth_more;
  if (is_wide(k)) { /* four threads have a row, and what is expected, in parts that are added */
    r.depth_sum += t->columns / 4;
    r.splits += 4 + (k->check == RDT_WGMMA_TILE ? 0 : a->column_blocks);
  }
  if (rdt_dtype_is_f8(k->dtype)) { /* promoted */
    r.acc.depth = r.depth_dot = a->k < k->k ? a->k : k->k;
    r.splits += (a->k + k->k - 1) / k->k;
  }
  return r;
}

rdt_device_bound rdt_gemm_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks,
                                const rdt_accumulator *acc, double lambda) {
  const rdt_tolerance t = tolerance_of(k, a, row_blocks, acc, lambda);
  rdt_device_bound b = rdt_device_bound_of(&t, rdt_gemm_outputs(k, a));
  if (a->scalar) b.a2_floor *= (float)a->m; /* of every row */
  if (k->dtype == RDT_F32) b.a2_floor = RDT_MMA_LEAST;
  if (k->dtype == RDT_F64) b.a2_floor = 0.0f; /* RDT_MMA_LEAST64, which f32 does not hold */
  return b;
}

/* u A is added up of four rows, sets of them, four lanes, and of two or four warps of each row of tiles; of what a
 * product before has stored, of two rows, sets of two pieces, four lanes, and a warp of each row of tiles; and cut into
 * parts as sums of B are; sums of C of four rows, eight lanes, and four warps of so many tiles as meet in a copy. */
rdt_device_bound rdt_gemm_columns_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_columns *c,
                                        int64_t squares, const rdt_accumulator *acc, double lambda) {
  const int tiles = (a->m + k->tile->rows - 1) / k->tile->rows, each = (tiles + c->copies - 1) / c->copies,
            added = c->before ? 1 + 16 + 2 + tiles : 3 + 4 + 2 + 4 * tiles;
  rdt_tolerance t = {.acc = *acc,
                     .k = a->k,
                     .splits = 2, /* parts are joined */
                     .depth_sum = 3 + 3 + 4 * each + c->copies,
                     .lambda = lambda};
  t.acc.depth = t.depth_dot = a->k;
  rdt_tolerance_parts(&t, k->dtype, (double)c->scale);
  t.u_beta = hypot(t.u_beta, 0x1p-24 * sqrt(0.6 * added));
  t.lost += 0x1p-24 * added;
  rdt_device_bound b = rdt_device_bound_of(&t, a->m);
  b.q0 *= (float)(1.0 + 0x1p-24 * (double)squares); /* |a|^2 is less by as much: one chain, where others have k's */
  return b;
}

/* Sums of C and of what was stored are formed in f32 within a tile, or a strip of A, and in double beyond. They have no
 * signs: what tensor cores cut off adds up in them as the outputs do, and twice as much is granted as they lose on
 * average (on an H200 half of that average was seen, of positive data). */
rdt_box_bound rdt_gemm_classic_bound(const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_accumulator *acc,
                                     double lambda) {
  const rdt_cuda_tile *t = k->tile;
  const int64_t each = t->rows * t->columns / t->threads, rows = each / 4 + 4 * t->threads / t->columns;
  const rdt_tolerance r = {.acc = *acc,
                           .k = a->k,
                           .splits = t->warps_k + a->splits,
                           .u_check = 0x1p-24,
                           .depth_sum = each + 16,
                           .depth_dot = 1,
                           .u_form = 0x1p-24,
                           .depth_beta = rows > RDT_CLASSIC_ROWS ? rows : RDT_CLASSIC_ROWS,
                           .u_beta = 0x1p-50,
                           .lambda = lambda};
  rdt_box_bound b = rdt_box_bound_of(&r, (int64_t)a->m * a->n, false);
  b.line = 2.0 * (b.line + sqrt(b.drift));
  return b;
}

static rdt_tolerance of_parts(rdt_dtype type, int k, int depth, int splits, const rdt_accumulator *acc, double lambda) {
  rdt_tolerance t = {.acc = *acc, .k = k, .splits = splits, .lambda = lambda};
  t.acc.depth = depth;
  rdt_tolerance_parts(&t, type, 1.0);
  return t;
}

rdt_device_bound rdt_fused_wide_bound(rdt_dtype type, int k, int depth, int splits, int columns,
                                      const rdt_accumulator *acc, double lambda) {
  rdt_tolerance t = of_parts(type, k, depth, splits, acc, lambda);
  t.depth_sum = columns / 8 + 2; /* of a thread, among threads */
  return rdt_device_bound_of(&t, columns);
}

rdt_device_bound rdt_mlp_bound(rdt_dtype type, int k, int depth, int warps, int tiles, const rdt_accumulator *acc,
                               double lambda) {
  rdt_tolerance t = of_parts(type, k, depth, warps, acc, lambda);
  t.depth_sum = 8 * ((tiles + 3) / 4) + 2; /* of a thread, among four */
  return rdt_device_bound_of(&t, 8 * tiles);
}
