/* Errors carry a reason: one buffer a context, filled where the condition is known. */
#ifndef RDT_CORE_ERROR_H
#define RDT_CORE_ERROR_H

#include <redoubt/status.h>

typedef struct rdt_reason {
  char text[512];
} rdt_reason;

/* Writes the text (why may be NULL) and returns s, so that a failing branch is one line. */
rdt_status rdt_fail(rdt_reason *why, rdt_status s, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define RDT_TRY(expr)                        \
  do {                                       \
    const rdt_status rdt_try_ = (expr);      \
    if (rdt_try_ != RDT_OK) return rdt_try_; \
  } while (0)

/* For functions with one clean-up label: status must be a variable of the function. */
#define RDT_TRY_GOTO(expr, label)     \
  do {                                \
    status = (expr);                  \
    if (status != RDT_OK) goto label; \
  } while (0)

#endif
