#include "util_folder.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

char util_folder[64];

/* In memory where there is plenty of it: whoever writes a file waits for the disk, and tests write thousands. */
char *util_folder_new(char folder[64], const char *name) {
  static const char memory[] = "/dev/shm";
  struct statvfs s;
  const bool room =
      access(memory, W_OK | X_OK) == 0 && statvfs(memory, &s) == 0 && (double)s.f_bavail * (double)s.f_frsize > 1e9;
  snprintf(folder, 64, "%s/redoubt-%s-XXXXXX", room ? memory : "/tmp", name);
  return mkdtemp(folder);
}

int util_folder_make(void **state) {
  (void)state;
  return util_folder_new(util_folder, "test") ? 0 : -1;
}

int util_folder_make_cache(void **state) {
  return util_folder_make(state) == 0 ? setenv("XDG_CACHE_HOME", util_folder, 1) : -1;
}

int util_folder_remove(void **state) {
  char command[128];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s", util_folder);
  return system(command);
}
