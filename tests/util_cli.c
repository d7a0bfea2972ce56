#include "util_cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

static char folder[] = "/tmp/redoubt-test-cli-XXXXXX";
char util_cli_text[1 << 18];

static void slurp(const char *path, size_t *used) {
  FILE *f = fopen(path, "rb");
  if (!f) return;
  *used += fread(util_cli_text + *used, 1, sizeof util_cli_text - 1 - *used, f);
  util_cli_text[*used] = '\0';
  fclose(f);
}

void util_cli_slurp(const char *path) {
  size_t used = 0;
  util_cli_text[0] = '\0';
  slurp(path, &used);
}

int util_cli(const char *format, ...) {
  char command[4096];
  va_list args;
  int n = snprintf(command, sizeof command, "%s ", UTIL_PROGRAM);
  va_start(args, format);
  n += vsnprintf(command + n, sizeof command - (size_t)n, format, args);
  va_end(args);
  snprintf(command + n, sizeof command - (size_t)n, " >out.txt 2>err.txt");
  const int status = system(command);
  size_t used = 0;
  util_cli_text[0] = '\0';
  slurp("out.txt", &used);
  slurp("err.txt", &used);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

void util_cli_expect(int code, int wanted, const char *words) {
  if (code != wanted || (words && !strstr(util_cli_text, words)))
    fail_msg("exit code %d, wanted %d with '%s'; it said:\n%s", code, wanted, words ? words : "", util_cli_text);
}

int util_cli_enter(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

int util_cli_leave(void **state) {
  char command[256];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return chdir("/") == 0 ? system(command) : -1;
}
