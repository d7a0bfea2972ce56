/* What campaigns have measured of schemes, in place of what schemes.def declares: docs/schema/measured-coverage-2.json.
 */
#ifndef RDT_PLAN_COVERAGE_H
#define RDT_PLAN_COVERAGE_H

#include "schemes/scheme.h"

/* The share of single faults that is noticed: the ends of its 95 % interval, or twice what is declared. */
typedef struct rdt_coverage_range {
  double low, high;
  bool measured;
} rdt_coverage_range;

typedef struct rdt_coverage {
  rdt_coverage_range range[RDT_SCHEME_COUNT][RDT_DTYPE_COUNT]; /* of datatypes of inputs */
} rdt_coverage;

/* Of the campaigns that the project keeps (coverage.def): what a context goes by that has read nothing else. */
extern const rdt_coverage rdt_coverage_kept;

#define RDT_COVERAGE_SCHEMA "redoubt.measured-coverage/2"

struct rdt_context;
/* The automatic choices of this context go by it from now on; what it does not say is as it was kept. RDT_ERR_IO,
 * RDT_ERR_FORMAT */
rdt_status rdt_coverage_read(struct rdt_context *ctx, const char *path, rdt_reason *why);
/* Measured, or else declared. c: NULL is fine */
rdt_coverage_range rdt_coverage_of(const rdt_coverage *c, const rdt_scheme_info *s, rdt_dtype inputs);
/* Does a notice more than b does? Not where the intervals meet: more faults in one campaign than in another say nothing
 * of the schemes. */
bool rdt_coverage_exceeds(rdt_coverage_range a, rdt_coverage_range b);

#endif
