/* Body of the epilogue's lines, included once by each ISA directory with LINE_TABLE and its MAP_TABLE defined. */
#include <math.h>
#include <stddef.h>
#include <string.h>

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

/* One loop a combination, so that each vectorises; constant flags fold the rest away. Without dst the results are
 * compared with those at is, bit by bit. U: unsigned integer as wide as T. */
#define LINE(name, T, U, KIND, MAP)                                                                                \
  static inline __attribute__((always_inline))                                                                     \
  U name##_loop(const rdt_epilogue_line *l, const T *bias, const T *residual, const T *is, bool scalar, int act) { \
    const T alpha = SCALE_##KIND(T, l->alpha), beta = SCALE_##KIND(T, l->beta), b0 = bias && scalar ? bias[0] : 0; \
    const T low = act == ACT_CLIP ? (T)l->act->param[0] : 0, high = act == ACT_CLIP ? (T)l->act->param[1] : 0;     \
    const T *raw = l->raw;                                                                                         \
    T *dst = l->dst;                                                                                               \
    U differ = 0;                                                                                                  \
    (void)low, (void)high;                                                                                         \
    _Pragma("omp simd reduction(| : differ)") for (int64_t i = 0; i < l->n; ++i) {                                 \
      T v = alpha * raw[i];                                                                                        \
      if (bias) v = v + (scalar ? b0 : bias[i]);                                                                   \
      if (residual) v = v + beta * residual[i];                                                                    \
      v = BOUND_##KIND(v, act, low, high);                                                                         \
      if (is) {                                                                                                    \
        U bits, other;                                                                                             \
        memcpy(&bits, &v, sizeof v);                                                                               \
        memcpy(&other, &is[i], sizeof v);                                                                          \
        differ |= bits ^ other;                                                                                    \
      } else {                                                                                                     \
        dst[i] = v;                                                                                                \
      }                                                                                                            \
    }                                                                                                              \
    return differ;                                                                                                 \
  }                                                                                                                \
  static inline __attribute__((always_inline))                                                                     \
  U name##_act(const rdt_epilogue_line *l, const T *bias, const T *residual, const T *is, bool scalar) {           \
    const rdt_fn fn = l->act ? l->act->fn : RDT_FN_NONE;                                                           \
    if (fn == RDT_FN_RELU) return name##_loop(l, bias, residual, is, scalar, ACT_RELU);                            \
    if (fn == RDT_FN_CLIP) return name##_loop(l, bias, residual, is, scalar, ACT_CLIP);                            \
    const U differ = name##_loop(l, bias, residual, is, scalar, ACT_NONE);                                         \
    rdt_map_run *const map = fn == RDT_FN_NONE ? NULL : MAP;                                                       \
    if (map && !is) map(l->dst, (const void *const *)&l->dst, l->n, l->act->param);                                \
    return differ;                                                                                                 \
  }                                                                                                                \
  static inline __attribute__((always_inline))                                                                     \
  U name##_bias(const rdt_epilogue_line *l, const T *residual, const T *is) {                                      \
    if (!l->bias) return name##_act(l, NULL, residual, is, false);                                                 \
    if (l->bias_scalar) return name##_act(l, l->bias, residual, is, true);                                         \
    return name##_act(l, l->bias, residual, is, false);                                                            \
  }                                                                                                                \
  static void name(const rdt_epilogue_line *l) {                                                                   \
    if (l->residual)                                                                                               \
      name##_bias(l, l->residual, NULL);                                                                           \
    else                                                                                                           \
      name##_bias(l, NULL, NULL);                                                                                  \
  }

LINE(line_f32, float, uint32_t, FLOAT, MAP_TABLE.f32[fn])
LINE(line_f64, double, uint64_t, FLOAT, MAP_TABLE.f64[fn])
LINE(line_s32, uint32_t, uint32_t, MOD32, NULL)

/* Where a second pass follows there is nothing to compare in the first. */
static bool same_f32(const rdt_epilogue_line *l, const void *is) {
  const rdt_fn fn = l->act ? l->act->fn : RDT_FN_NONE;
  if (fn != RDT_FN_NONE && fn != RDT_FN_RELU && fn != RDT_FN_CLIP) return false;
  return (l->residual ? line_f32_bias(l, l->residual, is) : line_f32_bias(l, NULL, is)) == 0;
}

const rdt_epilogue_table LINE_TABLE = {line_f32, line_f64, line_s32, same_f32};
