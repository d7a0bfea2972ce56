/* The own depthwise convolution: right, the same bits whoever computes, and its check, which rides along, quiet without
 * a fault and loud with one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/bitsum.h"
#include "check/tolerance.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "schemes/fused_check.h"
#include "util_problem.h"

extern const rdt_kernel rdt_kernel_conv_depthwise_f32_native;
static const rdt_kernel *const kernel = &rdt_kernel_conv_depthwise_f32_native;

typedef struct layer {
  int64_t n, c, h, w, kernel[2], stride[2], dilation[2], pad[4];
} layer;

static const layer layers[] = {
    {1, 32, 16, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {2, 24, 15, 15, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {1, 17, 14, 14, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {3, 40, 7, 7, {5, 5}, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {1, 8, 5, 300, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}, /* sums of several blocks */
    {1, 9, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},   /* one column */
    {1, 3, 9, 9, {3, 3}, {2, 3}, {2, 2}, {2, 2, 2, 2}},   /* two remainders, dilated */
    {1, 5, 4, 4, {7, 7}, {1, 1}, {1, 1}, {3, 3, 3, 3}},   /* larger than the image */
    {1, 16, 3, 3, {3, 3}, {1, 1}, {1, 1}, {4, 5, 4, 5}},  /* windows wholly outside */
    {1, 2, 12, 12, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}}, /* columns that nobody reads */
    {1, 6, 10, 11, {2, 4}, {3, 5}, {1, 1}, {0, 1, 1, 2}},
    {1, 4, 3, 2, {1, 3}, {1, 1}, {1, 9}, {0, 9, 0, 9}}, /* taps further apart than the image */
    {1, 33, 56, 56, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}}};
enum { LAYERS = sizeof layers / sizeof *layers };

typedef struct setup {
  rdt_problem p;
  rdt_tensor in[2];
  float *x, *w, *out, *bias, *residual;
} setup;

static rdt_tensor image(float *data, int64_t n, int64_t c, int64_t h, int64_t w) {
  const int64_t shape[4] = {n, c, h, w};
  rdt_tensor t = rdt_tensor_dense(data, RDT_F32, 4, shape);
  t.stride[0] = h * w * c;
  t.stride[1] = 1;
  t.stride[2] = w * c;
  t.stride[3] = c;
  return t;
}

static float *numbers(util_random *r, int64_t n, bool relu) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    x[i] = (float)util_uniform(r);
    if (relu && x[i] < 0) x[i] = 0;
  }
  return x;
}

static int64_t length(const layer *l, int d, int64_t in) {
  return (in + l->pad[d] + l->pad[d + 2] - (l->kernel[d] - 1) * l->dilation[d] - 1) / l->stride[d] + 1;
}

/* finish 0: none; 1: bias and Relu; 2: scaled, bias, residual and Clip. */
static void set_up(setup *s, const layer *l, uint64_t seed, bool relu, int finish) {
  util_random r = {seed};
  const int64_t oh = length(l, 0, l->h), ow = length(l, 1, l->w), ws[4] = {l->c, 1, l->kernel[0], l->kernel[1]};
  s->x = numbers(&r, l->n * l->c * l->h * l->w, relu);
  s->w = numbers(&r, l->c * l->kernel[0] * l->kernel[1], false);
  s->out = numbers(&r, l->n * l->c * oh * ow, false);
  s->bias = numbers(&r, l->c, false);
  s->residual = numbers(&r, l->n * l->c * oh * ow, false);
  s->in[0] = image(s->x, l->n, l->c, l->h, l->w);
  s->in[1] = rdt_tensor_dense(s->w, RDT_F32, 4, ws);
  s->p = (rdt_problem){.op = RDT_KOP_CONV,
                       .n_in = 2,
                       .in = s->in,
                       .out = image(s->out, l->n, l->c, oh, ow),
                       .acc = RDT_F32,
                       .window = {.groups = l->c},
                       .epilogue = RDT_EPILOGUE_NONE};
  memcpy(s->p.window.kernel, l->kernel, sizeof l->kernel);
  memcpy(s->p.window.stride, l->stride, sizeof l->stride);
  memcpy(s->p.window.dilation, l->dilation, sizeof l->dilation);
  memcpy(s->p.window.before, l->pad, 2 * sizeof *l->pad);
  memcpy(s->p.window.after, l->pad + 2, 2 * sizeof *l->pad);
  rdt_epilogue *e = &s->p.epilogue;
  if (finish) {
    e->bias = rdt_tensor_dense(s->bias, RDT_F32, 1, &s->p.out.shape[1]);
    e->act.fn = finish == 1 ? RDT_FN_RELU : RDT_FN_CLIP;
  }
  if (finish == 2) {
    e->alpha = -0.75;
    e->beta = 0.5;
    e->residual = image(s->residual, l->n, l->c, oh, ow);
    e->act.param[0] = -0.5;
    e->act.param[1] = 0.5;
  }
}

static void tear_down(setup *s) {
  float *const all[] = {s->x, s->w, s->out, s->bias, s->residual};
  for (int i = 0; i < 5; i++) free(all[i]);
}

static rdt_operands operands(const setup *s) {
  const bool none = rdt_epilogue_is_none(&s->p.epilogue);
  return (rdt_operands){.in = s->in, .n_in = 2, .out = s->p.out, .epilogue = none ? NULL : &s->p.epilogue};
}

static void *state_of(const setup *s, int threads) {
  rdt_reason why = {""};
  void *state;
  if (kernel->accept_fused(&s->p, &why) != RDT_OK || kernel->create(&s->p, threads, &state, &why) != RDT_OK)
    fail_msg("%s", why.text);
  return state;
}

static void run(const setup *s, int threads, const rdt_epilogue *e) {
  rdt_operands o = operands(s);
  rdt_reason why;
  void *state = state_of(s, threads);
  o.epilogue = e;
  memset(s->out, 0xff, (size_t)rdt_tensor_count(&s->p.out) * sizeof(float));
  assert_int_equal(kernel->run(state, &o, &why), RDT_OK);
  kernel->destroy(state);
}

/* One run with its check; the check's own copy of the weights may be spoilt. */
static rdt_findings run_fused(const setup *s, int threads, rdt_kernel_hit *hit, bool stored, bool spoil, bool *differ,
                              uint64_t *bitsum) {
  const rdt_operands o = operands(s);
  rdt_fused_check *check;
  rdt_findings found;
  rdt_reason why;
  void *state = state_of(s, threads);
  assert_int_equal(rdt_fused_create(&s->p, NULL, RDT_FORM_COLUMNS, 6.0, &check, &why), RDT_OK);
  if (spoil) {
    void *data;
    size_t bytes;
    rdt_dtype dtype;
    rdt_fused_checksums(check, &data, &bytes, &dtype);
    ((float *)data)[0] += 1.0f;
  }
  rdt_fused f = rdt_fused_ask(check);
  f.seal = true;
  f.hit = hit;
  f.hit_stored = stored;
  memset(s->out, 0xff, (size_t)rdt_tensor_count(&s->p.out) * sizeof(float));
  assert_int_equal(kernel->run_fused(state, &o, &f, &why), RDT_OK);
  rdt_findings_init(&found);
  rdt_fused_judge(check, &f, &found);
  if (differ) *differ = f.differ;
  if (bitsum) *bitsum = f.bitsum;
  rdt_fused_destroy(check);
  kernel->destroy(state);
  return found;
}

static void compare(const setup *s, int number) {
  const rdt_window *w = &s->p.window;
  const rdt_tolerance t = {
      .acc = rdt_accumulator_of(RDT_F32, RDT_F32), .k = w->kernel[0] * w->kernel[1] + 1, .lambda = 6};
  rdt_iter it = rdt_iter_begin(&s->p.out);
  while (rdt_iter_next(&it)) {
    const int64_t *i = it.index;
    double sum = 0, scale = 0;
    for (int64_t a = 0; a < w->kernel[0]; a++)
      for (int64_t b = 0; b < w->kernel[1]; b++) {
        const int64_t y = i[2] * w->stride[0] + a * w->dilation[0] - w->before[0];
        const int64_t x = i[3] * w->stride[1] + b * w->dilation[1] - w->before[1];
        if (y < 0 || y >= s->in[0].shape[2] || x < 0 || x >= s->in[0].shape[3]) continue;
        const double v =
            (double)s->x[i[0] * s->in[0].stride[0] + i[1] + y * s->in[0].stride[2] + x * s->in[0].stride[3]] *
            (double)s->w[(i[1] * w->kernel[0] + a) * w->kernel[1] + b];
        sum += v;
        scale += fabs(v);
      }
    const double got = (double)s->out[it.offset];
    if (!(fabs(got - sum) <= rdt_bound_element(&t, scale)))
      fail_msg("layer %d, element %lld: %g, expected %g", number, (long long)it.offset, got, sum);
  }
}

static void test_values(void **unused) {
  (void)unused;
  for (int i = 0; i < LAYERS; i++)
    for (int finish = 0; finish < 3; finish++) {
      setup s;
      set_up(&s, &layers[i], 100 + (uint64_t)i, i % 2, finish);
      const size_t bytes = (size_t)rdt_tensor_count(&s.p.out) * sizeof(float);
      float *raw = malloc(bytes), *expected = malloc(bytes);
      run(&s, 1, NULL);
      compare(&s, i);
      memcpy(raw, s.out, bytes);
      rdt_tensor from = s.p.out, to = s.p.out;
      from.data = raw;
      to.data = expected;
      rdt_epilogue_apply(&s.p.epilogue, &from, &to, 1, 1);
      for (int threads = 1; threads <= 3; threads++) {
        bool differ;
        uint64_t bitsum;
        run(&s, threads, NULL);
        assert_memory_equal(s.out, raw, bytes);
        run(&s, threads, &s.p.epilogue);
        assert_memory_equal(s.out, expected, bytes);
        const rdt_findings f = run_fused(&s, threads, NULL, false, false, &differ, &bitsum);
        assert_memory_equal(s.out, expected, bytes);
        assert_false(differ);
        assert_int_equal(bitsum, rdt_bitsum(s.out, bytes));
        assert_true(f.checks > 0);
        assert_int_equal(f.suspects + f.cannot, 0);
      }
      free(raw);
      free(expected);
      tear_down(&s);
    }
}

static void test_clean(void **unused) {
  double worst = 0;
  (void)unused;
  for (uint64_t seed = 0; seed < 30; seed++)
    for (int i = 0; i < LAYERS; i++) {
      setup s;
      set_up(&s, &layers[i], 7000 + seed * 100 + (uint64_t)i, seed % 2, seed % 3 == 0);
      const rdt_findings f = run_fused(&s, 1, NULL, false, false, NULL, NULL);
      assert_int_equal(f.suspects + f.cannot, 0);
      worst = f.ratio > worst ? f.ratio : worst;
      tear_down(&s);
    }
  printf("largest residual in units of the bound: %.3g\n", worst);
  assert_true(worst < 0.9);
}

static void test_faults(void **unused) {
  int above = 0;
  (void)unused;
  for (int i = 0; i < LAYERS; i++)
    for (int j = 0; j < 24; j++) {
      setup s;
      bool differ;
      util_random r = {(uint64_t)(i * 1000 + j)};
      set_up(&s, &layers[i], 900 + (uint64_t)i, false, j % 3);
      const int64_t n = rdt_tensor_count(&s.p.out);
      rdt_kernel_hit hit = {.element = (int64_t)(util_next(&r) % (uint64_t)n),
                            .position = j % 4 == 3 ? 1.0 : (j % 4) / 3.0,
                            .mask = 1ull << (20 + util_next(&r) % 11)};
      rdt_findings f = run_fused(&s, 1 + j % 2, &hit, false, false, &differ, NULL);
      assert_true(hit.done);
      assert_false(differ); /* both evaluations begin at the same accumulator */
      if (fabs(hit.after - hit.before) > f.floor || !isfinite(hit.after)) {
        above++;
        if (f.suspects == 0) fail_msg("layer %d: %g became %g and passed", i, hit.before, hit.after);
        const int64_t channel = hit.element / (s.p.out.shape[2] * s.p.out.shape[3]) % s.p.out.shape[1];
        assert_int_equal(f.list[0].place[1], channel);
      }
      hit.done = false;
      f = run_fused(&s, 1 + j % 2, &hit, true, false, &differ, NULL);
      assert_true(hit.done && differ);
      assert_int_equal(f.suspects, 0);
      tear_down(&s);
    }
  assert_true(above > 150);
}

static void test_weights_of_the_check(void **unused) {
  setup s;
  (void)unused;
  set_up(&s, &layers[0], 5, false, 0);
  assert_true(run_fused(&s, 1, NULL, false, true, NULL, NULL).suspects > 0);
  tear_down(&s);
}

static void test_not_finite(void **unused) {
  static const float values[] = {NAN, INFINITY, -INFINITY, 3e30f};
  (void)unused;
  for (int i = 0; i < LAYERS; i++)
    for (int v = 0; v < 4; v++) {
      setup s;
      bool differ;
      set_up(&s, &layers[i], 40 + (uint64_t)i, false, v % 3);
      for (int64_t j = 0; j < rdt_tensor_count(&s.in[0]); j++) s.x[j] = values[v];
      const rdt_findings f = run_fused(&s, 2, NULL, false, false, &differ, NULL);
      assert_false(differ);
      assert_int_equal(f.suspects, 0);
      assert_true(f.cannot > 0);
      tear_down(&s);
    }
}

/* Whatever of the kernel's own tables memory changes comes back from the vault: every word of them, one after the
 * other. */
static void test_tables(void **unused) {
  setup s;
  rdt_reason why;
  rdt_vault frame = {0};
  (void)unused;
  set_up(&s, &layers[7], 1, false, 0);
  const rdt_operands o = operands(&s);
  const size_t bytes = (size_t)rdt_tensor_count(&s.p.out) * sizeof(float);
  run(&s, 1, o.epilogue);
  const uint64_t right = rdt_bitsum(s.out, bytes);
  void *state = state_of(&s, 1);
  assert_int_equal(kernel->fixed(state, &frame), RDT_OK);
  assert_int_equal(rdt_vault_close(&frame), RDT_OK);
  size_t words = 0;
  for (uint32_t *word; (word = rdt_vault_word(&frame, words)) != NULL; words++) {
    *word ^= 1u << words % 32;
    assert_int_equal(rdt_vault_secure(&frame), RDT_VAULT_RESTORED);
  }
  assert_true(words * 4 > 1024); /* 49 offsets, 7 columns: with them, it is */
  memset(s.out, 0xff, bytes);
  assert_int_equal(kernel->run(state, &o, &why), RDT_OK);
  assert_true(rdt_bitsum(s.out, bytes) == right);
  rdt_vault_clear(&frame);
  kernel->destroy(state);
  tear_down(&s);
}

static void test_refusals(void **unused) {
  setup s;
  rdt_reason why;
  (void)unused;
  set_up(&s, &layers[0], 1, false, 0);
  s.p.epilogue.act.fn = RDT_FN_TANH;
  assert_int_equal(kernel->accept(&s.p, &why), RDT_ERR_UNSUPPORTED);
  s.p.epilogue.act.fn = RDT_FN_NONE;
  s.p.window.groups = 1;
  assert_int_equal(kernel->accept(&s.p, &why), RDT_ERR_UNSUPPORTED);
  s.p.window.groups = layers[0].c;
  s.p.out.stride[3] += 4; /* wider pixels: computed, but not checked on the way */
  s.p.out.stride[2] = s.p.out.stride[3] * s.p.out.shape[3];
  s.p.out.stride[0] = s.p.out.stride[2] * s.p.out.shape[2];
  assert_int_equal(kernel->accept(&s.p, &why), RDT_OK);
  assert_int_equal(kernel->accept_fused(&s.p, &why), RDT_ERR_UNSUPPORTED);
  tear_down(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values),     cmocka_unit_test(test_clean),
                                     cmocka_unit_test(test_faults),     cmocka_unit_test(test_weights_of_the_check),
                                     cmocka_unit_test(test_not_finite), cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
