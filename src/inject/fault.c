#include "inject/fault.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/divisor.h"

enum { DATA, CHECKS };
static const struct {
  const char *name;
  int hits;
  const char *text;
} sites[] = {
#define X(id, name, hits, text) {name, hits, text},
#include "inject/sites.def"
#undef X
};

/* number: does the kind take ":N", and within which range; a kind without a range takes none. */
static const struct {
  const char *name, *form;
  bool optional;
  int least, most;
  const char *text;
} kinds[RDT_FAULT_KIND_COUNT] = {
    [RDT_FAULT_BIT] = {"bit", "bit[:N]", true, 0, 63, "bit N (0 is the lowest), or one that the seed chooses"},
    [RDT_FAULT_BITS] = {"bits", "bits:N", false, 1, 64, "N different bits"},
    [RDT_FAULT_ADJACENT] = {"adjacent", "adjacent", true, 0, -1, "two neighbours"},
    [RDT_FAULT_BURST] = {"burst", "burst:N", false, 1, 64,
                         "a run of N bits: the ends flipped, those between with probability 1/2"},
    [RDT_FAULT_RANDOM] = {"random", "random", true, 0, -1, "another value"},
    [RDT_FAULT_ZERO] = {"zero", "zero", true, 0, -1, "0"},
    [RDT_FAULT_STUCK0] = {"stuck0", "stuck0[:N]", true, 0, 63, "bit N, or one of the seed, reads 0"},
    [RDT_FAULT_STUCK1] = {"stuck1", "stuck1[:N]", true, 0, 63, "bit N, or one of the seed, reads 1"},
    [RDT_FAULT_NAN] = {"nan", "nan", true, 0, -1, "not a number; integers have none"},
    [RDT_FAULT_INF] = {"inf", "inf", true, 0, -1, "infinity; integers have none"},
    [RDT_FAULT_BER] = {"ber", "ber:R", true, 0, -1,
                       "every bit of all that is computed flips with probability R: the site accum"},
};

const char *rdt_fault_kind_name(rdt_fault_kind k) {
  return (unsigned)k < RDT_FAULT_KIND_COUNT ? kinds[k].name : "unknown";
}

const char *rdt_fault_kind_text(rdt_fault_kind k) {
  return (unsigned)k < RDT_FAULT_KIND_COUNT ? kinds[k].text : "unknown";
}

const char *rdt_fault_kind_form(rdt_fault_kind k) {
  return (unsigned)k < RDT_FAULT_KIND_COUNT ? kinds[k].form : "unknown";
}

const char *rdt_site_name(rdt_site s) {
  return (unsigned)s < RDT_SITE_COUNT ? sites[s].name : "unknown";
}

const char *rdt_site_text(rdt_site s) {
  return (unsigned)s < RDT_SITE_COUNT ? sites[s].text : "unknown";
}

rdt_site rdt_site_find(const char *name) {
  int s = 0;
  while (s < RDT_SITE_COUNT && strcmp(name, sites[s].name) != 0) s++;
  return (rdt_site)s;
}

bool rdt_site_checks(rdt_site s) {
  return (unsigned)s < RDT_SITE_COUNT && sites[s].hits == CHECKS;
}

static const char grammar[] =
    "KIND@SITE[,layer=GLOB][,at=I/J][,count=N[:M]][,along=row|col][,core=N|any[,lane=N][,rate=R]]"
    "[,copies=apart|differ|alike][,cores=N][,seed=S]";

/* All names of a table in one line, for the error that says what would have been right. */
static const char *all_sites(char *buf, size_t size) {
  size_t used = 0;
  for (int i = 0; i < RDT_SITE_COUNT && used < size; i++)
    used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "", sites[i].name);
  return buf;
}

static const char *all_kinds(char *buf, size_t size) {
  size_t used = 0;
  for (int i = 0; i < RDT_FAULT_KIND_COUNT && used < size; i++)
    used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "", kinds[i].form);
  return buf;
}

static bool parse_number(const char *text, long long least, long long most, long long *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && *end == '\0' && errno == 0 && *out >= least && *out <= most;
}

static bool parse_share(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && *end == '\0' && *out > 0.0 && *out < 1.0;
}

static rdt_status parse_kind(char *text, rdt_fault *f, rdt_reason *why) {
  char list[256];
  char *number = strchr(text, ':');
  if (number) *number++ = '\0';
  for (int i = 0; i < RDT_FAULT_KIND_COUNT; i++) {
    if (strcmp(text, kinds[i].name) != 0) continue;
    long long n = -1;
    if (i == RDT_FAULT_BER) {
      if (!number || !parse_share(number, &f->rate))
        return rdt_fail(why, RDT_ERR_ARG, "fault kind ber takes a probability above 0 and below 1: ber:1e-7");
      number = NULL;
    }
    if (number ? !parse_number(number, kinds[i].least, kinds[i].most, &n) : !kinds[i].optional)
      return kinds[i].most >= 0 ? rdt_fail(why, RDT_ERR_ARG, "fault kind %s takes a number from %d to %d: %s:N", text,
                                           kinds[i].least, kinds[i].most, text)
                                : rdt_fail(why, RDT_ERR_ARG, "fault kind %s takes no number", text);
    f->kind = (rdt_fault_kind)i;
    f->bits = (int)n;
    return RDT_OK;
  }
  return rdt_fail(why, RDT_ERR_ARG, "unknown fault kind '%s'; there are: %s", text, all_kinds(list, sizeof list));
}

static rdt_status parse_copies(const char *value, rdt_fault *f, rdt_reason *why) {
  static const char *const names[] = {
      [RDT_COPIES_APART] = "apart", [RDT_COPIES_DIFFER] = "differ", [RDT_COPIES_ALIKE] = "alike"};
  for (int i = RDT_COPIES_APART; i <= RDT_COPIES_ALIKE; i++)
    if (strcmp(value, names[i]) == 0) return f->copies = (rdt_fault_copies)i, RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "copies= takes apart, differ or alike, not '%s': how two of three copies are hit",
                  value);
}

enum { MOST_CORES = 64 };

/* Is the key of an option there again further on? */
static bool again(const char *option, const char *rest) {
  const size_t key = strcspn(option, "=");
  for (; rest && *rest; rest += strcspn(rest, ","), rest += *rest == ',')
    if (strncmp(rest, option, key) == 0 && rest[key] == '=') return true;
  return false;
}

static rdt_status parse_option(char *text, rdt_fault *f, rdt_reason *why) {
  char *value = strchr(text, '=');
  long long n;
  if (value) *value++ = '\0';
  if (value && strcmp(text, "layer") == 0) {
    if (*value == '\0' || strlen(value) >= sizeof f->layer)
      return rdt_fail(why, RDT_ERR_ARG, "layer= takes a name or glob of up to %zu characters", sizeof f->layer - 1);
    strcpy(f->layer, value);
    return RDT_OK;
  }
  if (value && strcmp(text, "seed") == 0) {
    char *end;
    errno = 0;
    f->seed = strtoull(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || *value == '-')
      return rdt_fail(why, RDT_ERR_ARG, "seed= takes a number from 0 to 2^64-1, got '%s'", value);
    return RDT_OK;
  }
  if (value && strcmp(text, "core") == 0) {
    const bool any = strcmp(value, "any") == 0;
    if (!any && !parse_number(value, 0, RDT_ANY_CORE - 1, &n))
      return rdt_fail(why, RDT_ERR_ARG, "core= takes a number, or any, not '%s'", value);
    f->core = any ? RDT_ANY_CORE : (int)n;
    return RDT_OK;
  }
  if (value && strcmp(text, "lane") == 0) {
    if (!parse_number(value, 0, RDT_MOST_LANES - 1, &n))
      return rdt_fail(why, RDT_ERR_ARG, "lane= takes a number from 0 to %d, not '%s'", RDT_MOST_LANES - 1, value);
    f->lane = (int)n;
    return RDT_OK;
  }
  if (value && strcmp(text, "rate") == 0)
    return parse_share(value, &f->rate)
               ? RDT_OK
               : rdt_fail(why, RDT_ERR_ARG, "rate= takes a share above 0 and below 1, not '%s'", value);
  if (value && strcmp(text, "at") == 0) {
    char *second = strchr(value, '/');
    if (second) *second++ = '\0';
    if (!parse_number(value, 0, INT64_MAX, &n))
      return rdt_fail(why, RDT_ERR_ARG, "at= takes I or I/J, not '%s'", value);
    f->at[0] = n;
    if (second && !parse_number(second, 0, INT64_MAX, &n))
      return rdt_fail(why, RDT_ERR_ARG, "at=I/J: J is not a number: '%s'", second);
    f->at[1] = second ? n : -1;
    return RDT_OK;
  }
  if (value && strcmp(text, "count") == 0) {
    char *most = strchr(value, ':');
    if (most) *most++ = '\0';
    long long m;
    if (!parse_number(value, 1, RDT_MAX_FAULTS, &n) || (most && !parse_number(most, n, RDT_MAX_FAULTS, &m)))
      return rdt_fail(why, RDT_ERR_ARG, "count= takes N or N:M, from 1 to %d faults", RDT_MAX_FAULTS);
    f->count[0] = (int)n;
    f->count[1] = most ? (int)m : (int)n;
    return RDT_OK;
  }
  if (value && strcmp(text, "along") == 0) {
    f->along = strcmp(value, "row") == 0 ? RDT_ALONG_ROW : strcmp(value, "col") == 0 ? RDT_ALONG_COL : RDT_ALONG_ANY;
    return f->along ? RDT_OK : rdt_fail(why, RDT_ERR_ARG, "along= takes row or col, not '%s'", value);
  }
  if (value && strcmp(text, "copies") == 0) return parse_copies(value, f, why);
  if (value && strcmp(text, "cores") == 0) {
    if (!parse_number(value, 2, MOST_CORES, &n))
      return rdt_fail(why, RDT_ERR_ARG, "cores= takes a number of simulated cores from 2 to %d, not '%s'", MOST_CORES,
                      value);
    f->cores = (int)n;
    return RDT_OK;
  }
  return rdt_fail(why, RDT_ERR_ARG, "unknown part '%s' in the fault; %s", text, grammar);
}

rdt_status rdt_fault_parse(const char *spec, rdt_fault *f, rdt_reason *why) {
  char text[512], list[256];
  *f = (rdt_fault){.bits = -1, .rate = 1.0, .layer = "*", .at = {-1, -1}, .core = -1, .lane = -1};
  if (strlen(spec) >= sizeof text)
    return rdt_fail(why, RDT_ERR_ARG, "the fault is longer than %zu characters", sizeof text - 1);
  strcpy(text, spec);
  char *option = strchr(text, ',');
  if (option) *option++ = '\0';
  char *site = strchr(text, '@');
  if (!site) return rdt_fail(why, RDT_ERR_ARG, "'%s' names no site; a fault is %s", text, grammar);
  *site++ = '\0';
  RDT_TRY(parse_kind(text, f, why));
  f->site = rdt_site_find(site);
  if (f->site == RDT_SITE_COUNT)
    return rdt_fail(why, RDT_ERR_ARG, "unknown site '%s'; there are: %s", site, all_sites(list, sizeof list));
  while (option) {
    char *next = strchr(option, ',');
    if (next) *next++ = '\0';
    if (again(option, next))
      return rdt_fail(why, RDT_ERR_ARG, "%.*s= is there twice in the fault", (int)strcspn(option, "="), option);
    RDT_TRY(parse_option(option, f, why));
    option = next;
  }
  if ((f->count[1] > 1 || f->along != RDT_ALONG_ANY) && f->site != RDT_SITE_ACCUM)
    return rdt_fail(why, RDT_ERR_ARG, "count= and along= are for the rows and columns of a result: the site accum");
  if (f->core >= 0 && (f->site != RDT_SITE_ACCUM || f->at[0] >= 0 || f->count[1] > 1 || f->along != RDT_ALONG_ANY))
    return rdt_fail(why, RDT_ERR_ARG,
                    "core= is a core that computes wrongly, where it happens to: with the site accum, without at=, "
                    "count= and along=");
  if (f->lane >= 0 && f->core < 0)
    return rdt_fail(why, RDT_ERR_ARG, "lane= is a lane of a core's vectors: with core=N");
  if (f->copies != RDT_COPIES_ONE &&
      (f->site != RDT_SITE_ACCUM || f->core >= 0 || f->count[1] > 1 || f->kind == RDT_FAULT_BER))
    return rdt_fail(
        why, RDT_ERR_ARG,
        "copies= are two of three copies, hit once each: with the site accum, without core=, count= and ber");
  if (f->core == RDT_ANY_CORE && (f->lane >= 0 || !(f->rate < 1.0)))
    return rdt_fail(why, RDT_ERR_ARG, "core=any is wrong now and then, in one element: with rate=R, without lane=");
  if (f->cores > 0 && f->core >= f->cores && f->core != RDT_ANY_CORE)
    return rdt_fail(why, RDT_ERR_ARG, "core=%d is none of %d simulated cores, 0 to %d", f->core, f->cores,
                    f->cores - 1);
  const bool everywhere = f->kind == RDT_FAULT_BER;
  if (everywhere && (f->site != RDT_SITE_ACCUM || f->core >= 0 || f->count[1] > 0 || f->at[0] >= 0))
    return rdt_fail(why, RDT_ERR_ARG,
                    "ber: hits whatever is computed: with the site accum, without at=, count= and core=");
  if (f->rate < 1.0 && !everywhere && f->core < 0)
    return rdt_fail(why, RDT_ERR_ARG, "rate= says how often a core is wrong: with core=N");
  return RDT_OK;
}

bool rdt_fault_matches(const rdt_fault *f, const char *node) {
  return fnmatch(f->layer, node, 0) == 0;
}

uint64_t rdt_fault_random(const rdt_fault *f, uint64_t stream) {
  uint64_t z = f->seed * 0x9e3779b97f4a7c15u + (stream + 1) * 0xd1342543de82ef95u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t rdt_fault_element(const rdt_fault *f, int64_t n, int64_t row_length) {
  if (n <= 0) return -1;
  if (f->at[0] < 0) return (int64_t)(rdt_fault_random(f, 1) % (uint64_t)n);
  int64_t e = f->at[0];
  if (f->at[1] >= 0 && (__builtin_mul_overflow(f->at[0], row_length, &e) || __builtin_add_overflow(e, f->at[1], &e)))
    return -1;
  return e < n ? e : -1;
}

int rdt_fault_copy(const rdt_fault *f) {
  enum { COPIES = 3, STREAM = 21 };
  return (int)(rdt_fault_random(f, STREAM) % COPIES);
}

int rdt_fault_count(const rdt_fault *f) {
  if (f->count[1] < 1) return 1;
  return f->count[0] + (int)(rdt_fault_random(f, 13) % (uint64_t)(f->count[1] - f->count[0] + 1));
}

rdt_along rdt_fault_along(const rdt_fault *f) {
  return f->along ? f->along : rdt_fault_random(f, 14) % 2 ? RDT_ALONG_ROW : RDT_ALONG_COL;
}

rdt_fault rdt_fault_at(const rdt_fault *f, int i) {
  rdt_fault one = *f;
  if (i > 0) one.seed = rdt_fault_random(f, 100 + (uint64_t)i);
  return one;
}

/* Steps without a divisor in common with the length come by every place once. */
int64_t rdt_fault_position(const rdt_fault *f, int64_t first, int64_t length, int i) {
  if (length < 2) return first;
  int64_t step = 1 + (int64_t)(rdt_fault_random(f, 15) % (uint64_t)(length - 1));
  while (rdt_common_divisor(step, length) != 1) step++;
  step %= length;
  for (; i > 0; i--) first = (first + step) % length;
  return first;
}

/* The highest bit of an exponent; of integers, the highest of their magnitude. */
rdt_fault rdt_fault_reason(const rdt_fault *f, rdt_dtype t) {
  return (rdt_fault){.kind = RDT_FAULT_BIT,
                     .bits = (int)rdt_dtype_size(t) * 8 - 2,
                     .rate = 1.0,
                     .site = RDT_SITE_ACCUM,
                     .layer = "*",
                     .at = {-1, -1},
                     .seed = rdt_fault_random(f, 20),
                     .core = -1,
                     .lane = -1};
}

static uint64_t ones(int count, int width) {
  const uint64_t all = width == 64 ? ~0ull : (1ull << width) - 1;
  return count >= width ? all : (1ull << count) - 1;
}

/* The bits of the exponent. */
static uint64_t exponent(rdt_dtype t) {
  switch (t) {
    case RDT_F64:
      return 0x7ffull << 52;
    case RDT_F32:
      return 0xffull << 23;
    case RDT_BF16:
      return 0xffull << 7;
    case RDT_F16:
      return 0x1full << 10;
    default:
      return 0;
  }
}

uint64_t rdt_fault_mask(const rdt_fault *f, uint64_t bits, rdt_dtype t) {
  const int width = (int)rdt_dtype_size(t) * 8;
  const uint64_t e = exponent(t), quiet = (e & ~(e << 1)) >> 1; /* the mantissa's highest bit */
  const uint64_t r = rdt_fault_random(f, 2);
  const uint64_t bit = 1ull << (f->bits >= 0 ? f->bits % width : (int)(r % (uint64_t)width));
  uint64_t mask = 0;
  switch (f->kind) {
    case RDT_FAULT_BIT:
      return bit;
    case RDT_FAULT_BITS: /* that many different ones */
      for (uint64_t s = 3; __builtin_popcountll(mask) < (f->bits < width ? f->bits : width); s++)
        mask |= 1ull << rdt_fault_random(f, s) % (uint64_t)width;
      return mask;
    case RDT_FAULT_ADJACENT:
      return 3ull << r % (uint64_t)(width - 1);
    case RDT_FAULT_BURST: { /* a run of that many, each flipped with probability 1/2, the ends always */
      const int length = f->bits < width ? f->bits : width;
      const int start = (int)(r % (uint64_t)(width - length + 1));
      const uint64_t run = (rdt_fault_random(f, 3) | 1ull | 1ull << (length - 1)) & ones(length, width);
      return run << start;
    }
    case RDT_FAULT_RANDOM:
      return (rdt_fault_random(f, 3) ^ bits) & ones(width, width);
    case RDT_FAULT_ZERO:
      return bits;
    case RDT_FAULT_STUCK0:
      return bits & bit;
    case RDT_FAULT_STUCK1:
      return ~bits & bit;
    case RDT_FAULT_NAN:
      return (~bits & (e | quiet)) & ones(width, width);
    case RDT_FAULT_INF: /* the sign stays */
      return e ? (bits ^ e) & ones(width - 1, width) : 0;
    case RDT_FAULT_BER:
    case RDT_FAULT_KIND_COUNT:
      break;
  }
  return 0;
}

void rdt_fault_apply(const rdt_fault *f, void *data, rdt_dtype t, int64_t e, double *before, double *after) {
  const size_t bytes = rdt_dtype_size(t);
  unsigned char *p = (unsigned char *)data + e * (int64_t)bytes;
  uint64_t bits = 0;
  *before = rdt_load(data, t, e);
  memcpy(&bits, p, bytes); /* little-endian */
  bits ^= rdt_fault_mask(f, bits, t);
  memcpy(p, &bits, bytes);
  *after = rdt_load(data, t, e);
}

int rdt_fault_highest(rdt_dtype t, double before, double after) {
  uint64_t bits[2] = {0, 0};
  rdt_store(&bits[0], t, 0, before);
  rdt_store(&bits[1], t, 0, after);
  return bits[0] == bits[1] ? -1 : 63 - __builtin_clzll(bits[0] ^ bits[1]);
}

/* From one flipped bit to the next the distance is geometric. */
int64_t rdt_fault_scatter(const rdt_fault *f, void *data, rdt_dtype t, int64_t n, int64_t *first, double *before,
                          double *after) {
  const int64_t width = (int64_t)rdt_dtype_size(t) * 8;
  int64_t flipped = 0;
  double at = -1.0;
  *first = -1;
  for (uint64_t s = 16;; s++) {
    const double u = (double)((rdt_fault_random(f, s) >> 11) + 1) * 0x1p-53;
    at += 1.0 + floor(log(u) / log1p(-f->rate));
    if (!(at < (double)n * (double)width)) return flipped;
    const int64_t bit = (int64_t)at, e = bit / width;
    if (flipped++ == 0) {
      *first = e;
      *before = rdt_load(data, t, e);
    }
    ((unsigned char *)data)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    if (e == *first) *after = rdt_load(data, t, e);
  }
}
