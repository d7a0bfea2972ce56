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

#include "core/tensor.h"
#include "net/tensor_file.h"
#include "util_folder.h"

static char folder[64];
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

bool util_cli_there(const char *path) {
  return access(path, F_OK) == 0;
}

int util_cli_files(const char *dir) {
  char command[256];
  snprintf(command, sizeof command, "ls -A %s 2>/dev/null | wc -l", dir);
  FILE *p = popen(command, "r");
  int n = -1;
  assert_non_null(p);
  assert_int_equal(fscanf(p, "%d", &n), 1);
  pclose(p);
  return n;
}

void util_cli_npy(const char *path, rdt_dtype dtype, int rank, const int64_t *shape, double value) {
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, rank, shape);
  const int64_t n = rdt_tensor_count(&t);
  t.data = calloc((size_t)n + 1, rdt_dtype_size(dtype));
  assert_non_null(t.data);
  for (int64_t i = 0; i < n; i++) rdt_store(t.data, dtype, i, value);
  rdt_reason why;
  assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
  free(t.data);
}

void util_cli_copy(const char *from, const char *to, long bytes) {
  char *buf = malloc((size_t)bytes + 1);
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(buf && in && out);
  const size_t n = fread(buf, 1, (size_t)bytes, in);
  assert_int_equal(fwrite(buf, 1, n, out), n);
  fclose(in);
  fclose(out);
  free(buf);
}

int util_cli_enter(void **state) {
  (void)state;
  return util_folder_new(folder, "test-cli") && chdir(folder) == 0 ? 0 : -1;
}

int util_cli_leave(void **state) {
  char command[256];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return chdir("/") == 0 ? system(command) : -1;
}
