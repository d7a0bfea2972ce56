/* The elementwise op: y = f(operands) element by element, over views of any strides and datatypes. Runs that are dense
 * in the compute type are read and written where they lie, others by way of buffers. The rows differ only by the table
 * of functions that their ISA has. */
#include <string.h>

#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"
#include "cpu/maps.h"
#include "cpu/threads.h"

enum { OPERANDS = 3 };

rdt_map_run *rdt_map_find(const rdt_map_table *t, rdt_fn fn, rdt_dtype compute) {
  return compute == RDT_F64 ? t->f64[fn] : compute == RDT_F32 ? t->f32[fn] : compute == RDT_S64 ? t->s64[fn] : NULL;
}

/* Mixed operands are computed in what loses none of them. */
static rdt_dtype compute_type(const rdt_problem *p) {
  const rdt_dtype x = rdt_map_type(p->in[0].dtype);
  if (rdt_fn_info(p->fn)->class == RDT_CLASS_SELECT) return rdt_map_type(p->out.dtype);
  if (rdt_fn_info(p->fn)->class != RDT_CLASS_POWER) return x;
  const rdt_dtype y = rdt_map_type(p->in[1].dtype);
  return x == y || x == RDT_F64 || (x == RDT_F32 && y == RDT_S64) ? x : RDT_F64;
}

typedef struct job {
  rdt_walk walk;
  const rdt_tensor *views[1 + OPERANDS];
  rdt_map_run *run; /* NULL: the identity */
  const double *param;
  rdt_load_fn *load[1 + OPERANDS]; /* NULL: read where it lies */
  rdt_store_fn *store;             /* NULL: written where it lies */
  size_t size;                     /* of an element of the compute type */
} job;

static void do_piece(const job *j, int64_t piece) {
  _Alignas(64) int64_t buffer[1 + OPERANDS][RDT_WALK_PIECE];
  const void *x[OPERANDS];
  int64_t offset[RDT_WALK_VIEWS];
  const int64_t n = rdt_walk_piece(&j->walk, piece, offset);
  for (int v = 1; v < j->walk.views; v++) {
    x[v - 1] = rdt_at(j->views[v], offset[v]);
    if (!j->load[v]) continue;
    j->load[v](buffer[v], x[v - 1], j->walk.step[v], n);
    x[v - 1] = buffer[v];
  }
  void *const out = rdt_at(j->views[0], offset[0]);
  void *const y = j->store ? buffer[0] : out;
  if (j->run) j->run(y, x, n, j->param);
  if (j->store)
    j->store(out, j->walk.step[0], j->run ? y : x[0], n);
  else if (!j->run)
    memmove(y, x[0], (size_t)n * j->size);
}

static void do_pieces(const void *job_of_all, int64_t from, int64_t to, int thread) {
  (void)thread;
  for (int64_t piece = from; piece < to; piece++) do_piece(job_of_all, piece);
}

static rdt_status run_table(void *state, const rdt_operands *o, const rdt_map_table *table) {
  const rdt_generic *s = state;
  const rdt_dtype compute = compute_type(&s->p);
  job j = {.run = rdt_map_find(table, s->p.fn, compute),
           .param = s->p.param,
           .views = {&o->out},
           .size = rdt_dtype_size(compute)};
  for (int i = 0; i < o->n_in; i++) j.views[i + 1] = &o->in[i];
  j.walk = rdt_walk_of(j.views, o->n_in + 1);
  for (int v = 1; v < j.walk.views; v++) {
    const rdt_dtype t = j.views[v]->dtype;
    j.load[v] = t == compute && (j.walk.step[v] == 1 || j.walk.length == 1) ? NULL : rdt_loader_to(t, compute);
  }
  if (o->out.dtype != compute || (j.walk.step[0] != 1 && j.walk.length != 1))
    j.store = rdt_storer_from(o->out.dtype, compute);
  rdt_threads_share(j.walk.pieces < 16 ? 1 : s->threads, j.walk.pieces, do_pieces, &j);
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  if (p->fn == RDT_FN_CAST || rdt_map_find(&rdt_maps_generic, p->fn, compute_type(p))) return RDT_OK;
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s of %s is not computed", rdt_problem_name(p),
                  rdt_dtype_name(p->in[0].dtype));
}

#define ROW(word, least)                                                              \
  static rdt_status run_##word(void *state, const rdt_operands *o, rdt_reason *why) { \
    (void)why;                                                                        \
    return run_table(state, o, &rdt_maps_##word);                                     \
  }                                                                                   \
  RDT_SLICED_KERNEL(map_##word, MAP, least, ANY, accept, run_##word);
ROW(generic, GENERIC)
ROW(avx2, AVX2)
ROW(avx512, AVX512)
