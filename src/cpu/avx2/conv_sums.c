#define CONV_ISA avx2
#define CONV_BYTES 32
#include "cpu/conv_sums_isa.h"
