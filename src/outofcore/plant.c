/* Faults on request: --errors. */
#include "outofcore/pipeline_state.h"

static rdt_fault fault_of(const rdt_matmul_plant *plant, int64_t i) {
  rdt_fault f = {
      .kind = RDT_FAULT_RANDOM, .rate = 1.0, .site = plant->site, .layer = "*", .at = {-1, -1}, .core = -1, .lane = -1};
  f.seed = plant->seed * 1000003u + (uint64_t)i;
  return f;
}

static int64_t choose(const rdt_matmul_plant *plant, uint64_t stream, int64_t n) {
  const rdt_fault f = fault_of(plant, 0);
  return (int64_t)(rdt_fault_random(&f, stream) % (uint64_t)n);
}

void rdt_pipeline_choose_plant(rdt_pipeline *p) {
  const rdt_matmul_plant *plant = &p->job->asked->plant;
  const rdt_task *t = p->job->task;
  const rdt_splits *s = p->job->splits;
  p->plant_i = p->plant_j = p->plant_part = -1;
  if (plant->count < 1) return;
  p->plant_i = choose(plant, 101, rdt_blocks_of(t->m, s->m));
  p->plant_j = choose(plant, 102, rdt_blocks_of(t->n, s->n));
  p->plant_part = choose(plant, 103, rdt_blocks_of(t->k, s->k));
}

/* The element of the i-th fault: in one line, or on a diagonal. */
static void element(const rdt_matmul_plant *plant, const int64_t shape[2], int64_t i, int64_t at[2]) {
  const rdt_fault f = fault_of(plant, 0);
  const int64_t first[2] = {choose(plant, 104, shape[0]), choose(plant, 105, shape[1])};
  const rdt_along along = plant->along != RDT_ALONG_ANY ? plant->along
                          : choose(plant, 106, 2)       ? RDT_ALONG_ROW
                                                        : RDT_ALONG_COL;
  for (int axis = 0; axis < 2; axis++) {
    const bool fixed = !plant->scattered && (along == RDT_ALONG_ROW ? axis == 0 : axis == 1);
    at[axis] = fixed || i == 0 ? first[axis] : rdt_fault_position(&f, first[axis], shape[axis], (int)i);
  }
}

static int64_t most(const rdt_matmul_plant *plant, const int64_t shape[2]) {
  const int64_t least = shape[0] < shape[1] ? shape[0] : shape[1];
  int64_t room = least;
  if (!plant->scattered && plant->along == RDT_ALONG_ROW) room = shape[1];
  if (!plant->scattered && plant->along == RDT_ALONG_COL) room = shape[0];
  return plant->count < room ? plant->count : room;
}

/* One element, wherever it lies. */
static rdt_status strike(rdt_pipeline *p, const rdt_fault *f, void *at, rdt_dtype t, int lane, rdt_reason *why) {
  const rdt_task *task = p->job->task;
  const size_t size = rdt_dtype_size(t);
  double before, after, x;
  RDT_TRY(task->on->get(task->dev, lane, &x, at, size, 1, size, why));
  rdt_fault_apply(f, &x, t, 0, &before, &after);
  return task->on->put(task->dev, lane, at, &x, size, why);
}

/* Element of a block, by its strides. */
static void *address(const rdt_tensor *t, int64_t row, int64_t col) {
  return (char *)t->data + (size_t)(row * t->stride[0] + col * t->stride[1]) * rdt_dtype_size(t->dtype);
}

static rdt_status plant_block(rdt_pipeline *p, const rdt_matmul_plant *plant, const rdt_block *b, rdt_reason *why) {
  const int64_t n = most(plant, b->c.shape);
  for (int64_t i = 0; i < n; i++) {
    int64_t at[2];
    element(plant, b->c.shape, i, at);
    const rdt_fault f = fault_of(plant, i);
    RDT_TRY(strike(p, &f, address(&b->c, at[0], at[1]), b->c.dtype, b->lane, why));
  }
  p->result->planted += n;
  return RDT_OK;
}

rdt_status rdt_pipeline_plant(rdt_pipeline *p, const rdt_step *s, rdt_site site, int path, rdt_reason *why) {
  const rdt_matmul_plant *plant = &p->job->asked->plant;
  const rdt_block *b = &p->block[s->slot[2]];
  if (plant->site != site || s->i != p->plant_i || s->j != p->plant_j || s->part != p->plant_part) return RDT_OK;
  if (path > plant->paths) return RDT_OK;
  if (site == RDT_SITE_ACCUM) return plant_block(p, plant, b, why);
  const rdt_tensor a = rdt_pipeline_operand(p, s, 0);
  double *expected = b->far_memory ? b->far[0].expected.dot : b->side[0].expected.dot;
  const int64_t length = site == RDT_SITE_INPUT ? rdt_tensor_count(&a) : b->c.shape[0];
  const int64_t n = plant->count < length ? plant->count : length;
  const rdt_fault f0 = fault_of(plant, 0);
  for (int64_t i = 0; i < n; i++) {
    const rdt_fault f = fault_of(plant, i);
    const int64_t first = choose(plant, 107, length);
    const int64_t at = i == 0 ? first : rdt_fault_position(&f0, first, length, (int)i);
    if (site == RDT_SITE_INPUT)
      RDT_TRY(strike(p, &f, address(&a, at / a.shape[1], at % a.shape[1]), a.dtype, s->lane, why));
    else
      RDT_TRY(strike(p, &f, expected + at, RDT_F64, s->lane, why));
  }
  p->result->planted += n;
  return RDT_OK;
}
