/* redoubt bench: what the benchmarks in bench/ measure. Some parse their own arguments: they are another trade's tools.
 */
#include <stdio.h>
#include <string.h>

#include "bench_conv.h"
#include "bench_gemm.h"
#include "bench_tolerance.h"
#include "cli.h"

/* Either a command, or a function: named: argv[0] is the benchmark's name; otherwise the first argument after it. */
static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  bool named;
  const char *text;
  const rdt_command *command;
} benchmarks[] = {
    {"gemm", rdt_bench_gemm, true, "products: protected against the best unprotected ones", NULL},
    {"conv", rdt_bench_conv, true, "convolutions: the same", NULL},
    {"model", NULL, false, "a network: protected against unprotected, layer by layer", &rdt_cmd_bench_model},
    {"tolerance", rdt_bench_tolerance, false,
     "bounds: how often they cry, what they find; the tables of docs/tolerance.md", NULL},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof *benchmarks };

static void usage(FILE *to) {
  fprintf(to, "redoubt bench NAME [options]: %s\n\n", rdt_cmd_bench.summary);
  for (int i = 0; i < BENCHMARKS; i++) fprintf(to, "  %-10s %s\n", benchmarks[i].name, benchmarks[i].text);
  fprintf(to, "\n%s\n", rdt_cmd_bench.text);
}

static int run_raw(int argc, char **argv) {
  const char *name = argc > 0 ? argv[0] : NULL;
  const bool help = name && (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0);
  for (int i = 0; name && i < BENCHMARKS; i++) {
    if (strcmp(benchmarks[i].name, name) != 0) continue;
    if (benchmarks[i].command) return rdt_command_call(benchmarks[i].command, argc - 1, argv + 1);
    return benchmarks[i].named ? benchmarks[i].run(argc, argv) : benchmarks[i].run(argc - 1, argv + 1);
  }
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
                                       "  redoubt bench model model.onnx --threads 1,2\n"
                                       "  redoubt bench tolerance --help"};
