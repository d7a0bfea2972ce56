/* redoubt plan --device cuda:N: which kernel and scheme each product of a workload gets on a GPU. */
#ifndef RDT_CLI_GPU_PLAN_H
#define RDT_CLI_GPU_PLAN_H

#include "cli.h"

int rdt_gpu_plan(const rdt_command *c, const rdt_settings *s);

#endif
