/* redoubt bench tmr: the table of docs/tmr.md. */
#include "bench_tmr.h"

#include "cli.h"
#include "head.h"
#include "progress.h"

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_head head = {""};
  rdt_reason why = {""};
  rdt_bench_shapes shapes;
  if (rdt_head_product(&head, s, &shapes, &why) != RDT_OK) return rdt_cli_fail(c, RDT_ERR_ARG, why.text);
  if (s->checkpoints) rdt_head_add(&head, "--checkpoints %d", (int)s->checkpoints);
  if (s->device) rdt_head_add(&head, "--device %s", s->device);
  const rdt_bench_tmr_job job = {.shape = shapes.count ? &shapes.at[0] : NULL,
                                 .threads = (int)s->threads,
                                 .trials = s->trials ? (int)s->trials : 21,
                                 .votes = (int)s->checkpoints,
                                 .device = s->device,
                                 .format = (rdt_bench_format)s->format,
                                 .output = s->out,
                                 .head = head.text,
                                 .progress = rdt_bench_show};
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "timing");
  bool differed = false;
  const rdt_status status = rdt_bench_tmr(&job, &differed, &why);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, why.text) : differed ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  rdt_signals_default();
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_TMR_MNK,     RDT_OPT_TRIALS, RDT_OPT_THREADS,      RDT_OPT_TMR_DEVICE,
                                        RDT_OPT_CHECKPOINTS, RDT_OPT_OUTPUT, RDT_OPT_TABLE_FORMAT, RDT_OPT_JSON,
                                        RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench tmr", "the published table, this CPU's column, a GPU's where there is one"},
    {"redoubt bench tmr --mnk 2048:2048:2048 --device cuda:0 --checkpoints 8",
     "another product, more votes on the way"},
    {"redoubt bench tmr --device cpu --json", "without a GPU, as JSON"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_tmr = {
    .name = "bench tmr",
    .run = run,
    .options = options,
    .summary = "three copies of a product by level, as published and as they are here",
    .text =
        "The levels of \"Triple Modular Redundancy on CUTLASS\" with the times that it states, beside the schemes "
        "that have them here: plain product, kernel (tmr-kernel), thread block (tmr-block), several kernels along k "
        "(tmr-split), cooperative groups (tmr-sm). On the CPU in f32, by default of 1024 cubed; on a GPU in f16, of "
        "4096 cubed.",
    .bad = "copies differed, although no fault was planted",
    .stopped = "stopped by signal N: no table is printed",
    .examples = examples};
