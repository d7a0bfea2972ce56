/* The program from outside, in a temporary folder. */
#ifndef TEST_UTIL_CLI_H
#define TEST_UTIL_CLI_H

#include <redoubt/redoubt.h>
#include <stdbool.h>

#define UTIL_PROGRAM TEST_BUILD "/cli/redoubt"

extern char util_cli_text[1 << 18]; /* stdout and stderr of the last call, one after the other */

/* Runs `redoubt arguments` by the shell; the exit code. */
int util_cli(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails the test where the code is another one, or the text has not these words (NULL: any). */
void util_cli_expect(int code, int wanted, const char *words);
void util_cli_slurp(const char *path); /* a file into util_cli_text */

/* Files: is it there, how many are in a folder, a tensor whose elements are all the same, the first bytes of another.
 */
bool util_cli_there(const char *path);
int util_cli_files(const char *dir);
void util_cli_npy(const char *path, rdt_dtype dtype, int rank, const int64_t *shape, double value);
void util_cli_copy(const char *from, const char *to, long bytes);

/* Group fixtures: a new folder to work in, which is removed. */
int util_cli_enter(void **state);
int util_cli_leave(void **state);

#endif
