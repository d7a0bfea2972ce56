/* What `redoubt bench gemm` and `redoubt bench conv` share: values of options, the cells of a ratio. */
#ifndef RDT_BENCH_COMMON_H
#define RDT_BENCH_COMMON_H

#include "bench_table.h"
#include "plan/plan.h"
#include "timing.h"

enum { RDT_BENCH_LIST = 8 };

/* false: not a value of that option. */
bool rdt_bench_parse_number(const char *text, long long least, long long *value);
bool rdt_bench_parse_list(const char *text, long long list[RDT_BENCH_LIST], int *count); /* comma-separated */
bool rdt_bench_parse_dtype(const char *text, rdt_dtype *t);
bool rdt_bench_parse_epilogue(const char *text);
bool rdt_bench_parse_scheme(const char *text, rdt_kop op);

/* Three cells: case i over case base and its interval; not applicable for the base itself or without one (-1). */
void rdt_bench_ratio(rdt_bench_out *o, const rdt_timing *timing, int i, int base);

#endif
