/* What campaigns have measured of schemes, in place of what schemes.def declares: docs/schema/measured-coverage-2.json.
 */
#ifndef RDT_PLAN_COVERAGE_H
#define RDT_PLAN_COVERAGE_H

#include "schemes/scheme.h"

typedef struct rdt_coverage {
  double low[RDT_SCHEME_COUNT]
            [RDT_DTYPE_COUNT]; /* at least that share of single faults is noticed (95 %); 0: not measured */
} rdt_coverage;

/* Of the campaigns that the project keeps (coverage.def): what a context goes by that has read nothing else. */
extern const rdt_coverage rdt_coverage_kept;

#define RDT_COVERAGE_SCHEMA "redoubt.measured-coverage/2"

struct rdt_context;
/* The automatic choices of this context go by it from now on; what it does not say is as it was kept. RDT_ERR_IO,
 * RDT_ERR_FORMAT */
rdt_status rdt_coverage_read(struct rdt_context *ctx, const char *path, rdt_reason *why);
/* Measured, or else declared. c: NULL is fine */
double rdt_coverage_of(const rdt_coverage *c, const rdt_scheme_info *s, rdt_dtype inputs);

#endif
