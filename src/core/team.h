/* Can a team of threads be made at all? OpenMP asks nobody: where the system gives no thread, it ends the process. */
#ifndef RDT_CORE_TEAM_H
#define RDT_CORE_TEAM_H

#include "core/error.h"

/* Makes as many threads at once as a team of that size has beside the caller's, and lets them go; once for each thread
 * that asks, and again for larger teams. RDT_ERR_NOMEM, with how many there were and what limits them. */
rdt_status rdt_team_try(int threads, rdt_reason *why);

#endif
