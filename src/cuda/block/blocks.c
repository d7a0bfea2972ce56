#include "cuda/block/blocks.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "core/memory.h"
#include "core/problem.h"
#include "cuda/blas.h"
#include "cuda/probe.h"

enum { SHAPES = 32 /* products that are kept ready, of a lane: edges, and whether they add */ };

typedef struct ready {
  rdt_blas_product p;
  rdt_blas *blas;
} ready;

typedef struct gpu {
  rdt_blocks blocks; /* first: it is what others see */
  enum rdt_block_type type;
  cudaStream_t lane[RDT_BLOCKS_LANES], in, out;
  struct {
    cudaEvent_t followed;
    rdt_blocks_results *results; /* at the begin of its workspace */
    char *library;
    size_t bytes; /* of it */
    double *parts;
    ready ready[SHAPES];
    int n;
    rdt_blocks_results *host; /* pinned */
    rdt_accumulator accumulator;
    cudaEvent_t mark[2]; /* around a product */
    bool marked;
    double seconds;
  } own[RDT_BLOCKS_LANES];
} gpu;

static rdt_status enter(rdt_blocks *b, rdt_reason *why) { /* a thread has a device of its own */
  return rdt_cuda_status(cudaSetDevice(b->device.index), "cudaSetDevice", why);
}

static rdt_status take(rdt_blocks *b, size_t bytes, void **p, rdt_reason *why) {
  *p = NULL;
  RDT_TRY(enter(b, why));
  return rdt_cuda_status(cudaMalloc(p, bytes ? bytes : 1), "cudaMalloc", why);
}

static void give(rdt_blocks *b, void *p) {
  rdt_reason why;
  if (p && enter(b, &why) == RDT_OK) rdt_cuda_free(p);
}

static size_t free_bytes(rdt_blocks *b) {
  size_t there = 0, all = 0;
  rdt_reason why;
  if (enter(b, &why) != RDT_OK || cudaMemGetInfo(&there, &all) != cudaSuccess) return 0;
  return there;
}

/* ---- copies ---- */

static void hand_close(rdt_blocks *b, rdt_hand *h) {
  (void)b;
  for (int i = 0; i < 2; i++) {
    if (h->half[i]) (void)cudaFreeHost(h->half[i]);
    if (h->copied[i]) (void)cudaEventDestroy(h->copied[i]);
  }
  *h = (rdt_hand){{NULL, NULL}, {NULL, NULL}};
}

static rdt_status hand_open(rdt_blocks *b, size_t half, rdt_hand *h, rdt_reason *why) {
  *h = (rdt_hand){{NULL, NULL}, {NULL, NULL}};
  RDT_TRY(enter(b, why));
  for (int i = 0; i < 2; i++) {
    cudaEvent_t e = NULL;
    RDT_TRY(rdt_cuda_status(cudaMallocHost((void **)&h->half[i], half), "cudaMallocHost", why));
    RDT_TRY(rdt_cuda_status(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreate", why));
    h->copied[i] = e;
  }
  return RDT_OK;
}

static rdt_status hand_copy(rdt_blocks *b, rdt_hand *h, int which, void *device, size_t bytes, int64_t count,
                            size_t pitch, bool in, rdt_reason *why) {
  const gpu *g = (const gpu *)b;
  cudaStream_t s = in ? g->in : g->out;
  cudaError_t e;
  if (in)
    e = cudaMemcpy2DAsync(device, pitch, h->half[which], bytes, bytes, (size_t)count, cudaMemcpyHostToDevice, s);
  else
    e = cudaMemcpy2DAsync(h->half[which], bytes, device, pitch, bytes, (size_t)count, cudaMemcpyDeviceToHost, s);
  RDT_TRY(rdt_cuda_status(e, "a copy of a block", why));
  return rdt_cuda_status(cudaEventRecord(h->copied[which], s), "cudaEventRecord", why);
}

static rdt_status hand_wait(rdt_blocks *b, rdt_hand *h, int which, rdt_reason *why) {
  (void)b;
  return rdt_cuda_status(cudaEventSynchronize(h->copied[which]), "a copy of a block", why);
}

/* Without it the driver takes copies through the host's memory, which is what they are to spare. A device is not its
 * own peer. */
static bool near(rdt_blocks *b, const rdt_blocks *other) {
  rdt_reason why;
  int can = 0;
  if (enter(b, &why) != RDT_OK) return false;
  cudaError_t e = cudaDeviceCanAccessPeer(&can, b->device.index, other->device.index);
  if (e == cudaSuccess && can) e = cudaDeviceEnablePeerAccess(other->device.index, 0);
  if (e != cudaSuccess) (void)cudaGetLastError(); /* it is no state of the device */
  return can && (e == cudaSuccess || e == cudaErrorPeerAccessAlreadyEnabled);
}

static rdt_status fetch(rdt_blocks *b, void *to, const rdt_blocks *other, const void *from, size_t bytes,
                        rdt_reason *why) {
  RDT_TRY(enter(b, why));
  return rdt_cuda_status(
      cudaMemcpyPeerAsync(to, b->device.index, from, other->device.index, bytes, ((gpu *)b)->lane[RDT_BLOCKS_LOADED]),
      "a copy from another device", why);
}

static rdt_status get(rdt_blocks *b, int lane, void *to, const void *from, size_t bytes, int64_t count, size_t pitch,
                      rdt_reason *why) {
  cudaStream_t s = ((gpu *)b)->lane[lane];
  RDT_TRY(rdt_cuda_status(
      cudaMemcpy2DAsync(to, bytes, from, count > 1 ? pitch : bytes, bytes, (size_t)count, cudaMemcpyDeviceToHost, s),
      "copy from the device", why));
  return rdt_cuda_wait(s, why);
}

static rdt_status put(rdt_blocks *b, int lane, void *to, const void *from, size_t bytes, rdt_reason *why) {
  RDT_TRY(rdt_cuda_put(to, from, bytes, ((gpu *)b)->lane[lane], why));
  return rdt_cuda_wait(((gpu *)b)->lane[lane], why);
}

static rdt_status clear(rdt_blocks *b, int lane, void *p, size_t bytes, rdt_reason *why) {
  return rdt_cuda_clear(p, bytes, ((gpu *)b)->lane[lane], why);
}

static rdt_status follow(rdt_blocks *b, int lane, int other, rdt_reason *why) {
  gpu *g = (gpu *)b;
  RDT_TRY(rdt_cuda_status(cudaEventRecord(g->own[lane].followed, g->lane[other]), "cudaEventRecord", why));
  return rdt_cuda_status(cudaStreamWaitEvent(g->lane[lane], g->own[lane].followed, 0), "cudaStreamWaitEvent", why);
}

/* ---- products ---- */

static void forget(gpu *g, int lane) {
  for (int i = 0; i < g->own[lane].n; i++) rdt_blas_destroy(g->own[lane].ready[i].blas);
  g->own[lane].n = 0;
}

static void lend(rdt_blocks *b, int lane, void *workspace, size_t library) {
  gpu *g = (gpu *)b;
  const bool beside = lane < RDT_BLOCKS_LOADED;
  for (int l = lane; l < RDT_BLOCKS_LANES; l += beside ? RDT_BLOCKS_BESIDE : RDT_BLOCKS_LANES) {
    forget(g, l);
    g->own[l].results = workspace;
    g->own[l].library = (char *)workspace + RDT_BLOCKS_HEAD;
    g->own[l].bytes = library;
    g->own[l].parts = (double *)(void *)(g->own[l].library + library);
  }
}

static rdt_blas_product product_of(const rdt_blocks_product *p) {
  rdt_blas_product x;
  memset(&x, 0, sizeof x); /* it is compared as a whole */
  x.in[0] = p->a.dtype, x.in[1] = p->b.dtype, x.out = p->c.dtype;
  x.m = p->a.shape[0], x.n = p->b.shape[1], x.k = p->a.shape[1], x.batches = 1;
  for (int d = 0; d < 2; d++) x.a[d] = p->a.stride[d], x.b[d] = p->b.stride[d];
  x.c = p->c.stride[0];
  x.alpha = 1.0, x.beta = p->add ? 1.0 : 0.0;
  return x;
}

static rdt_status blas_for(gpu *g, int lane, const rdt_blas_product *p, rdt_blas **blas, rdt_reason *why) {
  int i = 0;
  while (i < g->own[lane].n && memcmp(&g->own[lane].ready[i].p, p, sizeof *p) != 0) i++;
  if (i == g->own[lane].n) {
    if (i == SHAPES) forget(g, lane), i = 0;
    RDT_TRY(rdt_blas_create_lent(p, g->own[lane].library, g->own[lane].bytes, &g->own[lane].ready[i].blas, why));
    g->own[lane].ready[i].p = *p;
    g->own[lane].n = i + 1;
    if (rdt_dtype_is_half(p->in[0]) && !rdt_blas_on_tensor_cores(g->own[lane].ready[i].blas))
      g->own[lane].accumulator = rdt_accumulator_mma(0, 0, p->in[0]);
  }
  *blas = g->own[lane].ready[i].blas;
  return RDT_OK;
}

static rdt_accumulator accumulator(const rdt_blocks *b, int lane) {
  return ((const gpu *)b)->own[lane].accumulator;
}

static rdt_status multiply_plain(gpu *g, int lane, const rdt_blocks_product *p, rdt_reason *why) {
  rdt_plain_args args = {.a = p->a.data,
                         .b = p->b.data,
                         .c = p->c.data,
                         .m = p->a.shape[0],
                         .n = p->b.shape[1],
                         .k = p->a.shape[1],
                         .a_row = p->a.stride[0],
                         .a_column = p->a.stride[1],
                         .b_row = p->b.stride[0],
                         .b_column = p->b.stride[1],
                         .c_row = p->c.stride[0],
                         .add = p->add};
  void *arguments[] = {&args};
  const dim3 grid = {(unsigned)((args.n + RDT_PLAIN_SIDE - 1) / RDT_PLAIN_SIDE),
                     (unsigned)((args.m + RDT_PLAIN_SIDE - 1) / RDT_PLAIN_SIDE), 1},
             block = {RDT_PLAIN_THREADS, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(rdt_plain_code[g->type], grid, block, arguments, 0, g->lane[lane]),
                         "a plain product", why);
}

static rdt_status mark(gpu *g, int lane, int which, rdt_reason *why) {
  return rdt_cuda_status(cudaEventRecord(g->own[lane].mark[which], g->lane[lane]), "cudaEventRecord", why);
}

/* After the lane was waited for. */
static void take_time(gpu *g, int lane) {
  float ms = 0.0f;
  if (!g->own[lane].marked) return;
  g->own[lane].marked = false;
  if (cudaEventElapsedTime(&ms, g->own[lane].mark[0], g->own[lane].mark[1]) == cudaSuccess)
    g->own[lane].seconds += 1e-3 * (double)ms;
}

static double product_seconds(const rdt_blocks *b, int lane) {
  return ((const gpu *)b)->own[lane].seconds;
}

static rdt_status multiply_by_library(gpu *g, int lane, const rdt_blocks_product *p, rdt_reason *why) {
  rdt_blas *blas;
  const rdt_blas_product x = product_of(p);
  const rdt_blas_operands o = {.a = p->a.data, .b = p->b.data, .c = p->c.data, .residual = p->c.data};
  RDT_TRY(blas_for(g, lane, &x, &blas, why));
  return rdt_blas_launch(blas, &o, g->lane[lane], why);
}

/* Some products of one row or column the library does not take. */
static rdt_status multiply(rdt_blocks *b, int lane, const rdt_blocks_product *p, rdt_reason *why) {
  gpu *g = (gpu *)b;
  rdt_status status = RDT_ERR_UNSUPPORTED;
  if (!g->own[lane].marked) RDT_TRY(mark(g, lane, 0, why)); /* of several that nobody has waited for, the first */
  if (!p->plain) status = multiply_by_library(g, lane, p, why);
  if (status == RDT_ERR_UNSUPPORTED) status = multiply_plain(g, lane, p, why);
  RDT_TRY(status);
  g->own[lane].marked = true;
  return mark(g, lane, 1, why);
}

/* ---- sums ---- */

static rdt_status launch_with(const void *code, dim3 grid, void *args, size_t shared, cudaStream_t s, const char *what,
                              rdt_reason *why) {
  void *arguments[] = {args};
  const dim3 block = {RDT_PASS_THREADS, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, shared, s), what, why);
}

static rdt_status launch(const void *code, dim3 grid, void *args, cudaStream_t s, const char *what, rdt_reason *why) {
  return launch_with(code, grid, args, 0, s, what, why);
}

static dim3 each(int64_t n) {
  return (dim3){(unsigned)((n + RDT_PASS_THREADS - 1) / RDT_PASS_THREADS), 1, 1};
}

static rdt_status gather(const double *parts, int64_t n, unsigned count, const rdt_blocks_side *to, cudaStream_t s,
                         rdt_reason *why) {
  rdt_gather_args g = {.parts = parts,
                       .n = n,
                       .count = (int)count,
                       .dot = to->dot,
                       .sq = to->sq,
                       .total_dot = to->total_dot,
                       .total_sq = to->total_sq,
                       .between = to->between,
                       .seen_sq = to->seen_sq,
                       .half = to->half,
                       .factor = to->factor};
  return launch(rdt_gather_code, each(n), &g, s, "sums of a block", why);
}

static rdt_status sums(rdt_blocks *b, int lane, const rdt_tensor *x, const rdt_blocks_side *right,
                       const rdt_blocks_side *left, int seal, rdt_reason *why) {
  gpu *g = (gpu *)b;
  static const enum rdt_block_type types[RDT_DTYPE_COUNT] = {
      [RDT_F16] = RDT_BLOCK_F16, [RDT_BF16] = RDT_BLOCK_BF16, [RDT_F32] = RDT_BLOCK_F32, [RDT_F64] = RDT_BLOCK_F64};
  const bool columns = x->stride[1] != 1; /* they are the lines */
  const rdt_blocks_side *along = columns ? left : right, *across = columns ? right : left;
  if (along && !along->dot) along = NULL;
  if (across && !across->dot) across = NULL;
  rdt_pass_args p = {.x = x->data,
                     .lines = x->shape[columns],
                     .length = x->shape[!columns],
                     .pitch = x->stride[columns],
                     .each = rdt_pass_lines(x->shape[columns], x->shape[!columns], (int64_t)rdt_dtype_size(x->dtype)),
                     .seal = seal < 0 ? NULL : (unsigned long long *)&g->own[lane].results->seal[seal]};
  const dim3 grid = {(unsigned)(((size_t)p.length * rdt_dtype_size(x->dtype) + RDT_PASS_BYTES - 1) / RDT_PASS_BYTES),
                     (unsigned)((p.lines + p.each - 1) / p.each), 1};
  p.line_parts = g->own[lane].parts;
  p.cross_parts = p.line_parts + 2 * (int64_t)grid.x * p.lines;
  if (along) p.along_dot = along->weight_dot, p.along_sq = along->weight_sq;
  if (across) p.across_dot = across->weight_dot, p.across_sq = across->weight_sq;
  const int which = (along ? 1 : 0) + (across ? 2 : 0);
  RDT_TRY(launch_with(rdt_pass_code[types[x->dtype]][which], grid, &p, RDT_PASS_SHARED, g->lane[lane],
                      "sums of a block", why));
  if (along) RDT_TRY(gather(p.line_parts, p.lines, grid.x, along, g->lane[lane], why));
  if (across) RDT_TRY(gather(p.cross_parts, p.length, grid.y, across, g->lane[lane], why));
  return RDT_OK;
}

static rdt_status compare(rdt_blocks *b, int lane, int64_t n, const double *observed_dot, const double *observed_sq,
                          const double *expected_dot, const double *expected_sq, const rdt_box_bound *bound,
                          bool widest, rdt_reason *why) {
  gpu *g = (gpu *)b;
  rdt_compare_args args = {.n = n,
                           .observed_dot = observed_dot,
                           .observed_sq = observed_sq,
                           .expected_dot = expected_dot,
                           .expected_sq = expected_sq,
                           .bound = *bound,
                           .widest = widest,
                           .found = &g->own[lane].results->found};
  return launch(rdt_compare_code, each(n), &args, g->lane[lane], "checks of a block", why);
}

enum { MOST_LINES = 4096 /* thread blocks along the lines */ };

static rdt_status add(rdt_blocks *b, int lane, const rdt_tensor *to, bool kept, const rdt_tensor *x,
                      const rdt_tensor *y, double sign, rdt_reason *why) {
  gpu *g = (gpu *)b;
  const bool columns = to->stride[1] != 1;
  rdt_halves_args args = {.to = to->data,
                          .x = x->data,
                          .y = y ? y->data : NULL,
                          .lines = to->shape[columns],
                          .length = to->shape[!columns],
                          .to_pitch = to->stride[columns],
                          .x_pitch = x->stride[columns],
                          .y_pitch = y ? y->stride[columns] : 0,
                          .sign = sign,
                          .kept = kept};
  dim3 grid = each(args.length);
  grid.y = (unsigned)(args.lines < MOST_LINES ? args.lines : MOST_LINES);
  return launch(rdt_halves_code[to->dtype == RDT_F64], grid, &args, g->lane[lane], "sums of halves", why);
}

static rdt_status reset(rdt_blocks *b, int lane, rdt_reason *why) {
  gpu *g = (gpu *)b;
  return rdt_cuda_clear(g->own[lane].results, sizeof(rdt_blocks_results), g->lane[lane], why);
}

static rdt_status wait_lane(rdt_blocks *b, int lane, rdt_reason *why) {
  RDT_TRY(rdt_cuda_wait(((gpu *)b)->lane[lane], why));
  take_time((gpu *)b, lane);
  return RDT_OK;
}

static rdt_status results(rdt_blocks *b, int lane, rdt_blocks_results *r, rdt_reason *why) {
  gpu *g = (gpu *)b;
  RDT_TRY(rdt_cuda_get(g->own[lane].host, g->own[lane].results, sizeof *r, g->lane[lane], why));
  *r = *g->own[lane].host;
  take_time(g, lane);
  return RDT_OK;
}

/* ---- begin and end ---- */

static void shut(rdt_blocks *b) {
  gpu *g = (gpu *)b;
  rdt_reason why;
  (void)enter(b, &why);
  for (int l = 0; l < RDT_BLOCKS_LANES; l++) {
    forget(g, l);
    if (g->lane[l]) (void)cudaStreamDestroy(g->lane[l]);
    for (int i = 0; i < 2; i++)
      if (g->own[l].mark[i]) (void)cudaEventDestroy(g->own[l].mark[i]);
    if (g->own[l].followed) (void)cudaEventDestroy(g->own[l].followed);
    if (g->own[l].host) (void)cudaFreeHost(g->own[l].host);
  }
  if (g->in) (void)cudaStreamDestroy(g->in);
  if (g->out) (void)cudaStreamDestroy(g->out);
  rdt_free(g);
}

static rdt_status stream(cudaStream_t *s, int priority, rdt_reason *why) {
  return rdt_cuda_status(cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, priority), "cudaStreamCreate", why);
}

static rdt_status make(gpu *g, rdt_dtype in, rdt_reason *why) {
  int low = 0, high = 0, version;
  RDT_TRY(rdt_blas_version(&version, why)); /* none: that is said before anything is begun */
  RDT_TRY(rdt_cuda_status(cudaDeviceGetStreamPriorityRange(&low, &high), "priorities of streams", why));
  for (int l = 0; l < RDT_BLOCKS_LANES; l++) {
    RDT_TRY(stream(&g->lane[l], l == RDT_BLOCKS_LOADED ? high : low, why)); /* short, and products wait for it */
    for (int i = 0; i < 2; i++) RDT_TRY(rdt_cuda_status(cudaEventCreate(&g->own[l].mark[i]), "cudaEventCreate", why));
    RDT_TRY(
        rdt_cuda_status(cudaEventCreateWithFlags(&g->own[l].followed, cudaEventDisableTiming), "cudaEventCreate", why));
    RDT_TRY(rdt_cuda_status(cudaMallocHost((void **)&g->own[l].host, sizeof *g->own[l].host), "cudaMallocHost", why));
  }
  for (int i = 0; i < RDT_BLOCK_TYPES * RDT_PASS_CASES; i++)
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(rdt_pass_code[i / RDT_PASS_CASES][i % RDT_PASS_CASES],
                                                 cudaFuncAttributeMaxDynamicSharedMemorySize, RDT_PASS_SHARED),
                            "shared memory of sums", why));
  RDT_TRY(stream(&g->in, high, why));
  RDT_TRY(stream(&g->out, high, why));
  g->type = in == RDT_F16    ? RDT_BLOCK_F16
            : in == RDT_BF16 ? RDT_BLOCK_BF16
            : in == RDT_F32  ? RDT_BLOCK_F32
                             : RDT_BLOCK_F64;
  rdt_accumulator acc = rdt_accumulator_of(in, rdt_dtype_accumulator(in));
  g->blocks.splits = 32; /* of a black box, at most */
  if (rdt_dtype_is_half(in)) RDT_TRY(rdt_probe(&g->blocks.device, in, NULL, &acc, why));
  for (int l = 0; l < RDT_BLOCKS_LANES; l++) g->own[l].accumulator = acc;
  return RDT_OK;
}

rdt_status rdt_blocks_open(int index, rdt_dtype in, rdt_blocks **out, rdt_reason *why) {
  rdt_cuda_device device;
  *out = NULL;
  RDT_TRY(rdt_cuda_open(index, &device, why));
  gpu *g = rdt_calloc(1, sizeof *g);
  if (!g) return rdt_fail(why, RDT_ERR_NOMEM, "cuda:%d: out of memory", index);
  g->blocks = (rdt_blocks){.device = device,
                           .accumulator = accumulator,
                           .enter = enter,
                           .alloc = take,
                           .release = give,
                           .free_bytes = free_bytes,
                           .hand_open = hand_open,
                           .hand_close = hand_close,
                           .hand_copy = hand_copy,
                           .hand_wait = hand_wait,
                           .near = near,
                           .fetch = fetch,
                           .lend = lend,
                           .multiply = multiply,
                           .sums = sums,
                           .compare = compare,
                           .add = add,
                           .clear = clear,
                           .reset = reset,
                           .follow = follow,
                           .results = results,
                           .wait = wait_lane,
                           .product_seconds = product_seconds,
                           .get = get,
                           .put = put,
                           .close = shut};
  const rdt_status status = make(g, in, why);
  if (status != RDT_OK) {
    shut(&g->blocks);
    return status;
  }
  *out = &g->blocks;
  return RDT_OK;
}
