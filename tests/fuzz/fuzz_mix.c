/* Any bytes as a mix: refused with a reason, or a table that is written as it was read, and from which every fault that
 * is drawn can be planted. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/mix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(const rdt_mix *m) {
  static const char *const layers[] = {"conv1", "a,layer=[*]?\\",
                                       "a name that is longer than a glob may be: the quick brown fox jumps over the "
                                       "lazy dog, again and again, until nobody counts the times any more"};
  enum { LAYERS = 3, DRAWN = 16 };
  rdt_spot spots[LAYERS * RDT_SITE_COUNT];
  char spec[256];
  rdt_fault f;
  for (int i = 0; i < LAYERS * RDT_SITE_COUNT; i++) spots[i] = (rdt_spot){i % LAYERS, (rdt_site)(i / LAYERS)};
  for (int64_t id = 0; id < DRAWN; id++) {
    rdt_reason why = {""};
    const rdt_status status = rdt_mix_draw(m, 1, id, spots, LAYERS * RDT_SITE_COUNT, layers, spec, sizeof spec, &why);
    if (status != RDT_OK ? !*why.text : rdt_fault_parse(spec, &f, &why) != RDT_OK) abort();
  }
}

/* As many digits as cJSON writes. */
static bool same(double a, double b) {
  return fabs(a - b) <= 2.0 * DBL_EPSILON * fabs(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rdt_reason why = {""};
  rdt_mix m, again;
  if (rdt_mix_parse((const char *)data, size, "mix", &m, &why) != RDT_OK) {
    if (!*why.text) abort();
    return 0;
  }
  cJSON *doc = rdt_mix_json(&m);
  char *text = cJSON_Print(doc);
  if (!text || rdt_mix_parse(text, strlen(text), "again", &again, &why) != RDT_OK) abort();
  if (again.n_faults != m.n_faults) abort();
  for (int i = 0; i < m.n_faults; i++)
    if (strcmp(again.faults[i].text, m.faults[i].text) != 0 || !same(again.faults[i].share, m.faults[i].share)) abort();
  for (int i = 0; i < RDT_SITE_COUNT; i++)
    if (!same(again.sites[i], m.sites[i])) abort();
  cJSON_free(text);
  cJSON_Delete(doc);
  draw(&m);
  return 0;
}
