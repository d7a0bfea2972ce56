/* make gpu-check, second part: faults planted in the CUDA kernels, by the thousand, and tiles without any.
 *     gpu_faults [--quick [WORD] | FAULTS TILES [WORD [RECORD]]]
 * FAULTS in each kernel that has an injecting instantiation, TILES of each with a check (default 2000 200000). WORD: a
 * kernel, or those whose names contain it, or several of these with commas between them. RECORD: a file, to which a
 * line of JSON is added for each kernel (see tools/gpu_faults.py, which runs them all). gpu_faults --list: the names of
 * kernels, and whether they take faults. Above the floor: the fault changes what a check sums by more than twice its
 * bound, so it must be found; where bits are compared, or integers, it must be found if the result is another one. 1
 * where one was not, 77 without a GPU. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/weights.h"
#include "cuda/sm90/fused_wgmma.h"
#include "cuda/wide.h"
#include "fused.h"
#include "mend.h"
#include "stored.h"

enum { BATCH = 100, CREW = 8 /* threads, each with a stream */ };

static rdt_cuda_device device;
static int64_t wrong;
static FILE *record; /* NULL: nobody asks */

static void complain(const char *kernel, const char *what) {
#pragma omp critical(complain)
  if (++wrong <= 40) printf("WRONG %s: %s\n", kernel, what);
}

static void record_faults(int64_t planted, int64_t found, int64_t above, int64_t missed, int64_t unchanged) {
  if (!record) return;
  fprintf(record, "\"planted\": %lld, \"found\": %lld, \"above_floor\": %lld, \"missed\": %lld, \"unchanged\": %lld, ",
          (long long)planted, (long long)found, (long long)above, (long long)missed, (long long)unchanged);
}

static void record_tiles(int64_t tiles, int64_t reports) {
  if (record) fprintf(record, "\"tiles\": %lld, \"reports\": %lld, ", (long long)tiles, (long long)reports);
}

typedef struct tally {
  int64_t planted, found, above, found_above, silent; /* silent: above nothing, and the result as it was */
} tally;

static bool found(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain > 0;
}

static bool compares_bits(const rdt_cuda_kernel *k, const rdt_cuda_strike *s) {
  return k->check == RDT_MMA_REPLICATE || !rdt_dtype_is_float(k->dtype) || (s->reduced && k->check < RDT_MMA_SUMS);
}

static bool compares_rows(const rdt_cuda_kernel *k) { /* whole ones */
  return k->check == RDT_MMA_SUMS || strcmp(k->scheme, "rowcol") == 0;
}

/* What the signed sums of rows differ by. */
static double row_change(const rdt_cuda_kernel *k, const gpu_case *c, const char *now, const char *clean, int64_t row) {
  const rdt_tensor *t = &c->all;
  double sum = 0.0;
  for (int64_t j = 0; j < t->shape[1]; j++) {
    const int64_t at = row * t->stride[0] + j;
    const double d = rdt_load(now, t->dtype, at) - rdt_load(clean, t->dtype, at);
    const bool minus = k->family != RDT_CUDA_MMA ? rdt_wide_sign((int)j, k->tile->columns) : rdt_mma_sign((unsigned)j);
    sum += minus ? -d : d;
  }
  return fabs(sum);
}

/* Of the same stage of A comes what the row's sum is compared with: only what other tiles' columns have is seen. One
 * tile of a row of tiles has all of it, or each a share of k. */
static bool meets_both(const rdt_cuda_device *on, int splits, const rdt_cuda_kernel *k, const gpu_case *c,
                       const rdt_cuda_strike *s) {
  const int64_t depth = c->k, m = c->m, n = c->all.shape[1], width = k->tile->columns;
  const int64_t rounds = (depth + k->k - 1) / k->k, blocks = (n + width - 1) / width,
                block = s->hit.element % n / width, at = (int64_t)(s->hit.position * (double)depth),
                round = (at < depth ? at : depth - 1) / k->k;
  const int64_t row = s->hit.element / n;
  rdt_wide_sides sides;
  if (k->family != RDT_CUDA_WGMMA || !rdt_wide_sides_of(&c->p, &sides)) return false;
  rdt_wide w = {.columns = rdt_wide_columns(&sides.b),
                .batches = c->batches,
                .skewed = rdt_wide_skewed(&sides.a) && !rdt_wide_skewed(&sides.b)};
  rdt_wide_plan(&w, k, (int)m, (int)blocks, (int)depth, splits, on->sms);
  if (w.whole) {
    int all;
    const int line = rdt_wide_line(&w, k, (int)m, row, &all);
    return rdt_wide_checks(&w, line, rdt_wide_lines(&w, k, (int)m), (int)blocks) == block;
  }
  return round >= rounds * block / blocks && round < rounds * (block + 1) / blocks;
}

static rdt_cuda_strike draw(const rdt_cuda_kernel *k, const gpu_case *c, uint64_t *seed) {
  const uint64_t r = gpu_random(seed);
  const bool twofold = k->family == RDT_CUDA_MMA && k->check == RDT_MMA_REPLICATE && k->tile->warp_rows == 8;
  const int bits = 8 * k->sum, site = (int)(gpu_random(seed) % 5);
  const bool bounded = rdt_dtype_is_float(k->dtype) && k->check != RDT_MMA_REPLICATE && k->check != RDT_MMA_CLASSIC;
  rdt_cuda_strike s = {.hit = {.element = (int64_t)(r % (uint64_t)(c->all.shape[0] * c->all.shape[1])),
                               .position = (double)((r >> 32) % 1000) / 999.0,
                               .mask = (uint64_t)1 << (gpu_random(seed) % (uint64_t)bits)},
                       .sm = -1};
  s.checksum =
      site == 1 && ((k->check != RDT_MMA_REPLICATE && k->check < RDT_MMA_REPLICATE1) || k->check == RDT_WGMMA_TILE);
  /* Registers that checks in registers share; not the two halves of an instruction. */
  s.fragment = site == 1 && (compares_rows(k) || twofold);
  s.reduced = site == 2;
  s.second = twofold && !s.reduced && r >> 63;
  s.limit = site == 3 && bounded;
  if (s.checksum && k->dtype == RDT_F16 && k->family == RDT_CUDA_MMA)
    s.hit.mask = 1u << (10 + gpu_random(seed) % 5); /* its exponent */
  return s;
}

static void judge(const rdt_cuda_device *on, int splits, const rdt_cuda_kernel *k, const gpu_case *c,
                  const rdt_cuda_strike *s, const rdt_cuda_verdict *v, const char *now, const char *clean,
                  tally *count) {
  const bool other = memcmp(now, clean, c->bytes[2]) != 0;
  const int64_t row = s->hit.element / c->all.shape[1], column = s->hit.element % c->all.shape[1];
  const double change = s->fragment ? row_change(k, c, now, clean, row) : fabs(s->hit.after - s->hit.before);
  const bool beyond = !rdt_dtype_is_float(k->dtype) ? change != 0.0 : !(change <= 2.0 * s->bound);
  if (s->limit && other) complain(k->name, "a fault in a bound changed the result");
  const bool must = s->checksum ? false /* it may have met zeros */
                    : s->limit  ? false /* what is looser finds nothing where there is nothing */
                    : s->second ? !s->fragment && !(change <= 1e-3) /* which may have met zeros; or is cut off */
                    : s->fragment && compares_rows(k) ? other && beyond && !meets_both(on, splits, k, c, s)
                    : compares_bits(k, s)             ? other
                                                      : beyond;
  if (!s->hit.done) complain(k->name, "a fault was not planted");
  count->planted++, count->found += found(v), count->above += must, count->found_above += must && found(v);
  count->silent += !must && !found(v) && !other;
  if (must && !found(v)) {
    char text[200];
    snprintf(text, sizeof text, "missed: %s of %lld at %.3f, mask %llx: %g to %g, bound %g",
             s->reduced    ? "reduced"
             : s->checksum ? "checksum"
             : s->fragment ? "fragment"
                           : "accumulator",
             (long long)s->hit.element, s->hit.position, (unsigned long long)s->hit.mask, s->hit.before, s->hit.after,
             s->bound);
    complain(k->name, text);
  }
  if (found(v) && !s->checksum && v->listed == 1 && v->list[0].row >= 0) { /* where it says that it was */
    const rdt_cuda_finding *f = &v->list[0];
    const bool there = row >= f->row && row < f->row + f->rows &&
                       (f->column < 0 || s->fragment || (column >= f->column && column < f->column + f->columns));
    if (!there) complain(k->name, "located elsewhere");
  }
}

/* Numbers x, the largest of them 1, which each of n - 1 lists of n weights makes nothing of. */
static void cancel(double w[RDT_MMA_SETS][RDT_MMA_SETS], int n, double *x) {
  double most = 1.0;
  for (int i = 0; i + 1 < n; i++) { /* elimination, the largest first */
    int best = i;
    for (int r = i + 1; r + 1 < n; r++)
      if (fabs(w[r][i]) > fabs(w[best][i])) best = r;
    for (int j = 0; j < n; j++) {
      const double keep = w[i][j];
      w[i][j] = w[best][j], w[best][j] = keep;
    }
    for (int r = i + 1; r + 1 < n; r++) {
      const double share = w[r][i] / w[i][i];
      for (int j = i; j < n; j++) w[r][j] -= share * w[i][j];
    }
  }
  x[n - 1] = 1.0;
  for (int i = n - 2; i >= 0; i--) {
    x[i] = 0.0;
    for (int j = i + 1; j < n; j++) x[i] -= w[i][j] * x[j];
    x[i] /= w[i][i];
    most = fmax(most, fabs(x[i]));
  }
  for (int i = 0; i < n; i++) x[i] /= most;
}

/* Faults in a row that cancel in all checks but the last of so many. What that one sees of them. */
static double cancelling(const gpu_case *c, int sets, rdt_cuda_strike *s, uint64_t *seed) {
  const int64_t n = c->p.out.shape[1];
  double w[RDT_MMA_SETS][RDT_MMA_SETS], x[RDT_MMA_SETS], seen = 0.0;
  *s = (rdt_cuda_strike){
      .hit = {.element = (int64_t)(gpu_random(seed) % (uint64_t)c->p.out.shape[0]) * n}, .sm = -1, .several = sets};
  for (int i = 0; i < sets; i++) {
    s->columns[i] = (int)(gpu_random(seed) % (uint64_t)n);
    for (int j = 0; j < i; j++)
      if (s->columns[j] == s->columns[i]) i--, j = sets; /* another one */
  }
  for (int d = 0; d < sets; d++)
    for (int i = 0; i < sets; i++) {
      const double sign = rdt_mma_sign((unsigned)s->columns[i]) ? -1.0 : 1.0;
      w[d][i] = sign * (double)(float)rdt_check_weight(s->columns[i], d); /* as it is kept */
    }
  const double *last = w[sets - 1];
  cancel(w, sets, x);
  for (int i = 0; i < sets; i++) s->changes[i] = 1000.0 * x[i], seen += last[i] * s->changes[i];
  return fabs(seen);
}

/* ---- who plants ---- */

/* A product with faults, a stream of its own. */
typedef struct hand {
  rdt_cuda_device on;
  int splits;
  cudaStream_t stream;
  rdt_cuda_gemm *g[2]; /* as many checks as asked, and one less */
  char *results, *host;
  rdt_cuda_strike strikes[BATCH];
  rdt_cuda_verdict verdicts[2][BATCH];
  double seen[BATCH];
  tally count;
} hand;

/* apart: bytes of a result, to be kept; 0: nobody looks at it. Of a device, by number: as it is; with few
 * multiprocessors, so that some blocks have a tile less, and check; with few, which share tiles. */
static hand *begin_hand(const rdt_cuda_kernel *k, const gpu_case *c, int sets, size_t apart, int number) {
  rdt_reason why = {""};
  hand *h = calloc(1, sizeof *h);
  if (!h) gpu_die("malloc", "out of memory");
  static const int few[] = {0, 10, 10, 6};
  h->on = device, h->splits = k->family != RDT_CUDA_MMA && number % 4 < 2 ? 1 : 2;
  if (k->family != RDT_CUDA_MMA && number % 4) h->on.sms = few[number % 4];
  gpu_must(rdt_cuda_status(cudaStreamCreateWithFlags(&h->stream, cudaStreamNonBlocking), "stream", &why), "stream",
           &why);
  for (int less = 0; less < (sets > 1 ? 2 : 1); less++)
    gpu_must(rdt_cuda_gemm_create_sets(k, &h->on, &c->p, sets - less, 6.0, h->splits, h->stream, &h->g[less], &why),
             k->name, &why);
  void *results, *host;
  const size_t bytes = apart ? BATCH * apart : c->bytes[2];
  gpu_must(rdt_cuda_alloc(bytes, &results, &why), "results", &why);
  gpu_must(rdt_cuda_status(cudaMallocHost(&host, bytes), "results", &why), "results", &why);
  h->results = results, h->host = host;
  return h;
}

static void end_hand(hand *h, tally *count) {
  for (int i = 0; i < 2; i++)
    if (h->g[i]) rdt_cuda_gemm_destroy(h->g[i]);
  rdt_cuda_free(h->results);
  (void)cudaFreeHost(h->host);
  (void)cudaStreamDestroy(h->stream);
  count->planted += h->count.planted, count->found += h->count.found, count->above += h->count.above;
  count->found_above += h->count.found_above, count->silent += h->count.silent;
  free(h);
}

static uint64_t seed_of(uint64_t seed, int64_t batch) {
  uint64_t mine = seed + ((uint64_t)batch << 32);
  return gpu_random(&mine);
}

static int crew_for(int64_t batches) {
  const int most = omp_get_max_threads() < CREW ? omp_get_max_threads() : CREW;
  return batches < most ? (int)batches : most;
}

/* As many faults in a row as it has checks: found. By one check less they are not, as they cancel in all of these. */
static void strike_several(const rdt_cuda_kernel *k, const gpu_case *c, int sets, int n, uint64_t seed, hand *h) {
  rdt_reason why = {""};
  rdt_operands o = c->o;
  o.out.data = h->results;
  for (int i = 0; i < n; i++) h->seen[i] = cancelling(c, sets, &h->strikes[i], &seed);
  for (int less = 0; less < 2; less++)
    gpu_must(rdt_cuda_gemm_strike(h->g[less], &o, 0, h->strikes, n, h->verdicts[less], h->stream, &why), k->name, &why);
  for (int i = 0; i < n; i++) {
    if (!h->strikes[i].hit.done) complain(k->name, "several faults were not planted");
    h->count.silent += found(&h->verdicts[1][i]); /* by fewer checks */
    if (!(h->seen[i] > 2.0 * h->strikes[i].bound)) continue;
    h->count.above++;
    if (found(&h->verdicts[0][i]))
      h->count.found_above++;
    else
      complain(k->name, "several faults in a row were missed");
  }
}

/* columns: B's lie side by side. */
static gpu_shape shape_of(const rdt_cuda_kernel *k, int m, int n, int depth, bool columns) {
  return (gpu_shape){.m = m,
                     .n = n,
                     .k = depth,
                     .in = k->dtype,
                     .out = !rdt_dtype_is_float(k->dtype) ? RDT_S32
                            : k->dtype == RDT_F64         ? RDT_F64
                                                          : RDT_F32,
                     .columns = columns,
                     .tf32 = k->tf32,
                     .alpha = 1.0};
}

static void plant_several(const rdt_cuda_kernel *k, int sets, int64_t faults) {
  uint64_t seed = 31 + (uint64_t)sets + 100 * (uint64_t)k->dtype;
  const gpu_shape s = {
      .m = 40, .n = 140, .k = 300, .in = k->dtype, .out = k->dtype == RDT_F64 ? RDT_F64 : RDT_F32, .alpha = 1.0};
  const int64_t batches = (faults + BATCH - 1) / BATCH;
  gpu_case c;
  tally count = {0};
  gpu_case_make(&c, &s, &seed, false);
#pragma omp parallel num_threads(crew_for(batches))
  {
    hand *h = begin_hand(k, &c, sets, 0, omp_get_thread_num());
#pragma omp for schedule(dynamic)
    for (int64_t b = 0; b < batches; b++) {
      const int64_t left = faults - b * BATCH;
      strike_several(k, &c, sets, (int)(left < BATCH ? left : BATCH), seed_of(seed, b), h);
    }
#pragma omp critical(crew)
    end_hand(h, &count);
  }
  const int64_t missed = count.above - count.found_above;
  if (2 * count.above < faults || 2 * count.silent > faults)
    complain(k->name, "several faults are not what they should be");
  printf(
      "faults %-32s %d a row, %d checks: %lld planted; %lld above the floor, %lld of them missed; %d checks find "
      "%lld\n",
      k->name, sets, sets, (long long)faults, (long long)count.above, (long long)missed, sets - 1,
      (long long)count.silent);
  if (record)
    fprintf(record, "%s{\"checks\": %d, \"planted\": %lld, \"above_floor\": %lld, \"missed\": %lld}",
            sets == 2 ? "" : ", ", sets, (long long)faults, (long long)count.above, (long long)missed);
  gpu_case_free(&c);
}

/* Poisoned results, a launch each. */
static void strike(const rdt_cuda_kernel *k, const gpu_case *c, const char *clean, int n, uint64_t seed, size_t apart,
                   hand *h) {
  rdt_reason why = {""};
  rdt_operands o = c->o;
  o.out.data = h->results;
  gpu_must(rdt_cuda_status(cudaMemsetAsync(h->results, 0xff, (size_t)n * apart, h->stream), "poison", &why), "poison",
           &why);
  for (int i = 0; i < n; i++) h->strikes[i] = draw(k, c, &seed);
  gpu_must(rdt_cuda_gemm_strike(h->g[0], &o, apart, h->strikes, n, h->verdicts[0], h->stream, &why), k->name, &why);
  gpu_must(rdt_cuda_get(h->host, h->results, (size_t)n * apart, h->stream, &why), "results", &why);
  for (int i = 0; i < n; i++)
    judge(&h->on, h->splits, k, c, &h->strikes[i], &h->verdicts[0][i], h->host + (size_t)i * apart, clean, &h->count);
}

static bool whole(const rdt_cuda_kernel *k) { /* a tile has all columns */
  return rdt_cuda_kernel_columns(k) <= k->tile->columns;
}

static void plant_in(const rdt_cuda_kernel *k, int form, bool columns, int many, int64_t faults, bool quick,
                     tally *count) {
  uint64_t seed = 13 + (uint64_t)k->check + 100 * (uint64_t)k->dtype + (uint64_t)k->tile->rows;
  const bool wide = k->family == RDT_CUDA_WGMMA, tall = k->family == RDT_CUDA_TALL;
  const int m = tall                  ? 3000
                : wide                ? 300
                : quick               ? 70
                : k->tile->rows <= 16 ? 30
                                      : 100,
            n = whole(k) ? k->tile->columns - 3
                : wide   ? 400
                : quick  ? 70
                         : 140;
  gpu_shape s = shape_of(k, m, n, quick || tall ? 200 : 1000, columns);
  if (tall && !columns) s.n = k->tile->columns > 64 ? 32 : 16, s.k = 48; /* several rows are one */
  s.batches = many;
  gpu_case c;
  rdt_reason why;
  rdt_cuda_gemm *g;
  rdt_cuda_verdict v;
  gpu_case_make(&c, &s, &seed, false);
  const size_t apart = (c.bytes[2] + 255) / 256 * 256;
  const int64_t batches = (faults + BATCH - 1) / BATCH;
  char *clean = malloc(c.bytes[2]);
  if (!clean) gpu_die("malloc", "out of memory");
  gpu_must(rdt_cuda_gemm_create(k, &device, &c.p, 6.0, 2, NULL, &g, &why), k->name, &why);
  gpu_case_poison(&c);
  gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  gpu_case_fetch(&c);
  memcpy(clean, c.host[2], c.bytes[2]);
#pragma omp parallel num_threads(crew_for(batches))
  {
    hand *h = begin_hand(k, &c, 1, apart, form + omp_get_thread_num());
#pragma omp for schedule(dynamic)
    for (int64_t b = 0; b < batches; b++) {
      const int64_t left = faults - b * BATCH;
      strike(k, &c, clean, (int)(left < BATCH ? left : BATCH), seed_of(seed, b), apart, h);
    }
#pragma omp critical(crew)
    end_hand(h, count);
  }
  gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), k->name, &why);
  if (found(&v)) complain(k->name, "a fault is still reported in the next run");
  rdt_cuda_gemm_destroy(g);
  free(clean);
  gpu_case_free(&c);
}

/* On wgmma B either way where that is there, and batches: as many faults each. */
static void plant(const rdt_cuda_kernel *k, int64_t faults, bool quick) {
  const bool wide = k->family != RDT_CUDA_MMA, tall = k->family == RDT_CUDA_TALL, batches = rdt_cuda_kernel_batches(k);
  const void *const *code = rdt_cuda_kernel_inject(k);
  const int forms = !wide ? 1 : tall ? 2 : code[0] ? 2 : 1, parts = forms + batches;
  tally count = {0};
  for (int i = 0; i < parts; i++) {
    const bool columns = wide && (!code[0] || i % 2);
    plant_in(k, i, columns, i < forms ? 1 : 3, faults * (i + 1) / parts - faults * i / parts, quick, &count);
  }
  printf("faults %-32s %lld planted, %lld found; %lld above the floor, %lld of them missed; %lld changed nothing\n",
         k->name, (long long)count.planted, (long long)count.found, (long long)count.above,
         (long long)(count.above - count.found_above), (long long)count.silent);
  fflush(stdout);
  record_faults(count.planted, count.found, count.above, count.above - count.found_above, count.silent);
}

/* Each multiprocessor in turn computes wrongly, in a product that has something for all of them: noticed, and named
 * where who multiplies compares. */
static void break_sms(const rdt_cuda_kernel *k) {
  static rdt_cuda_verdict v[RDT_CUDA_SMS];
  static rdt_cuda_strike strikes[RDT_CUDA_SMS];
  const bool names = k->check < RDT_MMA_SUMS || k->check == RDT_WGMMA_TILE;
  const int n = device.sms < RDT_CUDA_SMS ? device.sms : RDT_CUDA_SMS;
  uint64_t seed = 37;
  gpu_case c;
  rdt_reason why;
  rdt_cuda_gemm *g;
  int struck = 0;
  gpu_shape s = shape_of(k, whole(k) ? 70000 : 2100, whole(k) ? k->tile->columns : 2000, 160, !k->code[0]);
  /* Of numbers below 2 the exponent's highest bit is clear: all that is struck becomes large. What was large would
   * become small, and one sum over all of C lets some of that go. */
  if (rdt_dtype_is_float(k->dtype) && rdt_dtype_size(k->dtype) > 1) s.data = GPU_SMALL;
  gpu_case_make(&c, &s, &seed, false);
  gpu_must(rdt_cuda_gemm_create(k, &device, &c.p, 6.0, 1, NULL, &g, &why), k->name, &why);
  for (int sm = 0; sm < n; sm++)
    strikes[sm] = (rdt_cuda_strike){.hit = {.position = 0.5, .mask = (uint64_t)1 << (8 * k->sum - 2)}, .sm = sm};
  gpu_must(rdt_cuda_gemm_strike(g, &c.o, 0, strikes, n, v, NULL, &why), k->name, &why);
  for (int sm = 0; sm < n; sm++) {
    const bool done = strikes[sm].hit.done;
    struck += done;
    if (done && !found(&v[sm])) complain(k->name, "a broken multiprocessor was not noticed");
    if (!done && found(&v[sm])) complain(k->name, "nothing was struck, and is told");
    for (int i = 0; done && names && i < n; i++)
      if ((i == sm) != (v[sm].sm[i] > 0)) complain(k->name, "another multiprocessor was named");
  }
  if (2 * struck < n) complain(k->name, "most multiprocessors have had no tile");
  printf("broken %-32s %d multiprocessors, each noticed%s\n", k->name, struck, names ? " and named" : "");
  rdt_cuda_gemm_destroy(g);
  gpu_case_free(&c);
}

/* As many tiles as asked of a family of data, each product from other rows of A. */
static int64_t run_clean_of(const rdt_cuda_kernel *k, gpu_data data, int64_t tiles, int64_t *reports) {
  enum { SIDE = 2048, DEPTH = 256, MORE = 64 };
  uint64_t seed = 23;
  const bool columns = !k->code[0] || (k->family != RDT_CUDA_MMA && data % 2);
  const int rows = whole(k) ? 16 * SIDE : SIDE, across = rows > SIDE ? k->tile->columns : SIDE;
  gpu_shape s = shape_of(k, rows + MORE * 16, across, DEPTH, columns);
  s.data = data;
  const int64_t each = (rows / k->tile->rows) * (across / k->tile->columns);
  gpu_case c;
  rdt_reason why;
  rdt_cuda_gemm *g;
  rdt_cuda_verdict v;
  int64_t done = 0;
  gpu_case_make(&c, &s, &seed, false);
  c.in[0].shape[0] = c.p.in[0].shape[0] = c.p.out.shape[0] = c.o.out.shape[0] = rows;
  char *const first = c.in[0].data;
  gpu_must(rdt_cuda_gemm_create(k, &device, &c.p, 6.0, 1, NULL, &g, &why), k->name, &why);
  for (int64_t i = 0; done < tiles; i++, done += each) {
    c.in[0].data = first + (size_t)(i % MORE * 16 * c.in[0].stride[0]) * rdt_dtype_info(k->dtype)->bytes;
    gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  }
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), k->name, &why);
  if (v.suspect | v.certain | v.cannot) {
    char text[80];
    snprintf(text, sizeof text, "complains without a fault, of %s data", gpu_data_name[data]);
    complain(k->name, text);
  }
  *reports += v.suspect + v.certain + v.cannot;
  rdt_cuda_gemm_destroy(g);
  gpu_case_free(&c);
  return done;
}

static int64_t run_clean(const rdt_cuda_kernel *k, int64_t tiles) {
  const bool integer = !rdt_dtype_is_float(k->dtype); /* their families are rounded to one */
  int64_t done = 0, reports = 0;
  for (int i = 0; i < (integer ? 1 : GPU_DATA_COUNT); i++)
    done += run_clean_of(k, (gpu_data)i, integer ? tiles : tiles / GPU_DATA_COUNT, &reports);
  record_tiles(done, reports);
  return done;
}

static bool is_kernel(const char *name) {
  for (int i = 0; i < rdt_fused_wide_count; i++)
    if (strcmp(rdt_fused_wide_kernels[i].name, name) == 0) return true;
  return rdt_cuda_kernel_find(name) != NULL;
}

/* words: a kernel, or what names contain, or several of these with commas between them. */
static bool wanted(const char *name, const char *words) {
  char word[64];
  for (const char *at = words;; at += strcspn(at, ",") + 1) {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    if (is_kernel(word) ? strcmp(name, word) == 0 : strstr(name, word) != NULL) return true;
    if (!at[strcspn(at, ",")]) return false;
  }
}

static bool has_tiles(const rdt_cuda_kernel *k) {
  return k->check != RDT_MMA_NONE && k->tile->rows >= 64;
}

static void begin(const char *name, rdt_dtype dtype, const char *scheme) {
  if (!record) return;
  fprintf(record, "{\"device\": \"%s\", \"kernel\": \"%s\", \"dtype\": \"%s\", \"scheme\": \"%s\", ", device.name, name,
          rdt_dtype_name(dtype), scheme);
}

static void end(int64_t before) {
  if (!record) return;
  fprintf(record, "\"wrong\": %lld}\n", (long long)(wrong - before));
  fflush(record);
}

typedef struct counts {
  int64_t faults, tiles, few, kernels, several, clean;
  bool quick;
} counts;

static void check_stored(const rdt_cuda_kernel *k, counts *c) {
  const gpu_stored_count s = gpu_stored_faults(&device, k, c->quick ? 6 : c->faults / 4 + 6, c->quick);
  if (record)
    fprintf(record, "\"stored\": {\"planted\": %lld, \"changed\": %lld, \"found\": %lld}, ", (long long)s.planted,
            (long long)s.changed, (long long)s.found);
  wrong += s.wrong;
}

static void check_kernel(const rdt_cuda_kernel *k, counts *c) {
  const int64_t before = wrong;
  const bool hits = rdt_cuda_kernel_inject(k) != NULL;
  if (!hits && (c->quick || !has_tiles(k))) return;
  begin(k->name, k->dtype, k->scheme);
  if (hits) {
    plant(k, c->faults, c->quick), c->kernels++;
    const int sets = rdt_cuda_kernel_sets(k);
    if (record && sets > 1) fprintf(record, "\"several\": [");
    for (int n = 2; n <= sets; n += c->quick ? 3 : 1, c->several += c->few) plant_several(k, n, c->few);
    if (record && sets > 1) fprintf(record, "], ");
    wrong += gpu_mend(&device, k, c->quick);
    if (k->family == RDT_CUDA_WGMMA && rdt_dtype_is_half(k->dtype)) check_stored(k, c);
    if (!c->quick) break_sms(k);
  }
  if (!c->quick && has_tiles(k)) c->clean += run_clean(k, c->tiles);
  end(before);
}

static void check_fused(int tile, counts *c) {
  const char *name = rdt_fused_wide_kernels[tile].name;
  const gpu_fused_count f = gpu_fused(&device, tile, c->quick ? 16 : c->faults, c->quick ? 0 : c->tiles);
  begin(name, RDT_F16, "row");
  record_faults(f.planted, f.found, f.above, f.missed, f.unchanged);
  record_tiles(f.tiles, f.reports);
  wrong += f.wrong, c->kernels++, c->clean += f.tiles;
  end(wrong - f.wrong);
}

int main(int argc, char **argv) {
  rdt_reason why;
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  counts c = {.quick = quick,
              .faults = quick      ? 6
                        : argc > 2 ? atoll(argv[1])
                                   : 2000,
              .tiles = argc > 2 ? atoll(argv[2]) : 200000};
  const char *word = quick ? (argc > 2 ? argv[2] : "") : argc > 3 ? argv[3] : "";
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  c.few = quick ? 3 : c.faults / 10 + 1;
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (int i = 0; i < n; i++)
      if (rdt_cuda_kernel_inject(&table[i]) || has_tiles(&table[i]))
        printf("%s %d\n", table[i].name, rdt_cuda_kernel_inject(&table[i]) != NULL);
    for (int i = 0; i < rdt_fused_wide_count; i++) printf("%s 1\n", rdt_fused_wide_kernels[i].name);
    return 0;
  }
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  if (argc > 4 && !(record = fopen(argv[4], "a"))) gpu_die(argv[4], "cannot be written");
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  for (int i = 0; i < n; i++)
    if (wanted(table[i].name, word)) check_kernel(&table[i], &c);
  for (int i = 0; i < rdt_fused_wide_count; i++)
    if (device.major == 9 && wanted(rdt_fused_wide_kernels[i].name, word)) check_fused(i, &c);
  printf("gpu-faults: %lld faults in %lld kernels, %lld rows with several, %lld tiles without any: %lld wrong\n",
         (long long)(c.faults * c.kernels), (long long)c.kernels, (long long)c.several, (long long)c.clean,
         (long long)wrong);
  if (record && fclose(record) != 0) gpu_die(argv[4], "cannot be written");
  return wrong ? 1 : 0;
}
