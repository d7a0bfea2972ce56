#define RDT_REAL 64
#define NATIVE_TABLE rdt_native_avx2
#include "cpu/native_body.h"
