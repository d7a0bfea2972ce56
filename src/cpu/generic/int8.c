#define INT8_TABLE rdt_int8_generic
#include "cpu/int8_body.h"
