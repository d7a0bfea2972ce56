/* redoubt: the command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const rdt_command *const commands[] = {&rdt_cmd_run,   &rdt_cmd_plan, &rdt_cmd_inject, &rdt_cmd_conformance,
                                              &rdt_cmd_bench, &rdt_cmd_info, &rdt_cmd_list};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void overview(FILE *to) {
  fprintf(to,
          "redoubt %s: runs products, convolutions and networks so that a wrong result is noticed, located and "
          "repaired.\n\nUsage: redoubt COMMAND [arguments]\n\n",
          rdt_version());
  for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
  fputs(
      "  help        help for a command: redoubt help run\n\n"
      "Try:\n"
      "  redoubt run model.onnx --input image.npy\n"
      "  redoubt run model.onnx --input image.npy --fault bit:30@accum,seed=1\n\n"
      "Exit codes: 0 no fault left, 1 a fault was found and not repaired (or what --fail-on says), 2 usage or it could "
      "not run,\n3 device lost, 128+N ended by signal N.\n",
      to);
}

static const rdt_command *find(const char *name) {
  const char *words[COMMANDS + 1];
  for (int i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
    words[i] = commands[i]->name;
  }
  words[COMMANDS] = "help";
  const char *near = rdt_options_nearest(name, words, COMMANDS + 1);
  if (near)
    fprintf(stderr, "redoubt: unknown command '%s'; did you mean '%s'?\n", name, near);
  else
    fprintf(stderr, "redoubt: unknown command '%s'; `redoubt help` lists what there is\n", name);
  return NULL;
}

static int help(const char *name) {
  if (!name) {
    overview(stdout);
    return RDT_EXIT_OK;
  }
  const rdt_command *c = find(name);
  if (!c) return RDT_EXIT_USAGE;
  if (c->help_raw)
    c->help_raw(stdout);
  else
    rdt_options_help(c);
  return RDT_EXIT_OK;
}

int rdt_command_call(const rdt_command *c, int argc, char **argv) {
  rdt_settings s;
  rdt_reason why = {""};
  if (c->run_raw) return c->run_raw(argc, argv);
  if (rdt_options_parse(c, argc, argv, &s, &why) != RDT_OK) return rdt_cli_fail(c, RDT_ERR_ARG, why.text);
  if (!s.help) return c->run(c, &s);
  rdt_options_help(c);
  return RDT_EXIT_OK;
}

static int dispatch(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) {
    overview(stderr);
    return RDT_EXIT_USAGE;
  }
  if (strcmp(name, "--version") == 0) {
    printf("redoubt %s\n", rdt_version());
    return RDT_EXIT_OK;
  }
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return help(argc > 2 ? argv[2] : NULL);
  const rdt_command *c = find(name);
  return c ? rdt_command_call(c, argc - 2, argv + 2) : RDT_EXIT_USAGE;
}

/* The library takes a word that it does not know as none; who types it believes it. */
static bool isa_known(void) {
  const char *isa = getenv("REDOUBT_ISA");
  if (!isa || strcmp(isa, "generic") == 0 || strcmp(isa, "avx2") == 0 || strcmp(isa, "avx512") == 0) return true;
  fprintf(stderr, "redoubt: REDOUBT_ISA takes one of generic|avx2|avx512, not '%s'\n", isa);
  return false;
}

int main(int argc, char **argv) {
  rdt_signals_watch(NULL);
  const int code = isa_known() ? dispatch(argc, argv) : RDT_EXIT_USAGE;
  /* What was printed counts only when it arrived: a full disk behind stdout is an error, too. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "redoubt: cannot write standard output: %s\n", strerror(errno));
    return code ? code : RDT_EXIT_USAGE;
  }
  return code;
}
