#define DEPTHWISE_TABLE rdt_depthwise_generic
#include "cpu/depthwise_body.h"
