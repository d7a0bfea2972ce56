#include "outofcore/ledger.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/bitsum.h"
#include "core/file.h"
#include "core/text.h"

static const char schema[] = "redoubt.sums/1";

rdt_ledger_file rdt_ledger_file_of(const rdt_matrix *m) {
  const char *slash = strrchr(m->path, '/');
  rdt_ledger_file f = {.bytes = (int64_t)(m->offset + m->bytes), .modified = m->modified};
  snprintf(f.name, sizeof f.name, "%s", slash ? slash + 1 : m->path);
  rdt_text_tame(f.name, '?');
  return f;
}

/* A line ends with a sum of what comes before it: what was changed on the disk is told from what was written so. */
static rdt_status put(int fd, const char *path, char *text, size_t room, rdt_reason *why) {
  const size_t n = strlen(text) - 1; /* less the brace that ends the object */
  const uint64_t seal = rdt_bitsum(text, n);
  const int more = snprintf(text + n, room - n, ",\"seal\":\"%016" PRIx64 "\"}\n", seal);
  const char *p = text;
  for (size_t left = n + (size_t)more; left > 0;) {
    const ssize_t put = write(fd, p, left);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return rdt_file_fail(why, path, "written", put < 0 ? errno : ENOSPC, "");
    p += put;
    left -= (size_t)put;
  }
  return RDT_OK;
}

enum { HEAD = 4096, TAIL = 64 };

static void add_file(cJSON *doc, const char *name, const rdt_ledger_file *f) {
  char modified[32];
  cJSON *o = cJSON_AddObjectToObject(doc, name);
  snprintf(modified, sizeof modified, "%" PRId64, f->modified); /* more digits than a double has */
  cJSON_AddStringToObject(o, "name", f->name);
  cJSON_AddNumberToObject(o, "bytes", (double)f->bytes);
  cJSON_AddStringToObject(o, "modified_ns", modified);
}

static void add_numbers(cJSON *doc, const char *name, int64_t a, int64_t b, int64_t c) {
  const double list[3] = {(double)a, (double)b, (double)c};
  cJSON_AddItemToObject(doc, name, cJSON_CreateDoubleArray(list, 3));
}

rdt_status rdt_ledger_lock(const char *path, int *fd, int64_t *bytes, rdt_reason *why) {
  for (;;) {
    struct stat own, there;
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0) return rdt_file_fail(why, path, "written", errno, "; check the folder and its permissions");
    if (fstat(*fd, &own) != 0) return rdt_file_fail(why, path, "written", errno, "");
    if (!S_ISREG(own.st_mode))
      return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be written: it is no regular file", path);
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) /* where files cannot be locked, nobody is kept out */
      return rdt_fail(why, RDT_ERR_IO, "%.200s: another process is writing it", path);
    *bytes = fstat(*fd, &own) == 0 ? (int64_t)own.st_size : 0;
    if (stat(path, &there) == 0 && there.st_dev == own.st_dev && there.st_ino == own.st_ino) return RDT_OK;
    close(*fd); /* whoever had it has ended meanwhile: it has another name, or none */
  }
}

rdt_status rdt_ledger_begin(int fd, const char *path, const rdt_ledger_head *head, rdt_reason *why) {
  char text[HEAD + TAIL];
  cJSON *doc = cJSON_CreateObject();
  cJSON_AddStringToObject(doc, "schema", schema);
  cJSON_AddStringToObject(doc, "redoubt", REDOUBT_VERSION);
  cJSON_AddStringToObject(doc, "dtype", rdt_dtype_name(head->dtype));
  add_numbers(doc, "mnk", head->m, head->n, head->k);
  add_numbers(doc, "block", head->splits.m, head->splits.n, head->splits.k);
  cJSON_AddStringToObject(doc, "strategy", rdt_strategy_info(head->splits.strategy)->name);
  cJSON_AddStringToObject(doc, "scheme", head->protected ? "rowcol" : "none");
  cJSON_AddStringToObject(doc, "algo", head->strassen ? "strassen" : "plain");
  add_file(doc, "a", &head->from[0]);
  add_file(doc, "b", &head->from[1]);
  const bool printed = cJSON_PrintPreallocated(doc, text, HEAD, 0);
  cJSON_Delete(doc);
  if (!printed) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for its first line", path);
  return put(fd, path, text, sizeof text, why);
}

rdt_status rdt_ledger_append(int fd, const char *path, const rdt_ledger_block *b, rdt_reason *why) {
  char text[256];
  snprintf(text, sizeof text,
           "{\"block\":[%" PRId64 ",%" PRId64 "],\"sum\":\"%016" PRIx64 "\",\"verdict\":\"%s\",\"device\":\"%s\"}",
           b->i, b->j, b->sum, rdt_verdict_name(b->verdict), b->device);
  return put(fd, path, text, sizeof text, why);
}

/* ---- reading ---- */

static bool take_numbers(const cJSON *doc, const char *name, int64_t out[3]) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(doc, name);
  if (cJSON_GetArraySize(list) != 3) return false;
  for (int i = 0; i < 3; i++) {
    const cJSON *x = cJSON_GetArrayItem(list, i);
    if (!cJSON_IsNumber(x) || !(x->valuedouble >= 0.0) || !(x->valuedouble < 0x1p53)) return false;
    out[i] = (int64_t)x->valuedouble;
  }
  return true;
}

static const char *take_text(const cJSON *doc, const char *name) {
  const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, name));
  return s ? s : "";
}

static void take_file(const cJSON *doc, const char *name, rdt_ledger_file *f) {
  const cJSON *o = cJSON_GetObjectItemCaseSensitive(doc, name);
  const double bytes = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, "bytes"));
  snprintf(f->name, sizeof f->name, "%s", take_text(o, "name"));
  f->bytes = bytes >= 0.0 && bytes < 0x1p53 ? (int64_t)bytes : -1;
  f->modified = strtoll(take_text(o, "modified_ns"), NULL, 10);
}

static bool take_head(const cJSON *doc, rdt_ledger_head *h) {
  int64_t mnk[3], block[3];
  h->dtype = rdt_dtype_find(take_text(doc, "dtype"));
  h->splits.strategy = rdt_strategy_find(take_text(doc, "strategy"));
  h->protected = strcmp(take_text(doc, "scheme"), "rowcol") == 0;
  h->strassen = strcmp(take_text(doc, "algo"), "strassen") == 0;
  if (strcmp(take_text(doc, "schema"), schema) != 0 || h->dtype == RDT_DTYPE_COUNT ||
      h->splits.strategy == RDT_STRATEGY_COUNT || !take_numbers(doc, "mnk", mnk) || !take_numbers(doc, "block", block))
    return false;
  h->m = mnk[0], h->n = mnk[1], h->k = mnk[2];
  h->splits.m = block[0], h->splits.n = block[1], h->splits.k = block[2];
  take_file(doc, "a", &h->from[0]);
  take_file(doc, "b", &h->from[1]);
  return h->splits.m > 0 && h->splits.n > 0 && h->splits.k > 0;
}

static bool take_block(const cJSON *doc, const rdt_ledger_head *h, rdt_ledger_block *b) {
  const cJSON *place = cJSON_GetObjectItemCaseSensitive(doc, "block");
  const char *sum = take_text(doc, "sum"), *verdict = take_text(doc, "verdict");
  char *end;
  if (cJSON_GetArraySize(place) != 2) return false;
  const double i = cJSON_GetNumberValue(cJSON_GetArrayItem(place, 0));
  const double j = cJSON_GetNumberValue(cJSON_GetArrayItem(place, 1));
  if (!(i >= 0 && i < (double)rdt_blocks_of(h->m, h->splits.m)) ||
      !(j >= 0 && j < (double)rdt_blocks_of(h->n, h->splits.n)))
    return false;
  b->i = (int64_t)i;
  b->j = (int64_t)j;
  b->sum = strtoull(sum, &end, 16);
  snprintf(b->device, sizeof b->device, "%s", take_text(doc, "device"));
  rdt_text_tame(b->device, '?');
  for (int v = RDT_CLEAN; v <= RDT_DETECTED; v++)
    if (strcmp(verdict, rdt_verdict_name((rdt_verdict)v)) == 0) b->verdict = (rdt_verdict)v;
  return strlen(sum) == 16 && !*end;
}

/* A whole line whose seal is that of what comes before it; NULL: it is none. */
static cJSON *parse_line(const char *line, size_t n) {
  static const char mark[] = ",\"seal\":\"";
  const size_t tail = sizeof mark - 1 + 16 + 3; /* 16 digits, "} and the line's end */
  if (n <= tail || line[n - 1] != '\n' || memcmp(line + n - tail, mark, sizeof mark - 1) != 0) return NULL;
  if (strtoull(line + n - 19, NULL, 16) != rdt_bitsum(line, n - tail)) return NULL;
  return cJSON_ParseWithLength(line, n);
}

static rdt_status read_line(const char *line, size_t n, int64_t number, rdt_ledger_head *head, rdt_ledger_fn fn,
                            void *user, bool *good, rdt_reason *why) {
  rdt_ledger_block b = {.verdict = RDT_UNCHECKED};
  cJSON *doc = parse_line(line, n);
  *good = doc && (number == 1 ? take_head(doc, head) : take_block(doc, head, &b));
  cJSON_Delete(doc);
  return *good && number > 1 ? fn(user, head, &b, why) : RDT_OK;
}

rdt_status rdt_ledger_read(const char *path, rdt_ledger_head *head, rdt_ledger_fn fn, void *user, int64_t *whole,
                           rdt_reason *why) {
  FILE *f;
  RDT_TRY(rdt_file_stream(path, true, &f, why));
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  int64_t number = 0, bad = 0;
  rdt_status status = RDT_OK;
  *whole = 0;
  while (status == RDT_OK && bad == 0 && (n = getline(&line, &room, f)) > 0) {
    bool good;
    status = read_line(line, (size_t)n, ++number, head, fn, user, &good, why);
    if (!good)
      bad = number;
    else
      *whole += n;
  }
  if (status == RDT_OK && bad > 1 && getline(&line, &room, f) <= 0) bad = 0; /* the last one: cut off by a crash */
  if (status == RDT_OK && (bad > 0 || number == 0))
    status = rdt_fail(why, RDT_ERR_FORMAT,
                      number == 0 || bad == 1 ? "%.200s: is no list of sums of a product"
                                              : "%.200s: line %" PRId64 " was changed since it was written",
                      path, bad);
  free(line);
  fclose(f);
  return status;
}
