/* The network as read from an ONNX file: values and nodes in execution order, nothing of the file format left. */
#ifndef RDT_NET_GRAPH_H
#define RDT_NET_GRAPH_H

#include "core/problem.h"
#include "net/maps.h"

/* Where one of several constants of one shape lies. */
typedef struct rdt_origin_part {
  int map;
  size_t offset;
  int64_t pitch; /* elements from row to row there */
} rdt_origin_part;

/* What the bits of a constant can be made of again. */
typedef struct rdt_origin {
  int map; /* of the graph's maps; -1: of nothing but the whole file */
  size_t offset;
  bool mapped;    /* data is that place itself, not made of it */
  double *factor; /* of each channel, by which what lies there is multiplied; NULL: the same bits */
  int64_t channels;
  bool by_row; /* channels outermost; or innermost */
  /* Its rows are made of a row of each of these; map is that of the first. NULL: it lies in one piece. */
  rdt_origin_part *parts;
  int n_parts;
} rdt_origin;

/* A tensor of the graph: an input, a constant (initializer, Constant node) or what a node produces. */
typedef struct rdt_value {
  char *name;
  rdt_dtype dtype;
  bool typed;                  /* dtype is known */
  int rank;                    /* -1 unknown */
  int64_t shape[RDT_MAX_RANK]; /* -1 open. The model's declaration; concrete shapes are in rdt_shapes */
  void *data;                  /* constants: dense row-major, aligned for dtype; NULL otherwise */
  size_t bytes;
  rdt_origin origin; /* of data, which is owned unless origin.mapped */
  bool lazy;         /* data is an address that has memory only while somebody holds it (net/constant.h) */
  int holders;
  uint64_t bitsum;          /* of data, taken when it was read (constants) */
  uint64_t *tile_sums;      /* the same of its tiles (net/constant.c), which add up to it */
  int producer;             /* node, -1 for inputs and constants */
  int symbol[RDT_MAX_RANK]; /* of open dimensions: equal numbers > 0 are equal lengths; 0 unknown */
  bool planned;             /* decides shapes: its value must be known while planning */
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
struct rdt_builder;
typedef struct rdt_node {
  char *name;  /* never empty, unique */
  char *label; /* op and what was fused into it: "Conv+BatchNormalization+Add+Relu" */
  const struct rdt_op_row *op;
  int n_in, n_out;
  int *in, *out; /* values; -1 for an absent optional input. n_out is 1 */
  int output;    /* which output of the operator this node computes */
  int outputs;   /* how many the operator has in the file */
  rdt_attr *attrs;
  int n_attrs;
  /* filled by fusion */
  rdt_act act;  /* of a linear op: what ends it; of an elementwise one: what it computes of its only input */
  double scale; /* of a linear op: the product is multiplied by it before anything is added; 0: not */
  int residual; /* of a linear op: value added after that, -1 none */
} rdt_node;

/* What a caller asks of loading. Initializers that are listed as inputs too, and that he replaces: they are read as
 * inputs. */
typedef struct rdt_replaced {
  char **name; /* other names do nothing */
  size_t n;
  int votes; /* products are computed in up to so many shares of k, with a vote behind each; 0: in one */
} rdt_replaced;

struct rdt_graph;
typedef rdt_status rdt_graph_again(const char *path, int threads, const rdt_replaced *r, struct rdt_graph **out,
                                   rdt_reason *why);

typedef struct rdt_graph {
  char *path;    /* where it came from, for messages and for restoring weights; "" from memory */
  rdt_maps maps; /* the files that constants lie in */
  int threads;   /* for reading, summing and restoring constants */
  rdt_replaced replaced;
  rdt_graph_again *again; /* loads it once more */
  rdt_value *values;
  int n_values;
  rdt_node *nodes; /* topologically sorted */
  int n_nodes;
  int *inputs, n_inputs; /* values without initializers among them */
  int *outputs, n_outputs;
  int64_t opset;
  int divided, whole; /* where votes were asked for: products in shares of k, other products and convolutions */
} rdt_graph;

/* Reads, validates (wire pre-scan bounds nesting and sizes first), sorts, folds constants and BatchNormalization, fuses
 * Add and Relu into the linear op before them where nobody else reads the value between. Deterministic: the same file
 * gives the same value numbers and bits, which restoring a rotted weight relies on. */
rdt_status rdt_graph_load(const char *path, int threads, rdt_graph **out, rdt_reason *why);
rdt_status rdt_graph_load_replaced(const char *path, int threads, const rdt_replaced *r, rdt_graph **out,
                                   rdt_reason *why);
/* data stays the caller's and may go afterwards: constants are copied. A model with external data is refused. */
rdt_status rdt_graph_load_memory(const void *data, size_t bytes, const char *path, rdt_graph **out, rdt_reason *why);
void rdt_graph_free(rdt_graph *g);
int rdt_graph_find(const rdt_graph *g, const char *value_name); /* -1 if there is none */

/* Puts "file: node 'x' (Op): " before the text. */
rdt_status rdt_node_fail(const rdt_graph *g, const rdt_node *n, rdt_reason *why, rdt_status s, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What planning finds out about the values, one entry each. */
typedef struct rdt_layout {
  rdt_tensor *views; /* shape, dtype and strides in memory; data where the value is known: constants, folded */
  void **folded;     /* values computed while planning (Shape and what follows from it), owned; NULL otherwise */
  int *alias; /* the value whose memory this one is a view of (Reshape, Transpose, ..); itself where it is none */
  int n;
} rdt_layout;
rdt_status rdt_layout_init(rdt_layout *l, const rdt_graph *g, rdt_reason *why);
void rdt_layout_clear(rdt_layout *l);

/* Concrete shapes and layouts of all values for given inputs: channels-last for values of rank 4 and 5 that
 * convolutions or pools produce or read, views of other values where nothing has to move, row-major otherwise. Data of
 * inputs is read where their values decide shapes (rdt_value.planned). */
rdt_status rdt_graph_infer(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_layout *l, rdt_reason *why);
/* The value of a node whose operands are known, by the reference kernels, twice: *data is new (rdt_free), dense in
 * view's shape. RDT_ERR_FAULT where no two of three computations agree. */
rdt_status rdt_node_evaluate(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, void **data,
                             rdt_reason *why);

/* The problem that a node is, over views whose data pointers are set (or NULL while planning): operand views are made
 * here (transposes, broadcasts, flattened batches), bias, residual and activation go into the epilogue. */
rdt_status rdt_node_lower(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, rdt_problem *p,
                          rdt_reason *why);

/* Where the value of a node that is a view begins (its source has data). */
rdt_status rdt_node_view(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, void **data, rdt_reason *why);

typedef enum rdt_protection {
  RDT_PROTECT_LINEAR,
  RDT_PROTECT_DUP,
  RDT_PROTECT_PLAN,
  RDT_PROTECT_EXPAND,
  RDT_PROTECT_FOLD
} rdt_protection;
typedef enum rdt_op_layout {
  RDT_LAYOUT_IMAGE,
  RDT_LAYOUT_FOLLOW,
  RDT_LAYOUT_SAME,
  RDT_LAYOUT_FREE,
  RDT_LAYOUT_DENSE
} rdt_op_layout;

/* What an operator file works with: views of the inputs (data set where the value is known), output to be found. */
typedef struct rdt_op_args {
  const rdt_graph *g;
  const rdt_node *n;
  const rdt_tensor *views;
} rdt_op_args;
typedef struct rdt_op_row {
  const char *name;
  int since, min_in, max_in, max_out;
  rdt_fn fn;
  rdt_protection protection;
  rdt_op_layout layout;
  unsigned planned;
  /* With p == NULL: infers the shape and dtype of the output into *out (strides not set). With p: *out is the final
   * view of the output; fills p. One function, so that shape and lowering cannot disagree. Operators protected by PLAN
   * have no problem: p is NULL, and where out->data is set, the value is written there (dense). */
  rdt_status (*lower)(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why);
  /* Builds what computes output b->from.output of b->from (net/expand.h). Where there is a lower too, it may leave the
   * node as it is. */
  rdt_status (*expand)(struct rdt_builder *b);
} rdt_op_row;
const rdt_op_row *rdt_op_table(int *n);
const rdt_op_row *rdt_op_find(const char *name);

const rdt_attr *rdt_node_attr(const rdt_node *n, const char *name);       /* NULL if the node has none of this name */
int64_t rdt_node_int(const rdt_node *n, const char *name, int64_t usual); /* usual: where it has none */
/* A list of one integer attribute, to be given to a node; NULL: out of memory. */
rdt_attr *rdt_attr_int(const char *name, int64_t value);

#endif
