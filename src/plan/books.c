/* A context's book: read, written, kept. */
#include <unistd.h>

#include "core/memory.h"
#include "plan/cache.h"
#include "plan/sealed_json.h"
#include "plan/survey.h"

rdt_status rdt_context_book(rdt_context *ctx, rdt_book **b) {
  if (!ctx->book) {
    ctx->book = rdt_calloc(1, sizeof *ctx->book);
    ctx->drop_book = rdt_book_free;
  }
  *b = ctx->book;
  return ctx->book ? RDT_OK : rdt_fail(&ctx->error, RDT_ERR_NOMEM, "out of memory");
}

rdt_status rdt_context_read_plans(rdt_context *ctx, const char *path) {
  char cache[4096];
  rdt_book *b, *read = NULL;
  ctx->error.text[0] = '\0';
  if (!path) {
    RDT_TRY(rdt_cache_file(ctx->threads, cache, sizeof cache, &ctx->error));
    if (access(cache, F_OK) != 0) return RDT_OK;
  }
  RDT_TRY(rdt_context_book(ctx, &b));
  RDT_TRY(rdt_book_read(path ? path : cache, ctx->threads, &read, &ctx->error));
  const rdt_status status = rdt_book_absorb(b, read);
  return status == RDT_OK ? RDT_OK : rdt_fail(&ctx->error, status, "out of memory");
}

rdt_status rdt_context_write_plans(rdt_context *ctx, const char *path) {
  char cache[4096];
  rdt_book *b;
  ctx->error.text[0] = '\0';
  RDT_TRY(rdt_context_book(ctx, &b));
  if (!path) {
    RDT_TRY(rdt_cache_file(ctx->threads, cache, sizeof cache, &ctx->error));
    return rdt_cache_merge(cache, ctx->threads, b, &ctx->error);
  }
  cJSON *doc = rdt_book_document(b, ctx->threads, true);
  const rdt_status status = doc ? rdt_sealed_write(doc, path, &ctx->error)
                                : rdt_fail(&ctx->error, RDT_ERR_NOMEM, "%.200s: out of memory", path);
  cJSON_Delete(doc);
  return status;
}
