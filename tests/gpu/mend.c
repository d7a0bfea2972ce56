/* Of gpu_faults: products with faults, repaired behind their launch. Bits must be those of a clean run, and what is
 * told must be what was planted: something transient, a multiprocessor that is wrong always, something that no repair
 * helps. */
#include "mend.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/mender.h"
#include "cuda/sm80/gemm_mma.h"

typedef struct bench {
  const rdt_cuda_device *d;
  const rdt_cuda_kernel *k;
  gpu_case c;
  rdt_cuda_gemm *g;
  char *clean;
  int64_t wrong;
} bench;

static void complain(bench *b, const char *what, const rdt_cuda_mended *m) {
  if (++b->wrong > 6) return;
  printf("WRONG repair of %s: %s\n", b->k->name, what);
  if (m)
    printf(
        "  %u products, %u transient, %u persistent, %u checker, %u rounding, %u unchecked, %u left; %u changed, %u "
        "whole, %u passes; seen %u suspect, %u certain, %u cannot\n",
        m->products, m->transient, m->persistent, m->checker, m->rounding, m->unchecked, m->left, m->changed, m->whole,
        m->passes, m->seen.suspect, m->seen.certain, m->seen.cannot);
}

static bool found(const rdt_cuda_verdict *v) {
  return v->suspect || v->certain || v->cannot;
}

static void ready(bench *b, int splits) {
  rdt_reason why;
  gpu_must(rdt_cuda_gemm_create(b->k, b->d, &b->c.p, 6.0, splits, NULL, &b->g, &why), b->k->name, &why);
  gpu_case_poison(&b->c);
  gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  gpu_case_fetch(&b->c);
  b->clean = malloc(b->c.bytes[2]);
  if (!b->clean) gpu_die("malloc", "out of memory");
  memcpy(b->clean, b->c.host[2], b->c.bytes[2]);
}

static void prepare_shape(bench *b, const gpu_shape *s, int splits) {
  uint64_t seed = 31;
  gpu_case_make(&b->c, s, &seed, false);
  ready(b, splits);
}

/* Of batches: all have the first one's A, and residual. */
static void prepare_same_a(bench *b, const gpu_shape *s) {
  uint64_t seed = 31;
  gpu_case_make(&b->c, s, &seed, false);
  b->c.in[0].stride[0] = b->c.p.in[0].stride[0] = 0;
  if (s->residual) b->c.epilogue.residual.stride[0] = b->c.p.epilogue.residual.stride[0] = 0;
  ready(b, 1);
}

static gpu_shape plain(const bench *b, int m, int n, int k) {
  const rdt_dtype in = b->k->dtype;
  return (gpu_shape){.m = m,
                     .n = n,
                     .k = k,
                     .in = in,
                     .columns = b->k->family == RDT_CUDA_WGMMA && !b->k->code[0],
                     .tf32 = b->k->tf32,
                     .out = in == RDT_S8    ? RDT_S32
                            : in == RDT_F64 ? RDT_F64
                                            : RDT_F32,
                     .alpha = 1.0};
}

static void prepare(bench *b, int m, int n, int k, int splits) {
  const gpu_shape s = plain(b, m, n, k);
  prepare_shape(b, &s, splits);
}

static void clear(bench *b) {
  rdt_cuda_gemm_destroy(b->g);
  free(b->clean);
  gpu_case_free(&b->c);
}

static bool same(bench *b) {
  gpu_case_fetch(&b->c);
  return memcmp(b->c.host[2], b->clean, b->c.bytes[2]) == 0;
}

/* ---- what strikes once ---- */

static void once(bench *b, int faults) {
  uint64_t seed = 41;
  rdt_reason why;
  int64_t repaired = 0;
  for (int i = 0; i < faults; i++) {
    rdt_cuda_mended m;
    rdt_cuda_verdict v;
    const int site = (int)(gpu_random(&seed) % 4), bits = 8 * b->k->sum;
    rdt_cuda_strike s = {
        .hit = {.element = (int64_t)(gpu_random(&seed) % (uint64_t)(b->c.all.shape[0] * b->c.all.shape[1])),
                .position = (double)(gpu_random(&seed) % 1000) / 999.0,
                .mask = (uint64_t)1 << (gpu_random(&seed) % (uint64_t)bits)},
        .sm = -1,
        .mended = &m};
    s.reduced = site == 1;
    s.checksum = site == 2 && b->k->check != RDT_MMA_REPLICATE && b->k->check < RDT_MMA_REPLICATE1;
    s.fragment = site == 2 && b->k->check == RDT_MMA_SUMS;
    if (s.checksum && b->k->dtype == RDT_F16) s.hit.mask = 1u << (10 + gpu_random(&seed) % 5);
    gpu_case_poison(&b->c);
    gpu_must(rdt_cuda_gemm_strike(b->g, &b->c.o, 0, &s, 1, &v, NULL, &why), b->k->name, &why);
    const bool good = same(b);
    if (found(&v) || m.left || m.unchecked) complain(b, "what struck once was not repaired", &m);
    if (m.products > 1 || (m.products == 1) != found(&m.seen)) complain(b, "looked into what nobody saw", &m);
    if (m.products && !good) complain(b, "called repaired, and other bits", &m);
    if (m.products && m.persistent) complain(b, "what struck once is called persistent", &m);
    if (s.checksum && m.transient) complain(b, "a fault in a checksum is called one in the result", &m);
    if (m.products && m.transient + m.checker + m.rounding == 0) complain(b, "without an end", &m);
    repaired += m.transient;
  }
  printf("mended %-32s %d faults, %lld in results, all repaired\n", b->k->name, faults, (long long)repaired);
}

/* ---- a multiprocessor that is always wrong ---- */

static void always(bench *b, int every, bool all) { /* all: every one has tiles, again and again */
  rdt_reason why;
  int hit = 0, named = 0, unseen = 0, passes = 0, whole = 0, left = 0;
  for (int sm = 0; sm < b->d->sms; sm += every) {
    rdt_cuda_mended m;
    rdt_cuda_verdict v;
    rdt_cuda_strike s = {.hit = {.position = 0.5, .mask = (uint64_t)1 << (8 * b->k->sum - 2)}, .sm = sm, .mended = &m};
    gpu_case_poison(&b->c);
    gpu_must(rdt_cuda_gemm_strike(b->g, &b->c.o, 0, &s, 1, &v, NULL, &why), b->k->name, &why);
    const bool good = same(b);
    if (!s.hit.done) continue; /* it has computed nothing */
    hit++;
    unseen += !m.products;
    if (!m.products) continue;
    left += m.left > 0;
    if (m.left && !found(&v)) complain(b, "a fault is left, and the verdict is clean", &m);
    if (!m.left && (found(&v) || !good)) complain(b, "a broken multiprocessor's tiles, called repaired", &m);
    if (m.left && b->k->check < RDT_MMA_SUMS) complain(b, "a broken multiprocessor was not avoided", &m);
    if (b->k->check < RDT_MMA_SUMS && !m.seen.sm[sm]) complain(b, "its complaints are not counted", &m);
    for (int i = 0; i < RDT_CUDA_SMS; i++) {
      if (i != sm && m.wrong[i]) complain(b, "another multiprocessor is called wrong", &m);
      if (i != sm && m.seen.sm[i] && b->k->check < RDT_MMA_SUMS) complain(b, "another one complained", &m);
    }
    named += m.wrong[sm] > 0, whole += m.whole > 0;
    if ((int)m.passes > passes) passes = (int)m.passes;
  }
  printf(
      "broken %-32s %lld x %lld: %d multiprocessors, %d unseen, %d named, %d products as a whole, %d left, up to %d "
      "passes\n",
      b->k->name, (long long)b->c.p.out.shape[0], (long long)b->c.p.out.shape[1], hit, unseen, named, whole, left,
      passes);
  /* Where others use the GPU too, what is done again may land elsewhere each time: then nobody loses twice. */
  if (all && (hit < (b->d->sms + every - 1) / every || (b->k->check < RDT_MMA_SUMS && 2 * named < hit)))
    complain(b, "a broken multiprocessor was not named", NULL);
}

/* ---- without a fault of its own: from the host's side, and in graphs ---- */

static void at_host(bench *b, bool graph) {
  rdt_reason why;
  cudaStream_t stream;
  void *bad;
  rdt_cuda_mended m;
  rdt_cuda_verdict v;
  void *weights = b->c.in[1].data;
  const size_t size = rdt_dtype_info(b->k->dtype)->bytes, bytes = 64 * size;
  char *host = (char *)b->c.host[1] + b->c.skip[1];
  const char *name = b->k->name;
  double x = 0.0;
  gpu_must(rdt_cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream", &why), "stream", &why);
  gpu_must(rdt_cuda_alloc(2 * bytes, &bad, &why), "memory", &why);
  char *good = (char *)bad + bytes;
  gpu_must(rdt_cuda_put(good, host, bytes, stream, &why), name, &why);
  gpu_must(rdt_cuda_wait(stream, &why), name, &why);
  x = rdt_load(host, b->k->dtype, 3);
  rdt_store(host, b->k->dtype, 3, x > 0.0 ? -100.0 : 100.0);
  gpu_must(rdt_cuda_put(bad, host, bytes, stream, &why), name, &why);
  gpu_must(rdt_cuda_wait(stream, &why), name, &why);
  rdt_store(host, b->k->dtype, 3, x);
  cudaGraphExec_t exec = NULL;
  /* A weight that has changed for this run; one that stays so, but where columns are compared with weights as they are.
   */
  for (int helps = 1; helps >= (b->k->check == RDT_WGMMA_ROWCOL && strcmp(b->k->scheme, "col") == 0); helps--) {
    gpu_case_poison(&b->c);
    if (graph)
      gpu_must(rdt_cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture", &why), name,
               &why);
    gpu_must(rdt_cuda_move(weights, bad, bytes, stream, &why), name, &why);
    gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, stream, &why), name, &why);
    if (helps) gpu_must(rdt_cuda_move(weights, good, bytes, stream, &why), name, &why);
    gpu_must(rdt_cuda_gemm_mend(b->g, &b->c.o, stream, &why), name, &why);
    if (!helps) gpu_must(rdt_cuda_move(weights, good, bytes, stream, &why), name, &why);
    if (graph) {
      cudaGraph_t made;
      gpu_must(rdt_cuda_status(cudaStreamEndCapture(stream, &made), "capture", &why), name, &why);
      gpu_must(rdt_cuda_status(cudaGraphInstantiate(&exec, made, 0), "graph", &why), name, &why);
      for (int i = 0; i < 3; i++) gpu_must(rdt_cuda_status(cudaGraphLaunch(exec, stream), "graph", &why), name, &why);
      (void)cudaGraphDestroy(made);
    }
    gpu_must(rdt_cuda_gemm_verdict(b->g, stream, &v, &why), name, &why);
    gpu_must(rdt_cuda_gemm_mended(b->g, stream, &m, &why), name, &why);
    if (exec) (void)cudaGraphExecDestroy(exec);
    exec = NULL;
    const unsigned runs = graph ? 3 : 1;
    if (m.products != runs) complain(b, "a product was not looked into", &m);
    if (helps && (!same(b) || found(&v) || m.left || m.transient < runs)) complain(b, "a weight was not repaired", &m);
    if (!helps && (!found(&v) || m.left < runs || m.transient || m.persistent))
      complain(b, "what stays wrong is called repaired", &m);
  }
  for (int i = 0; i < 3; i++) { /* nothing wrong, and nothing left of what was */
    gpu_case_poison(&b->c);
    gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, stream, &why), name, &why);
    gpu_must(rdt_cuda_gemm_mend(b->g, &b->c.o, stream, &why), name, &why);
    gpu_must(rdt_cuda_gemm_verdict(b->g, stream, &v, &why), name, &why);
    gpu_must(rdt_cuda_gemm_mended(b->g, stream, &m, &why), name, &why);
    if (!same(b) || found(&v) || m.products) complain(b, "a clean run was repaired", &m);
  }
  rdt_cuda_free(bad);
  (void)cudaStreamDestroy(stream);
}

/* By rows: rows that came to other bits the second time are told, and computed again. */
static void second_time(bench *b) {
  enum { TILE = 64, ROWS = 50, WIDTH = 40, PITCH = 48 };
  struct {
    rdt_mend m;
    rdt_cuda_verdict v;
    uint16_t ran[2];
    uint32_t taken, moved;
    uint64_t sums[3];
    uint16_t all[ROWS][PITCH], part[2 * TILE][PITCH];
  } * there, *host = calloc(1, sizeof *host);
  rdt_reason why;
  void *memory;
  if (!host) gpu_die("malloc", "out of memory");
  gpu_must(rdt_cuda_alloc(sizeof *host, &memory, &why), "memory", &why);
  there = memory;
  for (int differ = 0; differ < 2; differ++) {
    int last = 0;
    memset(host, 0, sizeof *host);
    host->m = (rdt_mend){.across = 1,
                         .down = 1,
                         .splits = 1,
                         .columns = 1,
                         .tile = {TILE, WIDTH},
                         .by_sums = 1,
                         .by_rows = 1,
                         .rows = ROWS,
                         .each = 1,
                         .sms = b->d->sms,
                         .taken = &there->taken,
                         .moved = &there->moved,
                         .ran = there->ran,
                         .sums = there->sums,
                         .open = 1,
                         .n = 1,
                         .place = {{.to = {1, 1}, .open = 1, .pass = 1, .first = 1u << RDT_CUDA_CERTAIN}}};
    host->taken = 1;
    for (int i = 0; i < 2 * TILE; i++)
      for (int j = 0; j < WIDTH; j++) host->part[i][j] = (uint16_t)(i % TILE * WIDTH + j + 1);
    host->part[TILE + ROWS - 1][WIDTH - 1] ^= (uint16_t)differ;
    host->part[TILE + ROWS][0] ^= 1; /* behind C's last row: nobody's */
    rdt_mend *m = &there->m;
    rdt_cuda_verdict *v = &there->v;
    rdt_mend_rows rows = {.all = there->all,
                          .part = there->part,
                          .pitch = PITCH,
                          .part_pitch = PITCH,
                          .batches = 1,
                          .width = WIDTH,
                          .size = 2};
    rdt_mend_matrix matrix = {.data = there->all,
                              .second = there->part[TILE],
                              .pitch = PITCH,
                              .second_pitch = PITCH,
                              .rows = ROWS,
                              .columns = WIDTH,
                              .bytes = 2};
    void *put[] = {&m, &rows}, *sum[] = {&m, &matrix, &last}, *judge[] = {&m, &v, &last};
    const dim3 one = {1, 1, 1}, threads = {RDT_MEND_THREADS, 1, 1};
    gpu_must(rdt_cuda_put(there, host, sizeof *host, NULL, &why), "put", &why);
    gpu_must(rdt_cuda_status(cudaLaunchKernel(rdt_mend_put, one, threads, put, 0, NULL), "put", &why), "put", &why);
    gpu_must(rdt_cuda_status(cudaLaunchKernel(rdt_mend_sum, one, threads, sum, 0, NULL), "sum", &why), "sum", &why);
    gpu_must(rdt_cuda_status(cudaLaunchKernel(rdt_mend_judge, one, threads, judge, 0, NULL), "judge", &why), "judge",
             &why);
    gpu_must(rdt_cuda_get(host, there, sizeof *host, NULL, &why), "get", &why);
    const rdt_cuda_mended *told = &host->m.outcome.told;
    const bool again = host->m.open == 1 && host->m.place[0].pass == 2 && !told->transient,
               settled = host->m.open == 0 && told->transient == 1; /* before, its bits summed to 0 */
    if (differ ? !again : !settled) complain(b, "rows that came to two results, or to one, are not told so", told);
    for (int i = 0; i < ROWS; i++)
      if (memcmp(host->all[i], host->part[i], WIDTH * 2) != 0 || host->all[i][WIDTH] != 0)
        complain(b, "rows are put elsewhere", told);
  }
  rdt_cuda_free(memory);
  free(host);
}

/* A copy of B that has changed, which `col` compares with what it was made of: it is made again. */
static void copy_of_b(bench *b) {
  gpu_shape s = plain(b, 300, 270, 203);
  rdt_reason why;
  uint16_t bits;
  rdt_cuda_mended m;
  rdt_cuda_verdict v;
  s.gap = 3;
  prepare_shape(b, &s, 1);
  void *at = rdt_cuda_gemm_copy(b->g, 20, 30);
  if (!at) gpu_die(b->k->name, "no copy of weights that lie at no multiple of 16 bytes");
  gpu_must(rdt_cuda_get(&bits, at, sizeof bits, NULL, &why), "get", &why);
  bits ^= 1;
  gpu_must(rdt_cuda_put(at, &bits, sizeof bits, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
  gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_mend(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_verdict(b->g, NULL, &v, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_mended(b->g, NULL, &m, &why), b->k->name, &why);
  if (m.products != 1 || m.left || found(&v) || !same(b)) complain(b, "a changed copy of weights was not repaired", &m);
  clear(b);
}

/* A row without a bound beside one that is struck stays unchecked; complaints of which none is listed come to an end.
 */
static void beside_no_bound(bench *b) {
  rdt_reason why;
  rdt_cuda_mended m;
  rdt_cuda_verdict v;
  const rdt_cuda_verdict none_listed = {.suspect = 1};
  prepare(b, 300, 270, 200, 1);
  gpu_must(rdt_cuda_put(rdt_cuda_gemm_found(b->g), &none_listed, sizeof none_listed, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_gemm_mend(b->g, &b->c.o, NULL, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_verdict(b->g, NULL, &v, &why), b->k->name, &why);
  gpu_must(rdt_cuda_gemm_mended(b->g, NULL, &m, &why), b->k->name, &why);
  if (m.products != 1 || m.checker != 1 || found(&v)) complain(b, "a complaint from nowhere was not looked into", &m);
  if (b->k->dtype == RDT_BF16 && b->k->check == RDT_MMA_SUMS && !strcmp(b->k->scheme, "row")) {
    char *row = (char *)b->c.host[0] + b->c.skip[0] + 3 * b->c.in[0].stride[0] * 2;
    rdt_store(row, RDT_BF16, 7, 1e30);
    gpu_must(rdt_cuda_put(b->c.device[0], b->c.host[0], b->c.bytes[0], NULL, &why), "put", &why);
    gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
    gpu_must(rdt_cuda_gemm_run(b->g, &b->c.o, NULL, &why), b->k->name, &why);
    gpu_must(rdt_cuda_gemm_verdict(b->g, NULL, &v, &why), b->k->name, &why);
    if (!v.cannot || v.certain) complain(b, "a row whose squares f32 does not hold has a bound", NULL);
    gpu_case_fetch(&b->c);
    memcpy(b->clean, b->c.host[2], b->c.bytes[2]);
    rdt_cuda_strike s = {.hit = {.element = 70 * 270 + 5, .position = 0.5, .mask = 1u << 29}, .sm = -1, .mended = &m};
    gpu_must(rdt_cuda_gemm_strike(b->g, &b->c.o, 0, &s, 1, &v, NULL, &why), b->k->name, &why);
    if (!m.seen.certain || m.unchecked != 1 || !v.cannot || v.certain || !same(b))
      complain(b, "a row without a bound, beside one that was struck", &m);
  }
  clear(b);
}

/* By rows of tiles: what else is brought along, and lies otherwise. */
static void among_others(bench *b, int faults, bool graphs) {
  const bool half = rdt_dtype_is_half(b->k->dtype), exact = b->k->dtype == RDT_S8;
  const int most = rdt_cuda_kernel_columns(b->k);
  for (int turn = 0; turn < 2; turn++) {
    gpu_shape s = plain(b, 300, most < 270 ? most - 5 : 270, 199);
    s.gap = 3, s.bias = true, s.residual = !exact || turn == 0;
    if (half) s.out = b->k->dtype;
    if (exact && turn) s.out = RDT_S8; /* requantised */
    s.columns = s.columns || turn;
    if (!exact) s.alpha = 0.5, s.beta = 2.0;
    if (exact && s.residual) s.beta = 1.0;
    prepare_shape(b, &s, 1);
    once(b, faults);
    clear(b);
  }
  /* A B each; one B, and rows to be copied; a B each, and one A and residual. */
  for (int turn = 0; turn < 3 && rdt_cuda_kernel_batches(b->k); turn++) {
    gpu_shape s = plain(b, turn ? 140 : 300, most < 270 ? most - 5 : 270, 136);
    s.batches = 3, s.same_b = turn == 1, s.gap = turn == 1 ? 3 : 0, s.bias = turn, s.residual = turn && !exact;
    if (s.residual) s.beta = 1.0;
    if (half) s.out = b->k->dtype;
    if (turn == 2)
      prepare_same_a(b, &s);
    else
      prepare_shape(b, &s, 1);
    once(b, faults);
    if (graphs && !turn) at_host(b, false), at_host(b, true); /* a copy of weights stays as it is */
    clear(b);
  }
  if (!b->k->code[4] || !graphs) return;
  gpu_shape s = plain(b, 300, 270, 200);
  s.a_columns = true; /* no fault is planted there */
  prepare_shape(b, &s, 1);
  at_host(b, false);
  clear(b);
}

int64_t gpu_mend(const rdt_cuda_device *d, const rdt_cuda_kernel *k, bool quick) {
  bench b = {.d = d, .k = k};
  const bool tall = k->family == RDT_CUDA_TALL, wide = k->family == RDT_CUDA_WGMMA;
  /* compute-sanitizer, under which all is walked, takes the arguments of kernels in a conditional node for nobody's
   * memory. */
  const bool graphs = !quick || gpu_daily(quick);
  const int most = rdt_cuda_kernel_columns(k);
  if (!rdt_mend_takes(k)) return 0;
  if (tall)
    prepare(&b, 1000, most - 3, 200, 2);
  else if (wide) /* of floats of 8 bits the rigorous bound soon is more than a weight */
    prepare(&b, 300, most < 270 ? most - 6 : 270, quick || rdt_dtype_is_f8(k->dtype) ? 200 : 1000, 1);
  else
    prepare(&b, quick ? 70 : 100, quick ? 70 : 140, quick ? 200 : 1000, 2);
  once(&b, quick ? 4 : 100);
  if (!quick) always(&b, 1, false);
  if (graphs && (k->check == RDT_MMA_SUMS || wide)) at_host(&b, false), at_host(&b, true);
  clear(&b);
  if (!quick) { /* more than the multiprocessors do at once */
    if (tall)
      prepare(&b, 70000, most, 300, 1);
    else if (wide)
      prepare(&b, most < 2900 ? 17000 : 3000, most < 2900 ? most : 2900, 300, 1);
    else
      prepare(&b, 1500, 1400, 300, 1);
    always(&b, 13, true);
    clear(&b);
  }
  if (wide) second_time(&b);
  if (wide && strcmp(k->scheme, "col") == 0) copy_of_b(&b);
  if (wide && graphs && most > 270) beside_no_bound(&b);
  if (wide) among_others(&b, quick ? 4 : 100, graphs);
  if (tall) { /* several rows are one */
    prepare(&b, 2000, 16, 32, 1);
    once(&b, quick ? 4 : 50);
    clear(&b);
  }
  return b.wrong;
}
