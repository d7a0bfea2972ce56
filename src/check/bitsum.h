/* Integer sums over the bits of a buffer: they guard data at rest. Any change of up to 64 adjacent bits changes the sum. */
#ifndef RDT_CHECK_BITSUM_H
#define RDT_CHECK_BITSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t rdt_bitsum(const void *data, size_t bytes);
/* Sum over parts of a buffer split at multiples of 64 bytes, in any order: parts add up to the whole. */
uint64_t rdt_bitsum_part(const void *data, size_t offset, size_t bytes);

#endif
