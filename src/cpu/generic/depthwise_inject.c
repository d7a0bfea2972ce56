/* The injecting instantiation: the same source, plus one XOR onto one accumulator. */
#define RDT_INJECT 1
#define DEPTHWISE_TABLE rdt_depthwise_generic_inject
#include "cpu/depthwise_body.h"
