#include "cuda/wide.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/early.h"
#include "cuda/sm90/gemm_wgmma_bits.h"

enum {
  ALIGNED = 16,
  BOX = 64,
  WIDTH = 128 /* bytes of a row of a box */,
  CLUSTERS = 256,
  BATCHES = 65535,
  OFTEN = 512, /* rows */
  HANDED = 16  /* rounds of k that it costs to hand a tile over */
};
/* What the sums of columns add to a tile's product: columns more of an instruction; instructions that read A again. */
static const double BESIDE = 1.0 / 16, APART = 0.3;

bool rdt_wide_columns(const rdt_tensor *t) {
  return !((t->shape[1] <= 1 || t->stride[1] == 1) && (t->shape[0] <= 1 || t->stride[0] >= t->shape[1]));
}

/* The first matrix of a tensor, and where the next one is: every dimension before the last two goes on where the one
 * behind it ends. */
static bool matrix_of(const rdt_tensor *t, rdt_tensor *m, int64_t *next) {
  const int before = t->rank - 2;
  int64_t count = 1;
  *m = *t, *next = 0;
  for (int d = before - 1; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (count == 1)
      *next = t->stride[d];
    else if (t->stride[d] != count * *next)
      return false;
    count *= t->shape[d];
  }
  for (int d = 0; d < 2; d++) m->shape[d] = t->shape[before + d], m->stride[d] = t->stride[before + d];
  m->rank = 2;
  return *next >= 0;
}

bool rdt_wide_sides_of(const rdt_problem *p, rdt_wide_sides *s) {
  const rdt_tensor *c = &p->out, *r = &p->epilogue.residual;
  int64_t batches = 1;
  *s = (rdt_wide_sides){.residual.rank = -1};
  if (c->rank < 2 || p->in[0].rank != c->rank || p->in[1].rank != c->rank) return false;
  for (int d = 0; d < c->rank - 2; d++)
    if (c->shape[d] < 1 || c->shape[d] > INT_MAX / 2 || (batches *= c->shape[d]) > INT_MAX / 2) return false;
  s->batches = (int)batches;
  return matrix_of(&p->in[0], &s->a, &s->a_next) && matrix_of(&p->in[1], &s->b, &s->b_next) &&
         matrix_of(c, &s->c, &s->c_next) && (r->rank < 0 || matrix_of(r, &s->residual, &s->r_next)) &&
         (batches == 1 || s->c_next > 0);
}

int64_t rdt_wide_pitch(const rdt_tensor *t, bool columns) {
  const int along = columns ? 0 : 1, across = 1 - along;
  const int64_t each = ALIGNED / (int64_t)rdt_dtype_info(t->dtype)->bytes;
  return t->shape[across] > 1 ? t->stride[across] : (t->shape[along] + each - 1) / each * each;
}

int rdt_wide_unaligned(const rdt_wide_sides *s) {
  const rdt_tensor *const all[] = {&s->a, &s->b, &s->c};
  const int64_t next[] = {s->a_next, s->b_next, s->c_next};
  int which = 0;
  for (int i = 0; i < 3; i++) {
    const int64_t size = (int64_t)rdt_dtype_info(all[i]->dtype)->bytes;
    const bool turned = i < 2 && rdt_wide_columns(all[i]);
    if (rdt_wide_pitch(all[i], turned) * size % ALIGNED || (uintptr_t)all[i]->data % ALIGNED ||
        (s->batches > 1 && next[i] * size % ALIGNED))
      which |= 1 << i;
  }
  return which;
}

bool rdt_wide_skewed(const rdt_tensor *t) {
  const bool columns = rdt_wide_columns(t);
  return t->shape[columns ? 1 : 0] > 1 && rdt_wide_pitch(t, columns) * (int64_t)rdt_dtype_size(t->dtype) % WIDTH;
}

/* Of B each row is asked for by many tiles: whole lines of L2. */
static rdt_wide_sides aligned(const rdt_wide_sides *s, int which, size_t bytes[3]) {
  rdt_wide_sides to = *s;
  rdt_tensor *const all[] = {&to.a, &to.b, &to.c};
  int64_t *const next[] = {&to.a_next, &to.b_next, &to.c_next};
  for (int i = 0; i < 3; i++) {
    const int along = i < 2 && rdt_wide_columns(all[i]) ? 0 : 1, across = 1 - along;
    const int64_t size = (int64_t)rdt_dtype_info(all[i]->dtype)->bytes, each = (i == 1 ? WIDTH : ALIGNED) / size,
                  pitch = (all[i]->shape[along] + each - 1) / each * each, count = all[i]->shape[across];
    bytes[i] = 0;
    if (!(which & 1 << i)) continue;
    all[i]->data = NULL, all[i]->stride[along] = 1, all[i]->stride[across] = pitch;
    if (*next[i]) *next[i] = pitch * count;
    bytes[i] = (size_t)(pitch * count * size) * (size_t)(*next[i] ? s->batches : 1);
  }
  return to;
}

rdt_status rdt_wide_pads(rdt_wide *w, rdt_wide_sides *s, bool fixed, rdt_reason *why) {
  rdt_pads *p = &w->pads;
  size_t bytes[3];
  const bool often = s->c.shape[0] * (s->b_next ? 1 : s->batches) >= OFTEN;
  const int which = rdt_wide_unaligned(s) | (fixed && often && rdt_wide_skewed(&s->b) ? RDT_WIDE_B : 0);
  const rdt_wide_sides to = aligned(s, which, bytes);
  const rdt_tensor *const theirs[] = {&s->a, &s->b, &s->c}, *const own[] = {&to.a, &to.b, &to.c};
  const int64_t their_next[] = {s->a_next, s->b_next, s->c_next}, own_next[] = {to.a_next, to.b_next, to.c_next};
  if (!which) return RDT_OK;
  for (int i = 0; i < 3; i++) bytes[i] = (bytes[i] + 255) / 256 * 256;
  RDT_TRY(rdt_cuda_alloc(bytes[0] + bytes[1] + bytes[2], &p->memory, why));
  char *at = p->memory;
  for (int i = 0; i < 3; at += bytes[i++]) {
    if (!(which & 1 << i)) continue;
    const bool turned = i < 2 && rdt_wide_columns(theirs[i]), out = i == 2;
    const int64_t pitch = rdt_wide_pitch(theirs[i], turned), own_pitch = rdt_wide_pitch(own[i], turned);
    p->own[i] = at;
    p->of[i] = (rdt_pad){.from_pitch = out ? own_pitch : pitch,
                         .to_pitch = out ? pitch : own_pitch,
                         .from_next = out ? own_next[i] : their_next[i],
                         .to_next = out ? their_next[i] : own_next[i],
                         .columns = (int)theirs[i]->shape[turned ? 0 : 1],
                         .rows = (int)theirs[i]->shape[turned ? 1 : 0],
                         .batches = their_next[i] ? s->batches : 1,
                         .size = (int)rdt_dtype_info(theirs[i]->dtype)->bytes,
                         .of_c = out || (i == 0 && !turned && their_next[i])};
  }
  *s = to;
  return RDT_OK;
}

rdt_status rdt_wide_accept(const rdt_cuda_kernel *k, const rdt_wide_sides *s, rdt_reason *why) {
  const rdt_tensor *const a = &s->a, *const b = &s->b, *const c = &s->c, *const all[] = {a, b, c};
  static const char names[] = "ABC";
  const bool columns = rdt_wide_columns(b), a_columns = rdt_wide_columns(a), sides[] = {a_columns, columns, false};
  const bool tall = k->family == RDT_CUDA_TALL; /* brings B into an order of its own */
  if (a_columns && (tall || !k->code[4]))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes A with its rows side by side (m x k)%s; transpose it%s",
                    k->name, k->code[0] ? "" : ", which tensor cores want of this type",
                    k->check == RDT_WGMMA_ROWCOL ? ", or take row"
                    : k->code[0]                 ? ", or take the same type's 128x128pp"
                                                 : "");
  if (!columns && !k->code[0])
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s takes B with its columns side by side (weights n x k), which tensor cores want; transpose it",
                    k->name);
  const int unaligned = tall ? rdt_wide_unaligned(s) & ~RDT_WIDE_B : 0; /* others have copies made of such */
  for (int i = 0; i < 3; i++) {
    if (sides[i] && ((all[i]->shape[0] > 1 && all[i]->stride[0] != 1) || all[i]->stride[1] < all[i]->shape[0]))
      return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                      "%s takes %c with rows or columns whose elements lie side by side; transpose what lies otherwise",
                      k->name, names[i]);
    if (unaligned & 1 << i)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                      "%s takes rows that begin at multiples of %d bytes; those of %c are %lld bytes apart: pad them",
                      k->name, ALIGNED, names[i],
                      (long long)(rdt_wide_pitch(all[i], sides[i]) * (int64_t)rdt_dtype_size(all[i]->dtype)));
  }
  if (c->shape[1] > rdt_cuda_kernel_columns(k))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes up to %d columns, not %lld", k->name,
                    rdt_cuda_kernel_columns(k), (long long)c->shape[1]);
  const int64_t rows = (c->shape[0] + k->tile->rows - 1) / k->tile->rows + 1,
                blocks = (c->shape[1] + k->tile->columns - 1) / k->tile->columns;
  if (s->batches > BATCHES || c->shape[0] * s->batches > INT_MAX / 2)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes up to %d batches, and %d rows of all of them", k->name, BATCHES,
                    INT_MAX / 2);
  if (s->batches > 1 && !tall && !rdt_cuda_kernel_batches(k))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has sums of a whole product: batches take row", k->name);
  return rows * blocks * s->batches < INT_MAX / 16
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes up to %d tiles", k->name, INT_MAX / 16);
}

typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                           const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                           CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int rdt_wide_whole(const rdt_cuda_kernel *k, int depth) {
  return (depth + k->k - 1) / k->k * k->k;
}

/* c2 <= cap q, unless C is wrong already: the rigorous part is no less. */
float rdt_wide_alike(const rdt_device_bound *b) {
  const double statistical = (double)b->lambda * b->lambda * b->c2, rigorous = (double)b->q0 * b->q0 / b->cap;
  return (float)((1.0 - 0x1p-10) * fmin(statistical, rigorous));
}

typedef struct batches { /* of an operand; count 0: its map is of a matrix; next 0: all have the same */
  int count;
  int64_t next; /* elements */
} batches;

/* Boxes have 64 rows, or fewer. Of rows that do not begin at multiples of 128 bytes, L2 would fetch 256 bytes for each
 * of the two lines that a row of a box then touches: 16 % of the time at 1024 x 4096 x 4100. */
static rdt_status map(encode_fn *encode, rdt_tensor_map *m, rdt_dtype type, const void *data, int64_t along,
                      int64_t across, int64_t pitch, const batches *of, int box_rows, int width, rdt_reason *why) {
  const size_t size = rdt_dtype_info(type)->bytes;
  const int64_t next = of->next ? of->next : (across * pitch * (int64_t)size + ALIGNED - 1) / ALIGNED * ALIGNED;
  const cuuint64_t shape[] = {(cuuint64_t)along, (cuuint64_t)across, (cuuint64_t)(of->next ? of->count : 1)},
                   strides[] = {(cuuint64_t)pitch * size, (cuuint64_t)(of->next ? next * (int64_t)size : next)};
  const cuuint32_t box[] = {(cuuint32_t)((size_t)width / size), (cuuint32_t)box_rows, 1}, step[] = {1, 1, 1};
  const CUtensorMapDataType as = type == RDT_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                 : type == RDT_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                 : size == 1        ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT32; /* s32 too: they are copied */
  _Static_assert(sizeof *m == sizeof(CUtensorMap), "a tensor map");
  if ((uintptr_t)data % ALIGNED)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "operands of products on wgmma begin at multiples of %d bytes, where they were not made ready with "
                    "their addresses",
                    ALIGNED);
  const CUresult r =
      encode((CUtensorMap *)m, as, of->count ? 3 : 2, (void *)data, shape, strides, box, step,
             CU_TENSOR_MAP_INTERLEAVE_NONE, width < WIDTH ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return r == CUDA_SUCCESS
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_INTERNAL, "cuTensorMapEncodeTiled fails with %d for %lld x %lld, %lld apart",
                        (int)r, (long long)across, (long long)along, (long long)pitch);
}

rdt_status rdt_wide_map(rdt_tensor_map *m, rdt_dtype type, const void *data, int64_t along, int64_t across,
                        int64_t pitch, int box_rows, rdt_reason *why) {
  void *found;
  RDT_TRY(rdt_cuda_driver_function("cuTensorMapEncodeTiled", 12000, &found, why));
  return map((encode_fn *)found, m, type, data, along, across, pitch, &(batches){0}, box_rows, WIDTH, why);
}

static int pairs(const rdt_cuda_kernel *k, int m) { /* of tiles, one below the other */
  const int rows = RDT_WGMMA_CLUSTER * k->tile->rows;
  return (m + rows - 1) / rows;
}

int rdt_wide_lines(const rdt_wide *w, const rdt_cuda_kernel *k, int m) {
  return (w->across ? (m + k->tile->rows - 1) / k->tile->rows : pairs(k, m)) * (w->batches ? w->batches : 1);
}

int rdt_wide_line(const rdt_wide *w, const rdt_cuda_kernel *k, int m, int64_t row, int *all) {
  const int tile = (int)(row % m / k->tile->rows), each = rdt_wide_lines(w, k, m) / (w->batches ? w->batches : 1),
            line = (int)(row / m) * each + (w->across ? tile : tile / RDT_WGMMA_CLUSTER);
  *all = w->across ? line : line * RDT_WGMMA_CLUSTER + tile % RDT_WGMMA_CLUSTER;
  return line;
}

/* The cluster that has a tile. */
static int cluster_of(const rdt_wide *w, int pair, int pairs_, int column_blocks, int n) {
  const int64_t before = (int64_t)(pair / RDT_WGMMA_PATCH) * RDT_WGMMA_PATCH * column_blocks;
  return (int)((before + pair % RDT_WGMMA_PATCH + (int64_t)n * rdt_wide_height(pair, pairs_)) %
               (w->blocks / RDT_WGMMA_CLUSTER));
}

int rdt_wide_checks(const rdt_wide *w, int pair, int pairs_, int column_blocks) {
  const int height = rdt_wide_height(pair, pairs_);
  if (!w->light) return pair % column_blocks;
  for (int n = 0; n < column_blocks && n * height < w->blocks; n++)
    if (rdt_wide_first(cluster_of(w, pair, pairs_, column_blocks, n), n, height, w->light)) return n;
  return -1;
}

/* What the longest of the clusters takes, in tiles; cost: of a check more than a tile's product. Infinite: a row has no
 * tile that would check it. */
static double longest(const rdt_wide *w, int rows, int column_blocks, double cost) {
  const int tiles = rows * column_blocks, clusters = w->blocks / RDT_WGMMA_CLUSTER;
  int checks[CLUSTERS] = {0};
  double most = 0.0;
  for (int pair = 0; pair < rows; pair++) {
    const int n = rdt_wide_checks(w, pair, rows, column_blocks);
    if (n < 0) return INFINITY;
    checks[cluster_of(w, pair, rows, column_blocks, n)]++;
  }
  for (int i = 0; i < clusters; i++) most = fmax(most, tiles / clusters + (i < tiles % clusters) + cost * checks[i]);
  return most;
}

bool rdt_wide_beside(const rdt_cuda_kernel *k, bool columns) {
  const bool half = k->dtype == RDT_F16 || k->dtype == RDT_BF16;
  if (k->family == RDT_CUDA_TALL) return false; /* its image of B has an order of its own for them */
  return k->tf32 || (half && k->tile->rows <= 2 * BOX && (columns || k->tile->columns <= 2 * BOX));
}

static int turns(int tiles, int clusters) {
  return (tiles + clusters - 1) / clusters;
}

/* Tiles of clusters, and where the two of one lie. */
static int lay(rdt_wide *w, const rdt_cuda_kernel *k, int m, int column_blocks, bool across) {
  w->across = across;
  return rdt_wide_lines(w, k, m) * (across ? (column_blocks + 1) / 2 : column_blocks);
}

/* The tiles of the last rounds, if these are not full, as equal shares of k: less than two tiles for each cluster, and
 * no less than one. */
static void share(rdt_wide *w, int clusters, int rounds) {
  w->dealt = w->tiles, w->share = 0;
  if (w->tiles < clusters || w->tiles % clusters == 0) return;
  const int dealt = (w->tiles / clusters - 1) * clusters;
  const int64_t all = (int64_t)(w->tiles - dealt) * rounds;
  if (all > INT_MAX / 2) return;
  w->dealt = dealt, w->share = (int)((all + clusters - 1) / clusters);
}

/* Rounds of k that the longest takes. */
static int64_t rounds_of(const rdt_wide *w, int clusters, int rounds) {
  return (int64_t)turns(w->dealt, clusters) * rounds + w->share;
}

bool rdt_wide_shares(const rdt_cuda_kernel *k, bool columns) {
  const bool half = k->dtype == RDT_F16 || k->dtype == RDT_BF16;
  return half && k->check != RDT_WGMMA_ROWCOL && (k->check != RDT_MMA_SUMS || rdt_wide_beside(k, columns));
}

void rdt_wide_plan(rdt_wide *w, const rdt_cuda_kernel *k, int m, int column_blocks, int depth, int splits, int sms) {
  /* Of an odd number of rows of tiles half a cluster does nothing; of an odd number of columns it would, across. Where
   * that is one of many, what else is done for rows below each other counts more. Rows of A that are asked for twice
   * (two lines of L2 for one of a box) are asked for together, where that takes no round more. */
  const bool half = k->dtype == RDT_F16 || k->dtype == RDT_BF16, both = k->tile->rows % (BOX * RDT_WGMMA_CLUSTER) == 0;
  const int below = lay(w, k, m, column_blocks, false), beside = lay(w, k, m, column_blocks, true),
            most = sms / RDT_WGMMA_CLUSTER, stages = (depth + k->k - 1) / k->k;
  const bool together = w->skewed && turns(beside, most) <= turns(below, most);
  rdt_wide shared = *w;
  const int strip = RDT_WGMMA_CLUSTER * RDT_COLUMNS_STRIP / k->tile->columns;
  const bool strips = k->check == RDT_WGMMA_ROWCOL; /* who sums rows of A has loaded them alone */
  w->tiles = lay(w, k, m, column_blocks, !strips && both && (8 * beside <= 7 * below || together));
  w->strips = strips ? (column_blocks + strip - 1) / strip : 0;
  const int rows = rdt_wide_lines(w, k, m), tiles = w->tiles, all = tiles + w->strips,
            clusters = all < most ? all : most;
  const double cost = rdt_wide_beside(k, w->columns) ? BESIDE : APART;
  w->blocks = RDT_WGMMA_CLUSTER * clusters, w->light = 0, w->whole = true, w->dealt = tiles, w->share = 0;
  if (w->across) w->whole = !half || rdt_wide_beside(k, w->columns); /* else one tile of a row would take longest */
  if (splits != 1 && rdt_wide_shares(k, w->columns)) {
    shared.blocks = w->blocks, shared.light = 0, shared.whole = true;
    shared.tiles = lay(&shared, k, m, column_blocks, both && (w->across || beside < below));
    share(&shared, clusters, stages);
    const int64_t gained = rounds_of(w, clusters, stages) - rounds_of(&shared, clusters, stages);
    if (splits > 1 ? shared.share > 0 : gained >= HANDED) {
      *w = shared;
      return;
    }
  }
  if (clusters > CLUSTERS || w->across) return;
  const double in_turns = longest(w, rows, column_blocks, cost),
               shares = turns(tiles, clusters) * (1.0 + cost / column_blocks);
  w->light = tiles % clusters;
  const double by_light = longest(w, rows, column_blocks, cost);
  if (by_light >= in_turns) w->light = 0;
  if (half && !rdt_wide_beside(k, w->columns)) w->whole = w->light && by_light < shares;
}

size_t rdt_wide_handed(const rdt_wide *w, const rdt_cuda_kernel *k) {
  const size_t each = (size_t)k->tile->rows * (size_t)(k->tile->columns + RDT_WGMMA_SUMS) * sizeof(float);
  return w->share ? (size_t)w->blocks * each : 0;
}

size_t rdt_wide_tickets(const rdt_wide *w) {
  return 2 * (size_t)w->blocks + (w->share ? 8 * (size_t)w->blocks : 0); /* of each warp that multiplies */
}

enum { NUMBERS = 256 /* columns of a thread's accumulators, twice as many as it has */ };
static int strips(const rdt_cuda_kernel *k) { /* of 64 rows, of a group */
  return NUMBERS / k->tile->columns;
}

size_t rdt_wide_bits(const rdt_wide *w, const rdt_cuda_kernel *k, int m, int column_blocks) {
  const bool half = k->dtype == RDT_F16 || k->dtype == RDT_BF16;
  if (k->family != RDT_CUDA_WGMMA || !half || k->check == RDT_MMA_NONE) return 0;
  const size_t tiles = (size_t)rdt_wide_lines(w, k, m) * (w->across ? 1 : RDT_WGMMA_CLUSTER) * (size_t)column_blocks;
  return tiles * (size_t)(k->tile->rows / (16 * strips(k)));
}

rdt_status rdt_wide_stored(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, void *stream,
                           rdt_reason *why) {
  const rdt_pad *pad = w->pads.own[2] ? &w->pads.of[2] : NULL; /* C is the caller's, whoever copied it there */
  rdt_bits_args a = {.c = p->c,
                     .pitch = pad ? pad->to_pitch : p->ldc,
                     .next = pad ? pad->to_next : w->c_next,
                     .m = p->m,
                     .n = p->n,
                     .size = p->c_type == RDT_MMA_F32 ? 4 : 2,
                     .strips = strips(k),
                     .rows = k->tile->rows,
                     .columns = k->tile->columns,
                     .row_blocks = (p->m + k->tile->rows - 1) / k->tile->rows,
                     .column_blocks = p->column_blocks,
                     .each_lines = rdt_wide_lines(w, k, p->m) / (w->batches ? w->batches : 1),
                     .across = w->across,
                     .bits = w->bits,
                     .k = p->k,
                     .verdict = p->verdict};
  void *arguments[] = {&a};
  const dim3 grid = {(unsigned)(a.row_blocks * a.column_blocks * (w->batches ? w->batches : 1)), 1, 1},
             block = {(unsigned)(k->tile->rows / (16 * a.strips) * 32), 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(rdt_wgmma_bits, grid, block, arguments, 0, stream),
                         "bit-sums of what was stored", why);
}

/* What kernels on wgmma take for these words. */
static void batched(const rdt_wide *w, rdt_mma_args *p) {
  p->splits = w->batches;
  p->k_split = p->m * (w->b_next ? 1 : w->batches);
}

int rdt_wide_settler(const rdt_cuda_kernel *k) {
  if (k->family == RDT_CUDA_MMA || !RDT_WGMMA_BY_ROWS(k->check)) return -1;
  return k->dtype == RDT_F16 || k->dtype == RDT_BF16 ? 0 : 1 + !rdt_dtype_is_float(k->dtype);
}

void rdt_wide_settles(const rdt_wide *w, const rdt_mma_args *p, rdt_settle_args *all, int number) {
  all->p[number] = *p, all->blocks[number] = w->blocks;
  batched(w, &all->p[number]);
}

rdt_status rdt_wide_settle(const rdt_settle_args *all, int count, const void *code, rdt_mma_hit *hit, void *stream,
                           rdt_reason *why) {
  _Static_assert(sizeof *all + sizeof hit <= 4096, "more than a kernel takes");
  void *arguments[] = {(void *)(uintptr_t)all, &hit};
  dim3 grid = {1, (unsigned)count, 1}, block = {32, 1, 1};
  for (int i = 0; i < count; i++)
    if (grid.x < (unsigned)all->blocks[i]) grid.x = (unsigned)all->blocks[i];
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "sums of rows", why);
}

/* ---- sums of columns ---- */

enum { MEET = 8192, COPIES = 16 }; /* numbers that tiles add to at least, by copies; no more of these */

static size_t floats(const rdt_columns *c) { /* of a set */
  return (size_t)c->depth + 4 + 4 * (size_t)c->copies * (size_t)c->pairs;
}

size_t rdt_wide_sums_of(rdt_wide *w, const rdt_cuda_kernel *k, int m, int depth) {
  rdt_columns *c = &w->sums_of;
  if (!w->strips) return 0;
  int bits = 0; /* sums of m rows of A are as large as sqrt(m) of its numbers */
  while (bits < 30 && 1 << bits < m) bits += 2;
  c->depth = rdt_wide_whole(k, depth);
  c->pairs = w->strips * RDT_WGMMA_CLUSTER * RDT_COLUMNS_STRIP / 2;
  for (c->copies = 1; c->copies < COPIES && 2 * c->copies * c->pairs < MEET;) c->copies *= 2;
  c->rows = strcmp(k->scheme, "col") != 0;
  c->back = (float)(1 << bits / 2), c->scale = 1.0f / c->back;
  return RDT_COLUMNS_SETS * (floats(c) + (size_t)rdt_columns_pitch(c->pairs)) * sizeof(float) +
         2 * (size_t)c->pairs * sizeof(float);
}

int64_t rdt_wide_squares(const rdt_wide *w, const rdt_cuda_kernel *k, int column_blocks, int depth) {
  enum { LANES = 64 }; /* of two warps, or four */
  return (int64_t)turns(w->tiles, w->blocks / RDT_WGMMA_CLUSTER) *
         turns(rdt_wide_whole(k, depth) / k->k, column_blocks) * k->k * k->tile->rows / LANES;
}

int64_t rdt_wide_squares_stored(const rdt_wide *w, const rdt_cuda_kernel *k) {
  enum { LANES = 32 };
  return (int64_t)turns(w->tiles, w->blocks / RDT_WGMMA_CLUSTER) * k->tile->rows * k->tile->columns / LANES;
}

void rdt_wide_hand_on(rdt_wide *from, const unsigned *ran, rdt_wide *to) {
  rdt_columns *const c = &from->sums_of;
  c->next = (float *)c->peak + 2 * (size_t)c->pairs;
  to->sums_of.before = c->next, to->sums_of.before_pairs = c->pairs, to->sums_of.ran = ran;
}

void rdt_wide_sums_at(rdt_wide *w, void *memory) {
  rdt_columns *c = &w->sums_of;
  float *at = memory;
  if (!w->strips) return;
  c->c = (struct float4 *)at, at += RDT_COLUMNS_SETS * 4 * (size_t)c->copies * (size_t)c->pairs;
  c->a = at, at += RDT_COLUMNS_SETS * (size_t)c->depth;
  c->a2 = at, at += RDT_COLUMNS_SETS * 4;
  c->peak = at;
}

/* more: the second argument. */
static rdt_status of_columns(const rdt_wide *w, const rdt_mma_args *p, const void *code, void *more, void *stream,
                             rdt_reason *why) {
  rdt_columns_args a = {.p = *p, .c = w->sums_of};
  void *arguments[] = {&a, more};
  const dim3 grid = {(unsigned)(p->n + 31) / 32, 1, 1}, block = {256, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "sums of columns", why);
}

rdt_status rdt_wide_peaks(const rdt_wide *w, rdt_dtype type, const rdt_mma_args *p, void *stream, rdt_reason *why) {
  float least = (float)rdt_dtype_info(type)->min_normal;
  return of_columns(w, p, rdt_columns_peaks[type == RDT_BF16][w->columns], &least, stream, why);
}

rdt_status rdt_wide_settle_columns(const rdt_wide *w, rdt_dtype type, const rdt_mma_args *p, rdt_mma_hit *hit,
                                   void *stream, rdt_reason *why) {
  const void *const(*code)[2] = hit ? rdt_columns_settle_inject : rdt_columns_settle;
  RDT_TRY(of_columns(w, p, code[type == RDT_BF16][w->columns], &hit, stream, why));
  return rdt_cuda_clear(w->sums_of.c, RDT_COLUMNS_SETS * floats(&w->sums_of) * sizeof(float), stream, why);
}

rdt_status rdt_wide_maps(rdt_dtype type, const rdt_wide *w, rdt_wgmma_args *a, rdt_reason *why) {
  void *found;
  const rdt_mma_args *p = &a->p;
  const rdt_dtype out = w->factor                  ? w->bytes
                        : p->c_type == RDT_MMA_F32 ? RDT_F32
                        : p->c_type == RDT_MMA_F16 ? RDT_F16
                                                   : RDT_BF16;
  const int each = ALIGNED / (int)rdt_dtype_info(out)->bytes;
  RDT_TRY(rdt_cuda_driver_function("cuTensorMapEncodeTiled", 12000, &found, why));
  encode_fn *const encode = (encode_fn *)found;
  const bool columns = w->columns, a_columns = w->a_columns;
  const batches of_a = {w->batches, w->a_next}, of_b = {w->batches, w->b_next}, of_c = {w->batches, w->c_next};
  a->a_mn = a_columns, a->b_mn = !columns;
  a->extra = p->bias || p->residual || p->relu || a->gelu || w->factor;
  a->stored = p->n / each * each;
  RDT_TRY(
      map(encode, &a->a, type, p->a, a_columns ? p->m : p->k, a_columns ? p->k : p->m, p->lda, &of_a, BOX, WIDTH, why));
  RDT_TRY(map(encode, &a->b, type, p->b, columns ? p->k : p->n, columns ? p->n : p->k, p->ldb, &of_b, BOX, WIDTH, why));
  return map(encode, &a->c, out, p->c, a->stored ? a->stored : each, p->m, p->ldc, &of_c, BOX, w->factor ? BOX : WIDTH,
             why);
}

rdt_status rdt_wide_ready(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, const void *const *code,
                          rdt_wide_start *s, rdt_reason *why) {
  void *found;
  const rdt_cuda_tile *t = k->tile;
  *s = (rdt_wide_start){.args = {.p = *p,
                                 .alike = w->alike,
                                 .sums_scale = w->sums_scale,
                                 .light = w->light,
                                 .whole = w->whole,
                                 .gelu = w->gelu,
                                 .factor = w->factor,
                                 .each = w->each,
                                 .zero = w->zero,
                                 .low = (float)((w->bytes == RDT_S8 ? -128 : 0) - w->zero),
                                 .high = (float)((w->bytes == RDT_S8 ? 127 : 255) - w->zero),
                                 .a_many = w->a_next != 0,
                                 .b_many = w->b_next != 0,
                                 .sets = w->sets,
                                 .a_next = w->a_next,
                                 .c_next = w->c_next,
                                 .r_next = w->r_next},
                        .blocks = w->blocks,
                        .threads = RDT_WGMMA_BLOCK(k->check, !w->columns),
                        .shared = k->shared};
  rdt_wgmma_args *const a = &s->args;
  batched(w, &a->p);
  a->p.more = w->bits;
  a->row_blocks = (p->m + t->rows - 1) / t->rows;
  a->tiles = w->tiles, a->across = w->across, a->dealt = w->dealt + w->strips, a->share = w->share;
  a->columns = w->sums_of;
  a->lines = rdt_wide_lines(w, k, p->m), a->each_lines = a->lines / w->batches, a->width = a->tiles / a->lines;
  RDT_TRY(rdt_wide_maps(k->dtype, w, a, why));
  RDT_TRY(rdt_cuda_driver_function("cuTensorMapEncodeTiled", 12000, &found, why));
  if (w->sets)
    RDT_TRY(map((encode_fn *)found, &a->sums, k->dtype, p->parts, p->k,
                (int64_t)w->sets * (w->b_next ? w->batches : 1) * RDT_WGMMA_SUMS, rdt_wide_whole(k, p->k),
                &(batches){0}, RDT_WGMMA_SUMS, WIDTH, why));
  const bool more = a->extra || p->alpha != 1.0f || a->columns.next || (k->check == RDT_WGMMA_TILE && w->batches > 1);
  s->code = code[w->columns + 2 * more + 4 * w->a_columns];
  return RDT_OK;
}

static rdt_status launch(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, const void *const *code,
                         rdt_mma_hit *hit, void *stream, rdt_reason *why) {
  rdt_wide_start s;
  RDT_TRY(rdt_wide_ready(k, w, p, code, &s, why));
  void *arguments[] = {&s.args, &hit};
  /* Behind another kernel it begins while that one ends, and waits for it. */
  cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                               .val.programmaticStreamSerializationAllowed = 1};
  const cudaLaunchConfig_t how = {.gridDim = {(unsigned)s.blocks, 1, 1},
                                  .blockDim = {(unsigned)s.threads, 1, 1},
                                  .dynamicSmemBytes = (size_t)s.shared,
                                  .stream = stream,
                                  .attrs = &early,
                                  .numAttrs = rdt_begins_early(stream)};
  return rdt_cuda_status(cudaLaunchKernelExC(&how, s.code, arguments), k->name, why);
}

/* What is copied is looked at again, where anything is checked: of A both sides of a check are made, and of B where no
 * rows are compared, whose sums are the original's. */
rdt_status rdt_wide_launch(const rdt_cuda_kernel *k, const rdt_wide *w, const rdt_mma_args *p, const void *const *code,
                           rdt_mma_hit *hit, void *stream, rdt_reason *why) {
  const rdt_pads *pads = &w->pads;
  void *const theirs[] = {(void *)p->a, (void *)p->b, p->c};
  rdt_mma_args now = *p;
  if (pads->own[0]) now.a = pads->own[0];
  if (pads->own[1]) now.b = pads->own[1];
  if (pads->own[2]) now.c = pads->own[2];
  RDT_TRY(rdt_pads_run(pads, RDT_WIDE_A | (w->fixed ? 0 : RDT_WIDE_B), false, theirs, NULL, stream, why));
  RDT_TRY(launch(k, w, &now, code, hit, stream, why));
  RDT_TRY(rdt_pads_run(pads, RDT_WIDE_C, false, theirs, NULL, stream, why));
  if (k->check == RDT_MMA_NONE) return RDT_OK;
  return rdt_pads_run(pads, RDT_WIDE_A | RDT_WIDE_C | (w->strips && !w->sums_of.rows ? RDT_WIDE_B : 0), true, theirs,
                      p->verdict, stream, why);
}
