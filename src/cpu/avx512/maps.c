#define MAP_TABLE rdt_maps_avx512
#include "cpu/maps_body.h"
