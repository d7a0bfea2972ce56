#include "cuda/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/device.h"

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

static rdt_status find(void *opened, const rdt_library *l, const char *name, void **function, rdt_reason *why) {
  *function = dlsym(opened, name);
  return *function ? RDT_OK
                   : rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s (%s) has no %s: another version of it is needed", l->called,
                              l->names[0], name);
}

static rdt_status find_all(void *opened, rdt_library *l, rdt_reason *why) {
  RDT_TRY(find(opened, l, l->create, (void **)&l->make, why));
  RDT_TRY(find(opened, l, l->version, (void **)&l->tell, why));
  for (int i = 0; i < l->count; i++) RDT_TRY(find(opened, l, l->symbols[i].name, l->symbols[i].function, why));
  return RDT_OK;
}

static rdt_status open_locked(rdt_library *l, rdt_reason *why) {
  void *opened = NULL;
  if (l->opened) return RDT_OK;
  for (int i = 0; !opened && l->names[i]; i++) opened = search(l->names[i]);
  if (!opened)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s (%s) was not found: not in the loader's path, CUDA_HOME, CUDA_PATH nor /usr/local/cuda; "
                    "install it or set LD_LIBRARY_PATH",
                    l->called, l->names[0]);
  const rdt_status s = find_all(opened, l, why);
  if (s != RDT_OK)
    dlclose(opened);
  else
    l->opened = opened;
  return s;
}

rdt_status rdt_library_open(rdt_library *l, int *version, rdt_reason *why) {
  pthread_mutex_lock(&l->lock);
  const rdt_status s = open_locked(l, why);
  if (s == RDT_OK && version) *version = (int)l->tell();
  pthread_mutex_unlock(&l->lock);
  return s;
}

rdt_status rdt_library_handle(rdt_library *l, void **handle, rdt_reason *why) {
  int device = 0;
  RDT_TRY(rdt_cuda_status(cudaGetDevice(&device), "cudaGetDevice", why));
  if (device >= RDT_LIBRARY_DEVICES)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "cuda:%d: %s is used on %d devices", device, l->called,
                    RDT_LIBRARY_DEVICES);
  pthread_mutex_lock(&l->lock);
  rdt_status s = open_locked(l, why);
  if (s == RDT_OK && !l->handle[device]) s = l->status(l->make(&l->handle[device]), l->create, why);
  *handle = l->handle[device];
  pthread_mutex_unlock(&l->lock);
  return s;
}
