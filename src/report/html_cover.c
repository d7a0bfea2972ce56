/* What the plan promises for each layer, and what it does not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_parts.h"
#include "report/json.h"

enum { OPEN_NAMES = 20 };

typedef struct use { /* of a scheme */
  int layers, weights;
  double seconds, floor;
} use;

static use use_of(const rdt_html *h, const char *scheme) {
  use u = {0};
  for (int i = 0; i < h->n; i++) {
    const rdt_html_layer *l = &h->layers[i];
    if (strcmp(l->scheme, scheme) != 0) continue;
    u.layers++;
    u.weights += l->weights;
    u.seconds += l->seconds;
    if (!(l->floor <= u.floor)) u.floor = l->floor;
  }
  return u;
}

static void put_weights(const rdt_html *h, const cJSON *s, const use *u) {
  const double every = rdt_json_real(h->doc, "scrub_every");
  if (u->weights == 0) return;
  if (!rdt_json_true(s, "covers_weights") || !rdt_json_true(s, "covers_packed")) {
    fputs(
        "<li>does not notice every changed weight by itself: the weights, as read and as packed, are verified against "
        "their sums on every run</li>",
        h->to);
    return;
  }
  fputs("<li>notices any one changed weight when it is used, as read or as packed; at rest they are verified ", h->to);
  if (every > 1.0)
    fprintf(h->to, "every %.0f runs", every);
  else
    fputs(every == 1.0 ? "on every run" : "only after a fault", h->to);
  fputs("</li>", h->to);
}

static void put_scheme(const rdt_html *h, const cJSON *s) {
  const char *name = rdt_json_string(s, "name"), *granularity = rdt_json_string(s, "granularity");
  const use u = use_of(h, name);
  if (u.layers == 0) return;
  fputs("<div class=card><h3>", h->to);
  rdt_html_text(h, name);
  fputs("<small>", h->to);
  rdt_html_plural(h, u.layers, "layer", "layers");
  fputs(", ", h->to);
  rdt_html_percent(h, u.seconds, h->seconds);
  fputs(" of the time</small></h3><p>", h->to);
  rdt_html_text(h, rdt_json_string(s, "text"));
  fputs("</p><ul>", h->to);
  if (!rdt_json_true(s, "detects")) {
    fputs("<li class=no>finds nothing: results and weights are not checked</li></ul></div>", h->to);
    return;
  }
  fputs(u.floor == 0.0 ? "<li>finds every bit that differs</li>"
                       : "<li>finds errors whose sum in a check exceeds the layer\u2019s floor</li>",
        h->to);
  fputs(rdt_json_true(s, "locates") ? "<li>locates them: one check for each "
                                    : "<li class=no>does not locate them: one check for each ",
        h->to);
  rdt_html_text(h, granularity);
  fputs("</li>", h->to);
  put_weights(h, s, &u);
  fputs("</ul></div>\n", h->to);
}

static void put_views(const rdt_html *h, bool protected) {
  const use u = use_of(h, "sum");
  if (u.layers == 0) return;
  fputs("<div class=card><h3>sum<small>", h->to);
  rdt_html_plural(h, u.layers, "layer", "layers");
  fputs(
      "</small></h3><p>nothing is left to compute: the layer is another view of data, or was worked out while "
      "planning</p><ul>",
      h->to);
  fputs(protected ? "<li>whoever reads that memory verifies its sum first</li></ul></div>\n"
                  : "<li class=no>whoever reads that memory trusts it</li></ul></div>\n",
        h->to);
}

static bool unchecked(const rdt_html_layer *l) {
  return strcmp(l->verdict, "UNCHECKED") == 0;
}

static void put_unchecked(const rdt_html *h) {
  int n = 0;
  for (int i = 0; i < h->n; i++) n += unchecked(&h->layers[i]);
  if (n == 0) return;
  fprintf(h->to, "<li class=UNCHECKED><details%s><summary><b>", n <= OPEN_NAMES ? " open" : "");
  rdt_html_plural(h, n, "layer is UNCHECKED", "layers are UNCHECKED");
  fputs("</b>: protection was off, the inputs held NaN or Inf, or the run ended before</summary><ul class=plain>",
        h->to);
  for (int i = 0; i < h->n; i++) {
    if (!unchecked(&h->layers[i])) continue;
    fputs("<li>", h->to);
    rdt_html_name(h, h->layers[i].name);
    fputs("</li>", h->to);
  }
  fputs("</ul></details></li>", h->to);
}

static int rising(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void put_floors(const rdt_html *h) {
  double *units = calloc((size_t)h->n + 1, sizeof *units);
  int n = 0;
  for (int i = 0; units && i < h->n; i++)
    if (h->layers[i].unit > 0.0) units[n++] = h->layers[i].unit;
  if (n > 0) {
    qsort(units, (size_t)n, sizeof *units, rising);
    fputs(
        "<li>Errors below the detection floor: they may stay. In units of a layer\u2019s typical output the floor is ",
        h->to);
    rdt_html_real(h, units[n / 2], 2);
    fputs(" in the middle of ", h->to);
    rdt_html_plural(h, n, "layer", "layers");
    fputs(" and ", h->to);
    rdt_html_real(h, units[n - 1], 2);
    fputs(
        " at most. What counts is the weighted sum of all errors in one check: errors that cancel in it are not "
        "seen.</li>",
        h->to);
  }
  free(units);
}

void rdt_html_coverage(const rdt_html *h) {
  const cJSON *s;
  bool any = false;
  fputs("<section><h2>What was covered</h2><p class=soft>What the schemes of this plan promise.</p><div class=schemes>",
        h->to);
  cJSON_ArrayForEach(s, rdt_json_list(h->doc, "schemes")) {
    put_scheme(h, s);
    any = any || rdt_json_true(s, "detects");
  }
  put_views(h, any);
  fputs("</div><h2>What was not</h2><ul class=\"gaps card\">", h->to);
  put_unchecked(h);
  put_floors(h);
  if (any)
    fputs(
        "<li>What gives both sides of a check the same wrong numbers: a wrong pointer to a row of the input, or a core "
        "that "
        "is wrong the same way each time in an activation that is evaluated twice on it.</li>"
        "<li>The program around the network: what it feeds in, and what it does with the outputs.</li>",
        h->to);
  else
    fputs("<li>Everything else: this run was not protected.</li>", h->to);
  fputs("</ul></section>\n", h->to);
}
