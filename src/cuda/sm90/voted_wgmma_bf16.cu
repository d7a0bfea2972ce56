/* Products of bf16 that vote on the way. */
#include "cuda/sm90/voted_wgmma_shipped.h"

extern "C" const void *const rdt_voted_bf16[RDT_VOTED_TEAMS][2] = TEAMS(rdt_bf16);
extern "C" const void *const rdt_voted_last_bf16[2] = LAST(rdt_bf16);
