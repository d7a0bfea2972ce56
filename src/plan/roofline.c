#include "plan/roofline.h"

#include <math.h>

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
