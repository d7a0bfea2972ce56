/* The injecting instantiations: one accumulator is hit, at the share of the reduction that was asked for, and nothing
 * else changes; the shipped instantiation does not know of injection. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/tolerance.h"
#include "cpu/kernel.h"
#include "util_native.h"
#include "util_problem.h"

static int64_t offset_of(const rdt_tensor *t, int64_t element) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    offset += element % t->shape[d] * t->stride[d];
    element /= t->shape[d];
  }
  return offset;
}

static void run(const rdt_kernel *k, const rdt_problem *p, rdt_kernel_hit *hit) {
  const rdt_operands o = {.in = p->in, .n_in = p->n_in, .out = p->out};
  rdt_reason why = {""};
  void *state;
  if (k->create(p, 2, &state, &why) != RDT_OK) fail_msg("%s: %s", k->name, why.text);
  const rdt_status s = hit ? k->run_inject(state, &o, hit, &why) : k->run(state, &o, &why);
  if (s != RDT_OK) fail_msg("%s: %s", k->name, why.text);
  k->destroy(state);
}

/* How many elements of the two buffers differ in their bits; *where: the last of them. */
static int64_t differing(const util_case *c, const unsigned char *clean, int64_t *where) {
  const size_t size = rdt_dtype_size(c->p.out.dtype);
  rdt_iter it = rdt_iter_begin(&c->p.out);
  int64_t count = 0;
  for (int64_t i = 0; rdt_iter_next(&it); i++) {
    const unsigned char *now = (unsigned char *)c->p.out.data + it.offset * (int64_t)size;
    if (memcmp(now, clean + (now - (unsigned char *)c->out_base), size) != 0) {
      count++;
      *where = i;
    }
  }
  return count;
}

static void check_hit(const rdt_kernel *k, util_case *c, const unsigned char *clean, rdt_kernel_hit hit) {
  int64_t where = -1;
  const rdt_kernel_hit asked = hit;
  util_case_poison(c);
  run(k, &c->p, &hit);
  assert_true(hit.done);
  const int64_t count = differing(c, clean, &where);
  if (asked.mask == 0) {
    assert_int_equal(count, 0); /* cutting the reduction in two changes no bit */
    return;
  }
  if (hit.after != hit.before) assert_true(count <= 1);
  if (count == 1) assert_int_equal(where, asked.element);
  if (asked.position >= 1 && c->p.out.dtype == c->p.acc) { /* the finished accumulator: exactly this change */
    assert_int_equal(count, 1);
    const double before =
        rdt_load(clean + ((char *)c->p.out.data - (char *)c->out_base), c->p.acc, offset_of(&c->p.out, asked.element));
    assert_true(hit.before == before);
    const double after = rdt_load(c->p.out.data, c->p.acc, offset_of(&c->p.out, asked.element));
    assert_true(hit.after == after || (isnan(after) && isnan(hit.after)));
  }
  if (asked.position <= 0) assert_true(hit.before == 0);
}

static void test_hits(void **state) {
  static const rdt_dtype types[][3] = {{RDT_F64, RDT_F64, RDT_F64},
                                       {RDT_F32, RDT_F32, RDT_F32},
                                       {RDT_BF16, RDT_BF16, RDT_F32},
                                       {RDT_F16, RDT_F16, RDT_F16},
                                       {RDT_U8, RDT_S8, RDT_S32}};
  static const double positions[] = {0, 0.3, 0.5, 0.99, 1};
  int n, hits[128] = {0};
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)state;
  for (int i = 0; i < n; i++) {
    for (int t = 0; rows[i]->run_inject && t < 5; t++) {
      for (uint64_t seed = 1; seed <= 12 || (hits[i] < 3 && seed < 300); seed++) { /* some rows take few problems */
        util_random r = {seed * 77};
        util_case c;
        util_case_make(&c, &r, rows[i]->op, types[t][0], types[t][1], types[t][2], seed % 2);
        rdt_reason why;
        const bool taken = (rows[i]->accept_fused ? rows[i]->accept_fused : rows[i]->accept)(&c.p, &why) == RDT_OK;
        const int64_t count = taken ? rdt_tensor_count(&c.p.out) : 0;
        hits[i] += count > 0;
        unsigned char *clean = malloc(c.out_bytes + 1);
        if (taken) run(rows[i], &c.p, NULL);
        memcpy(clean, c.out_base, c.out_bytes);
        for (int j = 0; count > 0 && j < 6; j++) {
          const int bits = (int)(8 * rdt_dtype_size(c.p.acc));
          rdt_kernel_hit hit = {.element = (int64_t)(util_next(&r) % (uint64_t)count), .position = positions[j % 5]};
          if (j < 5) hit.mask = 1ull << util_next(&r) % (uint64_t)bits;
          check_hit(rows[i], &c, clean, hit);
        }
        free(clean);
        util_case_free(&c);
      }
    }
    if (rows[i]->run_inject && util_native_can(rows[i])) assert_true(hits[i] > 0);
  }
}

/* Part way: the accumulator then holds the sum over the first share of k. */
static void test_position(void **state) {
  float a[8], b[8], c = 0;
  rdt_tensor in[2] = {rdt_tensor_matrix(a, RDT_F32, 1, 8, 8, 0), rdt_tensor_matrix(b, RDT_F32, 8, 1, 1, 0)};
  const rdt_problem p = {.op = RDT_KOP_GEMM,
                         .n_in = 2,
                         .in = in,
                         .out = rdt_tensor_matrix(&c, RDT_F32, 1, 1, 1, 0),
                         .acc = RDT_F32,
                         .epilogue = RDT_EPILOGUE_NONE};
  (void)state;
  for (int i = 0; i < 8; i++) {
    a[i] = (float)(1 << i);
    b[i] = 1;
  }
  for (int i = 0; i <= 8; i++) {
    rdt_kernel_hit hit = {.element = 0, .position = i / 8.0, .mask = 0x80000000u};
    run(rdt_cpu_reference(&p), &p, &hit);
    assert_true(hit.before == (double)((1 << i) - 1));
    assert_true(hit.after == -hit.before);
    assert_true(c == (float)(255 - 2 * ((1 << i) - 1)));
  }
}

/* nm over the archive: the shipped object of the product refers to nothing of the injector, the other one does. */
static void test_shipped_object(void **state) {
  FILE *nm = popen("nm '" TEST_BUILD "/libredoubt.a' 2>/dev/null", "r");
  char line[512], object[512] = "";
  int shipped_symbols = 0, shipped_hits = 0, injecting = 0, injecting_hits = 0;
  (void)state;
  assert_non_null(nm);
  while (fgets(line, sizeof line, nm)) {
    if (strstr(line, ".o:")) strcpy(object, line);
    const bool hit = strstr(line, "inject") || strstr(line, "hit");
    if ((strncmp(object, "product.c.o", 11) == 0 || strncmp(object, "native.c.o", 10) == 0 ||
         strncmp(object, "depthwise.c.o", 13) == 0) &&
        !strstr(line, ".o:")) {
      shipped_symbols++;
      shipped_hits += hit;
    }
    if (strncmp(object, "product_inject.c.o", 18) == 0 || strncmp(object, "native_inject.c.o", 17) == 0 ||
        strncmp(object, "depthwise_inject.c.o", 20) == 0) {
      injecting += strstr(line, ".o:") != NULL;
      injecting_hits += strstr(line, "rdt_kernel_hit_apply") != NULL;
    }
  }
  assert_int_equal(pclose(nm), 0);
  assert_true(shipped_symbols > 3);
  assert_int_equal(shipped_hits, 0);
  assert_true(injecting > 1);
  assert_int_equal(injecting_hits, injecting);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hits), cmocka_unit_test(test_position),
                                     cmocka_unit_test(test_shipped_object)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
