// The emulated CUDA runtime: memory, streams that are late, capture, conditions, what is refused, and what a fault of a
// kernel leaves behind. Kernels are PTX texts in binaries as nvcc makes them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

#include "runtime.h"

// ---- Kernels ----

#define HEAD                                                                                                 \
  ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .func cudaGraphSetConditional\n(\n\t.param .b64 " \
  "a,\n\t.param .b32 b\n)\n;\n"
// p[thread] += by
static const char adding[] = HEAD
    ".visible .entry adding(\n\t.param .u64 adding_p,\n\t.param .u32 adding_by\n)\n.maxntid 64, 1, 1\n{\n"
    "\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<4>;\n"
    "\tld.param.u64 %rd1, [adding_p];\n\tld.param.u32 %r1, [adding_by];\n\tmov.u32 %r2, %tid.x;\n"
    "\tcvta.to.global.u64 %rd2, %rd1;\n\tmul.wide.u32 %rd3, %r2, 4;\n\tadd.s64 %rd2, %rd2, %rd3;\n"
    "\tld.global.u32 %r3, [%rd2];\n\tadd.s32 %r3, %r3, %r1;\n\tst.global.u32 [%rd2], %r3;\n\tret;\n}\n";
// The condition is --*p
static const char telling[] = HEAD
    ".visible .entry telling(\n\t.param .u64 telling_p,\n\t.param .u64 telling_c\n)\n{\n"
    "\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<4>;\n"
    "\tld.param.u64 %rd1, [telling_p];\n\tld.param.u64 %rd2, [telling_c];\n\tcvta.to.global.u64 %rd3, %rd1;\n"
    "\tld.global.u32 %r1, [%rd3];\n\tadd.s32 %r1, %r1, -1;\n\tst.global.u32 [%rd3], %r1;\n"
    "\t{ // callseq 0, 0\n\t.param .b64 param0;\n\tst.param.b64 [param0], %rd2;\n\t.param .b32 param1;\n"
    "\tst.param.b32 [param1], %r1;\n\tcall.uni\n\tcudaGraphSetConditional,\n\t(\n\tparam0,\n\tparam1\n\t);\n\t} // "
    "callseq 0\n"
    "\tret;\n}\n";

static char stubs[3];  // of two: their addresses are the kernels'
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name, int limit, void *thread,
                            void *block, void *block_dim, void *grid_dim, int *warp);

static void register_kernel(const char *text, const char *stub, char *name, bool packed) {
  static struct {
    int magic, version;
    const void *data, *more;
  } wrapper;
  const size_t bytes = strlen(text) + 1, room = ZSTD_compressBound(bytes) + 8;
  uint8_t *p = calloc(1, 80 + room), *entry = p + 16;
  assert_non_null(p);
  const size_t held = packed ? ZSTD_compress(entry + 64, room, text, bytes, 3) : bytes;
  if (!packed) memcpy(entry + 64, text, bytes);
  const uint64_t padded = (held + 7) / 8 * 8, all = 64 + padded;
  const uint32_t header = 64, machine = 90, head_bytes = 16, stored = (uint32_t)held;
  const uint64_t flags = packed ? 0x108011 : 0x100011, whole = bytes;
  memcpy(p + 6, &head_bytes, 2), memcpy(p + 8, &all, 8);
  entry[0] = 1;
  memcpy(entry + 4, &header, 4), memcpy(entry + 8, &padded, 8), memcpy(entry + 16, &stored, 4);
  memcpy(entry + 28, &machine, 4), memcpy(entry + 40, &flags, 8), memcpy(entry + 56, &whole, 8);
  wrapper.data = p;
  __cudaRegisterFunction(__cudaRegisterFatBinary(&wrapper), stub, name, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static cudaError_t add(void *p, unsigned by, unsigned threads, cudaStream_t stream) {
  void *params[] = {&p, &by};
  return cudaLaunchKernel(&stubs[0], (dim3){1, 1, 1}, (dim3){threads, 1, 1}, params, 0, stream);
}

static void good(cudaError_t e) {
  if (e != cudaSuccess) print_error("%s\n", cudaGetErrorString(e));
  assert_int_equal(e, cudaSuccess);
}

static void refused(cudaError_t e, cudaError_t expected) {
  assert_int_equal(e, expected);
  assert_int_equal(cudaGetLastError(), expected);
  assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static unsigned read_one(const unsigned *p) {
  unsigned x = 0;
  good(cudaMemcpy(&x, p, sizeof x, cudaMemcpyDeviceToHost));
  return x;
}

// ---- Memory ----

static void test_memory(void **state) {
  (void)state;
  char *p, *q, *host, here[64];
  size_t left, total, now;
  good(cudaMemGetInfo(&left, &total));
  good(cudaMalloc((void **)&p, 1000));
  good(cudaMalloc((void **)&q, 1));
  good(cudaMallocHost((void **)&host, 64));
  good(cudaMemGetInfo(&now, &total));
  assert_int_equal(left - now, 1001);
  assert_true((uintptr_t)p % 256 == 0 && (uintptr_t)q % 256 == 0);
  good(cudaMemcpy(here, p + 936, 64, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) assert_int_equal((unsigned char)here[i], 0xff);  // nobody has written it
  assert_true(em_allocated((uintptr_t)p, 1000) && em_allocated((uintptr_t)p + 999, 1));
  assert_false(em_allocated((uintptr_t)p, 1001) || em_allocated((uintptr_t)p + 1000, 1));
  assert_false(em_allocated((uintptr_t)p - 1, 2) || em_allocated((uintptr_t)here, 1));
  assert_true(em_allocated((uintptr_t)host, 64));
  assert_false(em_allocated((uintptr_t)host, 65));
  refused(cudaMemcpy(here, p + 937, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);  // beyond the end
  refused(cudaMemcpy(p, here, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);        // the other way
  refused(cudaMemcpy(p, q, 2, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  refused(cudaMemset(host, 0, 1), cudaErrorInvalidValue);
  refused(cudaFree(p + 16), cudaErrorInvalidValue);
  refused(cudaFree(host), cudaErrorInvalidValue);
  good(cudaFree(p));
  assert_false(em_allocated((uintptr_t)p, 1));
  refused(cudaFree(p), cudaErrorInvalidValue);
  refused(cudaMemset(p, 0, 1), cudaErrorInvalidValue);
  good(cudaFree(q)), good(cudaFree(NULL)), good(cudaFreeHost(host));
  good(cudaMemGetInfo(&now, &total));
  assert_int_equal(left, now);
  good(cudaHostRegister(here, sizeof here, cudaHostRegisterDefault));
  assert_true(em_allocated((uintptr_t)here + 60, 4));
  refused(cudaHostRegister(here + 1, 1, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  good(cudaHostUnregister(here));
  refused(cudaHostUnregister(here), cudaErrorHostMemoryNotRegistered);
  assert_false(em_allocated((uintptr_t)here + 60, 4));
}

// Given back in any order, all of it is there again; no two have a byte in common.
static void test_many(void **state) {
  (void)state;
  enum { MANY = 300, TURNS = 4000 };
  char *p[MANY] = {NULL};
  size_t bytes[MANY], left, now, total;
  const uint64_t all = em_device_memory;
  good(cudaMemGetInfo(&left, &total));
  em_device_memory = all - left + (1 << 20);
  int none = 0;
  for (int turn = 0; turn < TURNS; turn++) {
    const int i = (int)(em_chance() % MANY);
    if (p[i]) {
      unsigned char first = (unsigned char)~i;
      good(cudaMemcpy(&first, p[i] + em_chance() % bytes[i], 1, cudaMemcpyDeviceToHost));
      assert_int_equal(first, (unsigned char)i);
      good(cudaFree(p[i]));
      p[i] = NULL;
      continue;
    }
    bytes[i] = 1 + em_chance() % 20000;
    const cudaError_t e = cudaMalloc((void **)&p[i], bytes[i]);
    if (e == cudaSuccess) good(cudaMemset(p[i], i, bytes[i]));
    none += e == cudaErrorMemoryAllocation;
    assert_true(e == cudaSuccess || e == cudaErrorMemoryAllocation);
    assert_true((p[i] != NULL) == (e == cudaSuccess));
  }
  assert_true(none > 10);
  for (int i = 0; i < MANY; i++) good(cudaFree(p[i]));
  (void)cudaGetLastError();
  good(cudaMemGetInfo(&now, &total));
  assert_int_equal(now, 1 << 20);
  em_device_memory = all;
}

// ---- Streams ----

// What was not waited for may not be there yet, and may.
static void test_late(void **state) {
  (void)state;
  unsigned *p, *host;
  int early = 0, late = 0, mixed = 0;
  cudaStream_t a, b;
  good(cudaMalloc((void **)&p, 4 * sizeof *p));
  good(cudaMallocHost((void **)&host, sizeof *host));
  good(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  good(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  for (int i = 0; i < 200; i++) {
    good(cudaMemsetAsync(p, 1, 4, a));
    good(cudaStreamSynchronize(a));
    *host = 7;
    good(cudaMemcpyAsync(p, host, 4, cudaMemcpyHostToDevice, a));
    *host = 8;  // too early
    good(cudaStreamSynchronize(a));
    *host = 9;
    const unsigned first = read_one(p);
    early += first == 7, late += first == 8;
    good(cudaMemcpyAsync(p, host, 4, cudaMemcpyHostToDevice, a));
    good(cudaMemcpyAsync(p + 1, p, 4, cudaMemcpyDeviceToDevice, b));  // of another stream, which waits for nobody
    good(cudaStreamSynchronize(a)), good(cudaStreamSynchronize(b));
    mixed += read_one(p + 1) != 9;
  }
  assert_true(early > 0 && late > 0 && early + late == 200 && mixed > 0 && mixed < 200);
  good(cudaStreamDestroy(a)), good(cudaStreamDestroy(b));
  good(cudaFree(p)), good(cudaFreeHost(host));
}

static void test_events(void **state) {
  (void)state;
  unsigned *p;
  cudaStream_t s[3], waiting;
  cudaEvent_t done, from, to;
  float ms;
  good(cudaMalloc((void **)&p, 4 * sizeof *p));
  good(cudaMemset(p, 0, 16));
  for (int i = 0; i < 3; i++) good(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
  good(cudaStreamCreate(&waiting));
  good(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  good(cudaEventCreate(&from)), good(cudaEventCreate(&to));
  good(cudaDeviceSynchronize());
  refused(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
  for (int i = 1; i <= 300; i++) {  // each behind the other, whoever is asked
    good(cudaEventRecord(from, s[i % 3]));
    good(add(p, 1, 1, s[i % 3]));
    good(cudaMemcpyAsync(p + 1, p, 4, cudaMemcpyDeviceToDevice, s[i % 3]));
    good(cudaEventRecord(to, s[i % 3]));
    good(cudaEventRecord(done, s[i % 3]));
    good(cudaStreamWaitEvent(s[(i + 1) % 3], done, 0));
  }
  if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess) refused(cudaErrorNotReady, cudaErrorNotReady);
  good(cudaEventSynchronize(to));
  good(cudaEventElapsedTime(&ms, from, to));
  assert_true(ms > 0.0f && ms < 1.0f);
  refused(cudaEventElapsedTime(&ms, from, done), cudaErrorInvalidResourceHandle);
  good(cudaStreamSynchronize(s[1]));
  assert_int_equal(read_one(p + 1), 300);
  for (unsigned i = 0; i < 100; i++) {  // the stream NULL and those that wait for it
    good(add(p + 2, 1, 1, waiting));
    good(cudaMemset(p + 2, 0, 4));
    good(add(p + 2, i, 1, waiting));
    assert_int_equal(read_one(p + 2), i);
  }
  good(cudaEventDestroy(done)), good(cudaEventDestroy(from)), good(cudaEventDestroy(to));
  for (int i = 0; i < 3; i++) good(cudaStreamDestroy(s[i]));
  refused(cudaStreamSynchronize(s[0]), cudaErrorInvalidResourceHandle);
  good(cudaStreamDestroy(waiting)), good(cudaFree(p));
}

// ---- Launches ----

static void test_launches(void **state) {
  (void)state;
  unsigned *p, by = 1;
  void *params[] = {&p, &by};
  good(cudaMalloc((void **)&p, 256));
  good(cudaMemset(p, 0, 256));
  good(add(p, 5, 64, NULL));
  by = 100;
  assert_int_equal(read_one(p), 5);
  assert_int_equal(read_one(p + 63), 5);
  refused(add(p, 1, 65, NULL), cudaErrorLaunchOutOfResources);  // of .maxntid 64
  refused(add(p, 1, 0, NULL), cudaErrorInvalidConfiguration);
  refused(cudaLaunchKernel(&stubs[2], (dim3){1, 1, 1}, (dim3){1, 1, 1}, params, 0, NULL),
          cudaErrorInvalidDeviceFunction);
  refused(cudaLaunchKernel(&stubs[0], (dim3){1, 70000, 1}, (dim3){1, 1, 1}, params, 0, NULL),
          cudaErrorInvalidConfiguration);
  refused(cudaLaunchKernel(&stubs[0], (dim3){1, 1, 1}, (dim3){1, 1, 1}, params, 50000, NULL), cudaErrorInvalidValue);
  refused(cudaFuncSetAttribute(&stubs[0], cudaFuncAttributeMaxDynamicSharedMemorySize, EM_BLOCK_SHARED + 1),
          cudaErrorInvalidValue);
  good(cudaFuncSetAttribute(&stubs[0], cudaFuncAttributeMaxDynamicSharedMemorySize, EM_BLOCK_SHARED));
  good(cudaLaunchKernel(&stubs[0], (dim3){1, 1, 1}, (dim3){1, 1, 1}, params, EM_BLOCK_SHARED, NULL));
  cudaLaunchAttribute how[2] = {{.id = cudaLaunchAttributeClusterDimension, .val.clusterDim = {2, 1, 1}},
                                {.id = cudaLaunchAttributeCooperative, .val.cooperative = 1}};
  cudaLaunchConfig_t c = {.gridDim = {EM_SMS, 1, 1},
                          .blockDim = {32, 1, 1},
                          .dynamicSmemBytes = EM_BLOCK_SHARED,
                          .attrs = how,
                          .numAttrs = 2};
  int clusters;
  good(cudaOccupancyMaxActiveClusters(&clusters, &stubs[0], &c));
  assert_int_equal(clusters, EM_SMS / 2);
  good(cudaLaunchKernelExC(&c, &stubs[0], params));
  c.gridDim.x = EM_SMS + 2;
  refused(cudaLaunchKernelExC(&c, &stubs[0], params), cudaErrorCooperativeLaunchTooLarge);
  c.numAttrs = 1;
  good(cudaLaunchKernelExC(&c, &stubs[0], params));
  c.gridDim.x = 3;
  refused(cudaLaunchKernelExC(&c, &stubs[0], params), cudaErrorInvalidClusterSize);
  c.gridDim.x = 16, how[0].val.clusterDim.x = 16;
  refused(cudaLaunchKernelExC(&c, &stubs[0], params), cudaErrorInvalidClusterSize);
  good(cudaFuncSetAttribute(&stubs[0], cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  good(cudaLaunchKernelExC(&c, &stubs[0], params));
  good(cudaDeviceSynchronize());
  good(cudaFree(p));
}

// ---- Capture ----

static void test_capture(void **state) {
  (void)state;
  unsigned *p, *host;
  void *memory;
  cudaStream_t a, b, c;
  cudaEvent_t forked, joined, never;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  good(cudaMalloc((void **)&p, 64));
  good(cudaMemset(p, 0, 64));
  good(cudaMallocHost((void **)&host, 4));
  good(cudaDeviceSynchronize());
  good(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  good(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  good(cudaStreamCreate(&c));
  good(cudaEventCreate(&forked)), good(cudaEventCreate(&joined)), good(cudaEventCreate(&never));
  for (int whole = 1; whole >= 0; whole--) {  // another stream that comes back, and one that does not
    good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    good(add(p, 1, 1, a));
    good(cudaEventRecord(forked, a));
    good(cudaStreamWaitEvent(b, forked, 0));
    good(cudaMemcpyAsync(p + 1, p, 4, cudaMemcpyDeviceToDevice, b));
    good(cudaEventRecord(joined, b));
    good(add(p + 2, 1, 1, a));
    if (whole) good(cudaStreamWaitEvent(a, joined, 0));
    good(add(p + 1, 10, 1, a));
    good(cudaMemcpyAsync(host, p + 1, 4, cudaMemcpyDeviceToHost, a));
    if (whole)
      good(cudaStreamEndCapture(a, &graph));
    else
      refused(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
    refused(cudaEventSynchronize(forked), cudaErrorCapturedEvent);
    if (!whole) continue;
    good(cudaDeviceSynchronize());
    assert_int_equal(read_one(p), 0);  // nothing has run
    good(cudaGraphInstantiate(&exec, graph, 0));
    good(cudaGraphDestroy(graph));
    for (unsigned i = 1; i < 50; i++) {
      good(cudaGraphLaunch(exec, i % 2 ? a : b));
      good(cudaStreamSynchronize(i % 2 ? a : b));
      assert_int_equal(*host, i + 10);
    }
    assert_int_equal(read_one(p + 2), 49);
    for (unsigned i = 0; i < 50; i++) good(cudaGraphLaunch(exec, i % 2 ? a : b));
    good(cudaGraphExecDestroy(exec));
    good(cudaDeviceSynchronize());
    assert_int_equal(*host, 109);
  }
  good(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
  good(cudaStreamWaitEvent(a, never, 0));
  good(add(p, 1, 1, a));
  refused(cudaMalloc(&memory, 1), cudaErrorStreamCaptureUnsupported);
  refused(add(p, 1, 1, a), cudaErrorStreamCaptureInvalidated);
  refused(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
  assert_null(graph);
  good(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
  good(cudaMalloc(&memory, 1));
  refused(cudaStreamEndCapture(b, &graph), cudaErrorIllegalState);
  refused(cudaStreamSynchronize(a), cudaErrorStreamCaptureUnsupported);
  refused(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
  good(cudaStreamBeginCapture(c, cudaStreamCaptureModeRelaxed));
  refused(cudaMemset(p, 0, 4), cudaErrorStreamCaptureImplicit);
  refused(cudaStreamEndCapture(c, &graph), cudaErrorStreamCaptureInvalidated);
  good(cudaEventRecord(joined, b));
  good(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
  refused(cudaStreamWaitEvent(a, joined, 0), cudaErrorStreamCaptureIsolation);
  refused(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureInvalidated);
  refused(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  good(cudaStreamDestroy(a)), good(cudaStreamDestroy(b)), good(cudaStreamDestroy(c));
  good(cudaEventDestroy(forked)), good(cudaEventDestroy(joined)), good(cudaEventDestroy(never));
  good(cudaFree(memory)), good(cudaFree(p)), good(cudaFreeHost(host));
}

// ---- Conditions ----

static cudaGraphNode_t add_kernel(cudaGraph_t g, const cudaGraphNode_t *after, const char *stub, void *p, uint64_t x) {
  void *params[] = {&p, &x};
  cudaGraphNode_t node;
  const struct cudaKernelNodeParams how = {
      .func = (void *)(uintptr_t)stub, .gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .kernelParams = params};
  good(cudaGraphAddKernelNode(&node, g, after, after != NULL, &how));
  return node;
}

// telling(p); while (--p > 0) { p[1] += 3; telling(p); }, or if (--p) p[1] += 3; else p[2] += 4.
static cudaGraphExec_t conditional(unsigned *p, bool loops) {
  cudaGraph_t g;
  cudaGraphExec_t exec;
  cudaGraphConditionalHandle handle;
  cudaGraphNode_t node;
  enum cudaGraphNodeType type;
  good(cudaGraphCreate(&g, 0));
  good(cudaGraphConditionalHandleCreate(&handle, g, 0, cudaGraphCondAssignDefault));
  node = add_kernel(g, NULL, &stubs[1], p, handle);
  struct cudaGraphNodeParams c = {.type = cudaGraphNodeTypeConditional};
  c.conditional.handle = handle;
  c.conditional.type = loops ? cudaGraphCondTypeWhile : cudaGraphCondTypeIf;
  c.conditional.size = loops ? 1 : 2;
  good(cudaGraphAddNode(&node, g, &node, NULL, 1, &c));
  good(cudaGraphNodeGetType(node, &type));
  assert_int_equal(type, cudaGraphNodeTypeConditional);
  node = add_kernel(c.conditional.phGraph_out[0], NULL, &stubs[0], p + 1, 3);
  if (loops)
    add_kernel(c.conditional.phGraph_out[0], &node, &stubs[1], p, handle);
  else
    add_kernel(c.conditional.phGraph_out[1], NULL, &stubs[0], p + 2, 4);
  good(cudaGraphInstantiate(&exec, g, 0));
  good(cudaGraphDestroy(g));
  return exec;
}

static void test_conditions(void **state) {
  (void)state;
  unsigned *p, x[3];
  good(cudaMalloc((void **)&p, 12));
  for (int loops = 0; loops < 2; loops++) {
    cudaGraphExec_t exec = conditional(p, loops);
    for (unsigned n = 1; n < 6; n++) {
      const unsigned first[3] = {n, 0, 0};
      good(cudaMemcpy(p, first, sizeof first, cudaMemcpyHostToDevice));
      good(cudaGraphLaunch(exec, NULL));
      good(cudaMemcpy(x, p, sizeof x, cudaMemcpyDeviceToHost));
      assert_int_equal(x[0], loops ? 0 : n - 1);
      assert_int_equal(x[1], loops ? 3 * (n - 1) : n > 1 ? 3 : 0);
      assert_int_equal(x[2], loops || n > 1 ? 0 : 4);
    }
    good(cudaGraphExecDestroy(exec));
  }
  good(cudaFree(p));
}

// ---- Faults ----

// An access that nothing was allocated for: whoever waits hears of it, and nothing works afterwards. In a process of
// its own.
static void test_lost(void **state) {
  (void)state;
  const pid_t child = fork();
  if (child == 0) {
    unsigned *p, x;
    int wrong = freopen("/dev/null", "w", stderr) == NULL;
    wrong |= cudaMalloc((void **)&p, 4) != cudaSuccess;
    add(p + 1, 1, 1, NULL); /* which may tell at once, where the stream is not late */
    const cudaError_t e = cudaDeviceSynchronize();
    wrong |= e != cudaErrorLaunchFailure || !strstr(cudaGetErrorString(e), "adding");
    wrong |= cudaMemcpy(&x, p, 4, cudaMemcpyDeviceToHost) != e || cudaMalloc((void **)&p, 4) != e ||
             cudaGetLastError() != e || cudaGetLastError() != e;
    _exit(wrong);
  }
  int status = -1;
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),     cmocka_unit_test(test_many),
                                     cmocka_unit_test(test_late),       cmocka_unit_test(test_events),
                                     cmocka_unit_test(test_launches),   cmocka_unit_test(test_capture),
                                     cmocka_unit_test(test_conditions), cmocka_unit_test(test_lost)};
  static char of_adding[] = "adding", of_telling[] = "telling";
  register_kernel(adding, &stubs[0], of_adding, false);
  register_kernel(telling, &stubs[1], of_telling, true);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
