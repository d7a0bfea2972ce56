#define ROWS_TABLE rdt_rows_avx512
#include "cpu/rows_body.h"
