/* The layers of workloads as the products that a GPU is planned for: convolutions are products of their unfolded
 * images, M, N and K are raised to multiples of 8, as in the literature, and what recurs is one product. */
#ifndef RDT_PLAN_PRODUCTS_H
#define RDT_PLAN_PRODUCTS_H

#include "plan/race.h"
#include "plan/workloads.h"

typedef struct rdt_product {
  rdt_problem prob; /* without data */
  int64_t m, n, k;
  const rdt_entry *entry; /* in the book; NULL: not measured */
} rdt_product;

typedef struct rdt_product_layer {
  const rdt_layer *layer;
  int network, product; /* numbers */
} rdt_product_layer;

typedef struct rdt_product_network {
  const rdt_workload *workload;
  int64_t batch;
  char name[80];
  int first, count; /* of its layers */
} rdt_product_network;

typedef struct rdt_products {
  rdt_dtype dtype;
  rdt_product *list; /* distinct */
  rdt_product_layer *layers;
  rdt_product_network *networks;
  int n, n_layers, n_networks;
} rdt_products;

/* words: names of workloads (NAME[:BATCH]) and groups with commas; "all": the networks of the literature, that is all
 * without groups of channels, with the first and the last of their batches, and squares. RDT_ERR_NAME, RDT_ERR_ARG;
 * RDT_ERR_UNSUPPORTED: a layer has groups. rdt_products_free in any case. */
rdt_status rdt_products_of(const char *words, rdt_dtype dtype, rdt_products *x, rdt_reason *why);
void rdt_products_free(rdt_products *x);

typedef struct rdt_products_watch {
  rdt_race_how how;                                                  /* its turn and name are filled in */
  rdt_status (*save)(const rdt_book *, void *user, rdt_reason *why); /* after each product that was measured */
  void *user;
  bool anew; /* whatever the book has */
  bool list; /* nothing is measured: who there is goes into the book, where it has nothing better */
} rdt_products_watch;
/* Measures what the book does not have yet, and puts it there; the products then have their entries. measured: how many
 * those were; complaints: of checks, of clean data. */
rdt_status rdt_products_measure(rdt_products *x, const rdt_track *t, const rdt_products_watch *w, rdt_book *b,
                                int *measured, unsigned *complaints, rdt_reason *why);

#endif
