/* Any bytes as a tensor file: refused with a reason, or a dense tensor all of which can be read. */
#include <stdint.h>
#include <stdlib.h>

#include "core/memory.h"
#include "net/tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rdt_tensor t;
  rdt_reason why = {""};
  if (rdt_tensor_file_parse(data, size, &t, &why) != RDT_OK) {
    if (why.text[0] == '\0') abort();
    return 0;
  }
  if (!rdt_tensor_is_dense(&t)) abort();
  volatile double sink = 0.0;
  for (rdt_iter it = rdt_iter_begin(&t); rdt_iter_next(&it);) sink = rdt_load(t.data, t.dtype, it.offset);
  (void)sink;
  rdt_free(t.data);
  return 0;
}
