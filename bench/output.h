/* What a bench writes, kept until it is closed: for stdout, or for a file that is there whole or not at all. */
#ifndef RDT_BENCH_OUTPUT_H
#define RDT_BENCH_OUTPUT_H

#include <stdio.h>

#include "core/error.h"

typedef struct rdt_bench_file {
  const char *path; /* NULL: stdout */
  FILE *f;          /* to write to */
  char *text;
  size_t bytes;
} rdt_bench_file;
/* The file is tried before anything is measured, which may take long. */
rdt_status rdt_bench_file_open(rdt_bench_file *o, const char *path, rdt_reason *why);
/* Gives code back, or tells what went wrong on stderr and gives 2. Nothing is written where it was stopped
 * (RDT_TIMING_STOPPED). */
int rdt_bench_file_close(rdt_bench_file *o, const char *command, int code);

#endif
