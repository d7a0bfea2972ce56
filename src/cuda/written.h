/* What kernels leave in the device's memory for the host to read: verdicts, votes, what became of repairs. */
#ifndef RDT_CUDA_WRITTEN_H
#define RDT_CUDA_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>

/* Was anything written there? What a kernel or a hit of memory has left would be counted in the next run as well, even
 * where it is no complaint (a counter without its finding): who reads it clears it then. */
static inline bool rdt_cuda_is_written(const void *found, size_t bytes) {
  const unsigned char *p = (const unsigned char *)found;
  for (size_t i = 0; i < bytes; i++)
    if (p[i]) return true;
  return false;
}

#endif
