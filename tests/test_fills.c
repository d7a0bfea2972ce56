/* Operators that set, pad or cut out elements: attributes and inputs of every opset, refusals. Values in every datatype
 * and layout are test_kernels'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "util_moves.h"

static int end(void **state) {
  (void)state;
  util_moves_free();
  return 0;
}

static void pads(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_S32, 2, SHAPE(2, 2)), nine = util_of(RDT_S32, 0, NULL, (const double[]){9});
  const rdt_tensor none = {0};
  const double expected[] = {9, 1, 2, 9, 3, 4};
  const rdt_tensor all[3] = {x, LIST(0, 1, 0, 0), nine}, one[4] = {x, LIST(1, 0), nine, LIST(-1)};
  rdt_tensor y = util_run(13, "Pad", all, 3, 1, 0, NULL);
  util_expect_shape(&y, RDT_S32, 2, SHAPE(2, 3));
  util_expect_values(&y, expected);
  y = util_run(18, "Pad", one, 4, 1, 0, NULL);
  util_expect_values(&y, expected);
  y = util_run(10, "Pad", &x, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("pads", 4, -1, 2, 0, 0), UTIL_STRING("mode", "edge")));
  util_expect_shape(&y, RDT_S32, 2, SHAPE(1, 4));
  util_expect_values(&y, (const double[]){3, 3, 3, 4});
  y = util_run(10, "Pad", &x, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("pads", 4, 0, 0, 1, 0), UTIL_FLOAT("value", -7)));
  util_expect_values(&y, (const double[]){1, 2, 3, 4, -7, -7});
  const rdt_tensor halves = util_of(RDT_F32, 1, SHAPE(1), (const double[]){0.5});
  y = util_run(2, "Pad", &halves, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("pads", 2, 1, 1), UTIL_FLOAT("value", 1.5f)));
  util_expect_values(&y, (const double[]){1.5, 0.5, 1.5});
  util_refuse(10, "Pad", &x, 1, 1, UTIL_ATTRS(UTIL_INTS("pads", 4, 0, 0, 1, 0), UTIL_INT("value", 1)), RDT_ERR_FORMAT,
              "value must be a float");
  const rdt_tensor few[2] = {x, LIST(1, 2)}, below[2] = {x, LIST(-2, 0, -1, 0)},
                   twice[4] = {x, LIST(1, 1, 1, 1), none, LIST(0, -2)}, huge[2] = {x, LIST(INT64_MAX, 0, 0, 0)},
                   giant[2] = {x, LIST(INT64_MAX / 8, INT64_MAX / 8, 0, 0)};
  util_refuse(13, "Pad", few, 2, 1, NULL, RDT_ERR_SHAPE, "2 pads for 2 dimensions");
  util_refuse(13, "Pad", below, 2, 1, NULL, RDT_ERR_SHAPE, "out of range");
  util_refuse(13, "Pad", huge, 2, 1, NULL, RDT_ERR_SHAPE, "out of range");
  util_refuse(18, "Pad", twice, 4, 1, NULL, RDT_ERR_SHAPE, "once each");
  util_refuse_run(13, "Pad", giant, 2, NULL, RDT_ERR_SHAPE, "overflow");
}

static void scatters(void **state) {
  (void)state;
  const rdt_tensor x = util_of(RDT_F32, 1, SHAPE(4), (const double[]){1, 1, 1, 1});
  const rdt_tensor u = util_of(RDT_F32, 1, SHAPE(3), (const double[]){5, 6, 7});
  const rdt_tensor in[3] = {x, LIST(1, -1, 1), u}, bad[3] = {x, LIST(0, 4, 0), u}, odd[3] = {x, LIST(1, 2), u};
  rdt_tensor y = util_run(18, "ScatterElements", in, 3, 1, 0, UTIL_ATTRS(UTIL_STRING("reduction", "add")));
  util_expect_values(&y, (const double[]){1, 13, 1, 7});
  y = util_run(18, "ScatterElements", in, 3, 1, 0, NULL); /* the last one stays */
  util_expect_values(&y, (const double[]){1, 7, 1, 6});
  util_refuse_run(18, "ScatterElements", bad, 3, NULL, RDT_ERR_ARG, "index 4 along axis 0");
  util_refuse(18, "ScatterElements", odd, 3, 1, NULL, RDT_ERR_SHAPE, "do not fit");
  util_refuse(18, "ScatterElements", in, 3, 1, UTIL_ATTRS(UTIL_STRING("reduction", "mean")), RDT_ERR_FORMAT, "'mean'");
  const rdt_tensor rows[3] = {util_count(RDT_S64, 2, SHAPE(3, 2)),
                              util_of(RDT_S64, 2, SHAPE(1, 1), (const double[]){-1}),
                              util_of(RDT_S64, 2, SHAPE(1, 2), (const double[]){8, 9})};
  y = util_run(13, "ScatterND", rows, 3, 1, 0, NULL);
  util_expect_values(&y, (const double[]){1, 2, 3, 4, 8, 9});
}

static void masks_and_places(void **state) {
  (void)state;
  const rdt_tensor x = util_of(RDT_F32, 2, SHAPE(2, 3), (const double[]){0, 1, 2, 3, 0, 5});
  rdt_tensor y = util_run(13, "NonZero", &x, 1, 1, 0, NULL);
  util_expect_shape(&y, RDT_S64, 2, SHAPE(2, 4));
  util_expect_values(&y, (const double[]){0, 0, 1, 1, 1, 2, 0, 2});
  y = util_run(13, "EyeLike", &x, 1, 1, 0, UTIL_ATTRS(UTIL_INT("k", 1), UTIL_INT("dtype", 7)));
  util_expect_shape(&y, RDT_S64, 2, SHAPE(2, 3));
  util_expect_values(&y, (const double[]){0, 1, 0, 0, 0, 1});
  const rdt_tensor in[2] = {x, util_of(RDT_S64, 0, NULL, (const double[]){1})};
  y = util_run(14, "Trilu", in, 2, 1, 0, NULL);
  util_expect_values(&y, (const double[]){0, 1, 2, 0, 0, 5});
  y = util_run(14, "Trilu", in, 1, 1, 0, UTIL_ATTRS(UTIL_INT("upper", 0)));
  util_expect_values(&y, (const double[]){0, 0, 0, 3, 0, 0});
  const rdt_tensor image = util_count(RDT_F32, 4, SHAPE(1, 6, 2, 2));
  util_refuse(13, "DepthToSpace", &image, 1, 1, UTIL_ATTRS(UTIL_INT("blocksize", 2)), RDT_ERR_SHAPE, "do not divide");
  util_refuse(13, "SpaceToDepth", &image, 1, 1, UTIL_ATTRS(UTIL_INT("blocksize", INT64_MAX)), RDT_ERR_SHAPE, "blocks");
  util_refuse(13, "DepthToSpace", &image, 1, 1, NULL, RDT_ERR_SHAPE, "blocks of 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(pads, end),
      cmocka_unit_test_teardown(scatters, end),
      cmocka_unit_test_teardown(masks_and_places, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
