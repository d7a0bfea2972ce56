/* Tables of figures as Markdown, CSV or one JSON document. Cells come in the order of the columns; a column is
 * "key|heading": the key for programs (CSV, JSON), the heading for people; one word alone is both. */
#ifndef RDT_BENCH_TABLE_H
#define RDT_BENCH_TABLE_H

#include <stdbool.h>
#include <stdio.h>

typedef enum rdt_bench_format { RDT_BENCH_MD, RDT_BENCH_CSV, RDT_BENCH_JSON } rdt_bench_format;

typedef struct rdt_bench_out {
  FILE *to;
  rdt_bench_format format;
  int tables, rows, cells;
  const char *const *columns;
  int count;
} rdt_bench_out;

/* kind, version: "tolerance" and 1 make the schema "redoubt.bench-tolerance/1". head: the words of the command line.
 * columns must outlive the document. */
void rdt_bench_begin(rdt_bench_out *o, FILE *to, rdt_bench_format format, const char *kind, int version,
                     const char *head);
void rdt_bench_table(rdt_bench_out *o, const char *name, const char *title, const char *const *columns, int count);
void rdt_bench_text(rdt_bench_out *o, const char *text);
/* With digits significant digits, or digits after the point; NaN: not applicable. */
void rdt_bench_number(rdt_bench_out *o, double value, int digits);
void rdt_bench_fixed(rdt_bench_out *o, double value, int digits);
void rdt_bench_integer(rdt_bench_out *o, long long value);
/* false: writing failed. */
bool rdt_bench_end(rdt_bench_out *o);

#endif
