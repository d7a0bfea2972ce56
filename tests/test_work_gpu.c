/* What policy `model` believes of a GPU's kernels (plan/work_gpu.def), against what was measured: the records of
 * `redoubt plan --device cuda:0 --workload all` on an H200, which it was fitted on, and on an H100. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "core/file.h"
#include "core/memory.h"
#include "plan/timing.h"
#include "plan/work_gpu.h"
#include "report/figures.h"
#include "report/json.h"

enum { MOST = 1024 };
/* Estimates may be off by as much. */
static const struct {
  const char *name;
  double in_the_median, nine_of_ten;
} records[] = {{"gpu-workloads.json", 0.11, 0.4}, /* which they were fitted on */
               {"gpu-workloads-h100.json", 0.2, 0.6}};
static const double of_others = 1.0; /* estimates of other products are */

static double estimate(const rdt_track *t, int64_t m, int64_t n, int64_t k, const char *kernel, const char *scheme) {
  rdt_problem p;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){m, k});
  p.in[1] = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){k, n});
  p.out = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){m, n});
  const double seconds = rdt_gpu_estimate(&p, kernel, scheme, t);
  rdt_problem_clear(&p);
  return seconds;
}

static cJSON *record(const char *name, rdt_track *t) {
  char path[512];
  void *text;
  size_t bytes;
  rdt_reason why = {""};
  snprintf(path, sizeof path, "%s/bench/results/%s", TEST_DATA, name);
  if (rdt_file_read(path, &text, &bytes, &why) != RDT_OK) fail_msg("%s", why.text);
  cJSON *doc = rdt_json_parse(text, bytes);
  rdt_free(text);
  assert_non_null(doc);
  const cJSON *gpu = cJSON_GetObjectItem(doc, "gpu");
  *t = (rdt_track){.sms = (int)rdt_json_real(gpu, "multiprocessors"),
                   .bandwidth = rdt_json_real(gpu, "bandwidth"),
                   .flops = rdt_json_real(gpu, "flops")};
  return doc;
}

/* How far off estimates are, as |log(estimate / measured)|: of those of a record's kernels that the table has. other:
 * each is asked about another product, which is wrong. */
static int misses(const cJSON *doc, const rdt_track *t, bool checked, bool other, double *list) {
  const cJSON *rows = rdt_figure_table(doc, "products"), *row;
  const int all = cJSON_GetArraySize(rows);
  int n = 0, i = 0;
  cJSON_ArrayForEach(row, rows) {
    const cJSON *of = other ? cJSON_GetArrayItem(rows, (i + all / 2) % all) : row;
    i++;
    const char *kernel = rdt_json_string(row, checked ? "plan kernel" : "own kernel"),
               *scheme = checked ? rdt_json_string(row, "plan scheme") : "none";
    const double us = rdt_json_real(row, checked ? "plan us" : "own us");
    if (!(us > 0.0)) continue;
    const double seconds = estimate(t, (int64_t)rdt_json_real(of, "m"), (int64_t)rdt_json_real(of, "n"),
                                    (int64_t)rdt_json_real(of, "k"), kernel, scheme);
    if (isnan(seconds)) continue;
    assert_true(seconds > 0.0 && n < MOST);
    list[n++] = fabs(log(1e6 * seconds / us));
  }
  return n;
}

/* Medians and nine of ten, of both; and that the same kernels' estimates of other products are no match. */
static void estimates_are_what_was_measured(void **state) {
  static double list[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
    rdt_track t;
    cJSON *doc = record(records[i].name, &t);
    for (int checked = 0; checked < 2; checked++) {
      int n = misses(doc, &t, checked, false, list);
      const rdt_timing_stat off = rdt_timing_samples_stat((rdt_timing_samples){list, n});
      print_message("%s, %s: %d estimates, off by %.3f in the median, %.3f nine of ten\n", records[i].name,
                    checked ? "as planned" : "unprotected", n, expm1(off.median), expm1(off.p90));
      assert_true(n > 360); /* of 368 */
      assert_true(off.median < log1p(records[i].in_the_median));
      assert_true(off.p90 < log1p(records[i].nine_of_ten));
      n = misses(doc, &t, checked, true, list);
      assert_true(rdt_timing_median(list, n) >= log1p(of_others)); /* NaN fails */
    }
    cJSON_Delete(doc);
  }
}

/* More work takes no less time, and a GPU of half the speed no less than one of all of it. */
static void estimates_grow_with_the_work(void **state) {
  static const char *const kernels[] = {"gemm_f16_wgmma_128x128pp_row", "gemm_f16_fused_wgmma_64x64",
                                        "gemm_f16_mma_64x64_row", "cublaslt"};
  const rdt_track whole = {.sms = 132, .bandwidth = 4.2e12, .flops = 770e12};
  rdt_track slow = whole, narrow = whole;
  slow.flops /= 2.0;
  narrow.bandwidth /= 2.0;
  (void)state;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    double before = 0.0;
    for (int64_t m = 64; m <= 65536; m *= 4) {
      const double seconds = estimate(&whole, m, 1024, 1024, kernels[i], "row");
      assert_true(seconds >= before); /* NaN fails */
      before = seconds;
      assert_true(estimate(&whole, m, 4096, 1024, kernels[i], "row") >= seconds);
      assert_true(estimate(&whole, m, 1024, 4096, kernels[i], "row") >= seconds);
      assert_true(estimate(&slow, m, 1024, 1024, kernels[i], "row") >= seconds);
      assert_true(estimate(&narrow, m, 1024, 1024, kernels[i], "row") >= seconds);
    }
    assert_true(before > estimate(&whole, 64, 1024, 1024, kernels[i], "row"));
  }
}

/* Of what the table has no row nothing is believed: it is measured. */
static void nothing_is_made_up(void **state) {
  const rdt_track t = {.sms = 132, .bandwidth = 4.2e12, .flops = 770e12};
  (void)state;
  assert_true(isnan(estimate(&t, 64, 64, 64, "gemm_f16_nothing_1x1", "row")));
  assert_true(isnan(estimate(&t, 64, 64, 64, "gemm_f16_wgmma_128x128pp_row", "nothing")));
  assert_true(isnan(estimate(&t, 64, 64, 64, "gemm_f16_wgmma_128x128", "row"))); /* a name's beginning is no name */
  assert_false(isnan(estimate(&t, 64, 64, 64, "gemm_f16_wgmma_128x128pp_row", "row")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(estimates_are_what_was_measured),
      cmocka_unit_test(estimates_grow_with_the_work),
      cmocka_unit_test(nothing_is_made_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
