/* A verdict while it is being found: kept in three encodings, each raised on its own. Two against one are believed, so
 * that no single fault makes a bad verdict good, or a good one bad, without being seen. */
#ifndef RDT_CHECK_VERDICT_H
#define RDT_CHECK_VERDICT_H

#include <redoubt/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rdt_ruling {
  uint32_t plain, inverted; /* the worst so far; its complement */
  uint32_t told;            /* one bit for each verdict that was raised */
} rdt_ruling;

rdt_ruling rdt_ruling_clean(void);
void rdt_ruling_raise(rdt_ruling *r, rdt_verdict v); /* the worst of all counts */
/* *hit: the encodings do not agree; DETECTED where no two do. Then all are as read. */
rdt_verdict rdt_ruling_read(rdt_ruling *r, bool *hit);

#endif
