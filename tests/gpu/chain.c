#include "chain.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/sm90/gemm_wgmma.h"

enum { PRODUCTS = 3, ROW = 200, COLUMN = 77, TILE = 128 }; /* ROW, COLUMN: where faults are */

typedef struct chain {
  const rdt_cuda_device *d;
  const rdt_cuda_kernel *k;
  gpu_case one, two;
  rdt_cuda_gemm *first, *second;
  rdt_cuda_verdict *told; /* of all, in the host's memory */
  int runs;               /* of the first */
  gpu_chain_count count;
} chain;

static void complain(chain *c, const char *what) {
  if (++c->count.wrong > 10) return;
  printf("WRONG %s %dx%dx%d then %dx%d, %s%s%s%s: %s\n", c->k->name, c->one.m, c->two.k, c->one.k,
         (int)c->two.all.shape[1], c->two.k, rdt_dtype_name(c->two.all.dtype),
         c->one.epilogue.bias.rank >= 0 ? ", bias" : "", c->one.epilogue.residual.rank >= 0 ? ", residual" : "",
         c->one.epilogue.act.fn == RDT_FN_RELU   ? ", relu"
         : c->one.epilogue.act.fn == RDT_FN_GELU ? ", gelu"
                                                 : "",
         what);
  for (int i = 0; i < PRODUCTS; i++)
    if (c->told[i].listed)
      printf("  %d, column %d of %d: observed %g expected %g tau2 %g\n", i + 1, c->told[i].list[0].column,
             c->told[i].list[0].columns, (double)c->told[i].list[0].observed, (double)c->told[i].list[0].expected,
             (double)c->told[i].list[0].tau2);
}

static rdt_cuda_gemm *make(chain *c, gpu_case *of) {
  rdt_cuda_gemm *g;
  rdt_reason why = {""};
  of->p.in[1].data = of->in[1].data;
  gpu_must(rdt_cuda_gemm_create(c->k, c->d, &of->p, 6.0, 1, NULL, &g, &why), c->k->name, &why);
  return g;
}

static void run(chain *c, rdt_cuda_gemm *g) {
  rdt_reason why = {""};
  gpu_must(rdt_cuda_gemm_run(g, g == c->first ? &c->one.o : &c->two.o, NULL, &why), c->k->name, &why);
  c->runs += g == c->first, c->count.products++;
}

/* What runs have left is compared, and told. */
static void settle(chain *c) {
  rdt_reason why = {""};
  rdt_cuda_gemm *both[] = {c->first, c->second};
  gpu_must(rdt_cuda_gemm_settle(both, 2, NULL, &why), c->k->name, &why);
  gpu_must(rdt_cuda_wait(NULL, &why), c->k->name, &why);
}

/* found: one bit for each that should have complained, and nothing else. */
static void expect(chain *c, unsigned found, const char *what) {
  for (unsigned i = 0; i < PRODUCTS; i++) {
    const rdt_cuda_verdict *v = &c->told[i];
    if ((v->suspect + v->certain > 0) != (found >> i & 1) || v->cannot) complain(c, what);
  }
  memset(c->told, 0, PRODUCTS * sizeof *c->told);
}

static double sign_of(int row) {
  const int tile = row / TILE, set = row / 16 % 4 * 2 + row / 4 % 2;
  const unsigned signs = rdt_columns_signs(tile, set), x6 = (unsigned)row >> 6 & 1, x3 = (unsigned)row >> 3 & 1,
                 x1 = (unsigned)row >> 1 & 1, x0 = (unsigned)row & 1;
  unsigned minus = (x6 & x3) ^ (x1 & x0);
  const unsigned by[] = {1, x6, x3, x1, x0};
  for (int i = 0; i < 5; i++) minus ^= by[i] & rdt_columns_sign(signs, i) >> 31;
  return minus ? -1.0 : 1.0;
}

/* Of the last run's C, which has been fetched: f32 in another order. */
static void check_sums(chain *c) {
  int numbers;
  rdt_reason why = {""};
  const float *const at = rdt_cuda_gemm_handed(c->first, &numbers);
  float *sums = malloc((size_t)numbers * sizeof *sums);
  double squares = 0.0;
  int differ = 0;
  if (!sums) gpu_die("malloc", "out of memory");
  gpu_must(
      rdt_cuda_get(sums, at + (c->runs - 1) % RDT_COLUMNS_SETS * numbers, (size_t)numbers * sizeof *sums, NULL, &why),
      "sums", &why);
  for (int j = 0; j < numbers - 4; j++) {
    double sum = 0.0, size = 0.0;
    for (int i = 0; i < c->one.m && j < c->two.k; i++) {
      const double x = gpu_case_value(&c->one, i, j);
      sum += sign_of(i) * x, size += fabs(x), squares += x * x;
    }
    if (!(fabs(sum - (double)sums[j]) <= 0x1p-19 * size)) differ++;
  }
  if (differ) complain(c, "what is handed on is not what was stored");
  if (!(fabs(squares - (double)sums[numbers - 4]) <= 1e-4 * squares)) complain(c, "squares of what was stored");
  free(sums);
}

/* A number of what was stored, on the device: 9 more. */
static void change(const gpu_case *of) {
  uint16_t x;
  rdt_reason why = {""};
  const rdt_tensor *t = &of->all;
  char *const at = (char *)t->data + (ROW * t->stride[0] + COLUMN) * 2;
  gpu_must(rdt_cuda_get(&x, at, sizeof x, NULL, &why), "get", &why);
  rdt_store(&x, t->dtype, 0, rdt_load(&x, t->dtype, 0) + 9.0);
  gpu_must(rdt_cuda_put(at, &x, sizeof x, NULL, &why), "put", &why);
  gpu_must(rdt_cuda_wait(NULL, &why), "put", &why);
}

static void check_clean(chain *c, const void *first, const void *second) {
  for (int turn = 0; turn < 4; turn++) {
    gpu_case_poison(&c->one), gpu_case_poison(&c->two);
    run(c, c->first), run(c, c->second);
    gpu_case_fetch(&c->one), gpu_case_fetch(&c->two);
    if (memcmp(first, c->one.host[2], c->one.bytes[2]) != 0) complain(c, "the first has other bits in a chain");
    if (memcmp(second, c->two.host[2], c->two.bytes[2]) != 0) complain(c, "the second has other bits in a chain");
    check_sums(c);
  }
  expect(c, 0, "a chain complains");
  settle(c);
  expect(c, 0, "a chain complains when it is settled");
}

/* Each run of the second is of the first's last one, however often either ran, or was settled. */
static void check_order(chain *c) {
  static const char orders[][8] = {"12212", "1112", "122212", "11212", "1s2s12", "1212s2"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    for (const char *at = orders[i]; *at; at++)
      if (*at == 's')
        settle(c);
      else
        run(c, *at == '1' ? c->first : c->second);
    settle(c);
    expect(c, 0, orders[i]);
  }
}

static void check_graph(chain *c) {
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  rdt_reason why = {""};
  if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess ||
      cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
    gpu_die(c->k->name, "capture");
  gpu_must(rdt_cuda_gemm_run(c->first, &c->one.o, s, &why), c->k->name, &why);
  gpu_must(rdt_cuda_gemm_run(c->second, &c->two.o, s, &why), c->k->name, &why);
  if (cudaStreamEndCapture(s, &graph) != cudaSuccess || cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess)
    gpu_die(c->k->name, "a graph");
  for (int turn = 0; turn < 4; turn++)
    if (cudaGraphLaunch(ready, s) != cudaSuccess) gpu_die(c->k->name, "a graph");
  gpu_must(rdt_cuda_wait(s, &why), c->k->name, &why);
  (void)cudaGraphExecDestroy(ready), (void)cudaGraphDestroy(graph), (void)cudaStreamDestroy(s);
  c->runs += 4, c->count.products += 8;
  settle(c);
  expect(c, 0, "a chain in a graph complains");
}

static bool struck(chain *c, rdt_cuda_gemm *g, gpu_case *of) {
  rdt_reason why = {""};
  rdt_cuda_verdict v;
  rdt_cuda_strike s = {.hit = {.element = ROW * of->all.shape[1] + COLUMN,
                               .position = 0.5,
                               .mask = 1u << 31}, /* what is stored stays finite */
                       .sm = -1};
  gpu_must(rdt_cuda_gemm_strike(g, &of->o, 0, &s, 1, &v, NULL, &why), c->k->name, &why);
  c->runs += g == c->first, c->count.products++;
  return s.hit.done && v.suspect + v.certain + v.cannot > 0;
}

static void check_faults(chain *c) {
  run(c, c->first);
  change(&c->one);
  run(c, c->second);
  run(c, c->first), run(c, c->second); /* which compares the run before */
  rdt_reason why = {""};
  gpu_must(rdt_cuda_wait(NULL, &why), c->k->name, &why);
  expect(c, 2, "a number changed between two products, and the next run does not say so");
  settle(c);
  expect(c, 0, "a run behind a fault complains");
  run(c, c->first);
  change(&c->one);
  run(c, c->second);
  settle(c);
  expect(c, 2, "a number changed between two products, and nobody says so");
  if (!struck(c, c->first, &c->one)) complain(c, "a fault in the first is not found");
  run(c, c->second);
  settle(c);
  expect(c, 0, "what is wrong in the first is laid on the second");
  run(c, c->first);
  if (!struck(c, c->second, &c->two)) complain(c, "a fault in the second is not found");
  run(c, c->second);
  settle(c);
  expect(c, 0, "a chain complains behind a fault");
}

/* One in the middle, which has sums of A and leaves those of what it stores. */
static void check_three(chain *c) {
  const int between = (int)c->two.all.shape[1];
  const gpu_shape s = {.m = c->one.m, .n = 72, .k = between, .in = c->k->dtype, .out = RDT_F32, .alpha = 1.0};
  uint64_t seed = 97;
  rdt_reason why = {""};
  gpu_case three;
  gpu_case_make(&three, &s, &seed, false);
  three.in[0] = three.p.in[0] = c->two.p.out;
  rdt_cuda_gemm *const third = make(c, &three);
  gpu_must(rdt_cuda_gemm_follow(third, c->second, &why), c->k->name, &why);
  rdt_cuda_gemm_tell(third, &c->told[2]);
  for (int turn = 0; turn < 5; turn++) {
    run(c, c->first);
    if (turn == 3) change(&c->one);
    run(c, c->second);
    if (turn == 4) change(&c->two);
    gpu_must(rdt_cuda_gemm_run(third, &three.o, NULL, &why), c->k->name, &why);
    c->count.products++;
    settle(c);
    gpu_must(rdt_cuda_gemm_settle((rdt_cuda_gemm *[]){third}, 1, NULL, &why), c->k->name, &why);
    gpu_must(rdt_cuda_wait(NULL, &why), c->k->name, &why);
    expect(c, turn < 3 ? 0 : turn == 3 ? 2 : 4, "three in a chain: a fault is not found where it is, or there is none");
  }
  rdt_cuda_gemm_destroy(third);
  gpu_case_free(&three);
}

/* Of a product that has not run since it was made ready nobody has the sums. */
static void check_never_run(chain *c) {
  rdt_reason why = {""};
  rdt_cuda_gemm *const first = make(c, &c->one), *const second = make(c, &c->two);
  gpu_must(rdt_cuda_gemm_follow(second, first, &why), c->k->name, &why);
  rdt_cuda_gemm_tell(second, &c->told[1]);
  gpu_must(rdt_cuda_gemm_run(second, &c->two.o, NULL, &why), c->k->name, &why);
  gpu_must(rdt_cuda_gemm_settle((rdt_cuda_gemm *[]){second}, 1, NULL, &why), c->k->name, &why);
  gpu_must(rdt_cuda_wait(NULL, &why), c->k->name, &why);
  expect(c, 2, "sums of a product that never ran are those of A");
  rdt_cuda_gemm_destroy(second), rdt_cuda_gemm_destroy(first);
}

static void check_refused(chain *c) {
  rdt_reason why;
  if (rdt_cuda_gemm_follow(c->first, c->second, &why) == RDT_OK ||
      rdt_cuda_gemm_follow(c->first, c->first, &why) == RDT_OK)
    complain(c, "follows what it does not");
  if (rdt_cuda_gemm_can_mend(c->first, &c->one.o, NULL, &why) == RDT_OK ||
      rdt_cuda_gemm_can_mend(c->second, &c->two.o, NULL, &why) == RDT_OK)
    complain(c, "is repaired in a chain");
}

static void check_chain(chain *c, const gpu_shape *s1, const gpu_shape *s2, uint64_t seed, bool all) {
  rdt_reason why = {""};
  gpu_case_make(&c->one, s1, &seed, false), gpu_case_make(&c->two, s2, &seed, false);
  c->two.in[0] = c->two.p.in[0] = c->one.p.out;
  c->first = make(c, &c->one), c->second = make(c, &c->two), c->runs = 0;
  rdt_cuda_gemm_tell(c->first, &c->told[0]), rdt_cuda_gemm_tell(c->second, &c->told[1]);
  void *const first = malloc(c->one.bytes[2]), *const second = malloc(c->two.bytes[2]);
  if (!first || !second) gpu_die("malloc", "out of memory");
  gpu_case_poison(&c->one), gpu_case_poison(&c->two);
  run(c, c->first), run(c, c->second); /* by themselves */
  gpu_case_fetch(&c->one), gpu_case_fetch(&c->two);
  memcpy(first, c->one.host[2], c->one.bytes[2]), memcpy(second, c->two.host[2], c->two.bytes[2]);
  settle(c);
  expect(c, 0, "products by themselves complain");
  gpu_must(rdt_cuda_gemm_follow(c->second, c->first, &why), c->k->name, &why);
  check_clean(c, first, second);
  check_faults(c);
  if (all) check_order(c), check_graph(c), check_never_run(c), check_refused(c);
  if (c->two.all.dtype == c->k->dtype) check_three(c);
  free(first), free(second);
  rdt_cuda_gemm_destroy(c->second), rdt_cuda_gemm_destroy(c->first);
  gpu_case_free(&c->one), gpu_case_free(&c->two);
}

/* Four epilogues, both layouts of B. few: some; the others, too, with all orders of runs. */
static void check_shapes(chain *c, const gpu_shape *plain, int between, bool few) {
  for (int turn = 0; turn < 8; turn++) {
    const bool all = turn % 4 == turn / 4 + 1;
    gpu_shape s1 = *plain, s2 = *plain;
    if (few && !all) continue;
    s1.n = s2.k = between;
    s1.columns = turn / 4, s2.columns = turn % 2;
    s1.bias = turn % 4 > 0, s1.relu = turn % 4 == 1, s1.gelu = turn % 4 == 2, s1.residual = turn % 4 == 3;
    if (s1.residual) s1.alpha = 0.5, s1.beta = 2.0;
    if (turn % 2 == 0) s2.n = 100;
    s2.bias = turn % 4 == 2;
    if (turn % 4 != 2) s2.out = RDT_F32;
    check_chain(c, &s1, &s2, 83 + (uint64_t)turn, all);
  }
}

gpu_chain_count gpu_chain(const rdt_cuda_device *d, const rdt_cuda_device *large, const rdt_cuda_kernel *k, bool few) {
  chain c = {.d = d, .k = k};
  gpu_shape s = {.m = 330, .n = 300, .k = 130, .in = k->dtype, .out = k->dtype, .alpha = 1.0, .beta = 1.0};
  if (cudaMallocHost((void **)&c.told, PRODUCTS * sizeof *c.told) != cudaSuccess)
    gpu_die("cudaMallocHost", "out of memory");
  memset(c.told, 0, PRODUCTS * sizeof *c.told);
  check_shapes(&c, &s, 205, few);
  if (large) {
    c.d = large, s.m = 3000, s.n = 900, s.k = 700;
    check_shapes(&c, &s, 1030, few);
  }
  (void)cudaFreeHost(c.told);
  return c.count;
}
