/* One product or one convolution with data of its own: planned, run, compared with its golden result. */
#ifndef RDT_CAMPAIGN_OP_H
#define RDT_CAMPAIGN_OP_H

#include "campaign/families.h"
#include "campaign/target.h"
#include "check/tolerance.h"

typedef struct rdt_op {
  rdt_context *ctx;
  char name[128];
  rdt_family family;
  rdt_problem prob; /* with data */
  rdt_plan *plan;   /* NULL: no data yet */
  rdt_tensor out;
  unsigned char *clean;  /* its bits without a fault; NULL: not expected yet */
  double floor;          /* of a run without a fault */
  bool checkpoints;      /* what the plan has found out from its clean run */
  double *golden, *room; /* of each element: its value, and how far off rounding can be */
} rdt_op;

/* prob: without data; it is the op's from now on, whatever happens. */
rdt_status rdt_op_init(rdt_op *op, rdt_context *ctx, const char *name, rdt_family family, rdt_problem *prob,
                       rdt_reason *why);
/* Other data, drawn by the seed; and a plan with them. */
rdt_status rdt_op_fill(rdt_op *op, uint64_t seed, rdt_reason *why);
rdt_status rdt_op_draw(rdt_op *op, uint64_t seed, rdt_reason *why);
/* The golden result for the data, and a clean one, which must be right. *deviation: in units of what rounding can be.
 */
rdt_status rdt_op_expect(rdt_op *op, double *deviation, rdt_reason *why);
/* Compares with what is expected, where anything is; spec NULL: nothing is planted. runs: that the plan has behind it.
 */
rdt_status rdt_op_shoot(rdt_op *op, int64_t runs, const char *spec, rdt_shot *s, rdt_reason *why);
/* Without comparing: as planned, or by bare, a plan without protection. */
rdt_status rdt_op_run(rdt_op *op, rdt_plan *bare, rdt_reason *why);
rdt_status rdt_op_bare(const rdt_op *op, rdt_plan **bare, rdt_reason *why);
void rdt_op_clear(rdt_op *op);
/* Its parts, for who computes elsewhere: golden values and how far off rounding can be for such an accumulator; what
 * out has now, which must be right, as the clean result; out against it and the golden one, where they differ. */
rdt_status rdt_op_refer(rdt_op *op, const rdt_accumulator *acc, rdt_reason *why);
rdt_status rdt_op_keep(rdt_op *op, double *deviation, rdt_reason *why);
void rdt_op_compare(const rdt_op *op, rdt_shot *s);

#endif
