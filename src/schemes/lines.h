/* A linear op as a product, line by line (check/correct.h): products of a batch one below the other, convolutions with
 * a row for each pixel and a column for each output channel. */
#ifndef RDT_SCHEMES_LINES_H
#define RDT_SCHEMES_LINES_H

#include "check/correct.h"
#include "core/problem.h"
#include "cpu/kernel.h"

/* Of raw results o->out; o stays the caller's. RDT_ERR_NOMEM. */
rdt_status rdt_lines_create(const rdt_problem *p, const rdt_operands *o, double lambda, rdt_lines *l, rdt_reason *why);
void rdt_lines_destroy(rdt_lines *l);

#endif
