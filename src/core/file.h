/* Whole files, read or written. */
#ifndef RDT_CORE_FILE_H
#define RDT_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

/* Reads all of path into *data (rdt_free), at most 2^31 - 1 bytes (what protobuf can hold). Of a pipe all that comes:
 * one that nobody writes into is refused at once, and a signal ends the waiting. RDT_ERR_IO, RDT_ERR_NOMEM,
 * RDT_ERR_CANCELLED. */
rdt_status rdt_file_read(const char *path, void **data, size_t *bytes, rdt_reason *why);
/* A sigset_t: signals that stay out while a pipe's writer is waited for; NULL: those of the thread. For a program that
 * keeps signals from threads which compute. */
extern const void *rdt_file_waiting_mask;
/* Opens a regular file, and nothing else: what is read line by line must have an end. Where there is none *file is
 * NULL, an error only if it must be there. RDT_ERR_IO, RDT_ERR_NOMEM. */
rdt_status rdt_file_stream(const char *path, bool must, FILE **file, rdt_reason *why);
/* Writes head and body to a temporary file beside path, syncs and renames it: path is either whole or untouched. A
 * symbolic link stays: what it leads to is written. */
rdt_status rdt_file_write(const char *path, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
                          rdt_reason *why);

/* Could it be written? Before what takes long: rdt_file_write makes the same file beside path. RDT_ERR_IO */
rdt_status rdt_file_try(const char *path, rdt_reason *why);

/* RDT_ERR_IO: "PATH: cannot be opened: no such file; remedy", what: "opened", code: errno */
rdt_status rdt_file_fail(rdt_reason *why, const char *path, const char *what, int code, const char *remedy);

#endif
