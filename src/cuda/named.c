/* Names of devices, with CUDA and without. */
#include <stdio.h>
#include <string.h>

#include "cuda/device.h"

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
