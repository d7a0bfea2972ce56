/* Products whose results are known, on every multiprocessor of a device at the same time: which of them compute
 * rightly? What a burn-in asks (screen/), as functions: of a GPU, or of a test that has none. */
#ifndef RDT_CUDA_SMS_H
#define RDT_CUDA_SMS_H

#include "core/tensor.h"

typedef struct rdt_sms_path { /* the instructions that multiply */
  const char *name;           /* "mma.sync f16" */
  rdt_dtype dtype;
} rdt_sms_path;

/* What is wrong with all that one multiprocessor computes: simulated. A bit of a result becomes that of to[its value];
 * one element of a product, or all that a lane of a warp computes. */
typedef struct rdt_sms_strike {
  int sm, lane; /* lane -1: one element, another one each time */
  uint64_t to[2], seed;
  double rate; /* of products that are hit */
} rdt_sms_strike;

typedef struct rdt_sms_found { /* by one multiprocessor, in one run */
  int64_t products, failures;
  int64_t wrong;       /* elements of the first product that failed, */
  int64_t row, column; /* the first of them, */
  uint64_t actual;     /* and its bits */
} rdt_sms_found;

typedef struct rdt_sms rdt_sms;
struct rdt_sms {
  char name[16], what[96]; /* "cuda:0", "NVIDIA H200" */
  const int *units;        /* the numbers of its multiprocessors */
  int n_units;
  const rdt_sms_path *paths;
  int n_paths;
  /* a b = c, row-major; what runs from now on. b: of the datatype of a. */
  rdt_status (*load)(rdt_sms *s, int path, const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c,
                     rdt_reason *why);
  /* So many products on each, compared bit by bit; waits. found: by unit. strike NULL: by the kernels that ship. */
  rdt_status (*run)(rdt_sms *s, int rounds, const rdt_sms_strike *strike, rdt_sms_found *found, rdt_reason *why);
  void (*sense)(rdt_sms *s, double *mhz, double *celsius); /* NaN: nobody says */
  void (*close)(rdt_sms *s);
};

/* Errors: as rdt_cuda_open; RDT_ERR_UNSUPPORTED where something else keeps a multiprocessor. */
rdt_status rdt_sms_open(int index, rdt_sms **s, rdt_reason *why);

/* sensors.c: by NVML, which is opened when it is asked. bus: of the device, as the runtime writes it. */
void rdt_cuda_sense(const char *bus, double *mhz, double *celsius);

#endif
