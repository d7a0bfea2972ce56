/* Products of bytes where the CPU has them. */
#pragma GCC target("avxvnni")
#define RDT_INJECT 1
#define INT8_QUADS 1
#define INT8_TABLE rdt_int8_avx2_vnni_inject
#include "cpu/int8_body.h"
