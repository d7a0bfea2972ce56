/* make gpu-check: three copies of a product and their vote (cuda/thrice.h), schemes tmr-kernel and tmr-sm; screens
 * of all multiprocessors (screen/).
 *     gpu_tmr [TRIALS | --quick [own]]
 * TRIALS: bad multiprocessors under copies (default 100); --quick: few small shapes, for compute-sanitizer; own:
 * without cuBLASLt's products.
 *
 * Votes against the same on the host, on copies with differences planted in one, in two alike, in all three; products
 * of every datatype, with copies that are hit on their way; groups of multiprocessors, one of which is wrong; screens
 * of a device as it is, and with one that is wrong, another one each time. 1 where anything was wrong, 77 (skipped)
 * without a GPU. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/blas.h"
#include "cuda/groups.h"
#include "cuda/linear.h"
#include "cuda/sms_args.h"
#include "cuda/thrice.h"
#include "gpu.h"
#include "screen/screen.h"

static rdt_cuda_device device;
static cudaStream_t stream;
static int64_t votes, planted, products, faults, outvoted, screens, wrong;

static void complain(const char *what) {
  if (++wrong <= 40) printf("WRONG %s\n", what);
}

static void *allocate(size_t bytes) {
  void *p = malloc(bytes + 1);
  if (!p) gpu_die("malloc", "out of memory");
  return p;
}

/* ---- votes ---- */

typedef struct copies {
  rdt_tensor t; /* of out; on the device */
  size_t bytes, skip;
  char *host[RDT_VOTERS], *expected;
  rdt_thrice_ballot ballot;
} copies;

static void *there(const copies *c, const rdt_thrice *t, int i) {
  return i ? rdt_thrice_copy(t, i, c->t.data) : c->t.data;
}

static int64_t offset_of(const copies *c, int64_t e) {
  const int64_t n = c->t.shape[1], size = (int64_t)rdt_dtype_size(c->t.dtype);
  return (e / n * c->t.stride[0] + e % n) * size;
}

static void flip(char *at, size_t size, uint64_t *seed) {
  at[gpu_random(seed) % size] ^= (char)(1 << gpu_random(seed) % 8);
}

/* What one element comes to. */
static void judge(copies *c, int64_t e) {
  const size_t size = rdt_dtype_size(c->t.dtype), at = (size_t)offset_of(c, e);
  const char *x = c->host[0] + at, *y = c->host[1] + at, *z = c->host[2] + at;
  const bool xy = memcmp(x, y, size) == 0, xz = memcmp(x, z, size) == 0, yz = memcmp(y, z, size) == 0;
  memcpy(c->expected + at, !xy && !xz && yz ? y : x, size);
  if (xy && xz) return;
  const int loser = xy ? 2 : xz ? 1 : yz ? 0 : -1;
  int64_t *count = loser < 0 ? &c->ballot.undecided : &c->ballot.lost[loser];
  int64_t *first = loser < 0 ? &c->ballot.first_undecided : &c->ballot.first[loser];
  if ((*count)++ == 0) *first = e;
}

static void plant(copies *c, int64_t differences, uint64_t *seed) {
  const int64_t count = c->t.shape[0] * c->t.shape[1];
  const size_t size = rdt_dtype_size(c->t.dtype);
  for (int64_t i = 0; i < differences; i++) {
    const size_t at = (size_t)offset_of(c, (int64_t)(gpu_random(seed) % (uint64_t)count));
    const int kind = (int)(gpu_random(seed) % 5), other = (kind + 1) % RDT_VOTERS;
    if (kind < RDT_VOTERS) { /* in one */
      flip(c->host[kind] + at, size, seed);
    } else if (kind == 3) { /* alike in two: they outvote the right one */
      flip(c->host[other] + at, size, seed);
      memcpy(c->host[(other + 1) % RDT_VOTERS] + at, c->host[other] + at, size);
    } else { /* in all three; some of which may be alike after all */
      for (int v = 0; v < RDT_VOTERS; v++) flip(c->host[v] + at, size, seed);
    }
    planted++;
  }
}

static void compare(const copies *c, const rdt_thrice_ballot *b, const rdt_cuda_verdict *v, const char *back) {
  char what[200];
  const int64_t lost = c->ballot.lost[0] + c->ballot.lost[1] + c->ballot.lost[2];
  snprintf(what, sizeof what, "vote on %s %lldx%lld pitch %lld skip %zu", rdt_dtype_name(c->t.dtype),
           (long long)c->t.shape[0], (long long)c->t.shape[1], (long long)c->t.stride[0], c->skip);
  if (memcmp(b, &c->ballot, sizeof *b) != 0) complain(what);
  if (v->suspect != (uint64_t)lost || v->certain != (uint64_t)c->ballot.undecided || v->cannot) complain(what);
  if (memcmp(back, c->expected, c->bytes) != 0) complain(what);
  for (uint32_t i = 0; i < v->listed && i < RDT_CUDA_LISTED; i++) {
    const rdt_cuda_finding *l = &v->list[i];
    copies one = *c;
    one.ballot = (rdt_thrice_ballot){.undecided = 0};
    one.expected = allocate(c->bytes);
    judge(&one, l->row * c->t.shape[1] + l->column);
    const bool right = l->k_first < 0 ? one.ballot.undecided == 1 && l->complaint == RDT_CUDA_CERTAIN
                                      : one.ballot.lost[l->k_first] == 1 && l->complaint == (int)RDT_CUDA_OUTVOTED;
    if (!right) complain(what);
    free(one.expected);
  }
}

static void one_vote(rdt_dtype type, int64_t m, int64_t n, int64_t gap, int64_t skip, int64_t differences,
                     uint64_t *seed) {
  rdt_reason why = {""};
  rdt_thrice *t;
  void *memory;
  const size_t size = rdt_dtype_size(type);
  copies c = {.t = {.dtype = type, .rank = 2}, .skip = (size_t)skip * size};
  c.t.shape[0] = m, c.t.shape[1] = n, c.t.stride[0] = n + gap, c.t.stride[1] = 1;
  c.bytes = (size_t)(m * (n + gap)) * size;
  gpu_must(rdt_cuda_alloc(c.bytes + c.skip, &memory, &why), "copies", &why);
  c.t.data = (char *)memory + c.skip;
  gpu_must(rdt_thrice_create(&c.t, NULL, NULL, NULL, stream, &t, &why), "votes", &why);
  for (int v = 0; v < RDT_VOTERS; v++) c.host[v] = allocate(c.bytes);
  c.expected = allocate(c.bytes);
  for (size_t i = 0; i < c.bytes; i++) c.host[0][i] = (char)gpu_random(seed);
  for (int v = 1; v < RDT_VOTERS; v++) memcpy(c.host[v], c.host[0], c.bytes);
  plant(&c, differences, seed);
  memcpy(c.expected, c.host[0], c.bytes); /* gaps */
  c.ballot = (rdt_thrice_ballot){.first = {-1, -1, -1}, .first_undecided = -1, .first_again = -1};
  for (int64_t e = 0; e < m * n; e++) judge(&c, e);
  for (int v = 0; v < RDT_VOTERS; v++)
    gpu_must(rdt_cuda_put(there(&c, t, v), c.host[v], c.bytes, stream, &why), "copies", &why);
  rdt_thrice_ballot found;
  rdt_cuda_verdict verdict;
  char *back = allocate(c.bytes);
  gpu_must(rdt_thrice_vote(t, c.t.data, stream, &why), "a vote", &why);
  gpu_must(rdt_cuda_get(&verdict, rdt_thrice_verdict(t), sizeof verdict, stream, &why), "a vote", &why);
  gpu_must(rdt_thrice_read(t, stream, &found, &why), "a vote", &why);
  gpu_must(rdt_cuda_get(back, c.t.data, c.bytes, stream, &why), "a vote", &why);
  compare(&c, &found, &verdict, back);
  /* What was decided stays so, and what was found is forgotten: once more, of the result as it is. */
  const rdt_thrice_ballot before = c.ballot;
  gpu_must(rdt_thrice_vote(t, c.t.data, stream, &why), "a vote", &why);
  gpu_must(rdt_thrice_read(t, stream, &found, &why), "a vote", &why);
  if (found.lost[0] != 0 || found.lost[1] != before.lost[1] || found.undecided != before.undecided)
    complain("a second vote");
  votes += 2;
  rdt_thrice_destroy(t);
  rdt_cuda_free(memory);
  for (int v = 0; v < RDT_VOTERS; v++) free(c.host[v]);
  free(c.expected), free(back);
}

static void check_votes(bool quick, uint64_t *seed) {
  static const rdt_dtype types[] = {RDT_F16, RDT_F32, RDT_F64, RDT_S32, RDT_S8};
  for (int i = 0; i < (quick ? 10 : 300); i++) {
    const rdt_dtype type = types[i % 5];
    const int64_t m = 1 + (int64_t)(gpu_random(seed) % (quick ? 9 : 200)),
                  n = 1 + (int64_t)(gpu_random(seed) % (quick ? 70 : 900)), kind = (int64_t)(gpu_random(seed) % 4);
    one_vote(type, m, n,
             kind == 1   ? 16 - n % 16
             : kind == 2 ? 3
                         : 0,
             kind == 3 ? 1 : 0, (int64_t)(gpu_random(seed) % 40), seed);
  }
  if (!quick) one_vote(RDT_F16, 3000, 2048, 0, 0, 3000, seed); /* more than the grid takes at once */
}

/* ---- products ---- */

typedef struct maker { /* of cuBLASLt; copies are hit behind their launch */
  rdt_blas *blas;
  int copy, calls; /* copy -1: it makes all of them, one after the other */
  bool hit[RDT_VOTERS];
  size_t at;
  unsigned char byte[RDT_VOTERS];
} maker;

static rdt_status launch(void *user, const rdt_operands *o, void *on, rdt_reason *why) {
  maker *m = user;
  const int copy = m->copy < 0 ? m->calls++ % RDT_VOTERS : m->copy;
  const rdt_blas_operands x = {.a = o->in[0].data, .b = o->in[1].data, .c = o->out.data};
  RDT_TRY(rdt_blas_launch(m->blas, &x, on, why));
  if (!m->hit[copy]) return RDT_OK;
  return rdt_cuda_status(cudaMemsetAsync((char *)o->out.data + m->at, m->byte[copy], 1, on), "a fault", why);
}

static rdt_blas *library_of(const gpu_case *c, const gpu_shape *s) {
  rdt_reason why = {""};
  rdt_blas *b;
  const rdt_tensor *in = c->in, *out = &c->p.out;
  const rdt_blas_product p = {.in = {s->in, s->in},
                              .out = s->out,
                              .m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .batches = 1,
                              .a = {in[0].stride[0], in[0].stride[1]},
                              .b = {in[1].stride[0], in[1].stride[1]},
                              .c = out->stride[0],
                              .alpha = 1.0};
  const rdt_blas_operands x = {.a = in[0].data, .b = in[1].data, .c = out->data};
  gpu_must(rdt_blas_create(&p, &x, stream, &b, &why), "cuBLASLt", &why);
  return b;
}

static bool near(const gpu_case *c, const gpu_shape *s) {
  const double out = rdt_dtype_info(s->out)->u, acc = s->in == RDT_F64 ? 0x1p-53 : 0x1p-22;
  for (int64_t i = 0; i < s->m; i++)
    for (int64_t j = 0; j < s->n; j++) {
      const int64_t e = i * s->n + j;
      const double limit = 2.0 * out * fabs(c->exact[e]) + (s->k + 8) * acc * c->magnitude[e] + 0x1p-24;
      if (!(fabs(gpu_case_value(c, i, j) - c->exact[e]) <= (s->in == RDT_S8 ? 0.0 : limit))) return false;
    }
  return true;
}

static rdt_thrice_ballot run(rdt_thrice *t, const gpu_case *c) {
  rdt_reason why = {""};
  rdt_thrice_ballot b;
  gpu_must(rdt_thrice_launch(t, &c->o, stream, &why), "three copies", &why);
  gpu_must(rdt_thrice_read(t, stream, &b, &why), "three copies", &why);
  return b;
}

/* Each copy hit alone, two alike, all three. many: copies have makers of their own. */
static void hit_copies(gpu_case *c, const gpu_shape *s, bool many, uint64_t *seed) {
  rdt_reason why = {""};
  maker m[RDT_VOTERS] = {{.blas = library_of(c, s), .copy = many ? 0 : -1}};
  rdt_thrice_makers makers = {.launch = launch};
  rdt_thrice *t;
  const size_t size = rdt_dtype_size(s->out);
  for (int i = 0; i < RDT_VOTERS; i++) {
    if (i > 0) m[i].copy = i;
    if (i > 0) gpu_must(rdt_blas_twin(m[0].blas, &m[i].blas, &why), "another one", &why);
    makers.of[i] = &m[many ? i : 0];
  }
  gpu_must(rdt_thrice_create(&c->p.out, &makers, NULL, &c->o, stream, &t, &why), "three copies", &why);
  const rdt_thrice_ballot clean = run(t, c);
  gpu_case_fetch(c);
  if (clean.lost[0] + clean.lost[1] + clean.lost[2] + clean.undecided != 0) complain("copies of a clean product");
  if (!near(c, s)) complain("a product of three copies");
  unsigned char *golden = allocate(c->bytes[2]);
  memcpy(golden, c->host[2], c->bytes[2]);
  for (int kind = 0; kind < 5; kind++) {
    const int64_t row = (int64_t)(gpu_random(seed) % (uint64_t)s->m),
                  column = (int64_t)(gpu_random(seed) % (uint64_t)s->n), e = row * s->n + column;
    const size_t at = (size_t)(row * c->p.out.stride[0] + column) * size + gpu_random(seed) % size;
    for (int i = 0; i < RDT_VOTERS; i++)
      for (int k = 0; k < RDT_VOTERS; k++) {
        m[i].at = at;
        m[i].hit[k] = kind == 4 || k == kind || (kind == 3 && k < 2);
        m[i].byte[k] = golden[c->skip[2] + at] ^ (unsigned char)(kind == 4 ? 1 << k : 0x40);
      }
    for (int again = 0; again < 2; again++) { /* it loses wherever it is hit, again and again */
      const rdt_thrice_ballot b = run(t, c);
      gpu_case_fetch(c);
      const bool good = memcmp(golden, c->host[2], c->bytes[2]) == 0;
      faults++;
      if (kind < 3 && (!good || b.lost[kind] != 1 || b.first[kind] != e || b.undecided))
        complain("a copy that was hit");
      if (kind == 3 && (good || b.lost[2] != 1)) complain("two copies that were hit alike");
      if (kind == 4 && (b.undecided != 1 || b.first_undecided != e)) complain("three copies that were hit");
    }
  }
  for (int i = 0; i < RDT_VOTERS; i++) memset(m[i].hit, 0, sizeof m[i].hit);
  const rdt_thrice_ballot after = run(t, c);
  gpu_case_fetch(c);
  if (after.lost[0] + after.undecided != 0 || memcmp(golden, c->host[2], c->bytes[2]) != 0)
    complain("a run after those that were hit");
  free(golden);
  rdt_thrice_destroy(t);
  for (int i = 0; i < RDT_VOTERS; i++) rdt_blas_destroy(m[i].blas);
}

/* As networks have it, captured and as it comes: the scheme. */
static void scheme(gpu_case *c, const gpu_shape *s, const char *name) {
  rdt_reason why = {""};
  rdt_cuda_linear *l;
  rdt_cuda_verdict v;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  const rdt_box_sum_to nowhere = {NULL, NULL};
  gpu_must(rdt_cuda_linear_create(&device, &c->p, name, 6.0, stream, &l, &why), name, &why);
  if (strcmp(rdt_cuda_linear_scheme(l), name) != 0 || rdt_cuda_linear_blocks(l)) complain("what it is called");
  for (int captured = 0; captured < 2; captured++) {
    gpu_case_poison(c);
    if (captured && cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
      gpu_die("capture", "refused");
    gpu_must(rdt_cuda_linear_launch(l, &c->o, nowhere, stream, &why), "tmr-kernel", &why);
    if (captured) {
      if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess ||
          cudaGraphLaunch(exec, stream) != cudaSuccess)
        gpu_die("capture", "failed");
    }
    gpu_must(rdt_cuda_get(&v, rdt_cuda_linear_verdict(l), sizeof v, stream, &why), "tmr-kernel", &why);
    gpu_case_fetch(c);
    if (v.suspect | v.certain | v.cannot | v.listed) complain("tmr-kernel of clean data complains");
    if (!near(c, s)) complain("a result of tmr-kernel");
    if (!gpu_case_gaps_kept(c)) complain("tmr-kernel wrote between rows");
    if (captured) (void)cudaGraphExecDestroy(exec), (void)cudaGraphDestroy(graph);
  }
  rdt_cuda_linear_destroy(l);
  products++;
}

static void check_products(bool quick, uint64_t *seed) {
  const rdt_sm_groups *groups;
  rdt_reason why;
  const bool apart = rdt_sm_groups_of_device(-1, &groups, &why) == RDT_OK;
  static const rdt_dtype types[][2] = {{RDT_F16, RDT_F16},   {RDT_F32, RDT_F32}, {RDT_F64, RDT_F64},
                                       {RDT_BF16, RDT_BF16}, {RDT_S8, RDT_S32},  {RDT_F16, RDT_F32}};
  for (int i = 0; i < (quick ? 6 : 24); i++) {
    const rdt_dtype in = types[i % 6][0], out = types[i % 6][1];
    const bool plain = in == RDT_S8;
    gpu_shape s = {.m = 16 + (int)(gpu_random(seed) % 200),
                   .n = 16 * (1 + (int)(gpu_random(seed) % 14)),
                   .k = 16 * (1 + (int)(gpu_random(seed) % 20)),
                   .gap = i % 4 == 1 ? 16 : 0,
                   .in = in,
                   .out = out,
                   .bias = !plain && i % 3 == 1,
                   .relu = !plain && i % 3 != 0,
                   .residual = !plain && i % 5 == 2,
                   .columns = in == RDT_S8,
                   .alpha = 1.0,
                   .beta = i % 5 == 2 ? 1.0 : 0.0,
                   .data = GPU_NORMAL};
    gpu_case c;
    gpu_case_make(&c, &s, seed, true);
    scheme(&c, &s, "tmr-kernel");
    if (apart) scheme(&c, &s, "tmr-sm");
    gpu_case_free(&c);
    s.bias = s.relu = s.residual = false, s.beta = 0.0;
    gpu_case_make(&c, &s, seed, true);
    hit_copies(&c, &s, i / 6 % 2 == 0, seed);
    gpu_case_free(&c);
  }
}

/* ---- copies on different multiprocessors ---- */

static bool belongs(const rdt_sm_group *g, int sm) {
  for (int i = 0; i < g->n; i++)
    if (g->sms[i] == sm) return true;
  return false;
}

/* A graph of launches on all groups, replayed: what a group is given runs on its multiprocessors, and on no others. */
static void check_groups(int avoid) {
  rdt_reason why = {""};
  const rdt_sm_groups *groups;
  unsigned *counts[RDT_GROUPS], list[RDT_SMS_ROOM];
  cudaEvent_t begun, done;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  int all = 0;
  gpu_must(rdt_sm_groups_of_device(avoid, &groups, &why), "groups", &why);
  cudaEventCreate(&begun), cudaEventCreate(&done);
  for (int i = 0; i < RDT_GROUPS; i++) gpu_must(rdt_cuda_alloc(sizeof list, (void **)&counts[i], &why), "groups", &why);
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) gpu_die("capture", "refused");
  cudaEventRecord(begun, stream);
  for (int i = 0; i < RDT_GROUPS; i++) {
    const cudaStream_t on = rdt_sm_groups_at(groups, i)->stream;
    void *arguments[] = {&counts[i]};
    cudaStreamWaitEvent(on, begun, 0);
    if (cudaLaunchKernel(rdt_sms_where, (dim3){1000, 1, 1}, (dim3){64, 1, 1}, arguments, 0, on) != cudaSuccess)
      gpu_die("a group", "refused");
    cudaEventRecord(done, on);
    cudaStreamWaitEvent(stream, done, 0);
  }
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess)
    gpu_die("capture", "failed");
  for (int i = 0; i < 20; i++) cudaGraphLaunch(exec, stream);
  for (int i = 0; i < RDT_GROUPS; i++) {
    const rdt_sm_group *g = rdt_sm_groups_at(groups, i);
    gpu_must(rdt_cuda_get(list, counts[i], sizeof list, stream, &why), "groups", &why);
    for (int sm = 0; sm < RDT_SMS_ROOM; sm++)
      if (list[sm] && !belongs(g, sm)) complain("a group ran elsewhere");
    if (belongs(g, avoid)) complain("a multiprocessor that was to be avoided");
    for (int k = 0; k < i; k++)
      for (int s = 0; s < g->n; s++)
        if (belongs(rdt_sm_groups_at(groups, k), g->sms[s])) complain("groups that share a multiprocessor");
    all += g->n;
    rdt_cuda_free(counts[i]);
  }
  if (all < device.sms - (avoid >= 0 ? 8 : 0) - 2) complain("groups without all multiprocessors");
  (void)cudaGraphExecDestroy(exec), (void)cudaGraphDestroy(graph), (void)cudaEventDestroy(begun);
  (void)cudaEventDestroy(done);
}

/* One multiprocessor is wrong every time: the copy of its group loses, no other, and the result is right. */
static void check_bad_multiprocessors(int trials, uint64_t *seed) {
  rdt_reason why = {""};
  const rdt_sm_groups *groups;
  const rdt_cuda_kernel *kernel = rdt_cuda_kernel_find("gemm_f16_mma_64x64_thread1");
  gpu_shape s = {.m = 1024, .n = 1024, .k = 96, .in = RDT_F16, .out = RDT_F16, .alpha = 1.0, .data = GPU_NORMAL};
  gpu_case c;
  rdt_cuda_gemm *g;
  rdt_thrice *t;
  gpu_must(rdt_sm_groups_of_device(-1, &groups, &why), "groups", &why);
  gpu_case_make(&c, &s, seed, false);
  gpu_must(rdt_cuda_gemm_create(kernel, &device, &c.p, 6.0, 0, stream, &g, &why), kernel->name, &why);
  gpu_must(rdt_thrice_create(&c.p.out, NULL, groups, NULL, stream, &t, &why), "three copies", &why);
  gpu_must(rdt_cuda_gemm_run(g, &c.o, stream, &why), kernel->name, &why);
  gpu_must(rdt_cuda_wait(stream, &why), kernel->name, &why);
  gpu_case_fetch(&c);
  void *golden = allocate(c.bytes[2]);
  memcpy(golden, c.host[2], c.bytes[2]);
  for (int i = 0; i < trials; i++) {
    const rdt_sm_group *in = rdt_sm_groups_at(groups, i % RDT_GROUPS);
    const int sm = in->sms[gpu_random(seed) % (uint64_t)in->n];
    rdt_thrice_ballot b;
    for (int copy = 0; copy < RDT_VOTERS; copy++) {
      rdt_cuda_verdict found;
      rdt_cuda_strike strike = {.hit = {.element = (int64_t)(gpu_random(seed) % 1024), .mask = 0x00400000}, .sm = sm};
      rdt_operands o = c.o;
      if (copy) o.out.data = rdt_thrice_copy(t, copy, c.o.out.data);
      gpu_must(rdt_cuda_gemm_strike(g, &o, 0, &strike, 1, &found, rdt_thrice_stream(t, copy), &why), "a strike", &why);
      if (strike.hit.done != (copy == i % RDT_GROUPS)) complain("a multiprocessor that computed another copy");
    }
    gpu_must(rdt_thrice_vote(t, c.o.out.data, stream, &why), "a vote", &why);
    gpu_must(rdt_thrice_read(t, stream, &b, &why), "a vote", &why);
    gpu_case_fetch(&c);
    for (int copy = 0; copy < RDT_VOTERS; copy++)
      if ((b.lost[copy] > 0) != (copy == i % RDT_GROUPS)) complain("who lost to a bad multiprocessor");
    if (b.undecided || memcmp(golden, c.host[2], c.bytes[2]) != 0) complain("a result with a bad multiprocessor");
    outvoted++;
  }
  free(golden);
  rdt_thrice_destroy(t);
  rdt_cuda_gemm_destroy(g);
  gpu_case_free(&c);
}

static void check_apart(bool quick, int trials, uint64_t *seed) {
  rdt_reason why = {""};
  const rdt_sm_groups *groups;
  if (rdt_sm_groups_of_device(-1, &groups, &why) != RDT_OK) {
    printf("skip copies on different multiprocessors: %s\n", why.text);
    return;
  }
  check_groups(-1);
  check_groups(rdt_sm_groups_at(groups, 1)->sms[3]);
  check_bad_multiprocessors(quick ? 3 : trials, seed);
}

/* ---- screens ---- */

/* The bad one is named, and nobody else; core -1: nobody is. */
static void one_screen(rdt_sms *m, const char *kind, int core, const char *more, int level, double seconds,
                       int retests) {
  rdt_screen s;
  rdt_fault f;
  rdt_reason why = {""};
  char spec[128];
  snprintf(spec, sizeof spec, "%s@accum,core=%d%s", kind, core, more);
  if (core >= 0) gpu_must(rdt_fault_parse(spec, &f, &why), "fault", &why);
  gpu_must(rdt_screen_run(
               &(rdt_screen_job){
                   .level = level, .seconds = seconds, .retests = retests, .fault = core >= 0 ? &f : NULL, .sms = m},
               &s, &why),
           "a screen", &why);
  if (s.n_units != device.sms || s.bad != (core >= 0)) complain(spec);
  for (int u = 0; u < s.n_units; u++) {
    const rdt_screen_unit *x = &s.units[u];
    if (x->products < s.cases) complain("a multiprocessor with too few products");
    if ((x->failures > 0) != (x->core == core)) complain(spec);
    if (!x->failures) continue;
    const rdt_screen_failed *first = &x->failed[0];
    const rdt_tensor *c = &s.known[first->known].c;
    if (!first->bits || first->expected != rdt_load(c->data, c->dtype, first->row * c->shape[1] + first->column))
      complain("what a screen says of a failure");
    if (core < 0)
      printf("WRONG %s, %s: %.17g for %.17g at %lld, %lld\n", s.paths[first->path].name,
             rdt_known_pattern_name(s.known[first->known].pattern), first->actual, first->expected,
             (long long)first->row, (long long)first->column);
  }
  screens++;
  rdt_screen_clear(&s);
}

static void check_screens(bool quick, uint64_t *seed) {
  static const char *const kinds[][2] = {
      {"stuck1:22", ""}, {"stuck0:20", ""}, {"bit:13", ""}, {"bit", ",lane=3"}, {"random", ",rate=0.5"}};
  const int retests = gpu_daily(quick) ? 1 : 4;
  rdt_reason why = {""};
  rdt_sms *m;
  gpu_must(rdt_sms_open(0, &m, &why), "multiprocessors", &why);
  if (m->n_paths != (device.major == 9 ? 9 : 7)) complain("paths of a screen");
  one_screen(m, "", -1, "", 1, quick ? 1e-3 : 1.0, retests);
  if (!quick) one_screen(m, "", -1, "", 2, 1.0, retests);
  for (int i = 0; i < (quick ? 2 : 100); i++)
    one_screen(m, kinds[i % 5][0], m->units[gpu_random(seed) % (uint64_t)m->n_units], kinds[i % 5][1], 1,
               quick ? 1e-3 : 0.02, retests);
  m->close(m);
}

int main(int argc, char **argv) {
  rdt_reason why;
  uint64_t seed = 41;
  int version;
  const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  if (rdt_cuda_count(&why) == 0) {
    printf("skip: %s\n", why.text);
    return 77;
  }
  gpu_must(rdt_cuda_open(0, &device, &why), "cuda:0", &why);
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  check_votes(quick, &seed);
  if (argc > 2)
    printf("own kernels alone\n");
  else if (rdt_blas_version(&version, &why) == RDT_OK)
    check_products(quick, &seed);
  else
    printf("skip products: %s\n", why.text);
  check_apart(quick, argc > 1 ? atoi(argv[1]) : 100, &seed);
  check_screens(quick, &seed);
  printf(
      "gpu-tmr: %lld votes on %lld differences, %lld products, %lld hit copies, %lld bad multiprocessors, %lld "
      "screens: %lld wrong\n",
      (long long)votes, (long long)planted, (long long)products, (long long)faults, (long long)outvoted,
      (long long)screens, (long long)wrong);
  return wrong ? 1 : 0;
}
