#include "campaign/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "net/file.h"
#include "report/json.h"

static const char head_name[] = "campaign.json", trials_name[] = "trials.jsonl";
enum { LONGEST = 1 << 16, LONGEST_HEAD = 1 << 26 };

static rdt_status path_in(const char *dir, const char *name, char *path, size_t size, rdt_reason *why) {
  const int n = snprintf(path, size, "%s/%s", dir, name);
  return n > 0 && (size_t)n < size ? RDT_OK : rdt_fail(why, RDT_ERR_ARG, "the path %.200s... is too long", dir);
}

static rdt_status fail_io(rdt_reason *why, const char *path, const char *what) {
  return rdt_fail(why, RDT_ERR_IO, "%.300s: %s: %s", path, what, strerror(errno));
}

static rdt_status take_line(const char *path, int64_t number, const char *line, size_t n, rdt_folder_fn fn, void *user,
                            rdt_reason *why) {
  rdt_trial t;
  rdt_reason inner = {""};
  if (n > LONGEST || rdt_trial_parse(line, n, &t, &inner) != RDT_OK)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.300s, line %lld: %.100s", path, (long long)number,
                    n > LONGEST ? "too long" : inner.text);
  return fn(user, &t, line, why);
}

/* A line without its break, LONGEST characters or more where it is too long: the rest of it is not read. -1: the file
 * ends before its break. */
static int64_t read_line(FILE *f, char line[LONGEST + 2]) {
  int64_t n = 0;
  for (int c; n <= LONGEST && (c = getc_unlocked(f)) != '\n'; line[n++] = (char)c)
    if (c == EOF) return -1;
  line[n] = '\0';
  return n;
}

rdt_status rdt_folder_read(const char *dir, rdt_folder_fn fn, void *user, int64_t *whole, rdt_reason *why) {
  char path[4096];
  rdt_status status = RDT_OK;
  *whole = 0;
  RDT_TRY(path_in(dir, trials_name, path, sizeof path, why));
  FILE *f;
  RDT_TRY(rdt_file_stream(path, false, &f, why));
  if (!f) return RDT_OK;
  char *line = malloc(LONGEST + 2);
  if (!line) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  int64_t n; /* -1 also where whoever wrote it was stopped in the middle */
  for (int64_t number = 1; status == RDT_OK && (n = read_line(f, line)) >= 0; number++) {
    status = take_line(path, number, line, (size_t)n, fn, user, why);
    *whole += n + 1;
  }
  if (status == RDT_OK && ferror(f)) status = fail_io(why, path, "cannot be read");
  free(line);
  fclose(f);
  return status;
}

/* One process at a time. Who was killed leaves children that end at once: a while is waited for them. */
static rdt_status lock(const rdt_folder *s, const char *dir, rdt_reason *why) {
  enum { STEP = 10000, STEPS = 100 }; /* us */
  for (int i = 0; flock(s->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
    if (i == STEPS)
      return rdt_fail(
          why, RDT_ERR_ARG,
          "%.300s is being written by another process: wait for its end and --resume, or give another folder", dir);
    usleep(STEP);
  }
  return RDT_OK; /* where files cannot be locked it is the caller who sees to it */
}

static rdt_status take_over(rdt_folder *s, const char *dir, bool resume, rdt_folder_fn fn, void *user,
                            rdt_reason *why) {
  int64_t whole = 0;
  struct stat st;
  RDT_TRY(lock(s, dir, why));
  if (resume)
    RDT_TRY(rdt_folder_read(dir, fn, user, &whole, why));
  else if (fstat(s->fd, &st) == 0 && st.st_size > 0)
    return rdt_fail(why, RDT_ERR_ARG, "%.300s has trials already: --resume continues them, or give another folder",
                    s->path);
  return ftruncate(s->fd, whole) == 0 ? RDT_OK : fail_io(why, s->path, "cannot be cut");
}

rdt_status rdt_folder_open(rdt_folder *s, const char *dir, bool resume, rdt_folder_fn fn, void *user, rdt_reason *why) {
  s->fd = -1;
  RDT_TRY(path_in(dir, trials_name, s->path, sizeof s->path, why));
  s->made = mkdir(dir, 0777) == 0;
  if (!s->made && errno != EEXIST) return fail_io(why, dir, "cannot be made");
  s->fd = open(s->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666); /* a pipe is refused */
  if (s->fd < 0) return fail_io(why, s->path, "cannot be written");
  const rdt_status status = take_over(s, dir, resume, fn, user, why);
  if (status != RDT_OK) {
    close(s->fd);
    s->fd = -1;
  }
  return status;
}

/* One call a line: whoever kills the program leaves whole lines, but for the last one. */
rdt_status rdt_folder_append(rdt_folder *s, const char *line, size_t bytes, rdt_reason *why) {
  while (bytes > 0) {
    const ssize_t n = write(s->fd, line, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_io(why, s->path, "cannot be written");
    line += n;
    bytes -= (size_t)n;
  }
  return RDT_OK;
}

rdt_status rdt_folder_close(rdt_folder *s, rdt_reason *why) {
  if (s->fd < 0) return RDT_OK;
  const bool kept = fsync(s->fd) == 0 || errno == EINVAL;
  const bool closed = close(s->fd) == 0;
  s->fd = -1;
  return kept && closed ? RDT_OK : fail_io(why, s->path, "cannot be written");
}

void rdt_folder_drop(rdt_folder *s, const char *dir) {
  struct stat st;
  if (s->fd < 0) return;
  if (fstat(s->fd, &st) == 0 && st.st_size == 0) {
    (void)unlink(s->path);
    if (s->made) (void)rmdir(dir);
  }
  (void)close(s->fd);
  s->fd = -1;
}

rdt_status rdt_folder_read_head(const char *dir, cJSON **head, rdt_reason *why) {
  char path[4096];
  *head = NULL;
  RDT_TRY(path_in(dir, head_name, path, sizeof path, why));
  FILE *f;
  RDT_TRY(rdt_file_stream(path, false, &f, why));
  if (!f) return RDT_OK;
  struct stat st;
  char *text = fstat(fileno(f), &st) == 0 && st.st_size >= 0 && st.st_size < LONGEST_HEAD
                   ? malloc((size_t)st.st_size + 1)
                   : NULL;
  const size_t n = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
  fclose(f);
  if (text) *head = rdt_json_parse(text, n);
  free(text);
  if (strcmp(rdt_json_string(*head, "schema"), "redoubt.campaign/1") == 0) return RDT_OK;
  cJSON_Delete(*head);
  *head = NULL;
  return rdt_fail(why, RDT_ERR_FORMAT, "%.300s is not what `redoubt inject -o` writes", path);
}

rdt_status rdt_folder_write_head(const char *dir, const cJSON *head, rdt_reason *why) {
  char path[4096];
  RDT_TRY(path_in(dir, head_name, path, sizeof path, why));
  return rdt_json_write(head, path, why);
}
