/* bf16 by dot products of pairs, where the CPU has them. */
#if !defined(RDT_EMULATED_AVX512) /* in the tests */
#pragma GCC target("avx512bf16")
#endif
#define NATIVE_DOT 1
#define NATIVE_TABLE rdt_native_avx512_dot
#include "cpu/native_body.h"
