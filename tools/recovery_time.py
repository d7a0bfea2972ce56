#!/usr/bin/env python3
"""How long the repair of one fault takes, in units of the time that its layer takes without a fault.

usage: tools/recovery_time.py BUILD [NAME[:sizes]] [--n N] [--threads 1,2] [--json FILE]
  tools/recovery_time.py build resnet50 --n 200 --json bench/results/recovery-resnet50.json

Faults are planted in accumulators of random layers (redoubt inject); the seconds are those of the rungs in each event. The
layers' times come from clean runs of the same network before and after.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import graph_inputs
import make_weights
import numpy
import record


def layer_times(redoubt, model, inputs, threads, path):
    """Mean seconds of each layer without a fault."""
    runs = 5
    subprocess.run([redoubt, "run", model, *inputs, "--threads", threads, "--warmup", "2", "--repeat", str(runs),
                    "--report", path], check=True, stdout=subprocess.DEVNULL)
    layers = record.read(path, "layers")["layers"]
    with record.of(path):
        return {layer["name"]: layer["seconds"] / runs for layer in layers}


def repairs(redoubt, model, inputs, threads, n, path):
    """(layer, seconds of its repair) of each fault that was found."""
    done = subprocess.run([redoubt, "inject", model, *inputs, "--threads", threads, "-n", str(n), "--fault", "bit:30@accum",
                           "--events", path, "-q"])
    if done.returncode != 0:
        sys.exit(f"redoubt inject ended with exit code {done.returncode}")
    with record.of(path), open(path) as f:
        events = [json.loads(line) for line in f]
        return [(e["layer"], sum(rung["seconds"] for rung in e["rungs"])) for e in events if e["kind"] == "fault"]


def measure(redoubt, model, inputs, threads, n, folder):
    place = lambda name: os.path.join(folder, f"{name}-{threads}")
    before = layer_times(redoubt, model, inputs, threads, place("before.json"))
    found = repairs(redoubt, model, inputs, threads, n, place("events.jsonl"))
    after = layer_times(redoubt, model, inputs, threads, place("after.json"))
    ratios = sorted((seconds / ((before[layer] + after[layer]) / 2), layer) for layer, seconds in found)
    values = [ratio for ratio, _ in ratios]
    return {"threads": int(threads), "faults": len(values), "median": statistics.median(values),
            "p95": values[int(0.95 * (len(values) - 1))], "most": values[-1], "most_at": ratios[-1][1],
            "below_2": sum(v < 2 for v in values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder with cli/redoubt")
    parser.add_argument("name", nargs="?", default="resnet50", metavar="NAME[:dim=N,...]")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_intermixed_args()
    redoubt, (name, sizes) = os.path.join(args.build, "cli", "redoubt"), graph_inputs.sizes_of(args.name)
    with tempfile.TemporaryDirectory() as folder:
        model = make_weights.graph_with_weights(name, args.dir or folder)
        inputs = []
        for i, (key, array) in enumerate(graph_inputs.make(model, sizes, 1).items()):
            numpy.save(os.path.join(folder, f"{i}.npy"), array)
            inputs += ["-i", f"{key}={os.path.join(folder, f'{i}.npy')}"]
        rows = [measure(redoubt, model, inputs, threads, args.n, folder) for threads in args.threads.split(",")]
    for row in rows:
        print(f"{args.name}, {row['threads']} thread(s): {row['faults']} repairs, in layer times: median {row['median']:.2f}, "
              f"95 % {row['p95']:.2f}, most {row['most']:.2f} ({row['most_at']}), {row['below_2']} below 2")
    if args.json:
        result = {"schema": "redoubt.recovery-time/1", "model": args.name, "rows": rows}
        record.keep(args.json, record.document(redoubt, record.typed("tools/recovery_time.py"), 0, result))


if __name__ == "__main__":
    main()
