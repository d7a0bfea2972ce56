/* Libraries of NVIDIA's that are opened when they are first needed, so that nothing links with them: by the loader's
 * own path, then in CUDA_HOME and CUDA_PATH, then where packages put them. */
#ifndef RDT_CUDA_LIBRARY_H
#define RDT_CUDA_LIBRARY_H

#include "core/error.h"

typedef struct rdt_library_symbol {
  const char *name;
  void **function;
} rdt_library_symbol;

/* names: file names, the newest first, NULL at the end. *handle: kept for the process's life. RDT_ERR_UNSUPPORTED with
 * where it was looked for, or with the function that it lacks. */
rdt_status rdt_library_open(const char *const *names, const rdt_library_symbol *symbols, int count, void **handle,
                            rdt_reason *why);

#endif
