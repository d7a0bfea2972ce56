/* Products of bytes where the CPU has them. */
#if !defined(RDT_EMULATED_AVX512) /* in the tests */
#pragma GCC target("avx512vnni")
#endif
#define INT8_QUADS 1
#define INT8_TABLE rdt_int8_avx512_vnni
#include "cpu/int8_body.h"
