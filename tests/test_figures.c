/* Pictures: well-formed, with what they are to show, from records that are whole and from others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/memory.h"
#include "report/figures.h"
#include "report/spans.h"
#include "report/trace.h"
#include "util_folder.h"

static char *read_picture(const char *name) {
  char path[256];
  void *data;
  size_t bytes;
  snprintf(path, sizeof path, "%s/%s.svg", util_folder, name);
  assert_int_equal(rdt_file_read(path, &data, &bytes, NULL), RDT_OK);
  char *text = rdt_grow(data, bytes, bytes + 1, 1);
  assert_non_null(text);
  text[bytes] = '\0';
  return text;
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, what)) != NULL; p += strlen(what)) n++;
  return n;
}

/* Every tag is closed, nothing but references begins with '&', no number is missing. */
static void expect_well_formed(const char *text) {
  int depth = 0;
  assert_true(strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39) == 0);
  for (const char *p = strchr(text, '<'); p; p = strchr(p + 1, '<')) {
    const char *end = strchr(p, '>');
    assert_non_null(end);
    depth += p[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
    assert_true(depth > 0 || strcmp(p, "</svg>\n") == 0);
  }
  assert_int_equal(depth, 0);
  for (const char *p = strchr(text, '&'); p; p = strchr(p + 1, '&'))
    assert_true(strncmp(p, "&lt;", 4) == 0 || strncmp(p, "&gt;", 4) == 0 || strncmp(p, "&amp;", 5) == 0 ||
                strncmp(p, "&quot;", 6) == 0);
  assert_null(strstr(text, "\"nan\""));
  assert_null(strstr(text, "\"inf\""));
  assert_null(strstr(text, "\"-nan\""));
}

static void intensities_need_no_record(void **state) {
  (void)state;
  rdt_reason why;
  assert_int_equal(rdt_figures_intensity(util_folder, &why), RDT_OK);
  char *networks = read_picture("intensity-networks"), *layers = read_picture("intensity-layers");
  expect_well_formed(networks);
  expect_well_formed(layers);
  assert_int_equal(count(networks, "<rect class=\"c"), 2 * 10 + 2); /* two sizes of ten networks, and the legend */
  assert_non_null(strstr(networks, ">122<"));
  assert_int_equal(count(layers, "<rect class=\"c"), 24);
  assert_non_null(strstr(layers, ">511<"));
  rdt_free(networks);
  rdt_free(layers);
  assert_int_equal(rdt_figures_intensity("/no/such/folder", &why), RDT_ERR_IO);
}

static void bars_show_what_does_not_fit(void **state) {
  (void)state;
  static const char *const groups[] = {"a & b", "<c>"}, *const series[] = {"x", "\"y\""};
  const double values[] = {1.0, 2.0, NAN, 1000.0}, least[] = {0.5, 1.5, NAN, 900.0}, most[] = {2.0, 3.0, NAN, 1100.0};
  const rdt_svg_bars b = {.title = "T < U",
                          .text = "under it",
                          .unit = "%",
                          .axis = "overhead",
                          .groups = 2,
                          .series = 2,
                          .group_names = groups,
                          .series_names = series,
                          .values = values,
                          .least = least,
                          .most = most,
                          .cut = 5.0,
                          .divide = 1,
                          .divide_text = "here"};
  char path[256];
  rdt_reason why;
  snprintf(path, sizeof path, "%s/bars.svg", util_folder);
  assert_int_equal(rdt_svg_bars_write(&b, path, &why), RDT_OK);
  char *text = read_picture("bars");
  expect_well_formed(text);
  assert_int_equal(count(text, "<rect class=\"c"), 3 + 2);
  assert_non_null(strstr(text, ">1000<"));
  assert_non_null(strstr(text, "a &amp; b, x: 1.0% (0.5% to 2.0%)"));
  assert_non_null(strstr(text, "T &lt; U"));
  assert_null(strstr(text, ">200%<")); /* the scale ends at the cut */
  rdt_free(text);
}

static void axes_are_round(void **state) {
  (void)state;
  const rdt_svg_axis a = rdt_svg_axis_round((rdt_svg_axis){.low = -3.0, .high = 41.0});
  assert_true(a.low == -10.0 && a.high == 50.0);
  const rdt_svg_axis l = rdt_svg_axis_round((rdt_svg_axis){.low = 0.3, .high = 130.0, .log = true});
  assert_true(fabs(l.low - 0.2) < 1e-12 && fabs(l.high - 200.0) < 1e-9);
  const rdt_svg_axis none = rdt_svg_axis_round((rdt_svg_axis){.low = 0.0, .high = 0.0});
  assert_true(none.high > none.low);
}

/* More steps than a timeline keeps: so many, and it is said that there were more. */
static void lost_steps_are_told(void **state) {
  (void)state;
  rdt_timeline line = {0};
  const rdt_spans spans = {"measured: 1 s", &line};
  char path[256];
  rdt_reason why;
  for (int i = 0; i < RDT_TIMELINE_MOST + 7; i++)
    rdt_timeline_add(&line, &(rdt_span){.kind = RDT_SPAN_LOAD_B, .row = i, .begin = i * 1e-6, .end = (i + 1) * 1e-6});
  assert_true(line.n == RDT_TIMELINE_MOST && line.lost == 7);
  for (int lost = 1; lost >= 0; lost--) { /* the picture of few, whatever they are of many */
    line.n = 3, line.lost = lost ? 7 : 0;
    snprintf(path, sizeof path, "%s/spans.svg", util_folder);
    assert_int_equal(rdt_spans_write(&spans, 1, "A product", "by blocks", path, &why), RDT_OK);
    char *text = read_picture("spans");
    expect_well_formed(text);
    assert_int_equal(count(text, "measured: 1 s; the last 7 of 10 steps are not shown"), lost);
    rdt_free(text);
    cJSON *trace = rdt_trace_create();
    rdt_spans_trace(trace, 1, &spans);
    char *json = cJSON_PrintUnformatted(trace);
    assert_int_equal(strstr(json, "the last 7 of 10 steps are not shown") != NULL, lost);
    cJSON_free(json);
    cJSON_Delete(trace);
  }
  rdt_timeline_clear(&line);
}

/* One network's plan: the roofline and the layers' overheads */
static void a_plan_is_one_picture(void **state) {
  (void)state;
  static const char *const series[] = {"resnet50"};
  const rdt_figure_layer layers[] = {
      {.name = "stem",
       .scheme = "row",
       .times = 1,
       .work = {.flops = 2e8, .bytes = 1e7},
       .before = 2e-3,
       .after = 2.1e-3},
      {.name = "fc",
       .scheme = "thread1",
       .times = 1,
       .work = {.flops = 4e6, .bytes = 8e6},
       .before = 1e-3,
       .after = 1e-3},
      {.name = "odd", .scheme = "dup", .times = 1, .work = {.flops = 4e6, .bytes = 8e6}, .before = NAN, .after = 1e-3},
  };
  const rdt_figure_roofline f = {.title = "Plan",
                                 .text = "of a network",
                                 .roof = {.flops = 1.8e11, .bandwidth = 3.6e10},
                                 .layers = layers,
                                 .n = 3,
                                 .series = series,
                                 .n_series = 1,
                                 .bars = true};
  char path[256];
  rdt_reason why;
  snprintf(path, sizeof path, "%s/plan.svg", util_folder);
  assert_int_equal(rdt_figure_roofline_write(&f, path, &why), RDT_OK);
  char *text = read_picture("plan");
  expect_well_formed(text);
  assert_int_equal(count(text, "<circle"), 5);
  assert_int_equal(count(text, "<rect class=\"c"), 2);
  assert_non_null(strstr(text, "36.0 GB/s left of 5.0 FLOP/byte"));
  assert_non_null(strstr(text, ">thread1<"));
  rdt_free(text);
}

static void a_plan_document_gives_one(void **state) {
  (void)state;
  static const char text[] =
      "{\"schema\": \"redoubt.plan/2\", \"model\": \"some/net.onnx\", \"machine\": {\"cpu\": \"c\", \"isa\": \"avx2\", "
      "\"threads\": 2}, \"sizes\": [{\"layers\": [{\"name\": \"view\", \"kernel\": \"view\", \"scheme\": \"\"}, "
      "{\"name\": "
      "\"conv1\", \"scheme\": \"fc\", \"times\": 1, \"flops\": 2e8, \"bytes\": 1e7, \"seconds\": 2.2e-3, "
      "\"unprotected\": 2e-3}, "
      "{\"name\": \"fc\", \"scheme\": \"row\", \"times\": 1, \"flops\": 4e6, \"bytes\": 8e6, \"seconds\": 1e-3, "
      "\"unprotected\": 1e-3}]}]}";
  const rdt_roof roof = {.flops = 1.8e11, .bandwidth = 3.6e10};
  char path[256];
  rdt_reason why;
  snprintf(path, sizeof path, "%s/plan.svg", util_folder);
  cJSON *doc = cJSON_Parse(text), *none = cJSON_Parse("{\"schema\": \"redoubt.plan/2\", \"sizes\": []}");
  assert_int_equal(rdt_figure_plan_write(doc, "p.json", roof, path, &why), RDT_OK);
  char *picture = read_picture("plan");
  expect_well_formed(picture);
  assert_non_null(strstr(picture, "Plan of net.onnx"));
  assert_non_null(strstr(picture, "2 layers: 3 ms unprotected (rings), 3.2 ms as planned (dots), +6.7 %"));
  assert_int_equal(count(picture, "<circle"), 4);
  rdt_free(picture);
  assert_int_equal(rdt_figure_plan_write(none, "p.json", roof, path, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "p.json"));
  cJSON_Delete(doc);
  cJSON_Delete(none);
}

/* ---- records ---- */

static void add_row(cJSON *rows, const char *workload, const char *what, const char *scheme, double ms, double ratio) {
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "workload", workload);
  cJSON_AddStringToObject(row, "layer", "product");
  cJSON_AddStringToObject(row, "what", what);
  cJSON_AddStringToObject(row, "scheme", scheme);
  cJSON_AddStringToObject(row, "dtype", "f32");
  cJSON_AddNumberToObject(row, "threads", 2);
  const double side = atof(strchr(workload, '-') + 1);
  cJSON_AddNumberToObject(row, "m", side);
  cJSON_AddNumberToObject(row, "n", side);
  cJSON_AddNumberToObject(row, "k", side);
  cJSON_AddNumberToObject(row, "groups", 1);
  cJSON_AddNumberToObject(row, "times", 1);
  cJSON_AddNumberToObject(row, "ms", ms);
  if (isfinite(ratio)) cJSON_AddNumberToObject(row, "/ none", ratio);
  cJSON_AddNumberToObject(row, "least / none", ratio - 0.01);
  cJSON_AddNumberToObject(row, "most / none", ratio + 0.02);
  cJSON_AddItemToArray(rows, row);
}

static cJSON *add_table(cJSON *tables, const char *name) {
  cJSON *table = cJSON_CreateObject();
  cJSON_AddStringToObject(table, "name", name);
  cJSON_AddItemToArray(tables, table);
  return cJSON_AddArrayToObject(table, "rows");
}

/* Squares where thread1 is cheaper up to 64, and global above. */
static cJSON *make_record(void) {
  cJSON *doc = cJSON_CreateObject(), *tables, *limits, *row = cJSON_CreateObject();
  cJSON_AddStringToObject(doc, "schema", "redoubt.bench-workloads/1");
  tables = cJSON_AddArrayToObject(doc, "tables");
  limits = add_table(tables, "limits");
  cJSON_AddNumberToObject(row, "threads", 2);
  cJSON_AddNumberToObject(row, "GFLOP/s", 180.0);
  cJSON_AddNumberToObject(row, "GB/s", 10.0);
  cJSON_AddItemToArray(limits, row);
  for (int t = 0; t < 2; t++) {
    cJSON *rows = add_table(tables, t ? "sums" : "results");
    for (int side = 32; side <= 512; side *= 2) {
      char name[32];
      const double global = side <= 64 ? 1.3 : 1.05, thread = side <= 64 ? 1.1 : 1.2;
      snprintf(name, sizeof name, "square-%d", side);
      add_row(rows, name, "redoubt none", "none", 1.0, NAN);
      add_row(rows, name, "redoubt plan", t ? "plan" : "row", fmin(global, thread), fmin(global, thread));
      add_row(rows, name, "redoubt", "global", global, global);
      add_row(rows, name, "redoubt", "thread1", thread, thread);
      add_row(rows, name, "oneDNN", "none", 0.9, 0.9);
    }
  }
  return doc;
}

static void a_record_gives_its_pictures(void **state) {
  (void)state;
  rdt_reason why;
  cJSON *doc = make_record();
  assert_int_equal(rdt_figures_record(doc, "record.json", util_folder, &why), RDT_OK);
  char *squares = read_picture("overhead-square"), *roof = read_picture("roofline"),
       *crossing = read_picture("crossing");
  expect_well_formed(squares);
  expect_well_formed(roof);
  expect_well_formed(crossing);
  assert_int_equal(count(squares, "<rect class=\"c"), 5 * 3 + 3);
  assert_non_null(strstr(squares, "above 18.0 FLOP/byte"));
  assert_non_null(strstr(squares, "planned"));
  assert_int_equal(count(roof, "<circle"), 10);
  assert_int_equal(count(crossing, "<circle"), 10);
  assert_non_null(strstr(crossing, "cross at 15")); /* between 10.7 and 21.3 */
  rdt_free(squares);
  rdt_free(roof);
  rdt_free(crossing);
  cJSON *more = make_record(), *rows; /* with other networks: they are drawn together */
  for (int t = 1; t <= 2; t++) {
    rows = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(more, "tables"), t), "rows");
    for (int i = 0; i < cJSON_GetArraySize(rows); i++)
      cJSON_ReplaceItemInObject(cJSON_GetArrayItem(rows, i), "workload", cJSON_CreateString("dlrm-top"));
  }
  assert_int_equal(rdt_figures_join(doc, more, "more.json", &why), RDT_OK);
  assert_int_equal(rdt_figures_join(doc, cJSON_GetObjectItem(more, "tables"), "more.json", &why), RDT_ERR_FORMAT);
  cJSON_Delete(more);
  assert_int_equal(rdt_figures_record(doc, "record.json", util_folder, &why), RDT_OK);
  char *networks = read_picture("overhead-networks");
  assert_non_null(strstr(networks, "dlrm-top"));
  assert_true(strstr(networks, ">global<") && strstr(networks, ">thread1<") && strstr(networks, ">planned<"));
  rdt_free(networks);
  cJSON *wrapped = cJSON_CreateObject(); /* as tools/record.py keeps it */
  cJSON_AddItemToObject(wrapped, "result", doc);
  assert_int_equal(rdt_figures_record(wrapped, "record.json", util_folder, &why), RDT_OK);
  cJSON_Delete(wrapped);
}

static void other_documents_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{}",
      "[]",
      "{\"schema\": \"redoubt.bench-gemm/2\", \"tables\": []}",
      "{\"schema\": \"redoubt.bench-workloads/1\"}",
      "{\"schema\": \"redoubt.bench-workloads/1\", \"tables\": [{\"name\": \"limits\", \"rows\": [{}]}]}",
      "{\"schema\": \"redoubt.bench-workloads/1\", \"tables\": [{\"name\": \"limits\", \"rows\": [{\"threads\": 1, "
      "\"GFLOP/s\": 1, \"GB/s\": 1}]}, {\"name\": \"results\", \"rows\": []}, {\"name\": \"sums\", \"rows\": []}]}",
  };
  rdt_reason why;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cJSON *doc = cJSON_Parse(texts[i]);
    assert_non_null(doc);
    assert_int_equal(rdt_figures_record(doc, "this.json", util_folder, &why), RDT_ERR_FORMAT);
    assert_non_null(strstr(why.text, "this.json"));
    cJSON_Delete(doc);
  }
  cJSON *doc = make_record(), *tables = cJSON_GetObjectItem(doc, "tables");
  cJSON *rows = cJSON_GetObjectItem(cJSON_GetArrayItem(tables, 2), "rows");
  cJSON_ReplaceItemInObject(cJSON_GetArrayItem(rows, 0), "workload", cJSON_CreateString("unknown"));
  assert_int_equal(rdt_figures_record(doc, "this.json", util_folder, &why), RDT_ERR_NAME);
  cJSON_Delete(doc);
}

/* Campaigns with and without protection, of two targets; a target that has only one of them has one bar. */
/* Of 1500 faults 1000 in data; shares of faults in checks do not show. */
#define ROW(target, scheme, fault)                                                                                   \
  "{\"schema\": \"redoubt.coverage/2\", \"target\": \"" target "\", \"scheme\": \"" scheme "\", \"fault\": \"" fault \
  "\", \"sites\": [{\"site\": \"accum\", \"planted\": 1000, \"sdc\": 3, \"sdc_critical\": 4},"                       \
  "{\"site\": \"bound\", \"planted\": 500, \"sdc\": 0, \"sdc_critical\": 0}]}"

static void silent_corruptions_stand_side_by_side(void **state) {
  (void)state;
  static const char some[] =
      "{\"schema\": \"redoubt.record/1\", \"result\": {\"schema\": \"redoubt.campaigns/2\", \"rows\": [" ROW(
          "a/digits.onnx", "none", "mix") "," ROW("a/digits.onnx", "auto", "mix") "," ROW("gemm:8x8x8", "none",
                                                                                          "mix") "]}}";
  static const char one[] = "{\"schema\": \"redoubt.campaigns/2\", \"rows\": [" ROW("x", "row", "mix") "," ROW(
      "x", "none", "bit@accum") "]}"; /* of other faults */
  rdt_reason why = {""};
  cJSON *doc = cJSON_Parse(some);
  assert_int_equal(rdt_figures_record(doc, "some", util_folder, &why), RDT_OK);
  cJSON_Delete(doc);
  char *text = read_picture("silent");
  expect_well_formed(text);
  assert_int_equal(count(text, "<rect class=\"c"), 3 + 2);
  assert_non_null(strstr(text, ">digits<"));
  assert_non_null(strstr(text, ">gemm:8x8x8<"));
  assert_non_null(strstr(text, "of 2000 faults in data without protection and 1000 with it"));
  assert_non_null(strstr(text, "with it: 7;"));
  rdt_free(text);
  doc = cJSON_Parse(one);
  assert_int_equal(rdt_figures_record(doc, "one", util_folder, &why), RDT_ERR_FORMAT);
  cJSON_Delete(doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(intensities_need_no_record),
      cmocka_unit_test(bars_show_what_does_not_fit),
      cmocka_unit_test(axes_are_round),
      cmocka_unit_test(lost_steps_are_told),
      cmocka_unit_test(a_plan_is_one_picture),
      cmocka_unit_test(a_plan_document_gives_one),
      cmocka_unit_test(a_record_gives_its_pictures),
      cmocka_unit_test(silent_corruptions_stand_side_by_side),
      cmocka_unit_test(other_documents_are_refused),
  };
  return cmocka_run_group_tests(tests, util_folder_make, util_folder_remove);
}
