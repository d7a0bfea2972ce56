/* cumsum and topk: line by line along one axis. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"

/* Where line i begins in t. */
static int64_t line_at(const rdt_tensor *t, int axis, int64_t i) {
  int64_t at = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == axis) continue;
    at += i % t->shape[d] * t->stride[d];
    i /= t->shape[d];
  }
  return at;
}

static int64_t lines_of(const rdt_tensor *t, int axis) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= d == axis ? 1 : t->shape[d];
  return n;
}

/* ---- cumsum ---- */

enum { PIECE = 256 };

/* Floats sum in double, integers modulo 2^64. */
static void sum_line(const rdt_problem *p, const rdt_tensor *x, const rdt_tensor *y, int64_t from, int64_t to) {
  const bool real = rdt_dtype_is_float(x->dtype), back = p->ints[1] != 0;
  const rdt_dtype type = real ? RDT_F64 : RDT_S64;
  rdt_load_fn *const load = rdt_loader_to(x->dtype, type);
  rdt_store_fn *const store = rdt_storer_from(y->dtype, type);
  const int64_t n = x->shape[p->axis], xs = back ? -x->stride[p->axis] : x->stride[p->axis],
                ys = back ? -y->stride[p->axis] : y->stride[p->axis];
  if (back) from += (n - 1) * x->stride[p->axis], to += (n - 1) * y->stride[p->axis];
  double sum = 0;
  uint64_t whole = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    const int64_t m = n - i < PIECE ? n - i : PIECE;
    double v[PIECE];
    int64_t w[PIECE];
    load(real ? (void *)v : w, rdt_at(x, from + i * xs), xs, m);
    for (int64_t k = 0; k < m; k++) {
      const double before = sum;
      const uint64_t until = whole;
      if (real)
        sum += v[k], v[k] = p->ints[0] ? before : sum;
      else
        whole += (uint64_t)w[k], w[k] = (int64_t)(p->ints[0] ? until : whole);
    }
    store(rdt_at(y, to + i * ys), ys, real ? (void *)v : w, m);
  }
}

static rdt_status run_cumsum(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const int64_t total = rdt_tensor_count(y), lines = total ? lines_of(y, s->p.axis) : 0;
  (void)why;
#pragma omp parallel for num_threads(total < 8192 ? 1 : s->threads) schedule(static)
  for (int64_t i = 0; i < lines; i++) sum_line(&s->p, x, y, line_at(x, s->p.axis, i), line_at(y, s->p.axis, i));
  return RDT_OK;
}

/* ---- topk ---- */

typedef struct entry {
  int64_t key, at; /* the higher key comes first, then the lower place */
} entry;

static bool before(const entry *a, const entry *b) {
  return a->key != b->key ? a->key > b->key : a->at < b->at;
}

static int compare(const void *a, const void *b) {
  return before(a, b) ? -1 : before(b, a);
}

/* Numbers in their order, or in the opposite one. */
static int64_t key_of(const rdt_tensor *x, int64_t at, bool lowest) {
  int64_t key;
  if (rdt_dtype_is_float(x->dtype)) {
    const double v = rdt_load(x->data, x->dtype, at) + 0.0; /* one zero */
    if (isnan(v)) return INT64_MAX;
    memcpy(&key, &v, sizeof key);
    if (key < 0) key ^= INT64_MAX;
  } else {
    key = rdt_load_int(x->data, x->dtype, at);
  }
  return lowest ? ~key : key;
}

/* The last of those kept is at the top of the heap. */
static void sink(entry *heap, int64_t n) {
  for (int64_t i = 0, next = 1; next < n; i = next, next = 2 * i + 1) {
    if (next + 1 < n && before(&heap[next], &heap[next + 1])) next++;
    if (!before(&heap[i], &heap[next])) return;
    const entry kept = heap[i];
    heap[i] = heap[next];
    heap[next] = kept;
  }
}

static void rise(entry *heap, int64_t i) {
  while (i > 0 && before(&heap[(i - 1) / 2], &heap[i])) {
    const entry kept = heap[i];
    heap[i] = heap[(i - 1) / 2];
    heap[(i - 1) / 2] = kept;
    i = (i - 1) / 2;
  }
}

static rdt_status run_topk(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const int axis = s->p.axis;
  const int64_t total = rdt_tensor_count(x), k = y->shape[axis], lines = k && total ? lines_of(y, axis) : 0;
  const int team = total < 4096 || lines < 2 ? 1 : s->threads;
  int missing = 0;
#pragma omp parallel for num_threads(team) schedule(static) reduction(+ : missing)
  for (int64_t i = 0; i < lines; i++) {
    entry *const heap = rdt_alloc((size_t)k, sizeof *heap);
    const int64_t from = line_at(x, axis, i), to = line_at(y, axis, i);
    if (!heap) {
      missing++;
      continue;
    }
    for (int64_t e = 0; e < x->shape[axis]; e++) {
      const entry next = {key_of(x, from + e * x->stride[axis], s->p.ints[0] != 0), e};
      if (e < k) {
        heap[e] = next;
        rise(heap, e);
      } else if (before(&next, heap)) {
        heap[0] = next;
        sink(heap, k);
      }
    }
    qsort(heap, (size_t)k, sizeof *heap, compare);
    for (int64_t e = 0; e < k; e++) ((int64_t *)y->data)[to + e * y->stride[axis]] = heap[e].at;
    rdt_free(heap);
  }
  return missing ? rdt_fail(why, RDT_ERR_NOMEM, "no memory for the first %lld", (long long)k) : RDT_OK;
}

RDT_GENERIC_KERNEL(cumsum_generic, CUMSUM, GENERIC, rdt_generic_accept_any, run_cumsum);
RDT_GENERIC_KERNEL(topk_generic, TOPK, GENERIC, rdt_generic_accept_any, run_topk);
