#define SUMS_TABLE rdt_sums_avx512
#include "cpu/sums_body.h"
