/* redoubt bench checkpoints: the trade of docs/tmr.md. */
#include <string.h>

#include "bench_checkpoints_gpu.h"
#include "cli.h"
#include "head.h"
#include "progress.h"

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_head head = {""};
  rdt_reason why = {""};
  rdt_bench_shapes shapes;
  if (rdt_head_product(&head, s, &shapes, &why) != RDT_OK) return rdt_cli_fail(c, RDT_ERR_ARG, why.text);
  const bool gpu = s->device && strcmp(s->device, "cpu") != 0;
  if (s->device) rdt_head_add(&head, "--device %s", s->device);
  const rdt_bench_checkpoints_job job = {.shape = shapes.count ? &shapes.at[0] : NULL,
                                         .threads = (int)s->threads,
                                         .trials = s->trials ? (int)s->trials : 21,
                                         .device = s->device,
                                         .format = (rdt_bench_format)s->format,
                                         .output = s->out,
                                         .head = head.text,
                                         .progress = rdt_bench_show};
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "timing");
  bool wrong = false;
  const rdt_status status =
      gpu ? rdt_bench_checkpoints_gpu(&job, &wrong, &why) : rdt_bench_checkpoints(&job, &wrong, &why);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, why.text) : wrong ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  rdt_signals_default();
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_TMR_MNK,      RDT_OPT_TRIALS,      RDT_OPT_THREADS,
                                        RDT_OPT_STUDY_DEVICE, RDT_OPT_OUTPUT,      RDT_OPT_TABLE_FORMAT,
                                        RDT_OPT_JSON,         RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench checkpoints --trials 40 --json -o checkpoints.json", "a record"},
    {"redoubt figures checkpoints.json", "its pictures: checkpoints-2.svg and checkpoints-3.svg"},
    {"redoubt bench checkpoints --device cuda:0 --trials 100 --json -o checkpoints-gpu.json",
     "a record of a GPU; its pictures: checkpoints-block.svg, -grid, -clusters and -split"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_checkpoints = {
    .name = "bench checkpoints",
    .run = run,
    .options = options,
    .summary = "three copies with 0 to 16 votes on the way along k: cost against survival, by faults a run",
    .text =
        "A product in f32 (by default 256 x 256 x 8192) by `tmr-sm`, on two and three cores as faults simulate them, "
        "with 0, 1, 2, 4, 8 and 16 votes on the way along k before the one at the end. Each share of each copy is hit "
        "with the same probability, those that the recovery computes too, so that a run meets 0, 1, 2, 4 faults on "
        "average if nothing is repaired. A run has survived where the result has the bits of a run without a fault "
        "and was not computed again from the start; `from the start`: the bits are right, all of it was computed "
        "again. Times are medians over the unprotected product timed before each run. With `--device cuda:N`: a "
        "product in f16 (by default 2048 x 2048 x 8192) by every form of copies that vote on the way (`tmr-block`, "
        "`tmr-sm` on the grid and in clusters, `tmr-split`). A run is hit 0, 1, 2, 4 times, at random steps of k of "
        "random copies: bits of one element's accumulators, or each of another element's; so is what is computed "
        "again where no vote could decide. On a GPU a launch computes 16 rows of a tile again itself, from the last "
        "vote that all copies agreed on: that counts as survived, where there was no such vote as from the start. "
        "`outvoted`: wrong, where a vote has said that a copy lost, or all three were hit. Times are those of the "
        "kernels that ship, times the runs that it took.",
    .bad = "a result was wrong, and nobody said so; or copies differed without a fault",
    .stopped = "stopped by signal N: no table is printed",
    .examples = examples};
