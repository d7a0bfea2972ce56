/* Libraries of NVIDIA's that are opened when they are first needed, so that nothing links with them: by the loader's
 * own path, then in CUDA_HOME and CUDA_PATH, then where packages put them. */
#ifndef RDT_CUDA_LIBRARY_H
#define RDT_CUDA_LIBRARY_H

#include <pthread.h>

#include "core/error.h"

enum { RDT_LIBRARY_DEVICES = 64 };

typedef struct rdt_library_symbol {
  const char *name;
  void **function;
} rdt_library_symbol;

/* One a process, with static storage. The rest is rdt_library_open's. */
typedef struct rdt_library {
  const char *called;       /* in messages: "cuBLASLt" */
  const char *const *names; /* of files, the newest first, NULL at the end */
  const char *create;       /* its function that makes a handle: int (void **handle), of the current device */
  const char *version;      /* its function that tells the version: size_t (void) */
  const rdt_library_symbol *symbols;
  int count;
  rdt_status (*status)(int code, const char *what, rdt_reason *why); /* what its codes mean */
  pthread_mutex_t lock;                                              /* PTHREAD_MUTEX_INITIALIZER */
  void *opened;
  int (*make)(void **handle);
  size_t (*tell)(void);
  void *handle[RDT_LIBRARY_DEVICES];
} rdt_library;

/* Opens it, unless it is, for the process's life; all its symbols then are set. version: NULL, or what it says.
 * RDT_ERR_UNSUPPORTED with where it was looked for, or with the function that it lacks. */
rdt_status rdt_library_open(rdt_library *l, int *version, rdt_reason *why);
/* The same, and its handle of the current device, made at the first call. */
rdt_status rdt_library_handle(rdt_library *l, void **handle, rdt_reason *why);

#endif
