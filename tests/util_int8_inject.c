/* Products of bytes without an instruction for them: what is packed, shifted and corrected for it can be tested
 * anywhere. */
#define RDT_INJECT 1
#define INT8_QUADS 1
#define INT8_TABLE util_int8_quads_inject
#include "cpu/int8_body.h"
