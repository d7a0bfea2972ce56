#define QUANTIZE_TABLE rdt_quantize_avx2
#include "cpu/quantize_lines_body.h"
