/* Products of bytes that are added in pairs in 16 bits, for weights too small to saturate there. */
#define RDT_INJECT 1
#define INT8_QUADS 1
#define INT8_TABLE rdt_int8_avx2_small_inject
#include "cpu/int8_body.h"
