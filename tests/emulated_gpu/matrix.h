// Steps of the tensor cores: what is added to a tile of 16 rows and some columns. Operands are rows of 32 bytes of k.
#ifndef RDT_EMULATED_MATRIX_H
#define RDT_EMULATED_MATRIX_H

#include "emulated.h"

enum { EM_K_BYTES = 32, EM_M = 16, EM_MOST_N = 256 };
typedef enum em_number {
  EM_NUMBER_F16,
  EM_NUMBER_BF16,
  EM_NUMBER_TF32,
  EM_NUMBER_E4M3,
  EM_NUMBER_E5M2,
  EM_NUMBER_S8,
  EM_NUMBER_U8,
  EM_NUMBERS
} em_number;
int em_number_bytes(em_number type);

// c and d: rows of 32 lanes, two for each column of pairs: row 4 j + 2 h + e of lane 4 g + t is row 8 h + g, column
// 8 j + 2 t + e. They may be the same. c NULL: zeros.
typedef struct em_step {
  em_number a, b;
  int k, n;  // elements of k, columns
  bool a_minus, b_minus;
  const uint8_t (*left)[EM_K_BYTES], (*right)[EM_K_BYTES];  // of 16 rows, of n columns
  float *const *c;
  float *const *d;
} em_step;
void em_step_do(const em_step *step);
int em_step_ways(void);       // how many ways this processor has to do it, with the same bits
void em_step_way(int which);  // that one from now on (0: plain C); -1: the fastest
// m16n8k8 of f64: fragments of 32 lanes, one multiply-add after the other.
void em_step_f64(double *const d[4], const double *const a[4], const double *const b[2], const double *const c[4]);

#endif
