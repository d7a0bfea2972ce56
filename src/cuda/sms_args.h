/* What the kernels of sms.h get: a known product, whose lengths are whole tiles, filled up with zeros. */
#ifndef RDT_CUDA_SMS_ARGS_H
#define RDT_CUDA_SMS_ARGS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_SMS_ROWS = 64, RDT_SMS_COLUMNS = 128, RDT_SMS_DEPTH = 64, RDT_SMS_THREADS = 256, RDT_SMS_ROOM = 1024 };

typedef struct rdt_sms_record { /* of a multiprocessor, by its number */
  unsigned products, failures;
  unsigned wrong, element; /* of the first product that failed: how many, and the first of them (row n + column) */
  uint64_t actual;
} rdt_sms_record;

typedef struct rdt_sms_args {
  const void *a, *b, *c; /* a: m x k, b: n x k, so that k lies side by side; c: rows x columns */
  int m, n, k, rows, columns;
  int rounds;
  unsigned first; /* number of the first round: which warp computes what, and what a strike hits */
  rdt_sms_record *records;
} rdt_sms_args;

typedef struct rdt_sms_hit { /* a strike */
  int sm, lane;
  uint64_t to[2], seed;
  unsigned below; /* of 2^32: how many products are hit */
  int always;
} rdt_sms_hit;

/* kernel (args), and (args, hit) */
extern const void *const rdt_sms_code[7], *const rdt_sms_inject[7];
extern const void *const rdt_sms_wgmma_code[2], *const rdt_sms_wgmma_inject[2];
/* kernel (unsigned *counts): which multiprocessors are there */
extern const void *const rdt_sms_where;

#ifdef __cplusplus
}
#endif
#endif
