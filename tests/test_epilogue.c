/* The epilogue against an element-by-element reading of its definition, over layouts and dtypes; its second copy must
 * find any changed element. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/epilogue.h"

static uint64_t seed = 1;
static double uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 33) / (double)(1u << 30) - 1.0;
}

static void fill(rdt_tensor *t, int64_t elements) {
  t->data = rdt_calloc((size_t)elements + 1, rdt_dtype_size(t->dtype));
  for (int64_t i = 0; i < elements; ++i)
    rdt_store(t->data, t->dtype, i, t->dtype == RDT_S32 ? (double)(int64_t)(uniform() * 2147483647.0) : 4 * uniform());
}

static int64_t span(const rdt_tensor *t) {
  int64_t n = 1;
  for (int a = 0; a < t->rank; ++a) {
    if (t->shape[a] == 0) return 0;
    n += (t->shape[a] - 1) * t->stride[a];
  }
  return n;
}

/* The definition, one element: every step rounded to the accumulator's type. */
static void expect(const rdt_epilogue *e, rdt_dtype acc, double raw, double bias, double residual, rdt_dtype to,
                   void *out) {
  if (acc == RDT_S32 && to == RDT_S32) {
    uint32_t v = (uint32_t)(int64_t)e->alpha * (uint32_t)(int64_t)raw;
    if (e->bias.rank >= 0) v += (uint32_t)(int64_t)bias;
    if (e->residual.rank >= 0) v += (uint32_t)(int64_t)e->beta * (uint32_t)(int64_t)residual;
    if (e->act.fn == RDT_FN_RELU && (int32_t)v < 0) v = 0;
    memcpy(out, &v, 4);
  } else if (acc == RDT_F64) {
    double v = e->alpha * raw;
    if (e->bias.rank >= 0) v = v + bias;
    const double r = e->beta * residual;
    if (e->residual.rank >= 0) v = v + r;
    if (e->act.fn == RDT_FN_RELU && v < 0) v = 0;
    rdt_store(out, to, 0, v);
  } else {
    float v = (float)e->alpha * (float)raw;
    if (e->bias.rank >= 0) v = v + (float)bias;
    const float r = (float)e->beta * (float)residual;
    if (e->residual.rank >= 0) v = v + r;
    if (e->act.fn == RDT_FN_RELU && v < 0) v = 0;
    rdt_store(out, to, 0, (double)v);
  }
}

typedef struct layout {
  const char *name;
  rdt_tensor raw, out;
  int channel;
} layout;

static int layouts(layout *l, rdt_dtype acc, rdt_dtype to) {
  static const int64_t nchw[4] = {2, 5, 7, 9}, wide[4] = {1, 3, 40, 41}, deep[4] = {2, 700, 1, 3}, one[1] = {1};
  const int64_t mat[2] = {37, 1500}, logits[2] = {64, 10}, batch[3] = {3, 4, 5}, empty[2] = {0, 8};
  int n = 0;
  l[n++] = (layout){"matrix", rdt_tensor_dense(NULL, acc, 2, mat), rdt_tensor_dense(NULL, to, 2, mat), 1};
  l[n++] = (layout){"logits", rdt_tensor_dense(NULL, acc, 2, logits), rdt_tensor_dense(NULL, to, 2, logits), 1};
  l[n++] =
      (layout){"padded", rdt_tensor_matrix(NULL, acc, 20, 30, 33, 0), rdt_tensor_matrix(NULL, to, 20, 30, 40, 0), 1};
  l[n++] = (layout){"transposed", rdt_tensor_matrix(NULL, acc, 30, 20, 21, 1),
                    rdt_tensor_matrix(NULL, to, 20, 30, 30, 0), 1};
  l[n++] = (layout){"both transposed", rdt_tensor_matrix(NULL, acc, 30, 20, 21, 1),
                    rdt_tensor_matrix(NULL, to, 30, 20, 20, 1), 1};
  l[n++] = (layout){"batch", rdt_tensor_dense(NULL, acc, 3, batch), rdt_tensor_dense(NULL, to, 3, batch), 2};
  l[n++] = (layout){"nchw", rdt_tensor_dense(NULL, acc, 4, nchw), rdt_tensor_dense(NULL, to, 4, nchw), 1};
  l[n++] =
      (layout){"nhwc", rdt_tensor_channels_last(NULL, acc, 4, nchw), rdt_tensor_channels_last(NULL, to, 4, nchw), 1};
  l[n++] =
      (layout){"nhwc to nchw", rdt_tensor_channels_last(NULL, acc, 4, nchw), rdt_tensor_dense(NULL, to, 4, nchw), 1};
  l[n++] =
      (layout){"nchw to nhwc", rdt_tensor_dense(NULL, acc, 4, nchw), rdt_tensor_channels_last(NULL, to, 4, nchw), 1};
  l[n++] = (layout){"wide nhwc", rdt_tensor_channels_last(NULL, acc, 4, wide),
                    rdt_tensor_channels_last(NULL, to, 4, wide), 1};
  l[n++] = (layout){"deep nhwc", rdt_tensor_channels_last(NULL, acc, 4, deep),
                    rdt_tensor_channels_last(NULL, to, 4, deep), 1};
  l[n++] = (layout){"one", rdt_tensor_dense(NULL, acc, 1, one), rdt_tensor_dense(NULL, to, 1, one), 0};
  l[n++] = (layout){"empty", rdt_tensor_dense(NULL, acc, 2, empty), rdt_tensor_dense(NULL, to, 2, empty), 1};
  return n;
}

static void check_one(const layout *l, const rdt_epilogue *e, int threads) {
  rdt_iter o = rdt_iter_begin(&l->out), r = rdt_iter_begin(&l->raw), s = rdt_iter_begin(&e->residual);
  const size_t size = rdt_dtype_size(l->out.dtype);
  rdt_epilogue_apply(e, &l->raw, &l->out, l->channel, threads);
  while (rdt_iter_next(&o) && rdt_iter_next(&r)) {
    double bias = 0, residual = 0;
    if (e->bias.rank >= 0) bias = rdt_load(e->bias.data, e->bias.dtype, o.index[l->channel]);
    if (e->residual.rank >= 0 && rdt_iter_next(&s)) residual = rdt_load(e->residual.data, e->residual.dtype, s.offset);
    uint64_t should = 0;
    expect(e, l->raw.dtype, rdt_load(l->raw.data, l->raw.dtype, r.offset), bias, residual, l->out.dtype, &should);
    if (memcmp((char *)l->out.data + (size_t)o.offset * size, &should, size) != 0)
      fail_msg("%s: element at %ld differs", l->name, (long)o.offset);
  }
  int64_t first = 0;
  uint64_t bitsum;
  const int64_t count = rdt_tensor_count(&l->out);
  assert_int_equal(rdt_epilogue_verify(e, &l->raw, &l->out, l->channel, threads, &first, &bitsum), 0);
  assert_int_equal(first, -1);
  if (rdt_epilogue_sums(&l->out)) assert_true(bitsum == rdt_bitsum(l->out.data, (size_t)count * size));
  if (count == 0) return;
  const int64_t victim = (int64_t)((uniform() + 1) / 2 * (double)(count - 1));
  o = rdt_iter_begin(&l->out);
  for (int64_t i = 0; i <= victim; ++i) rdt_iter_next(&o);
  ((char *)l->out.data)[o.offset * (int64_t)size] ^= 1;
  assert_int_equal(rdt_epilogue_verify(e, &l->raw, &l->out, l->channel, threads, &first, NULL), 1);
  assert_int_equal(first, victim);
}

static void check_pair(rdt_dtype acc, rdt_dtype to) {
  layout all[16];
  const int n = layouts(all, acc, to);
  for (int i = 0; i < n; ++i) {
    layout *l = &all[i];
    fill(&l->raw, span(&l->raw));
    fill(&l->out, span(&l->out));
    for (int variant = 0; variant < 8; ++variant) {
      rdt_epilogue e = RDT_EPILOGUE_NONE;
      e.alpha = variant & 4 ? 3.0 : 1.0;
      e.act.fn = variant & 4 ? RDT_FN_RELU : RDT_FN_NONE;
      if (variant & 1) {
        e.bias = rdt_tensor_dense(NULL, to, 1, &l->out.shape[l->channel]);
        fill(&e.bias, e.bias.shape[0]);
      }
      if (variant & 2) {
        e.residual = l->out;
        e.beta = 2.0;
        fill(&e.residual, span(&l->out));
      }
      check_one(l, &e, variant == 3 ? 3 : 1);
      if (variant & 1) rdt_free(e.bias.data);
      if (variant & 2) rdt_free(e.residual.data);
    }
    rdt_free(l->raw.data);
    rdt_free(l->out.data);
  }
}

static void test_definition(void **state) {
  (void)state;
  check_pair(RDT_F32, RDT_F32);
  check_pair(RDT_F64, RDT_F64);
  check_pair(RDT_F32, RDT_BF16);
  check_pair(RDT_F32, RDT_F16);
  check_pair(RDT_S32, RDT_S32);
}

static void test_in_place_and_nan(void **state) {
  (void)state;
  float x[4] = {-1.0f, NAN, -0.0f, 2.0f};
  const int64_t shape[1] = {4};
  const rdt_tensor t = rdt_tensor_dense(x, RDT_F32, 1, shape);
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  e.act.fn = RDT_FN_RELU;
  rdt_epilogue_apply(&e, &t, &t, 0, 1);
  assert_true(x[0] == 0 && x[1] != x[1] && x[2] == 0 && x[3] == 2.0f);
}

/* Two compilations of the same lines give the same bits. */
static void test_isas_agree(void **state) {
  (void)state;
  enum { N = 1003 };
  static float raw[N], bias[N], residual[N], fast[N], plain[N];
  for (int i = 0; i < N; ++i) {
    raw[i] = (float)uniform();
    bias[i] = (float)uniform();
    residual[i] = (float)uniform();
  }
  rdt_tensor r = rdt_tensor_dense(raw, RDT_F32, 1, &(int64_t){N}),
             o = rdt_tensor_dense(fast, RDT_F32, 1, &(int64_t){N});
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  e.alpha = 1.1;
  e.beta = 0.7;
  e.act.fn = RDT_FN_RELU;
  e.bias = rdt_tensor_dense(bias, RDT_F32, 1, &(int64_t){N});
  e.residual = rdt_tensor_dense(residual, RDT_F32, 1, &(int64_t){N});
  rdt_epilogue_apply(&e, &r, &o, 0, 2);
  const rdt_epilogue_line l = {N, raw, bias, residual, plain, false, &e.act, 1.1, 0.7};
  rdt_epilogue_generic.f32(&l);
  assert_memory_equal(fast, plain, sizeof fast);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition), cmocka_unit_test(test_in_place_and_nan),
                                     cmocka_unit_test(test_isas_agree)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
