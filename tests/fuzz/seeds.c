/* Writes the seeds: FOLDER/onnx has a small model for each operator, some whose weights are in another file, and the
 * models of the ONNX backend suite where they are installed; FOLDER/npy tensor files of every kind; FOLDER/plan,
 * FOLDER/campaign and FOLDER/mix what is written there, and what is not. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/tensor.h"
#include "net/tensor_file.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static char folder[2048];

static const char *file(const char *kind, const char *name, int number) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s/%s-%d", folder, kind, name, number);
  return path;
}

typedef struct seed {
  const char *op;
  int64_t opset;
  int rank;
  const char *inputs; /* x: 1x2x4x4 cut to rank; the others are constants */
  util_attr attrs[3];
} seed;

static const seed seeds[] = {
    {"Conv", 13, 4, "x w4 v2", {UTIL_INTS("pads", 4, 1, 1, 1, 1), UTIL_INTS("strides", 2, 2, 2)}},
    {"Conv", 11, 4, "x w4", {UTIL_STRING("auto_pad", "SAME_UPPER"), UTIL_INTS("dilations", 2, 1, 1)}},
    {"Conv", 7, 3, "x w3", {UTIL_INTS("kernel_shape", 1, 3)}},
    {"Gemm", 11, 2, "x w2 v2", {UTIL_INT("transB", 1), UTIL_FLOAT("beta", 2.0f)}},
    {"MatMul", 9, 2, "x w2", {{0}}},
    {"MatMul", 9, 4, "x x", {{0}}},
    {"Add", 6, 4, "x v2", {UTIL_INT("broadcast", 1), UTIL_INT("axis", 1)}},
    {"Mul", 13, 4, "x x", {{0}}},
    {"Relu", 14, 1, "x", {{0}}},
    {"BatchNormalization", 9, 4, "x v2 v2 v2 v2", {UTIL_FLOAT("epsilon", 0.001f)}},
    {"MaxPool",
     12,
     4,
     "x",
     {UTIL_INTS("kernel_shape", 2, 3, 3), UTIL_INT("ceil_mode", 1), UTIL_INTS("strides", 2, 2, 2)}},
    {"AveragePool", 19, 4, "x", {UTIL_INTS("kernel_shape", 2, 2, 2), UTIL_INT("count_include_pad", 1)}},
    {"GlobalAveragePool", 13, 3, "x", {{0}}},
    {"Softmax", 12, 4, "x", {UTIL_INT("axis", 2)}},
    {"Softmax", 13, 2, "x", {UTIL_INT("axis", -1)}},
    {"Concat", 13, 4, "x x", {UTIL_INT("axis", 1)}},
    {"Flatten", 13, 4, "x", {UTIL_INT("axis", 2)}},
    {"Reshape", 14, 4, "x shape", {UTIL_INT("allowzero", 0)}},
    {"Identity", 16, 0, "x", {{0}}},
    {"Dropout", 13, 2, "x ratio no", {{0}}},
};

static void write_models(void) {
  float data[64];
  const float half = 0.5f;
  const unsigned char no = 0;
  const size_t n = sizeof seeds / sizeof seeds[0];
  util_fill(data, 64, 1);
  for (size_t i = 0; i < n; i++)
    for (int relu = 0; relu < 2; relu++) { /* alone, and between two other nodes */
      util_onnx m;
      util_onnx_init(&m, seeds[i].opset);
      util_onnx_input(&m, relu ? "in" : "x", RDT_F32, seeds[i].rank, SHAPE(-1, 2, 4, 4));
      util_onnx_initializer(&m, "w4", RDT_F32, 4, SHAPE(2, 2, 3, 3), data);
      util_onnx_initializer(&m, "w3", RDT_F32, 3, SHAPE(2, 2, 3), data);
      util_onnx_initializer(&m, "w2", RDT_F32, 2, SHAPE(2, 2), data);
      util_onnx_initializer(&m, "v2", RDT_F32, 1, SHAPE(2), data);
      util_onnx_initializer(&m, "ratio", RDT_F32, 0, NULL, &half);
      util_onnx_initializer(&m, "no", RDT_BOOL, 0, NULL, &no);
      util_onnx_node(&m, "Constant", NULL, "", "shape", UTIL_ATTRS(UTIL_INTS("value_ints", 2, 0, -1)));
      if (relu) util_onnx_node(&m, "Relu", "before", "in", "x", NULL);
      util_onnx_node(&m, seeds[i].op, "node", seeds[i].inputs, relu ? "out" : "y", seeds[i].attrs);
      if (relu) util_onnx_node(&m, "Add", "behind", "out v2", "y", NULL);
      util_onnx_output(&m, "y", RDT_F32, -1, NULL);
      util_onnx_save(&m, file("onnx", seeds[i].op, 2 * (int)i + relu));
      util_onnx_clear(&m);
    }
}

static void write_bytes(const char *path, const void *data, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

/* Weights in w.bin, aligned and not, with and without BatchNormalization to fold; what leads elsewhere. */
/* An operand that nobody has declared, where its rank decides: found by fuzzing. */
static void write_undeclared(void) {
  static const unsigned char model[] =
      "\x08\x03\x12\x07pytorch\x1a\x03"
      "0.3:|\x0a-\x0a\x01"
      "0\x0a\x01"
      "1\x12\x01"
      "2\"\x03"
      "Add*\x10\x0a\x09"
      "broadcast\x18\x01\xa0\x01\x02*\x0b\x0a\x04"
      "axis\x18\x01\xa0\x01\x02\x12\x10torch-jit-exportZ\x13\x0a\x01"
      "0\x12\x0e\x0a\x0c\x08\x0b\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x03Z\x0f\x0a\x01"
      "1\x1a\x0a\x0a\x08\x08\x0b\x12\x04\x0a\x02\x08\x03"
      "b\x13\x0a\x01"
      "2\x12\x0e\x0a\x0c\x08\x0b\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x03"
      "B\x02\x10\x06";
  write_bytes(file("onnx", "undeclared", 0), model, sizeof model - 1);
}

static void write_external(void) {
  static const struct {
    const char *location, *offset, *length;
  } cases[] = {{"w.bin", NULL, NULL},    {"w.bin", "64", "65536"},  {"w.bin", "3", "65536"}, {"./w.bin", "4096", NULL},
               {"../w.bin", NULL, NULL}, {"/etc/passwd", "0", "1"}, {"w.bin", "-1", NULL},   {"w.bin", "262143", NULL}};
  static float data[128 * 128];
  util_fill(data, 128 * 128, 3);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int bn = 0; bn < 2; bn++) {
      util_onnx m;
      util_onnx_init(&m, 13);
      util_onnx_input(&m, "x", RDT_F32, 4, SHAPE(1, 128, 1, 1));
      util_onnx_external(util_onnx_initializer(&m, "w", RDT_F32, 4, SHAPE(128, 128, 1, 1), data), cases[i].location,
                         cases[i].offset, cases[i].length);
      util_onnx_external(util_onnx_initializer(&m, "v", RDT_F32, 1, SHAPE(128), data), "w.bin", "4", NULL);
      util_onnx_node(&m, "Conv", "conv", "x w", bn ? "c" : "y", NULL);
      if (bn) util_onnx_node(&m, "BatchNormalization", "bn", "c v v v v", "y", NULL);
      util_onnx_output(&m, "y", RDT_F32, -1, NULL);
      util_onnx_save(&m, file("onnx", bn ? "external-bn" : "external", (int)i));
      util_onnx_clear(&m);
    }
}

static const char suite[] = "/usr/share/libonnx-testdata/data";
static int copied;

/* DIR/CASE/model.onnx of the suite as CASE. */
static int copy_case(const char *path, const struct stat *st, int type, struct FTW *at) {
  char to[4096];
  (void)at;
  const char *name = strrchr(path, '/');
  if (type != FTW_F || strcmp(name, "/model.onnx") != 0 || st->st_size > 65536) return 0;
  const char *start = memrchr(path, '/', (size_t)(name - path));
  snprintf(to, sizeof to, "%s/onnx/%.*s", folder, (int)(name - start - 1), start + 1);
  char *data = malloc((size_t)st->st_size + 1);
  FILE *f = fopen(path, "rb");
  if (!f || !data || fread(data, 1, (size_t)st->st_size, f) != (size_t)st->st_size) abort();
  fclose(f);
  write_bytes(to, data, (size_t)st->st_size);
  free(data);
  copied++;
  return 0;
}

static void copy_suite(void) {
  if (nftw(suite, copy_case, 16, FTW_PHYS) != 0)
    printf("no models of the ONNX backend suite among the seeds: %s: %s (Debian: libonnx-testdata)\n", suite,
           strerror(errno));
  else
    printf("%d models of the ONNX backend suite among the seeds\n", copied);
}

static void write_tensors(void) {
  static uint64_t zeros[16];
  unsigned char packed[512];
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
    const rdt_tensor view = rdt_tensor_dense(zeros, (rdt_dtype)t, t % 4, SHAPE(2, 1, 3));
    if (rdt_npy_write(file("npy", "array", t), &view, NULL) != RDT_OK) abort();
    Onnx__TensorProto *proto = util_tensor_proto("t", (rdt_dtype)t, t % 3, SHAPE(2, 3), zeros);
    write_bytes(file("npy", "proto", t), packed, onnx__tensor_proto__pack(proto, packed));
    if (t == RDT_S8) { /* the same, typed instead of raw */
      proto->has_raw_data = 0;
      proto->int32_data = calloc(2, sizeof(int32_t));
      proto->n_int32_data = 2;
      write_bytes(file("npy", "typed", t), packed, onnx__tensor_proto__pack(proto, packed));
    }
    onnx__tensor_proto__free_unpacked(proto, NULL);
  }
  static const char fortran[] =
      "\x93NUMPY\x02\x00\x3a\x00\x00\x00{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }\n123456789012";
  write_bytes(file("npy", "fortran", 0), fortran, sizeof fortran - 1);
}

/* As it is written, and with what a reader must not take. */
static void write_plans(void) {
  static const char good[] =
      "{\"schema\": \"redoubt.plan/2\", \"redoubt\": \"0.1.0\", \"machine\": {\"cpu\": \"c\", \"microcode\": \"\", "
      "\"isa\": \"avx2\", \"threads\": 1}, \"problems\": [{\"problem\": \"gemm in=f32 1x2\", \"choice\": 1, "
      "\"candidates\": [{\"kernel\": \"gemm_f32_native\", \"scheme\": \"row\", \"fused\": true, \"ns\": [10, 11]}, "
      "{\"kernel\": \"gemm_f32_native\", \"scheme\": \"none\", \"fused\": false, \"ns\": []}]}]}";
  static const char bad[] = "{\"problems\": [{\"problem\": \"x\", \"choice\": 1e9, \"candidates\": [{\"ns\": [-1]}]}]}";
  write_bytes(file("plan", "good", 0), good, sizeof good - 1);
  write_bytes(file("plan", "bad", 0), bad, sizeof bad - 1);
}

#define HEAD(seed, shard, more)                                                                                        \
  "{\"schema\": \"redoubt.campaign/1\", \"target\": \"gemm:8x8x8\", \"fault\": \"default mix\", \"scheme\": \"row\", " \
  "\"on_fault\": \"recompute\", \"lambda\": 6, \"isa\": \"avx2\", \"seed\": " seed ", \"shard\": " shard               \
  ", \"shards\": 2" more "}\n\n"
#define TRIAL(id, fault, fate, weighted, tail)                                                                       \
  "{\"id\":" id ",\"fault\":\"" fault "\",\"fate\":\"" fate                                                          \
  "\",\"effect\":\"above\",\"noticed\":true,\"claimed\":true,"                                                       \
  "\"site\":\"accum\",\"kind\":\"bit\",\"bit\":27,\"layer\":\"gemm\",\"scheme\":\"row\",\"verdict\":\"RECOMPUTED\"," \
  "\"diagnosis\":\"transient\",\"error\":4,\"weighted\":" weighted                                                   \
  ",\"floor\":0.25,\"ratio\":8,\"residual\":4,"                                                                      \
  "\"bound\":0.125,\"left\":-1,\"stated\":-1,\"changed\":1,\"wrong\":0,\"checks\":8,\"suspects\":0,\"faults\":1,"    \
  "\"unchecked\":0,\"did\":\"accum of node gemm\"}" tail

/* A folder; two shards; clean runs beside others; a last line that was cut off; what is no campaign. */
static void write_campaigns(void) {
  static const char times[] = HEAD("1", "1",
                                   ", \"seconds\": 1.2e-5, \"seconds_unprotected\": 1e-5, \"layers\": [{\"name\": "
                                   "\"gemm\", \"op\": \"gemm\", \"scheme\": \"row\"}]")
      TRIAL("0", "bit@accum", "recomputed", "4", "\n") TRIAL("2", "bit@accum", "SDC", "null", "\n");
  static const char shards[] = HEAD("1", "1", "") TRIAL("0", "bit@accum", "masked", "1e-9", "\n\n") HEAD("1", "2", "")
      TRIAL("1", "bit@accum", "DUE", "1e30", "\n");
  static const char clean[] = HEAD("1", "1", "") TRIAL("0", "none", "masked", "0", "\n\n") HEAD("7", "2", "")
      TRIAL("1", "bit@accum", "corrected", "4", "\n");
  static const char cut[] = HEAD("1", "1", "") TRIAL("0", "bit@accum", "masked", "0", "\n") "{\"id\":2,\"fau";
  static const char bad[] = "{\"schema\": \"redoubt.plan/2\"}\n\n{}\n";
  write_bytes(file("campaign", "times", 0), times, sizeof times - 1);
  write_bytes(file("campaign", "shards", 0), shards, sizeof shards - 1);
  write_bytes(file("campaign", "clean", 0), clean, sizeof clean - 1);
  write_bytes(file("campaign", "cut", 0), cut, sizeof cut - 1);
  write_bytes(file("campaign", "bad", 0), bad, sizeof bad - 1);
}

static void write_mixes(void) {
  static const char good[] =
      "{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit\", \"share\": 30}, {\"fault\": \"burst:4\", "
      "\"share\": 10}, {\"fault\": \"bit:30@accum,core=1,rate=0.5,seed=3\", \"share\": 1}, {\"fault\": "
      "\"ber:1e-7@accum,layer=conv*,count=1:16,along=row,at=1/2\", \"share\": 0.5}], \"sites\": [{\"site\": "
      "\"weight\", "
      "\"share\": 1}, {\"site\": \"accum\", \"share\": 2}]}";
  static const char bad[] = "{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit,seed=1\", \"share\": -1}]}";
  write_bytes(file("mix", "good", 0), good, sizeof good - 1);
  write_bytes(file("mix", "bad", 0), bad, sizeof bad - 1);
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc != 2) return 2;
  snprintf(folder, sizeof folder, "%s", argv[1]);
  static const char *const parts[] = {"", "/onnx", "/npy", "/plan", "/campaign", "/mix"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    snprintf(path, sizeof path, "%s%s", folder, parts[i]);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
      perror(path);
      return 1;
    }
  }
  write_models();
  write_undeclared();
  write_external();
  write_tensors();
  write_plans();
  write_campaigns();
  write_mixes();
  copy_suite();
  return 0;
}
