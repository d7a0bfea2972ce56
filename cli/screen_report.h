/* What a screen has found, of one device or several. */
#ifndef RDT_CLI_SCREEN_REPORT_H
#define RDT_CLI_SCREEN_REPORT_H

#include <cjson/cJSON.h>
#include <limits.h>

#include "options.h"
#include "screen/screen.h"

typedef struct rdt_screened_device {
  const rdt_sms *sms; /* NULL: the cores of the process */
  rdt_screen found;
} rdt_screened_device;

typedef struct rdt_screened {
  const rdt_settings *settings;
  int level;
  const rdt_screened_device *devices;
  int n;
  const char *absent; /* why no GPU is among all devices; NULL: nobody asked for them, or there is one */
  char host[HOST_NAME_MAX + 1];
} rdt_screened;

int rdt_screened_bad(const rdt_screened *s); /* units of all devices */
/* The document, redoubt.screen/2; NULL: out of memory. */
cJSON *rdt_screened_document(const rdt_screened *s);
/* false: out of memory */
bool rdt_screened_print(const rdt_screened *s);
/* Counters for Prometheus; the document, operands and results of what failed into a folder. */
rdt_status rdt_screened_write_prom(const rdt_screened *s, const char *path, rdt_reason *why);
rdt_status rdt_screened_save(const rdt_screened *s, const cJSON *doc, const char *folder, rdt_reason *why);

#endif
