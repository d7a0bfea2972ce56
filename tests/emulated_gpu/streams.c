// Streams, events, launches and copies, and what does them. Nothing that was asked for is done before somebody waits
// for it, or by chance: what relies on work that it has not waited for finds memory as it was before. What may run side
// by side does, in an order by the seed.
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { MOST = 2048 };             // pieces of work that wait at the same time
enum { EACH = 500, SPEED = 64 };  // steps that a piece of work takes beside those of a kernel; bytes copied in one

// ---- Jobs ----

static bool hold_params(em_job *job, void *const *params) {
  const em_function *f = job->launch.function;
  const size_t table = ((size_t)f->params + 1) * sizeof(void *);
  uint8_t *held = malloc(table + f->param_bytes + 1);
  if (!held) return false;
  void **list = (void **)(void *)held;
  for (int i = 0; i < f->params; i++) {
    list[i] = held + table + f->param_at[i];
    memcpy(list[i], params[i], f->param_size[i]);
  }
  job->held = held, job->launch.params = list;
  return true;
}

void em_job_clear(em_job *job) {
  free(job->held);
  if (job->event) em_event_drop(job->event);
  em_graph_drop(job->graph);
  em_graph_drop(job->body[0]);
  em_graph_drop(job->body[1]);
  *job = (em_job){.kind = EM_JOB_EMPTY};
}

bool em_job_copy(em_job *to, const em_job *from) {
  *to = *from;
  to->held = NULL;
  if (to->event) to->event->refs++;
  struct CUgraph_st *const graphs[] = {to->graph, to->body[0], to->body[1]};
  for (int i = 0; i < 3; i++)
    if (graphs[i]) graphs[i]->refs++;
  return from->kind != EM_JOB_KERNEL || hold_params(to, from->launch.params);
}

// ---- Work ----

static em_work **list;
static int count, room, flying;
static uint64_t asked;

static bool push(em_work ***array, int *n, em_work *x) {
  em_work **grown = (*n & (*n - 1)) == 0 ? realloc(*array, (size_t)(*n ? 2 * *n : 1) * sizeof *grown) : *array;
  if (!grown) return false;
  *array = grown, grown[(*n)++] = x;
  return true;
}

bool em_work_also(em_work *work, em_work *part) {
  if (part->done) {
    em_work_drop(part);
    return true;
  }
  if (!push(&part->before, &part->befores, work)) return false;
  if (!push(&work->after, &work->afters, part)) {
    part->befores--;
    return false;
  }
  work->waits++;
  return true;
}

em_work *em_work_add(em_job *own, const em_job *job, em_work *const *after, int afters) {
  em_work *w = calloc(1, sizeof *w);
  if (w && count == room) {
    em_work **grown = realloc(list, (size_t)(room ? 2 * room : 256) * sizeof *grown);
    if (grown) list = grown, room = room ? 2 * room : 256;
  }
  if (!w || count == room) {
    free(w);
    return NULL;
  }
  if (own) w->own = *own, *own = (em_job){.kind = EM_JOB_EMPTY};
  w->job = own ? &w->own : job;
  w->refs = 2;
  for (int i = 0; i < afters; i++) {
    if (!after[i] || after[i]->done) continue;
    after[i]->refs++;
    if (!em_work_also(w, after[i])) em_lose(cudaErrorMemoryAllocation);
  }
  list[count++] = w;
  return w;
}

void em_work_drop(em_work *w) {
  if (!w || --w->refs > 0) return;
  for (int i = 0; i < w->afters; i++) em_work_drop(w->after[i]);
  if (w->grid) em_grid_free(w->grid);
  em_job_clear(&w->own);
  free(w->after), free(w->before), free(w);
}

static void finish(em_work *w) {
  w->done = true;
  for (int i = 0; i < count; i++)
    if (list[i] == w) {
      list[i] = list[--count];
      break;
    }
  for (int i = 0; i < w->befores; i++) {
    em_work *next = w->before[i];
    if (--next->waits == 0 && next->grid && next->grid->ended) finish(next);
  }
  w->befores = 0;
  // What it waited for is nobody's business any more, but for the grid of a kernel that one behind it may name.
  for (int i = 0; i < w->afters; i++) em_work_drop(w->after[i]);
  w->afters = 0;
  em_work_drop(w);
}

static void mark(em_work *w) {
  if (w->needed == asked || w->done) return;
  w->needed = asked;
  for (int i = 0; i < w->afters; i++) mark(w->after[i]);
}

// A kernel that may begin while what is ahead of it ends: behind one kernel, whose blocks have all let it.
static em_grid *ahead(const em_work *w) {
  if (!w->job->early || w->waits != 1 || w->opened) return NULL;
  for (int i = 0; i < w->afters; i++)
    if (!w->after[i]->done) return w->after[i]->grid && w->after[i]->grid->released ? w->after[i]->grid : NULL;
  return NULL;
}

static bool may_begin(const em_work *w) {
  return !w->grid && (w->waits == 0 || ahead(w));
}

static void begin_kernel(em_work *w) {
  em_launch l = w->job->launch;
  l.before = ahead(w), l.seed = em_chance();
  w->grid = em_launch_begin(&l);
  w->opened = true;
  if (w->grid)
    flying++;
  else
    em_lose(cudaErrorLaunchFailure);
}

static void move(const em_job *job) {
  for (size_t i = 0; i < job->move.rows; i++)
    memmove((char *)job->move.to + i * job->move.to_pitch, (const char *)job->move.from + i * job->move.from_pitch,
            job->move.width);
  em_clock += job->move.rows * job->move.width / SPEED;
}

static void begin(em_work *w) {
  const em_job *job = w->job;
  em_clock += EACH;
  switch (job->kind) {
    case EM_JOB_KERNEL:
      begin_kernel(w);
      return;
    case EM_JOB_GRAPH:
    case EM_JOB_CONDITION:
      if (em_graph_open(w) != cudaSuccess) em_lose(cudaErrorMemoryAllocation);
      if (w->waits == 0 && !em_lost()) finish(w);
      return;
    case EM_JOB_COPY:
      move(job);
      break;
    case EM_JOB_FILL:
      memset(job->move.to, job->value, job->move.width);
      em_clock += job->move.width / SPEED;
      break;
    case EM_JOB_MARK:
      if (job->event->work == w) job->event->time = em_clock, job->event->recorded = true;
      break;
    case EM_JOB_EMPTY:
      break;
  }
  finish(w);
}

// All kernels in flight, until one of them has ended, or lets the next one begin.
static void run_kernels(void) {
  em_grid *g = em_run_one();
  if (!g) {
    em_lose(cudaErrorLaunchFailure);
    return;
  }
  if (!g->ended) return;
  flying--;
  for (int i = 0; i < count; i++)
    if (list[i]->grid == g) {
      if (list[i]->waits == 0) finish(list[i]);
      return;
    }
}

cudaError_t em_settle(em_work *work) {
  if (!work) return em_lost();
  work->refs++;
  while (!work->done && !em_lost()) {
    em_work *chosen = NULL;
    uint64_t n = 0;
    asked++;
    mark(work);
    for (int i = 0; i < count; i++)
      if (list[i]->needed == asked && may_begin(list[i]) && em_chance() % ++n == 0) chosen = list[i];
    if (chosen)
      begin(chosen);
    else if (flying)
      run_kernels();
    else
      em_lose(cudaErrorUnknown);
  }
  em_work_drop(work);
  return em_lost();
}

cudaError_t em_settle_all(void) {
  while (count > 0 && !em_lost()) (void)em_settle(list[em_chance() % (uint64_t)count]);
  return em_lost();
}

// ---- Streams ----

struct CUstream_st em_default;
static struct CUstream_st *streams = &em_default;

struct CUstream_st *em_streams(void) {
  return streams;
}

struct CUstream_st *em_stream_of(cudaStream_t s) {
  if (!s) return &em_default;
  for (struct CUstream_st *at = streams; at; at = at->next)
    if (at == s) return at;
  return NULL;
}

cudaError_t em_ask(cudaStream_t stream, em_job *job) {
  struct CUstream_st *s = em_stream_of(stream);
  cudaError_t e = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
  em_work *after[64] = {NULL};
  int n = 0;
  if (s && s->graph) return em_capture(s, job);
  if (s == &em_default) e = em_capture_implicit();
  if (e == cudaSuccess) {
    after[n++] = s->last;
    for (struct CUstream_st *at = streams; at; at = at->next) {
      const bool ordered = s == &em_default ? at->waits : s->waits && at == &em_default;
      if (!ordered || !at->last || at->last->done) continue;
      if (n == 64 && (e = em_settle(at->last)) != cudaSuccess) break;
      if (n < 64) after[n++] = at->last;
    }
  }
  em_work *w = e == cudaSuccess ? em_work_add(job, NULL, after, n) : NULL;
  if (!w) {
    em_job_clear(job);
    return e == cudaSuccess ? cudaErrorMemoryAllocation : e;
  }
  em_work_drop(s->last);
  s->last = w;
  if (w->own.kind == EM_JOB_MARK) { /* whoever waits for the event waits for this */
    em_work_drop(w->own.event->work);
    w->own.event->work = w, w->own.event->recorded = false;
    w->refs++;
  }
  if (count > MOST) return em_settle_all();
  return em_chance() % 4 == 0 ? em_settle(list[em_chance() % (uint64_t)count]) : em_lost();
}

static cudaError_t make_stream(cudaStream_t *out, unsigned flags) {
  struct CUstream_st *s = calloc(1, sizeof *s);
  em_enter();
  if (!s) return em_leave(cudaErrorMemoryAllocation);
  s->waits = flags != cudaStreamNonBlocking;
  s->next = streams, streams = s;
  *out = s;
  return em_leave(cudaSuccess);
}

cudaError_t cudaStreamCreate(cudaStream_t *s) {
  return make_stream(s, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
  return make_stream(s, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority) {
  (void)priority; /* the order is nobody's promise */
  return make_stream(s, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  em_enter();
  *least = 0, *greatest = -5;
  return em_leave(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream), **at = &streams;
  if (!s || s == &em_default) return em_leave(cudaErrorInvalidResourceHandle);
  if (s->graph) em_capture_break(s);
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  em_work_drop(s->last);
  free(s->tips), free(s);
  return em_leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!s) return em_leave(cudaErrorInvalidResourceHandle);
  if (s->graph) {
    em_capture_break(s);
    return em_leave(cudaErrorStreamCaptureUnsupported);
  }
  const cudaError_t e = s == &em_default ? em_capture_implicit() : cudaSuccess;
  return em_leave(e == cudaSuccess ? em_settle(s->last) : e);
}

// ---- Events ----

static cudaError_t make_event(cudaEvent_t *out, bool timed) {
  cudaEvent_t e = calloc(1, sizeof *e);
  em_enter();
  if (!e) return em_leave(cudaErrorMemoryAllocation);
  e->timed = timed, e->refs = 1;
  *out = e;
  return em_leave(cudaSuccess);
}

void em_event_drop(cudaEvent_t e) {
  if (--e->refs > 0) return;
  em_graph_drop(e->graph);
  free(e->tips), free(e);
}

cudaError_t cudaEventCreate(cudaEvent_t *e) {
  return make_event(e, true);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags) {
  return make_event(e, !(flags & cudaEventDisableTiming));
}

cudaError_t cudaEventDestroy(cudaEvent_t e) {
  em_enter();
  if (!e) return em_leave(cudaErrorInvalidResourceHandle);
  em_work *w = e->work;
  e->work = NULL;
  em_event_drop(e);
  em_work_drop(w);
  return em_leave(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!e || !s) return em_leave(cudaErrorInvalidResourceHandle);
  if (s->graph) return em_leave(em_capture_mark(s, e));
  em_graph_drop(e->graph);
  e->graph = NULL, e->refs++;
  return em_leave(em_ask(stream, &(em_job){.kind = EM_JOB_MARK, .event = e}));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags) {
  (void)flags;
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!e || !s) return em_leave(cudaErrorInvalidResourceHandle);
  if (s->graph || e->graph) return em_leave(em_capture_wait(s, e));
  cudaError_t error = em_ask(stream, &(em_job){.kind = EM_JOB_EMPTY});
  if (error != cudaSuccess || !e->work || e->work->done) return em_leave(error);
  if (s->last->done) return em_leave(em_settle(e->work)); /* by chance it has passed already */
  e->work->refs++;
  return em_leave(em_work_also(s->last, e->work) ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  em_enter();
  if (!e) return em_leave(cudaErrorInvalidResourceHandle);
  if (e->graph) return em_leave(cudaErrorCapturedEvent);
  return em_leave(em_settle(e->work));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  em_enter();
  if (!from || !to || !from->timed || !to->timed || !from->work || !to->work)
    return em_leave(cudaErrorInvalidResourceHandle);
  if (!from->recorded || !to->recorded) return em_leave(cudaErrorNotReady);
  *ms = (float)(1e-6 * ((double)to->time - (double)from->time));
  return em_leave(cudaSuccess);
}

// ---- Launches and copies ----

cudaError_t em_kernel_job(em_job *job, const cudaLaunchConfig_t *config, const void *stub, void *const *params) {
  *job = (em_job){.kind = EM_JOB_KERNEL};
  const cudaError_t e = em_launch_of(config, stub, &job->launch, &job->early);
  return e != cudaSuccess || hold_params(job, params) ? e : cudaErrorMemoryAllocation;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **params) {
  em_job job;
  em_enter();
  const cudaError_t e = em_kernel_job(&job, config, stub, params);
  return em_leave(e == cudaSuccess ? em_ask(config->stream, &job) : e);
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **params, size_t shared,
                             cudaStream_t stream) {
  const cudaLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .dynamicSmemBytes = shared, .stream = stream};
  return cudaLaunchKernelExC(&config, stub, params);
}

static size_t extent(size_t pitch, size_t width, size_t rows) {
  return rows ? (rows - 1) * pitch + width : 0;
}

static bool is_right(em_where where, bool device) {
  return device ? where == EM_DEVICE : where == EM_HOST || where == EM_PINNED;
}

// At the call: memory of the host that is not pinned has been read before it returns, and written, too.
static cudaError_t copy(em_job *job, enum cudaMemcpyKind kind, cudaStream_t stream) {
  const size_t width = job->move.width, rows = job->move.rows;
  if (width == 0 || rows == 0) return cudaSuccess;
  const struct CUstream_st *s = em_stream_of(stream);
  const em_where to = em_where_of(job->move.to, extent(job->move.to_pitch, width, rows)),
                 from = em_where_of(job->move.from, extent(job->move.from_pitch, width, rows));
  const bool known =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!known || !is_right(to, kind != cudaMemcpyDeviceToHost) || !is_right(from, kind != cudaMemcpyHostToDevice) ||
      (rows > 1 && (job->move.to_pitch < width || job->move.from_pitch < width))) {
    em_refuse("a copy of %zu x %zu bytes, kind %d, from %p to %p: not what was allocated, or not there", rows, width,
              (int)kind, job->move.from, job->move.to);
    return cudaErrorInvalidValue;
  }
  job->kind = EM_JOB_COPY;
  if (from == EM_HOST && s && !s->graph) {
    uint8_t *held = malloc(rows * width);
    if (!held) return cudaErrorMemoryAllocation;
    for (size_t i = 0; i < rows; i++)
      memcpy(held + i * width, (const char *)job->move.from + i * job->move.from_pitch, width);
    job->held = held, job->move.from = held, job->move.from_pitch = width;
  }
  const bool waits = to == EM_HOST && s && !s->graph;
  const cudaError_t e = em_ask(stream, job);
  return e == cudaSuccess && waits ? em_settle(s->last) : e;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  em_enter();
  return em_leave(copy(&(em_job){.move = {to, from, bytes, bytes, bytes, 1}}, kind, stream));
}

// RDT_EMULATED_COPY_FAULT=N: the N-th copy from another device has another bit than what it comes from.
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  static long copies;
  em_enter();
  em_job job = {.move = {to, from, bytes, bytes, bytes, 1}};
  if (to_device == from_device) return em_leave(cudaErrorInvalidDevice);
  const cudaError_t e = copy(&job, cudaMemcpyDeviceToDevice, stream);
  const char *fault = getenv("RDT_EMULATED_COPY_FAULT");
  if (e == cudaSuccess && fault && ++copies == atol(fault)) {
    const cudaError_t done = em_settle(em_stream_of(stream)->last);
    ((uint8_t *)to)[bytes / 2] ^= 1;
    return em_leave(done);
  }
  return em_leave(e);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
  em_enter();
  return em_leave(copy(&(em_job){.move = {to, from, to_pitch, from_pitch, width, rows}}, kind, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  em_enter();
  cudaError_t e = em_capture_forbids();
  if (e == cudaSuccess) e = copy(&(em_job){.move = {to, from, bytes, bytes, bytes, 1}}, kind, NULL);
  return em_leave(e == cudaSuccess ? em_settle(em_default.last) : e);
}

static cudaError_t fill(void *p, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (em_where_of(p, bytes) != EM_DEVICE) {
    em_refuse("%zu bytes at %p are filled: not what was allocated", bytes, p);
    return cudaErrorInvalidValue;
  }
  return em_ask(stream, &(em_job){.kind = EM_JOB_FILL, .move = {.to = p, .width = bytes}, .value = value});
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) {
  em_enter();
  return em_leave(fill(p, value, bytes, NULL));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
  em_enter();
  return em_leave(fill(p, value, bytes, stream));
}
