// There is no cuBLASLt in the emulated device: each product of blocks takes the way of one that the library has nothing
// for. So everything around it runs as it ships (the linker's --wrap).
#include "cuda/blas.h"

rdt_status __wrap_rdt_blas_version(int *version, rdt_reason *why);
rdt_status __wrap_rdt_blas_create_lent(const rdt_blas_product *p, void *workspace, size_t bytes, rdt_blas **b,
                                       rdt_reason *why);

rdt_status __wrap_rdt_blas_version(int *version, rdt_reason *why) {
  (void)why;
  *version = 0;
  return RDT_OK;
}

rdt_status __wrap_rdt_blas_create_lent(const rdt_blas_product *p, void *workspace, size_t bytes, rdt_blas **b,
                                       rdt_reason *why) {
  (void)p, (void)workspace, (void)bytes;
  *b = NULL;
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "no library in the emulated device");
}
