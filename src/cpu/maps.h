/* The elementwise functions of functions.def over dense runs of a compute type, compiled for each ISA. No contraction
 * and no reassociation: the bits do not depend on the ISA. */
#ifndef RDT_CPU_MAPS_H
#define RDT_CPU_MAPS_H

#include "core/cpu_info.h"
#include "core/problem.h"

/* y[i] = fn(x[0][i], x[1][i], ..); y may be one of x. Functions to bool give 0 or 1 in the compute type. */
typedef void rdt_map_run(void *y, const void *const *x, int64_t n, const double *param);

typedef struct rdt_map_table { /* NULL where a function is not of that type; CAST is the identity */
  rdt_map_run *f32[RDT_FN_COUNT], *f64[RDT_FN_COUNT], *s64[RDT_FN_COUNT];
} rdt_map_table;
extern const rdt_map_table rdt_maps_generic, rdt_maps_avx2, rdt_maps_avx512;

/* The function of that compute type in the table; NULL where there is none. */
rdt_map_run *rdt_map_find(const rdt_map_table *t, rdt_fn fn, rdt_dtype compute);

#endif
