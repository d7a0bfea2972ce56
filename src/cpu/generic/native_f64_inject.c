/* The injecting instantiation: the same source, plus one XOR onto one accumulator. */
#define RDT_REAL 64
#define RDT_INJECT 1
#define NATIVE_TABLE rdt_native_generic_inject
#include "cpu/native_body.h"
