#include "net/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"

/* O_NONBLOCK: a pipe that nobody writes to must not hold us up. */
rdt_status rdt_map_open(const char *path, rdt_map *map, rdt_reason *why) {
  static unsigned char nothing[1];
  struct stat st;
  char real[PATH_MAX];
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return rdt_file_fail(why, path, "opened", errno, "; check the path and its permissions");
  rdt_status status = RDT_OK;
  *map = (rdt_map){.data = nothing};
  if (fstat(fd, &st) != 0 || !realpath(path, real)) {
    status = rdt_file_fail(why, path, "read", errno, "");
  } else if (!S_ISREG(st.st_mode)) {
    status = rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be read: it is no regular file", path);
  } else {
    map->bytes = (size_t)st.st_size;
    map->device = st.st_dev;
    map->inode = st.st_ino;
    map->path = rdt_strdup(real);
    if (!map->path) status = rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory", path);
  }
  if (status == RDT_OK && map->bytes > 0) {
    void *p = mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
      status = rdt_file_fail(why, path, "mapped", errno, "");
    } else {
      map->data = p;
      madvise(p, map->bytes, MADV_WILLNEED);
    }
  }
  close(fd);
  if (status != RDT_OK) {
    rdt_free(map->path);
    map->path = NULL;
  }
  return status;
}

void rdt_map_close(rdt_map *map) {
  if (map->bytes > 0) munmap(map->data, map->bytes);
  rdt_free(map->path);
  *map = (rdt_map){0};
}

void rdt_map_refresh(const rdt_map *map, size_t offset, size_t bytes, bool device) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), from = offset / page * page, length = offset + bytes - from;
  if (length == 0 || map->bytes == 0) return;
  madvise(map->data + from, length, MADV_DONTNEED);
  const int fd = device ? open(map->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (fd < 0) return;
  posix_fadvise(fd, (off_t)from, (off_t)length, POSIX_FADV_DONTNEED); /* only now: mapped pages stay in the cache */
  close(fd);
}
