#!/usr/bin/env python3
"""What protection costs, from records of `redoubt bench gemm` and `bench conv` with `--baseline own,...`, in Markdown.

usage: tools/cost_table.py RECORD.json...
  tools/cost_table.py bench/results/avx2-*.json

A line for each problem, or for each set summed (each case as often as it occurs), and scheme of ours: medians over that of the
fastest library without protection, and over that of our own kernel without its checks. Without a library, or where no
kernel of ours but plain C takes a case, there is a dash.
"""
import json
import os
import sys

HEAD = ["work", "threads", "scheme", "/ fastest library", "which", "/ own kernel unprotected"]


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


def problem_lines(dtype, found):
    for (layer, m, n, k, shape, threads), rows in found.items():
        best = min(libraries(rows), key=lambda row: row["ms"], default=None)
        cold = " cold" if rows[0].get("weights") == "cold" else ""
        for row in ours(rows).values():
            name = row["scheme"] + (" (planned)" if row["what"] == "redoubt plan" else "")
            yield [f"{dtype} {m} x {n} x {k}{cold}" if m else f"{dtype} {layer}", str(threads), name,
                   ratio(row["ms"], best and best["ms"]), best["what"] if best else "-", ratio(row["ms"], own(rows))]


def sum_lines(name, dtype, found):
    for key in sorted({(rows[0]["threads"], rows[0]["n"] if "shape" in rows[0] else 0) for rows in found.values()}):
        group = [rows for rows in found.values()
                 if (rows[0]["threads"], rows[0]["n"] if "shape" in rows[0] else 0) == key]
        best = sum(rows[0]["times"] * min(row["ms"] for row in libraries(rows)) for rows in group)
        bare = [own(rows) for rows in group]
        kernels = None if None in bare else sum(rows[0]["times"] * ms for rows, ms in zip(group, bare))
        for which in ours(group[0]):
            total = sum(rows[0]["times"] * ours(rows)[which]["ms"] for rows in group if which in ours(rows))
            batch = f", batch {key[1]}" if key[1] else ""
            yield [f"{dtype} {name}{batch}, summed", str(key[0]), which[1] or which[0].removeprefix("redoubt "),
                   ratio(total, best), "fastest of each", ratio(total, kernels)]


def lines(path):
    result = json.load(open(path, encoding="utf-8"))["result"]
    rows = next(table["rows"] for table in result["tables"] if table["name"] == "results")
    found, dtype = cases(rows), rows[0]["dtype"]
    summed = any(row["times"] != 1 for row in rows) or "shape" in rows[0]
    name = os.path.basename(path).removesuffix(".json").split("-")[-1]
    kind = "convolutions of " if "shape" in rows[0] else "products of "
    return sum_lines(kind + name, dtype, found) if summed else problem_lines(dtype, found)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    print("| " + " | ".join(HEAD) + " |")
    print("|" + " --- |" * len(HEAD))
    for path in sys.argv[1:]:
        for line in lines(path):
            print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
