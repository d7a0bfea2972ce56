/* Names of devices and of what computes there, with CUDA and without. */
#include <stdio.h>
#include <string.h>

#include "cuda/device.h"
#include "cuda/rivals.h"

rdt_status rdt_device_index(const char *name, int *index, rdt_reason *why) {
  rdt_reason inner = {""};
  int used = 0;
  *index = 0;
  const bool digits = strncmp(name, "cuda:", 5) == 0 && strspn(name + 5, "0123456789") == strlen(name + 5);
  const bool number = digits && sscanf(name, "cuda:%9d%n", index, &used) == 1 && used == (int)strlen(name);
  if (!number && strcmp(name, "cuda") != 0)
    return rdt_fail(why, RDT_ERR_NAME, "there is no device '%s': cpu, or cuda:N with N from 0 on", name);
  if (rdt_cuda_count(&inner) > 0) return RDT_OK;
  return rdt_fail(why, RDT_ERR_DEVICE, "%s; `redoubt info` says what there is, --device cpu needs none", inner.text);
}

const char *rdt_rival_suffix(rdt_rival_kind kind) {
  return kind == RDT_RIVAL_CHAINED ? "_chained" : kind == RDT_RIVAL_UNCOMPARED ? "_uncompared" : "";
}

static bool ends(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

rdt_rival_kind rdt_rival_kind_of(const char *kernel, const char *scheme) {
  if (strncmp(kernel, "cublas", 6) == 0) return RDT_RIVAL_LIBRARY;
  if (strstr(kernel, "_cublaslt") && strcmp(scheme, "none") != 0) return RDT_RIVAL_BOX;
  for (rdt_rival_kind k = RDT_RIVAL_CHAINED; k <= RDT_RIVAL_UNCOMPARED; k++)
    if (ends(kernel, rdt_rival_suffix(k))) return k;
  return RDT_RIVAL_OWN;
}

void rdt_track_close(rdt_track *t) {
  if (t->user) t->end(t->user);
  t->user = NULL;
}
