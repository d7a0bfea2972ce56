/* Which instruction set is taken, by what the CPU has and REDOUBT_ISA says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/cpu_info.h"

/* A test that ctest runs for an ISA would prove nothing if it ran on another. */
static void what_was_asked_for_runs(void **state) {
  const char *wanted = getenv("REDOUBT_ISA");
  (void)state;
  if (!wanted) skip();
  assert_int_equal(rdt_isa_wanted(NULL), RDT_OK);
  assert_string_equal(rdt_isa_name(rdt_isa_detect()), wanted);
}

static void it_is_lowered_never_raised(void **state) {
  const rdt_isa best = rdt_isa_hardware();
  (void)state;
  for (rdt_isa isa = RDT_ISA_GENERIC; isa < RDT_ISA_COUNT; isa++) {
    rdt_reason why = {""};
    rdt_context *ctx;
    setenv("REDOUBT_ISA", rdt_isa_name(isa), 1);
    assert_int_equal(rdt_isa_wanted(&why), isa <= best ? RDT_OK : RDT_ERR_UNSUPPORTED);
    if (isa > best) assert_non_null(strstr(why.text, rdt_isa_name(best)));
    assert_int_equal(rdt_isa_detect(), isa < best ? isa : best);
    assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
    assert_string_equal(rdt_context_isa(ctx), rdt_isa_name(rdt_isa_detect()));
    rdt_context_destroy(ctx);
  }
}

static void other_words_are_told(void **state) {
  static const char *const wrong[] = {"", "magic", "AVX2", "avx", "avx5", "avx512 "};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    rdt_reason why = {""};
    setenv("REDOUBT_ISA", wrong[i], 1);
    assert_int_equal(rdt_isa_wanted(&why), RDT_ERR_NAME);
    assert_non_null(strstr(why.text, wrong[i]));
    assert_int_equal(rdt_isa_detect(), rdt_isa_hardware());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_asked_for_runs), /* first: the others change the environment */
      cmocka_unit_test(it_is_lowered_never_raised),
      cmocka_unit_test(other_words_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
