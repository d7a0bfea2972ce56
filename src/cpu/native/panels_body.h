/* B as the strips take it, in panels of so many columns: packed once where the weights are fixed, else at each run. */
#include <string.h>

#include "cpu/native/layout.h"
#include "cpu/native/native.h"

static int64_t size_of(rdt_dtype dtype) {
  return (int64_t)rdt_dtype_size(dtype);
}

static const void *moved(const void *x, int64_t elements, rdt_dtype dtype) {
  return x ? (const char *)x + elements * size_of(dtype) : NULL;
}

/* Terms of a panel, in whole steps. */
static int64_t depth(const rdt_native *s) {
  return rdt_up(s->k, s->table->terms);
}

/* Term t of column j of a panel: those of bf16 lie in pairs, of two terms or else of the columns of two vectors. */
static void pack_weight(const rdt_native *s, void *to, int64_t t, int64_t j, const void *from, int64_t at) {
  const int64_t nr = s->table->cols, lanes = s->table->lanes;
  const int64_t i = s->dot                 ? (t / 2 * nr + j) * 2 + t % 2
                    : s->dtype == RDT_BF16 ? t * nr + j % lanes * 2 + j / lanes
                                           : t * nr + j;
  if (s->dtype == RDT_REAL_DTYPE)
    ((rdt_real *)to)[i] = ((const rdt_real *)from)[at];
  else
    ((uint16_t *)to)[i] = ((const uint16_t *)from)[at];
}

void rdt_native_pack(rdt_native *s, const rdt_tensor *w,
                     int64_t (*offset)(const rdt_native *, const rdt_tensor *, int64_t, int64_t)) {
  const int64_t nr = s->table->cols;
  memset(s->packed, 0, s->packed_bytes);
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
  for (int64_t p = 0; p < s->panels; p++) {
    char *to = (char *)s->packed + p * depth(s) * nr * size_of(s->dtype);
    const int64_t cols = rdt_least(nr, s->n - p * nr);
    for (int64_t j = 0; j < cols; j++)
      for (int64_t t = 0; t < s->k; t++) pack_weight(s, to, t, j, w->data, offset(s, w, t, p * nr + j));
  }
}

/* Most are a panel's whole row: lengths that are known copy in a few moves. */
static void copy_row(char *to, const char *from, int64_t bytes) {
  if (bytes == 64)
    memcpy(to, from, 64);
  else if (bytes == 128)
    memcpy(to, from, 128);
  else
    memcpy(to, from, (size_t)bytes);
}

/* Panels [from, to) of B. */
static void pack_panels(const rdt_native *s, const void *b, char *panels, int64_t from, int64_t to) {
  const int64_t nr = s->table->cols, sk = s->b_stride[0], sj = s->b_stride[1], size = size_of(s->dtype);
  for (int64_t p = from; p < to; p++) {
    const int64_t j0 = p * nr, cols = rdt_least(nr, s->n - j0);
    char *at = panels + j0 * depth(s) * size;
    if (cols < nr || depth(s) > s->k) memset(at, 0, (size_t)(depth(s) * nr * size));
    const char *const begin = moved(b, j0 * sj, s->dtype);
    if (sj == 1 && s->dtype != RDT_BF16) {
      for (int64_t t = 0; t < s->k; t++) copy_row(at + t * nr * size, begin + t * sk * size, cols * size);
    } else if (sk == 1 && s->dtype == RDT_REAL_DTYPE) {
      s->table->turn((const rdt_real *)begin, sj, cols, s->k, (rdt_real *)at);
    } else {
      for (int64_t j = 0; j < cols; j++)
        for (int64_t t = 0; t < s->k; t++) pack_weight(s, at, t, j, b, t * sk + (j0 + j) * sj);
    }
  }
}
