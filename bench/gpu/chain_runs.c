/* Which layers of a chain go together, as one launch (cuda/mlp.h): those of as many rows, of which each reads all that
 * the one before it writes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "turns.h"

/* ROWS: of more, a multiprocessor's blocks wait for each other, and a layer for itself fills the device. */
enum { KNOWN = 1024, LAUNCHES = 8, ROWS = 8192, LAYERS = 256 };

typedef struct measured { /* a run that was tried */
  bool protect;
  int length;
  chain_shape shapes[RDT_CUDA_MLP_LAYERS];
  double us; /* infinite: it is refused */
} measured;

typedef struct contender {
  const chain_bench *b;
  const chain_layer *l;
  void *const *trial;
} contender;

static bool launch(void *user, int i, cudaStream_t stream) {
  const contender *c = user;
  (void)i;
  return chain_launch(c->b, c->l, c->trial[0], c->trial[1], stream);
}

static double measure(const chain_bench *b, const measured *m, void *const *weights, void *const trial[2]) {
  chain_layer l;
  turns t, *const list = &t;
  contender c = {b, &l, trial};
  double us = INFINITY;
  if (!chain_make_run(b, m->protect, m->shapes, weights, m->length, trial, &l)) return INFINITY;
  if (turns_capture(&t, LAUNCHES, launch, &c, b->stream)) {
    turns_take(&list, 1, 1, 9, b->stream);
    us = 1e6 * turns_at(&t, 0.5);
    turns_free(&t);
  }
  chain_drop(&l);
  return us;
}

static double time_of(const chain_bench *b, bool protect, const chain_shape *shapes, void *const *weights, int length,
                      void *const trial[2]) {
  static measured known[KNOWN];
  static int n_known;
  measured m = {.protect = protect, .length = length};
  memcpy(m.shapes, shapes, (size_t)length * sizeof *shapes);
  for (int i = 0; i < n_known; i++)
    if (known[i].protect == protect && known[i].length == length &&
        memcmp(known[i].shapes, m.shapes, sizeof m.shapes) == 0)
      return known[i].us;
  m.us = measure(b, &m, weights, trial);
  if (n_known < KNOWN) known[n_known++] = m;
  return m.us;
}

static bool follows(const chain_shape *before, const chain_shape *s) {
  return before->m == s->m && before->n == s->k;
}

int chain_find_runs(const chain_bench *b, bool protect, const chain_shape *shapes, const double *us,
                    void *const *weights, int layers, void *const trial[2], chain_run *list) {
  double least[LAYERS + 1] = {0.0}, took[LAYERS + 1]; /* of the first layers; of the last launch among these */
  int length[LAYERS + 1], n = 0;                      /* of that launch */
  if (b->device.major != 9 || layers > LAYERS) return 0;
  for (int end = 1; end <= layers; end++) {
    least[end] = least[end - 1] + us[end - 1], length[end] = 1, took[end] = us[end - 1];
    for (int first = end - 2; first >= 0 && end - first <= RDT_CUDA_MLP_LAYERS; first--) {
      if (!follows(&shapes[first], &shapes[first + 1]) || shapes[first].m > ROWS) break;
      const double x = time_of(b, protect, &shapes[first], &weights[first], end - first, trial);
      if (least[first] + x < least[end]) least[end] = least[first] + x, length[end] = end - first, took[end] = x;
    }
  }
  for (int end = layers; end > 0; end -= length[end]) {
    double apart = 0.0;
    if (length[end] == 1) continue;
    for (int i = end - length[end]; i < end; i++) apart += us[i];
    list[n++] = (chain_run){end - length[end], length[end], took[end], apart};
  }
  for (int i = 0; i < n / 2; i++) { /* in their order */
    const chain_run swap = list[i];
    list[i] = list[n - 1 - i], list[n - 1 - i] = swap;
  }
  return n;
}
