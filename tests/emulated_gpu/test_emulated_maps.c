// Tensor maps of the emulated GPU: what their makers refuse, and boxes of them against one element after the other.
#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "later.h"
#include "runtime.h"

enum { MEMORY = 1 << 20, SHARED = 64 << 10, AT = 2048 };

static uint8_t *memory;
static uint8_t shared[SHARED], expected[SHARED];

static int begin(void **state) {
  (void)state;
  if (em_take((void **)&memory, MEMORY, EM_DEVICE) != cudaSuccess) return 1;
  for (int i = 0; i < MEMORY; i++) memory[i] = (uint8_t)(1 + i * 7 % 251 + i / 256 % 3);
  return 0;
}

static int finish(void **state) {
  (void)state;
  return em_give(memory, EM_DEVICE) != cudaSuccess;
}

// ---- What is refused ----

typedef struct parameters {  // of either kind
  CUtensorMapDataType type;
  cuuint32_t rank;
  uint64_t skip;  // the address
  cuuint64_t size[5], pitch[4];
  cuuint32_t box[5], step[5];
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
  int low[3], high[3];
  cuuint32_t pixels;
} parameters;

static const parameters tiled = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                 .rank = 3,
                                 .size = {100, 50, 7},
                                 .pitch = {208, 20800},
                                 .box = {64, 8, 2},
                                 .step = {1, 1, 1},
                                 .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
static const parameters windows = {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                   .rank = 4,
                                   .size = {64, 10, 8, 3},
                                   .pitch = {128, 1280, 10240},
                                   .box = {64},
                                   .step = {1, 2, 2, 1},
                                   .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                                   .low = {-1, -1},
                                   .high = {-1, -1},
                                   .pixels = 32};

static CUresult encode(const parameters *p, bool im2col, em_box *box) {
  CUtensorMap map;
  const CUresult r =
      im2col ? cuTensorMapEncodeIm2col(&map, p->type, p->rank, memory + p->skip, p->size, p->pitch, p->low, p->high,
                                       p->box[0], p->pixels, p->step, p->interleave, p->swizzle,
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_256B, p->fill)
             : cuTensorMapEncodeTiled(&map, p->type, p->rank, memory + p->skip, p->size, p->pitch, p->box, p->step,
                                      p->interleave, p->swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, p->fill);
  if (r == CUDA_SUCCESS && box) memset(box, 0, sizeof *box), memcpy(&box->map, &map, sizeof box->map);
  return r;
}

#define ALLOWED(im2col, base, change)                         \
  do {                                                        \
    parameters p = base;                                      \
    change;                                                   \
    assert_int_equal(encode(&p, im2col, NULL), CUDA_SUCCESS); \
  } while (0)
#define REFUSED(im2col, base, change)                                     \
  do {                                                                    \
    parameters p = base;                                                  \
    change;                                                               \
    assert_int_equal(encode(&p, im2col, NULL), CUDA_ERROR_INVALID_VALUE); \
  } while (0)

static void test_refusals(void **state) {
  (void)state;
  for (int im2col = 0; im2col < 2; im2col++) {
    const parameters base = im2col ? windows : tiled;
    ALLOWED(im2col, base, (void)0);
    REFUSED(im2col, base, p.skip = 8);
    REFUSED(im2col, base, p.rank = 6);
    REFUSED(im2col, base, p.rank = 0);
    REFUSED(im2col, base, p.size[1] = 0);
    REFUSED(im2col, base, p.size[1] = (UINT64_C(1) << 32) + 1);
    ALLOWED(im2col, base, p.size[1] = UINT64_C(1) << 32);
    REFUSED(im2col, base, p.pitch[0] = 200);
    REFUSED(im2col, base, p.pitch[1] = UINT64_C(1) << 40);
    ALLOWED(im2col, base, p.pitch[1] = (UINT64_C(1) << 40) - 16);
    REFUSED(im2col, base, p.step[1] = 0);
    REFUSED(im2col, base, p.step[1] = 9);
    ALLOWED(im2col, base, p.step[0] = 9 - 1);
    REFUSED(im2col, base, p.box[0] = 72);  // more than the swizzle spans
    REFUSED(im2col, base, p.box[0] = 4);   // 8 bytes
    REFUSED(im2col, base, p.box[0] = 0);
    REFUSED(im2col, base, p.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
    REFUSED(im2col, base, p.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B);
    ALLOWED(im2col, base, (p.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE, p.box[0] = 256));
    REFUSED(im2col, base, (p.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE, p.box[0] = 264));
    REFUSED(im2col, base, p.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B);
    REFUSED(im2col, base, p.interleave = CU_TENSOR_MAP_INTERLEAVE_32B);  // takes the swizzle of 32 bytes
    ALLOWED(im2col, base, p.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
    REFUSED(im2col, base,
            (p.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA, p.type = CU_TENSOR_MAP_DATA_TYPE_UINT16));
  }
  REFUSED(false, tiled, p.box[1] = 257);
  REFUSED(false, tiled, p.box[2] = 0);
  ALLOWED(true, windows, p.pixels = 1024);
  REFUSED(true, windows, p.pixels = 1025);
  REFUSED(true, windows, p.pixels = 0);
  REFUSED(true, windows, p.rank = 2);
  REFUSED(true, windows, p.low[1] = -129);
  ALLOWED(true, windows, p.low[1] = -128);
  REFUSED(true, windows, p.high[0] = 128);
  REFUSED(true, windows, p.high[0] = -11);  // nothing is left
  CUtensorMap maps[2];
  const parameters *p = &tiled;
  assert_int_equal(
      cuTensorMapEncodeTiled((CUtensorMap *)(void *)((char *)maps + 16), p->type, p->rank, memory, p->size, p->pitch,
                             p->box, p->step, p->interleave, p->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, p->fill),
      CUDA_ERROR_INVALID_VALUE);
}

// What an instruction does not take.
static void test_boxes_refused(void **state) {
  em_box b;
  (void)state;
  assert_int_equal(encode(&tiled, false, &b), CUDA_SUCCESS);
  assert_null(em_box_refused(&b, AT));
  assert_non_null(em_box_refused(&b, AT + 64));
  parameters p = tiled;
  p.box[0] = 32;
  assert_int_equal(encode(&p, false, &b), CUDA_SUCCESS);
  assert_non_null(em_box_refused(&b, AT));
  b.map.magic = 0;
  assert_non_null(em_box_refused(&b, AT));
  assert_int_equal(encode(&tiled, false, &b), CUDA_SUCCESS);
  b.map.base += MEMORY;  // somebody else's
  assert_non_null(em_box_load(&b, shared, AT));
  assert_non_null(em_box_store(&b, shared));
}

// ---- Elements ----

// Where a byte of a box lies, which begins at `at`.
static uint32_t place(uint32_t at, uint32_t byte, int swizzle) {
  const uint32_t where = at + byte, row = where / 128, chunk = where % 128 / 16;
  static const uint32_t rows[] = {1, 2, 4, 8};
  return row * 128 + (chunk ^ row % rows[swizzle]) * 16 + where % 16;
}

// A coordinate's element, or NULL.
static const uint8_t *element(const parameters *p, const int64_t *at, int bytes) {
  const uint8_t *address = memory + p->skip + at[0] * bytes;
  for (cuuint32_t d = 0; d < p->rank; d++) {
    if (at[d] < 0 || at[d] >= (int64_t)p->size[d]) return NULL;
    if (d) address += (uint64_t)at[d] * p->pitch[d - 1];
  }
  return address;
}

static void expect_element(const parameters *p, const int64_t *at, int bytes, uint32_t index) {
  const uint8_t *from = element(p, at, bytes);
  for (int i = 0; i < bytes; i++)
    expected[place(AT, index * (uint32_t)bytes + (uint32_t)i, (int)p->swizzle)] = from ? from[i] : 0;
}

static uint32_t expect_tile(const parameters *p, const int32_t *from, int bytes) {
  uint32_t count[5], n = 1;
  for (cuuint32_t d = 0; d < p->rank; d++) n *= count[d] = d ? (p->box[d] + p->step[d] - 1) / p->step[d] : p->box[0];
  for (uint32_t i = 0; i < n; i++) {
    int64_t at[5];
    uint32_t rest = i;
    for (cuuint32_t d = 0; d < p->rank; rest /= count[d], d++)
      at[d] = from[d] + (int64_t)(rest % count[d]) * (d ? p->step[d] : 1);
    expect_element(p, at, bytes, i);
  }
  return n * (uint32_t)bytes;
}

static const struct {
  parameters p;
  int bytes;
  int32_t at[5];
} tiles[] = {
    {{.type = CU_TENSOR_MAP_DATA_TYPE_UINT8, .rank = 1, .size = {1000}, .box = {256}, .step = {1}}, 1, {900}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_UINT8, .rank = 1, .size = {1000}, .box = {64}, .step = {1}}, 1, {-20}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .rank = 2,
      .size = {70, 30},
      .pitch = {160},
      .box = {64, 16},
      .step = {1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
     2,
     {32, 20}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .rank = 2,
      .size = {70, 30},
      .pitch = {160},
      .box = {64, 16},
      .step = {1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B},
     2,
     {-3, -5}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      .rank = 3,
      .skip = 16,
      .size = {40, 9, 5},
      .pitch = {176, 1600},
      .box = {16, 4, 3},
      .step = {1, 1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_64B},
     4,
     {30, 7, 3}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
      .rank = 4,
      .size = {33, 9, 5, 4},
      .pitch = {48, 480, 2400},
      .box = {32, 7, 3, 2},
      .step = {1, 2, 3, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_32B},
     1,
     {3, -2, 1, 3}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
      .rank = 5,
      .size = {6, 5, 4, 3, 2},
      .pitch = {64, 320, 1280, 3840},
      .box = {4, 2, 3, 2, 2},
      .step = {1, 1, 1, 1, 1}},
     8,
     {4, 4, -1, 1, 1}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
      .rank = 2,
      .size = {64, 4},
      .pitch = {128},
      .box = {8, 4},
      .step = {1, 1}},
     2,
     {64, 0}},
};

static void test_loads(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    em_box b;
    assert_int_equal(encode(&tiles[i].p, false, &b), CUDA_SUCCESS);
    memcpy(b.at, tiles[i].at, sizeof b.at);
    memset(shared, 0xee, SHARED), memset(expected, 0xee, SHARED);
    const uint32_t bytes = expect_tile(&tiles[i].p, tiles[i].at, tiles[i].bytes);
    assert_int_equal(em_box_bytes(&b.map), bytes);
    assert_null(em_box_refused(&b, AT));
    assert_null(em_box_load(&b, shared, AT));
    assert_memory_equal(shared, expected, SHARED);
  }
}

// What is inside is written, and nothing else.
static void test_stores(void **state) {
  uint8_t *before = malloc(MEMORY), *picked = malloc(SHARED);
  (void)state;
  memcpy(before, memory, MEMORY);
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    const parameters *p = &tiles[i].p;
    em_box b;
    assert_int_equal(encode(p, false, &b), CUDA_SUCCESS);
    memcpy(b.at, tiles[i].at, sizeof b.at);
    for (int j = 0; j < SHARED; j++) shared[j] = (uint8_t)(j * 11 + j / 256);
    em_box_pick(&b, shared, AT, picked);
    assert_null(em_box_store(&b, picked));
    // Element after element: those of memory are the box's; then they are what they were, and so is everything.
    const uint32_t bytes = (uint32_t)em_box_bytes(&b.map);
    memset(expected, 0xee, SHARED);
    (void)expect_tile(p, tiles[i].at, tiles[i].bytes);
    for (uint32_t j = 0; j < bytes; j++) {
      const uint32_t at = place(AT, j, (int)p->swizzle);
      if (expected[at]) assert_int_equal(expected[at], shared[at]);
      assert_int_equal(picked[j], shared[at]);
    }
    uint8_t *after = malloc(MEMORY);
    memcpy(after, memory, MEMORY), memcpy(memory, before, MEMORY);
    memset(expected, 0, SHARED);
    (void)expect_tile(p, tiles[i].at, tiles[i].bytes);
    int changed = 0, inside = 0;
    for (int j = 0; j < MEMORY; j++) changed += after[j] != before[j];
    for (uint32_t j = 0; j < bytes; j++) {
      const uint32_t at = place(AT, j, (int)p->swizzle);
      inside += expected[at] && expected[at] != shared[at];
    }
    assert_int_equal(changed, inside);
    free(after);
  }
  free(before), free(picked);
}

// ---- Windows ----

// Pixels are counted through all images, in the order of the first tap.
static uint32_t expect_windows(const parameters *p, const int32_t *from, const uint16_t *tap, int bytes) {
  const cuuint32_t spatial = p->rank - 2;
  int64_t count[3], first = 0, step = 1;
  for (cuuint32_t d = 0; d < spatial; d++) {
    count[d] = ((int64_t)p->size[d + 1] + p->high[d] - p->low[d] + p->step[d + 1] - 1) / p->step[d + 1];
    first += (from[d + 1] - p->low[d]) / (int64_t)p->step[d + 1] * step;
    step *= count[d];
  }
  first += from[spatial + 1] * step;
  for (uint32_t i = 0; i < p->pixels; i++) {
    int64_t at[5], rest = first + i;
    for (cuuint32_t d = 0; d < spatial; rest /= count[d], d++)
      at[d + 1] = p->low[d] + rest % count[d] * p->step[d + 1] + tap[d];
    at[spatial + 1] = rest;
    for (uint32_t c = 0; c < p->box[0]; c++) {
      at[0] = from[0] + (int64_t)c;
      expect_element(p, at, bytes, i * p->box[0] + c);
    }
  }
  return p->pixels * p->box[0] * (uint32_t)bytes;
}

static const struct {
  parameters p;
  int32_t at[5];
  uint16_t tap[3];
} images[] = {
    // 3 x 3 windows, padded by 1, of 10 x 8; a stride of 2
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .rank = 4,
      .size = {64, 10, 8, 3},
      .pitch = {128, 1280, 10240},
      .box = {64},
      .step = {1, 1, 1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
      .low = {-1, -1},
      .high = {-1, -1},
      .pixels = 100},
     {0, 3, 2, 1},
     {2, 0}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .rank = 4,
      .size = {128, 11, 9, 3},
      .pitch = {256, 2816, 25344},
      .box = {64},
      .step = {1, 2, 2, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
      .low = {-1, -1},
      .high = {-1, -1},
      .pixels = 128},
     {64, -1, -1, 0},
     {1, 2}},
    // columns are padded, rows are not; windows of 5 whose taps lie 2 apart
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      .rank = 4,
      .size = {20, 12, 16, 2},
      .pitch = {80, 960, 15360},
      .box = {16},
      .step = {1, 3, 1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_64B,
      .low = {-4, 0},
      .high = {-3, -8},
      .pixels = 61},
     {8, 2, 5, 0},
     {8, 4}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
      .rank = 3,
      .size = {32, 300, 4},
      .pitch = {32, 9600},
      .box = {32},
      .step = {1, 1, 1},
      .swizzle = CU_TENSOR_MAP_SWIZZLE_32B,
      .low = {-2},
      .high = {-2},
      .pixels = 700},
     {0, 250, 1},
     {4}},
    {{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .rank = 5,
      .size = {16, 5, 6, 4, 2},
      .pitch = {32, 160, 960, 3840},
      .box = {16},
      .step = {1, 1, 2, 1, 1},
      .low = {-1, -1, -1},
      .high = {-1, -1, -1},
      .pixels = 150},
     {0, 1, 1, 0, 0},
     {2, 1, 0}},
};

static void test_windows(void **state) {
  static const int bytes[] = {2, 2, 4, 1, 2};
  (void)state;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
    em_box b;
    assert_int_equal(encode(&images[i].p, true, &b), CUDA_SUCCESS);
    memcpy(b.at, images[i].at, sizeof b.at), memcpy(b.offset, images[i].tap, sizeof b.offset);
    memset(shared, 0xee, SHARED), memset(expected, 0xee, SHARED);
    const uint32_t all = expect_windows(&images[i].p, images[i].at, images[i].tap, bytes[i]);
    assert_int_equal(em_box_bytes(&b.map), all);
    assert_null(em_box_load(&b, shared, AT));
    assert_memory_equal(shared, expected, SHARED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_boxes_refused), cmocka_unit_test(test_loads),
      cmocka_unit_test(test_stores),   cmocka_unit_test(test_windows),
  };
  return cmocka_run_group_tests(tests, begin, finish);
}
