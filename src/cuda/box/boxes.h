/* Products and convolutions of libraries with the passes around them. create waits and measures; launch is asynchronous
 * and may be captured. Fixed weights: in[1].data is given. */
#ifndef RDT_CUDA_BOXES_H
#define RDT_CUDA_BOXES_H

#include "core/problem.h"
#include "cpu/kernel.h"
#include "cuda/box/box.h"
#include "cuda/device.h"

struct rdt_fold_args;

/* Checks of several ops at once. first: before all that are not. */
typedef struct rdt_box_batch {
  struct rdt_box_call *list;
  int n, room;
} rdt_box_batch;
rdt_status rdt_box_batch_rows(rdt_box_batch *b, const void *code, bool first, unsigned blocks, const rdt_rows_args *a,
                              rdt_reason *why);
rdt_status rdt_box_batch_bands(rdt_box_batch *b, const void *code, unsigned threads, unsigned blocks,
                               const rdt_bands_args *a, rdt_reason *why);
/* The check of a folded convolution's copy, a launch of its own. */
rdt_status rdt_box_batch_fold(rdt_box_batch *b, const void *code, unsigned blocks, const struct rdt_fold_args *a,
                              rdt_reason *why);
rdt_status rdt_box_batch_collect(rdt_box_batch *b, const rdt_box_tiles *tiles, rdt_reason *why);
rdt_status rdt_box_batch_launch(const rdt_box_batch *b, void *stream, rdt_reason *why);
void rdt_box_batch_free(rdt_box_batch *b);

/* protect: with the check; else with the library's own activation where it has that one. launch: the whole op. check:
 * of what launch has computed, added to a batch. to, the same for both: where the result's bit-sum goes, by one of
 * them, of so many blocks (0: neither forms none). renew: what was made of fixed weights is made of them again, where
 * memory may have been hit. */
enum { RDT_BOX_READS_IN = 1, RDT_BOX_READS_RESIDUAL = 2 }; /* operands whose bit-sums a check can form */
typedef struct rdt_box_product rdt_box_product;
rdt_status rdt_box_product_accept(const rdt_problem *p, rdt_reason *why);
/* sets: of checks of each row, 0 to RDT_BOX_SETS; 0: unprotected. beside: others run while it is checked. */
enum { RDT_BOX_SETS = 8 };
rdt_status rdt_box_product_create(const rdt_cuda_device *d, const rdt_problem *p, int sets, bool beside, double lambda,
                                  void *stream, rdt_box_product **b, rdt_reason *why);
/* Of an unprotected one another one that gives the same bits and may run at the same time. */
rdt_status rdt_box_product_twin(const rdt_box_product *b, rdt_box_product **twin, rdt_reason *why);
rdt_status rdt_box_product_launch(rdt_box_product *b, const rdt_operands *o, rdt_box_sum_to to, void *stream,
                                  rdt_reason *why);
rdt_status rdt_box_product_check(const rdt_box_product *b, const rdt_operands *o, rdt_box_sum_to to, uint64_t *read,
                                 rdt_box_batch *batch, rdt_reason *why);
unsigned rdt_box_product_reads(const rdt_box_product *b);
rdt_status rdt_box_product_renew(rdt_box_product *b, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_box_product_blocks(const rdt_box_product *b);
rdt_cuda_verdict *rdt_box_product_verdict(const rdt_box_product *b);
void rdt_box_product_destroy(rdt_box_product *b);

typedef struct rdt_box_conv rdt_box_conv;
rdt_status rdt_box_conv_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_box_conv_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                               void *stream, rdt_box_conv **b, rdt_reason *why);
rdt_status rdt_box_conv_launch(rdt_box_conv *b, const rdt_operands *o, rdt_box_sum_to to, void *stream,
                               rdt_reason *why);
rdt_status rdt_box_conv_check(const rdt_box_conv *b, const rdt_operands *o, rdt_box_sum_to to, rdt_box_batch *batch,
                              rdt_reason *why);
rdt_status rdt_box_conv_renew(rdt_box_conv *b, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_box_conv_blocks(const rdt_box_conv *b);
rdt_cuda_verdict *rdt_box_conv_verdict(const rdt_box_conv *b);
void rdt_box_conv_destroy(rdt_box_conv *b);

/* One own kernel does everything: fixed weights of 16 bits. The bit-sum of the result is left in pieces, which the
 * check adds up; read: where those of in[0] and of the residual go, as they were read, of what it can sum (reads). */
typedef struct rdt_box_fused rdt_box_fused;
rdt_status rdt_box_fused_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_box_fused_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                                const rdt_operands *trial, void *stream, rdt_box_fused **b, rdt_reason *why);
rdt_status rdt_box_fused_launch(const rdt_box_fused *b, const rdt_operands *o, void *stream, rdt_reason *why);
rdt_status rdt_box_fused_check(const rdt_box_fused *b, const rdt_operands *o, rdt_box_sum_to to,
                               uint64_t *const read[2], rdt_box_batch *batch, rdt_reason *why);
rdt_status rdt_box_fused_renew(rdt_box_fused *b, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_box_fused_blocks(const rdt_box_fused *b);
unsigned rdt_box_fused_reads(const rdt_box_fused *b);
/* Where the copy of a weight is, of this number in taps x channels; NULL: there is none. */
void *rdt_box_fused_copy(const rdt_box_fused *b, int64_t k, int64_t column);
const char *rdt_box_fused_kernel(const rdt_box_fused *b);
const char *rdt_box_fused_scheme(const rdt_box_fused *b);
rdt_cuda_verdict *rdt_box_fused_verdict(const rdt_box_fused *b);
void rdt_box_fused_destroy(rdt_box_fused *b);

/* The same on wgmma, from compute capability 9.0 to before 10.0: a row of a tile is checked where it is computed, all
 * that is left for later is to add up bit-sums. rdt_box_fused_accept says what it takes, of devices and windows create.
 */
typedef struct rdt_box_wide rdt_box_wide;
rdt_status rdt_box_wide_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                               const rdt_operands *trial, void *stream, rdt_box_wide **b, rdt_reason *why);
typedef struct rdt_box_wide_form {
  bool protect, rest; /* rest: bit-sums of memory at rest, too; else check has nothing to add up */
  int tile;           /* of rdt_fused_wide_kernels; -1: the fastest */
  int splits;         /* of a tile that is named: so many blocks share k, or as many as can; 0: the fastest */
  const rdt_box_wide
      *like; /* of a problem of the same shape, whose tile, stages and sharing it takes; NULL: nobody's */
} rdt_box_wide_form;
rdt_status rdt_box_wide_create_as(const rdt_cuda_device *d, const rdt_problem *p, const rdt_box_wide_form *form,
                                  double lambda, const rdt_operands *trial, void *stream, rdt_box_wide **b,
                                  rdt_reason *why);
/* Where launches from now on complain, on the device or in pinned memory of the host; NULL: to its own verdict. */
void rdt_box_wide_tell(rdt_box_wide *b, rdt_cuda_verdict *to);
rdt_status rdt_box_wide_launch(const rdt_box_wide *b, const rdt_operands *o, void *stream, rdt_reason *why);
rdt_status rdt_box_wide_check(const rdt_box_wide *b, rdt_box_sum_to to, uint64_t *const read[2], rdt_box_batch *batch,
                              rdt_reason *why);
rdt_status rdt_box_wide_renew(const rdt_box_wide *b, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_box_wide_blocks(const rdt_box_wide *b);
unsigned rdt_box_wide_reads(const rdt_box_wide *b);
/* For tests: a launch with a fault (sm90/fused_wgmma.h), which lies on the device, by the injecting instantiation. */
struct rdt_mma_hit;
rdt_status rdt_box_wide_strike(const rdt_box_wide *b, const rdt_operands *o, struct rdt_mma_hit *hit, void *stream,
                               rdt_reason *why);
void *rdt_box_wide_copy(const rdt_box_wide *b, int64_t k, int64_t column);
int rdt_box_wide_splits(const rdt_box_wide *b); /* blocks that share k */
const char *rdt_box_wide_kernel(const rdt_box_wide *b);
rdt_cuda_verdict *rdt_box_wide_verdict(const rdt_box_wide *b);
void rdt_box_wide_destroy(rdt_box_wide *b);

/* Convolutions of few channels by the same kernels, from a folded copy of their images (fold.h): as above; accept says
 * whether the windows are such, create the rest. */
typedef struct rdt_box_folded rdt_box_folded;
rdt_status rdt_box_folded_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_box_folded_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                                 const rdt_operands *trial, void *stream, rdt_box_folded **b, rdt_reason *why);
rdt_status rdt_box_folded_launch(const rdt_box_folded *b, const rdt_operands *o, void *stream, rdt_reason *why);
rdt_status rdt_box_folded_check(const rdt_box_folded *b, const rdt_operands *o, rdt_box_sum_to to,
                                uint64_t *const read[2], rdt_box_batch *batch, rdt_reason *why);
rdt_status rdt_box_folded_renew(const rdt_box_folded *b, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_box_folded_blocks(const rdt_box_folded *b);
unsigned rdt_box_folded_reads(const rdt_box_folded *b);
void *rdt_box_folded_copy(const rdt_box_folded *b, int64_t k, int64_t column);
const char *rdt_box_folded_kernel(const rdt_box_folded *b);
rdt_cuda_verdict *rdt_box_folded_verdict(const rdt_box_folded *b);
void rdt_box_folded_destroy(rdt_box_folded *b);

/* The pass behind a result, where the library does not do all. */
typedef struct rdt_box_tail {
  const void *code;
  bool flat;
  unsigned blocks;
  rdt_ends_args any;
  rdt_act_args act; /* flat */
} rdt_box_tail;
/* type: of raw; flat: nothing but an activation is left, of the type of the result, which has no gaps, nor has raw;
 * checked: somebody else evaluates curves again. Those of 16 bits are then not the fast ones, which a flat tail has. */
void rdt_box_tail_of(rdt_box_tail *t, const rdt_ends_args *a, rdt_dtype type, bool flat, bool checked);
/* to: nowhere, unless it is flat */
rdt_status rdt_box_tail_launch(const rdt_box_tail *t, const void *raw, const rdt_operands *o, rdt_box_sum_to to,
                               void *stream, rdt_reason *why);

/* What all share. */
unsigned rdt_box_rows_blocks(const rdt_rows_args *a, int rows); /* rows: of a group */
/* How a library sums products of 16 bits: as the device's tensor cores were seen to, where it is known to run on them;
 * else the widest, which single multiply-adds are within. Of 8-bit floats there is one model, without promotion. */
rdt_status rdt_box_accumulator(const rdt_cuda_device *d, rdt_dtype in, bool tensor_cores, rdt_accumulator *acc,
                               rdt_reason *why);
/* Results that are checked after they were rounded to this type; adds: bias or residual among them; scaled: by alpha.
 */
void rdt_box_rounded(rdt_tolerance *t, rdt_dtype stored, bool adds, bool scaled);
/* What is added to the square of each operand: more than it is short of where tensor cores align a subnormal number, or
 * where it is below the range of sums. */
double rdt_box_least2(const rdt_accumulator *acc, rdt_dtype in);
rdt_status rdt_box_finish_accept(const rdt_problem *p, rdt_reason *why);
rdt_box_finish rdt_box_finish_of(const rdt_problem *p); /* on: unless nothing follows and raw is of out's type */
int rdt_box_ends(const rdt_box_finish *f); /* 0: nothing follows, 1: no more than a bound, 2: any activation */
const void *rdt_box_bias(const rdt_operands *o);
const void *rdt_box_residual(const rdt_operands *o);
bool rdt_box_aligned(const void *p);                          /* a multiple of 16 */
size_t rdt_box_bytes_of(const rdt_tensor *t, rdt_dtype type); /* from its first to its last element, as type */
/* Operands to measure with; what the problem gives is taken from there. */
typedef struct rdt_box_trial {
  void *memory[5]; /* in[0], in[1], out, bias, residual; NULL: given, or there is none */
  rdt_tensor in[2];
  rdt_epilogue epilogue;
  rdt_operands o;
} rdt_box_trial;
rdt_status rdt_box_trial_make(const rdt_problem *p, rdt_box_trial *t, rdt_reason *why);
void rdt_box_trial_free(rdt_box_trial *t);

#endif
