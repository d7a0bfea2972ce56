// Steps for one kind of processor. NAME(x): what x is called here; V, I, U: vectors of BYTES; MAX: of two I. Included
// by matrix_steps.c alone.
enum { NAME(lanes) = BYTES / 4, NAME(stride) = 4 * EM_LANES / BYTES };
#define WIDE NAME(lanes)
#define STRIDE NAME(stride)

typedef struct NAME(wide) {  // a column's numbers, for each row of a vector
  V x[2][MOST_K];
  I e[2][MOST_K];
} NAME(wide);

static inline void NAME(widen)(const em_step *s, int j, NAME(wide) * w, bool exponents) {
  for (int e = 0; e < 2; e++)
    for (int k = 0; k < s->k; k++)
      for (int g = 0; g < WIDE / 4; g++) {
        memcpy((float *)&w->x[e][k] + 4 * g, the_right.x[j][e][k], 16);
        if (exponents) memcpy((int32_t *)&w->e[e][k] + 4 * g, the_right.e[j][e][k], 16);
      }
}

// Adds to a vector of a row's lanes; the lanes that it does wrongly: accumulators that are not finite, integers too
// large.
static inline uint32_t NAME(add_wide)(const em_step *s, const NAME(wide) * w, int row, int from, int bits,
                                      uint32_t keep) {
  const int h = row >> 1 & 1, e = row & 1;
  const V *x = (const V *)(const void *)&the_left.x[h][0][from];
  const I *ex = (const I *)(const void *)&the_left.e[h][0][from];
  V c = {0};
  if (s->c) c = *(const V *)(const void *)(s->c[row] + from);
  I field = ((I)c >> 23) & 255;
  const I zero = ((I)c & INT32_MAX) == 0, of_c = (zero & NOTHING) | (~zero & (MAX(field, (I){0} + 1) - 127));
  I most = (I){0} + 2 * NOTHING;
  for (int k = 0; k < s->k; k++) {
    const I of = ex[STRIDE * k] + w->e[e][k];
    most = MAX(most, of);
  }
  const I none = most < NOTHING / 2;
  most = MAX(most, of_c);
  most = MAX(most, (I){0} + TINY);
  const V up = (V)((127 + bits - most) << 23), down = (V)((127 - bits + most) << 23);
  U words = {0};  // which wrap where they are of lanes that are done again
  for (int k = 0; k < s->k; k++) words += (U) __builtin_convertvector(x[STRIDE * k] * up * w->x[e][k], I);
  const I sum = (I)words, last = __builtin_convertvector(c * up, I), total = (I)(words + (U)last);
  const I sign = total >> 31, size = (I)((U)(total ^ sign) - (U)sign);
  const V near = __builtin_convertvector(size, V);
  const I back = __builtin_convertvector(near, I);  // too large by one last bit, perhaps, and where it is 2^31
  I result = (I)near + ((back > size) | (back < 0));
  result = (I)((V)(result & (int32_t)keep) * down) | (sign & INT32_MIN);
  result = (none & (I)(c + 0.0f)) | (~none & result);
  const I wrong = (field == 255) | (((sum ^ total) & (last ^ total)) < 0) | (size < 0);
  uint32_t lanes = 0;
  int32_t any = 0;
  for (int i = 0; i < WIDE; i++) any |= wrong[i];
  for (int i = 0; any && i < WIDE; i++) lanes |= (uint32_t)(wrong[i] & 1) << i;
  if (any) {  // what is right stays, what is wrong is done from c, which may be the same row
    for (int i = 0; i < WIDE; i++)
      if (!(lanes >> i & 1)) s->d[row][from + i] = f32_of((uint32_t)result[i]);
  } else {
    *(I *)(void *)(s->d[row] + from) = result;
  }
  return lanes << from;
}

static inline void NAME(add_floats)(const em_step *s, int bits, uint32_t keep) {
  for (int j = 0; j < s->n / 8; j++) {
    NAME(wide) w;
    NAME(widen)(s, j, &w, true);
    for (int row = 4 * j; row < 4 * j + 4; row++) {
      const uint32_t odd = the_left.odd[row >> 1 & 1] | the_right.odd[j][row & 1];  // done wrongly, and again
      uint32_t wrong = 0;
      float c[EM_LANES];
      if (odd && s->c) memcpy(c, s->c[row], sizeof c);
      for (int from = 0; from < EM_LANES; from += WIDE) wrong |= NAME(add_wide)(s, &w, row, from, bits, keep);
      if (wrong & ~odd) add_slowly(s, row, wrong & ~odd, s->c ? s->c[row] : NULL);
      if (odd) add_slowly(s, row, odd, s->c ? c : NULL);
    }
  }
}

// 32 products of bytes are exact in f32.
static inline void NAME(add_bytes)(const em_step *s) {
  for (int j = 0; j < s->n / 8; j++) {
    NAME(wide) w;
    NAME(widen)(s, j, &w, false);
    for (int row = 4 * j; row < 4 * j + 4; row++)
      for (int from = 0; from < EM_LANES; from += WIDE) {
        const V *x = (const V *)(const void *)&the_left.x[row >> 1 & 1][0][from];
        V sum = {0};
        I c = {0};
        for (int k = 0; k < s->k; k++) sum += x[STRIDE * k] * w.x[row & 1][k];
        if (s->c) c = *(const I *)(const void *)(s->c[row] + from);
        *(U *)(void *)(s->d[row] + from) = (U)c + (U) __builtin_convertvector(sum, I);
      }
  }
}

static inline void NAME(add_doubles)(double *const d[4], const double *const a[4], const double *const b[2],
                                     const double *const c[4]) {
  double sum[4][EM_LANES];
  for (int i = 0; i < 4; i++)
    for (int lane = 0; lane < EM_LANES; lane++) {
      const int g = lane / 4, column = 2 * (lane % 4) + (i & 1);
      double x = c[i][lane];
      for (int k = 0; k < 8; k++) x = fma(a[(i >> 1) + 2 * (k / 4)][4 * g + k % 4], b[k / 4][4 * column + k % 4], x);
      sum[i][lane] = x;
    }
  for (int i = 0; i < 4; i++) memcpy(d[i], sum[i], sizeof sum[i]);
}

static void NAME(floats)(const em_step *s) {
  if (s->k == 16) {
    const em_step whole = {.a = s->a, .b = s->b, .k = 16, .n = s->n, .c = s->c, .d = s->d};
    NAME(add_floats)(&whole, 25, 0xffffffffu);
  } else {
    NAME(add_floats)(s, 25, 0xffffffffu);
  }
}

static void NAME(more)(const em_step *s) {
  NAME(add_floats)(s, 13, 0xfffffc00u);
}

static const ways NAME(ways) = {NAME(floats), NAME(more), NAME(add_bytes), NAME(add_doubles)};

#undef NAME
#undef BYTES
#undef V
#undef I
#undef U
#undef MAX
#undef WIDE
#undef STRIDE
