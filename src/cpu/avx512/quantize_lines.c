#define QUANTIZE_TABLE rdt_quantize_avx512
#include "cpu/quantize_lines_body.h"
