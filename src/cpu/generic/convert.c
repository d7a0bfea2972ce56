#include "cpu/generic/convert.h"

static inline int64_t to_s64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static inline int32_t to_s32(double x) {
  return x > -0x1p31 - 1.0 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

static inline uint16_t double_to_bf16(double x) {
  uint16_t bits;
  rdt_store(&bits, RDT_BF16, 0, x);
  return bits;
}

static inline uint16_t double_to_f16(double x) {
  uint16_t bits;
  rdt_store(&bits, RDT_F16, 0, x);
  return bits;
}

static inline uint8_t double_to_f8e4m3(double x) {
  uint8_t bits;
  rdt_store(&bits, RDT_F8E4M3, 0, x);
  return bits;
}

static inline uint8_t double_to_f8e5m2(double x) {
  uint8_t bits;
  rdt_store(&bits, RDT_F8E5M2, 0, x);
  return bits;
}

#define IS_TRUE(x) ((x) != 0)
#define SAME(x) (x)

#define TO_F64(x) ((double)(x))
#define TO_F32(x) ((float)(x))
#define TO_BF16(x) (_Generic((x), float : rdt_f32_to_bf16((float)(x)), default : double_to_bf16((double)(x))))
#define TO_F16(x) (_Generic((x), float : rdt_f32_to_f16((float)(x)), default : double_to_f16((double)(x))))
#define TO_F8E4M3(x) (_Generic((x), float : rdt_f32_to_f8e4m3((float)(x)), default : double_to_f8e4m3((double)(x))))
#define TO_F8E5M2(x) (_Generic((x), float : rdt_f32_to_f8e5m2((float)(x)), default : double_to_f8e5m2((double)(x))))
#define TO_S32(x) (_Generic((x), float : to_s32((double)(x)), double : to_s32((double)(x)), default : (int32_t)(x)))
#define TO_S64(x) (_Generic((x), float : to_s64((double)(x)), double : to_s64((double)(x)), default : (int64_t)(x)))
#define TO_S8(x) ((int8_t)TO_S32(x))
#define TO_U8(x) ((uint8_t)TO_S32(x))
#define TO_BOOL(x) ((uint8_t)((x) != 0))

/* X(id, element type, decode) */
#define DTYPES(X)                       \
  X(F64, double, SAME)                  \
  X(F32, float, SAME)                   \
  X(BF16, uint16_t, rdt_bf16_to_f32)    \
  X(F16, uint16_t, rdt_f16_to_f32)      \
  X(S8, int8_t, SAME)                   \
  X(U8, uint8_t, SAME)                  \
  X(S32, int32_t, SAME)                 \
  X(S64, int64_t, SAME)                 \
  X(BOOL, uint8_t, IS_TRUE)             \
  X(F8E4M3, uint8_t, rdt_f8e4m3_to_f32) \
  X(F8E5M2, uint8_t, rdt_f8e5m2_to_f32)

#define MOVES(id, E, decode, cid, C)                                                      \
  static void load_##id##_##cid(void *to, const void *from, int64_t stride, int64_t n) {  \
    C *restrict y = to;                                                                   \
    const E *restrict x = from;                                                           \
    if (stride == 1) {                                                                    \
      for (int64_t i = 0; i < n; i++) y[i] = TO_##cid(decode(x[i]));                      \
    } else if (stride == 0) {                                                             \
      const C one = n > 0 ? TO_##cid(decode(x[0])) : 0;                                   \
      for (int64_t i = 0; i < n; i++) y[i] = one;                                         \
    } else {                                                                              \
      for (int64_t i = 0; i < n; i++) y[i] = TO_##cid(decode(x[i * stride]));             \
    }                                                                                     \
  }                                                                                       \
  static void store_##id##_##cid(void *to, int64_t stride, const void *from, int64_t n) { \
    E *restrict y = to;                                                                   \
    const C *restrict x = from;                                                           \
    if (stride == 1) {                                                                    \
      for (int64_t i = 0; i < n; i++) y[i] = TO_##id(x[i]);                               \
    } else {                                                                              \
      for (int64_t i = 0; i < n; i++) y[i * stride] = TO_##id(x[i]);                      \
    }                                                                                     \
  }
#define ALL(id, E, decode)           \
  MOVES(id, E, decode, F64, double)  \
  MOVES(id, E, decode, F32, float)   \
  MOVES(id, E, decode, S32, int32_t) \
  MOVES(id, E, decode, S64, int64_t)
DTYPES(ALL)

#define ROW(id, way) \
  { way##_##id##_F64, way##_##id##_F32, way##_##id##_S32, way##_##id##_S64 }
#define LOADS(id, E, decode) [RDT_##id] = ROW(id, load),
#define STORES(id, E, decode) [RDT_##id] = ROW(id, store),
static rdt_load_fn *const loads[RDT_DTYPE_COUNT][4] = {DTYPES(LOADS)};
static rdt_store_fn *const stores[RDT_DTYPE_COUNT][4] = {DTYPES(STORES)};

static int column(rdt_dtype compute) {
  return compute == RDT_F64 ? 0 : compute == RDT_F32 ? 1 : compute == RDT_S32 ? 2 : compute == RDT_S64 ? 3 : -1;
}

rdt_load_fn *rdt_loader_to(rdt_dtype t, rdt_dtype compute) {
  return (unsigned)t < RDT_DTYPE_COUNT && column(compute) >= 0 ? loads[t][column(compute)] : NULL;
}

rdt_store_fn *rdt_storer_from(rdt_dtype t, rdt_dtype compute) {
  return (unsigned)t < RDT_DTYPE_COUNT && column(compute) >= 0 ? stores[t][column(compute)] : NULL;
}

rdt_dtype rdt_map_type(rdt_dtype t) {
  return t == RDT_F64 ? RDT_F64 : rdt_dtype_is_float(t) ? RDT_F32 : RDT_S64;
}

rdt_dtype rdt_compute_type(rdt_dtype t) {
  return rdt_dtype_is_float(t)                        ? rdt_map_type(t)
         : t == RDT_S8 || t == RDT_U8 || t == RDT_S32 ? RDT_S32
                                                      : RDT_DTYPE_COUNT;
}

rdt_load_fn *rdt_loader(rdt_dtype t) {
  return rdt_loader_to(t, rdt_compute_type(t));
}

rdt_store_fn *rdt_storer(rdt_dtype t) {
  return rdt_storer_from(t, rdt_compute_type(t));
}
