/* Fault models and sites. A spec is text: KIND@SITE[,layer=GLOB][,at=I/J][,count=N[:M]][,along=row|col]
 * [,core=N|any[,lane=N][,rate=R]][,copies=apart|differ|alike][,cores=N][,seed=S]. */
#ifndef RDT_INJECT_FAULT_H
#define RDT_INJECT_FAULT_H

#include "core/tensor.h"

typedef enum rdt_site {
#define X(id, name, hits, text) RDT_SITE_##id,
#include "inject/sites.def"
#undef X
  RDT_SITE_COUNT
} rdt_site;
const char *rdt_site_name(rdt_site s);
const char *rdt_site_text(rdt_site s);
rdt_site rdt_site_find(const char *name); /* RDT_SITE_COUNT: there is none of that name */
bool rdt_site_checks(rdt_site s);         /* hits what checks, not the data */

typedef enum rdt_fault_kind {
  RDT_FAULT_BIT,
  RDT_FAULT_BITS,
  RDT_FAULT_ADJACENT,
  RDT_FAULT_BURST,
  RDT_FAULT_RANDOM,
  RDT_FAULT_ZERO,
  RDT_FAULT_STUCK0,
  RDT_FAULT_STUCK1,
  RDT_FAULT_NAN,
  RDT_FAULT_INF,
  RDT_FAULT_BER,
  RDT_FAULT_KIND_COUNT
} rdt_fault_kind;
const char *rdt_fault_kind_name(rdt_fault_kind k);
const char *rdt_fault_kind_text(rdt_fault_kind k);
/* "bit[:N]" */
const char *rdt_fault_kind_form(rdt_fault_kind k);

/* Where several faults lie: anywhere in one row or column of the result, or in one of both that the seed chooses. */
typedef enum rdt_along { RDT_ALONG_ANY, RDT_ALONG_ROW, RDT_ALONG_COL } rdt_along;
/* Of an op that is computed three times, two copies are hit: at places of their own, at the same one with other bits
 * (all three differ there), or with the same bits (two votes for what is wrong). */
typedef enum rdt_fault_copies {
  RDT_COPIES_ONE,
  RDT_COPIES_APART,
  RDT_COPIES_DIFFER,
  RDT_COPIES_ALIKE,
} rdt_fault_copies;

enum { RDT_MAX_FAULTS = 16, RDT_MOST_LANES = 64 };
#define RDT_ANY_CORE 0x7fffffff /* whoever computes: what comes and goes, at a rate, elsewhere each time */

typedef struct rdt_fault {
  rdt_fault_kind kind;
  int bits;    /* bit:N, stuck: the bit (-1 random); bits:N, burst:N how many */
  double rate; /* ber:R: of a bit of what is computed; of a broken core: how often it is wrong, 1 otherwise */
  rdt_site site;
  char layer[128]; /* glob over node names; "*" where the spec names none: the seed chooses among those that have the
                      site */
  int64_t at[2];   /* row and column (gemm), or element and -1; -1 -1: the seed chooses */
  int count[2];    /* how many, at least and at most: the seed chooses; 0 0: one */
  rdt_along along;
  uint64_t seed;
  int core; /* >= 0: whatever is computed there is hit, every time or at a rate; -1: the fault strikes once */
  rdt_fault_copies copies;
  int cores; /* > 0: an op that is computed three times is so on that many cores, which are simulated; 0: on real ones
              */
  int lane;  /* >= 0: of what is computed there all that goes through this lane of its vectors; -1: one element */
} rdt_fault;

rdt_status rdt_fault_parse(const char *spec, rdt_fault *f, rdt_reason *why);
bool rdt_fault_matches(const rdt_fault *f, const char *node); /* layer glob */
/* splitmix64 over (seed, stream): the one source of randomness of the injector */
uint64_t rdt_fault_random(const rdt_fault *f, uint64_t stream);
/* Which element of a buffer of n; at wins over the seed. */
int64_t rdt_fault_element(const rdt_fault *f, int64_t n, int64_t row_length);
/* Of three copies the one that is hit, or the first of two; the other one is the next. */
int rdt_fault_copy(const rdt_fault *f);
int rdt_fault_count(const rdt_fault *f);
rdt_along rdt_fault_along(const rdt_fault *f); /* row or column */
/* The i-th of several: an effect of its own. */
rdt_fault rdt_fault_at(const rdt_fault *f, int i);
/* Positions of the others along a line of `length`: the i-th, different from all before it, i < length. */
int64_t rdt_fault_position(const rdt_fault *f, int64_t first, int64_t length, int i);
/* A fault in a result of that datatype that every check sees: recovery needs a reason. */
rdt_fault rdt_fault_reason(const rdt_fault *f, rdt_dtype t);
/* The XOR mask for a value with these bits: the fault's effect, possibly 0 (stuck, zero; NaN of an integer). */
uint64_t rdt_fault_mask(const rdt_fault *f, uint64_t bits, rdt_dtype t);
/* The highest bit in which two values of a datatype differ; -1: none. */
int rdt_fault_highest(rdt_dtype t, double before, double after);
/* ber: flips every bit of n elements with its probability; how many it flipped, and of which element the first. */
int64_t rdt_fault_scatter(const rdt_fault *f, void *data, rdt_dtype t, int64_t n, int64_t *first, double *before,
                          double *after);
/* Applies to element e of a packed buffer; before and after as values. */
void rdt_fault_apply(const rdt_fault *f, void *data, rdt_dtype t, int64_t e, double *before, double *after);

#endif
