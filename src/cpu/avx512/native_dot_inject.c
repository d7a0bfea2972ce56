/* The injecting instantiation: the same source, plus one XOR onto one accumulator. */
#if !defined(RDT_EMULATED_AVX512)
#pragma GCC target("avx512bf16")
#endif
#define RDT_INJECT 1
#define NATIVE_DOT 1
#define NATIVE_TABLE rdt_native_avx512_dot_inject
#include "cpu/native_body.h"
