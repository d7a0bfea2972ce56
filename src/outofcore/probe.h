/* What a second of loading, storing, multiplying and checking brings here: the predicted time line goes by it. */
#ifndef RDT_OUTOFCORE_PROBE_H
#define RDT_OUTOFCORE_PROBE_H

#include "outofcore/splits.h"

/* From the begin of A and of what will be C (may be NULL: as loads), and from a small product; within room bytes. */
rdt_status rdt_rates_measure(const rdt_task *t, const rdt_matrix *a, const rdt_matrix *c, size_t room, rdt_rates *out,
                             rdt_reason *why);

#endif
