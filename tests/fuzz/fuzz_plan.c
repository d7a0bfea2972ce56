/* Any bytes as a plan file whose seal fits: refused with a reason, or a book that comes back as it was written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const rdt_book *a, const rdt_book *b) {
  if (a->n != b->n) abort();
  for (int i = 0; i < a->n; i++) {
    const rdt_entry *x = &a->list[i], *y = &b->list[i];
    if (strcmp(x->key, y->key) != 0 || x->n != y->n || x->choice != y->choice) abort();
    if (rdt_book_find(a, x->key) != x) abort();
    for (int k = 0; k < x->n; k++)
      if (strcmp(x->list[k].kernel, y->list[k].kernel) != 0 || x->list[k].n != y->list[k].n) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  rdt_reason why = {""};
  rdt_book *b = NULL, *again = NULL;
  cJSON *doc = cJSON_ParseWithLength((const char *)data, size);
  if (!doc) return 0;
  if (rdt_book_parse(doc, "plan", &b, &why) != RDT_OK) {
    if (why.text[0] == '\0' || b) abort();
  } else {
    bool chosen = true;
    for (int i = 0; i < b->n; i++) chosen = chosen && b->list[i].choice >= 0;
    cJSON *written = rdt_book_document(b, 1, chosen);
    if (rdt_book_parse(written, "again", &again, &why) != RDT_OK) abort();
    for (int i = 0; i < b->n && !chosen; i++) b->list[i].choice = -1; /* a cache has none */
    compare(b, again);
    cJSON_Delete(written);
  }
  cJSON_Delete(doc);
  rdt_book_free(b);
  rdt_book_free(again);
  return 0;
}
