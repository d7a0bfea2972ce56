/* scatter: the first input with elements set, or combined, at indices. One thread goes through all updates of a place
 * in their order, so that the bits do not depend on how many there are: they share a dimension that no index moves
 * along. */
#include "cpu/generic/index.h"
#include "cpu/generic/move.h"

/* What is at `to` and an update, together: floats in double and rounded once, integers modulo their width. */
static void combine(void *to, const void *from, rdt_dtype t, rdt_fn fn) {
  if (rdt_dtype_is_float(t)) {
    const double x = rdt_load(to, t, 0), y = rdt_load(from, t, 0);
    const bool nan = x != x || y != y;
    rdt_store(to, t, 0,
              fn == RDT_FN_ADD                ? x + y
              : fn == RDT_FN_MUL              ? x * y
              : nan                           ? x + y
              : (fn == RDT_FN_MIN) == (y < x) ? y
                                              : x);
    return;
  }
  const int64_t x = rdt_load_int(to, t, 0), y = rdt_load_int(from, t, 0);
  rdt_store_int(to, t, 0,
                fn == RDT_FN_ADD                ? (int64_t)((uint64_t)x + (uint64_t)y)
                : fn == RDT_FN_MUL              ? (int64_t)((uint64_t)x * (uint64_t)y)
                : (fn == RDT_FN_MIN) == (y < x) ? y
                                                : x);
}

/* Updates whose place along dimension d is within [from, to); false where an index is out of range. */
static bool scatter_part(const rdt_problem *p, const rdt_index *ix, const rdt_operands *o, const rdt_tensor *base,
                         int d, int64_t from, int64_t to, int64_t *wrong, int *which) {
  const size_t bytes = rdt_dtype_size(o->out.dtype);
  rdt_tensor updates = o->in[1];
  if (d >= 0) {
    updates.shape[d] = to - from;
    updates.data = rdt_at(&updates, from * updates.stride[d]);
  }
  rdt_iter it = rdt_iter_begin(&updates);
  while (rdt_iter_next(&it)) {
    int64_t offset = 0, at[RDT_MAX_RANK] = {0};
    for (int i = 0; i < updates.rank; i++) {
      const int64_t index = it.index[i] + (i == d ? from : 0);
      offset += index * base->stride[i];
      for (int k = 0; k < ix->count; k++) at[k] += index * o->in[2 + k].stride[i];
    }
    if (!rdt_index_add(ix, o->in + 2, at, &offset, wrong, which)) return false;
    if (p->fn == RDT_FN_NONE)
      rdt_move_one(rdt_at(&o->out, offset), rdt_at(&updates, it.offset), bytes);
    else
      combine(rdt_at(&o->out, offset), rdt_at(&updates, it.offset), o->out.dtype, p->fn);
  }
  return true;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *updates = &o->in[1];
  const rdt_index ix = rdt_index_of(&s->p, &o->out);
  const rdt_tensor base = rdt_index_base(&s->p, &o->out, updates);
  rdt_move_view(&o->out, &o->in[0], s->threads);
  if (rdt_tensor_count(updates) == 0) return RDT_OK;
  int d = -1;
  for (int i = 0; i < updates->rank; i++)
    if (s->p.ints[RDT_MAX_RANK + i] >= 0 && (d < 0 || updates->shape[i] > updates->shape[d])) d = i;
  const int64_t length = d < 0 ? 1 : updates->shape[d], parts = length < s->threads ? length : s->threads;
  int64_t failed = INT64_MAX;
#pragma omp parallel for num_threads((int)parts) schedule(static) reduction(min : failed)
  for (int64_t part = 0; part < parts; part++) {
    int64_t wrong;
    int which;
    if (!scatter_part(&s->p, &ix, o, &base, d, length * part / parts, length * (part + 1) / parts, &wrong, &which) &&
        part < failed)
      failed = part;
  }
  if (failed == INT64_MAX) return RDT_OK;
  int64_t wrong = 0;
  int which = 0;
  scatter_part(&s->p, &ix, o, &base, d, length * failed / parts, length * (failed + 1) / parts, &wrong, &which);
  return rdt_index_fail(&ix, wrong, which, why);
}

RDT_GENERIC_KERNEL(scatter_generic, SCATTER, GENERIC, rdt_generic_accept_any, run);
