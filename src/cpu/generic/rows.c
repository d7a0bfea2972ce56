#define ROWS_TABLE rdt_rows_generic
#include "cpu/rows_body.h"
