#include "turns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_common.h"
#include "ops.h"

void turns_must(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "gpu-bench: %s: %s\n", what, cudaGetErrorString(e));
  exit(3);
}

bool turns_capture(turns *t, int launches, turns_launch *fn, void *user, cudaStream_t stream) {
  cudaGraph_t graph;
  bool good = fn(user, 0, stream);
  *t = (turns){.launches = launches};
  if (!good || cudaStreamSynchronize(stream) != cudaSuccess) return (void)cudaGetLastError(), false;
  turns_must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; i++) good = fn(user, i, stream) && good;
  turns_must(cudaStreamEndCapture(stream, &graph), "capture");
  if (good) turns_must(cudaGraphInstantiate(&t->graph, graph, 0), "graph");
  turns_must(cudaGraphDestroy(graph), "graph");
  return good;
}

void turns_free(turns *t) {
  if (t->graph) turns_must(cudaGraphExecDestroy(t->graph), "graph");
  t->graph = NULL;
}

void turns_take(turns *const *list, int n, int warm, int trials, cudaStream_t stream) {
  cudaEvent_t start, stop;
  turns_must(cudaEventCreate(&start), "event"), turns_must(cudaEventCreate(&stop), "event");
  for (int i = 0; i < n; i++) list[i]->count = trials;
  for (int t = -warm; t < trials; t++)
    for (int i = 0; i < n; i++) {
      turns *c = list[(i + t + warm) % n];
      float ms;
      turns_must(cudaEventRecord(start, stream), "event");
      turns_must(cudaGraphLaunch(c->graph, stream), "graph");
      turns_must(cudaEventRecord(stop, stream), "event");
      turns_must(cudaEventSynchronize(stop), "a contender");
      turns_must(cudaEventElapsedTime(&ms, start, stop), "event");
      if (t >= 0) c->seconds[t] = 1e-3 * (double)ms / c->launches;
    }
  turns_must(cudaEventDestroy(start), "event"), turns_must(cudaEventDestroy(stop), "event");
}

static int order(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double at(double *list, int n, double quantile) {
  qsort(list, (size_t)n, sizeof *list, order);
  return n ? list[(int)(quantile * (n - 1) + 0.5)] : NAN;
}

double turns_at(const turns *t, double quantile) {
  double list[TURNS_MOST];
  memcpy(list, t->seconds, sizeof list);
  return at(list, t->count, quantile);
}

double turns_ratio(const turns *t, const turns *reference) {
  double list[TURNS_MOST];
  const int n = t->count < reference->count ? t->count : reference->count;
  for (int i = 0; i < n; i++) list[i] = t->seconds[i] / reference->seconds[i];
  return at(list, n, 0.5);
}

void turns_put(FILE *f, const turns *t) {
  fprintf(f, "\"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f", 1e6 * turns_at(t, 0.5), 1e6 * turns_at(t, 0.1),
          1e6 * turns_at(t, 0.9));
}

enum { SOME = 1048573 }; /* as many as no row of a matrix is long, and no power of two: rows differ */

/* Twice as many, so that any start has enough behind it; made anew where another kind is asked for. Those of odd and of
 * even seeds are others: a row of A that is also a column of B would make an output that dwarfs its row. */
static const char *numbers(rdt_dtype type, bool normal, uint64_t seed) {
  static struct {
    char *x;
    rdt_dtype type;
    bool normal;
  } kept[2];
  const size_t size = rdt_dtype_size(type), which = seed % 2;
  const bool floats = rdt_dtype_is_float(type);
  char *x = kept[which].x;
  if (x && kept[which].type == type && kept[which].normal == normal) return x;
  free(x);
  x = kept[which].x = malloc(2 * SOME * size);
  if (!x) fprintf(stderr, "gpu-bench: out of memory\n"), exit(2);
  kept[which].type = type, kept[which].normal = normal;
  seed = which + 1;
  for (int64_t i = 0; i < SOME; i++)
    rdt_store(
        x, type, i,
        normal && floats ? rdt_bench_normal(&seed) : (rdt_bench_uniform(&seed) - 0.5) * (floats ? 3.4641 : 255.0));
  memcpy(x + SOME * size, x, SOME * size);
  return x;
}

void turns_fill(void *to, rdt_dtype type, size_t elements, uint64_t seed, bool normal, cudaStream_t stream) {
  const size_t size = rdt_dtype_size(type), bytes = elements * size;
  const size_t some = elements < SOME ? elements : SOME;
  const char *x = numbers(type, normal, seed) + seed * 99991 % SOME * size;
  turns_must(cudaMemcpyAsync(to, x, some * size, cudaMemcpyHostToDevice, stream), "fill");
  for (size_t done = some * size; done < bytes; done *= 2) { /* what is there, once more behind it */
    const size_t more = bytes - done < done ? bytes - done : done;
    turns_must(cudaMemcpyAsync((char *)to + done, to, more, cudaMemcpyDeviceToDevice, stream), "fill");
  }
  turns_must(cudaStreamSynchronize(stream), "fill");
}

FILE *turns_record(const char *path, const char *schema, const char *device) {
  char date[16];
  const time_t now = time(NULL);
  struct tm utc;
  if (!path || strcmp(path, "-") == 0) return NULL;
  FILE *f = fopen(path, "w");
  if (!f) fprintf(stderr, "gpu-bench: %s cannot be written\n", path), exit(2);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  fprintf(f, "{\"schema\": \"redoubt.%s/1\", \"commit\": \"%s\", \"date\": \"%s\", \"device\": \"%s\"", schema,
          rdt_bench_commit(), date, device);
  return f;
}
