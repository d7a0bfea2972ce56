/* A tally as a document: docs/schema/coverage-2.json. */
#ifndef RDT_CAMPAIGN_SUMMARY_H
#define RDT_CAMPAIGN_SUMMARY_H

#include "campaign/tally.h"

/* The confidence of every interval. */
#define RDT_CONFIDENCE 0.95

/* Shares of dangerous faults that a safety standard asks to be noticed (ISO 26262-5, diagnostic coverage). */
typedef struct rdt_standard {
  const char *name; /* "ASIL B" */
  double share;
} rdt_standard;
enum { RDT_STANDARDS = 3 };
extern const rdt_standard rdt_standards[RDT_STANDARDS];

typedef struct rdt_counted {
  double at; /* NaN: of nothing */
  rdt_interval in;
} rdt_counted;
rdt_counted rdt_count_coverage(const rdt_count *c); /* noticed, of those that were not masked */
rdt_counted rdt_count_sdc(const rdt_count *c);      /* silent corruptions, of all that were planted */

/* The rate of silent corruptions is known to this half width of its interval; until 0: never. */
bool rdt_summary_enough(const rdt_tally *t, double until);
/* All trials that its head asks for are counted, or as many as --until-ci takes. */
bool rdt_summary_whole(const cJSON *head, const rdt_tally *t);

/* What a campaign says. Not PASS: nothing that was hit is claimed (an unprotected run); nothing was hit or checked. */
typedef enum rdt_judgement { RDT_JUDGED_PASS, RDT_JUDGED_FAIL, RDT_JUDGED_UNCLAIMED, RDT_JUDGED_MUTE } rdt_judgement;
rdt_judgement rdt_summary_judge(const rdt_tally *t);
const char *rdt_judgement_name(rdt_judgement j); /* "PASS", "FAIL", "NO CLAIM", "NO VERDICT" */

/* What injected coverage is not. */
extern const char rdt_campaign_caveat[];

/* head: of the campaign (its members are copied); fit: raw faults in 10^9 hours, 0: not given. NULL: no memory. */
cJSON *rdt_summary_json(const cJSON *head, const rdt_tally *t, double fit, bool repairs);

#endif
