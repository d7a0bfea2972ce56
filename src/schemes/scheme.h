/* A scheme: what to precompute from the weights, what must equal what. Algebra and bookkeeping; the sums over the data
 * come from src/cpu. Schemes check raw linear outputs (problem.acc precision, before the epilogue). */
#ifndef RDT_SCHEMES_SCHEME_H
#define RDT_SCHEMES_SCHEME_H

#include "check/findings.h"
#include "check/vault.h"
#include "core/problem.h"
#include "cpu/kernel.h"
#include "inject/fault.h"

typedef struct rdt_scheme {
  /* RDT_OK or RDT_ERR_UNSUPPORTED with the reason */
  rdt_status (*accept)(const rdt_problem *p, rdt_reason *why);
  /* Precomputes what depends on the weights (in[1].data where fixed_weights; otherwise left to verify). sets: of
   * independent checks, at most the table's. */
  rdt_status (*create)(const rdt_problem *p, bool fixed_weights, double lambda, int sets, int threads, void **state,
                       rdt_reason *why);
  /* Checks raw (o->out, dtype p->acc) against o->in and books into f. If fin is not NULL, also writes the epilogue's
   * result out = act(alpha raw + bias + beta residual) to fin in the same pass (memory of its own: raw may be read
   * again). Common-mode rule: the expected side never reads the kernel's packed weights. */
  rdt_status (*verify)(void *state, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f, rdt_reason *why);
  /* Precomputed checksums (sealed by the caller with a bit-sum; injection target; made again after a fault by
   * recreate). */
  void (*checksums)(void *state, void **data, size_t *bytes, rdt_dtype *dtype);
  rdt_status (*recreate)(void *state, const rdt_tensor *weights, rdt_reason *why);
  void (*destroy)(void *state);
  /* What never changes after create: frame takes where things lie and how they are compared, tables the signs. */
  rdt_status (*fixed)(void *state, rdt_vault *frame, rdt_vault *tables);
} rdt_scheme;

enum { RDT_MOST_SETS = 8 };

typedef enum rdt_scheme_id {
#define X(id, ...) RDT_SCHEME_##id,
#include "schemes/schemes.def"
#undef X
  RDT_SCHEME_COUNT
} rdt_scheme_id;

typedef struct rdt_scheme_info {
  rdt_scheme_id id;
  const char *name, *ops;
  bool detects, locates;
  const char *granularity;
  double coverage; /* declared share of single faults that are found */
  bool covers_weights, covers_packed;
  int sets;               /* of independent checks, at most: NAME:f for f faults in a line */
  unsigned forms;         /* that a kernel must make as it goes; 0: it cannot be made so */
  const char *claims;     /* sites that it covers: no fault above the floor goes unnoticed there */
  const rdt_scheme *impl; /* NULL: the executor itself (none, dup) */
  const char *text;
} rdt_scheme_info;

const rdt_scheme_info *rdt_scheme_table(int *n);
const rdt_scheme_info *rdt_scheme_find(const char *name); /* NULL if unknown */
/* NAME or NAME:f. NULL if unknown, or if f is not within 1..sets of that scheme */
const rdt_scheme_info *rdt_scheme_parse(const char *text, int *sets);
enum { RDT_SCHEME_TEXT = 24 };
void rdt_scheme_name(const rdt_scheme_info *s, int sets, char text[RDT_SCHEME_TEXT]); /* "row", "row:2" */
bool rdt_scheme_claims(const rdt_scheme_info *s, rdt_site site); /* does it say that it covers this site? */
bool rdt_scheme_serves(const rdt_scheme_info *s, rdt_kop op);

extern const rdt_scheme rdt_scheme_row, rdt_scheme_col, rdt_scheme_rowcol, rdt_scheme_global, rdt_scheme_tile,
    rdt_scheme_fc, rdt_scheme_ic, rdt_scheme_fic;

#endif
