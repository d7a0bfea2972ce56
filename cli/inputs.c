/* Inputs of a network: files and shapes by the command line. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "net/tensor_file.h"

const char *rdt_shape_text(int rank, const int64_t *shape, char *buf, size_t size) {
  size_t used = 0;
  if (rank <= 0) snprintf(buf, size, "%s", rank < 0 ? "?" : "scalar");
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)(shape[i] < 0 ? snprintf(buf + used, size - used, "%s?", i ? "x" : "")
                                  : snprintf(buf + used, size - used, "%s%lld", i ? "x" : "", (long long)shape[i]));
  return buf;
}

static rdt_status no_such_input(rdt_session *s, const char *text, size_t length) {
  char names[300] = "";
  rdt_io_info info;
  for (size_t i = 0, used = 0; i < s->n_inputs && used < sizeof names; i++) {
    RDT_TRY(rdt_model_input_info(s->model, i, &info));
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", info.name);
  }
  return rdt_fail(&s->why, RDT_ERR_NAME, "the model has no input '%.*s'; it has: %s", (int)length, text, names);
}

/* Which input "[NAME=]VALUE" is for. Without a name it is the first that has nothing yet. A value with '=' in it may be
 * a file. */
static rdt_status input_of(rdt_session *s, const bool *taken, const char *text, size_t *index, const char **value) {
  rdt_io_info info;
  const char *equals = strchr(text, '=');
  for (size_t i = 0; equals && i < s->n_inputs; i++) {
    RDT_TRY(rdt_model_input_info(s->model, i, &info));
    if (strlen(info.name) != (size_t)(equals - text) || strncmp(info.name, text, (size_t)(equals - text)) != 0)
      continue;
    if (taken[i]) return rdt_fail(&s->why, RDT_ERR_NAME, "input '%s' is given twice", info.name);
    *index = i;
    *value = equals + 1;
    return RDT_OK;
  }
  if (equals && access(text, F_OK) != 0) return no_such_input(s, text, (size_t)(equals - text));
  for (size_t i = 0; i < s->n_inputs; i++)
    if (!taken[i]) {
      *index = i;
      *value = text;
      return RDT_OK;
    }
  return rdt_fail(&s->why, RDT_ERR_NAME, "%s is one input too many: the model has %zu", text, s->n_inputs);
}

/* Part number i of "A;B;C"; the last one where there are fewer. false: it is longer than any shape */
static bool part_of(const char *text, int i, char *part, size_t size) {
  while (i-- > 0 && strchr(text, ';')) text = strchr(text, ';') + 1;
  const size_t length = strcspn(text, ";");
  snprintf(part, size, "%.*s", (int)length, text);
  return length < size;
}

rdt_status rdt_session_sizes(rdt_session *s, const rdt_settings *settings, int *sizes) {
  *sizes = 1;
  for (int i = 0; i < settings->input_shapes.count; i++) {
    int n = 1;
    for (const char *c = settings->input_shapes.at[i]; *c; c++) n += *c == ';';
    if (n > 1 && *sizes > 1 && n != *sizes)
      return rdt_fail(&s->why, RDT_ERR_ARG, "--input-shape %s gives %d sizes, another one %d: as many, or one",
                      settings->input_shapes.at[i], n, *sizes);
    if (n > *sizes) *sizes = n;
  }
  return RDT_OK;
}

void rdt_session_forget(rdt_session *s) {
  for (size_t i = 0; s->inputs && i < s->n_inputs; i++) rdt_free(s->inputs[i].data);
  rdt_free(s->inputs);
  s->inputs = NULL;
  s->n_inputs = 0;
}

/* "1x3x224x224", "scalar" */
static rdt_status parse_shape(const char *given, int size, int *rank, int64_t *shape, rdt_reason *why) {
  char text[128];
  const bool whole = part_of(given, size, text, sizeof text);
  const char *p = whole ? text : "?";
  *rank = 0;
  if (strcmp(text, "scalar") == 0) return RDT_OK;
  for (;; p++) {
    char *end;
    const long long n = isdigit((unsigned char)*p) ? strtoll(p, &end, 10) : -1;
    if (n < 0 || n > INT32_MAX || *rank == RDT_MAX_RANK || (*end && *end != 'x'))
      return rdt_fail(why, RDT_ERR_ARG, "--input-shape takes up to %d lengths as in 1x3x224x224, not '%s'",
                      RDT_MAX_RANK, text);
    shape[(*rank)++] = n;
    p = end;
    if (!*p) return RDT_OK;
  }
}

static rdt_status read_files(rdt_session *s, const rdt_texts *texts, bool *taken) {
  for (int i = 0; i < texts->count; i++) {
    size_t index = 0;
    const char *file = NULL;
    RDT_TRY(input_of(s, taken, texts->at[i], &index, &file));
    if (!*file) return rdt_fail(&s->why, RDT_ERR_ARG, "--input %s: no file is named behind the '='", texts->at[i]);
    RDT_TRY(rdt_tensor_file_read(file, &s->inputs[index], &s->why));
    taken[index] = true;
  }
  return RDT_OK;
}

static rdt_status take_shape(rdt_session *s, size_t i, int rank, const int64_t *shape) {
  rdt_io_info info;
  RDT_TRY(rdt_model_input_info(s->model, i, &info));
  s->inputs[i] = rdt_tensor_dense(NULL, info.dtype, rank, shape);
  return rdt_tensor_check(&s->inputs[i], info.name, &s->why);
}

static rdt_status take_shapes(rdt_session *s, const rdt_texts *texts, bool *taken) {
  for (int i = 0; i < texts->count; i++) {
    size_t index = 0;
    const char *text = NULL;
    int rank = 0;
    int64_t shape[RDT_MAX_RANK];
    RDT_TRY(input_of(s, taken, texts->at[i], &index, &text));
    RDT_TRY(parse_shape(text, s->size, &rank, shape, &s->why));
    RDT_TRY(take_shape(s, index, rank, shape));
    taken[index] = true;
  }
  return RDT_OK;
}

/* What the model says about the input, open dimensions taken as 1. */
static rdt_status take_declared(rdt_session *s, size_t i) {
  rdt_io_info info;
  RDT_TRY(rdt_model_input_info(s->model, i, &info));
  if (info.rank < 0)
    return rdt_fail(&s->why, RDT_ERR_SHAPE, "the model does not say the rank of input '%s': --input-shape %s=...",
                    info.name, info.name);
  for (int d = 0; d < info.rank; d++)
    if (info.shape[d] < 0) info.shape[d] = 1;
  return take_shape(s, i, info.rank, info.shape);
}

static rdt_status missing(rdt_session *s, size_t i) {
  char shape[128];
  rdt_io_info info;
  RDT_TRY(rdt_model_input_info(s->model, i, &info));
  return rdt_fail(&s->why, RDT_ERR_NAME, "input '%s' (%s %s) is missing: --input %s=FILE.npy", info.name,
                  rdt_dtype_name(info.dtype), rdt_shape_text(info.rank, info.shape, shape, sizeof shape), info.name);
}

static rdt_status settle(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind, bool *taken) {
  RDT_TRY(read_files(s, &settings->inputs, taken));
  if (kind == RDT_INPUTS_SHAPES) RDT_TRY(take_shapes(s, &settings->input_shapes, taken));
  for (size_t i = 0; i < s->n_inputs; i++)
    if (!taken[i]) RDT_TRY(kind == RDT_INPUTS_SHAPES ? take_declared(s, i) : missing(s, i));
  return RDT_OK;
}

rdt_status rdt_session_inputs(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind) {
  s->n_inputs = rdt_model_input_count(s->model);
  s->inputs = rdt_calloc(s->n_inputs, sizeof *s->inputs);
  bool *taken = rdt_calloc(s->n_inputs, sizeof *taken);
  const rdt_status status =
      s->inputs && taken ? settle(s, settings, kind, taken) : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  rdt_free(taken);
  return status;
}
