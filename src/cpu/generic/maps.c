#define MAP_TABLE rdt_maps_generic
#include "cpu/maps_body.h"
