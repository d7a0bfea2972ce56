/* The document of `redoubt plan --device cuda:N` for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu_report.h"
#include "report/figures.h"
#include "report/table.h"

static void put(rdt_table *t, double x, double scale, int digits) {
  if (isnan(x))
    rdt_table_cell(t, "-");
  else
    rdt_table_cell(t, "%.*f", digits, scale * x);
}

static const char *text(const cJSON *row, const char *name) {
  return rdt_json_string(row, name);
}

static double real(const cJSON *row, const char *name) {
  return rdt_json_real(row, name);
}

static double overhead(const cJSON *product, const char *name) {
  return real(product, name) / real(product, "own us") - 1.0;
}

/* The product that a layer is. */
static const cJSON *product_of(const cJSON *doc, const cJSON *layer) {
  const cJSON *row;
  cJSON_ArrayForEach(row, rdt_figure_table(doc, "products")) {
    bool same = true;
    for (int i = 0; i < 3; i++) {
      const char name[2] = {"mnk"[i], '\0'};
      same = same && real(row, name) == real(layer, name);
    }
    if (same) return row;
  }
  return NULL;
}

/* Of the rows of layers those of the plan: one each. */
static bool is_layer(const cJSON *row) {
  return strcmp(text(row, "what"), "redoubt plan") == 0;
}

static void put_layer(rdt_table *t, const cJSON *layer, const cJSON *p) {
  const double times = real(layer, "times");
  rdt_table_cell(t, times > 1.0 ? "%s (%.0f times)" : "%s", text(layer, "layer"), times);
  rdt_table_cell(t, "%.0f %.0f %.0f", real(p, "m"), real(p, "n"), real(p, "k"));
  put(t, real(p, "intensity"), 1.0, 1);
  rdt_table_cell(t, "%s", text(p, "bound"));
  put(t, real(p, "floor us"), 1.0, 2);
  put(t, real(p, "library us"), 1.0, 2);
  put(t, real(p, "own us"), 1.0, 2);
  rdt_table_cell(t, "%s", text(p, "plan kernel"));
  rdt_table_cell(t, "%s", text(p, "plan scheme"));
  put(t, real(p, "plan us"), 1.0, 2);
  put(t, overhead(p, "plan us"), 100.0, 1);
  put(t, real(p, "plan us") / real(p, "library us"), 1.0, 3);
  static const char *const others[] = {"row us", "thread1 us", "replicate us", "global-classic uncompared us",
                                       "global-classic us"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) put(t, overhead(p, others[i]), 100.0, 1);
}

static bool print_layers(const cJSON *doc, bool markdown) {
  const cJSON *network, *layer;
  cJSON_ArrayForEach(network, rdt_figure_table(doc, "sums")) {
    if (!is_layer(network)) continue;
    rdt_table *t = rdt_table_create(
        "layer|M N K|>FLOP/B|bound by|>floor us|>cuBLAS us|>none us|kernel|scheme|>plan us|>overhead %|>/ cuBLAS|>row "
        "%|"
        ">thread1 %|>replicate %|>uncompared %|>global-classic %");
    printf("%s%s\n\n", markdown ? "### " : "", text(network, "workload"));
    cJSON_ArrayForEach(layer, rdt_figure_table(doc, "results")) {
      if (is_layer(layer) && strcmp(text(layer, "workload"), text(network, "workload")) == 0)
        put_layer(t, layer, product_of(doc, layer));
    }
    const bool printed = rdt_table_print(t, stdout, markdown);
    rdt_table_destroy(t);
    if (!printed) return false;
    printf("\n");
  }
  return true;
}

static void put_interval(rdt_table *t, const cJSON *row, const char *name, const char *which) {
  char low[32], high[32];
  snprintf(low, sizeof low, "low %s", which), snprintf(high, sizeof high, "high %s", which);
  if (isnan(real(row, name)))
    rdt_table_cell(t, "-");
  else if (isnan(real(row, low)))
    rdt_table_cell(t, "%.3f", real(row, name));
  else
    rdt_table_cell(t, "%.3f (%.3f to %.3f)", real(row, name), real(row, low), real(row, high));
}

static bool print_networks(const cJSON *doc, bool markdown) {
  const cJSON *row;
  rdt_table *t = rdt_table_create(
      "network|>FLOP/B|>floor us|>cuBLAS us|>none us|>plan us|>plan / none, 95 %|>worst layer|>plan / cuBLAS, 95 %|"
      "best single|>plan / it, 95 %|>global-classic %|>uncompared %|>global-classic's overhead / the plan's|>model / "
      "plan|>model agrees %");
  cJSON_ArrayForEach(row, rdt_figure_table(doc, "planned")) {
    rdt_table_cell(t, "%s", text(row, "workload"));
    put(t, real(row, "intensity"), 1.0, 1);
    put(t, real(row, "floor ms"), 1e3, 1);
    put(t, real(row, "library ms"), 1e3, 1);
    put(t, real(row, "none ms"), 1e3, 1);
    put(t, real(row, "plan ms"), 1e3, 1);
    put_interval(t, row, "plan / none", "none");
    put(t, real(row, "worst layer"), 1.0, 3);
    put_interval(t, row, "plan / best library", "library");
    rdt_table_cell(t, "%s", *text(row, "best single") ? text(row, "best single") : "-");
    put_interval(t, row, "plan / single", "single");
    put(t, real(row, "classic overhead"), 100.0, 1);
    put(t, real(row, "uncompared overhead"), 100.0, 1);
    put(t, real(row, "classic overhead / plan overhead"), 1.0, 1);
    put(t, real(row, "model / plan"), 1.0, 3);
    put(t, real(row, "model agrees"), 100.0, 0);
  }
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static void print_device(const cJSON *doc) {
  const cJSON *d = cJSON_GetObjectItemCaseSensitive(doc, "gpu");
  printf("%s, compute capability %s, %.0f multiprocessors; cuBLASLt %.0f; %s, protocol %s\n", text(d, "name"),
         text(d, "compute"), real(d, "multiprocessors"), real(d, "cublaslt"), text(doc, "dtype"),
         text(doc, "protocol"));
  printf("%.0f TFLOP/s, %.2f TB/s: computing bounds above %.0f FLOP/B", 1e-12 * real(d, "flops"),
         1e-12 * real(d, "bandwidth"), real(d, "cmr"));
  if (!isnan(real(d, "mhz after")))
    printf("; %.0f MHz before, %.0f after", real(d, "mhz before"), real(d, "mhz after"));
  printf("\n\n");
}

/* ---- CSV ---- */

static void put_csv_row(const char *row, const char *workload, const char *layer, double times, const cJSON *p) {
  static const char *const numbers[] = {"m",          "n",      "k",       "intensity", "floor us",
                                        "library us", "own us", "plan us", "model us"};
  static const char *const texts[] = {"bound",       "library",      "own kernel",  "plan kernel",
                                      "plan scheme", "model kernel", "model scheme"};
  const cJSON *x;
  printf("%s,%s,\"%s\",%.0f", row, workload, layer, times);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    isnan(real(p, numbers[i])) ? printf(",") : printf(",%.9g", real(p, numbers[i]));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) printf(",%s", text(p, texts[i]));
  bool checks = false; /* those that are compared come last */
  cJSON_ArrayForEach(x, p) {
    if (checks) isnan(real(p, x->string)) ? printf(",") : printf(",%.9g", x->valuedouble);
    checks = checks || strcmp(x->string, "model us") == 0;
  }
  putchar('\n');
}

static void print_csv(const cJSON *doc) {
  const cJSON *layer, *x, *first = cJSON_GetArrayItem(rdt_figure_table(doc, "products"), 0);
  bool checks = false;
  printf(
      "row,workload,layer,times,m,n,k,intensity,floor,library,none,plan,model,bound,library kernel,none kernel,"
      "plan kernel,plan scheme,model kernel,model scheme");
  cJSON_ArrayForEach(x, first) {
    if (checks) printf(",%.*s", (int)strlen(x->string) - 3, x->string); /* without " us" */
    checks = checks || strcmp(x->string, "model us") == 0;
  }
  putchar('\n');
  cJSON_ArrayForEach(layer, rdt_figure_table(doc, "results")) {
    if (is_layer(layer))
      put_csv_row("layer", text(layer, "workload"), text(layer, "layer"), real(layer, "times"), product_of(doc, layer));
  }
}

bool rdt_gpu_report_print(const cJSON *doc, int64_t format, bool layers) {
  if (format == RDT_FORMAT_CSV) {
    print_csv(doc);
    return true;
  }
  const bool markdown = format == RDT_FORMAT_MD;
  print_device(doc);
  return (!layers || print_layers(doc, markdown)) && print_networks(doc, markdown);
}

void rdt_gpu_report_over(const cJSON *doc, double most, char *names, size_t size) {
  const cJSON *row;
  size_t used = 0;
  *names = '\0';
  cJSON_ArrayForEach(row, rdt_figure_table(doc, "planned")) {
    if (isnan(real(row, "plan ms")) || !(real(row, "plan / none") > 1.0 + most)) continue;
    const int n = snprintf(names + used, size - used, "%s%s", used ? ", " : "", text(row, "workload"));
    used += n > 0 ? (size_t)n : 0;
    if (used >= size - 4) {
      strcpy(names + size - 4, "...");
      return;
    }
  }
}
