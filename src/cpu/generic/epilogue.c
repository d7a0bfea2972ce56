#define LINE_TABLE rdt_epilogue_generic
#define MAP_TABLE rdt_maps_generic
#include "cpu/epilogue_body.h"
