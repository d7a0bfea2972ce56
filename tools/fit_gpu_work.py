#!/usr/bin/env python3
"""Fits src/plan/work_gpu.def, what policy `model` knows of a GPU's kernels, to what `redoubt plan --device cuda:0` has measured.

usage: tools/fit_gpu_work.py CACHE.json GB_PER_S          prints the rows
       tools/fit_gpu_work.py CACHE.json GB_PER_S --write  writes them

CACHE.json is $XDG_CACHE_HOME/redoubt/plan-gpu-*.json: of each product every kernel's time. A row is a kernel and a check: us of a launch, of
2^20 multiply-adds of a block, of 1024 steps along k, of sharing k among blocks, and how often operands and result are moved at the device's speed. Where a kernel was measured less
often than SOME times there is no row. The model is that of src/plan/work_gpu.c; fitted are medians' logarithms, by a random search whose seed
is fixed. fitted_flops of src/plan/work_gpu.c is the peak that `redoubt plan` told of that run (GFLOP/s).
"""
import argparse
import collections
import math
import os
import random
import re

import record

SOME, MOST, SMS, STEPS, SMALL = 10, 120, 132, 330, 4096
FILE = os.path.join(record.ROOT, "src", "plan", "work_gpu.def")
HEAD = """/* Written by tools/fit_gpu_work.py: do not edit. GPU_WORK(kernel, scheme, rows and columns of a tile, us of a launch, us of a block for 2^20
 * multiply-adds, us of 1024 steps along k, us more where blocks share k, how often
 * operands and result are moved); NVIDIA H200, f16. */
/* clang-format off */
"""
SCHEMES = ("none", "row", "tile", "global", "thread1", "thread2", "replicate", "col")


def up(x, by):
    return -(-x // by)


def body_of(kernel, scheme):
    """What stands behind the datatype, without check, layout and splits; and the splits that it names."""
    splits = re.search(r"_s(\d+)$", kernel)
    name = re.sub(r"(_t)?(_s\d+)?$", "", kernel).removeprefix("gemm_f16_")
    return name.removesuffix("_" + scheme), int(splits.group(1)) if splits else 0


def options_of(name, m, n, k, splits):
    """Rows and columns of a tile; and what there is to compute with each number of blocks that share k, as many as a kernel may choose from."""
    size = re.search(r"(\d+)x(\d+)", name)
    rows, columns = (int(size.group(1)), int(size.group(2))) if size else (128, 128)
    tiles, options = up(m, rows) * up(n, columns), []
    for each in [splits] if splits else (1, 2, 4, 8, 16) if "fused" in name else (1,):
        waves = max(1.0, tiles * each / SMS) if rows * columns <= SMALL else up(tiles * each, SMS)
        options.append((waves * up(k, each) * rows * columns / 2**20, up(k, each) / 1024, each > 1))
    return options, rows, columns


def seconds(point, row):
    options, moved, _ = point
    start, each, chain, share, often = row
    return start + min(share * shared + ((product * each)**3 + (steps * chain)**3 + (moved * often)**3)**(1 / 3) for product, steps, shared in options)


def lost(points, logs):
    row = [math.exp(x) for x in logs]
    errors = [abs(math.log(seconds(point, row) / point[2])) for point in points]
    return sum(error if error > 0.1 else 5 * error * error + 0.05 for error in errors) / len(errors)


def fit(points):
    best = None
    for each in (0.03, 0.3, 2.0):
        at, step = [math.log(1.5), math.log(each), 0.0, 0.0, 0.1], [0.3, 0.5, 0.5, 0.5, 0.2]
        least = lost(points, at)
        for _ in range(STEPS):
            there = [x + random.gauss(0, s) for x, s in zip(at, step)]
            found = lost(points, there)
            if found < least:
                at, least, step = there, found, [1.1 * s for s in step]
            else:
                step = [max(0.01, 0.985 * s) for s in step]
        if best is None or least < best[0]:
            best = least, at
    return best[0], [math.exp(x) for x in best[1]]


def read(path, bandwidth):
    """Of each kernel and check the points that were measured."""
    problems = record.read(path, "problems")["problems"]
    with record.of(path):
        return points_of(problems, bandwidth)


def points_of(problems, bandwidth):
    found = collections.defaultdict(list)
    for problem in problems:
        shape = re.search(r"in=f16 (\d+)x(\d+) warm=f16 \d+x(\d+)", problem["problem"])
        if not shape:
            continue  # of another datatype: they are in one file
        m, k, n = (int(x) for x in shape.groups())
        moved = 2e6 * (m * k + k * n + m * n) / bandwidth
        for c in problem["candidates"]:
            scheme = c["scheme"]
            if scheme not in SCHEMES or c["kernel"].startswith("cublas") or not c["ns"]:
                continue
            name, splits = body_of(c["kernel"], scheme)
            options, rows, columns = options_of(name, m, n, k, splits)
            found[(name, scheme, rows, columns)].append((options, moved, sorted(c["ns"])[len(c["ns"]) // 2] / 1e3))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache")
    parser.add_argument("bandwidth", type=float, help="GB/s")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    random.seed(1)
    rows = []
    for (name, scheme, high, wide), points in sorted(read(options.cache, 1e9 * options.bandwidth).items()):
        if len(points) < SOME:
            continue
        error, row = fit(random.sample(points, MOST) if len(points) > MOST else points)
        rows.append(f'GPU_WORK("{name}", "{scheme}", {high}, {wide}, {row[0]:.3g}, {row[1]:.3g}, {row[2]:.3g}, {row[3]:.3g}, {row[4]:.3g})')
        print(f"{rows[-1]}  {len(points)} points, off by {100 * error:.0f} %", flush=True)
    if options.write:
        with open(FILE, "w", encoding="utf-8") as file:
            file.write(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
