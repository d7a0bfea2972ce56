/* gather: elements of the input at indices. Where the indices stay the same along the output's rows, whole rows are
 * moved. An index that is out of range ends the run with an error that names it. */
#include "cpu/generic/index.h"
#include "cpu/generic/move.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"

/* A piece of the output; false where an index is out of range: *wrong is its value then, *axis its number. */
static bool gather_piece(const rdt_index *ix, const rdt_walk *w, int64_t piece, const rdt_operands *o, int64_t *wrong,
                         int *which) {
  const size_t bytes = rdt_dtype_size(o->out.dtype);
  int64_t at[RDT_WALK_VIEWS];
  const int64_t n = rdt_walk_piece(w, piece, at);
  char *to = rdt_at(&o->out, at[0]);
  bool row = true;
  for (int k = 0; k < ix->count; k++) row = row && w->step[2 + k] == 0;
  if (row) {
    int64_t offset = at[1];
    if (!rdt_index_add(ix, o->in + 1, at + 2, &offset, wrong, which)) return false;
    rdt_move_run(to, w->step[0], rdt_at(&o->in[0], offset), w->step[1], n, bytes);
    return true;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t offset = at[1];
    if (!rdt_index_add(ix, o->in + 1, at + 2, &offset, wrong, which)) return false;
    rdt_move_one(to + i * w->step[0] * (int64_t)bytes, rdt_at(&o->in[0], offset), bytes);
    for (int v = 1; v < w->views; v++) at[v] += w->step[v];
  }
  return true;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_index ix = rdt_index_of(&s->p, &o->in[0]);
  const rdt_tensor base = rdt_index_base(&s->p, &o->in[0], &o->out);
  const rdt_tensor *views[RDT_WALK_VIEWS] = {&o->out, &base};
  for (int k = 0; k < ix.count; k++) views[2 + k] = &o->in[1 + k];
  const rdt_walk w = rdt_walk_of(views, 2 + ix.count);
  int64_t first = INT64_MAX;
#pragma omp parallel for num_threads(w.pieces < 16 ? 1 : s->threads) schedule(static) reduction(min : first)
  for (int64_t piece = 0; piece < w.pieces; piece++) {
    int64_t wrong;
    int which;
    if (!gather_piece(&ix, &w, piece, o, &wrong, &which) && piece < first) first = piece;
  }
  if (first == INT64_MAX) return RDT_OK;
  int64_t wrong = 0;
  int which = 0;
  gather_piece(&ix, &w, first, o, &wrong, &which);
  return rdt_index_fail(&ix, wrong, which, why);
}

RDT_GENERIC_KERNEL(gather_generic, GATHER, GENERIC, rdt_generic_accept_any, run);
