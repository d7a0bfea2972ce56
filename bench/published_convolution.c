/* The campaigns of checksummed convolutions (ABED): a bit of the input, of a filter or of the output of ResNet-18's
 * second convolution flips in memory, and a filter checksum (FC: one check for each output pixel) or a checksum of
 * filters and inputs (FIC: one check in all) is to notice. As published: weights of one, checksums of the filters made
 * beforehand, those of the inputs by whoever wrote them. Tensors of ones, as in the paper, and random ones; s8 with
 * sums that are exact, fp16 with f32 accumulators and T2. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "published.h"

enum {
  SIDE = 56,
  CHANNELS = 64,
  FILTERS = 64,
  TAPS = 9,
  PIXELS = SIDE * SIDE,
  LENGTH = CHANNELS * TAPS,
  PLACES = 3,
  TYPES = 2
};
static const char *const PLACE[PLACES] = {"input", "filter", "output"};
/* Sums of products of bytes are exact in double, as they are in s32. */
static const rdt_sim_case EXACT = {"s8", "s32 sums", RDT_F64, RDT_F64, RDT_SIM_SEQUENTIAL, 0, 0, 0, false};

typedef struct layer {
  rdt_sim s; /* unfolded: pixels x filters */
  rdt_sim_side row, all_rows, filters;
  double *image, *clean; /* the input as it lies in memory; the output without a fault */
  rdt_tolerance t;
  bool exact;
  rdt_dtype in, out; /* as they lie in memory */
  rdt_rng r;
} layer;

static int64_t at_of(int channel, int y, int x) {
  return ((int64_t)channel * SIDE + y) * SIDE + x;
}

/* Row `pixel` of the unfolded image. */
static void unfold(layer *l, int64_t pixel) {
  double *a = l->s.a + pixel * LENGTH;
  for (int c = 0; c < CHANNELS; c++)
    for (int tap = 0; tap < TAPS; tap++) {
      const int y = (int)(pixel / SIDE) + tap / 3 - 1, x = (int)(pixel % SIDE) + tap % 3 - 1;
      const bool inside = y >= 0 && y < SIDE && x >= 0 && x < SIDE;
      a[c * TAPS + tap] = inside ? l->image[at_of(c, y, x)] : 0.0;
    }
}

static double value(layer *l, bool ones) {
  if (ones) return 1.0;
  return l->exact ? (double)((int)(rdt_rng_next(&l->r) % 256) - 128) : rdt_sim_round(RDT_F16, rdt_rng_normal(&l->r));
}

static bool fill(layer *l, bool ones) {
  for (int64_t i = 0; i < (int64_t)CHANNELS * PIXELS; i++) l->image[i] = value(l, ones);
  for (int64_t i = 0; i < (int64_t)LENGTH * FILTERS; i++) l->s.b[i] = value(l, ones);
  for (int64_t i = 0; i < PIXELS; i++) {
    unfold(l, i);
    l->s.v[i] = 1.0;
  }
  for (int j = 0; j < FILTERS; j++) l->s.w[j] = 1.0;
  rdt_sim_side_b(&l->s, &l->filters, 0, FILTERS);
  rdt_sim_side_a(&l->s, &l->all_rows, 0, PIXELS);
  if (!rdt_sim_multiply(&l->s)) return false;
  memcpy(l->clean, l->s.out, sizeof *l->clean * PIXELS * FILTERS);
  return true;
}

static void clear(layer *l) {
  rdt_sim_side_clear(&l->row);
  rdt_sim_side_clear(&l->all_rows);
  rdt_sim_side_clear(&l->filters);
  rdt_sim_clear(&l->s);
  rdt_free(l->image);
  rdt_free(l->clean);
}

static bool make(layer *l, bool exact, const rdt_published *p) {
  const rdt_sim_case *c = exact ? &EXACT : rdt_sim_find("f16");
  *l = (layer){.exact = exact,
               .in = exact ? RDT_S8 : RDT_F16,
               .out = exact ? RDT_S32 : RDT_F32,
               .t = rdt_sim_tolerance(c, LENGTH, p->asked->lambda),
               .r = {.state = p->asked->seed}};
  bool good = rdt_sim_init(&l->s, c, PIXELS, FILTERS, LENGTH, false);
  good = rdt_sim_side_init(&l->row, LENGTH) && good;
  good = rdt_sim_side_init(&l->all_rows, LENGTH) && good;
  good = rdt_sim_side_init(&l->filters, LENGTH) && good;
  l->image = rdt_alloc((size_t)CHANNELS * PIXELS, sizeof *l->image);
  l->clean = rdt_alloc((size_t)PIXELS * FILTERS, sizeof *l->clean);
  return good && l->image && l->clean;
}

/* What a check says; *floor: 0 where it is exact. */
static bool cries(const layer *l, const rdt_sim_side *rows, double *floor) {
  const rdt_sim_check check = rdt_sim_check_of(&l->s, rows, &l->filters);
  const rdt_bound bound = rdt_bound_of(&l->t, &check.terms);
  *floor = l->exact ? 0.0 : rdt_floor_of(bound);
  return l->exact ? check.observed != check.expected : rdt_compare(check.observed, check.expected, bound) != RDT_PASS;
}

typedef struct finding {
  bool changed;                     /* an output is another one */
  bool fc, fic;                     /* who complained */
  bool fc_above, fic_above;         /* the fault's effect is above a floor of these checks */
  int64_t top, left, bottom, right; /* pixels and filters that may have changed */
} finding;

/* The outputs that a fault reaches, computed again. */
static void compute(layer *l, const finding *f) {
  for (int64_t y = f->top; y <= f->bottom; y++)
    for (int64_t j = f->left; j <= f->right; j++) l->s.out[y * FILTERS + j] = rdt_sim_again(&l->s, y, j, NULL, 0);
}

static void row_check(layer *l, int64_t pixel, bool outputs_only, finding *f) {
  double effect = 0.0, floor;
  for (int j = 0; j < FILTERS; j++) effect += l->s.out[pixel * FILTERS + j] - l->clean[pixel * FILTERS + j];
  for (int j = 0; j < FILTERS && !f->changed; j++)
    f->changed = l->s.out[pixel * FILTERS + j] != l->clean[pixel * FILTERS + j];
  rdt_sim_side_a(&l->s, &l->row, pixel, pixel + 1);
  f->fc = cries(l, &l->row, &floor) || f->fc;
  /* of a fault that both sides have, the check does not see anything */
  f->fc_above = f->fc_above || (outputs_only && !(fabs(effect) <= floor));
}

static void whole_check(layer *l, finding *f) {
  double effect = 0.0, floor;
  for (int64_t i = 0; i < (int64_t)PIXELS * FILTERS; i++) effect += l->s.out[i] - l->clean[i];
  f->fic = cries(l, &l->all_rows, &floor);
  f->fic_above = !(fabs(effect) <= floor);
}

static void flip_input(layer *l, finding *f) {
  const int c = (int)(rdt_rng_next(&l->r) % CHANNELS), y = (int)(rdt_rng_next(&l->r) % SIDE),
            x = (int)(rdt_rng_next(&l->r) % SIDE);
  const int bits = 8 * (int)rdt_dtype_size(l->in);
  double *hit = &l->image[at_of(c, y, x)];
  const double was = *hit;
  *hit = rdt_sim_flip(l->in, was, (int)(rdt_rng_next(&l->r) % (uint64_t)bits));
  f->right = FILTERS - 1;
  for (int step = 0; step < 2; step++) { /* with the fault; then as it was */
    for (int py = y > 0 ? y - 1 : 0; py <= y + 1 && py < SIDE; py++)
      for (int px = x > 0 ? x - 1 : 0; px <= x + 1 && px < SIDE; px++) {
        f->top = f->bottom = (int64_t)py * SIDE + px;
        unfold(l, f->top);
        if (step == 0) compute(l, f);
        if (step == 0) row_check(l, f->top, false, f);
        if (step == 1) memcpy(l->s.out + f->top * FILTERS, l->clean + f->top * FILTERS, FILTERS * sizeof *l->clean);
      }
    if (step == 0) whole_check(l, f);
    *hit = was;
  }
}

static void flip_filter(layer *l, finding *f) {
  const int64_t t = (int64_t)(rdt_rng_next(&l->r) % LENGTH), j = (int64_t)(rdt_rng_next(&l->r) % FILTERS);
  const int bits = 8 * (int)rdt_dtype_size(l->in);
  double *hit = &l->s.b[t * FILTERS + j];
  const double was = *hit;
  *hit = rdt_sim_flip(l->in, was, (int)(rdt_rng_next(&l->r) % (uint64_t)bits));
  f->left = f->right = j;
  f->bottom = PIXELS - 1;
  compute(l, f);
  for (int64_t i = 0; i < PIXELS && !f->fc; i++) row_check(l, i, true, f);
  whole_check(l, f);
  *hit = was;
  for (int64_t i = 0; i < PIXELS; i++) l->s.out[i * FILTERS + j] = l->clean[i * FILTERS + j];
}

static void flip_output(layer *l, finding *f) {
  const int64_t pixel = (int64_t)(rdt_rng_next(&l->r) % PIXELS), j = (int64_t)(rdt_rng_next(&l->r) % FILTERS);
  const int bits = 8 * (int)rdt_dtype_size(l->out);
  double *hit = &l->s.out[pixel * FILTERS + j];
  *hit = rdt_sim_flip(l->out, *hit, (int)(rdt_rng_next(&l->r) % (uint64_t)bits));
  row_check(l, pixel, true, f);
  whole_check(l, f);
  *hit = l->clean[pixel * FILTERS + j];
}

/* Before anything is hit. */
static int64_t false_alarms(layer *l) {
  double floor;
  int64_t n = cries(l, &l->all_rows, &floor);
  for (int64_t i = 0; i < PIXELS; i++) {
    rdt_sim_side_a(&l->s, &l->row, i, i + 1);
    n += cries(l, &l->row, &floor);
  }
  return n;
}

static bool measure(rdt_published *p, layer *l, const char *data, int place) {
  enum { AGAIN = 16, LINES = PLACES * 2 * TYPES };
  static void (*const flip[PLACES])(layer * l, finding * f) = {flip_input, flip_filter, flip_output};
  const int64_t trials = p->asked->trials;
  int64_t changed = 0, fc = 0, fic = 0, fc_above = 0, fc_missed = 0, fic_above = 0, fic_missed = 0;
  for (int64_t i = 0; i < trials; i++) {
    finding f = {.changed = false};
    if (i % AGAIN == 0 && !rdt_published_go_on(p, LINES, (double)i / (double)trials)) return false;
    flip[place](l, &f);
    changed += f.changed;
    fc += f.fc;
    fic += f.fic;
    fc_above += f.fc_above;
    fic_above += f.fic_above;
    fc_missed += f.fc_above && !f.fc;
    fic_missed += f.fic_above && !f.fic;
  }
  p->missed += fc_missed + fic_missed;
  p->done++;
  rdt_bench_text(&p->out, data);
  rdt_bench_text(&p->out, l->exact ? "s8" : "f16");
  rdt_bench_text(&p->out, PLACE[place]);
  rdt_bench_integer(&p->out, (long long)trials);
  rdt_bench_integer(&p->out, (long long)changed);
  rdt_published_share(p, fc, trials);
  rdt_bench_integer(&p->out, (long long)fc_above);
  rdt_bench_integer(&p->out, (long long)fc_missed);
  rdt_published_share(p, fic, trials);
  rdt_bench_integer(&p->out, (long long)fic_above);
  rdt_bench_integer(&p->out, (long long)fic_missed);
  return true;
}

bool rdt_published_convolution(rdt_published *p) {
  static const char *const columns[] = {"data|tensors",
                                        "dtype|datatype",
                                        "place|flipped",
                                        "flips|flips",
                                        "changed|that change an output",
                                        "fc|FC finds, %",
                                        "fc_low|from",
                                        "fc_high|to",
                                        "fc_above|above its floor",
                                        "fc_missed|of these missed",
                                        "fic|FIC finds, %",
                                        "fic_low|from",
                                        "fic_high|to",
                                        "fic_above|above its floor",
                                        "fic_missed|of these missed"};
  rdt_bench_table(&p->out, "convolution",
                  "Single bit flips in memory, 64 channels of 56 x 56, 64 filters of 3 x 3: checksums of the filters "
                  "(FC) and of filters and inputs (FIC)",
                  columns, (int)(sizeof columns / sizeof *columns));
  bool good = true;
  for (int exact = TYPES - 1; good && exact >= 0; exact--) {
    layer l;
    good = make(&l, exact, p);
    for (int ones = 1; good && ones >= 0; ones--) {
      good = fill(&l, ones);
      if (good) p->missed += false_alarms(&l);
      for (int place = 0; good && place < PLACES; place++) good = measure(p, &l, ones ? "ones" : "random", place);
    }
    clear(&l);
  }
  return good;
}
