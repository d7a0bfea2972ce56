/* Any bytes as a model: loading refuses them or gives a graph; what inference accepts, lowering must accept too. What
 * speaks of other files is also read as a file, beside one that it may refer to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "net/constant.h"
#include "net/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/redoubt-fuzz-XXXXXX", model[64], weights[64];

static void write_file(const char *path, const void *data, size_t size) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

static void remove_folder(void) {
  unlink(model);
  unlink(weights);
  rmdir(folder);
}

/* DIR/w.bin: 256 KB of small numbers in f32. */
static void make_folder(void) {
  static float numbers[1 << 16];
  if (!mkdtemp(folder)) abort();
  snprintf(model, sizeof model, "%s/model.onnx", folder);
  snprintf(weights, sizeof weights, "%s/w.bin", folder);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) numbers[i] = (float)(i % 17) - 8.0f;
  write_file(weights, numbers, sizeof numbers);
  atexit(remove_folder);
}

/* Every constant can be had, is what it was, and can be had again. */
static void check_constants(rdt_graph *g) {
  rdt_reason why = {""};
  for (int v = 0; v < g->n_values; v++)
    for (int again = 0; again < 2 && g->values[v].data; again++) {
      if (rdt_constant_hold(g, v, &why) != RDT_OK || !rdt_constant_is_good(g, v)) abort();
      rdt_constant_release(g, v);
    }
}

static void check_nodes(const rdt_graph *g) {
  rdt_reason why = {""};
  rdt_layout layout;
  if (rdt_layout_init(&layout, g, &why) != RDT_OK) abort();
  if (rdt_graph_infer_declared(g, 1, false, &layout, &why) == RDT_OK) {
    for (int i = 0; i < g->n_nodes; i++) {
      rdt_problem p;
      const int y = g->nodes[i].out[0];
      if (layout.folded[y] || layout.alias[y] != y) continue;
      if (rdt_node_lower(g, &g->nodes[i], layout.views, &p, &why) != RDT_OK) abort();
      rdt_problem_clear(&p);
    }
  }
  rdt_layout_clear(&layout);
}

static void check(rdt_status status, rdt_graph *g, const rdt_reason *why) {
  if (status != RDT_OK) {
    if (why->text[0] == '\0') abort(); /* every refusal says why */
    return;
  }
  check_constants(g);
  check_nodes(g);
  rdt_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rdt_graph *g = NULL;
  rdt_reason why = {""};
  const rdt_status status = rdt_graph_load_memory(data, size, "fuzz.onnx", &g, &why);
  check(status, g, &why);
  if (!memmem(data, size, "location", 8)) return 0;
  if (!*model) make_folder();
  write_file(model, data, size);
  const rdt_status read = rdt_graph_load(model, 1, &g, &why);
  check(read, g, &why);
  return 0;
}
