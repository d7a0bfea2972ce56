#include "cpu/generic/walk.h"

#include <stdlib.h>

/* Dimension `inner` continues `outer` in every view, so that the two are one. */
static bool continues(const rdt_walk *w, int outer, int inner) {
  for (int v = 0; v < w->views; v++) {
    if (w->stride[v][outer] != w->stride[v][inner] * w->shape[inner]) return false;
  }
  return true;
}

rdt_walk rdt_walk_of(const rdt_tensor *const *views, int n) {
  rdt_walk w = {.views = n};
  const rdt_tensor *first = views[0];
  for (int d = 0; d < first->rank; d++) { /* insertion by the first view's stride, largest outermost */
    if (first->shape[d] == 1) continue;
    int at = w.rank++;
    while (at > 0 && llabs(w.stride[0][at - 1]) < llabs(first->stride[d])) {
      w.shape[at] = w.shape[at - 1];
      for (int v = 0; v < n; v++) w.stride[v][at] = w.stride[v][at - 1];
      at--;
    }
    w.shape[at] = first->shape[d];
    for (int v = 0; v < n; v++) w.stride[v][at] = views[v]->stride[d];
  }
  int last = 0;
  for (int d = 1; d < w.rank; d++) {
    const bool merge = continues(&w, last, d);
    if (!merge) last++;
    w.shape[last] = merge ? w.shape[last] * w.shape[d] : w.shape[d];
    for (int v = 0; v < n; v++) w.stride[v][last] = w.stride[v][d];
  }
  w.length = w.rank > 0 ? w.shape[last] : 1;
  for (int v = 0; v < n; v++) w.step[v] = w.rank > 0 ? w.stride[v][last] : 1;
  w.rank = last;
  w.pieces = (w.length + RDT_WALK_PIECE - 1) / RDT_WALK_PIECE;
  for (int d = 0; d < w.rank; d++) w.pieces *= w.shape[d];
  return w;
}

int64_t rdt_walk_part(const rdt_walk *w, int64_t part, int64_t most, int64_t *offset) {
  const int64_t cuts = (w->length + most - 1) / most, at = part % cuts * most;
  int64_t run = part / cuts;
  for (int v = 0; v < w->views; v++) offset[v] = at * w->step[v];
  for (int d = w->rank - 1; d >= 0; d--) {
    const int64_t i = run % w->shape[d];
    run /= w->shape[d];
    for (int v = 0; v < w->views; v++) offset[v] += i * w->stride[v][d];
  }
  return w->length - at < most ? w->length - at : most;
}

int64_t rdt_walk_piece(const rdt_walk *w, int64_t piece, int64_t *offset) {
  return rdt_walk_part(w, piece, RDT_WALK_PIECE, offset);
}
