/* Any bytes as a model: loading refuses them or gives a graph; what inference accepts, lowering must accept too. */
#include <stdint.h>
#include <stdlib.h>

#include "core/memory.h"
#include "net/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rdt_graph *g = NULL;
  rdt_reason why = {""};
  if (rdt_graph_load_memory(data, size, "fuzz.onnx", &g, &why) != RDT_OK) {
    if (why.text[0] == '\0') abort(); /* every refusal says why */
    return 0;
  }
  rdt_layout layout;
  if (rdt_layout_init(&layout, g, &why) != RDT_OK) abort();
  if (rdt_graph_infer_declared(g, 1, &layout, &why) == RDT_OK) {
    for (int i = 0; i < g->n_nodes; i++) {
      rdt_problem p;
      if (layout.folded[g->nodes[i].out[0]]) continue;
      if (rdt_node_lower(g, &g->nodes[i], layout.views, &p, &why) != RDT_OK) abort();
      rdt_problem_clear(&p);
    }
  }
  rdt_layout_clear(&layout);
  rdt_graph_free(g);
  return 0;
}
