#include "util_product.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants some of these first */
#include <cmocka.h>
#include <math.h>

#include "bench_common.h"
#include "core/file.h"
#include "core/memory.h"
#include "net/tensor_file.h"

void util_npy_of(const char *path, rdt_dtype dtype, bool fortran, int64_t rows, int64_t cols, const double *values) {
  char head[256];
  rdt_reason why = {""};
  const size_t size = rdt_dtype_size(dtype);
  char *body = rdt_alloc((size_t)(rows * cols), size);
  assert_non_null(body);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      rdt_store(body, dtype, fortran ? j * rows + i : i * cols + j, values[i * cols + j]);
  memcpy(head, "\x93NUMPY\x01\x00", 8);
  const int n = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': %s, 'shape': (%lld, %lld), }\n",
                         dtype == RDT_BF16 ? "<V2" : rdt_dtype_info(dtype)->npy, fortran ? "True" : "False",
                         (long long)rows, (long long)cols);
  head[8] = (char)n;
  head[9] = 0;
  assert_int_equal(rdt_file_write(path, head, (size_t)n + 10, body, (size_t)(rows * cols) * size, &why), RDT_OK);
  rdt_free(body);
}

double *util_npy(const char *path, rdt_dtype dtype, bool fortran, int64_t rows, int64_t cols, uint64_t seed) {
  double *values = rdt_alloc((size_t)(rows * cols), sizeof *values), rounded;
  assert_non_null(values);
  for (int64_t i = 0; i < rows * cols; i++) {
    rdt_store(&rounded, dtype, 0, rdt_bench_draw(&seed));
    values[i] = rdt_load(&rounded, dtype, 0);
  }
  util_npy_of(path, dtype, fortran, rows, cols, values);
  return values;
}

void util_npy_expect(const char *path, rdt_dtype in, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                     double more) {
  rdt_tensor c;
  rdt_reason why = {""};
  const rdt_dtype acc = rdt_dtype_accumulator(in);
  const rdt_tolerance t = {.acc = rdt_accumulator_of(in, acc), .k = k};
  if (rdt_tensor_file_read(path, &c, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(c.dtype, acc);
  assert_int_equal(c.shape[0], m);
  assert_int_equal(c.shape[1], n);
  double *sum = rdt_alloc((size_t)n, sizeof *sum), *magnitude = rdt_alloc((size_t)n, sizeof *magnitude);
  assert_true(sum && magnitude);
  for (int64_t i = 0; i < m; i++) {
    memset(sum, 0, (size_t)n * sizeof *sum);
    memset(magnitude, 0, (size_t)n * sizeof *magnitude);
    for (int64_t p = 0; p < k; p++) { /* row by row of B */
      const double x = a[i * k + p], *y = b + p * n;
      for (int64_t j = 0; j < n; j++) {
        sum[j] += x * y[j];
        magnitude[j] += fabs(x * y[j]);
      }
    }
    for (int64_t j = 0; j < n; j++) {
      const double found = rdt_load(c.data, acc, i * n + j), bound = rdt_bound_element(&t, magnitude[j]) + more;
      if (!(fabs(found - sum[j]) <= bound))
        fail_msg("%s: element %lld, %lld is %.9g, not %.9g within %.3g", path, (long long)i, (long long)j, found,
                 sum[j], bound);
    }
  }
  rdt_free(sum);
  rdt_free(magnitude);
  rdt_free(c.data);
}

bool util_same_bytes(const char *a, const char *b) {
  void *x, *y;
  size_t n, m;
  rdt_reason why = {""};
  assert_int_equal(rdt_file_read(a, &x, &n, &why), RDT_OK);
  assert_int_equal(rdt_file_read(b, &y, &m, &why), RDT_OK);
  const bool same = n == m && memcmp(x, y, n) == 0;
  rdt_free(x);
  rdt_free(y);
  return same;
}
