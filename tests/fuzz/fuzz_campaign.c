/* Any bytes as folders of campaigns, as a killed `redoubt inject -o` or an editor may leave them: campaign.json, an
 * empty line, trials.jsonl, an empty line, and the next folder. What is read is shown in every way; --resume keeps its
 * whole lines and nothing else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "campaign/study.h"
#include "report/json.h"

enum { FOLDERS = 2, FILES = 2 };
static const char *const names[FILES] = {"campaign.json", "trials.jsonl"};
static char base[64];

static void clean(void) {
  char path[128];
  for (int i = 0; i < FOLDERS; i++) {
    for (int k = 0; k < FILES; k++) {
      snprintf(path, sizeof path, "%s/%d/%s", base, i, names[k]);
      unlink(path);
    }
    snprintf(path, sizeof path, "%s/%d", base, i);
    rmdir(path);
  }
  rmdir(base);
}

static void begin(void) {
  char path[128];
  if (*base) return;
  snprintf(base, sizeof base, "%s/redoubt-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(base)) abort();
  atexit(clean);
  for (int i = 0; i < FOLDERS; i++) {
    snprintf(path, sizeof path, "%s/%d", base, i);
    if (mkdir(path, 0777) != 0) abort();
  }
}

static void put(int folder, int file, const uint8_t *data, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "%s/%d/%s", base, folder, names[file]);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

static void show(rdt_study *s) {
  rdt_reason why = {""};
  char *text = NULL;
  FILE *null = fopen("/dev/null", "w");
  rdt_study_name(s);
  if (!null || !rdt_study_markdown(s, null) || !rdt_study_csv(s, null)) abort();
  fclose(null);
  if (rdt_study_page(s, &text, &why) != RDT_OK || !text) abort();
  free(text);
  for (int i = 0; i < s->n; i++) {
    cJSON *doc = rdt_summary_json(s->list[i].head, &s->list[i].tally, 100.0, s->list[i].repairs);
    if (!doc) abort();
    cJSON_Delete(doc);
  }
}

static rdt_status counted(void *user, const rdt_trial *t, const char *line, rdt_reason *why) {
  int64_t *bytes = user;
  (void)t;
  (void)why;
  *bytes += (int64_t)strlen(line) + 1;
  return RDT_OK;
}

/* What is read is what stays. */
static void resume(const char *dir, const uint8_t *data, size_t size) {
  rdt_folder f;
  rdt_reason why = {""};
  struct stat st;
  int64_t bytes = 0;
  if (rdt_folder_open(&f, dir, true, counted, &bytes, &why) != RDT_OK) {
    if (!*why.text) abort();
    return;
  }
  if (fstat(f.fd, &st) != 0 || st.st_size != bytes || (size_t)bytes > size) abort();
  if (bytes > 0 && data[bytes - 1] != '\n') abort();
  if (rdt_folder_close(&f, &why) != RDT_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static rdt_study s;
  rdt_reason why = {""};
  rdt_status status = RDT_OK;
  char dir[FOLDERS][128];
  begin();
  for (int i = 0; i < FOLDERS; i++) {
    snprintf(dir[i], sizeof *dir, "%s/%d", base, i);
    const uint8_t *trials = data;
    size_t count = 0;
    for (int k = 0; k < FILES; k++) {
      const uint8_t *end = size ? memmem(data, size, "\n\n", 2) : NULL;
      const size_t part = end ? (size_t)(end - data) + 1 : size;
      put(i, k, data, part);
      trials = data;
      count = part;
      data += part + (end != NULL);
      size -= part + (end != NULL);
    }
    if (status == RDT_OK && (i == 0 || count > 0)) status = rdt_study_add(&s, dir[i], &why);
    resume(dir[i], trials, count);
  }
  if (status == RDT_OK)
    show(&s);
  else if (!*why.text)
    abort();
  rdt_study_clear(&s);
  return 0;
}
