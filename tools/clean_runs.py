#!/usr/bin/env python3
"""Runs networks without faults, each time on other inputs, and counts what is reported: that must be nothing.

usage: tools/clean_runs.py BUILD [NAME[:sizes]...] [--runs N] [--threads N] [--json FILE]
  tools/clean_runs.py build --runs 1000 --json bench/results/clean-models.json

N runs are shared out among the networks (default: all of examples/graphs but the largest). Exit code 1 if a run was not CLEAN.
"""
import argparse
import os
import sys
import tempfile
import time

import graph_inputs
import make_weights
import record
import redoubt_api

SHORT = ":batch=1,sequence=16,encoder_sequence=20"
IMAGES = ("squeezenet1_1", "shufflenet_v2_x1_0", "mobilenet_v2", "alexnet", "resnet18", "resnet50", "resnext50_32x4d",
          "densenet161", "resnet50_qlinear", "resnet50_qdq")
TEXTS = ("minilm", "bert_base", "gpt2", "t5_small_encoder", "t5_small_decoder")
DEFAULT = IMAGES + tuple(name + SHORT for name in TEXTS)


def clean(library, path, sizes, runs, threads):
    """What the runs of one network reported."""
    counts = {"runs": runs, "not clean": 0, "suspects": 0, "faults": 0, "unchecked": 0, "checks": 0}
    with redoubt_api.Model(library, path, "auto", threads) as model:
        for seed in range(1, runs + 1):
            feed = graph_inputs.make(path, sizes, seed)
            counts["not clean"] += model.run(model.bind(feed)) != "CLEAN"
            for key in ("suspects", "faults", "unchecked", "checks"):
                counts[key] += getattr(model.result, key)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder with libredoubt.so and cli/redoubt")
    parser.add_argument("names", nargs="*", metavar="NAME[:dim=N,...]")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_intermixed_args()
    library = redoubt_api.Library(os.path.join(args.build, "libredoubt.so"))
    names, rows, failed = args.names or DEFAULT, [], 0
    for i, text in enumerate(names):
        name, sizes = graph_inputs.sizes_of(text)
        runs, start = args.runs // len(names) + (i < args.runs % len(names)), time.time()
        with tempfile.TemporaryDirectory() as temporary:
            path = make_weights.graph_with_weights(name, args.dir or temporary)
            try:
                row = {"model": text, **clean(library, path, sizes, runs, args.threads)}
            except RuntimeError as error:
                failed = 1
                print(f"{text}: {error}", file=sys.stderr)
                continue
        failed |= row["not clean"] > 0 or row["suspects"] > 0
        rows.append(row)
        told = ", ".join(f"{v} {k}" for k, v in row.items() if k != "model")
        print(f"{text}: {told} ({time.time() - start:.0f} s)", flush=True)
    print(", ".join(f"{sum(row[key] for row in rows)} {key}" for key in ("runs", "not clean", "suspects")))
    if args.json:
        result = {"schema": "redoubt.clean-runs/1", "rows": rows}
        redoubt = os.path.join(args.build, "cli", "redoubt")
        record.keep(args.json, record.document(redoubt, record.typed("tools/clean_runs.py"), int(failed), result))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
