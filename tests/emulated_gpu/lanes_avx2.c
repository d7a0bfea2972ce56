// The loops over lanes for processors of x86-64 with AVX2 and FMA; compiled for these.
#if defined(__AVX2__) && defined(__FMA__)
#define EM_LANES_TABLE em_lanes_avx2
#include "lanes_loops.h"
#endif
