/* Strips in double precision. */
#define RDT_REAL 64
#include "cpu/native/strips_body.h"
