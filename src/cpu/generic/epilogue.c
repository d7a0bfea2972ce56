#define LINE_TABLE rdt_epilogue_generic
#include "cpu/epilogue_body.h"
