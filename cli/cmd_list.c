/* redoubt list: the tables that everything else is made from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/mix.h"
#include "cli.h"
#include "core/cpu_info.h"
#include "cpu/kernel.h"
#include "cuda/kernel.h"
#include "inject/fault.h"
#include "net/graph.h"
#include "plan/coverage.h"
#include "plan/workloads.h"
#include "report/table.h"
#include "schemes/scheme.h"

/* One listing: headings (right-aligned ones are numbers), and a function that writes row i; false after the last. A
 * cell is booked by name, once for the table and once for JSON. */
typedef struct sink {
  rdt_table *table;
  cJSON *row; /* NULL: the table is wanted */
} sink;

static void text(const sink *k, const char *name, const char *value) {
  if (k->row)
    cJSON_AddStringToObject(k->row, name, value);
  else
    rdt_table_cell(k->table, "%s", value);
}

static void number(const sink *k, const char *name, double value) {
  if (k->row)
    cJSON_AddNumberToObject(k->row, name, value);
  else
    rdt_table_cell(k->table, value == floor(value) && value < 1e9 ? "%.0f" : "%.4g", value);
}

static void flag(const sink *k, const char *name, bool value) {
  if (k->row)
    cJSON_AddBoolToObject(k->row, name, value);
  else
    rdt_table_cell(k->table, "%s", value ? "yes" : "-");
}

/* The share of single faults that a scheme finds: declared, and the least that campaigns have measured, over datatypes.
 */
static void put_coverage(const sink *k, const rdt_scheme_info *s) {
  double least = 2.0;
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
    const rdt_coverage_range *range = &rdt_coverage_kept.range[s->id][t];
    if (range->measured && range->low < least) least = range->low;
  }
  number(k, "declared", s->coverage);
  if (least <= 1.0)
    number(k, "measured", least);
  else if (!k->row)
    rdt_table_cell(k->table, "-");
}

static bool put_scheme(const sink *k, int i) {
  int n;
  const rdt_scheme_info *s = &rdt_scheme_table(&n)[i];
  if (i >= n) return false;
  const bool all = strchr(s->ops, '*') != NULL;
  text(k, "name", s->name);
  text(k, "ops",
       all                                          ? "all"
       : strchr(s->ops, 'G') && strchr(s->ops, 'C') ? "gemm, conv"
       : strchr(s->ops, 'G')                        ? "gemm"
       : strchr(s->ops, 'C')                        ? "conv"
                                                    : "other");
  flag(k, "detects", s->detects);
  flag(k, "locates", s->locates);
  text(k, "granularity", s->granularity);
  flag(k, "weights", s->covers_weights);
  put_coverage(k, s);
  text(k, "what", s->text);
  return true;
}

static bool put_cuda_kernel(const sink *k, int i) {
  int n;
  const rdt_cuda_kernel *row = rdt_cuda_kernels(&n) + i;
  rdt_cuda_device d;
  char least[16];
  if (i >= n) return false;
  snprintf(least, sizeof least, "sm_%d0", row->least);
  text(k, "name", row->name);
  text(k, "op", rdt_kop_name(RDT_KOP_GEMM));
  text(k, "isa", least);
  flag(k, "here", rdt_cuda_count(NULL) > 0 && rdt_cuda_open(0, &d, NULL) == RDT_OK);
  flag(k, "black_box", false);
  flag(k, "deterministic", true);
  flag(k, "injecting", rdt_cuda_kernel_inject(row) != NULL);
  return true;
}

static bool put_kernel(const sink *k, int i) {
  int n;
  const rdt_kernel *const *table = rdt_cpu_kernels(&n);
  if (i >= n) return put_cuda_kernel(k, i - n);
  text(k, "name", table[i]->name);
  text(k, "op", rdt_kop_name(table[i]->op));
  text(k, "isa", rdt_isa_name(table[i]->isa));
  flag(k, "here", table[i]->isa <= rdt_isa_detect());
  flag(k, "black_box", table[i]->black_box);
  flag(k, "deterministic", table[i]->deterministic);
  flag(k, "injecting", table[i]->run_inject != NULL);
  return true;
}

static bool put_dtype(const sink *k, int i) {
  const rdt_dtype_row *d = rdt_dtype_info((rdt_dtype)i);
  if (i >= RDT_DTYPE_COUNT || !d) return false;
  text(k, "name", d->name);
  number(k, "bytes", (double)d->bytes);
  number(k, "roundoff", d->u);
  number(k, "smallest_normal", d->min_normal);
  number(k, "onnx", d->onnx);
  text(k, "npy", *d->npy ? d->npy : "-");
  return true;
}

/* "2", "2 to 3", "1 or more"; two numbers for programs */
static void range(const sink *k, const char *what, int least, int most) {
  char name[32];
  if (!k->row) {
    rdt_table_cell(k->table, most < 0 ? "%d or more" : least == most ? "%d" : "%d to %d", least, most);
    return;
  }
  snprintf(name, sizeof name, "least_%s", what);
  cJSON_AddNumberToObject(k->row, name, least);
  snprintf(name, sizeof name, "most_%s", what);
  cJSON_AddItemToObject(k->row, name, most < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(most));
}

/* "input 2 must be known while planning" */
static void put_notes(const sink *k, const rdt_op_row *op) {
  char notes[160] = "";
  size_t used = 0;
  for (unsigned i = 0; i < 32; i++)
    if (op->planned >> i & 1u)
      used += (size_t)snprintf(notes + used, sizeof notes - used, "%s%u", used ? ", " : "input ", i + 1);
  if (used) snprintf(notes + used, sizeof notes - used, " must be known while planning");
  text(k, "notes", notes);
}

static bool put_op(const sink *k, int i) {
  static const char *const protection[] = {[RDT_PROTECT_LINEAR] = "checksums",
                                           [RDT_PROTECT_DUP] = "computed twice, bits compared",
                                           [RDT_PROTECT_PLAN] = "computed twice while planning",
                                           [RDT_PROTECT_EXPAND] = "as the operators that it is rewritten into",
                                           [RDT_PROTECT_FOLD] = "nothing left of it after loading"};
  int n;
  const rdt_op_row *op = &rdt_op_table(&n)[i];
  if (i >= n) return false;
  text(k, "name", op->name);
  number(k, "since_opset", op->since);
  range(k, "inputs", op->min_in, op->max_in);
  range(k, "outputs", 1, op->max_out);
  text(k, "protection", protection[op->protection]);
  put_notes(k, op);
  return true;
}

static bool put_site(const sink *k, int i) {
  if (i >= RDT_SITE_COUNT) return false;
  text(k, "name", rdt_site_name((rdt_site)i));
  text(k, "what", rdt_site_text((rdt_site)i));
  return true;
}

static bool put_fault(const sink *k, int i) {
  if (i >= RDT_FAULT_KIND_COUNT) return false;
  text(k, "name", rdt_fault_kind_form((rdt_fault_kind)i));
  text(k, "what", rdt_fault_kind_text((rdt_fault_kind)i));
  return true;
}

static bool put_mix(const sink *k, int i) {
  rdt_mix m;
  rdt_mix_default(&m);
  if (i >= m.n_faults) return false;
  text(k, "name", m.faults[i].text);
  number(k, "share", m.faults[i].share);
  return true;
}

/* ---- workloads ---- */

static double gflop(rdt_work w) {
  return 1e-9 * w.flops;
}

/* Each with each of its batches */
static bool put_workload(const sink *k, int i) {
  int n;
  const rdt_workload *w = rdt_workload_table(&n), *end = w + n;
  for (; w < end && i >= w->batches; w++) i -= w->batches;
  if (w == end) return false;
  char name[64];
  rdt_workload_name(w, w->batch[i], name, sizeof name);
  text(k, "name", name);
  text(k, "group", w->group);
  number(k, "layers", w->count);
  number(k, "gflop", gflop(rdt_workload_work(w, w->batch[i], RDT_F32, 1)));
  number(k, "intensity_f32", rdt_work_intensity(rdt_workload_work(w, w->batch[i], RDT_F32, 1)));
  number(k, "intensity_f16_padded", rdt_work_intensity(rdt_workload_work(w, w->batch[i], RDT_F16, RDT_INTENSITY_PAD)));
  text(k, "what", w->text);
  return true;
}

static bool put_layer(const sink *k, const rdt_workload *w, int64_t batch, int i) {
  char shape[96];
  int64_t mnk[3];
  if (i >= w->count) return false;
  const rdt_layer *l = &w->layers[i];
  rdt_layer_mnk(l, batch, &mnk[0], &mnk[1], &mnk[2]);
  rdt_layer_text(l, batch, shape, sizeof shape);
  text(k, "name", l->name);
  text(k, "op", rdt_kop_name(l->op));
  text(k, "shape", shape);
  number(k, "times", (double)l->times);
  number(k, "m", (double)mnk[0]);
  number(k, "n", (double)mnk[1]);
  number(k, "k", (double)mnk[2]);
  number(k, "groups", (double)l->groups);
  number(k, "gflop", gflop(rdt_layer_work(l, batch, RDT_F32, 1)));
  number(k, "intensity_f32", rdt_work_intensity(rdt_layer_work(l, batch, RDT_F32, 1)));
  number(k, "intensity_f16_padded", rdt_work_intensity(rdt_layer_work(l, batch, RDT_F16, RDT_INTENSITY_PAD)));
  return true;
}

/* title and text stand above the table in Markdown, which makes it a page. */
static const struct {
  const char *name, *columns;
  bool (*put)(const sink *k, int i);
  const char *title, *text;
} listings[] = {
    {"schemes", "scheme|ops|detects|locates|place|weights|>declared|>measured|what", put_scheme, "Schemes",
     "How a layer can be protected."},
    {"kernels", "kernel|op|isa|here|black box|deterministic|injecting", put_kernel, "Kernels",
     "What computes. The first of an op's rows that takes a problem is chosen."},
    {"dtypes", "dtype|>bytes|>unit roundoff|>smallest normal|>ONNX id|NumPy", put_dtype, "Datatypes",
     "What tensors are made of."},
    {"ops", "operator|>since opset|>inputs|>outputs|protected by|notes", put_op, "Operators",
     "The ONNX operators that networks may have: from which opset on, with how many inputs and outputs, how they are\n"
     "protected. Where the value of an input decides shapes, it must be known while planning: a constant, or computed "
     "from\n"
     "constants and shapes alone. What is folded when a network is loaded (BatchNormalization into Conv, constants) "
     "leaves\n"
     "no operator to protect. Where ONNX leaves a result open: integers that are divided by zero give zero, in Div and "
     "in "
     "Mod;\n"
     "otherwise Div of integers goes towards zero.\n\n"
     "Printed by `redoubt list ops --format md` from src/net/ops.def; [howto-op.md](howto-op.md) says how to add one."},
    {"sites", "site|what is hit", put_site, "Sites", "Where faults can be planted."},
    {"faults", "fault|what becomes of the bits", put_fault, "Faults", "Fault models, KIND of `--fault KIND@SITE`."},
    {"mix", "fault|>share in %", put_mix, "The default mix",
     "Which faults a campaign plants, and how often; all sites alike. `redoubt list mix --json` is a file for "
     "`--mix`."},
    {"workloads", "workload|group|>layers|>GFLOP|>intensity f32|>f16, padded|what", put_workload, "Workloads",
     "Networks as lists of their products and convolutions, with the batch behind a colon where it is not the usual "
     "one.\n"
     "Arithmetic intensity: operations for each byte of operands and results, of all layers; padded: M, N, K to "
     "multiples "
     "of 8."},
};
enum { LISTINGS = sizeof listings / sizeof *listings };

/* One of the listings, or the layers of a workload */
typedef struct subject {
  const char *columns, *title, *text;
  bool (*put)(const sink *k, int i); /* NULL: a workload */
  const rdt_workload *workload;
  int64_t batch;
} subject;

static rdt_status find(const char *name, subject *of, rdt_reason *why) {
  for (int i = 0; i < LISTINGS; i++)
    if (strcmp(listings[i].name, name) == 0) {
      *of = (subject){
          .columns = listings[i].columns, .title = listings[i].title, .text = listings[i].text, .put = listings[i].put};
      return RDT_OK;
    }
  *of =
      (subject){.columns = "layer|op|shape|>times|>M|>N|>K|>groups|>GFLOP|>intensity f32|>f16, padded", .title = name};
  const rdt_status status = rdt_workload_find(name, &of->workload, &of->batch, why);
  if (status == RDT_ERR_NAME)
    return rdt_fail(why, RDT_ERR_ARG,
                    "nothing is listed under '%.60s'; there are: schemes kernels dtypes ops sites faults mix "
                    "workloads, and each of "
                    "the workloads",
                    name);
  if (status == RDT_OK) of->text = of->workload->text;
  return status;
}

static bool put(const subject *of, const sink *k, int i) {
  return of->put ? of->put(k, i) : put_layer(k, of->workload, of->batch, i);
}

static int run(const rdt_command *c, const rdt_settings *s) {
  subject of;
  rdt_reason why;
  const rdt_status status = find(s->operand, &of, &why);
  if (status != RDT_OK) return rdt_cli_fail(c, status, why.text);
  sink k = {NULL, NULL};
  if (s->format == RDT_FORMAT_JSON && of.put == put_mix) { /* as --mix takes it */
    rdt_mix m;
    rdt_mix_default(&m);
    return rdt_document_print(c, rdt_mix_json(&m));
  }
  if (s->format == RDT_FORMAT_JSON) {
    cJSON *doc = rdt_document("list"), *rows;
    cJSON_AddStringToObject(doc, "of", s->operand);
    rows = cJSON_AddArrayToObject(doc, "rows");
    for (int i = 0;; i++) {
      k.row = cJSON_CreateObject();
      if (!k.row || !put(&of, &k, i)) break;
      cJSON_AddItemToArray(rows, k.row);
    }
    cJSON_Delete(k.row);
    return rdt_document_print(c, doc);
  }
  k.table = rdt_table_create(of.columns);
  for (int i = 0; put(&of, &k, i);) i++;
  const bool markdown = s->format == RDT_FORMAT_MD;
  if (markdown) printf("# %s\n\n%s\n\n", of.title, of.text);
  const bool printed = rdt_table_print(k.table, stdout, markdown);
  rdt_table_destroy(k.table);
  return printed ? RDT_EXIT_OK : rdt_cli_fail(c, RDT_ERR_NOMEM, NULL);
}

static const rdt_option_id options[] = {RDT_OPT_FORMAT, RDT_OPT_JSON, RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt list schemes", "names for `--scheme`"},
    {"redoubt list sites", "where `--fault` can strike"},
    {"redoubt list mix --json", "the faults of a campaign, to be changed"},
    {"redoubt list ops --json", "ONNX operators, for a program"},
    {"redoubt list ops --format md", "the page docs/operators.md"},
    {"redoubt list workloads", "networks for benchmarks and plans, with their intensity"},
    {"redoubt list dlrm-top:256", "the layers of one of them, 256 rows at a time"},
    {NULL, NULL}};
const rdt_command rdt_cmd_list = {
    .name = "list",
    .run = run,
    .operand = "schemes|kernels|dtypes|ops|sites|faults|mix|workloads|WORKLOAD",
    .operand_needed = true,
    .options = options,
    .summary = "the schemes, kernels, datatypes, operators, faults and their sites, workloads there are",
    .text = "Prints one of the tables that the program is made from, or the layers of a workload.",
    .examples = examples};
