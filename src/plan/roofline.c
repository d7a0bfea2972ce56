#include "plan/roofline.h"

#include <math.h>
#include <string.h>

static double bytes_of(const rdt_tensor *t) {
  return t->rank < 0 ? 0.0 : (double)rdt_tensor_count(t) * (double)rdt_dtype_size(t->dtype);
}

rdt_work rdt_work_of(const rdt_problem *p) {
  rdt_work w = {.flops = rdt_problem_flops(p), .bytes = bytes_of(&p->out)};
  for (int i = 0; i < p->n_in; i++) {
    rdt_tensor once = p->in[i]; /* what is broadcast is read once */
    for (int d = 0; d < once.rank; d++)
      if (once.stride[d] == 0 && once.shape[d] > 1) once.shape[d] = 1;
    w.bytes += bytes_of(&once);
  }
  if (rdt_kop_is_linear(p->op)) w.bytes += bytes_of(&p->epilogue.bias) + bytes_of(&p->epilogue.residual);
  return w;
}

static double raised(int64_t length, int64_t pad) {
  return ceil((double)length / (double)pad) * (double)pad;
}

rdt_work rdt_work_of_mnk(int64_t m, int64_t n, int64_t k, int64_t groups, rdt_dtype dtype, int64_t pad) {
  const double a = raised(m, pad), b = raised(n, pad), c = raised(k, pad), times = (double)groups;
  return (rdt_work){.flops = times * 2.0 * a * b * c,
                    .bytes = times * (a * c + c * b + a * b) * (double)rdt_dtype_size(dtype)};
}

rdt_work rdt_work_sum(rdt_work a, rdt_work b, double times) {
  return (rdt_work){.flops = a.flops + times * b.flops, .bytes = a.bytes + times * b.bytes};
}

double rdt_work_intensity(rdt_work w) {
  return w.bytes > 0.0 ? w.flops / w.bytes : NAN;
}

double rdt_roof_ratio(rdt_roof r) {
  return r.flops / r.bandwidth;
}

bool rdt_roof_computes(rdt_roof r, rdt_work w) {
  return w.flops / r.flops > w.bytes / r.bandwidth;
}

double rdt_roof_seconds(rdt_roof r, rdt_work w) {
  return fmax(w.flops / r.flops, w.bytes / r.bandwidth);
}

double rdt_roof_flops(rdt_roof r, double intensity) {
  return fmin(r.flops, r.bandwidth * intensity);
}

double rdt_roof_overhead(rdt_roof r, rdt_work op, rdt_work extra) {
  return rdt_roof_seconds(r, rdt_work_sum(op, extra, 1.0)) / rdt_roof_seconds(r, op) - 1.0;
}

/* ---- checks ---- */

/* What a check computes, for each element of A, B and C, for each multiply-add of the op, and for each of the steps of
 * the reduction that a tile takes, once or for each of its columns. A check sums, and it sums the squares that its
 * bound takes: two multiply-adds an element. Apart, it reads A, B or C once more. */
typedef struct check_row {
  const char *name;
  double a, b, c, multiply, tile_columns, tile;
  int64_t side; /* of the tiles; 0: those in registers */
  bool reads_a, reads_b, reads_c;
} check_row;

static const check_row checks[] = {
    {.name = "none"},
    {.name = "dup", .multiply = 2, .c = 1, .reads_a = 1, .reads_b = 1, .reads_c = 1},
    {.name = "row", .a = 4, .c = 4, .reads_a = 1, .reads_c = 1},
    {.name = "col", .a = 4, .b = 4, .c = 4, .reads_a = 1, .reads_b = 1, .reads_c = 1},
    {.name = "rowcol", .a = 8, .b = 4, .c = 8, .reads_a = 1, .reads_b = 1, .reads_c = 1},
    {.name = "global", .a = 4, .c = 4, .reads_a = 1, .reads_c = 1},
    {.name = "global-classic", .a = 4, .c = 4, .reads_a = 1, .reads_c = 1},
    {.name = "tile", .a = 4, .c = 4, .tile = 4, .side = 128, .reads_a = 1, .reads_c = 1},
    {.name = "thread1", .a = 1, .c = 4, .tile_columns = 2},
    {.name = "thread2", .a = 1, .c = 4, .tile_columns = 1, .tile = 2},
    {.name = "replicate", .multiply = 2, .c = 1},
    {.name = "replicate1", .multiply = 2, .c = 1},
    {.name = "fc", .a = 4, .c = 4, .reads_a = 1, .reads_c = 1},
    {.name = "ic", .a = 4, .b = 4, .c = 4, .reads_a = 1, .reads_b = 1, .reads_c = 1},
    {.name = "fic", .a = 4, .c = 4, .reads_a = 1, .reads_c = 1},
};

bool rdt_work_of_check(const rdt_problem *p, const char *scheme, int sets, bool fused, const int64_t tile[2],
                       rdt_work *extra) {
  const check_row *r = checks, *end = checks + sizeof checks / sizeof *checks;
  while (r < end && strcmp(r->name, scheme) != 0) r++;
  if (r == end || !rdt_kop_is_linear(p->op)) return false;
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  const double a = (double)rdt_tensor_count(&p->in[0]), b = (double)rdt_tensor_count(&p->in[1]);
  const double c = (double)m * (double)n, all = c * (double)k;
  const double rows = fmax(1.0, fmin((double)m, (double)(r->side ? r->side : tile[0])));
  const double columns = fmax(1.0, fmin((double)n, (double)(r->side ? r->side : tile[1])));
  extra->flops = sets * (r->a * a + r->b * b + r->c * c + r->multiply * all + r->tile_columns * all / rows +
                         r->tile * all / (rows * columns));
  extra->bytes = 0.0;
  if (fused) return true;
  if (r->reads_a) extra->bytes += bytes_of(&p->in[0]);
  if (r->reads_b) extra->bytes += bytes_of(&p->in[1]);
  if (r->reads_c) extra->bytes += c * (double)rdt_dtype_size(p->acc);
  return true;
}
