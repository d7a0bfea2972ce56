/* What this machine can do, measured once and kept: the roof that layers are compared with. */
#ifndef RDT_PLAN_DEVICE_H
#define RDT_PLAN_DEVICE_H

#include "core/error.h"
#include "plan/roofline.h"

typedef struct rdt_device {
  int threads;
  double peak[RDT_DTYPE_COUNT]; /* operations a second, of products of that datatype; 0: it has none */
  double bandwidth;             /* bytes a second, read from memory by all threads */
  double meeting;               /* seconds until all threads have begun and ended something; of one: 0 */
  double step;                  /* seconds of an addition that waits for the one before */
  char date[24];                /* "2026-01-31T12:00Z" */
  bool kept;                    /* in the cache folder; else it is measured anew next time */
} rdt_device;

typedef enum rdt_device_how {
  RDT_DEVICE_KEPT, /* as it was measured last; measured now and kept where it was not, or elsewhere, or otherwise */
  RDT_DEVICE_ANEW, /* measured now and kept */
  RDT_DEVICE_ONCE  /* measured now; the cache folder is left alone */
} rdt_device_how;

/* Measuring takes a second, or four where there are many more threads than cores. RDT_ERR_NOMEM */
rdt_status rdt_device_find(int threads, rdt_device_how how, rdt_device *d, rdt_reason *why);
rdt_roof rdt_device_roof(const rdt_device *d, rdt_dtype t);

#endif
