/* JSON documents that are kept between runs: sealed by a sum, so that what has changed in the file is not believed, and
 * bound to the machine and version that they were made by. */
#ifndef RDT_PLAN_SEALED_JSON_H
#define RDT_PLAN_SEALED_JSON_H

#include <cjson/cJSON.h>

#include "core/error.h"

/* {"schema": schema, "redoubt": version, "machine": {cpu, microcode, isa, threads}} */
cJSON *rdt_sealed_document(const char *schema, int threads);
/* Adds the seal and writes it: the file is whole or untouched, whoever else writes it at the same time. */
rdt_status rdt_sealed_write(cJSON *doc, const char *path, rdt_reason *why);
/* *doc (cJSON_Delete) is of that schema and as it was sealed. RDT_ERR_IO: there is no such file; RDT_ERR_FORMAT: it is
 * no such document, or has changed since. */
rdt_status rdt_sealed_read(const char *path, const char *schema, cJSON **doc, rdt_reason *why);
/* RDT_ERR_UNSUPPORTED, with what differs: another processor, microcode, ISA, number of threads or version made it. */
rdt_status rdt_sealed_serves(const cJSON *doc, const char *path, int threads, rdt_reason *why);

/* "$XDG_CACHE_HOME/redoubt/NAME", or below ~/.cache; the folders are made. RDT_ERR_IO */
rdt_status rdt_cache_path(const char *name, char *path, size_t size, rdt_reason *why);

#endif
