#include "cuda/device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

enum { OLDEST = 8 }; /* compute capability that the kernels are made for */
enum { WHOLE = 16 }; /* bytes that kernels copy at once, of which they use those that are there */

bool rdt_cuda_built(void) {
  return true;
}

rdt_status rdt_cuda_status(int error, const char *what, rdt_reason *why) {
  const cudaError_t e = (cudaError_t)error;
  if (e == cudaSuccess) return RDT_OK;
  const char *text = cudaGetErrorString(e);
  switch (e) {
    case cudaErrorMemoryAllocation:
      (void)cudaGetLastError(); /* it is no state of the device */
      return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of device memory", what);
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorLaunchOutOfResources:
      (void)cudaGetLastError();
      return rdt_fail(why, RDT_ERR_INTERNAL, "%s: %s", what, text);
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorUnknown:
      return rdt_fail(why, RDT_ERR_DEVICE, "%s: the device is lost to this process (%s): what it computed is not used",
                      what, text);
    default:
      return rdt_fail(why, RDT_ERR_DEVICE, "%s: %s", what, text);
  }
}

rdt_status rdt_cuda_find(int *count, rdt_reason *why) {
  const cudaError_t e = cudaGetDeviceCount(count);
  if (e == cudaSuccess && *count > 0) return RDT_OK;
  (void)cudaGetLastError();
  *count = 0;
  int driver = 0;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  const bool none = !has_driver || e == cudaSuccess || e == cudaErrorNoDevice;
  rdt_fail(why, RDT_ERR_UNSUPPORTED, "no GPU: %s",
           !has_driver ? "there is no NVIDIA driver"
           : none      ? "the driver sees none"
                       : cudaGetErrorString(e));
  return none ? RDT_OK : RDT_ERR_DEVICE;
}

int rdt_cuda_count(rdt_reason *why) {
  int count;
  (void)rdt_cuda_find(&count, why);
  return count;
}

rdt_status rdt_cuda_open(int index, rdt_cuda_device *d, rdt_reason *why) {
  struct cudaDeviceProp p;
  const int count = rdt_cuda_count(why);
  if (index < 0 || index >= count)
    return count ? rdt_fail(why, RDT_ERR_NAME, "there is no device cuda:%d; there are %d, from cuda:0 on", index, count)
                 : RDT_ERR_NAME;
  RDT_TRY(rdt_cuda_status(cudaSetDevice(index), "cudaSetDevice", why));
  RDT_TRY(rdt_cuda_status(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties", why));
  *d = (rdt_cuda_device){.index = index,
                         .major = p.major,
                         .minor = p.minor,
                         .sms = p.multiProcessorCount,
                         .memory = p.totalGlobalMem,
                         .l2 = (size_t)p.l2CacheSize,
                         .shared = p.sharedMemPerBlockOptin};
  snprintf(d->name, sizeof d->name, "%.95s", p.name);
  RDT_TRY(rdt_cuda_status(cudaDriverGetVersion(&d->driver), "cudaDriverGetVersion", why));
  RDT_TRY(rdt_cuda_status(cudaRuntimeGetVersion(&d->runtime), "cudaRuntimeGetVersion", why));
  if (d->major < OLDEST)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "cuda:%d, %s, has compute capability %d.%d; the kernels need %d.0", index,
                    d->name, d->major, d->minor, OLDEST);
  return RDT_OK;
}

/* cudaMemset returns before it is done, and streams of ours do not wait for it: what they wrote could be cleared. */
rdt_status rdt_cuda_alloc(size_t bytes, void **p, rdt_reason *why) {
  const size_t whole = (bytes + WHOLE - 1) / WHOLE * WHOLE;
  *p = NULL;
  RDT_TRY(rdt_cuda_status(cudaMalloc(p, whole ? whole : WHOLE), "cudaMalloc", why));
  RDT_TRY(rdt_cuda_status(cudaMemset(*p, 0, whole), "cudaMemset", why));
  return rdt_cuda_wait(NULL, why);
}

void rdt_cuda_free(void *p) {
  if (p) (void)cudaFree(p);
}

rdt_status rdt_cuda_put(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why) {
  return rdt_cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copy to the device", why);
}

rdt_status rdt_cuda_get(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why) {
  RDT_TRY(
      rdt_cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copy from the device", why));
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_cuda_move(void *to, const void *from, size_t bytes, void *stream, rdt_reason *why) {
  return rdt_cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy on the device", why);
}

rdt_status rdt_cuda_clear(void *p, size_t bytes, void *stream, rdt_reason *why) {
  return rdt_cuda_status(cudaMemsetAsync(p, 0, bytes, stream), "cudaMemset", why);
}

rdt_status rdt_cuda_wait(void *stream, rdt_reason *why) {
  return rdt_cuda_status(cudaStreamSynchronize(stream), "work on the device", why);
}

rdt_status rdt_cuda_driver_function(const char *name, int version, void **function, rdt_reason *why) {
  enum cudaDriverEntryPointQueryResult result;
  *function = NULL;
  RDT_TRY(rdt_cuda_status(
      cudaGetDriverEntryPointByVersion(name, function, (unsigned)version, cudaEnableDefault, &result), name, why));
  return result == cudaDriverEntryPointSuccess && *function
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_UNSUPPORTED, "this driver has no %s: it is older than CUDA %d.%d", name,
                        version / 1000, version % 1000 / 10);
}
