/* What a pipeline did when: loads, products with their checks, stores. As measured, or as predicted. */
#ifndef RDT_OUTOFCORE_TIMELINE_H
#define RDT_OUTOFCORE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum rdt_span_kind {
  RDT_SPAN_LOAD_A,
  RDT_SPAN_LOAD_B,
  RDT_SPAN_PRODUCT, /* its checks and repair with it */
  RDT_SPAN_STORE,
  RDT_SPAN_KINDS
} rdt_span_kind;

typedef struct rdt_span {
  rdt_span_kind kind;
  int device, lane;    /* of several; of products */
  int64_t row, col;    /* of the block, of its matrix */
  double begin, end;   /* seconds from the pipeline's begin */
  double bytes, flops; /* that were moved; that were computed */
} rdt_span;

enum {
  RDT_TIMELINE_MOST = 1 << 16, /* more nobody can look at */
  RDT_TIMELINE_LEAST = 64      /* that are kept whatever the limit of memory is */
};
typedef struct rdt_timeline { /* zero at the begin */
  rdt_span *list;
  int64_t n, room;
  int64_t most; /* that are kept; 0: RDT_TIMELINE_MOST */
  int64_t lost; /* beyond what is kept, or without memory */
} rdt_timeline;

/* By one thread at a time. t NULL: nobody asks. */
void rdt_timeline_add(rdt_timeline *t, const rdt_span *s);
void rdt_timeline_clear(rdt_timeline *t);

#endif
