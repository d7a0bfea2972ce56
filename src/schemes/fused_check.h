/* The check of a product whose kernel sums as it goes (cpu/fused.h): what the kernel is to sum, and the comparison.
 * `row` of a product and `fc` of a convolution are one check there: a convolution's rows are its pixels. `ic` of a
 * depthwise convolution checks its columns: each channel, some rows of pixels at a time. */
#ifndef RDT_SCHEMES_FUSED_CHECK_H
#define RDT_SCHEMES_FUSED_CHECK_H

#include "check/findings.h"
#include "check/vault.h"
#include "core/problem.h"
#include "cpu/fused.h"

typedef struct rdt_fused_check rdt_fused_check;

/* Weights that are not fixed are summed by the kernel. Everything online is single precision in short chains: the
 * bounds know. */
rdt_status rdt_fused_create(const rdt_problem *p, const rdt_kernel *kernel, unsigned forms, double lambda,
                            rdt_fused_check **out, rdt_reason *why);
rdt_status rdt_fused_fixed(rdt_fused_check *c, rdt_vault *frame, rdt_vault *tables); /* as a scheme's */
void rdt_fused_destroy(rdt_fused_check *c);
void rdt_fused_recreate(rdt_fused_check *c, const rdt_tensor *weights);
void rdt_fused_checksums(rdt_fused_check *c, void **data, size_t *bytes, rdt_dtype *dtype);
rdt_fused rdt_fused_ask(const rdt_fused_check *c); /* for one run */
void rdt_fused_judge(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f);

#endif
