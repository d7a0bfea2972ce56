/* redoubt_manual FOLDER: writes a manual page for each command there. redoubt_manual --markdown: docs/commands.md. */
#include <errno.h>
#include <string.h>

#include "manual.h"

static int write_page(const char *folder, const rdt_command *c) {
  char path[4096], title[64];
  const int n = snprintf(path, sizeof path, "%s/%s.1", folder, rdt_command_title(c, '-', title, sizeof title));
  FILE *to = n < (int)sizeof path ? fopen(path, "w") : NULL;
  bool good = to != NULL;
  if (to) {
    rdt_manual_write(to, &rdt_style_man, c);
    good = !ferror(to);
    good = fclose(to) == 0 && good;
  }
  if (!good) fprintf(stderr, "redoubt_manual: cannot write %s: %s\n", path, strerror(errno));
  int code = good ? 0 : 1;
  for (const rdt_command *const *sub = c->commands; sub && *sub && code == 0; sub++) code = write_page(folder, *sub);
  return code;
}

static void write_sections(const rdt_command *c) {
  rdt_manual_write(stdout, &rdt_style_markdown, c);
  for (const rdt_command *const *sub = c->commands; sub && *sub; sub++) write_sections(*sub);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--markdown") != 0) return write_page(argv[1], &rdt_cmd_redoubt);
  if (argc != 2) {
    fputs("usage: redoubt_manual FOLDER | --markdown\n", stderr);
    return 2;
  }
  puts(
      "# Commands\n\nEvery command with its options, as `redoubt help COMMAND` and `man redoubt-COMMAND` tell them.\n"
      "[cli.md](cli.md) explains what they print. Written by `build/cli/redoubt_manual --markdown >docs/commands.md` "
      "from the\n"
      "tables in `cli/`.");
  write_sections(&rdt_cmd_redoubt);
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
