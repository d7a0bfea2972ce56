#include "plan/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/cpu_info.h"
#include "core/team.h"
#include "plan/probe.h"
#include "plan/sealed_json.h"
#include "plan/timing.h"

#define SCHEMA "redoubt.device/2"
static const rdt_dtype measured[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
enum { MEASURED = sizeof measured / sizeof *measured };

static const double patience = 2.0; /* seconds, for each half */

/* The highest of many short looks: whatever else ran meanwhile only took away. Fewer where threads outnumber cores. */
static rdt_status measure(int threads, rdt_device *d, rdt_reason *why) {
  enum { LOOKS = 60, PASSES = 40, LEAST = 2 };
  rdt_probe_room room;
  const time_t now = time(NULL);
  struct tm utc;
  *d = (rdt_device){.threads = threads};
  RDT_TRY(rdt_team_try(threads, why));
  if (!rdt_probe_open(&room, threads))
    return rdt_fail(why, RDT_ERR_NOMEM, "out of memory: what is read to measure its bandwidth takes 256 MiB");
  double begun = rdt_timing_now();
  for (int i = 0; i < PASSES && (i < LEAST || rdt_timing_now() - begun < patience); i++)
    d->bandwidth = fmax(d->bandwidth, rdt_probe_bandwidth(&room, threads));
  rdt_probe_close(&room);
  d->meeting = d->step = INFINITY;
  begun = rdt_timing_now();
  for (int look = 0; look < LOOKS && (look < LEAST || rdt_timing_now() - begun < patience); look++) {
    d->meeting = fmin(d->meeting, rdt_probe_meeting(threads));
    d->step = fmin(d->step, rdt_probe_step());
    for (int i = 0; i < MEASURED; i++)
      d->peak[measured[i]] = fmax(d->peak[measured[i]], rdt_probe_peak(measured[i], threads));
  }
  strftime(d->date, sizeof d->date, "%Y-%m-%dT%H:%MZ", gmtime_r(&now, &utc));
  return RDT_OK;
}

static rdt_status keep(const rdt_device *d, const char *path) {
  cJSON *doc = rdt_sealed_document(SCHEMA, d->threads);
  cJSON *peaks = cJSON_AddObjectToObject(doc, "peaks");
  cJSON_AddStringToObject(doc, "date", d->date);
  cJSON_AddNumberToObject(doc, "bandwidth", d->bandwidth);
  cJSON_AddNumberToObject(doc, "meeting", d->meeting);
  cJSON_AddNumberToObject(doc, "step", d->step);
  for (int i = 0; i < MEASURED; i++) cJSON_AddNumberToObject(peaks, rdt_dtype_name(measured[i]), d->peak[measured[i]]);
  const rdt_status status = rdt_sealed_write(doc, path, NULL);
  cJSON_Delete(doc);
  return status;
}

/* > 0, else NaN */
static double rate(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) && item->valuedouble > 0.0 ? item->valuedouble : NAN;
}

static bool recall(const char *path, int threads, rdt_device *d) {
  cJSON *doc;
  if (rdt_sealed_read(path, SCHEMA, &doc, NULL) != RDT_OK) return false;
  const cJSON *peaks = cJSON_GetObjectItemCaseSensitive(doc, "peaks");
  const char *date = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "date"));
  *d = (rdt_device){.threads = threads, .bandwidth = rate(doc, "bandwidth"), .kept = true};
  d->meeting = rate(doc, "meeting");
  d->step = rate(doc, "step");
  bool good =
      rdt_sealed_serves(doc, path, threads, NULL) == RDT_OK && date && isfinite(d->bandwidth + d->meeting + d->step);
  for (int i = 0; i < MEASURED; i++) {
    d->peak[measured[i]] = rate(peaks, rdt_dtype_name(measured[i]));
    good = good && isfinite(d->peak[measured[i]]);
  }
  if (date) snprintf(d->date, sizeof d->date, "%s", date);
  cJSON_Delete(doc);
  return good;
}

rdt_status rdt_device_find(int threads, rdt_device_how how, rdt_device *d, rdt_reason *why) {
  char name[64], path[1024];
  snprintf(name, sizeof name, "device-%s-%d.json", rdt_isa_name(rdt_isa_detect()), threads);
  const bool cached = how != RDT_DEVICE_ONCE && rdt_cache_path(name, path, sizeof path, NULL) == RDT_OK;
  if (cached && how == RDT_DEVICE_KEPT && recall(path, threads, d)) return RDT_OK;
  RDT_TRY(measure(threads, d, why));
  d->kept = cached && keep(d, path) == RDT_OK;
  return RDT_OK;
}

rdt_roof rdt_device_roof(const rdt_device *d, rdt_dtype t) {
  return (rdt_roof){.flops = d->peak[rdt_dtype_is_f8(t) ? RDT_F32 : t], .bandwidth = d->bandwidth}; /* f8: converted */
}
