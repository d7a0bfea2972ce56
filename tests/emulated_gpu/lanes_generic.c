// The loops over lanes for any processor.
#define EM_LANES_TABLE em_lanes_generic
#include "lanes_loops.h"
