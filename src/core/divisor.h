#ifndef RDT_CORE_DIVISOR_H
#define RDT_CORE_DIVISOR_H

#include <stdint.h>

/* The greatest one that two lengths have in common. */
static inline int64_t rdt_common_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

#endif
