/* .npy and TensorProto files: round trips, and every way in which a file can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "net/tensor_file.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/redoubt-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder); /* fails if anything was left behind */
}

static const char *path_in_folder(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* A .npy file from a header text and a body; returns its length. */
static size_t npy(unsigned char *file, int version, const char *head, const void *body, size_t bytes) {
  const size_t length = strlen(head), width = version == 1 ? 2 : 4;
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (unsigned char)version;
  file[7] = 0;
  for (size_t i = 0; i < width; i++) file[8 + i] = (unsigned char)(length >> (8 * i));
  memcpy(file + 8 + width, head, length);
  if (bytes) memcpy(file + 8 + width + length, body, bytes);
  return 8 + width + length + bytes;
}

static void refuse(const void *data, size_t bytes, rdt_status expected, const char *word) {
  rdt_tensor t;
  rdt_reason why = {""};
  void *exact = malloc(bytes ? bytes : 1); /* so that a sanitizer sees the end */
  memcpy(exact, data, bytes);
  const rdt_status s = rdt_tensor_file_parse(exact, bytes, &t, &why);
  free(exact);
  if (s != expected || !strstr(why.text, word))
    fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), why.text, rdt_status_name(expected), word);
}

static rdt_tensor parse(const void *data, size_t bytes) {
  rdt_tensor t = {.rank = -1};
  rdt_reason why = {""};
  if (rdt_tensor_file_parse(data, bytes, &t, &why) != RDT_OK) fail_msg("%s", why.text);
  return t;
}

static void test_npy_versions_and_orders(void **state) {
  (void)state;
  unsigned char file[512];
  const float body[6] = {1, 2, 3, 4, 5, 6};
  for (int version = 1; version <= 3; version++) {
    size_t n =
        npy(file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", body, sizeof body);
    rdt_tensor t = parse(file, n);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[1], 3);
    assert_memory_equal(t.data, body, sizeof body);
    rdt_free(t.data);
  }
  const float turned[6] = {1, 3, 5, 2, 4, 6}; /* columns of a 2 x 3 matrix follow each other in the file */
  size_t n = npy(file, 1, "{\"shape\":(2L,3L),'fortran_order': True, 'descr': '=f4'}", body, sizeof body);
  rdt_tensor t = parse(file, n);
  assert_memory_equal(t.data, turned, sizeof turned);
  rdt_free(t.data);
  n = npy(file, 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (), }\n", (const double[]){2.5}, 8);
  t = parse(file, n);
  assert_int_equal(t.rank, 0);
  assert_true(*(double *)t.data == 2.5);
  rdt_free(t.data);
  n = npy(file, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 0), }\n", NULL, 0);
  t = parse(file, n);
  assert_int_equal(rdt_tensor_count(&t), 0);
  rdt_free(t.data);
  const uint16_t halves[2] = {0x3f80, 0xc000}; /* as ml_dtypes saves bfloat16 */
  n = npy(file, 1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }\n", halves, sizeof halves);
  t = parse(file, n);
  assert_int_equal(t.dtype, RDT_BF16);
  assert_true(rdt_load(t.data, t.dtype, 0) == 1.0 && rdt_load(t.data, t.dtype, 1) == -2.0);
  rdt_free(t.data);
}

static void test_npy_bad(void **state) {
  (void)state;
  static const struct {
    const char *head;
    size_t bytes;
    rdt_status status;
    const char *word;
  } bad[] = {
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, RDT_ERR_UNSUPPORTED, "big-endian"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, RDT_ERR_UNSUPPORTED, "objects"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, RDT_ERR_UNSUPPORTED, "structured"},
      {"{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }", 8, RDT_ERR_DTYPE, "<U4"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, RDT_ERR_DTYPE, "<c8"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, RDT_ERR_FORMAT, "takes 12 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8, RDT_ERR_FORMAT, "takes 4 bytes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 8, RDT_ERR_FORMAT, "lengths"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8, RDT_ERR_SHAPE, "overflow"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296,), }", 8, RDT_ERR_SHAPE, "overflow"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }", 8, RDT_ERR_UNSUPPORTED,
       "dimensions"},
      {"{'descr': '<f4', 'fortran_order': Perhaps, 'shape': (2,), }", 8, RDT_ERR_FORMAT, "neither True"},
      {"{'descr': '<f4', 'shape': (2,), }", 8, RDT_ERR_FORMAT, "misses"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, RDT_ERR_FORMAT, "repeated"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", 8, RDT_ERR_FORMAT, "behind"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2", 8, RDT_ERR_FORMAT, "shape"},
      {"[1, 2]", 8, RDT_ERR_FORMAT, "dictionary"},
      {"", 8, RDT_ERR_FORMAT, "dictionary"},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (8,), }", 8, RDT_ERR_FORMAT, "neither true"},
  };
  unsigned char file[512];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const size_t n = npy(file, 1, bad[i].head, "\x01\x02\x03\x04\x05\x06\x07\x08", bad[i].bytes);
    refuse(file, n, bad[i].status, bad[i].word);
  }
  const size_t n = npy(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "12345678", 8);
  for (size_t cut = 6; cut < n; cut++) refuse(file, cut, RDT_ERR_FORMAT, "");
  file[6] = 4;
  refuse(file, n, RDT_ERR_UNSUPPORTED, "version 4");
  refuse("", 0, RDT_ERR_FORMAT, "empty");
  refuse("PK\x03\x04", 4, RDT_ERR_UNSUPPORTED, "npz");
  refuse("hello world", 11, RDT_ERR_FORMAT, "neither");
}

static void test_write_and_read(void **state) {
  (void)state;
  float data[24];
  util_fill(data, 24, 3);
  const char *path = path_in_folder("a.npy");
  rdt_tensor t = rdt_tensor_channels_last(data, RDT_F32, 4, SHAPE(1, 2, 3, 4)), back;
  rdt_reason why;
  for (int overwrite = 0; overwrite < 2; overwrite++) assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
  assert_int_equal(rdt_tensor_file_read(path, &back, &why), RDT_OK);
  assert_true(rdt_tensor_is_dense(&back) && rdt_tensor_same_shape(&t, &back));
  size_t e = 0;
  for (rdt_iter it = rdt_iter_begin(&t); rdt_iter_next(&it); e++)
    assert_memory_equal(&((float *)back.data)[e], &data[it.offset], sizeof(float));
  rdt_free(back.data);
  for (int dtype = 0; dtype < RDT_DTYPE_COUNT; dtype++) {
    static const uint64_t zeros[4] = {0};
    t = rdt_tensor_dense((void *)(uintptr_t)zeros, (rdt_dtype)dtype, dtype % 3, SHAPE(2, 2));
    assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
    assert_int_equal(rdt_tensor_file_read(path, &back, &why), RDT_OK);
    assert_int_equal(back.dtype, *rdt_dtype_info((rdt_dtype)dtype)->npy ? dtype : RDT_F32);
    assert_true(rdt_tensor_same_shape(&t, &back));
    rdt_free(back.data);
  }
  uint16_t wide[2] = {0x3fc0, 0xc000}; /* 1.5, -2 in bf16 */
  t = rdt_tensor_dense(wide, RDT_BF16, 1, SHAPE(2));
  assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
  assert_int_equal(rdt_tensor_file_read(path, &back, &why), RDT_OK);
  assert_true(((float *)back.data)[0] == 1.5f && ((float *)back.data)[1] == -2.0f);
  rdt_free(back.data);
  uint8_t eighth[2] = {0x3c, 0xc0}; /* 1.5, -2 in f8e4m3 */
  t = rdt_tensor_dense(eighth, RDT_F8E4M3, 1, SHAPE(2));
  assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
  assert_int_equal(rdt_tensor_file_read(path, &back, &why), RDT_OK);
  assert_true(((float *)back.data)[0] == 1.5f && ((float *)back.data)[1] == -2.0f);
  rdt_free(back.data);
  assert_int_equal(unlink(path), 0);
}

static int entries(void) {
  DIR *d = opendir(folder);
  int n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n - 2;
}

static void test_failing_writes_leave_nothing(void **state) {
  (void)state;
  float data[4096] = {0};
  rdt_reason why = {""};
  rdt_tensor t = rdt_tensor_dense(data, RDT_F32, 1, SHAPE(4096)), small = rdt_tensor_dense(data, RDT_F32, 1, SHAPE(1));
  const char *path = path_in_folder("b.npy");
  assert_int_equal(rdt_npy_write(path, &small, &why), RDT_OK);
  struct rlimit old, limit;
  getrlimit(RLIMIT_FSIZE, &old);
  limit = old;
  limit.rlim_cur = 8192; /* as a full disk: part of the data can be written */
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const rdt_status s = rdt_npy_write(path, &t, &why);
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(s, RDT_ERR_IO);
  assert_non_null(strstr(why.text, "b.npy"));
  assert_int_equal(entries(), 1);
  rdt_tensor back; /* what was there before is untouched */
  assert_int_equal(rdt_tensor_file_read(path, &back, &why), RDT_OK);
  assert_int_equal(back.shape[0], 1);
  rdt_free(back.data);
  unlink(path);
  assert_int_equal(rdt_npy_write(path_in_folder("no/such/folder.npy"), &t, &why), RDT_ERR_IO);
  assert_int_equal(rdt_npy_write(folder, &t, &why), RDT_ERR_IO);
  assert_int_equal(rdt_npy_write("/dev/full", &t, &why), RDT_ERR_IO);
  if (geteuid() != 0) {
    assert_int_equal(chmod(folder, 0500), 0);
    assert_int_equal(rdt_npy_write(path, &t, &why), RDT_ERR_IO);
    assert_int_equal(chmod(folder, 0700), 0);
  }
  assert_int_equal(entries(), 0);
}

static void test_read_errors(void **state) {
  (void)state;
  rdt_tensor t;
  rdt_reason why = {""};
  assert_int_equal(rdt_tensor_file_read(path_in_folder("none.npy"), &t, &why), RDT_ERR_IO);
  assert_non_null(strstr(why.text, "none.npy"));
  assert_int_equal(rdt_tensor_file_read(folder, &t, &why), RDT_ERR_IO);
  const char *path = path_in_folder("huge.npy");
  const int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_int_equal(ftruncate(fd, (off_t)3 << 30), 0);
  close(fd);
  assert_int_equal(rdt_tensor_file_read(path, &t, &why), RDT_ERR_NOMEM);
  unlink(path);
}

static size_t pack(const Onnx__TensorProto *p, unsigned char *file) {
  assert_true(onnx__tensor_proto__get_packed_size(p) < 4096);
  return onnx__tensor_proto__pack(p, file);
}

static void test_tensor_proto_raw(void **state) {
  (void)state;
  unsigned char file[4096], body[32] = {1, 0, 1};
  for (int dtype = 0; dtype < RDT_DTYPE_COUNT; dtype++) {
    Onnx__TensorProto *p = util_tensor_proto("t", (rdt_dtype)dtype, 2, SHAPE(2, 2), body);
    rdt_tensor t = parse(file, pack(p, file));
    assert_int_equal(t.dtype, dtype);
    assert_int_equal(t.rank, 2);
    assert_memory_equal(t.data, body, 4 * rdt_dtype_size((rdt_dtype)dtype));
    rdt_free(t.data);
    const size_t n = pack(p, file);
    for (size_t cut = 1; cut < n; cut++) { /* either refused, or whole fields are missing: then it cannot fit */
      rdt_tensor u = {0};
      rdt_reason why;
      assert_int_not_equal(rdt_tensor_file_parse(file, cut, &u, &why), RDT_OK);
    }
    onnx__tensor_proto__free_unpacked(p, NULL);
  }
}

static void test_tensor_proto_typed(void **state) {
  (void)state;
  unsigned char file[4096];
  int32_t ints[2] = {-3, 100};
  int64_t longs[2] = {INT64_MIN, 7};
  double doubles[2] = {1e300, -0.0};
  float floats[2] = {1.5f, 3e-45f};
  int64_t dims[1] = {2};
  Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
  p.has_data_type = 1;
  p.n_dims = 1;
  p.dims = dims;

  p.data_type = 1;
  p.n_float_data = 2;
  p.float_data = floats;
  rdt_tensor t = parse(file, pack(&p, file));
  assert_memory_equal(t.data, floats, sizeof floats);
  rdt_free(t.data);
  p.data_type = 11;
  refuse(file, pack(&p, file), RDT_ERR_FORMAT, "another datatype");
  p.n_float_data = 0;
  refuse(file, pack(&p, file), RDT_ERR_FORMAT, "has 0");
  p.n_double_data = 2;
  p.double_data = doubles;
  t = parse(file, pack(&p, file));
  assert_memory_equal(t.data, doubles, sizeof doubles);
  rdt_free(t.data);
  p.n_double_data = 0;
  p.data_type = 7;
  p.n_int64_data = 2;
  p.int64_data = longs;
  t = parse(file, pack(&p, file));
  assert_memory_equal(t.data, longs, sizeof longs);
  rdt_free(t.data);
  p.n_int64_data = 0;
  p.n_int32_data = 2;
  p.int32_data = ints;
  p.data_type = 3; /* s8 */
  t = parse(file, pack(&p, file));
  assert_int_equal(((int8_t *)t.data)[0], -3);
  assert_int_equal(((int8_t *)t.data)[1], 100);
  rdt_free(t.data);
  p.data_type = 2; /* u8 */
  refuse(file, pack(&p, file), RDT_ERR_FORMAT, "no u8");
  ints[0] = 0x3c00;
  p.data_type = 10; /* f16: bits */
  t = parse(file, pack(&p, file));
  assert_true(rdt_load(t.data, RDT_F16, 0) == 1.0);
  rdt_free(t.data);
}

static void test_tensor_proto_bad(void **state) {
  (void)state;
  unsigned char file[4096];
  const float body[4] = {0};
  Onnx__TensorProto *p = util_tensor_proto("t", RDT_F32, 2, SHAPE(2, 2), body);
  const struct {
    int64_t dim;
    rdt_status status;
    const char *word;
  } dims[] = {{-2, RDT_ERR_SHAPE, "negative"},
              {3, RDT_ERR_FORMAT, "takes 24 bytes"},
              {0, RDT_ERR_FORMAT, "takes 0 bytes"},
              {INT64_MAX, RDT_ERR_SHAPE, "overflow"},
              {(int64_t)1 << 61, RDT_ERR_SHAPE, "overflow"}};
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    p->dims[0] = dims[i].dim;
    refuse(file, pack(p, file), dims[i].status, dims[i].word);
  }
  p->dims[0] = 2;
  p->data_type = 8;
  refuse(file, pack(p, file), RDT_ERR_UNSUPPORTED, "STRING");
  p->data_type = 12345;
  refuse(file, pack(p, file), RDT_ERR_UNSUPPORTED, "unknown");
  p->has_data_type = 0;
  refuse(file, pack(p, file), RDT_ERR_FORMAT, "no tensor");
  p->has_data_type = 1;
  p->data_type = 1;
  p->has_data_location = 1;
  p->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  refuse(file, pack(p, file), RDT_ERR_UNSUPPORTED, "another file");
  p->has_data_location = 0;
  Onnx__TensorProto__Segment segment = ONNX__TENSOR_PROTO__SEGMENT__INIT;
  p->segment = &segment;
  refuse(file, pack(p, file), RDT_ERR_UNSUPPORTED, "segments");
  p->segment = NULL;
  onnx__tensor_proto__free_unpacked(p, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_npy_versions_and_orders),
      cmocka_unit_test(test_npy_bad),
      cmocka_unit_test(test_write_and_read),
      cmocka_unit_test(test_failing_writes_leave_nothing),
      cmocka_unit_test(test_read_errors),
      cmocka_unit_test(test_tensor_proto_raw),
      cmocka_unit_test(test_tensor_proto_typed),
      cmocka_unit_test(test_tensor_proto_bad),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
