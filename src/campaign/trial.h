/* A trial: one fault (or none) in one run, and how it ended. One line of a campaign's file. */
#ifndef RDT_CAMPAIGN_TRIAL_H
#define RDT_CAMPAIGN_TRIAL_H

#include <cjson/cJSON.h>
#include <redoubt/context.h>

#include "core/error.h"
#include "inject/fault.h"

typedef enum rdt_fate {
#define X(id, name, noticed, text) RDT_FATE_##id,
#include "campaign/fates.def"
#undef X
  RDT_FATE_COUNT
} rdt_fate;
const char *rdt_fate_name(rdt_fate f);
const char *rdt_fate_text(rdt_fate f);
bool rdt_fate_noticed(rdt_fate f);

/* What the fault did, as the checks of its layer could see it: the weighted sum of its true errors in the raw result
 * against the detection floor (0 where bits are compared). */
typedef enum rdt_effect {
  RDT_EFFECT_NONE,      /* no bit of the raw result is another one */
  RDT_EFFECT_BELOW,     /* no error is larger than the floor */
  RDT_EFFECT_CANCELLED, /* some are, one by one, but their weighted sums are not; of several faults: of what is left */
  RDT_EFFECT_ABOVE,
  RDT_EFFECT_COUNT
} rdt_effect;
const char *rdt_effect_name(rdt_effect e);

typedef struct rdt_trial {
  int64_t id;
  char spec[256]; /* "none": nothing was planted */
  rdt_fate fate;
  rdt_effect effect;
  bool noticed, claimed; /* claimed: the layer's scheme says that it covers this site */
  rdt_site site;
  rdt_fault_kind kind;
  int bit;         /* the highest that was flipped; -1 none, or not known */
  char layer[128]; /* "" where nothing was hit */
  char scheme[24]; /* of that layer */
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  double error, weighted, floor; /* not finite: beyond all numbers, or not known */
  double ratio, residual, bound; /* of the worst check of that layer (of the run, where nothing was hit) */
  double left, stated;           /* of rebuilt results: what is left, and the bound that was stated; -1 */
  int64_t changed, wrong;        /* elements: of the raw result, -1 not known; of the output, beyond rounding */
  int64_t checks, suspects, faults, unchecked; /* of the whole run */
  char did[320];                               /* in words */
} rdt_trial;

/* A miss: above the floor, and nobody noticed. */
bool rdt_trial_missed(const rdt_trial *t);
/* Does it fail the campaign? repairs: who found a fault was asked to repair it. */
bool rdt_trial_fails(const rdt_trial *t, bool repairs);
/* "missed inside a claim", ...: why it fails, or "" */
const char *rdt_trial_reproach(const rdt_trial *t, bool repairs);

/* One line of JSON without its line break (cJSON_free); NULL: no memory. */
char *rdt_trial_print(const rdt_trial *t);
/* Such a line from a file: RDT_ERR_FORMAT with what is wrong in it. */
rdt_status rdt_trial_parse(const char *line, size_t bytes, rdt_trial *t, rdt_reason *why);

#endif
