#include <redoubt/context.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/error.h"
#include "core/text.h"

static const struct {
  rdt_status status;
  const char *name, *text;
} statuses[] = {
    {RDT_OK, "RDT_OK", "ok"},
    {RDT_ERR_ARG, "RDT_ERR_ARG", "an argument is missing, contradictory or out of its domain"},
    {RDT_ERR_SHAPE, "RDT_ERR_SHAPE", "shapes do not fit together, are negative, or overflow"},
    {RDT_ERR_DTYPE, "RDT_ERR_DTYPE", "a datatype that this call does not take"},
    {RDT_ERR_NAME, "RDT_ERR_NAME", "no such input, node or scheme"},
    {RDT_ERR_FORMAT, "RDT_ERR_FORMAT", "a malformed file"},
    {RDT_ERR_UNSUPPORTED, "RDT_ERR_UNSUPPORTED", "well-formed, but not available here"},
    {RDT_ERR_IO, "RDT_ERR_IO", "reading or writing failed"},
    {RDT_ERR_NOMEM, "RDT_ERR_NOMEM", "out of memory, or a size limit reached"},
    {RDT_ERR_DEVICE, "RDT_ERR_DEVICE", "the device or a vendor library failed"},
    {RDT_ERR_CANCELLED, "RDT_ERR_CANCELLED", "cancelled"},
    {RDT_ERR_FAULT, "RDT_ERR_FAULT", "a fault was found and not repaired"},
    {RDT_ERR_INTERNAL, "RDT_ERR_INTERNAL", "a bug in Redoubt"},
};

const char *rdt_status_name(rdt_status s) {
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].status == s) return statuses[i].name;
  return "unknown";
}

const char *rdt_status_text(rdt_status s) {
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    if (statuses[i].status == s) return statuses[i].text;
  return "unknown";
}

const char *rdt_verdict_name(rdt_verdict v) {
  static const char *const names[] = {"CLEAN", "RECOMPUTED", "CORRECTED", "UNCHECKED", "DETECTED"};
  return (unsigned)v < sizeof names / sizeof names[0] ? names[v] : "unknown";
}

const char *rdt_diagnosis_name(rdt_diagnosis d) {
  static const char *const names[] = {"none", "transient", "persistent", "checker", "memory", "unknown"};
  return (unsigned)d < sizeof names / sizeof names[0] ? names[d] : "unknown";
}

const char *rdt_version(void) {
  return REDOUBT_VERSION;
}

rdt_status rdt_fail(rdt_reason *why, rdt_status s, const char *format, ...) {
  if (why) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    rdt_text_tame(why->text, '?'); /* names out of files reach terminals with it */
  }
  return s;
}
