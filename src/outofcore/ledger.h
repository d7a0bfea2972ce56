/* The list of finished blocks beside a result, with their bit-sums: one JSON object a line, appended as blocks are
 * written. While it grows, --resume goes on from it; afterwards `redoubt verify` reads it. */
#ifndef RDT_OUTOFCORE_LEDGER_H
#define RDT_OUTOFCORE_LEDGER_H

#include <redoubt/status.h>

#include "outofcore/devices.h"
#include "outofcore/splits.h"

/* A file as it was: another one is another product. */
typedef struct rdt_ledger_file {
  char name[256]; /* without folders */
  int64_t bytes, modified;
} rdt_ledger_file;

typedef struct rdt_ledger_head {
  rdt_dtype dtype;
  int64_t m, n, k;
  rdt_splits splits;
  bool protected, strassen;
  rdt_ledger_file from[2]; /* A, B */
} rdt_ledger_head;

typedef struct rdt_ledger_block {
  int64_t i, j;
  uint64_t sum;
  rdt_verdict verdict;
  char device[RDT_DEVICE_NAME]; /* that computed it */
} rdt_ledger_block;

rdt_ledger_file rdt_ledger_file_of(const rdt_matrix *m);
/* The list as it is, or an empty one, for this process alone while *fd is open, which is the caller's to close, also
 * after an error (-1: nothing). *bytes: its length. RDT_ERR_IO, also where another process has it. */
rdt_status rdt_ledger_lock(const char *path, int *fd, int64_t *bytes, rdt_reason *why);
/* The first line of an empty one. RDT_ERR_IO */
rdt_status rdt_ledger_begin(int fd, const char *path, const rdt_ledger_head *head, rdt_reason *why);
rdt_status rdt_ledger_append(int fd, const char *path, const rdt_ledger_block *b, rdt_reason *why);
/* Calls fn for each block. What a crash has cut off at the end is left out: *whole is the length of what counts.
 * RDT_ERR_IO, RDT_ERR_FORMAT for what is no list, or was changed. */
typedef rdt_status (*rdt_ledger_fn)(void *user, const rdt_ledger_head *head, const rdt_ledger_block *b,
                                    rdt_reason *why);
rdt_status rdt_ledger_read(const char *path, rdt_ledger_head *head, rdt_ledger_fn fn, void *user, int64_t *whole,
                           rdt_reason *why);

#endif
