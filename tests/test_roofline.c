/* What layers compute and move, what the roofline makes of it, and documents that are kept under a seal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cpu_info.h"
#include "core/file.h"
#include "core/memory.h"
#include "plan/device.h"
#include "plan/estimate.h"
#include "plan/roofline.h"
#include "plan/sealed_json.h"
#include "schemes/scheme.h"
#include "util_folder.h"

static rdt_tensor tensor(rdt_dtype dtype, int rank, const int64_t *shape) {
  return rdt_tensor_dense(NULL, dtype, rank, shape);
}

static rdt_problem product(int64_t m, int64_t n, int64_t k) {
  rdt_problem p;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = tensor(RDT_F32, 2, (int64_t[]){m, k});
  p.in[1] = tensor(RDT_F32, 2, (int64_t[]){k, n});
  p.out = tensor(RDT_F32, 2, (int64_t[]){m, n});
  p.acc = RDT_F32;
  return p;
}

static void work_is_counted_once(void **state) {
  (void)state;
  rdt_problem p = product(3, 5, 7);
  rdt_work w = rdt_work_of(&p);
  assert_true(w.flops == 2 * 3 * 5 * 7);
  assert_true(w.bytes == 4 * (3 * 7 + 7 * 5 + 3 * 5));
  p.epilogue.bias = tensor(RDT_F32, 1, (int64_t[]){5});
  assert_true(rdt_work_of(&p).bytes == w.bytes + 4 * 5);
  rdt_problem_clear(&p);

  assert_int_equal(rdt_problem_init(&p, RDT_KOP_CONV, 2), RDT_OK); /* 3 x 3, two groups: the image is not unfolded */
  p.in[0] = tensor(RDT_F32, 4, (int64_t[]){1, 8, 10, 10});
  p.in[1] = tensor(RDT_F32, 4, (int64_t[]){6, 4, 3, 3});
  p.out = tensor(RDT_F32, 4, (int64_t[]){1, 6, 8, 8});
  p.window.groups = 2;
  w = rdt_work_of(&p);
  assert_true(w.flops == 2.0 * 64 * 6 * 36);
  assert_true(w.bytes == 4.0 * (800 + 216 + 384));
  rdt_problem_clear(&p);

  const rdt_work plain = rdt_work_of_mnk(1, 1000, 2048, 1, RDT_F16, 1);
  const rdt_work padded = rdt_work_of_mnk(1, 1000, 2048, 1, RDT_F16, RDT_INTENSITY_PAD);
  assert_true(padded.flops == 8 * plain.flops);
  assert_true(fabs(rdt_work_intensity(plain) - 1.0) < 0.01);
  assert_true(fabs(rdt_work_intensity(padded) - 7.9) < 0.05);
  const rdt_work grouped = rdt_work_of_mnk(10, 3, 36, 2, RDT_F32, 1);
  assert_true(grouped.flops == 2.0 * 2 * 10 * 3 * 36 && grouped.bytes == 4.0 * 2 * (360 + 108 + 30));
  const rdt_work both = rdt_work_sum(plain, grouped, 3.0);
  assert_true(both.flops == plain.flops + 3 * grouped.flops && both.bytes == plain.bytes + 3 * grouped.bytes);
  assert_true(isnan(rdt_work_intensity((rdt_work){0})));
}

static void the_roof_bounds_by_one_or_the_other(void **state) {
  (void)state;
  const rdt_roof roof = {.flops = 100.0, .bandwidth = 10.0};
  const rdt_work thin = {.flops = 50.0, .bytes = 10.0}, thick = {.flops = 200.0, .bytes = 10.0};
  assert_true(rdt_roof_ratio(roof) == 10.0);
  assert_false(rdt_roof_computes(roof, thin));
  assert_true(rdt_roof_computes(roof, thick));
  assert_true(rdt_roof_seconds(roof, thin) == 1.0 && rdt_roof_seconds(roof, thick) == 2.0);
  assert_true(rdt_roof_flops(roof, 5.0) == 50.0 && rdt_roof_flops(roof, 20.0) == 100.0);
}

static const rdt_device a_device = {
    .threads = 2, .peak = {[RDT_F32] = 180e9}, .bandwidth = 35e9, .meeting = 1e-6, .step = 0.35e-9};

static double estimate(const rdt_problem *p, const char *kernel, const char *scheme, bool fused, bool cold) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  while (n > 0 && strcmp(rows[n - 1]->name, kernel) != 0) n--;
  assert_true(n > 0);
  const rdt_way w = {.kernel = rows[n - 1], .scheme = rdt_scheme_find(scheme), .sets = 1, .fused = fused};
  return rdt_way_estimate(p, &w, &a_device, cold);
}

/* Whatever may be chosen has an estimate, and protection has one that is above none's. */
static void every_way_has_an_estimate(void **state) {
  (void)state;
  static const int64_t lengths[][3] = {{512, 512, 512}, {1, 1000, 512}, {256, 1, 64}};
  static rdt_offers o;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    rdt_problem p = product(lengths[i][0], lengths[i][1], lengths[i][2]);
    const rdt_demand d = {.sets = 1, .device = &a_device};
    rdt_offers_list(&p, rdt_isa_detect(), &d, &o);
    for (int k = 0; k < o.n; k++) {
      const rdt_offer *x = &o.list[k];
      if (x->refused) continue;
      assert_true(x->estimate > 0.0 && isfinite(x->estimate));
      if (x->way.scheme->id == RDT_SCHEME_NONE) continue;
      assert_true(x->estimate > estimate(&p, x->way.kernel->name, "none", false, false));
      assert_true(x->cost > 0.0);
    }
    rdt_problem_clear(&p);
  }
  rdt_problem pool;
  assert_int_equal(rdt_problem_init(&pool, RDT_KOP_MAXPOOL, 1), RDT_OK);
  assert_true(isnan(rdt_way_estimate(&pool, &(rdt_way){.scheme = rdt_scheme_find("dup")}, NULL, false)));
  rdt_problem_clear(&pool);
}

/* What section 7.2 of the literature is about: which of the two is cheaper depends on what bounds the layer. */
static void the_model_knows_what_bounds_a_layer(void **state) {
  (void)state;
  rdt_problem thick = product(1024, 1024, 1024), thin = product(1, 4096, 4096);
  const double peak = 2.0 * 1024 * 1024 * 1024 / a_device.peak[RDT_F32];
  const char *own = "gemm_f32_native";
  assert_true(estimate(&thick, own, "none", false, false) > peak);
  assert_true(estimate(&thick, own, "none", false, false) < 1.2 * peak);
  const double computing =
      estimate(&thick, own, "thread1", true, false) / estimate(&thick, own, "global-classic", false, false);
  const double reading =
      estimate(&thin, own, "thread1", true, true) / estimate(&thin, own, "global-classic", false, true);
  assert_true(computing > 1.0 && reading < computing);
  if (rdt_isa_detect() != RDT_ISA_AVX512) assert_true(reading < 1.0); /* there a single row takes a tile of twelve */
  assert_true(estimate(&thin, own, "none", false, true) > estimate(&thin, own, "none", false, false));
  rdt_problem_clear(&thick);
  rdt_problem_clear(&thin);
}

/* ---- documents under a seal ---- */

/* One word of the file for another of the same length. */
static void change(const char *path, const char *from, const char *to) {
  void *data;
  size_t bytes;
  assert_int_equal(rdt_file_read(path, &data, &bytes, NULL), RDT_OK);
  char *at = memmem(data, bytes, from, strlen(from));
  assert_non_null(at);
  memcpy(at, to, strlen(to));
  assert_int_equal(rdt_file_write(path, data, bytes, "", 0, NULL), RDT_OK);
  rdt_free(data);
}

static void what_was_sealed_is_read_again(void **state) {
  (void)state;
  char path[512];
  rdt_reason why;
  struct stat st;
  cJSON *read;
  assert_int_equal(rdt_cache_path("one/two.json", path, sizeof path, &why), RDT_OK);
  assert_true(strncmp(path, util_folder, strlen(util_folder)) == 0 && strstr(path, "/redoubt/one/two.json"));
  assert_int_equal(rdt_sealed_read(path, "redoubt.test/1", &read, &why), RDT_ERR_IO);
  cJSON *doc = rdt_sealed_document("redoubt.test/1", 2);
  cJSON_AddNumberToObject(doc, "third", 1.0 / 3.0);
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK);
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK); /* over the other one, with one seal */
  cJSON_Delete(doc);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(rdt_sealed_read(path, "redoubt.test/1", &read, &why), RDT_OK);
  assert_true(cJSON_GetObjectItem(read, "third")->valuedouble == 1.0 / 3.0);
  assert_int_equal(rdt_sealed_serves(read, path, 2, &why), RDT_OK);
  assert_int_equal(rdt_sealed_serves(read, path, 3, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "threads 2, here 3"));
  cJSON_ReplaceItemInObject(read, "redoubt", cJSON_CreateString("0.0.0"));
  assert_int_equal(rdt_sealed_serves(read, path, 2, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "0.0.0"));
  cJSON_Delete(read);
}

static void what_has_changed_is_refused(void **state) {
  (void)state;
  char path[512];
  rdt_reason why;
  cJSON *read;
  assert_int_equal(rdt_cache_path("changed.json", path, sizeof path, &why), RDT_OK);
  cJSON *doc = rdt_sealed_document("redoubt.test/1", 2);
  cJSON_AddStringToObject(doc, "scheme", "row");
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK);
  assert_int_equal(rdt_sealed_read(path, "redoubt.other/1", &read, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "redoubt.other/1"));
  change(path, "\"row\"", "\"col\"");
  assert_int_equal(rdt_sealed_read(path, "redoubt.test/1", &read, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "seal"));
  assert_int_equal(rdt_sealed_write(doc, path, &why), RDT_OK);
  change(path, "\"seal\"", "\"saal\"");
  assert_int_equal(rdt_sealed_read(path, "redoubt.test/1", &read, &why), RDT_ERR_FORMAT);
  cJSON_Delete(doc);
  static const char *const junk[] = {"", "{", "[]", "null", "{\"schema\":\"redoubt.test/1\"}", "{\"schema\":7}"};
  for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
    assert_int_equal(rdt_file_write(path, junk[i], strlen(junk[i]), "", 0, &why), RDT_OK);
    assert_int_equal(rdt_sealed_read(path, "redoubt.test/1", &read, &why), RDT_ERR_FORMAT);
    assert_null(read);
  }
}

static void a_cache_needs_a_folder(void **state) {
  (void)state;
  char path[512], plain[128];
  rdt_reason why;
  snprintf(plain, sizeof plain, "%s/file", util_folder);
  assert_int_equal(rdt_file_write(plain, "", 0, "", 0, &why), RDT_OK);
  setenv("XDG_CACHE_HOME", plain, 1);
  assert_int_equal(rdt_cache_path("x.json", path, sizeof path, &why), RDT_ERR_IO);
  char *home = strdup(getenv("HOME") ? getenv("HOME") : "");
  setenv("XDG_CACHE_HOME", "relative", 1); /* ignored */
  setenv("HOME", util_folder, 1);
  assert_int_equal(rdt_cache_path("x.json", path, sizeof path, &why), RDT_OK);
  assert_non_null(strstr(path, "/.cache/redoubt/x.json"));
  unsetenv("HOME");
  assert_int_equal(rdt_cache_path("x.json", path, sizeof path, &why), RDT_ERR_IO);
  setenv("HOME", home, 1);
  setenv("XDG_CACHE_HOME", util_folder, 1);
  free(home);
}

/* ---- the device ---- */

static void the_device_is_measured_once(void **state) {
  (void)state;
  rdt_device first, again, other;
  rdt_reason why;
  char name[64], path[512];
  assert_int_equal(rdt_device_find(2, RDT_DEVICE_ONCE, &other, &why), RDT_OK);
  assert_false(other.kept);
  assert_int_equal(rdt_device_find(2, RDT_DEVICE_KEPT, &first, &why), RDT_OK);
  assert_true(first.kept && first.threads == 2 && strlen(first.date) == 17);
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
    const rdt_roof roof = rdt_device_roof(&first, (rdt_dtype)t);
    if (rdt_dtype_is_float((rdt_dtype)t)) assert_true(roof.flops > 1e6 && roof.flops < 1e15);
    if (rdt_dtype_is_float((rdt_dtype)t)) assert_true(rdt_roof_ratio(roof) > 0.01 && rdt_roof_ratio(roof) < 1e5);
  }
  assert_int_equal(rdt_device_find(2, RDT_DEVICE_KEPT, &again, &why),
                   RDT_OK); /* the same numbers, as they were printed */
  assert_true(again.kept && strcmp(again.date, first.date) == 0);
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) assert_true(fabs(again.peak[t] - first.peak[t]) <= 1e-12 * first.peak[t]);
  snprintf(name, sizeof name, "device-%s-2.json", rdt_isa_name(rdt_isa_detect()));
  assert_int_equal(rdt_cache_path(name, path, sizeof path, &why), RDT_OK);
  change(path, "bandwidth", "bandwodth"); /* no longer what was sealed: measured anew, and whole again */
  assert_int_equal(rdt_device_find(2, RDT_DEVICE_KEPT, &again, &why), RDT_OK);
  assert_true(again.kept && again.bandwidth > 0.0);
  assert_int_equal(rdt_device_find(2, RDT_DEVICE_KEPT, &other, &why), RDT_OK);
  assert_true(fabs(other.bandwidth - again.bandwidth) <= 1e-12 * again.bandwidth);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_is_counted_once),          cmocka_unit_test(the_roof_bounds_by_one_or_the_other),
      cmocka_unit_test(every_way_has_an_estimate),     cmocka_unit_test(the_model_knows_what_bounds_a_layer),
      cmocka_unit_test(what_was_sealed_is_read_again), cmocka_unit_test(what_has_changed_is_refused),
      cmocka_unit_test(a_cache_needs_a_folder),        cmocka_unit_test(the_device_is_measured_once),
  };
  return cmocka_run_group_tests(tests, util_folder_make_cache, util_folder_remove);
}
