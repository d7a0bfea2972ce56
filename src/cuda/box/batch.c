/* Checks of several ops, as few launches as there are kernels among them. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/box/collect.h"
#include "cuda/box/fold.h"

typedef struct rdt_box_call {
  const void *code;
  bool first; /* before all that are not */
  enum { ROWS, BANDS, FOLD, COLLECT } what;
  unsigned threads, blocks;
  union {
    rdt_rows_tasks rows;
    rdt_bands_tasks bands;
    rdt_fold_args fold;
    rdt_collect_args collect;
  } tasks;
} call;

/* One with room for a task more. */
static call *call_for(rdt_box_batch *b, const void *code, bool first, int what, unsigned threads) {
  for (int i = 0; i < b->n; i++) {
    call *c = &b->list[i];
    const bool room = what == BANDS     ? c->tasks.bands.n < RDT_BANDS_TASKS
                      : what == COLLECT ? c->tasks.collect.n < RDT_COLLECT_TASKS
                                        : what == ROWS && c->tasks.rows.n < RDT_ROWS_TASKS;
    if (c->code == code && c->first == first && c->threads == threads && room) return c;
  }
  if (b->n == b->room) {
    const int room = b->room ? 2 * b->room : 8;
    call *grown = rdt_grow(b->list, (size_t)b->n, (size_t)room, sizeof *grown);
    if (!grown) return NULL;
    b->list = grown;
    b->room = room;
  }
  call *c = &b->list[b->n++];
  *c = (call){.code = code, .first = first, .what = what, .threads = threads};
  return c;
}

rdt_status rdt_box_batch_rows(rdt_box_batch *b, const void *code, bool first, unsigned blocks, const rdt_rows_args *a,
                              rdt_reason *why) {
  call *c = call_for(b, code, first, ROWS, RDT_BOX_THREADS);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for checks");
  rdt_rows_tasks *t = &c->tasks.rows;
  t->first[t->n] = c->blocks;
  t->task[t->n++] = *a;
  c->blocks += blocks;
  return RDT_OK;
}

rdt_status rdt_box_batch_bands(rdt_box_batch *b, const void *code, unsigned threads, unsigned blocks,
                               const rdt_bands_args *a, rdt_reason *why) {
  call *c = call_for(b, code, false, BANDS, threads);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for checks");
  rdt_bands_tasks *t = &c->tasks.bands;
  t->first[t->n] = c->blocks;
  t->task[t->n++] = *a;
  c->blocks += blocks;
  return RDT_OK;
}

rdt_status rdt_box_batch_fold(rdt_box_batch *b, const void *code, unsigned blocks, const rdt_fold_args *a,
                              rdt_reason *why) {
  call *c = call_for(b, code, false, FOLD, RDT_BOX_THREADS);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for checks");
  c->tasks.fold = *a;
  c->blocks = blocks;
  return RDT_OK;
}

rdt_status rdt_box_batch_collect(rdt_box_batch *b, const rdt_box_tiles *tiles, rdt_reason *why) {
  if (!tiles->to.sum) return RDT_OK;
  call *c = call_for(b, rdt_collect_kernel, false, COLLECT, RDT_BOX_THREADS);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for checks");
  rdt_collect_args *t = &c->tasks.collect;
  t->first[t->n] = c->blocks;
  t->task[t->n++] = *tiles;
  c->blocks += tiles->blocks;
  return RDT_OK;
}

rdt_status rdt_box_batch_launch(const rdt_box_batch *b, void *stream, rdt_reason *why) {
  for (int pass = 0; pass < 3; pass++) /* last, what keeps no others waiting */
    for (int i = 0; i < b->n; i++) {
      call *c = &b->list[i];
      void *arguments[] = {&c->tasks};
      const dim3 grid = {c->blocks, 1, 1}, block = {c->threads, 1, 1};
      if (pass != (c->first ? 0 : c->what == COLLECT ? 2 : 1)) continue;
      RDT_TRY(rdt_cuda_status(cudaLaunchKernel(c->code, grid, block, arguments, 0, stream), "checks", why));
    }
  return RDT_OK;
}

void rdt_box_batch_free(rdt_box_batch *b) {
  rdt_free(b->list);
  *b = (rdt_box_batch){NULL, 0, 0};
}
