/* Tensors, conversions, bit-sums, findings, fault specs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <redoubt/context.h>
#include "check/bitsum.h"
#include "check/findings.h"
#include "core/context.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "inject/fault.h"

static void dtypes_match_the_public_enum(void **state) {
  (void)state;
#define X(id, name, bytes, u, min_normal, onnx, npy)           \
  assert_string_equal(rdt_dtype_name(RDT_##id), name);         \
  assert_int_equal(rdt_dtype_size(RDT_##id), (size_t)(bytes)); \
  rows++;
  int rows = 0;
#include "core/dtypes.def"
#undef X
  assert_int_equal(rows, RDT_DTYPE_COUNT);
  assert_int_equal(rdt_dtype_size((rdt_dtype)99), 0);
}

static void half_conversions_round_trip_and_round_to_even(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    const float h = rdt_f16_to_f32((uint16_t)i), b = rdt_bf16_to_f32((uint16_t)i);
    if (!isnan(h)) assert_int_equal(rdt_f32_to_f16(h), i);
    if (!isnan(b)) assert_int_equal(rdt_f32_to_bf16(b), i);
    if (isnan(h)) assert_true(isnan(rdt_f16_to_f32(rdt_f32_to_f16(h))));
    if (isnan(b)) assert_true(isnan(rdt_bf16_to_f32(rdt_f32_to_bf16(b))));
  }
  assert_int_equal(rdt_f32_to_f16(1.0f + 0x1p-11f), 0x3c00);     /* tie to even, down */
  assert_int_equal(rdt_f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02); /* tie to even, up */
  assert_int_equal(rdt_f32_to_f16(65519.0f), 0x7bff);
  assert_int_equal(rdt_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(rdt_f32_to_f16(-0x1p-25f), 0x8000);
  assert_int_equal(rdt_f32_to_f16(0x1.8p-24f), 2); /* subnormal tie to even */
  uint16_t x;
  rdt_store(&x, RDT_BF16, 0, 1.0 + 0x1p-8 + 0x1p-40); /* just above a tie: rounding twice would go down */
  assert_int_equal(x, 0x3f81);
  rdt_store(&x, RDT_F16, 0, 1.0 + 0x1p-11 + 0x1p-40);
  assert_int_equal(x, 0x3c01);
}

/* Of 8 bits there are few: each number between the smallest half and twice the largest goes to its nearest neighbour.
 */
static void eight_bit_floats_round_to_the_nearest(void **state) {
  (void)state;
  static const rdt_dtype types[] = {RDT_F8E4M3, RDT_F8E5M2};
  static const double largest[] = {448.0, 57344.0}, smallest[] = {0x1p-9, 0x1p-16};
  for (int t = 0; t < 2; t++) {
    double value[128];
    int n = 0;
    for (int i = 0; i < 256; i++) {
      const uint8_t bits = (uint8_t)i;
      uint8_t back;
      const double x = rdt_load(&bits, types[t], 0);
      rdt_store(&back, types[t], 0, x);
      if (isfinite(x)) assert_int_equal(back, bits);
      if (isnan(x)) assert_true(isnan(rdt_load(&back, types[t], 0)));
      if (isinf(x)) assert_true(rdt_load(&back, types[t], 0) == copysign(largest[t], x)); /* it saturates */
      if (i < 128 && isfinite(x)) value[n++] = x;
    }
    assert_true(value[0] == 0.0 && value[1] == smallest[t] && value[n - 1] == largest[t]);
    for (int i = 0; i + 1 < n; i++) {
      const double gap = value[i + 1] - value[i], middle = value[i] + gap / 2.0;
      const double at[] = {value[i] + 0.4999 * gap, middle, value[i] + 0.5001 * gap};
      const double to[] = {value[i], i % 2 ? value[i + 1] : value[i], value[i + 1]}; /* a tie: to the even bits */
      for (int j = 0; j < 6; j++) {
        uint8_t bits;
        const double sign = j < 3 ? 1.0 : -1.0;
        rdt_store(&bits, types[t], 0, sign * at[j % 3]);
        assert_true(rdt_load(&bits, types[t], 0) == sign * to[j % 3]);
      }
    }
    static const double beyond[] = {1e6, 1e300, INFINITY};
    for (int i = 0; i < 3; i++) {
      uint8_t bits;
      rdt_store(&bits, types[t], 0, -beyond[i]);
      assert_true(rdt_load(&bits, types[t], 0) == -largest[t]);
    }
  }
  uint8_t x;
  rdt_store(&x, RDT_F8E4M3, 0, 1.0 + 0x1p-4 + 0x1p-40); /* just above a tie: rounding twice would go down */
  assert_int_equal(x, 0x39);
}

static void integers_saturate(void **state) {
  int8_t s;
  uint8_t u;
  int32_t i;
  (void)state;
  rdt_store(&s, RDT_S8, 0, 1000.0);
  rdt_store(&u, RDT_U8, 0, -3.0);
  rdt_store(&i, RDT_S32, 0, -1e20);
  assert_int_equal(s, 127);
  assert_int_equal(u, 0);
  assert_int_equal(i, INT32_MIN);
}

static void absurd_shapes_are_refused(void **state) {
  const int64_t huge[3] = {INT64_MAX / 2, 3, 1}, negative[2] = {2, -1}, zero[3] = {INT64_MAX, 0, INT64_MAX};
  rdt_reason why;
  (void)state;
  rdt_tensor t = rdt_tensor_dense(NULL, RDT_F32, 3, huge);
  assert_int_equal(rdt_tensor_count(&t), -1);
  assert_int_equal(rdt_tensor_check(&t, "t", &why), RDT_ERR_SHAPE);
  t = rdt_tensor_dense(NULL, RDT_F32, 2, negative);
  assert_int_equal(rdt_tensor_check(&t, "t", &why), RDT_ERR_SHAPE);
  t = rdt_tensor_dense(NULL, RDT_F32, 3, zero);
  assert_int_equal(rdt_tensor_count(&t), -1); /* overflows beside the zero */
  t = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){4, 4});
  t.stride[0] = INT64_MAX / 2;
  assert_int_equal(rdt_tensor_check(&t, "t", &why), RDT_ERR_SHAPE);
  t.dtype = (rdt_dtype)77;
  assert_int_equal(rdt_tensor_check(&t, "t", &why), RDT_ERR_DTYPE);
  t = rdt_tensor_dense(NULL, RDT_F32, 0, NULL);
  t.rank = 9;
  assert_int_equal(rdt_tensor_check(&t, "t", &why), RDT_ERR_SHAPE);
  assert_null(rdt_alloc(SIZE_MAX / 2, 3));
}

static void views_know_their_order(void **state) {
  (void)state;
  rdt_tensor t = rdt_tensor_channels_last(NULL, RDT_F32, 5, (int64_t[]){2, 3, 4, 5, 6});
  assert_true(rdt_tensor_is_channels_last(&t) && rdt_tensor_is_packed(&t) && !rdt_tensor_is_dense(&t));
  for (int d = 0; d < 5; d++) assert_int_equal(t.stride[d], ((int64_t[]){360, 1, 90, 18, 3})[d]);
  t = rdt_tensor_channels_last(NULL, RDT_F32, 4, (int64_t[]){2, 3, 4, 5});
  assert_true(rdt_tensor_is_channels_last(&t));
  assert_true(rdt_tensor_is_packed(&t));
  assert_false(rdt_tensor_is_dense(&t));
  t = rdt_tensor_matrix(NULL, RDT_F32, 4, 6, 8, 0);
  assert_false(rdt_tensor_is_packed(&t));
  t = rdt_tensor_matrix(NULL, RDT_F32, 4, 6, 6, 1);
  assert_true(rdt_tensor_is_packed(&t));
  assert_int_equal(t.shape[0], 6);
  float data[6] = {0, 1, 2, 3, 4, 5};
  t = rdt_tensor_matrix(data, RDT_F32, 2, 3, 3, 1);
  const float order[6] = {0, 3, 1, 4, 2, 5};
  rdt_iter it = rdt_iter_begin(&t);
  int n = 0;
  while (rdt_iter_next(&it)) assert_true(data[it.offset] == order[n++]);
  assert_int_equal(n, 6);
}

static void broadcasting_follows_numpy(void **state) {
  rdt_tensor a = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 1}), out;
  const int64_t target[3] = {2, 3, 4}, bad[3] = {2, 2, 4};
  (void)state;
  assert_int_equal(rdt_tensor_broadcast(&a, 3, target, &out, NULL), RDT_OK);
  assert_int_equal(out.stride[0], 0);
  assert_int_equal(out.stride[1], 1);
  assert_int_equal(out.stride[2], 0);
  assert_int_equal(rdt_tensor_broadcast(&a, 3, bad, &out, NULL), RDT_ERR_SHAPE);
  assert_int_equal(rdt_tensor_broadcast(&a, 1, target, &out, NULL), RDT_ERR_SHAPE);
}

static void bitsum_cries_at_every_single_bit(void **state) {
  unsigned char data[203];
  (void)state;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + 11);
  const uint64_t clean = rdt_bitsum(data, sizeof data);
  for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
    data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    assert_true(rdt_bitsum(data, sizeof data) != clean);
    data[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  assert_true(rdt_bitsum(data, sizeof data) == clean);
  uint64_t oracle = 0; /* the definition, word by word */
  for (size_t i = 0; i < sizeof data; i += 4) {
    uint32_t word = 0;
    memcpy(&word, data + i, sizeof data - i < 4 ? sizeof data - i : 4);
    oracle += word * (i / 4 * 0x3c6ef37200000002u + 1u);
  }
  assert_true(oracle == clean);
  for (size_t first = 0; first <= sizeof data; first++) /* three parts, wherever they begin */
    for (size_t second = first; second <= sizeof data; second++)
      assert_true(rdt_bitsum_part(data, 0, first) + rdt_bitsum_part(data, first, second - first) +
                      rdt_bitsum_part(data, second, sizeof data - second) ==
                  clean);
  for (size_t bit = 0; bit < 8 * sizeof data; bit += 13) /* pairs, the same bit of two words among them */
    for (size_t other = bit + 1; other < 8 * sizeof data; other += other < bit + 70 ? 1 : 32) {
      data[bit / 8] ^= (unsigned char)(1u << bit % 8), data[other / 8] ^= (unsigned char)(1u << other % 8);
      if (rdt_bitsum(data, sizeof data) == clean) fail_msg("bits %zu and %zu", bit, other);
      data[bit / 8] ^= (unsigned char)(1u << bit % 8), data[other / 8] ^= (unsigned char)(1u << other % 8);
    }
  unsigned char *large = rdt_alloc(300007, 1);
  for (size_t i = 0; i < 300007; i++) large[i] = (unsigned char)(i * i >> 3);
  assert_true(rdt_bitsum_shared(large, 300007, 2) == rdt_bitsum(large, 300007));
  large[200001] ^= 4;
  assert_true(rdt_bitsum_shared(large, 300007, 2) == rdt_bitsum(large, 300007));
  for (size_t bytes = 4; bytes <= 1024; bytes += bytes < 256 ? 4 : 64) /* rows, from any word on */
    for (size_t at = 4, apart = bytes + 4; apart < bytes + 20; at += 11, apart += 4) {
      uint64_t rows = 0;
      for (size_t i = 0; i < 70; i++) rows += rdt_bitsum_part(large, at + i * apart, bytes);
      assert_true(rdt_bitsum_rows(large, at, bytes, apart, 70) == rows);
    }
  unsigned char *copy = rdt_alloc(3000, 1);
  for (size_t bytes = 0; bytes < 900; bytes += bytes < 300 ? 1 : 37) /* copied meanwhile, and nothing beside it */
    for (size_t offset = 0; offset < 5; offset++)
      for (size_t at = 32; at < 64; at += 23) {
        memset(copy, 0xaa, 3000);
        assert_true(rdt_bitsum_copy(copy + at, large + 3, offset, bytes, offset % 2 == 0) ==
                    rdt_bitsum_apart(large + 3, offset, bytes));
        assert_memory_equal(copy + at, large + 3, bytes);
        assert_true(copy[at - 1] == 0xaa && copy[at + bytes] == 0xaa);
      }
  rdt_free(copy);
  rdt_free(large);
  uint64_t swapped[2] = {5, 6};
  const uint64_t before = rdt_bitsum(swapped, sizeof swapped);
  swapped[0] = 6, swapped[1] = 5;
  assert_true(rdt_bitsum(swapped, sizeof swapped) != before);
}

static void findings_keep_the_worst_and_the_place(void **state) {
  rdt_findings f, g;
  int64_t place[2];
  (void)state;
  rdt_findings_init(&f);
  rdt_findings_init(&g);
  const rdt_bound b = {10.0, 1.0};
  assert_int_equal(rdt_findings_check(&f, RDT_CHECK_ROW, 3, -1, 1.5, 1.0, b), RDT_PASS);
  assert_int_equal(rdt_findings_check(&f, RDT_CHECK_ROW, 4, -1, 5.0, 1.0, b), RDT_SUSPECT);
  assert_int_equal(rdt_findings_check(&g, RDT_CHECK_COL, -1, 9, 100.0, 1.0, b), RDT_CERTAIN);
  assert_int_equal(rdt_findings_check(&g, RDT_CHECK_COL, -1, 8, NAN, 1.0, b), RDT_CERTAIN);
  assert_int_equal(rdt_findings_check(&g, RDT_CHECK_COL, -1, 7, 0.0, 1.0, (rdt_bound){NAN, NAN}), RDT_CANNOT);
  rdt_findings_merge(&f, &g);
  assert_int_equal(f.checks, 5);
  assert_int_equal(f.suspects, 3);
  assert_int_equal(f.certain, 2);
  assert_int_equal(f.cannot, 1);
  assert_true(isinf(f.ratio));
  rdt_findings_locate(&f, place);
  assert_int_equal(place[0], 4);
  assert_int_equal(place[1], 8);
  assert_true(f.floor == 2.0);
  assert_int_equal(rdt_findings_check_exact(&f, RDT_CHECK_ROW, 0, -1, 5, 6), RDT_CERTAIN);
}

static void fault_specs_are_read_or_refused(void **state) {
  rdt_fault f;
  rdt_reason why;
  (void)state;
  assert_int_equal(rdt_fault_parse("bit:30@accum,layer=conv2,seed=1", &f, &why), RDT_OK);
  assert_int_equal(f.kind, RDT_FAULT_BIT);
  assert_int_equal(f.bits, 30);
  assert_int_equal(f.site, RDT_SITE_ACCUM);
  assert_int_equal(f.seed, 1);
  assert_true(rdt_fault_matches(&f, "conv2"));
  assert_false(rdt_fault_matches(&f, "conv21"));
  assert_int_equal(rdt_fault_parse("burst:4@weight,at=3/5,layer=fc*", &f, &why), RDT_OK);
  assert_int_equal(rdt_fault_element(&f, 100, 10), 35);
  assert_int_equal(rdt_fault_element(&f, 20, 10), -1);
  static const char *const bad[] = {"",
                                    "bit",
                                    "bit:30",
                                    "bit:64@accum",
                                    "bit:x@accum",
                                    "burst@accum",
                                    "zero:1@accum",
                                    "wobble@accum",
                                    "bit@nowhere",
                                    "bit@accum,layer=",
                                    "bit@accum,at=-1",
                                    "bit@accum,at=1/",
                                    "bit@accum,seed=-1",
                                    "bit@accum,what=1",
                                    "bit@accum,at=99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    why.text[0] = '\0';
    assert_int_equal(rdt_fault_parse(bad[i], &f, &why), RDT_ERR_ARG);
    assert_true(strlen(why.text) > 10);
  }
}

static void masks_do_what_their_kind_says(void **state) {
  rdt_fault f;
  (void)state;
  for (int seed = 0; seed < 200; seed++) {
    char spec[64];
    const uint64_t bits = (uint64_t)seed * 0x9e3779b97f4a7c15u & 0xffffffffu;
#define MASK(text)                                                                            \
  (snprintf(spec, sizeof spec, text "@accum,seed=%d", seed), rdt_fault_parse(spec, &f, NULL), \
   rdt_fault_mask(&f, bits, RDT_F32))
    assert_int_equal(MASK("bit:31"), 0x80000000u);
    assert_int_equal(__builtin_popcountll(MASK("bit")), 1);
    assert_int_equal(__builtin_popcountll(MASK("bits:3")), 3);
    const uint64_t adjacent = MASK("adjacent");
    assert_int_equal(__builtin_popcountll(adjacent), 2);
    assert_true((adjacent & adjacent >> 1) != 0 && adjacent <= 0xffffffffu);
    const uint64_t burst = MASK("burst:6");
    assert_int_equal(63 - __builtin_clzll(burst) - __builtin_ctzll(burst), 5);
    assert_int_equal(bits ^ MASK("zero"), 0);
    assert_int_equal((bits ^ MASK("stuck0:3")) & 8, 0);
    assert_int_equal((bits ^ MASK("stuck1:3")) & 8, 8);
    assert_true(MASK("random") <= 0xffffffffu);
#undef MASK
  }
}

static void memory_is_counted(void **state) {
  (void)state;
  rdt_memory_reset();
  const size_t before = rdt_memory_now();
  assert_int_equal(rdt_memory_peak(), before);
  void *a = rdt_alloc(1000, 1000), *b = rdt_calloc(1000, 500);
  assert_true(rdt_memory_now() - before >= 1500000 && rdt_memory_now() - before < 1600000);
  b = rdt_grow(b, 1000, 2000, 500);
  assert_true(rdt_memory_now() - before >= 2000000 && rdt_memory_now() - before < 2100000);
  assert_true(rdt_memory_peak() - before >= 2500000 && rdt_memory_peak() - before < 2600000); /* old and new */
  rdt_free(a);
  rdt_free(b);
  rdt_free(NULL);
  assert_int_equal(rdt_memory_now(), before);
  assert_true(rdt_memory_peak() - before >= 2500000);
  rdt_memory_reset();
  assert_int_equal(rdt_memory_peak(), before);
}

/* 1000 stacks of 8 MB are more than 2 GB: that is an error, where OpenMP would end the process. Fewer threads are made
 * all the same. */
static int threads_within(rlim_t bytes) {
  const struct rlimit limit = {bytes, bytes};
  rdt_context *ctx = NULL;
  rdt_reason why = {""};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 10;
  if (rdt_context_open(&ctx, 1000, &why) != RDT_ERR_NOMEM || ctx) return 11;
  if (!strstr(why.text, "1000 threads cannot be made, the system gives ")) return 12;
  if (rdt_context_create(&ctx, 1000) != RDT_ERR_NOMEM || ctx) return 13;
  if (rdt_context_create(&ctx, 2) != RDT_OK) return 14;
  rdt_context_destroy(ctx);
  return 0;
}

static void threads_that_there_are_not_are_an_error(void **state) {
  (void)state;
  int status = -1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* these have address space for more than there is */
#elif defined(UTIL_RUN_BY_AN_EMULATOR)
  skip(); /* the limit would be the emulator's, and end it */
#endif
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(threads_within((rlim_t)2000 << 20));
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_counted),
      cmocka_unit_test(dtypes_match_the_public_enum),
      cmocka_unit_test(half_conversions_round_trip_and_round_to_even),
      cmocka_unit_test(eight_bit_floats_round_to_the_nearest),
      cmocka_unit_test(integers_saturate),
      cmocka_unit_test(absurd_shapes_are_refused),
      cmocka_unit_test(views_know_their_order),
      cmocka_unit_test(broadcasting_follows_numpy),
      cmocka_unit_test(bitsum_cries_at_every_single_bit),
      cmocka_unit_test(findings_keep_the_worst_and_the_place),
      cmocka_unit_test(fault_specs_are_read_or_refused),
      cmocka_unit_test(masks_do_what_their_kind_says),
      cmocka_unit_test(threads_that_there_are_not_are_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
