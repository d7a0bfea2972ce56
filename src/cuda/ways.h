/* How linear ops are computed on the GPU: a table of ways (ways.c), each a library or a family of own kernels. What is
 * asked of an op that was made ready (linear.h) goes through its row; to add a way is to add a row. */
#ifndef RDT_CUDA_WAYS_H
#define RDT_CUDA_WAYS_H

#include "cuda/box/boxes.h"
#include "cuda/linear.h"

typedef struct rdt_way rdt_way;

struct rdt_cuda_linear {
  const rdt_way *way;
  void *self;     /* what the way has made ready */
  bool pointwise; /* a convolution that is a product, whose operands the way gets */
  char kernel[64], scheme[16];
};

/* What is to be made ready, and what of it all ways ask. Stays where it is: it points to itself. */
typedef struct rdt_way_job {
  const rdt_cuda_device *d;
  const rdt_problem *p;
  const char *scheme; /* NULL: whatever protects */
  double lambda;
  void *stream;
  const rdt_operands *trial; /* to measure with */
  bool conv, any, protect;   /* any: no scheme is asked for by name */
  bool alone;                /* results are checked, nobody keeps bit-sums of memory at rest */
  int sets;                  /* checks of a row; 0: none, or another scheme is asked for */
  const rdt_problem *as;     /* the product that it is; NULL: it is none, or has another check */
  rdt_problem product;
  rdt_tensor in[2];
} rdt_way_job;

/* self: what make has left in l. NULL for a function: there is nothing of that. */
struct rdt_way {
  const char *name;
  bool product; /* it multiplies: convolutions of single pixels reach it as products */
  bool named;   /* where it can, its scheme can be asked for, whatever the libraries take */
  bool inside;  /* launch makes the check: what is left for check is to add up bit-sums for memory at rest */
  bool (*can)(const rdt_way_job *j);
  int (*kernels)(void); /* each enters by itself, of which takes says so; NULL: one */
  bool (*takes)(const rdt_way_job *j, int kernel);
  /* Fills l's self, kernel and scheme; this is given: "none", or what is asked for. Waits. */
  rdt_status (*make)(const rdt_way_job *j, int kernel, rdt_cuda_linear *l, rdt_reason *why);
  /* The same, to run at the same time: the same bits. NULL: it has memory that only one run may use. */
  rdt_status (*twin)(const rdt_cuda_linear *l, const rdt_way_job *j, void **self, rdt_reason *why);
  rdt_status (*launch)(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why);
  rdt_status (*check)(void *self, const rdt_cuda_linear_task *t, const rdt_operands *o, rdt_box_batch *batch,
                      rdt_reason *why); /* NULL: it checks as it goes */
  rdt_status (*renew)(void *self, const void *weights, void *stream, rdt_reason *why);
  int64_t (*blocks)(const void *self);
  unsigned (*reads)(const void *self);
  void *(*copy)(const void *self, int64_t k, int64_t column);
  rdt_cuda_verdict *(*verdict)(const void *self);
  void (*destroy)(void *self); /* NULL is nothing */
};

/* All that compete, in the order in which they are tried: of equals the first wins. */
const rdt_way *rdt_ways(int *n);

#endif
