/* Body of the epilogue's lines, included once by each ISA directory with LINE_TABLE and its MAP_TABLE defined. */
#include <math.h>
#include <stddef.h>

#include "cpu/epilogue.h"
#include "cpu/maps.h"

/* Bounds are cheap enough for the loop; any other function is a second pass over the line, which is in the first-level
 * cache. NaN passes through. */
enum { ACT_NONE, ACT_RELU, ACT_CLIP };
#define BOUND_FLOAT(v, act, low, high)            \
  ((act) == ACT_RELU   ? ((v) < 0 ? 0 : (v))      \
   : (act) == ACT_CLIP ? ((v) < (low)    ? (low)  \
                          : (v) > (high) ? (high) \
                                         : (v))   \
                       : (v))
#define BOUND_MOD32(v, act, low, high) ((act) == ACT_RELU && (int32_t)(v) < 0 ? 0 : (v))
#define SCALE_FLOAT(T, x) ((T)(x))
#define SCALE_MOD32(T, x) ((T)(int64_t)(x))

/* One loop a combination, so that each vectorises; constant flags fold the rest away. */
#define LINE(name, T, KIND, MAP)                                                                                   \
  static inline __attribute__((always_inline)) void name##_loop(const rdt_epilogue_line *l, const T *bias,         \
                                                                const T *residual, bool scalar, int act) {         \
    const T alpha = SCALE_##KIND(T, l->alpha), beta = SCALE_##KIND(T, l->beta), b0 = bias && scalar ? bias[0] : 0; \
    const T low = act == ACT_CLIP ? (T)l->act->param[0] : 0, high = act == ACT_CLIP ? (T)l->act->param[1] : 0;     \
    const T *raw = l->raw;                                                                                         \
    T *dst = l->dst;                                                                                               \
    (void)low, (void)high;                                                                                         \
    _Pragma("omp simd") for (int64_t i = 0; i < l->n; ++i) {                                                       \
      T v = alpha * raw[i];                                                                                        \
      if (bias) v = v + (scalar ? b0 : bias[i]);                                                                   \
      if (residual) v = v + beta * residual[i];                                                                    \
      dst[i] = BOUND_##KIND(v, act, low, high);                                                                    \
    }                                                                                                              \
  }                                                                                                                \
  static inline __attribute__((always_inline)) void name##_act(const rdt_epilogue_line *l, const T *bias,          \
                                                               const T *residual, bool scalar) {                   \
    const rdt_fn fn = l->act ? l->act->fn : RDT_FN_NONE;                                                           \
    if (fn == RDT_FN_RELU) {                                                                                       \
      name##_loop(l, bias, residual, scalar, ACT_RELU);                                                            \
    } else if (fn == RDT_FN_CLIP) {                                                                                \
      name##_loop(l, bias, residual, scalar, ACT_CLIP);                                                            \
    } else {                                                                                                       \
      name##_loop(l, bias, residual, scalar, ACT_NONE);                                                            \
      rdt_map_run *const map = fn == RDT_FN_NONE ? NULL : MAP;                                                     \
      if (map) map(l->dst, (const void *const *)&l->dst, l->n, l->act->param);                                     \
    }                                                                                                              \
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

LINE(line_f32, float, FLOAT, MAP_TABLE.f32[fn])
LINE(line_f64, double, FLOAT, MAP_TABLE.f64[fn])
LINE(line_s32, uint32_t, MOD32, NULL)

const rdt_epilogue_table LINE_TABLE = {line_f32, line_f64, line_s32};
