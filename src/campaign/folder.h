/* A campaign's folder: campaign.json says what it is, trials.jsonl has a line for each trial, in order. */
#ifndef RDT_CAMPAIGN_FOLDER_H
#define RDT_CAMPAIGN_FOLDER_H

#include "campaign/trial.h"

typedef struct rdt_folder {
  char path[4096]; /* of trials.jsonl */
  int fd;          /* -1: not open */
  bool made;       /* the folder was not there before */
} rdt_folder;

typedef rdt_status (*rdt_folder_fn)(void *user, const rdt_trial *t, const char *line, rdt_reason *why);

/* For writing: makes the folder where it is missing. resume: the trials that are there are told to fn, a line that was
 * cut off at the end is dropped, the rest is appended to; otherwise it must be empty of trials. RDT_ERR_ARG also while
 * somebody else has it open. */
rdt_status rdt_folder_open(rdt_folder *s, const char *dir, bool resume, rdt_folder_fn fn, void *user, rdt_reason *why);
rdt_status rdt_folder_append(rdt_folder *s, const char *line, size_t bytes, rdt_reason *why); /* with its line break */
rdt_status rdt_folder_close(rdt_folder *s, rdt_reason *why);
/* In place of closing it, where the campaign never began: its file without a trial goes, and the folder that was made.
 */
void rdt_folder_drop(rdt_folder *s, const char *dir);

/* campaign.json: NULL where there is none (RDT_OK). */
rdt_status rdt_folder_read_head(const char *dir, cJSON **head, rdt_reason *why);
rdt_status rdt_folder_write_head(const char *dir, const cJSON *head, rdt_reason *why);
/* The trials of a folder, in order; a line that was cut off at the end is left out. *whole: bytes up to its begin. */
rdt_status rdt_folder_read(const char *dir, rdt_folder_fn fn, void *user, int64_t *whole, rdt_reason *why);

#endif
