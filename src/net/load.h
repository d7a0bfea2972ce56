/* Steps of loading a graph, in order: reading (onnx.c), rdt_graph_expand (expand.h), rdt_graph_sort, rdt_graph_share,
 * rdt_graph_fuse, rdt_graph_compact. */
#ifndef RDT_NET_LOAD_H
#define RDT_NET_LOAD_H

#include "net/graph.h"

/* Appends a value without producer; its number, or -1 without memory. Moves g->values. */
int rdt_graph_add_value(rdt_graph *g, const char *name);
/* v becomes the constant t, and takes its data. */
void rdt_value_hold(rdt_value *v, const rdt_tensor *t);
void rdt_node_clear(rdt_node *n); /* op = NULL marks a node that is gone; rdt_graph_compact removes it */

/* Topological order; RDT_ERR_FORMAT for a cycle. */
rdt_status rdt_graph_sort(rdt_graph *g, rdt_reason *why);
/* Nodes that compute the same from the same become one; needs a sorted graph. */
rdt_status rdt_graph_share(rdt_graph *g, rdt_reason *why);
/* Folds and fuses; needs a sorted graph. */
rdt_status rdt_graph_fuse(rdt_graph *g, rdt_reason *why);
/* Makes one node of what exporters write as several: GELU, SiLU, hard swish, Mish. readers: how many read each value.
 * views: shapes, or NULL. */
rdt_status rdt_graph_find_patterns(rdt_graph *g, const int *readers, const rdt_tensor *views, rdt_reason *why);
/* Makes normalisations that were written as their arithmetic one node again; views: shapes of all values. */
rdt_status rdt_graph_match_norms(rdt_graph *g, const rdt_tensor *views, rdt_reason *why);
/* Makes one product of several of the same input by constants of one shape, where their readers are products. views:
 * shapes of what nodes write; NULL: nothing is done. After everything that fuses into products. */
rdt_status rdt_graph_join_products(rdt_graph *g, const rdt_tensor *views, rdt_reason *why);
/* Makes of each product by a constant, of f32 or f64, up to so many products of equal shares of k, one after the other
 * (votes on the way). In place of joining products, after everything that fuses into them. */
rdt_status rdt_graph_divide_products(rdt_graph *g, int votes, rdt_reason *why);
/* Removes nodes and values that no output needs and numbers the rest without gaps. */
rdt_status rdt_graph_compact(rdt_graph *g);
/* Marks the values that must be known while planning. */
void rdt_graph_mark_planned(rdt_graph *g);
/* Shapes for inputs as the model declares them; dimensions that it leaves open get a length of their own for each name,
 * from open on. Those without a name: apart from each other, or all of length open. */
rdt_status rdt_graph_infer_declared(const rdt_graph *g, int64_t open, bool apart, rdt_layout *l, rdt_reason *why);

#endif
