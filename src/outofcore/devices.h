/* Which devices share a product, by what was asked for. */
#ifndef RDT_OUTOFCORE_DEVICES_H
#define RDT_OUTOFCORE_DEVICES_H

#include "outofcore/backend.h"

enum { RDT_MOST_DEVICES = 8, RDT_DEVICE_NAME = 16 };

typedef struct rdt_devices {
  const rdt_backend *on; /* of all of them */
  char name[RDT_MOST_DEVICES][RDT_DEVICE_NAME];
  int n;
} rdt_devices;

/* "cpu", "cuda:0", "cuda:0,cuda:1", "cuda:all". A device may be named twice: it then has two pipelines. RDT_ERR_NAME,
 * RDT_ERR_DEVICE (all of none), RDT_ERR_ARG (too many, or of two kinds). */
rdt_status rdt_devices_of(const char *text, rdt_devices *out, rdt_reason *why);

#endif
