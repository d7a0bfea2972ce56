/* Status, verdict, diagnosis: the three answers of every call.
 *
 * Status says whether the call could be carried out. Verdict says what was found out about the result. A result that
 * is known to be wrong and could not be repaired has the status RDT_ERR_FAULT, never RDT_OK. */
#ifndef REDOUBT_STATUS_H
#define REDOUBT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RDT_API __attribute__((visibility("default")))
#define RDT_MUST_USE __attribute__((warn_unused_result))
#else
#define RDT_API
#define RDT_MUST_USE
#endif

/* Numbered by group: 1xx the caller's arguments, 2xx files and formats, 3xx resources, 4xx the result, 9xx a bug. */
typedef enum rdt_status {
  RDT_OK = 0,
  RDT_ERR_ARG = 100,         /* an argument is missing, contradictory or out of its domain */
  RDT_ERR_SHAPE = 101,       /* shapes do not fit together, are negative, or overflow */
  RDT_ERR_DTYPE = 102,       /* a datatype that this call does not take */
  RDT_ERR_NAME = 103,        /* no such input, node, scheme, ... */
  RDT_ERR_FORMAT = 200,      /* a malformed file */
  RDT_ERR_UNSUPPORTED = 201, /* well-formed, but not available here: an operator, a version, a mode */
  RDT_ERR_IO = 202,          /* reading or writing failed */
  RDT_ERR_NOMEM = 300,       /* out of memory, or a size limit reached */
  RDT_ERR_DEVICE = 301,      /* the device or a vendor library failed */
  RDT_ERR_CANCELLED = 302,   /* rdt_context_cancel was called */
  RDT_ERR_FAULT = 400,       /* a fault was found and not repaired: the result is wrong or of unknown worth */
  RDT_ERR_INTERNAL = 900     /* a bug in Redoubt */
} rdt_status;

/* What was found out about a result, from best to worst: the verdict of a whole is the worst of its parts. */
typedef enum rdt_verdict {
  RDT_CLEAN = 0,      /* every check passed */
  RDT_RECOMPUTED = 1, /* a fault was found; what it hit was computed or read again and passed; bits as without fault */
  RDT_CORRECTED = 2,  /* a fault was found; the value was rebuilt from checksums, within a stated error */
  RDT_UNCHECKED = 3,  /* could not be checked, or was not asked to be; never the same as CLEAN */
  RDT_DETECTED = 4    /* a fault was found and not repaired */
} rdt_verdict;

/* What an event was, by what settled it. */
typedef enum rdt_diagnosis {
  RDT_DIAG_NONE = 0,       /* nothing happened */
  RDT_DIAG_TRANSIENT = 1,  /* the same code path gave another, good result the second time */
  RDT_DIAG_PERSISTENT = 2, /* the same code path loses again; another one wins */
  RDT_DIAG_CHECKER = 3,    /* the checksum was hit, not the data */
  RDT_DIAG_MEMORY = 4,     /* data at rest (weights, activations) changed between two uses */
  RDT_DIAG_UNKNOWN = 5
} rdt_diagnosis;
enum { RDT_DIAG_COUNT = RDT_DIAG_UNKNOWN + 1 };

/* Constant English text; never NULL, "unknown" for values out of range. */
RDT_API const char *rdt_status_name(rdt_status s);       /* "RDT_ERR_SHAPE" */
RDT_API const char *rdt_status_text(rdt_status s);       /* "shapes do not fit together" */
RDT_API const char *rdt_verdict_name(rdt_verdict v);     /* "CLEAN" */
RDT_API const char *rdt_diagnosis_name(rdt_diagnosis d); /* "transient" */

#ifdef __cplusplus
}
#endif
#endif
