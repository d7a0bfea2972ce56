/* redoubt bench tolerance: the tables of docs/tolerance.md. */
#include <inttypes.h>

#include "bench_tolerance.h"
#include "cli.h"
#include "head.h"
#include "progress.h"

static void describe(const rdt_settings *s, rdt_head *h) {
  const struct {
    const char *name, *value;
  } texts[] = {{"case", s->cases}, {"dtype", s->dtypes}, {"family", s->family}, {"k", s->lengths}};
  rdt_head_tables(h, s->tables, RDT_BENCH_TOLERANCE_TABLES);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].value) rdt_head_add(h, "--%s %s", texts[i].name, texts[i].value);
  if (s->outputs) rdt_head_add(h, "--outputs %" PRId64, s->outputs);
  rdt_head_numbers(h, s);
}

/* What none of the asked tables takes. */
static rdt_status check_tables(const rdt_settings *s, rdt_reason *why) {
  enum { FLOORS = 1, GRANULARITY = 2, FLIPS = 4, RATES = 8 };
  const struct {
    bool given;
    int64_t tables;
    const char *text;
  } rows[] = {{s->trials, FLIPS | RATES, "--trials: of the tables flips and rates"},
              {s->outputs, FLOORS | FLIPS | RATES, "--outputs: of the tables floors, flips and rates"},
              {s->lengths, FLOORS | FLIPS | RATES, "--k: of the tables floors, flips and rates"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].given && s->tables && !(s->tables & rows[i].tables))
      return rdt_fail(why, RDT_ERR_ARG, "%s, and --table asks for others", rows[i].text);
  return RDT_OK;
}

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_head head = {""};
  int64_t reports = 0;
  rdt_reason why = {""};
  if (check_tables(s, &why) != RDT_OK) return rdt_cli_fail(c, RDT_ERR_ARG, why.text);
  describe(s, &head);
  const rdt_bench_tolerance_job job = {.tables = s->tables,
                                       .cases = s->cases,
                                       .dtypes = s->dtypes,
                                       .family = s->family,
                                       .lengths = s->lengths,
                                       .outputs = s->outputs,
                                       .trials = s->trials ? s->trials : 2000,
                                       .lambda = s->lambda > 0.0 ? s->lambda : 6.0,
                                       .seed = s->seed >= 0 ? (uint64_t)s->seed : 1,
                                       .format = (rdt_bench_format)s->format,
                                       .head = head.text,
                                       .progress = rdt_bench_show};
  rdt_signals_watch(NULL);
  rdt_progress_begin(s, "simulating");
  const rdt_status status = rdt_bench_tolerance(&job, &reports, &why);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, why.text) : reports > 0 ? RDT_EXIT_FAULT : RDT_EXIT_OK;
  rdt_signals_default();
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_TABLES,  RDT_OPT_CASES,        RDT_OPT_DTYPES, RDT_OPT_FAMILY,
                                        RDT_OPT_LENGTHS, RDT_OPT_OUTPUTS,      RDT_OPT_LAMBDA, RDT_OPT_TOLERANCE_TRIALS,
                                        RDT_OPT_SEED,    RDT_OPT_TABLE_FORMAT, RDT_OPT_JSON,   RDT_OPT_NO_PROGRESS,
                                        RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench tolerance --table floors --dtype f32 --k 512,2048", "how large a fault must be"},
    {"redoubt bench tolerance --table rates --family mixed --trials 100000", "how often a check cries without one"},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_tolerance = {
    .name = "bench tolerance",
    .run = run,
    .options = options,
    .summary = "bounds: how often they cry, what they find; the tables of docs/tolerance.md",
    .text =
        "How large a fault must be to be found, and how often a check cries without one. Products are simulated in "
        "every "
        "order and precision that the bounds speak of; tensor cores are emulated. docs/tolerance.md explains the "
        "bounds: R0 and R2 are rigorous, T2 and T3 statistical (R2 and T3 need checkpoints of the accumulators).\n"
        "\n"
        "  floors       detection floor (twice the bound) of a row check in units of rms(C)\n"
        "  granularity  the floor of a row, a column, a 128 x 128 tile and the whole 512 x 512 product\n"
        "  flips        share of random single bit flips in the output that are found, by the size of their effect\n"
        "  rates        suspects without a fault, by family of data, against the stated rate, at 3, 4 and --lambda;\n"
        "               reports of R0 must be 0",
    .bad = "a rigorous bound reported a product without a fault",
    .stopped = "stopped by signal N: no table is printed",
    .examples = examples};
