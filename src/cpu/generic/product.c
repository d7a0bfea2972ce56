#include "cpu/generic/product.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/generic/state.h"

/* One tile of the output is the work of one thread. With KB x NB of f32 = 16 KiB, the block of B that is walked for
 * every row stays in L1; rows of the accumulator (256 bytes) are read and written once for four k. */
enum { MB = 128, NB = 64, KB = 64, WORK = MB * NB + MB * KB + KB * NB + 2 * NB };

/* Products of fewer multiplications are done before a second thread has woken up. */
static const double small = 1 << 17;

#define T double
#define ACC f64
#define DTYPE RDT_F64
#define NAME(x) x##_f64
#include "cpu/generic/product_body.h"

#define T float
#define ACC f32
#define DTYPE RDT_F32
#define NAME(x) x##_f32
#include "cpu/generic/product_body.h"

/* Modulo 2^32: the same bits as s32 where nothing overflows. */
#define T uint32_t
#define ACC s32
#define DTYPE RDT_S32
#define NAME(x) x##_s32
#include "cpu/generic/product_body.h"

#ifdef RDT_INJECT
rdt_status rdt_product_run_inject(const rdt_product *q, int threads, const rdt_product_hit *h, rdt_reason *why) {
#define RUN(acc) run_##acc(q, threads, h, why)
#else
rdt_status rdt_product_run(const rdt_product *q, int threads, rdt_reason *why) {
#define RUN(acc) run_##acc(q, threads, why)
#endif
  switch (rdt_compute_type(q->o->in[0].dtype)) {
    case RDT_F64:
      return RUN(f64);
    case RDT_F32:
      return RUN(f32);
    default:
      return RUN(s32);
  }
}
