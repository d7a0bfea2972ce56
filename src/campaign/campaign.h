/* A campaign: trials in child processes, in the order of their numbers into one file, counted. A trial is a function of
 * (seed, number) and the target: whoever runs it gets the same line. */
#ifndef RDT_CAMPAIGN_CAMPAIGN_H
#define RDT_CAMPAIGN_CAMPAIGN_H

#include "campaign/folder.h"
#include "campaign/tally.h"
#include "campaign/target.h"

enum { RDT_MOST_JOBS = 256 };

typedef struct rdt_campaign {
  const char *target;
  rdt_mix mix;
  bool clean; /* nothing is planted */
  int64_t trials;
  int64_t seed;
  int64_t only;      /* >= 0: this trial alone */
  int shard, shards; /* of those with (number mod shards) = shard - 1 */
  int jobs;          /* child processes */
  double until;      /* > 0: stop when the 95 % interval of the SDC rate is no wider than twice this */
  double patience;   /* seconds that a trial may take, at least; 0: 30 */
  bool repairs;      /* who finds a fault is asked to repair it */
  bool timed;        /* measure what protection costs */
  const char *dir;   /* where the trials are kept; NULL: nowhere */
  bool resume;
  /* In a child process: makes the target; when its trials are over. Threads may be started there, and only there. */
  rdt_status (*open)(void *user, rdt_target **out, rdt_reason *why);
  rdt_status (*close)(void *user, cJSON **cores, rdt_reason *why); /* cores: counters, as rdt_report_cores; or NULL */
  /* In a child: a trial's own run begins, and has ended; around it are those that prepare it. NULL: nobody asks. */
  void (*watch)(void *user, bool runs);
  /* In the parent, several times a second; false: stop. */
  bool (*progress)(void *user, int64_t done, int64_t all);
  void *user;
  /* what it came to */
  cJSON *head; /* what the caller says about it beforehand; then docs/schema/campaign-1.json */
  rdt_tally tally;
  rdt_trial last; /* the last one that was run */
  cJSON *cores;   /* counters of the cores, over all processes; NULL: none has told */
  int replaced;   /* processes that ended between two trials: no result was lost, and no trial can be blamed */
  bool same;      /* with only: the line in the folder, if there is one (kept), is the same */
  bool kept;
} rdt_campaign;

/* Errors: RDT_ERR_CANCELLED progress said so; RDT_ERR_IO; RDT_ERR_FORMAT a folder of something else; whatever open and
 * the runs say. */
rdt_status rdt_campaign_run(rdt_campaign *c, rdt_reason *why);
/* The first member in which two heads differ so that their trials cannot be counted together; NULL: none. */
const char *rdt_campaign_differs(const cJSON *a, const cJSON *b);
void rdt_campaign_clear(rdt_campaign *c);

int64_t rdt_campaign_count(const rdt_campaign *c);             /* trials of this shard */
int64_t rdt_campaign_id(const rdt_campaign *c, int64_t index); /* number of its index-th */
/* In a child: one trial. spec: where it is written down before it begins. */
rdt_status rdt_campaign_shoot(const rdt_campaign *c, rdt_target *t, int64_t id, char spec[256], rdt_trial *trial,
                              rdt_reason *why);
/* {"layers": ..., "inputs": ..., "seconds": ...}: what a child knows of its target; NULL: no memory */
cJSON *rdt_campaign_describe(const rdt_campaign *c, rdt_target *t, bool timed, rdt_reason *why);

/* workers.c: child processes that take the next number, and a watchdog */
typedef struct rdt_workers_calls {
  /* seconds: of a run without a fault */
  rdt_status (*described)(void *self, const char *json, size_t bytes, double *seconds, rdt_reason *why);
  /* In the order of the trials. enough: no more of them. */
  rdt_status (*done)(void *self, int64_t index, const char *line, size_t bytes, bool *enough, rdt_reason *why);
  /* The process ended well; the process ended in this trial, or was ended because it hung: its line (cJSON_free); NULL:
   * no memory. */
  void (*ended)(void *self, const char *json, size_t bytes); /* a list of counters of the cores, or "" */
  char *(*died)(void *self, int64_t index, const char *spec, const char *how);
  void (*replaced)(void *self); /* the process ended between two trials, and another one goes on */
} rdt_workers_calls;
/* Trials from index first to end - 1 of c. */
rdt_status rdt_workers_run(const rdt_campaign *c, int64_t first, int64_t end, const rdt_workers_calls *calls,
                           void *self, rdt_reason *why);

#endif
