#define INT8_TABLE rdt_int8_avx2
#include "cpu/int8_body.h"
