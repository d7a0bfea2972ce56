/* Runs a fuzz target once for each file of the given folders: without libFuzzer, in every build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
  struct stat st;
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    return 1;
  }
  int failed = fstat(fileno(f), &st) != 0;
  const size_t size = failed ? 0 : (size_t)st.st_size;
  uint8_t *data = malloc(size + 1);
  failed = failed || !data || fread(data, 1, size, f) != size;
  if (!failed) LLVMFuzzerTestOneInput(data, size);
  free(data);
  fclose(f);
  return failed;
}

int main(int argc, char **argv) {
  int files = 0, failed = 0;
  for (int i = 1; i < argc; i++) {
    DIR *d = opendir(argv[i]);
    if (!d) {
      perror(argv[i]);
      return 1;
    }
    for (struct dirent *e; (e = readdir(d));) {
      char path[4096];
      if (e->d_name[0] == '.') continue;
      snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
      failed += replay(path);
      files++;
    }
    closedir(d);
  }
  printf("%d files replayed, %d unreadable\n", files, failed);
  return failed || files == 0;
}
