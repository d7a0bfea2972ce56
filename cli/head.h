/* The settings of a simulation as somebody would type them: they stand above its tables. */
#ifndef RDT_CLI_HEAD_H
#define RDT_CLI_HEAD_H

#include "options.h"
#include "shapes.h"

typedef struct rdt_head {
  char text[1024];
} rdt_head;

__attribute__((format(printf, 2, 3))) void rdt_head_add(rdt_head *h, const char *format, ...);
/* --table WORD for each of the words ("a|b|c") that was chosen. */
void rdt_head_tables(rdt_head *h, int64_t chosen, const char *words);
/* --lambda, --trials and --seed, where they were given. */
void rdt_head_numbers(rdt_head *h, const rdt_settings *s);

/* What --mnk says, one product at most (shape->count), and it, the numbers and --threads. */
rdt_status rdt_head_product(rdt_head *h, const rdt_settings *s, rdt_bench_shapes *shape, rdt_reason *why);

#endif
