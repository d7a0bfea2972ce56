/* Operators that only move data, by strides and by indices: against loops over logical indices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>

#include "core/memory.h"
#include "net/ops/ops.h"
#include "util_moves.h"

static const rdt_dtype all_dtypes[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16, RDT_S8, RDT_U8, RDT_S32, RDT_S64, RDT_BOOL};
enum { DTYPES = sizeof all_dtypes / sizeof all_dtypes[0] };

static int end(void **state) {
  (void)state;
  util_moves_free();
  return 0;
}

static void squeeze_and_unsqueeze(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_S32, 4, SHAPE(1, 3, 1, 2)), none = {0};
  rdt_tensor in[2] = {x, LIST(0, -2)};
  rdt_tensor y = util_run(13, "Squeeze", in, 2, 1, 0, NULL);
  util_expect_shape(&y, RDT_S32, 2, SHAPE(3, 2));
  util_expect_values(&y, (const double[]){1, 2, 3, 4, 5, 6});
  y = util_run(11, "Squeeze", in, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("axes", 1, 2)));
  util_expect_shape(&y, RDT_S32, 3, SHAPE(1, 3, 2));
  in[1] = none;
  y = util_run(13, "Squeeze", in, 2, 1, 0, NULL);
  util_expect_shape(&y, RDT_S32, 2, SHAPE(3, 2));
  in[1] = LIST(1);
  util_refuse(13, "Squeeze", in, 2, 1, NULL, RDT_ERR_SHAPE, "not of length 1");
  in[1] = LIST(4);
  util_refuse(13, "Squeeze", in, 2, 1, NULL, RDT_ERR_SHAPE, "axis 4");
  in[1] = LIST(INT64_MIN);
  util_refuse(13, "Squeeze", in, 2, 1, NULL, RDT_ERR_SHAPE, "axis -9223372036854775808");
  in[1] = LIST(0, -1, 2);
  y = util_run(13, "Unsqueeze", in, 2, 1, 0, NULL);
  util_expect_shape(&y, RDT_S32, 7, SHAPE(1, 1, 1, 3, 1, 2, 1));
  y = util_run(12, "Unsqueeze", in, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("axes", 2, 4, 0)));
  util_expect_shape(&y, RDT_S32, 6, SHAPE(1, 1, 3, 1, 1, 2));
  in[1] = LIST(0, -5);
  y = util_run(13, "Unsqueeze", in, 2, 1, 0, NULL);
  util_expect_shape(&y, RDT_S32, 6, SHAPE(1, 1, 1, 3, 1, 2));
  in[1] = LIST(0, -6);
  util_refuse(13, "Unsqueeze", in, 2, 1, NULL, RDT_ERR_SHAPE, "given twice");
  in[1] = LIST(0, 1, 2, 3, 4);
  util_refuse(13, "Unsqueeze", in, 2, 1, NULL, RDT_ERR_UNSUPPORTED, "to rank 9");
}

/* numpy's x[start:end:step] along one dimension, by walking. */
static int64_t slice_walk(int64_t n, int64_t start, int64_t end_, int64_t step, int64_t *at) {
  int64_t count = 0;
  if (start < 0) start = start < -n ? (step > 0 ? 0 : -1) : start + n;
  if (end_ < 0) end_ = end_ < -n ? -1 : end_ + n;
  if (step > 0) {
    for (int64_t i = start; i < n && i<end_; i += step> n ? n : step) at[count++] = i;
  } else {
    for (int64_t i = start >= n ? n - 1 : start; i >= 0 && i > end_; i += step < -n ? -n : step) at[count++] = i;
  }
  return count;
}

static void slices(void **state) {
  (void)state;
  static const int64_t starts[] = {0, 1, 4, 7, 100, -1, -3, -100, INT64_MIN, INT64_MAX};
  static const int64_t steps[] = {1, 2, 3, 100, INT64_MAX, -1, -2, -100, INT64_MIN};
  for (int s = 0; s < 10; s++)
    for (int e = 0; e < 10; e++)
      for (int t = 0; t < 9; t++) {
        int64_t at[8];
        const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(2, 7));
        const rdt_tensor in[5] = {x, LIST(starts[s]), LIST(starts[e]), LIST(-1), LIST(steps[t])};
        const int64_t n = slice_walk(7, starts[s], starts[e], steps[t], at);
        const rdt_tensor y = util_run(13, "Slice", in, 5, 1, 0, NULL);
        util_expect_shape(&y, RDT_F32, 2, SHAPE(2, n));
        for (int64_t r = 0; r < 2; r++)
          for (int64_t i = 0; i < n; i++) assert_true(util_at(&y, SHAPE(r, i)) == util_at(&x, SHAPE(r, at[i])));
        util_moves_free();
      }
}

static void slices_of_other_forms(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_S64, 3, SHAPE(3, 4, 5));
  rdt_tensor y =
      util_run(9, "Slice", &x, 1, 1, 0, UTIL_ATTRS(UTIL_INTS("starts", 2, 1, -2), UTIL_INTS("ends", 2, 3, 99)));
  util_expect_shape(&y, RDT_S64, 3, SHAPE(2, 2, 5));
  assert_true(util_at(&y, SHAPE(1, 0, 3)) == util_at(&x, SHAPE(2, 2, 3)));
  y = util_run(9, "Slice", &x, 1, 1, 0,
               UTIL_ATTRS(UTIL_INTS("starts", 1, 1), UTIL_INTS("ends", 1, 3), UTIL_INTS("axes", 1, 2)));
  util_expect_shape(&y, RDT_S64, 3, SHAPE(3, 4, 2));
  const rdt_tensor zero[5] = {x, LIST(0), LIST(4), LIST(1), LIST(0)}, odd[3] = {x, LIST(0), LIST(1, 2)},
                   twice[4] = {x, LIST(0, 0), LIST(1, 1), LIST(1, -2)};
  util_refuse(13, "Slice", zero, 5, 1, NULL, RDT_ERR_SHAPE, "step of 0");
  util_refuse(13, "Slice", odd, 3, 1, NULL, RDT_ERR_SHAPE, "numbers must agree");
  util_refuse(13, "Slice", twice, 4, 1, NULL, RDT_ERR_SHAPE, "given twice");
}

static void splits(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_F16, 3, SHAPE(2, 7, 3)), lengths = LIST(2, 0, 5), none = {0};
  static const int64_t uneven[4] = {2, 2, 2, 1};
  const struct {
    int64_t opset;
    rdt_tensor second;
    util_attr attr;
    int parts;
    const int64_t *length;
  } cases[] = {
      {13, lengths, UTIL_INT("axis", 1), 3, SHAPE(2, 0, 5)},
      {11, none, UTIL_INTS("split", 3, 1, 4, 2), 3, SHAPE(1, 4, 2)},
      {18, none, UTIL_INT("num_outputs", 4), 4, uneven},
      {13, none, {.name = NULL}, 7, SHAPE(1, 1, 1, 1, 1, 1, 1)},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const rdt_tensor in[2] = {x, cases[c].second};
    util_attr attrs[3] = {UTIL_INT("axis", -2), cases[c].attr, {.name = NULL}};
    if (attrs[1].name && strcmp(attrs[1].name, "axis") == 0) attrs[1].name = NULL;
    for (int k = 0, start = 0; k < cases[c].parts; k++) {
      const rdt_tensor y = util_run(cases[c].opset, "Split", in, 2, cases[c].parts, k, attrs);
      util_expect_shape(&y, RDT_F16, 3, SHAPE(2, cases[c].length[k], 3));
      for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < cases[c].length[k]; j++)
          for (int64_t l = 0; l < 3; l++)
            assert_true(util_at(&y, SHAPE(i, j, l)) == util_at(&x, SHAPE(i, start + j, l)));
      start += (int)cases[c].length[k];
    }
  }
  const rdt_tensor in[2] = {x, lengths}, negative[2] = {x, LIST(-1, 8)}, huge[2] = {x, LIST(INT64_MAX, INT64_MAX)};
  util_refuse(13, "Split", in, 2, 3, NULL, RDT_ERR_SHAPE, "the parts have 7");
  util_refuse(13, "Split", in, 2, 2, NULL, RDT_ERR_SHAPE, "for 2 outputs");
  util_refuse(13, "Split", in, 1, 2, UTIL_ATTRS(UTIL_INT("axis", 1)), RDT_ERR_SHAPE, "equal parts");
  util_refuse(13, "Split", negative, 2, 2, UTIL_ATTRS(UTIL_INT("axis", 1)), RDT_ERR_SHAPE, "part 0");
  util_refuse(13, "Split", huge, 2, 2, UTIL_ATTRS(UTIL_INT("axis", 1)), RDT_ERR_SHAPE, "part 1");
}

static void expansions(void **state) {
  (void)state;
  for (int t = 0; t < DTYPES; t++) {
    const rdt_tensor x = util_count(all_dtypes[t], 3, SHAPE(2, 1, 3)), in[2] = {x, LIST(4, 1, 5, 1)};
    const rdt_tensor y = util_run(13, "Expand", in, 2, 1, 0, NULL);
    util_expect_shape(&y, all_dtypes[t], 4, SHAPE(4, 2, 5, 3));
    for (int64_t i = 0; i < 120; i++)
      assert_true(rdt_load(y.data, y.dtype, i) == util_at(&x, SHAPE(i / 15 % 2, 0, i % 3)));
    const rdt_tensor tile[2] = {x, LIST(2, 3, 2)}, z = util_run(13, "Tile", tile, 2, 1, 0, NULL);
    util_expect_shape(&z, all_dtypes[t], 3, SHAPE(4, 3, 6));
    for (int64_t i = 0; i < 72; i++)
      assert_true(rdt_load(z.data, z.dtype, i) == util_at(&x, SHAPE(i / 18 % 2, 0, i % 3)));
  }
  for (int along = 0; along <= 8; along++) { /* more dimensions at once than a view has */
    int64_t shape[8], repeats[8], at[8], count = 1;
    for (int d = 0; d < 8; d++) {
      shape[d] = 1 + (d + along) % 2;
      repeats[d] = d < along ? 2 + d % 2 : 1;
      count *= shape[d] * repeats[d];
    }
    const rdt_tensor x = util_count(RDT_S32, 8, shape), list = rdt_tensor_dense(repeats, RDT_S64, 1, SHAPE(8));
    const rdt_tensor y = util_run(13, "Tile", (rdt_tensor[]){x, list}, 2, 1, 0, NULL);
    for (int64_t e = 0; e < count; e++) {
      int64_t left = e;
      for (int d = 7; d >= 0; d--) {
        at[d] = left % (shape[d] * repeats[d]) % shape[d];
        left /= shape[d] * repeats[d];
      }
      assert_true(rdt_load(y.data, y.dtype, e) == util_at(&x, at));
    }
  }
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(2, 3));
  const rdt_tensor no[2] = {x, LIST(2, 4)}, below[2] = {x, LIST(-1, 3)}, wide[2] = {x, LIST(1, 1, 1, 1, 1, 1, 1, 1, 1)},
                   giant[2] = {x, LIST(INT64_MAX, 2, 3)}, tiles[2] = {x, LIST(INT64_MAX, 1)},
                   minus[2] = {x, LIST(-1, 1)}, nothing[2] = {x, LIST(0, 1)}, few[2] = {x, LIST(2)};
  util_refuse(13, "Expand", no, 2, 1, NULL, RDT_ERR_SHAPE, "does not broadcast");
  util_refuse(13, "Expand", below, 2, 1, NULL, RDT_ERR_SHAPE, "of -1");
  util_refuse(13, "Expand", wide, 2, 1, NULL, RDT_ERR_UNSUPPORTED, "to rank 9");
  util_refuse(13, "Tile", tiles, 2, 1, NULL, RDT_ERR_SHAPE, "repeated");
  util_refuse(13, "Tile", minus, 2, 1, NULL, RDT_ERR_SHAPE, "repeated -1");
  util_refuse(13, "Tile", few, 2, 1, NULL, RDT_ERR_SHAPE, "1 repeats");
  util_refuse_run(13, "Expand", giant, 2, NULL, RDT_ERR_SHAPE, "overflow");
  const rdt_tensor y = util_run(13, "Tile", nothing, 2, 1, 0, NULL);
  util_expect_shape(&y, RDT_F32, 2, SHAPE(0, 3));
  const rdt_tensor none[2] = {util_count(RDT_F32, 3, SHAPE(1, 64, 64)), LIST((int64_t)1 << 55, 0, 0)};
  const rdt_tensor empty = util_run(13, "Tile", none, 2, 1, 0, NULL);
  util_expect_shape(&empty, RDT_F32, 3, SHAPE((int64_t)1 << 55, 0, 0));
}

static void gathers(void **state) {
  (void)state;
  for (int t = 0; t < DTYPES; t++)
    for (int axis = -3; axis < 3; axis++)
      for (int kind = 0; kind < 2; kind++) {
        const int a = axis < 0 ? axis + 3 : axis;
        const rdt_tensor x = util_count(all_dtypes[t], 3, SHAPE(3, 4, 5));
        const rdt_tensor index =
            util_of(kind ? RDT_S32 : RDT_S64, 2, SHAPE(2, 3), (const double[]){0, 2, -1, -3, 1, 1});
        const rdt_tensor in[2] = {x, index};
        const rdt_tensor y = util_run(13, "Gather", in, 2, 1, 0, UTIL_ATTRS(UTIL_INT("axis", axis)));
        assert_int_equal(y.rank, 4);
        rdt_iter it = rdt_iter_begin(&y);
        while (rdt_iter_next(&it)) {
          int64_t from[3];
          for (int d = 0; d < 3; d++) from[d] = it.index[d < a ? d : d + 1];
          from[a] = (int64_t)util_at(&index, &it.index[a]);
          if (from[a] < 0) from[a] += x.shape[a];
          assert_true(rdt_load(y.data, y.dtype, it.offset) == util_at(&x, from));
        }
        if (axis == 2) util_moves_free();
      }
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(3, 4));
  const rdt_tensor one[2] = {x, util_of(RDT_S64, 0, NULL, (const double[]){-2})};
  rdt_tensor y = util_run(13, "Gather", one, 2, 1, 0, UTIL_ATTRS(UTIL_INT("axis", 1)));
  util_expect_shape(&y, RDT_F32, 1, SHAPE(3));
  util_expect_values(&y, (const double[]){3, 7, 11});
}

/* A constant index is a view. */
static void gathers_at_a_constant(void **state) {
  (void)state;
  static const int64_t good = -2, bad = 4;
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(3, 4));
  for (int i = 0; i < 2; i++) {
    util_onnx m;
    rdt_reason why = {""};
    util_onnx_init(&m, 13);
    util_onnx_input(&m, "x", RDT_F32, 2, x.shape);
    util_onnx_initializer(&m, "i", RDT_S64, i, SHAPE(1), i ? &bad : &good);
    util_onnx_node(&m, "Gather", "node", "x i", "y", UTIL_ATTRS(UTIL_INT("axis", 1)));
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    rdt_graph *g = util_graph_load(&m);
    rdt_layout l;
    assert_int_equal(rdt_layout_init(&l, g, &why), RDT_OK);
    const rdt_status s = rdt_graph_infer(g, &x, 1, &l, &why);
    if (i) {
      assert_int_equal(s, RDT_ERR_ARG);
      assert_non_null(strstr(why.text, "node 'node' (Gather): index 4 is not within -4..3"));
    } else {
      assert_int_equal(s, RDT_OK);
      assert_int_equal(l.alias[g->outputs[0]], g->inputs[0]);
      const rdt_tensor y = util_graph_run(g, &x, 1, 0);
      util_expect_values(&y, (const double[]){3, 7, 11});
      rdt_free(y.data);
    }
    rdt_layout_clear(&l);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
}

static void gathers_by_element(void **state) {
  (void)state;
  for (int t = 0; t < DTYPES; t++) {
    const rdt_tensor x = util_count(all_dtypes[t], 2, SHAPE(3, 3));
    const rdt_tensor index = util_of(RDT_S64, 2, SHAPE(2, 3), (const double[]){1, -1, 0, 2, 0, 0});
    const rdt_tensor in[2] = {x, index};
    for (int axis = 0; axis < 2; axis++) {
      const rdt_tensor y = util_run(13, "GatherElements", in, 2, 1, 0, UTIL_ATTRS(UTIL_INT("axis", axis)));
      util_expect_shape(&y, all_dtypes[t], 2, SHAPE(2, 3));
      for (int64_t i = 0; i < 6; i++) {
        int64_t from[2] = {i / 3, i % 3}, k = (int64_t)util_at(&index, from);
        from[axis] = k < 0 ? k + 3 : k;
        assert_true(rdt_load(y.data, y.dtype, i) == util_at(&x, from));
      }
    }
  }
  /* batch 2, tuples of length 2 into the rest 3 x 4 x 5 */
  const rdt_tensor x = util_count(RDT_F32, 4, SHAPE(2, 3, 4, 5));
  const rdt_tensor index =
                       util_of(RDT_S64, 3, SHAPE(2, 3, 2), (const double[]){0, 0, -1, 3, 1, -2, 2, 2, 0, -4, -3, 1}),
                   in[2] = {x, index};
  const rdt_tensor y = util_run(13, "GatherND", in, 2, 1, 0, UTIL_ATTRS(UTIL_INT("batch_dims", 1)));
  util_expect_shape(&y, RDT_F32, 3, SHAPE(2, 3, 5));
  rdt_iter it = rdt_iter_begin(&y);
  while (rdt_iter_next(&it)) {
    int64_t p = (int64_t)util_at(&index, SHAPE(it.index[0], it.index[1], 0));
    int64_t q = (int64_t)util_at(&index, SHAPE(it.index[0], it.index[1], 1));
    p = p < 0 ? p + 3 : p;
    q = q < 0 ? q + 4 : q;
    assert_true(rdt_load(y.data, y.dtype, it.offset) == util_at(&x, SHAPE(it.index[0], p, q, it.index[2])));
  }
  const rdt_tensor odd[2] = {x, util_of(RDT_S64, 2, SHAPE(1, 5), (const double[]){0, 0, 0, 0, 0})};
  util_refuse(13, "GatherND", odd, 2, 1, NULL, RDT_ERR_SHAPE, "do not fit");
}

static void bad_indices_end_the_run(void **state) {
  (void)state;
  static const double bad[] = {3, -4, 9e18, -9e18};
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(3, 40));
  for (int i = 0; i < 4; i++) {
    const rdt_tensor rows[2] = {x, util_of(RDT_S64, 1, SHAPE(2), (const double[]){0, bad[i]})};
    const rdt_tensor wide[2] = {x, util_of(RDT_S64, 2, SHAPE(1, 40), (const double[40]){[39] = bad[i]})};
    char words[64];
    snprintf(words, sizeof words, "index %lld along axis 0", (long long)(int64_t)bad[i]);
    util_refuse_run(13, "Gather", rows, 2, NULL, RDT_ERR_ARG, words);
    util_refuse_run(13, "GatherElements", wide, 2, NULL, RDT_ERR_ARG, words);
  }
  const rdt_tensor single[2] = {x, util_of(RDT_S64, 0, NULL, bad)}, real[2] = {x, x};
  util_refuse_run(13, "Gather", single, 2, NULL, RDT_ERR_ARG, "index 3");
  util_refuse(13, "Gather", real, 2, 1, NULL, RDT_ERR_DTYPE, "indices are f32");
}

static void shapes_and_ranges(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_U8, 3, SHAPE(2, 0, 4)), z = util_count(RDT_U8, 2, SHAPE(3, 4));
  rdt_tensor y = util_run(13, "Size", &x, 1, 1, 0, NULL);
  util_expect_shape(&y, RDT_S64, 0, NULL);
  util_expect_values(&y, (const double[]){0});
  y = util_run(13, "Size", &z, 1, 1, 0, NULL);
  util_expect_values(&y, (const double[]){12});
  const rdt_tensor shape = LIST(2, 3), empty = util_count(RDT_S64, 1, SHAPE(0)), huge = LIST(INT64_MAX, INT64_MAX);
  const double seven = 7;
  util_attr value[2] = {UTIL_TENSOR("value", NULL), {.name = NULL}};
  value[0].t = util_tensor_proto("v", RDT_S32, 1, SHAPE(1), (const int32_t[]){7});
  y = util_run(13, "ConstantOfShape", &shape, 1, 1, 0, value);
  util_expect_shape(&y, RDT_S32, 2, SHAPE(2, 3));
  util_expect_values(&y, (const double[]){7, 7, 7, 7, 7, 7});
  y = util_run(13, "ConstantOfShape", &empty, 1, 1, 0, NULL);
  util_expect_shape(&y, RDT_F32, 0, NULL);
  util_expect_values(&y, (const double[]){0});
  util_refuse_run(13, "ConstantOfShape", &huge, 1, NULL, RDT_ERR_SHAPE, "overflow");
  const double start[] = {10}, limit[] = {3}, delta[] = {-2}, zero[] = {0};
  const rdt_dtype kinds[] = {RDT_F32, RDT_F64, RDT_S32, RDT_S64};
  for (int t = 0; t < 4; t++) {
    const rdt_tensor down[3] = {util_of(kinds[t], 0, NULL, start), util_of(kinds[t], 0, NULL, limit),
                                util_of(kinds[t], 0, NULL, delta)},
                     up[3] = {down[0], down[1], util_of(kinds[t], 0, NULL, &seven)},
                     still[3] = {down[0], down[1], util_of(kinds[t], 0, NULL, zero)};
    y = util_run(13, "Range", down, 3, 1, 0, NULL);
    util_expect_shape(&y, kinds[t], 1, SHAPE(4));
    util_expect_values(&y, (const double[]){10, 8, 6, 4});
    y = util_run(13, "Range", up, 3, 1, 0, NULL);
    util_expect_shape(&y, kinds[t], 1, SHAPE(0));
    if (t >= 2) util_refuse(13, "Range", still, 3, 1, NULL, RDT_ERR_SHAPE, "no finite range");
  }
}

/* Reshape of a part of a tensor: no copy where strides can say it, the right values in any case. */
static void reshapes_of_views(void **state) {
  (void)state;
  util_onnx m;
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(4, 12));
  for (int merge = 0; merge < 2; merge++) {
    const int64_t shape[] = {4, merge ? 6 : 2, merge ? 1 : 3};
    const int64_t flat[] = {24};
    util_onnx_init(&m, 12);
    util_onnx_input(&m, "x", RDT_F32, 2, x.shape);
    util_onnx_initializer(&m, "shape", RDT_S64, 1, SHAPE(merge ? 1 : 3), merge ? flat : shape);
    util_onnx_node(&m, "Split", "s", "x", "a b", UTIL_ATTRS(UTIL_INT("axis", 1)));
    util_onnx_node(&m, "Reshape", "r", "b shape", "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    rdt_graph *g = util_graph_load(&m);
    if (!merge) { /* 4 x 6 to 4 x 2 x 3 */
      rdt_tensor v = x;
      v.shape[1] = 6;
      rdt_tensor seen;
      assert_true(rdt_view_reshape(&v, 3, shape, &seen));
      assert_int_equal(seen.stride[0], 12);
      assert_int_equal(seen.stride[1], 3);
      assert_false(rdt_view_reshape(&v, 1, flat, &seen));
    }
    const rdt_tensor y = util_graph_run(g, &x, 1, 0);
    for (int64_t i = 0; i < 24; i++) assert_true(((float *)y.data)[i] == (float)util_at(&x, SHAPE(i / 6, 6 + i % 6)));
    rdt_free(y.data);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
}

static void dropout_keeps_all(void **state) {
  (void)state;
  const rdt_tensor x = util_count(RDT_F32, 2, SHAPE(2, 2)),
                   in[3] = {x, util_of(RDT_F32, 0, NULL, (const double[]){0.5}),
                            util_of(RDT_BOOL, 0, NULL, (const double[]){0})};
  rdt_tensor y = util_run(13, "Dropout", in, 3, 2, 0, NULL);
  util_expect_values(&y, (const double[]){1, 2, 3, 4});
  y = util_run(13, "Dropout", in, 3, 2, 1, NULL);
  util_expect_shape(&y, RDT_BOOL, 2, SHAPE(2, 2));
  util_expect_values(&y, (const double[]){1, 1, 1, 1});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(squeeze_and_unsqueeze, end),
      cmocka_unit_test_teardown(slices, end),
      cmocka_unit_test_teardown(slices_of_other_forms, end),
      cmocka_unit_test_teardown(splits, end),
      cmocka_unit_test_teardown(expansions, end),
      cmocka_unit_test_teardown(gathers, end),
      cmocka_unit_test_teardown(gathers_at_a_constant, end),
      cmocka_unit_test_teardown(gathers_by_element, end),
      cmocka_unit_test_teardown(bad_indices_end_the_run, end),
      cmocka_unit_test_teardown(shapes_and_ranges, end),
      cmocka_unit_test_teardown(reshapes_of_views, end),
      cmocka_unit_test_teardown(dropout_keeps_all, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
