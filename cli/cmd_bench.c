/* redoubt bench: what the benchmarks in bench/ measure. */
#include "cli.h"

static const rdt_command *const benchmarks[] = {&rdt_cmd_bench_gemm,        &rdt_cmd_bench_conv,
                                                &rdt_cmd_bench_workloads,   &rdt_cmd_bench_model,
                                                &rdt_cmd_bench_tolerance,   &rdt_cmd_bench_published,
                                                &rdt_cmd_bench_outofcore,   &rdt_cmd_bench_tmr,
                                                &rdt_cmd_bench_checkpoints, NULL};
static const rdt_words examples[] = {{"redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2", "a product"},
                                     {"redoubt bench model model.onnx --threads 1,2", "a network, layer by layer"},
                                     {"redoubt bench workloads dlrm --threads 2", "the layers of built-in networks"},
                                     {"redoubt help bench gemm", "all that a benchmark can do"},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_bench = {.name = "bench",
                                   .commands = benchmarks,
                                   .operand = "NAME",
                                   .summary = "what protection costs, and how good the bounds are",
                                   .bad = "a fault was found, although none was planted",
                                   .examples = examples};
