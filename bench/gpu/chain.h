/* Of gpu_bench_chains: the ways in which a layer's product may be computed, by a library or by an own kernel, and one
 * of them made ready for a layer with weights of its own. */
#ifndef RDT_BENCH_GPU_CHAIN_H
#define RDT_BENCH_GPU_CHAIN_H

#include <cuda_runtime_api.h>

#include "cublas.h"
#include "cuda/box/boxes.h"
#include "cuda/kernel.h"
#include "cuda/mlp.h"

typedef enum chain_side { CHAIN_LIBRARY, CHAIN_PLAIN, CHAIN_PROTECTED, CHAIN_SIDES } chain_side;

typedef struct chain_shape { /* lengths as multiples of eight */
  int m, n, k;
} chain_shape;

typedef enum chain_kind {
  CHAIN_EX,    /* cublasGemmEx */
  CHAIN_LT,    /* cuBLASLt's algorithm of this number */
  CHAIN_OWN,   /* a row of kernels.def */
  CHAIN_FUSED, /* the fused kernels on wgmma */
  CHAIN_RUN    /* layers of a run as one launch */
} chain_kind;

typedef struct chain_way {
  chain_kind kind;
  bool transposed; /* weights lie as n x k */
  int number; /* CHAIN_LT: of the algorithm; CHAIN_OWN: blocks that share k (0: automatic); CHAIN_FUSED: the tile */
  const rdt_cuda_kernel *kernel; /* CHAIN_OWN */
  bool protect;
  char name[56];
  double us; /* by itself, when it was chosen */
} chain_way;

typedef struct chain_bench { /* what all share */
  rdt_cuda_device device;
  cudaStream_t stream;
  cublas *library; /* NULL: it is not there */
} chain_bench;

/* One product of a chain, or a run of them: layers of as many rows, of which each reads all that the one before it
 * writes. */
typedef struct chain_layer {
  chain_shape shape; /* of a run: n of the last one, k of the first one */
  chain_way way;
  void *weights; /* its caller's */
  rdt_cuda_gemm *gemm;
  rdt_box_wide *fused;
  rdt_cuda_mlp *run;
  int length;                /* layers; of a run: */
  const chain_shape *shapes; /* its caller's, as long as it is there */
} chain_layer;

cublas_gemm chain_gemm(const chain_shape *s, bool transposed); /* as a library is asked for it */

enum { CHAIN_WAYS = 160 };
/* All ways of a side that may be the fastest for this shape; how many. */
int chain_ways(const chain_bench *b, chain_side side, const chain_shape *s, chain_way *list);
/* Waits. trial: where something may be computed from and to while a tile is chosen; like: whose tile is taken (NULL:
 * nobody's). False: it refuses. */
bool chain_make(const chain_bench *b, const chain_way *way, const chain_shape *s, void *weights, void *const trial[2],
                const chain_layer *like, chain_layer *l);
/* The same of a run, checked by scheme replicate. */
bool chain_make_run(const chain_bench *b, bool protect, const chain_shape *shapes, void *const *weights, int length,
                    void *const trial[2], chain_layer *l);
bool chain_launch(const chain_bench *b, const chain_layer *l, void *a, void *c, cudaStream_t stream);
rdt_operands chain_operands(const chain_layer *l, void *a, void *c, rdt_tensor in[2]);
void chain_tell(const chain_layer *l, rdt_cuda_verdict *to); /* where it complains, of the host's pinned memory */
bool chain_leaves_sums(const chain_way *way);                /* they are compared by rdt_cuda_gemm_settle */
const char *chain_scheme(const chain_way *way);              /* "none", "row", ... */
void chain_drop(chain_layer *l);

typedef struct chain_tally {
  int64_t planted, found, above, missed, repaired, unchanged;
  int64_t elsewhere; /* not planted: the kernel has no injecting instantiation */
  int64_t wrong;     /* anything that is not as it should be, but for those that were missed */
} chain_tally;
/* Plants so many faults in runs of a layer with its checks, which has computed c of a; found is what complains, and is
 * computed again (repaired: the bits of c). spare: memory of the device for results. */
void chain_plant(const chain_bench *b, const chain_layer *l, void *a, void *c, void *spare, size_t room, int64_t faults,
                 uint64_t seed, chain_tally *t);

/* ---- runs (chain_runs.c) ---- */

typedef struct chain_run { /* one launch */
  int first, length;       /* layers of the chain */
  double us, apart;        /* by itself; its layers by themselves */
} chain_run;
/* Where layers that take us each are taken together so that all take the least time, in a trial of each run that there
 * may be; how many runs. Waits. */
int chain_find_runs(const chain_bench *b, bool protect, const chain_shape *shapes, const double *us,
                    void *const *weights, int layers, void *const trial[2], chain_run *list);

#endif
