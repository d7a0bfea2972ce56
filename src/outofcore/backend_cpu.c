/* Between disk and memory. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cpu/threads.h"
#include "outofcore/block.h"
#include "outofcore/strassen.h"

typedef struct host {
  double before;  /* bytes of the process in memory when it was opened */
  bool forgets;   /* the system counts the most since then */
  unsigned asked; /* for workspaces */
  rdt_backend_room room;
} host;

/* Bytes of the process in memory: now, and at most; of these, files that are mapped, the program's own code among them,
 * which is nobody's. */
typedef struct resident {
  double own, files, shared, most;
} resident;

static resident look(void) {
  resident r = {0.0, 0.0, 0.0, 0.0};
  const struct {
    const char *line;
    double *to;
  } lines[] = {
      {"RssAnon: %lf", &r.own}, {"RssFile: %lf", &r.files}, {"RssShmem: %lf", &r.shared}, {"VmHWM: %lf", &r.most}};
  char line[128];
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
      if (sscanf(line, lines[i].line, lines[i].to) == 1) *lines[i].to *= 1024.0;
  if (f) fclose(f);
  return r;
}

static bool forget_most(void) {
  FILE *f = fopen("/proc/self/clear_refs", "we");
  const bool put = f && fputs("5", f) >= 0;
  return f && fclose(f) == 0 && put;
}

static rdt_status open_host(const char *device, rdt_dtype in, int threads, void **dev, rdt_reason *why) {
  host *h = rdt_calloc(1, sizeof *h);
  (void)device, (void)in, (void)threads;
  if (!h) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  h->forgets = forget_most();
  h->before = look().own;
  *dev = h;
  return RDT_OK;
}

static double taken(void *dev) {
  const host *h = dev;
  const resident r = look();
  const double most = h->forgets ? r.most - r.files - r.shared : 0.0;
  return (most > r.own ? most : r.own) - h->before;
}

static double available(void *dev) {
  (void)dev;
  return rdt_memory_available();
}

static rdt_status take(void *dev, size_t bytes, void **memory, rdt_reason *why) {
  (void)dev;
  malloc_trim(0); /* what a trial and the choice of blocks have given back would stay in memory beside it */
  *memory = rdt_alloc(bytes, 1);
  return *memory ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory for %zu bytes of buffers", bytes);
}

static void release(void *dev, void *memory) {
  (void)dev;
  rdt_free(memory);
}

static void lend(void *dev, const rdt_backend_room *room) {
  ((host *)dev)->room = *room;
}

/* Blocks are chosen by these alone, so that the bits of a result, which depend on how the reduction is cut, do not
 * depend on what was measured when. */
static rdt_rates usual(rdt_dtype in) {
  (void)in;
  return (rdt_rates){.load = 1e9, .store = 1e9, .multiply = 1e11, .check = 1e10};
}

/* ---- products ---- */

static rdt_status problem_of(const rdt_block_product *p, rdt_problem *prob) {
  RDT_TRY(rdt_problem_init(prob, RDT_KOP_GEMM, 2));
  prob->in[0] = p->a;
  prob->in[1] = p->b;
  prob->out = p->c;
  prob->in[0].data = prob->in[1].data = prob->out.data = NULL;
  prob->acc = rdt_dtype_accumulator(p->a.dtype);
  if (!p->add) return RDT_OK;
  prob->epilogue.residual = prob->out;
  prob->epilogue.beta = 1.0;
  return RDT_OK;
}

/* Own kernels: all of their memory is known beforehand, and their bits depend on nothing but the operands. */
static const rdt_kernel *kernel_for(const rdt_context *ctx, const rdt_problem *prob, bool other) {
  int n;
  rdt_reason why;
  const rdt_kernel *const *all = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && !other; i++)
    if (all[i]->op == prob->op && !all[i]->black_box && all[i]->isa <= ctx->isa && all[i]->accept(prob, &why) == RDT_OK)
      return all[i];
  return rdt_cpu_reference(prob);
}

static rdt_status open_kernel(const rdt_context *ctx, const rdt_block_product *p, bool other, int threads,
                              const rdt_kernel **k, void **state, rdt_reason *why) {
  rdt_problem prob;
  rdt_status status = problem_of(p, &prob);
  if (status == RDT_OK) {
    *k = kernel_for(ctx, &prob, other);
    status = (*k)->create(&prob, threads, state, why);
  } else {
    rdt_fail(why, status, "out of memory for a product of blocks");
  }
  rdt_problem_clear(&prob);
  return status;
}

static rdt_status workspace(void *dev, const rdt_context *ctx, const rdt_block_product *p, bool protected, int threads,
                            rdt_backend_space *out, rdt_reason *why) {
  const rdt_kernel *k;
  void *state;
  enum { OFTEN = 512 }; /* times, each of which leaves some 90 bytes of the heap in pieces */
  (void)protected;
  if (++((host *)dev)->asked % OFTEN == 0) malloc_trim(0);
  *out = (rdt_backend_space){0};
  RDT_TRY(open_kernel(ctx, p, false, threads, &k, &state, why));
  if (k->scratch) out->lane = k->scratch(state, NULL);
  k->destroy(state);
  if (!rdt_strassen_fits(p)) return RDT_OK;
  for (int add = 0; add < 2; add++) {
    size_t halves;
    rdt_backend_space more;
    rdt_block_product h = rdt_strassen_halves(p, NULL, &halves);
    h.add = add;
    RDT_TRY(workspace(dev, ctx, &h, protected, threads, &more, why));
    if (more.lane > out->lane) out->lane = more.lane;
  }
  return RDT_OK;
}

static rdt_status multiply_once(void *dev, const rdt_context *ctx, int lane, const rdt_block_product *p, bool other,
                                int threads, rdt_reason *why) {
  const rdt_kernel *k;
  void *state;
  rdt_epilogue e = RDT_EPILOGUE_NONE;
  const rdt_tensor in[2] = {p->a, p->b};
  const rdt_operands o = {.in = in, .n_in = 2, .out = p->c, .epilogue = p->add ? &e : NULL};
  if (p->add) e.residual = p->c, e.beta = 1.0;
  RDT_TRY(open_kernel(ctx, p, other, threads, &k, &state, why));
  const rdt_backend_room *room = &((host *)dev)->room;
  if (k->scratch && !other && k->scratch(state, NULL) <= room->space.lane) k->scratch(state, room->workspace[lane]);
  const int before = rdt_threads_enter(threads);
  const rdt_status status = k->run(state, &o, why);
  rdt_threads_leave(before);
  k->destroy(state);
  return status;
}

typedef struct halving { /* whose lane it is, for Strassen's scheme */
  void *dev;
  const rdt_context *ctx;
  int lane, threads;
} halving;

static rdt_status multiply_halves(void *user, const rdt_block_product *p, rdt_reason *why) {
  const halving *h = user;
  return multiply_once(h->dev, h->ctx, h->lane, p, false, h->threads, why);
}

#define ADD(T)                                                                            \
  static void add_##T(T *to, const T *x, const T *y, int64_t n, bool kept, double sign) { \
    const T s = (T)sign;                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                     \
      const T z = y ? x[i] + s * y[i] : s * x[i];                                         \
      to[i] = kept ? to[i] + z : z;                                                       \
    }                                                                                     \
  }
ADD(float)
ADD(double)

static rdt_status add_halves(void *user, const rdt_tensor *to, bool kept, const rdt_tensor *x, const rdt_tensor *y,
                             double sign, rdt_reason *why) {
  const halving *h = user;
  const bool columns = to->stride[1] != 1;
  const int64_t lines = to->shape[columns], length = to->shape[!columns];
  const size_t size = rdt_dtype_size(to->dtype);
  (void)why;
#pragma omp parallel for num_threads(h->threads)
  for (int64_t i = 0; i < lines; i++) {
    char *line = (char *)to->data + (size_t)(i * to->stride[columns]) * size;
    const char *from = (const char *)x->data + (size_t)(i * x->stride[columns]) * size;
    const char *other = y ? (const char *)y->data + (size_t)(i * y->stride[columns]) * size : NULL;
    if (to->dtype == RDT_F64)
      add_double((void *)line, (const void *)from, (const void *)other, length, kept, sign);
    else
      add_float((void *)line, (const void *)from, (const void *)other, length, kept, sign);
  }
  return RDT_OK;
}

static rdt_status multiply(void *dev, const rdt_context *ctx, int lane, const rdt_block_product *p, bool other,
                           int threads, rdt_reason *why) {
  if (other || !rdt_strassen_fits(p)) return multiply_once(dev, ctx, lane, p, other, threads, why);
  halving h = {dev, ctx, lane, threads};
  const rdt_strassen_ops ops = {&h, add_halves, multiply_halves};
  return rdt_strassen_run(p, ((host *)dev)->room.halves[lane], &ops, why);
}

/* ---- checks ---- */

static bool squares_beta(rdt_dtype in) { /* where checks round like the product, both squares matter as much */
  return in == RDT_F64;
}

static rdt_status no_memory(rdt_status status, rdt_reason *why) {
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "out of memory for the sums of a block");
}

static rdt_status operand_sums(const rdt_tensor *x, int axis, const double *signs, rdt_pair sums, rdt_reason *why) {
  const rdt_side side = {.weight = {(double *)signs, NULL}, .sum = sums, .block = x->shape[axis]};
  rdt_sums pass = {.x = *x};
  *(axis == 0 ? &pass.left : &pass.right) = side;
  return no_memory(rdt_sums_run(&pass, 1, 1), why);
}

static size_t bytes_of(const rdt_tensor *t) {
  return (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
}

enum { PIECE = 1 << 18 /* bytes that are summed while a cache has them */ };

/* Some lines of the file's: loaded, added to the seal, summed. Lines along the axis that is summed over give parts of
 * the sums. */
static rdt_status load_piece(rdt_loading *l, int64_t from, int64_t count, rdt_reason *why) {
  const rdt_matrix *m = l->m;
  const int lines = m->fortran, x = l->axis; /* lines: the dimension that they count */
  rdt_part_of part = l->part;
  const int64_t length = m->fortran ? part.rows : part.cols;
  const size_t at = (size_t)(from * length) * rdt_dtype_size(m->dtype);
  *(lines ? &part.col : &part.row) += from;
  *(lines ? &part.cols : &part.rows) = count;
  const rdt_tensor t = rdt_matrix_view(m, &part, (char *)l->to.data + at);
  const double began = rdt_clock();
  RDT_TRY(rdt_matrix_read(m, &part, t.data, why));
  l->seconds += rdt_clock() - began;
  if (!l->protected) return RDT_OK;
  l->seal += rdt_bitsum_apart(t.data, at, bytes_of(&t));
  const rdt_pair all = {l->sums, l->sums + l->most};
  const double *signs = l->signs + (lines == x ? from : 0);
  const int64_t k = t.shape[1 - x];
  rdt_pair to = {all.dot + (lines == x ? 0 : from), all.sq + (lines == x ? 0 : from)};
  if (lines == x && from > 0) to = (rdt_pair){all.sq + l->most, all.sq + 2 * l->most};
  RDT_TRY(operand_sums(&t, x, signs, to, why));
  for (int64_t i = 0; to.dot != all.dot && lines == x && i < k; i++) {
    all.dot[i] += to.dot[i];
    all.sq[i] += to.sq[i];
  }
  return RDT_OK;
}

static rdt_status load(void *dev, rdt_loading *l, rdt_reason *why) {
  const bool fortran = l->m->fortran;
  const int64_t lines = fortran ? l->part.cols : l->part.rows, length = fortran ? l->part.rows : l->part.cols;
  const int64_t fit = PIECE / (length * (int64_t)rdt_dtype_size(l->m->dtype)), piece = fit > 1 ? fit : 1;
  (void)dev;
  l->seal = 0;
  for (int64_t at = 0; at < lines; at += piece)
    RDT_TRY(load_piece(l, at, lines - at < piece ? lines - at : piece, why));
  if (!l->protected) return RDT_OK;
  const int64_t k = l->axis == 0 ? l->part.cols : l->part.rows;
  double *dot = l->sums, *sq = dot + l->most;
  for (int64_t t = 0; t < k && squares_beta(l->m->dtype); t++)
    if (!(dot[t] * dot[t] <= sq[t])) sq[t] = dot[t] * dot[t];
  if (l->strassen) rdt_strassen_fold(sq, k);
  return RDT_OK;
}

static rdt_status store(void *dev, const rdt_matrix *m, const rdt_part_of *part, const rdt_tensor *from, uint64_t *sum,
                        rdt_reason *why) {
  (void)dev;
  RDT_TRY(rdt_matrix_write(m, part, from->data, why));
  *sum = rdt_bitsum_shared(from->data, bytes_of(from), 1);
  return RDT_OK;
}

static rdt_status begin(rdt_block *b, rdt_reason *why) {
  (void)b, (void)why;
  return RDT_OK;
}

static void add(rdt_block_side *s, int64_t n, bool first, bool strassen) {
  if (strassen) rdt_strassen_fold(s->step.sq, n);
  for (int64_t i = 0; i < n; i++) {
    s->expected.dot[i] += s->step.dot[i];
    s->expected.sq[i] += (strassen ? RDT_STRASSEN_FACTOR : 1.0) * s->step.sq[i];
    if (!first) s->between[i] += s->observed.sq[i]; /* as the last check has seen it */
  }
}

static rdt_status expect(rdt_block *b, const rdt_tensor *a, const rdt_tensor *m, double *const sums[2], int64_t most,
                         rdt_reason *why) {
  const int64_t k = a->shape[1];
  const rdt_pair alpha = {sums[0], sums[0] + most}, beta = {sums[1], sums[1] + most};
  const rdt_sums passes[2] = {{.x = *a, .right = {.weight = beta, .sum = b->side[0].step, .block = k}},
                              {.x = *m, .left = {.weight = alpha, .sum = b->side[1].step, .block = k}}};
  RDT_TRY(no_memory(rdt_sums_run(passes, 2, b->threads), why));
  for (int axis = 0; axis < 2; axis++) add(&b->side[axis], b->c.shape[axis], b->steps == 0, b->strassen);
  return RDT_OK;
}

static rdt_status observe(rdt_block *b, rdt_findings *f, bool *judged, uint64_t *seal, rdt_reason *why) {
  const rdt_block_side *rows = &b->side[0], *cols = &b->side[1];
  (void)f;
  *judged = false;
  if (seal) *seal = rdt_bitsum_shared(b->c.data, bytes_of(&b->c), b->threads); /* first: the check is one of that */
  const rdt_sums pass = {
      .x = b->c,
      .right = {.weight = {(double *)rows->weight, NULL}, .sum = rows->observed, .block = b->c.shape[1]},
      .left = {.weight = {(double *)cols->weight, NULL}, .sum = cols->observed, .block = b->c.shape[0]}};
  return no_memory(rdt_sums_run(&pass, 1, b->threads), why);
}

static rdt_status seal_of(void *dev, int lane, const rdt_tensor *x, int threads, uint64_t *sum, rdt_reason *why) {
  (void)dev, (void)lane, (void)why;
  *sum = rdt_bitsum_shared(x->data, bytes_of(x), threads);
  return RDT_OK;
}

static rdt_status changed(void *dev, int lane, int axis, const rdt_tensor *x, uint64_t seal, int threads, bool *yes,
                          rdt_reason *why) {
  uint64_t now;
  (void)axis;
  RDT_TRY(seal_of(dev, lane, x, threads, &now, why));
  *yes = now != seal;
  return RDT_OK;
}

static rdt_status wait_lane(void *dev, int lane, rdt_reason *why) {
  (void)dev, (void)lane, (void)why;
  return RDT_OK;
}

static double product_seconds(void *dev) {
  (void)dev;
  return 0.0;
}

static rdt_status get(void *dev, int lane, void *to, const void *from, size_t bytes, int64_t count, size_t apart,
                      rdt_reason *why) {
  (void)dev, (void)lane, (void)why;
  for (int64_t i = 0; i < count; i++)
    memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)i * apart, bytes);
  return RDT_OK;
}

static rdt_status put(void *dev, int lane, void *to, const void *from, size_t bytes, rdt_reason *why) {
  (void)dev, (void)lane, (void)why;
  memcpy(to, from, bytes);
  return RDT_OK;
}

static rdt_accumulator accumulator(void *dev, int lane, rdt_dtype in, rdt_dtype out, int *splits) {
  (void)dev, (void)lane;
  *splits = 0;
  return rdt_accumulator_of(in, out);
}

/* A line takes 1 us: 0.6 of tmpfs, 1.3 of a disk's pages in memory, lines of 0.3 to 2 KB. */
const rdt_backend rdt_backend_cpu = {.name = "cpu",
                                     .copies = true,
                                     .unit = 16,
                                     .tile = 1,
                                     .align = 1,
                                     .line = 1e3,
                                     .trial = (size_t)16 << 20,
                                     .trial_side = 768,
                                     .usual = usual,
                                     .open = open_host,
                                     .close = rdt_free,
                                     .available = available,
                                     .taken = taken,
                                     .alloc = take,
                                     .release = release,
                                     .workspace = workspace,
                                     .lend = lend,
                                     .load = load,
                                     .store = store,
                                     .multiply = multiply,
                                     .begin = begin,
                                     .expect = expect,
                                     .observe = observe,
                                     .changed = changed,
                                     .seal = seal_of,
                                     .wait = wait_lane,
                                     .product_seconds = product_seconds,
                                     .get = get,
                                     .put = put,
                                     .accumulator = accumulator};
