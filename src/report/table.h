/* Tables for people: aligned text or Markdown, UTF-8-safe. */
#ifndef RDT_REPORT_TABLE_H
#define RDT_REPORT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct rdt_table rdt_table;

/* columns: headings separated by '|'; one that starts with '>' is aligned to the right: "layer|op|>checks". NULL where
 * memory is short. */
rdt_table *rdt_table_create(const char *columns);
/* Appends the next cell; rows begin by themselves. Memory trouble shows in rdt_table_print. */
void rdt_table_cell(rdt_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rdt_table_rule(rdt_table *t); /* a line before the next row: what follows are totals */
/* false: memory was short and nothing was printed. t may be NULL (false). */
bool rdt_table_print(const rdt_table *t, FILE *to, bool markdown);
void rdt_table_destroy(rdt_table *t);

#endif
