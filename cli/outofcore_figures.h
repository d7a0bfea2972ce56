/* What `redoubt bench outofcore` shows beside its table: which strategy is the best in what, and pictures, after the
 * source's figures 10 and 18 to 20. */
#ifndef RDT_CLI_OUTOFCORE_FIGURES_H
#define RDT_CLI_OUTOFCORE_FIGURES_H

#include <stdio.h>

#include "product.h"

typedef struct rdt_outofcore_figures { /* zero at the begin */
  int n;
  struct {
    const char *name;
    rdt_matmul_result result;
    rdt_timeline measured, predicted, best;
  } run[RDT_STRATEGY_COUNT];
} rdt_outofcore_figures;

/* Takes the run's timelines. */
void rdt_outofcore_figures_add(rdt_outofcore_figures *f, rdt_product_run *r);
void rdt_outofcore_figures_clear(rdt_outofcore_figures *f);
/* Of several strategies: their order by time, rate and intensity. */
void rdt_outofcore_figures_rank(const rdt_outofcore_figures *f, FILE *to);
/* Before anything is measured: can they be written there? */
rdt_status rdt_outofcore_figures_try(const char *folder, rdt_reason *why);
rdt_status rdt_outofcore_figures_write(const rdt_outofcore_figures *f, const char *folder, rdt_reason *why);

#endif
