/* make gpu-check, second part: faults planted in the CUDA kernels, by the thousand, and tiles without any.
 *     gpu_faults [--quick | FAULTS TILES [WORD [RECORD]]]
 * FAULTS in each kernel that has an injecting instantiation, TILES of each with a check (default 2000 200000). WORD: a
 * kernel, or those whose names contain it. RECORD: a file, to which a line of JSON is added for each kernel (see
 * tools/gpu_faults.py, which runs them all). gpu_faults --list: the names of kernels, and whether they take faults.
 * Above the floor: the fault changes what a check sums by more than twice its bound, so it must be found; where bits
 * are compared, or integers, it must be found if the result is another one. 1 where one was not, 77 without a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/weights.h"
#include "cuda/sm90/gemm_wgmma.h"
#include "mend.h"

enum { BATCH = 500 };

static rdt_cuda_device device;
static int64_t wrong;
static FILE *record; /* NULL: nobody asks */

static void complain(const char *kernel, const char *what) {
  if (++wrong <= 40) printf("WRONG %s: %s\n", kernel, what);
}

typedef struct tally {
  int64_t planted, found, above, found_above, silent; /* silent: above nothing, and the result as it was */
} tally;

static bool found(const rdt_cuda_verdict *v) {
  return v->suspect + v->certain > 0;
}

static bool compares_bits(const rdt_cuda_kernel *k, const rdt_cuda_strike *s) {
  return k->check == RDT_MMA_REPLICATE || k->dtype == RDT_S8 || (s->reduced && k->check < RDT_MMA_SUMS);
}

/* What the signed sums of rows differ by. */
static double row_change(const rdt_cuda_kernel *k, const gpu_case *c, const char *now, const char *clean, int64_t row) {
  const rdt_tensor *t = &c->p.out;
  double sum = 0.0;
  for (int64_t j = 0; j < t->shape[1]; j++) {
    const int64_t at = row * t->stride[0] + j;
    const double d = rdt_load(now, t->dtype, at) - rdt_load(clean, t->dtype, at);
    const bool minus =
        k->family == RDT_CUDA_WGMMA ? rdt_wide_sign((int)j, k->tile->columns) : rdt_mma_sign((unsigned)j);
    sum += minus ? -d : d;
  }
  return fabs(sum);
}

/* Of the same stage of A comes what the row's sum is compared with: only what other tiles' columns have is seen. Of B
 * n x k one tile of a row of tiles has all of it, else each a share of k. */
static bool meets_both(const rdt_cuda_kernel *k, const gpu_case *c, const rdt_cuda_strike *s) {
  enum { CLUSTER = 2 };
  const int64_t depth = c->in[0].shape[1], n = c->p.out.shape[1], width = k->tile->columns;
  const int64_t rounds = (depth + k->k - 1) / k->k, blocks = (n + width - 1) / width,
                block = s->hit.element % n / width, at = (int64_t)(s->hit.position * (double)depth),
                round = (at < depth ? at : depth - 1) / k->k;
  if (k->family != RDT_CUDA_WGMMA) return false;
  if (!k->code[0]) return s->hit.element / n / k->tile->rows / CLUSTER % blocks == block;
  return round >= rounds * block / blocks && round < rounds * (block + 1) / blocks;
}

static rdt_cuda_strike draw(const rdt_cuda_kernel *k, const gpu_case *c, uint64_t *seed) {
  const uint64_t r = gpu_random(seed);
  const int bits = 8 * k->sum, site = (int)(gpu_random(seed) % 5);
  const bool bounded =
      k->family == RDT_CUDA_MMA && k->dtype != RDT_S8 && k->check != RDT_MMA_REPLICATE && k->check != RDT_MMA_CLASSIC;
  rdt_cuda_strike s = {.hit = {.element = (int64_t)(r % (uint64_t)(c->p.out.shape[0] * c->p.out.shape[1])),
                               .position = (double)((r >> 32) % 1000) / 999.0,
                               .mask = (uint64_t)1 << (gpu_random(seed) % (uint64_t)bits)},
                       .sm = -1};
  s.checksum =
      site == 1 && ((k->check != RDT_MMA_REPLICATE && k->check < RDT_MMA_REPLICATE1) || k->check == RDT_WGMMA_TILE);
  s.fragment = site == 1 && k->check == RDT_MMA_SUMS; /* registers that checks in registers share */
  s.reduced = site == 2;
  s.limit = site == 3 && bounded;
  if (s.checksum && k->dtype == RDT_F16 && k->family == RDT_CUDA_MMA)
    s.hit.mask = 1u << (10 + gpu_random(seed) % 5); /* its exponent */
  return s;
}

static void judge(const rdt_cuda_kernel *k, const gpu_case *c, const rdt_cuda_strike *s, const rdt_cuda_verdict *v,
                  const char *now, const char *clean, tally *count) {
  const bool other = memcmp(now, clean, c->bytes[2]) != 0;
  const int64_t row = s->hit.element / c->p.out.shape[1], column = s->hit.element % c->p.out.shape[1];
  const double change = s->fragment ? row_change(k, c, now, clean, row) : fabs(s->hit.after - s->hit.before);
  const bool beyond = k->dtype == RDT_S8 ? change != 0.0 : !(change <= 2.0 * s->bound);
  if (s->limit && other) complain(k->name, "a fault in a bound changed the result");
  const bool must = s->checksum           ? false /* it may have met zeros */
                    : s->limit            ? false /* what is looser finds nothing where there is nothing */
                    : s->fragment         ? other && beyond && !meets_both(k, c, s)
                    : compares_bits(k, s) ? other
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
                       (f->column < 0 || (column >= f->column && column < f->column + f->columns));
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

/* As many faults in a row as it has checks: found. By one check less they are not, as they cancel in all of these. */
static void plant_several(const rdt_cuda_kernel *k, int sets, int64_t faults) {
  static rdt_cuda_strike strikes[BATCH];
  static rdt_cuda_verdict verdicts[2][BATCH];
  static double seen[BATCH];
  uint64_t seed = 31 + (uint64_t)sets + 100 * (uint64_t)k->dtype;
  const gpu_shape s = {
      .m = 40, .n = 140, .k = 300, .in = k->dtype, .out = k->dtype == RDT_F64 ? RDT_F64 : RDT_F32, .alpha = 1.0};
  gpu_case c;
  rdt_reason why;
  int64_t above = 0, missed = 0, fewer = 0;
  gpu_case_make(&c, &s, &seed, false);
  for (int64_t done = 0; done < faults; done += BATCH) {
    const int n = (int)(faults - done < BATCH ? faults - done : BATCH);
    for (int i = 0; i < n; i++) seen[i] = cancelling(&c, sets, &strikes[i], &seed);
    for (int less = 0; less < 2; less++) {
      rdt_cuda_gemm *g;
      gpu_must(rdt_cuda_gemm_create_sets(k, &device, &c.p, sets - less, 6.0, 2, NULL, &g, &why), k->name, &why);
      gpu_must(rdt_cuda_gemm_strike(g, &c.o, 0, strikes, n, verdicts[less], NULL, &why), k->name, &why);
      rdt_cuda_gemm_destroy(g);
    }
    for (int i = 0; i < n; i++) {
      if (!strikes[i].hit.done) complain(k->name, "several faults were not planted");
      if (found(&verdicts[1][i])) fewer++;
      if (!(seen[i] > 2.0 * strikes[i].bound)) continue;
      above++;
      if (!found(&verdicts[0][i])) missed++, complain(k->name, "several faults in a row were missed");
    }
  }
  if (2 * above < faults || 2 * fewer > faults) complain(k->name, "several faults are not what they should be");
  printf(
      "faults %-32s %d a row, %d checks: %lld planted; %lld above the floor, %lld of them missed; %d checks find "
      "%lld\n",
      k->name, sets, sets, (long long)faults, (long long)above, (long long)missed, sets - 1, (long long)fewer);
  if (record)
    fprintf(record, "%s{\"checks\": %d, \"planted\": %lld, \"above_floor\": %lld, \"missed\": %lld}",
            sets == 2 ? "" : ", ", sets, (long long)faults, (long long)above, (long long)missed);
  gpu_case_free(&c);
}

static void plant(const rdt_cuda_kernel *k, int64_t faults, bool quick) {
  static rdt_cuda_strike strikes[BATCH];
  static rdt_cuda_verdict verdicts[BATCH];
  uint64_t seed = 13 + (uint64_t)k->check + 100 * (uint64_t)k->dtype + (uint64_t)k->tile->rows;
  const bool wide = k->family == RDT_CUDA_WGMMA;
  const gpu_shape s = {.m = wide                  ? 300
                            : quick               ? 70
                            : k->tile->rows == 16 ? 30
                                                  : 100,
                       .n = wide    ? 400
                            : quick ? 70
                                    : 140,
                       .k = quick ? 200 : 1000,
                       .in = k->dtype,
                       .out = k->dtype == RDT_S8    ? RDT_S32
                              : k->dtype == RDT_F64 ? RDT_F64
                                                    : RDT_F32,
                       .columns = !k->code[0],
                       .tf32 = k->tf32,
                       .alpha = 1.0};
  gpu_case c;
  rdt_reason why;
  rdt_cuda_gemm *g;
  rdt_cuda_verdict v;
  tally count = {0};
  void *results;
  gpu_case_make(&c, &s, &seed, false);
  const size_t apart = (c.bytes[2] + 255) / 256 * 256;
  char *host = malloc(BATCH * apart), *clean = malloc(c.bytes[2]);
  if (!host || !clean) gpu_die("malloc", "out of memory");
  gpu_must(rdt_cuda_alloc(BATCH * apart, &results, &why), "results", &why);
  gpu_must(rdt_cuda_gemm_create(k, &device, &c.p, 6.0, 2, NULL, &g, &why), k->name, &why);
  gpu_case_poison(&c);
  gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  gpu_case_fetch(&c);
  memcpy(clean, c.host[2], c.bytes[2]);
  rdt_operands o = c.o;
  o.out.data = results;
  for (int64_t done = 0; done < faults; done += BATCH) {
    const int n = (int)(faults - done < BATCH ? faults - done : BATCH);
    memset(host, 0xff, (size_t)n * apart);
    gpu_must(rdt_cuda_put(results, host, (size_t)n * apart, NULL, &why), "poison", &why);
    for (int i = 0; i < n; i++) strikes[i] = draw(k, &c, &seed);
    gpu_must(rdt_cuda_gemm_strike(g, &o, apart, strikes, n, verdicts, NULL, &why), k->name, &why);
    gpu_must(rdt_cuda_get(host, results, (size_t)n * apart, NULL, &why), "results", &why);
    for (int i = 0; i < n; i++) judge(k, &c, &strikes[i], &verdicts[i], host + (size_t)i * apart, clean, &count);
  }
  printf("faults %-32s %lld planted, %lld found; %lld above the floor, %lld of them missed; %lld changed nothing\n",
         k->name, (long long)count.planted, (long long)count.found, (long long)count.above,
         (long long)(count.above - count.found_above), (long long)count.silent);
  fflush(stdout);
  if (record)
    fprintf(record,
            "\"planted\": %lld, \"found\": %lld, \"above_floor\": %lld, \"missed\": %lld, \"unchanged\": %lld, ",
            (long long)count.planted, (long long)count.found, (long long)count.above,
            (long long)(count.above - count.found_above), (long long)count.silent);
  rdt_cuda_strike sm = {.hit = {.element = 0, .position = 0.5, .mask = (uint64_t)1 << (8 * k->sum - 2)}, .sm = 5};
  gpu_must(rdt_cuda_gemm_strike(g, &c.o, 0, &sm, 1, &v, NULL, &why), "SM", &why);
  if (sm.hit.done && !found(&v)) complain(k->name, "a broken SM was not noticed");
  if (sm.hit.done && v.listed && k->check < RDT_MMA_SUMS && v.list[0].sm != 5)
    complain(k->name, "another SM was named");
  gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), k->name, &why);
  if (found(&v)) complain(k->name, "a fault is still reported in the next run");
  rdt_cuda_gemm_destroy(g);
  rdt_cuda_free(results);
  free(host), free(clean);
  gpu_case_free(&c);
}

/* As many tiles as asked, each product from other rows of A. */
static int64_t run_clean(const rdt_cuda_kernel *k, int64_t tiles) {
  enum { SIDE = 2048, DEPTH = 256, MORE = 64 };
  uint64_t seed = 23;
  const bool integer = !rdt_dtype_is_float(k->dtype);
  const gpu_shape s = {.m = SIDE + MORE * 16,
                       .n = SIDE,
                       .k = DEPTH,
                       .in = k->dtype,
                       .out = integer               ? RDT_S32
                              : k->dtype == RDT_F64 ? RDT_F64
                                                    : RDT_F32,
                       .columns = !k->code[0],
                       .tf32 = k->tf32,
                       .alpha = 1.0,
                       .data = k->check % 2 ? GPU_RELU : GPU_HEAVY};
  const int64_t each = (SIDE / k->tile->rows) * (SIDE / k->tile->columns);
  gpu_case c;
  rdt_reason why;
  rdt_cuda_gemm *g;
  rdt_cuda_verdict v;
  int64_t done = 0;
  gpu_case_make(&c, &s, &seed, false);
  c.in[0].shape[0] = c.p.in[0].shape[0] = c.p.out.shape[0] = c.o.out.shape[0] = SIDE;
  char *const first = c.in[0].data;
  gpu_must(rdt_cuda_gemm_create(k, &device, &c.p, 6.0, 1, NULL, &g, &why), k->name, &why);
  for (int64_t i = 0; done < tiles; i++, done += each) {
    c.in[0].data = first + (size_t)(i % MORE * 16 * c.in[0].stride[0]) * rdt_dtype_info(k->dtype)->bytes;
    gpu_must(rdt_cuda_gemm_run(g, &c.o, NULL, &why), k->name, &why);
  }
  gpu_must(rdt_cuda_gemm_verdict(g, NULL, &v, &why), k->name, &why);
  if (v.suspect | v.certain | v.cannot) complain(k->name, "complains without a fault");
  if (record)
    fprintf(record, "\"tiles\": %lld, \"reports\": %lld, ", (long long)done,
            (long long)(v.suspect + v.certain + v.cannot));
  rdt_cuda_gemm_destroy(g);
  gpu_case_free(&c);
  return done;
}

static bool wanted(const rdt_cuda_kernel *k, const char *word) {
  return rdt_cuda_kernel_find(word) ? strcmp(k->name, word) == 0 : strstr(k->name, word) != NULL;
}

static bool has_tiles(const rdt_cuda_kernel *k) {
  return k->check != RDT_MMA_NONE && k->tile->rows >= 64;
}

static void begin(const rdt_cuda_kernel *k) {
  if (!record) return;
  fprintf(record, "{\"device\": \"%s\", \"kernel\": \"%s\", \"dtype\": \"%s\", \"scheme\": \"%s\", ", device.name,
          k->name, rdt_dtype_name(k->dtype), k->scheme);
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

static void check_kernel(const rdt_cuda_kernel *k, counts *c) {
  const int64_t before = wrong;
  const bool hits = rdt_cuda_kernel_inject(k) != NULL;
  if (!hits && (c->quick || !has_tiles(k))) return;
  begin(k);
  if (hits) {
    plant(k, c->faults, c->quick), c->kernels++;
    const int sets = rdt_cuda_kernel_sets(k);
    if (record && sets > 1) fprintf(record, "\"several\": [");
    for (int n = 2; n <= sets; n += c->quick ? 3 : 1, c->several += c->few) plant_several(k, n, c->few);
    if (record && sets > 1) fprintf(record, "], ");
    wrong += gpu_mend(&device, k, c->quick);
  }
  if (!c->quick && has_tiles(k)) c->clean += run_clean(k, c->tiles);
  end(before);
}

int main(int argc, char **argv) {
  rdt_reason why;
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  counts c = {.quick = quick,
              .faults = quick      ? 6
                        : argc > 2 ? atoll(argv[1])
                                   : 2000,
              .tiles = argc > 2 ? atoll(argv[2]) : 200000};
  const char *word = argc > 3 ? argv[3] : "";
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  c.few = quick ? 3 : c.faults / 10 + 1;
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (int i = 0; i < n; i++)
      if (rdt_cuda_kernel_inject(&table[i]) || has_tiles(&table[i]))
        printf("%s %d\n", table[i].name, rdt_cuda_kernel_inject(&table[i]) != NULL);
    return 0;
  }
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  if (argc > 4 && !(record = fopen(argv[4], "a"))) gpu_die(argv[4], "cannot be written");
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  for (int i = 0; i < n; i++)
    if (wanted(&table[i], word)) check_kernel(&table[i], &c);
  printf("gpu-faults: %lld faults in %lld kernels, %lld rows with several, %lld tiles without any: %lld wrong\n",
         (long long)(c.faults * c.kernels), (long long)c.kernels, (long long)c.several, (long long)c.clean,
         (long long)wrong);
  if (record && fclose(record) != 0) gpu_die(argv[4], "cannot be written");
  return wrong ? 1 : 0;
}
