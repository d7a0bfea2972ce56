#!/usr/bin/env python3
"""Campaigns of planted faults on networks of examples/graphs: redoubt inject, with seeded weights and inputs.

usage: tools/campaign.py BUILD NAME[:sizes]... [--n N] [--threads N] [--jobs N] [--scheme NAME,..] [--fault SPEC | --sites NAME,..]
                         [--on-fault WHAT] [--out DIR] [--json FILE]
  tools/campaign.py build digits resnet18:side=64 minilm:batch=1,sequence=16 --n 5000 --json bench/results/inject-sites.json

`digits` is examples/digits with its images; side=N makes images N x N; gemm:MxNxK and conv:... are single ops. Exit code 1 if a
campaign's was: a miss inside a claim, a fault that was found and not repaired, a result that was made worse, a crash. Several schemes
are a campaign each; none is without protection, and `redoubt figures` draws it beside the other. --sites plants the default mix at
these sites only. --out keeps the trials of each, for `redoubt report`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import graph_inputs
import make_weights
import numpy
import record

DIGITS = os.path.join(record.ROOT, "examples", "digits")


def prepared(name, sizes, folder, kept):
    """The model's path and its -i options."""
    if name in ("gemm", "conv"):
        return None, []
    if name == "digits":
        return os.path.join(DIGITS, "digits.onnx"), ["-i", os.path.join(DIGITS, "images.npy")]
    side = sizes.get("side")
    if side:
        graph = name if name.endswith(".onnx") else os.path.join(make_weights.GRAPHS, name + ".onnx")
        model = make_weights.make(graph, folder, side=side)
    else:
        model = make_weights.graph_with_weights(name, kept or folder)
    inputs = []
    for i, (key, array) in enumerate(graph_inputs.make(model, sizes, 1).items()):
        path = os.path.join(folder, f"{i}.npy")
        numpy.save(path, array)
        inputs += ["-i", f"{key}={path}"]
    return model, inputs


def mix_of(redoubt, sites, folder):
    """The default mix at some sites only, as a file."""
    mix, _ = record.said([redoubt, "list", "mix", "--json"])
    unknown = set(sites) - {row["site"] for row in mix["sites"]}
    if unknown:
        sys.exit(f"--sites: there is no site {', '.join(sorted(unknown))}; redoubt list sites")
    mix["sites"] = [row for row in mix["sites"] if row["site"] in sites]
    path = os.path.join(folder, "mix.json")
    with open(path, "w") as f:
        json.dump(mix, f)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", metavar="BUILD", help="folder with cli/redoubt")
    parser.add_argument("names", nargs="+", metavar="NAME[:dim=N,...]")
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--scheme", default="", help="as of redoubt inject; several with commas: a campaign each")
    parser.add_argument("--sites", help="names with commas; default: all")
    parser.add_argument("--fault", help="as of redoubt inject; default: the default mix")
    parser.add_argument("--out", metavar="DIR", help="keep the trials, a folder each")
    parser.add_argument("--on-fault", help="as of redoubt inject")
    parser.add_argument("--scrub", help="as of redoubt inject")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_intermixed_args()
    redoubt, rows, failed = os.path.join(args.build, "cli", "redoubt"), [], 0
    options = ["--n", str(args.n)]
    for name in ("threads", "jobs", "fault", "on_fault", "scrub"):
        if getattr(args, name):
            options += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    if args.out:
        os.makedirs(args.out, exist_ok=True)
    for text in args.names:
        op = text.split(":")[0] in ("gemm", "conv")
        name, sizes = (text.split(":")[0], {}) if op else graph_inputs.sizes_of(text)
        with tempfile.TemporaryDirectory() as folder:
            model, inputs = prepared(name, sizes, folder, args.dir)
            report, mix = os.path.join(folder, "campaign.json"), []
            if args.sites:
                mix = ["--mix", mix_of(redoubt, args.sites.split(","), folder)]
            for scheme in args.scheme.split(","):
                start, label = time.time(), text.replace(":", "-") + (f"-{scheme}" if "," in args.scheme else "")
                kept = ["-o", os.path.join(args.out, label)] if args.out else []
                chosen = ["--scheme", scheme] if scheme else []
                done = subprocess.run([redoubt, "inject", model or text, *inputs, *options, *mix, *chosen, *kept, "--no-progress",
                                       "--report", report], capture_output=True, text=True)
                if not os.path.exists(report):
                    sys.exit(f"{text}: exit code {done.returncode}: {done.stderr}")
                found = record.read(report)
                os.remove(report)
                failed |= done.returncode != 0
                found["target"] = text
                rows.append(found)
                print(f"{label} ({time.time() - start:.0f} s)\n{done.stdout[done.stdout.find('site'):].rstrip()}", flush=True)
    if args.json:
        result = {"schema": "redoubt.campaigns/3", "rows": rows}
        record.keep(args.json, record.document(redoubt, record.typed("tools/campaign.py"), int(failed), result))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
