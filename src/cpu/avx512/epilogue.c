#define LINE_TABLE rdt_epilogue_avx512
#include "cpu/epilogue_body.h"
