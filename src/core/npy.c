#include "core/npy.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";

/* The header of a .npy file: a Python dictionary, read without an interpreter. */
typedef struct header {
  const char *p, *end;
  const char *what;
  rdt_reason *why;
  char descr[16];
  bool fortran;
  int rank;
  int64_t shape[RDT_MAX_RANK];
} header;

static rdt_status malformed(const header *h, const char *text) {
  return rdt_fail(h->why, RDT_ERR_FORMAT, "%.200s: the .npy header %s; save it again with numpy.save", h->what, text);
}

static void skip_blanks(header *h) {
  while (h->p < h->end && isspace((unsigned char)*h->p)) h->p++;
}

/* Takes c if it is next, after blanks. */
static bool take(header *h, char c) {
  skip_blanks(h);
  if (h->p == h->end || *h->p != c) return false;
  h->p++;
  return true;
}

static bool take_word(header *h, const char *word) {
  const size_t n = strlen(word);
  skip_blanks(h);
  if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n) != 0) return false;
  h->p += n;
  return true;
}

static bool take_string(header *h, char *out, size_t size) {
  const char quote = take(h, '\'') ? '\'' : '"';
  size_t n = 0;
  if (quote == '"' && !take(h, '"')) return false;
  while (h->p < h->end && *h->p != quote && n + 1 < size) out[n++] = *h->p++;
  out[n] = '\0';
  return h->p < h->end && *h->p++ == quote;
}

static rdt_status read_shape(header *h) {
  if (!take(h, '(')) return malformed(h, "has a shape that is no tuple");
  while (!take(h, ')')) {
    int64_t v = 0;
    if (h->p == h->end || !isdigit((unsigned char)*h->p))
      return malformed(h, "has a shape that is not made of lengths");
    while (h->p < h->end && isdigit((unsigned char)*h->p))
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->p++ - '0', &v))
        return rdt_fail(h->why, RDT_ERR_SHAPE, "%.200s: a dimension overflows", h->what);
    take(h, 'L'); /* Python 2 */
    if (h->rank == RDT_MAX_RANK)
      return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: more than %d dimensions are not available", h->what,
                      RDT_MAX_RANK);
    h->shape[h->rank++] = v;
    if (!take(h, ',')) {
      if (!take(h, ')')) return malformed(h, "has a shape that does not end");
      return RDT_OK;
    }
  }
  return RDT_OK;
}

static rdt_status read_entry(header *h, unsigned *seen) {
  char key[24];
  if (!take_string(h, key, sizeof key) || !take(h, ':')) return malformed(h, "is no dictionary");
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  int k = 0;
  while (k < 3 && strcmp(key, keys[k]) != 0) k++;
  if (k == 3 || (*seen & (1u << k))) return malformed(h, "has unknown or repeated entries");
  *seen |= 1u << k;
  if (k == 2) return read_shape(h);
  if (k == 1) {
    h->fortran = take_word(h, "True");
    return h->fortran || take_word(h, "False") ? RDT_OK
                                               : malformed(h, "has a fortran_order that is neither True nor False");
  }
  if (take(h, '['))
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: structured arrays are not available; save one field",
                    h->what);
  return take_string(h, h->descr, sizeof h->descr) ? RDT_OK : malformed(h, "has a descr that is no short string");
}

static rdt_status read_header(header *h) {
  unsigned seen = 0;
  if (!take(h, '{')) return malformed(h, "is no dictionary");
  while (!take(h, '}')) {
    RDT_TRY(read_entry(h, &seen));
    if (!take(h, ',') && (h->p == h->end || *h->p != '}')) return malformed(h, "does not end");
  }
  skip_blanks(h);
  if (h->p != h->end) return malformed(h, "goes on behind its end");
  return seen == 7 ? RDT_OK : malformed(h, "misses descr, fortran_order or shape");
}

static rdt_status dtype_of(const header *h, rdt_dtype *out) {
  const char *d = h->descr;
  const bool order = *d == '<' || *d == '>' || *d == '=' || *d == '|';
  const char *type = order ? d + 1 : d;
  if (*d == '>')
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED,
                    "%.200s: big-endian data ('%s') is not available; convert with a.astype(a.dtype.newbyteorder('<'))",
                    h->what, d);
  if (*type == 'O')
    return rdt_fail(h->why, RDT_ERR_UNSUPPORTED, "%.200s: an array of Python objects; convert it to numbers first",
                    h->what);
  if (strcmp(type, "V2") == 0) { /* what ml_dtypes saves bfloat16 as, for NumPy has none */
    *out = RDT_BF16;
    return RDT_OK;
  }
  for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
    const char *npy = rdt_dtype_info((rdt_dtype)t)->npy;
    if (!*npy || strcmp(npy + 1, type) != 0) continue;
    *out = (rdt_dtype)t;
    return RDT_OK;
  }
  return rdt_fail(h->why, RDT_ERR_DTYPE,
                  "%.200s: datatype '%s' is not available; take f8 f4 f2 i8 i4 i1 u1 b1, or V2 for bf16", h->what, d);
}

bool rdt_npy_is(const void *data, size_t bytes) {
  return bytes >= sizeof magic - 1 && memcmp(data, magic, sizeof magic - 1) == 0;
}

rdt_status rdt_npy_parse(const void *begin, size_t bytes, const char *what, rdt_npy *out, rdt_reason *why) {
  const unsigned char *data = begin;
  header h = {.what = what, .why = why};
  const size_t fixed = sizeof magic - 1 + 2;
  if (bytes < fixed + 2) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy file is truncated", what);
  const int version = data[fixed - 2];
  if (version < 1 || version > 3)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: .npy version %d; 1 to 3 are available", what, version);
  const size_t width = version == 1 ? 2 : 4;
  size_t length = 0;
  if (bytes < fixed + width) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy file is truncated", what);
  for (size_t i = 0; i < width; i++) length |= (size_t)data[fixed + i] << (8 * i);
  if (length > bytes - fixed - width)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the .npy header is longer than the file", what);
  h.p = (const char *)data + fixed + width;
  h.end = h.p + length;
  RDT_TRY(read_header(&h));
  *out = (rdt_npy){.fortran = h.fortran, .rank = h.rank, .offset = fixed + width + length};
  memcpy(out->shape, h.shape, sizeof out->shape);
  return dtype_of(&h, &out->dtype);
}

size_t rdt_npy_head(char head[RDT_NPY_HEAD], rdt_dtype dtype, int rank, const int64_t *shape) {
  char dims[RDT_MAX_RANK * 22 + 2] = "";
  for (int d = 0, n = 0; d < rank; d++)
    n += snprintf(dims + n, sizeof dims - (size_t)n, rank == 1 ? "%lld," : d ? ", %lld" : "%lld", (long long)shape[d]);
  const int fixed = 10;
  const int text =
      snprintf(head + fixed, RDT_NPY_HEAD - (size_t)fixed, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
               rdt_dtype_info(dtype)->npy, dims);
  const int total = (fixed + text + 1 + 63) / 64 * 64; /* numpy aligns the data to 64 */
  memcpy(head, magic, sizeof magic - 1);
  head[6] = 1;
  head[7] = 0;
  head[8] = (char)((total - fixed) & 0xff);
  head[9] = (char)((total - fixed) >> 8);
  memset(head + fixed + text, ' ', (size_t)(total - fixed - text));
  head[total - 1] = '\n';
  return (size_t)total;
}
