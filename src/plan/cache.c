#include "plan/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <redoubt/context.h>

#include "core/cpu_info.h"
#include "core/file.h"
#include "core/memory.h"
#include "cpu/onednn/onednn.h"
#include "plan/identity.h"
#include "plan/sealed_json.h"

enum { MOST_TRIALS = 1000, PATIENCE = 200 }; /* times 10 ms, for who writes just now */
static const double longest = 1e15;          /* ns: twelve days */

/* ---- writing ---- */

static cJSON *times_of(const rdt_timed *t) {
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < t->n; i++) cJSON_AddItemToArray(list, cJSON_CreateNumber(rint(1e9 * t->seconds[i])));
  return list;
}

static cJSON *candidate_of(const rdt_timed *t) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "kernel", t->kernel);
  cJSON_AddStringToObject(o, "scheme", t->scheme);
  cJSON_AddBoolToObject(o, "fused", t->fused);
  cJSON_AddItemToObject(o, "ns", times_of(t));
  return o;
}

static cJSON *problem_of(const rdt_entry *e, bool choices) {
  cJSON *o = cJSON_CreateObject(), *list = cJSON_CreateArray();
  cJSON_AddStringToObject(o, "problem", e->key);
  if (choices && e->choice >= 0) cJSON_AddNumberToObject(o, "choice", e->choice);
  for (int i = 0; i < e->n; i++)
    if (choices || !e->list[i].late) cJSON_AddItemToArray(list, candidate_of(&e->list[i]));
  cJSON_AddItemToObject(o, "candidates", list);
  return o;
}

/* Does it have anything to keep? */
static bool keeps(const rdt_entry *e) {
  bool any = e->n == 0;
  for (int i = 0; i < e->n; i++) any = any || !e->list[i].late;
  return any;
}

cJSON *rdt_book_document(const rdt_book *b, int threads, bool choices) {
  cJSON *doc = rdt_sealed_document(RDT_PLAN_SCHEMA, threads);
  char onednn[32];
  cJSON_AddStringToObject(doc, "build", rdt_build_identity());
  cJSON_AddStringToObject(doc, "onednn", rdt_onednn_version(onednn, sizeof onednn));
  if (choices && b && b->checkpoints > 1) cJSON_AddNumberToObject(doc, "checkpoints", b->checkpoints);
  cJSON *list = cJSON_AddArrayToObject(doc, "problems");
  for (int i = 0; b && i < b->n; i++)
    if (choices ? b->list[i].choice >= 0 : keeps(&b->list[i]))
      cJSON_AddItemToArray(list, problem_of(&b->list[i], choices));
  return doc;
}

/* ---- reading ---- */

static const char *text_of(const cJSON *o, const char *name, size_t size) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
  return text && strlen(text) < size ? text : NULL;
}

static bool parse_candidate(const cJSON *o, rdt_entry *e) {
  const rdt_way none = {0};
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "ns"), *fused = cJSON_GetObjectItemCaseSensitive(o, "fused");
  const int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
  const char *kernel = text_of(o, "kernel", sizeof e->list->kernel);
  const char *scheme = text_of(o, "scheme", sizeof e->list->scheme);
  if (n < 0 || n > MOST_TRIALS || !kernel || !scheme || !cJSON_IsBool(fused) || e->n == RDT_MOST_OFFERS) return false;
  rdt_timed *t = rdt_entry_add(e, &none, n);
  if (!t) return false;
  t->fused = cJSON_IsTrue(fused);
  memcpy(t->kernel, kernel, strlen(kernel) + 1);
  memcpy(t->scheme, scheme, strlen(scheme) + 1);
  int at = 0;
  const cJSON *x;
  cJSON_ArrayForEach(x, list) {
    if (!cJSON_IsNumber(x) || !(x->valuedouble >= 0.0 && x->valuedouble <= longest)) return false;
    t->seconds[at++] = 1e-9 * x->valuedouble;
  }
  return true;
}

static bool parse_entry(const cJSON *o, rdt_entry *e) {
  const char *key = text_of(o, "problem", RDT_KEY_TEXT);
  const cJSON *x, *list = cJSON_GetObjectItemCaseSensitive(o, "candidates");
  const cJSON *choice = cJSON_GetObjectItemCaseSensitive(o, "choice");
  if (!key || !cJSON_IsArray(list) || !(e->key = rdt_strdup(key))) return false;
  cJSON_ArrayForEach(x, list) {
    if (!parse_candidate(x, e)) return false;
  }
  if (!choice) return true;
  if (!cJSON_IsNumber(choice) || !(choice->valuedouble >= 0.0 && choice->valuedouble < e->n)) return false;
  e->choice = (int)choice->valuedouble;
  return e->choice == choice->valuedouble;
}

/* 0: it does not say. */
static bool parse_checkpoints(const cJSON *doc, int *n) {
  const cJSON *o = cJSON_GetObjectItemCaseSensitive(doc, "checkpoints");
  *n = 0;
  if (!o) return true;
  if (!cJSON_IsNumber(o) || !(o->valuedouble >= 2.0 && o->valuedouble <= RDT_MOST_CHECKPOINTS)) return false;
  *n = (int)o->valuedouble;
  return *n == o->valuedouble;
}

rdt_status rdt_book_parse(const cJSON *doc, const char *path, rdt_book **out, rdt_reason *why) {
  const cJSON *x, *list = cJSON_GetObjectItemCaseSensitive(doc, "problems");
  rdt_book *b = rdt_calloc(1, sizeof *b);
  int number = 0;
  *out = NULL;
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: out of memory while it was read", path);
  bool good = cJSON_IsArray(list);
  cJSON_ArrayForEach(x, list) {
    rdt_entry e = {.choice = -1};
    good = good && parse_entry(x, &e) && rdt_book_put(b, &e) == RDT_OK;
    rdt_entry_clear(&e);
    if (!good) break;
    number++;
  }
  if (good && !parse_checkpoints(doc, &b->checkpoints)) {
    rdt_book_free(b);
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: checkpoints is not a number from 2 to %d; make it anew", path,
                    RDT_MOST_CHECKPOINTS);
  }
  if (!good) {
    rdt_book_free(b);
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: problem %d is not one that was written by this program; make it anew",
                    path, number);
  }
  *out = b;
  return RDT_OK;
}

/* Of the same version, but with other kernels or checks in it, or beside another oneDNN. */
static rdt_status same_build(const cJSON *doc, const char *path, rdt_reason *why) {
  char version[32];
  const char *build = text_of(doc, "build", 17), *onednn = text_of(doc, "onednn", sizeof version);
  const bool same = build && strcmp(build, rdt_build_identity()) == 0;
  rdt_onednn_version(version, sizeof version);
  if (same && onednn && strcmp(onednn, version) == 0) return RDT_OK;
  if (same)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: was made with oneDNN %s, this runs with %s; make it anew", path,
                    onednn ? onednn : "(not said)", version);
  return rdt_fail(
      why, RDT_ERR_UNSUPPORTED,
      "%.200s: was made by another build (%s, this is %s), whose kernels or checks are others; make it anew", path,
      build ? build : "not said", rdt_build_identity());
}

rdt_status rdt_book_read(const char *path, int threads, rdt_book **b, rdt_reason *why) {
  cJSON *doc;
  *b = NULL;
  RDT_TRY(rdt_sealed_read(path, RDT_PLAN_SCHEMA, &doc, why));
  rdt_status status = rdt_sealed_serves(doc, path, threads, why);
  if (status == RDT_OK) status = same_build(doc, path, why);
  if (status == RDT_OK) status = rdt_book_parse(doc, path, b, why);
  cJSON_Delete(doc);
  return status;
}

rdt_status rdt_book_absorb(rdt_book *b, rdt_book *from) {
  rdt_status status = RDT_OK;
  for (int i = 0; i < from->n && status == RDT_OK; i++) status = rdt_book_put(b, &from->list[i]);
  for (int i = 0; i < from->n; i++) rdt_entry_clear(&from->list[i]);
  from->n = 0;
  if (from->checkpoints) b->checkpoints = from->checkpoints;
  rdt_book_free(from);
  return status;
}

/* ---- the cache ---- */

/* One file for each machine and number of threads: those that share a home folder do not displace each other. */
rdt_status rdt_cache_file(int threads, char *path, size_t size, rdt_reason *why) {
  char cpu[128], name[128];
  uint64_t sum = 14695981039346656037u;
  for (const char *c = rdt_cpu_name(cpu, sizeof cpu); *c; c++) sum = (sum ^ (unsigned char)*c) * 1099511628211u;
  snprintf(name, sizeof name, "plan-%08x-%s-%d.json", (unsigned)(sum ^ (sum >> 32)), rdt_isa_name(rdt_isa_detect()),
           threads);
  return rdt_cache_path(name, path, size, why);
}

/* The lock goes with the process that holds it, however that ends. */
static rdt_status lock(const char *path, int *fd, rdt_reason *why) {
  char name[4096];
  if (snprintf(name, sizeof name, "%s.lock", path) >= (int)sizeof name)
    return rdt_fail(why, RDT_ERR_IO, "%.200s: the path is too long", path);
  *fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (*fd < 0) {
    rdt_file_fail(why, name, "opened", errno, "; set XDG_CACHE_HOME to a folder that can be written");
    return RDT_ERR_IO;
  }
  for (int i = 0; i < PATIENCE; i++) {
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0) return RDT_OK;
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  close(*fd);
  return rdt_fail(why, RDT_ERR_IO, "%.200s: another process does not let go of it", path);
}

static rdt_status copy_into(rdt_book *to, const rdt_book *from) {
  for (int i = 0; i < from->n; i++) {
    const rdt_entry *e = &from->list[i];
    rdt_entry copy = {.choice = -1};
    bool times = false;
    for (int k = 0; k < e->n; k++) times = times || e->list[k].n > 0;
    if (!times) continue; /* a choice by cost alone */
    rdt_status status = (copy.key = rdt_strdup(e->key)) ? RDT_OK : RDT_ERR_NOMEM;
    for (int k = 0; k < e->n && status == RDT_OK; k++) {
      rdt_timed *t = rdt_entry_add(&copy, &(rdt_way){0}, e->list[k].n);
      status = t ? RDT_OK : RDT_ERR_NOMEM;
      if (!t) break;
      double *seconds = t->seconds;
      *t = e->list[k];
      t->seconds = seconds;
      memcpy(seconds, e->list[k].seconds, (size_t)t->n * sizeof *seconds);
    }
    if (status == RDT_OK) status = rdt_book_put(to, &copy);
    rdt_entry_clear(&copy);
    RDT_TRY(status);
  }
  return RDT_OK;
}

rdt_status rdt_cache_merge(const char *path, int threads, const rdt_book *b, rdt_reason *why) {
  rdt_book *all = NULL;
  int fd;
  RDT_TRY(lock(path, &fd, why));
  rdt_status status = RDT_OK;
  if (rdt_book_read(path, threads, &all, NULL) != RDT_OK) all = rdt_calloc(1, sizeof *all);
  if (!all || copy_into(all, b) != RDT_OK)
    status = rdt_fail(why, RDT_ERR_NOMEM, "%.200s: out of memory while it was written", path);
  cJSON *doc = status == RDT_OK ? rdt_book_document(all, threads, false) : NULL;
  if (doc) status = rdt_sealed_write(doc, path, why);
  cJSON_Delete(doc);
  rdt_book_free(all);
  close(fd);
  return status;
}
