/* The elementwise functions as loops, included once by each ISA directory with MAP_TABLE defined. */
#include "cpu/maps.h"
#include "cpu/maps_list.h"
#include "cpu/math_body.h"

#define BEGIN(ID)                                                                        \
  static void F(ID)(void *to, const void *const *from, int64_t n, const double *param) { \
    const T p = (T)param[0], q = (T)param[1], *x = from[0];                              \
    T *y = to;                                                                           \
    (void)p, (void)q;
#define EACH _Pragma("omp simd") for (int64_t i = 0; i < n; ++i)
#define DEFINE_1(ID, ...)    \
  BEGIN(ID) EACH {           \
    const T a = x[i];        \
    y[i] = (T)(__VA_ARGS__); \
  }                          \
  }
#define DEFINE_2(ID, ...)          \
  BEGIN(ID) const T *x1 = from[1]; \
  EACH {                           \
    const T a = x[i], b = x1[i];   \
    y[i] = (T)(__VA_ARGS__);       \
  }                                \
  }
#define DEFINE_3(ID, ...)                         \
  BEGIN(ID) const T *x1 = from[1], *x2 = from[2]; \
  EACH {                                          \
    const T a = x[i], b = x1[i], c = x2[i];       \
    y[i] = (T)(__VA_ARGS__);                      \
  }                                               \
  }

#define T float
#define SUFFIX f32
FLOATS_1(DEFINE_1)
FLOATS_2(DEFINE_2)
ALL_3(DEFINE_3)
#undef T
#undef SUFFIX
#define T double
#define SUFFIX f64
FLOATS_1(DEFINE_1)
FLOATS_2(DEFINE_2)
ALL_3(DEFINE_3)
#undef T
#undef SUFFIX
#define T int64_t
#define SUFFIX s64
INTEGERS_1(DEFINE_1)
INTEGERS_2(DEFINE_2)
ALL_3(DEFINE_3)
#undef T
#undef SUFFIX

#define ROW_F32(ID, ...) [RDT_FN_##ID] = ID##_f32,
#define ROW_F64(ID, ...) [RDT_FN_##ID] = ID##_f64,
#define ROW_S64(ID, ...) [RDT_FN_##ID] = ID##_s64,
const rdt_map_table MAP_TABLE = {{FLOATS_1(ROW_F32) FLOATS_2(ROW_F32) ALL_3(ROW_F32)},
                                 {FLOATS_1(ROW_F64) FLOATS_2(ROW_F64) ALL_3(ROW_F64)},
                                 {INTEGERS_1(ROW_S64) INTEGERS_2(ROW_S64) ALL_3(ROW_S64)}};
