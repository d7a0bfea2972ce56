/* Body of the epilogue's lines, included once by each ISA directory with LINE_TABLE defined. */
#include <stddef.h>

#include "cpu/epilogue.h"

#define RELU_FLOAT(v) ((v) < 0 ? 0 : (v)) /* NaN passes through */
#define RELU_MOD32(v) ((int32_t)(v) < 0 ? 0 : (v))
#define SCALE_FLOAT(T, x) ((T)(x))
#define SCALE_MOD32(T, x) ((T)(int64_t)(x))

/* One loop a combination, so that each vectorises; constant flags fold the rest away. */
#define LINE(name, T, KIND)                                                                                        \
  static inline __attribute__((always_inline)) void name##_loop(const rdt_epilogue_line *l, const T *bias,         \
                                                                const T *residual, bool scalar, bool relu) {       \
    const T alpha = SCALE_##KIND(T, l->alpha), beta = SCALE_##KIND(T, l->beta), b0 = bias && scalar ? bias[0] : 0; \
    const T *raw = l->raw;                                                                                         \
    T *dst = l->dst;                                                                                               \
    _Pragma("omp simd") for (int64_t i = 0; i < l->n; ++i) {                                                       \
      T v = alpha * raw[i];                                                                                        \
      if (bias) v = v + (scalar ? b0 : bias[i]);                                                                   \
      if (residual) v = v + beta * residual[i];                                                                    \
      dst[i] = relu ? RELU_##KIND(v) : v;                                                                          \
    }                                                                                                              \
  }                                                                                                                \
  static inline __attribute__((always_inline)) void name##_act(const rdt_epilogue_line *l, const T *bias,          \
                                                               const T *residual, bool scalar) {                   \
    if (l->relu)                                                                                                   \
      name##_loop(l, bias, residual, scalar, true);                                                                \
    else                                                                                                           \
      name##_loop(l, bias, residual, scalar, false);                                                               \
  }                                                                                                                \
  static inline __attribute__((always_inline)) void name##_bias(const rdt_epilogue_line *l, const T *residual) {   \
    if (!l->bias)                                                                                                  \
      name##_act(l, NULL, residual, false);                                                                        \
    else if (l->bias_scalar)                                                                                       \
      name##_act(l, l->bias, residual, true);                                                                      \
    else                                                                                                           \
      name##_act(l, l->bias, residual, false);                                                                     \
  }                                                                                                                \
  static void name(const rdt_epilogue_line *l) {                                                                   \
    if (l->residual)                                                                                               \
      name##_bias(l, l->residual);                                                                                 \
    else                                                                                                           \
      name##_bias(l, NULL);                                                                                        \
  }

LINE(line_f32, float, FLOAT)
LINE(line_f64, double, FLOAT)
LINE(line_s32, uint32_t, MOD32)

const rdt_epilogue_table LINE_TABLE = {line_f32, line_f64, line_s32};
