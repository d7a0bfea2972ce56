/* make gpu-bench: three copies of a product by three launches of cuBLASLt, and the vote, against one unprotected.
 *     gpu_bench_tmr [RECORD.json|-]
 * Graphs that are replayed in turn; medians of ratios turn by turn. "in turn": one copy after the other; "chosen":
 * side by side where that was faster (both tmr-kernel); "apart": each on multiprocessors of its own (tmr-sm); "block",
 * "grid", "cluster": within one launch that votes along k (tmr-block; tmr-sm); "split": between launches (tmr-split).
 * The same where nothing is kept at votes, so that what nobody knows is computed again from the start.
 * The vote alone: of three results of 256 MB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/blas.h"
#include "cuda/linear.h"
#include "cuda/thrice.h"
#include "cuda/voted.h"
#include "turns.h"

enum {
  TRIALS = 15,
  WARM = 2,
  VOTES = 4,
  LAUNCHES = 16,
  NONE = 0,
  SERIAL,
  CHOSEN,
  APART,
  BLOCK,
  GRID,
  CLUSTER,
  SPLIT,
  BARE, /* those from BLOCK on, nothing kept */
  WAYS = BARE + BARE - BLOCK
};

enum how {
  PLAIN,
  UNDIVIDED, /* without splitting k, on both sides */
  COLD       /* each launch has other weights, LAUNCHES of them: no cache has any */
};
typedef struct shape {
  rdt_dtype type;
  int m, n, k;
  enum how how;
} shape;
static const shape shapes[] = {
    {RDT_F16, 2048, 2048, 2048, PLAIN},    {RDT_F16, 4096, 4096, 4096, PLAIN}, {RDT_F16, 8192, 8192, 8192, PLAIN},
    {RDT_F32, 2048, 2048, 2048, PLAIN},    {RDT_F32, 4096, 4096, 4096, PLAIN}, {RDT_F32, 8192, 8192, 8192, PLAIN},
    {RDT_F16, 512, 512, 16384, UNDIVIDED}, {RDT_F16, 512, 512, 16384, PLAIN},  {RDT_F16, 16, 4096, 4096, PLAIN},
    {RDT_F16, 16, 4096, 4096, COLD},
};

static rdt_cuda_device device;
static cudaStream_t stream;
static FILE *record;
static const rdt_sm_groups *groups;
static int rows, code;

static void must(rdt_status s, const rdt_reason *why) {
  if (s == RDT_OK) return;
  fprintf(stderr, "gpu-bench: %s\n", why->text);
  exit(3);
}

static rdt_status multiply(void *user, const rdt_operands *o, void *on, rdt_reason *why) {
  const rdt_blas_operands x = {.a = o->in[0].data, .b = o->in[1].data, .c = o->out.data};
  return rdt_blas_launch(user, &x, on, why);
}

typedef struct call {
  rdt_blas *blas;     /* or */
  rdt_thrice *thrice; /* or */
  rdt_voted *voted;
  bool vote;     /* alone */
  size_t weight; /* bytes from one launch's weights to the next one's */
  const rdt_operands *o;
} call;

static bool launch(void *user, int i, cudaStream_t on) {
  const call *c = user;
  rdt_reason why = {""};
  rdt_operands o = *c->o;
  rdt_tensor in[2];
  if (c->vote) return must(rdt_thrice_vote(c->thrice, o.out.data, on, &why), &why), true;
  memcpy(in, o.in, sizeof in);
  in[1].data = (char *)in[1].data + (size_t)i * c->weight;
  o.in = in;
  must(c->voted    ? rdt_voted_run(c->voted, &o, on, &why)
       : c->thrice ? rdt_thrice_launch(c->thrice, &o, on, &why)
                   : multiply(c->blas, &o, on, &why),
       &why);
  return true;
}

static void fill(rdt_tensor *t, int times, uint64_t seed) {
  rdt_reason why = {""};
  const size_t count = (size_t)times * (size_t)rdt_tensor_count(t);
  must(rdt_cuda_alloc(count * rdt_dtype_size(t->dtype), &t->data, &why), &why);
  turns_fill(t->data, t->dtype, count, seed, true, stream);
}

static void agree(rdt_thrice *t, rdt_voted *v, const char *name) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  if (!t && !v) return;
  must(t ? rdt_thrice_read(t, stream, &b, &why) : rdt_voted_read(v, stream, &b, NULL, &why), &why);
  if (b.lost[0] + b.lost[1] + b.lost[2] + b.undecided == 0) return;
  printf("%s: COPIES DIFFER although nothing was wrong\n", name);
  code = 1;
}

static void within(rdt_voted **voted, const rdt_operands *o, const shape *s) {
  rdt_reason why = {""};
  rdt_problem p = {.op = RDT_KOP_GEMM,
                   .n_in = 2,
                   .in = (rdt_tensor *)(uintptr_t)o->in,
                   .out = o->out,
                   .epilogue = RDT_EPILOGUE_NONE};
  for (int w = BLOCK; w < WAYS; w++) {
    voted[w] = NULL;
    if (s->type != RDT_F16) continue;
    must(rdt_voted_create(&device, &p, (w - BLOCK) % (BARE - BLOCK), VOTES, &voted[w], &why), &why);
    rdt_voted_keep(voted[w], w < BARE);
  }
}

static void bench_shape(const shape *s) {
  rdt_reason why = {""};
  char name[80];
  rdt_tensor in[2] = {rdt_tensor_dense(NULL, s->type, 2, (int64_t[]){s->m, s->k}),
                      rdt_tensor_dense(NULL, s->type, 2, (int64_t[]){s->k, s->n})};
  rdt_operands o = {.in = in, .n_in = 2, .out = rdt_tensor_dense(NULL, s->type, 2, (int64_t[]){s->m, s->n})};
  rdt_blas *blas[WAYS][RDT_VOTERS] = {{NULL}}; /* apart they may be others: what is the fastest on a third */
  rdt_thrice *thrice[WAYS] = {NULL};
  rdt_voted *voted[WAYS] = {NULL};
  rdt_thrice_makers makers = {.launch = multiply};
  turns list[WAYS];
  fill(&in[0], 1, 1), fill(&in[1], s->how == COLD ? LAUNCHES : 1, 2), fill(&o.out, 1, 3);
  snprintf(name, sizeof name, "%s %dx%dx%d%s", rdt_dtype_name(s->type), s->m, s->n, s->k,
           s->how == UNDIVIDED ? ", k undivided"
           : s->how == COLD    ? ", cold"
                               : "");
  const rdt_blas_product p = {.in = {s->type, s->type},
                              .out = s->type,
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .batches = 1,
                              .a = {s->k, 1},
                              .b = {s->n, 1},
                              .c = s->n,
                              .alpha = 1.0,
                              .undivided = s->how == UNDIVIDED};
  const rdt_blas_operands x = {.a = in[0].data, .b = in[1].data, .c = o.out.data};
  for (int w = NONE; w < BLOCK; w += APART) {
    must(rdt_blas_create(&p, &x, w ? rdt_sm_groups_at(groups, 0)->stream : stream, &blas[w][0], &why), &why);
    for (int i = 1; i < RDT_VOTERS; i++) must(rdt_blas_twin(blas[w][0], &blas[w][i], &why), &why);
  }
  within(voted, &o, s);
  for (int w = SERIAL; w < BLOCK; w++) {
    for (int i = 0; i < RDT_VOTERS; i++) makers.of[i] = blas[w == APART ? APART : NONE][w == SERIAL ? 0 : i];
    must(rdt_thrice_create(&o.out, &makers, w == APART ? groups : NULL, &o, stream, &thrice[w], &why), &why);
  }
  const double flops = 2.0 * s->m * s->n * s->k;
  const int launches = flops > 1e11 ? 1 : LAUNCHES;
  const size_t weight = s->how == COLD ? (size_t)rdt_tensor_count(&in[1]) * rdt_dtype_size(s->type) : 0;
  turns *taken[WAYS];
  int n = 0;
  for (int w = 0; w < WAYS; w++) {
    if (w >= BLOCK && !voted[w]) continue;
    call one = {.blas = blas[NONE][0], .thrice = thrice[w], .voted = voted[w], .o = &o, .weight = weight};
    taken[n++] = &list[w];
    if (!turns_capture(&list[w], launches, launch, &one, stream)) fprintf(stderr, "gpu-bench: no graph\n"), exit(3);
  }
  turns_take(taken, n, WARM, TRIALS, stream);
  for (int w = SERIAL; w < WAYS; w++) agree(thrice[w], voted[w], name);
  printf("%-34s %10.2f us  in turn %6.3f  chosen %6.3f, %-12s  apart %6.3f\n", name, 1e6 * turns_at(&list[NONE], 0.5),
         turns_ratio(&list[SERIAL], &list[NONE]), turns_ratio(&list[CHOSEN], &list[NONE]),
         rdt_thrice_beside(thrice[CHOSEN]) ? "side by side" : "in turn", turns_ratio(&list[APART], &list[NONE]));
  for (int bare = 0; n > BLOCK && bare < WAYS - BLOCK; bare += BARE - BLOCK)
    printf("%-34s            block %6.3f  grid %6.3f  cluster %6.3f  split %6.3f\n",
           bare ? "    nothing kept" : "  4 votes along k", turns_ratio(&list[BLOCK + bare], &list[NONE]),
           turns_ratio(&list[GRID + bare], &list[NONE]), turns_ratio(&list[CLUSTER + bare], &list[NONE]),
           turns_ratio(&list[SPLIT + bare], &list[NONE]));
  if (record)
    fprintf(record,
            "%s\n  {\"dtype\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"undivided\": %s, \"cold\": %s, \"us\": %.3f, "
            "\"in_turn\": "
            "%.4f, "
            "\"chosen\": %.4f, \"beside\": %s, \"apart\": %.4f",
            rows++ ? "," : "", rdt_dtype_name(s->type), s->m, s->n, s->k, s->how == UNDIVIDED ? "true" : "false",
            s->how == COLD ? "true" : "false", 1e6 * turns_at(&list[NONE], 0.5),
            turns_ratio(&list[SERIAL], &list[NONE]), turns_ratio(&list[CHOSEN], &list[NONE]),
            rdt_thrice_beside(thrice[CHOSEN]) ? "true" : "false", turns_ratio(&list[APART], &list[NONE]));
  if (record && n > BLOCK)
    fprintf(record, ", \"votes\": %d, \"block\": %.4f, \"grid\": %.4f, \"cluster\": %.4f, \"split\": %.4f", VOTES,
            turns_ratio(&list[BLOCK], &list[NONE]), turns_ratio(&list[GRID], &list[NONE]),
            turns_ratio(&list[CLUSTER], &list[NONE]), turns_ratio(&list[SPLIT], &list[NONE]));
  if (record) fprintf(record, "}");
  for (int i = 0; i < n; i++) turns_free(taken[i]);
  for (int w = 0; w < WAYS; w++) rdt_thrice_destroy(thrice[w]), rdt_voted_destroy(voted[w]);
  for (int w = 0; w < BLOCK; w++)
    for (int i = 0; i < RDT_VOTERS; i++) rdt_blas_destroy(blas[w][i]);
  rdt_cuda_free(in[0].data), rdt_cuda_free(in[1].data), rdt_cuda_free(o.out.data);
}

/* What memory gives at most, by its clock and width. */
static double peak(void) {
  int khz = 0, bits = 0;
  turns_must(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, device.index), "the device");
  turns_must(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device.index), "the device");
  return 2e3 * khz * bits / 8.0;
}

static void bench_vote(void) {
  rdt_reason why = {""};
  rdt_thrice *t;
  turns list;
  rdt_operands o = {.out = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){16384, 8192})};
  const size_t bytes = (size_t)rdt_tensor_count(&o.out) * rdt_dtype_size(o.out.dtype);
  fill(&o.out, 1, 1);
  must(rdt_thrice_create(&o.out, NULL, NULL, NULL, stream, &t, &why), &why);
  for (int i = 1; i < RDT_VOTERS; i++)
    turns_must(cudaMemcpyAsync(rdt_thrice_copy(t, i, o.out.data), o.out.data, bytes, cudaMemcpyDeviceToDevice, stream),
               "copies");
  call one = {.thrice = t, .vote = true, .o = &o};
  if (!turns_capture(&list, 4, launch, &one, stream)) fprintf(stderr, "gpu-bench: no graph\n"), exit(3);
  turns_take((turns *const[]){&list}, 1, WARM, TRIALS, stream);
  agree(t, NULL, "the vote");
  const double rate = 3.0 * (double)bytes / turns_at(&list, 0.5);
  printf("the vote of 3 x %.0f MB: %.1f us, %.0f GB/s, %.3f of %.0f GB/s\n", 1e-6 * (double)bytes,
         1e6 * turns_at(&list, 0.5), 1e-9 * rate, rate / peak(), 1e-9 * peak());
  if (record) fprintf(record, "], \"vote_gb_s\": %.1f, \"peak_gb_s\": %.1f}\n", 1e-9 * rate, 1e-9 * peak());
  turns_free(&list);
  rdt_thrice_destroy(t);
  rdt_cuda_free(o.out.data);
}

int main(int argc, char **argv) {
  rdt_reason why;
  int version = 0;
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  if (rdt_cuda_open(0, &device, &why) != RDT_OK) return fprintf(stderr, "gpu-bench: %s\n", why.text), 3;
  if (rdt_blas_version(&version, &why) != RDT_OK) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  if (rdt_sm_groups_of_device(-1, &groups, &why) != RDT_OK) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  turns_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  printf("%s, cuBLASLt %d: three copies against one unprotected product\n", device.name, version);
  record = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-tmr", device.name);
  if (record) fprintf(record, ", \"cublaslt\": %d, \"products\": [", version);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) bench_shape(&shapes[i]);
  bench_vote();
  if (record) fclose(record);
  return code;
}
