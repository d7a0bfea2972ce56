/* make gpu-bench: products of files that are larger than what they may take of the GPU.
 *     gpu_bench_outofcore [RECORD.json|- [FOLDER [TYPE:SIDE:LIMIT[:THREADS] ...]]]
 * Operands in FOLDER (default /dev/shm), SIDE cubed (default f32:40960:10G f16:65536:10G). In one run: the link, cuBLAS
 * on the products of the plan alone, the pipeline unprotected and protected, and cublasXt on the same operands, in
 * pinned memory, where it has the type; where there are several devices, the pipeline on all of them. Time of the
 * pipeline over its bound: the larger of cuBLAS' time of the plan's
 * products and the plan's bytes in the busier direction over the link's speed. Three runs of each, in turns: medians,
 * and where their time went. */
#include <cublasXt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench_common.h"
#include "core/memory.h"
#include "cublas.h"
#include "outofcore/matmul.h"
#include "turns.h"

enum { NUMBERS = 1 << 20, COPIES = 4, BLOCK = 8192 /* of cublasXt */, TURNS = 3 };

static rdt_context *ctx;
static cublas *library;
static FILE *record;
static char path[3][256];
static int gpus;

static void must(rdt_status s, const rdt_reason *why) {
  if (s == RDT_OK) return;
  fprintf(stderr, "gpu-bench: %s\n", why->text);
  exit(3);
}

/* ---- operands ---- */

static void *map(const char *name, size_t *bytes) {
  const int fd = open(name, O_RDWR);
  const off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  void *p = end <= 0 ? MAP_FAILED : mmap(NULL, (size_t)end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) perror(name), exit(3);
  close(fd);
  *bytes = (size_t)end;
  return p;
}

/* A square matrix whose rows begin anywhere in a sequence of random numbers. */
static void make(const char *name, rdt_dtype type, int64_t side, uint64_t seed) {
  const size_t size = rdt_dtype_size(type), line = (size_t)side * size;
  char head[RDT_NPY_HEAD], *numbers = rdt_alloc((size_t)(NUMBERS + side), size);
  const size_t offset = rdt_npy_head(head, type, 2, (int64_t[]){side, side});
  FILE *f = fopen(name, "w");
  if (!f || fwrite(head, 1, offset, f) != offset || fflush(f) != 0 ||
      ftruncate(fileno(f), (off_t)(offset + (size_t)side * line)) != 0)
    perror(name), exit(3);
  fclose(f);
  for (int64_t j = 0; j < NUMBERS + side; j++) rdt_store(numbers, type, j, rdt_bench_draw(&seed));
  size_t bytes;
  char *data = map(name, &bytes);
#pragma omp parallel for
  for (int64_t i = 0; i < side; i++)
    memcpy(data + offset + (size_t)i * line, numbers + (size_t)(i * 7919 % NUMBERS) * size, line);
  munmap(data, bytes);
  rdt_free(numbers);
}

/* ---- what bounds it ---- */

static void measure_link(double rate[2]) {
  const size_t bytes = (size_t)512 << 20;
  void *host, *device;
  turns_must(cudaMallocHost(&host, bytes), "pinned memory");
  turns_must(cudaMalloc(&device, bytes), "memory");
  memset(host, 1, bytes);
  for (int way = 0; way < 2; way++) {
    rate[way] = 0.0;
    for (int i = 0; i < 3; i++) {
      const double began = rdt_clock();
      for (int c = 0; c < COPIES; c++)
        turns_must(cudaMemcpyAsync(way ? host : device, way ? device : host, bytes,
                                   way ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, NULL),
                   "copy");
      turns_must(cudaStreamSynchronize(NULL), "copy");
      const double now = COPIES * (double)bytes / (rdt_clock() - began);
      if (now > rate[way]) rate[way] = now;
    }
  }
  cudaFree(device);
  cudaFreeHost(host);
}

/* cuBLAS' time of all products of a plan, one after the other, operands in the device's memory: the best of two runs.
 */
static double time_products(const rdt_matmul_result *r) {
  enum { RUNS = 2 };
  const rdt_task *t = &r->task;
  const rdt_splits *x = &r->splits;
  const size_t in = rdt_dtype_size(t->in), out = rdt_dtype_size(t->out);
  const size_t elements[3] = {(size_t)(x->m * x->k), (size_t)(x->k * x->n), (size_t)(x->m * x->n)};
  void *p[3];
  cudaEvent_t mark[2];
  for (int i = 0; i < 3; i++) turns_must(cudaMalloc(&p[i], elements[i] * (i < 2 ? in : out)), "memory");
  for (int i = 0; i < 2; i++) turns_fill(p[i], t->in, elements[i], (uint64_t)i + 1, false, NULL);
  for (int i = 0; i < 2; i++) turns_must(cudaEventCreate(&mark[i]), "event");
  double best = 1e30;
  for (int run = 0; run < RUNS; run++) {
    rdt_walk w;
    rdt_step s;
    float ms = 0.0f;
    rdt_walk_begin(&w, t, x, NULL);
    turns_must(cudaEventRecord(mark[0], NULL), "event");
    while (rdt_walk_next(&w, &s)) {
      const rdt_part_of a = rdt_part_of_a(t, x, s.i, s.t), b = rdt_part_of_b(t, x, s.t, s.j);
      const cublas_gemm g = {.m = (int)a.rows, .n = (int)b.cols, .k = (int)a.cols, .in = t->in, .out = t->out};
      if (!cublas_ex(library, &g, p[0], p[1], p[2], NULL)) fprintf(stderr, "gpu-bench: cuBLAS refuses\n"), exit(3);
    }
    turns_must(cudaEventRecord(mark[1], NULL), "event");
    turns_must(cudaEventSynchronize(mark[1]), "event");
    turns_must(cudaEventElapsedTime(&ms, mark[0], mark[1]), "event");
    if (1e-3 * ms < best) best = 1e-3 * (double)ms;
  }
  for (int i = 0; i < 2; i++) cudaEventDestroy(mark[i]);
  for (int i = 0; i < 3; i++) cudaFree(p[i]);
  return best;
}

/* ---- the contenders ---- */

static rdt_matmul_result multiply(const char *limit, bool protected, const char *device) {
  rdt_matmul_result r;
  rdt_reason why = {""};
  char *end;
  const double gigabytes = strtod(limit, &end);
  const rdt_matmul_job job = {.a = path[0],
                              .b = path[1],
                              .c = path[2],
                              .device = device,
                              .mem_limit = (size_t)(gigabytes * (*end == 'G' ? 1e9 : 1e6)),
                              .strategy = RDT_STRATEGY_DEFERRED,
                              .protected = protected};
  unlink(path[2]);
  must(rdt_matmul(ctx, &job, &r, &why), &why);
  return r;
}

/* Seconds of the product, and of pinning operands and result before, which it needs to be fast; 0: there is none. */
static double time_xt(rdt_dtype type, int64_t side, double *pinning) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  void *l = NULL;
  for (int i = 0; i < 3 && !l; i++) l = dlopen(names[i], RTLD_NOW);
  if (!l || type != RDT_F32) return 0.0;
  __typeof__(&cublasXtCreate) create = (__typeof__(&cublasXtCreate))dlsym(l, "cublasXtCreate");
  __typeof__(&cublasXtDestroy) destroy = (__typeof__(&cublasXtDestroy))dlsym(l, "cublasXtDestroy");
  __typeof__(&cublasXtDeviceSelect) choose = (__typeof__(&cublasXtDeviceSelect))dlsym(l, "cublasXtDeviceSelect");
  __typeof__(&cublasXtSetBlockDim) block = (__typeof__(&cublasXtSetBlockDim))dlsym(l, "cublasXtSetBlockDim");
  __typeof__(&cublasXtSgemm) gemm = (__typeof__(&cublasXtSgemm))dlsym(l, "cublasXtSgemm");
  cublasXtHandle_t h = NULL;
  int devices[] = {0};
  const float one = 1.0f, zero = 0.0f;
  if (!create || !destroy || !choose || !block || !gemm || create(&h) != CUBLAS_STATUS_SUCCESS) return 0.0;
  char *p[3];
  size_t bytes[3], offset[3];
  for (int i = 0; i < 3; i++) {
    p[i] = map(path[i], &bytes[i]);
    offset[i] = bytes[i] - (size_t)(side * side) * sizeof(float);
    const double began = rdt_clock();
    turns_must(cudaHostRegister(p[i], bytes[i], cudaHostRegisterDefault), "pinned operands");
    *pinning += rdt_clock() - began;
  }
  double seconds = 0.0;
  if (choose(h, 1, devices) == CUBLAS_STATUS_SUCCESS && block(h, BLOCK) == CUBLAS_STATUS_SUCCESS) {
    const size_t n = (size_t)side; /* row-major C is column-major C^T = B^T A^T */
    const double began = rdt_clock();
    if (gemm(h, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, (float *)(void *)(p[1] + offset[1]), n,
             (float *)(void *)(p[0] + offset[0]), n, &zero, (float *)(void *)(p[2] + offset[2]),
             n) == CUBLAS_STATUS_SUCCESS)
      seconds = rdt_clock() - began;
  }
  destroy(h);
  for (int i = 0; i < 3; i++) cudaHostUnregister(p[i]), munmap(p[i], bytes[i]);
  return seconds;
}

static int by_seconds(const void *a, const void *b) {
  const rdt_matmul_result *x = a, *y = b;
  return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static void put_phases(const char *name, const rdt_matmul_result *r) {
  const rdt_matmul_phases *f = &r->phases;
  printf(
      "  %s: fill %.1f ms, products %.1f, waits for loads %.1f, for places of C %.1f, checks and turns %.1f, drain "
      "%.1f\n",
      name, 1e3 * f->fill, 1e3 * f->products, 1e3 * f->loads, 1e3 * f->places, 1e3 * f->checks, 1e3 * f->drain);
}

static void record_phases(const char *name, const rdt_matmul_result *r) {
  const rdt_matmul_phases *f = &r->phases;
  fprintf(record,
          ", \"%s\": {\"fill_s\": %.4f, \"products_s\": %.4f, \"load_waits_s\": %.4f, \"place_waits_s\": %.4f, "
          "\"checks_s\": %.4f, \"drain_s\": %.4f}",
          name, f->fill, f->products, f->loads, f->places, f->checks, f->drain);
}

static void bench(const char *job, bool first) {
  char name[16];
  const char *side_text = strchr(job, ':'), *limit = side_text ? strchr(side_text + 1, ':') : NULL;
  if (!limit) fprintf(stderr, "gpu-bench: TYPE:SIDE:LIMIT, not '%s'\n", job), exit(2);
  snprintf(name, sizeof name, "%.*s", (int)(side_text - job), job);
  const rdt_dtype type = rdt_dtype_find(name);
  const int64_t side = atoll(side_text + 1);
  const char *threads = strchr(limit + 1, ':');
  if (rdt_context_create(&ctx, threads ? atoi(threads + 1) : 0) != RDT_OK)
    fprintf(stderr, "gpu-bench: no context\n"), exit(3);
  double link[2];
  measure_link(link);
  for (int x = 0; x < 2; x++) make(path[x], type, side, (uint64_t)x + 1);
  rdt_matmul_result r[2][TURNS];
  for (int run = 0; run < TURNS; run++) /* in turns */
    for (int p = 0; p < 2; p++) {
      r[p][run] = multiply(limit + 1, p == 1, "cuda:0");
      printf("%s %lld cubed, %s: %.4f s\n", name, (long long)side, p ? "protected" : "unprotected", r[p][run].seconds);
      fflush(stdout);
    }
  for (int p = 0; p < 2; p++) qsort(r[p], TURNS, sizeof *r[p], by_seconds);
  const rdt_matmul_result *u = &r[0][TURNS / 2], *x = &r[1][TURNS / 2]; /* medians */
  const double in = x->load_bytes / link[0], out = x->store_bytes / link[1], moved = in > out ? in : out;
  const double products = time_products(x), bound = products > moved ? products : moved;
  rdt_matmul_result several = {0};
  if (gpus > 1) several = multiply(limit + 1, true, "cuda:all");
  double pinning = 0.0;
  const double xt = time_xt(type, side, &pinning);
  printf("%s %lld cubed within %s, %s, blocks of %lld x %lld, %lld of the reduction; %d threads; medians of %d runs\n",
         name, (long long)side, limit + 1, rdt_strategy_info(x->splits.strategy)->name, (long long)x->splits.m,
         (long long)x->splits.n, (long long)x->splits.k, x->task.threads, TURNS);
  printf("  link %.1f, %.1f GB/s: in %.1f GB, %.3f s; out %.1f GB, %.3f s; cuBLAS, the plan's products: %.3f s\n",
         1e-9 * link[0], 1e-9 * link[1], 1e-9 * x->load_bytes, in, 1e-9 * x->store_bytes, out, products);
  printf("  protected %.3f s, %.3f of the bound; %.3f of unprotected (%.3f s); predicted %.3f; %s\n", x->seconds,
         x->seconds / bound, x->seconds / u->seconds, u->seconds, x->forecast.seconds, rdt_verdict_name(x->verdict));
  printf("  loading %.3f s, storing %.3f, computing %.3f, of that products %.3f\n", x->load_seconds, x->store_seconds,
         x->busy_seconds, x->product_seconds);
  put_phases("protected", x);
  put_phases("unprotected", u);
  printf("  planned %.3f GB of the device, taken at most %.3f\n", 1e-9 * (double)x->buffers, 1e-9 * (double)x->peak);
  if (gpus > 1)
    printf("  %d devices, each within the limit: %.3f s, %.3f times as fast; loaded %.1f GB, copied %.1f GB; %s\n",
           gpus, several.seconds, x->seconds / several.seconds, 1e-9 * several.load_bytes, 1e-9 * several.peer_bytes,
           rdt_verdict_name(several.verdict));
  if (xt > 0.0)
    printf("  cublasXt, blocks of %d: %.3f s after %.3f s of pinning; protected / both %.3f, / the first %.3f\n", BLOCK,
           xt, pinning, x->seconds / (xt + pinning), x->seconds / xt);
  if (record)
    fprintf(record,
            "%s\n  {\"dtype\": \"%s\", \"side\": %lld, \"mem_limit\": %zu, \"block\": [%lld, %lld, %lld], "
            "\"link_gb_s\": [%.2f, %.2f], \"load_gb\": %.3f, \"store_gb\": %.3f, \"products_s\": %.4f, \"bound_s\": "
            "%.4f, \"protected_s\": %.4f, \"unprotected_s\": %.4f, \"cublasxt_s\": %.4f, \"pinning_s\": %.4f, "
            "\"predicted_s\": %.4f, \"planned_gb\": %.3f, \"peak_gb\": %.3f, \"devices\": %d, \"devices_s\": %.4f, "
            "\"threads\": %d",
            first ? "" : ",", name, (long long)side, x->limit, (long long)x->splits.m, (long long)x->splits.n,
            (long long)x->splits.k, 1e-9 * link[0], 1e-9 * link[1], 1e-9 * x->load_bytes, 1e-9 * x->store_bytes,
            products, bound, x->seconds, u->seconds, xt, pinning, x->forecast.seconds, 1e-9 * (double)x->buffers,
            1e-9 * (double)x->peak, gpus, several.seconds, x->task.threads);
  if (record) {
    record_phases("protected", x);
    record_phases("unprotected", u);
    fprintf(record, "}");
  }
  fflush(stdout);
  rdt_context_destroy(ctx);
}

static void clean(void) {
  static const char *const ends[] = {"", ".sums", ".part", ".part.sums"};
  char name[300];
  for (int i = 0; i < 3; i++)
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
      snprintf(name, sizeof name, "%.255s%s", path[i], ends[e]);
      unlink(name);
    }
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"f32:40960:10G", "f16:65536:10G"};
  const char *folder = argc > 2 ? argv[2] : "/dev/shm";
  struct cudaDeviceProp device;
  char why[256];
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return printf("gpu-bench: skipped: no device\n"), 0;
  turns_must(cudaGetDeviceProperties(&device, 0), "the device");
  library = cublas_open(why, sizeof why);
  if (!library) return printf("gpu-bench: skipped: %s\n", why), 0;
  for (int i = 0; i < 3; i++)
    snprintf(path[i], sizeof path[i], "%.200s/gpu-bench-%d-%c.npy", folder, getpid(), "ABC"[i]);
  atexit(clean);
  printf("%s, cuBLAS %s\n", device.name, cublas_version(library));
  record = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-outofcore", device.name);
  if (record) fprintf(record, ", \"cublas\": \"%s\", \"products\": [", cublas_version(library));
  if (argc > 3)
    for (int i = 3; i < argc; i++) bench(argv[i], i == 3);
  else
    for (int i = 0; i < 2; i++) bench(usual[i], i == 0);
  if (record) fprintf(record, "]}\n"), fclose(record);
  return 0;
}
