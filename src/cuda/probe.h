/* How a device's tensor cores accumulate, measured: once a process and device. */
#ifndef RDT_CUDA_PROBE_H
#define RDT_CUDA_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_PROBE_K = 16, RDT_PROBE_CASES = 20, RDT_PROBE_PAIRS = 14 };
typedef struct rdt_probe_case { /* c + sum a b, one step of m16n8k16 */
  float a[RDT_PROBE_K], b[RDT_PROBE_K], c;
} rdt_probe_case;
typedef struct rdt_probe_args {
  const rdt_probe_case *cases;
  float *results;
} rdt_probe_args;
extern const void *const rdt_probe_code[2];  /* kernels (args) of fp16 and bf16: a block of 32 threads a case */
extern const void *const rdt_probe_wgmma[2]; /* the same of compute capability 9.0, a block of 128 */

#ifdef __cplusplus
}
#else
#include "check/tolerance.h"
#include "cuda/device.h"

typedef struct rdt_probed {
  bool truncates; /* results are cut off, not rounded */
  int kb, f;      /* products that are added at once; fraction bits that are kept while they are: see tolerance.h */
  bool as_known;  /* it is what rdt_accumulator_mma says of this compute capability, by whatever instruction */
} rdt_probed;

void rdt_probe_make(rdt_probe_case cases[RDT_PROBE_CASES]);
/* What results of these cases say. */
rdt_probed rdt_probe_read(const float results[RDT_PROBE_CASES], int major, int minor, rdt_dtype in);
/* The model for bounds; where the device is not as known, the widest one. */
rdt_accumulator rdt_probe_model(const rdt_probed *p, int major, int minor, rdt_dtype in);
/* in: fp16 or bf16. acc, if any: the model. */
rdt_status rdt_probe(const rdt_cuda_device *d, rdt_dtype in, rdt_probed *found, rdt_accumulator *acc, rdt_reason *why);
#endif
#endif
