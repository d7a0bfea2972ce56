/* make gpu-check: linear ops of libraries with their checks (cuda/linear.h) against results in double, on clean data
 * and with faults.
 *     gpu_linear [--quick [TYPE...]]      --quick: few small shapes, for compute-sanitizer; of these datatypes
 * The last line says how much was checked; 1 where anything was wrong, 77 (skipped) without a GPU. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/bitsum.h"
#include "check/tolerance.h"
#include "cuda/blas.h"
#include "cuda/dnn.h"
#include "cuda/linear.h"
#include "gpu.h"
#include "linear_case.h"

static rdt_cuda_device device;
static cudaStream_t stream;
static bool quick;
static int64_t ops, elements, sums_formed, faults, refused, by_tall, wrong;
static char label[256];

static void complain(const char *what) {
  if (++wrong <= 60) printf("WRONG %s: %s\n", label, what);
}

/* ---- running ---- */

/* Of the last run, where somebody forms them: the bit-sum of the result, blocks that were there, sums of what was read.
 */
enum { SUM, VISITS, READ_IN, READ_RESIDUAL, SUMS };
static uint64_t *board, sums[SUMS];

static void launch(rdt_cuda_linear *l, linear_case *c, bool captured) {
  rdt_reason why = {""};
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  memset(c->host[OUT], 0xff, c->bytes[OUT]);
  linear_put(c, OUT);
  void *memory;
  if (!board) gpu_must(rdt_cuda_alloc(sizeof sums, &memory, &why), label, &why), board = memory;
  gpu_must(rdt_cuda_clear(board, sizeof sums, stream, &why), label, &why);
  const unsigned reads = rdt_cuda_linear_reads(l);
  rdt_cuda_linear_task task = {l, c->o, {NULL, NULL}, {NULL, NULL}};
  if (rdt_cuda_linear_blocks(l)) task.to = (rdt_box_sum_to){board + SUM, board + VISITS};
  for (int i = 0; i < 2; i++)
    if (reads >> i & 1) task.read[i] = board + READ_IN + i;
  if (!captured) {
    gpu_must(rdt_cuda_linear_launch(l, &c->o, task.to, stream, &why), label, &why);
    gpu_must(rdt_cuda_linear_check(&task, 1, stream, &why), label, &why);
  } else {
    gpu_must(rdt_cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture", &why), label,
             &why);
    gpu_must(rdt_cuda_linear_launch(l, &c->o, task.to, stream, &why), label, &why);
    gpu_must(rdt_cuda_linear_check(&task, 1, stream, &why), label, &why);
    gpu_must(rdt_cuda_status(cudaStreamEndCapture(stream, &graph), "capture", &why), label, &why);
    gpu_must(rdt_cuda_status(cudaGraphInstantiate(&exec, graph, 0), "graph", &why), label, &why);
    gpu_must(rdt_cuda_status(cudaGraphLaunch(exec, stream), "graph", &why), label, &why);
  }
  gpu_must(rdt_cuda_get(c->host[OUT], c->t[OUT].data, c->bytes[OUT], stream, &why), label, &why);
  gpu_must(rdt_cuda_get(sums, board, sizeof sums, stream, &why), label, &why);
  gpu_must(rdt_cuda_wait(stream, &why), label, &why);
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
}

static rdt_cuda_verdict verdict(rdt_cuda_linear *l) {
  rdt_reason why;
  rdt_cuda_verdict v;
  gpu_must(rdt_cuda_get(&v, rdt_cuda_linear_verdict(l), sizeof v, stream, &why), "verdict", &why);
  gpu_must(rdt_cuda_clear(rdt_cuda_linear_verdict(l), sizeof v, stream, &why), "verdict", &why);
  gpu_must(rdt_cuda_wait(stream, &why), "verdict", &why);
  return v;
}

static void print_finding(const rdt_cuda_verdict *v) {
  const rdt_cuda_finding *f = &v->list[0];
  if (v->listed && wrong < 60)
    printf(
        "  %u suspect, %u certain, %u cannot; row %d column %d of %d x %d: observed %g expected %g tau2 %g tau0 %g\n",
        v->suspect, v->certain, v->cannot, f->row, f->column, f->rows, f->columns, (double)f->observed,
        (double)f->expected, (double)f->tau2, (double)f->tau0);
}

static void check_values(const linear_case *c) {
  const rdt_dtype type = c->p.in[0].dtype;
  const rdt_dtype_row *out = rdt_dtype_info(c->p.out.dtype);
  const bool half = rdt_dtype_is_half(type) || rdt_dtype_is_f8(type), rounded = rdt_dtype_is_half(c->p.out.dtype);
  int64_t m, n, k, e = 0;
  rdt_problem_mnk(&c->p, &m, &n, &k);
  rdt_tolerance t = {
      .acc = half ? rdt_accumulator_mma(device.major, device.minor, type) : rdt_accumulator_of(type, c->p.acc),
      .k = k + 4,
      .splits = half ? 32 : 0,
      .u_out = rounded ? 2.5 * out->u : 0.0, /* twice where the library rounds, then the epilogue */
      .eta_out = rounded ? 4.0 * out->min_normal * out->u : 0.0};
  t.acc.flush = 0.0;
  const double curve = c->p.acc == RDT_S32 ? 0.0 : rdt_tolerance_operator(rounded ? c->p.out.dtype : c->p.acc);
  rdt_iter it = rdt_iter_begin(&c->t[OUT]);
  while (rdt_iter_next(&it)) {
    const double bound = 1.2 * rdt_bound_element(&t, c->magnitude[e]) +
                         (c->p.epilogue.act.fn != RDT_FN_NONE ? curve * fmax(c->magnitude[e], 1.0) : 0.0);
    const double now = linear_at(c, OUT, it.offset);
    elements++;
    if (!(fabs(now - c->exact[e]) <= bound)) {
      char text[160];
      snprintf(text, sizeof text, "element %lld: %.9g, not %.9g (bound %.3g)", (long long)e, now, c->exact[e], bound);
      complain(text);
      return;
    }
    e++;
  }
}

/* What was formed in passing is what the host forms of the same memory. */
static void check_sums(const linear_case *c, const rdt_cuda_linear *l) {
  static const int operands[] = {OUT, OUT, IN, RESIDUAL};
  const unsigned reads = rdt_cuda_linear_reads(l);
  const int64_t blocks = rdt_cuda_linear_blocks(l);
  for (int i = SUM; i < SUMS; i++) {
    const bool formed = i < READ_IN ? blocks > 0 : (reads >> (i - READ_IN) & 1) != 0;
    if (!formed) continue;
    const uint64_t right = i == VISITS ? (uint64_t)blocks : rdt_bitsum(c->host[operands[i]], c->bytes[operands[i]]);
    sums_formed++;
    if (sums[i] != right) complain(i == VISITS ? "other blocks were there" : "another bit-sum was formed");
  }
}

/* Clean: right values, the same bits each time, no complaint. */
static void check_clean(linear_case *c, const char *scheme, bool fixed) {
  rdt_reason why = {""};
  rdt_cuda_linear *l;
  char *first = malloc(c->bytes[OUT]), more[300];
  if (!first) gpu_die("malloc", "out of memory");
  c->p.in[1].data = fixed ? c->t[WEIGHTS].data : NULL;
  const rdt_status s = rdt_cuda_linear_create(&device, &c->p, scheme, 6.0, stream, &l, &why);
  if (s != RDT_OK) {
    if (s == RDT_ERR_UNSUPPORTED && *why.text) {
      if (refused++ < 12) printf("refused: %s: %s\n", label, why.text);
    } else {
      snprintf(more, sizeof more, "status %d %.200s", (int)s, why.text);
      complain(more);
    }
    free(first);
    return;
  }
  for (int turn = 0; turn < 3; turn++) {
    launch(l, c, turn == 2);
    const rdt_cuda_verdict v = verdict(l);
    if (v.suspect | v.certain | v.cannot) {
      snprintf(more, sizeof more, "%s (%s) complains without a fault", rdt_cuda_linear_kernel(l),
               rdt_cuda_linear_scheme(l));
      complain(more), print_finding(&v);
    }
    check_sums(c, l);
    if (turn == 0) check_values(c), memcpy(first, c->host[OUT], c->bytes[OUT]);
    if (turn && memcmp(first, c->host[OUT], c->bytes[OUT]) != 0)
      complain(turn == 2 ? "other bits in a graph" : "other bits in the second run");
  }
  ops++, by_tall += strstr(rdt_cuda_linear_kernel(l), "_tall") != NULL;
  rdt_cuda_linear_destroy(l);
  free(first);
}

/* A weight of the first filter, and the copy of it that the kernel multiplies with, where it has one; copied: its
 * number in taps x channels. */
static void put_weight(linear_case *c, rdt_cuda_linear *l, int64_t from, int64_t copied) {
  rdt_reason why;
  void *copy = rdt_cuda_linear_copy(l, copied, 0);
  const size_t size = rdt_dtype_size(c->t[WEIGHTS].dtype);
  if (!copy) return linear_put(c, WEIGHTS);
  gpu_must(rdt_cuda_put(copy, (const char *)c->host[WEIGHTS] + (size_t)from * size, size, stream, &why), label, &why);
}

/* One weight is changed after its sums were formed, and met by one input element alone: only where that goes may be a
 * complaint, and there must be one. */
static void check_fault(linear_case *c, const char *scheme, int sets, uint64_t *seed) {
  rdt_reason why = {""};
  rdt_cuda_linear *l;
  rdt_tensor *x = &c->t[IN], *w = &c->t[WEIGHTS];
  const bool conv = c->p.op == RDT_KOP_CONV;
  const int along = conv ? 1 : x->rank - 1; /* dimension of x that the reduction goes by */
  int64_t m, n, k, index[RDT_MAX_RANK] = {0}, offset = 0;
  rdt_problem_mnk(&c->p, &m, &n, &k);
  for (int d = 0; d < x->rank; d++) index[d] = (int64_t)(gpu_random(seed) % (uint64_t)x->shape[d]);
  void *saved = malloc(c->bytes[IN]);
  if (!saved) gpu_die("malloc", "out of memory");
  memcpy(saved, c->host[IN], c->bytes[IN]);
  rdt_iter it = rdt_iter_begin(x); /* this channel is zero but for one element */
  while (rdt_iter_next(&it))
    if (it.index[along] == index[along]) rdt_store(c->host[IN], x->dtype, it.offset, 0.0);
  for (int d = 0; d < x->rank; d++) offset += index[d] * x->stride[d];
  rdt_store(c->host[IN], x->dtype, offset, 1.0);
  linear_put(c, IN);
  c->p.in[1].data = w->data;
  if (rdt_cuda_linear_create(&device, &c->p, scheme, 6.0, stream, &l, &why) == RDT_OK) {
    const int64_t groups = conv ? c->p.window.groups : 1, share = conv ? w->shape[1] : 1;
    int64_t at_weight = conv
                            ? index[1] / share * (w->shape[0] / groups) * w->stride[0] + index[1] % share * w->stride[1]
                            : index[along] * w->stride[w->rank - 2];
    int64_t tap_number = 0, at_copy = 0;
    for (int d = 2; conv && d < w->rank; d++) { /* a tap that this element meets */
      const int64_t i = d - 2;
      for (int64_t tap = 0; tap < w->shape[d]; tap++) {
        const int64_t o = index[d] + c->p.window.before[i] - tap * c->p.window.dilation[i];
        if (o >= 0 && o % c->p.window.stride[i] == 0 && o / c->p.window.stride[i] < c->p.out.shape[d]) {
          at_weight += tap * w->stride[d], index[d] = o / c->p.window.stride[i];
          tap_number = tap_number * w->shape[d] + tap;
          break;
        }
        if (tap + 1 == w->shape[d]) goto done; /* none */
      }
    }
    at_copy = tap_number * k / (conv ? rdt_tensor_count(w) / w->shape[0] / w->shape[1] : 1) + index[along];
    const double old = rdt_load(c->host[WEIGHTS], w->dtype, at_weight);
    const double change = rdt_dtype_is_half(c->p.out.dtype) && conv ? 4000.0 : 16.0 * sqrt((double)k) + 4.0;
    rdt_store(c->host[WEIGHTS], w->dtype, at_weight, w->dtype == RDT_S8 ? (old > 0 ? old - 3 : old + 3) : old + change);
    put_weight(c, l, at_weight, at_copy);
    launch(l, c, false);
    const rdt_cuda_verdict v = verdict(l);
    faults++;
    int64_t row = 0; /* of the element's result */
    for (int d = 0; d < c->p.out.rank; d++)
      if (d != rdt_problem_channel(&c->p)) row = row * c->p.out.shape[d] + index[d];
    if (!(v.suspect + v.certain)) complain("a fault was not found");
    bool there = v.listed <= 1 || (sets > 1 && v.listed <= (unsigned)sets); /* each check of the row may find it */
    for (unsigned i = 0; i < v.listed && i < RDT_CUDA_LISTED; i++)
      there = there && row >= v.list[i].row && row < v.list[i].row + v.list[i].rows;
    if (!there) complain("a fault was found elsewhere"), print_finding(&v), printf("  row %lld\n", (long long)row);
    rdt_store(c->host[WEIGHTS], w->dtype, at_weight, w->dtype == RDT_S8 ? 127 : NAN);
    if (w->dtype != RDT_S8) {
      put_weight(c, l, at_weight, at_copy);
      launch(l, c, false);
      const rdt_cuda_verdict nan = verdict(l);
      if (!(nan.certain + nan.cannot)) complain("NaN was not found"), print_finding(&nan);
    }
    rdt_store(c->host[WEIGHTS], w->dtype, at_weight, old);
    put_weight(c, l, at_weight, at_copy);
    launch(l, c, false);
    const rdt_cuda_verdict clean = verdict(l);
    if (clean.listed) complain("a fault is still reported in the next run"), print_finding(&clean);
    if (w->dtype != RDT_S8) {
      rdt_store(c->host[IN], x->dtype, offset, rdt_dtype_is_f8(x->dtype) ? NAN : INFINITY); /* f8e4m3 has no other */
      linear_put(c, IN);
      launch(l, c, false);
      const rdt_cuda_verdict open = verdict(l);
      if (!open.cannot || open.certain + open.suspect) complain("an infinite input is not told"), print_finding(&open);
    }
  done:
    rdt_cuda_linear_destroy(l);
  }
  memcpy(c->host[IN], saved, c->bytes[IN]);
  linear_put(c, IN);
  free(saved);
}

/* ---- cases ---- */

static rdt_act some_act(uint64_t r, bool curves) {
  static const rdt_fn fns[] = {RDT_FN_NONE,      RDT_FN_RELU,      RDT_FN_CLIP,   RDT_FN_NONE,
                               RDT_FN_GELU,      RDT_FN_GELU_TANH, RDT_FN_SILU,   RDT_FN_HARDSWISH,
                               RDT_FN_LEAKYRELU, RDT_FN_TANH,      RDT_FN_SIGMOID};
  const rdt_fn fn = fns[r % (curves ? sizeof fns / sizeof *fns : 4)];
  return (rdt_act){fn, {fn == RDT_FN_CLIP ? -1.0 : 1.0 / 6.0, fn == RDT_FN_CLIP ? 6.0 : 0.5}};
}

static const rdt_dtype types[] = {RDT_F32, RDT_F16, RDT_BF16, RDT_F64, RDT_S8, RDT_F8E4M3, RDT_F8E5M2};
enum { TYPES = 7 };
static bool left_out[RDT_DTYPE_COUNT]; /* none, or all that are not named */

static rdt_tensor matrix(rdt_dtype type, int64_t rows, int64_t columns, bool transposed, int64_t gap) {
  rdt_tensor t = rdt_tensor_dense(NULL, type, 2, (int64_t[]){rows, columns});
  const int64_t to = type == RDT_S8 ? 16 : 16 / (int64_t)rdt_dtype_size(type);
  const int64_t pitch = ((transposed ? rows : columns) + gap + to - 1) / to * to;
  t.stride[0] = transposed ? 1 : pitch, t.stride[1] = transposed ? pitch : 1;
  return t;
}

static void one_product(uint64_t *seed, int turn) {
  static const int lengths[] = {1, 7, 8, 9, 17, 31, 64, 127, 128, 129, 251},
                   depths[] = {1, 7, 8, 9, 16, 127, 128, 129, 251, 509, 1031};
  const uint64_t r = gpu_random(seed);
  static const rdt_dtype of_f8[] = {RDT_BF16, RDT_F32, RDT_F16};
  const rdt_dtype type = types[turn % TYPES];
  const bool f8 = rdt_dtype_is_f8(type);
  const rdt_dtype weights = type == RDT_F8E5M2 ? RDT_F8E4M3 : f8 && r % 7 == 0 ? RDT_F8E5M2 : type;
  const rdt_dtype out = f8                                 ? of_f8[turn / TYPES % 3]
                        : rdt_dtype_is_half(type) && r % 2 ? type
                                                           : rdt_dtype_accumulator(type);
  if (left_out[type]) return;
  int64_t m = lengths[(r >> 4) % 11], n = lengths[(r >> 8) % 11], k = depths[(r >> 12) % 11];
  const bool s8 = type == RDT_S8, byte = s8 || f8, ta = !byte && (r >> 16) % 3 == 0, tb = byte || (r >> 18) % 2;
  if (turn == 0) m = n = k = 1;
  if (s8) m = (m + 3) / 4 * 4, n = (n + 3) / 4 * 4, k = (k + 15) / 16 * 16;
  if (f8) m = (m + 15) / 16 * 16, n = (n + 15) / 16 * 16, k = (k + 15) / 16 * 16;
  linear_case c = {.stream = stream};
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  snprintf(label, sizeof label, "product %lldx%lldx%lld %s by %s to %s%s%s", (long long)m, (long long)n, (long long)k,
           rdt_dtype_name(type), rdt_dtype_name(weights), rdt_dtype_name(out), ta ? " A^T" : "", tb ? " B^T" : "");
  linear_add(&c, IN, matrix(type, m, k, ta, (r >> 20) % 3 ? 0 : 16), s8 ? 20 : 1, seed);
  linear_add(&c, WEIGHTS, matrix(weights, k, n, tb, (r >> 22) % 3 ? 0 : 16), s8 ? 20 : 1, seed);
  linear_add(&c, OUT, matrix(out, m, n, !f8 && (r >> 24) % 5 == 0, (r >> 27) % 3 ? 0 : 16), 1, seed);
  if (!s8 && (r >> 30) % 2) linear_add(&c, BIAS, rdt_tensor_dense(NULL, out, 1, &n), 2, seed);
  if (!s8 && (r >> 31) % 2) linear_add(&c, RESIDUAL, (r >> 32) % 2 ? c.t[OUT] : matrix(out, m, n, false, 0), 2, seed);
  linear_ready(&c, RDT_KOP_GEMM, s8 || (r >> 33) % 2 ? 1.0 : 0.75, (r >> 34) % 2 ? 1.0 : -0.5,
               s8 ? (rdt_act){RDT_FN_NONE, {0}} : some_act(r >> 36, type != RDT_F64));
  linear_compute(&c);
  check_clean(&c, "row", true);
  check_clean(&c, "row", false);
  check_clean(&c, "none", true);
  if (turn % 4 == 0) check_clean(&c, NULL, true);
  check_fault(&c, "row", 1, seed);
  if (!byte) check_clean(&c, turn % 2 ? "row:2" : "row:3", true), check_clean(&c, "row:2", false);
  if (!byte) check_fault(&c, "row:2", 2, seed);
  linear_free(&c);
}

/* Two errors in a row whose sum with signs is zero: one check does not see them, two do. */
static void check_pair(rdt_dtype type, uint64_t *seed) {
  enum { M = 600, N = 72, K = 96, ROW = 17, FIRST = 5, SECOND = 50 }; /* too many rows for own kernels */
  static const char *const schemes[] = {"row", "row:2"};
  const rdt_dtype out = rdt_dtype_accumulator(type);
  linear_case c = {.stream = stream};
  if (left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  snprintf(label, sizeof label, "pair of errors in %s", rdt_dtype_name(type));
  linear_add(&c, IN, matrix(type, M, K, false, 0), 1, seed),
      linear_add(&c, WEIGHTS, matrix(type, K, N, false, 0), 1, seed);
  linear_add(&c, OUT, matrix(out, M, N, false, 0), 1, seed);
  linear_ready(&c, RDT_KOP_GEMM, 1.0, 0.0, (rdt_act){RDT_FN_NONE, {0}});
  c.p.in[1].data = c.t[WEIGHTS].data;
  int seen[2] = {0, 0};
  for (int s = 0; s < 2; s++) {
    rdt_reason why;
    rdt_cuda_linear *l;
    gpu_must(rdt_cuda_linear_create(&device, &c.p, schemes[s], 6.0, stream, &l, &why), label, &why);
    for (int minus = 0; minus < 2; minus++) {
      const rdt_cuda_linear_task task = {l, c.o, {NULL, NULL}, {NULL, NULL}};
      const int64_t at[2] = {ROW * c.t[OUT].stride[0] + FIRST, ROW * c.t[OUT].stride[0] + SECOND};
      const size_t size = rdt_dtype_size(out);
      gpu_must(rdt_cuda_linear_launch(l, &c.o, task.to, stream, &why), label, &why);
      for (int i = 0; i < 2; i++) {
        char *place = (char *)c.t[OUT].data + (size_t)at[i] * size;
        double value[1];
        gpu_must(rdt_cuda_get(value, place, size, stream, &why), label, &why);
        const double error = i && minus ? -1.0 : 1.0;
        rdt_store(value, out, 0, rdt_load(value, out, 0) + error);
        gpu_must(rdt_cuda_put(place, value, size, stream, &why), label, &why);
        gpu_must(rdt_cuda_wait(stream, &why), label, &why);
      }
      gpu_must(rdt_cuda_linear_check(&task, 1, stream, &why), label, &why);
      gpu_must(rdt_cuda_wait(stream, &why), label, &why);
      const rdt_cuda_verdict v = verdict(l);
      seen[s] += v.suspect + v.certain > 0;
      faults++;
    }
    rdt_cuda_linear_destroy(l);
  }
  if (seen[0] != 1) complain("row sees both ways or none");
  if (seen[1] != 2) complain("row:2 does not see both");
  linear_free(&c);
}

/* Batches: weights for all, and as attention has them: heads within rows. */
static void one_batch(uint64_t *seed, int turn) {
  const uint64_t r = gpu_random(seed);
  const rdt_dtype type = types[turn % 4]; /* no bytes */
  if (left_out[type]) return;
  const int64_t b = 1 + (int64_t)(r % 3), h = 1 + (int64_t)((r >> 4) % 4), s = 8 * (1 + (int64_t)((r >> 8) % 12)),
                d = 32 + 16 * (int64_t)((r >> 12) % 3);
  const int64_t shape_a[] = {b, h, s, d}, shape_c[] = {b, h, s, s};
  linear_case c = {.stream = stream};
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  rdt_tensor q = rdt_tensor_dense(NULL, type, 4, shape_a), kt = q, v = q;
  q.stride[0] = s * h * d, q.stride[1] = d, q.stride[2] = h * d, q.stride[3] = 1;
  v = q, kt = q;
  kt.shape[2] = d, kt.shape[3] = s, kt.stride[2] = 1, kt.stride[3] = h * d;
  const int form = turn / 4 % 3;
  snprintf(label, sizeof label, "batch %lldx%lldx%lldx%lld %s form %d", (long long)b, (long long)h, (long long)s,
           (long long)d, rdt_dtype_name(type), form);
  if (form == 0) { /* Q K^T */
    linear_add(&c, IN, q, 1, seed), linear_add(&c, WEIGHTS, kt, 1, seed),
        linear_add(&c, OUT, rdt_tensor_dense(NULL, type, 4, shape_c), 1, seed);
  } else if (form == 1) { /* P V, heads back in rows */
    linear_add(&c, IN, rdt_tensor_dense(NULL, type, 4, shape_c), 1, seed), linear_add(&c, WEIGHTS, v, 1, seed),
        linear_add(&c, OUT, q, 1, seed);
  } else { /* one matrix of weights */
    const int64_t shape_w[] = {1, 1, d, 48}, shape_o[] = {b, h, s, 48};
    rdt_tensor w = rdt_tensor_dense(NULL, type, 4, shape_w);
    w.shape[0] = b, w.shape[1] = h, w.stride[0] = w.stride[1] = 0;
    linear_add(&c, IN, rdt_tensor_dense(NULL, type, 4, shape_a), 1, seed), linear_add(&c, WEIGHTS, w, 1, seed);
    linear_add(&c, OUT, rdt_tensor_dense(NULL, type, 4, shape_o), 1, seed);
  }
  linear_ready(&c, RDT_KOP_GEMM, form ? 1.0 : 0.125, 0.0, some_act(form == 2, false));
  linear_compute(&c);
  check_clean(&c, "row", form == 2);
  check_clean(&c, "none", form == 2);
  if (form == 2) check_fault(&c, "row", 1, seed);
  linear_free(&c);
}

static rdt_tensor image(rdt_dtype type, int rank, const int64_t *shape, bool last) {
  rdt_tensor t = rdt_tensor_dense(NULL, type, rank, shape);
  if (!last) return t;
  int64_t step = 1;
  t.stride[1] = step, step *= shape[1];
  for (int d = rank - 1; d >= 2; d--) t.stride[d] = step, step *= shape[d];
  t.stride[0] = step;
  return t;
}

static void one_conv(uint64_t *seed, int turn) {
  const uint64_t r = gpu_random(seed);
  const rdt_dtype type = types[turn % 3];
  if (left_out[type]) return;
  const int form = turn / 3 % 8, dims = form == 6 ? 3 : form == 7 ? 1 : 2, rank = dims + 2;
  const bool last = r % 2, depthwise = form == 4;
  const int64_t groups = form == 3 ? 2 : depthwise ? 24 : 1;
  int64_t shape[5] = {1 + (int64_t)((r >> 4) % 3), form == 5 ? 3 : depthwise ? 24 : 16 + 8 * (int64_t)((r >> 6) % 3)};
  int64_t filter[5] = {depthwise ? 24 : 16 + 8 * (int64_t)((r >> 8) % 4), shape[1] / groups}, result[5];
  linear_case c = {.stream = stream};
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  c.p.window.groups = groups;
  for (int d = 0; d < dims; d++) {
    const int64_t taps = form == 0   ? 1
                         : form == 5 ? 7
                                     : 3,
                  stride = form == 0 ? 1 : 1 + (int64_t)((r >> 12) % 2), dilation = form == 2 ? 2 : 1,
                  pad = form == 0 ? 0 : (taps - 1) * dilation / 2;
    shape[2 + d] = (form == 6 ? 6 : 13) + (int64_t)((r >> (16 + 4 * d)) % 8), filter[2 + d] = taps;
    c.p.window.kernel[d] = taps, c.p.window.stride[d] = stride, c.p.window.dilation[d] = dilation;
    c.p.window.before[d] = c.p.window.after[d] = pad;
    result[2 + d] = (shape[2 + d] + 2 * pad - (taps - 1) * dilation - 1) / stride + 1;
  }
  result[0] = shape[0], result[1] = filter[0];
  snprintf(label, sizeof label, "conv %s %s form %d: %lldx%lldx%lld.. by %lldx%lld.. stride %lld", rdt_dtype_name(type),
           last ? "nhwc" : "nchw", form, (long long)shape[0], (long long)shape[1], (long long)shape[2],
           (long long)filter[0], (long long)filter[2], (long long)c.p.window.stride[0]);
  linear_add(&c, IN, image(type, rank, shape, last), 1, seed);
  linear_add(&c, WEIGHTS, image(type, rank, filter, last), 1, seed);
  linear_add(&c, OUT, image(type, rank, result, last), 1, seed);
  if ((r >> 30) % 2) linear_add(&c, BIAS, rdt_tensor_dense(NULL, type, 1, &result[1]), 2, seed);
  if ((r >> 31) % 2) linear_add(&c, RESIDUAL, c.t[OUT], 2, seed);
  linear_ready(&c, RDT_KOP_CONV, 1.0, 1.0, some_act(r >> 36, (r >> 33) % 2));
  linear_compute(&c);
  check_clean(&c, "fic", true);
  check_clean(&c, "none", true);
  if (form == 0) check_clean(&c, NULL, true);
  check_fault(&c, "fic", 1, seed);
  if (form == 0 && last) check_fault(&c, "row", 1, seed);
  linear_free(&c);
}

/* Curves of 16 bits behind a library's result, which checks of every layout evaluate as they are applied. */
static void one_curve(uint64_t *seed, int turn) {
  static const rdt_fn curves[] = {RDT_FN_GELU, RDT_FN_SILU, RDT_FN_TANH};
  const rdt_dtype type = turn % 2 ? RDT_BF16 : RDT_F16;
  const rdt_act act = {curves[turn / 4 % 3], {1.0 / 6.0, 0.5}};
  const bool conv = turn / 2 % 2;
  linear_case c = {.stream = stream};
  if (left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  snprintf(label, sizeof label, "curve %d of a %s, %s", (int)act.fn, conv ? "convolution" : "product",
           rdt_dtype_name(type));
  if (conv) { /* a plane a channel */
    const int64_t shape[] = {2, 24, 17, 17}, filter[] = {24, 1, 3, 3};
    rdt_window *w = &c.p.window;
    w->groups = 24;
    for (int d = 0; d < 2; d++) w->kernel[d] = 3, w->stride[d] = w->dilation[d] = w->before[d] = w->after[d] = 1;
    linear_add(&c, IN, image(type, 4, shape, false), 1, seed),
        linear_add(&c, WEIGHTS, image(type, 4, filter, false), 1, seed);
    linear_add(&c, OUT, image(type, 4, shape, false), 1, seed);
  } else { /* rows that do not end with 16 bytes */
    const int64_t m = 64, n = 72, k = 100;
    linear_add(&c, IN, matrix(type, m, k, false, 0), 1, seed),
        linear_add(&c, WEIGHTS, matrix(type, k, n, false, 0), 1, seed);
    linear_add(&c, OUT, matrix(type, m, n, false, 0), 1, seed);
  }
  linear_ready(&c, conv ? RDT_KOP_CONV : RDT_KOP_GEMM, 1.0, 0.0, act);
  linear_compute(&c);
  check_clean(&c, conv ? "fic" : "row", true);
  check_clean(&c, "none", true);
  linear_free(&c);
}

/* Kernels on wgmma that check what they compute, which no other ones do as fc: single pixels in turns with windows. */
static void one_wide(uint64_t *seed, int turn) {
  static const int rows[] = {1, 7, 64, 127, 129, 300, 515}, columns[] = {8, 64, 72, 128, 136, 264},
                   depths[] = {8, 64, 72, 136, 512, 1032};
  const uint64_t r = gpu_random(seed);
  const rdt_dtype type = turn / 2 % 2 ? RDT_BF16 : RDT_F16;
  const bool single = turn % 2, same = single || turn / 4 % 2; /* same: one tap meets every pixel once */
  linear_case c = {.stream = stream};
  if (device.major != 9 || left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  int64_t shape[4] = {1 + (int64_t)((r >> 4) % 3), 64 + 64 * (int64_t)((r >> 6) % 2)}, result[4] = {shape[0]};
  int64_t filter[4] = {8 + 8 * (int64_t)((r >> 8) % 12), 0};
  if (single) shape[0] = result[0] = 1, shape[1] = depths[(r >> 12) % 6], filter[0] = columns[(r >> 8) % 6];
  filter[1] = shape[1], result[1] = filter[0];
  c.p.window.groups = 1;
  for (int d = 0; d < 2; d++) {
    rdt_window *w = &c.p.window;
    filter[2 + d] = single ? 1 : 1 + (int64_t)((r >> (12 + 2 * d)) % 4), w->kernel[d] = filter[2 + d];
    w->stride[d] = same ? 1 : 1 + (int64_t)((r >> 16) % 3), w->dilation[d] = 1 + (int64_t)((r >> 18) % 5 == 0);
    shape[2 + d] = !single ? 9 + (int64_t)((r >> (20 + 4 * d)) % 9) : d ? rows[(r >> 4) % 7] : 1;
    const int64_t more = (filter[2 + d] - 1) * w->dilation[d], first = filter[2 + d] / 2 * w->dilation[d];
    w->before[d] = single ? 0
                   : same ? first
                          : (int64_t)((r >> (24 + d)) % 3),
    w->after[d] = single ? 0
                  : same ? more - first
                         : (int64_t)((r >> (26 + d)) % 3);
    const int64_t seen = shape[2 + d] + w->before[d] + w->after[d] - (filter[2 + d] - 1) * w->dilation[d] - 1;
    result[2 + d] = seen / w->stride[d] + 1;
  }
  snprintf(label, sizeof label, "fused on wgmma %s: %lldx%lldx%lldx%lld by %lldx%lldx%lld stride %lld",
           rdt_dtype_name(type), (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3],
           (long long)filter[0], (long long)filter[2], (long long)filter[3], (long long)c.p.window.stride[0]);
  linear_add(&c, IN, image(type, 4, shape, true), 1, seed),
      linear_add(&c, WEIGHTS, image(type, 4, filter, (r >> 29) % 2), 1, seed);
  linear_add(&c, OUT, image(type, 4, result, true), 1, seed);
  if ((r >> 30) % 2) linear_add(&c, BIAS, rdt_tensor_dense(NULL, type, 1, &result[1]), 2, seed);
  if ((r >> 31) % 2) linear_add(&c, RESIDUAL, c.t[OUT], 2, seed);
  linear_ready(&c, RDT_KOP_CONV, (r >> 33) % 4 ? 1.0 : 0.75, (r >> 34) % 2 ? 1.0 : -0.5, some_act(r >> 36, true));
  linear_compute(&c);
  check_clean(&c, "fc", true);
  check_fault(&c, "fc", 1, seed);
  if (turn % 4 == 0) check_clean(&c, NULL, true), check_clean(&c, "none", true);
  linear_free(&c);
}

/* A bias that the launch ahead, which this one need not wait for to begin, has just written. */
static void check_bias_ahead(rdt_dtype type, const char *scheme, uint64_t *seed) {
  enum { ROWS = 640, SIZE = 64, TURNS = 12 };
  const int64_t n = SIZE;
  linear_case c = {.stream = stream};
  rdt_cuda_linear *l;
  rdt_reason why = {""};
  static char ordered[2 * ROWS * SIZE], now[sizeof ordered];
  void *second;
  if (device.major != 9 || left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  snprintf(label, sizeof label, "%s %s, a bias of the launch ahead", rdt_dtype_name(type), scheme);
  linear_add(&c, IN, matrix(type, ROWS, SIZE, false, 0), 1, seed);
  linear_add(&c, WEIGHTS, matrix(type, SIZE, SIZE, false, 0), 1, seed);
  linear_add(&c, OUT, matrix(type, ROWS, SIZE, false, 0), 1, seed);
  linear_add(&c, BIAS, rdt_tensor_dense(NULL, type, 1, &n), 2, seed);
  linear_ready(&c, RDT_KOP_GEMM, 1.0, 0.0, (rdt_act){RDT_FN_RELU, {0}});
  c.p.in[1].data = c.t[WEIGHTS].data;
  gpu_must(rdt_cuda_alloc(sizeof now, &second, &why), label, &why);
  gpu_must(rdt_cuda_linear_create_by(&device, &c.p, scheme, "wide", 6.0, stream, &l, &why), label, &why);
  const bool sums_it = rdt_cuda_linear_blocks(l) > 0;
  const rdt_box_sum_to to = {sums_it ? board + SUM : NULL, sums_it ? board + VISITS : NULL};
  rdt_epilogue after = *c.o.epilogue;
  rdt_operands o = c.o;
  after.bias.data = c.t[OUT].data, o.epilogue = &after, o.out.data = second;
  for (int turn = 0; turn < TURNS; turn++) {
    cudaMemsetAsync(c.t[OUT].data, 0xff, c.bytes[OUT], stream);
    gpu_must(rdt_cuda_linear_launch(l, &c.o, to, stream, &why), label, &why);
    if (turn == 0) gpu_must(rdt_cuda_wait(stream, &why), label, &why);
    gpu_must(rdt_cuda_linear_launch(l, &o, to, stream, &why), label, &why);
    gpu_must(rdt_cuda_get(now, second, sizeof now, stream, &why), label, &why);
    gpu_must(rdt_cuda_wait(stream, &why), label, &why);
    if (turn == 0) memcpy(ordered, now, sizeof now);
    if (memcmp(ordered, now, sizeof now) != 0) complain("another bias than the one that was written");
  }
  ops += TURNS;
  rdt_cuda_linear_destroy(l);
  rdt_cuda_free(second);
  linear_free(&c);
}

/* Many rows of few columns, for which own kernels compete: products, and convolutions of single pixels. */
static void one_tall(uint64_t *seed, int turn) {
  static const int columns[] = {24, 61, 96}, depths[] = {40, 147, 200};
  const uint64_t r = gpu_random(seed);
  const rdt_dtype type = turn / 2 % 2 ? RDT_BF16 : RDT_F16;
  const int64_t m = 8200, n = columns[r % 3], k = depths[(r >> 4) % 3], image_in[4] = {1, k, 1, m},
                filter[4] = {n, k, 1, 1}, image_out[4] = {1, n, 1, m};
  const bool conv = turn % 2;
  linear_case c = {.stream = stream};
  if (device.major != 9 || left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  snprintf(label, sizeof label, "tall %s %s %lldx%lldx%lld", conv ? "conv" : "product", rdt_dtype_name(type),
           (long long)m, (long long)n, (long long)k);
  c.p.window.groups = 1;
  for (int d = 0; d < 2; d++) c.p.window.kernel[d] = c.p.window.stride[d] = c.p.window.dilation[d] = 1;
  linear_add(&c, IN, conv ? image(type, 4, image_in, true) : matrix(type, m, k, false, 0), 1, seed);
  linear_add(&c, WEIGHTS, conv ? image(type, 4, filter, false) : matrix(type, k, n, (r >> 8) % 2, 0), 1, seed);
  linear_add(&c, OUT, conv ? image(type, 4, image_out, true) : matrix(type, m, n, false, 0), 1, seed);
  if ((r >> 9) % 2) linear_add(&c, BIAS, rdt_tensor_dense(NULL, type, 1, &n), 2, seed);
  linear_ready(&c, conv ? RDT_KOP_CONV : RDT_KOP_GEMM, 1.0, 1.0,
               (rdt_act){(r >> 10) % 2 ? RDT_FN_RELU : RDT_FN_NONE, {0}});
  linear_compute(&c);
  check_clean(&c, "row", true);
  check_clean(&c, "none", true);
  if (!conv) check_clean(&c, "row", false);
  check_fault(&c, "row", 1, seed);
  linear_free(&c);
}

/* Images of few channels, folded: the check is one of the copy too. */
static void check_folded_copy(linear_case *c) {
  rdt_reason why = {""};
  rdt_cuda_linear *l;
  c->p.in[1].data = c->t[WEIGHTS].data;
  if (rdt_cuda_linear_create(&device, &c->p, "fc", 6.0, stream, &l, &why) != RDT_OK) return;
  const size_t size = rdt_dtype_size(c->t[IN].dtype), at = c->bytes[IN] / size / 2 * size;
  char *byte = (char *)c->host[IN] + at;
  for (int differ = 0; differ < 2; differ++) { /* the image is another one than that which was copied */
    const rdt_cuda_linear_task task = {l, c->o, {NULL, NULL}, {NULL, NULL}};
    gpu_must(rdt_cuda_linear_launch(l, &c->o, task.to, stream, &why), label, &why);
    gpu_must(rdt_cuda_wait(stream, &why), label, &why);
    *byte ^= (char)differ, linear_put(c, IN);
    gpu_must(rdt_cuda_linear_check(&task, 1, stream, &why), label, &why);
    gpu_must(rdt_cuda_wait(stream, &why), label, &why);
    const rdt_cuda_verdict v = verdict(l);
    if ((v.certain > 0) != differ) complain(differ ? "a copy that differs was not found" : "a copy is called wrong");
    *byte ^= (char)differ, linear_put(c, IN);
  }
  faults++;
  rdt_cuda_linear_destroy(l);
}

static void one_folded(uint64_t *seed, int turn) {
  const uint64_t r = gpu_random(seed);
  const rdt_dtype type = turn % 2 ? RDT_BF16 : RDT_F16;
  linear_case c = {.stream = stream};
  if (device.major != 9 || left_out[type]) return;
  for (int i = 0; i < OPERANDS; i++) c.t[i].rank = -1;
  const int64_t stride = 1 + turn / 2 % 2;
  int64_t shape[4] = {1 + (int64_t)(r % 3), 1 + (int64_t)((r >> 2) % (stride == 1 ? 8 : 4))}, result[4] = {shape[0]};
  int64_t filter[4] = {8 + 8 * (int64_t)((r >> 8) % 12), shape[1]};
  if (turn == 2) shape[1] = filter[1] = 3, filter[0] = 64;
  result[1] = filter[0];
  c.p.window.groups = 1;
  for (int d = 0; d < 2; d++) {
    rdt_window *w = &c.p.window;
    filter[2 + d] = turn == 2 ? 7 : 1 + (int64_t)((r >> (12 + 3 * d)) % 8), w->kernel[d] = filter[2 + d];
    w->stride[d] = stride, w->dilation[d] = 1;
    shape[2 + d] = 16 + (int64_t)((r >> (20 + 4 * d)) % 9);
    w->before[d] = turn == 2 ? 3 : (int64_t)((r >> (40 + d)) % 4),
    w->after[d] = turn == 2 ? 3 : (int64_t)((r >> 44) % 4);
    result[2 + d] = (shape[2 + d] + w->before[d] + w->after[d] - filter[2 + d]) / stride + 1;
  }
  snprintf(label, sizeof label, "folded %s: %lldx%lldx%lldx%lld by %lldx%lldx%lld stride %lld", rdt_dtype_name(type),
           (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3], (long long)filter[0],
           (long long)filter[2], (long long)filter[3], (long long)stride);
  linear_add(&c, IN, image(type, 4, shape, (r >> 28) % 2), 1, seed),
      linear_add(&c, WEIGHTS, image(type, 4, filter, (r >> 29) % 2), 1, seed);
  linear_add(&c, OUT, image(type, 4, result, true), 1, seed);
  if ((r >> 30) % 2) linear_add(&c, BIAS, rdt_tensor_dense(NULL, type, 1, &result[1]), 2, seed);
  if ((r >> 31) % 2) linear_add(&c, RESIDUAL, c.t[OUT], 2, seed);
  linear_ready(&c, RDT_KOP_CONV, 1.0, 1.0, some_act(r >> 36, true));
  linear_compute(&c);
  check_clean(&c, "fc", true);
  check_fault(&c, "fc", 1, seed);
  check_folded_copy(&c);
  if (turn % 4 == 0) check_clean(&c, NULL, true), check_clean(&c, "none", true);
  linear_free(&c);
}

/* Memory keeps what was written after it was given out, however much there is to clear before it. */
static void check_memory(void) {
  enum { BUSY = 1 << 30, TIMES = 8 };
  rdt_reason why;
  void *busy, *p;
  int back[1024], host[1024];
  for (int i = 0; i < 1024; i++) host[i] = i + 1;
  gpu_must(rdt_cuda_alloc(BUSY, &busy, &why), "memory", &why);
  for (int i = 0; i < TIMES; i++) cudaMemsetAsync(busy, i, BUSY, NULL);
  gpu_must(rdt_cuda_alloc(sizeof host, &p, &why), "memory", &why);
  gpu_must(rdt_cuda_put(p, host, sizeof host, stream, &why), "memory", &why);
  gpu_must(rdt_cuda_wait(stream, &why), "memory", &why);
  cudaDeviceSynchronize();
  gpu_must(rdt_cuda_get(back, p, sizeof back, stream, &why), "memory", &why);
  snprintf(label, sizeof label, "memory");
  if (memcmp(back, host, sizeof host) != 0) complain("is cleared after it was written");
  rdt_cuda_free(p), rdt_cuda_free(busy);
}

int main(int argc, char **argv) {
  rdt_reason why;
  int version;
  uint64_t seed = 23;
  quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  for (int t = 0; argc > 2 && t < RDT_DTYPE_COUNT; t++) {
    left_out[t] = true;
    for (int i = 2; i < argc; i++) left_out[t] = left_out[t] && strcmp(argv[i], rdt_dtype_name((rdt_dtype)t)) != 0;
  }
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const bool blas = rdt_blas_version(&version, &why) == RDT_OK;
  printf("cuBLASLt: %s", blas ? "" : why.text);
  if (blas) printf("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  const bool dnn = rdt_dnn_version(&version, &why) == RDT_OK;
  printf("; cuDNN: %s", dnn ? "" : why.text);
  if (dnn) printf("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  printf("\n");
  check_memory();
  for (int turn = 0; blas && turn < (quick ? TYPES : 12 * TYPES); turn++) one_product(&seed, turn);
  for (int t = 0; blas && t < 4; t++) check_pair(types[t], &seed);
  for (int turn = 0; blas && turn < (quick ? 3 : 24); turn++) one_batch(&seed, turn);
  for (int turn = 0; dnn && turn < (quick ? 3 : 48); turn++) one_conv(&seed, turn);
  for (int turn = 0; dnn && turn < (quick ? 4 : 12); turn++) one_curve(&seed, turn);
  for (int turn = 0; turn < (quick ? 8 : 48); turn++) one_wide(&seed, turn);
  for (int t = 0; t < 4; t++) check_bias_ahead(t / 2 ? RDT_BF16 : RDT_F16, t % 2 ? "row" : "none", &seed);
  for (int turn = 0; turn < (quick ? 4 : 32); turn++) one_folded(&seed, turn);
  for (int turn = 0; turn < (quick ? 0 : 12); turn++) one_tall(&seed, turn);
  printf("%lld of the ops by kernels of few columns\n", (long long)by_tall);
  printf("gpu-linear: %lld ops, %lld elements, %lld bit-sums, %lld faults, %lld refused: %lld wrong\n", (long long)ops,
         (long long)elements, (long long)sums_formed, (long long)faults, (long long)refused, (long long)wrong);
  return wrong ? 1 : 0;
}
