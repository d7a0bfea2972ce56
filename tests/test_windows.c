/* Convolutions and pools over one to three spatial dimensions: shapes and values of every attribute on the reference
 * kernels against loops over logical indices, refusals, and faults in a network of them. Data are small integers, so
 * that all results are exact. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "net/model.h"
#include "util_moves.h"

enum { SPATIAL = 3 };

static int end(void **state) {
  (void)state;
  util_moves_free();
  return 0;
}

static rdt_tensor integers(rdt_dtype t, int rank, const int64_t *shape, uint64_t seed) {
  rdt_tensor x = util_count(t, rank, shape);
  for (int64_t i = 0; i < rdt_tensor_count(&x); i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    rdt_store(x.data, t, i, (double)(int)(seed >> 60) - 8.0);
  }
  return x;
}

typedef struct window_case {
  int spatial;
  int64_t n, c, oc, image[SPATIAL], kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], groups;
  int64_t before[SPATIAL], after[SPATIAL]; /* what counts */
  const char *auto_pad;                    /* NULL: the pads are given */
  int64_t out[SPATIAL];
  bool ceil, count_pad;
} window_case;

static util_attr list(const char *name, int n, const int64_t *values) {
  util_attr a = UTIL_INTS(name, n, 0);
  memcpy(a.ints, values, (size_t)n * sizeof *values);
  return a;
}

/* The attributes of a case; all of them, also where they are the default. */
static void attrs_of(const window_case *c, util_attr *a, bool conv) {
  const int s = c->spatial;
  int64_t pads[2 * SPATIAL];
  memcpy(pads, c->before, (size_t)s * sizeof *pads);
  memcpy(pads + s, c->after, (size_t)s * sizeof *pads);
  *a++ = list("kernel_shape", s, c->kernel);
  *a++ = list("strides", s, c->stride);
  *a++ = list("dilations", s, c->dilation);
  *a++ = c->auto_pad ? (util_attr)UTIL_STRING("auto_pad", c->auto_pad) : list("pads", 2 * s, pads);
  if (conv) *a++ = (util_attr)UTIL_INT("group", c->groups);
  if (!conv) *a++ = (util_attr)UTIL_INT("ceil_mode", c->ceil);
  if (c->count_pad) *a++ = (util_attr)UTIL_INT("count_include_pad", 1);
  *a = (util_attr){.name = NULL};
}

static void shape_of(const window_case *c, int64_t n, int64_t channels, const int64_t *image, int64_t *shape) {
  shape[0] = n;
  shape[1] = channels;
  memcpy(shape + 2, image, (size_t)c->spatial * sizeof *image);
}

/* The next place in row-major order within these lengths, from all zeros on; false after the last one. */
static bool advance(int64_t *place, const int64_t *lengths, int n) {
  for (int d = n - 1; d >= 0; d--) {
    if (++place[d] < lengths[d]) return true;
    place[d] = 0;
  }
  return false;
}

/* Where the tap falls, behind n and c in x: inside the image; *counts: inside the padded one. */
static bool falls(const window_case *c, const int64_t *out, const int64_t *tap, int64_t *x, bool *counts) {
  bool in = true;
  *counts = true;
  for (int d = 0; d < c->spatial; d++) {
    x[2 + d] = out[2 + d] * c->stride[d] - c->before[d] + tap[d] * c->dilation[d];
    in = in && x[2 + d] >= 0 && x[2 + d] < c->image[d];
    *counts = *counts && x[2 + d] < c->image[d] + c->after[d];
  }
  return in;
}

static double conv_at(const window_case *c, const rdt_tensor *in, const int64_t *out) {
  const int64_t icg = c->c / c->groups, group = out[1] / (c->oc / c->groups);
  double sum = util_at(&in[2], &out[1]);
  bool counts;
  for (int64_t ic = 0; ic < icg; ic++) {
    int64_t tap[SPATIAL] = {0}, x[5] = {out[0], group * icg + ic}, w[5] = {out[1], ic};
    do {
      memcpy(w + 2, tap, sizeof tap);
      if (falls(c, out, tap, x, &counts)) sum += util_at(&in[0], x) * util_at(&in[1], w);
    } while (advance(tap, c->kernel, c->spatial));
  }
  return sum;
}

static void test_conv(void **state) {
  (void)state;
  static const window_case cases[] = {
      {2, 2, 3, 4, {7, 6}, {3, 3}, {1, 1}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {5, 4}, 0, 0},
      {2, 1, 3, 4, {7, 6}, {3, 2}, {2, 1}, {1, 2}, 1, {1, 0}, {2, 1}, NULL, {4, 5}, 0, 0},
      {2, 2, 4, 6, {5, 5}, {3, 3}, {1, 1}, {1, 1}, 2, {1, 1}, {1, 1}, NULL, {5, 5}, 0, 0},
      {2, 1, 4, 4, {5, 5}, {3, 3}, {1, 1}, {1, 1}, 4, {1, 1}, {1, 1}, NULL, {5, 5}, 0, 0},
      {2, 1, 2, 3, {6, 7}, {3, 3}, {2, 2}, {1, 1}, 1, {0, 1}, {1, 1}, "SAME_UPPER", {3, 4}, 0, 0},
      {2, 1, 2, 3, {6, 7}, {3, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {0, 1}, "SAME_LOWER", {3, 4}, 0, 0},
      {2, 1, 2, 3, {6, 7}, {3, 3}, {2, 2}, {1, 1}, 1, {0, 0}, {0, 0}, "VALID", {2, 3}, 0, 0},
      {2, 1, 2, 3, {9, 9}, {1, 1}, {4, 4}, {1, 1}, 1, {0, 0}, {0, 0}, "SAME_UPPER", {3, 3}, 0, 0},
      {1, 2, 3, 4, {9}, {3}, {2}, {2}, 1, {2}, {1}, NULL, {4}, 0, 0},
      {2, 0, 3, 4, {7, 6}, {3, 3}, {1, 1}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {5, 4}, 0, 0},
      {2, 1, 0, 4, {4, 4}, {3, 3}, {1, 1}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {2, 2}, 0, 0},
      {3, 2, 3, 4, {5, 6, 4}, {3, 3, 2}, {1, 1, 1}, {1, 1, 1}, 1, {0, 0, 0}, {0, 0, 0}, NULL, {3, 4, 3}, 0, 0},
      {3, 1, 4, 6, {5, 7, 6}, {2, 3, 3}, {1, 2, 1}, {2, 1, 1}, 2, {0, 1, 2}, {2, 1, 0}, NULL, {5, 4, 6}, 0, 0},
      {3, 1, 2, 3, {6, 7, 5}, {3, 3, 2}, {2, 2, 1}, {1, 1, 1}, 1, {0, 1, 0}, {1, 1, 1}, "SAME_UPPER", {3, 4, 5}, 0, 0},
      {3, 1, 3, 3, {4, 3, 3}, {3, 1, 3}, {1, 1, 1}, {1, 1, 1}, 3, {1, 0, 1}, {1, 0, 1}, NULL, {4, 3, 3}, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const window_case *c = &cases[i];
    const int rank = c->spatial + 2;
    util_attr attrs[8];
    int64_t x[5], w[5], y[5], place[5] = {0};
    attrs_of(c, attrs, true);
    shape_of(c, c->n, c->c, c->image, x);
    shape_of(c, c->oc, c->c / c->groups, c->kernel, w);
    shape_of(c, c->n, c->oc, c->out, y);
    const rdt_tensor in[3] = {integers(RDT_F32, rank, x, 1), integers(RDT_F32, rank, w, 2),
                              integers(RDT_F32, 1, &c->oc, 3)};
    const rdt_tensor got = util_run(13, "Conv", in, 3, 1, 0, attrs);
    util_expect_shape(&got, RDT_F32, rank, y);
    if (rdt_tensor_count(&got) == 0) continue;
    do {
      const double e = conv_at(c, in, place), g = util_at(&got, place);
      if (e != g) fail_msg("case %zu: %g instead of %g", i, g, e);
    } while (advance(place, y, rank));
  }
}

typedef struct pooled {
  double max, average, place, place_by_columns;
} pooled;

static pooled pool_at(const window_case *c, const rdt_tensor *t, const int64_t *out) {
  pooled r = {.max = -1e30};
  double sum = 0;
  int64_t tap[SPATIAL] = {0}, x[5] = {out[0], out[1]}, pixels = 1;
  int cells = 0;
  for (int d = 0; d < c->spatial; d++) pixels *= c->image[d];
  do {
    bool counts;
    const bool in = falls(c, out, tap, x, &counts);
    cells += c->count_pad ? counts : in;
    if (!in) continue;
    const double v = util_at(t, x);
    sum += v;
    if (v <= r.max) continue;
    const double plane = (double)((x[0] * c->c + x[1]) * pixels);
    r = (pooled){v, 0, 0, 0};
    for (int d = 0; d < c->spatial; d++) r.place = r.place * (double)c->image[d] + (double)x[2 + d];
    for (int d = c->spatial - 1; d >= 0; d--)
      r.place_by_columns = r.place_by_columns * (double)c->image[d] + (double)x[2 + d];
    r.place += plane;
    r.place_by_columns += plane;
  } while (advance(tap, c->kernel, c->spatial));
  r.average = (float)(sum / cells);
  return r;
}

static void expect_pool(size_t i, const window_case *c, const char *op, const rdt_tensor *x, const rdt_tensor *got,
                        int which) {
  int64_t y[5], place[5] = {0};
  shape_of(c, c->n, c->c, c->out, y);
  util_expect_shape(got, which > 1 ? RDT_S64 : RDT_F32, c->spatial + 2, y);
  if (rdt_tensor_count(got) == 0) return;
  do {
    const pooled p = pool_at(c, x, place);
    const double all[] = {p.average, p.max, p.place, p.place_by_columns}, g = util_at(got, place);
    if (all[which] != g) fail_msg("case %zu, %s, result %d: %g instead of %g", i, op, which, g, all[which]);
  } while (advance(place, y, c->spatial + 2));
}

static void test_pools(void **state) {
  (void)state;
  static const window_case cases[] = {
      {2, 2, 3, 0, {7, 6}, {2, 2}, {2, 2}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {3, 3}, 0, 0},
      {2, 2, 3, 0, {7, 6}, {2, 2}, {2, 2}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {4, 3}, 1, 0},
      {2, 1, 2, 0, {7, 6}, {3, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {1, 1}, NULL, {4, 3}, 0, 0},
      {2, 1, 2, 0, {7, 6}, {3, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {1, 1}, NULL, {4, 4}, 1, 0},
      {2, 1, 2, 0, {7, 6}, {3, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {1, 1}, NULL, {4, 3}, 0, 1},
      {2, 1, 2, 0, {7, 6}, {3, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {1, 1}, NULL, {4, 4}, 1, 1},
      {2, 1, 2, 0, {9, 9}, {2, 2}, {2, 3}, {2, 3}, 1, {0, 0}, {0, 0}, NULL, {4, 2}, 0, 0},
      {2, 1, 2, 0, {5, 6}, {2, 3}, {2, 2}, {1, 1}, 1, {0, 0}, {1, 1}, "SAME_UPPER", {3, 3}, 0, 0},
      {2, 1, 2, 0, {5, 6}, {2, 3}, {2, 2}, {1, 1}, 1, {1, 1}, {0, 0}, "SAME_LOWER", {3, 3}, 0, 0},
      /* the last window of ceil mode would lie in the padding: it is left out */
      {2, 1, 1, 0, {4, 4}, {1, 1}, {3, 3}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {2, 2}, 1, 0},
      {2, 1, 1, 0, {3, 3}, {2, 2}, {3, 3}, {1, 1}, 1, {0, 0}, {1, 1}, NULL, {1, 1}, 1, 0},
      {1, 2, 3, 0, {9}, {3}, {2}, {1}, 1, {1}, {1}, NULL, {5}, 0, 0},
      {2, 0, 3, 0, {7, 6}, {2, 2}, {2, 2}, {1, 1}, 1, {0, 0}, {0, 0}, NULL, {3, 3}, 0, 0},
      {3, 2, 3, 0, {7, 6, 5}, {2, 2, 3}, {2, 2, 1}, {1, 1, 1}, 1, {0, 0, 0}, {0, 0, 0}, NULL, {3, 3, 3}, 0, 0},
      {3, 1, 2, 0, {7, 6, 5}, {3, 3, 2}, {2, 2, 2}, {1, 1, 1}, 1, {1, 1, 0}, {1, 1, 1}, NULL, {4, 4, 3}, 1, 1},
      {3, 1, 2, 0, {6, 9, 5}, {2, 3, 2}, {2, 2, 3}, {2, 2, 1}, 1, {0, 1, 1}, {1, 1, 0}, NULL, {3, 4, 2}, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const window_case *c = &cases[i];
    int64_t shape[5];
    util_attr attrs[10], *last = attrs;
    shape_of(c, c->n, c->c, c->image, shape);
    const rdt_tensor x = integers(RDT_F32, c->spatial + 2, shape, i + 1);
    attrs_of(c, attrs, false);
    const rdt_tensor average = util_run(19, "AveragePool", &x, 1, 1, 0, attrs);
    expect_pool(i, c, "AveragePool", &x, &average, 0);
    if (c->count_pad) continue;
    while (last->name) last++;
    last[1] = (util_attr){.name = NULL};
    for (int columns = 0; columns < 2; columns++)
      for (int which = 0; which < 2; which++) {
        last[0] = (util_attr)UTIL_INT("storage_order", columns);
        const rdt_tensor y = util_run(12, "MaxPool", &x, 1, 2, which, attrs);
        expect_pool(i, c, "MaxPool", &x, &y, which == 0 ? 1 : 2 + columns);
      }
  }
}

/* The first of equal ones, NaN above all, and nothing where there are no pixels. */
static void test_positions(void **state) {
  (void)state;
  const rdt_tensor x = util_of(RDT_F32, 3, SHAPE(1, 2, 4), (const double[]){3, 7, 7, NAN, 1, NAN, 9, NAN});
  const util_attr *three = UTIL_ATTRS(UTIL_INTS("kernel_shape", 1, 3));
  rdt_tensor y = util_run(12, "MaxPool", &x, 1, 2, 1, three);
  util_expect_shape(&y, RDT_S64, 3, SHAPE(1, 2, 2));
  util_expect_values(&y, (const double[]){1, 3, 5, 5});
  y = util_run(12, "MaxPool", &x, 1, 2, 1,
               UTIL_ATTRS(UTIL_INTS("kernel_shape", 1, 1), UTIL_INTS("strides", 1, 5), UTIL_INTS("pads", 2, 2, 4)));
  util_expect_values(&y, (const double[]){-1, 3, -1, 7});
}

static void test_global(void **state) {
  (void)state;
  for (int rank = 3; rank <= 5; rank++) {
    const rdt_tensor x = integers(RDT_F32, rank, SHAPE(2, 3, 4, 2, 4), 5);
    const int64_t pixels = rank == 3 ? 4 : rank == 4 ? 8 : 32;
    const rdt_tensor average = util_run(13, "GlobalAveragePool", &x, 1, 1, 0, NULL);
    const rdt_tensor top = util_run(13, "GlobalMaxPool", &x, 1, 1, 0, NULL);
    util_expect_shape(&average, RDT_F32, rank, SHAPE(2, 3, 1, 1, 1));
    util_expect_shape(&top, RDT_F32, rank, SHAPE(2, 3, 1, 1, 1));
    for (int64_t i = 0; i < 6; i++) {
      double sum = 0, max = -1e30;
      for (int64_t k = 0; k < pixels; k++) {
        const double v = ((float *)x.data)[i * pixels + k];
        sum += v;
        max = v > max ? v : max;
      }
      assert_true(((float *)average.data)[i] == (float)(sum / (double)pixels));
      assert_true(((float *)top.data)[i] == (float)max);
    }
  }
}

/* Three lengths of a kernel whose product is beyond 64 bits, nearly all of it padding that counts. */
static void test_giant_padding(void **state) {
  (void)state;
  const int64_t k = INT32_MAX, before = 1 << 30, after = k - 2 - before;
  const rdt_tensor x = util_count(RDT_F32, 5, SHAPE(1, 1, 2, 2, 2));
  const util_attr *attrs = UTIL_ATTRS(UTIL_INTS("kernel_shape", 3, k, k, k), UTIL_INT("count_include_pad", 1),
                                      UTIL_INTS("pads", 6, before, before, before, after, after, after));
  const rdt_tensor y = util_run(19, "AveragePool", &x, 1, 1, 0, attrs),
                   top = util_run(19, "MaxPool", &x, 1, 1, 0, attrs);
  util_expect_shape(&y, RDT_F32, 5, SHAPE(1, 1, 1, 1, 1));
  const float cells = (float)((double)k * (double)k * (double)k);
  util_expect_values(&y, (const double[]){(double)(36.0f / cells)});
  util_expect_values(&top, (const double[]){8});
}

static void refuse(const char *op, const rdt_tensor *in, int n_in, const util_attr *attrs, rdt_status status,
                   const char *words) {
  util_refuse(13, op, in, n_in, 1, attrs, status, words);
}

static void test_errors(void **state) {
  (void)state;
  const rdt_tensor in[2] = {util_count(RDT_F32, 4, SHAPE(1, 3, 5, 5)), util_count(RDT_F32, 4, SHAPE(4, 3, 3, 3))};
  const rdt_tensor deep = util_count(RDT_F32, 6, SHAPE(1, 1, 2, 2, 2, 2)), flat = util_count(RDT_F32, 2, SHAPE(1, 3));
  const rdt_tensor odd = util_count(RDT_F32, 4, SHAPE(1, 2, 5, 5)), empty = util_count(RDT_F32, 4, SHAPE(1, 2, 0, 3));
  const rdt_tensor whole = util_count(RDT_S32, 4, SHAPE(1, 2, 3, 3)),
                   cube = util_count(RDT_F32, 5, SHAPE(1, 3, 5, 5, 5));
  refuse("Conv", (rdt_tensor[]){odd, in[1]}, 2, NULL, RDT_ERR_SHAPE, "1x2x5x5");
  refuse("Conv", (rdt_tensor[]){deep, deep}, 2, NULL, RDT_ERR_UNSUPPORTED, "one to 3 spatial");
  refuse("Conv", (rdt_tensor[]){flat, flat}, 2, NULL, RDT_ERR_SHAPE, "rank 3 to 5");
  refuse("Conv", (rdt_tensor[]){cube, in[1]}, 2, NULL, RDT_ERR_SHAPE, "ranks must agree");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 3, 2)), RDT_ERR_SHAPE, "kernel_shape");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("strides", 2, 0, 1)), RDT_ERR_SHAPE, "stride 0");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("strides", 1, 1)), RDT_ERR_FORMAT, "strides");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INT("strides", 1)), RDT_ERR_FORMAT, "strides");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("pads", 4, -1, 0, 0, 0)), RDT_ERR_SHAPE, "pads -1");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("pads", 4, INT64_MAX, 0, INT64_MAX, 0)), RDT_ERR_SHAPE, "range");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INTS("dilations", 2, 3, 3)), RDT_ERR_SHAPE, "window of 7");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_STRING("auto_pad", "SAME")), RDT_ERR_FORMAT, "SAME_UPPER");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INT("auto_pad", 1)), RDT_ERR_FORMAT, "auto_pad");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INT("group", 2)), RDT_ERR_SHAPE, "groups");
  refuse("Conv", in, 2, UTIL_ATTRS(UTIL_INT("group", 0)), RDT_ERR_SHAPE, "groups");
  refuse("Conv", (rdt_tensor[]){whole, whole}, 2, NULL, RDT_ERR_DTYPE, "s32");
  refuse("MaxPool", in, 1, NULL, RDT_ERR_FORMAT, "kernel_shape");
  refuse("MaxPool", in, 1, UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 9, 9)), RDT_ERR_SHAPE, "larger");
  refuse("MaxPool", &cube, 1, UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 2, 2)), RDT_ERR_FORMAT, "list of 3");
  refuse("AveragePool", &deep, 1, UTIL_ATTRS(UTIL_INTS("kernel_shape", 4, 1, 1, 1, 1)), RDT_ERR_UNSUPPORTED, "spatial");
  refuse("GlobalAveragePool", &empty, 1, NULL, RDT_ERR_SHAPE, "without pixels");
}

/* ---- a network over images of any dimensions ---- */

static const int64_t image[5] = {2, 3, 7, 8, 6}, weight[5] = {20, 3, 3, 3, 3}, fold[5] = {5, 20, 1, 1, 1};

static void make_net(util_onnx *m, int spatial) {
  const rdt_tensor w1 = integers(RDT_F32, 2 + spatial, weight, 1), w2 = integers(RDT_F32, 2 + spatial, fold, 2);
  util_onnx_init(m, 12);
  util_onnx_input(m, "x", RDT_F32, 2 + spatial, image);
  util_onnx_initializer(m, "w1", RDT_F32, 2 + spatial, weight, w1.data);
  util_onnx_initializer(m, "w2", RDT_F32, 2 + spatial, fold, w2.data);
  util_onnx_node(m, "Conv", "conv", "x w1", "a", UTIL_ATTRS(UTIL_INTS("pads", 2 * spatial, 1, 1, 1, 1, 1, 1)));
  util_onnx_node(m, "Relu", "relu", "a", "b", NULL);
  util_onnx_node(m, "MaxPool", "pool", "b", "c places",
                 UTIL_ATTRS(UTIL_INTS("kernel_shape", spatial, 2, 2, 2), UTIL_INTS("strides", spatial, 2, 2, 2)));
  util_onnx_node(m, "Conv", "mix", "c w2", "d", NULL);
  util_onnx_node(m, "GlobalAveragePool", "mean", "d", "y", NULL);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
  util_onnx_output(m, "places", RDT_S64, -1, NULL);
}

typedef struct walk {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor x, clean[2];
} walk;

static bool as_clean(const walk *w) {
  bool same = true;
  for (size_t i = 0; i < 2; i++) {
    rdt_tensor y;
    assert_int_equal(rdt_model_output(w->model, i, &y), RDT_OK);
    assert_int_equal(rdt_tensor_count(&y), rdt_tensor_count(&w->clean[i]));
    same = same && memcmp(y.data, w->clean[i].data, (size_t)rdt_tensor_count(&y) * rdt_dtype_size(y.dtype)) == 0;
  }
  return same;
}

/* What the reference kernels make of the network without checks is what the engine must give. */
static void start(walk *w, int spatial, int threads, const char *scheme) {
  char path[] = "/tmp/redoubt-windows-XXXXXX";
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_run_result r;
  util_onnx m;
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  make_net(&m, spatial);
  util_onnx_save(&m, path);
  rdt_graph *g = util_graph_load(&m);
  w->x = integers(RDT_F32, 2 + spatial, image, 7);
  for (int i = 0; i < 2; i++) w->clean[i] = util_graph_run(g, &w->x, 1, i);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&w->ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(w->ctx, &policy), RDT_OK);
  if (rdt_model_load(w->ctx, path, &w->model) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
  if (rdt_model_run(w->model, &w->x, 1, &r) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
  assert_int_equal(r.verdict, RDT_CLEAN);
  unlink(path);
}

static void test_network(void **state) {
  static const char *const specs[] = {"bit:30@accum,layer=conv", "bit:29@accum,layer=mix",
                                      "bit:22@nonlinear,layer=pool", "bit:30@nonlinear,layer=mean",
                                      "bit:30@weight,layer=conv"};
  static const char *const schemes[] = {"auto", "fc", "ic"};
  (void)state;
  for (int spatial = 1; spatial <= SPATIAL; spatial++)
    for (int round = 0; round < 3; round++) {
      walk w;
      start(&w, spatial, 1 + round % 2, schemes[round]);
      assert_true(as_clean(&w));
      for (int i = 0; i < 5 * 4; i++) {
        char spec[80];
        rdt_run_result r;
        snprintf(spec, sizeof spec, "%s,seed=%d", specs[i % 5], i);
        assert_int_equal(rdt_model_inject(w.model, spec), RDT_OK);
        if (rdt_model_run(w.model, &w.x, 1, &r) != RDT_OK) fail_msg("%s", rdt_context_error(w.ctx));
        const rdt_injection *j = rdt_model_injection(w.model);
        assert_true(j->done);
        if (j->changed != 0 && r.verdict != RDT_RECOMPUTED)
          fail_msg("%d spatial dimensions, %s, %s: missed %s", spatial, schemes[round], spec, j->text);
        assert_true(as_clean(&w));
      }
      rdt_model_free(w.model);
      rdt_context_destroy(w.ctx);
      for (int i = 0; i < 2; i++) rdt_free(w.clean[i].data);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_conv, end),          cmocka_unit_test_teardown(test_pools, end),
      cmocka_unit_test_teardown(test_positions, end),     cmocka_unit_test_teardown(test_global, end),
      cmocka_unit_test_teardown(test_giant_padding, end), cmocka_unit_test_teardown(test_errors, end),
      cmocka_unit_test_teardown(test_network, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
