#include "report/words.h"

#include <stddef.h>
#include <string.h>

typedef struct meaning {
  const char *name, *text;
} meaning;

static const meaning diagnoses[] = {
    {"transient", "the same code path gave another, good result the second time"},
    {"persistent", "the same code path failed again; other cores, or another path, gave a good result"},
    {"checker", "what checks was hit, and not the data"},
    {"memory", "data at rest had changed between two uses"},
    {"unknown", "it was rebuilt and not computed again, or nothing that was tried settled it"},
};

static const meaning rungs[] = {
    {"secure", "data at rest were compared with their sums"},
    {"correct", "rebuilt from checksums of rows and columns"},
    {"recompute", "computed again on the same code path"},
    {"apart", "computed again on the same code path, with the check in passes of its own"},
    {"checksum", "the checksums were made again from the weights"},
    {"other core", "computed again on the same code path, on other cores"},
    {"other path", "computed again on another code path"},
};

#define COUNT(table) (sizeof table / sizeof *table)

static const char *find(const meaning *table, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(table[i].name, name) == 0) return table[i].text;
  return "";
}

rdt_verdict rdt_verdict_find(const char *name) {
  int v = RDT_CLEAN;
  while (v <= RDT_DETECTED && strcmp(rdt_verdict_name((rdt_verdict)v), name) != 0) v++;
  return (rdt_verdict)v;
}

const char *rdt_verdict_meaning(rdt_verdict v) {
  static const char *const meanings[] = {
      [RDT_CLEAN] = "every check passed",
      [RDT_RECOMPUTED] = "what was wrong was computed or read again and passed its checks",
      [RDT_CORRECTED] = "what was wrong was rebuilt from checksums, within a stated bound",
      [RDT_UNCHECKED] =
          "no fault is left that was seen, but not everything could be checked or was asked to be; never the same as "
          "CLEAN",
      [RDT_DETECTED] = "a fault was found and not repaired: do not use the outputs",
  };
  return (size_t)v < COUNT(meanings) ? meanings[v] : "";
}

const char *rdt_diagnosis_meaning(const char *name) {
  return find(diagnoses, COUNT(diagnoses), name);
}

const char *rdt_rung_meaning(const char *name) {
  return find(rungs, COUNT(rungs), name);
}

const char *rdt_on_fault_name(rdt_on_fault policy) {
  static const char *const names[] = {
      [RDT_ON_FAULT_RECOMPUTE] = "recompute",
      [RDT_ON_FAULT_REPORT] = "report",
      [RDT_ON_FAULT_ABORT] = "abort",
      [RDT_ON_FAULT_CORRECT] = "correct",
  };
  return (size_t)policy < COUNT(names) ? names[policy] : "unknown";
}
