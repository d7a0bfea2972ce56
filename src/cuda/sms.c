#include "cuda/sms.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/sms_args.h"

enum { TRIES = 100 }; /* launches until every multiprocessor had a block: something else may run */

/* wide: an index into the kernels on wgmma; -1: of those before. */
static const struct {
  rdt_sms_path path;
  int code, wide;
} table[] = {
    {{"mma.sync f16", RDT_F16}, 0, -1}, {{"mma.sync bf16", RDT_BF16}, 1, -1}, {{"mma.sync s8", RDT_S8}, 2, -1},
    {{"mma.sync f64", RDT_F64}, 3, -1}, {{"fma f32", RDT_F32}, 4, -1},        {{"fma f64", RDT_F64}, 5, -1},
    {{"dp4a s8", RDT_S8}, 6, -1},       {{"wgmma f16", RDT_F16}, -1, 0},      {{"wgmma bf16", RDT_BF16}, -1, 1}};
enum { PATHS = sizeof table / sizeof *table };

typedef struct gpu_sms {
  rdt_sms sms; /* first: it is what others see */
  cudaStream_t stream;
  rdt_sms_path paths[PATHS];
  int units[RDT_SMS_ROOM];
  char bus[32];
  int index;  /* of the device: threads have one each that is current */
  int count;  /* of multiprocessors */
  int shared; /* bytes of shared memory that no two blocks have on one of them */
  int path;
  rdt_sms_args args;
  void *memory; /* of the operands */
} gpu_sms;

static rdt_status launch(gpu_sms *s, const void *code, int threads, void **arguments, rdt_reason *why) {
  const dim3 grid = {(unsigned)s->count, 1, 1}, block = {(unsigned)threads, 1, 1};
  RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, s->shared),
                          "shared memory of a screen", why));
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, (size_t)s->shared, s->stream), "a screen", why);
}

/* ---- which there are ---- */

/* Each has a number, not always one below their count. */
static rdt_status find_units(gpu_sms *s, rdt_reason *why) {
  unsigned counts[RDT_SMS_ROOM];
  void *there = NULL, *arguments[] = {&there};
  RDT_TRY(rdt_cuda_alloc(sizeof counts, &there, why));
  rdt_status status = RDT_OK;
  for (int i = 0; i < TRIES && status == RDT_OK && s->sms.n_units < s->count; i++) {
    status = launch(s, rdt_sms_where, 32, arguments, why);
    if (status == RDT_OK) status = rdt_cuda_get(counts, there, sizeof counts, s->stream, why);
    s->sms.n_units = 0;
    for (int u = 0; status == RDT_OK && u < RDT_SMS_ROOM; u++)
      if (counts[u]) s->units[s->sms.n_units++] = u;
  }
  rdt_cuda_free(there);
  if (status != RDT_OK || s->sms.n_units == s->count) return status;
  return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                  "%s: %d of %d multiprocessors do something else: screen a device that does nothing else", s->sms.name,
                  s->count - s->sms.n_units, s->count);
}

/* ---- a product ---- */

static int up(int64_t x, int to) {
  return (int)((x + to - 1) / to * to);
}

/* Rows of `lengths` elements with room for `columns` of them; turned: columns of t become rows. */
static void fill(char *to, const rdt_tensor *t, bool turned, int columns) {
  const size_t size = rdt_dtype_size(t->dtype);
  const int64_t rows = t->shape[turned], lengths = t->shape[!turned], n = t->shape[1];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < lengths; j++)
      memcpy(to + (size_t)(i * columns + j) * size,
             (const char *)t->data + (size_t)(turned ? j * n + i : i * n + j) * size, size);
}

static rdt_status enter(const gpu_sms *s, rdt_reason *why) {
  return rdt_cuda_status(cudaSetDevice(s->index), "cudaSetDevice", why);
}

static rdt_status load(rdt_sms *base, int path, const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c,
                       rdt_reason *why) {
  gpu_sms *s = (gpu_sms *)base;
  rdt_sms_args *x = &s->args;
  void *there = NULL;
  RDT_TRY(enter(s, why));
  s->path = path;
  x->rows = (int)c->shape[0], x->columns = (int)c->shape[1];
  x->m = up(x->rows, RDT_SMS_ROWS), x->n = up(x->columns, RDT_SMS_COLUMNS), x->k = up(a->shape[1], RDT_SMS_DEPTH);
  const size_t in = rdt_dtype_size(a->dtype), out = rdt_dtype_size(c->dtype);
  const size_t of_a = (size_t)x->m * (size_t)x->k * in, of_b = (size_t)x->n * (size_t)x->k * in,
               of_c = (size_t)(x->rows * x->columns) * out;
  rdt_cuda_free(s->memory);
  s->memory = NULL;
  char *here = rdt_calloc(of_a + of_b + of_c, 1);
  rdt_status status = here ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "a screen: out of memory");
  if (status == RDT_OK) {
    fill(here, a, false, x->k);
    fill(here + of_a, b, true, x->k);
    memcpy(here + of_a + of_b, c->data, of_c);
    status = rdt_cuda_alloc(of_a + of_b + of_c, &there, why);
  }
  if (status == RDT_OK) {
    s->memory = there;
    status = rdt_cuda_put(there, here, of_a + of_b + of_c, s->stream, why);
  }
  if (status == RDT_OK) status = rdt_cuda_wait(s->stream, why);
  x->a = s->memory, x->b = (char *)s->memory + of_a, x->c = (char *)s->memory + of_a + of_b;
  rdt_free(here);
  return status;
}

/* ---- a run ---- */

static rdt_sms_hit hit_of(const rdt_sms_strike *k) {
  return (rdt_sms_hit){.sm = k->sm,
                       .lane = k->lane,
                       .to = {k->to[0], k->to[1]},
                       .seed = k->seed,
                       .below = k->rate < 1.0 ? (unsigned)(k->rate * 0x1p32) : 0,
                       .always = !(k->rate < 1.0)};
}

static rdt_status launch_path(gpu_sms *s, const rdt_sms_strike *strike, rdt_reason *why) {
  const int code = table[s->path].code, wide = table[s->path].wide;
  rdt_sms_hit hit = strike ? hit_of(strike) : (rdt_sms_hit){.sm = -1};
  void *arguments[] = {&s->args, &hit};
  if (wide >= 0)
    return launch(s, (strike ? rdt_sms_wgmma_inject : rdt_sms_wgmma_code)[wide], RDT_SMS_THREADS / 2, arguments, why);
  return launch(s, (strike ? rdt_sms_inject : rdt_sms_code)[code], RDT_SMS_THREADS, arguments, why);
}

static rdt_sms_found found_of(const gpu_sms *s, const rdt_sms_record *r) {
  return (rdt_sms_found){.products = r->products,
                         .failures = r->failures,
                         .wrong = r->wrong,
                         .row = (int64_t)r->element / s->args.columns,
                         .column = (int64_t)r->element % s->args.columns,
                         .actual = r->actual};
}

static rdt_status run(rdt_sms *base, int rounds, const rdt_sms_strike *strike, rdt_sms_found *found, rdt_reason *why) {
  gpu_sms *s = (gpu_sms *)base;
  rdt_sms_record records[RDT_SMS_ROOM];
  int missed = base->n_units;
  RDT_TRY(enter(s, why));
  RDT_TRY(rdt_cuda_clear(s->args.records, sizeof records, s->stream, why));
  s->args.rounds = rounds;
  for (int i = 0; i < TRIES && missed > 0; i++) {
    RDT_TRY(launch_path(s, strike, why));
    RDT_TRY(rdt_cuda_get(records, s->args.records, sizeof records, s->stream, why));
    s->args.first += (unsigned)rounds;
    missed = 0;
    for (int u = 0; u < base->n_units; u++) missed += records[s->units[u]].products == 0;
  }
  for (int u = 0; u < base->n_units; u++) found[u] = found_of(s, &records[s->units[u]]);
  return RDT_OK;
}

static void sense(rdt_sms *base, double *mhz, double *celsius) {
  rdt_cuda_sense(((gpu_sms *)base)->bus, mhz, celsius);
}

static void shut(rdt_sms *base) {
  gpu_sms *s = (gpu_sms *)base;
  (void)enter(s, NULL);
  rdt_cuda_free(s->memory), rdt_cuda_free(s->args.records);
  if (s->stream) (void)cudaStreamDestroy(s->stream);
  rdt_free(s);
}

static rdt_status prepare(gpu_sms *s, const rdt_cuda_device *d, rdt_reason *why) {
  int shared = 0;
  void *memory;
  RDT_TRY(rdt_cuda_status(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, d->index),
                          "the device", why));
  RDT_TRY(rdt_cuda_status(cudaDeviceGetPCIBusId(s->bus, (int)sizeof s->bus, d->index), "the device", why));
  RDT_TRY(rdt_cuda_status(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "cudaStreamCreate", why));
  s->index = d->index, s->count = d->sms, s->shared = shared / 2;
  RDT_TRY(rdt_cuda_alloc(RDT_SMS_ROOM * sizeof(rdt_sms_record), &memory, why));
  s->args.records = memory;
  return find_units(s, why);
}

rdt_status rdt_sms_open(int index, rdt_sms **out, rdt_reason *why) {
  rdt_cuda_device d;
  *out = NULL;
  RDT_TRY(rdt_cuda_open(index, &d, why));
  gpu_sms *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "a screen: out of memory");
  s->sms = (rdt_sms){.units = s->units, .paths = s->paths, .load = load, .run = run, .sense = sense, .close = shut};
  snprintf(s->sms.name, sizeof s->sms.name, "cuda:%d", index);
  snprintf(s->sms.what, sizeof s->sms.what, "%.95s", d.name);
  for (int i = 0; i < PATHS; i++) /* those on wgmma are the last */
    if (table[i].wide < 0 || d.major == 9) s->paths[s->sms.n_paths++] = table[i].path;
  const rdt_status status = prepare(s, &d, why);
  if (status == RDT_OK)
    *out = &s->sms;
  else
    shut(&s->sms);
  return status;
}
