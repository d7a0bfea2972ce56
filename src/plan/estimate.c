#include "plan/estimate.h"

#include <math.h>
#include <string.h>

#include "plan/profile.h"

typedef struct work {
  double run, meet, product, a, image, c, b, met, row, column, weights, data;
} work;

typedef struct kernel_work {
  rdt_kop op;
  const char *ends;
  int vectors; /* of columns that it computes together; 0: it does not matter how many columns there are */
  work per;
} kernel_work;

typedef struct check_work {
  rdt_kop op;
  const char *scheme;
  bool fused;
  work per;
} check_work;

#define RDT_KERNEL_WORK(op, ends, vectors, ...) {RDT_KOP_##op, ends, vectors, {__VA_ARGS__}},
#define RDT_CHECK_WORK(op, scheme, fused, ...)
static const kernel_work kernels[] = {
#include "plan/work.def"
};
static const kernel_work wide_kernels[] = {
#include "plan/work_avx512.def"
};
#undef RDT_KERNEL_WORK
#undef RDT_CHECK_WORK
#define RDT_KERNEL_WORK(op, ends, vectors, ...)
#define RDT_CHECK_WORK(op, scheme, fused, ...) {RDT_KOP_##op, scheme, fused, {__VA_ARGS__}},
static const check_work checks[] = {
#include "plan/work.def"
};
static const check_work wide_checks[] = {
#include "plan/work_avx512.def"
};
#undef RDT_KERNEL_WORK
#undef RDT_CHECK_WORK

typedef struct table {
  const kernel_work *kernels;
  const check_work *checks;
  size_t n_kernels, n_checks;
} table;

/* Integers lose least by the one table everywhere. */
static table table_of(const rdt_problem *p) {
  static const table narrow = {kernels, checks, sizeof kernels / sizeof *kernels, sizeof checks / sizeof *checks};
  static const table wide = {wide_kernels, wide_checks, sizeof wide_kernels / sizeof *wide_kernels,
                             sizeof wide_checks / sizeof *wide_checks};
  return rdt_isa_detect() == RDT_ISA_AVX512 && p->acc != RDT_S32 ? wide : narrow;
}

/* Where nobody has measured the device: one core, so that what is chosen, and with it the bits of a result, does not
 * depend on the number of threads. */
static const rdt_device usual = {
    .threads = 1,
    .peak =
        {[RDT_F64] = 45e9, [RDT_F32] = 90e9, [RDT_BF16] = 90e9, [RDT_F16] = 90e9, [RDT_S8] = 180e9, [RDT_U8] = 180e9},
    .bandwidth = 20e9,
    .meeting = 1e-6,
    .step = 0.35e-9};

/* A product this small is done before a second thread has woken up: 2 MFLOP take some 20 us on one core. */
static const double worth_a_thread = 2e6;

int rdt_threads_worth(const rdt_problem *p, int threads) {
  return rdt_kop_is_linear(p->op) && rdt_problem_flops(p) < worth_a_thread ? 1 : threads;
}

static const kernel_work *work_of_kernel(const rdt_problem *p, const rdt_kernel *k) {
  const size_t length = strlen(k->name);
  const table t = table_of(p);
  for (size_t i = 0; i < t.n_kernels; i++) {
    const kernel_work *x = &t.kernels[i];
    const size_t end = strlen(x->ends);
    if (x->op == k->op && end <= length && strcmp(k->name + length - end, x->ends) == 0) return x;
  }
  return NULL;
}

static const work *work_of_check(const rdt_problem *p, const rdt_way *w) {
  const table t = table_of(p);
  for (size_t i = 0; i < t.n_checks; i++) {
    const check_work *x = &t.checks[i];
    if (x->op == p->op && x->fused == w->fused && strcmp(x->scheme, w->scheme->name) == 0) return &x->per;
  }
  return NULL;
}

static double count_of(const rdt_tensor *t) {
  return (double)rdt_tensor_count(t);
}

static double bytes_of(const rdt_tensor *t) {
  return count_of(t) * (double)rdt_dtype_size(t->dtype);
}

/* What of the problem costs how long a piece. */
typedef struct scale {
  rdt_work work;
  double step, meeting, product, operation, images, a, image, c, b, met, rows, columns, weights, data;
} scale;

static scale scale_of(const rdt_problem *p, const rdt_device *d, bool cold) {
  int64_t m, n, k;
  const int threads = rdt_threads_worth(p, d->threads);
  const double share = (double)threads / d->threads, moved = bytes_of(&p->in[0]) + bytes_of(&p->out);
  rdt_problem_mnk(p, &m, &n, &k);
  const double groups = p->op == RDT_KOP_CONV ? (double)p->window.groups : 1.0, c = count_of(&p->out);
  const double images = p->op == RDT_KOP_CONV ? (double)p->out.shape[0] : 1.0;
  return (scale){.work = rdt_work_of(p),
                 .step = d->step,
                 .meeting = threads > 1 ? d->meeting : 0.0,
                 .product = 1.0 / (share * d->peak[p->in[0].dtype]),
                 .operation = 1.0 / (share * d->peak[RDT_F32]),
                 .images = images,
                 .a = n > 0 ? c / (double)n * (double)k * groups : 0.0,
                 .image = count_of(&p->in[0]),
                 .c = c,
                 .b = count_of(&p->in[1]),
                 .met = images * count_of(&p->in[1]),
                 .rows = n > 0 ? c / (double)n : 0.0,
                 .columns = images * (double)n,
                 .weights = cold ? bytes_of(&p->in[1]) / d->bandwidth : 0.0,
                 .data = rdt_weights_are_cold(moved) ? moved / d->bandwidth : 0.0};
}

/* Its last columns may fill a part of a panel only. */
static double filled(const kernel_work *k, const rdt_problem *p, double columns) {
  const double lanes = (rdt_isa_detect() == RDT_ISA_AVX512 ? 64.0 : 32.0) / (double)rdt_dtype_size(p->acc);
  const double panel = k->vectors * lanes;
  return k->vectors > 0 && columns > 0.0 ? ceil(columns / panel) * panel / columns : 1.0;
}

static double seconds_of(const work *w, const scale *s) {
  const double operations = w->a * s->a + w->image * s->image + w->c * s->c + w->b * s->b + w->met * s->met +
                            w->row * s->rows + w->column * s->columns;
  return w->run * s->step + w->meet * s->meeting + w->product * s->work.flops * s->product + operations * s->operation +
         w->weights * s->weights + w->data * s->data;
}

/* A second copy, and comparing the two bit by bit; weights are verified each time. */
static const work compared = {.run = 6000, .meet = 2.0, .c = 20.0, .b = 33.0};
/* Of an epilogue: evaluated by the kernel, or twice in passes that read the raw result. */
static const work ends_within = {.c = 3.0}, ends_apart = {.run = 3000, .meet = 2.0, .c = 14.0, .data = 0.7};
/* Weights that are another matrix at each run are summed at each run. */
static const work summed = {.b = 12.0};

double rdt_way_estimate(const rdt_problem *p, const rdt_way *w, const rdt_device *device, bool cold) {
  if (!rdt_kop_is_linear(p->op)) return NAN;
  const kernel_work *kernel = work_of_kernel(p, w->kernel);
  const work *check = work_of_check(p, w);
  const rdt_device *d = device ? device : &usual;
  const bool none = w->scheme->id == RDT_SCHEME_NONE, copied = w->scheme->id == RDT_SCHEME_DUP;
  const bool thrice = w->scheme->id == RDT_SCHEME_TMR_SM;
  if (!kernel || !(check || none || copied || thrice)) return NAN;
  const scale s = scale_of(p, d, cold);
  scale own = s;
  own.product *= filled(kernel, p, s.columns / s.images);
  double seconds = (thrice ? 3.0 : copied ? 2.0 : 1.0) * seconds_of(&kernel->per, &own);
  if (check) seconds += w->sets * seconds_of(check, &s);
  if (check && !p->in[1].data) seconds += w->sets * seconds_of(&summed, &s);
  if (copied || thrice) seconds += (thrice ? 2.0 : 1.0) * seconds_of(&compared, &s);
  if (!rdt_epilogue_is_none(&p->epilogue))
    seconds += seconds_of(w->fused || (none && !w->finish) ? &ends_within : &ends_apart, &s);
  return seconds;
}
