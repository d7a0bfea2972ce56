#include "plan/work_gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* work_gpu.def, on the device that it was fitted on. */
typedef struct gpu_work {
  const char *kernel, *scheme; /* "mma_64x64": what stands behind the datatype in a kernel's name */
  int rows, columns;           /* of a tile */
  double start;                /* us of a launch, whatever it computes */
  double product;              /* us of a block for 2^20 multiply-adds, one block a multiprocessor */
  double chain;                /* us of 1024 steps along k, however little each multiplies */
  double share;                /* us more where blocks share k */
  double bytes;                /* how often operands and result are moved */
} gpu_work;
static const gpu_work works[] = {
#define GPU_WORK(...) {__VA_ARGS__},
#include "plan/work_gpu.def"
#undef GPU_WORK
};
enum { WORKS = sizeof works / sizeof *works, SMALL = 4096 /* numbers of a tile */ };
static const double fitted_flops = 783.0e12, fitted_sms = 132.0; /* what GPU_WORK's times are of */

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

/* Blocks that share a tile's k: as the name says; 0: one, or kernels choose by themselves. */
static int64_t splits_of(const char *kernel) {
  const char *end = strrchr(kernel, '_');
  int said;
  return end && sscanf(end, "_s%d", &said) == 1 && said > 0 ? said : 0;
}

static double us_of(const gpu_work *w, const rdt_problem *p, int64_t splits, const rdt_track *t) {
  const int64_t m = p->out.shape[0], n = p->out.shape[1], k = p->in[0].shape[1];
  const double size = (double)rdt_dtype_size(p->in[0].dtype);
  const double each = (double)(up(m, w->rows) * up(n, w->columns) * splits) / t->sms;
  const double waves = w->rows * w->columns <= SMALL ? fmax(1.0, each) : ceil(each); /* small ones share one */
  const double speed = t->flops / t->sms / (fitted_flops / fitted_sms);
  const double steps = (double)up(k, splits), chain = steps * 0x1p-10 * w->chain;
  const double product = waves * steps * w->rows * w->columns * 0x1p-20 * w->product / speed;
  const double moved =
      1e6 * size * ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n) * w->bytes / t->bandwidth;
  return w->start + (splits > 1 ? w->share : 0.0) +
         cbrt(product * product * product + chain * chain * chain + moved * moved * moved);
}

static double seconds_of(const gpu_work *w, const rdt_problem *p, const char *kernel, const rdt_track *t) {
  enum { MOST = 16 };
  const int64_t said = splits_of(kernel);
  double least = us_of(w, p, said ? said : 1, t);
  const bool chooses = !said && strncmp(w->kernel, "fused", 5) == 0;
  for (int64_t splits = 2; chooses && splits <= MOST; splits *= 2) least = fmin(least, us_of(w, p, splits, t));
  return 1e-6 * least;
}

/* How much of the name a row is; "wide" and "fused" stand for all that these ways have. */
static size_t match(const char *body, const char *row) {
  const size_t n = strlen(row);
  if (strcmp(body, "wide") == 0) return strncmp(row, "fused_wgmma", 11) == 0;
  if (strcmp(body, "fused") == 0) return strncmp(row, "fused", 5) == 0 && strncmp(row, "fused_wgmma", 11) != 0;
  return strncmp(body, row, n) == 0 && (body[n] == '\0' || body[n] == '_') ? n : 0;
}

double rdt_gpu_estimate(const rdt_problem *p, const char *kernel, const char *scheme, const rdt_track *t) {
  char head[32];
  const int n = snprintf(head, sizeof head, "gemm_%s_", rdt_dtype_name(p->in[0].dtype));
  const char *body = strncmp(kernel, head, (size_t)n) == 0 ? kernel + n : kernel;
  double least = NAN;
  size_t most = 0;
  for (int i = 0; i < WORKS; i++) {
    const size_t length = strcmp(works[i].scheme, scheme) == 0 ? match(body, works[i].kernel) : 0;
    if (length == 0 || length < most) continue;
    const double seconds = seconds_of(&works[i], p, kernel, t);
    least = length > most ? seconds : fmin(least, seconds);
    most = length;
  }
  return least;
}
