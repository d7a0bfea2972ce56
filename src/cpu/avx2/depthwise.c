#define DEPTHWISE_TABLE rdt_depthwise_avx2
#include "cpu/depthwise_body.h"
