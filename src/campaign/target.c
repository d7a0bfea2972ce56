#include "campaign/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_info.h"
#include "core/memory.h"

rdt_status rdt_target_layers(rdt_target *t, int n, rdt_reason *why) {
  t->layers = rdt_calloc((size_t)n, sizeof *t->layers);
  t->names = rdt_calloc((size_t)n, sizeof *t->names);
  t->n_layers = n;
  return t->layers && t->names ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

rdt_status rdt_target_layer_set(rdt_target *t, int i, const char *name, const char *op, const char *kernel,
                                const char *scheme, const rdt_plan *plan, rdt_reason *why) {
  rdt_target_layer *l = &t->layers[i];
  snprintf(l->name, sizeof l->name, "%s", name);
  snprintf(l->op, sizeof l->op, "%s", op);
  snprintf(l->kernel, sizeof l->kernel, "%s", kernel);
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  l->info = plan ? plan->scheme : rdt_scheme_find("none");
  const bool thrice = plan && plan->scheme->id == RDT_SCHEME_TMR_SM;
  l->one_core = plan && ((plan->twin && plan->threads < 2) || (thrice && rdt_cpu_count() < 2));
  t->names[i] = l->name;
  if (!plan) return RDT_OK;
  rdt_spot *grown = rdt_grow(t->spots, (size_t)t->n_spots, (size_t)t->n_spots + RDT_SITE_COUNT, sizeof *grown);
  if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->spots = grown;
  for (int s = 0; s < RDT_SITE_COUNT; s++)
    if (rdt_plan_has_site(plan, (rdt_site)s)) t->spots[t->n_spots++] = (rdt_spot){i, (rdt_site)s};
  return RDT_OK;
}

rdt_status rdt_target_strikes_once(const rdt_fault *f, const char *spec, rdt_reason *why) {
  const bool rare = f->core >= 0 && f->rate > 0.0 && f->rate < 1.0;
  const char *no = f->kind == RDT_FAULT_BER ? "ber"
                   : f->count[1] > 1        ? "count"
                   : f->lane >= 0           ? "lane"
                   : f->copies || f->cores  ? "copies or cores"
                   : rare                   ? "rate"
                                            : NULL;
  if (!no) return RDT_OK;
  return rdt_fail(
      why, RDT_ERR_UNSUPPORTED,
      "%s: no %s on a GPU: a fault strikes one element once, or with core=N all that a multiprocessor accumulates",
      spec, no);
}

bool rdt_target_ended(rdt_shot *shot, rdt_status status, const rdt_reason *why) {
  const bool own = status == RDT_ERR_IO || status == RDT_ERR_DEVICE || status == RDT_ERR_CANCELLED;
  if (own || !shot->hit.done) return false;
  shot->status = status;
  snprintf(shot->ended, sizeof shot->ended, "%.*s", (int)sizeof shot->ended - 1,
           *why->text ? why->text : rdt_status_text(status));
  return true;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

rdt_status rdt_target_clock(rdt_status (*run)(void *user, bool protected, rdt_reason *why), void *user,
                            double seconds[2], rdt_reason *why) {
  enum { LEAST = 5, MOST = 201 };
  static const double ENOUGH = 2.0; /* seconds */
  double list[2][MOST];
  const double begun = rdt_clock();
  int n = 0;
  for (int i = 0; i < 2; i++) RDT_TRY(run(user, i == 0, why)); /* warm */
  while (n < LEAST || (n < MOST && rdt_clock() - begun < ENOUGH)) {
    for (int i = 0; i < 2; i++) {
      const double from = rdt_clock();
      RDT_TRY(run(user, i == 0, why));
      list[i][n] = rdt_clock() - from;
    }
    n++;
  }
  for (int i = 0; i < 2; i++) {
    qsort(list[i], (size_t)n, sizeof **list, ascending);
    seconds[i] = list[i][n / 2];
  }
  return RDT_OK;
}

void rdt_target_destroy(rdt_target *t) {
  if (!t) return;
  rdt_free(t->layers);
  rdt_free(t->names);
  rdt_free(t->spots);
  t->destroy(t);
}
