#include "cuda/groups.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/sms_args.h"

enum { TRIES = 100, PARTS = 128 };

#define FUNCTIONS(X)                                                                           \
  X(cuDeviceGet, (CUdevice *, int))                                                            \
  X(cuDeviceGetDevResource, (CUdevice, CUdevResource *, CUdevResourceType))                    \
  X(cuDevSmResourceSplitByCount,                                                               \
    (CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned, unsigned)) \
  X(cuDevResourceGenerateDesc, (CUdevResourceDesc *, CUdevResource *, unsigned))               \
  X(cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned))                   \
  X(cuGreenCtxDestroy, (CUgreenCtx))                                                           \
  X(cuGreenCtxStreamCreate, (CUstream *, CUgreenCtx, unsigned, int))

typedef struct driver {
#define X(name, arguments) CUresult(*name) arguments;
  FUNCTIONS(X)
#undef X
} driver;

struct rdt_sm_groups {
  int index, avoid; /* of the device; the multiprocessor that is left out, -1: none */
  rdt_sm_groups *next;
  driver d;
  CUdevice device;
  CUgreenCtx context[RDT_GROUPS];
  rdt_sm_group group[RDT_GROUPS];
  int shared; /* bytes that no two blocks have on one multiprocessor */
};

static rdt_status find_driver(driver *d, rdt_reason *why) {
  enum { GREEN = 12050 }; /* green contexts, and streams of theirs */
#define X(name, arguments) RDT_TRY(rdt_cuda_driver_function(#name, GREEN, (void **)&d->name, why));
  FUNCTIONS(X)
#undef X
  return RDT_OK;
}

static rdt_status status_of(CUresult r, const char *what, rdt_reason *why) {
  if (r == CUDA_SUCCESS) return RDT_OK;
  if (r == CUDA_ERROR_OUT_OF_MEMORY) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of device memory", what);
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "groups of multiprocessors: %s says %d", what, (int)r);
}

/* ---- which multiprocessors a stream has ---- */

static rdt_status find_sms(rdt_sm_groups *g, rdt_sm_group *x, int expected, rdt_reason *why) {
  unsigned counts[RDT_SMS_ROOM];
  void *there = NULL, *arguments[] = {&there};
  const dim3 grid = {(unsigned)expected, 1, 1}, block = {32, 1, 1};
  RDT_TRY(rdt_cuda_alloc(sizeof counts, &there, why));
  rdt_status status =
      rdt_cuda_status(cudaFuncSetAttribute(rdt_sms_where, cudaFuncAttributeMaxDynamicSharedMemorySize, g->shared),
                      "shared memory", why);
  for (int i = 0; i < TRIES && status == RDT_OK && x->n < expected; i++) {
    status = rdt_cuda_status(
        cudaLaunchKernel(rdt_sms_where, grid, block, arguments, (size_t)g->shared, (cudaStream_t)x->stream),
        "a group of multiprocessors", why);
    if (status == RDT_OK) status = rdt_cuda_get(counts, there, sizeof counts, x->stream, why);
    x->n = 0;
    for (int u = 0; status == RDT_OK && u < RDT_SMS_ROOM; u++)
      if (counts[u]) x->sms[x->n++] = u;
  }
  rdt_cuda_free(there);
  if (status == RDT_OK && x->n < expected)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "groups of multiprocessors: %d of %d were seen; is something else running on the device?", x->n,
                    expected);
  return status;
}

static bool has(const rdt_sm_group *x, int sm) {
  for (int i = 0; i < x->n; i++)
    if (x->sms[i] == sm) return true;
  return false;
}

static rdt_status are_apart(const rdt_sm_groups *g, rdt_reason *why) {
  for (int i = 0; i < RDT_GROUPS; i++)
    for (int k = 0; k < i; k++)
      for (int s = 0; s < g->group[k].n; s++)
        if (has(&g->group[i], g->group[k].sms[s]))
          return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                          "groups of multiprocessors: the driver ran blocks of two groups on multiprocessor %d",
                          g->group[k].sms[s]);
  return RDT_OK;
}

/* ---- making them ---- */

static rdt_status make(rdt_sm_groups *g, CUgreenCtx *context, rdt_sm_group *x, CUdevResource *parts, int n,
                       rdt_reason *why) {
  CUdevResourceDesc desc;
  CUstream stream;
  int expected = 0;
  for (int i = 0; i < n; i++) expected += (int)parts[i].sm.smCount;
  RDT_TRY(status_of(g->d.cuDevResourceGenerateDesc(&desc, parts, (unsigned)n), "cuDevResourceGenerateDesc", why));
  RDT_TRY(
      status_of(g->d.cuGreenCtxCreate(context, desc, g->device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate", why));
  RDT_TRY(status_of(g->d.cuGreenCtxStreamCreate(&stream, *context, CU_STREAM_NON_BLOCKING, 0), "cuGreenCtxStreamCreate",
                    why));
  x->stream = stream;
  return find_sms(g, x, expected, why);
}

static void drop(rdt_sm_groups *g, int i) {
  if (g->group[i].stream) (void)cudaStreamDestroy(g->group[i].stream);
  if (g->context[i]) (void)g->d.cuGreenCtxDestroy(g->context[i]);
  g->group[i] = (rdt_sm_group){.n = 0};
  g->context[i] = NULL;
}

/* The part that has the multiprocessor that is avoided is no more. Contexts take their time: halves are asked. */
static rdt_status leave_out(rdt_sm_groups *g, CUdevResource *parts, int *n, rdt_reason *why) {
  int first = 0, count = *n;
  while (count > 1) {
    const int half = count / 2;
    RDT_TRY(make(g, &g->context[0], &g->group[0], &parts[first], half, why));
    const bool there = has(&g->group[0], g->avoid);
    drop(g, 0);
    first += there ? 0 : half, count = there ? half : count - half;
  }
  RDT_TRY(make(g, &g->context[0], &g->group[0], &parts[first], 1, why));
  const bool found = has(&g->group[0], g->avoid);
  drop(g, 0);
  if (!found) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "groups of multiprocessors: %d was not found", g->avoid);
  for (int i = first; i + 1 < *n; i++) parts[i] = parts[i + 1];
  --*n;
  return RDT_OK;
}

static rdt_status split(rdt_sm_groups *g, rdt_reason *why) {
  CUdevResource all, rest, parts[PARTS];
  unsigned count = PARTS;
  int taken = 0;
  RDT_TRY(rdt_cuda_status(cudaDeviceGetAttribute(&g->shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, g->index),
                          "the device", why));
  g->shared /= 2;
  RDT_TRY(status_of(g->d.cuDeviceGet(&g->device, g->index), "cuDeviceGet", why));
  RDT_TRY(
      status_of(g->d.cuDeviceGetDevResource(g->device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource", why));
  /* As small as they come: two at a time are computed on together, which is what clusters of two need. */
  RDT_TRY(status_of(
      g->d.cuDevSmResourceSplitByCount(parts, &count, &all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2),
      "cuDevSmResourceSplitByCount", why));
  int n = (int)count;
  if (g->avoid >= 0) RDT_TRY(leave_out(g, parts, &n, why));
  for (int i = 0; i < RDT_GROUPS; i++) {
    const int more = (n - taken) / (RDT_GROUPS - i);
    if (more < 1) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "groups of multiprocessors: there are too few");
    RDT_TRY(make(g, &g->context[i], &g->group[i], &parts[taken], more, why));
    taken += more;
  }
  return are_apart(g, why);
}

static void destroy(rdt_sm_groups *g) {
  for (int i = 0; i < RDT_GROUPS; i++) drop(g, i);
  rdt_free(g);
}

/* Those that were made: a list, whose lock is held. */
static rdt_status find_or_make(rdt_sm_groups **list, int device, int avoid, const rdt_sm_groups **out,
                               rdt_reason *why) {
  for (rdt_sm_groups *g = *list; g; g = g->next)
    if (g->index == device && g->avoid == avoid) return *out = g, RDT_OK;
  rdt_sm_groups *g = rdt_calloc(1, sizeof *g);
  if (!g) return rdt_fail(why, RDT_ERR_NOMEM, "groups of multiprocessors: out of memory");
  g->index = device, g->avoid = avoid, g->next = *list;
  rdt_status status = find_driver(&g->d, why);
  if (status == RDT_OK) status = split(g, why);
  if (status == RDT_OK)
    *out = *list = g;
  else
    destroy(g);
  return status;
}

rdt_status rdt_sm_groups_of_device(int avoid, const rdt_sm_groups **out, rdt_reason *why) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static rdt_sm_groups *list;
  int device = 0;
  *out = NULL;
  RDT_TRY(rdt_cuda_status(cudaGetDevice(&device), "cudaGetDevice", why));
  pthread_mutex_lock(&lock);
  const rdt_status status = find_or_make(&list, device, avoid, out, why);
  pthread_mutex_unlock(&lock);
  return status;
}

const rdt_sm_group *rdt_sm_groups_at(const rdt_sm_groups *g, int i) {
  return &g->group[i];
}
