/* redoubt figures: pictures of intensities and of what protection costs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "plan/device.h"
#include "report/figures.h"

static rdt_status draw_plan(const cJSON *doc, const char *name, const char *folder, rdt_reason *why) {
  rdt_device device;
  char path[1024];
  const double threads = rdt_json_real(cJSON_GetObjectItemCaseSensitive(doc, "machine"), "threads");
  if (!(threads >= 1.0 && threads <= 1024.0)) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: names no threads", name);
  RDT_TRY(rdt_device_find((int)threads, RDT_DEVICE_KEPT, &device, why));
  if (snprintf(path, sizeof path, "%s/plan.svg", folder) >= (int)sizeof path)
    return rdt_fail(why, RDT_ERR_ARG, "%.200s: the name of the folder is too long", folder);
  return rdt_figure_plan_write(doc, name, rdt_device_roof(&device, RDT_F32), path, why);
}

static rdt_status read_document(const char *path, cJSON **doc, rdt_reason *why) {
  void *data;
  size_t bytes;
  RDT_TRY(rdt_file_read(path, &data, &bytes, why));
  *doc = cJSON_ParseWithLength(data, bytes);
  rdt_free(data);
  return *doc ? RDT_OK : rdt_fail(why, RDT_ERR_FORMAT, "%.200s: is no JSON document", path);
}

static rdt_status draw(const rdt_settings *s, const char *folder, rdt_reason *why) {
  cJSON *doc = NULL;
  rdt_status status = read_document(s->operand, &doc, why);
  for (int i = 0; status == RDT_OK && i < s->inputs.count; i++) {
    cJSON *other = NULL;
    status = read_document(s->inputs.at[i], &other, why);
    if (status == RDT_OK) status = rdt_figures_join(doc, other, s->inputs.at[i], why);
    cJSON_Delete(other);
  }
  const bool plan = strncmp(rdt_json_string(doc, "schema"), "redoubt.plan/", 13) == 0;
  if (status == RDT_OK)
    status = plan ? draw_plan(doc, s->operand, folder, why) : rdt_figures_record(doc, s->operand, folder, why);
  cJSON_Delete(doc);
  return status;
}

static int run(const rdt_command *c, const rdt_settings *s) {
  rdt_reason why = {""};
  const char *folder = s->figures ? s->figures : ".";
  rdt_status status = RDT_OK;
  if (s->inputs.count && !s->operand)
    status = rdt_fail(&why, RDT_ERR_ARG, "--and %s joins a record: name that one first, RECORD.json", s->inputs.at[0]);
  else if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    status = rdt_file_fail(&why, folder, "made", errno, "; check the folder above it");
  if (status == RDT_OK) status = s->operand ? draw(s, folder, &why) : rdt_figures_intensity(folder, &why);
  return status == RDT_OK ? RDT_EXIT_OK : rdt_cli_fail(c, status, why.text);
}

static const rdt_option_id options[] = {RDT_OPT_RECORDS, RDT_OPT_FIGURES, RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt figures -o pictures", "arithmetic intensities: nothing is measured for these"},
    {"redoubt bench workloads noscope --scheme plan,global,thread1 --json -o noscope.json", "a record to draw"},
    {"redoubt figures noscope.json -o pictures", "overheads, the roofline, where schemes cross"},
    {NULL, NULL}};
const rdt_command rdt_cmd_figures = {
    .name = "figures",
    .run = run,
    .operand = "RECORD.json|PLAN.json",
    .options = options,
    .summary = "pictures (SVG) of arithmetic intensities, of a plan, and of what benchmarks and campaigns found",
    .text =
        "Without a record: the arithmetic intensity of the built-in networks and of ResNet-50's layers "
        "(intensity-networks.svg, intensity-layers.svg). With one that `redoubt bench workloads --json` wrote: the "
        "overhead of each scheme, for each group of workloads (overhead-GROUP.svg) and for all networks "
        "(overhead-networks.svg), with the range of all trials; every layer below the device's roof, before and "
        "after protection (roofline.svg); and the intensity at which thread1 and global cross, beside the device's "
        "ratio of computing to memory (crossing.svg). With one of `redoubt bench published --json`: its curves "
        "(published-TABLE.svg). With one of tools/campaign.py with and without protection: silent corruptions of both "
        "(silent.svg). With a plan that `redoubt plan -o` wrote: its layers below the "
        "roof "
        "and their overheads (plan.svg). Pictures need nothing else, and follow the light or dark of "
        "whoever shows them.",
    .examples = examples};
