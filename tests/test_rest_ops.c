/* Resampling, choosing and running along an axis: values of small cases, other forms of older opsets, hostile sizes.
 * The kernels' random problems are those of test_kernels.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "util_moves.h"

static int end(void **state) {
  (void)state;
  util_moves_free();
  return 0;
}

static rdt_tensor floats(int n, const double *values) {
  return util_of(RDT_F32, 1, SHAPE(n), values);
}
#define FLOATS(...) floats((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__})

static void resizes(void **state) {
  (void)state;
  const rdt_tensor none = {0}, x = util_count(RDT_F32, 2, SHAPE(2, 2));
  const rdt_tensor scaled[3] = {x, none, FLOATS(1, 2)}, sized[4] = {x, none, none, LIST(2, 4)},
                   old[2] = {x, FLOATS(2, 1)};
  const util_attr *linear = UTIL_ATTRS(UTIL_STRING("mode", "linear"));
  rdt_tensor y = util_run(13, "Resize", scaled, 3, 1, 0, linear);
  util_expect_shape(&y, RDT_F32, 2, SHAPE(2, 4));
  util_expect_values(&y, (const double[]){1, 1.25, 1.75, 2, 3, 3.25, 3.75, 4});
  y = util_run(11, "Resize", sized, 4, 1, 0, linear);
  util_expect_values(&y, (const double[]){1, 1.25, 1.75, 2, 3, 3.25, 3.75, 4});
  y = util_run(18, "Resize", (const rdt_tensor[]){x, none, none, LIST(1)}, 4, 1, 0,
               UTIL_ATTRS(UTIL_INTS("axes", 1, -1)));
  util_expect_shape(&y, RDT_F32, 2, SHAPE(2, 1));
  util_expect_values(&y, (const double[]){1, 3});
  y = util_run(18, "Resize", (const rdt_tensor[]){x, none, none, LIST(6, 4)}, 4, 1, 0,
               UTIL_ATTRS(UTIL_STRING("keep_aspect_ratio_policy", "not_larger")));
  util_expect_shape(&y, RDT_F32, 2, SHAPE(4, 4));
  for (int64_t opset = 9; opset <= 10; opset++) {
    y = util_run(opset, opset == 9 ? "Upsample" : "Resize", old, 2, 1, 0, NULL);
    util_expect_shape(&y, RDT_F32, 2, SHAPE(4, 2));
    util_expect_values(&y, (const double[]){1, 2, 1, 2, 3, 4, 3, 4});
  }
  y = util_run(7, "Upsample", &x, 1, 1, 0, UTIL_ATTRS(UTIL_FLOATS("scales", 2, 1, 2)));
  util_expect_values(&y, (const double[]){1, 1, 2, 2, 3, 3, 4, 4});
}

/* Neighbours of weight 0 do not count: a NaN shows in the elements that are made of it. */
static void a_nan_is_resized_alone(void **state) {
  (void)state;
  const rdt_tensor none = {0}, x = FLOATS(1, 2, NAN, 4, 5);
  const rdt_tensor y =
      util_run(13, "Resize", (const rdt_tensor[]){x, none, FLOATS(2)}, 3, 1, 0,
               UTIL_ATTRS(UTIL_STRING("mode", "linear"), UTIL_STRING("coordinate_transformation_mode", "asymmetric")));
  for (int64_t i = 0; i < 10; i++) assert_int_equal(isnan(util_at(&y, &i)), i >= 3 && i <= 5);
}

static void hostile_resizes(void **state) {
  (void)state;
  const rdt_tensor none = {0}, x = util_count(RDT_F32, 2, SHAPE(2, 2));
  static const double wrong[] = {0, -1, NAN, INFINITY, 1e30};
  for (int i = 0; i < 5; i++)
    util_refuse(13, "Resize", (const rdt_tensor[]){x, none, FLOATS(1, wrong[i])}, 3, 1, NULL, RDT_ERR_SHAPE, "range");
  util_refuse(13, "Resize", (const rdt_tensor[]){x, none, FLOATS(1)}, 3, 1, NULL, RDT_ERR_SHAPE, "2 dimensions");
  util_refuse(13, "Resize", (const rdt_tensor[]){x, none, none, LIST(INT64_MAX, 1)}, 4, 1, NULL, RDT_ERR_SHAPE,
              "cannot become");
  util_refuse(13, "Resize", (const rdt_tensor[]){x, none, none, LIST(-1, 1)}, 4, 1, NULL, RDT_ERR_SHAPE, "become");
  util_refuse(13, "Resize", &x, 1, 1, NULL, RDT_ERR_FORMAT, "neither");
  util_refuse(13, "Resize", (const rdt_tensor[]){x, none, FLOATS(1, 2)}, 3, 1,
              UTIL_ATTRS(UTIL_STRING("coordinate_transformation_mode", "tf_crop_and_resize")), RDT_ERR_UNSUPPORTED,
              "tf_crop_and_resize");
  util_refuse(18, "Resize", (const rdt_tensor[]){x, none, FLOATS(1, 2)}, 3, 1, UTIL_ATTRS(UTIL_INT("antialias", 1)),
              RDT_ERR_UNSUPPORTED, "antialias");
}

static void the_highest(void **state) {
  (void)state;
  const rdt_tensor x = FLOATS(3, NAN, 7, 3, -INFINITY, 7), k = LIST(4);
  rdt_tensor y = util_run(11, "TopK", (const rdt_tensor[]){x, k}, 2, 2, 1, NULL);
  util_expect_shape(&y, RDT_S64, 1, SHAPE(4));
  util_expect_values(&y, (const double[]){1, 2, 5, 0});
  y = util_run(11, "TopK", (const rdt_tensor[]){x, k}, 2, 2, 1, UTIL_ATTRS(UTIL_INT("largest", 0)));
  util_expect_values(&y, (const double[]){1, 4, 0, 3});
  y = util_run(9, "TopK", (const rdt_tensor[]){FLOATS(3, 1, 7)}, 1, 2, 0, UTIL_ATTRS(UTIL_INT("k", 2)));
  util_expect_values(&y, (const double[]){7, 3});
  util_refuse(11, "TopK", (const rdt_tensor[]){x, LIST(7)}, 2, 2, NULL, RDT_ERR_SHAPE, "k = 7 of 6");
  util_refuse(11, "TopK", (const rdt_tensor[]){x, LIST(-1)}, 2, 2, NULL, RDT_ERR_SHAPE, "k = -1");
  util_refuse(11, "TopK", (const rdt_tensor[]){x, LIST(1, 2)}, 2, 2, NULL, RDT_ERR_SHAPE, "k = 1");
  util_refuse(11, "TopK", (const rdt_tensor[]){x, k}, 2, 2, UTIL_ATTRS(UTIL_INT("axis", 1)), RDT_ERR_SHAPE, "axis 1");
}

static void sums_along_an_axis(void **state) {
  (void)state;
  const rdt_tensor x = util_of(RDT_S8, 1, SHAPE(3), (const double[]){100, 100, 1});
  rdt_tensor y = util_run(11, "CumSum", (const rdt_tensor[]){x, LIST(-1)}, 2, 1, 0, NULL);
  util_expect_values(&y, (const double[]){100, -56, -55});
  y = util_run(11, "CumSum", (const rdt_tensor[]){FLOATS(1, NAN, 2), LIST(0)}, 2, 1, 0,
               UTIL_ATTRS(UTIL_INT("reverse", 1), UTIL_INT("exclusive", 1)));
  assert_true(isnan(util_at(&y, SHAPE(0))) && util_at(&y, SHAPE(1)) == 2 && util_at(&y, SHAPE(2)) == 0);
  util_refuse(11, "CumSum", (const rdt_tensor[]){x, LIST(1)}, 2, 1, NULL, RDT_ERR_SHAPE, "rank 1");
  util_refuse(11, "CumSum", (const rdt_tensor[]){x, LIST(INT64_MIN)}, 2, 1, NULL, RDT_ERR_SHAPE, "rank 1");
}

static void choices(void **state) {
  (void)state;
  const rdt_tensor index = LIST(1, -1, 5), values = FLOATS(2, 3);
  for (int64_t opset = 11; opset <= 13; opset += 2) {
    rdt_tensor y = util_run(opset, "OneHot", (const rdt_tensor[]){index, LIST(3), values}, 3, 1, 0,
                            UTIL_ATTRS(UTIL_INT("axis", 0)));
    util_expect_shape(&y, RDT_F32, 2, SHAPE(3, 3));
    util_expect_values(&y, (const double[]){2, 2, 2, 3, 2, 2, 2, 3, 2});
    const rdt_tensor x = util_count(RDT_S32, 2, SHAPE(2, 3));
    const rdt_tensor condition = util_of(RDT_BOOL, 1, SHAPE(3), (const double[]){0, 1, 1});
    y = util_run(opset, "Compress", (const rdt_tensor[]){x, condition}, 2, 1, 0, UTIL_ATTRS(UTIL_INT("axis", -1)));
    util_expect_shape(&y, RDT_S32, 2, SHAPE(2, 2));
    util_expect_values(&y, (const double[]){2, 3, 5, 6});
    y = util_run(opset, "Compress", (const rdt_tensor[]){x, condition}, 2, 1, 0, NULL);
    util_expect_values(&y, (const double[]){2, 3});
    y = util_run(opset, "ReverseSequence", (const rdt_tensor[]){x, LIST(2, 3)}, 2, 1, 0,
                 UTIL_ATTRS(UTIL_INT("time_axis", 1), UTIL_INT("batch_axis", 0)));
    util_expect_values(&y, (const double[]){2, 1, 3, 6, 5, 4});
  }
  util_refuse(13, "OneHot", (const rdt_tensor[]){index, LIST(-3), values}, 3, 1, NULL, RDT_ERR_SHAPE, "depth of -3");
  util_refuse(13, "OneHot", (const rdt_tensor[]){index, LIST(3, 3), values}, 3, 1, NULL, RDT_ERR_SHAPE, "one number");
  util_refuse_run(13, "ReverseSequence", (const rdt_tensor[]){util_count(RDT_F32, 2, SHAPE(3, 1)), LIST(4)}, 2, NULL,
                  RDT_ERR_ARG, "is not within");
}

static void pools_of_powers(void **state) {
  (void)state;
  const rdt_tensor x = util_of(RDT_F32, 4, SHAPE(1, 1, 2, 2), (const double[]){1, -2, -2, 4});
  rdt_tensor y = util_run(11, "GlobalLpPool", &x, 1, 1, 0, NULL);
  util_expect_shape(&y, RDT_F32, 4, SHAPE(1, 1, 1, 1));
  util_expect_values(&y, (const double[]){5});
  y = util_run(11, "LpPool", &x, 1, 1, 0,
               UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 1, 2), UTIL_INTS("pads", 4, 0, 1, 0, 0), UTIL_INT("p", 1)));
  util_expect_values(&y, (const double[]){1, 3, 2, 6});
  y = util_run(11, "GlobalMaxPool", &x, 1, 1, 0, NULL);
  util_expect_values(&y, (const double[]){4});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(resizes, end),         cmocka_unit_test_teardown(a_nan_is_resized_alone, end),
      cmocka_unit_test_teardown(hostile_resizes, end), cmocka_unit_test_teardown(the_highest, end),
      cmocka_unit_test_teardown(choices, end),         cmocka_unit_test_teardown(sums_along_an_axis, end),
      cmocka_unit_test_teardown(pools_of_powers, end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
