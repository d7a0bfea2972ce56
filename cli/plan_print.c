/* The document of `redoubt plan` for people. */
#include <math.h>
#include <stdio.h>

#include "plan_report.h"
#include "report/table.h"

static void put_number(rdt_table *t, double value, double scale, const char *format) {
  if (isnan(value)) {
    rdt_table_cell(t, "-");
    return;
  }
  char text[32];
  snprintf(text, sizeof text, format, scale * value); /* of the literals below */
  rdt_table_cell(t, "%s", text);
}

static const cJSON *member(const cJSON *o, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(o, name);
}

static void put_mnk(rdt_table *t, const cJSON *x) {
  const double groups = rdt_json_real(x, "groups");
  if (isnan(groups))
    rdt_table_cell(t, "-");
  else if (groups > 1.0)
    rdt_table_cell(t, "%.0f x (%.0f %.0f %.0f)", groups, rdt_json_real(x, "m"), rdt_json_real(x, "n"),
                   rdt_json_real(x, "k"));
  else
    rdt_table_cell(t, "%.0f %.0f %.0f", rdt_json_real(x, "m"), rdt_json_real(x, "n"), rdt_json_real(x, "k"));
}

static void put_layer(rdt_table *t, const cJSON *x) {
  char shape[128];
  const cJSON *overhead = member(x, "overhead");
  const double times = rdt_json_real(x, "times");
  if (times > 1.0)
    rdt_table_cell(t, "%s (%.0f times)", rdt_json_string(x, "name"), times);
  else
    rdt_table_cell(t, "%s", rdt_json_string(x, "name"));
  rdt_table_cell(t, "%s", rdt_json_string(x, "op"));
  rdt_table_cell(t, "%s", rdt_json_shape_text(member(x, "shape"), "x", shape, sizeof shape));
  rdt_table_cell(t, "%s", rdt_json_string(x, "dtype"));
  put_mnk(t, x);
  put_number(t, rdt_json_real(x, "flops"), 1e-6, "%.3g");
  put_number(t, rdt_json_real(x, "bytes"), 1e-6, "%.3g");
  put_number(t, rdt_json_real(x, "intensity"), 1.0, "%.1f");
  put_number(t, rdt_json_real(x, "cmr"), 1.0, "%.1f");
  rdt_table_cell(t, "%s", rdt_json_string(x, "bound"));
  rdt_table_cell(t, "%s", rdt_json_string(x, "kernel"));
  rdt_table_cell(t, "%s%s", rdt_json_string(x, "scheme"), rdt_json_true(x, "fused") ? " fused" : "");
  put_number(t, rdt_json_real(x, "seconds"), 1e3, "%.4g");
  put_number(t, rdt_json_real(overhead, "ratio") - 1.0, 100.0, "%.1f");
  if (isnan(rdt_json_real(overhead, "low")))
    rdt_table_cell(t, "-");
  else
    rdt_table_cell(t, "%.1f to %.1f", 100.0 * (rdt_json_real(overhead, "low") - 1.0),
                   100.0 * (rdt_json_real(overhead, "high") - 1.0));
  rdt_table_cell(t, "%s", rdt_json_string(x, "why"));
}

static bool print_layers(const cJSON *size, bool markdown) {
  const cJSON *x;
  rdt_table *t = rdt_table_create(
      "layer|op|shape|dtype|M N K|>MFLOP|>MB|>FLOP/B|>CMR|bound by|kernel|scheme|>ms|>overhead %|>95 %|why");
  cJSON_ArrayForEach(x, rdt_json_list(size, "layers")) put_layer(t, x);
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static void put_candidate(rdt_table *t, const cJSON *c) {
  const char *kernel = rdt_json_string(c, "kernel"), *scheme = rdt_json_string(c, "scheme");
  rdt_table_cell(t, "%s", *kernel ? kernel : "any");
  rdt_table_cell(t, "%s%s", *scheme ? scheme : "any", rdt_json_true(c, "fused") ? " fused" : "");
  rdt_table_cell(t, "%s", rdt_json_string(c, "fate"));
  put_number(t, rdt_json_real(c, "cost"), 100.0, "%.1f");
  put_number(t, rdt_json_real(c, "seconds"), 1e3, "%.4g");
  if (isnan(rdt_json_real(c, "p10")))
    rdt_table_cell(t, "-");
  else
    rdt_table_cell(t, "%.4g to %.4g", 1e3 * rdt_json_real(c, "p10"), 1e3 * rdt_json_real(c, "p90"));
  put_number(t, rdt_json_real(c, "overhead"), 100.0, "%.1f");
  rdt_table_cell(t, "%s", rdt_json_string(c, "reason"));
}

static bool print_candidates(const cJSON *size, bool markdown) {
  const cJSON *x, *c;
  char shape[128];
  cJSON_ArrayForEach(x, rdt_json_list(size, "layers")) {
    if (!member(x, "candidates")) continue;
    printf("\n%s (%s, %s)\n%s", rdt_json_string(x, "name"), rdt_json_string(x, "op"),
           rdt_json_shape_text(member(x, "shape"), "x", shape, sizeof shape), markdown ? "\n" : "");
    rdt_table *t = rdt_table_create("kernel|scheme|fate|>estimate %|>ms|>10 to 90 in 100|>overhead %|why");
    cJSON_ArrayForEach(c, rdt_json_list(x, "candidates")) put_candidate(t, c);
    const bool printed = rdt_table_print(t, stdout, markdown);
    rdt_table_destroy(t);
    if (!printed) return false;
  }
  return true;
}

static bool print_singles(const cJSON *totals, bool markdown) {
  const cJSON *x;
  rdt_table *t = rdt_table_create("everywhere|>ms|>overhead %|>95 %|may be chosen");
  cJSON_ArrayForEach(x, rdt_json_list(totals, "singles")) {
    const cJSON *o = member(x, "overhead");
    rdt_table_cell(t, "%s", rdt_json_string(x, "scheme"));
    put_number(t, rdt_json_real(x, "seconds"), 1e3, "%.4g");
    put_number(t, rdt_json_real(o, "ratio") - 1.0, 100.0, "%.1f");
    rdt_table_cell(t, "%.1f to %.1f", 100.0 * (rdt_json_real(o, "low") - 1.0),
                   100.0 * (rdt_json_real(o, "high") - 1.0));
    rdt_table_cell(t, "%s", rdt_json_true(x, "eligible") ? "yes" : "-");
  }
  printf("\n");
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static void print_model(const cJSON *totals) {
  const cJSON *m = member(totals, "model"), *r = member(m, "to_measured");
  printf(
      "the model alone chooses the same scheme as measurement for %.0f of %.0f layers; its plan / the measured one: "
      "%.3f (%.3f to %.3f), geometric mean of the layers %.3f\n",
      rdt_json_real(m, "agree"), rdt_json_real(totals, "layers"), rdt_json_real(r, "ratio"), rdt_json_real(r, "low"),
      rdt_json_real(r, "high"), rdt_json_real(m, "mean"));
}

static bool print_totals(const cJSON *size, bool markdown) {
  const cJSON *t = member(size, "totals"), *o = member(t, "overhead");
  if (!(rdt_json_real(t, "layers") > 0.0)) return true;
  printf(
      "\n%.0f products and convolutions: %.4g GFLOP, %.4g MB, %.1f FLOP a byte (unfolded and padded to 8: %.1f); "
      "weights %s\n",
      rdt_json_real(t, "layers"), 1e-9 * rdt_json_real(t, "flops"), 1e-6 * rdt_json_real(t, "bytes"),
      rdt_json_real(t, "intensity"), rdt_json_real(t, "intensity_unfolded"),
      rdt_json_true(size, "cold") ? "come from memory at each run" : "stay in the caches");
  if (isnan(rdt_json_real(t, "seconds"))) {
    printf("nothing here has been measured in full (--policy model measures nothing): there are no sums\n");
    return true;
  }
  printf("planned %.4g ms, unprotected %.4g ms: overhead %.2f %% (%.2f to %.2f)\n", 1e3 * rdt_json_real(t, "seconds"),
         1e3 * rdt_json_real(t, "unprotected"), 100.0 * (rdt_json_real(o, "ratio") - 1.0),
         100.0 * (rdt_json_real(o, "low") - 1.0), 100.0 * (rdt_json_real(o, "high") - 1.0));
  printf("geometric mean of the layers %.2f %%, worst %.2f %% (%s)\n", 100.0 * (rdt_json_real(t, "mean") - 1.0),
         100.0 * (rdt_json_real(member(t, "worst"), "ratio") - 1.0), rdt_json_string(member(t, "worst"), "layer"));
  if (!print_singles(t, markdown)) return false;
  const cJSON *b = member(t, "to_best_single");
  if (*rdt_json_string(t, "best_single"))
    printf("\nplanned / best single scheme (%s): %.3f (%.3f to %.3f)\n", rdt_json_string(t, "best_single"),
           rdt_json_real(b, "ratio"), rdt_json_real(b, "low"), rdt_json_real(b, "high"));
  const cJSON *c = member(t, "classic");
  if (!isnan(rdt_json_real(c, "overhead")))
    printf("one scalar in passes of its own (global-classic, fic): overhead %.2f %%, %.1f times the planned one\n",
           100.0 * rdt_json_real(c, "overhead"), rdt_json_real(c, "to_planned"));
  print_model(t);
  return true;
}

static bool print_heading(const cJSON *size, bool first) {
  const cJSON *x;
  char shape[128];
  if (!first) printf("\n");
  cJSON_ArrayForEach(x, rdt_json_list(size, "inputs"))
      printf("%s %s\n", rdt_json_string(x, "name"), rdt_json_shape_text(member(x, "shape"), "x", shape, sizeof shape));
  printf("\n");
  return true;
}

/* ---- CSV ---- */

static void put_field(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  putchar('"');
}

static void put_value(double value) {
  putchar(',');
  if (!isnan(value)) printf("%.9g", value);
}

/* The columns in which rows of layers and of sums are alike. */
static void put_times(double seconds, double unprotected, rdt_timing_ratio overhead) {
  put_value(seconds);
  put_value(unprotected);
  put_value(overhead.ratio - 1.0);
  put_value(overhead.low - 1.0);
  put_value(overhead.high - 1.0);
}

static rdt_timing_ratio ratio_of(const cJSON *x) {
  return (rdt_timing_ratio){rdt_json_real(x, "ratio"), rdt_json_real(x, "low"), rdt_json_real(x, "high")};
}

static void put_csv(const cJSON *x, int size) {
  static const char *const numbers[] = {"times", "m", "n", "k", "groups", "flops", "bytes", "intensity", "cmr"};
  static const char *const texts[] = {"bound", "kernel", "scheme", "model", "why"};
  char shape[128];
  printf("layer,%d,", size);
  put_field(rdt_json_string(x, "name"));
  putchar(',');
  put_field(rdt_json_string(x, "op"));
  printf(",%s,%s", rdt_json_shape_text(member(x, "shape"), "x", shape, sizeof shape), rdt_json_string(x, "dtype"));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_value(rdt_json_real(x, numbers[i]));
  put_times(rdt_json_real(x, "seconds"), rdt_json_real(x, "unprotected"), ratio_of(member(x, "overhead")));
  printf(",%d", rdt_json_true(x, "fused"));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    putchar(',');
    put_field(rdt_json_string(x, texts[i]));
  }
  putchar('\n');
}

/* With --explain: each beside its layer. */
static void put_csv_candidates(const cJSON *x, int size) {
  const cJSON *c;
  cJSON_ArrayForEach(c, rdt_json_list(x, "candidates")) {
    printf("%s,%d,", rdt_json_string(c, "fate"), size);
    put_field(rdt_json_string(x, "name"));
    printf(",,,,,,,,,,,,");
    const rdt_timing_ratio overhead = {1.0 + rdt_json_real(c, "overhead"), 1.0 + rdt_json_real(c, "low"),
                                       1.0 + rdt_json_real(c, "high")};
    put_times(rdt_json_real(c, "seconds"), rdt_json_real(x, "unprotected"), overhead);
    printf(",%d,,", rdt_json_true(c, "fused"));
    put_field(rdt_json_string(c, "kernel"));
    putchar(',');
    put_field(rdt_json_string(c, "scheme"));
    printf(",,");
    put_field(rdt_json_string(c, "reason"));
    putchar('\n');
  }
}

/* Over all layers of a size, each as often as it occurs. */
static void put_sum(const cJSON *totals, int size, const char *row, const char *scheme, double seconds,
                    rdt_timing_ratio overhead, const char *why) {
  static const char *const numbers[] = {"flops", "bytes", "intensity"};
  printf("%s,%d,,,,", row, size);
  put_value(rdt_json_real(totals, "layers"));
  printf(",,,,");
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_value(rdt_json_real(totals, numbers[i]));
  putchar(',');
  put_times(seconds, rdt_json_real(totals, "unprotected"), overhead);
  printf(",,,,");
  put_field(scheme);
  printf(",,");
  put_field(why);
  putchar('\n');
}

static void put_sums(const cJSON *doc, const cJSON *totals, int size) {
  const cJSON *x, *model = member(totals, "model"), *classic = member(totals, "classic");
  const double unprotected = rdt_json_real(totals, "unprotected"), scalar = 1.0 + rdt_json_real(classic, "overhead");
  const double guessed = rdt_json_real(model, "seconds") / unprotected;
  char agree[96] = "";
  put_sum(totals, size, "planned", rdt_json_string(doc, "scheme"), rdt_json_real(totals, "seconds"),
          ratio_of(member(totals, "overhead")), "");
  cJSON_ArrayForEach(x, rdt_json_list(totals, "singles"))
      put_sum(totals, size, "everywhere", rdt_json_string(x, "scheme"), rdt_json_real(x, "seconds"),
              ratio_of(member(x, "overhead")), "");
  put_sum(totals, size, "classic", "global-classic", scalar * unprotected, (rdt_timing_ratio){scalar, NAN, NAN},
          "of convolutions fic");
  if (!isnan(rdt_json_real(model, "agree")))
    snprintf(agree, sizeof agree, "chooses as measurement does for %.0f of %.0f layers", rdt_json_real(model, "agree"),
             rdt_json_real(totals, "layers"));
  put_sum(totals, size, "model", "", rdt_json_real(model, "seconds"), (rdt_timing_ratio){guessed, NAN, NAN}, agree);
}

static void print_csv(const cJSON *doc) {
  const cJSON *s, *x;
  int size = 0;
  puts(
      "row,size,layer,op,shape,dtype,times,m,n,k,groups,flops,bytes,intensity,cmr,seconds,unprotected,overhead,low,"
      "high,fused,bound,kernel,scheme,model,why");
  cJSON_ArrayForEach(s, rdt_json_list(doc, "sizes")) {
    cJSON_ArrayForEach(x, rdt_json_list(s, "layers")) {
      put_csv(x, size);
      put_csv_candidates(x, size);
    }
    put_sums(doc, member(s, "totals"), size);
    size++;
  }
}

bool rdt_plan_report_print(const cJSON *doc, int64_t format) {
  const cJSON *s, *sizes = rdt_json_list(doc, "sizes");
  const bool markdown = format == RDT_FORMAT_MD, several = cJSON_GetArraySize(sizes) > 1;
  bool first = true;
  if (format == RDT_FORMAT_CSV) {
    print_csv(doc);
    return true;
  }
  cJSON_ArrayForEach(s, sizes) {
    if (several) print_heading(s, first);
    first = false;
    if (!print_layers(s, markdown) || !print_candidates(s, markdown) || !print_totals(s, markdown)) return false;
  }
  return true;
}
