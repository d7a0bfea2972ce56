/* The injecting instantiation of product.c: the same source, plus one XOR onto one accumulator. */
#define RDT_INJECT 1
#include "cpu/generic/product.c"
