/* Which commands there are, and the way from a command line to one of them. */
#include <string.h>

#include "cli.h"
#include "manual/manual.h"

static const rdt_command *const commands[] = {&rdt_cmd_run,
                                              &rdt_cmd_report,
                                              &rdt_cmd_plan,
                                              &rdt_cmd_inject,
                                              &rdt_cmd_conformance,
                                              &rdt_cmd_matmul,
                                              &rdt_cmd_verify,
                                              &rdt_cmd_bench,
                                              &rdt_cmd_screen,
                                              &rdt_cmd_info,
                                              &rdt_cmd_list,
                                              &rdt_cmd_figures,
                                              NULL};

static const rdt_words examples[] = {
    {"redoubt run model.onnx --input image.npy", "a network, checked"},
    {"redoubt run model.onnx --input image.npy --fault bit:30@accum,seed=1",
     "break one bit and watch it being repaired"},
    {"redoubt matmul A.npy B.npy -o C.npy --mem-limit 1G", "a product larger than memory"},
    {"redoubt help run", "all that a command can do"},
    {NULL, NULL}};
const rdt_command rdt_cmd_redoubt = {
    .name = "",
    .commands = commands,
    .operand = "COMMAND",
    .summary = "runs products, convolutions and networks so that a wrong result is noticed, located and repaired",
    .text =
        "Networks in ONNX run on the CPU with every layer protected: products and convolutions by checksums of their "
        "weights, every other operator by a second computation, memory between the layers by bit-sums. What is found "
        "wrong is computed or read again; a repaired result has the bits of a run without the fault.\n"
        "\n"
        "`redoubt help COMMAND` tells all about a command, `redoubt --version` the version.",
    .verdicts = true,
    .good = "no fault is left in the outputs; what is UNCHECKED is named",
    .bad = "a fault was found and not repaired, or what `--fail-on` says; a campaign failed",
    .stopped = "stopped by signal N: no outputs and no report are written. A second signal ends the program at once",
    .examples = examples};

enum { MOST_WORDS = 32 };

static const char *last_word(const rdt_command *c) {
  const char *space = strrchr(c->name, ' ');
  return space ? space + 1 : c->name;
}

static const rdt_command *find(const rdt_command *c, const char *name) {
  const char *words[MOST_WORDS] = {"help"}, *near;
  char title[64];
  int n = 1;
  rdt_command_title(c, ' ', title, sizeof title);
  for (const rdt_command *const *sub = c->commands; sub && *sub; sub++) {
    if (strcmp(last_word(*sub), name) == 0) return *sub;
    if (n < MOST_WORDS) words[n++] = last_word(*sub);
  }
  if (c->commands && (near = rdt_options_nearest(name, words, n)) != NULL)
    fprintf(stderr, "%s: unknown command '%s'; did you mean '%s'?\n", title, name, near);
  else
    fprintf(stderr, "%s: unknown command '%s'; `redoubt help%s%s` lists what there is\n", title, name,
            *c->name ? " " : "", c->name);
  return NULL;
}

static int help(const rdt_command *c, int argc, char **argv) {
  for (int i = 0; i < argc && c; i++) c = find(c, argv[i]);
  if (c) rdt_manual_write(stdout, &rdt_style_text, c);
  return c ? RDT_EXIT_OK : RDT_EXIT_USAGE;
}

static int choose(const rdt_command *c, int argc, char **argv) {
  const char *name = argc > 0 ? argv[0] : NULL;
  if (!name) {
    rdt_manual_write(stderr, &rdt_style_text, c);
    return RDT_EXIT_USAGE;
  }
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return help(c, argc - 1, argv + 1);
  const rdt_command *sub = find(c, name);
  return sub ? rdt_command_call(sub, argc, argv) : RDT_EXIT_USAGE;
}

int rdt_command_call(const rdt_command *c, int argc, char **argv) {
  rdt_settings s;
  rdt_reason why = {""};
  if (c->commands) return choose(c, argc - 1, argv + 1);
  if (rdt_options_parse(c, argc - 1, argv + 1, &s, &why) != RDT_OK) return rdt_cli_fail(c, RDT_ERR_ARG, why.text);
  return s.help ? help(c, 0, NULL) : c->run(c, &s);
}
