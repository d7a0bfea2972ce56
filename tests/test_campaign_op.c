/* Campaigns' targets that are one op: what a trial comes to depends on its number and the seed, and on nothing that was
 * run before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "campaign/campaign.h"
#include "core/context.h"

typedef struct range {
  rdt_context *ctx;
  rdt_target *target;
  rdt_campaign c;
} range;

static void open_range(range *r, const char *scheme, const char *target) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_reason why = {""};
  policy.scheme = scheme;
  memset(r, 0, sizeof *r);
  r->c = (rdt_campaign){.seed = 5};
  rdt_mix_default(&r->c.mix);
  assert_int_equal(rdt_context_create(&r->ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_policy(r->ctx, &policy), RDT_OK);
  if (rdt_target_op(r->ctx, target, 5, &r->target, &why) != RDT_OK) fail_msg("%s", why.text);
}

static void close_range(range *r) {
  rdt_target_destroy(r->target);
  rdt_context_destroy(r->ctx);
}

static void shoot(range *r, int64_t id, rdt_trial *t) {
  char spec[256];
  rdt_reason why = {""};
  if (rdt_campaign_shoot(&r->c, r->target, id, spec, t, &why) != RDT_OK) fail_msg("%s", why.text);
}

/* Forwards, and backwards from the end: other neighbours before each, the schedule at other places. */
static void a_trial_knows_nothing_of_those_before(void **state) {
  static const char *const schemes[] = {"none", "dup", "row", "rowcol", "replicate"};
  enum { TRIALS = 250 };
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) {
    static rdt_trial first[TRIALS];
    range r;
    open_range(&r, schemes[s], "gemm:24x40x56");
    for (int i = 0; i < TRIALS; i++) shoot(&r, i, &first[i]);
    close_range(&r);
    open_range(&r, schemes[s], "gemm:24x40x56");
    for (int i = TRIALS - 1; i >= 0; i--) {
      rdt_trial t;
      shoot(&r, i, &t);
      /* what a bit of an address reads is another thing in each process */
      if (t.site == RDT_SITE_PLAN && (t.kind == RDT_FAULT_STUCK0 || t.kind == RDT_FAULT_STUCK1)) continue;
      char *a = rdt_trial_print(&first[i]), *b = rdt_trial_print(&t);
      assert_string_equal(a, b);
      cJSON_free(a);
      cJSON_free(b);
    }
    close_range(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_trial_knows_nothing_of_those_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
