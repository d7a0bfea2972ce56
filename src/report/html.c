#include "report/html.h"

#include <math.h>
#include <redoubt/context.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/html_parts.h"
#include "report/json.h"
#include "report/words.h"

/* A shape for each verdict: colour alone is not enough. Paths in a box of 24 x 24. */
static const char *icon_of(rdt_verdict v) {
  static const char *const paths[] = {
      [RDT_CLEAN] = "M12 2.5l8 3v6c0 5-3.4 8.6-8 10-4.6-1.4-8-5-8-10v-6zM8.3 11.8l2.6 2.6 4.8-5",
      [RDT_RECOMPUTED] = "M20 12a8 8 0 1 1-2.5-5.8M20.5 3v4.5H16M8.6 12.2l2.4 2.4 4.4-4.8",
      [RDT_CORRECTED] = "M14.5 5.5l4 4L8 20H4v-4zM12.5 7.5l4 4",
      [RDT_UNCHECKED] =
          "M12 2.5a9.5 9.5 0 1 1 0 19 9.5 9.5 0 0 1 0-19zM9 9.5a3 3 0 1 1 4.2 2.7c-.8.4-1.2 1-1.2 1.8M12 17.2v.1",
      [RDT_DETECTED] = "M8 2.5h8l5.5 5.5v8L16 21.5H8L2.5 16V8zM12 7.5v5.5M12 16.6v.1",
  };
  return v <= RDT_DETECTED ? paths[v] : "";
}

static double positive(const cJSON *o, const char *name) {
  const double x = rdt_json_real(o, name);
  return x > 0.0 ? x : 0.0;
}

static bool gather(rdt_html *h) {
  const double runs = fmax(1.0, positive(h->doc, "runs"));
  const cJSON *list = rdt_json_list(h->doc, "layers"), *o;
  h->layers = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *h->layers);
  if (!h->layers) return false;
  cJSON_ArrayForEach(o, list) {
    rdt_html_layer *l = &h->layers[h->n++];
    const double typical = rdt_json_real(o, "typical");
    *l = (rdt_html_layer){.json = o,
                          .name = rdt_json_string(o, "name"),
                          .scheme = rdt_json_string(o, "scheme"),
                          .verdict = rdt_json_string(o, "verdict"),
                          .seconds = positive(o, "seconds") / runs,
                          .check = positive(o, "seconds_check") / runs,
                          .ratio = rdt_json_real(o, "ratio"),
                          .floor = rdt_json_real(o, "floor"),
                          .checks = positive(o, "checks"),
                          .weights = rdt_json_true(o, "weights")};
    l->unit = typical > 0.0 ? l->floor / typical : NAN;
    h->seconds += l->seconds;
    if (l->seconds > h->slowest) h->slowest = l->seconds;
  }
  return true;
}

/* ---- what stands first ---- */

static void figure(const rdt_html *h, const char *name, bool hot) {
  fprintf(h->to, "<div%s><dt>%s</dt><dd>", hot ? " class=hot" : "", name);
}

static void put_figures(const rdt_html *h) {
  const cJSON *doc = h->doc;
  const double runs = fmax(1.0, positive(doc, "runs")), seconds = positive(doc, "seconds") / runs;
  static const char *const counts[][2] = {
      {"checks", "checks"}, {"suspects", "suspects"}, {"faults", "faults"}, {"unchecked", "not checkable"}};
  fputs("<dl class=figures>", h->to);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const double n = positive(doc, counts[i][0]);
    if (i == 3 && n == 0.0) continue;
    figure(h, counts[i][1], i == 2 && n > 0.0);
    rdt_html_count(h, n);
    fputs("</dd></div>", h->to);
  }
  figure(h, runs > 1.0 ? "mean time of a run" : "time", false);
  rdt_html_seconds(h, seconds);
  fputs("</dd></div>", h->to);
  figure(h, "of which checks", false);
  rdt_html_percent(h, positive(doc, "seconds_check") / runs, seconds);
  fputs("</dd></div></dl>", h->to);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static void put_verdict(const rdt_html *h) {
  const rdt_verdict v = rdt_verdict_find(rdt_json_string(h->doc, "verdict"));
  const char *name = rdt_html_class(rdt_json_string(h->doc, "verdict"));
  fprintf(h->to, "<header class=\"card %s\"><p class=kicker>", name);
  rdt_html_name(h, last_part(rdt_json_string(h->doc, "model")));
  fprintf(h->to,
          "</p><h1><svg viewBox=\"0 0 24 24\" aria-hidden=true><path d=\"%s\"/></svg>%s</h1><p class=say>%s.</p>",
          icon_of(v), name, rdt_verdict_meaning(v));
  put_figures(h);
  fputs("</header>\n", h->to);
}

/* ---- the circumstances ---- */

static void fact(const rdt_html *h, const char *name, const char *key) {
  const char *text = rdt_json_string(h->doc, key);
  if (!*text) return;
  fprintf(h->to, "<dt>%s</dt><dd>", name);
  rdt_html_text(h, text);
  fputs("</dd>", h->to);
}

static void put_tensors(const rdt_html *h, const char *title, const char *key) {
  const cJSON *list = rdt_json_list(h->doc, key), *o;
  if (!list || !list->child) return;
  fprintf(h->to, "<dt>%s</dt>", title);
  cJSON_ArrayForEach(o, list) {
    fputs("<dd><bdi>", h->to);
    rdt_html_member(h, o, "name");
    fputs("</bdi> <span class=soft>", h->to);
    if (*rdt_json_string(o, "dtype")) rdt_html_shape(h, o);
    fputs("</span></dd>", h->to);
  }
}

static void put_right(const rdt_html *h) {
  const double right = rdt_json_real(h->doc, "right");
  const int images = cJSON_GetArraySize(rdt_json_list(h->doc, "predictions"));
  if (isfinite(right)) fprintf(h->to, "<dt>Predictions</dt><dd>%.0f of %d right</dd>", right, images);
}

static void put_facts(const rdt_html *h) {
  const cJSON *doc = h->doc;
  fputs("<section><h2>The run</h2><dl class=\"facts card\">", h->to);
  fact(h, "Model", "model");
  put_tensors(h, "Inputs", "inputs");
  put_tensors(h, "Outputs", "outputs");
  put_right(h);
  fact(h, "Written", "time");
  fact(h, "Host", "host");
  fact(h, "CPU", "cpu");
  fact(h, "Microcode", "microcode");
  fputs("<dt>Computed with</dt><dd>", h->to);
  rdt_html_member(h, doc, "isa");
  fputs(", ", h->to);
  rdt_html_plural(h, positive(doc, "threads"), "thread", "threads");
  fputs("</dd><dt>Runs</dt><dd>", h->to);
  rdt_html_count(h, positive(doc, "runs"));
  fputs("</dd>", h->to);
  fact(h, "Device", "device");
  fact(h, "Protection", "scheme");
  fact(h, "On a fault", "on_fault");
  fact(h, "Status", "status");
  if (isfinite(rdt_json_real(doc, "exit"))) fprintf(h->to, "<dt>Exit code</dt><dd>%.0f</dd>", positive(doc, "exit"));
  fprintf(h->to, "<dt>Peak memory</dt><dd>%.1f MB</dd>", 1e-6 * positive(doc, "memory_peak"));
  fact(h, "Redoubt", "redoubt");
  fputs("</dl></section>\n", h->to);
}

static void put_words(const rdt_html *h) {
  static const char *const words[][2] = {
      {"residual", "what a check saw less what it expected; for results in floating point it is never quite 0"},
      {"bound", "what rounding alone explains, at the width that was asked for; rounding is never reported as a fault"},
      {"suspect", "a residual above the bound; it is settled by computing again"},
      {"detection floor",
       "twice the largest bound among a layer\u2019s checks: errors whose weighted sum in a check exceeds it are "
       "found"},
      {"typical output", "root mean square of a sample of the layer\u2019s output"},
  };
  fputs("<section><h2>Words</h2><dl class=words>", h->to);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    fprintf(h->to, "<dt>%s</dt><dd>%s</dd>", words[i][0], words[i][1]);
  for (int v = RDT_CLEAN; v <= RDT_DETECTED; v++)
    fprintf(h->to, "<dt>%s</dt><dd>%s</dd>", rdt_verdict_name((rdt_verdict)v), rdt_verdict_meaning((rdt_verdict)v));
  fputs("</dl></section>\n", h->to);
}

/* The policy of the page forbids whatever is not in it: no script runs and nothing is fetched. */
static void put_page(const rdt_html *h) {
  fputs(
      "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=viewport content=\"width=device-width, initial-scale=1\">\n<title>",
      h->to);
  rdt_html_member(h, h->doc, "verdict");
  fputs(" \u00B7 ", h->to);
  rdt_html_text(h, last_part(rdt_json_string(h->doc, "model")));
  fprintf(h->to, " \u00B7 Redoubt</title>\n<style>%s</style></head>\n<body><main>\n", rdt_html_style);
  put_verdict(h);
  rdt_html_events(h);
  rdt_html_glance(h);
  rdt_html_coverage(h);
  rdt_html_layers(h);
  put_facts(h);
  put_words(h);
  fputs("<footer>Written by Redoubt ", h->to);
  rdt_html_text(h, rdt_version());
  fputs(" from a report of ", h->to);
  rdt_html_member(h, h->doc, "redoubt");
  fputs(".</footer>\n</main></body></html>\n", h->to);
}

rdt_status rdt_html_page(const cJSON *doc, char **text, rdt_reason *why) {
  rdt_html h = {.doc = doc};
  size_t bytes;
  *text = NULL;
  h.to = open_memstream(text, &bytes);
  bool whole = h.to && gather(&h);
  if (whole) put_page(&h);
  if (h.to) {
    whole = whole && !ferror(h.to);
    whole = fclose(h.to) == 0 && whole;
  }
  free(h.layers);
  if (whole) return RDT_OK;
  free(*text);
  *text = NULL;
  return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing a page");
}
