#!/usr/bin/env python3
"""What verifying weights at rest costs: --scrub each-run against off, beside the time that reading the weights takes.

usage: tools/scrub_cost.py BUILD [NAME[:sizes]...] [--rounds N] [--threads 1,2] [--json FILE]
  tools/scrub_cost.py build resnet50 minilm --json bench/results/scrub-cost.json

Runs of both settings are interleaved; times are medians. Between them as many bytes as the weights have are read by the same
number of threads (a sum of 64-bit words by NumPy): that is the read bandwidth of the same run. Weights that kernels have
packed are held twice, and verified twice: "weight bytes" are those of the model and of the packed copies.
"""
import concurrent.futures
import os
import statistics
import sys
import time

import graph_inputs
import networks
import numpy
import redoubt_api


def read_all(words, threads, pool):
    """Seconds to read them all."""
    parts = numpy.array_split(words, threads)
    start = time.perf_counter()
    list(pool.map(numpy.sum, parts))
    return time.perf_counter() - start


def measure(library, path, sizes, threads, rounds):
    feed = graph_inputs.make(path, sizes, 1)
    settings = {"off": 0, "each-run": 1}
    times = {name: [] for name in (*settings, "read")}
    models = {name: redoubt_api.Model(library, path, "auto", threads, scrub_every=every) for name, every in settings.items()}
    try:
        bound = {name: model.bind(feed) for name, model in models.items()}
        for name, model in models.items():
            for _ in range(3):
                model.run(bound[name])
        memory = models["off"].memory()
        weights = memory.constants + memory.packed
        words = numpy.random.default_rng(1).integers(0, 2**62, weights // 8)
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for _ in range(rounds):
                for name, model in models.items():
                    start = time.perf_counter()
                    verdict = model.run(bound[name])
                    times[name].append(time.perf_counter() - start)
                    if verdict != "CLEAN":
                        sys.exit(f"{path}: {verdict} without a fault")
                times["read"].append(read_all(words, threads, pool))
    finally:
        for model in models.values():
            model.close()
    off, each, read = (statistics.median(times[name]) for name in ("off", "each-run", "read"))
    return {"threads": threads, "weight_bytes": weights, "off": off, "each_run": each, "read": read,
            "read_gb_s": weights / read / 1e9, "added_over_read": (each - off) / read, "each_run_over_off": each / off}


def main():
    args = networks.options(__doc__, 21)
    library = redoubt_api.Library(os.path.join(args.build, "libredoubt.so"))
    networks.measure(args, "scrub_cost", lambda *call: measure(library, *call), lambda row:
                     f"each-run adds {1e3 * (row['each_run'] - row['off']):.2f} ms to "
                     f"{1e3 * row['off']:.2f} ms ({row['each_run_over_off']:.3f}); reading the {row['weight_bytes'] / 1e6:.0f} MB "
                     f"takes {1e3 * row['read']:.2f} ms: {row['added_over_read']:.2f} of that")


if __name__ == "__main__":
    main()
