/* What `redoubt bench published` measures, on few trials; and the simulated element that it hits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench_published.h"
#include "core/file.h"
#include "core/memory.h"
#include "report/figures.h"
#include "report/json.h"
#include "tolerance_sim.h"

/* An element computed by itself is the element of the product, bit by bit; with a hit it is another one. */
static void one_element_is_computed_again(void **state) {
  static const char *const cases[] = {"f64", "f32", "f32-fma", "bf16-bf16", "f16", "f16-hopper", "f16-volta"};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rdt_sim s;
    rdt_rng r = {.state = 7};
    assert_true(rdt_sim_init(&s, rdt_sim_find(cases[i]), 5, 7, 37, false));
    rdt_sim_fill_a(&s, RDT_FAMILY_MIXED, &r);
    rdt_sim_fill_b(&s, RDT_FAMILY_MIXED, &r);
    assert_true(rdt_sim_multiply(&s));
    for (int64_t row = 0; row < s.m; row++)
      for (int64_t j = 0; j < s.n; j++) assert_true(rdt_sim_again(&s, row, j, NULL, 0) == s.out[row * s.n + j]);
    const int64_t last = rdt_sim_steps(&s) - 1;
    const rdt_sim_hit sign = {last, s.c->in == RDT_F64 ? 63 : 31}, twice[2] = {sign, sign};
    assert_true(rdt_sim_again(&s, 1, 2, &sign, 1) == -s.out[1 * s.n + 2]);
    assert_true(rdt_sim_again(&s, 1, 2, twice, 2) == s.out[1 * s.n + 2]);
    rdt_sim_clear(&s);
  }
}

static cJSON *measured(const char *path, int64_t trials) {
  const rdt_bench_published_job job = {
      .trials = trials, .lambda = 6.0, .seed = 1, .format = RDT_BENCH_JSON, .output = path, .head = ""};
  int64_t missed = -1;
  rdt_reason why = {""};
  void *text;
  size_t bytes;
  assert_int_equal(rdt_bench_published(&job, &missed, &why), RDT_OK);
  assert_int_equal(missed, 0);
  assert_int_equal(rdt_file_read(path, &text, &bytes, &why), RDT_OK);
  cJSON *doc = rdt_json_parse(text, bytes);
  rdt_free(text);
  assert_non_null(doc);
  return doc;
}

static double cell(const cJSON *doc, const char *table, int row, const char *member) {
  return rdt_json_real(cJSON_GetArrayItem(rdt_figure_table(doc, table), row), member);
}

static void what_is_published_is_found_again(void **state) {
  char folder[] = "/tmp/redoubt-published-XXXXXX", path[128], command[64];
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/p.json", folder);
  cJSON *doc = measured(path, 40);
  const int last = 3 * 6; /* the highest rate: one checksum, eight, ours */
  assert_true(cell(doc, "strided", last, "located") < cell(doc, "strided", last + 1, "located"));
  assert_true(cell(doc, "strided", last + 1, "located") < 100.0);
  assert_true(cell(doc, "strided", last + 2, "located") == 100.0);
  for (int i = 0; i < 6; i++) { /* s8, ones and random: inputs, filters, outputs */
    assert_true(cell(doc, "convolution", i, "fc") == (i % 3 == 0 ? 0.0 : 100.0));
    assert_true(cell(doc, "convolution", i, "fic") == 100.0);
  }
  for (int i = 0; i < cJSON_GetArraySize(rdt_figure_table(doc, "constants")); i += 7) /* T2, T3, constants */
    for (int k = 0; k < 2; k++) {
      assert_true(cell(doc, "constants", i + k, "cries") == 0.0);
      assert_true(cell(doc, "constants", i + k, "found_large") == 100.0);
    }
  rdt_reason why = {""};
  assert_int_equal(rdt_figures_record(doc, path, folder, &why), RDT_OK);
  for (int i = 0; i < 3; i++) {
    static const char *const names[] = {"strided", "convolution", "constants"};
    snprintf(path, sizeof path, "%s/published-%s.svg", folder, names[i]);
    assert_int_equal(access(path, R_OK), 0);
  }
  cJSON_Delete(doc);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static bool stop(double part, const char *what) {
  (void)part;
  (void)what;
  return false;
}

static void it_stops_when_told(void **state) {
  const rdt_bench_published_job job = {.trials = 10, .lambda = 6.0, .head = "", .progress = stop};
  int64_t missed = 0;
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(rdt_bench_published(&job, &missed, &why), RDT_ERR_CANCELLED);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_element_is_computed_again),
                                     cmocka_unit_test(what_is_published_is_found_again),
                                     cmocka_unit_test(it_stops_when_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
