/* Which products and convolutions a benchmark goes through: lengths as lists and ranges, and named sets. */
#ifndef RDT_BENCH_SHAPES_H
#define RDT_BENCH_SHAPES_H

#include <stdint.h>

#include "core/error.h"

enum { RDT_BENCH_LENGTHS = 64, RDT_BENCH_SHAPES = 256, RDT_BENCH_LONGEST = (1 << 20) - 1 };

typedef struct rdt_bench_lengths {
  int64_t at[RDT_BENCH_LENGTHS];
  int count; /* 0: not given */
} rdt_bench_lengths;

typedef struct rdt_bench_shape {
  char layer[32]; /* of a set; "" otherwise */
  int64_t m, n, k, times;
} rdt_bench_shape;

typedef struct rdt_bench_shapes {
  rdt_bench_shape at[RDT_BENCH_SHAPES];
  int count;
} rdt_bench_shapes;

/* "1024", "1,8,32", "1024:4096:1024", or several of these with commas between; option: its name, for messages. */
rdt_status rdt_bench_take_lengths(const char *option, const char *text, rdt_bench_lengths *l, rdt_reason *why);
/* Every m with every n and k. Those that are not given are as m where m alone is, else 1024. */
rdt_status rdt_bench_cross(const rdt_bench_lengths *m, const rdt_bench_lengths *n, const rdt_bench_lengths *k,
                           rdt_bench_shapes *s, rdt_reason *why);
/* "1024:1024:1024", or several with commas between */
rdt_status rdt_bench_take_mnk(const char *text, rdt_bench_shapes *s, rdt_reason *why);

/* "squares", "skinny", or a workload's name: its layers as products */
rdt_status rdt_bench_take_set(const char *name, rdt_bench_shapes *s, rdt_reason *why);

#endif
