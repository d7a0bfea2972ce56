#!/usr/bin/env python3
"""The figures of protected products and convolutions against the best unprotected library, as one table in Markdown.

usage: tools/figures.py REDOUBT [--threads 1,2] [--trials 31] [--scheme auto,rowcol] [--only WORD]
  tools/figures.py build/cli/redoubt
  tools/figures.py build/cli/redoubt --only skinny --threads 1

Each line is a row, or a sum, of `redoubt bench gemm` or `redoubt bench conv`; --only takes those whose name has WORD.
"""
import argparse
import json
import subprocess
import sys

# name, command, summed over its rows, the most that it should cost
FIGURES = [
    ("sgemm, square", ["gemm", "--set", "squares"], False, 1.01),
    ("dgemm, square", ["gemm", "--set", "squares", "--dtype", "f64"], False, 0.97),
    ("sgemm, skinny, cold weights", ["gemm", "--set", "skinny", "--cold"], False, 1.00),
    ("one layer as a product", ["gemm", "--mnk", "3136:64:576"], False, 1.02),
    ("ResNet-50's layers as products", ["gemm", "--set", "resnet50"], True, 1.02),
    ("s8 x s8", ["gemm", "--m", "1024", "--dtype", "s8"], False, 1.05),
    ("u8 x s8", ["gemm", "--m", "1024", "--dtype", "u8"], False, 1.05),
    ("bf16", ["gemm", "--m", "1024", "--dtype", "bf16"], False, 1.05),
    ("ResNet-50's convolutions", ["conv", "--set", "resnet50", "--n", "1,8"], True, 1.03),
]
COLUMNS = ["work", "threads", "scheme", "kernel", "/ best", "95 %", "aim", "best library", "/ none", "of peak", "of bandwidth"]


def number(value):
    return "-" if value is None else f"{value:.3f}"


def shape(row, command):
    if command == "conv":
        return f"n = {row['n']}"
    return f"{row['m']} x {row['n']} x {row['k']}" if "m" in row else "summed"


def lines(name, command, summed, aim, tables):
    """A line for each scheme of ours, in each row or sum."""
    for row in tables["sums" if summed else "results"]:
        if row["what"].startswith("redoubt") and row["what"] != "redoubt none":
            scheme = row["scheme"] + (" (planned)" if row["what"] == "redoubt auto" and row["scheme"] != "auto" else "")
            yield [f"{name}, {shape(row, command)}", str(row["threads"]), scheme, row.get("kernel", ""), number(row["/ best"]),
                   f"{number(row['low'])} .. {number(row['high'])}", number(aim), row.get("best", "fastest of each row"),
                   number(row["/ none"]), number(row["of peak"]), number(row.get("of bandwidth"))]


def measure(redoubt, command, options):
    schemes = options.scheme
    if command[0] == "conv":  # other schemes than those of products
        schemes = "auto"
    call = [redoubt, "bench", *command, "--threads", options.threads, "--trials", options.trials, "--scheme", schemes, "--json"]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=False)
    if done.returncode > 1:
        sys.exit(f"exit code {done.returncode}: {' '.join(call)}")
    return {table["name"]: table["rows"] for table in json.loads(done.stdout)["tables"]}, done.returncode


def print_line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--trials", default="31")
    parser.add_argument("--scheme", default="auto,rowcol")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    libraries, limits, machine, worst = {}, {}, None, 0
    for name, command, summed, aim in FIGURES:
        if options.only not in name:
            continue
        tables, code = measure(options.redoubt, command, options)
        if machine is None:
            machine = tables["machine"][0]
            print(f"{machine['cpu']}, {machine['isa']}, {machine['date']}, commit {machine['commit']}\n")
            print_line(COLUMNS)
            print_line(["---"] * len(COLUMNS))
        for cells in lines(name, command[0], summed, aim, tables):
            print_line(cells)
        worst = max(worst, code)
        for row in tables["libraries"]:  # one that lacks a product may have been compared elsewhere
            if row["status"] == "compared" or row["library"] not in libraries:
                libraries[row["library"]] = row
        for row in tables["limits"]:
            known = limits.setdefault((row["instruction"], row["threads"]), row)
            limits[row["instruction"], row["threads"]] = max(known, row, key=lambda each: each["GFLOP/s"])
    print()
    for row in libraries.values():
        print(f"- {row['library']} {row['version']}: {row['core'] or '-'}, {row['status']}")
    for (instruction, threads), row in limits.items():
        print(f"- {instruction}, threads {threads}: {row['GFLOP/s']} GFLOP/s, {row['GB/s']} GB/s")
    return worst


if __name__ == "__main__":
    sys.exit(main())
