/* The table of CUDA kernels, and what products they take: without a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/kernel.h"
#include "cuda/sm90/gemm_wgmma_bits.h"
#include "cuda/ways.h"
#include "cuda/wide.h"

#ifdef RDT_TEST_CUDA

static void test_table(void **state) {
  (void)state;
  int n, injecting = 0;
  bool types[RDT_DTYPE_COUNT] = {false};
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    const rdt_cuda_kernel *k = &table[i];
    const rdt_cuda_tile *t = k->tile;
    assert_non_null(k->code[k->family == RDT_CUDA_WGMMA]);
    assert_ptr_equal(rdt_cuda_kernel_find(k->name), k); /* names are unique */
    assert_non_null(strstr(k->name, t->name));
    assert_non_null(strstr(k->name, k->scheme));
    assert_true(t->threads >= 32 && t->threads <= 1024 && k->shared <= 227 * 1024);
    assert_int_equal(k->k % (k->step * t->warps_k), 0);
    assert_int_equal(k->k * (int)rdt_dtype_info(k->dtype)->bytes % 16, 0); /* whole copies */
    assert_int_equal(k->sum, k->dtype == RDT_F64 ? 8 : 4);
    types[k->dtype] = true;
    if (strcmp(k->scheme, "none") == 0) continue;
    const rdt_cuda_kernel *plain = &table[i]; /* an unprotected one of the same tile comes before */
    while (plain >= table && (plain->tile != t || plain->dtype != k->dtype || strcmp(plain->scheme, "none") != 0))
      plain--;
    assert_true(plain >= table);
  }
  for (int i = 0; i < n; i++) injecting += rdt_cuda_kernel_inject(&table[i]) != NULL;
  /* Of a tile of fp16, each check, four of few rows, those on wgmma and of few columns; of other types, few. */
  assert_int_equal(injecting, 40);
  assert_int_equal(rdt_cuda_kernel_sets(rdt_cuda_kernel_find("gemm_bf16_mma_16x32_row")), 8);
  assert_int_equal(rdt_cuda_kernel_sets(rdt_cuda_kernel_find("gemm_f32_fma_128x128_row")), 8);
  assert_int_equal(rdt_cuda_kernel_sets(rdt_cuda_kernel_find("gemm_s8_mma_32x32_row")), 1);
  assert_int_equal(rdt_cuda_kernel_sets(rdt_cuda_kernel_find("gemm_f16_mma_64x64_global")), 1);
  assert_int_equal(rdt_cuda_kernel_sets(rdt_cuda_kernel_find("gemm_f16_wgmma_128x128pp_row")), 1);
  assert_true(types[RDT_F16] && types[RDT_BF16] && types[RDT_S8] && types[RDT_F64] && types[RDT_F32]);
  assert_non_null(rdt_cuda_kernel_find("gemm_s8_mma_128x128_replicate1"));
  assert_non_null(rdt_cuda_kernel_find("gemm_f32_fma_32x32_thread1"));
  assert_string_equal(rdt_cuda_kernel_find("gemm_bf16_mma_16x32_global-classic")->scheme, "global-classic");
  const rdt_cuda_kernel *wide = rdt_cuda_kernel_find("gemm_bf16_wgmma_128x128pp_row");
  assert_non_null(wide);
  assert_int_equal(wide->family, RDT_CUDA_WGMMA);
  assert_int_equal(wide->least, 9);
  for (int i = 0; i < 4; i++) assert_non_null(wide->code[i]); /* B either way, without and with bias and the like */
  const rdt_cuda_kernel *deep = rdt_cuda_kernel_find("gemm_tf32_wgmma_128x128pp_row");
  assert_true(deep && deep->tf32 && deep->dtype == RDT_F32 && !deep->code[0] && deep->code[1]);
  assert_non_null(rdt_cuda_kernel_find("gemm_s8_wgmma_128x128pp_row"));
  assert_non_null(rdt_cuda_kernel_find("gemm_f8e4m3_wgmma_128x128_row"));
  assert_non_null(rdt_cuda_kernel_find("gemm_f8e5m2_wgmma_128x128_none"));
  assert_string_equal(rdt_cuda_kernel_find("gemm_f16_wgmma_64x256pp_tile")->scheme, "tile");
  assert_null(rdt_cuda_kernel_find("gemm_f16_mma_16x32_"));
}

/* Is it one of those that own products are chosen from for such a product, of which its scheme is asked? */
static bool chosen(int kernel, int64_t m, int64_t n, bool columns) {
  int kernels, ways;
  const rdt_cuda_kernel *k = &rdt_cuda_kernels(&kernels)[kernel];
  const rdt_way *way = rdt_ways(&ways);
  const rdt_cuda_device hopper = {.major = 9};
  const int64_t depth = 128;
  rdt_problem p;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.acc = rdt_dtype_accumulator(k->dtype);
  p.in[0] = rdt_tensor_dense(NULL, k->dtype, 2, (int64_t[]){m, depth});
  p.in[1] = rdt_tensor_dense(NULL, k->dtype == RDT_U8 ? RDT_S8 : k->dtype, 2, (int64_t[]){depth, n});
  p.out = rdt_tensor_dense(NULL, rdt_dtype_is_half(k->dtype) ? k->dtype : p.acc, 2, (int64_t[]){m, n});
  if (columns) p.in[1].stride[0] = 1, p.in[1].stride[1] = depth;
  const bool plain = strcmp(k->scheme, "none") == 0;
  const rdt_way_job j = {.d = &hopper,
                         .p = &p,
                         .as = &p,
                         .scheme = k->scheme,
                         .any = plain,
                         .protect = !plain,
                         .sets = strcmp(k->scheme, "row") == 0};
  bool taken = false;
  for (int i = 0; i < ways; i++) taken |= way[i].kernels && way[i].can(&j) && way[i].takes(&j, kernel);
  /* Plans of a GPU measure all of 16 bits that take the product. */
  taken |= k->family == RDT_CUDA_WGMMA && rdt_dtype_is_half(k->dtype) && rdt_cuda_gemm_accept(k, &p, NULL) == RDT_OK;
  rdt_problem_clear(&p);
  return taken;
}

/* What nothing chooses is compiled for nobody, but for those on wgmma of other types than 16 bits: products alone,
 * which tell what they found a launch later, or when they are asked to settle; a network's own products are not. */
static void test_chosen(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{1, 64}, {64, 64}, {512, 512}, {100000, 32}, {100000, 64}, {100000, 128}};
  int n, alone = 0;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    bool taken = false;
    for (int s = 0; s < 2 * (int)(sizeof shapes / sizeof *shapes); s++)
      taken |= chosen(i, shapes[s / 2][0], shapes[s / 2][1], s % 2);
    const bool other = table[i].family == RDT_CUDA_WGMMA && !rdt_dtype_is_half(table[i].dtype);
    if (taken == other) fail_msg("%s: %s", table[i].name, taken ? "is chosen" : "nothing chooses it");
    alone += other;
  }
  assert_int_equal(alone, 10);
}

/* Sums of columns in the instruction that multiplies: one tile of a row of tiles has them. Apart, where both groups
 * share a tile: a tile that has the time for it, or each tile a share of k. */
static void test_sums_of_columns(void **state) {
  (void)state;
  const rdt_cuda_kernel *pp = rdt_cuda_kernel_find("gemm_bf16_wgmma_128x128pp_row"),
                        *wide = rdt_cuda_kernel_find("gemm_bf16_wgmma_64x256pp_tile"),
                        *shared = rdt_cuda_kernel_find("gemm_bf16_wgmma_256x128_row"),
                        *bytes = rdt_cuda_kernel_find("gemm_s8_wgmma_128x128pp_row"),
                        *tall = rdt_cuda_kernel_find("gemm_f16_wgmma_tall64_row");
  assert_true(pp && wide && shared && bytes && tall);
  assert_int_equal(shared->tile->rows, 256);
  for (int columns = 0; columns < 2; columns++) {
    assert_int_equal(rdt_wide_beside(pp, columns), true);
    assert_int_equal(rdt_wide_beside(wide, columns), columns); /* with B's rows side by side too few stages are left */
    assert_int_equal(rdt_wide_beside(shared, columns), false);
    assert_int_equal(rdt_wide_beside(bytes, columns), false);
    assert_int_equal(rdt_wide_beside(tall, columns), false); /* packs them behind B, from parts one below the other */
    rdt_wide w = {.columns = columns};
    rdt_wide_plan(&w, pp, 1024, 32, 4096, 1, 132);
    assert_true(w.whole && w.blocks == 132);
    rdt_wide_plan(&w, shared, 1024, 32, 4096, 1, 132); /* one tile each: a share for each */
    assert_true(!w.whole && !w.light && w.blocks == 128);
    rdt_wide_plan(&w, shared, 4096, 32, 4096, 1,
                  132); /* 8 of 66 pairs of blocks have a tile less, and there are 8 rows */
    assert_true(w.whole && w.light == 58);
    rdt_wide_plan(&w, pp, 1024, 32, 4096, 1, 132);
    assert_false(w.across);
    w.skewed = true; /* A is asked for once for two tiles, where that takes no round more */
    rdt_wide_plan(&w, pp, 1024, 32, 4096, 1, 132);
    assert_true(w.across && w.tiles == 128);
    rdt_wide_plan(&w, shared, 1024, 32, 4096, 1, 132); /* each tile its share of what is expected */
    assert_true(w.across && !w.whole && w.tiles == 64);
    rdt_wide_plan(&w, pp, 1024, 33, 4096, 1, 132);
    assert_true(!w.across && w.tiles == 132);
  }
  /* Columns of the product: a strip of 512 for each cluster, where it has a tile less; whoever sums A loads it alone.
   */
  const rdt_cuda_kernel *both = rdt_cuda_kernel_find("gemm_bf16_wgmma_128x128pp_rowcol");
  rdt_wide w = {.skewed = true};
  assert_non_null(both);
  rdt_wide_plan(&w, both, 2048, 16, 2048, 0, 132);
  assert_true(!w.across && !w.share && w.tiles == 128 && w.strips == 4 && w.blocks == 132);
  rdt_wide_plan(&w, both, 1000, 9, 770, 2, 132);
  assert_true(!w.share && w.tiles == 36 && w.strips == 3 && w.blocks == 78);
  assert_false(rdt_cuda_kernel_batches(both) || rdt_cuda_kernel_competes(both));
  rdt_wide_plan(&w, pp, 2048, 16, 2048, 1, 132);
  assert_int_equal(w.strips, 0);
  rdt_tensor t = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){5, 72});
  assert_true(rdt_wide_skewed(&t));
  t.stride[0] = 128;
  assert_false(rdt_wide_skewed(&t));
  t.stride[0] = 1, t.stride[1] = 8;
  assert_true(rdt_wide_skewed(&t));
  t.stride[0] = 72, t.stride[1] = 1, t.shape[0] = 1;
  assert_false(rdt_wide_skewed(&t)); /* one row begins once */
}

/* Of 66 clusters: what a round that is not full would take is divided among them, none less than a tile, but where that
 * saves nothing; of 1408 x 1536 the tiles of clusters come out even side by side. */
static void test_shared_tiles(void **state) {
  (void)state;
  static const struct {
    const char *kernel;
    int m, column_blocks, depth, splits, tiles, dealt, share;
  } cases[] = {{"gemm_bf16_wgmma_128x128pp_none", 1536, 12, 2048, 0, 72, 0, 35},
               {"gemm_bf16_wgmma_128x128pp_none", 1536, 12, 2048, 2, 72, 0, 35},
               {"gemm_bf16_wgmma_128x128pp_row", 1536, 12, 2048, 0, 72, 0, 35},
               {"gemm_bf16_wgmma_128x128pp_none", 1536, 12, 2048, 1, 72, 72, 0},
               {"gemm_bf16_wgmma_128x128pp_none", 1408, 12, 2048, 0, 66, 66, 0},
               {"gemm_bf16_wgmma_128x128pp_none", 2048, 16, 2048, 0, 128, 128, 0},
               {"gemm_bf16_wgmma_128x128pp_none", 2048, 16, 2048, 2, 128, 0, 63},
               {"gemm_bf16_wgmma_128x128pp_none", 1025, 32, 4096, 0, 144, 66, 76},
               {"gemm_bf16_wgmma_128x128pp_none", 512, 8, 2048, 2, 16, 16, 0},
               {"gemm_s8_wgmma_128x128pp_none", 1536, 12, 2048, 2, 72, 72, 0},
               {"gemm_bf16_wgmma_256x128_row", 1536, 12, 2048, 2, 36, 36, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const rdt_cuda_kernel *k = rdt_cuda_kernel_find(cases[i].kernel);
    rdt_wide w = {.columns = true};
    assert_non_null(k);
    rdt_wide_plan(&w, k, cases[i].m, cases[i].column_blocks, cases[i].depth, cases[i].splits, 132);
    assert_int_equal(w.tiles, cases[i].tiles);
    assert_int_equal(w.dealt, cases[i].dealt);
    assert_int_equal(w.share, cases[i].share);
    assert_int_equal(rdt_wide_handed(&w, k) > 0, w.share > 0);
    const int rounds = (cases[i].depth + k->k - 1) / k->k, clusters = w.blocks / RDT_WGMMA_CLUSTER;
    assert_true(!w.share || (w.share >= rounds && w.share < 2 * rounds && w.dealt % clusters == 0));
    assert_true((int64_t)w.share * clusters >= (int64_t)(w.tiles - w.dealt) * rounds);
  }
}

static rdt_status ask_kernel(const char *name, rdt_problem *p, char *text, size_t size) {
  rdt_reason why = {""};
  const rdt_status s = rdt_cuda_gemm_accept(rdt_cuda_kernel_find(name), p, &why);
  snprintf(text, size, "%s", why.text);
  return s;
}

static rdt_status ask(rdt_problem *p, char *text, size_t size) {
  return ask_kernel("gemm_f16_mma_16x32_thread1", p, text, size);
}

/* Types whose results are those of their accumulators. */
/* Weights of what is stored are odd, so that one word that has changed is another sum, and no two are alike in their
 * last bits, so that two words in each other's place are one, too, if they differ below their upper five bits. */
static void test_weights_of_words(void **state) {
  (void)state;
  const struct {
    uint32_t (*of)(int);
    int count;
  } kinds[] = {{rdt_bits_word, 32}, {rdt_bits_part, 4}, {rdt_bits_lane, 32}};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < kinds[k].count; i++) {
      assert_true(kinds[k].of(i) % 2 == 1);
      for (int j = 0; j < i; j++) assert_true((kinds[k].of(i) - kinds[k].of(j)) % 64 != 0);
    }
}

static void test_refusals_of_types(void **state) {
  (void)state;
  static const struct {
    const char *kernel;
    rdt_dtype in, out, other;
    const char *refusal;
  } cases[] = {{"gemm_s8_mma_32x32_thread1", RDT_S8, RDT_S32, RDT_S8, "writes s32, not s8"},
               {"gemm_f64_mma_64x64_row", RDT_F64, RDT_F64, RDT_F32, "writes f64, not f32"},
               {"gemm_f32_fma_32x32_global", RDT_F32, RDT_F32, RDT_F16, "writes f32, not f16"}};
  char text[512];
  rdt_problem p;
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    p.in[0] = rdt_tensor_dense(NULL, cases[i].in, 2, (int64_t[]){3, 5});
    p.in[1] = rdt_tensor_dense(NULL, cases[i].in, 2, (int64_t[]){5, 7});
    p.out = rdt_tensor_dense(NULL, cases[i].out, 2, (int64_t[]){3, 7});
    p.epilogue = RDT_EPILOGUE_NONE;
    assert_int_equal(ask_kernel(cases[i].kernel, &p, text, sizeof text), RDT_OK);
    p.out.dtype = cases[i].other;
    assert_int_equal(ask_kernel(cases[i].kernel, &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, cases[i].refusal));
    p.out.dtype = cases[i].out;
    p.epilogue.bias = rdt_tensor_dense(NULL, RDT_BF16, 1, (int64_t[]){7});
    assert_int_equal(ask_kernel(cases[i].kernel, &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, rdt_dtype_info(cases[i].out)->name));
    p.epilogue = RDT_EPILOGUE_NONE;
    p.epilogue.alpha = 0.5;
    const bool exact = cases[i].in == RDT_S8;
    assert_int_equal(ask_kernel(cases[i].kernel, &p, text, sizeof text), exact ? RDT_ERR_UNSUPPORTED : RDT_OK);
    if (exact) assert_non_null(strstr(text, "alpha and beta are 1"));
  }
  p.epilogue = RDT_EPILOGUE_NONE;
  p.in[0].dtype = p.in[1].dtype = RDT_S8, p.out.dtype = RDT_S32, p.zero[1] = 3;
  assert_int_equal(ask_kernel("gemm_s8_mma_128x128_row", &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(text, "zero points"));
  p.zero[1] = 0;
  rdt_problem_clear(&p);
}

/* What TMA copies: rows that begin at whole 16 bytes, of B columns too. */
static void test_refusals_of_wide(void **state) {
  (void)state;
  static const char name[] = "gemm_f16_wgmma_128x128pp_none";
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){3, 24});
  p.in[1] = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){24, 8});
  p.out = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 8});
  p.epilogue = RDT_EPILOGUE_NONE;
  assert_int_equal(ask_kernel(name, &p, text, sizeof text), RDT_OK);
  p.in[1].stride[0] = 1, p.in[1].stride[1] = 32;
  assert_int_equal(ask_kernel(name, &p, text, sizeof text), RDT_OK);
  rdt_wide_sides s;
#define UNALIGNED(bits)                                                     \
  do {                                                                      \
    assert_int_equal(ask_kernel(name, &p, text, sizeof text), RDT_OK);      \
    assert_true(rdt_wide_sides_of(&p, &s));                                 \
    assert_int_equal(rdt_wide_unaligned(&s), bits); /* go through copies */ \
  } while (0)
  UNALIGNED(0);
  p.in[1].stride[1] = 28;
  UNALIGNED(RDT_WIDE_B);
  p.in[1].stride[0] = 2, p.in[1].stride[1] = 64;
  assert_int_equal(ask_kernel(name, &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(text, "side by side"));
  p.in[1].stride[0] = 8, p.in[1].stride[1] = 1, p.out.stride[0] = 10;
  UNALIGNED(RDT_WIDE_C);
  p.out.stride[0] = 8, p.in[0].data = (void *)8;
  UNALIGNED(RDT_WIDE_A);
  p.in[0].data = NULL, p.in[0].shape[0] = p.out.shape[0] = 1, p.in[0].stride[0] = 25; /* of one row none is asked */
  UNALIGNED(0);
#undef UNALIGNED
  static const struct {
    const char *name;
    rdt_dtype in, out, no;
  } deep[] = {{"gemm_s8_wgmma_128x128pp_row", RDT_S8, RDT_S32, RDT_F32},
              {"gemm_u8_wgmma_128x128pp_row", RDT_U8, RDT_S32, RDT_F16},
              {"gemm_tf32_wgmma_128x128pp_none", RDT_F32, RDT_F32, RDT_F16},
              {"gemm_f8e4m3_wgmma_128x128_row", RDT_F8E4M3, RDT_F16, RDT_F8E4M3},
              {"gemm_f8e5m2_wgmma_128x128_row", RDT_F8E5M2, RDT_BF16, RDT_F64}};
  for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) { /* k side by side alone */
    p.in[0] = rdt_tensor_dense(NULL, deep[i].in, 2, (int64_t[]){3, 48});
    p.in[1] = rdt_tensor_dense(NULL, deep[i].in == RDT_U8 ? RDT_S8 : deep[i].in, 2, (int64_t[]){48, 16});
    p.out = rdt_tensor_dense(NULL, deep[i].out, 2, (int64_t[]){3, 16});
    assert_int_equal(ask_kernel(deep[i].name, &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, "weights n x k"));
    p.in[1].stride[0] = 1, p.in[1].stride[1] = 48;
    assert_int_equal(ask_kernel(deep[i].name, &p, text, sizeof text), RDT_OK);
    p.out.dtype = deep[i].no;
    assert_int_equal(ask_kernel(deep[i].name, &p, text, sizeof text), RDT_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, "writes"));
    p.out.dtype = deep[i].out, p.in[1].stride[1] = 50;
    assert_true(rdt_wide_sides_of(&p, &s));
    assert_int_equal(rdt_wide_unaligned(&s), RDT_WIDE_B);
  }
  rdt_problem_clear(&p);
}

/* A with its columns side by side, batches, gelu. */
static void test_forms_of_wide(void **state) {
  (void)state;
  static const char name[] = "gemm_bf16_wgmma_128x128pp_row", scalar[] = "gemm_bf16_wgmma_128x128pp_global";
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){24, 16}),
                   b = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){16, 8}),
                   c = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){24, 8});
  rdt_tensor wide_b = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){16, 264}),
             wide_c = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){24, 264});
  wide_b.shape[1] = wide_c.shape[1] = 256;
#define TAKES(kernel) assert_int_equal(ask_kernel(kernel, &p, text, sizeof text), RDT_OK)
#define SAYS(kernel, words)                                                           \
  do {                                                                                \
    assert_int_equal(ask_kernel(kernel, &p, text, sizeof text), RDT_ERR_UNSUPPORTED); \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words);        \
  } while (0)
  p.in[0] = a, p.in[1] = b, p.out = c, p.epilogue = RDT_EPILOGUE_NONE;
  p.in[0].stride[0] = 1, p.in[0].stride[1] = 24;
  TAKES(name), TAKES(scalar), TAKES("gemm_bf16_wgmma_128x128pp_none"), TAKES("gemm_bf16_wgmma_128x128pp_tile");
  SAYS("gemm_bf16_wgmma_64x256pp_tile", "transpose it, or take the same type's 128x128pp");
  SAYS("gemm_bf16_wgmma_128x128pp_rowcol", "transpose it, or take row");
  p.in[0] = a, p.in[1] = wide_b, p.out = wide_c;
  TAKES("gemm_bf16_wgmma_64x256pp_row");
  p.in[1].shape[1] = p.out.shape[1] = 257;
  TAKES("gemm_bf16_wgmma_64x256pp_tile");
  SAYS("gemm_bf16_wgmma_64x256pp_row", "takes up to 256 columns, not 257");
  p.in[0] = a, p.in[1] = b, p.out = c;
  p.in[0].stride[0] = 1, p.in[0].stride[1] = 24;
  p.in[0].stride[1] = 28;
  TAKES(name); /* goes through a copy */
  p.in[0].stride[0] = 2, p.in[0].stride[1] = 64;
  SAYS(name, "takes A with rows or columns");
  const rdt_tensor a8 = rdt_tensor_dense(NULL, RDT_S8, 2, (int64_t[]){32, 32}),
                   c8 = rdt_tensor_dense(NULL, RDT_S32, 2, (int64_t[]){32, 32});
  p.in[0] = p.in[1] = a8, p.out = c8;
  p.in[0].stride[0] = p.in[1].stride[0] = 1, p.in[0].stride[1] = p.in[1].stride[1] = 32;
  SAYS("gemm_s8_wgmma_128x128pp_row", "which tensor cores want of this type; transpose it");
  p.in[0] = rdt_tensor_dense(NULL, RDT_BF16, 4, (int64_t[]){2, 3, 24, 16});
  p.in[1] = rdt_tensor_dense(NULL, RDT_BF16, 4, (int64_t[]){2, 3, 16, 8});
  p.out = rdt_tensor_dense(NULL, RDT_BF16, 4, (int64_t[]){2, 3, 24, 8});
  TAKES(name), TAKES("gemm_bf16_wgmma_128x128pp_tile");
  SAYS(scalar, "batches take row");
  SAYS("gemm_bf16_wgmma_128x128pp_col", "batches take row");
  p.in[1].stride[0] = p.in[1].stride[1] = 0; /* one B */
  TAKES(name);
  p.in[1].stride[1] = 128;
  SAYS(name, "evenly apart");
  p.in[1].stride[1] = 0, p.out.stride[1] = 0;
  SAYS(name, "evenly apart");
  p.out.stride[1] = 196, p.out.stride[0] = 3 * 196;
  rdt_wide_sides s;
  assert_true(rdt_wide_sides_of(&p, &s));
  assert_int_equal(s.batches, 6);
  assert_int_equal(rdt_wide_unaligned(&s), RDT_WIDE_C);
  TAKES(name);
  p.out.stride[1] = 200, p.out.stride[0] = 600;
  TAKES(name);
  p.in[0].stride[0] *= 2;
  SAYS(name, "evenly apart");
  p.in[0] = a, p.in[1] = b, p.out = c;
  TAKES("gemm_bf16_wgmma_128x128pp_rowcol");
  p.epilogue.act.fn = RDT_FN_GELU;
  TAKES(name);
  TAKES("gemm_bf16_wgmma_128x128pp_rowcol");
  p.out.dtype = RDT_F32;
  SAYS(name, "gelu where results have 16 bits");
  p.in[0] = p.in[1] = a8, p.out = c8, p.in[1].stride[0] = 1, p.in[1].stride[1] = 32;
  p.out.dtype = RDT_S8, p.epilogue.act.fn = RDT_FN_NONE;
  SAYS("gemm_s8_wgmma_128x128pp_row", "with factors");
  p.epilogue.factor = rdt_tensor_dense(NULL, RDT_F32, 1, (int64_t[]){32});
  TAKES("gemm_s8_wgmma_128x128pp_row"), TAKES("gemm_s8_wgmma_128x128pp_none");
  SAYS("gemm_s8_mma_32x32_row", "writes s32, not s8");
  p.out.dtype = RDT_S32;
  SAYS("gemm_s8_wgmma_128x128pp_row", "does not requantise");
  p.in[0] = a, p.in[1] = b, p.out = c, p.epilogue = RDT_EPILOGUE_NONE, p.epilogue.act.fn = RDT_FN_GELU_TANH;
  SAYS(name, "no activation but relu, and gelu");
#undef TAKES
#undef SAYS
  rdt_problem_clear(&p);
}

/* Many rows of few columns: B lies as it likes, and fits into shared memory. */
static void test_refusals_of_tall(void **state) {
  (void)state;
  static const char name[] = "gemm_bf16_wgmma_tall64_row";
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
#define FRESH(m, n, k)                                              \
  p.in[0] = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){m, k}), \
  p.in[1] = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){k, n}), \
  p.out = rdt_tensor_dense(NULL, RDT_BF16, 2, (int64_t[]){m, n}), p.acc = RDT_F32
#define ASK(status, words)                                                     \
  do {                                                                         \
    assert_int_equal(ask_kernel(name, &p, text, sizeof text), status);         \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words); \
  } while (0)
  FRESH(100000, 64, 576);
  ASK(RDT_OK, "");
  p.in[1].stride[0] = 1, p.in[1].stride[1] = 577; /* at no multiple of 16 bytes */
  ASK(RDT_OK, "");
  FRESH(100000, 64, 576), p.in[0].stride[0] = 580;
  ASK(RDT_ERR_UNSUPPORTED, "bytes apart");
  FRESH(100000, 64, 576), p.out.stride[0] = 65;
  ASK(RDT_ERR_UNSUPPORTED, "bytes apart");
  FRESH(100000, 72, 576);
  ASK(RDT_ERR_UNSUPPORTED, "up to 64 columns, not 72");
  FRESH(100000, 64, 4096);
  ASK(RDT_ERR_UNSUPPORTED, "in shared memory: it takes up to");
  rdt_problem_clear(&p);
#undef FRESH
#undef ASK
  static const char *const types[] = {"f16", "bf16"}, *const tiles[] = {"tall32", "tall64", "tall128"};
  for (int i = 0; i < 12; i++) {
    snprintf(text, sizeof text, "gemm_%s_wgmma_%s_%s", types[i % 2], tiles[i / 2 % 3], i < 6 ? "none" : "row");
    const rdt_cuda_kernel *k = rdt_cuda_kernel_find(text);
    assert_true(k && k->family == RDT_CUDA_TALL && k->least == 9);
  }
}

static void test_refusals(void **state) {
  (void)state;
  rdt_problem p;
  char text[512];
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){3, 5}),
                   b = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){5, 7});
  const rdt_tensor c = rdt_tensor_dense(NULL, RDT_F32, 2, (int64_t[]){3, 7});
#define FRESH p.in[0] = a, p.in[1] = b, p.out = c, p.acc = RDT_F32, p.epilogue = RDT_EPILOGUE_NONE
#define REFUSED(words)                                                         \
  do {                                                                         \
    assert_int_equal(ask(&p, text, sizeof text), RDT_ERR_UNSUPPORTED);         \
    if (!strstr(text, words)) fail_msg("'%s' does not say '%s'", text, words); \
    FRESH;                                                                     \
  } while (0)
  FRESH;
  assert_int_equal(ask(&p, text, sizeof text), RDT_OK);
  p.in[1].dtype = RDT_BF16;
  REFUSED("f16 by f16, not f16 by bf16");
  p.out.dtype = RDT_F64;
  REFUSED("writes f16 or f32");
  p.in[0] = rdt_tensor_dense(NULL, RDT_F16, 3, (int64_t[]){2, 3, 5});
  REFUSED("no batches");
  p.in[1].stride[0] = 1, p.in[1].stride[1] = 5;
  REFUSED("side by side");
  p.in[0].shape[1] = 0;
  REFUSED("zero-size");
  p.epilogue.act.fn = RDT_FN_RELU;
  assert_int_equal(ask(&p, text, sizeof text), RDT_OK);
  p.epilogue.act.fn = RDT_FN_COSH;
  REFUSED("no activation but relu");
  p.epilogue.bias = rdt_tensor_dense(NULL, RDT_F64, 1, (int64_t[]){7});
  REFUSED("bias");
  p.epilogue.residual = rdt_tensor_dense(NULL, RDT_F16, 2, (int64_t[]){3, 7});
  REFUSED("residual");
  p.op = RDT_KOP_CONV;
  REFUSED("multiplies matrices");
  rdt_problem_clear(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),
                                     cmocka_unit_test(test_chosen),
                                     cmocka_unit_test(test_sums_of_columns),
                                     cmocka_unit_test(test_shared_tiles),
                                     cmocka_unit_test(test_weights_of_words),
                                     cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_refusals_of_types),
                                     cmocka_unit_test(test_refusals_of_wide),
                                     cmocka_unit_test(test_forms_of_wide),
                                     cmocka_unit_test(test_refusals_of_tall)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void no_kernels(void **state) {
  int n;
  (void)state;
  rdt_cuda_kernels(&n);
  assert_int_equal(n, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
