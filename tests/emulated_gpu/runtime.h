// What the parts of the emulated CUDA runtime tell each other:
//   allocations.c   memory of the device, and of the host where the device reaches it
//   runtime.c       the device, its functions, errors
//   streams.c       what was asked for and is not done yet, and in which order it is done; streams, events, launches
//   graph.c         graphs, and streams that are captured into them
#ifndef RDT_EMULATED_RUNTIME_H
#define RDT_EMULATED_RUNTIME_H

#include <cuda_runtime_api.h>

#include "emulated.h"

// ---- Calls (runtime.c) ----

// Every function of the runtime begins with em_enter and returns em_leave(what came of it): one thread at a time, the
// thread's last error, and what a kernel's fault leaves behind: the device is lost to the process.
void em_enter(void);
cudaError_t em_leave(cudaError_t e);
void em_lose(cudaError_t e);  // em_message() has said why
cudaError_t em_lost(void);
uint64_t em_chance(void);                                                       // of the seed
void em_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));  // to standard error, what no code tells

// ---- Memory (allocations.c) ----

typedef enum em_where {
  EM_NOWHERE,  // where allocations lie, but not in one
  EM_DEVICE,
  EM_PINNED,
  EM_HOST,  // none of ours
} em_where;
cudaError_t em_take(void **p, size_t bytes, em_where where);
cudaError_t em_give(void *p, em_where where);
extern uint64_t em_device_memory;  // all that there is; tests make it less
em_where em_where_of(const void *p, size_t bytes);

// ---- Functions (runtime.c) ----

// A kernel as the host knows it, by the address of its stub.
typedef struct em_kernel {
  const void *stub;
  struct em_binary *binary;
  const char *name;
  const em_function *function;  // when it was asked for
  int dynamic_most;             // cudaFuncAttributeMaxDynamicSharedMemorySize; 0: not set
  bool wide_clusters;           // of more than 8 blocks
} em_kernel;
// What a test does to the PTX of an object before it is read: shows that kernels that are broken are noticed.
extern char *(*em_edit)(char *text);
cudaError_t em_kernel_find(const void *stub, em_kernel **kernel);
// How a launch is asked for; early: cudaLaunchAttributeProgrammaticStreamSerialization.
cudaError_t em_launch_of(const cudaLaunchConfig_t *config, const void *stub, em_launch *launch, bool *early);

// ---- What there is to do (streams.c, graph.c) ----

typedef enum em_job_kind {
  EM_JOB_EMPTY,
  EM_JOB_KERNEL,
  EM_JOB_COPY,
  EM_JOB_FILL,
  EM_JOB_MARK,       // an event
  EM_JOB_GRAPH,      // all nodes of it
  EM_JOB_CONDITION,  // those of a body, where the condition says so
} em_job_kind;

typedef struct em_job {
  em_job_kind kind;
  em_launch launch;
  bool early;
  uint8_t *held;  // what the job owns: a kernel's parameters, bytes of the host's to be copied
  struct {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, rows;
  } move;  // a fill: to, width, value
  int value;
  cudaEvent_t event;
  struct CUgraph_st *graph;        // EM_JOB_GRAPH
  struct em_condition *condition;  // EM_JOB_CONDITION
  struct CUgraph_st *body[2];      // where it holds, where it does not (a loop: NULL)
  bool loops;
} em_job;
void em_job_clear(em_job *job);
bool em_job_copy(em_job *to, const em_job *from);  // false: no memory
cudaError_t em_kernel_job(em_job *job, const cudaLaunchConfig_t *config, const void *stub, void *const *params);

// A piece of work: a job that waits for others.
typedef struct em_work {
  const em_job *job;
  em_job own;               // of a stream: job is this one; of a graph's node the graph has it
  struct em_work **after;   // what it waits for, or of which it consists; each is referred to
  int afters, waits;        // waits: how many of them are not done
  struct em_work **before;  // who waits for it
  int befores;
  bool opened, done;
  int refs;
  uint64_t needed;  // by whom: see em_settle
  em_grid *grid;    // while it runs
} em_work;
// New work behind others (NULL among them: nothing), in the list of what is to be done, with a reference for the
// caller. job moves into it, or is a node's.
em_work *em_work_add(em_job *own, const em_job *job, em_work *const *after, int afters);
void em_work_drop(em_work *work);                 // a reference; NULL: nothing
bool em_work_also(em_work *work, em_work *part);  // it waits for another one; part's reference goes to it
cudaError_t em_settle(em_work *work);             // does what must be done for it
cudaError_t em_settle_all(void);
// Of a graph: its nodes become parts of the work, which is done when they are.
cudaError_t em_graph_open(em_work *work);

struct CUstream_st {
  em_work *last;
  bool waits;                // for the stream NULL, and it for this one
  struct CUgraph_st *graph;  // it is captured into
  cudaGraphNode_t *tips;     // what the next node follows
  int n_tips;
  bool origin;  // the capture began here
  struct CUstream_st *next;
};
struct CUevent_st {
  em_work *work;  // as it was recorded last
  bool timed, recorded;
  uint64_t time;
  struct CUgraph_st *graph;  // it was recorded in a capture
  cudaGraphNode_t *tips;
  int n_tips, refs;
};
extern struct CUstream_st em_default;
struct CUstream_st *em_stream_of(cudaStream_t s);  // NULL: no stream of ours
struct CUstream_st *em_streams(void);              // the first; the default one is the last
void em_event_drop(cudaEvent_t e);
cudaError_t em_ask(cudaStream_t stream, em_job *job);  // into the stream, or the graph that it is captured into

struct CUgraph_st {
  struct CUgraphNode_st **node;
  int nodes, room, refs;
  struct em_condition **condition;
  int conditions;
  bool capturing;
  enum cudaStreamCaptureMode mode;
  unsigned long long thread;
  bool broken;  // something that no capture can hold was asked for
};
struct CUgraphNode_st {
  em_job job;
  enum cudaGraphNodeType type;
  cudaGraphNode_t *after;
  int afters, index;
};
void em_graph_drop(struct CUgraph_st *graph);
cudaError_t em_capture(struct CUstream_st *s, em_job *job);
cudaError_t em_capture_mark(struct CUstream_st *s, cudaEvent_t e);
cudaError_t em_capture_wait(struct CUstream_st *s, cudaEvent_t e);
// A call that would wait, or change memory, of the thread: cudaErrorStreamCaptureUnsupported while something is
// captured.
cudaError_t em_capture_forbids(void);
void em_capture_break(struct CUstream_st *s);
// Does a launch in the stream NULL come into the way of a capture?
cudaError_t em_capture_implicit(void);

#endif
