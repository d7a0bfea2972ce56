/* Events on their way to whoever watches many machines: a file with one JSON object a line (docs/schema/event-1.json),
 * and syslog. */
#ifndef RDT_REPORT_JOURNAL_H
#define RDT_REPORT_JOURNAL_H

#include <cjson/cJSON.h>
#include <redoubt/context.h>
#include <stdbool.h>

#include "core/error.h"

typedef struct rdt_journal {
  const char *path, *model; /* path NULL: no file */
  int fd;
  bool syslog;
  bool torn; /* the file does not end with a line break: the next line begins with one */
  char host[256], cpu[128], microcode[32];
  int64_t run;       /* which run events belong to */
  const char *fault; /* the spec of what is planted in it; NULL: nothing */
  uint64_t seed;     /* of the spec */
  rdt_status status; /* of the writes: the first that failed, and why */
  rdt_reason why;
} rdt_journal;

/* path (NULL: none) is appended to. Strings must live as long as the journal. Errors: RDT_ERR_IO. */
rdt_status rdt_journal_open(rdt_journal *j, const char *path, bool to_syslog, const char *model, rdt_reason *why);
/* The spec that is planted in the runs to come; NULL: none. */
void rdt_journal_plant(rdt_journal *j, const char *spec);
/* One line, by one write: a process that is killed leaves whole lines. What fails is kept in status and why. */
void rdt_journal_add(rdt_journal *j, const rdt_event *e);
/* syslog's last word where there were faults. */
void rdt_journal_sum(const rdt_journal *j, int64_t runs, int64_t faults, rdt_verdict worst);
void rdt_journal_close(rdt_journal *j);

cJSON *rdt_journal_line(const rdt_journal *j, const rdt_event *e); /* NULL: out of memory */
int rdt_event_priority(const rdt_event *e);                        /* of syslog */
void rdt_event_json(cJSON *o, const rdt_event *e);                 /* adds what the event itself tells */
const char *rdt_event_kind_name(rdt_event_kind k);                 /* "suspect" */
const char *rdt_event_action(const rdt_event *e);                  /* what was done: "recomputed"; see the schema */

#endif
