/* What the names in reports mean, for people. */
#ifndef RDT_REPORT_WORDS_H
#define RDT_REPORT_WORDS_H

#include <redoubt/context.h>

/* A verdict by its name; a value out of range where there is none of that name. */
rdt_verdict rdt_verdict_find(const char *name);
/* A sentence, or "" where the name means nothing here. */
const char *rdt_verdict_meaning(rdt_verdict v);
const char *rdt_diagnosis_meaning(const char *name);
const char *rdt_rung_meaning(const char *name);
const char *rdt_on_fault_name(rdt_on_fault policy); /* as --on-fault has it */

#endif
