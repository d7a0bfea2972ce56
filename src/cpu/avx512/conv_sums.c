#define CONV_ISA avx512
#define CONV_BYTES 64
#include "cpu/conv_sums_isa.h"
