#include "plan/coverage.h"

#include "core/context.h"
#include "core/memory.h"
#include "plan/sealed_json.h"

const rdt_coverage rdt_coverage_kept = {.range = {
#define X(scheme, dtype, noticed, faults, low, high) [RDT_SCHEME_##scheme][RDT_##dtype] = {low, high, true},
#include "plan/coverage.def"
#undef X
                                        }};

static bool is_share(const cJSON *x) {
  return cJSON_IsNumber(x) && x->valuedouble >= 0.0 && x->valuedouble <= 1.0;
}

/* Of several ops with one scheme and datatype: the least counts. */
static rdt_status take_row(const cJSON *row, const char *path, bool seen[RDT_SCHEME_COUNT][RDT_DTYPE_COUNT],
                           rdt_coverage *c, rdt_reason *why) {
  const char *scheme = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "scheme"));
  const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "dtype"));
  const cJSON *low = cJSON_GetObjectItemCaseSensitive(row, "coverage_low");
  const cJSON *high = cJSON_GetObjectItemCaseSensitive(row, "coverage_high");
  const rdt_scheme_info *s = scheme ? rdt_scheme_find(scheme) : NULL;
  const rdt_dtype t = dtype ? rdt_dtype_find(dtype) : RDT_DTYPE_COUNT;
  if (!s || t == RDT_DTYPE_COUNT || !is_share(low) || !is_share(high) || low->valuedouble > high->valuedouble)
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%.200s: every row has a \"scheme\", a \"dtype\", a \"coverage_low\" and, not below it, a "
                    "\"coverage_high\" from 0 to 1",
                    path);
  rdt_coverage_range *kept = &c->range[s->id][t];
  if (!seen[s->id][t] || low->valuedouble < kept->low)
    *kept = (rdt_coverage_range){low->valuedouble, high->valuedouble, true};
  seen[s->id][t] = true;
  return RDT_OK;
}

rdt_status rdt_coverage_read(rdt_context *ctx, const char *path, rdt_reason *why) {
  bool seen[RDT_SCHEME_COUNT][RDT_DTYPE_COUNT] = {{false}};
  const cJSON *row;
  cJSON *doc;
  RDT_TRY(rdt_sealed_read(path, RDT_COVERAGE_SCHEMA, &doc, why));
  rdt_coverage *c = rdt_calloc(1, sizeof *c);
  rdt_status status = c ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (c) *c = rdt_coverage_kept;
  cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(doc, "rows")) {
    if (status == RDT_OK) status = take_row(row, path, seen, c, why);
  }
  cJSON_Delete(doc);
  if (status == RDT_OK) {
    rdt_free(ctx->coverage);
    ctx->coverage = c;
  } else {
    rdt_free(c);
  }
  return status;
}

rdt_coverage_range rdt_coverage_of(const rdt_coverage *c, const rdt_scheme_info *s, rdt_dtype inputs) {
  if (c && c->range[s->id][inputs].measured) return c->range[s->id][inputs];
  return (rdt_coverage_range){s->coverage, s->coverage, false};
}

bool rdt_coverage_exceeds(rdt_coverage_range a, rdt_coverage_range b) {
  return a.low > b.high;
}
