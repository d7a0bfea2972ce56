#include "cuda/ways.h"

#include <stdio.h>
#include <string.h>

#include "cuda/kernel.h"

/* ---- what ways ask ---- */

static bool is(const char *scheme, const char *name) {
  return strcmp(scheme, name) == 0;
}

static bool asks(const rdt_way_job *j, const char *scheme) {
  return j->any || is(j->scheme, scheme);
}

/* What kernels on wgmma check: rows, which are the pixels of a convolution. */
static const char *wide_scheme(const rdt_way_job *j) {
  return j->conv ? "fc" : "row";
}

static void name(rdt_cuda_linear *l, const rdt_way_job *j, const char *kernel) {
  snprintf(l->kernel, sizeof l->kernel, "%s_%s_%s", j->conv ? "conv" : "gemm", rdt_dtype_name(j->p->in[0].dtype),
           kernel);
}

static void protect(rdt_cuda_linear *l, const rdt_way_job *j, const char *scheme) {
  snprintf(l->scheme, sizeof l->scheme, "%s", j->protect ? scheme : "none");
}

/* Rows are alike: what they call takes void *. */
#define ANY_WAY(way, type)                                                                        \
  static rdt_status way##_renew(void *self, const void *weights, void *stream, rdt_reason *why) { \
    return type##_renew(self, weights, stream, why);                                              \
  }                                                                                               \
  static void way##_destroy(void *self) {                                                         \
    type##_destroy(self);                                                                         \
  }
#define BOX(way, type)                                       \
  ANY_WAY(way, type)                                         \
  static int64_t way##_blocks(const void *self) {            \
    return type##_blocks(self);                              \
  }                                                          \
  static rdt_cuda_verdict *way##_verdict(const void *self) { \
    return type##_verdict(self);                             \
  }

/* ---- cuBLASLt ---- */

static bool product_can(const rdt_way_job *j) {
  return j->as && (j->any || j->sets) && rdt_box_product_accept(j->as, NULL) == RDT_OK;
}

static rdt_status product_make(const rdt_way_job *j, int kernel, rdt_cuda_linear *l, rdt_reason *why) {
  rdt_box_product *b = NULL;
  (void)kernel;
  name(l, j, "cublaslt");
  protect(l, j, j->scheme ? j->scheme : "row");
  const rdt_status s = rdt_box_product_create(j->d, j->as, j->sets, !j->alone, j->lambda, j->stream, &b, why);
  l->self = b;
  return s;
}

static rdt_status product_twin(const rdt_cuda_linear *l, const rdt_way_job *j, void **self, rdt_reason *why) {
  rdt_box_product *b = NULL;
  (void)j;
  const rdt_status s = rdt_box_product_twin(l->self, &b, why);
  *self = b;
  return s;
}

static rdt_status product_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why) {
  return rdt_box_product_launch(self, o, to, stream, why);
}

static rdt_status product_check(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                                rdt_reason *why) {
  return rdt_box_product_check(self, o, t->to, t->read[0], batch, why);
}

static unsigned product_reads(const void *self) {
  return rdt_box_product_reads(self);
}

BOX(product, rdt_box_product)

/* ---- cuDNN ---- */

static bool conv_can(const rdt_way_job *j) {
  return j->conv && asks(j, "fic") && rdt_box_conv_accept(j->p, NULL) == RDT_OK;
}

static rdt_status conv_make(const rdt_way_job *j, int kernel, rdt_cuda_linear *l, rdt_reason *why) {
  rdt_box_conv *b = NULL;
  (void)kernel;
  name(l, j, "cudnn");
  protect(l, j, "fic");
  const rdt_status s = rdt_box_conv_create(j->d, j->p, j->protect, j->lambda, j->stream, &b, why);
  l->self = b;
  return s;
}

static rdt_status conv_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why) {
  return rdt_box_conv_launch(self, o, to, stream, why);
}

static rdt_status conv_check(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                             rdt_reason *why) {
  return rdt_box_conv_check(self, o, t->to, batch, why);
}

BOX(conv, rdt_box_conv)

/* ---- own products, which check as they go ---- */

/* Where they may be the faster ones: few rows, or all small. */
static bool small(const rdt_problem *p) {
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  return m <= 64 || (m <= 512 && n <= 512);
}

enum { NARROW = 32, TALL = 8192, SHORT = 160 }; /* columns of the narrowest tile; rows that are many; terms */

/* Or many rows of few columns, on Hopper, where a scheme is asked for: kernels that a network has chosen for it cover
 * what is stored, too. */
static bool tall(const rdt_way_job *j) {
  int64_t m, n, k;
  rdt_problem_mnk(j->as, &m, &n, &k);
  return j->scheme && j->d->major == 9 && rdt_dtype_is_half(j->as->in[0].dtype) && m >= TALL && n <= 128;
}

static bool own_can(const rdt_way_job *j) {
  return j->as && (small(j->as) || tall(j) || !product_can(j));
}

static int own_kernels(void) {
  int n;
  rdt_cuda_kernels(&n);
  return n;
}

static const rdt_cuda_kernel *own_of(int kernel) {
  int n;
  return &rdt_cuda_kernels(&n)[kernel];
}

/* Has the kernel this check? Of "row:f" those that have as many of a row. */
static bool own_is(const rdt_cuda_kernel *k, const rdt_way_job *j) {
  if (!j->scheme) return is(k->scheme, "row") || is(k->scheme, "thread1");
  return j->sets ? is(k->scheme, "row") && j->sets <= rdt_cuda_kernel_sets(k) : is(j->scheme, k->scheme);
}

static bool own_takes(const rdt_way_job *j, int kernel) {
  const rdt_cuda_kernel *k = own_of(kernel);
  const int64_t m = j->as->out.shape[0], n = j->as->out.shape[1];
  if (k->family == RDT_CUDA_TALL) { /* those of short rows may be folded */
    if (!tall(j) || (2 * n <= k->tile->columns && k->tile->columns > NARROW && j->as->in[0].shape[1] > SHORT))
      return false;
  } else if (k->family != RDT_CUDA_MMA || (!small(j->as) && product_can(j)) || k->tile->rows >= 4 * m + 64) {
    return false;
  }
  return own_is(k, j) && rdt_cuda_gemm_accept(k, j->as, NULL) == RDT_OK;
}

static rdt_status own_make(const rdt_way_job *j, int kernel, rdt_cuda_linear *l, rdt_reason *why) {
  const rdt_cuda_kernel *k = own_of(kernel);
  rdt_cuda_gemm *g = NULL;
  snprintf(l->kernel, sizeof l->kernel, "%s", k->name);
  protect(l, j, j->scheme ? j->scheme : k->scheme);
  const rdt_status s =
      rdt_cuda_gemm_create_sets(k, j->d, j->as, j->sets > 1 ? j->sets : 1, j->lambda, 0, j->stream, &g, why);
  l->self = g;
  return s;
}

static rdt_status own_twin(const rdt_cuda_linear *l, const rdt_way_job *j, void **self, rdt_reason *why) {
  rdt_cuda_gemm *g = NULL;
  const rdt_status s = rdt_cuda_gemm_create(rdt_cuda_kernel_find(l->kernel), j->d, j->as, j->lambda,
                                            rdt_cuda_gemm_splits(l->self), j->stream, &g, why);
  *self = g;
  return s;
}

static rdt_status own_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why) {
  (void)to;
  return rdt_cuda_gemm_run(self, o, stream, why);
}

static void *own_copy(const void *self, int64_t k, int64_t column) {
  return rdt_cuda_gemm_copy(self, k, column);
}

static rdt_cuda_verdict *own_verdict(const void *self) {
  return rdt_cuda_gemm_found(self);
}

ANY_WAY(own, rdt_cuda_gemm)

/* ---- own kernels with all that follows: on mma.sync, on wgmma, and these from a folded copy ---- */

static bool fused_can(const rdt_way_job *j) {
  return asks(j, j->conv ? "fic" : "row") && rdt_box_fused_accept(j->p, NULL) == RDT_OK;
}

static bool wide_can(const rdt_way_job *j) {
  return j->d->major == 9 && asks(j, wide_scheme(j)) && rdt_box_fused_accept(j->p, NULL) == RDT_OK;
}

static bool folded_can(const rdt_way_job *j) { /* few channels */
  return j->d->major == 9 && asks(j, "fc") && rdt_dtype_is_half(j->p->in[0].dtype) && j->p->in[1].data &&
         rdt_box_folded_accept(j->p, NULL) == RDT_OK;
}

#define MAKES(way, type)                                                                  \
  static rdt_status way##_create(const rdt_way_job *j, type **b, rdt_reason *why) {       \
    return type##_create(j->d, j->p, j->protect, j->lambda, j->trial, j->stream, b, why); \
  }
MAKES(fused, rdt_box_fused)
MAKES(folded, rdt_box_folded)

static rdt_status wide_create(const rdt_way_job *j, rdt_box_wide **b, rdt_reason *why) {
  const rdt_box_wide_form form = {.protect = j->protect, .rest = !j->alone, .tile = -1};
  return rdt_box_wide_create_as(j->d, j->p, &form, j->lambda, j->trial, j->stream, b, why);
}

#define FUSED(way, type, of, check_of)                                                                  \
  BOX(way, type)                                                                                        \
  static rdt_status way##_make(const rdt_way_job *j, int kernel, rdt_cuda_linear *l, rdt_reason *why) { \
    type *b = NULL;                                                                                     \
    char text[48];                                                                                      \
    (void)kernel;                                                                                       \
    RDT_TRY(way##_create(j, &b, why));                                                                  \
    l->self = b;                                                                                        \
    snprintf(text, sizeof text, "%s%s", of, type##_kernel(b));                                          \
    name(l, j, text);                                                                                   \
    protect(l, j, check_of);                                                                            \
    return RDT_OK;                                                                                      \
  }                                                                                                     \
  static rdt_status way##_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream,    \
                                 rdt_reason *why) {                                                     \
    (void)to;                                                                                           \
    return type##_launch(self, o, stream, why);                                                         \
  }                                                                                                     \
  static unsigned way##_reads(const void *self) {                                                       \
    return type##_reads(self);                                                                          \
  }                                                                                                     \
  static void *way##_copy(const void *self, int64_t k, int64_t column) {                                \
    return type##_copy(self, k, column);                                                                \
  }

FUSED(fused, rdt_box_fused, "", rdt_box_fused_scheme(b))
FUSED(wide, rdt_box_wide, "", wide_scheme(j))
FUSED(folded, rdt_box_folded, "folded_", "fc")

static rdt_status fused_check(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                              rdt_reason *why) {
  return rdt_box_fused_check(self, o, t->to, t->read, batch, why);
}

static rdt_status wide_check(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                             rdt_reason *why) {
  (void)o;
  return rdt_box_wide_check(self, t->to, t->read, batch, why);
}

static rdt_status folded_check(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                               rdt_reason *why) {
  return rdt_box_folded_check(self, o, t->to, t->read, batch, why);
}

/* ---- the table ---- */

#define RUNS(way)                                                                                               \
  .can = way##_can, .make = way##_make, .launch = way##_launch, .renew = way##_renew, .verdict = way##_verdict, \
  .destroy = way##_destroy
#define CHECKED(way) RUNS(way), .check = way##_check, .blocks = way##_blocks
#define SUMMED(way) CHECKED(way), .reads = way##_reads

const rdt_way *rdt_ways(int *n) {
  static const rdt_way list[] = {
      {.name = "product", .product = true, SUMMED(product), .twin = product_twin},
      {.name = "conv", CHECKED(conv)},
      {.name = "own",
       .product = true,
       RUNS(own),
       .kernels = own_kernels,
       .takes = own_takes,
       .twin = own_twin,
       .copy = own_copy},
      {.name = "fused", SUMMED(fused), .copy = fused_copy},
      {.name = "wide", .named = true, .inside = true, SUMMED(wide), .copy = wide_copy},
      {.name = "folded", .named = true, .inside = true, SUMMED(folded), .copy = folded_copy},
  };
  *n = (int)(sizeof list / sizeof *list);
  return list;
}
