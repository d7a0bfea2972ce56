#define SUMS_TABLE rdt_sums_generic
#include "cpu/sums_body.h"
