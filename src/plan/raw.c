/* Raw results: where they lie, how they compare, what they sum to. */
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "plan/plan.h"

bool rdt_plan_raw_is_out(const rdt_plan *p) {
  const bool same_dtype = !rdt_kop_is_linear(p->prob.op) || p->prob.out.dtype == p->prob.acc;
  return same_dtype && rdt_epilogue_is_none(&p->prob.epilogue) && rdt_tensor_is_packed(&p->prob.out);
}

size_t rdt_tensor_bytes(const rdt_tensor *t) {
  return (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
}

void rdt_tensor_index(const rdt_tensor *t, int64_t offset, int64_t *index) {
  bool used[RDT_MAX_RANK] = {false};
  for (int d = 0; d < t->rank; d++) index[d] = 0;
  for (int i = 0; i < t->rank; i++) { /* dimensions by stride, largest first */
    int d = -1;
    for (int j = 0; j < t->rank; j++)
      if (!used[j] && t->shape[j] > 1 && (d < 0 || t->stride[j] > t->stride[d])) d = j;
    if (d < 0) break;
    used[d] = true;
    index[d] = offset / t->stride[d];
    offset %= t->stride[d];
  }
}

enum { BLOCK = 1 << 16 }; /* bytes a thread compares at a time */

static int64_t differ_within(const unsigned char *a, const unsigned char *b, size_t bytes, size_t size,
                             int64_t *first) {
  int64_t n = 0;
  *first = -1;
  for (size_t i = 0; (i += rdt_memory_alike(a + i, b + i, bytes - i)) < bytes; i = (i / size + 1) * size)
    if (n++ == 0) *first = (int64_t)(i / size);
  return n;
}

int64_t rdt_tensors_differ(const rdt_tensor *a, const rdt_tensor *b, int threads, int64_t *first, uint64_t *bitsum) {
  const size_t size = rdt_dtype_size(a->dtype), bytes = rdt_tensor_bytes(a);
  const int64_t blocks = (int64_t)((bytes + BLOCK - 1) / BLOCK);
  int64_t total = 0, least = INT64_MAX;
  uint64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total, sum) reduction(min : least) if (blocks > 4)
  for (int64_t i = 0; i < blocks; i++) {
    const size_t from = (size_t)i * BLOCK, length = bytes - from < BLOCK ? bytes - from : BLOCK;
    int64_t at;
    const int64_t n =
        differ_within((unsigned char *)a->data + from, (unsigned char *)b->data + from, length, size, &at);
    total += n;
    if (bitsum) sum += rdt_bitsum_part(a->data, from, length);
    if (n > 0 && (int64_t)(from / size) + at < least) least = (int64_t)(from / size) + at;
  }
  *first = total > 0 ? least : -1;
  if (bitsum) *bitsum = sum;
  return total;
}

uint64_t rdt_tensor_seal(const rdt_tensor *t, int threads) {
  if (rdt_tensor_is_packed(t)) return rdt_bitsum_shared(t->data, rdt_tensor_bytes(t), threads);
  const size_t size = rdt_dtype_size(t->dtype);
  uint64_t sum = 0, index = 1;
  rdt_iter it = rdt_iter_begin(t);
  while (rdt_iter_next(&it)) { /* odd weights, as in the packed sum */
    uint64_t bits = 0;
    memcpy(&bits, (const unsigned char *)t->data + it.offset * (int64_t)size, size);
    sum += bits * (index += 2);
  }
  return sum;
}
