/* redoubt info: what this machine and this build can do. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "cli.h"
#include "core/cpu_info.h"
#include "cpu/kernel.h"
#include "cuda/device.h"
#include "cuda/probe.h"
#include "net/graph.h"
#include "plan/device.h"
#include "plan/probe.h"
#include "report/table.h"
#include "schemes/scheme.h"

/* ---- what it can do at most ---- */

static const rdt_dtype dtypes[] = {RDT_F64, RDT_F32, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static cJSON *limits_document(const rdt_device *d) {
  cJSON *o = cJSON_CreateObject(), *peaks;
  cJSON_AddStringToObject(o, "date", d->date);
  cJSON_AddNumberToObject(o, "threads", d->threads);
  cJSON_AddBoolToObject(o, "kept", d->kept);
  cJSON_AddNumberToObject(o, "bandwidth_gbs", 1e-9 * d->bandwidth);
  cJSON_AddNumberToObject(o, "meeting_us", 1e6 * d->meeting);
  cJSON_AddNumberToObject(o, "step_ns", 1e9 * d->step);
  peaks = cJSON_AddArrayToObject(o, "peaks");
  for (int i = 0; i < DTYPES; i++) {
    const rdt_roof roof = rdt_device_roof(d, dtypes[i]);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "dtype", rdt_dtype_name(dtypes[i]));
    cJSON_AddStringToObject(row, "instruction", rdt_probe_name(dtypes[i]));
    cJSON_AddNumberToObject(row, "gflops", 1e-9 * roof.flops);
    cJSON_AddNumberToObject(row, "ratio", rdt_roof_ratio(roof));
    cJSON_AddItemToArray(peaks, row);
  }
  return o;
}

static bool print_limits(const rdt_device *d, bool markdown) {
  printf("limits   measured %s with %d threads%s (--measure: anew)\n", d->date, d->threads,
         d->kept ? "" : ", not kept: the cache folder cannot be written");
  printf("memory   %.1f GB/s read\n", 1e-9 * d->bandwidth);
  if (d->threads > 1) printf("meeting  %.2f us until all threads have begun and ended something\n", 1e6 * d->meeting);
  printf("step     %.2f ns of a chain of additions\n%s\n", 1e9 * d->step, markdown ? "```\n" : "");
  rdt_table *t = rdt_table_create("dtype|>GFLOP/s|>FLOP/byte|by");
  for (int i = 0; i < DTYPES; i++) {
    const rdt_roof roof = rdt_device_roof(d, dtypes[i]);
    rdt_table_cell(t, "%s", rdt_dtype_name(dtypes[i]));
    rdt_table_cell(t, "%.1f", 1e-9 * roof.flops);
    rdt_table_cell(t, "%.1f", rdt_roof_ratio(roof));
    rdt_table_cell(t, "%s", rdt_probe_name(dtypes[i]));
  }
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

/* ---- GPUs ---- */

static const rdt_dtype probed_types[] = {RDT_F16, RDT_BF16};

static void add_probed(cJSON *device, const rdt_cuda_device *d) {
  cJSON *list = cJSON_AddObjectToObject(device, "accumulation");
  for (int i = 0; i < 2; i++) {
    rdt_probed p;
    if (rdt_probe(d, probed_types[i], &p, NULL, NULL) != RDT_OK) continue;
    cJSON *o = cJSON_AddObjectToObject(list, rdt_dtype_name(probed_types[i]));
    cJSON_AddNumberToObject(o, "products_a_step", p.kb);
    cJSON_AddNumberToObject(o, "fraction_bits", p.f);
    cJSON_AddBoolToObject(o, "truncates", p.truncates);
    cJSON_AddBoolToObject(o, "as_known", p.as_known);
  }
}

static void print_probed(const rdt_cuda_device *d) {
  for (int i = 0; i < 2; i++) {
    rdt_probed p;
    rdt_reason why = {""};
    if (rdt_probe(d, probed_types[i], &p, NULL, &why) != RDT_OK)
      printf("         %s: not measured: %s\n", rdt_dtype_name(probed_types[i]), why.text);
    else
      printf("         %s: tensor cores add %d products at once, keep %d fraction bits, %s; %s\n",
             rdt_dtype_name(probed_types[i]), p.kb, p.f, p.truncates ? "cut off the rest" : "round",
             p.as_known ? "measured, as known of it" : "measured, not as known of it: bounds take the widest model");
  }
}

static cJSON *devices_document(void) {
  rdt_reason why;
  cJSON *list = cJSON_CreateArray();
  const int count = rdt_cuda_count(&why);
  for (int i = 0; i < count; i++) {
    rdt_cuda_device d;
    cJSON *o = cJSON_CreateObject();
    const bool usable = rdt_cuda_open(i, &d, &why) == RDT_OK;
    cJSON_AddNumberToObject(o, "index", i);
    cJSON_AddBoolToObject(o, "usable", usable);
    if (usable) {
      cJSON_AddStringToObject(o, "name", d.name);
      cJSON_AddNumberToObject(o, "compute_capability", d.major + 0.1 * d.minor);
      cJSON_AddNumberToObject(o, "sms", d.sms);
      cJSON_AddNumberToObject(o, "memory_bytes", (double)d.memory);
      add_probed(o, &d);
    } else {
      cJSON_AddStringToObject(o, "why", why.text);
    }
    cJSON_AddItemToArray(list, o);
  }
  return list;
}

static void print_devices(void) {
  rdt_reason why;
  const int count = rdt_cuda_count(&why);
  if (count == 0) printf("cuda     %s\n", why.text);
  for (int i = 0; i < count; i++) {
    rdt_cuda_device d;
    if (rdt_cuda_open(i, &d, &why) == RDT_OK) {
      printf("cuda:%d   %s, compute capability %d.%d, %d multiprocessors, %.0f GB, driver %d.%d\n", i, d.name, d.major,
             d.minor, d.sms, 1e-9 * (double)d.memory, d.driver / 1000, d.driver % 1000 / 10);
      print_probed(&d);
    } else {
      printf("cuda:%d   not usable: %s\n", i, why.text);
    }
  }
}

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
  rdt_device device;
  rdt_reason why = {""};
  const int threads = s->threads ? (int)s->threads : rdt_cpu_count();
  const bool known = rdt_device_find(threads, s->measure ? RDT_DEVICE_ANEW : RDT_DEVICE_KEPT, &device, &why) == RDT_OK;
  if (s->format == RDT_FORMAT_JSON) {
    char version[32];
    cJSON *doc = rdt_document("info");
    cJSON_AddStringToObject(doc, "cpu", cpu);
    cJSON_AddNumberToObject(doc, "cpus", rdt_cpu_count());
    cJSON_AddStringToObject(doc, "isa", rdt_isa_name(isa));
    cJSON_AddStringToObject(doc, "isa_of_cpu", rdt_isa_name(rdt_isa_hardware()));
    cJSON_AddBoolToObject(doc, "bf16", rdt_cpu_has_bf16());
    cJSON_AddBoolToObject(doc, "vnni", rdt_cpu_has_vnni());
    cJSON_AddBoolToObject(doc, "cuda", rdt_cuda_built());
    cJSON_AddItemToObject(doc, "devices", devices_document());
    snprintf(version, sizeof version, "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
    cJSON_AddStringToObject(doc, "onednn", version);
    cJSON_AddNumberToObject(doc, "kernels", kernels);
    cJSON_AddNumberToObject(doc, "kernels_usable", usable);
    cJSON_AddNumberToObject(doc, "schemes", schemes);
    cJSON_AddNumberToObject(doc, "ops", ops);
    cJSON_AddItemToObject(doc, "limits", known ? limits_document(&device) : cJSON_CreateNull());
    return rdt_document_print(c, doc);
  }
  const bool markdown = s->format == RDT_FORMAT_MD;
  printf("%sredoubt  %s\n", markdown ? "# This machine\n\n```\n" : "", rdt_version());
  printf("cpu      %s, %d threads\n", cpu, rdt_cpu_count());
  printf("isa      %s (REDOUBT_ISA=generic|avx2|avx512 lowers it); the CPU has %s%s%s\n", rdt_isa_name(isa),
         rdt_isa_name(rdt_isa_hardware()), rdt_cpu_has_vnni() ? ", vnni" : "", rdt_cpu_has_bf16() ? ", bf16" : "");
  print_devices();
  printf("onednn   %d.%d.%d\n", dnnl->major, dnnl->minor, dnnl->patch);
  printf("kernels  %d, of which %d run here; %d schemes; %d ONNX operators (redoubt list)\n", kernels, usable, schemes,
         ops);
  if (!known) printf("limits   not measured: %s\n%s", why.text, markdown ? "```\n" : "");
  if (!known && s->measure) return rdt_cli_fail(c, RDT_ERR_NOMEM, why.text);
  return !known || print_limits(&device, markdown) ? RDT_EXIT_OK : rdt_cli_fail(c, RDT_ERR_NOMEM, NULL);
}

static const rdt_option_id options[] = {RDT_OPT_THREADS, RDT_OPT_MEASURE, RDT_OPT_FORMAT, RDT_OPT_JSON, RDT_OPT_COUNT};
static const rdt_words examples[] = {{"redoubt info", "processor, instruction sets, kernels"},
                                     {"REDOUBT_ISA=generic redoubt info", "what is left with the plain C kernels"},
                                     {"redoubt info --measure", "peaks and bandwidth measured anew"},
                                     {"redoubt info --json", "the same for a program"},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_info = {
    .name = "info",
    .run = run,
    .options = options,
    .summary = "what this machine and this build can do",
    .text =
        "Prints the processor, the instruction set that is used, and how many kernels, "
        "schemes and operators there are. Then what was measured here: multiply-adds from "
        "registers for each datatype, reading from memory, and their ratio: a layer "
        "that does fewer operations for each byte that it moves is bound by memory, "
        "others by computing. What small layers wait for is measured too: a meeting of the threads, and a step of a "
        "chain of "
        "additions. By these `redoubt plan --policy model` estimates. It is measured by the first call, in under a "
        "second, and "
        "kept in the cache folder ($XDG_CACHE_HOME/redoubt) with its date.",
    .examples = examples};
