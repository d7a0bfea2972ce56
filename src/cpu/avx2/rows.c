#define ROWS_TABLE rdt_rows_avx2
#include "cpu/rows_body.h"
