#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"

rdt_status rdt_file_fail(rdt_reason *why, const char *path, const char *what, int code, const char *remedy) {
  char text[128];
  return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be %s: %s%s", *path ? path : "an empty name", what,
                  strerror_r(code, text, sizeof text), remedy);
}

const void *rdt_file_waiting_mask;

/* Until a pipe or a terminal has more. A signal ends it, whatever becomes of other calls then: nobody knows how long
 * its writer takes. */
static rdt_status wait_for_more(int fd, const char *path, rdt_reason *why) {
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  if (ppoll(&wait, 1, NULL, rdt_file_waiting_mask) >= 0) return RDT_OK;
  return errno == EINTR ? rdt_fail(why, RDT_ERR_CANCELLED, "%.200s: a signal came before all of it could be read", path)
                        : rdt_file_fail(why, path, "read", errno, "");
}

/* Up to the end, growing: pipes have no size, and files may change while they are read. */
static rdt_status read_all(int fd, const char *path, size_t expected, char **data, size_t *bytes, rdt_reason *why) {
  size_t room = expected + 1, used = 0;
  char *buf = rdt_alloc(room, 1);
  for (;;) {
    if (!buf) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for %zu bytes", path, room);
    const ssize_t got = read(fd, buf + used, room - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const rdt_status status =
          errno == EAGAIN ? wait_for_more(fd, path, why) : rdt_file_fail(why, path, "read", errno, "");
      if (status == RDT_OK) continue;
      rdt_free(buf);
      return status;
    }
    if (got == 0) break;
    used += (size_t)got;
    if (used > INT_MAX) {
      rdt_free(buf);
      return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: more than 2 GiB cannot be read", path);
    }
    if (used < room) continue;
    char *more = rdt_grow(buf, used, 2 * room, 1);
    if (!more) rdt_free(buf);
    buf = more;
    room *= 2;
  }
  *data = buf;
  *bytes = used;
  return RDT_OK;
}

/* Of a pipe, open would wait for whoever writes into it. */
static int open_to_read(const char *path) {
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

rdt_status rdt_file_read(const char *path, void **data, size_t *bytes, rdt_reason *why) {
  struct stat st;
  const int fd = open_to_read(path);
  if (fd < 0) return rdt_file_fail(why, path, "opened", errno, "; check the path and its permissions");
  rdt_status status = RDT_OK;
  if (fstat(fd, &st) != 0)
    status = rdt_file_fail(why, path, "read", errno, "");
  else if (S_ISREG(st.st_mode) && st.st_size > INT_MAX)
    status = rdt_fail(why, RDT_ERR_NOMEM, "%.200s: %lld bytes; at most 2 GiB can be read", path, (long long)st.st_size);
  else
    status = read_all(fd, path, S_ISREG(st.st_mode) ? (size_t)st.st_size : 65536, (char **)data, bytes, why);
  close(fd);
  if (status == RDT_OK && *bytes == 0 && S_ISFIFO(st.st_mode)) {
    rdt_free(*data);
    *data = NULL;
    status = rdt_fail(why, RDT_ERR_IO, "%.200s: nobody writes into this pipe: start its writer first", path);
  }
  return status;
}

rdt_status rdt_file_stream(const char *path, bool must, FILE **file, rdt_reason *why) {
  struct stat st;
  const int fd = open_to_read(path);
  *file = NULL;
  if (fd < 0 && errno == ENOENT && !must) return RDT_OK;
  if (fd < 0) return rdt_file_fail(why, path, "opened", errno, "; check the path and its permissions");
  const bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  *file = regular ? fdopen(fd, "rb") : NULL;
  if (*file) return RDT_OK;
  close(fd);
  return regular ? rdt_fail(why, RDT_ERR_NOMEM, "out of memory")
                 : rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be read: it is no regular file", path);
}

static bool write_all(int fd, const char *data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ENOSPC;
      return false;
    }
    data += n;
    bytes -= (size_t)n;
  }
  return true;
}

/* Where a chain of symbolic links leads, whether anything is there or not (rdt_free); NULL with errno. */
static char *follow(const char *path) {
  enum { LINKS = 40 }; /* as the kernel takes */
  char target[PATH_MAX];
  char *at = rdt_strdup(path);
  for (int i = 0; at; i++) {
    const ssize_t n = readlink(at, target, sizeof target - 1);
    if (n < 0) return at; /* no link */
    const char *slash = target[0] == '/' ? NULL : strrchr(at, '/');
    const size_t folder = slash && n > 0 ? (size_t)(slash + 1 - at) : 0;
    char *next = i < LINKS ? rdt_alloc(folder + (size_t)n + 1, 1) : NULL;
    target[n] = '\0';
    if (next) {
      memcpy(next, at, folder);
      memcpy(next + folder, target, (size_t)n + 1);
    }
    rdt_free(at);
    at = next;
    if (i == LINKS) errno = ELOOP;
  }
  return NULL;
}

/* A file beside path, of a name that nothing has yet; its descriptor, or -1 with errno. */
static int open_beside(const char *path, char *name, size_t size) {
  int fd = -1;
  for (int attempt = 0; attempt < 100 && fd < 0; attempt++) { /* names of a crashed run may be taken */
    snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  return fd;
}

/* What path leads to, and a file beside it (rdt_free both). */
static rdt_status begin(const char *path, char **real, char **temporary, int *fd, rdt_reason *why) {
  struct stat st;
  *real = *temporary = NULL;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a device or folder must not be replaced */
    return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be written: it is no regular file", path);
  errno = ENOMEM;
  *real = follow(path);
  const size_t size = *real ? strlen(*real) + 32 : 0;
  *temporary = *real ? rdt_alloc(size, 1) : NULL;
  *fd = *temporary ? open_beside(*real, *temporary, size) : -1;
  if (*fd >= 0) return RDT_OK;
  const int code = errno;
  rdt_free(*temporary);
  rdt_free(*real);
  return rdt_file_fail(why, path, "written", code, "; check the folder and its permissions");
}

rdt_status rdt_file_try(const char *path, rdt_reason *why) {
  char *real, *temporary;
  int fd;
  RDT_TRY(begin(path, &real, &temporary, &fd, why));
  close(fd);
  unlink(temporary);
  rdt_free(temporary);
  rdt_free(real);
  return RDT_OK;
}

rdt_status rdt_file_write(const char *path, const void *head, size_t head_bytes, const void *body, size_t body_bytes,
                          rdt_reason *why) {
  char *real, *temporary;
  int fd, code;
  RDT_TRY(begin(path, &real, &temporary, &fd, why));
  bool ok = write_all(fd, head, head_bytes) && write_all(fd, body, body_bytes) && fsync(fd) == 0;
  code = errno;
  if (close(fd) != 0 && ok) ok = false, code = errno;
  if (ok && rename(temporary, real) != 0) ok = false, code = errno;
  if (!ok) unlink(temporary);
  rdt_free(temporary);
  rdt_free(real);
  return ok ? RDT_OK : rdt_file_fail(why, path, "written", code, "; nothing was left behind");
}
