#include "cuda/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *open_in(const char *folder, const char *below, const char *name) {
  char path[1024];
  const int n = snprintf(path, sizeof path, "%s%s/%s", folder, below, name);
  return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *search(const char *name) {
  static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
  static const char *const folders[] = {"/usr/local/cuda", "/opt/cuda", "/usr"};
  static const char *const below[] = {"/lib64", "/lib", "/lib/x86_64-linux-gnu", "/targets/x86_64-linux/lib",
                                      "/targets/sbsa-linux/lib"};
  void *l = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; !l && i < sizeof variables / sizeof *variables; i++) {
    const char *home = getenv(variables[i]);
    for (size_t j = 0; home && !l && j < sizeof below / sizeof *below; j++) l = open_in(home, below[j], name);
  }
  for (size_t i = 0; !l && i < sizeof folders / sizeof *folders; i++)
    for (size_t j = 0; !l && j < sizeof below / sizeof *below; j++) l = open_in(folders[i], below[j], name);
  return l;
}

rdt_status rdt_library_open(const char *const *names, const rdt_library_symbol *symbols, int count, void **handle,
                            rdt_reason *why) {
  void *l = NULL;
  for (int i = 0; !l && names[i]; i++) l = search(names[i]);
  if (!l)
    return rdt_fail(
        why, RDT_ERR_UNSUPPORTED,
        "%s was not found: not in the loader's path, CUDA_HOME, CUDA_PATH nor /usr/local/cuda; install it or "
        "set LD_LIBRARY_PATH",
        names[0]);
  for (int i = 0; i < count; i++)
    if (!(*symbols[i].function = dlsym(l, symbols[i].name))) {
      dlclose(l);
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has no %s: another version of it is needed", names[0],
                      symbols[i].name);
    }
  *handle = l;
  return RDT_OK;
}
