#!/usr/bin/env python3
"""Fits src/plan/work.def: what kernels and checks do for each part of a problem, from times that `redoubt plan` measured.

usage: tools/fit_work.py REDOUBT [--threads 1,2] [--isa avx2] [--check | --write] [WORKLOAD[@DTYPE]...]
  tools/fit_work.py build/cli/redoubt --check resnet50 dlrm-top resnet50@s8
  tools/fit_work.py build/cli/redoubt --write

Plans each workload (those below where none is named; from the cache where it was measured before; needs numpy) with the best instruction set
of this machine or --isa, reads the device's constants from `redoubt info`, and prints a line of the table for each kernel and check that was measured, with how
many times it rests on, and how far 50 and 90 in 100 of them are off. Then what the choice by the fitted table would lose against the measured
one, and what the table in use loses: --check prints only that, --write puts the lines in place of those of src/plan/work.def that they are of,
or with AVX-512 of src/plan/work_avx512.def. Integers, which go by work.def everywhere, are no part of
the fit: with lines of their own they lost more. Work is never negative; times count by their relative error, those near the fastest twice, and outliers less.
"""
import argparse
import math
import os
import re
import sys

import numpy
import record

COLUMNS = ["run", "meet", "product", "a", "image", "c", "b", "met", "row", "col", "weights", "data"]
# what a product, a convolution, and their checks may depend on: the rest stays 0
MAY = {"kernel": {"run", "meet", "product", "a", "c", "b", "row", "weights", "data"},
       "check": {"run", "meet", "a", "image", "c", "b", "met", "row", "col", "weights", "data"}}
MULTIPLIES = {"thread1", "thread2", "replicate", "replicate1"}  # of the checks, those that compute along with the product
ENOUGH = 20  # times that a written line rests on
WORTH_A_THREAD = 2e6  # as in src/plan/estimate.c
VECTORS = 2  # of columns that own kernels compute together
SIZES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "s8": 1, "u8": 1}
LANES = {"generic": 32, "avx2": 32, "avx512": 64}  # bytes, as src/plan/estimate.c has them
PLAN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "plan")
WORKLOADS = ["alexnet", "resnet50", "squeezenet", "shufflenet", "dlrm-bottom", "dlrm-bottom:256", "dlrm-top", "dlrm-top:256", "noscope-coral",
             "square-64", "square-128", "square-256", "square-512", "resnet50@s8", "dlrm-bottom@s8", "dlrm-top@s8", "dlrm-top:256@s8",
             "dlrm-top:256@u8", "square-128@s8", "square-256@s8", "square-512@s8", "square-512@u8"]


def ask(*call):
    return record.said(call)[0]


def scale(layer, limits, cold, cache, dtype, lanes):
    """Seconds of one unit of each column, for this layer on this device: scale_of of src/plan/estimate.c."""
    peak = {row["dtype"]: 1e9 * row["gflops"] for row in limits["peaks"]}
    conv, m, n, k, groups = layer["op"].startswith("conv"), layer["m"], layer["n"], layer["k"], layer["groups"]
    threads = 1 if layer["flops"] < WORTH_A_THREAD else limits["threads"]
    share = threads / limits["threads"]
    product, operation = 1 / (share * peak[dtype]), 1 / (share * peak["f32"])
    size, of_result = SIZES[dtype], max(SIZES[dtype], 4)  # the raw result's
    b, c = n * k * groups, m * n * groups
    image = (layer["bytes"] - c * of_result) / size - b
    images = layer["shape"][0] if conv else 1
    bandwidth, moved = 1e9 * limits["bandwidth_gbs"], size * image + of_result * c
    units = [1e-9 * limits["step_ns"], 1e-6 * limits["meeting_us"] if threads > 1 else 0, layer["flops"] * product,
             m * k * groups * operation, image * operation, c * operation, b * operation, images * b * operation, m * operation,
             images * n * groups * operation, size * b / bandwidth if cold else 0, moved / bandwidth if moved > cache / 2 else 0]
    panel = VECTORS * lanes / of_result
    filled = math.ceil(n * groups / panel) * panel / (n * groups)
    return numpy.array(units), filled


def collect(options):
    """Layers, each with its candidates and the units of its columns."""
    found = []
    if options.isa:
        os.environ["REDOUBT_ISA"] = options.isa
    for threads in options.threads.split(","):
        info = ask(options.redoubt, "info", "--threads", threads, "--json")
        options.table = os.path.join(PLAN, "work_avx512.def" if info["isa"] == "avx512" else "work.def")
        for name in options.workloads:
            found += layers_of(options.redoubt, name, threads, info)
    return found


def layers_of(redoubt, name, threads, info):
    workload, dtype = [*name.split("@"), "f32"][:2]
    plan = ask(redoubt, "plan", "--workload", workload, "--dtype", dtype, "--threads", threads, "--explain", "--json", "-q")
    for size in plan["sizes"]:
        for layer in size["layers"]:
            units, filled = scale(layer, info["limits"], size["cold"], last_level_cache(), dtype, LANES[info["isa"]])
            timed = [each for each in layer["candidates"] if each["seconds"]]
            yield {"layer": layer, "units": units, "filled": filled, "timed": timed, "exact": dtype in ("s8", "u8"),
                   "name": f"{name} {layer['name']}, {info['isa']}, {threads} threads"}


def last_level_cache():
    with open("/sys/devices/system/cpu/cpu0/cache/index3/size", encoding="ascii") as file:
        return 1024 * float(file.read().strip().rstrip("K"))


def kernel_of(op, name):
    """The first row of the table whose end fits, as src/plan/estimate.c looks it up."""
    ends = {"gemm": ["packed_onednn", "onednn", "native"],
            "conv": ["depthwise_f32_native", "onednn", "native"]}[op]
    return next((end for end in ends if name.endswith(end)), "")


def rows_of(each, op):
    """Which rows of the table a candidate's time is the sum of."""
    if each["scheme"] == "none":
        return [("kernel", op, kernel_of(op, each["kernel"]))]
    return [("kernel", op, kernel_of(op, each["kernel"])), ("check", op, each["scheme"], each["fused"])]


def vectors_of(row):
    return VECTORS if row[0] == "kernel" and row[2] == "native" else 0


def solve(x, y, weights, rounds=400):
    """Least squares without negative numbers: coordinate descent."""
    x, y = x * weights[:, None], y * weights
    gram, right = x.T @ x, x.T @ y
    found = numpy.zeros(x.shape[1])
    live = [i for i in range(x.shape[1]) if gram[i, i] > 0]
    for _ in range(rounds):
        for i in live:
            found[i] = max(0.0, found[i] + (right[i] - gram[i] @ found) / gram[i, i])
    return found


def may(row, column):
    return column in MAY[row[0]] or (column == "product" and row[0] == "check" and row[2] in MULTIPLIES)


def fit(layers):
    rows = sorted({row for one in layers for each in one["timed"] if each["scheme"] != "dup"
                   for row in rows_of(each, one["layer"]["op"].split("+")[0])}, key=str)
    at = {row: i * len(COLUMNS) for i, row in enumerate(rows)}
    lines, importance, belongs = [], [], []
    for one in layers:
        protecting = [each["seconds"] for each in one["timed"] if each["scheme"] != "none"]
        for each in one["timed"]:
            if each["scheme"] == "dup":
                continue
            line = numpy.zeros(len(rows) * len(COLUMNS))
            mine = rows_of(each, one["layer"]["op"].split("+")[0])
            for row in mine:
                units = one["units"].copy()
                if vectors_of(row):
                    units[COLUMNS.index("product")] *= one["filled"]
                units *= [may(row, column) for column in COLUMNS]
                line[at[row]:at[row] + len(COLUMNS)] = units / each["seconds"]
            lines.append(line)
            importance.append(2.0 if each["seconds"] < 1.15 * min(protecting, default=each["seconds"]) else 1.0)
            belongs.append(mine)
    x, importance = numpy.array(lines), numpy.array(importance)
    weights = importance
    for _ in range(10):
        work = solve(x, numpy.ones(len(x)), weights)
        off = numpy.abs(x @ work - 1)
        weights = importance / numpy.sqrt(numpy.maximum(0.02, off))
    return rows, {row: work[at[row]:at[row] + len(COLUMNS)] for row in rows}, belongs, off


def number(column, value):
    return f"{value:.0f}" if column in ("run", "row", "col") else f"{value:.2f}" if column in ("product", "weights", "data") else f"{value:.1f}"


def head_of(row):
    if row[0] == "kernel":
        return f"RDT_KERNEL_WORK({row[1].upper()}, \"{row[2]}\", {vectors_of(row)}, "
    return f"RDT_CHECK_WORK({row[1].upper()}, \"{row[2]}\", {str(row[3]).lower()}, "


def line_of(row, work):
    return f"{head_of(row):<54}" + ", ".join(f"{number(*each):>4}" for each in zip(COLUMNS, work[row])) + ")"


def print_table(rows, work, belongs, off):
    for row in rows:
        errors = [error for error, mine in zip(off, belongs) if row in mine]
        print(line_of(row, work) + f"  /* {len(errors)} times, off by {numpy.quantile(errors, 0.5):.3f}, {numpy.quantile(errors, 0.9):.3f} */")


def write_table(path, rows, work, belongs):
    """Lines that rest on enough times in place of the old ones."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for row in rows:
        like = re.compile(r"\s*".join(map(re.escape, re.findall(r'\w+|"[^"]*"|[(,]', head_of(row)))))
        at = next((i for i, line in enumerate(lines) if like.match(line)), None)
        if at is None or sum(row in mine for mine in belongs) < ENOUGH:
            print(f"no such line, or too few times, left as it is: {head_of(row)}...")
            continue
        lines[at] = line_of(row, work)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def estimate(one, each, work):
    total = 0.0
    for row in rows_of(each, one["layer"]["op"].split("+")[0]):
        units = one["units"].copy()
        if vectors_of(row):
            units[COLUMNS.index("product")] *= one["filled"]
        total += units @ work[row]
    return total


def print_loss(what, layers, choose):
    """Geometric mean over the layers of what a choice takes over what the measured one does."""
    losses = []
    for one in layers:
        able = [each for each in one["timed"] if each["scheme"] not in ("none", "dup") and each["fate"] != "refused" and
                not each["reason"].startswith(("finds", "another"))]
        if able:
            losses.append((choose(one, able)["seconds"] / min(each["seconds"] for each in able), one["name"]))
    mean = math.exp(sum(math.log(loss) for loss, _ in losses) / len(losses))
    print(f"{what}: {mean:.4f} of the least, geometric mean of {len(losses)} layers; worst {max(losses)[0]:.3f} ({max(losses)[1]})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--isa", help="default: the best of this machine")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_intermixed_args()
    options.workloads = options.workloads or WORKLOADS
    layers = collect(options)
    if not options.check:
        rows, work, belongs, off = fit([one for one in layers if not one["exact"]])
        print_table(rows, work, belongs, off)
        if options.write:
            write_table(options.table, rows, work, belongs)
        print_loss("by the fitted table", layers, lambda one, able: min(able, key=lambda each: estimate(one, each, work)))
    print_loss("by the table in use", layers, lambda one, able: min(able, key=lambda each: each["cost"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
