/* The network as read from an ONNX file: values and nodes in execution order, nothing of the file format left. */
#ifndef RDT_NET_GRAPH_H
#define RDT_NET_GRAPH_H

#include "core/problem.h"

/* A tensor of the graph: an input, a constant (initializer, Constant node) or what a node produces. */
typedef struct rdt_value {
  char *name;
  rdt_dtype dtype;
  bool typed;                  /* dtype is known */
  int rank;                    /* -1 unknown */
  int64_t shape[RDT_MAX_RANK]; /* -1 open. The model's declaration; concrete shapes are in rdt_shapes */
  void *data;                  /* constants: dense row-major, owned, 64-byte aligned; NULL otherwise */
  size_t bytes;
  uint64_t bitsum; /* of data, taken when it was read (constants) */
  int producer;    /* node, -1 for inputs and constants */
} rdt_value;

typedef enum rdt_attr_type {
  RDT_ATTR_INT,
  RDT_ATTR_FLOAT,
  RDT_ATTR_STRING,
  RDT_ATTR_INTS,
  RDT_ATTR_FLOATS,
  RDT_ATTR_TENSOR
} rdt_attr_type;
typedef struct rdt_attr {
  char *name;
  rdt_attr_type type;
  int64_t i;
  double f;
  char *s;
  int64_t *ints;
  double *floats;
  int n; /* of ints, floats */
} rdt_attr;

struct rdt_op_row;
typedef struct rdt_node {
  char *name;  /* never empty, unique */
  char *label; /* op and what was fused into it: "Conv+BatchNormalization+Add+Relu" */
  const struct rdt_op_row *op;
  int n_in, n_out;
  int *in, *out; /* values; -1 for an absent optional input */
  rdt_attr *attrs;
  int n_attrs;
  /* filled by fusion; linear ops only */
  rdt_act act;
  int residual; /* value added after the product, -1 none */
} rdt_node;

typedef struct rdt_graph {
  char *path; /* where it came from, for messages and for restoring weights; "" from memory */
  rdt_value *values;
  int n_values;
  rdt_node *nodes; /* topologically sorted */
  int n_nodes;
  int *inputs, n_inputs; /* values without initializers among them */
  int *outputs, n_outputs;
  int64_t opset;
} rdt_graph;

/* Reads, validates (wire pre-scan bounds nesting and sizes first), sorts, folds constants and BatchNormalization, fuses
 * Add and Relu into the linear op before them where nobody else reads the value between. Deterministic: the same file
 * gives the same value numbers and bits, which restoring a rotted weight relies on. */
rdt_status rdt_graph_load(const char *path, rdt_graph **out, rdt_reason *why);
rdt_status rdt_graph_load_memory(const void *data, size_t bytes, const char *path, rdt_graph **out, rdt_reason *why);
void rdt_graph_free(rdt_graph *g);
int rdt_graph_find(const rdt_graph *g, const char *value_name); /* -1 if there is none */

/* Puts "file: node 'x' (Op): " before the text. */
rdt_status rdt_node_fail(const rdt_graph *g, const rdt_node *n, rdt_reason *why, rdt_status s, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Concrete shapes and dtypes of all values for given inputs. views[v] is a tensor for every value with rank, shape,
 * dtype and the strides it will have in memory (channels-last for rank-4 values that convolutions or pools produce or
 * read, row-major otherwise); data is NULL. views has room for n_values. */
rdt_status rdt_graph_infer(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_tensor *views,
                           rdt_reason *why);

/* The problem that a node is, over views whose data pointers are set (or NULL while planning): operand views are made
 * here (transposes, broadcasts, flattened batches), bias, residual and activation go into the epilogue. */
rdt_status rdt_node_lower(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, rdt_problem *p,
                          rdt_reason *why);

typedef enum rdt_protection { RDT_PROTECT_LINEAR, RDT_PROTECT_DUP, RDT_PROTECT_FOLD } rdt_protection;

/* What an operator file works with: inputs known (views of values; rank -1 for absent ones), output to be found. */
typedef struct rdt_op_args {
  const rdt_graph *g;
  const rdt_node *n;
  const rdt_tensor *views;
} rdt_op_args;
typedef struct rdt_op_row {
  const char *name;
  int since, min_in, max_in;
  /* With p == NULL: infers the shape and dtype of output 0 into *out (strides not set). With p: *out is the final view
   * of output 0; fills p. One function, so that shape and lowering cannot disagree. */
  rdt_status (*lower)(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why);
  rdt_protection protection;
} rdt_op_row;
const rdt_op_row *rdt_op_table(int *n);
const rdt_op_row *rdt_op_find(const char *name);

const rdt_attr *rdt_node_attr(const rdt_node *n, const char *name); /* NULL if the node has none of this name */

#endif
