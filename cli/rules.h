/* Which options go together: one table (rules.def), for the parser and for help. */
#ifndef RDT_CLI_RULES_H
#define RDT_CLI_RULES_H

#include "options.h"

/* An option as it was given last; value NULL: it takes none. */
typedef struct rdt_given {
  const char *name, *value;
} rdt_given;

/* RDT_ERR_ARG with the text of the first rule of the command that these break. */
rdt_status rdt_rules_check(const rdt_command *c, const rdt_given *given, int n, rdt_reason *why);
/* " (only with --errors)": what rules of the command say about one of its options; "" where none does. */
void rdt_rules_tell(const rdt_command *c, const char *option, char *text, size_t size);
/* The first word of the command's rules that is no option of it; NULL: none. */
const char *rdt_rules_unknown(const rdt_command *c, char *word, size_t size);

#endif
