#!/usr/bin/env python3
"""Faults in each kernel of the GPU by the hundred thousand, and tiles without any: what make gpu-check does with fewer.

usage: tools/gpu_faults.py GPU_FAULTS DIR [--faults N] [--tiles N] [--word WORD]... [--at-once N] [--gather] [--of COMMIT] [--json FILE]
  tools/gpu_faults.py build/tests/gpu/gpu_faults DIR --json bench/results/gpu-faults.json

DIR keeps a file of JSON for each kernel, with the commit that it ran on; what is done already is not run again. --word: kernels whose names contain it.
--at-once: so many processes share the kernels, each with some threads. --gather: of those that are
done; nothing is run. --of names the commit that GPU_FAULTS was built of, where it is not the checkout. Exit code 1: something was wrong, or a kernel
is missing.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import subprocess
import sys

import record


def collect(folder, part, commit):
    """Keeps the lines of a process, also of one that was ended: a kernel each."""
    path = os.path.join(folder, part)
    with open(path) as f:
        lines = [line for line in f if line.endswith("}\n")]
    for line in lines:
        with record.of(path):
            kernel = json.loads(line)
            record.keep(os.path.join(folder, kernel["kernel"] + ".json"), {"commit": commit, **kernel})
    os.remove(path)
    return len(lines)


def run(program, names, faults, tiles, folder, part, commit):
    """What the program said, where a kernel has no line, or something was wrong."""
    if not names:
        return None
    done = subprocess.run([program, str(faults), str(tiles), ",".join(names), os.path.join(folder, part)], capture_output=True, text=True)
    there = os.path.exists(os.path.join(folder, part)) and collect(folder, part, commit)
    if there != len(names):
        return f"{', '.join(names)}: exit code {done.returncode}: {(done.stdout + done.stderr)[-400:]}"
    lines = done.stdout.splitlines()
    return "\n".join(line for at, line in enumerate(lines) if "WRONG" in line or (at and "WRONG" in lines[at - 1])) or None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", metavar="GPU_FAULTS")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--faults", type=int, default=100000)
    parser.add_argument("--tiles", type=int, default=200000, help="of each kernel")
    parser.add_argument("--word", action="append")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--gather", action="store_true")
    parser.add_argument("--of", metavar="COMMIT")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    listed = subprocess.run([args.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    names = [n for n in listed[::2] if not args.word or any(word in n for word in args.word)]
    hits = set(n for n, takes in zip(listed[::2], listed[1::2]) if takes == "1")
    names.sort(key=lambda n: n not in hits)  # those that take longest first
    commit = args.of or record.commit()
    path_of = lambda name: os.path.join(args.folder, name + ".json")
    for part in os.listdir(args.folder):
        if part.endswith(".part"):
            collect(args.folder, part, commit)
    missing = [n for n in names if not os.path.exists(path_of(n))]
    if not args.gather:
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            shares = [missing[i::args.at_once] for i in range(args.at_once)]
            for said in pool.map(lambda i: run(args.program, shares[i], args.faults, args.tiles, args.folder, f"{i}.part", commit), range(args.at_once)):
                if said:
                    print(said, file=sys.stderr, flush=True)
        missing = [n for n in names if not os.path.exists(path_of(n))]
    kernels = []
    for name in names:
        if name not in missing:
            kernels.append(record.read(path_of(name), "device"))
            with record.of(path_of(name)):
                kernels[-1]["planted" if "planted" in kernels[-1] else "tiles"] + sum(kernels[-1].get(key, 0) for key in ("planted", "above_floor", "missed", "tiles", "reports", "wrong"))
                sum(row["planted"] + row["missed"] for row in kernels[-1].get("several", []))
    devices = sorted({k.pop("device") for k in kernels})
    total = lambda key: sum(k.get(key, 0) for k in kernels)
    several = [row for k in kernels for row in k.get("several", [])]
    wrong = total("wrong")
    print(f"{total('planted')} faults in {sum('planted' in k for k in kernels)} kernels, {total('above_floor')} above the floor, {total('missed')} missed; "
          f"{sum(r['planted'] for r in several)} rows with several, {sum(r['missed'] for r in several)} missed; "
          f"{total('tiles')} tiles without any, {total('reports')} reports; {wrong} wrong; {len(missing)} kernels not run")
    if args.json:
        record.keep(args.json, {"schema": "redoubt.gpu-faults/1", "commit": commit, "device": ", ".join(devices),
                                "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), "faults": args.faults, "kernels": kernels})
    return int(wrong > 0 or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
