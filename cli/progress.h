/* How far something long is: a bar on stderr, one at a time. There is none where stderr is no terminal, nor where the
 * settings ask for JSON, for quiet or for none; it comes after half a second and leaves nothing behind. */
#ifndef RDT_CLI_PROGRESS_H
#define RDT_CLI_PROGRESS_H

#include "options.h"

/* what: "running". false: there will be no bar. */
bool rdt_progress_begin(const rdt_settings *s, const char *what);
/* part: of the whole, 0 to 1; the words behind the bar say it in numbers. */
__attribute__((format(printf, 2, 3))) void rdt_progress(double part, const char *format, ...);
void rdt_progress_end(void); /* also where there is none */

#endif
