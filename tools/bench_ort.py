#!/usr/bin/env python3
"""Times networks on ONNX Runtime and on Redoubt, unprotected and protected: one process, interleaved, medians.

usage: tools/bench_ort.py BUILD [NAME[:sizes]...] [--threads 1,2] [--rounds N] [--json FILE]
  tools/bench_ort.py build resnet50 mobilenet_v2
  tools/bench_ort.py build resnet50:batch=4 bert_base:batch=1,sequence=128 --json bench/results/ort-models.json

Needs numpy, onnx, onnxruntime. A round runs each contestant twice in a row and times the second: the first brings its
threads and its weights back. Ratios are medians over the rounds of the ratio within a round; low and high is where the
median lies with 95 % confidence. All contestants get the same inputs; their outputs are compared.
"""
import argparse
import math
import os
import sys
import tempfile
import time

import numpy as np
import onnxruntime

import graph_inputs
import make_weights
import record
import redoubt_api

DEFAULT = ("resnet50", "mobilenet_v2", "bert_base:batch=1,sequence=128", "minilm:batch=1,sequence=128")
PAUSE = 0.005  # seconds between contestants: threads that still spin for the one before would slow the next


class OnnxRuntime:
    def __init__(self, path, feed, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feed, self.verdict = feed, ""

    def run(self):
        self.result = self.session.run(None, self.feed)

    def outputs(self):
        return self.result

    def close(self):
        self.session = None


class Redoubt:
    def __init__(self, library, path, feed, threads, scheme):
        self.model = redoubt_api.Model(library, path, scheme, threads)
        self.bound = self.model.bind(feed)
        self.model.plan(self.bound)

    def run(self):
        self.verdict = self.model.run(self.bound)

    def outputs(self):
        return self.model.outputs()

    def close(self):
        self.model.close()


def interval(values):
    """Median, and the order statistics around it that hold it with 95 % confidence."""
    ordered = sorted(values)
    n = len(ordered)
    away = int(math.floor(0.98 * math.sqrt(n)))
    middle = (n - 1) // 2
    return float(np.median(ordered)), ordered[max(0, middle - away)], ordered[min(n - 1, n // 2 + away)]


def difference(got, want):
    """Largest |difference| as a share of the largest |value|, over all outputs."""
    worst = 0.0
    for a, b in zip(got, want):
        if a.shape != b.shape:
            return math.inf
        if b.size:
            d = np.abs(a.astype(np.float64) - b).max() / max(np.abs(b.astype(np.float64)).max(), 1e-30)
            worst = max(worst, float(d)) if d == d else math.inf
    return worst


def measure(contestants, rounds):
    times = {name: [] for name in contestants}
    order = list(contestants)
    for r in range(rounds + 1):  # the first does not count
        for name in order[r % len(order):] + order[:r % len(order)]:
            time.sleep(PAUSE)
            contestants[name].run()
            start = time.perf_counter()
            contestants[name].run()
            times[name].append(time.perf_counter() - start)
    return {name: t[1:] for name, t in times.items()}


def rows_of(library, name, path, feed, threads, args):
    contestants = {"onnxruntime": OnnxRuntime(path, feed, threads)}
    try:
        contestants["none"] = Redoubt(library, path, feed, threads, "none")
        contestants[args.scheme] = Redoubt(library, path, feed, threads, args.scheme)
        times = measure(contestants, args.rounds)
        want = contestants["onnxruntime"].outputs()
        rows = []
        for who, seconds in times.items():
            ms = np.array(seconds) * 1e3
            row = {"model": name, "threads": threads, "what": who, "ms": float(np.median(ms)),
                   "p10": float(np.percentile(ms, 10)), "p90": float(np.percentile(ms, 90)), "verdict": contestants[who].verdict}
            for key, base in (("ORT", "onnxruntime"), ("none", "none")):
                if who == base or who == "onnxruntime":
                    continue
                row["/ " + key], row["low " + key], row["high " + key] = interval(np.array(seconds) / np.array(times[base]))
            if who != "onnxruntime":
                row["difference"] = difference(contestants[who].outputs(), want)
            rows.append(row)
        return rows
    finally:
        for contestant in contestants.values():
            contestant.close()


COLUMNS = (("model", "%-28s"), ("threads", "%7d"), ("what", "%-12s"), ("ms", "%9.3f"), ("p10", "%9.3f"), ("p90", "%9.3f"),
           ("/ ORT", "%7.3f"), ("low ORT", "%8.3f"), ("high ORT", "%8.3f"), ("/ none", "%7.3f"), ("low none", "%8.3f"),
           ("high none", "%9.3f"), ("difference", "%10.1e"), ("verdict", "%-9s"))


def line(row):
    cells = []
    for key, form in COLUMNS:
        width = len(form % (0 if form[-1] in "dfe" else ""))
        cells.append(form % row[key] if key in row else " " * width)
    return "  ".join(cells).rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder with libredoubt.so and cli/redoubt")
    parser.add_argument("names", nargs="*", metavar="NAME[:dim=N,...]", help="graphs of examples/graphs, or paths")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--scheme", default="auto", help="of the protected runs")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call (default: a temporary folder)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_intermixed_args()
    library = redoubt_api.Library(os.path.join(args.build, "libredoubt.so"))
    widths = [len(form % (0 if form[-1] in "dfe" else "")) for _, form in COLUMNS]
    print("  ".join(key.ljust(w) if form[1] == "-" else key.rjust(w) for (key, form), w in zip(COLUMNS, widths)).rstrip())
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as temporary:
        for text in args.names or DEFAULT:
            name, sizes = graph_inputs.sizes_of(text)
            try:
                path = make_weights.graph_with_weights(name, args.dir or temporary)
            except FileNotFoundError as error:
                print(error, file=sys.stderr)
                failed = 1
                continue
            feed = graph_inputs.make(path, sizes)
            for threads in (int(t) for t in args.threads.split(",")):
                try:
                    found = rows_of(library, text, path, feed, threads, args)
                except RuntimeError as error:
                    print(f"{text}: {error}", file=sys.stderr)
                    failed = 1
                    break
                rows += found
                print("\n".join(line(row) for row in found), flush=True)
    if args.json:
        result = {"schema": "redoubt.bench-ort/1", "onnxruntime": onnxruntime.__version__, "rounds": args.rounds, "rows": rows}
        redoubt = os.path.join(args.build, "cli", "redoubt")
        record.keep(args.json, record.document(redoubt, record.typed("tools/bench_ort.py"), failed, result))
    return failed


if __name__ == "__main__":
    sys.exit(main())
