#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "screen/screen.h"

/* The first line of a file; false: there is none. */
static bool read_line(const char *path, char *line, size_t size) {
  FILE *f = fopen(path, "r");
  if (!f) return false;
  const bool read = fgets(line, (int)size, f) != NULL;
  fclose(f);
  if (read) line[strcspn(line, "\n")] = '\0';
  return read;
}

static double read_number(const char *path) {
  char line[64], *end;
  if (!read_line(path, line, sizeof line)) return NAN;
  const double x = strtod(line, &end);
  return end == line ? NAN : x;
}

double rdt_sensor_clock(const char *root, int core) {
  char path[512], line[256];
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", root, core);
  const double khz = read_number(path);
  if (!isnan(khz)) return 1e-3 * khz;
  snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
  FILE *f = fopen(path, "r");
  double mhz = NAN;
  for (int at = -1; f && fgets(line, sizeof line, f);) {
    const char *colon = strchr(line, ':');
    if (colon && strncmp(line, "processor", 9) == 0) at = atoi(colon + 1);
    if (!colon || at != core || strncmp(line, "cpu MHz", 7) != 0) continue;
    mhz = strtod(colon + 1, NULL);
    break;
  }
  if (f) fclose(f);
  return mhz > 0.0 ? mhz : NAN;
}

/* Names of sensors of processors, in thermal zones and hardware monitors. */
static bool is_processors(const char *name) {
  static const char *const known[] = {"x86_pkg_temp", "coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i]) == 0) return true;
  return false;
}

static double hottest(double a, double b) {
  return isnan(a) || b > a ? b : a;
}

/* The folders of one kind: what names one, and where its temperatures are (%d from 1 on; or one). */
static double hottest_of(const char *root, const char *kind, const char *names, const char *reads) {
  char folder[512], path[1024], name[64], file[64];
  double most = NAN;
  snprintf(folder, sizeof folder, "%s/sys/class/%s", root, kind);
  DIR *dir = opendir(folder);
  for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%.200s/%s", folder, e->d_name, names);
    if (!read_line(path, name, sizeof name) || !is_processors(name)) continue;
    for (int i = 1;; i++) {
      const bool several = strcmp(reads, "temp") != 0;
      if (several)
        snprintf(file, sizeof file, "temp%d_input", i);
      else
        snprintf(file, sizeof file, "%s", reads);
      snprintf(path, sizeof path, "%s/%.200s/%s", folder, e->d_name, file);
      const double milli = read_number(path);
      if (!isnan(milli)) most = hottest(most, 1e-3 * milli);
      if (isnan(milli) || !several) break;
    }
  }
  if (dir) closedir(dir);
  return most;
}

double rdt_sensor_temperature(const char *root) {
  const double zones = hottest_of(root, "thermal", "type", "temp");
  return hottest(zones, hottest_of(root, "hwmon", "name", "temp1_input"));
}
