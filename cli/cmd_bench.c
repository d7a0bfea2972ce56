/* redoubt bench: what the benchmarks in bench/ measure. Some parse their own arguments: they are another trade's tools.
 */
#include "bench_conv.h"
#include "bench_gemm.h"
#include "bench_tolerance.h"
#include "cli.h"

static const rdt_words gemm_examples[] = {
    {"redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2", NULL},
    {"redoubt bench gemm --mnk 512:512:4096 --dtype s8 --scheme all --cold", NULL},
    {NULL, NULL}};
static const rdt_words conv_examples[] = {
    {"redoubt bench conv --n 8 --threads 2 --scheme all", NULL},
    {"redoubt bench conv --ic 512 --oc 512 --ih 7 --iw 7 --epilogue bias+relu", NULL},
    {NULL, NULL}};
static const rdt_words tolerance_examples[] = {
    {"redoubt bench tolerance --table floors --dtype f32 --k 512,2048", NULL},
    {"redoubt bench tolerance --table rates --family mixed --trials 100000", NULL},
    {NULL, NULL}};
static const rdt_command gemm = {.name = "bench gemm",
                                 .run_raw = rdt_bench_gemm,
                                 .usage = rdt_bench_gemm_usage,
                                 .summary = "products: protected against the best unprotected ones",
                                 .bad = "a fault was found, although none was planted",
                                 .examples = gemm_examples};
static const rdt_command conv = {.name = "bench conv",
                                 .run_raw = rdt_bench_conv,
                                 .usage = rdt_bench_conv_usage,
                                 .summary = "convolutions: protected against the best unprotected ones",
                                 .bad = "a fault was found, although none was planted",
                                 .examples = conv_examples};
static int run_tolerance(int argc, char **argv) {
  return rdt_bench_tolerance(argc - 1, argv + 1);
}

static const rdt_command tolerance = {
    .name = "bench tolerance",
    .run_raw = run_tolerance,
    .usage = rdt_bench_tolerance_usage,
    .summary = "bounds: how often they cry, what they find; the tables of docs/tolerance.md",
    .bad = "a rigorous bound reported a product without a fault",
    .examples = tolerance_examples};

static const rdt_command *const benchmarks[] = {&gemm, &conv, &rdt_cmd_bench_model, &tolerance, NULL};
static const rdt_words examples[] = {{"redoubt bench gemm --mnk 1024:1024:1024 --threads 1,2", NULL},
                                     {"redoubt bench model model.onnx --threads 1,2", NULL},
                                     {"redoubt help bench gemm", NULL},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_bench = {.name = "bench",
                                   .commands = benchmarks,
                                   .operand = "NAME",
                                   .summary = "what protection costs, and how good the bounds are",
                                   .examples = examples};
