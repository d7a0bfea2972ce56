/* Operands and results in 16 bits: they are computed with in single precision, into which every one of them goes as it
 * is. Vectors are those of vector_body.h. What reads an operand takes its datatype as a constant (BY_SOURCE). */
#if RDT_REAL == 64
#define BY_SOURCE(dtype, f, ...) ((void)(dtype), f(__VA_ARGS__, RDT_REAL_DTYPE))
#else
#define BY_SOURCE(dtype, f, ...)                   \
  ((dtype) == RDT_BF16  ? f(__VA_ARGS__, RDT_BF16) \
   : (dtype) == RDT_F16 ? f(__VA_ARGS__, RDT_F16)  \
                        : f(__VA_ARGS__, RDT_REAL_DTYPE))

typedef uint32_t U __attribute__((vector_size(BYTES), may_alias));
typedef uint16_t H __attribute__((vector_size(BYTES / 2), aligned(2), may_alias));

/* NaN becomes quiet and keeps its sign, and its first digits. */
INLINE H round_bf16(V x) {
  const U b = (U)x, odd = (U)(x != x), even = b + 0x7fff + (b >> 16 & 1);
  return __builtin_convertvector(((odd & (b | 0x400000)) | (~odd & even)) >> 16, H);
}

#if defined(__AVX512F__)
INLINE V widen_bf16(H x) {
  return (V)((U)_mm512_cvtepu16_epi32((__m256i)x) << 16);
}
INLINE V widen_f16(H x) {
  return (V)_mm512_cvtph_ps((__m256i)x);
}
INLINE H round_f16_number(V x) {
  return (H)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__FMA__)
INLINE V widen_bf16(H x) {
  return (V)((U)_mm256_cvtepu16_epi32((__m128i)x) << 16);
}
INLINE V widen_f16(H x) {
  return (V)_mm256_cvtph_ps((__m128i)x);
}
INLINE H round_f16_number(V x) {
  return (H)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
INLINE V widen_bf16(H x) {
  return (V)(__builtin_convertvector(x, U) << 16);
}
INLINE V widen_f16(H x) {
  V y;
  for (int i = 0; i < VL; ++i) y[i] = rdt_f16_to_f32(x[i]);
  return y;
}
INLINE H round_f16_number(V x) {
  H y;
  for (int i = 0; i < VL; ++i) y[i] = rdt_f32_to_f16(x[i]);
  return y;
}
#endif

/* Of NaN only the sign stays. */
INLINE H round_f16(V x) {
  const U b = (U)x, odd = (U)(x != x), nan = (b & 0x80000000) | 0x7fc00000;
  return round_f16_number((V)((odd & nan) | (~odd & b)));
}
#endif

INLINE int64_t element_size(const rdt_dtype dtype) {
  return (int64_t)(dtype == RDT_REAL_DTYPE ? sizeof(rdt_real) : sizeof(uint16_t));
}

/* The element i after x. */
INLINE const void *at(const void *x, int64_t i, const rdt_dtype dtype) {
  return (const char *)x + i * element_size(dtype);
}

INLINE V load_as(const void *x, int64_t i, const rdt_dtype dtype) {
  const void *p = at(x, i, dtype);
#if RDT_REAL != 64
  if (dtype == RDT_BF16) return widen_bf16(*(const H *)p);
  if (dtype == RDT_F16) return widen_f16(*(const H *)p);
#endif
  return load(p);
}

INLINE rdt_real element_as(const void *x, int64_t i, const rdt_dtype dtype) {
  (void)dtype;
#if RDT_REAL != 64
  if (dtype == RDT_BF16) return rdt_bf16_to_f32(((const uint16_t *)x)[i]);
  if (dtype == RDT_F16) return rdt_f16_to_f32(((const uint16_t *)x)[i]);
#endif
  return ((const rdt_real *)x)[i];
}

INLINE void widen_as(rdt_real *to, const void *from, int64_t n, const rdt_dtype dtype) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) store(to + i, load_as(from, i, dtype));
  for (; i < n; ++i) to[i] = element_as(from, i, dtype);
}

/* n elements that lie side by side, as what is computed with. */
static void widen(rdt_real *to, const void *from, int64_t n, rdt_dtype dtype) {
  BY_SOURCE(dtype, widen_as, to, from, n);
}

INLINE void narrow_as(void *to, const rdt_real *from, int64_t n, const rdt_dtype dtype) {
#if RDT_REAL != 64
  uint16_t *half = to;
  int64_t i = 0;
  for (; dtype != RDT_REAL_DTYPE && i + VL <= n; i += VL)
    *(H *)(half + i) = dtype == RDT_BF16 ? round_bf16(load(from + i)) : round_f16(load(from + i));
  for (; dtype != RDT_REAL_DTYPE && i < n; ++i)
    half[i] = dtype == RDT_BF16 ? rdt_f32_to_bf16(from[i]) : rdt_f32_to_f16(from[i]);
#endif
  if (dtype == RDT_REAL_DTYPE) memcpy(to, from, (size_t)n * sizeof *from);
}

/* And back, rounded as rdt_epilogue_apply does. */
static void narrow(void *to, const rdt_real *from, int64_t n, rdt_dtype dtype) {
  BY_SOURCE(dtype, narrow_as, to, from, n);
}
