#!/usr/bin/env python3
"""Two builds of the library on the same networks, protected, interleaved in one process: what did the changes cost?

usage: tools/compare_builds.py BUILD BASELINE [NAME[:sizes]...] [--rounds N] [--threads 1,2] [--json FILE]
  git worktree add ../before COMMIT; cmake -S ../before -B ../before/build; make -C ../before/build
  tools/compare_builds.py build ../before/build resnet50 minilm:batch=1,sequence=128

Clean runs with --scrub off; medians, and the median of the ratios of neighbouring runs with its 95 % interval.
"""
import os
import statistics
import sys
import time

import graph_inputs
import networks
import redoubt_api


def interval(values):
    """Of the median, 95 %, by order statistics."""
    ordered, n = sorted(values), len(values)
    reach = int(0.98 * n ** 0.5 + 0.5)
    return ordered[max(0, n // 2 - reach)], ordered[min(n - 1, n // 2 + reach)]


def measure(libraries, path, sizes, threads, rounds):
    feed, times = graph_inputs.make(path, sizes, 1), [[], []]
    models = [redoubt_api.Model(library, path, "auto", threads, scrub_every=0) for library in libraries]
    try:
        bound = [model.bind(feed) for model in models]
        for i in range(rounds + 3):
            order = (0, 1) if i % 2 else (1, 0)
            for which in order:
                start = time.perf_counter()
                verdict = models[which].run(bound[which])
                if i >= 3:
                    times[which].append(time.perf_counter() - start)
                if verdict != "CLEAN":
                    sys.exit(f"{path}: {verdict} without a fault")
    finally:
        for model in models:
            model.close()
    ratios = [a / b for a, b in zip(*times)]
    low, high = interval(ratios)
    return {"threads": threads, "seconds": statistics.median(times[0]), "baseline": statistics.median(times[1]),
            "ratio": statistics.median(ratios), "low": low, "high": high}


def main():
    args = networks.options(__doc__, 41, baseline="folder of the other build")
    libraries = [redoubt_api.Library(os.path.join(build, "libredoubt.so")) for build in (args.build, args.baseline)]
    networks.measure(args, "compare_builds", lambda *call: measure(libraries, *call), lambda row:
                     f"{1e3 * row['seconds']:.2f} ms, before {1e3 * row['baseline']:.2f} ms: "
                     f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})")


if __name__ == "__main__":
    main()
