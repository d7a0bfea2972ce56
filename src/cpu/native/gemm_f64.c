/* Products in double precision. */
#define RDT_REAL 64
#include "cpu/native/gemm_body.h"
