/* CPU kernels: one ordered table (kernels.def), each row may refuse a problem with a reason. The plain-C reference of
 * an op is its last row and accepts every problem that rdt_problem_check accepts. */
#ifndef RDT_CPU_KERNEL_H
#define RDT_CPU_KERNEL_H

#include "check/vault.h"
#include "core/cores.h"
#include "core/cpu_info.h"
#include "core/problem.h"
#include "inject/fault.h"

/* Where a fault goes inside a kernel's arithmetic: applied once by the injecting instantiation. */
typedef struct rdt_kernel_hit {
  int64_t element;        /* which output element (logical row-major index of out) */
  double position;        /* when: share of the reduction already done, 0..1 */
  const rdt_fault *fault; /* what happens to its bits; NULL: mask is XORed onto them */
  uint64_t mask;
  bool everywhere; /* in place of element: one in each share that begins on core, see src/plan/cores.c */
  int core;
  double before, after; /* filled by the kernel */
  bool done;
} rdt_kernel_hit;

typedef struct rdt_operands { /* same shapes and strides as the planned problem, or slices of it */
  const rdt_tensor *in;
  int n_in;
  rdt_tensor out;
  const rdt_epilogue *epilogue; /* data pointers of bias and residual; NULL: none */
  rdt_shares *shares;           /* a kernel that knows who computes what writes it down; NULL: nobody asks */
} rdt_operands;

typedef struct rdt_fused rdt_fused; /* cpu/fused.h */

/* The forms of checks that a kernel may make as it goes, a set of them: what it sums over. */
enum {
  RDT_FORM_ROWS = 1,       /* the columns of each row of the product (channels of a pixel), against A times B's sums */
  RDT_FORM_COLUMNS = 2,    /* the rows of each column (pixels of a channel), against A's sums times B */
  RDT_FORM_BLOCKS = 4,     /* blocks of rows and columns, A's sums against B's */
  RDT_FORM_ONE_SIDED = 8,  /* register tiles: the sum of their rows, against the sum of A's rows in them times B */
  RDT_FORM_TWO_SIDED = 16, /* the same, and the sum of B's vectors */
  RDT_FORM_TWICE = 32,     /* each multiplied twice, into accumulators of its own */
  RDT_FORM_SUMMED = 64,    /* each multiplied twice, all of the second time into one set of accumulators */
  RDT_FORM_PRODUCT = 128,  /* the whole product as one block */
  RDT_FORM_CHECKPOINTS = 256,       /* beside rows, columns, blocks: the accumulators' squares on the way (T3) */
  RDT_FORM_UNITS = 8 | 16 | 32 | 64 /* those whose unit is the register tile */
};

/* Of which dimensions of the result a kernel computes single indices as it computes all: with operands that are views
 * of the planned ones, and by several threads with one state. */
typedef enum rdt_kernel_slices {
  RDT_SLICES_NONE,
  RDT_SLICES_ANY,
  RDT_SLICES_BEFORE_AXIS,
  RDT_SLICES_BESIDE_AXIS
} rdt_kernel_slices;

typedef struct rdt_kernel {
  const char *name; /* = symbol: gemm_f32_onednn */
  rdt_kop op;
  rdt_isa isa;        /* least ISA */
  bool black_box;     /* a vendor library's: faults inside cannot be placed, only on its raw output */
  bool deterministic; /* same bits on every run with the same number of threads */
  /* RDT_OK or RDT_ERR_UNSUPPORTED with the reason */
  rdt_status (*accept)(const rdt_problem *p, rdt_reason *why);
  rdt_kernel_slices slices;
  /* Makes the kernel's state for this problem and number of threads. Weights (in[1] of a linear op, if data != NULL)
   * are packed where the kernel keeps its own layout. */
  rdt_status (*create)(const rdt_problem *p, int threads, void **state, rdt_reason *why);
  rdt_status (*run)(void *state, const rdt_operands *o, rdt_reason *why);
  /* Injecting instantiation of the same source; NULL for black boxes and ops without an accumulator. */
  rdt_status (*run_inject)(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why);
  /* The whole op, epilogue included, with the sums of its check formed on the way; the raw bits are those of run. For a
   * state made from the raw problem. accept_fused: may the whole problem, epilogue included, go this way? NULL: no. */
  unsigned fuses;                /* forms; other than rows only of fixed weights */
  void (*unit)(int64_t size[2]); /* rows and columns of a unit, where such forms are among them */
  rdt_status (*accept_fused)(const rdt_problem *p, rdt_reason *why);
  rdt_status (*run_fused)(void *state, const rdt_operands *o, rdt_fused *f, rdt_reason *why);
  /* Own copy of the weights: pack (again) from w; where it lies. NULL where the kernel reads the caller's weights. */
  rdt_status (*pack)(void *state, const rdt_tensor *w, rdt_reason *why);
  void (*packed)(void *state, void **data, size_t *bytes, rdt_dtype *dtype);
  /* Bytes that only a run needs; used at memory where that is not NULL (64-byte aligned, the kernel's during each run),
   * otherwise the kernel has its own. NULL: none are needed. */
  size_t (*scratch)(void *state, void *memory);
  /* Adds what of the state never changes after create. NULL: nothing that is known. */
  rdt_status (*fixed)(void *state, rdt_vault *frame);
  void (*destroy)(void *state);
} rdt_kernel;

/* All rows in dispatch order (best first within an op); count in *n. */
const rdt_kernel *const *rdt_cpu_kernels(int *n);
const char *rdt_cpu_kernel_limits(const rdt_kernel *k); /* one line for people: why the row may refuse */
/* First row that accepts p on this ISA; refusals are reported to fn (may be NULL) in order. */
typedef void (*rdt_refusal_fn)(const rdt_kernel *k, const char *reason, void *user);
const rdt_kernel *rdt_cpu_dispatch(const rdt_problem *p, rdt_isa isa, rdt_refusal_fn fn, void *user);
/* The reference row of p's op: oracle of the tests and other code path of the recovery. */
const rdt_kernel *rdt_cpu_reference(const rdt_problem *p);

#endif
