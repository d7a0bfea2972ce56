/* NVML, which comes with the driver: opened at each call, so that nothing of it stays. */
#include <dlfcn.h>
#include <math.h>

#include "cuda/sms.h"

enum { NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1 };
typedef int plain_fn(void);
typedef int find_fn(const char *bus, void **device);
typedef int read_fn(void *device, int which, unsigned *value);

static double read_one(read_fn *read, void *device, int which) {
  unsigned value = 0;
  return read && read(device, which, &value) == 0 ? (double)value : NAN;
}

void rdt_cuda_sense(const char *bus, double *mhz, double *celsius) {
  void *device = NULL, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  *mhz = *celsius = NAN;
  if (!library) return;
  plain_fn *const begin = (plain_fn *)dlsym(library, "nvmlInit_v2"), *const end =
                                                                         (plain_fn *)dlsym(library, "nvmlShutdown");
  find_fn *const find = (find_fn *)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
  if (begin && end && find && begin() == 0) {
    if (find(bus, &device) == 0) {
      *mhz = read_one((read_fn *)dlsym(library, "nvmlDeviceGetClockInfo"), device, NVML_CLOCK_SM);
      *celsius = read_one((read_fn *)dlsym(library, "nvmlDeviceGetTemperature"), device, NVML_TEMPERATURE_GPU);
    }
    end();
  }
  dlclose(library);
}
