#include "outofcore/matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "check/bitsum.h"
#include "core/file.h"
#include "core/memory.h"

enum { HEAD = 65536 /* bytes at the begin of a file that its header lies in */ };

static rdt_status whole_read(const rdt_matrix *m, void *data, size_t bytes, size_t at, rdt_reason *why) {
  char *p = data;
  while (bytes > 0) {
    const ssize_t got = pread(m->fd, p, bytes, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return rdt_file_fail(why, m->path, "read", errno, "");
    if (got == 0) return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be read: it was cut short meanwhile", m->path);
    p += got;
    at += (size_t)got;
    bytes -= (size_t)got;
  }
  return RDT_OK;
}

static rdt_status whole_write(const rdt_matrix *m, const void *data, size_t bytes, size_t at, rdt_reason *why) {
  const char *p = data;
  while (bytes > 0) {
    const ssize_t put = pwrite(m->fd, p, bytes, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return rdt_file_fail(why, m->path, "written", put < 0 ? errno : ENOSPC,
                           "; make room and go on with --resume: finished blocks are kept");
    p += put;
    at += (size_t)put;
    bytes -= (size_t)put;
  }
  return RDT_OK;
}

static rdt_status take_shape(rdt_matrix *m, const rdt_npy *h, size_t file_bytes, rdt_reason *why) {
  char text[96];
  rdt_tensor t = rdt_tensor_dense(NULL, h->dtype, h->rank, h->shape);
  RDT_TRY(rdt_tensor_check(&t, m->path, why));
  rdt_tensor_text(&t, text, sizeof text);
  if (h->rank != 2)
    return rdt_fail(why, RDT_ERR_SHAPE, "%.200s: %s is no matrix: two dimensions are needed", m->path, text);
  if (!rdt_dtype_is_float(h->dtype))
    return rdt_fail(why, RDT_ERR_DTYPE, "%.200s: %s: products of files take f8 f4 f2 and bf16", m->path, text);
  m->dtype = h->dtype;
  m->fortran = h->fortran;
  m->rows = h->shape[0];
  m->cols = h->shape[1];
  m->offset = h->offset;
  m->bytes = (size_t)rdt_tensor_count(&t) * rdt_dtype_size(h->dtype);
  if (file_bytes - h->offset != m->bytes)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %s takes %zu bytes, the file has %zu: it is too %s", m->path, text,
                    m->bytes, file_bytes - h->offset, file_bytes - h->offset < m->bytes ? "short" : "long");
  return RDT_OK;
}

static int64_t modified(const struct stat *st) {
  return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static rdt_status read_head(rdt_matrix *m, rdt_reason *why) {
  struct stat st;
  rdt_npy h;
  if (fstat(m->fd, &st) != 0) return rdt_file_fail(why, m->path, "read", errno, "");
  if (!S_ISREG(st.st_mode))
    return rdt_fail(why, RDT_ERR_IO, "%.200s: is no regular file: blocks are read in any order", m->path);
  const size_t bytes = (size_t)st.st_size < HEAD ? (size_t)st.st_size : HEAD;
  char *head = rdt_alloc(HEAD, 1);
  if (!head) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for its header", m->path);
  rdt_status status = whole_read(m, head, bytes, 0, why);
  if (status == RDT_OK && !rdt_npy_is(head, bytes))
    status = rdt_fail(why, RDT_ERR_FORMAT, "%.200s: is no .npy file; save the matrix with numpy.save", m->path);
  if (status == RDT_OK) status = rdt_npy_parse(head, bytes, m->path, &h, why);
  rdt_free(head);
  RDT_TRY(status);
  m->modified = modified(&st);
  return take_shape(m, &h, (size_t)st.st_size, why);
}

rdt_status rdt_matrix_open(const char *path, rdt_matrix *m, rdt_reason *why) {
  /* Of a pipe, open would wait for whoever writes into it. */
  *m = (rdt_matrix){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .path = path};
  if (m->fd < 0) return rdt_file_fail(why, path, "opened", errno, "; check the path and its permissions");
  const rdt_status status = read_head(m, why);
  if (status != RDT_OK) rdt_matrix_close(m);
  return status;
}

rdt_status rdt_matrix_unchanged(const rdt_matrix *m, rdt_reason *why) {
  struct stat st;
  if (fstat(m->fd, &st) != 0) return rdt_file_fail(why, m->path, "read", errno, "");
  if (modified(&st) == m->modified && (size_t)st.st_size == m->offset + m->bytes) return RDT_OK;
  return rdt_fail(why, RDT_ERR_IO, "%.200s: was changed while it was multiplied: nothing of the product is kept",
                  m->path);
}

void rdt_matrix_map(rdt_matrix *m) {
  struct stat st;
  if (m->map || fstat(m->fd, &st) != 0 || (size_t)st.st_size != m->offset + m->bytes) return;
  if ((int64_t)st.st_blocks * 512 < (int64_t)st.st_size) return;
  /* All its pages at once, where they stay: one by one, as they are written, they cost more than what is written. */
  const int now = (double)st.st_size < 0.5 * rdt_memory_available() ? MAP_POPULATE : 0;
  void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | now, m->fd, 0);
  if (map != MAP_FAILED) m->map = map;
}

/* Is the file in memory? By pages all over it. Those of others' files the system may call so without looking. */
static bool is_resident(const char *map, size_t bytes) {
  enum { LOOKS = 256 };
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
  for (size_t i = 0; i < LOOKS; i++) {
    unsigned char there = 0;
    if (mincore((char *)map + pages * i / LOOKS * page, page, &there) != 0 || !(there & 1)) return false;
  }
  return true;
}

void rdt_matrix_map_read(rdt_matrix *m) {
  const size_t bytes = m->offset + m->bytes;
  if (m->map) return;
  void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, m->fd, 0);
  if (map == MAP_FAILED) return;
  if (is_resident(map, bytes))
    m->map = map;
  else
    munmap(map, bytes);
}

void rdt_matrix_close(rdt_matrix *m) {
  if (m->map) munmap(m->map, m->offset + m->bytes);
  m->map = NULL;
  if (m->fd >= 0) close(m->fd);
  m->fd = -1;
}

/* A file system that cannot give space in advance gets a file with a hole: it may be full later. */
static rdt_status take_space(const rdt_matrix *m, rdt_reason *why) {
  struct statvfs fs;
  const off_t all = (off_t)(m->offset + m->bytes);
  if (fallocate(m->fd, 0, 0, all) == 0) return RDT_OK;
  if (errno == EOPNOTSUPP || errno == ENOSYS)
    return ftruncate(m->fd, all) == 0 ? RDT_OK : rdt_file_fail(why, m->path, "written", errno, "");
  const int code = errno;
  if (code == ENOSPC && fstatvfs(m->fd, &fs) == 0)
    return rdt_fail(why, RDT_ERR_IO, "%.200s: the disk is full: %lld bytes are needed, %lld are free", m->path,
                    (long long)all, (long long)fs.f_bavail * (long long)fs.f_frsize);
  return rdt_file_fail(why, m->path, "written", code, "; its whole size is taken at once");
}

rdt_status rdt_matrix_create(const char *path, rdt_dtype dtype, int64_t rows, int64_t cols, rdt_matrix *m,
                             rdt_reason *why) {
  char head[RDT_NPY_HEAD];
  const int64_t shape[2] = {rows, cols};
  const size_t offset = rdt_npy_head(head, dtype, 2, shape);
  *m = (rdt_matrix){.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
                    .path = path,
                    .dtype = dtype,
                    .rows = rows,
                    .cols = cols,
                    .offset = offset,
                    .bytes = (size_t)rows * (size_t)cols * rdt_dtype_size(dtype)};
  if (m->fd < 0) return rdt_file_fail(why, path, "written", errno, "; check the folder and its permissions");
  rdt_status status = take_space(m, why);
  if (status == RDT_OK) status = whole_write(m, head, offset, 0, why);
  if (status == RDT_OK) return RDT_OK;
  rdt_matrix_close(m);
  unlink(path);
  return status;
}

rdt_tensor rdt_matrix_view(const rdt_matrix *m, const rdt_part_of *part, void *data) {
  return rdt_tensor_matrix(data, m->dtype, m->fortran ? part->cols : part->rows, m->fortran ? part->rows : part->cols,
                           m->fortran ? part->rows : part->cols, m->fortran);
}

/* A part as runs of the file: count of them, each of so many bytes, the first at `at`, apart bytes from one to the
 * next. */
typedef struct runs {
  int64_t count;
  size_t bytes, at, apart;
} runs;

static runs runs_of(const rdt_matrix *m, const rdt_part_of *p) {
  const size_t size = rdt_dtype_size(m->dtype);
  const int64_t lines = m->fortran ? p->cols : p->rows, length = m->fortran ? p->rows : p->cols;
  const int64_t line = m->fortran ? m->rows : m->cols;
  const int64_t first = m->fortran ? p->col * line + p->row : p->row * line + p->col;
  runs r = {lines, (size_t)length * size, m->offset + (size_t)first * size, (size_t)line * size};
  if (length == line && lines > 0) r = (runs){1, r.bytes * (size_t)lines, r.at, 0};
  return r;
}

rdt_status rdt_matrix_read(const rdt_matrix *m, const rdt_part_of *part, void *data, rdt_reason *why) {
  const runs r = runs_of(m, part);
  for (int64_t i = 0; i < r.count; i++)
    RDT_TRY(whole_read(m, (char *)data + (size_t)i * r.bytes, r.bytes, r.at + (size_t)i * r.apart, why));
  return RDT_OK;
}

/* Who reads a mapping beyond the end of its file is killed. */
static rdt_status still_whole(const rdt_matrix *m, rdt_reason *why) {
  struct stat st;
  if (fstat(m->fd, &st) != 0) return rdt_file_fail(why, m->path, "read", errno, "");
  if ((size_t)st.st_size >= m->offset + m->bytes) return RDT_OK;
  return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be read: it was cut short meanwhile", m->path);
}

rdt_status rdt_matrix_read_sum(const rdt_matrix *m, const rdt_part_of *part, void *data, size_t offset, uint64_t *sum,
                               rdt_reason *why) {
  const runs r = runs_of(m, part);
  uint64_t all = 0;
  if (!m->map) {
    RDT_TRY(rdt_matrix_read(m, part, data, why));
    if (sum) *sum = rdt_bitsum_apart(data, offset, (size_t)r.count * r.bytes);
    return RDT_OK;
  }
  RDT_TRY(still_whole(m, why));
  for (int64_t i = 0; i < r.count; i++) {
    const size_t at = (size_t)i * r.bytes;
    all += rdt_bitsum_copy((char *)data + at, m->map + r.at + (size_t)i * r.apart, offset + at, r.bytes, false);
  }
  if (sum) *sum = all;
  return RDT_OK;
}

rdt_status rdt_matrix_write(const rdt_matrix *m, const rdt_part_of *part, const void *data, rdt_reason *why) {
  const runs r = runs_of(m, part);
  for (int64_t i = 0; i < r.count; i++)
    RDT_TRY(whole_write(m, (const char *)data + (size_t)i * r.bytes, r.bytes, r.at + (size_t)i * r.apart, why));
  return RDT_OK;
}

rdt_status rdt_matrix_write_sum(const rdt_matrix *m, const rdt_part_of *part, const void *data, size_t offset,
                                uint64_t *sum, rdt_reason *why) {
  const runs r = runs_of(m, part);
  *sum = 0;
  for (int64_t i = 0; m->map && i < r.count; i++) {
    const size_t at = (size_t)i * r.bytes;
    *sum += rdt_bitsum_copy(m->map + r.at + (size_t)i * r.apart, (const char *)data + at, offset + at, r.bytes, true);
  }
  if (m->map) return RDT_OK;
  RDT_TRY(rdt_matrix_write(m, part, data, why));
  *sum = rdt_bitsum_apart(data, offset, (size_t)r.count * r.bytes);
  return RDT_OK;
}

rdt_status rdt_matrix_sum(const rdt_matrix *m, const rdt_part_of *part, void *buffer, size_t room, uint64_t *sum,
                          rdt_reason *why) {
  const runs r = runs_of(m, part);
  *sum = 0;
  for (int64_t i = 0; i < r.count; i++)
    for (size_t done = 0; done < r.bytes;) {
      const size_t n = r.bytes - done < room ? r.bytes - done : room;
      RDT_TRY(whole_read(m, buffer, n, r.at + (size_t)i * r.apart + done, why));
      *sum += rdt_bitsum_apart(buffer, (size_t)i * r.bytes + done, n);
      done += n;
    }
  return RDT_OK;
}

rdt_status rdt_matrix_sync(const rdt_matrix *m, rdt_reason *why) {
  if (fsync(m->fd) != 0) return rdt_file_fail(why, m->path, "written", errno, "");
  (void)posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED); /* only a wish */
  return RDT_OK;
}
