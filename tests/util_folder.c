#include "util_folder.h"

#include <stdio.h>
#include <stdlib.h>

char util_folder[] = "/tmp/redoubt-test-XXXXXX";

int util_folder_make(void **state) {
  (void)state;
  return mkdtemp(util_folder) ? 0 : -1;
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
