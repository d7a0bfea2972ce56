#include "cpu/generic/convert.h"

#define SAME(x) (x)

/* X(id, element type, compute id, compute type, decode, encode) */
#define TABLE(X)                                                  \
  X(F64, double, F64, double, SAME, SAME)                         \
  X(F32, float, F32, float, SAME, SAME)                           \
  X(BF16, uint16_t, F32, float, rdt_bf16_to_f32, rdt_f32_to_bf16) \
  X(F16, uint16_t, F32, float, rdt_f16_to_f32, rdt_f32_to_f16)    \
  X(S8, int8_t, S32, int32_t, SAME, (int8_t))                     \
  X(U8, uint8_t, S32, int32_t, SAME, (uint8_t))                   \
  X(S32, int32_t, S32, int32_t, SAME, SAME)

#define X(id, E, cid, T, decode, encode)                                          \
  static void load_##id(void *to, const void *from, int64_t stride, int64_t n) {  \
    T *restrict y = to;                                                           \
    const E *restrict x = from;                                                   \
    if (stride == 1) {                                                            \
      for (int64_t i = 0; i < n; i++) y[i] = decode(x[i]);                        \
    } else {                                                                      \
      for (int64_t i = 0; i < n; i++) y[i] = decode(x[i * stride]);               \
    }                                                                             \
  }                                                                               \
  static void store_##id(void *to, int64_t stride, const void *from, int64_t n) { \
    E *restrict y = to;                                                           \
    const T *restrict x = from;                                                   \
    if (stride == 1) {                                                            \
      for (int64_t i = 0; i < n; i++) y[i] = encode(x[i]);                        \
    } else {                                                                      \
      for (int64_t i = 0; i < n; i++) y[i * stride] = encode(x[i]);               \
    }                                                                             \
  }
TABLE(X)
#undef X

rdt_dtype rdt_compute_type(rdt_dtype t) {
  switch (t) {
#define X(id, E, cid, T, decode, encode) \
  case RDT_##id:                         \
    return RDT_##cid;
    TABLE(X)
#undef X
    default:
      return RDT_DTYPE_COUNT;
  }
}

rdt_load_fn *rdt_loader(rdt_dtype t) {
  switch (t) {
#define X(id, E, cid, T, decode, encode) \
  case RDT_##id:                         \
    return load_##id;
    TABLE(X)
#undef X
    default:
      return NULL;
  }
}

rdt_store_fn *rdt_storer(rdt_dtype t) {
  switch (t) {
#define X(id, E, cid, T, decode, encode) \
  case RDT_##id:                         \
    return store_##id;
    TABLE(X)
#undef X
    default:
      return NULL;
  }
}
