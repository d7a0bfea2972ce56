/* What several checks of one line weigh its outputs with, beside the signs: docs/tolerance.md, several checks of a
 * line. */
#ifndef RDT_CHECK_WEIGHTS_H
#define RDT_CHECK_WEIGHTS_H

#include <stdint.h>

double rdt_check_weight(int64_t j, int set); /* of output j in check `set`; within -1..1, and 1 in check 0 */

#endif
