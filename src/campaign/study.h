/* Several campaigns side by side: what `redoubt report DIR...` shows. Shards of one campaign are one. */
#ifndef RDT_CAMPAIGN_STUDY_H
#define RDT_CAMPAIGN_STUDY_H

#include <stdio.h>

#include "campaign/campaign.h"
#include "campaign/summary.h"

typedef struct rdt_found {
  cJSON *head;
  rdt_tally tally;
  bool repairs, clean;
  char label[160]; /* what tells it from the others: scheme, and target where they differ */
  int64_t n_shards;
  unsigned char *shards; /* a bit for each that is there */
  bool whole;            /* all trials that were asked for are there; label says where not */
  char dir[256];         /* the first folder */
} rdt_found;

enum { RDT_MOST_FOUND = 64 };
typedef struct rdt_study {
  rdt_found list[RDT_MOST_FOUND];
  int n;
  double fit; /* raw faults of the hardware in 10^9 hours, from elsewhere; 0: not given */
} rdt_study;

/* Adds a folder. RDT_ERR_ARG where its trials are in there already. */
rdt_status rdt_study_add(rdt_study *s, const char *dir, rdt_reason *why);
void rdt_found_shards(const rdt_found *f, char *buf, size_t size); /* "1-3 7 of 8" */
/* "shards 1-3 7 of 8, 400 of 1000 trials": of what its numbers are, where they are not of the whole; "" */
const char *rdt_found_part(const rdt_found *f, char *buf, size_t size);
void rdt_study_name(rdt_study *s); /* labels, when all are there */
void rdt_study_clear(rdt_study *s);

/* The command that shows a trial again. */
void rdt_found_again(const rdt_found *f, int64_t id, char *buf, size_t size);
double rdt_found_overhead(const rdt_found *f); /* seconds over those without protection, less 1; NaN: not measured */
/* The campaign without protection beside it: the same faults in the same target, whatever the seed. NULL: there is
 * none; *differs: what is another thing in the one of that target, NULL where none is of it. */
const rdt_found *rdt_study_unprotected(const rdt_study *s, const rdt_found *f, const char **differs);

/* study_head.c: RDT_ERR_FORMAT where a head lacks what counting its trials takes; dir for messages */
rdt_status rdt_study_head(const cJSON *head, const char *dir, rdt_reason *why);

/* plots.c: picture i as an SVG text (free), with a name for its file; *text NULL: there is nothing to show. */
enum { RDT_STUDY_PLOTS = 8 };
const char *rdt_study_plot_name(int i);
const char *rdt_study_plot_caption(int i);
rdt_status rdt_study_plot(const rdt_study *s, int i, char **text, rdt_reason *why);

/* study_coverage.c: what the campaigns say of schemes, as a file that plans go by. RDT_ERR_ARG: nothing. */
rdt_status rdt_study_coverage(const rdt_study *s, const char *path, rdt_reason *why);

/* study_text.c, study_page.c */
bool rdt_study_markdown(const rdt_study *s, FILE *to);
bool rdt_study_csv(const rdt_study *s, FILE *to);
rdt_status rdt_study_page(const rdt_study *s, char **text, rdt_reason *why); /* free */

#endif
