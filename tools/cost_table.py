#!/usr/bin/env python3
"""What protecting products and convolutions costs, in Markdown: from records, or measured now.

usage: tools/cost_table.py RECORD.json...
       tools/cost_table.py --run REDOUBT [--only WORD] [--threads 1,2] [--trials N] [--keep PREFIX]
  tools/cost_table.py bench/results/avx2-gemm-*.json bench/results/avx2-conv-*.json
  tools/cost_table.py --run build/cli/redoubt --only gemm-skinny --threads 1 --keep avx2

Records are those of `redoubt bench gemm` and `bench conv` with `--baseline own,...`. A line for each problem, or for each set summed (each
case as often as it occurs), and scheme of ours: medians over that of the fastest library without protection, with its 95 % interval where
the record has it, what was aimed at, and over our own kernel without its checks. Without a library, or where no kernel of ours but plain C
takes a case, there is a dash. --run runs the commands below, those whose name has WORD; --keep writes them to bench/results/PREFIX-NAME.json.
"""
import argparse
import os
import sys

import record

HEAD = ["work", "threads", "scheme", "/ fastest library", "95 %", "aim", "which", "/ own kernel unprotected"]
LIBRARIES = "own,onednn,openblas,blis"
# name of the record, command, the most that it should cost
FIGURES = [
    ("gemm-squares", ["gemm", "--set", "squares", "--scheme", "row,rowcol"], 1.01),
    ("dgemm-squares", ["gemm", "--set", "squares", "--dtype", "f64", "--scheme", "row,rowcol"], 0.97),
    ("gemm-skinny", ["gemm", "--set", "skinny", "--cold", "--scheme", "row,rowcol"], 1.00),
    ("gemm-narrow", ["gemm", "--mnk", "3136:64:576", "--scheme", "row,rowcol"], 1.02),
    ("gemm-resnet50", ["gemm", "--set", "resnet50", "--scheme", "row,rowcol"], 1.02),
    ("gemm-s8", ["gemm", "--m", "1024", "--dtype", "s8", "--scheme", "row,rowcol"], 1.05),
    ("gemm-u8", ["gemm", "--m", "1024", "--dtype", "u8", "--scheme", "row,rowcol"], 1.05),
    ("gemm-bf16", ["gemm", "--m", "1024", "--dtype", "bf16", "--scheme", "row,rowcol"], 1.05),
    ("conv-resnet50", ["conv", "--set", "resnet50", "--n", "1,8"], 1.03),
]


def cases(rows):
    """Rows of one problem at one number of threads, keyed by what tells problems apart."""
    found = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("layer", "m", "n", "k", "shape", "threads"))
        found.setdefault(key, []).append(row)
    return found


def libraries(rows):
    return [row for row in rows if not row["what"].startswith(("redoubt", "own"))]


def own(rows):
    kernels = [row for row in rows if row["what"] == "own kernel" and "generic" not in row["kernel"]]
    return kernels[0]["ms"] if kernels else None


def ours(rows):
    """By name and scheme that was asked for; what `none` takes is no protection."""
    return {(row["what"], row["scheme"] if row["what"] == "redoubt" else ""): row for row in rows
            if row["what"].startswith("redoubt") and row["what"] != "redoubt none"}


def ratio(above, below):
    return f"{above / below:.3f}" if below else "-"


def aim_of(scheme, aim):
    """Both sums have an aim of their own: over our own kernel."""
    return "-" if scheme == "rowcol" else aim


def problem_lines(dtype, aim, found):
    for (layer, m, n, k, shape, threads), rows in found.items():
        best = min(libraries(rows), key=lambda row: row["ms"], default=None)
        cold = " cold" if rows[0].get("weights") == "cold" else ""
        for row in ours(rows).values():
            name = row["scheme"] + (" (planned)" if row["what"] == "redoubt plan" else "")
            interval = f"{row['low']:.3f} to {row['high']:.3f}" if best and row["best"] == best["what"] else "-"
            yield [f"{dtype} {m} x {n} x {k}{cold}" if m else f"{dtype} {layer}", str(threads), name,
                   ratio(row["ms"], best and best["ms"]), interval, aim_of(name, aim), best["what"] if best else "-", ratio(row["ms"], own(rows))]


def sum_lines(name, dtype, aim, found):
    for key in sorted({(rows[0]["threads"], rows[0]["n"] if "shape" in rows[0] else 0) for rows in found.values()}):
        group = [rows for rows in found.values()
                 if (rows[0]["threads"], rows[0]["n"] if "shape" in rows[0] else 0) == key]
        best = sum(rows[0]["times"] * min(row["ms"] for row in libraries(rows)) for rows in group)
        bare = [own(rows) for rows in group]
        kernels = None if None in bare else sum(rows[0]["times"] * ms for rows, ms in zip(group, bare))
        for which in ours(group[0]):
            total = sum(rows[0]["times"] * ours(rows)[which]["ms"] for rows in group if which in ours(rows))
            batch = f", batch {key[1]}" if key[1] else ""
            scheme = which[1] or which[0].removeprefix("redoubt ")
            yield [f"{dtype} {name}{batch}, summed", str(key[0]), scheme,
                   ratio(total, best), "-", aim_of(scheme, aim), "fastest of each", ratio(total, kernels)]


def lines(name, result):
    rows = next(table["rows"] for table in result["tables"] if table["name"] == "results")
    found, dtype = cases(rows), rows[0]["dtype"]
    aim = next((f"{most:.2f}" for figure, _, most in FIGURES if f"-{name}".endswith(f"-{figure}")), "-")
    summed = any(row["times"] != 1 for row in rows) or "shape" in rows[0]
    kind = "convolutions of " if "shape" in rows[0] else "products of "
    return sum_lines(kind + name.split("-")[-1], dtype, aim, found) if summed else problem_lines(dtype, aim, found)


def measure(options):
    """Each command as a name and what it printed."""
    for name, command, _ in FIGURES:
        if options.only not in name:
            continue
        call = ["bench", *command, "--threads", options.threads, "--baseline", LIBRARIES]
        call += ["--trials", options.trials] if options.trials else []
        result, code = record.said([options.run, *call, "--json"], worst=1)
        if options.keep:
            path = os.path.join(record.ROOT, "bench", "results", f"{options.keep}-{name}.json")
            record.keep(path, record.document(options.run, " ".join(["redoubt", *call]), code, result))
        yield name, result


def read(paths):
    for path in paths:
        result = record.read(path, "result")["result"]
        with record.of(path):
            list(lines(os.path.basename(path).removesuffix(".json"), result))
        yield os.path.basename(path).removesuffix(".json"), result


def print_line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", metavar="RECORD.json")
    parser.add_argument("--run", metavar="REDOUBT")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--trials")
    parser.add_argument("--keep", metavar="PREFIX")
    options = parser.parse_args()
    if bool(options.records) == bool(options.run):
        parser.error("records, or --run REDOUBT: one of them")
    print_line(HEAD)
    print_line(["---"] * len(HEAD))
    for name, result in measure(options) if options.run else read(options.records):
        for cells in lines(name, result):
            print_line(cells)


if __name__ == "__main__":
    main()
