/* redoubt bench: what the benchmarks in bench/ measure. Each parses its own arguments: they are another trade's tools.
 */
#include <stdio.h>
#include <string.h>

#include "bench_conv.h"
#include "bench_gemm.h"
#include "bench_tolerance.h"
#include "cli.h"

/* named: argv[0] is the benchmark's name; otherwise the first argument after it. */
static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  bool named;
  const char *text;
} benchmarks[] = {
    {"gemm", rdt_bench_gemm, true, "products: protected against the best unprotected ones"},
    {"conv", rdt_bench_conv, true, "convolutions: the same"},
    {"tolerance", rdt_bench_tolerance, false,
     "bounds: how often they cry, what they find; the tables of docs/tolerance.md"},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static void usage(FILE *to) {
  fprintf(to, "redoubt bench NAME [options]: %s\n\n", rdt_cmd_bench.summary);
  for (int i = 0; i < BENCHMARKS; i++) fprintf(to, "  %-10s %s\n", benchmarks[i].name, benchmarks[i].text);
  fprintf(to, "\n%s\n", rdt_cmd_bench.text);
}

static int run_raw(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  const bool help = name && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0);
  for (int i = 0; name && i < BENCHMARKS; i++)
    if (strcmp(benchmarks[i].name, name) == 0)
      return benchmarks[i].named ? benchmarks[i].run(argc - 1, argv + 1) : benchmarks[i].run(argc - 2, argv + 2);
  if (name && !help) fprintf(stderr, "redoubt bench: there is no benchmark '%s'\n\n", name);
  usage(help ? stdout : stderr);
  return help ? RDT_EXIT_OK : RDT_EXIT_USAGE;
}

const rdt_command rdt_cmd_bench = {.name = "bench",
                                   .run_raw = run_raw,
                                   .help_raw = usage,
                                   .operand = "NAME",
                                   .summary = "what protection costs, and how good the bounds are",
                                   .text =
                                       "Examples:\n"
                                       "  redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2\n"
                                       "  redoubt bench tolerance --help"};
