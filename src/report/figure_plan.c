/* The plan of a network: its layers below the roof, and what protection costs each of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "report/figures.h"
#include "report/json.h"

typedef struct plan {
  rdt_figure_layer *layers;
  const char **schemes; /* that were chosen, in the order in which they come: a colour each */
  int n, n_schemes;
} plan;

static int scheme_of(plan *p, const char *name) {
  int i = 0;
  while (i < p->n_schemes && strcmp(p->schemes[i], name) != 0) i++;
  if (i == p->n_schemes) p->schemes[p->n_schemes++] = name;
  return i;
}

static void take(const cJSON *layers, plan *p) {
  const cJSON *x;
  cJSON_ArrayForEach(x, layers) {
    rdt_figure_layer l = {.name = rdt_json_string(x, "name"),
                          .scheme = rdt_json_string(x, "scheme"),
                          .times = rdt_json_real(x, "times"),
                          .work = {.flops = rdt_json_real(x, "flops"), .bytes = rdt_json_real(x, "bytes")},
                          .before = rdt_json_real(x, "unprotected"),
                          .after = rdt_json_real(x, "seconds")};
    if (!(l.work.flops > 0.0) || !(l.work.bytes > 0.0) || !(l.before > 0.0) || !(l.after > 0.0)) continue;
    l.series = scheme_of(p, l.scheme);
    p->layers[p->n++] = l;
  }
}

static rdt_status draw(const cJSON *doc, const plan *p, rdt_roof roof, const char *path, rdt_reason *why) {
  const cJSON *machine = cJSON_GetObjectItemCaseSensitive(doc, "machine");
  double before = 0.0, after = 0.0;
  char title[160], text[256];
  for (int i = 0; i < p->n; i++) {
    before += p->layers[i].times * p->layers[i].before;
    after += p->layers[i].times * p->layers[i].after;
  }
  const char *model = rdt_json_string(doc, "model"), *slash = strrchr(model, '/');
  snprintf(title, sizeof title, "Plan of %.100s", slash ? slash + 1 : model);
  snprintf(text, sizeof text,
           "%d layers: %.3g ms unprotected (rings), %.3g ms as planned (dots), %+.1f %%; %.40s, %.8s, %.0f threads",
           p->n, 1e3 * before, 1e3 * after, 100.0 * (after / before - 1.0), rdt_json_string(machine, "cpu"),
           rdt_json_string(machine, "isa"), rdt_json_real(machine, "threads"));
  const rdt_figure_roofline f = {.title = title,
                                 .text = text,
                                 .roof = roof,
                                 .layers = p->layers,
                                 .n = p->n,
                                 .series = p->schemes,
                                 .n_series = p->n_schemes,
                                 .bars = true};
  return rdt_figure_roofline_write(&f, path, why);
}

rdt_status rdt_figure_plan_write(const cJSON *doc, const char *name, rdt_roof roof, const char *path, rdt_reason *why) {
  const cJSON *layers = rdt_json_list(cJSON_GetArrayItem(rdt_json_list(doc, "sizes"), 0), "layers");
  const size_t room = (size_t)cJSON_GetArraySize(layers);
  plan p = {.layers = rdt_alloc(room, sizeof *p.layers), .schemes = rdt_alloc(room, sizeof *p.schemes)};
  rdt_status status = p.layers && p.schemes ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) take(layers, &p);
  if (status == RDT_OK && p.n == 0)
    status = rdt_fail(
        why, RDT_ERR_FORMAT,
        "%.200s: no layer with its times to draw: is it a plan that was measured, of products or convolutions?", name);
  if (status == RDT_OK) status = draw(doc, &p, roof, path, why);
  rdt_free(p.layers);
  rdt_free(p.schemes);
  return status;
}
