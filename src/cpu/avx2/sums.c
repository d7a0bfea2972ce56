#define SUMS_TABLE rdt_sums_avx2
#include "cpu/sums_body.h"
