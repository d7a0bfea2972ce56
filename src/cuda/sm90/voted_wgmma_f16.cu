/* Products of f16 that vote on the way. */
#include "cuda/sm90/voted_wgmma_shipped.h"

extern "C" const void *const rdt_voted_f16[RDT_VOTED_TEAMS][2] = TEAMS(rdt_f16);
extern "C" const void *const rdt_voted_last_f16[2] = LAST(rdt_f16);
