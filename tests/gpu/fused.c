/* Of gpu_faults: the fused kernels on wgmma. A wrong sum must be found above twice the bound of its row, which the
 * check beside it has; what differs between the sum and its store, or was loaded wrongly where the tile sums what it
 * loads, by the bit-sums that the next reader compares. */
#include "fused.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "cuda/box/boxes.h"
#include "cuda/sm90/fused_wgmma.h"

enum { FOUND_SUM, VISITS, READ_IN, READ_RESIDUAL, BOARD };
enum { BATCH = 500, STAGE = 64 };
typedef enum site { SUM, CHECKSUM, OF_A, OF_WEIGHTS, TAKEN, STORED, OF_SQUARES, OF_INPUTS, SITES } site;

typedef struct bench {
  gpu_case c;
  rdt_box_wide *b;
  const rdt_cuda_device *d;
  const rdt_fused_wide_kernel *k;
  int splits, rounds; /* rounds: of a block */
  bool rest;          /* it leaves bit-sums of memory at rest; else rows are all that is checked */
  bool loaded;        /* the bit-sum of A is made of what was loaded */
  int share;          /* stages of A that a column of tiles sums */
  int room;           /* strikes at once */
  int first;          /* site of the first strike: few strikes meet all sites in all cases together */
  size_t apart;
  rdt_mma_hit *hits;          /* on the device, as all that follows */
  uint64_t *boards;           /* [strike][BOARD] */
  rdt_cuda_verdict *verdicts; /* of each strike */
  char *results, *host;       /* host: here */
  char *clean;
  uint64_t read; /* of A, without a fault */
  gpu_fused_count *count;
} bench;

static void complain(bench *t, const char *what, const rdt_mma_hit *h) {
#pragma omp critical
  {
    if (++t->count->wrong <= 10) {
      printf("WRONG %s: %s\n", t->k->name, what);
      if (h)
        printf("  site %d.%d of %d, %d after stage %d, mask %llx: %g to %g, bound %g\n", h->site, h->columns,
               h->element[0], h->element[1], h->step, (unsigned long long)h->mask, h->before, h->after, h->bound);
    }
  }
}

/* One launch, with a fault or (NULL) as it is shipped, and the pass that adds up what it has left. */
static void launch(bench *t, int i, bool struck) {
  rdt_reason why = {""};
  rdt_box_batch batch = {NULL, 0, 0};
  const unsigned reads = rdt_box_wide_reads(t->b);
  uint64_t *board = t->boards + i * BOARD;
  uint64_t *const read[2] = {reads & RDT_BOX_READS_IN ? board + READ_IN : NULL,
                             reads & RDT_BOX_READS_RESIDUAL ? board + READ_RESIDUAL : NULL};
  rdt_operands o = t->c.o;
  o.out.data = t->results + (size_t)i * t->apart;
  if (struck)
    gpu_must(rdt_box_wide_strike(t->b, &o, t->hits + i, NULL, &why), "fault", &why);
  else
    gpu_must(rdt_box_wide_launch(t->b, &o, NULL, &why), "launch", &why);
  gpu_must(rdt_box_wide_check(t->b, (rdt_box_sum_to){board, board + VISITS}, read, &batch, &why), "check", &why);
  gpu_must(rdt_box_batch_launch(&batch, NULL, &why), "check", &why);
  rdt_box_batch_free(&batch);
  rdt_cuda_verdict *v = rdt_box_wide_verdict(t->b);
  gpu_must(rdt_cuda_move(t->verdicts + i, v, sizeof *v, NULL, &why), "verdict", &why);
  gpu_must(rdt_cuda_clear(v, sizeof *v, NULL, &why), "verdict", &why);
}

/* n launches, of hits where there are any; what came of them. */
static void launch_all(bench *t, rdt_mma_hit *hits, int n, uint64_t (*sums)[BOARD], rdt_cuda_verdict *v) {
  rdt_reason why = {""};
  const size_t bytes = (size_t)n * sizeof *hits;
  gpu_must(rdt_cuda_status(cudaMemsetAsync(t->results, 0xff, (size_t)n * t->apart, NULL), "poison", &why), "", &why);
  gpu_must(rdt_cuda_clear(t->boards, (size_t)n * sizeof *sums, NULL, &why), "boards", &why);
  if (hits) gpu_must(rdt_cuda_put(t->hits, hits, bytes, NULL, &why), "faults", &why);
  for (int i = 0; i < n; i++) launch(t, i, hits != NULL);
  if (hits) gpu_must(rdt_cuda_get(hits, t->hits, bytes, NULL, &why), "faults", &why);
  gpu_must(rdt_cuda_get(sums, t->boards, (size_t)n * sizeof *sums, NULL, &why), "boards", &why);
  gpu_must(rdt_cuda_get(v, t->verdicts, (size_t)n * sizeof *v, NULL, &why), "verdicts", &why);
  gpu_must(rdt_cuda_get(t->host, t->results, (size_t)n * t->apart, NULL, &why), "results", &why);
}

/* Where an element is: of m64 tiles of wgmma, four warps each. */
static rdt_mma_hit draw(const bench *t, site s, uint64_t *seed) {
  const int64_t m = t->c.p.out.shape[0], n = t->c.p.out.shape[1], k = t->c.in[0].shape[1];
  const int row = (int)(gpu_random(seed) % (uint64_t)m), column = (int)(gpu_random(seed) % (uint64_t)n);
  const int part = t->k->part, r = row % t->k->rows, c = column % t->k->columns, high = t->k->rows / 64;
  const int round = (int)(gpu_random(seed) % (uint64_t)((k + STAGE - 1) / STAGE));
  const int among = (int)(gpu_random(seed) % 2); /* the two parts of a checksum */
  const int in = s == CHECKSUM ? part + among : c % part, warp = (c / part * high + r / 64) * 4 + r % 64 / 16;
  const int byte = (int)(gpu_random(seed) % 64) * 2,
            line = s == OF_A ? r : c / part * (part + RDT_FUSED_WIDE_MORE) + c % part;
  rdt_mma_hit h = {.site = s <= CHECKSUM     ? RDT_MMA_ACCUM
                           : s <= OF_WEIGHTS ? RDT_MMA_FRAGMENT
                           : s <= STORED     ? RDT_MMA_REDUCED
                                             : RDT_MMA_BOUND,
                   .block = {column / t->k->columns, row / t->k->rows, round / t->rounds},
                   .step = round % t->rounds,
                   .thread = 32 * warp + r % 8 * 4 + in % 8 / 2,
                   .fragment = in / 8 * 4 + r % 16 / 8 * 2 + in % 2,
                   .columns = s == OF_WEIGHTS || s == STORED || s == OF_INPUTS,
                   .element = {row, column},
                   .mask = (uint64_t)1 << (gpu_random(seed) % (s == STORED ? 16 : 32)),
                   .sm = -1,
                   .bound = NAN};
  if (h.site == RDT_MMA_FRAGMENT) {
    h.fragment = 128 * line + byte;
    h.mask = (uint64_t)1 << (byte % 4 / 2 * 16 + (int)(gpu_random(seed) % 16));
  }
  return h;
}

static double half_of(uint16_t bits) {
  return rdt_load(&bits, RDT_F16, 0);
}

/* What a wrong weight changes in the row that is looked at. */
static double by_weight(const bench *t, const rdt_mma_hit *h) {
  const int64_t k = (h->block[2] * t->rounds + h->step) * STAGE + h->fragment % 128 / 2;
  const int shift = h->fragment % 4 / 2 * 16;
  if (k >= t->c.in[0].shape[1]) return 0.0;
  const double a = rdt_load((char *)t->c.host[0] + t->c.skip[0], RDT_F16, h->element[0] * t->c.in[0].stride[0] + k);
  const double from = half_of((uint16_t)((uint32_t)h->before >> shift)),
               to = half_of((uint16_t)((uint32_t)h->after >> shift));
  return a * (to - from);
}

static void judge(bench *t, site s, const rdt_mma_hit *h, const uint64_t sums[BOARD], const rdt_cuda_verdict *v,
                  const char *now) {
  const size_t bytes = t->c.bytes[2];
  const bool other = memcmp(now, t->clean, bytes) != 0, complains = v->suspect + v->certain > 0;
  const bool stored = t->rest && sums[FOUND_SUM] != rdt_bitsum(now, bytes),
             read = t->loaded && sums[READ_IN] != t->read;
  const double change = s == OF_WEIGHTS                    ? by_weight(t, h)
                        : s == CHECKSUM && h->fragment % 2 ? (h->after - h->before) * 0x1p-11
                                                           : h->after - h->before;
  const bool beyond = !(fabs(change) <= 2.0 * h->bound) || !isfinite(h->bound);
  const int stage = h->block[2] * t->rounds + h->step;
  const bool must = s == SUM || s == CHECKSUM || s == OF_WEIGHTS ? beyond
                    : s == TAKEN || s == STORED                  ? other
                    : s == OF_A                                  ? t->loaded && stage / t->share == h->block[0]
                                : false; /* a bound finds nothing where there is nothing */
  const bool cries = complains || stored || read;
  if (!h->done) complain(t, "a fault was not planted", h);
#pragma omp critical(count)
  {
    t->count->planted++, t->count->found += cries, t->count->above += must, t->count->missed += must && !cries;
    t->count->unchanged += !must && !cries && !other;
  }
  if (must && !cries) complain(t, "it was missed", h);
  if (s == STORED && (complains || !stored || !other)) complain(t, "what was stored wrongly is seen by its bit-sum", h);
  if (s == TAKEN && (complains || stored != other)) complain(t, "what was evaluated twice differs, or is told", h);
  if (s != TAKEN && s != STORED && stored) complain(t, "a wrong sum is stored and evaluated alike", h);
  if (s != OF_A && read) complain(t, "what was loaded rightly is told", h);
  if ((s == CHECKSUM || s == OF_SQUARES || s == OF_INPUTS) && other)
    complain(t, "a fault in a check changed the result", h);
  const rdt_cuda_finding *f = &v->list[0];
  const bool there = (s == OF_WEIGHTS || f->row == h->element[0]) && h->element[1] >= f->column &&
                     h->element[1] < f->column + f->columns;
  if (complains && v->listed == 1 && s != OF_A && !there) complain(t, "it was located elsewhere", h);
}

/* What lies between sum and store, and A in shared memory, is seen by bit-sums alone. */
static site site_of(const bench *t, int64_t i) {
  const site s = (site)((t->first + i) % SITES);
  return !t->rest && (s == OF_A || s == TAKEN || s == STORED) ? SUM : s;
}

static void plant(bench *t, int64_t faults, uint64_t *seed) {
  static rdt_mma_hit hits[BATCH];
  static uint64_t sums[BATCH][BOARD];
  static rdt_cuda_verdict v[BATCH];
  for (int64_t done = 0; done < faults; done += BATCH) {
    const int n = (int)(faults - done < BATCH ? faults - done : BATCH);
    for (int i = 0; i < n; i++) hits[i] = draw(t, site_of(t, done + i), seed);
    launch_all(t, hits, n, sums, v);
#pragma omp parallel for
    for (int i = 0; i < n; i++)
      judge(t, site_of(t, done + i), &hits[i], sums[i], &v[i], t->host + (size_t)i * t->apart);
  }
}

/* Each multiprocessor in turn. */
static void each_sm(bench *t) {
  static uint64_t sums[BATCH][BOARD];
  static rdt_cuda_verdict v[BATCH];
  int struck = 0;
  for (int first = 0; first < t->d->sms; first += t->room) {
    rdt_mma_hit hits[BATCH];
    const int n = t->d->sms - first < t->room ? t->d->sms - first : t->room;
    for (int i = 0; i < n; i++)
      hits[i] = (rdt_mma_hit){.site = RDT_MMA_ACCUM, .mask = 1u << 30, .sm = first + i, .element = {-1, -1}};
    launch_all(t, hits, n, sums, v);
    for (int i = 0; i < n; i++) {
      const uint32_t complaints = v[i].suspect + v[i].certain;
      struck += hits[i].done > 0;
      if (hits[i].done && !complaints) complain(t, "a broken multiprocessor was not noticed", &hits[i]);
      for (int sm = 0; sm < t->d->sms && sm < RDT_CUDA_SMS; sm++)
        if (v[i].sm[sm] && (sm != hits[i].sm || !hits[i].done))
          complain(t, "another multiprocessor is named", &hits[i]);
      if (hits[i].done && !v[i].sm[hits[i].sm]) complain(t, "a broken multiprocessor is not named", &hits[i]);
    }
  }
  printf("broken %-32s %d multiprocessors, all named\n", t->k->name, struck);
  if (2 * struck < t->d->sms) complain(t, "most multiprocessors have had no tile", NULL);
}

static void run_clean(bench *t, int64_t tiles) {
  static uint64_t sums[BATCH][BOARD];
  static rdt_cuda_verdict v[BATCH];
  const int64_t each =
      (t->c.p.out.shape[0] + t->k->rows - 1) / t->k->rows * ((t->c.p.out.shape[1] + t->k->columns - 1) / t->k->columns);
  for (int64_t done = 0; done < tiles; done += BATCH * each, t->count->tiles += BATCH * each) {
    launch_all(t, NULL, BATCH, sums, v);
#pragma omp parallel for
    for (int i = 0; i < BATCH; i++) {
      const char *now = t->host + (size_t)i * t->apart;
      const bool good = !v[i].listed && memcmp(now, t->clean, t->c.bytes[2]) == 0 &&
                        (!t->rest || sums[i][FOUND_SUM] == rdt_bitsum(now, t->c.bytes[2])) &&
                        (!t->loaded || sums[i][READ_IN] == t->read);
      if (good) continue;
#pragma omp atomic
      t->count->reports++;
      complain(t, "complains without a fault", NULL);
    }
  }
}

/* What is taken for clean, against the product in double. */
static bool is_right(const bench *t) {
  const gpu_case *c = &t->c;
  const int64_t count = c->p.out.shape[0] * c->p.out.shape[1];
  for (int64_t i = 0; i < count; i++) {
    const double x = rdt_load(t->clean, RDT_F16, i);
    if (!(fabs(x - c->exact[i]) <= 0x1p-10 * fabs(c->exact[i]) + 0x1p-17 * c->magnitude[i])) return false;
  }
  return true;
}

/* No bit depends on the check, or on who keeps bit-sums. */
static bool is_same_unchecked(bench *t) {
  rdt_reason why = {""};
  rdt_box_wide *b;
  rdt_operands o = t->c.o;
  const rdt_box_wide_form form = {.tile = -1, .like = t->b};
  o.out.data = t->results;
  gpu_must(rdt_cuda_status(cudaMemset(t->results, 0xff, t->c.bytes[2]), "poison", &why), "", &why);
  gpu_must(rdt_box_wide_create_as(t->d, &t->c.p, &form, 6.0, &o, NULL, &b, &why), "unchecked kernel", &why);
  gpu_must(rdt_box_wide_launch(b, &o, NULL, &why), "launch", &why);
  gpu_must(rdt_cuda_get(t->host, t->results, t->c.bytes[2], NULL, &why), "results", &why);
  rdt_box_wide_destroy(b);
  return memcmp(t->host, t->clean, t->c.bytes[2]) == 0;
}

static void open(bench *t, const gpu_shape *shape, uint64_t *seed) {
  rdt_reason why = {""};
  gpu_shape s = *shape;
  s.in = s.out = RDT_F16, s.alpha = s.beta = 1.0;
  const int64_t stages = (s.k + STAGE - 1) / STAGE, columns = (s.n + t->k->columns - 1) / t->k->columns;
  t->share = (int)((stages + columns - 1) / columns);
  gpu_case_make(&t->c, &s, seed, true);
  t->apart = (t->c.bytes[2] + 255) / 256 * 256;
  const rdt_box_wide_form form = {
      .protect = true, .rest = t->rest, .tile = (int)(t->k - rdt_fused_wide_kernels), .splits = t->splits};
  gpu_must(rdt_box_wide_create_as(t->d, &t->c.p, &form, 6.0, &t->c.o, NULL, &t->b, &why), "fused kernel", &why);
  t->splits = rdt_box_wide_splits(t->b);
  t->rounds = (int)((stages + t->splits - 1) / t->splits);
  t->loaded = (rdt_box_wide_reads(t->b) & RDT_BOX_READS_IN) != 0;
  void *memory[4];
  const size_t bytes[4] = {(size_t)t->room * sizeof *t->hits, (size_t)t->room * BOARD * sizeof *t->boards,
                           (size_t)t->room * sizeof *t->verdicts, (size_t)t->room * t->apart};
  for (int i = 0; i < 4; i++) gpu_must(rdt_cuda_alloc(bytes[i], &memory[i], &why), "memory", &why);
  t->hits = memory[0], t->boards = memory[1], t->verdicts = memory[2], t->results = memory[3];
  gpu_must(rdt_cuda_status(cudaMallocHost((void **)&t->host, bytes[3]), "results", &why), "results", &why);
  t->clean = malloc(t->c.bytes[2]);
  if (!t->clean) gpu_die("malloc", "out of memory");
  /* As it is shipped: what all that follows is compared with. */
  uint64_t sums[1][BOARD];
  rdt_cuda_verdict v;
  launch_all(t, NULL, 1, sums, &v);
  memcpy(t->clean, t->host, t->c.bytes[2]);
  if (!is_right(t)) complain(t, "it is wrong without a fault", NULL);
  if (!is_same_unchecked(t)) complain(t, "it has other bits unchecked", NULL);
  t->read = sums[0][READ_IN];
  if (v.listed || (t->rest && sums[0][FOUND_SUM] != rdt_bitsum(t->clean, t->c.bytes[2])))
    complain(t, "complains without a fault", NULL);
}

static void shut(bench *t) {
  rdt_box_wide_destroy(t->b);
  rdt_cuda_free(t->hits), rdt_cuda_free(t->boards), rdt_cuda_free(t->verdicts), rdt_cuda_free(t->results);
  (void)cudaFreeHost(t->host);
  free(t->clean);
  gpu_case_free(&t->c);
}

gpu_fused_count gpu_fused(const rdt_cuda_device *d, int tile, int64_t faults, int64_t tiles) {
  /* Results without gaps; k that is no multiple of a stage has another last one; tiles that blocks share. */
  enum { CASES = 6 };
  static const struct {
    gpu_shape shape;
    int splits;
    bool alone; /* rows, and nothing of memory at rest */
  } list[CASES + 1] = {
      {{.m = 300, .n = 144, .k = 592, .bias = true, .residual = true, .relu = true}, 1, false},
      {{.m = 200, .n = 208, .k = 512, .bias = true}, 3, false},
      {{.m = 130, .n = 144, .k = 1000, .bias = true, .residual = true, .relu = true}, RDT_FUSED_WIDE_SPLITS, false},
      {{.m = 200, .n = 208, .k = 512, .bias = true, .relu = true}, 1, true},
      {{.m = 130, .n = 144, .k = 1000}, 4, true},
      {{.m = 130, .n = 144, .k = 1000, .bias = true}, RDT_FUSED_WIDE_SPLITS, true},
      {{.m = 9000, .n = 144, .k = 64}, 1, false}, /* something for each multiprocessor */
  };
  gpu_fused_count count = {0};
  for (int i = 0; i < (tiles ? CASES + 1 : CASES); i++) {
    uint64_t seed = 41 + (uint64_t)(10 * tile + i);
    bench t = {.d = d,
               .k = &rdt_fused_wide_kernels[tile],
               .splits = list[i].splits,
               .rest = !list[i].alone,
               .room = i == CASES ? 12 : BATCH,
               .first = 3 * i,
               .count = &count};
    open(&t, &list[i].shape, &seed);
    if (i < CASES) {
      plant(&t, faults / CASES + (i < faults % CASES), &seed);
      run_clean(&t, tiles / CASES);
    } else {
      each_sm(&t);
    }
    shut(&t);
  }
  printf("faults %-32s %lld planted, %lld found; %lld above the floor, %lld of them missed; %lld changed nothing\n",
         rdt_fused_wide_kernels[tile].name, (long long)count.planted, (long long)count.found, (long long)count.above,
         (long long)count.missed, (long long)count.unchanged);
  fflush(stdout);
  return count;
}
