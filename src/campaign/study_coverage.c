/* What campaigns on single ops say of schemes, for whoever chooses one (plan/coverage.h): scheme by datatype by op,
 * each with its kinds of faults, of one mix of faults, and of faults in data alone. */
#include <string.h>

#include "campaign/study.h"
#include "plan/coverage.h"
#include "plan/sealed_json.h"
#include "report/json.h"

enum { OPS = 2 };
static const char *const ops[OPS] = {"gemm", "conv"};

/* What a campaign measures; scheme NULL: more than one thing, or nothing that counts here. */
typedef struct subject {
  const rdt_scheme_info *scheme;
  int op;
  rdt_dtype dtype;
} subject;

/* "gemm:96x80x72:bf16": the last word, if it is one. */
static rdt_dtype dtype_of(const char *target) {
  const char *last = strrchr(target, ':');
  const rdt_dtype t = last ? rdt_dtype_find(last + 1) : RDT_DTYPE_COUNT;
  return t == RDT_DTYPE_COUNT ? RDT_F32 : t;
}

static int op_of(const cJSON *layer) {
  int op = 0;
  while (op < OPS && strcmp(rdt_json_string(layer, "op"), ops[op]) != 0) op++;
  return op;
}

/* Of several checks a line (row:2) nothing is declared either. */
static subject subject_of(const rdt_found *f) {
  const char *target = rdt_json_string(f->head, "target");
  const cJSON *layer;
  subject one = {.op = OPS, .dtype = dtype_of(target)}, none = {.scheme = NULL};
  int sets;
  if (f->clean || !rdt_target_is_op(target)) return none;
  cJSON_ArrayForEach(layer, rdt_json_list(f->head, "layers")) {
    const rdt_scheme_info *s = rdt_scheme_parse(rdt_json_string(layer, "scheme"), &sets);
    const int op = op_of(layer);
    if (!s || s->id == RDT_SCHEME_NONE || sets != 1 || op == OPS) return none;
    if (one.scheme && (s != one.scheme || op != one.op)) return none;
    one.scheme = s;
    one.op = op;
  }
  return one;
}

static bool is_same(const subject *a, const subject *b) {
  return a->scheme == b->scheme && a->op == b->op && a->dtype == b->dtype;
}

static cJSON *share_of(const rdt_count *c) {
  const rdt_counted share = rdt_count_coverage(c);
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "faults", (double)rdt_count_dangerous(c));
  cJSON_AddNumberToObject(o, "noticed", (double)rdt_count_noticed(c));
  cJSON_AddNumberToObject(o, "coverage_low", share.in.low);
  cJSON_AddNumberToObject(o, "coverage_high", share.in.high);
  return o;
}

static void add(rdt_count *to, const rdt_count *c) {
  for (int f = 0; f < RDT_FATE_COUNT; f++) to->fate[f] += c->fate[f];
}

/* The row of campaign i and of all behind it that measure the same; NULL: one before it has it, or nothing is there. */
static cJSON *row_of(const rdt_study *s, const subject *all, int i) {
  rdt_count data = {.missed = 0}, kinds[RDT_FAULT_KIND_COUNT] = {{.missed = 0}};
  for (int j = 0; j < i; j++)
    if (is_same(&all[j], &all[i])) return NULL;
  for (int j = i; j < s->n; j++) {
    if (!is_same(&all[j], &all[i])) continue;
    add(&data, &s->list[j].tally.data);
    for (int k = 0; k < RDT_FAULT_KIND_COUNT; k++) add(&kinds[k], &s->list[j].tally.kind[k]);
  }
  if (rdt_count_dangerous(&data) == 0) return NULL;
  cJSON *row = share_of(&data), *list = cJSON_AddArrayToObject(row, "kinds");
  cJSON_AddStringToObject(row, "scheme", all[i].scheme->name);
  cJSON_AddStringToObject(row, "dtype", rdt_dtype_name(all[i].dtype));
  cJSON_AddStringToObject(row, "op", ops[all[i].op]);
  for (int k = 0; k < RDT_FAULT_KIND_COUNT; k++) {
    if (rdt_count_dangerous(&kinds[k]) == 0) continue;
    cJSON *one = share_of(&kinds[k]);
    cJSON_AddStringToObject(one, "kind", rdt_fault_kind_name((rdt_fault_kind)k));
    cJSON_AddItemToArray(list, one);
  }
  return row;
}

/* Shares of other faults are other shares, and those of a part are not those of the whole. */
static rdt_status check(const rdt_study *s, const subject *all, const rdt_found **first, rdt_reason *why) {
  char part[160];
  *first = NULL;
  for (int i = 0; i < s->n; i++) {
    const rdt_found *f = &s->list[i];
    if (!all[i].scheme) continue;
    if (*rdt_found_part(f, part, sizeof part))
      return rdt_fail(why, RDT_ERR_ARG, "%.200s is a part of its campaign (%s): coverage is taken of whole ones",
                      f->dir, part);
    if (*first && !cJSON_Compare(cJSON_GetObjectItemCaseSensitive((*first)->head, "mix"),
                                 cJSON_GetObjectItemCaseSensitive(f->head, "mix"), true))
      return rdt_fail(why, RDT_ERR_ARG,
                      "%.160s planted other faults (%s) than %.160s (%s): their shares are not added up; give those of "
                      "one mix",
                      f->dir, rdt_json_string(f->head, "fault"), (*first)->dir,
                      rdt_json_string((*first)->head, "fault"));
    if (!*first) *first = f;
  }
  return RDT_OK;
}

rdt_status rdt_study_coverage(const rdt_study *s, const char *path, rdt_reason *why) {
  subject all[RDT_MOST_FOUND];
  const rdt_found *first;
  int rows = 0;
  for (int i = 0; i < s->n; i++) all[i] = subject_of(&s->list[i]);
  RDT_TRY(check(s, all, &first, why));
  cJSON *doc = rdt_sealed_document(RDT_COVERAGE_SCHEMA, 1);
  if (first) rdt_json_text(doc, "fault", rdt_json_string(first->head, "fault"));
  cJSON *list = cJSON_AddArrayToObject(doc, "rows");
  for (int i = 0; i < s->n; i++) {
    cJSON *row = all[i].scheme ? row_of(s, all, i) : NULL;
    rows += row != NULL;
    if (row) cJSON_AddItemToArray(list, row);
  }
  const rdt_status status =
      rows > 0 ? rdt_sealed_write(doc, path, why)
               : rdt_fail(why, RDT_ERR_ARG,
                          "no campaign here measures one scheme: products or convolutions with --scheme, with faults");
  cJSON_Delete(doc);
  return status;
}
