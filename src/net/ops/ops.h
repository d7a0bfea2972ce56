/* What the operator files share: one lower function per operator family, and the views they are made of. */
#ifndef RDT_NET_OPS_OPS_H
#define RDT_NET_OPS_OPS_H

#include "net/graph.h"

typedef rdt_status rdt_op_lower_fn(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why);
rdt_op_lower_fn rdt_op_requantized, rdt_op_conv, rdt_op_gemm, rdt_op_matmul, rdt_op_map, rdt_op_batchnorm, rdt_op_pool,
    rdt_op_softmax, rdt_op_concat, rdt_op_copy, rdt_op_transpose, rdt_op_shape, rdt_op_quantize, rdt_op_matmul_integer,
    rdt_op_conv_integer, rdt_op_integer_conv, rdt_op_integer_matmul, rdt_op_reduce, rdt_op_arg, rdt_op_layernorm,
    rdt_op_instancenorm, rdt_op_groupnorm, rdt_op_mvn, rdt_op_lpnorm;

typedef rdt_status rdt_expand_fn(struct rdt_builder *b);
rdt_expand_fn rdt_expand_chain, rdt_expand_qlinear, rdt_expand_integer, rdt_expand_dynamic_quantize, rdt_expand_loss,
    rdt_expand_topk, rdt_expand_onehot, rdt_expand_compress, rdt_expand_reverse, rdt_expand_lrn, rdt_expand_lppool;
/* what moves data */
rdt_op_lower_fn rdt_op_expand, rdt_op_slice, rdt_op_split, rdt_op_tile, rdt_op_size, rdt_op_range, rdt_op_gather,
    rdt_op_gather_elements, rdt_op_gather_nd, rdt_op_scatter_elements, rdt_op_scatter_nd, rdt_op_pad, rdt_op_trilu,
    rdt_op_blocks, rdt_op_eye, rdt_op_nonzero, rdt_op_positions;
/* resampling, and what runs along an axis */
rdt_op_lower_fn rdt_op_resize, rdt_op_cumsum, rdt_op_topk;

/* Names file, node and op. */
#define rdt_op_fail(a, why, ...) rdt_node_fail((a)->g, (a)->n, why, __VA_ARGS__)

/* Attributes with defaults; a wrong type is RDT_ERR_FORMAT naming node and attribute. */
rdt_status rdt_op_int(const rdt_op_args *a, const char *name, int64_t def, int64_t *out, rdt_reason *why);
rdt_status rdt_op_float(const rdt_op_args *a, const char *name, double def, double *out, rdt_reason *why);
/* Exactly count integers, or def repeated where absent. */
rdt_status rdt_op_ints(const rdt_op_args *a, const char *name, int count, int64_t def, int64_t *out, rdt_reason *why);

/* View of input i; NULL where it is absent. */
const rdt_tensor *rdt_op_in(const rdt_op_args *a, int i);
/* Input i decides shapes, but its value is not known while planning. */
rdt_status rdt_op_unknown(const rdt_op_args *a, int i, rdt_reason *why);
/* The integers of input i, which the table says is planned: at most RDT_MAX_RANK * 2 of them. RDT_ERR_UNSUPPORTED where
 * it is not known while planning. */
enum { RDT_OP_MOST_INTS = 2 * RDT_MAX_RANK };
rdt_status rdt_op_planned_ints(const rdt_op_args *a, int i, int64_t *values, int *n, rdt_reason *why);
/* A list that was the attribute `name` before opset since and is input `input` from then on. *n = -1: absent. */
rdt_status rdt_op_list(const rdt_op_args *a, const char *name, int64_t since, int input, int64_t *values, int *n,
                       rdt_reason *why);
/* Input i holds indices: s32 or s64. */
rdt_status rdt_op_indices(const rdt_op_args *a, int i, rdt_reason *why);
/* Inputs first.. (those present) are floating point and of one dtype. */
rdt_status rdt_op_float_inputs(const rdt_op_args *a, int first, int count, rdt_reason *why);
/* Inputs 0 and 1 are s8 or u8, in any mix. */
rdt_status rdt_op_byte_inputs(const rdt_op_args *a, rdt_reason *why);
/* Inputs 0.. (those present) are of one dtype. */
rdt_status rdt_op_one_dtype(const rdt_op_args *a, rdt_reason *why);
/* marked[d] for the axes of a list, which may count from the end; RDT_ERR_SHAPE outside the rank or named twice. */
rdt_status rdt_op_marked_axes(const rdt_op_args *a, const int64_t *axes, int n, int rank, bool *marked,
                              rdt_reason *why);
/* The attribute axis, made non-negative; RDT_ERR_SHAPE outside [-rank, limit). */
rdt_status rdt_op_axis(const rdt_op_args *a, int64_t def, int rank, int limit, int *axis, rdt_reason *why);

/* Shape of two operands together. False where they do not fit. */
bool rdt_shape_broadcast(const rdt_tensor *a, const rdt_tensor *b, int *rank, int64_t *shape);
/* Dimensions in this order. */
rdt_tensor rdt_view_permute(const rdt_tensor *t, const int *order);
/* A vector along one dimension of a shape; elsewhere it repeats. */
rdt_tensor rdt_view_along(const rdt_tensor *vector, const rdt_tensor *shape, int axis);
/* Dimensions [from, from + count) as one, in their order; false where the strides do not allow it. */
bool rdt_view_merge(const rdt_tensor *t, int from, int count, rdt_tensor *out);
/* The same elements in their logical order with another shape of as many; false where the strides do not allow it. */
bool rdt_view_reshape(const rdt_tensor *t, int rank, const int64_t *shape, rdt_tensor *out);

/* n c and one to RDT_MAX_SPATIAL spatial dimensions. */
rdt_status rdt_op_check_spatial(const rdt_op_args *a, const rdt_tensor *x, rdt_reason *why);
/* strides, pads, dilations, auto_pad, ceil_mode over the spatial dimensions of x, which has been checked; kernel has as
 * many entries, and out gets as many output lengths. */
rdt_status rdt_op_window(const rdt_op_args *a, const rdt_tensor *x, const int64_t *kernel, bool ceil, rdt_window *w,
                         int64_t *out, rdt_reason *why);

/* Activation and fused residual of a linear node over the logical output view; *residual has rank -1 where there is
 * none. Shapes are checked, so that inference already refuses what lowering could not do. */
rdt_status rdt_op_residual(const rdt_op_args *a, const rdt_tensor *out, rdt_tensor *residual, rdt_reason *why);
/* Is the node an elementwise function of one operand? Reads views of constants only. */
bool rdt_op_act(const rdt_op_args *a, rdt_act *act);
/* The accumulator of a linear op. */
rdt_dtype rdt_op_accumulator(rdt_dtype t);

#endif
