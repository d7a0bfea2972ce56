/* make gpu-bench: linear ops on the GPU, unprotected (the library with its own epilogue) and protected.
 *     gpu_bench_linear [RECORD.json|- [GROUP]]
 * Each is a graph of launches; graphs of one op are replayed in turn, medians are told, and the median of the ratios of
 * replays that follow each other: clocks rise and fall within seconds where products reach the limit of power, as those
 * of f64 do. That is also why a graph takes 20 ms there: after a pass that takes little power the clock is higher, and
 * who has a replay of the other's check before it would gain by it. Operands are random; those of small ops stay in the
 * L2, as they would between the layers of a network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/blas.h"
#include "cuda/dnn.h"
#include "cuda/linear.h"
#include "turns.h"

enum { TRIALS = 15, WARM = 2, WAYS = 2 };

typedef struct layer {
  const char *group;
  rdt_kop op;
  rdt_dtype type;
  int count;                          /* in the network */
  int b, m, n, k;                     /* product; b: heads, whose second operand is no weight */
  int image, in, out, kernel, stride; /* convolution */
  rdt_fn fn;
  bool bias, residual;
} layer;

#define SQUARE(type, n) \
  { "squares", RDT_KOP_GEMM, type, 1, 1, n, n, n, 0, 0, 0, 0, 0, RDT_FN_NONE, false, false }
#define BERT(count, b, m, n, k, fn, bias, residual) \
  { "BERT-base s512", RDT_KOP_GEMM, RDT_F16, count, b, m, n, k, 0, 0, 0, 0, 0, fn, bias, residual }
#define CONV(count, image, in, out, kernel, stride, fn, residual) \
  { "ResNet-50", RDT_KOP_CONV, RDT_F16, count, 1, 0, 0, 0, image, in, out, kernel, stride, fn, true, residual }
static const layer layers[] = {
    SQUARE(RDT_F32, 2048),
    SQUARE(RDT_F32, 4096),
    SQUARE(RDT_F32, 8192),
    SQUARE(RDT_F64, 2048),
    SQUARE(RDT_F64, 4096),
    SQUARE(RDT_F16, 512),
    SQUARE(RDT_F16, 1024),
    SQUARE(RDT_F16, 2048),
    SQUARE(RDT_F16, 4096),
    SQUARE(RDT_F16, 8192),
    SQUARE(RDT_BF16, 1024),
    SQUARE(RDT_BF16, 4096),
    SQUARE(RDT_S8, 1024),
    SQUARE(RDT_S8, 4096),
    SQUARE(RDT_S8, 8192),
    BERT(36, 1, 512, 768, 768, RDT_FN_NONE, true, false),
    BERT(12, 12, 512, 512, 64, RDT_FN_NONE, false, false),
    BERT(12, 12, 512, 64, 512, RDT_FN_NONE, false, false),
    BERT(12, 1, 512, 768, 768, RDT_FN_NONE, true, true),
    BERT(12, 1, 512, 3072, 768, RDT_FN_GELU, true, false),
    BERT(12, 1, 512, 768, 3072, RDT_FN_NONE, true, true),
    CONV(1, 224, 3, 64, 7, 2, RDT_FN_RELU, false),
    CONV(1, 56, 64, 64, 1, 1, RDT_FN_RELU, false),
    CONV(2, 56, 256, 64, 1, 1, RDT_FN_RELU, false),
    CONV(3, 56, 64, 64, 3, 1, RDT_FN_RELU, false),
    CONV(3, 56, 64, 256, 1, 1, RDT_FN_RELU, true),
    CONV(1, 56, 64, 256, 1, 1, RDT_FN_NONE, false),
    CONV(1, 56, 256, 128, 1, 1, RDT_FN_RELU, false),
    CONV(1, 56, 128, 128, 3, 2, RDT_FN_RELU, false),
    CONV(3, 28, 512, 128, 1, 1, RDT_FN_RELU, false),
    CONV(3, 28, 128, 128, 3, 1, RDT_FN_RELU, false),
    CONV(4, 28, 128, 512, 1, 1, RDT_FN_RELU, true),
    CONV(1, 56, 256, 512, 1, 2, RDT_FN_NONE, false),
    CONV(1, 28, 512, 256, 1, 1, RDT_FN_RELU, false),
    CONV(1, 28, 256, 256, 3, 2, RDT_FN_RELU, false),
    CONV(5, 14, 1024, 256, 1, 1, RDT_FN_RELU, false),
    CONV(5, 14, 256, 256, 3, 1, RDT_FN_RELU, false),
    CONV(6, 14, 256, 1024, 1, 1, RDT_FN_RELU, true),
    CONV(1, 28, 512, 1024, 1, 2, RDT_FN_NONE, false),
    CONV(1, 14, 1024, 512, 1, 1, RDT_FN_RELU, false),
    CONV(1, 14, 512, 512, 3, 2, RDT_FN_RELU, false),
    CONV(2, 7, 2048, 512, 1, 1, RDT_FN_RELU, false),
    CONV(2, 7, 512, 512, 3, 1, RDT_FN_RELU, false),
    CONV(3, 7, 512, 2048, 1, 1, RDT_FN_RELU, true),
    CONV(1, 14, 1024, 2048, 1, 2, RDT_FN_NONE, false),
};

typedef struct contender {
  rdt_cuda_linear *l;
  turns turns;
} contender;

static rdt_cuda_device device;
static cudaStream_t stream;
static FILE *record;
static const char *only; /* group */
static int code, rows;

static void *operand(rdt_tensor *t) {
  static uint64_t seed = 1;
  const size_t count = (size_t)rdt_tensor_count(t);
  rdt_reason why;
  if (rdt_cuda_alloc(count * rdt_dtype_size(t->dtype), &t->data, &why) != RDT_OK)
    fprintf(stderr, "gpu-bench: %s\n", why.text), exit(2);
  turns_fill(t->data, t->dtype, count, seed++, false, stream);
  return t->data;
}

static void describe(const layer *l, int batch, rdt_problem *p, char *name, size_t size) {
  const rdt_dtype out = rdt_dtype_is_half(l->type) ? l->type : rdt_dtype_accumulator(l->type);
  rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  const char *end = l->fn == RDT_FN_NONE ? "" : rdt_fn_info(l->fn)->name;
  if (l->op == RDT_KOP_GEMM && l->b == 1) {
    *x = rdt_tensor_dense(NULL, l->type, 2, (int64_t[]){l->m, l->k});
    *w = rdt_tensor_dense(NULL, l->type, 2, (int64_t[]){l->k, l->n});
    if (l->type == RDT_S8) w->stride[0] = 1, w->stride[1] = l->k; /* the library wants it so */
    *y = rdt_tensor_dense(NULL, out, 2, (int64_t[]){l->m, l->n});
    snprintf(name, size, "%s %dx%dx%d %s%s", rdt_dtype_name(l->type), l->m, l->n, l->k, end, l->residual ? " +r" : "");
  } else if (l->op == RDT_KOP_GEMM) {
    *x = rdt_tensor_dense(NULL, l->type, 3, (int64_t[]){l->b, l->m, l->k});
    *w = rdt_tensor_dense(NULL, l->type, 3, (int64_t[]){l->b, l->k, l->n});
    if (l->k < l->n) w->stride[1] = 1, w->stride[2] = l->k; /* Q K^T */
    *y = rdt_tensor_dense(NULL, out, 3, (int64_t[]){l->b, l->m, l->n});
    snprintf(name, size, "%s %dx %dx%dx%d", rdt_dtype_name(l->type), l->b, l->m, l->n, l->k);
  } else {
    const int pad = (l->kernel - 1) / 2, to = (l->image + 2 * pad - l->kernel) / l->stride + 1;
    *x = rdt_tensor_channels_last(NULL, l->type, 4, (int64_t[]){batch, l->in, l->image, l->image});
    *w = rdt_tensor_channels_last(NULL, l->type, 4, (int64_t[]){l->out, l->in, l->kernel, l->kernel});
    *y = rdt_tensor_channels_last(NULL, out, 4, (int64_t[]){batch, l->out, to, to});
    p->window.groups = 1;
    for (int d = 0; d < 2; d++) {
      p->window.kernel[d] = l->kernel, p->window.stride[d] = l->stride, p->window.dilation[d] = 1;
      p->window.before[d] = p->window.after[d] = pad;
    }
    snprintf(name, size, "%s b%d %d: %d to %d, %dx%d /%d %s%s", rdt_dtype_name(l->type), batch, l->image, l->in, l->out,
             l->kernel, l->kernel, l->stride, end, l->residual ? " +r" : "");
  }
  p->acc = rdt_dtype_accumulator(l->type);
  p->epilogue.act.fn = l->fn;
  if (l->bias) p->epilogue.bias = rdt_tensor_dense(NULL, out, 1, (int64_t[]){l->op == RDT_KOP_GEMM ? l->n : l->out});
  if (l->residual) p->epilogue.residual = *y, p->epilogue.beta = 1.0;
}

typedef struct call {
  rdt_cuda_linear *l;
  const rdt_operands *o;
} call;
static bool launch(void *user, int i, cudaStream_t on) {
  const call *c = user;
  rdt_reason why;
  const rdt_cuda_linear_task task = {c->l, *c->o, {NULL, NULL}, {NULL, NULL}};
  (void)i;
  if (rdt_cuda_linear_launch(c->l, c->o, task.to, on, &why) == RDT_OK &&
      rdt_cuda_linear_check(&task, 1, on, &why) == RDT_OK)
    return true;
  fprintf(stderr, "gpu-bench: %s\n", why.text);
  exit(3);
}

static bool enter(contender *c, const rdt_problem *p, const rdt_operands *o, const char *scheme, const char *name) {
  rdt_reason why = {""};
  const double flops = rdt_problem_flops(p);
  if (rdt_cuda_linear_create(&device, p, scheme, 6.0, stream, &c->l, &why) != RDT_OK) {
    printf("%-44s %s: %s\n", name, scheme ? scheme : "protected", why.text);
    return false;
  }
  call one = {c->l, o};
  return turns_capture(&c->turns, flops > 1e12 ? 1 : flops > 1e10 ? 8 : 32, launch, &one, stream);
}

static void tell(const layer *l, const char *name, const contender *list) {
  rdt_cuda_verdict v;
  rdt_reason why;
  const double none = turns_at(&list[0].turns, 0.5), with = turns_at(&list[1].turns, 0.5),
               ratio = turns_ratio(&list[1].turns, &list[0].turns);
  if (rdt_cuda_get(&v, rdt_cuda_linear_verdict(list[1].l), sizeof v, stream, &why) != RDT_OK)
    fprintf(stderr, "gpu-bench: %s\n", why.text), exit(3);
  printf("%-44s %9.2f %-18s %9.2f %-18s %-8s %6.3f%s\n", name, 1e6 * none, rdt_cuda_linear_kernel(list[0].l),
         1e6 * with, rdt_cuda_linear_kernel(list[1].l), rdt_cuda_linear_scheme(list[1].l), ratio,
         v.listed ? " COMPLAINED although nothing was wrong" : "");
  code |= v.listed > 0;
  if (!record) return;
  fprintf(record, "%s\n  {\"group\": \"%s\", \"op\": \"%s\", \"count\": %d", rows++ ? "," : "", l->group, name,
          l->count);
  for (int i = 0; i < WAYS; i++) {
    fprintf(record, ", \"%s\": {\"kernel\": \"%s\", \"scheme\": \"%s\", ", i ? "protected" : "unprotected",
            rdt_cuda_linear_kernel(list[i].l), rdt_cuda_linear_scheme(list[i].l));
    turns_put(record, &list[i].turns);
    fprintf(record, "}");
  }
  fprintf(record, ", \"ratio\": %.4f}", ratio);
}

static void bench_one(const layer *l, int batch, double sums[WAYS]) {
  rdt_problem p;
  char name[128];
  contender list[WAYS] = {{0}, {0}};
  if (rdt_problem_init(&p, l->op, 2) != RDT_OK) exit(2);
  describe(l, batch, &p, name, sizeof name);
  rdt_tensor in[2] = {p.in[0], p.in[1]};
  rdt_epilogue e = p.epilogue;
  rdt_operands o = {.in = in, .n_in = 2, .out = p.out, .epilogue = &e};
  operand(&in[0]), operand(&in[1]), operand(&o.out);
  if (l->bias) operand(&e.bias);
  if (l->residual) operand(&e.residual);
  if (l->b == 1) p.in[1].data = in[1].data;
  if (enter(&list[0], &p, &o, "none", name) && enter(&list[1], &p, &o, NULL, name)) {
    turns_take((turns *const[]){&list[0].turns, &list[1].turns}, WAYS, WARM, TRIALS, stream);
    tell(l, name, list);
    for (int i = 0; i < WAYS; i++) sums[i] += l->count * turns_at(&list[i].turns, 0.5);
  }
  for (int i = 0; i < WAYS; i++) {
    turns_free(&list[i].turns);
    rdt_cuda_linear_destroy(list[i].l);
  }
  rdt_cuda_free(in[0].data), rdt_cuda_free(in[1].data), rdt_cuda_free(o.out.data);
  rdt_cuda_free(l->bias ? e.bias.data : NULL), rdt_cuda_free(l->residual ? e.residual.data : NULL);
  rdt_problem_clear(&p);
}

static void bench_group(const char *group, int batch) {
  double sums[WAYS] = {0.0, 0.0};
  if (only && strcmp(only, group) != 0) return;
  printf("\n%s\n%-44s %9s %-18s %9s %-18s %-8s\n", group, "us a launch", "none", "", "protected", "", "");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (strcmp(layers[i].group, group) == 0) bench_one(&layers[i], batch, sums);
  printf("all of them, as often as the network has them: %.1f us, protected %.1f us: %.3f\n", 1e6 * sums[0],
         1e6 * sums[1], sums[1] / sums[0]);
}

int main(int argc, char **argv) {
  rdt_reason why;
  int blas = 0, dnn = 0;
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  if (rdt_cuda_open(0, &device, &why) != RDT_OK) return fprintf(stderr, "gpu-bench: %s\n", why.text), 3;
  turns_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  if (rdt_blas_version(&blas, &why) != RDT_OK) printf("%s\n", why.text);
  if (rdt_dnn_version(&dnn, &why) != RDT_OK) printf("%s\n", why.text);
  only = argc > 2 ? argv[2] : NULL;
  printf("%s, cuBLASLt %d, cuDNN %d\n", device.name, blas, dnn);
  record = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-linear", device.name);
  if (record) fprintf(record, ", \"cublaslt\": %d, \"cudnn\": %d, \"ops\": [", blas, dnn);
  bench_group("squares", 1);
  bench_group("BERT-base s512", 1);
  bench_group("ResNet-50", 1);
  bench_group("ResNet-50", 8);
  if (record) fprintf(record, "]}\n"), fclose(record);
  return code;
}
