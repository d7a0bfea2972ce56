/* Softmax of one row of the compute type, in place; included by softmax.c with T, EXP and NAME(x). The sum runs in
 * double: its rounding then does not grow with the length. */
static void NAME(row)(T *x, int64_t n) {
  T max = x[0];
  double sum = 0;
  for (int64_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
  for (int64_t i = 0; i < n; i++) {
    x[i] = EXP(x[i] - max);
    sum += x[i];
  }
  for (int64_t i = 0; i < n; i++) x[i] = (T)(x[i] / sum);
}

#undef T
#undef EXP
#undef NAME
