/* The built-in workloads: intensities as the literature gives them (f16, M N K padded to 8), and layers as problems. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/workloads.h"

static const rdt_workload *find(const char *text, int64_t *batch) {
  const rdt_workload *w;
  rdt_reason why;
  assert_int_equal(rdt_workload_find(text, &w, batch, &why), RDT_OK);
  return w;
}

static double intensity(const char *text) {
  int64_t batch;
  const rdt_workload *w = find(text, &batch);
  return rdt_work_intensity(rdt_workload_work(w, batch, RDT_F16, RDT_INTENSITY_PAD));
}

static void expect(const char *text, double value, double within) {
  const double is = intensity(text);
  if (!(fabs(is - value) <= within)) fail_msg("%s has %g, not %g", text, is, value);
}

/* Smallest and largest of a group's workloads, at the usual batch. */
static void range(const char *group, int count, double range[2]) {
  int n, found = 0;
  const rdt_workload *table = rdt_workload_table(&n);
  range[0] = INFINITY;
  range[1] = 0.0;
  for (int i = 0; i < n; i++) {
    if (strcmp(table[i].group, group) != 0) continue;
    const double is = intensity(table[i].name);
    range[0] = fmin(range[0], is);
    range[1] = fmax(range[1], is);
    found++;
  }
  assert_int_equal(found, count);
}

static void networks_have_their_intensity(void **state) {
  (void)state;
  double r[2];
  expect("resnet50-1080p", 122.0, 0.05);
  expect("resnet50", 72.0, 0.05);
  range("cnn-1080p", 8, r);
  assert_true(floor(r[0]) == 71.0 && floor(r[1]) == 220.0);
  range("cnn-224", 8, r);
  expect("dlrm-bottom", 7.4, 0.05);
  expect("dlrm-top", 7.7, 0.05);
  expect("dlrm-bottom:256", 70.0, 0.05);
  expect("dlrm-top:256", 109.8, 0.05);
  expect("dlrm-bottom:2048", 92.0, 0.05);
  expect("dlrm-top:2048", 175.8, 0.05);
  range("noscope", 4, r);
  assert_true(floor(r[0]) == 15.0 && round(r[1]) == 53.0);
  range("square", 7, r);
  assert_true(fabs(r[0] - 10.7) < 0.05 && round(r[1]) == 683.0);
  /* groups lower it (footnote 3) */
  assert_true(intensity("shufflenet-grouped-1080p") < intensity("shufflenet-1080p"));
  assert_true(intensity("resnext50-grouped-1080p") < intensity("resnext50-1080p"));
  assert_true(intensity("resnext50-1080p") == intensity("wide-resnet50-1080p"));
  range("conv", 6, r);
}

static void layers_have_their_intensity(void **state) {
  (void)state;
  int64_t batch;
  const rdt_workload *w = find("resnet50-1080p", &batch);
  double least = INFINITY, most = 0.0, plain = INFINITY;
  for (int i = 0; i < w->count; i++) {
    const double is = rdt_work_intensity(rdt_layer_work(&w->layers[i], batch, RDT_F16, RDT_INTENSITY_PAD));
    least = fmin(least, is);
    most = fmax(most, is);
    plain = fmin(plain, rdt_work_intensity(rdt_layer_work(&w->layers[i], batch, RDT_F16, 1)));
  }
  assert_true(fabs(least - 7.9) < 0.05 && fabs(most - 511.5) < 0.1 && round(plain) == 1.0);
}

static void names_are_found_with_their_batch(void **state) {
  (void)state;
  const rdt_workload *w;
  rdt_reason why;
  int64_t batch;
  char name[64];
  w = find("noscope-coral", &batch);
  assert_true(batch == 64);
  rdt_workload_name(w, batch, name, sizeof name);
  assert_string_equal(name, "noscope-coral");
  w = find("dlrm-top:2048", &batch);
  assert_true(batch == 2048);
  rdt_workload_name(w, batch, name, sizeof name);
  assert_string_equal(name, "dlrm-top:2048");
  static const char *const wrong[] = {"dlrm", "", ":8", "resnet"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(rdt_workload_find(wrong[i], &w, &batch, &why), RDT_ERR_NAME);
  assert_non_null(strstr(why.text, "list workloads"));
  static const char *const bad[] = {"vgg16:",      "vgg16:0",    "vgg16:-1", "vgg16:2x", "vgg16:1000000000000",
                                    "dlrm-top: 8", "dlrm-top:+8"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(rdt_workload_find(bad[i], &w, &batch, &why), RDT_ERR_ARG);
}

static void layers_are_problems(void **state) {
  (void)state;
  int n;
  const rdt_workload *table = rdt_workload_table(&n);
  for (int i = 0; i < n; i++) {
    assert_true(table[i].count > 0 && table[i].count <= RDT_WORKLOAD_LAYERS && table[i].batches > 0);
    if (i > 0) assert_ptr_equal(table[i].layers, table[i - 1].layers + table[i - 1].count);
    for (int j = 0; j < table[i].count; j++) {
      const rdt_layer *l = &table[i].layers[j];
      const int64_t batch = table[i].batch[table[i].batches - 1];
      rdt_problem p;
      rdt_reason why;
      int64_t m, n_group, k, pm, pn, pk;
      char text[96];
      assert_true(*l->name && l->times > 0);
      assert_int_equal(rdt_layer_problem(l, batch, RDT_F32, &p, &why), RDT_OK);
      rdt_layer_mnk(l, batch, &m, &n_group, &k);
      rdt_problem_mnk(&p, &pm, &pn, &pk);
      assert_true(pm == m && pn == n_group * l->groups && pk == k);
      assert_true(rdt_layer_work(l, batch, RDT_F32, 1).flops == rdt_problem_flops(&p));
      rdt_layer_text(l, batch, text, sizeof text);
      assert_true(strlen(text) > 5 && strlen(text) < 80);
      rdt_problem_clear(&p);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(networks_have_their_intensity),
      cmocka_unit_test(layers_have_their_intensity),
      cmocka_unit_test(names_are_found_with_their_batch),
      cmocka_unit_test(layers_are_problems),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
