/* Quantised tensors and products against integer arithmetic written down here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>

#include "core/memory.h"
#include "util_graph.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static uint64_t random_state = 1;

static int draw(int low, int high) { /* both included */
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return low + (int)((random_state >> 33) % (uint64_t)(high - low + 1));
}

static int least(rdt_dtype t) {
  return t == RDT_S8 ? -128 : 0;
}

static rdt_tensor tensor(rdt_dtype t, int rank, const int64_t *shape, int low, int high) {
  rdt_tensor x = rdt_tensor_dense(NULL, t, rank, shape);
  x.data = rdt_alloc((size_t)rdt_tensor_count(&x), rdt_dtype_size(t));
  for (int64_t e = 0; e < rdt_tensor_count(&x); e++) rdt_store(x.data, t, e, draw(low, high));
  return x;
}

static rdt_tensor bytes(rdt_dtype t, int rank, const int64_t *shape) {
  return tensor(t, rank, shape, least(t), least(t) + 255);
}

/* Positive, not too regular */
static rdt_tensor scales(int rank, const int64_t *shape) {
  rdt_tensor x = tensor(RDT_F32, rank, shape, 1, 1000);
  for (int64_t e = 0; e < rdt_tensor_count(&x); e++) ((float *)x.data)[e] *= 0.00037f;
  return x;
}

static int64_t value(const rdt_tensor *t, int64_t e) {
  return (int64_t)rdt_load(t->data, t->dtype, e);
}

/* Of a scalar or vector parameter */
static int64_t zero_at(const rdt_tensor *t, int64_t i) {
  return !t->data ? 0 : value(t, rdt_tensor_count(t) == 1 ? 0 : i);
}

static float scale_at(const rdt_tensor *t, int64_t i) {
  return ((const float *)t->data)[rdt_tensor_count(t) == 1 ? 0 : i];
}

static void release(rdt_tensor *t, int n) {
  for (int i = 0; i < n; i++) rdt_free(t[i].data);
}

/* One node over inputs i0, i1, ..; those without data are absent. From `fixed` on they are initializers. */
static void one_node(util_onnx *m, int64_t opset, const char *op, const rdt_tensor *in, int n, int fixed,
                     const util_attr *attrs) {
  char names[128] = "", name[8] = "i0";
  util_onnx_init(m, opset);
  for (int i = 0; i < n; i++) {
    name[1] = (char)('0' + i);
    strcat(strcat(names, " "), in[i].rank < 0 ? "-" : name);
    if (in[i].rank < 0) continue;
    if (i >= fixed)
      util_onnx_initializer(m, name, in[i].dtype, in[i].rank, in[i].shape, in[i].data);
    else
      util_onnx_input(m, name, in[i].dtype, in[i].rank, in[i].shape);
  }
  util_onnx_node(m, op, "node", names, "y", attrs);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
}

static const rdt_tensor absent = {.rank = -1};

static rdt_tensor run_fixed(int64_t opset, const char *op, const rdt_tensor *in, int n, int fixed,
                            const util_attr *attrs) {
  util_onnx m;
  rdt_tensor given[16];
  int n_given = 0;
  one_node(&m, opset, op, in, n, fixed, attrs);
  for (int i = 0; i < n && i < fixed; i++)
    if (in[i].rank >= 0) given[n_given++] = in[i];
  rdt_graph *g = util_graph_load(&m);
  rdt_tensor y = util_graph_run(g, given, n_given, 0);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  return y;
}

static rdt_tensor run(int64_t opset, const char *op, const rdt_tensor *in, int n, const util_attr *attrs) {
  return run_fixed(opset, op, in, n, n, attrs);
}

/* Loading or inference must refuse with this status and word. */
static void refuse(int64_t opset, const char *op, const rdt_tensor *in, int n, const util_attr *attrs,
                   rdt_status expected, const char *word) {
  util_onnx m;
  rdt_reason why = {""};
  rdt_graph *g = NULL;
  size_t size;
  one_node(&m, opset, op, in, n, n, attrs);
  void *data = util_onnx_pack(&m, &size);
  rdt_status s = rdt_graph_load_memory(data, size, "test.onnx", &g, &why);
  if (s == RDT_OK) s = util_graph_try(g, in, n, &why);
  if (s != expected || !strstr(why.text, word) || !strstr(why.text, "test.onnx: node 'node"))
    fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), why.text, rdt_status_name(expected), word);
  rdt_graph_free(g);
  free(data);
  util_onnx_clear(&m);
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

static int64_t saturated(double rounded, int64_t zero, rdt_dtype t) {
  const double low = least(t), high = low + 255, y = rounded + (double)zero;
  return (int64_t)(!(y > low) ? low : y > high ? high : y);
}

static void check_quantize(const rdt_tensor *x, const rdt_tensor *scale, const rdt_tensor *zero, int axis,
                           const rdt_tensor *y) {
  int64_t inner = 1;
  for (int d = axis + 1; d < x->rank; d++) inner *= x->shape[d];
  for (int64_t e = 0; e < rdt_tensor_count(x); e++) {
    const int64_t i = x->rank ? e / inner % x->shape[axis] : 0;
    const float q = ((const float *)x->data)[e] / scale_at(scale, i);
    const int64_t want = saturated(rint((double)q), zero_at(zero, i), y->dtype), got = value(y, e);
    if (want != got) fail_msg("element %lld: %lld, not %lld", (long long)e, (long long)got, (long long)want);
  }
}

static void test_quantize(void **state) {
  (void)state;
  static const struct {
    int rank, axis, vector; /* vector: bit 0 scale, bit 1 zero point */
    int64_t shape[4];
  } cases[] = {{1, 0, 0, {1100}},       {0, 0, 0, {0}},         {2, 1, 3, {37, 19}},    {4, 1, 3, {2, 5, 3, 4}},
               {4, 0, 3, {5, 2, 3, 4}}, {3, 2, 1, {2, 3, 700}}, {3, 0, 2, {4, 2, 600}}, {2, 1, 3, {3, 0}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int kind = 0; kind < 4; kind++) { /* u8, s8, u8 without zero point, negative axis */
      const int64_t length = cases[i].rank ? cases[i].shape[cases[i].axis] : 1;
      const rdt_dtype t = kind == 1 ? RDT_S8 : RDT_U8;
      rdt_tensor x = tensor(RDT_F32, cases[i].rank, cases[i].shape, -2000, 2000);
      for (int64_t e = 0; e < rdt_tensor_count(&x); e++) ((float *)x.data)[e] *= 0.017f;
      rdt_tensor in[3] = {x, scales(cases[i].vector & 1, &length), bytes(t, cases[i].vector >> 1, &length)};
      if (kind == 2) {
        rdt_free(in[2].data);
        in[2] = absent;
      }
      const int axis = kind == 3 && cases[i].rank ? cases[i].axis - cases[i].rank : cases[i].axis;
      rdt_tensor y = run(13, "QuantizeLinear", in, 3, UTIL_ATTRS(UTIL_INT("axis", axis)));
      assert_int_equal(y.dtype, t);
      check_quantize(&x, &in[1], &in[2], cases[i].axis, &y);
      rdt_free(y.data);
      release(in, 3);
    }
}

static void test_rounding(void **state) {
  (void)state;
  float x[] = {0.5f,   1.5f,     2.5f,      -0.5f, -1.5f,  -2.5f,  127.5f, 126.5f, -128.5f,    -129.5f, 300.0f,
               -1e30f, INFINITY, -INFINITY, NAN,   1e-30f, 254.5f, 255.5f, 256.0f, 8388609.0f, 3e9f,    -0.0f};
  const int s8[] = {0,    2,   2,    0,    -2, -2,  127, 126, -128, -128, 127,
                    -128, 127, -128, -128, 0,  127, 127, 127, 127,  127,  0};
  const int u8[] = {0, 2, 2, 0, 0, 0, 128, 126, 0, 0, 255, 0, 255, 0, 0, 0, 254, 255, 255, 255, 255, 0};
  float one = 1.0f;
  uint8_t none = 0;
  enum { N = sizeof x / sizeof *x };
  for (int t = 0; t < 2; t++) {
    rdt_tensor in[3] = {rdt_tensor_dense(x, RDT_F32, 1, SHAPE(N)), rdt_tensor_dense(&one, RDT_F32, 0, NULL),
                        rdt_tensor_dense(&none, t ? RDT_U8 : RDT_S8, 0, NULL)};
    rdt_tensor y = run(13, "QuantizeLinear", in, 3, NULL);
    for (int e = 0; e < N; e++)
      if (value(&y, e) != (t ? u8 : s8)[e]) fail_msg("%g to %lld", (double)x[e], (long long)value(&y, e));
    rdt_free(y.data);
  }
}

/* Any scale gives an answer, and always the same. */
static void test_odd_scales(void **state) {
  (void)state;
  float x[] = {-1.0f, 0.0f, 1.0f, NAN};
  const float odd[] = {0.0f, NAN, INFINITY, -INFINITY, -1.0f, 1e-45f};
  const int expected[][4] = {{0, 0, 255, 0},  {0, 0, 0, 0},   {10, 10, 10, 0},
                             {10, 10, 10, 0}, {11, 10, 9, 0}, {0, 10, 255, 0}};
  uint8_t zero = 10;
  for (int i = 0; i < 6; i++) {
    float scale = odd[i];
    rdt_tensor in[3] = {rdt_tensor_dense(x, RDT_F32, 1, SHAPE(4)), rdt_tensor_dense(&scale, RDT_F32, 0, NULL),
                        rdt_tensor_dense(&zero, RDT_U8, 0, NULL)};
    rdt_tensor y = run(13, "QuantizeLinear", in, 3, NULL);
    for (int e = 0; e < 4; e++)
      if (value(&y, e) != expected[i][e])
        fail_msg("%g / %g: %lld", (double)x[e], (double)scale, (long long)value(&y, e));
    rdt_free(y.data);
  }
}

static void test_dequantize(void **state) {
  (void)state;
  static const rdt_dtype types[] = {RDT_S8, RDT_U8, RDT_S32};
  for (int t = 0; t < 3; t++)
    for (int kind = 0; kind < 4; kind++) { /* scalar, without zero point, along axis 1, along axis -1 */
      const int64_t shape[] = {3, 4, 170}, *length = &shape[kind == 3 ? 2 : 1];
      const int low = types[t] == RDT_S32 ? -1000000000 : least(types[t]);
      const int high = types[t] == RDT_S32 ? 1000000000 : low + 255;
      rdt_tensor in[3] = {tensor(types[t], 3, shape, low, high), scales(kind > 1, length), absent};
      if (kind != 1) in[2] = tensor(types[t], kind > 1, length, low, high);
      rdt_tensor y = run(13, "DequantizeLinear", in, 3, UTIL_ATTRS(UTIL_INT("axis", kind == 3 ? -1 : 1)));
      assert_int_equal(y.dtype, RDT_F32);
      for (int64_t e = 0; e < rdt_tensor_count(&y); e++) {
        const int64_t i = kind == 3 ? e % 170 : e / 170 % 4;
        const float want = (float)(value(&in[0], e) - zero_at(&in[2], i)) * scale_at(&in[1], i);
        assert_true(((float *)y.data)[e] == want);
      }
      rdt_free(y.data);
      release(in, 3);
    }
}

/* bf16, f16 and f64: quantising what dequantising gave is where one started. */
static void test_there_and_back(void **state) {
  (void)state;
  static const rdt_dtype types[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16};
  for (int t = 0; t < 4; t++) {
    util_onnx m;
    uint8_t all[256], quarter[8] = {0}, zero = 128;
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    rdt_store(quarter, types[t], 0, 0.25);
    const rdt_tensor x = rdt_tensor_dense(all, RDT_U8, 1, SHAPE(256));
    util_onnx_init(&m, 19);
    util_onnx_input(&m, "x", RDT_U8, 1, SHAPE(256));
    util_onnx_initializer(&m, "scale", types[t], 0, NULL, quarter);
    util_onnx_initializer(&m, "zero", RDT_U8, 0, NULL, &zero);
    util_onnx_node(&m, "DequantizeLinear", NULL, "x scale zero", "real", NULL);
    util_onnx_node(&m, "QuantizeLinear", NULL, "real scale zero", "y", NULL);
    util_onnx_output(&m, "y", RDT_U8, -1, NULL);
    rdt_graph *g = util_graph_load(&m);
    rdt_tensor y = util_graph_run(g, &x, 1, 0);
    assert_memory_equal(y.data, all, 256);
    rdt_free(y.data);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
}

/* Between pools activations lie channels-last, quantised ones too. */
static void test_layout(void **state) {
  (void)state;
  util_onnx m;
  rdt_tensor x = tensor(RDT_F32, 4, SHAPE(2, 5, 3, 4), -40, 40);
  rdt_tensor in[3] = {x, scales(1, SHAPE(5)), bytes(RDT_S8, 1, SHAPE(5))};
  const util_attr *one = UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 1, 1));
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 4, x.shape);
  util_onnx_initializer(&m, "scale", RDT_F32, 1, SHAPE(5), in[1].data);
  util_onnx_initializer(&m, "zero", RDT_S8, 1, SHAPE(5), in[2].data);
  util_onnx_node(&m, "MaxPool", NULL, "x", "p", one);
  util_onnx_node(&m, "QuantizeLinear", NULL, "p scale zero", "q", NULL);
  util_onnx_node(&m, "MaxPool", NULL, "q", "y", one);
  util_onnx_output(&m, "y", RDT_S8, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  rdt_layout l;
  rdt_reason why;
  assert_int_equal(rdt_layout_init(&l, g, &why), RDT_OK);
  assert_int_equal(rdt_graph_infer(g, &x, 1, &l, &why), RDT_OK);
  assert_true(rdt_tensor_is_channels_last(&l.views[rdt_graph_find(g, "q")]));
  rdt_layout_clear(&l);
  rdt_tensor y = util_graph_run(g, &x, 1, 0);
  check_quantize(&x, &in[1], &in[2], 1, &y);
  rdt_free(y.data);
  release(in, 3);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* ---- products ---- */

typedef struct conv_case {
  int64_t x[4], oc, kernel[2], groups, stride, pad;
} conv_case;

static int64_t conv_at(const conv_case *c, const rdt_tensor *x, const rdt_tensor *xz, const rdt_tensor *w,
                       const rdt_tensor *wz, int64_t n, int64_t oc, int64_t oh, int64_t ow) {
  const int64_t ic = c->x[1] / c->groups, group = oc / (c->oc / c->groups);
  int64_t sum = 0;
  for (int64_t k = 0; k < ic; k++)
    for (int64_t i = 0; i < c->kernel[0]; i++)
      for (int64_t j = 0; j < c->kernel[1]; j++) {
        const int64_t h = oh * c->stride - c->pad + i, v = ow * c->stride - c->pad + j;
        if (h < 0 || v < 0 || h >= c->x[2] || v >= c->x[3]) continue; /* what is padded is real zero */
        const int64_t xe = ((n * c->x[1] + group * ic + k) * c->x[2] + h) * c->x[3] + v;
        const int64_t we = ((oc * ic + k) * c->kernel[0] + i) * c->kernel[1] + j;
        sum += (value(x, xe) - zero_at(xz, 0)) * (value(w, we) - zero_at(wz, oc));
      }
  return sum;
}

static const conv_case convs[] = {{{2, 3, 5, 6}, 4, {3, 3}, 1, 1, 1},
                                  {{1, 4, 7, 5}, 6, {3, 2}, 2, 2, 0},
                                  {{1, 4, 4, 4}, 4, {1, 1}, 4, 1, 0},
                                  {{1, 40, 3, 3}, 2, {3, 3}, 1, 1, 1}};
enum { CONVS = sizeof convs / sizeof *convs };

static void conv_attrs(const conv_case *c, util_attr *a) {
  a[0] = (util_attr)UTIL_INT("group", c->groups);
  a[1] = (util_attr)UTIL_INTS("strides", 2, c->stride, c->stride);
  a[2] = (util_attr)UTIL_INTS("pads", 4, c->pad, c->pad, c->pad, c->pad);
  a[3] = (util_attr){.name = NULL};
}

/* Bit 0: x is s8; 1: w is s8; 2: w has a zero point and a scale a channel. */
static rdt_dtype kind_dtype(int kind, int bit) {
  return kind >> bit & 1 ? RDT_S8 : RDT_U8;
}

static void test_qlinear_conv(void **state) {
  int64_t inside = 0, all = 0;
  (void)state;
  for (int i = 0; i < CONVS; i++)
    for (int kind = 0; kind < 32; kind++) { /* bit 3: a bias; bit 4: parameters are constants */
      const conv_case *c = &convs[i];
      const int channel = kind >> 2 & 1;
      util_attr attrs[4];
      conv_attrs(c, attrs);
      rdt_tensor in[9] = {bytes(kind_dtype(kind, 0), 4, c->x),
                          scales(0, NULL),
                          bytes(kind_dtype(kind, 0), 0, NULL),
                          bytes(kind_dtype(kind, 1), 4, SHAPE(c->oc, c->x[1] / c->groups, c->kernel[0], c->kernel[1])),
                          scales(channel, &c->oc),
                          bytes(kind_dtype(kind, 1), channel, &c->oc),
                          scales(0, NULL),
                          bytes(kind_dtype(kind, 0), 0, NULL),
                          kind >> 3 & 1 ? tensor(RDT_S32, 1, &c->oc, -50000, 50000) : absent};
      ((float *)in[6].data)[0] *= 300.0f; /* so that most results are within 8 bits */
      rdt_tensor y = run_fixed(13, "QLinearConv", in, in[8].data ? 9 : 8, kind >> 4 ? 1 : 9, attrs);
      assert_int_equal(y.dtype, in[7].dtype);
      assert_int_equal(y.shape[1], c->oc);
      for (int64_t e = 0; e < rdt_tensor_count(&y); e++) {
        const int64_t ow = e % y.shape[3], oh = e / y.shape[3] % y.shape[2];
        const int64_t oc = e / y.shape[3] / y.shape[2] % c->oc, n = e / y.shape[3] / y.shape[2] / c->oc;
        const int64_t sum = conv_at(c, &in[0], &in[2], &in[3], &in[5], n, oc, oh, ow) + zero_at(&in[8], oc);
        const float factor = scale_at(&in[1], 0) * scale_at(&in[4], oc) / scale_at(&in[6], 0);
        const int64_t want = saturated(rint((double)((float)sum * factor)), zero_at(&in[7], 0), y.dtype);
        if (value(&y, e) != want) fail_msg("case %d, kind %d, element %lld", i, kind, (long long)e);
        inside += want > least(y.dtype) && want < least(y.dtype) + 255;
        all++;
      }
      rdt_free(y.data);
      release(in, 9);
    }
  assert_true(inside > all / 2); /* where both saturate, nothing is compared */
}

static void test_conv_integer(void **state) {
  (void)state;
  for (int i = 0; i < CONVS; i++)
    for (int kind = 0; kind < 32; kind++) { /* bits 3, 4: zero points */
      const conv_case *c = &convs[i];
      const bool xz = kind >> 3 & 1, wz = kind >> 4;
      util_attr attrs[4];
      conv_attrs(c, attrs);
      rdt_tensor in[4] = {bytes(kind_dtype(kind, 0), 4, c->x),
                          bytes(kind_dtype(kind, 1), 4, SHAPE(c->oc, c->x[1] / c->groups, c->kernel[0], c->kernel[1])),
                          xz ? bytes(kind_dtype(kind, 0), 0, NULL) : absent,
                          wz ? bytes(kind_dtype(kind, 1), kind >> 2 & 1, &c->oc) : absent};
      rdt_tensor y = run(13, "ConvInteger", in, wz ? 4 : xz ? 3 : 2, attrs);
      assert_int_equal(y.dtype, RDT_S32);
      for (int64_t e = 0; e < rdt_tensor_count(&y); e++) {
        const int64_t ow = e % y.shape[3], oh = e / y.shape[3] % y.shape[2];
        const int64_t oc = e / y.shape[3] / y.shape[2] % c->oc, n = e / y.shape[3] / y.shape[2] / c->oc;
        assert_int_equal(value(&y, e), conv_at(c, &in[0], &in[2], &in[1], &in[3], n, oc, oh, ow));
      }
      rdt_free(y.data);
      release(in, 4);
    }
}

/* A [b m k] by B [k n]; zero points a row, a column. */
static int64_t product_at(const rdt_tensor *a, const rdt_tensor *az, const rdt_tensor *b, const rdt_tensor *bz,
                          int64_t row, int64_t j) {
  const int64_t m = a->shape[1], k = a->shape[2], n = b->shape[1];
  int64_t sum = 0;
  for (int64_t l = 0; l < k; l++)
    sum += (value(a, row * k + l) - zero_at(az, row % m)) * (value(b, l * n + j) - zero_at(bz, j));
  return sum;
}

static void test_matmul_integer(void **state) {
  (void)state;
  const int64_t m = 4, k = 700, n = 5;     /* beyond what f32 holds */
  for (int kind = 0; kind < 128; kind++) { /* bits 2, 3: zero points; 4, 5: those are vectors; 6: matrices */
    const bool az = kind >> 2 & 1, bz = kind >> 3 & 1;
    const int wide = 1 + (kind >> 6);
    rdt_tensor in[4] = {bytes(kind_dtype(kind, 0), 3, SHAPE(2, m, k)), bytes(kind_dtype(kind, 1), 2, SHAPE(k, n)),
                        az ? bytes(kind_dtype(kind, 0), (kind >> 4 & 1) * wide, SHAPE(m, 1)) : absent,
                        bz ? bytes(kind_dtype(kind, 1), (kind >> 5 & 1) * wide, wide > 1 ? SHAPE(1, n) : &n) : absent};
    rdt_tensor y = run(13, "MatMulInteger", in, bz ? 4 : az ? 3 : 2, NULL);
    assert_int_equal(y.dtype, RDT_S32);
    for (int64_t e = 0; e < rdt_tensor_count(&y); e++)
      assert_int_equal(value(&y, e), product_at(&in[0], &in[2], &in[1], &in[3], e / n, e % n));
    rdt_free(y.data);
    release(in, 4);
  }
}

static void test_qlinear_matmul(void **state) {
  (void)state;
  const int64_t m = 4, k = 37, n = 5;
  for (int kind = 0; kind < 64;
       kind++) { /* bits 2, 3: a scale and a zero point a column, a row; 4: constants; 5: matrices */
    const int wide = 1 + (kind >> 5), column = (kind >> 2 & 1) * wide, row = (kind >> 3 & 1) * wide;
    const int64_t *per_row = SHAPE(m, 1), *per_column = wide > 1 ? SHAPE(1, n) : &n;
    rdt_tensor in[8] = {bytes(kind_dtype(kind, 0), 3, SHAPE(2, m, k)),
                        scales(row, per_row),
                        bytes(kind_dtype(kind, 0), row, per_row),
                        bytes(kind_dtype(kind, 1), 2, SHAPE(k, n)),
                        scales(column, per_column),
                        bytes(kind_dtype(kind, 1), column, per_column),
                        scales(0, NULL),
                        bytes(kind_dtype(kind, 1), 0, NULL)};
    ((float *)in[6].data)[0] *= 300.0f;
    rdt_tensor y = run_fixed(13, "QLinearMatMul", in, 8, kind >> 4 & 1 ? 1 : 8, NULL);
    assert_int_equal(y.dtype, in[7].dtype);
    for (int64_t e = 0; e < rdt_tensor_count(&y); e++) {
      const int64_t sum = product_at(&in[0], &in[2], &in[3], &in[5], e / n, e % n);
      const float factor = scale_at(&in[1], e / n % m) * scale_at(&in[4], e % n) / scale_at(&in[6], 0);
      const int64_t want = saturated(rint((double)((float)sum * factor)), zero_at(&in[7], 0), y.dtype);
      if (value(&y, e) != want) fail_msg("kind %d, element %lld", kind, (long long)e);
    }
    rdt_free(y.data);
    release(in, 8);
  }
}

/* Constants throughout: integer products, requantised or not. Else the weights of a quantised one fold where they can.
 */
static void test_what_becomes_of_them(void **state) {
  (void)state;
  uint8_t none = 0, weights[4] = {1, 2, 3, 4}, zero = 3;
  float scale = 0.5f;
  util_onnx m;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_U8, 2, SHAPE(2, 2));
  util_onnx_initializer(&m, "w", RDT_U8, 2, SHAPE(2, 2), weights);
  util_onnx_initializer(&m, "none", RDT_U8, 0, NULL, &none);
  util_onnx_initializer(&m, "zero", RDT_U8, 0, NULL, &zero);
  util_onnx_initializer(&m, "s", RDT_F32, 0, NULL, &scale);
  util_onnx_node(&m, "MatMulInteger", "whole", "x w none none", "y", NULL);
  util_onnx_node(&m, "QLinearMatMul", "real", "x s zero w s zero s zero", "z", NULL);
  util_onnx_node(&m, "MatMulInteger", "shifted", "x w zero zero", "v", NULL);
  util_onnx_input(&m, "t", RDT_F32, 0, NULL);
  util_onnx_node(&m, "QLinearMatMul", "scaled", "x t zero w s zero s zero", "u", NULL);
  static const char *const outputs[] = {"y", "z", "v", "u"};
  for (int i = 0; i < 4; i++) util_onnx_output(&m, outputs[i], i % 2 ? RDT_U8 : RDT_S32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  static const char *const labels[] = {"MatMulInteger:MatMulInteger", "QLinearMatMul:IntegerMatMul",
                                       "MatMulInteger:IntegerMatMul", "QLinearMatMul:DequantizeLinear",
                                       "QLinearMatMul:MatMul",        "QLinearMatMul:Mul",
                                       "QLinearMatMul:Div",           "QLinearMatMul:Requantize"};
  assert_int_equal(g->n_nodes, 8);
  for (int i = 0; i < 8; i++) assert_string_equal(g->nodes[i].label, labels[i]);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* ---- DynamicQuantizeLinear ---- */

static void test_dynamic(void **state) {
  (void)state;
  enum { N = 12 };
  static const float ranges[][2] = {{-3, 5}, {1, 7}, {-9, -2}, {0, 0}, {-1e-30f, 0}, {0, 1e30f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    util_onnx m;
    float x[N];
    util_fill(x, N, i + 1);
    for (int e = 0; e < N; e++)
      x[e] = ranges[i][0] + (ranges[i][1] - ranges[i][0]) * (e == 0 ? 0 : e == 1 ? 1 : 0.5f + 0.5f * x[e]);
    util_onnx_init(&m, 11);
    util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(3, 4));
    util_onnx_node(&m, "DynamicQuantizeLinear", "node", "x", "y scale zero", NULL);
    util_onnx_output(&m, "y", RDT_U8, -1, NULL);
    util_onnx_output(&m, "scale", RDT_F32, -1, NULL);
    util_onnx_output(&m, "zero", RDT_U8, -1, NULL);
    rdt_graph *g = util_graph_load(&m);
    int reductions = 0;
    for (int n = 0; n < g->n_nodes; n++) reductions += strncmp(g->nodes[n].op->name, "Reduce", 6) == 0;
    assert_int_equal(reductions, 2); /* for all three outputs together */
    const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 2, SHAPE(3, 4));
    rdt_tensor y[3];
    for (int o = 0; o < 3; o++) y[o] = util_graph_run(g, &in, 1, o);
    const float low = fminf(ranges[i][0], 0), high = fmaxf(ranges[i][1], 0);
    const float scale = high - low == 0 ? 1.0f : (high - low) / 255.0f;
    const int64_t zero = saturated(rint((double)((0 - low) / scale)), 0, RDT_U8);
    assert_int_equal(y[1].rank, 0);
    assert_int_equal(y[2].rank, 0);
    assert_true(((float *)y[1].data)[0] == scale);
    assert_int_equal(value(&y[2], 0), zero);
    for (int e = 0; e < N; e++)
      assert_int_equal(value(&y[0], e), saturated(rint((double)(x[e] / scale)), zero, RDT_U8));
    release(y, 3);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
}

static void test_refused(void **state) {
  (void)state;
  rdt_tensor x = tensor(RDT_F32, 2, SHAPE(3, 4), -9, 9), s = scales(0, NULL), s4 = scales(1, SHAPE(4));
  rdt_tensor z = bytes(RDT_U8, 0, NULL), z4 = bytes(RDT_U8, 1, SHAPE(4)), q = bytes(RDT_U8, 2, SHAPE(3, 4));
  rdt_tensor s22 = scales(2, SHAPE(2, 2)), zs = bytes(RDT_S8, 0, NULL);
  rdt_tensor wide = tensor(RDT_S64, 2, SHAPE(3, 4), 0, 9), wider = tensor(RDT_S32, 0, NULL, 0, 9);
#define IN(...) ((const rdt_tensor[]){__VA_ARGS__}), (int)(sizeof((rdt_tensor[]){__VA_ARGS__}) / sizeof(rdt_tensor))
  static const char *const quantize = "QuantizeLinear", *const dequantize = "DequantizeLinear";
  refuse(13, quantize, IN(x, s4, z4), UTIL_ATTRS(UTIL_INT("axis", 0)), RDT_ERR_SHAPE, "along axis 0");
  refuse(13, quantize, IN(x, s4, z4), UTIL_ATTRS(UTIL_INT("axis", 2)), RDT_ERR_SHAPE, "axis 2 of a tensor of rank 2");
  refuse(13, quantize, IN(x, s4, z4), UTIL_ATTRS(UTIL_INT("axis", -3)), RDT_ERR_SHAPE, "axis -3");
  refuse(13, quantize, IN(x, s22, z), NULL, RDT_ERR_SHAPE, "2x2");
  refuse(13, quantize, IN(x, s, s), NULL, RDT_ERR_DTYPE, "s8 and u8");
  refuse(13, quantize, IN(x, s, wider), NULL, RDT_ERR_DTYPE, "to s32");
  refuse(13, quantize, IN(q, s, z), NULL, RDT_ERR_DTYPE, "floating point");
  refuse(13, quantize, IN(x, z, z), NULL, RDT_ERR_DTYPE, "x and scale must agree");
  refuse(21, quantize, IN(x, s, z), UTIL_ATTRS(UTIL_INT("block_size", 2)), RDT_ERR_UNSUPPORTED, "block_size");
  refuse(21, quantize, IN(x, s, z), UTIL_ATTRS(UTIL_INT("output_dtype", 3)), RDT_ERR_DTYPE, "output_dtype 3");
  refuse(21, quantize, IN(x, s), UTIL_ATTRS(UTIL_INT("output_dtype", 5)), RDT_ERR_UNSUPPORTED, "output_dtype 5");
  refuse(13, dequantize, IN(x, s), NULL, RDT_ERR_DTYPE, "s8, u8 or s32");
  refuse(13, dequantize, IN(wide, s), NULL, RDT_ERR_DTYPE, "of s64");
  refuse(13, dequantize, IN(q, s, zs), NULL, RDT_ERR_DTYPE, "x and zero point must agree");
  refuse(13, dequantize, IN(q, s4, z4), UTIL_ATTRS(UTIL_INT("axis", 0)), RDT_ERR_SHAPE, "along axis 0");
  refuse(13, "MatMulInteger", IN(x, q), NULL, RDT_ERR_DTYPE, "input 0 is f32");
  refuse(13, "MatMulInteger", IN(q, q), NULL, RDT_ERR_SHAPE, "k is 4 in A and 3 in B");
  refuse(13, "ConvInteger", IN(q, q), NULL, RDT_ERR_SHAPE, "rank 3 to 5");
  static const char *const product = "MatMulInteger";
  const rdt_tensor square = bytes(RDT_U8, 2, SHAPE(4, 4)), rows = bytes(RDT_S8, 2, SHAPE(3, 1));
  const rdt_tensor columns = tensor(RDT_F32, 2, SHAPE(1, 4), 0, 9), none = tensor(RDT_S32, 0, NULL, 0, 0);
  refuse(13, product, IN(q, square, zs), NULL, RDT_ERR_DTYPE, "input 2, a zero point, is s8: must be u8");
  refuse(13, product, IN(q, square, rows), NULL, RDT_ERR_DTYPE, "input 2, a zero point, is s8");
  refuse(13, product, IN(q, square, z, columns), NULL, RDT_ERR_DTYPE, "input 3, a zero point, is f32");
  refuse(13, product, IN(q, square, z, none), NULL, RDT_ERR_DTYPE, "input 3, a zero point, is s32");
  const rdt_tensor qlinear[] = {q, s, rows, square, s, z, s, z};
  refuse(13, "QLinearMatMul", qlinear, 8, NULL, RDT_ERR_DTYPE, "x and zero point must agree");
  rdt_tensor all[] = {x, s, s4, z, z4, q, s22, zs, wide, wider, square, rows, columns, none};
  release(all, 14);
}

/* A parameter that does not fit its tensor is named as the node of the file has it. */
static void test_wrong_lengths(void **state) {
  static const struct {
    int input;
    const char *words;
  } cases[] = {{1, "input 1, x_scale"}, {2, "input 2, x_zero_point"},
               {4, "input 4, w_scale"}, {5, "input 5, w_zero_point, is 5 u8: must be a scalar, or of 3 elements"},
               {6, "input 6, y_scale"}, {7, "input 7, y_zero_point"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rdt_tensor in[8] = {bytes(RDT_U8, 4, SHAPE(1, 2, 4, 4)),
                        scales(0, NULL),
                        bytes(RDT_U8, 0, NULL),
                        bytes(RDT_U8, 4, SHAPE(3, 2, 1, 1)),
                        scales(0, NULL),
                        bytes(RDT_U8, 0, NULL),
                        scales(0, NULL),
                        bytes(RDT_U8, 0, NULL)};
    const int wrong = cases[i].input;
    rdt_free(in[wrong].data);
    in[wrong] = in[wrong].dtype == RDT_F32 ? scales(1, SHAPE(5)) : bytes(RDT_U8, 1, SHAPE(5));
    refuse(13, "QLinearConv", in, 8, NULL, RDT_ERR_SHAPE, cases[i].words);
    release(in, 8);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_quantize),       cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_odd_scales),     cmocka_unit_test(test_dequantize),
      cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_layout),
      cmocka_unit_test(test_refused),        cmocka_unit_test(test_wrong_lengths),
      cmocka_unit_test(test_dynamic),        cmocka_unit_test(test_qlinear_conv),
      cmocka_unit_test(test_conv_integer),   cmocka_unit_test(test_matmul_integer),
      cmocka_unit_test(test_qlinear_matmul), cmocka_unit_test(test_what_becomes_of_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
