#!/usr/bin/env python3
"""How often `redoubt screen -r 1` names the one core, or multiprocessor, that computes wrongly, and how long that takes.

usage: tools/screen_study.py REDOUBT [--n 100] [--device cpu|cuda:N] [--seed 1] [--json FILE]
  tools/screen_study.py build/cli/redoubt --json bench/results/screen-cpu.json

Every screen has another fault: a bit of the multiplier's result that reads 0 or 1, one that is turned round in one lane of
its vectors, or now and then; each core in its turn. Named: exit code 1, that core is bad, no other is. Exits with 1 where one
was not named, or a screen took 10 seconds.
"""
import argparse
import random
import sys
import time

import record

SLOW = 10.0  # seconds: what level 1 may take


def faults(rng, n, units):
    for i in range(n):
        core = i % units
        bit = rng.randrange(31)  # of products of f32; of other datatypes what they have
        kind = rng.choice((f"stuck0:{bit}@accum,core={core}", f"stuck1:{bit}@accum,core={core}",
                           f"bit:{bit}@accum,core={core},lane={rng.randrange(4)}", f"bit:{bit}@accum,core={core},rate=0.01"))
        yield core, kind


def screen(redoubt, device, fault=None):
    command = [redoubt, "screen", "-r", "1", "--device", device, "--json", "--no-progress"]
    start = time.perf_counter()
    said, code = record.said(command + (["--fault", fault] if fault else []), worst=1)
    return said["devices"][0], code, time.perf_counter() - start


def look(redoubt, device, core, fault):
    found, code, seconds = screen(redoubt, device, fault)
    bad = [unit["core"] for unit in found["units"] if unit["state"] != "good"]
    failures = sum(unit["failures"] for unit in found["units"])
    return {"fault": fault, "bad": bad, "named": code == 1 and bad == [core], "seconds": seconds, "failures": failures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    clean, code, seconds = screen(args.redoubt, args.device)
    if code != 0:
        sys.exit(f"{args.device}: bad without a fault: {[unit['core'] for unit in clean['units'] if unit['state'] != 'good']}")
    units = [unit["core"] for unit in clean["units"]]
    if units != list(range(len(units))):
        sys.exit(f"{args.device}: not all of its cores can be used: {units}")
    rows, alone = [], 0
    for core, fault in faults(random.Random(args.seed), args.n, len(units)):
        rows.append(look(args.redoubt, args.device, core, fault))
        alone += set(rows[-1]["bad"]) <= {core}
        if not rows[-1]["named"]:
            print(f"{fault}: bad are {rows[-1]['bad']}")
    named, slowest = sum(row["named"] for row in rows), max([seconds] + [row["seconds"] for row in rows])
    print(f"{args.device}: named in {named} of {args.n}, nobody else in {alone}; the slowest screen took {slowest:.2f} s")
    code = 0 if named == args.n and slowest < SLOW else 1
    if args.json:
        result = {"schema": "redoubt.screen-study/1", "units": len(units), "named": named, "n": args.n, "slowest": slowest,
                  "clean_seconds": seconds, "rows": rows}
        record.keep(args.json, record.document(args.redoubt, record.typed("tools/screen_study.py"), code, result))
    sys.exit(code)


if __name__ == "__main__":
    main()
