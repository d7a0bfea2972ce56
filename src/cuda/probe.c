#include "cuda/probe.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>

/* Case 0: 1 and 3/4 of its last place: cut off or rounded. Cases 1 to 5: 1 and 2^i products that are 2^-(23+i) each,
 * which together are its last place: kept if 23+i fraction bits are. Cases 6 to 19: 1, 2^-24, and -1 in one of the
 * other places: the 2^-24 is left where all three are added at once. */
enum { ROUNDS = 0, BITS = 1, MOST_BITS = 5, PAIRS = BITS + MOST_BITS, DEVICES = 64 };

void rdt_probe_make(rdt_probe_case cases[RDT_PROBE_CASES]) {
  memset(cases, 0, RDT_PROBE_CASES * sizeof *cases);
  for (int i = 0; i < RDT_PROBE_CASES; i++)
    for (int k = 0; k < RDT_PROBE_K; k++) cases[i].b[k] = 0x1p-12f;
  cases[ROUNDS].c = 1.0f, cases[ROUNDS].a[0] = 0x1.8p-12f;
  for (int i = 0; i < MOST_BITS; i++) {
    rdt_probe_case *x = &cases[BITS + i];
    x->c = 1.0f;
    for (int k = 0; k < RDT_PROBE_K && k < 1 << i; k++) x->a[k] = 1.0f / (float)(1 << (9 + i)), x->b[k] = 0x1p-14f;
  }
  for (int i = 0; i < RDT_PROBE_PAIRS; i++) {
    rdt_probe_case *x = &cases[PAIRS + i];
    x->a[0] = 0x1p12f, x->a[1] = 0x1p-12f, x->a[2 + i] = -0x1p12f;
  }
}

rdt_probed rdt_probe_read(const float results[RDT_PROBE_CASES], int major, int minor, rdt_dtype in) {
  const rdt_accumulator known = rdt_accumulator_mma(major, minor, in);
  rdt_probed p = {.truncates = results[ROUNDS] == 1.0f, .kb = 2, .f = 22};
  for (int i = 0; i < MOST_BITS && results[BITS + i] > 1.0f; i++) p.f = 23 + i;
  for (int i = 0; i < RDT_PROBE_PAIRS; i++) p.kb += results[PAIRS + i] == 0x1p-24f;
  p.as_known = p.truncates && p.kb == known.kb && p.f == known.f;
  return p;
}

rdt_accumulator rdt_probe_model(const rdt_probed *p, int major, int minor, rdt_dtype in) {
  return p->as_known ? rdt_accumulator_mma(major, minor, in) : rdt_accumulator_mma(0, 0, in);
}

static rdt_status measure(const rdt_cuda_device *d, const void *code, int threads, int type, rdt_probed *p,
                          rdt_reason *why) {
  rdt_probe_case cases[RDT_PROBE_CASES];
  float results[RDT_PROBE_CASES];
  void *memory = NULL, *stream = NULL;
  rdt_probe_make(cases);
  cudaStream_t own;
  RDT_TRY(rdt_cuda_status(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "cudaStreamCreate", why));
  stream = own;
  rdt_status s = rdt_cuda_alloc(sizeof cases + sizeof results, &memory, why);
  if (s == RDT_OK) s = rdt_cuda_put(memory, cases, sizeof cases, stream, why);
  rdt_probe_args args = {memory, (float *)((char *)memory + sizeof cases)};
  void *arguments[] = {&args};
  const dim3 grid = {RDT_PROBE_CASES, 1, 1}, block = {(unsigned)threads, 1, 1};
  if (s == RDT_OK) s = rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, own), "probe", why);
  if (s == RDT_OK) s = rdt_cuda_get(results, args.results, sizeof results, stream, why);
  if (s == RDT_OK) *p = rdt_probe_read(results, d->major, d->minor, type ? RDT_BF16 : RDT_F16);
  rdt_cuda_free(memory);
  (void)cudaStreamDestroy(own);
  return s;
}

rdt_status rdt_probe(const rdt_cuda_device *d, rdt_dtype in, rdt_probed *found, rdt_accumulator *acc, rdt_reason *why) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct {
    bool done;
    rdt_probed probed;
  } kept[DEVICES][2];
  const int type = in == RDT_BF16;
  rdt_probed now = {0};
  rdt_status s = RDT_OK;
  pthread_mutex_lock(&lock);
  const bool known = d->index < DEVICES && kept[d->index][type].done;
  if (known)
    now = kept[d->index][type].probed;
  else
    s = measure(d, rdt_probe_code[type], 32, type, &now, why);
  if (s == RDT_OK && !known && d->major == 9) { /* products of warpgroups have the same model */
    rdt_probed wide;
    s = measure(d, rdt_probe_wgmma[type], 128, type, &wide, why);
    now.as_known = now.as_known && wide.as_known;
  }
  if (s == RDT_OK && d->index < DEVICES) kept[d->index][type].done = true, kept[d->index][type].probed = now;
  pthread_mutex_unlock(&lock);
  if (found) *found = now;
  if (acc && s == RDT_OK) *acc = rdt_probe_model(&now, d->major, d->minor, in);
  return s;
}
