// The emulated device and its functions: what the objects of the kernels register as the program begins, their PTX,
// what is said of the device, errors.
#include "runtime.h"

#include <cuda.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "race.h"

// ---- Calls ----

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local cudaError_t last;
static cudaError_t lost;
static uint64_t chance;

void em_enter(void) {
  pthread_mutex_lock(&lock);
}

cudaError_t em_leave(cudaError_t e) {
  if (lost) e = lost;
  if (e) last = e;
  pthread_mutex_unlock(&lock);
  return e;
}

void em_lose(cudaError_t e) {
  if (lost) return;
  lost = e;
  em_refuse("%s", em_message());
}

cudaError_t em_lost(void) {
  return lost;
}

uint64_t em_chance(void) {
  if (!chance) {
    const char *seed = getenv("RDT_EMULATED_SEED");
    chance = 2 * (seed ? strtoull(seed, NULL, 10) : 0) + 1;
    if (getenv("RDT_EMULATED_RACES")) em_race_on = true;
  }
  uint64_t x = chance += UINT64_C(0x9e3779b97f4a7c16);  // odd, for ever
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

void em_refuse(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("emulated GPU: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
}

cudaError_t cudaGetLastError(void) {
  em_enter();
  const cudaError_t e = lost ? lost : last;
  last = cudaSuccess;
  pthread_mutex_unlock(&lock);
  return e;
}

const char *cudaGetErrorString(cudaError_t e) {
  static const struct {
    cudaError_t error;
    const char *text;
  } table[] = {{cudaSuccess, "no error"},
               {cudaErrorInvalidValue, "invalid argument"},
               {cudaErrorMemoryAllocation, "out of memory"},
               {cudaErrorInvalidConfiguration, "invalid configuration argument"},
               {cudaErrorInvalidDeviceFunction, "invalid device function"},
               {cudaErrorInvalidDevice, "invalid device ordinal"},
               {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
               {cudaErrorInvalidResourceHandle, "invalid resource handle"},
               {cudaErrorNotReady, "device not ready"},
               {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
               {cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"},
               {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
               {cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"},
               {cudaErrorNotSupported, "operation not supported"},
               {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
               {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
               {cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"},
               {cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"},
               {cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"},
               {cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"},
               {cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing one"},
               {cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"},
               {cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture from another thread"},
               {cudaErrorInvalidClusterSize, "invalid cluster size"}};
  if (lost && e == lost) return em_message();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].error == e) return table[i].text;
  return "unrecognized error code";
}

// ---- The device ----

// RDT_EMULATED_DEVICES: so many of them, with all memory in common.
static _Thread_local int current;
static int devices(void) {
  const char *text = getenv("RDT_EMULATED_DEVICES");
  return text ? atoi(text) : 1;
}

static cudaError_t is_device(int device) {
  return device >= 0 && device < devices() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count) {
  em_enter();
  *count = devices();
  return em_leave(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  em_enter();
  if (is_device(device) == cudaSuccess) current = device;
  return em_leave(is_device(device));
}

cudaError_t cudaGetDevice(int *device) {
  em_enter();
  *device = current;
  return em_leave(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int other) {
  em_enter();
  *can = device != other;
  return em_leave(is_device(device) == cudaSuccess ? is_device(other) : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags) {
  static bool enabled[8][8];
  em_enter();
  if (flags || other == current || is_device(other) != cudaSuccess) return em_leave(cudaErrorInvalidDevice);
  bool *is = &enabled[current & 7][other & 7];
  const cudaError_t e = *is ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
  *is = true;
  return em_leave(e);
}

cudaError_t cudaDriverGetVersion(int *version) {
  em_enter();
  *version = CUDA_VERSION;
  return em_leave(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  em_enter();
  *version = CUDART_VERSION;
  return em_leave(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  em_enter();
  *p = (struct cudaDeviceProp){.name = "emulated GPU",
                               .totalGlobalMem = em_device_memory,
                               .sharedMemPerBlock = 48 << 10,
                               .regsPerBlock = 65536,
                               .warpSize = EM_LANES,
                               .maxThreadsPerBlock = 1024,
                               .maxThreadsDim = {1024, 1024, 64},
                               .maxGridSize = {INT32_MAX, 65535, 65535},
                               .major = 9,
                               .multiProcessorCount = EM_SMS,
                               .concurrentKernels = 1,
                               .asyncEngineCount = 2,
                               .unifiedAddressing = 1,
                               .l2CacheSize = 4 << 20,
                               .maxThreadsPerMultiProcessor = EM_SM_THREADS,
                               .sharedMemPerMultiprocessor = EM_SM_SHARED,
                               .regsPerMultiprocessor = 65536,
                               .cooperativeLaunch = 1,
                               .sharedMemPerBlockOptin = EM_BLOCK_SHARED,
                               .maxBlocksPerMultiProcessor = EM_SM_BLOCKS,
                               .reservedSharedMemPerBlock = 1024,
                               .clusterLaunch = 1};
  return em_leave(is_device(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
  static const struct {
    enum cudaDeviceAttr which;
    int value;
  } table[] = {{cudaDevAttrComputeCapabilityMajor, 9},
               {cudaDevAttrComputeCapabilityMinor, 0},
               {cudaDevAttrMultiProcessorCount, EM_SMS},
               {cudaDevAttrMaxSharedMemoryPerMultiprocessor, EM_SM_SHARED},
               {cudaDevAttrMaxSharedMemoryPerBlockOptin, EM_BLOCK_SHARED}};
  em_enter();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].which == which) {
      *value = table[i].value;
      return em_leave(is_device(device));
    }
  em_refuse("attribute %d of the device is not known: see cudaDeviceGetAttribute", (int)which);
  return em_leave(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *to, int length, int device) {
  em_enter();
  snprintf(to, (size_t)length, "0000:00:00.0");
  return em_leave(is_device(device));
}

cudaError_t cudaDeviceSynchronize(void) {
  em_enter();
  cudaError_t e = em_capture_forbids();
  if (e == cudaSuccess) e = em_settle_all();
  return em_leave(e);
}

// Of the driver there are tensor maps. It has no green contexts: like one older than CUDA 12.4.
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
  static const struct {
    const char *name;
    void *function;
  } table[] = {{"cuTensorMapEncodeTiled", (void *)cuTensorMapEncodeTiled},
               {"cuTensorMapEncodeIm2col", (void *)cuTensorMapEncodeIm2col}};
  (void)version, (void)flags;
  em_enter();
  *function = NULL, *result = cudaDriverEntryPointSymbolNotFound;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(name, table[i].name) == 0) *function = table[i].function, *result = cudaDriverEntryPointSuccess;
  return em_leave(cudaSuccess);
}

// cuBLASLt, cuDNN and NVML are for a device that is one.
void *__wrap_dlopen(const char *name, int flags);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags) {
  const bool real = name && (strstr(name, "libcublas") || strstr(name, "libcudnn") || strstr(name, "libnvidia-ml"));
  return real ? NULL : __real_dlopen(name, flags);
}

// ---- What objects register ----

typedef struct em_binary {
  const uint8_t *data;  // of a "fat binary": entries for machines, one behind the other
  char *text;
  em_module *module;
  bool tried;
} em_binary;

static em_kernel *kernels;
static int n_kernels, room_kernels;
static bool sorted;

// By nvcc's code, before main.
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name, int limit, void *thread,
                            void *block, void *block_dim, void *grid_dim, int *warp);
// Launches by <<<>>>, which the stubs contain; nobody calls those.
unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream);

void **__cudaRegisterFatBinary(void *wrapper) {
  const struct {
    int magic, version;
    const void *data, *more;
  } *w = wrapper;
  em_binary *b = calloc(1, sizeof *b);
  if (b) b->data = w->data;
  return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
  (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
  em_binary *b = (em_binary *)handle;
  if (!b) return;
  if (b->module) em_module_free(b->module);
  free(b->text), free(b);
}

void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name, int limit, void *thread,
                            void *block, void *block_dim, void *grid_dim, int *warp) {
  (void)name, (void)limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim, (void)warp;
  if (n_kernels == room_kernels) {
    const int room = room_kernels ? 2 * room_kernels : 1024;
    em_kernel *grown = realloc(kernels, (size_t)room * sizeof *grown);
    if (!grown) return;
    kernels = grown, room_kernels = room;
  }
  kernels[n_kernels++] = (em_kernel){.stub = stub, .binary = (em_binary *)handle, .name = function};
}

unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
  (void)grid, (void)block, (void)shared, (void)stream;
  return cudaErrorNotSupported;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
  (void)kernel, (void)stub;
  return cudaErrorNotSupported;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
  (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  return cudaErrorNotSupported;
}

// ---- PTX ----

// A "fat binary": 16 bytes (magic, version, their size, that of all entries), then entries, each with a header:
enum {
  KIND_PTX = 1,
  OF_KIND = 0,
  OF_HEADER = 4,
  OF_PADDED = 8,
  OF_BYTES = 16,
  OF_MACHINE = 28,
  OF_FLAGS = 40,
  OF_TEXT = 56
};
enum { MACHINE = 90, LZ4 = 0x2000, ZSTD = 0x8000 };

static uint64_t number(const uint8_t *p, int at, size_t bytes) {
  uint64_t x = 0;
  memcpy(&x, p + at, bytes);
  return x;
}

// The text of the newest machine up to this one, with a 0 behind it; NULL: there is none that can be read.
static char *text_of(const em_binary *b) {
  const uint8_t *p = b->data + number(b->data, 6, 2), *end = p + number(b->data, 8, 8), *found = NULL;
  for (; p < end; p += number(p, OF_HEADER, 4) + number(p, OF_PADDED, 8))
    if (number(p, OF_KIND, 2) == KIND_PTX && number(p, OF_MACHINE, 4) <= MACHINE &&
        (!found || number(p, OF_MACHINE, 4) >= number(found, OF_MACHINE, 4)))
      found = p;
  if (!found) return NULL;
  const uint8_t *data = found + number(found, OF_HEADER, 4);
  const uint64_t flags = number(found, OF_FLAGS, 8), packed = number(found, OF_BYTES, 4);
  const uint64_t bytes = flags & ZSTD ? number(found, OF_TEXT, 8) : number(found, OF_PADDED, 8);
  if (flags & LZ4) {
    em_refuse("PTX is compressed by LZ4: nvcc --compress-mode=size makes what is read here");
    return NULL;
  }
  char *text = malloc(bytes + 1);
  if (!text) return NULL;
  if (!(flags & ZSTD)) {
    memcpy(text, data, bytes);
  } else if (ZSTD_decompress(text, bytes, data, packed) != bytes) {
    free(text);
    return NULL;
  }
  text[bytes] = 0;
  return text;
}

char *(*em_edit)(char *text);

static em_module *module_of(em_binary *b, const char *kernel) {
  if (b->tried) return b->module;
  b->tried = true;
  b->text = text_of(b);
  if (b->text && em_edit) b->text = em_edit(b->text);
  if (b->text) b->module = em_module_read(b->text, kernel);
  if (!b->module)
    em_refuse("%s: %s", kernel,
              b->text ? em_message() : "no PTX of sm_90a in its object: configure with REDOUBT_EMULATED_GPU=ON");
  return b->module;
}

static int by_stub(const void *a, const void *b) {
  const uintptr_t x = (uintptr_t)((const em_kernel *)a)->stub, y = (uintptr_t)((const em_kernel *)b)->stub;
  return (x > y) - (x < y);
}

cudaError_t em_kernel_find(const void *stub, em_kernel **kernel) {
  if (!sorted) qsort(kernels, (size_t)n_kernels, sizeof *kernels, by_stub);
  sorted = true;
  *kernel =
      n_kernels ? bsearch(&(em_kernel){.stub = stub}, kernels, (size_t)n_kernels, sizeof *kernels, by_stub) : NULL;
  return *kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

static cudaError_t load(em_kernel *k) {
  if (k->function) return cudaSuccess;
  em_module *m = module_of(k->binary, k->name);
  if (!m) return cudaErrorNoKernelImageForDevice;
  k->function = em_module_find(m, k->name);
  if (k->function) return cudaSuccess;
  em_refuse("%s: %s", k->name, em_message());
  return cudaErrorInvalidDeviceFunction;
}

// ---- Functions ----

cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute which, int value) {
  em_kernel *k;
  em_enter();
  cudaError_t e = em_kernel_find(stub, &k);
  if (e == cudaSuccess && which == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > EM_BLOCK_SHARED)
      e = cudaErrorInvalidValue;
    else
      k->dynamic_most = value;
  } else if (e == cudaSuccess && which == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    k->wide_clusters = value != 0;
  } else if (e == cudaSuccess) {
    em_refuse("attribute %d of a kernel is not known: see cudaFuncSetAttribute", (int)which);
    e = cudaErrorInvalidValue;
  }
  return em_leave(e);
}

static uint64_t product(const uint32_t x[3]) {
  return (uint64_t)x[0] * x[1] * x[2];
}

static void set(uint32_t to[3], unsigned x, unsigned y, unsigned z) {
  to[0] = x, to[1] = y, to[2] = z;
}

static cudaError_t take_attributes(const cudaLaunchConfig_t *config, em_launch *l, bool *early) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute *a = &config->attrs[i];
    if (a->id == cudaLaunchAttributeClusterDimension) {
      const uint32_t own[3] = {l->cluster[0], l->cluster[1], l->cluster[2]};
      set(l->cluster, a->val.clusterDim.x, a->val.clusterDim.y, a->val.clusterDim.z);
      if (product(own) > 1 && memcmp(own, l->cluster, sizeof own) != 0) return cudaErrorInvalidValue;
    } else if (a->id == cudaLaunchAttributeCooperative) {
      l->cooperative = a->val.cooperative != 0;
    } else if (a->id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      *early = a->val.programmaticStreamSerializationAllowed != 0;
    } else {
      em_refuse("attribute %d of a launch is not known: see em_launch_of", (int)a->id);
      return cudaErrorInvalidValue;
    }
  }
  return cudaSuccess;
}

static bool is_grid(const em_launch *l) {
  const uint64_t threads = product(l->block);
  return threads >= 1 && threads <= 1024 && l->block[2] <= 64 && product(l->grid) >= 1 && l->grid[0] <= INT32_MAX &&
         l->grid[1] <= 65535 && l->grid[2] <= 65535;
}

static cudaError_t judge(const em_kernel *k, const em_launch *l) {
  const em_function *f = k->function;
  enum { PORTABLE = 8, WIDEST = 16, USUAL = 48 << 10 };
  const uint64_t together = product(l->cluster), fixed = f->shared_bytes - EM_SHARED_FIRST;
  if (!is_grid(l)) return cudaErrorInvalidConfiguration;
  if (f->max_threads > 0 && product(l->block) > (uint64_t)f->max_threads) return cudaErrorLaunchOutOfResources;
  if (fixed + l->dynamic_bytes > EM_BLOCK_SHARED) return cudaErrorInvalidValue;
  if (l->dynamic_bytes > (size_t)k->dynamic_most && fixed + l->dynamic_bytes > USUAL) return cudaErrorInvalidValue;
  if (together < 1 || together > (k->wide_clusters ? WIDEST : PORTABLE)) return cudaErrorInvalidClusterSize;
  for (int i = 0; i < 3; i++)
    if (l->grid[i] % l->cluster[i]) return cudaErrorInvalidClusterSize;
  const int held = em_clusters_at_once(l);
  if (held < 1) return together > 1 ? cudaErrorInvalidClusterSize : cudaErrorLaunchOutOfResources;
  if (l->cooperative && product(l->grid) / together > (uint64_t)held) return cudaErrorCooperativeLaunchTooLarge;
  return cudaSuccess;
}

cudaError_t em_launch_of(const cudaLaunchConfig_t *c, const void *stub, em_launch *l, bool *early) {
  em_kernel *k;
  cudaError_t e = em_kernel_find(stub, &k);
  if (e == cudaSuccess) e = load(k);
  if (e != cudaSuccess) return e;
  const em_function *f = k->function;
  *early = false;
  *l = (em_launch){.function = f, .dynamic_bytes = c->dynamicSmemBytes};
  set(l->grid, c->gridDim.x, c->gridDim.y, c->gridDim.z);
  set(l->block, c->blockDim.x, c->blockDim.y, c->blockDim.z);
  set(l->cluster, 1, 1, 1);
  for (int i = 0; i < 3; i++)
    if (f->cluster[i] > 0) l->cluster[i] = (uint32_t)f->cluster[i];
  e = take_attributes(c, l, early);
  return e == cudaSuccess ? judge(k, l) : e;
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *stub, const cudaLaunchConfig_t *config) {
  em_launch l;
  bool early;
  em_enter();
  const cudaError_t e = em_launch_of(config, stub, &l, &early);
  *clusters = e == cudaSuccess ? em_clusters_at_once(&l) : 0;
  return em_leave(e == cudaErrorInvalidClusterSize || e == cudaErrorCooperativeLaunchTooLarge ? cudaSuccess : e);
}
