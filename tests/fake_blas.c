/* A BLAS library for the tests of `redoubt bench`: plain loops, and wrong in one element where REDOUBT_FAKE_BLAS says
 * so. It has the symbols of an OpenBLAS. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void openblas_set_num_threads(int n);
const char *openblas_get_corename(void);
const char *openblas_get_config(void);
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

void cblas_sbgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const uint16_t *a, int lda,
                  const uint16_t *b, int ldb, float beta, float *c, int ldc);

static int threads;

void openblas_set_num_threads(int n) {
  threads = n;
}

const char *openblas_get_corename(void) {
  return "Fake";
}

const char *openblas_get_config(void) {
  return getenv("OPENBLAS_THREAD_TIMEOUT") ? "fake 1.0, told not to spin" : "fake 1.0";
}

void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc) {
  if (order != 101 || trans_a != 111 || trans_b != 111 || beta != 0.0f || threads < 1) abort();
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0.0f;
      for (int l = 0; l < k; l++) sum += a[i * lda + l] * b[l * ldb + j];
      c[i * ldc + j] = alpha * sum;
    }
  if (getenv("REDOUBT_FAKE_BLAS")) c[(m - 1) * ldc + n - 1] += 1.0f;
}

static float wide(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

void cblas_sbgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const uint16_t *a, int lda,
                  const uint16_t *b, int ldb, float beta, float *c, int ldc) {
  if (order != 101 || trans_a != 111 || trans_b != 111 || beta != 0.0f || threads < 1) abort();
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0.0f;
      for (int l = 0; l < k; l++) sum += wide(a[i * lda + l]) * wide(b[l * ldb + j]);
      c[i * ldc + j] = alpha * sum;
    }
}
