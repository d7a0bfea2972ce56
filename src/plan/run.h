/* One run of one plan, as its parts share it. Data fall from run to fused, to apart, to tell and ladder, to compute. */
#ifndef RDT_PLAN_RUN_H
#define RDT_PLAN_RUN_H

#include "check/verdict.h"
#include "plan/cores.h"

/* result, spare, third share shape and strides: the raw result of a linear op, the result of a
 * duplicated one. */
typedef struct rdt_run {
  rdt_plan *p;
  const rdt_operands *o;
  rdt_tensor buf[3];    /* by rdt_buffer; spare and third get memory when first used */
  bool inputs_restored; /* by the ladder: the whole result may be wrong */
  bool know_clean;      /* a fault is armed, and clean is the result without it: spare, until somebody needs that */
  bool booked;          /* what the fault did to the first result */
  rdt_tensor clean;
  bool raw_is_out; /* buf[RESULT] is the caller's memory: no epilogue, or one in place */
  bool settled;    /* what the checks found has been dealt with */
  rdt_findings found;
  rdt_strike strike; /* planted in the checks */
  rdt_ruling ruling; /* decides what res->verdict is in the end */
  rdt_where where;
  rdt_result *res;
  double started, check, checking; /* checking: since when what is left of the run is its check; 0: it is not */
  rdt_reason *why;
} rdt_run;

/* run_compute.c */
/* The buffer gets memory. */
rdt_status rdt_run_buffer(rdt_run *r, rdt_buffer which);
/* Operands of the kernel for a raw result in that buffer. */
rdt_operands rdt_run_raw(const rdt_run *r, rdt_buffer which);
/* The raw result into a buffer, shares noted; the same by the plan's kernel or on the other path. */
rdt_status rdt_run_noting(rdt_run *r, rdt_buffer into, rdt_shares *s, rdt_reason *why);
rdt_status rdt_run_compute(void *self, rdt_buffer into, bool other_path, rdt_reason *why);
bool rdt_run_armed(const rdt_run *r); /* a fault waits to be planted */
rdt_status rdt_run_plant_at_rest(rdt_run *r);
/* Where an armed fault may strike: whichever copy; the result that counts. */
rdt_status rdt_run_struck(rdt_run *r, rdt_buffer into, rdt_shares *s);
rdt_status rdt_run_first(rdt_run *r);
/* For the ladder: the same code path, other cores, the cores that there are. */
rdt_status rdt_run_again(void *self, rdt_buffer into, bool other_path, rdt_reason *why);
rdt_status rdt_run_elsewhere(void *self, rdt_buffer into, const int *cores, int n, rdt_reason *why);
int rdt_run_cores(void *self, int *list, int room, int *suspect);
/* Both copies of a duplicated op; the second one alone. */
rdt_status rdt_run_twice(rdt_run *r);
rdt_status rdt_run_second(rdt_run *r, rdt_reason *why);

/* run_slices.c */
typedef enum rdt_slices_found { RDT_SLICES_CANNOT, RDT_SLICES_ALIKE, RDT_SLICES_DIFFER } rdt_slices_found;
/* Both copies, compared slice by slice, and the sum of the result if it is the output; the second copy is not kept. */
rdt_status rdt_run_slices(rdt_run *r, rdt_slices_found *found);

/* run_thrice.c */
/* All three copies, each element on other cores each time; they do not agree: who is right? */
rdt_status rdt_run_thrice(rdt_run *r);
rdt_status rdt_run_elect(rdt_run *r, rdt_recovered *v);

/* run_ladder.c */
/* Data at rest: what no check covers at every use, or all. */
rdt_status rdt_run_secure_some(rdt_run *r, bool all, rdt_rest *rest, rdt_reason *why);
rdt_status rdt_run_secure(void *self, rdt_rest *rest, rdt_reason *why);
/* Row-major number of an element of a packed tensor by its place in memory; the value by that number. */
int64_t rdt_run_logical(const rdt_tensor *t, int64_t memory);
double rdt_run_value(const rdt_tensor *t, int64_t logical);
rdt_recovery rdt_run_recovery(rdt_run *r);
rdt_status rdt_run_check(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why);

/* run_tell.c */
/* For rdt_run_tell(): the core that has computed what is at the event's place. */
enum { RDT_CORE_OF_PLACE = -2 };
/* An event, the verdict and the counters of what was found. */
void rdt_run_tell(rdt_run *r, rdt_event_kind kind, const rdt_recovered *v);
void rdt_run_tell_found(rdt_run *r, rdt_verdict verdict, rdt_diagnosis diagnosis, const char *what);
void rdt_run_tell_checker(rdt_run *r, rdt_verdict verdict, const char *what);
bool rdt_run_repairs(const rdt_plan *p);

/* run_apart.c */
/* Result and checks; do the two ways of the checks agree; a planted fault in the counters; the two copies once more. */
rdt_status rdt_run_apart(rdt_run *r);
bool rdt_run_agree(rdt_run *r);
void rdt_run_plant_counter(rdt_run *r, bool late);
rdt_status rdt_run_compare(rdt_run *r);

/* run_fused.c */
/* Result and checks in one; what follows a complaint. */
rdt_status rdt_run_fused(rdt_run *r);
rdt_status rdt_run_settle(rdt_run *r, bool differ);

#endif
