/* Networks on the GPU, protected and unprotected, as CUDA graphs.
 *     gpu_network_bench RECORD.json COMMIT MODEL.onnx[:BATCH[:SEQUENCE]]...
 * What is timed: the graph of a whole network with its checks, inputs on the device, outputs copied back; and a call of
 * rdt_model_run from the host's inputs to the host's outputs. The two contenders take turns; medians, and the tenths at
 * both ends. Inputs of floats are normal, integers count through a vocabulary of 1000, masks are ones. */
#include <redoubt/redoubt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_common.h"
#include "core/context.h"
#include "core/memory.h"
#include "net/remote.h"
#include "plan/timing.h"

enum { TRIALS = 31, REPLAYS = 20, INPUTS = 8 };

typedef struct contender {
  const char *scheme;
  rdt_context *ctx;
  rdt_model *model;
  void *tape, *bare; /* bare: what is computed alone, without what is beside it */
  double graph[TRIALS], call[TRIALS], alone[TRIALS];
} contender;

static void die(const char *what, const char *text) {
  fprintf(stderr, "gpu_network_bench: %s: %s\n", what, text);
  exit(3);
}

static void must(rdt_status s, const contender *c, const char *what) {
  if (s != RDT_OK) die(what, rdt_context_error(c->ctx));
}

static void fill(const rdt_tensor *t, const char *name) {
  static uint64_t seed = 1;
  const int64_t n = rdt_tensor_count(t);
  for (int64_t i = 0; i < n; i++) {
    const double ids = strstr(name, "mask") ? 1.0 : strstr(name, "type") ? 0.0 : (double)(i * 37 % 1000);
    rdt_store(t->data, t->dtype, i, rdt_dtype_is_float(t->dtype) ? rdt_bench_normal(&seed) : ids);
  }
}

/* Dimension 0 is the batch, the second one of integers the length of a sentence. */
static int make_inputs(const contender *c, long batch, long sequence, rdt_tensor *inputs) {
  const int n = (int)rdt_model_input_count(c->model);
  for (int i = 0; i < n && i < INPUTS; i++) {
    rdt_io_info info;
    must(rdt_model_input_info(c->model, (size_t)i, &info), c, "inputs");
    for (int d = 0; d < info.rank; d++) {
      if (info.shape[d] < 0) info.shape[d] = 1;
      if (d == 0 && batch) info.shape[d] = batch;
      if (d == 1 && info.rank == 2 && sequence) info.shape[d] = sequence;
    }
    inputs[i] = rdt_tensor_dense(NULL, info.dtype, info.rank, info.shape);
    inputs[i].data = rdt_alloc((size_t)rdt_tensor_count(&inputs[i]), rdt_dtype_size(info.dtype));
    if (!inputs[i].data) die("inputs", "out of memory");
    fill(&inputs[i], info.name);
  }
  return n;
}

/* The same as a run's tape, without the way of the inputs. */
static void record(contender *c, void **tape) {
  rdt_remote *r = c->model->remote;
  rdt_machine *m = r->machine;
  rdt_reason *why = &c->ctx->error;
  if (r->hybrid) die(c->model->graph->path, "some of it runs on the CPU");
  must(m->record(m, why), c, "record");
  if (r->protected) must(m->clear(m, RDT_LANE_MAIN, r->board, r->board_bytes, why), c, "record");
  must(m->follow(m, RDT_LANE_SIDE, why), c, "record");
  for (int i = 0; i < c->model->n_steps; i++) must(rdt_remote_issue(r, i, why), c, "record");
  must(rdt_remote_close(r, false, why), c, "record");
  must(m->recorded(m, tape, why), c, "record");
}

static double time_graph(contender *c, void *tape) {
  rdt_machine *m = c->model->remote->machine;
  const double t = rdt_clock();
  for (int i = 0; i < REPLAYS; i++) must(m->replay(m, tape, &c->ctx->error), c, "replay");
  must(m->wait(m, &c->ctx->error), c, "replay");
  return (rdt_clock() - t) / REPLAYS;
}

/* Calls that found anything in these clean data, and computed something again, are no times. */
static double time_call(contender *c, const rdt_tensor *inputs, int n) {
  const rdt_verdict expected = strcmp(c->scheme, "none") ? RDT_CLEAN : RDT_UNCHECKED;
  rdt_run_result result;
  int other = 0;
  const double t = rdt_clock();
  for (int i = 0; i < 5; i++) {
    must(rdt_model_run(c->model, inputs, (size_t)n, &result), c, "run");
    other += result.verdict != expected;
  }
  const double mean = (rdt_clock() - t) / 5;
  if (other) die(c->model->graph->path, "complains of clean data");
  return mean;
}

/* The median, in microseconds. */
static double put(FILE *f, const char *name, const double *list, const char *end) {
  const rdt_timing_stat s = rdt_timing_samples_stat((rdt_timing_samples){list, TRIALS});
  fprintf(f, "\"%s\": [%.2f, %.2f, %.2f]%s", name, 1e6 * s.p10, 1e6 * s.median, 1e6 * s.p90, end);
  return 1e6 * s.median;
}

static void measure(FILE *f, const char *asked, bool first) {
  char path[512];
  long batch = 0, sequence = 0;
  rdt_tensor inputs[INPUTS];
  contender list[2] = {{.scheme = "none"}, {.scheme = "auto"}};
  snprintf(path, sizeof path, "%s", asked);
  char *colon = strchr(path, ':');
  if (colon) {
    *colon = '\0';
    sscanf(colon + 1, "%ld:%ld", &batch, &sequence);
  }
  int n = 0;
  for (int i = 0; i < 2; i++) {
    contender *c = &list[i];
    rdt_policy policy = RDT_POLICY_DEFAULT;
    rdt_run_result result;
    policy.scheme = c->scheme;
    if (rdt_context_create(&c->ctx, 0) != RDT_OK) die("context", "out of memory");
    must(rdt_context_set_policy(c->ctx, &policy), c, "policy");
    must(rdt_context_set_device(c->ctx, "cuda:0"), c, "device");
    must(rdt_model_load(c->ctx, path, &c->model), c, path);
    if (i == 0) n = make_inputs(c, batch, sequence, inputs);
    for (int k = 0; k < 3; k++) must(rdt_model_run(c->model, inputs, (size_t)n, &result), c, "run");
    if (i == 1 && result.verdict != RDT_CLEAN) die(path, "is not CLEAN");
    record(c, &c->tape);
    c->model->remote->protected = false;
    record(c, &c->bare);
    c->model->remote->protected = i == 1;
    time_graph(c, c->tape);
  }
  for (int t = 0; t < TRIALS; t++)
    for (int i = 0; i < 2; i++) {
      list[i].graph[t] = time_graph(&list[i], list[i].tape);
      list[i].alone[t] = time_graph(&list[i], list[i].bare);
      list[i].call[t] = time_call(&list[i], inputs, n);
    }
  const char *slash = strrchr(path, '/');
  fprintf(f, "%s  {\"model\": \"%s\", \"shape\": [", first ? "" : ",\n", slash ? slash + 1 : path);
  for (int d = 0; d < inputs[0].rank; d++) fprintf(f, "%s%lld", d ? ", " : "", (long long)inputs[0].shape[d]);
  fprintf(f, "],\n   \"unprotected_us\": {");
  double graph[2], call[2];
  graph[0] = put(f, "graph", list[0].graph, ", ");
  call[0] = put(f, "call", list[0].call, "},\n   \"protected_us\": {");
  graph[1] = put(f, "graph", list[1].graph, ", ");
  const double alone = put(f, "main_lane", list[1].alone, ", ");
  call[1] = put(f, "call", list[1].call, "}}");
  printf(
      "%-24s batch %ld seq %ld: graph %.1f us (without its checks: %.1f), unprotected %.1f: %.3f; call %.1f us, "
      "unprotected %.1f: %.3f\n",
      slash ? slash + 1 : path, batch, sequence, graph[1], alone, graph[0], graph[1] / graph[0], call[1], call[0],
      call[1] / call[0]);
  for (int i = 0; i < 2; i++) {
    rdt_machine *m = list[i].model->remote->machine;
    m->erase(m, list[i].tape);
    m->erase(m, list[i].bare);
    rdt_model_free(list[i].model);
    rdt_context_destroy(list[i].ctx);
  }
  for (int i = 0; i < n; i++) rdt_free(inputs[i].data);
}

int main(int argc, char **argv) {
  rdt_reason why;
  rdt_cuda_device device;
  char date[32];
  const time_t now = time(NULL);
  if (argc < 4) die("usage", "gpu_network_bench RECORD.json COMMIT MODEL.onnx[:BATCH[:SEQUENCE]]...");
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  if (rdt_cuda_open(0, &device, &why) != RDT_OK) die("cuda:0", why.text);
  FILE *f = fopen(argv[1], "w");
  if (!f) die(argv[1], "cannot be written");
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  fprintf(f,
          "{\"schema\": \"redoubt.bench-gpu-network/1\", \"commit\": \"%s\", \"date\": \"%s\", \"device\": \"%s\", "
          "\"times\": \"10th percentile, median, 90th, in us\", \"networks\": [\n",
          argv[2], date, device.name);
  for (int i = 3; i < argc; i++) measure(f, argv[i], i == 3);
  fprintf(f, "\n]}\n");
  return fclose(f) == 0 ? 0 : 3;
}
