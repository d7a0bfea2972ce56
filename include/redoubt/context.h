/* A context: device, threads, policy, events, last error. It belongs to one thread at a time; contexts are independent.
 */
#ifndef REDOUBT_CONTEXT_H
#define REDOUBT_CONTEXT_H

#include <redoubt/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Made by rdt_context_create. */
typedef struct rdt_context rdt_context;

/* What to do with a fault that was found. */
typedef enum rdt_on_fault {
  RDT_ON_FAULT_RECOMPUTE = 0, /* recompute until the checks pass (default); bit-identical to a run without the fault */
  RDT_ON_FAULT_REPORT = 1,    /* leave the result as it is, verdict DETECTED, status RDT_ERR_FAULT */
  RDT_ON_FAULT_ABORT = 2,     /* stop at the first fault: RDT_ERR_FAULT, no outputs */
  RDT_ON_FAULT_CORRECT = 3    /* rebuild from checksums what they locate, within a stated bound (verdict CORRECTED);
                                 recompute everything else. Results are kept for it: no check rides along in a kernel */
} rdt_on_fault;

/* How a context protects; start from RDT_POLICY_DEFAULT. */
typedef struct rdt_policy {
  const char *scheme;    /* "auto" (default) or a name of `redoubt list schemes`, row, col and rowcol also as "row:2": 2
                            independent checks (1..8) for 2 faults in a line; NULL = "auto" */
  rdt_on_fault on_fault; /* default RDT_ON_FAULT_RECOMPUTE */
  double lambda;         /* width of the statistical bound in standard deviations; default 6; docs/tolerance.md */
  int scrub_every; /* weights that a check covers are verified at rest every so many runs too; 0: never; default 16.
                      Those that no check covers are verified at every run, whatever this says */
  const char *avoid_cores; /* cores that no thread of the context may run on, as in "3" or "0,8-11"; NULL: none. Calls
                              keep the threads of OpenMP away from them, the calling one too, and let them go again */
  int keep_weights;    /* plans of products and convolutions keep a copy of their weights, which is restored from the
                          caller's when it changes in memory; default 0: the caller's are used, and cannot be restored.
                          Networks restore theirs from the model file, whatever this says */
  double suspect_rate; /* share of a layer's runs whose suspects may turn out to be rounding, each of which costs a
                          recovery: above it, after 4 such runs at least, the layer is computed twice (dup) from then
                          on, and an event says so. Of more than some 1000 runs the older ones count half. 0: never;
                          default 0.05, far above what lambda 6 leaves to chance */
  double min_coverage; /* the least share of single faults that an automatic choice must find, as `redoubt list schemes`
                          has it: measured, else declared; default 0.99 */
  int permanent;       /* automatic choices for products and convolutions survive a core that is wrong every time: three
                          copies on different cores (tmr-sm); refused where there is one core; default 0 */
  int checkpoints; /* three copies (permanent, tmr-sm; of a GPU also tmr-block, tmr-split) vote so often along k, the
                      last time at the end; 1..64. Of networks on a CPU it divides products when they are loaded, and
                      a plan file is of one number; docs/tmr.md. 0 (default): as the plan file has it that was read,
                      else once, on a GPU as often as usual */
} rdt_policy;

#define RDT_POLICY_DEFAULT \
  { "auto", RDT_ON_FAULT_RECOMPUTE, 6.0, 16, NULL, 0, 0.05, 0.99, 0, 0 }

typedef enum rdt_event_kind {
  RDT_EVENT_SUSPECT = 0,   /* a residual above the statistical bound that a recompute explained as rounding */
  RDT_EVENT_FAULT = 1,     /* a confirmed fault; verdict says whether it was repaired */
  RDT_EVENT_UNCHECKED = 2, /* a result, or part of it, could not be checked; text says why */
  RDT_EVENT_FALLBACK = 3   /* a layer is computed twice from now on: its checks were suspect too often (suspect_rate) */
} rdt_event_kind;

/* One step that the recovery took, in the order taken. Names and outcomes are constant text. */
typedef struct rdt_rung {
  const char *name; /* "secure" data at rest against their sums, "correct" from checksums, "recompute" on the same code
                       path, "apart" likewise with the check in passes of its own, "checksum" made again from the
                       weights, "other core" the same code path there, "other path"; of three copies "vote", "known
                       answers": products whose results are known */
  const char *outcome; /* "secure", "checksum": "intact", "restored", "lost"; the others: "passed", "failed", "agreed"
                          (with the result that was doubted), "unchecked" (no bound), "declined" (not located) */
  double seconds;
} rdt_rung;
enum { RDT_MAX_RUNGS = 8 };

/* What had changed of a weight at rest, by the sums of its tiles of 256 KiB: they are as they were again. */
typedef struct rdt_rot {
  const char *tensor;      /* NULL: none had; of several the first */
  int64_t tiles;           /* that had changed */
  int64_t changed, first;  /* elements in the first of them; the first one's number in the tensor, -1 not known */
  double expected, actual; /* its value, and what was found; 0 where first is -1 */
} rdt_rot;

/* One finding. Strings live until the callback returns. */
typedef struct rdt_event {
  rdt_event_kind kind;
  const char *node;   /* node name, or the op for a single product */
  const char *op;     /* "Conv" */
  const char *scheme; /* "ic" */
  const char *kernel; /* "conv_f32_onednn" */
  const char *what;   /* what was hit: "result", "second copy", "epilogue", "weight", "activation", "checksum", "plan",
                         "comparison", "counter", "verdict", "output" (a published copy) */
  int64_t place[2];   /* row, column of the deciding check; -1 where it has none. For dup, memory: element, -1 */
  double residual;    /* |observed - expected| of the deciding check; 0 for bitwise ones */
  double bound;       /* what rounding alone explains (statistical) */
  double bound_rigorous;
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  int64_t changed;   /* elements whose bits the repair changed; -1 unknown */
  const char *text;  /* one sentence for people */
  const char *dtype; /* of the op's result; where a weight was hit while planning, of the weight */
  int rank;
  int64_t shape[RDT_MAX_RANK];
  double floor;            /* detection floor of the checks: twice the largest bound; 0 for bitwise ones */
  int64_t element;         /* row-major number in the result of the first element that changed; -1 not known */
  int valued;              /* are the next two known? */
  double expected, actual; /* value of that element: as the repair has it, as it was found; before bias and
                              activation where the op's check comes before them */
  double corrected_bound;  /* verdict CORRECTED: no element of the op's result before bias and activation is further
                              from the one without the fault; else 0 */
  rdt_rot rot;             /* of memory: the weight that had changed */
  int core;                /* that executed what was hit; -1 not known, or memory was hit */
  const char *device;      /* "cuda:0", one of whose multiprocessors complained or was hit; NULL: none is known */
  int multiprocessor;      /* where there is a device */
  int n_rungs;
  rdt_rung rungs[RDT_MAX_RUNGS];
} rdt_event;

/* Called by the thread that runs, once for each event, before the call returns that found it. */
typedef void (*rdt_event_fn)(const rdt_event *event, void *user);

/* threads <= 0: as many as the process may use; more than 1024 are taken as 1024. Errors: RDT_ERR_NOMEM, also
 * where the system does not give so many threads (RLIMIT_AS, RLIMIT_NPROC). The caller owns *out
 * (rdt_context_destroy).
 * Signals: in oneDNN 2.6's product of f32 on AVX2 the stack pointer is at its workspace, on the heap, and the frame of
 * a handler that runs in such a thread overwrites what lies below. A program with handlers blocks their signals in
 * threads that compute before these are made (pthread_sigmask; OpenMP's take the mask of who makes them over) and takes
 * them in another thread, or gives each thread a stack for signals (sigaltstack, SA_ONSTACK). The command line does the
 * former. */
RDT_API RDT_MUST_USE rdt_status rdt_context_create(rdt_context **out, int threads);
RDT_API void rdt_context_destroy(rdt_context *ctx); /* NULL is fine; plans and models of it must be gone before */
/* Errors: RDT_ERR_NAME unknown scheme, RDT_ERR_ARG a number out of range, no such core, or no core left. Holds for
 * plans made later; a context that was made for as many threads as there are cores takes as many as are left. */
RDT_API RDT_MUST_USE rdt_status rdt_context_set_policy(rdt_context *ctx, const rdt_policy *policy);
/* What networks that are planned from now on run on: "cpu" (at first), or "cuda:N". No model of the context may be
 * planned. Products of rdt_gemm and rdt_plan_* stay on the CPU, and so does what of a network the device has no kernel
 * for. Errors: RDT_ERR_NAME there is no such device, RDT_ERR_DEVICE there is no GPU, or it failed, RDT_ERR_UNSUPPORTED
 * it is too old. */
RDT_API RDT_MUST_USE rdt_status rdt_context_set_device(rdt_context *ctx, const char *device);
RDT_API const char *rdt_context_device(const rdt_context *ctx); /* "cpu", "cuda:0" */
/* Who is told of events from now on; NULL: nobody. */
RDT_API void rdt_context_on_event(rdt_context *ctx, rdt_event_fn fn, void *user);
/* May be called from a signal handler or another thread: running calls return RDT_ERR_CANCELLED soon, and so does every
 * later one of this context. */
RDT_API void rdt_context_cancel(rdt_context *ctx);
/* Text of the last error of this context, with file, node, shape and remedy; "" if none. Valid until the next call. */
RDT_API const char *rdt_context_error(const rdt_context *ctx);
/* What it computes with. */
RDT_API int rdt_context_threads(const rdt_context *ctx);
RDT_API const char *rdt_context_isa(const rdt_context *ctx); /* "generic", "avx2", "avx512" */

/* What was found out about one result. */
typedef struct rdt_result {
  rdt_verdict verdict;
  rdt_diagnosis diagnosis; /* of the worst event */
  int64_t checks;          /* comparisons made */
  int64_t suspects;        /* above the statistical bound */
  int64_t faults;          /* confirmed */
  int64_t unchecked;       /* comparisons that could not be made (NaN or Inf in the inputs) */
  double ratio;            /* largest |residual| / bound of the first pass, faulty or not */
  double residual, bound;  /* of that check */
  double floor;            /* detection floor: twice the largest bound among the checks; 0 for bitwise ones */
  int64_t place[2];        /* row, column of that check; -1 where it has none */
  double seconds;          /* wall time of all */
  double seconds_check;    /* of which checks, duplicates and repair */
  double corrected_bound;  /* verdict CORRECTED: as in the event */
} rdt_result;

/* What a context knows of one core. */
typedef struct rdt_core_info {
  int core;                       /* its number, as the system counts */
  int64_t products;               /* executions of layers, or of a thread's share of one, that began there */
  int64_t suspects;               /* checks of these above the statistical bound: rounding, or a fault */
  int64_t faults[RDT_DIAG_COUNT]; /* confirmed, by diagnosis */
} rdt_core_info;
/* Counters of the cores that have executed something, in order: the first `room` of them into list, all of their number
 * as result. A kernel of a vendor library does not say which thread computed what: its threads are counted where they
 * were last seen. */
RDT_API size_t rdt_context_cores(const rdt_context *ctx, rdt_core_info *list, size_t room);
/* The same of the multiprocessors of the context's device, by their numbers (%smid): suspects are all complaints of
 * checks, as the device has counted them; faults, those of which it is known who was hit; products are not counted. */
RDT_API size_t rdt_context_multiprocessors(const rdt_context *ctx, rdt_core_info *list, size_t room);

/* Bytes that the library holds in this process now, and the most that it held at once since the last reset: weights,
 * checksums, activations, buffers. Not counted: the caller's memory, model files that are mapped, and what oneDNN and
 * the C library allocate for themselves. */
RDT_API size_t rdt_memory_now(void);
RDT_API size_t rdt_memory_peak(void);
RDT_API void rdt_memory_reset(void); /* the peak becomes what is held now */

RDT_API const char *rdt_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
