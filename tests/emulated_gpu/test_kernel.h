// Small kernels as PTX around a body, for tests of the emulated GPU: run, or refused with a message.
#ifndef RDT_TEST_KERNEL_H
#define RDT_TEST_KERNEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "later.h"
#include "runtime.h"

enum { WORDS = 1024, BOX = 64 };

static uint32_t *out;      // what the kernels write: WORDS of 32 bits
static uint64_t seed = 1;  // of their order

static int setup(void **state) {
  (void)state;
  return em_take((void **)&out, WORDS * sizeof(*out), EM_DEVICE) != cudaSuccess;
}

static int teardown(void **state) {
  (void)state;
  return em_give(out, EM_DEVICE) != cudaSuccess;
}

// A kernel around a body: %rd1 is where it writes, %r1 the thread, %rd3 the thread's word, `s` shared memory whose
// address is in %r2, `l` local memory, kernel_param_1 16 bytes, kernel_param_2 a tensor map of the words, in boxes of
// BOX.
static const char *const head =
    ".version 8.4\n.target sm_90a\n.address_size 64\n"
    ".global .align 4 .u32 variable[4];\n"
    ".visible .entry kernel(\n\t.param .u64 kernel_param_0,\n\t.param .align 8 .b8 kernel_param_1[16],\n"
    "\t.param .align 64 .b8 kernel_param_2[128]\n)\n"
    ".maxntid 256, 1, 1\n{\n"
    "\t.shared .align 1024 .b8 s[4096];\n\t.local .align 16 .b8 l[64];\n"
    "\t.reg .pred %p<8>;\n\t.reg .b16 %rs<16>;\n\t.reg .b32 %r<64>;\n\t.reg .f32 %f<32>;\n"
    "\t.reg .f64 %fd<16>;\n\t.reg .b64 %rd<32>;\n"
    "\tld.param.u64 %rd1, [kernel_param_0];\n\tcvta.to.global.u64 %rd1, %rd1;\n"
    "\tmov.u32 %r1, %tid.x;\n\tmul.wide.u32 %rd2, %r1, 4;\n\tadd.s64 %rd3, %rd1, %rd2;\n\tmov.u32 %r2, s;\n";

static bool run_in(const char *body, uint32_t blocks, uint32_t threads, uint32_t cluster) {
  char *text = malloc(strlen(head) + strlen(body) + 64);
  assert_non_null(text);
  sprintf(text, "%s%s\n\tret;\n}\n", head, body);
  em_module *module = em_module_read(text, "test");
  if (!module) fail_msg("%s", em_message());
  const em_function *f = em_module_find(module, "kernel");
  bool ran = false;
  if (f) {
    const uint64_t pair[2] = {0x0123456789abcdef, 42};
    union {
      em_map map;
      uint8_t bytes[128];
    } tensor = {{.magic = EM_MAP_MAGIC,
                 .type = 2,  // words
                 .rank = 1,
                 .element_bytes = 4,
                 .base = (uint64_t)(uintptr_t)out,
                 .size = {WORDS},
                 .box = {BOX},
                 .step = {1}}};
    void *params[] = {&out, (void *)pair, &tensor};
    const em_launch launch = {.function = f,
                              .grid = {blocks, 1, 1},
                              .block = {threads, 1, 1},
                              .cluster = {cluster, 1, 1},
                              .params = params,
                              .seed = seed};
    memset(out, 0xff, WORDS * sizeof(*out));
    ran = em_launch_run(&launch);
  }
  em_module_free(module);
  free(text);
  return ran;
}

static void refused(const char *body, uint32_t blocks, uint32_t threads, uint32_t cluster, const char *why) {
  if (run_in(body, blocks, threads, cluster)) fail_msg("it ran, though it should say: %s", why);
  if (!strstr(em_message(), why)) fail_msg("\"%s\" does not say \"%s\"", em_message(), why);
}

#endif
