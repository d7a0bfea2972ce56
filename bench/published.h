/* The tables of `redoubt bench published`, a file each. */
#ifndef RDT_BENCH_PUBLISHED_TABLES_H
#define RDT_BENCH_PUBLISHED_TABLES_H

#include "bench_published.h"
#include "tolerance_sim.h"

typedef struct rdt_published {
  const rdt_bench_published_job *asked;
  rdt_bench_out out;
  const char *name;    /* of the table that is made */
  int table, of, done; /* which of how many; lines that are done */
  bool stopped;
  int64_t missed;
} rdt_published;

/* Whether to go on: part of `lines` lines of this table is done. */
bool rdt_published_go_on(rdt_published *p, int lines, double part);
/* A share of n in percent, with its 95 % Wilson interval: three cells. */
void rdt_published_share(rdt_published *p, int64_t hits, int64_t n);

/* Each prints its table. false: no memory, or stopped. */
bool rdt_published_strided(rdt_published *p);     /* published_strided.c */
bool rdt_published_convolution(rdt_published *p); /* published_convolution.c */
bool rdt_published_constants(rdt_published *p);   /* published_constants.c */

#endif
