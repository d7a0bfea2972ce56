#define LINE_TABLE rdt_epilogue_avx2
#include "cpu/epilogue_body.h"
