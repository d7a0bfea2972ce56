#include "output.h"

#include <stdlib.h>

#include "net/file.h"
#include "plan/timing.h"

rdt_status rdt_bench_file_open(rdt_bench_file *o, const char *path, rdt_reason *why) {
  *o = (rdt_bench_file){.path = path};
  if (path) RDT_TRY(rdt_file_try(path, why));
  o->f = open_memstream(&o->text, &o->bytes);
  return o->f ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

int rdt_bench_file_close(rdt_bench_file *o, const char *command, int code) {
  rdt_reason why;
  rdt_status status = fclose(o->f) == 0 ? RDT_OK : rdt_fail(&why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK && code < 2 && o->path) status = rdt_file_write(o->path, o->text, o->bytes, NULL, 0, &why);
  if (status == RDT_OK && code != RDT_TIMING_STOPPED && !o->path) fwrite(o->text, 1, o->bytes, stdout);
  free(o->text);
  if (status != RDT_OK) fprintf(stderr, "redoubt %s: %s\n", command, why.text);
  return status == RDT_OK ? code : 2;
}
