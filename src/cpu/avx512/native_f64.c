#define RDT_REAL 64
#define NATIVE_TABLE rdt_native_avx512
#include "cpu/native_body.h"
