#define LINE_TABLE rdt_epilogue_avx512
#define MAP_TABLE rdt_maps_avx512
#include "cpu/epilogue_body.h"
