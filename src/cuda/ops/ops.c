#include "cuda/ops/ops.h"

#include <string.h>

#include "core/memory.h"

/* What a device kernel makes of each op; where there is nothing, its CPU kernel is what there is. */
typedef struct row {
  rdt_kop op;
  rdt_status (*fill)(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why);
} row;

static const char *const names[RDT_OP_CODES] = {
#define X(id, name, rows) "cuda_" #name,
#include "cuda/ops/kinds.def"
#undef X
    "cuda_sums", "cuda_close", "cuda_clear", "cuda_attention"};

static const int by_rows[RDT_OP_KINDS] = {
#define X(id, name, rows) rows,
#include "cuda/ops/kinds.def"
#undef X
};

const char *rdt_ops_name(int kind) {
  return names[kind];
}

enum { FEW = 264 }; /* blocks: two of a multiprocessor of the largest GPUs */

int64_t rdt_ops_blocks(const rdt_gpu_op *a) {
  const int64_t each = (int64_t)a->each * RDT_OP_THREADS;
  const int warps = RDT_OP_THREADS / 32;
  return by_rows[a->kind] == 1   ? (int64_t)a->count
         : by_rows[a->kind] == 5 ? ((int64_t)a->count + RDT_OP_ROW_WARPS - 1) / RDT_OP_ROW_WARPS
         : by_rows[a->kind] == 2 || by_rows[a->kind] == 6 ? ((int64_t)a->count + warps - 1) / warps
         : by_rows[a->kind] == 4                          ? a->tiles
                                                          : ((int64_t)a->count + each - 1) / each;
}

bool rdt_ops_halves(int kind) {
  return kind < RDT_OP_KINDS && by_rows[kind] == 5;
}

bool rdt_ops_beside(const rdt_gpu_op *a) {
  return a->check == RDT_OP_BOTH && (rdt_ops_halves(a->kind) || by_rows[a->kind] == 4) && rdt_ops_blocks(a) > FEW;
}

int64_t rdt_ops_grid(const rdt_gpu_op *a) {
  return rdt_ops_blocks(a) * (a->check == RDT_OP_BOTH && !rdt_ops_beside(a) ? 2 : 1);
}

bool rdt_ops_sums(const rdt_gpu_op *list, int n, const rdt_problem *p) {
  return n == 1 && (by_rows[list->kind] == 2 || rdt_ops_halves(list->kind)) && rdt_tensor_is_packed(&p->in[0]) &&
         rdt_tensor_count(&p->in[0]) == rdt_tensor_count(&p->out);
}

/* ---- walks ---- */

static rdt_status refuse(const rdt_problem *p, rdt_reason *why, const char *text) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: %s", rdt_problem_name(p), text);
}

static void add_view(rdt_gpu_op *a, const rdt_tensor *t) {
  rdt_op_view *v = &a->view[a->views++];
  *v = (rdt_op_view){.data = t->data, .dtype = (int32_t)t->dtype, .bytes = (int32_t)rdt_dtype_size(t->dtype)};
  memcpy(v->stride, t->stride, sizeof v->stride);
}

static void swap_dimensions(rdt_gpu_op *a, int i, int k) {
  const uint32_t length = a->length[i];
  const int32_t axis = a->axis[i];
  a->length[i] = a->length[k], a->length[k] = length;
  a->axis[i] = a->axis[k], a->axis[k] = axis;
  for (int v = 0; v < RDT_OP_VIEWS; v++) {
    const int64_t stride = a->view[v].stride[i];
    a->view[v].stride[i] = a->view[v].stride[k], a->view[v].stride[k] = stride;
  }
}

static void drop_dimension(rdt_gpu_op *a, int i) {
  a->rank--;
  if (i < a->outer) a->outer--;
  for (int k = i; k < a->rank; k++) swap_dimensions(a, k, k + 1);
}

/* Along memory as view `by` lies there, the outermost dimension first; of length 1: none. */
static void sort(rdt_gpu_op *a, int first, int end, int by) {
  for (int i = first + 1; i < end; i++)
    for (int k = i; k > first && a->view[by].stride[k - 1] < a->view[by].stride[k]; k--) swap_dimensions(a, k, k - 1);
}

/* Dimensions that all views run through as if they were one become one. */
static void merge(rdt_gpu_op *a, int first, int end) {
  for (int k = end - 1; k > first; k--) {
    bool one = true;
    for (int v = 0; v < a->views; v++) one = one && a->view[v].stride[k - 1] == a->view[v].stride[k] * a->length[k];
    if (!one) continue;
    a->length[k] *= a->length[k - 1];
    drop_dimension(a, k - 1);
  }
}

static void drop_ones(rdt_gpu_op *a) {
  for (int i = a->rank - 1; i >= 0; i--)
    if (a->length[i] == 1) drop_dimension(a, i);
}

/* All dimensions of t, each as it is. */
static void walk_over(rdt_gpu_op *a, const rdt_tensor *t) {
  a->rank = a->outer = t->rank;
  for (int d = 0; d < t->rank; d++) {
    a->length[d] = (uint32_t)t->shape[d];
    a->axis[d] = d;
  }
}

static void settle(rdt_gpu_op *a, bool merged) {
  drop_ones(a);
  sort(a, 0, a->rank, 0);
  if (merged) merge(a, 0, a->rank);
  a->outer = a->rank;
}

/* Those dimensions for which inner says so run within a row. */
static void split(rdt_gpu_op *a, const bool *inner, int by) {
  int outer = 0;
  for (int i = 0; i < a->rank; i++)
    if (!inner[a->axis[i]]) {
      for (int k = i; k > outer; k--) swap_dimensions(a, k, k - 1);
      outer++;
    }
  a->outer = outer;
  a->inner = a->count = 1;
  for (int i = 0; i < a->rank; i++) *(i < outer ? &a->count : &a->inner) *= a->length[i];
  drop_ones(a);
  sort(a, 0, a->outer, 0);
  sort(a, a->outer, a->rank, by);
  merge(a, a->outer, a->rank);
  merge(a, 0, a->outer);
}

/* Numbers in 16 bytes; 0: view v does not lie so along dimension `inner`, its innermost one. */
static int64_t packs_of(const rdt_gpu_op *a, int v, int inner) {
  const rdt_op_view *x = &a->view[v];
  const int64_t n = 16 / x->bytes;
  bool good = x->stride[inner] == 1 && (uintptr_t)x->data % 16 == 0 && x->dtype == a->view[0].dtype;
  for (int k = 0; k < a->rank; k++) good = good && (k == inner || x->stride[k] % n == 0);
  return good ? n : 0;
}

static bool narrow_float(rdt_dtype t) {
  return t == RDT_F32 || rdt_dtype_is_half(t);
}

/* Rows that a warp may have in its registers. */
static void by_warps(rdt_gpu_op *a) {
  bool good = a->rank == a->outer + 1 && a->views <= 4 && a->inner <= RDT_OP_WARP_ROW &&
              narrow_float((rdt_dtype)a->view[0].dtype);
  for (int v = 0; v < a->views && good; v++) {
    const int64_t n = packs_of(a, v, a->outer);
    good = n > 0 && a->inner % n == 0;
  }
  if (!good) return;
  const bool softmax = a->kind == RDT_OP_SOFTMAX, half = a->view[0].bytes == 2;
  if (half && a->outer > 1) return; /* its rows lie at one distance from each other */
  a->kind = softmax ? half ? RDT_OP_SOFTMAX_HALF : RDT_OP_SOFTMAX_WARP : half ? RDT_OP_NORM_HALF : RDT_OP_NORM_WARP;
}

enum { WIDE = 16 }; /* taps from which on a block shares them */

static int64_t pieces(int64_t n, int64_t of) {
  return (n + of - 1) / of;
}

/* Over images without dilation: maxima of 2 x 2 or 3 x 3, 2 apart, or means of many. */
static bool is_tiled(const rdt_gpu_op *a) {
  static const int32_t axes[] = {0, 2, 3, 1};
  const rdt_op_window *y = &a->window[0], *x = &a->window[1];
  if (a->rank != 4 || memcmp(a->axis, axes, sizeof axes) != 0 || y->dilation != 1 || x->dilation != 1) return false;
  if (a->kind == RDT_OP_AVGPOOL) return y->kernel * x->kernel >= WIDE;
  return y->stride == 2 && x->stride == 2 && y->kernel == x->kernel && (y->kernel == 2 || y->kernel == 3);
}

/* Windows over channels that lie side by side. */
static void by_packs(rdt_gpu_op *a) {
  const int last = a->rank - 1;
  int64_t n = last >= 0 && a->axis[last] == 1 && narrow_float((rdt_dtype)a->view[0].dtype) ? packs_of(a, 0, last) : 0;
  if (n == 0 || packs_of(a, 1, last) != n || a->length[last] % n != 0) return;
  for (int s = 0; s < RDT_OP_SPATIAL; s++)
    if (a->window[s].step % n != 0 && a->window[s].length > 1) return;
  const bool most = a->kind == RDT_OP_MAXPOOL, tiled = is_tiled(a);
  const int64_t packs = a->length[last] / n;
  a->each = (int32_t)n;
  a->kind = most    ? tiled ? RDT_OP_MAXPOOL_TILE : RDT_OP_MAXPOOL_PACK
            : tiled ? RDT_OP_AVGPOOL_TILE
                    : RDT_OP_AVGPOOL_PACK;
  if (tiled && most)
    a->tiles = pieces(a->length[0] * pieces(a->length[1], RDT_OP_LINES) * a->length[2] * packs, RDT_OP_THREADS);
  else if (tiled)
    a->tiles = a->count / a->length[last] * pieces(packs, RDT_OP_UNITS);
}

/* A copy of what lies side by side along another dimension than it will: by tiles, where all lies at multiples of 16
 * bytes. Few rows of the result lie one behind the other: a tile has all of them. */
static void turn(rdt_gpu_op *a) {
  const int last = a->rank - 1;
  const rdt_op_view *y = &a->view[0], *x = &a->view[1];
  const int64_t n = 16 / y->bytes;
  int k = last - 1;
  while (k >= 0 && x->stride[k] != 1) k--;
  if (k < 0 || x->stride[last] == 1 || y->stride[last] != 1 || a->length[k] % n != 0) return;
  if ((uintptr_t)x->data % 16 != 0 || (uintptr_t)y->data % 16 != 0) return;
  const int64_t high = a->length[last];
  const bool narrow = high <= RDT_OP_TURN_ROWS && y->stride[k] == high;
  if (!narrow && (high % n != 0 || y->stride[k] % n != 0)) return;
  for (int d = 0; d <= last; d++)
    if ((d != k && x->stride[d] % n != 0) || (d != k && d != last && y->stride[d] % n != 0)) return;
  for (; k < last - 1; k++) swap_dimensions(a, k, k + 1);
  const int64_t wide = a->length[last - 1], rows = high < RDT_OP_TURN_ROWS ? high : RDT_OP_TURN_ROWS;
  const int64_t others = a->count / (wide * high) * pieces(high, rows);
  int64_t columns = n;
  while (2 * columns * rows * y->bytes <= RDT_OP_TURN_BYTES && columns < wide) columns *= 2;
  while (columns > n && columns * rows * y->bytes > RDT_OP_TURN_BYTES / 4 && others * pieces(wide, columns) < FEW)
    columns /= 2;
  a->tile[0] = (int32_t)columns, a->tile[1] = (int32_t)rows;
  a->tiles = others * pieces(wide, columns);
  a->each = (int32_t)n;
  a->kind = RDT_OP_COPY_TILE;
}

/* A copy, or rows of a table, of wider elements, where those that lie side by side always go together. */
static void widen(rdt_gpu_op *a) {
  const int last = a->rank - 1;
  const int32_t n = a->rank > 0 ? 8 / a->view[0].bytes : 0;
  if (n < 2 || a->length[last] % (uint32_t)n != 0 || a->view[0].bytes != a->view[1].bytes) return;
  for (int v = 0; v < a->views; v++) {
    const rdt_op_view *x = &a->view[v];
    const bool index = v > 1;
    if (index ? a->step[v - 2] % n != 0 || x->stride[last] != 0 : x->stride[last] != 1 || (uintptr_t)x->data % 8 != 0)
      return;
    for (int k = 0; k < last && !index; k++)
      if (x->stride[k] % n != 0) return;
  }
  for (int v = 2; v < a->views; v++) a->step[v - 2] /= n;
  a->length[last] /= (uint32_t)n, a->count /= (uint32_t)n;
  for (int v = 0; v < 2; v++) {
    a->view[v].bytes = 8;
    for (int k = 0; k < last; k++) a->view[v].stride[k] /= n;
  }
}

/* Sums, differences and products of two, 16 bytes at a time. */
static void map_packs(rdt_gpu_op *a) {
  const int last = a->rank - 1;
  const int64_t n = last >= 0 && narrow_float((rdt_dtype)a->view[0].dtype) ? packs_of(a, 0, last) : 0;
  if (n == 0 || a->length[last] % n != 0 || packs_of(a, 1, last) != n || packs_of(a, 2, last) != n) return;
  if (a->fn != RDT_FN_ADD && a->fn != RDT_FN_SUB && a->fn != RDT_FN_MUL) return;
  a->kind = RDT_OP_MAP_PACK;
  a->each = (int32_t)n;
}

/* ---- ops ---- */

enum { MOST_SUMMED = 4096, MOST_PLACES = 1024 };
static const int64_t MOST_LOOKS = (int64_t)1 << 33; /* some milliseconds */

static rdt_status fill_map(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_fn_class class = rdt_fn_info(p->fn)->class;
  const rdt_dtype first = class == RDT_CLASS_SELECT ? p->out.dtype : p->in[0].dtype;
  const bool real = rdt_dtype_is_float(first);
  bool wide = real && p->out.dtype == RDT_F64;
  if (class == RDT_CLASS_POWER && !real && rdt_dtype_is_float(p->in[1].dtype))
    return refuse(p, why, "integers to a power that is none");
  for (int i = 0; i < p->n_in; i++) wide = wide || p->in[i].dtype == RDT_F64;
  if (wide && !real) return refuse(p, why, "integers and f64 together");
  a->kind = wide ? RDT_OP_MAP_F64 : real ? RDT_OP_MAP_F32 : RDT_OP_MAP_S64;
  settle(a, true);
  if (a->kind == RDT_OP_MAP_F32 && p->n_in == 2) map_packs(a);
  return RDT_OK;
}

static rdt_status fill_copy(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  (void)p, (void)why;
  a->kind = RDT_OP_COPY;
  settle(a, true);
  turn(a);
  if (a->kind == RDT_OP_COPY) widen(a);
  return RDT_OK;
}

/* Rows of a table that lies without gaps: as many words of 8 bytes as widen has made of each. */
static void by_table_rows(rdt_gpu_op *a) {
  const rdt_op_view *y = &a->view[0], *x = &a->view[1], *index = &a->view[2];
  if (a->views != 3 || a->rank != 2 || y->bytes != 8 || x->bytes != 8 || a->step[0] != a->length[1]) return;
  if (x->stride[0] != 0 || x->stride[1] != 1 || y->stride[1] != 1 || index->stride[1] != 0) return;
  a->kind = RDT_OP_GATHER_ROWS;
  a->count = a->length[0], a->inner = a->length[1];
}

bool rdt_ops_by_table_rows(const rdt_gpu_op *list, int n, int64_t *rows, size_t *bytes) {
  if (n != 1 || list->kind != RDT_OP_GATHER_ROWS) return false;
  *rows = list->bound[0], *bytes = 8 * (size_t)list->inner;
  return true;
}

static rdt_status fill_gather(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0];
  int n = 0;
  if (p->n_in + 1 > RDT_OP_VIEWS) return refuse(p, why, "indices along more than four dimensions");
  for (; n < p->n_in - 1 && p->ints[n] >= 0; n++) {
    a->bound[n] = x->shape[p->ints[n]];
    a->step[n] = x->stride[p->ints[n]];
  }
  for (int d = 0; d < p->out.rank; d++) {
    const int64_t from = p->ints[RDT_MAX_RANK + d];
    a->view[1].stride[d] = from < 0 ? 0 : x->stride[from];
  }
  a->kind = RDT_OP_GATHER;
  settle(a, true);
  widen(a);
  by_table_rows(a);
  return RDT_OK;
}

static rdt_status fill_quantize(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  (void)p, (void)why;
  a->kind = RDT_OP_QUANTIZE;
  settle(a, true);
  return RDT_OK;
}

/* Every element looks at each update that may be for it. */
static rdt_status fill_scatter(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_tensor *updates = &p->in[1];
  int64_t looks = rdt_tensor_count(&p->out);
  int n = 0;
  for (; n < RDT_MAX_RANK && p->ints[n] >= 0; n++) {
    if (n + 3 >= RDT_OP_VIEWS) return refuse(p, why, "indices along more than three dimensions");
    a->bound[n] = p->out.shape[p->ints[n]];
    a->axis[n] = (int32_t)p->ints[n];
  }
  a->listed = updates->rank;
  for (int d = 0; d < updates->rank; d++) {
    a->along[d] = (int32_t)p->ints[RDT_MAX_RANK + d];
    a->updates[d] = updates->shape[d];
    if (a->along[d] >= 0) continue;
    looks =
        updates->shape[d] > 0 && looks > MOST_LOOKS / updates->shape[d] ? MOST_LOOKS + 1 : looks * updates->shape[d];
  }
  if (looks > MOST_LOOKS) return refuse(p, why, "too many updates for so many elements");
  a->kind = RDT_OP_SCATTER;
  return RDT_OK;
}

static rdt_status fill_resize(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const int each = p->mode == RDT_RESIZE_NEAREST ? 1 : p->mode == RDT_RESIZE_LINEAR ? 2 : 4;
  int resampled = 0;
  if (p->mode != RDT_RESIZE_NEAREST && !rdt_dtype_is_float(p->out.dtype))
    return refuse(p, why, "integers are resampled to the nearest alone");
  a->kind = RDT_OP_RESIZE;
  a->mode = p->mode;
  a->places = (int32_t)p->ints[0], a->rounding = (int32_t)p->ints[1], a->exclude = p->ints[2] != 0;
  for (int d = 0; d < p->out.rank; d++) {
    const bool other = p->out.shape[d] != p->in[0].shape[d] || p->scale[d] != 1.0;
    a->taps[d] = other ? each : 0;
    a->bound[d] = p->in[0].shape[d];
    a->scale[d] = p->scale[d];
    resampled += other;
  }
  return resampled <= 4 ? RDT_OK : refuse(p, why, "more than four dimensions are resampled");
}

static rdt_status fill_cumsum(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  if (p->out.shape[p->axis] > MOST_SUMMED)
    return refuse(p, why, "lines of more than 4096 are summed one after the other");
  a->kind = RDT_OP_CUMSUM;
  a->mode = (p->ints[0] != 0) | (p->ints[1] != 0) << 1;
  for (int d = 0; d < p->out.rank; d++) a->axis[d] = d != p->axis;
  return RDT_OK;
}

/* Of rows of the input along `axis`. */
static rdt_status fill_positions(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0];
  const bool hard = p->op == RDT_KOP_SOFTMAX, several = p->op == RDT_KOP_TOPK;
  if (x->shape[p->axis] == 0) return refuse(p, why, "there is nothing in a row");
  walk_over(a, x);
  for (int k = p->axis; k + 1 < a->rank; k++) swap_dimensions(a, k, k + 1);
  a->outer = a->rank - 1;
  a->inner = x->shape[p->axis];
  a->bound[0] = several ? p->out.shape[p->axis] : 1;
  a->count = rdt_tensor_count(x) / a->inner;
  a->fn = hard ? RDT_FN_HARDMAX : several ? p->ints[0] ? RDT_FN_ARGMIN : RDT_FN_ARGMAX : (int32_t)p->fn;
  a->mode = !hard && !several && p->param[0] != 0.0;
  a->kind = RDT_OP_POSITIONS;
  if (a->bound[0] > MOST_PLACES) return refuse(p, why, "more than 1024 places in order");
  return RDT_OK;
}

static rdt_status fill_pad(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  (void)why;
  rdt_store(&a->fill, p->out.dtype, 0, p->param[0]);
  a->mode = p->mode;
  a->kind = RDT_OP_PAD;
  sort(a, 0, a->rank, 0); /* lengths of 1 may be cut from longer ones */
  for (int i = 0; i < a->rank; i++) {
    a->bound[i] = p->in[0].shape[a->axis[i]];
    a->step[i] = p->ints[a->axis[i]];
  }
  return RDT_OK;
}

static rdt_status fill_triangle(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  (void)why;
  a->kind = RDT_OP_TRIANGLE;
  a->mode = p->mode;
  a->diagonal = p->ints[0];
  settle(a, false);
  for (int i = 0; i < a->rank; i++) a->axis[i] -= p->out.rank;
  return RDT_OK;
}

enum { LONG = 1 << 15 }; /* of windows: places in the padded image stay within 32 bits */

static rdt_status fill_pool(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const bool byte = p->op == RDT_KOP_MAXPOOL && rdt_dtype_size(p->out.dtype) == 1;
  if ((!rdt_dtype_is_float(p->out.dtype) && !byte) || p->in[0].dtype != p->out.dtype)
    return refuse(p, why, "the GPU's kernel takes floats, the one of maxima bytes too, and gives the same");
  const rdt_tensor *x = &p->in[0];
  const rdt_window *w = &p->window;
  a->kind = p->op == RDT_KOP_MAXPOOL ? RDT_OP_MAXPOOL : RDT_OP_AVGPOOL;
  a->count_pad = w->count_pad;
  for (int s = 0; s < RDT_OP_SPATIAL; s++) a->window[s] = (rdt_op_window){1, 1, 1, 1, 0, 0, 0, 0};
  for (int s = 0; s < x->rank - 2; s++) {
    const int64_t parts[] = {x->shape[2 + s], w->kernel[s], w->stride[s],       w->dilation[s],
                             w->before[s],    w->after[s],  p->out.shape[2 + s]};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      if (parts[i] >= LONG) return refuse(p, why, "lengths of windows and images go up to 32767");
    a->window[s] = (rdt_op_window){
        (int32_t)x->shape[2 + s], (int32_t)w->kernel[s], (int32_t)w->stride[s], (int32_t)w->dilation[s],
        (int32_t)w->before[s],    (int32_t)w->after[s],  x->stride[2 + s],      x->stride[2 + s] * w->dilation[s]};
    a->view[1].stride[2 + s] = 0; /* the window says where it is */
  }
  sort(a, 0, a->rank, 0); /* a dimension of length 1 has a window all the same */
  by_packs(a);
  return RDT_OK;
}

/* ---- products of bytes ---- */

static bool is_byte(rdt_dtype t) {
  return t == RDT_S8 || t == RDT_U8;
}

static void add_vector(rdt_gpu_op *a, const rdt_tensor *t) {
  const rdt_tensor none = {.dtype = RDT_S32};
  add_view(a, t->rank >= 0 ? t : &none);
}

/* The dimensions of a product from `first` on as one, of this step; false: they are none. */
static bool rows_of(const rdt_tensor *t, int64_t *step) {
  int64_t count = 1;
  *step = 0;
  for (int d = t->rank - 2; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (*step == 0) *step = t->stride[d];
    if (t->stride[d] != *step * count) return false;
    count *= t->shape[d];
  }
  return true;
}

static const rdt_op_window alone = {.length = 1, .kernel = 1, .stride = 1, .dilation = 1};

/* A product: one image of one column. */
static rdt_status place_product(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1];
  const int r = x->rank;
  int64_t step, out;
  if (!rows_of(x, &step) || !rows_of(&p->out, &out) || p->out.stride[p->out.rank - 1] != 1)
    return refuse(p, why, "rows of bytes lie at one distance on the GPU");
  for (int d = 0; d < w->rank - 2; d++)
    if (w->shape[d] > 1) return refuse(p, why, "batches of products of bytes have one B on the GPU");
  const int64_t n = p->out.shape[p->out.rank - 1], k = x->shape[r - 1];
  const int64_t m = rdt_tensor_count(&p->out) / n;
  if (m > 1 && out != n) return refuse(p, why, "the GPU's kernels write results without gaps");
  if (m >= INT32_MAX) return refuse(p, why, "too many rows");
  a->length[0] = a->length[2] = 1, a->length[1] = (uint32_t)m, a->length[3] = (uint32_t)n;
  a->bound[0] = k;
  const int64_t xs[4] = {0, x->stride[r - 1], step, 0}, ws[4] = {w->stride[w->rank - 1], w->stride[w->rank - 2], 0, 0};
  memcpy(a->view[1].stride, xs, sizeof xs);
  memcpy(a->view[2].stride, ws, sizeof ws);
  a->window[0] = a->window[1] = alone;
  a->window[0].length = (int32_t)m;
  return RDT_OK;
}

static rdt_status place_conv(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  const rdt_window *win = &p->window;
  const int spatial = y->rank - 2;
  if (spatial < 1 || spatial > 2 || win->groups != 1)
    return refuse(p, why, "convolutions of bytes on the GPU have one group and two dimensions at most");
  int64_t xs[4] = {x->stride[0], x->stride[1], 0, 0}, ws[4] = {w->stride[0], w->stride[1], 0, 0}, step = y->shape[1];
  bool dense = y->stride[1] == 1 || y->shape[1] == 1;
  a->window[0] = a->window[1] = alone;
  a->length[0] = (uint32_t)y->shape[0], a->length[1] = a->length[2] = 1, a->length[3] = (uint32_t)y->shape[1];
  for (int s = spatial - 1, to = 1; s >= 0; s--, to--) {
    dense = dense && (y->stride[2 + s] == step || y->shape[2 + s] == 1);
    step *= y->shape[2 + s];
    if (x->shape[2 + s] >= LONG || y->shape[2 + s] >= LONG || win->kernel[s] >= LONG || win->before[s] >= LONG)
      return refuse(p, why, "lengths of windows and images go up to 32767");
    a->length[1 + to] = (uint32_t)y->shape[2 + s];
    a->window[to] = (rdt_op_window){.length = (int32_t)x->shape[2 + s],
                                    .kernel = (int32_t)win->kernel[s],
                                    .stride = (int32_t)win->stride[s],
                                    .dilation = (int32_t)win->dilation[s],
                                    .before = (int32_t)win->before[s]};
    xs[2 + to] = x->stride[2 + s], ws[2 + to] = w->stride[2 + s];
  }
  if (!dense || (y->shape[0] > 1 && y->stride[0] != step))
    return refuse(p, why, "convolutions of bytes on the GPU write channels side by side");
  a->bound[0] = x->shape[1];
  memcpy(a->view[1].stride, xs, sizeof xs);
  memcpy(a->view[2].stride, ws, sizeof ws);
  return RDT_OK;
}

/* 16 bytes at a time: channels side by side, everything else at multiples of that. */
static bool by_sixteen(const rdt_op_view *v, int channel, int64_t channels) {
  bool good = v->stride[channel] == 1 && channels % 16 == 0 && (uintptr_t)v->data % 16 == 0;
  for (int d = 0; d < 4; d++) good = good && (d == channel || v->stride[d] % 16 == 0);
  return good;
}

static rdt_status fill_bytes(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  const rdt_epilogue *e = &p->epilogue;
  const rdt_dtype x = p->in[0].dtype, w = p->in[1].dtype, y = p->out.dtype;
  const bool ends = e->factor.rank >= 0;
  if (!is_byte(x) || !is_byte(w) || (x == RDT_U8 && w == RDT_U8))
    return refuse(p, why, "this kernel takes s8 by s8 or u8, and u8 by s8");
  if (e->residual.rank >= 0 || e->act.fn != RDT_FN_NONE || e->alpha != 1.0 || (!ends && e->bias.rank >= 0) ||
      (ends ? !is_byte(y) || e->factor.dtype != RDT_F32 : y != RDT_S32) ||
      (e->bias.rank >= 0 && e->bias.dtype != RDT_S32))
    return refuse(p, why, "products of bytes on the GPU are s32, or requantised with a bias of s32 at most");
  RDT_TRY(p->op == RDT_KOP_CONV ? place_conv(p, a, why) : place_product(p, a, why));
  a->rank = a->outer = 4;
  if (a->bound[0] >= (1 << 24) / (a->window[0].kernel * a->window[1].kernel))
    return refuse(p, why, "sums of so many bytes");
  if (a->length[3] * (uint32_t)a->view[0].bytes % 4 != 0 || (uintptr_t)p->out.data % 4 != 0)
    return refuse(p, why, "channels of bytes come by fours on the GPU");
  add_vector(a, &e->bias);
  add_vector(a, &e->factor);
  a->zero[0] = p->zero[0], a->zero[1] = p->zero[1], a->zero[2] = e->zero;
  const bool packs = by_sixteen(&a->view[1], 1, a->bound[0]);
  a->mode = packs && by_sixteen(&a->view[2], 1, a->bound[0]);
  a->each = packs ? 16 : 1;
  a->tiles = pieces((int64_t)a->length[0] * a->length[1] * a->length[2], RDT_OP_BYTES_TILE) *
             pieces(a->length[3], RDT_OP_BYTES_TILE);
  a->kind = RDT_OP_BYTES;
  return RDT_OK;
}

static rdt_status fill_batchnorm(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  for (int i = 0; i < p->n_in; i++) {
    if (!rdt_dtype_is_float(p->in[i].dtype)) return refuse(p, why, "the GPU's kernel takes floats");
    for (int d = 0; d < p->out.rank && i > 0; d++) a->view[i + 1].stride[d] = d == 1 ? p->in[i].stride[0] : 0;
  }
  a->kind = RDT_OP_BATCHNORM;
  a->epsilon = p->epsilon;
  settle(a, true);
  return RDT_OK;
}

static rdt_status fill_rows(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  bool inner[RDT_MAX_RANK];
  if (p->fn == RDT_FN_HARDMAX) return fill_positions(p, a, why);
  for (int i = 0; i < p->n_in; i++)
    if (!rdt_dtype_is_float(p->in[i].dtype)) return refuse(p, why, "the GPU's kernel takes floats");
  for (int d = 0; d < p->out.rank; d++)
    inner[d] = p->op == RDT_KOP_SOFTMAX ? d == p->axis
               : p->op == RDT_KOP_NORM  ? d >= p->axis
                                        : p->in[0].shape[d] != p->out.shape[d];
  const bool wide = p->out.dtype == RDT_F64;
  a->kind = p->op == RDT_KOP_SOFTMAX ? wide ? RDT_OP_SOFTMAX_F64 : RDT_OP_SOFTMAX
            : p->op == RDT_KOP_NORM  ? wide ? RDT_OP_NORM_F64 : RDT_OP_NORM
                                     : RDT_OP_REDUCE;
  a->epsilon = p->epsilon;
  split(a, inner, p->op == RDT_KOP_REDUCE);
  if (a->kind != RDT_OP_REDUCE) by_warps(a);
  return a->inner > 0 ? RDT_OK : refuse(p, why, "there is nothing in a row");
}

static rdt_status fill_reduce(const rdt_problem *p, rdt_gpu_op *a, rdt_reason *why) {
  switch (p->fn) {
    case RDT_FN_ARGMAX:
    case RDT_FN_ARGMIN:
      return fill_positions(p, a, why);
    case RDT_FN_REDUCE_SUM:
    case RDT_FN_REDUCE_MEAN:
    case RDT_FN_REDUCE_MAX:
    case RDT_FN_REDUCE_MIN:
    case RDT_FN_REDUCE_L1:
    case RDT_FN_REDUCE_L2:
    case RDT_FN_REDUCE_SQUARES:
    case RDT_FN_REDUCE_INVSTD:
    case RDT_FN_REDUCE_PROD:
    case RDT_FN_REDUCE_LOGSUM:
    case RDT_FN_REDUCE_LOGSUMEXP:
      walk_over(a, &p->in[0]);
      return fill_rows(p, a, why);
    default:
      return refuse(p, why, "there is no kernel for the GPU");
  }
}

static const row rows[] = {
    {RDT_KOP_MAP, fill_map},           {RDT_KOP_COPY, fill_copy},       {RDT_KOP_CONCAT, fill_copy},
    {RDT_KOP_GATHER, fill_gather},     {RDT_KOP_PAD, fill_pad},         {RDT_KOP_TRIANGLE, fill_triangle},
    {RDT_KOP_MAXPOOL, fill_pool},      {RDT_KOP_AVGPOOL, fill_pool},    {RDT_KOP_BATCHNORM, fill_batchnorm},
    {RDT_KOP_SOFTMAX, fill_rows},      {RDT_KOP_NORM, fill_rows},       {RDT_KOP_REDUCE, fill_reduce},
    {RDT_KOP_QUANTIZE, fill_quantize}, {RDT_KOP_SCATTER, fill_scatter}, {RDT_KOP_RESIZE, fill_resize},
    {RDT_KOP_CUMSUM, fill_cumsum},     {RDT_KOP_TOPK, fill_positions},  {RDT_KOP_GEMM, fill_bytes},
    {RDT_KOP_CONV, fill_bytes},
};

static const row *row_of(rdt_kop op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == op) return &rows[i];
  return NULL;
}

/* Of a concatenation: part i, and where it goes. */
static rdt_problem part_of(const rdt_problem *p, int i, int64_t at) {
  rdt_problem one = *p;
  one.in = &p->in[i];
  one.n_in = 1;
  memcpy(one.out.shape, p->in[i].shape, sizeof one.out.shape);
  if (one.out.data)
    one.out.data = (char *)one.out.data + at * p->out.stride[p->axis] * (int64_t)rdt_dtype_size(p->out.dtype);
  return one;
}

enum { BLOCKS = 1 << 13, MOST_EACH = 64 };

static rdt_status prepare_one(const row *r, const rdt_problem *p, const void *base, rdt_gpu_op *a, rdt_reason *why) {
  *a = (rdt_gpu_op){.fn = (int32_t)p->fn, .base = base};
  memcpy(a->param, p->param, sizeof a->param);
  add_view(a, &p->out);
  if (p->n_in >= RDT_OP_VIEWS) return refuse(p, why, "too many operands");
  for (int i = 0; i < p->n_in; i++) {
    add_view(a, &p->in[i]);
    for (int d = 0; d < p->in[i].rank; d++)
      if (p->in[i].stride[d] < 0 && p->op == RDT_KOP_REDUCE) return refuse(p, why, "strides run backwards");
  }
  for (int i = -1; i < p->n_in; i++) {
    const rdt_tensor *t = i < 0 ? &p->out : &p->in[i];
    for (int d = 0; d < t->rank; d++)
      if (t->shape[d] > INT32_MAX) return refuse(p, why, "the GPU's kernels take less than 2^31 elements");
    if (i < 1 && rdt_tensor_count(t) > INT32_MAX && (i < 0 || p->op == RDT_KOP_REDUCE))
      return refuse(p, why, "the GPU's kernels take less than 2^31 elements");
  }
  walk_over(a, &p->out);
  a->count = (uint32_t)rdt_tensor_count(&p->out);
  RDT_TRY(r->fill(p, a, why));
  const uint32_t each = a->count / (BLOCKS * RDT_OP_THREADS) + 1;
  if (by_rows[a->kind] == 3 || by_rows[a->kind] == 4) return RDT_OK; /* its packs */
  a->each = by_rows[a->kind] ? 1 : each > MOST_EACH ? MOST_EACH : (int32_t)each;
  return RDT_OK;
}

/* Moved they are as any byte. */
static bool computes_f8(const rdt_problem *p) {
  bool f8 = rdt_dtype_is_f8(p->out.dtype);
  for (int i = 0; i < p->n_in; i++) f8 = f8 || rdt_dtype_is_f8(p->in[i].dtype);
  const bool moves = p->op == RDT_KOP_COPY || p->op == RDT_KOP_CONCAT || rdt_kop_moves(p->op);
  return f8 && (!moves || (p->op == RDT_KOP_SCATTER && p->fn != RDT_FN_NONE));
}

rdt_status rdt_ops_prepare(const rdt_problem *p, rdt_gpu_op **list, int *n, rdt_reason *why) {
  const row *r = row_of(p->op);
  const bool parts = p->op == RDT_KOP_CONCAT;
  int64_t at = 0;
  *list = NULL;
  *n = 0;
  if (!r || (p->op == RDT_KOP_MAXPOOL && p->fn == RDT_FN_ARGMAX))
    return refuse(p, why, "there is no kernel for the GPU");
  if (computes_f8(p)) return refuse(p, why, "the GPU's kernels do not convert 8-bit floats");
  if (!rdt_tensor_is_packed(&p->out)) return refuse(p, why, "the GPU's kernels write results without gaps");
  *list = rdt_calloc(parts ? (size_t)p->n_in : 1, sizeof **list);
  if (!*list) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", rdt_problem_name(p));
  for (int i = 0; i < (parts ? p->n_in : 1); i++) {
    const rdt_problem one = parts ? part_of(p, i, at) : *p;
    at += parts ? p->in[i].shape[p->axis] : 0;
    if (rdt_tensor_count(&one.out) == 0) continue;
    const rdt_status status = prepare_one(r, &one, p->out.data, &(*list)[*n], why);
    if (status != RDT_OK) {
      rdt_free(*list);
      *list = NULL;
      return status;
    }
    ++*n;
  }
  return RDT_OK;
}
