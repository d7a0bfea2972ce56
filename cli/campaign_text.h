/* What a campaign came to, for people: `redoubt inject` and `redoubt report`. */
#ifndef RDT_CLI_CAMPAIGN_TEXT_H
#define RDT_CLI_CAMPAIGN_TEXT_H

#include "campaign/tally.h"

/* Tables by site and layer (all: by kind, bit and size too), and the sentences. false: no memory. */
bool rdt_campaign_put(const rdt_tally *t, bool repairs, bool markdown, bool all, double fit);
/* The story of one trial. */
void rdt_trial_tell(const rdt_trial *t, bool repairs);

#endif
