#define MAP_TABLE rdt_maps_avx2
#include "cpu/maps_body.h"
