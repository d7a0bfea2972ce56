/* What campaigns on single ops say of schemes, for whoever chooses one (plan/coverage.h). */
#include <string.h>

#include "campaign/study.h"
#include "plan/coverage.h"
#include "plan/sealed_json.h"
#include "report/json.h"

typedef struct found {
  int64_t noticed, dangerous;
} found;

/* "gemm:96x80x72:bf16": the last word, if it is one. */
static rdt_dtype dtype_of(const char *target) {
  const char *last = strrchr(target, ':');
  const rdt_dtype t = last ? rdt_dtype_find(last + 1) : RDT_DTYPE_COUNT;
  return t == RDT_DTYPE_COUNT ? RDT_F32 : t;
}

/* The scheme of all layers; NULL: they have several, or it is a network with datatypes of its own. */
static const rdt_scheme_info *scheme_of(const rdt_found *f) {
  const cJSON *layer;
  const rdt_scheme_info *one = NULL;
  int sets;
  if (f->clean || !rdt_target_is_op(rdt_json_string(f->head, "target"))) return NULL;
  cJSON_ArrayForEach(layer, rdt_json_list(f->head, "layers")) {
    const rdt_scheme_info *s = rdt_scheme_parse(rdt_json_string(layer, "scheme"), &sets);
    if (!s || (one && s != one)) return NULL;
    one = s;
  }
  return one;
}

/* Faults in what is computed and what it is computed from: those in what checks touch no data. */
static void count(const rdt_found *f, found *to) {
  for (int site = 0; site < RDT_SITE_COUNT; site++) {
    if (rdt_site_checks((rdt_site)site)) continue;
    to->noticed += rdt_count_noticed(&f->tally.site[site]);
    to->dangerous += rdt_count_dangerous(&f->tally.site[site]);
  }
}

rdt_status rdt_study_coverage(const rdt_study *s, const char *path, rdt_reason *why) {
  static found all[RDT_SCHEME_COUNT][RDT_DTYPE_COUNT];
  int rows = 0;
  memset(all, 0, sizeof all);
  for (int i = 0; i < s->n; i++) {
    const rdt_scheme_info *scheme = scheme_of(&s->list[i]);
    if (scheme) count(&s->list[i], &all[scheme->id][dtype_of(rdt_json_string(s->list[i].head, "target"))]);
  }
  cJSON *doc = rdt_sealed_document(RDT_COVERAGE_SCHEMA, 1);
  cJSON *list = cJSON_AddArrayToObject(doc, "rows");
  for (int k = 0; k < RDT_SCHEME_COUNT; k++)
    for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
      const found *x = &all[k][t];
      int n;
      if (x->dangerous == 0 || k == RDT_SCHEME_NONE) continue;
      rows++;
      const rdt_interval in = rdt_stats_wilson(x->noticed, x->dangerous, RDT_CONFIDENCE);
      cJSON *row = cJSON_CreateObject();
      cJSON_AddStringToObject(row, "scheme", rdt_scheme_table(&n)[k].name);
      cJSON_AddStringToObject(row, "dtype", rdt_dtype_name((rdt_dtype)t));
      cJSON_AddNumberToObject(row, "faults", (double)x->dangerous);
      cJSON_AddNumberToObject(row, "noticed", (double)x->noticed);
      cJSON_AddNumberToObject(row, "coverage_low", in.low);
      cJSON_AddNumberToObject(row, "coverage_high", in.high);
      cJSON_AddItemToArray(list, row);
    }
  const rdt_status status =
      rows > 0 ? rdt_sealed_write(doc, path, why)
               : rdt_fail(why, RDT_ERR_ARG,
                          "no campaign here measures one scheme: products or convolutions with --scheme, with faults");
  cJSON_Delete(doc);
  return status;
}
