/* What a problem may be planned as: every kernel with every scheme that serves it, and why the others cannot. */
#ifndef RDT_PLAN_OFFERS_H
#define RDT_PLAN_OFFERS_H

#include "cpu/kernel.h"
#include "plan/coverage.h"
#include "plan/timing.h"
#include "schemes/scheme.h"

/* One way to compute and check a problem. */
typedef struct rdt_way {
  const rdt_kernel *kernel;
  const rdt_scheme_info *scheme;
  int sets;    /* of independent checks */
  bool fused;  /* the check rides along in the kernel; else in passes of its own */
  bool finish; /* unprotected, but the kernel takes no such epilogue: it follows apart */
} rdt_way;

enum { RDT_MOST_OFFERS = 128, RDT_OFFER_TEXT = 200 };

typedef struct rdt_offer {
  rdt_way way;              /* kernel or scheme NULL: whatever it is */
  bool refused;             /* it cannot be made */
  bool eligible;            /* it may be chosen */
  double estimate;          /* seconds, by what is known of kernels and checks (plan/estimate.h); NaN: nothing is */
  double cost;              /* of that what is above the least unprotected one, as a share of it; NaN: not known */
  rdt_timing_samples times; /* measured; n = 0: it was not */
  char text[RDT_OFFER_TEXT];
} rdt_offer;

typedef struct rdt_offers {
  int n, taken;  /* -1: none */
  bool words;    /* texts are wanted: why each was taken, lost, or refused */
  bool measured; /* the choice rests on measurements */
  rdt_offer list[RDT_MOST_OFFERS];
} rdt_offers;

/* What is asked of a choice. */
typedef struct rdt_demand {
  const rdt_scheme_info *wanted; /* NULL: auto */
  int sets;
  double min_coverage;
  const rdt_coverage *coverage;    /* measured; NULL: declared */
  bool keep;                       /* raw results are kept: no check rides along (RDT_ON_FAULT_CORRECT) */
  bool permanent;                  /* a core that is wrong every time must not matter */
  bool cold;                       /* weights come from memory */
  const struct rdt_device *device; /* estimates are for; NULL: a usual one */
} rdt_demand;

struct rdt_context;
rdt_demand rdt_demand_of(const struct rdt_context *ctx, const char *scheme);

/* Pairs in the order of the tables, those whose check rides along first; before them the kernels and schemes that
 * refuse as such. p: data of in[1] of a linear op set: fixed weights. */
void rdt_offers_list(const rdt_problem *p, rdt_isa isa, const rdt_demand *d, rdt_offers *o);

/* decide.c: marks who may be chosen, and chooses: by times where there are any, else by estimates. Looks at nothing but
 * its arguments. taken stays -1 where nobody may be. */
void rdt_offers_decide(const rdt_problem *p, const rdt_demand *d, rdt_offers *o);
/* The raw result of a linear op, as kernels leave it for a check: without data. */
rdt_tensor rdt_raw_view(const rdt_problem *p);
bool rdt_way_same(const rdt_way *a, const rdt_way *b);

#endif
