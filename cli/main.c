/* redoubt: the command line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* The library takes a word that it does not know as none; who types it believes it. */
static bool isa_known(void) {
  const char *isa = getenv("REDOUBT_ISA");
  if (!isa || strcmp(isa, "generic") == 0 || strcmp(isa, "avx2") == 0 || strcmp(isa, "avx512") == 0) return true;
  fprintf(stderr, "redoubt: REDOUBT_ISA takes one of generic|avx2|avx512, not '%s'\n", isa);
  return false;
}

static int call(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--version") != 0) return rdt_command_call(&rdt_cmd_redoubt, argc, argv);
  printf("redoubt %s\n", rdt_version());
  return RDT_EXIT_OK;
}

int main(int argc, char **argv) {
  rdt_signals_default();
  const int code = isa_known() ? call(argc, argv) : RDT_EXIT_USAGE;
  /* What was printed counts only when it arrived: a full disk behind stdout is an error, too. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "redoubt: cannot write standard output: %s\n", strerror(errno));
    return code ? code : RDT_EXIT_USAGE;
  }
  return code;
}
