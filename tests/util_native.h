/* Problems of the own products that check themselves, as a plan makes them, with exactly as much memory as they reach.
 */
#ifndef TEST_UTIL_NATIVE_H
#define TEST_UTIL_NATIVE_H

#include "cpu/kernel.h"
#include "schemes/fused_check.h"
#include "util_problem.h"

typedef enum util_native_kind { UTIL_GEMM, UTIL_CONV, UTIL_BATCH } util_native_kind;

typedef struct util_native_layout {
  util_native_kind kind;
  int64_t s[11];
} util_native_layout;

/* GEMM: m n k, gaps of A and C, weights transposed
 * CONV: n ic ih iw oc kh kw, stride, dilation, padding, gap between the pixels of all images
 * BATCH: two batch dimensions, m n k, B transposed, matrices of C side by side in its rows */
enum { UTIL_NATIVE_LAYOUTS = 28 };
extern const util_native_layout util_native_layouts[UTIL_NATIVE_LAYOUTS];

typedef struct util_native {
  rdt_problem p;    /* as a plan sees it: no data of activations */
  rdt_tensor in[2]; /* p.in */
  rdt_tensor data[2], out;
  size_t out_bytes;
  util_native_kind kind;
  util_random random;
  void *buffers[8];
  int n_buffers;
} util_native;

typedef struct util_native_data {
  const char *name;
  double scale[2], offset, share; /* of A and B; of A; of A's elements that are not zero */
  bool overflows;                 /* squares beyond single precision: no bound, and no alarm */
} util_native_data;

enum { UTIL_BIAS = 1, UTIL_RESIDUAL = 2, UTIL_SCALED = 4, UTIL_ACTS = 8, UTIL_ENDINGS = 32 };

/* Of all that is made: RDT_F32, RDT_F64, where there are only products, RDT_BF16 or RDT_F16 */
extern rdt_dtype util_native_real;
extern bool util_native_dot;               /* RDT_BF16 by dot products of pairs */
bool util_native_has_dot(void);            /* does the CPU have them, and is it asked to use them? */
bool util_native_can(const rdt_kernel *k); /* is what it needs there? */

void util_native_make(util_native *j, const util_native_layout *l);
void util_native_drop(util_native *j);
/* What follows the product, a sum of the above and UTIL_ACTS x none, relu, clip, gelu; a batch's residual is the same
 * row for all, as a mask is. */
void util_native_epilogue(util_native *j, int which);
void util_native_fill(util_native *j, const util_native_data *d);
size_t util_native_reach(int rank, const int64_t *shape, const int64_t *stride); /* in bytes */
const rdt_kernel *util_native_kernel(const util_native *j);
void *util_native_state(const util_native *j, int threads);                         /* for a raw, packed result */
rdt_tensor util_native_raw(const util_native *j, void *state, rdt_kernel_hit *hit); /* free its data */
/* The result is, bit by bit, gaps included, the epilogue of raw in a poisoned memory. */
void util_native_expect(const util_native *j, const rdt_tensor *raw, const char *what);
/* Its checks of these forms. */
rdt_fused_check *util_native_check(const util_native *j, unsigned forms);
/* By the kernel with its checks, of these forms beside theirs, into a poisoned result; the judgement in *found. */
rdt_fused util_native_fuse(const util_native *j, void *state, rdt_fused_check *c, unsigned beside, rdt_kernel_hit *hit,
                           bool stored, rdt_findings *found);
int64_t util_native_row(const util_native *j, int64_t element); /* of the product, of an element in logical order */

#endif
