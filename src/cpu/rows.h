/* Arithmetic over dense runs of one row, compiled for each ISA: reductions and normalisations. Sums run in double over
 * lanes whose number does not depend on the ISA, and nothing is contracted: the bits are the same everywhere, but for
 * those of a softmax. */
#ifndef RDT_CPU_ROWS_H
#define RDT_CPU_ROWS_H

#include <stdint.h>

typedef enum rdt_fold {
  RDT_FOLD_ADD,
  RDT_FOLD_ABS,    /* of magnitudes */
  RDT_FOLD_SQUARE, /* of squares */
  RDT_FOLD_MUL,
  RDT_FOLD_MAX, /* NaN stays */
  RDT_FOLD_MIN,
  RDT_FOLDS
} rdt_fold;

/* For each type of element: integers accumulate in s64 modulo 2^64, floats in double.
 *   each: acc[i] = f(acc[i], x[i])          run: acc = f(f(acc, x[0]), x[1]).., in lanes
 *   spread: sum of (x[i] - centre)^2        scale: y = (x - centre) * factor [* gain] [+ shift], gain and shift dense
 */
#define RDT_ROWS_TYPE(name, T, A)                                  \
  void (*each_##name)(rdt_fold f, A * acc, const T *x, int64_t n); \
  A (*run_##name)(rdt_fold f, A acc, const T *x, int64_t n);
#define RDT_ROWS_FLOAT(name, T)                             \
  double (*spread_##name)(const T *x, int64_t n, T centre); \
  void (*scale_##name)(T * y, const T *x, int64_t n, T centre, T factor, const T *gain, const T *shift);

enum { RDT_SOFTMAX_ROWS = 8 };

typedef struct rdt_rows_table {
  RDT_ROWS_TYPE(f64, double, double)
  RDT_ROWS_TYPE(f32, float, double)
  RDT_ROWS_TYPE(s64, int64_t, int64_t)
  RDT_ROWS_FLOAT(f64, double)
  RDT_ROWS_FLOAT(f32, float)
  /* exp(x - max) / sum, or its logarithm, of each of at most RDT_SOFTMAX_ROWS rows; y may be x. NaN anywhere in a row
   * makes all of it NaN. */
  void (*softmax_f32)(float *const *y, const float *const *x, int rows, int64_t n, int logarithm);
  /* The highest of rows x cols runs of n, row and col elements apart; NaN stays, nothing at all gives -inf. y may be x.
   */
  void (*window_f32)(float *y, const float *x, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t n);
} rdt_rows_table;
extern const rdt_rows_table rdt_rows_generic, rdt_rows_avx2, rdt_rows_avx512;
const rdt_rows_table *rdt_rows(void); /* of this CPU */

#endif
