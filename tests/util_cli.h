/* The program from outside, in a temporary folder. */
#ifndef TEST_UTIL_CLI_H
#define TEST_UTIL_CLI_H

#define UTIL_PROGRAM TEST_BUILD "/cli/redoubt"

extern char util_cli_text[1 << 18]; /* stdout and stderr of the last call, one after the other */

/* Runs `redoubt arguments` by the shell; the exit code. */
int util_cli(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails the test where the code is another one, or the text has not these words (NULL: any). */
void util_cli_expect(int code, int wanted, const char *words);
void util_cli_slurp(const char *path); /* a file into util_cli_text */

/* Group fixtures: a new folder to work in, which is removed. */
int util_cli_enter(void **state);
int util_cli_leave(void **state);

#endif
