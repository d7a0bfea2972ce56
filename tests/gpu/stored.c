#include "stored.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/sm90/gemm_wgmma.h"

enum { BATCH = 24, ROWS = 300, BATCHES = 2 };

static bool within(const rdt_cuda_finding *f, int64_t row, int64_t column) {
  return row >= f->row && row < f->row + f->rows && column >= f->column && column < f->column + f->columns;
}

static unsigned complaints(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain + v->cannot;
}

const char *gpu_stored(rdt_cuda_gemm *g, const gpu_case *c, uint64_t *seed) {
  const int64_t row = (int64_t)(gpu_random(seed) % (uint64_t)c->all.shape[0]),
                column = (int64_t)(gpu_random(seed) % (uint64_t)c->all.shape[1]);
  const size_t size = rdt_dtype_size(c->all.dtype);
  char *const at = (char *)c->o.out.data + (size_t)(row * c->all.stride[0] + column) * size;
  char was[4], now[4];
  rdt_reason why = {""};
  rdt_cuda_verdict v;
  gpu_must(rdt_cuda_gemm_stored(g, &c->o, NULL, &why), "stored", &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), "stored", &why);
  if (complaints(&v)) return "what was stored has not the bit-sums that were told";
  gpu_must(rdt_cuda_get(was, at, size, NULL, &why), "get", &why);
  memcpy(now, was, size);
  const uint64_t bit = gpu_random(seed) % (8 * size);
  now[bit / 8] = (char)(now[bit / 8] ^ 1 << bit % 8);
  gpu_must(rdt_cuda_put(at, now, size, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_gemm_stored(g, &c->o, NULL, &why), "stored", &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), "stored", &why);
  gpu_must(rdt_cuda_put(at, was, size, NULL, &why), "put", &why);
  if (v.certain != 1 || complaints(&v) != 1) return "a bit of what was stored has changed, and is not told, or more is";
  return within(&v.list[0], row, column) ? NULL : "a bit of what was stored has changed, and another place is told";
}

typedef struct bench {
  const rdt_cuda_kernel *k;
  gpu_case c;
  rdt_cuda_gemm *g;
  char *clean, *now, *results; /* results: on the device */
  size_t apart;
  gpu_stored_count count;
} bench;

static void complain(bench *b, const char *what, const rdt_cuda_strike *s) {
  if (++b->count.wrong > 6) return;
  printf("WRONG %s: %s", b->k->name, what);
  if (s)
    printf(": kind %d, element %lld, mask %llx, %g to %g", (int)s->stored, (long long)s->hit.element,
           (unsigned long long)s->hit.mask, s->hit.before, s->hit.after);
  printf("\n");
}

static void prepare(bench *b, const rdt_cuda_device *d, rdt_dtype out, bool columns, bool quick, uint64_t *seed) {
  rdt_reason why = {""};
  rdt_cuda_verdict v;
  const int most = rdt_cuda_kernel_columns(b->k) <= b->k->tile->columns ? b->k->tile->columns : 400;
  const gpu_shape s = {.m = ROWS,
                       .n = most - (out == RDT_F32 ? 3 : 7), /* the last ones are stored one by one */
                       .k = quick ? 100 : 520,
                       .in = b->k->dtype,
                       .out = out,
                       .columns = columns,
                       .bias = columns,
                       .batches = rdt_cuda_kernel_batches(b->k) ? BATCHES : 1,
                       .alpha = 1.0};
  gpu_case_make(&b->c, &s, seed, false);
  b->apart = (b->c.bytes[2] + 255) / 256 * 256;
  b->clean = malloc(b->c.bytes[2]), b->now = malloc(BATCH * b->apart);
  if (!b->clean || !b->now) gpu_die("malloc", "out of memory");
  void *results;
  gpu_must(rdt_cuda_alloc(BATCH * b->apart, &results, &why), "results", &why);
  b->results = results;
  gpu_must(rdt_cuda_gemm_create(b->k, d, &b->c.p, 6.0, 2, NULL, &b->g, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_cover(b->g, true, &why), b->k->name, &why);
  gpu_case_poison(&b->c);
  gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  gpu_case_fetch(&b->c);
  memcpy(b->clean, b->c.host[2], b->c.bytes[2]);
  const char *what = gpu_stored(b->g, &b->c, seed);
  if (what) complain(b, what, NULL);
  gpu_must(rdt_cuda_gemm_cover(b->g, false, &why), b->k->name, &why); /* nobody asks, nobody is told */
  gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  if (rdt_cuda_gemm_stored(b->g, &b->c.o, NULL, &why) != RDT_ERR_UNSUPPORTED) complain(b, "bit-sums of no run", NULL);
  gpu_must(rdt_cuda_gemm_verdict(b->g, NULL, &v, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_cover(b->g, true, &why), b->k->name, &why);
}

static void finish(bench *b) {
  rdt_cuda_gemm_destroy(b->g);
  rdt_cuda_free(b->results);
  free(b->clean), free(b->now);
  gpu_case_free(&b->c);
}

/* Of elements that TMA stores. A rounding swallows low bits: of numbers that are rounded high ones. */
static rdt_cuda_strike draw(const bench *b, int64_t i, uint64_t *seed) {
  const int size = (int)rdt_dtype_size(b->c.all.dtype), each = 16 / size;
  const int64_t n = b->c.all.shape[1], stored = n / each * each;
  const int64_t row = (int64_t)(gpu_random(seed) % (uint64_t)b->c.all.shape[0]),
                column = (int64_t)(gpu_random(seed) % (uint64_t)stored);
  const rdt_cuda_storing kind = (rdt_cuda_storing)(1 + i % (RDT_STORED_COUNT - 1));
  const int bits = kind == RDT_STORED_ROUNDED && size == 2 ? 16 : 8 * size,
            least = kind == RDT_STORED_ROUNDED && size == 2 ? 16 : 0;
  return (rdt_cuda_strike){
      .hit = {.element = row * n + column, .mask = (uint64_t)1 << (least + (int)(gpu_random(seed) % (uint64_t)bits))},
      .sm = -1,
      .stored = kind};
}

static void judge(bench *b, const rdt_cuda_strike *s, const rdt_cuda_verdict *v, const char *now) {
  const int64_t row = s->hit.element / b->c.all.shape[1], column = s->hit.element % b->c.all.shape[1];
  const bool changed = memcmp(now, b->clean, b->c.bytes[2]) != 0, found = complaints(v) > 0;
  b->count.planted++, b->count.changed += changed, b->count.found += found;
  if (!s->hit.done) complain(b, "a fault in what is stored was not planted", s);
  if (changed != found) complain(b, found ? "a complaint of nothing" : "missed what was stored", s);
  const bool one = s->stored == RDT_STORED_ROUNDED || s->stored == RDT_STORED_WORD;
  if (one && found && (v->certain != 1 || !within(&v->list[0], row, column)))
    complain(b, "what was stored is located elsewhere", s);
  if (one && !changed && s->stored == RDT_STORED_WORD) complain(b, "a fault in what is stored was not planted", s);
}

static void strike(bench *b, int64_t first, int n, uint64_t *seed) {
  static rdt_cuda_strike strikes[BATCH];
  static rdt_cuda_verdict verdicts[BATCH];
  rdt_reason why = {""};
  rdt_operands o = b->c.o;
  o.out.data = b->results;
  for (int i = 0; i < n; i++) strikes[i] = draw(b, first + i, seed);
  gpu_must(rdt_cuda_status(cudaMemset(b->results, 0xff, BATCH * b->apart), "poison", &why), "poison", &why);
  gpu_must(rdt_cuda_gemm_strike(b->g, &o, b->apart, strikes, n, verdicts, NULL, &why), b->k->name, &why);
  gpu_must(rdt_cuda_get(b->now, b->results, (size_t)n * b->apart, NULL, &why), "results", &why);
  for (int i = 0; i < n; i++) judge(b, &strikes[i], &verdicts[i], b->now + (size_t)i * b->apart);
}

gpu_stored_count gpu_stored_faults(const rdt_cuda_device *d, const rdt_cuda_kernel *k, int64_t faults, bool quick) {
  rdt_cuda_device few = *d;
  bench b = {.k = k};
  uint64_t seed = 61 + (uint64_t)k->check + 100 * (uint64_t)k->dtype;
  few.sms = 6; /* which share tiles, where they may */
  for (int turn = 0; turn < 2; turn++) {
    prepare(&b, turn ? &few : d, turn ? RDT_F32 : k->dtype, turn, quick, &seed);
    for (int64_t i = 0; i < faults; i += BATCH) strike(&b, i, (int)(faults - i < BATCH ? faults - i : BATCH), &seed);
    finish(&b);
  }
  if (2 * b.count.changed < b.count.planted) complain(&b, "most faults in what is stored have changed nothing", NULL);
  printf("stored %-32s %lld planted, %lld changed the result, %lld found\n", k->name, (long long)b.count.planted,
         (long long)b.count.changed, (long long)b.count.found);
  return b.count;
}
