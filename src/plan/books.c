/* A context's book: read, written, kept. */
#include <string.h>
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

int rdt_context_checkpoints(const rdt_context *ctx) {
  const int read = ctx->book ? ctx->book->checkpoints : 0;
  return ctx->policy.checkpoints ? ctx->policy.checkpoints : read > 1 ? read : 1;
}

rdt_status rdt_context_checkpoints_fit(rdt_context *ctx, int checkpoints, const char *what) {
  const int asked = ctx->policy.checkpoints, before = ctx->book ? ctx->book->checkpoints : 0;
  if (asked && asked != checkpoints)
    return rdt_fail(&ctx->error, RDT_ERR_UNSUPPORTED,
                    "%.200s: was made with checkpoints %d, and checkpoints %d are asked for: products in other shares "
                    "of k are other products; leave --checkpoints out (rdt_policy.checkpoints 0), which takes %d, or "
                    "make it anew with `redoubt plan --checkpoints %d`",
                    what, checkpoints, asked, checkpoints, asked);
  if (before && before != checkpoints)
    return rdt_fail(
        &ctx->error, RDT_ERR_UNSUPPORTED,
        "%.200s: was made with checkpoints %d, and what the context has of plans with %d: a context has one "
        "number",
        what, checkpoints, before);
  if (checkpoints > 1 && !ctx->policy.permanent && strcmp(ctx->scheme, "tmr-sm") != 0)
    return rdt_fail(
        &ctx->error, RDT_ERR_UNSUPPORTED,
        "%.200s: was made with checkpoints %d, for three copies that vote on the way, and the scheme here is "
        "%s: ask for --scheme tmr-sm, or make it anew with `redoubt plan` without --checkpoints",
        what, checkpoints, ctx->scheme);
  return RDT_OK;
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
  if (path) { /* times of a cache are of products, whatever they are shares of */
    if (!read->checkpoints) read->checkpoints = 1;
    const rdt_status fit = rdt_context_checkpoints_fit(ctx, read->checkpoints, path);
    if (fit != RDT_OK) {
      rdt_book_free(read);
      return fit;
    }
  }
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
