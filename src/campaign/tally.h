/* What came of many trials, counted in every way that is asked for. */
#ifndef RDT_CAMPAIGN_TALLY_H
#define RDT_CAMPAIGN_TALLY_H

#include "campaign/trial.h"
#include "core/stats.h"

typedef struct rdt_count {
  int64_t fate[RDT_FATE_COUNT], effect[RDT_EFFECT_COUNT];
  int64_t missed, uncovered; /* above the floor and not noticed: inside a claim, outside */
  int64_t cancelled;         /* inside a claim and still there: no check's sum is beyond the floor, single errors are */
  int64_t claimed;           /* planted inside a claim */
} rdt_count;
int64_t rdt_count_planted(const rdt_count *c);
int64_t rdt_count_noticed(const rdt_count *c); /* corrected, computed again, detected */
int64_t rdt_count_silent(const rdt_count *c);  /* SDC, critical or not */
/* Not masked: what noticed faults would have done nobody knows. Coverage is the share of these that was noticed. */
int64_t rdt_count_dangerous(const rdt_count *c);
int64_t rdt_count_above(const rdt_count *c); /* above the floor */

/* Effects by their size in floors: below 10^-3, a bucket each decade up to 10^6, beyond; where there is no floor. */
enum { RDT_SIZES = 12, RDT_SIZE_NO_FLOOR = RDT_SIZES - 1 };
int rdt_size_of(const rdt_trial *t);
void rdt_size_text(int size, char *buf, size_t room);

/* Ratios residual / bound: half-decades... a tenth of a decade each from 10^-4 to 10^8, clamped. */
enum { RDT_RATIO_BINS = 120, RDT_RATIO_LOW = -4, RDT_RATIO_DECADE = 10 };
int rdt_ratio_bin(double ratio); /* -1: 0, or none */

typedef struct rdt_layer_count {
  char name[128], scheme[24];
  rdt_count count;
  int64_t runs, checks, suspects, reports; /* without a fault, where layers run alone */
  bool no_rate; /* of its family of data lambda states no share of suspects: partial sums cancel, columns repeat */
} rdt_layer_count;

enum { RDT_BITS = 65 }; /* the last: several values, or not known */
enum { RDT_TALLY_FAILURES = 20 };
typedef struct rdt_tally {
  int64_t trials;
  double lambda; /* of its checks; 0: not known */
  /* Faults in data, and those in what checks them: in the latter nothing can be missed, so shares are of the former. */
  rdt_count data, checker, site[RDT_SITE_COUNT];
  rdt_count kind[RDT_FAULT_KIND_COUNT], bit[RDT_BITS], size[RDT_SIZES]; /* of data; so are those of layers */
  rdt_layer_count *layers;
  int n_layers;
  int64_t checks, suspects, reports, unchecked, differing;           /* reports, differing: of runs without a fault */
  int64_t clean;                                                     /* runs without a fault */
  int64_t ratio_clean[RDT_RATIO_BINS], ratio_faulty[RDT_RATIO_BINS]; /* of faults above the floor */
  double floor_least, floor_most;                                    /* of layers that were hit in a sum; 0 0: none */
  double rebuilt_worst, rebuilt_bound; /* of rebuilt results: error in units of the stated bound; the largest bound */
  int64_t failed;
  rdt_trial failures[RDT_TALLY_FAILURES]; /* the first of them */
  bool has_miss;
  rdt_trial miss; /* the worst that nobody noticed: claimed before not, SDC before masked, then by size in floors */
} rdt_tally;

/* The layers of a network in their order, from the head of a campaign: so they are counted, and not as they are hit;
 * and its lambda. */
rdt_status rdt_tally_expect(rdt_tally *t, const cJSON *head, rdt_reason *why);
rdt_status rdt_tally_add(rdt_tally *t, const rdt_trial *trial, bool repairs, rdt_reason *why);
rdt_count rdt_tally_all(const rdt_tally *t); /* faults wherever they struck */
/* Nothing was hit, or no check was made where no fault was to be: there is nothing that it could say. */
bool rdt_tally_mute(const rdt_tally *t);
void rdt_tally_clear(rdt_tally *t);

#endif
