/* redoubt verify: is a product on the disk still what was written? */
#include <inttypes.h>

#include "outofcore/matmul.h"
#include "product.h"

typedef struct verifying {
  const rdt_settings *settings;
  cJSON *bad;
} verifying;

static void take(void *user, const rdt_verified *v) {
  verifying *x = user;
  const rdt_part_of *p = &v->part;
  if (v->ok) return;
  cJSON *o = cJSON_CreateObject();
  const double list[2][2] = {{(double)v->i, (double)v->j}, {(double)p->row, (double)p->col}};
  const double size[2] = {(double)p->rows, (double)p->cols};
  cJSON_AddItemToObject(o, "block", cJSON_CreateDoubleArray(list[0], 2));
  cJSON_AddItemToObject(o, "from", cJSON_CreateDoubleArray(list[1], 2));
  cJSON_AddItemToObject(o, "size", cJSON_CreateDoubleArray(size, 2));
  rdt_json_text(o, "device", v->device);
  cJSON_AddItemToArray(x->bad, o);
  if (x->settings->quiet || x->settings->format == RDT_FORMAT_JSON) return;
  printf("block %" PRId64 ", %" PRId64 " has changed: rows %" PRId64 " to %" PRId64 ", columns %" PRId64 " to %" PRId64
         "%s%s\n",
         v->i, v->j, p->row, p->row + p->rows - 1, p->col, p->col + p->cols - 1, *v->device ? ", computed on " : "",
         v->device);
}

static rdt_status say(const rdt_settings *s, const rdt_verify_result *r, cJSON *bad, int code, rdt_reason *why) {
  if (s->quiet) return RDT_OK;
  if (s->format != RDT_FORMAT_JSON) {
    printf("%s: %" PRId64 " of %" PRId64 " blocks are as they were written; verdict then: %s\n", s->operand,
           r->blocks - r->bad, r->blocks, rdt_verdict_name(r->verdict));
    return RDT_OK;
  }
  cJSON *doc = rdt_document("verify");
  rdt_json_text(doc, "file", s->operand);
  cJSON_AddNumberToObject(doc, "blocks", (double)r->blocks);
  cJSON_AddNumberToObject(doc, "bytes", r->bytes);
  cJSON_AddStringToObject(doc, "verdict", rdt_verdict_name(r->verdict));
  cJSON_AddItemReferenceToObject(doc, "changed", bad);
  cJSON_AddNumberToObject(doc, "exit", code);
  const rdt_status status = rdt_json_print(doc, why);
  cJSON_Delete(doc);
  return status;
}

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_verify_result r;
  rdt_reason why = {""};
  verifying x = {s, cJSON_CreateArray()};
  rdt_status status = rdt_matmul_verify(s->operand, take, &x, &r, &why);
  int code = status == RDT_OK && r.bad > 0 ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  if (status == RDT_OK) status = say(s, &r, x.bad, code, &why);
  if (status != RDT_OK) code = rdt_cli_fail(c, status, why.text);
  cJSON_Delete(x.bad);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_JSON, RDT_OPT_QUIET, RDT_OPT_COUNT};
static const rdt_words files[] = {{"C.npy.sums", "the sums of its blocks, which `redoubt matmul` wrote beside it"},
                                  {NULL, NULL}};
static const rdt_words examples[] = {{"redoubt verify C.npy", "every block, and the place of those that have changed"},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_verify = {
    .name = "verify",
    .run = run,
    .operand = "C.npy",
    .operand_needed = true,
    .options = options,
    .summary = "is a product that `redoubt matmul` wrote still as it was written?",
    .text =
        "Reads the whole file and compares the bit-sum of each block with the one that was taken when the block was "
        "checked, before it was written: what disk, memory or anyone has changed since shows, and where.",
    .good = "all blocks are as they were written",
    .bad = "a block has changed",
    .files = files,
    .examples = examples};
