/* Operators that are others put together: when a model is loaded, the node is rewritten into nodes of those. What is
 * built here is checked, planned and protected like anything that was in the file. */
#ifndef RDT_NET_EXPAND_H
#define RDT_NET_EXPAND_H

#include "net/graph.h"
#include "net/names.h"

/* One pass over a graph. The first error stays: later calls do nothing and give -1, so that an expansion reads like the
 * formula that it is. */
typedef struct rdt_builder {
  rdt_graph *g;
  rdt_node from;   /* the node that is being rewritten; pointers into it stay good */
  int last;        /* the node that was added last: attributes go there */
  int result;      /* the value that takes the place of from's; -1: from stays as it is */
  int room, most;  /* of g->nodes; more than `most` is an expansion that does not end */
  rdt_names names; /* of all nodes */
  rdt_status status;
  rdt_reason *why;
} rdt_builder;

/* After the graph was read and before it is sorted: shapes are not known, datatypes only where values are typed. */
rdt_status rdt_graph_expand(rdt_graph *g, rdt_reason *why);

int rdt_build_in(const rdt_builder *b, int i); /* value of input i; -1 where it is absent */
/* A node "<from>/<what>" of operator op over the values given; absent ones (-1) at the end are left away. The value
 * that it computes. */
#define rdt_build(b, op, what, ...) \
  rdt_build_node(b, op, what, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
int rdt_build_node(rdt_builder *b, const char *op, const char *what, const int *in, int n_in);
void rdt_build_int(rdt_builder *b, const char *name, int64_t value); /* an attribute of the last node */
void rdt_build_ints(rdt_builder *b, const char *name, int n, const int64_t *values);
void rdt_build_same_attrs(rdt_builder *b); /* the last node gets all that from has */
int rdt_build_constant(rdt_builder *b, const char *what, rdt_dtype dtype, int rank, const int64_t *shape,
                       const void *data);
int rdt_build_scalar(rdt_builder *b, const char *what, rdt_dtype dtype, double value);
/* A scalar of the datatype that v has. */
int rdt_build_like(rdt_builder *b, const char *what, double value, int v);
/* An error that names from. */
rdt_status rdt_build_fail(rdt_builder *b, rdt_status s, const char *text);

#endif
