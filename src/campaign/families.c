#include "campaign/families.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int claimed;
  const char *text;
} FAMILIES[] = {
#define X(id, name, claimed, text) {name, claimed, text},
    RDT_FAMILY_TABLE(X)
#undef X
};

const char *rdt_family_name(rdt_family f) {
  return FAMILIES[f].name;
}

const char *rdt_family_text(rdt_family f) {
  return FAMILIES[f].text;
}

int rdt_family_claimed(rdt_family f) {
  return FAMILIES[f].claimed;
}

rdt_family rdt_family_find(const char *name) {
  int f = 0;
  while (f < RDT_FAMILY_COUNT && strcmp(FAMILIES[f].name, name) != 0) f++;
  return (rdt_family)f;
}

uint64_t rdt_rng_next(rdt_rng *r) { /* splitmix64 */
  uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

double rdt_rng_uniform(rdt_rng *r) {
  return (double)(rdt_rng_next(r) >> 11) * 0x1p-53;
}

double rdt_rng_normal(rdt_rng *r) {
  if (r->has_spare) {
    r->has_spare = 0;
    return r->spare;
  }
  double x, y, s;
  do {
    x = 2.0 * rdt_rng_uniform(r) - 1.0;
    y = 2.0 * rdt_rng_uniform(r) - 1.0;
    s = x * x + y * y;
  } while (s >= 1.0 || s == 0.0);
  const double f = sqrt(-2.0 * log(s) / s);
  r->spare = y * f;
  r->has_spare = 1;
  return x * f;
}

static double student3(rdt_rng *r) {
  const double x = rdt_rng_normal(r), y = rdt_rng_normal(r), z = rdt_rng_normal(r);
  return rdt_rng_normal(r) / sqrt((x * x + y * y + z * z) / 3.0);
}

static double power_of_ten(rdt_rng *r) {
  return pow(10.0, 4.0 * rdt_rng_uniform(r) - 2.0);
}

static double value(rdt_family f, rdt_rng *r) {
  switch (f) {
    case RDT_FAMILY_HEAVY:
      return student3(r);
    case RDT_FAMILY_POSITIVE:
    case RDT_FAMILY_BLOCKS:
      return rdt_rng_uniform(r) + 0x1p-20;
    default:
      return rdt_rng_normal(r);
  }
}

void rdt_family_fill_a(rdt_family f, rdt_rng *r, int64_t rows, int64_t k, double *a) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t t = 0; t < k; t++) {
      double *x = &a[i * k + t];
      if (f == RDT_FAMILY_CANCELLING && t >= (k + 1) / 2) {
        *x = a[i * k + t - (k + 1) / 2];
        continue;
      }
      *x = value(f, r);
      if (f == RDT_FAMILY_RELU) *x = fmax(*x, 0.0);
      if (f == RDT_FAMILY_MIXED) *x *= power_of_ten(r);
    }
  }
}

void rdt_family_fill_b(rdt_family f, rdt_rng *r, int64_t k, int64_t columns, double *b) {
  for (int64_t t = 0; t < k; t++) {
    const double scale = f == RDT_FAMILY_MIXED ? power_of_ten(r) : 1.0;
    for (int64_t j = 0; j < columns; j++) {
      double *x = &b[t * columns + j];
      if (f == RDT_FAMILY_CANCELLING && t >= (k + 1) / 2) {
        *x = -b[(t - (k + 1) / 2) * columns + j];
      } else if (f == RDT_FAMILY_DUPLICATED && j % 4 != 0) {
        *x = b[t * columns + j - j % 4];
      } else {
        *x = value(f, r) * scale;
        if (f == RDT_FAMILY_BLOCKS && t >= k / 2) *x = -*x;
      }
    }
  }
}
