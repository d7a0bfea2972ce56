#define LINE_TABLE rdt_epilogue_avx2
#define MAP_TABLE rdt_maps_avx2
#include "cpu/epilogue_body.h"
