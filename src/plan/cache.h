/* Books on disk: plan files, and the cache that every plan of a user's may draw on. */
#ifndef RDT_PLAN_CACHE_H
#define RDT_PLAN_CACHE_H

#include <cjson/cJSON.h>

#include "plan/book.h"

#define RDT_PLAN_SCHEMA "redoubt.plan/2"

/* {"schema", "redoubt", "machine", "checkpoints", "problems": [{problem, choice, candidates: [{kernel, scheme, fused,
 * ns}]}]}; NULL: no memory. choices: with what was chosen, and only problems for which something was. */
cJSON *rdt_book_document(const rdt_book *b, int threads, bool choices);
/* The other way; path is for messages. Whatever the document is, the book is one that could have been written. */
rdt_status rdt_book_parse(const cJSON *doc, const char *path, rdt_book **b, rdt_reason *why);
/* A plan file of this machine, or the user's cache. RDT_ERR_IO, RDT_ERR_FORMAT damaged, RDT_ERR_UNSUPPORTED foreign or
 * stale, with what differs. */
rdt_status rdt_book_read(const char *path, int threads, rdt_book **b, rdt_reason *why);
rdt_status rdt_cache_file(int threads, char *path, size_t size, rdt_reason *why);
/* Adds the entries to a cache file, without their choices: what others have added in the meantime stays, and a file
 * that is damaged, foreign or stale is replaced. RDT_ERR_IO: another process does not let go of it. */
rdt_status rdt_cache_merge(const char *path, int threads, const rdt_book *b, rdt_reason *why);
/* Moves the entries of from to b; of two of one key the one of from stays. from is freed. */
rdt_status rdt_book_absorb(rdt_book *b, rdt_book *from);

#endif
