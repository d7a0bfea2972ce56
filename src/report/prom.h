/* Counters for Prometheus, in a file of its text format: node_exporter's textfile collector reads it. */
#ifndef RDT_REPORT_PROM_H
#define RDT_REPORT_PROM_H

#include <redoubt/model.h>

#include "core/error.h"

/* X(id, name, type, help) */
#define RDT_METRICS(X)                                                                                               \
  X(RUNS, "redoubt_runs_total", "counter", "Runs that ended with a verdict.")                                        \
  X(CHECKS, "redoubt_checks_total", "counter", "Comparisons made.")                                                  \
  X(SUSPECTS, "redoubt_suspects_total", "counter", "Comparisons above the statistical bound.")                       \
  X(UNCHECKED, "redoubt_unchecked_total", "counter", "Comparisons that could not be made (NaN or Inf in inputs).")   \
  X(RUN_SECONDS, "redoubt_run_seconds_total", "counter", "Wall time of the runs.")                                   \
  X(CHECK_SECONDS, "redoubt_check_seconds_total", "counter", "Of which checks, duplicates and repair.")              \
  X(RECOVERY_SECONDS, "redoubt_recovery_seconds_total", "counter", "Time in the rungs of the recovery.")             \
  X(LAST_RUN, "redoubt_last_run_timestamp_seconds", "gauge", "When the last run ended, in seconds since 1970.")      \
  X(FAULTS, "redoubt_faults_total", "counter", "Confirmed faults, by what they were and what became of the result.") \
  X(CORE_PRODUCTS, "redoubt_core_products_total", "counter", "Executions of layers, or shares of one, on a core.")   \
  X(CORE_SUSPECTS, "redoubt_core_suspects_total", "counter", "Checks of these that complained.")                     \
  X(CORE_FAULTS, "redoubt_core_faults_total", "counter", "Confirmed faults on a core, by what they were.")           \
  X(SM_SUSPECTS, "redoubt_multiprocessor_suspects_total", "counter", "Complaints of checks by a multiprocessor.")    \
  X(SM_FAULTS, "redoubt_multiprocessor_faults_total", "counter", "Confirmed faults of one, by what they were.")
typedef enum rdt_metric {
#define X(id, ...) RDT_METRIC_##id,
  RDT_METRICS(X)
#undef X
      RDT_METRIC_COUNT
} rdt_metric;

/* Of one core, or multiprocessor: what the file said at first, and what is written. */
typedef struct rdt_prom_core {
  double began[RDT_DIAG_COUNT + 1], value[RDT_DIAG_COUNT + 1]; /* products, suspects, faults by diagnosis from 1 on */
} rdt_prom_core;

typedef enum rdt_prom_unit { RDT_PROM_CORES, RDT_PROM_SMS, RDT_PROM_UNITS } rdt_prom_unit;

typedef struct rdt_prom {
  const char *path; /* NULL: nobody asks for a file */
  double every;     /* seconds between two writes */
  double written;   /* when (rdt_clock) */
  char *labels;     /* model="...",host="..." */
  double value[RDT_METRIC_COUNT];
  double faults[RDT_DIAG_UNKNOWN + 1][RDT_DETECTED + 1];
  struct {
    rdt_prom_core *list; /* by number */
    int n;
  } units[RDT_PROM_UNITS];
  const rdt_context *ctx; /* whose cores and multiprocessors are counted */
} rdt_prom;

/* A file that is there is continued: counters go on from what it says; it must be of the same model and host. path
 * NULL: nothing but counting. Errors: RDT_ERR_IO, RDT_ERR_FORMAT,
 * RDT_ERR_NOMEM. */
rdt_status rdt_prom_open(rdt_prom *p, const char *path, double every, const char *model, const char *host,
                         rdt_reason *why);
/* Counts what the context's cores and multiprocessors do from now on; it must live until the last write. */
void rdt_prom_watch(rdt_prom *p, const rdt_context *ctx);
void rdt_prom_event(rdt_prom *p, const rdt_event *e);
void rdt_prom_run(rdt_prom *p, const rdt_run_result *r); /* writes where that is due */
rdt_status rdt_prom_write(rdt_prom *p, rdt_reason *why); /* whole or not at all */
void rdt_prom_close(rdt_prom *p);

#endif
