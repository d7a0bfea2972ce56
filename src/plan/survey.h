/* The layers of a network, or of a workload, as problems: what there is to measure and to choose. */
#ifndef RDT_PLAN_SURVEY_H
#define RDT_PLAN_SURVEY_H

#include <redoubt/model.h>

#include "plan/profile.h"
#include "plan/workloads.h"

typedef struct rdt_surveyed {
  char name[128], label[96];
  rdt_problem prob; /* without data; fixed weights are rdt_weights_to_come */
  int64_t times;    /* how often it occurs */
  const char *idle; /* nothing is left to compute: "view", "folded"; NULL: something is */
  int same; /* number of the first layer that is the same product or convolution; its own where it is the first */
} rdt_surveyed;

typedef struct rdt_survey {
  rdt_surveyed *list;
  int n;
  bool cold; /* its weights do not stay in the caches */
} rdt_survey;

/* Copies p; weights without data are taken as the run's, unless fixed. */
rdt_status rdt_survey_add(rdt_survey *s, const char *name, const char *label, const rdt_problem *p, bool fixed,
                          int64_t times);
rdt_status rdt_survey_workload(rdt_survey *s, const rdt_workload *w, int64_t batch, rdt_dtype dtype, rdt_reason *why);
void rdt_survey_free(rdt_survey *s);
typedef struct rdt_survey_watch {
  rdt_timing_progress_fn progress; /* asked before each sample; NULL: nobody */
  rdt_progress_fn each;            /* told before each problem that is measured; NULL: nobody */
  void *user;
  double seconds; /* that all of it may take, some; 0: as long as it takes */
  bool brief;     /* as rdt_profile.brief */
} rdt_survey_watch;
/* What measuring what the book does not know is given where nobody says: enough on a quiet machine. */
double rdt_survey_patience(const rdt_context *ctx, const rdt_survey *s);
/* Measures each distinct product and convolution that the context's book does not know, and puts it there; *measured is
 * how many those were. RDT_ERR_CANCELLED: what was measured until then is kept. */
rdt_status rdt_survey_measure(rdt_context *ctx, const rdt_survey *s, const rdt_survey_watch *w, int *measured);
bool rdt_context_has_choices(const rdt_context *ctx); /* as plan files have, and what was measured has not */
/* Of products and convolutions, each as often as it occurs: those that the context's book has a choice for, and those
 * where that is what is taken. */
typedef struct rdt_planned {
  int64_t all, known, taken;
  char other[RDT_SCHEME_TEXT]; /* scheme of a choice that is not taken; "": there is none */
} rdt_planned;
void rdt_planned_add(rdt_planned *x, const rdt_context *ctx, const rdt_problem *p, int64_t times);
rdt_planned rdt_survey_planned(rdt_context *ctx, const rdt_survey *s);
/* RDT_ERR_UNSUPPORTED where nothing of the plan file is taken: it would be passed over in silence. */
rdt_status rdt_planned_fits(const rdt_planned *x, const char *plan, rdt_reason *why);
/* Chooses for layer i as a plan in a network would, or by estimates whatever was measured (the offers have times all
 * the same). */
void rdt_survey_choose(rdt_context *ctx, const rdt_survey *s, int i, bool measured, rdt_offers *o);
/* Writes the choice down in the context's book. RDT_ERR_NOMEM */
rdt_status rdt_survey_note(rdt_context *ctx, const rdt_survey *s, int i, const rdt_offers *o);

rdt_status rdt_context_book(rdt_context *ctx, rdt_book **b); /* the context's, made where there is none */

#endif
