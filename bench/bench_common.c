#include "bench_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "schemes/scheme.h"

bool rdt_bench_parse_list(const char *text, long long list[RDT_BENCH_LIST], int *count) {
  for (*count = 0; *count < RDT_BENCH_LIST;) {
    char *end;
    const long long v = strtoll(text, &end, 10);
    if (end == text || v < 1 || v > 1024) return false;
    list[(*count)++] = v;
    if (*end == '\0') return true;
    if (*end != ',') return false;
    text = end + 1;
  }
  return false;
}

bool rdt_bench_parse_scheme(const char *text, rdt_kop op) {
  int sets;
  const rdt_scheme_info *s = rdt_scheme_parse(text, &sets);
  return strcmp(text, "auto") == 0 || strcmp(text, "plan") == 0 || strcmp(text, "all") == 0 ||
         (s && rdt_scheme_serves(s, op));
}

static uint64_t step(uint64_t *seed) {
  return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

double rdt_bench_draw(uint64_t *seed) {
  return (double)(int64_t)(step(seed) >> 33) / (double)(1 << 30) - 1.0;
}

double rdt_bench_uniform(uint64_t *seed) {
  return ((double)(step(seed) >> 40) + 0.5) * 0x1p-24;
}

double rdt_bench_normal(uint64_t *seed) {
  const double radius = sqrt(-2.0 * log(rdt_bench_uniform(seed)));
  return radius * cos(6.283185307179586 * rdt_bench_uniform(seed));
}

static bool fill(rdt_tensor *t, double scale, double shift, uint64_t *seed) {
  const int64_t n = rdt_tensor_count(t);
  t->data = n < 0 ? NULL : rdt_alloc((size_t)n, rdt_dtype_size(t->dtype));
  for (int64_t i = 0; t->data && i < n; i++) rdt_store(t->data, t->dtype, i, scale * rdt_bench_draw(seed) + shift);
  return t->data != NULL;
}

bool rdt_bench_random(rdt_tensor *t, uint64_t *seed) {
  const bool byte = t->dtype == RDT_U8;
  return fill(t, t->dtype == RDT_S8 || byte ? 127.0 : 1.0, byte ? 128.0 : 0.0, seed);
}

bool rdt_bench_random_weights(rdt_tensor *t, uint64_t *seed) {
  return fill(t, t->dtype == RDT_S8 ? 63.0 : 1.0, 0.0, seed);
}

bool rdt_bench_product(rdt_problem *p, rdt_tensor in[2], const rdt_bench_shape *s) {
  uint64_t seed = 1;
  *p = (rdt_problem){.op = RDT_KOP_GEMM, .n_in = 2, .in = in, .acc = RDT_F32, .epilogue = RDT_EPILOGUE_NONE};
  in[0] = rdt_tensor_matrix(NULL, RDT_F32, s->m, s->k, s->k, 0);
  in[1] = rdt_tensor_matrix(NULL, RDT_F32, s->k, s->n, s->n, 0);
  p->out = rdt_tensor_matrix(NULL, RDT_F32, s->m, s->n, s->n, 0);
  return rdt_bench_random(&in[0], &seed) && rdt_bench_random(&in[1], &seed) && rdt_bench_random(&p->out, &seed);
}
