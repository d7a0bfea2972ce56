#include "outofcore/devices.h"

#include <stdio.h>
#include <string.h>

#include "cuda/device.h"

static rdt_status all_of_cuda(rdt_devices *d, rdt_reason *why) {
  rdt_reason inner = {""};
  const int there = rdt_cuda_count(&inner);
  if (there < 1)
    return rdt_fail(why, RDT_ERR_DEVICE, "--device cuda:all: %s; `redoubt info` says what there is", inner.text);
  d->on = &rdt_backend_cuda;
  d->n = there < RDT_MOST_DEVICES ? there : RDT_MOST_DEVICES;
  for (int i = 0; i < d->n; i++) snprintf(d->name[i], sizeof d->name[i], "cuda:%d", i);
  return RDT_OK;
}

rdt_status rdt_devices_of(const char *text, rdt_devices *d, rdt_reason *why) {
  *d = (rdt_devices){.n = 0};
  if (strcmp(text, "cuda:all") == 0) return all_of_cuda(d, why);
  for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
    end = at + strcspn(at, ",");
    if (d->n == RDT_MOST_DEVICES)
      return rdt_fail(why, RDT_ERR_ARG, "--device %.60s: more than %d devices", text, RDT_MOST_DEVICES);
    char *name = d->name[d->n];
    const int n = snprintf(name, RDT_DEVICE_NAME, "%.*s", (int)(end - at), at);
    const rdt_backend *on = n < RDT_DEVICE_NAME ? rdt_backend_find(name) : NULL;
    if (!on) return rdt_fail(why, RDT_ERR_NAME, "--device %.60s: products of files run on cpu and cuda:N", text);
    if (d->on && d->on != on)
      return rdt_fail(why, RDT_ERR_ARG, "--device %.60s: devices that share a product are of one kind", text);
    d->on = on;
    d->n++;
  }
  return RDT_OK;
}
