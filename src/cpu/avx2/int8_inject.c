/* The injecting instantiation: the same source, plus one XOR onto one accumulator. */
#define RDT_INJECT 1
#define INT8_TABLE rdt_int8_avx2_inject
#include "cpu/int8_body.h"
