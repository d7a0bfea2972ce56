/* Strips in single precision. */
#include "cpu/native/strips_body.h"
