#include "plan/known.h"

#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/threads.h"
#include "plan/plan.h"

static const char *const names[] = {
#define X(id, name, text) name,
    RDT_KNOWN_PATTERNS(X)
#undef X
};

/* Odd enough that whole tiles and what is left beside them both occur. */
static const int64_t lengths[RDT_KNOWN_SIZE_COUNT][3] = {{44, 88, 256}, {172, 184, 1024}};

static const struct {
  rdt_dtype dtype;
  rdt_known_pattern pattern;
  rdt_known_size size;
  uint64_t seal;
} seals[] = {
#define X(dtype, pattern, size, seal) {RDT_##dtype, RDT_KNOWN_##pattern, RDT_KNOWN_##size, seal},
#include "plan/known.def"
#undef X
};

const char *rdt_known_pattern_name(rdt_known_pattern p) {
  return (unsigned)p < RDT_KNOWN_PATTERN_COUNT ? names[p] : "unknown";
}

/* ---- data ---- */

static uint64_t random_of(uint64_t stream, int64_t i, int64_t j) {
  const rdt_fault f = {.seed = stream};
  return rdt_fault_random(&f, (uint64_t)i << 32 ^ (uint64_t)j);
}

enum { BYTE = 127, F64_WHOLE = 1 << 20 };

/* Whole numbers whose sums of 1024 products the accumulator holds. */
static double whole(rdt_dtype t, uint64_t r) {
  if (t == RDT_U8) return (double)(r % 256);
  const int64_t most = t == RDT_F64 ? F64_WHOLE : BYTE;
  return (double)((int64_t)(r % (2 * (uint64_t)most + 1)) - most);
}

/* All bits of the datatype: in floating point a random number between 1 and 2, of either sign, rounded to it. */
static double full(rdt_dtype t, uint64_t r) {
  if (t == RDT_S8) return (double)((int64_t)(r % 256) - 128);
  if (t == RDT_U8) return (double)(r % 256);
  const double x = 1.0 + (double)(r >> 12) * 0x1p-52;
  return (r & 1) ? x : -x;
}

static double alternating(rdt_dtype t, int64_t i, int64_t j) {
  static const double signed_ones[] = {85.0, -86.0, 127.0, -127.0}, unsigned_ones[] = {85.0, 170.0, 255.0, 0.0};
  return (t == RDT_U8 ? unsigned_ones : signed_ones)[(i + j) % 2 + (i / 4 % 2) * 2];
}

static double walking(rdt_dtype t, int64_t i, int64_t j) {
  const double x = (double)(1 << (i + j) % 7);
  return t == RDT_U8 || (i + 2 * j) % 3 ? x : -x;
}

/* Element (i, t) of A, or (t, j) of B: which counts the rows of A, and the columns of B. */
static double element(const rdt_known *k, bool of_a, int64_t which, int64_t t) {
  const rdt_dtype dtype = of_a ? k->a.dtype : k->b.dtype;
  const uint64_t r = random_of(of_a ? 1 : 2, which, t);
  switch (k->pattern) {
    case RDT_KNOWN_INTEGERS:
      return whole(dtype, r) * (of_a && rdt_dtype_is_float(dtype) ? (double)(1 << which % 5) * 0.25 : 1.0);
    case RDT_KNOWN_PRODUCTS:
      if (!of_a) return full(dtype, r | 1 << 4);
      return t == (int64_t)(random_of(3, which, 0) % (uint64_t)k->a.shape[1]) ? full(dtype, r | 1 << 4) : 0.0;
    case RDT_KNOWN_CHECKER:
      return alternating(dtype, which, t);
    default:
      return walking(dtype, which, t);
  }
}

static void fill(rdt_known *k) {
  const int64_t m = k->a.shape[0], depth = k->a.shape[1], n = k->b.shape[1];
  for (int64_t i = 0; i < m; i++)
    for (int64_t t = 0; t < depth; t++) rdt_store(k->a.data, k->a.dtype, i * depth + t, element(k, true, i, t));
  for (int64_t t = 0; t < depth; t++)
    for (int64_t j = 0; j < n; j++) rdt_store(k->b.data, k->b.dtype, t * n + j, element(k, false, j, t));
}

/* In double precision no sum of these rounds, and the one product is rounded once to what is stored. */
static rdt_status multiply(const rdt_known *k, rdt_reason *why) {
  const int64_t m = k->a.shape[0], depth = k->a.shape[1], n = k->b.shape[1];
  double *sums = rdt_alloc((size_t)n, sizeof *sums), *b = rdt_alloc((size_t)(depth * n), sizeof *b);
  if (sums && b) {
    for (int64_t e = 0; e < depth * n; e++) b[e] = rdt_load(k->b.data, k->b.dtype, e);
    for (int64_t i = 0; i < m; i++) {
      memset(sums, 0, (size_t)n * sizeof *sums);
      for (int64_t t = 0; t < depth; t++) {
        const double a = rdt_load(k->a.data, k->a.dtype, i * depth + t), *row = b + t * n;
        for (int64_t j = 0; a != 0.0 && j < n; j++) sums[j] += a * row[j];
      }
      for (int64_t j = 0; j < n; j++) rdt_store(k->c.data, k->c.dtype, i * n + j, sums[j]);
    }
  }
  const bool done = sums && b;
  rdt_free(sums);
  rdt_free(b);
  return done ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

uint64_t rdt_known_seal(const rdt_known *k) {
  const rdt_tensor *const all[] = {&k->a, &k->b, &k->c};
  uint64_t seal = 0;
  for (int i = 0; i < 3; i++) seal = 3 * seal + rdt_bitsum(all[i]->data, rdt_tensor_bytes(all[i]));
  return seal;
}

static rdt_status confirm(const rdt_known *k, rdt_reason *why) {
  for (size_t i = 0; i < sizeof seals / sizeof *seals; i++) {
    if (seals[i].dtype != k->dtype || seals[i].pattern != k->pattern || seals[i].size != k->size) continue;
    if (rdt_known_seal(k) == seals[i].seal) return RDT_OK;
    return rdt_fail(why, RDT_ERR_FAULT, "core %d cannot form the known product of %s, %s", rdt_cpu_current(),
                    rdt_dtype_name(k->dtype), names[k->pattern]);
  }
  return rdt_fail(why, RDT_ERR_DTYPE, "there are no known products of %s", rdt_dtype_name(k->dtype));
}

static rdt_tensor make(rdt_dtype t, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  rdt_tensor x = rdt_tensor_dense(NULL, t, 2, shape);
  x.data = rdt_calloc((size_t)(rows * columns), rdt_dtype_size(t));
  return x;
}

rdt_status rdt_known_form(rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k, rdt_reason *why) {
  const int64_t *mnk = lengths[size];
  *k = (rdt_known){.dtype = t, .pattern = pattern, .size = size};
  k->a = make(t, mnk[0], mnk[2]);
  k->b = make(t == RDT_U8 ? RDT_S8 : t, mnk[2], mnk[1]);
  k->c = make(rdt_dtype_accumulator(t), mnk[0], mnk[1]);
  rdt_status status = RDT_OK;
  if (!k->a.data || !k->b.data || !k->c.data) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) {
    fill(k);
    status = multiply(k, why);
  }
  if (status != RDT_OK) rdt_known_clear(k);
  return status;
}

rdt_status rdt_known_create(rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k,
                            rdt_reason *why) {
  RDT_TRY(rdt_known_form(t, pattern, size, k, why));
  const rdt_status status = confirm(k, why);
  if (status != RDT_OK) rdt_known_clear(k);
  return status;
}

void rdt_known_clear(rdt_known *k) {
  rdt_free(k->a.data);
  rdt_free(k->b.data);
  rdt_free(k->c.data);
  *k = (rdt_known){.dtype = k->dtype};
}

/* ---- a kernel ---- */

rdt_status rdt_trial_product_create(const rdt_kernel *kernel, const rdt_known *known, rdt_trial_product *t,
                                    rdt_reason *why) {
  *t = (rdt_trial_product){.known = known, .kernel = kernel, .out = known->c};
  t->out.data = NULL;
  RDT_TRY(rdt_problem_init(&t->problem, RDT_KOP_GEMM, 2));
  t->problem.acc = known->c.dtype;
  t->problem.in[0] = known->a;
  t->problem.in[0].data = NULL;
  t->problem.in[1] = known->b;
  t->problem.out = known->c;
  t->problem.out.data = NULL;
  RDT_TRY(kernel->accept(&t->problem, why));
  t->out.data = rdt_calloc(rdt_tensor_bytes(&known->c), 1);
  if (!t->out.data) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  return kernel->create(&t->problem, 1, &t->state, why);
}

rdt_status rdt_trial_product_run(rdt_trial_product *t, rdt_reason *why) {
  const rdt_tensor in[2] = {t->known->a, t->known->b};
  return t->kernel->run(t->state, &(rdt_operands){.in = in, .n_in = 2, .out = t->out}, why);
}

int64_t rdt_trial_product_wrong(const rdt_trial_product *t, int64_t *first) {
  return rdt_tensors_differ(&t->out, &t->known->c, 1, first, NULL);
}

/* Vectors go along the columns of a result; plain C has none. */
static int64_t lanes_of(rdt_isa isa, rdt_dtype t) {
  enum { BYTES = 32 };
  return isa == RDT_ISA_GENERIC ? 0 : (isa == RDT_ISA_AVX512 ? 2 : 1) * BYTES / (int64_t)rdt_dtype_size(t);
}

void rdt_trial_product_strike(rdt_trial_product *t, const rdt_fault *f, rdt_isa isa, int64_t number) {
  const rdt_tensor *out = &t->out;
  const uint64_t r = rdt_fault_random(f, 2 * (uint64_t)number), at = rdt_fault_random(f, 2 * (uint64_t)number + 1);
  const int64_t n = rdt_tensor_count(out), lanes = lanes_of(isa, out->dtype), columns = out->shape[1];
  double before, after;
  if ((double)(r >> 11) * 0x1p-53 >= f->rate) return;
  if (f->lane < 0) rdt_fault_apply(f, out->data, out->dtype, (int64_t)(at % (uint64_t)n), &before, &after);
  for (int64_t e = 0; f->lane >= 0 && lanes > 0 && e < n; e++)
    if (e % columns % lanes == f->lane % lanes) rdt_fault_apply(f, out->data, out->dtype, e, &before, &after);
}

void rdt_trial_product_clear(rdt_trial_product *t) {
  if (t->state) t->kernel->destroy(t->state);
  rdt_problem_clear(&t->problem);
  rdt_free(t->out.data);
  *t = (rdt_trial_product){.known = NULL};
}

/* ---- a core ---- */

static rdt_status passes_with(const rdt_kernel *kernel, const rdt_known *k, const rdt_fault *broken, int64_t *turns,
                              bool *passes, rdt_reason *why) {
  enum { TIMES = 8 };
  rdt_trial_product t;
  int64_t first;
  rdt_status status = rdt_trial_product_create(kernel, k, &t, why);
  for (int i = 0; i < TIMES && status == RDT_OK && *passes; i++) {
    status = rdt_trial_product_run(&t, why);
    if (broken) rdt_trial_product_strike(&t, broken, rdt_isa_detect(), (*turns)++);
    *passes = status == RDT_OK && rdt_trial_product_wrong(&t, &first) == 0;
  }
  rdt_trial_product_clear(&t);
  return status == RDT_ERR_UNSUPPORTED ? RDT_OK : status;
}

static rdt_status test_here(rdt_dtype t, const rdt_fault *broken, int64_t *turns, bool *passes, rdt_reason *why) {
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int p = 0; p < RDT_KNOWN_PATTERN_COUNT && *passes; p++) {
    rdt_known k;
    rdt_status status = rdt_known_create(t, (rdt_known_pattern)p, RDT_KNOWN_SMALL, &k, why);
    *passes = status != RDT_ERR_FAULT;
    for (int i = 0; i < n && status == RDT_OK && *passes; i++)
      if (rows[i]->op == RDT_KOP_GEMM && rows[i]->isa <= rdt_isa_detect())
        status = passes_with(rows[i], &k, broken, turns, passes, why);
    if (status == RDT_ERR_FAULT) return RDT_OK;
    rdt_known_clear(&k);
    RDT_TRY(status);
  }
  return RDT_OK;
}

static bool is_known(rdt_dtype t) {
  for (size_t i = 0; i < sizeof seals / sizeof *seals; i++)
    if (seals[i].dtype == t) return true;
  return false;
}

rdt_status rdt_known_test_core(int core, rdt_dtype t, const rdt_fault *broken, int64_t *turns, bool *passes,
                               rdt_reason *why) {
  rdt_places places;
  *passes = true;
  if (!rdt_threads_pin(1, &core, 1, &places))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "the system does not let a thread stay on core %d", core);
  const rdt_status status =
      test_here(is_known(t) ? t : RDT_F32, broken && broken->core == core ? broken : NULL, turns, passes, why);
  rdt_threads_restore(&places);
  return status;
}
