/* Moving elements of any datatype. */
#ifndef RDT_CPU_GENERIC_MOVE_H
#define RDT_CPU_GENERIC_MOVE_H

#include <string.h>

#include "core/tensor.h"

/* One element of 1, 2, 4 or 8 bytes. */
static inline void rdt_move_one(void *to, const void *from, size_t bytes) {
  switch (bytes) {
    case 1:
      memcpy(to, from, 1);
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    case 4:
      memcpy(to, from, 4);
      break;
    default:
      memcpy(to, from, 8);
  }
}

/* n elements, steps in elements. */
void rdt_move_run(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n, size_t bytes);
/* Between views of one shape and datatype. */
void rdt_move_view(const rdt_tensor *to, const rdt_tensor *from, int threads);

#endif
