/* Which faults a campaign plants, and how often: a table that users can replace (docs/schema/mix-1.json). */
#ifndef RDT_CAMPAIGN_MIX_H
#define RDT_CAMPAIGN_MIX_H

#include <cjson/cJSON.h>

#include "core/error.h"
#include "inject/fault.h"

enum { RDT_MIX_ROWS = 64, RDT_MIX_TEXT = 200 };

typedef struct rdt_mix_row {
  char text[RDT_MIX_TEXT]; /* a fault without its site ("burst:4"), or with it and more ("bit:30@accum,core=1") */
  double share;            /* of all, in any unit */
  bool sited;              /* it names its site */
} rdt_mix_row;

typedef struct rdt_mix {
  rdt_mix_row faults[RDT_MIX_ROWS];
  int n_faults;
  double sites[RDT_SITE_COUNT]; /* shares of the sites for faults that name none */
} rdt_mix;

/* Where a target can be hit. */
typedef struct rdt_spot {
  int layer;
  rdt_site site;
} rdt_spot;

/* Single bits below 40 %, NaN and Inf 1 %, as gate-level studies find; every site alike. */
void rdt_mix_default(rdt_mix *m);
/* One fault: KIND@SITE[,...]. A seed in it stays the same in all trials. */
rdt_status rdt_mix_one(const char *spec, rdt_mix *m, rdt_reason *why);
/* Such a table as JSON; path for messages. */
rdt_status rdt_mix_parse(const char *text, size_t bytes, const char *path, rdt_mix *m, rdt_reason *why);
cJSON *rdt_mix_json(const rdt_mix *m);    /* NULL: no memory */
bool rdt_mix_hits_data(const rdt_mix *m); /* any of its faults, at any of its sites; else what checks alone */
/* The fault of trial id of a campaign with this seed, for one of the spots; names: of the layers. RDT_ERR_ARG where
 * no spot is of a site with a share. */
rdt_status rdt_mix_draw(const rdt_mix *m, uint64_t seed, int64_t id, const rdt_spot *spots, int n,
                        const char *const *names, char *spec, size_t size, rdt_reason *why);

#endif
