#define DEPTHWISE_TABLE rdt_depthwise_avx512
#include "cpu/depthwise_body.h"
