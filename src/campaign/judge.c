/* From what a run came to, how its trial ended. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/target.h"

static rdt_effect effect_of(const rdt_injection *hit, double floor, bool same) {
  const bool unknown = hit->changed < 0; /* nobody has compared the raw results */
  if (hit->changed == 0 && !rdt_site_checks(hit->site)) return RDT_EFFECT_NONE;
  if (unknown && same && (hit->site == RDT_SITE_ACCUM || hit->error == 0.0)) return RDT_EFFECT_NONE;
  if (!(hit->weighted <= floor)) return RDT_EFFECT_ABOVE;
  return hit->error <= floor ? RDT_EFFECT_BELOW : RDT_EFFECT_CANCELLED;
}

/* Of several faults in one run: some were noticed, and what is still there cancels in every sum that a check compares.
 * No check could have seen those, whether or not another one had something to notice: they count as if they had been
 * alone. */
static bool left_cancelled(const rdt_shot *s) {
  const rdt_injection *hit = &s->hit;
  return hit->left > hit->stated && hit->left_weighted <= s->floor;
}

/* harmless: what it is called where nothing of the result is further off than rounding can be */
static rdt_fate silent_fate(const rdt_shot *s, rdt_fate harmless) {
  return s->wrong == 0 ? harmless : s->critical ? RDT_FATE_CRITICAL : RDT_FATE_SDC;
}

static rdt_fate fate_of(const rdt_shot *s, bool noticed) {
  const rdt_injection *hit = &s->hit;
  const bool stated = !(hit->left >= 0.0) || hit->left <= hit->stated;
  if (s->status == RDT_ERR_FAULT) return RDT_FATE_DETECTED;
  if (s->status != RDT_OK) return RDT_FATE_DUE;
  if (noticed && hit->alike && !s->same) return RDT_FATE_OUTVOTED;
  if (noticed && left_cancelled(s)) return silent_fate(s, hit->rebuilt ? RDT_FATE_CORRECTED : RDT_FATE_RECOMPUTED);
  if (noticed && hit->rebuilt) return stated ? RDT_FATE_CORRECTED : RDT_FATE_MISCORRECTED;
  const bool small = hit->site == RDT_SITE_RECOVERY && hit->error <= s->floor_clean; /* let go */
  if (noticed && (s->same || small || (hit->left >= 0.0 && stated))) return RDT_FATE_RECOMPUTED;
  if (noticed || (rdt_site_checks(hit->site) && !s->same)) return RDT_FATE_MISCORRECTED;
  return silent_fate(s, RDT_FATE_MASKED);
}

static void name_layer(const rdt_target_layer *l, rdt_trial *t) {
  snprintf(t->layer, sizeof t->layer, "%s", l ? l->name : "");
  snprintf(t->scheme, sizeof t->scheme, "%s", l ? l->scheme : "");
}

static void judge_clean(const rdt_shot *s, rdt_trial *t) {
  t->noticed = s->faults > 0 || s->status == RDT_ERR_FAULT;
  t->fate = s->status == RDT_ERR_FAULT ? RDT_FATE_DETECTED
            : s->wrong > 0 || !s->same ? RDT_FATE_SDC
            : t->noticed               ? RDT_FATE_RECOMPUTED
                                       : RDT_FATE_MASKED;
}

void rdt_trial_judge(const rdt_target *target, const rdt_shot *s, rdt_trial *t) {
  const rdt_target_layer *layer = s->layer >= 0 ? &target->layers[s->layer] : NULL;
  const rdt_injection *hit = &s->hit;
  t->verdict = s->verdict;
  t->diagnosis = s->diagnosis;
  t->checks = s->checks;
  t->suspects = s->suspects;
  t->faults = s->faults;
  t->unchecked = s->unchecked;
  t->ratio = s->ratio;
  t->residual = s->residual;
  t->bound = s->bound;
  t->floor = s->floor;
  t->wrong = s->wrong;
  t->changed = -1;
  t->left = t->stated = -1.0;
  t->bit = -1;
  if (strcmp(t->spec, "none") == 0) {
    name_layer(layer, t);
    judge_clean(s, t);
    return;
  }
  t->fate = RDT_FATE_ABSENT;
  if (!hit->done) return;
  /* Bits that are compared, and data that have sums, have no floor. */
  const bool sums = hit->site == RDT_SITE_ACCUM || hit->site == RDT_SITE_WEIGHT || hit->site == RDT_SITE_PACKED;
  if (!sums) t->floor = 0.0;
  if (hit->site == RDT_SITE_RECOVERY) t->floor = s->floor_clean; /* not of the result that gave it a reason */
  t->noticed = s->faults > 0 || s->status == RDT_ERR_FAULT;
  t->site = hit->site;
  t->bit = hit->bit;
  t->error = hit->error;
  t->weighted = isnan(hit->weighted) ? INFINITY : hit->weighted;
  t->changed = hit->changed;
  t->left = hit->left >= 0.0 ? hit->left : -1.0;
  t->stated = hit->rebuilt ? hit->stated : -1.0;
  t->fate = fate_of(s, t->noticed);
  if (t->fate == RDT_FATE_OUTVOTED) t->noticed = false; /* what was noticed is the copy that was right */
  t->effect = t->fate == RDT_FATE_DUE           ? RDT_EFFECT_ABOVE
              : t->noticed && left_cancelled(s) ? RDT_EFFECT_CANCELLED
                                                : effect_of(hit, t->floor, s->same);
  if (rdt_site_checks(hit->site) && t->fate == RDT_FATE_MASKED) t->effect = RDT_EFFECT_NONE; /* no datum was touched */
  const bool twice_wrong = layer && layer->one_core && strstr(t->spec, ",core=");
  t->claimed = layer && rdt_scheme_claims(layer->info, hit->site) && !twice_wrong && !hit->alike;
  name_layer(layer, t);
  if (!layer) snprintf(t->layer, sizeof t->layer, "%s", hit->node);
  snprintf(t->did, sizeof t->did, "%.*s%s%s", (int)(sizeof t->did - sizeof s->ended - 2), hit->text,
           *s->ended ? "; " : "", s->ended);
}
