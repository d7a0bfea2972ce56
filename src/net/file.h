/* Whole files. */
#ifndef RDT_NET_FILE_H
#define RDT_NET_FILE_H

#include <stddef.h>

#include "core/error.h"

/* Reads all of path into *data (rdt_free), at most 2^31 - 1 bytes (what protobuf can hold). RDT_ERR_IO, RDT_ERR_NOMEM.
 */
rdt_status rdt_file_read(const char *path, void **data, size_t *bytes, rdt_reason *why);
/* Writes head and body to a temporary file beside path, syncs and renames it: path is either whole or untouched. */
rdt_status rdt_file_write(const char *path, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
                          rdt_reason *why);

#endif
