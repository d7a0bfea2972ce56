/* What a context holds. */
#ifndef RDT_CORE_CONTEXT_H
#define RDT_CORE_CONTEXT_H

#include <redoubt/context.h>
#include <stdatomic.h>

#include "core/cores.h"
#include "core/cpu_info.h"
#include "core/error.h"

/* Scratch buffers that live as long as the context and only grow: raw linear results, second copies. */
typedef enum rdt_scratch {
  RDT_SCRATCH_RAW,
  RDT_SCRATCH_SPARE,
  RDT_SCRATCH_THIRD,
  RDT_SCRATCH_SHARES,
  RDT_SCRATCH_KERNEL,
  RDT_SCRATCH_COUNT
} rdt_scratch;

typedef struct rdt_scratch_set {
  void *data[RDT_SCRATCH_COUNT];
  size_t bytes[RDT_SCRATCH_COUNT];
} rdt_scratch_set;

struct rdt_context {
  int threads;
  bool all_cores; /* as many threads as cores may be used */
  rdt_isa isa;
  rdt_policy policy;
  char scheme[32]; /* policy.scheme points here */
  atomic_int cancelled;
  rdt_reason error;
  rdt_event_fn on_event;
  void *on_event_user;
  rdt_scratch_set scratch;
  rdt_cores cores, sms;  /* sms: multiprocessors of the device */
  struct rdt_book *book; /* what has been measured (plan/book.h); NULL: nothing */
  void (*drop_book)(struct rdt_book *book);
  const struct rdt_device *device; /* what estimates rest on (plan/device.h), the caller's; NULL: a usual one */
  struct rdt_coverage *coverage;   /* what campaigns have measured of schemes (plan/coverage.h); NULL: what is kept */
  struct rdt_machine *machine;     /* what networks run on (cuda/machine.h); NULL: the CPU */
  void (*drop_machine)(struct rdt_machine *machine);
  char device_name[24]; /* "": cpu */
  bool cold; /* the weights of the network that is planned do not fit the caches: each run finds them in memory */
};

/* rdt_context_create, with the reason. */
rdt_status rdt_context_open(rdt_context **out, int threads, rdt_reason *why);

/* At least bytes, 64-byte aligned; NULL when out of memory. Contents are lost when it grows. */
void *rdt_context_scratch(rdt_context *ctx, rdt_scratch which, size_t bytes);
/* An execution inside an execution gets buffers of its own. */
rdt_scratch_set rdt_context_scratch_push(rdt_context *ctx);
void rdt_context_scratch_pop(rdt_context *ctx, const rdt_scratch_set *saved);
void rdt_context_emit(const rdt_context *ctx, const rdt_event *e);
double rdt_clock(void); /* seconds, monotonic */

#endif
