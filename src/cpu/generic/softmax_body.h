/* Softmax, its logarithm and hardmax of one row of the compute type, in place; included by softmax.c with T, EXP and
 * NAME(x). The sum runs in double: its rounding then does not grow with the length. */
static void NAME(row)(T *x, int64_t n, rdt_fn fn) {
  int64_t top = 0;
  double sum = 0;
  for (int64_t i = 1; i < n; i++)
    if (x[i] > x[top] || (isnan(x[i]) && !isnan(x[top]))) top = i;
  const T max = x[top];
  for (int64_t i = 0; i < n; i++) {
    const T d = x[i] - max, e = fn == RDT_FN_HARDMAX ? 0 : EXP(d);
    sum += e;
    x[i] = fn == RDT_FN_LOGSOFTMAX ? d : e;
  }
  if (fn == RDT_FN_HARDMAX) {
    x[top] = 1;
  } else if (fn == RDT_FN_LOGSOFTMAX) {
    const T back = (T)log(sum);
    for (int64_t i = 0; i < n; i++) x[i] -= back;
  } else {
    for (int64_t i = 0; i < n; i++) x[i] = (T)(x[i] / sum);
  }
}

#undef T
#undef EXP
#undef NAME
