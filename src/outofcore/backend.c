#include "outofcore/backend.h"

#include <string.h>

static const rdt_backend *const backends[] = {&rdt_backend_cpu, &rdt_backend_cuda};

const rdt_backend *rdt_backend_find(const char *device) {
  const char *colon = strchr(device, ':');
  const size_t n = colon ? (size_t)(colon - device) : strlen(device);
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (strlen(backends[i]->name) == n && memcmp(backends[i]->name, device, n) == 0 &&
        (colon != NULL) == backends[i]->far)
      return backends[i];
  return NULL;
}

static size_t line_bytes(const rdt_backend *on, int64_t length, rdt_dtype t) {
  return ((size_t)length * rdt_dtype_size(t) + on->align - 1) / on->align * on->align;
}

rdt_tensor rdt_backend_view(const rdt_backend *on, const rdt_matrix *m, const rdt_part_of *part, void *data) {
  const int64_t lines = m->fortran ? part->cols : part->rows, length = m->fortran ? part->rows : part->cols;
  const int64_t pitch = (int64_t)(line_bytes(on, length, m->dtype) / rdt_dtype_size(m->dtype));
  return rdt_tensor_matrix(data, m->dtype, lines, length, pitch, m->fortran);
}

size_t rdt_backend_bytes(const rdt_backend *on, int64_t lines, int64_t length, rdt_dtype t) {
  return (size_t)lines * line_bytes(on, length, t);
}
