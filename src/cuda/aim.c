#include "cuda/aim.h"

#include <math.h>

#include "cuda/sm90/gemm_wgmma_bits.h"

static int site_of(const rdt_cuda_strike *s) {
  return s->stored     ? RDT_WGMMA_ROUNDED + (int)s->stored - RDT_STORED_ROUNDED
         : s->reduced  ? RDT_MMA_REDUCED
         : s->checksum ? RDT_MMA_CHECKSUM
         : s->fragment ? RDT_MMA_FRAGMENT
         : s->limit    ? RDT_MMA_BOUND
                       : RDT_MMA_ACCUM;
}

/* Of the sum over k the term that is struck. */
static int64_t step_of(const rdt_mma_args *a, const rdt_cuda_strike *s) {
  const int64_t k = (int64_t)(s->hit.position * a->k);
  return k < a->k ? k : a->k - 1;
}

static rdt_mma_hit aim_wide(const rdt_cuda_kernel *kernel, const rdt_mma_args *a, const rdt_wide *w, int fold,
                            const rdt_cuda_strike *s) {
  const rdt_cuda_tile *t = kernel->tile;
  const int64_t n = a->n, row = s->hit.element / n, column = s->hit.element % n,
                each = n / fold; /* of rows, which it speaks of */
  const int r = (int)(row % a->m % t->rows), c = (int)(column % t->columns), lane = r % 8 * 4 + c % 8 / 2;
  const int64_t k = step_of(a, s);
  /* What is expected of a row is known to one of its tiles. */
  int tile_row;
  const int line = rdt_wide_line(w, kernel, a->m, row, &tile_row),
            checks = rdt_wide_checks(w, line, rdt_wide_lines(w, kernel, a->m), a->column_blocks);
  return (rdt_mma_hit){
      .site = site_of(s),
      .block = {s->checksum && kernel->check == RDT_MMA_SUMS ? checks : (int)(column / t->columns), tile_row, 0},
      .thread = s->fragment ? r : r % 64 / 16 * 32 + lane,
      .step = (int)(k / kernel->k),
      .fragment = r / 64 * (t->columns / 2) + c / 8 * 4 + r % 16 / 8 * 2 + c % 2,
      .columns = (int)(k % kernel->k * (int64_t)rdt_dtype_info(kernel->dtype)->bytes),
      .element = {(int)(row * fold + column / each), (int)(column % each)},
      .mask = s->hit.mask,
      .sm = s->sm,
      .bound = NAN};
}

/* Numbers that are added to a row of the finished sums. */
static rdt_mma_hit aim_several(const rdt_mma_args *a, const rdt_cuda_strike *s) {
  rdt_mma_hit h = {.site = RDT_MMA_REDUCED,
                   .element = {(int)(s->hit.element / a->n), -1},
                   .several = s->several,
                   .sm = -1,
                   .bound = NAN};
  for (int i = 0; i < s->several; i++) h.places[i] = s->columns[i], h.changes[i] = s->changes[i];
  return h;
}

rdt_mma_hit rdt_cuda_aim(const rdt_cuda_kernel *kernel, const rdt_mma_args *a, const rdt_wide *w, int fold,
                         const rdt_cuda_strike *s) {
  if (s->several) return aim_several(a, s);
  if (kernel->family != RDT_CUDA_MMA) return aim_wide(kernel, a, w, fold, s);
  const rdt_cuda_tile *t = kernel->tile;
  const int64_t n = a->n, row = s->hit.element / n, column = s->hit.element % n;
  const int64_t k = step_of(a, s);
  const int split = (int)(k / a->k_split), within = (int)(k % a->k_split), share = kernel->k / t->warps_k;
  const int r = (int)(row % t->rows), c = (int)(column % t->columns);
  const int fragment_row = r % t->warp_rows, in_warp = c % t->warp_columns, in_pair = in_warp % 16;
  /* Which fragment, thread of four and place have a column: see column() in sm80/types.h */
  const bool bytes = kernel->dtype == RDT_S8, together = bytes || kernel->dtype == RDT_F32;
  const int fragment = !together ? in_warp / 8 : in_warp / 16 * 2 + (bytes ? in_pair % 2 : in_pair % 4 / 2);
  const int thread = together ? in_pair / 4 : in_warp % 8 / 2, odd = bytes ? in_pair % 4 / 2 : in_warp % 2;
  const int lane = fragment_row % 8 * 4 + thread, part = within % kernel->k / share;
  const int half = s->second ? 1 : fragment_row % 16 / 8; /* of a fragment's rows */
  const int warp_rows = t->rows / t->warp_rows, warp_columns = t->columns / t->warp_columns;
  const int warp = (part * warp_columns + c / t->warp_columns) * warp_rows + r / t->warp_rows;
  return (rdt_mma_hit){.site = site_of(s),
                       .block = {(int)(column / t->columns), (int)(row / t->rows), split},
                       .thread = 32 * warp + lane,
                       .step = within / kernel->k * (share / kernel->step) + within % share / kernel->step,
                       .fragment = (fragment_row / 16 * (t->warp_columns / 8) + fragment) * 4 + half * 2 + odd,
                       .columns = t->warp_columns / 8,
                       .element = {(int)row, (int)column},
                       .mask = s->hit.mask,
                       .sm = s->sm,
                       .bound = NAN};
}
