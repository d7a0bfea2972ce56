#ifndef TEST_GPU_ATTENTION_H
#define TEST_GPU_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* How many there were; *wrong is added to. */
int64_t attention_cases(bool daily, int64_t *wrong);

#endif
