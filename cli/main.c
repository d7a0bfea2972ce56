/* redoubt: the command line. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core/cpu_info.h"

/* The library takes what it does not know, and what is not there, as the best there is; who types it believes it. */
static bool isa_usable(void) {
  rdt_reason why;
  if (rdt_isa_wanted(&why) == RDT_OK) return true;
  fprintf(stderr, "redoubt: %s\n", why.text);
  return false;
}

static bool ended;

/* Who else calls exit(): OpenMP, where the system gives no thread or no memory. Its code would be that of a fault. */
static void on_exit_of_another(void) {
  if (ended) return;
  static const char text[] =
      "redoubt: a library ended the program, there is no result: fewer threads (--threads), or more memory, may help\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(RDT_EXIT_USAGE);
}

static int call(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--version") != 0) return rdt_command_call(&rdt_cmd_redoubt, argc, argv);
  printf("redoubt %s\n", rdt_version());
  return RDT_EXIT_OK;
}

int main(int argc, char **argv) {
  rdt_signals_begin();
  if (atexit(on_exit_of_another) != 0) return RDT_EXIT_USAGE;
  int code = isa_usable() ? call(argc, argv) : RDT_EXIT_USAGE;
  /* What was printed counts only when it arrived: a full disk behind stdout is an error, too. */
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "redoubt: cannot write standard output: %s\n", strerror(errno));
    code = code ? code : RDT_EXIT_USAGE;
  }
  ended = true;
  return code;
}
