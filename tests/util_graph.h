/* Runs a model on the reference kernels, without checks: what the graph means, whoever executes it later. */
#ifndef TEST_UTIL_GRAPH_H
#define TEST_UTIL_GRAPH_H

#include "net/graph.h"
#include "util_onnx.h"

/* Loads what m packs to; fails the test with the reason where that is refused. */
rdt_graph *util_graph_load(const util_onnx *m);
/* Output i of the graph for these inputs: dense, data to be freed with rdt_free. Fails the test on any error. */
rdt_tensor util_graph_run(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, int i);
/* The status of inference, or of lowering the first node that fails; the reason in *why. */
rdt_status util_graph_try(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_reason *why);

#endif
