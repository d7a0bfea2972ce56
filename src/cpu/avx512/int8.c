#define INT8_TABLE rdt_int8_avx512
#include "cpu/int8_body.h"
