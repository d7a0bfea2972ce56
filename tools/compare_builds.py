#!/usr/bin/env python3
"""Two builds of the library on the same networks, protected, interleaved in one process: what did the changes cost?

usage: tools/compare_builds.py BUILD BASELINE [NAME[:sizes]...] [--rounds N] [--threads 1,2] [--json FILE]
  git worktree add ../before COMMIT; cmake -S ../before -B ../before/build; make -C ../before/build
  tools/compare_builds.py build ../before/build resnet50 minilm:batch=1,sequence=128

Clean runs with --scrub off; medians, and the median of the ratios of neighbouring runs with its 95 % interval.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

import graph_inputs
import make_weights
import record
import redoubt_api

DEFAULT = ("resnet50", "minilm:batch=1,sequence=128")


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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder with libredoubt.so and cli/redoubt")
    parser.add_argument("baseline", metavar="BASELINE", help="folder of the other build")
    parser.add_argument("names", nargs="*", metavar="NAME[:dim=N,...]")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_intermixed_args()
    libraries = [redoubt_api.Library(os.path.join(build, "libredoubt.so")) for build in (args.build, args.baseline)]
    rows = []
    for text in args.names or DEFAULT:
        name, sizes = graph_inputs.sizes_of(text)
        with tempfile.TemporaryDirectory() as temporary:
            path = make_weights.graph_with_weights(name, args.dir or temporary)
            for threads in map(int, args.threads.split(",")):
                row = {"model": text, **measure(libraries, path, sizes, threads, args.rounds)}
                rows.append(row)
                print(f"{text}, {threads} thread(s): {1e3 * row['seconds']:.2f} ms, before {1e3 * row['baseline']:.2f} ms: "
                      f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})", flush=True)
    if args.json:
        redoubt = os.path.join(args.build, "cli", "redoubt")
        result = {"schema": "redoubt.compare-builds/1", "rows": rows}
        record.keep(args.json, record.document(redoubt, record.typed("tools/compare_builds.py"), 0, result))


if __name__ == "__main__":
    main()
