/* redoubt bench published: the tables of docs/published.md. */
#include "bench_published.h"
#include "cli.h"
#include "head.h"
#include "progress.h"

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_head head = {""};
  int64_t missed = 0;
  rdt_reason why = {""};
  const rdt_policy usual = RDT_POLICY_DEFAULT;
  rdt_head_tables(&head, s->tables, RDT_BENCH_PUBLISHED_TABLES);
  rdt_head_numbers(&head, s);
  const rdt_bench_published_job job = {.tables = s->tables,
                                       .trials = s->trials ? s->trials : 2000,
                                       .lambda = s->lambda > 0.0 ? s->lambda : usual.lambda,
                                       .seed = s->seed >= 0 ? (uint64_t)s->seed : 1,
                                       .format = (rdt_bench_format)s->format,
                                       .output = s->out,
                                       .head = head.text,
                                       .progress = rdt_bench_show};
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "simulating");
  const rdt_status status = rdt_bench_published(&job, &missed, &why);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, why.text) : missed > 0 ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  rdt_signals_default();
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_PUBLISHED_TABLES,
                                        RDT_OPT_PUBLISHED_TRIALS,
                                        RDT_OPT_LAMBDA,
                                        RDT_OPT_SEED,
                                        RDT_OPT_OUTPUT,
                                        RDT_OPT_TABLE_FORMAT,
                                        RDT_OPT_JSON,
                                        RDT_OPT_NO_PROGRESS,
                                        RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench published --table strided", "one checksum against eight, at bit error rates"},
    {"redoubt bench published --json -o published.json", "all of it as JSON, for `redoubt figures`"},
    {"redoubt figures published.json -o pictures", "the curves"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_published = {
    .name = "bench published",
    .run = run,
    .options = options,
    .summary = "what published systems find, emulated in their precision, beside our bounds",
    .text =
        "Repeats published experiments on emulated arithmetic; docs/published.md says what the papers state, and how "
        "it compares.\n"
        "\n"
        "  strided      one checksum of a row against eight strided ones and against a row check with T2, at bit error "
        "rates: fp16 inputs, f32 accumulators\n"
        "  convolution  bit flips in the input, a filter or the output of a convolution under checksums of the "
        "filters, and of filters and inputs: tensors of ones and random ones, s8 and fp16\n"
        "  constants    constant thresholds of public codes, and T2 and T3: checks without a fault that cry, flips "
        "that are found, by family and scale of the data",
    .bad = "a fault above the floor of one of our bounds was missed, or a check without a fault was certain of one",
    .stopped = "stopped by signal N: no table is printed",
    .examples = examples};
