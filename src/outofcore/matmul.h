/* C = A B of matrices in files, larger than memory: by blocks, each checked, repaired and written as it is finished. */
#ifndef RDT_OUTOFCORE_MATMUL_H
#define RDT_OUTOFCORE_MATMUL_H

#include <redoubt/context.h>

#include "inject/fault.h"
#include "outofcore/devices.h"
#include "outofcore/splits.h"

/* Faults to plant: in one block, of one product, which the seed chooses. */
typedef struct rdt_matmul_plant {
  int64_t count;   /* 0: none */
  rdt_along along; /* in one row or column (ANY: which, the seed says) unless scattered */
  bool scattered;  /* no two in a row or column */
  rdt_site site;   /* ACCUM: elements of C; CHECKSUM: what rows must sum to; INPUT: A's block in memory */
  int paths; /* ACCUM: 0 once; 1 whenever that product is computed on the same code path, 2 on the other one too */
  uint64_t seed;
} rdt_matmul_plant;

typedef struct rdt_matmul_job {
  const char *a, *b, *c; /* .npy files */
  const char *device;    /* NULL: "cpu"; "cuda:0"; several, as "cuda:0,cuda:1" or "cuda:all", share the blocks of C */
  size_t mem_limit; /* bytes of all buffers, of each device's own memory where it has some; 0: half of what is free */
  rdt_strategy strategy;
  bool protected; /* scheme rowcol; else none */
  bool strassen;  /* products of blocks by one level of Strassen's scheme: f32 and f64 */
  bool recompute; /* never rebuild from checksums: a block that is wrong is computed again */
  bool resume, verify;
  rdt_matmul_plant plant;
  rdt_timeline *measured, *predicted, *best; /* what was done when is added; best: what is predicted if products did
                                                not hinder each other; as many as what the plan leaves of
                                                the limit has room for; NULL: nobody asks */
  void (*progress)(void *user, double part, double gflops); /* NULL: nobody asks */
  void *user;
} rdt_matmul_job;

/* Where the time went, from begin to end: of several devices, of the one that ended last. Seconds. */
typedef struct rdt_matmul_phases {
  double fill;          /* until the first product begins; where it comes by parts, until its verdict, what was
                           multiplied until then left out */
  double products;      /* all of them; of the host with their checks */
  double loads, places; /* behind that: waiting for operands, for a place for the next block of C */
  double checks;        /* all else: checks, and turns from one product to the next */
  double drain;         /* after the last verdict */
} rdt_matmul_phases;

typedef struct rdt_matmul_result {
  rdt_task task;
  char device[RDT_MOST_DEVICES * RDT_DEVICE_NAME]; /* their names */
  rdt_splits splits;
  int64_t resumed;       /* blocks that were finished before */
  rdt_forecast forecast; /* of the others */
  rdt_rates rates;
  size_t buffers, beside; /* bytes, as the plan has them */
  double peak;            /* bytes that were taken at most, as the system has them: of the device, or of the process */
  size_t limit;
  double seconds;                                   /* of the pipeline */
  double load_seconds, store_seconds, busy_seconds; /* its threads at work */
  double product_seconds; /* of the device, in the products alone; 0: it keeps no time of its own */
  rdt_matmul_phases phases;
  double load_bytes, store_bytes, flops;
  double peer_bytes; /* of operands, that devices had from each other and did not load */
  rdt_verdict verdict;
  int64_t checks, suspects, faults, unchecked;
  int64_t rebuilt;            /* elements */
  int64_t recomputed;         /* blocks */
  double ratio, floor, bound; /* bound: of what was rebuilt */
  int64_t planted;            /* faults that struck */
} rdt_matmul_result;

/* Writes c whole or not at all: until it is finished it is c.part, with its list of finished blocks in c.part.sums;
 * then c and c.sums. Events go to the context. RDT_ERR_ARG, RDT_ERR_SHAPE, RDT_ERR_DTYPE, RDT_ERR_FORMAT, RDT_ERR_IO,
 * RDT_ERR_NOMEM, RDT_ERR_NAME (no such device), RDT_ERR_DEVICE (it is lost), RDT_ERR_FAULT (a block could not be
 * repaired; --resume goes on), RDT_ERR_CANCELLED (likewise). */
rdt_status rdt_matmul(rdt_context *ctx, const rdt_matmul_job *job, rdt_matmul_result *result, rdt_reason *why);

/* One block of a file that is verified; ok: it is as it was when it was written. */
typedef struct rdt_verified {
  int64_t i, j;
  rdt_part_of part;
  const char *device; /* that computed it; "" in lists that do not say */
  bool ok;
} rdt_verified;
typedef struct rdt_verify_result {
  int64_t blocks, bad;
  double bytes;
  rdt_verdict verdict; /* of the product when it was made */
} rdt_verify_result;
/* Bit-sums of c's blocks against c.sums. fn is called for each block. RDT_ERR_FORMAT also where blocks are missing. */
rdt_status rdt_matmul_verify(const char *c, void (*fn)(void *user, const rdt_verified *v), void *user,
                             rdt_verify_result *result, rdt_reason *why);

#endif
