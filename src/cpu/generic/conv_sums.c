#define CONV_ISA generic
#define CONV_BYTES 16
#include "cpu/conv_sums_isa.h"
