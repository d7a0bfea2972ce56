#define QUANTIZE_TABLE rdt_quantize_generic
#include "cpu/quantize_lines_body.h"
