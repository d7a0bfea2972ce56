/* make gpu-networks: networks on the GPU against the CPU, and faults in every kind of memory and op.
 *     gpu_networks [--quick] [--faults N] MODEL.onnx...     --quick: few faults, for compute-sanitizer; N: of each site
 * Inputs of floats are normal, integers count through a vocabulary of 1000, masks are ones, batches 1 or as declared,
 * sentences 32 words. The last line says how much was checked; 1 where anything was wrong, 77 (skipped) without a GPU.
 */
#include <math.h>
#include <redoubt/redoubt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/tolerance.h"
#include "core/context.h"
#include "core/memory.h"
#include "gpu.h"
#include "net/remote.h"

enum { INPUTS = 8, SENTENCE = 32 };

static bool quick;
static int each = 40; /* faults of a site */
static int64_t runs, faults, repaired, wrong;

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
  int events;
  char last[160]; /* event */
  rdt_tensor out; /* a copy of output 0 */
} net;

static void complain(const char *path, const char *what, const char *more) {
  if (++wrong < 40) printf("WRONG %s: %s %s\n", path, what, more);
}

static void on_event(const rdt_event *e, void *user) {
  net *n = user;
  n->events++;
  snprintf(n->last, sizeof n->last, "%s", e->text);
}

static void fill(const rdt_tensor *t, const char *name, uint64_t *seed) {
  for (int64_t i = 0; i < rdt_tensor_count(t); i++)
    rdt_store(t->data, t->dtype, i,
              rdt_dtype_is_float(t->dtype) ? gpu_normal(seed)
              : strstr(name, "mask")       ? 1.0
              : strstr(name, "type")       ? 0.0
                                           : (double)(i * 37 % 1000));
}

static int make_inputs(const net *n, rdt_tensor *inputs) {
  uint64_t seed = 5;
  const int count = (int)rdt_model_input_count(n->model);
  for (int i = 0; i < count && i < INPUTS; i++) {
    rdt_io_info info;
    if (rdt_model_input_info(n->model, (size_t)i, &info) != RDT_OK) gpu_die("input", rdt_context_error(n->ctx));
    for (int d = 0; d < info.rank; d++)
      if (info.shape[d] < 0) info.shape[d] = d == 1 && info.rank < 4 ? SENTENCE : 1;
    inputs[i] = rdt_tensor_dense(NULL, info.dtype, info.rank, info.shape);
    inputs[i].data = rdt_alloc((size_t)rdt_tensor_count(&inputs[i]), rdt_dtype_size(info.dtype));
    fill(&inputs[i], info.name, &seed);
  }
  return count;
}

static net open(const char *path, const char *device) {
  net n = {0};
  if (rdt_context_create(&n.ctx, 0) != RDT_OK) gpu_die(path, "no context");
  if (rdt_context_set_device(n.ctx, device) != RDT_OK) gpu_die(device, rdt_context_error(n.ctx));
  if (rdt_model_load(n.ctx, path, &n.model) != RDT_OK) gpu_die(path, rdt_context_error(n.ctx));
  return n;
}

static size_t bytes_of(const rdt_tensor *t) {
  return (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
}

static double distance(const rdt_tensor *a, const rdt_tensor *b) {
  double difference = 0.0, norm = 0.0;
  for (int64_t i = 0; i < rdt_tensor_count(a); i++) {
    const double x = rdt_load(a->data, a->dtype, i), y = rdt_load(b->data, b->dtype, i);
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return sqrt(difference / norm);
}

/* Steps that are one launch went one by one, for a fault between them: roundings differ. */
static bool apart(const net *n) {
  const rdt_remote *r = n->model->remote;
  return r && r->target >= 0 && r->steps[r->target].group >= 0 && !rdt_remote_group_of(r, r->target);
}

/* The verdict, and whether output 0 is as it was the first time. */
static rdt_verdict run(net *n, const char *path, const rdt_tensor *inputs, int count, bool *same) {
  rdt_run_result result;
  rdt_tensor out;
  n->events = 0;
  runs++;
  if (rdt_model_run(n->model, inputs, (size_t)count, &result) != RDT_OK)
    complain(path, "run:", rdt_context_error(n->ctx));
  if (rdt_model_output(n->model, 0, &out) != RDT_OK) gpu_die(path, "no output");
  if (!n->out.data) {
    n->out = out;
    n->out.data = malloc(bytes_of(&out) + 1);
    memcpy(n->out.data, out.data, bytes_of(&out));
  }
  *same = memcmp(n->out.data, out.data, bytes_of(&out)) == 0 ||
          (apart(n) && distance(&out, &n->out) <= rdt_tolerance_network(out.dtype));
  return result.verdict;
}

/* Roundings differ, and what follows amplifies them: by norms, and no more than a few units of the datatype. */
static void compare(const char *path, const rdt_tensor *a, const rdt_tensor *b) {
  const double relative = distance(a, b);
  printf("%s: %s, relative difference to the CPU %.2e\n", path, rdt_dtype_name(a->dtype), relative);
  if (!(relative <= rdt_tolerance_network(a->dtype))) complain(path, "differs from the CPU", "");
}

static void strike(net *n, const char *path, const rdt_tensor *inputs, int count) {
  static const char *const sites[] = {"nonlinear", "output", "input", "weight", "accum"};
  for (size_t s = 0; s < sizeof sites / sizeof *sites; s++)
    for (int seed = 1; seed <= each; seed++) {
      char spec[64];
      bool same;
      snprintf(spec, sizeof spec, "bit@%s,seed=%d", sites[s], seed);
      if (rdt_model_inject(n->model, spec) != RDT_OK) gpu_die(spec, rdt_context_error(n->ctx));
      if (rdt_remote_arm(n->model->remote, &n->ctx->error) != RDT_OK) { /* no such site here */
        if (rdt_model_inject(n->model, NULL) != RDT_OK) gpu_die(spec, "cannot be taken back");
        break;
      }
      const rdt_verdict v = run(n, path, inputs, count, &same);
      const bool data = strcmp(sites[s], "weight") != 0 && strcmp(sites[s], "accum") != 0;
      faults++;
      repaired += v == RDT_RECOMPUTED;
      if (data && (v != RDT_RECOMPUTED || !same || n->events == 0)) /* bits are compared: nothing hides */
        complain(path, rdt_model_injected(n->model), rdt_verdict_name(v));
      if (!data && !same && v != RDT_RECOMPUTED && v != RDT_CLEAN)
        complain(path, rdt_model_injected(n->model), rdt_verdict_name(v));
      if (run(n, path, inputs, count, &same) != RDT_CLEAN || !same) complain(path, "is not clean after", spec);
    }
}

static void check(const char *path) {
  rdt_tensor inputs[INPUTS];
  bool same;
  net gpu = open(path, "cuda:0");
  const int count = make_inputs(&gpu, inputs);
  rdt_context_on_event(gpu.ctx, on_event, &gpu);
  for (int i = 0; i < 4; i++) { /* step by step, recorded, played */
    const rdt_verdict v = run(&gpu, path, inputs, count, &same);
    if (v != RDT_CLEAN || !same || gpu.events) {
      complain(path, "a clean run is not:", rdt_verdict_name(v));
      printf("  run %d, %s, %d events, the last: %s\n", i, same ? "same bits" : "other bits", gpu.events, gpu.last);
    }
  }
  for (int i = 0; i < gpu.model->n_steps; i++)
    if (gpu.model->remote->steps[i].host)
      printf("%s: step %d is the CPU's: %s\n", path, i, gpu.model->remote->steps[i].refusal);
  for (int g = 0; g < gpu.model->remote->n_groups; g++) {
    const rdt_remote_group *group = &gpu.model->remote->groups[g];
    if (group->mlp)
      printf("%s: steps %d to %d are one launch, %s, %s\n", path, group->steps[0], rdt_remote_end(group),
             rdt_cuda_mlp_kernel(group->mlp), rdt_cuda_mlp_scheme(group->mlp));
  }
  strike(&gpu, path, inputs, count);
  if (!quick) {
    net cpu = open(path, "cpu");
    run(&cpu, path, inputs, count, &same);
    compare(path, &gpu.out, &cpu.out);
    rdt_model_free(cpu.model);
    rdt_context_destroy(cpu.ctx);
    free(cpu.out.data);
  }
  rdt_model_free(gpu.model);
  rdt_context_destroy(gpu.ctx);
  free(gpu.out.data);
  for (int i = 0; i < count; i++) rdt_free(inputs[i].data);
}

/* Where a kernel meets an address that is none, the process has lost the device: nothing of the run is given out, and
 * every call from then on says so. Comes last. */
static void lose(const char *path) {
  rdt_tensor inputs[INPUTS], out;
  rdt_run_result result;
  bool same;
  net gpu = open(path, "cuda:0");
  const int count = make_inputs(&gpu, inputs);
  run(&gpu, path, inputs, count, &same);
  gpu.model->remote->parts = (rdt_sum_part *)(uintptr_t)256;
  for (int i = 0; i < 2; i++) {
    const rdt_status status = rdt_model_run(gpu.model, inputs, (size_t)count, &result);
    if (status != RDT_ERR_DEVICE || !strstr(rdt_context_error(gpu.ctx), "lost"))
      complain(path, "a lost device is not said:", rdt_context_error(gpu.ctx));
    else if (i == 0)
      printf("%s: %s\n", path, rdt_context_error(gpu.ctx));
    if (rdt_model_output(gpu.model, 0, &out) == RDT_OK) complain(path, "a result was given out", "");
  }
  rdt_model_free(gpu.model);
  rdt_context_destroy(gpu.ctx);
  free(gpu.out.data);
  for (int i = 0; i < count; i++) rdt_free(inputs[i].data);
}

int main(int argc, char **argv) {
  rdt_reason why;
  int last = 0;
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--quick") == 0)
      quick = true, each = 2;
    else if (strcmp(argv[i], "--faults") == 0 && i + 1 < argc)
      each = atoi(argv[++i]);
    else
      check(argv[last = i]);
  }
  if (last > 0 && !quick) lose(argv[last]);
  printf("gpu-networks: %lld runs, %lld faults, %lld of them repaired, others without effect: %lld wrong\n",
         (long long)runs, (long long)faults, (long long)repaired, (long long)wrong);
  return wrong ? 1 : 0;
}
