/* Products in single precision. */
#include "cpu/native/gemm_body.h"
