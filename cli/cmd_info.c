/* redoubt info: what this machine and this build can do. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "cli.h"
#include "core/cpu_info.h"
#include "cpu/kernel.h"
#include "net/graph.h"
#include "schemes/scheme.h"

static int run(const rdt_command *c, const rdt_settings *s) {
  char cpu[128];
  int kernels, schemes, ops, usable = 0;
  const rdt_isa isa = rdt_isa_detect();
  const rdt_kernel *const *table = rdt_cpu_kernels(&kernels);
  const dnnl_version_t *dnnl = dnnl_version();
  rdt_scheme_table(&schemes);
  rdt_op_table(&ops);
  for (int i = 0; i < kernels; i++) usable += table[i]->isa <= isa;
  rdt_cpu_name(cpu, sizeof cpu);
  if (s->format == RDT_FORMAT_JSON) {
    char version[32];
    cJSON *doc = rdt_document("info");
    cJSON_AddStringToObject(doc, "cpu", cpu);
    cJSON_AddNumberToObject(doc, "cpus", rdt_cpu_count());
    cJSON_AddStringToObject(doc, "isa", rdt_isa_name(isa));
    cJSON_AddStringToObject(doc, "isa_of_cpu", rdt_isa_name(rdt_isa_hardware()));
    cJSON_AddBoolToObject(doc, "bf16", rdt_cpu_has_bf16());
    cJSON_AddBoolToObject(doc, "vnni", rdt_cpu_has_vnni());
    cJSON_AddBoolToObject(doc, "cuda", false);
    snprintf(version, sizeof version, "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
    cJSON_AddStringToObject(doc, "onednn", version);
    cJSON_AddNumberToObject(doc, "kernels", kernels);
    cJSON_AddNumberToObject(doc, "kernels_usable", usable);
    cJSON_AddNumberToObject(doc, "schemes", schemes);
    cJSON_AddNumberToObject(doc, "ops", ops);
    return rdt_document_print(c, doc);
  }
  printf("redoubt  %s\n", rdt_version());
  printf("cpu      %s, %d threads\n", cpu, rdt_cpu_count());
  printf("isa      %s (REDOUBT_ISA=generic|avx2|avx512 lowers it); the CPU has %s%s%s\n", rdt_isa_name(isa),
         rdt_isa_name(rdt_isa_hardware()), rdt_cpu_has_vnni() ? ", vnni" : "", rdt_cpu_has_bf16() ? ", bf16" : "");
  puts("cuda     not built in");
  printf("onednn   %d.%d.%d\n", dnnl->major, dnnl->minor, dnnl->patch);
  printf("kernels  %d, of which %d run here; %d schemes; %d ONNX operators (redoubt list)\n", kernels, usable, schemes,
         ops);
  return RDT_EXIT_OK;
}

static const rdt_option_id options[] = {RDT_OPT_FORMAT, RDT_OPT_JSON, RDT_OPT_COUNT};
static const rdt_words examples[] = {{"redoubt info", "processor, instruction sets, kernels"},
                                     {"REDOUBT_ISA=generic redoubt info", "what is left with the plain C kernels"},
                                     {"redoubt info --json", "the same for a program"},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_info = {.name = "info",
                                  .run = run,
                                  .options = options,
                                  .summary = "what this machine and this build can do",
                                  .text =
                                      "Prints the processor, the instruction set that is used, and how many kernels, "
                                      "schemes and operators there are.",
                                  .examples = examples};
