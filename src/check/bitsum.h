/* Integer sums over the bits of a buffer: they guard data at rest. Any change within one aligned 32-bit word changes
 * the sum, and so do any two single-bit changes anywhere; changes of more words whose bits are random escape with
 * probability 2^-64. Small ones may cancel (by 1, -2 and 1 in three words in a row): n words by a bit or two with a
 * probability of some n^-2. So a sum tells damage from none, and never whether a result of other inputs is the same. */
#ifndef RDT_CHECK_BITSUM_H
#define RDT_CHECK_BITSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t rdt_bitsum(const void *data, size_t bytes);
/* Of a part: parts add up to the whole, wherever they begin, in any order. */
uint64_t rdt_bitsum_part(const void *data, size_t offset, size_t bytes);
/* Of parts of one length that lie so many bytes apart. */
uint64_t rdt_bitsum_rows(const void *data, size_t offset, size_t bytes, size_t apart, size_t rows);
/* The same of a part that lies at part, elsewhere than its whole. */
uint64_t rdt_bitsum_apart(const void *part, size_t offset, size_t bytes);
/* And the part is copied to `to`: each word is read once, so that what is summed is what is copied. past: the
 * caches, for what nobody reads soon. */
uint64_t rdt_bitsum_copy(void *to, const void *part, size_t offset, size_t bytes, bool past);

/* The same sum, shared among threads where the buffer is long enough. */
uint64_t rdt_bitsum_shared(const void *data, size_t bytes, int threads);

#endif
