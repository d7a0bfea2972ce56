/* redoubt plan: which kernel and which scheme each layer gets, and why. */
#include <math.h>
#include <stdio.h>

#include "cli.h"
#include "report/json.h"
#include "report/table.h"

static const char *fate(const rdt_choice *choice) {
  return choice->taken ? "taken" : choice->refused ? "refused" : "lost";
}

static void explain_row(const rdt_choice *choice, void *user) {
  rdt_table *t = user;
  rdt_table_cell(t, "%s", *choice->kernel ? choice->kernel : "any");
  rdt_table_cell(t, "%s", *choice->scheme ? choice->scheme : "any");
  rdt_table_cell(t, "%s", choice->fused ? "fused" : "");
  rdt_table_cell(t, "%s", fate(choice));
  if (isnan(choice->cost))
    rdt_table_cell(t, "-");
  else
    rdt_table_cell(t, "%.1f", 100.0 * choice->cost);
  rdt_table_cell(t, "%s", choice->reason ? choice->reason : "");
}

static void explain_json(const rdt_choice *choice, void *user) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "kernel", choice->kernel);
  cJSON_AddStringToObject(o, "scheme", choice->scheme);
  cJSON_AddBoolToObject(o, "fused", choice->fused);
  cJSON_AddStringToObject(o, "fate", fate(choice));
  rdt_json_number(o, "cost", choice->cost);
  cJSON_AddStringToObject(o, "reason", choice->reason ? choice->reason : "");
  cJSON_AddItemToArray(user, o);
}

static rdt_status put_text(rdt_session *s, bool explain, bool markdown) {
  char shape[128];
  rdt_node_info info;
  rdt_table *t = rdt_table_create("layer|op|shape|dtype|kernel|scheme");
  const size_t nodes = rdt_model_node_count(s->model);
  for (size_t i = 0; i < nodes; i++) {
    RDT_TRY(rdt_model_node_info(s->model, i, &info));
    const char *const cells[] = {
        info.name,  info.op,     rdt_shape_text(info.out.rank, info.out.shape, shape, sizeof shape),
        info.dtype, info.kernel, info.scheme};
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++) rdt_table_cell(t, "%s", cells[c]);
  }
  bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  for (size_t i = 0; explain && printed && i < nodes; i++) {
    RDT_TRY(rdt_model_node_info(s->model, i, &info));
    printf("\n%s (%s, %s)\n%s", info.name, info.op, rdt_shape_text(info.out.rank, info.out.shape, shape, sizeof shape),
           markdown ? "\n" : "");
    t = rdt_table_create("kernel|scheme||fate|>extra work %|why");
    const rdt_status status = rdt_model_explain(s->model, i, explain_row, t);
    printed = status == RDT_OK && rdt_table_print(t, stdout, markdown);
    rdt_table_destroy(t);
    if (status != RDT_OK) return rdt_session_fail(s, status);
  }
  return printed ? RDT_OK : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory while writing the table");
}

static rdt_status put_json(rdt_session *s, const rdt_settings *settings, cJSON *doc) {
  rdt_node_info info;
  cJSON_AddStringToObject(doc, "model", settings->operand);
  cJSON_AddStringToObject(doc, "isa", rdt_context_isa(s->ctx));
  cJSON_AddNumberToObject(doc, "threads", rdt_context_threads(s->ctx));
  cJSON *layers = cJSON_AddArrayToObject(doc, "layers");
  for (size_t i = 0; i < rdt_model_node_count(s->model); i++) {
    RDT_TRY(rdt_model_node_info(s->model, i, &info));
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", info.name);
    cJSON_AddStringToObject(o, "op", info.op);
    cJSON_AddItemToObject(o, "shape", rdt_json_shape(info.out.rank, info.out.shape));
    cJSON_AddStringToObject(o, "dtype", info.dtype);
    cJSON_AddStringToObject(o, "kernel", info.kernel);
    cJSON_AddStringToObject(o, "scheme", info.scheme);
    cJSON_AddItemToArray(layers, o);
    if (!settings->explain) continue;
    const rdt_status status = rdt_model_explain(s->model, i, explain_json, cJSON_AddArrayToObject(o, "candidates"));
    if (status != RDT_OK) return rdt_session_fail(s, status);
  }
  return RDT_OK;
}

static rdt_status plan(rdt_session *s, const rdt_settings *settings) {
  RDT_TRY(rdt_session_open(s, settings, RDT_INPUTS_SHAPES));
  const rdt_status status = rdt_model_plan(s->model, s->inputs, s->n_inputs);
  return status == RDT_OK ? RDT_OK : rdt_session_fail(s, status);
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  rdt_session s;
  int code = RDT_EXIT_OK;
  rdt_status status = plan(&s, settings);
  if (status == RDT_OK && settings->format == RDT_FORMAT_JSON) {
    cJSON *doc = rdt_document("plan");
    status = put_json(&s, settings, doc);
    if (status == RDT_OK)
      code = rdt_document_print(c, doc);
    else
      cJSON_Delete(doc);
  } else if (status == RDT_OK) {
    status = put_text(&s, settings->explain, settings->format == RDT_FORMAT_MD);
  }
  if (status != RDT_OK) code = rdt_cli_fail(c, status, s.why.text);
  rdt_session_close(&s);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_EXPLAIN, RDT_OPT_INPUT,   RDT_OPT_INPUT_SHAPE,
                                        RDT_OPT_SCHEME,  RDT_OPT_THREADS, RDT_OPT_LAMBDA,
                                        RDT_OPT_FORMAT,  RDT_OPT_JSON,    RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt plan model.onnx", "open dimensions are taken as 1"},
    {"redoubt plan model.onnx --input batch.npy", "the shapes of real inputs"},
    {"redoubt plan model.onnx --input-shape 8x3x224x224", "or given ones"},
    {"redoubt plan model.onnx --explain", "every candidate: taken, lost, refused, and why"},
    {"REDOUBT_ISA=generic redoubt plan model.onnx", "what the plain C kernels would do"},
    {NULL, NULL}};
const rdt_command rdt_cmd_plan = {.name = "plan",
                                  .run = run,
                                  .operand = "MODEL.onnx",
                                  .operand_needed = true,
                                  .options = options,
                                  .summary = "which kernel and scheme each layer gets, and why",
                                  .text =
                                      "Plans a network without running it, and prints a line for each layer. "
                                      "`--explain` shows every candidate: taken, "
                                      "lost (to a cheaper one), refused (and why).",
                                  .examples = examples};
