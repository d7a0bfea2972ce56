#!/usr/bin/env python3
"""Writes what docs/workloads.md says of the records in bench/results/workloads-*.json: its table and the pictures in docs/figures.

usage: tools/workload_page.py REDOUBT            writes both
       tools/workload_page.py --check REDOUBT    1 where one of them is not what the records say

The records are those of tools/workload_records.py, in its order. The table stands between two comments; geometric means are of the networks
that are no others' (groups ignored, convolutions apart), of squares and of convolutions.
"""
import argparse
import filecmp
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import record
import workload_records

PAGE = os.path.join(record.ROOT, "docs", "workloads.md")
FIGURES = os.path.join(record.ROOT, "docs", "figures")
BEGIN, END = "<!-- {} of tools/workload_page.py -->\n", "<!-- to here -->\n"
PICTURES = {"overhead-networks": "Overhead of global, of thread1 and of the plan, all networks", "overhead-cnn-224": "Overhead of each scheme, images of 224 x 224",
            "overhead-cnn-1080p": "Overhead of each scheme, images of 1080 x 1920", "overhead-dlrm": "Overhead of each scheme, DLRM",
            "overhead-noscope": "Overhead of each scheme, NoScope", "overhead-square": "Overhead of each scheme, squares",
            "overhead-cnn-224-grouped": "Overhead of each scheme, groups as they are, images of 224 x 224",
            "overhead-cnn-1080p-grouped": "Overhead of each scheme, groups as they are, images of 1080 x 1920",
            "overhead-conv": "Overhead of each scheme of convolutions", "roofline": "Layers below the roof, before and after protection",
            "crossing": "Where thread1 and global cross"}
HEAD = ["network", "best single scheme", "plan / it, 95 %", "plan / none, 95 %", "worst layer", "plan / fastest library, 95 %",
        "global-classic's overhead / the plan's"]


def read():
    """The records that there are, in the order of the list."""
    found = []
    for name, *_ in workload_records.RECORDS:
        path = workload_records.path_of(name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found.append((name, path, json.load(file)))
    return found


def table_of(kept, name):
    return next((table["rows"] for table in kept["result"]["tables"] if table["name"] == name), [])


def kind_of(name):
    if name.startswith("square"):
        return "squares"
    return "convolutions" if name.startswith("conv") else "networks"


def interval(row, ratio, which):
    value, low, high = row.get(ratio), row.get(f"low {which}"), row.get(f"high {which}")
    return "-" if value is None else f"{value:.3f} ({low:.3f} to {high:.3f})"


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def cells(row):
    return [row["workload"], row["best single"] or "-", interval(row, "plan / single", "single"), interval(row, "plan / none", "none"),
            number(row["worst layer"], 3), interval(row, "plan / best library", "library"),
            number(row.get("classic overhead / plan overhead"), 1)]


def mean(rows, name):
    values = [row[name] for row in rows if row.get(name) is not None]
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def sum_cells(kind, rows):
    worst = max(rows, key=lambda row: row["plan / none"])
    return [f"{kind}, geometric mean of {len(rows)}", "", number(mean(rows, "plan / single"), 3),
            f"{mean(rows, 'plan / none'):.3f}, worst {worst['plan / none']:.3f} ({worst['workload']})", "",
            number(mean(rows, "plan / best library"), 3), number(mean(rows, "classic overhead / plan overhead"), 1)]


def line(words):
    return "| " + " | ".join(words) + " |"


def places(found):
    """Where and of what the records are."""
    machines = {}
    for name, _, kept in found:
        machine = table_of(kept, "machine")[0]
        threads = table_of(kept, "limits")[0]["threads"]
        key = f"{machine['cpu']}, {machine['isa']}, {threads} threads, {kept['date']}, commit {kept['commit'][:7]}"
        machines.setdefault(key, []).append(name)
    return [f"- {key}: {', '.join(names) if len(machines) > 1 else 'all of them'}" for key, names in machines.items()]


def table():
    found = read()
    rows = [row for _, _, kept in found for row in table_of(kept, "planned") if row.get("threads")]
    lines = [line(HEAD), line(["---"] * len(HEAD))]
    lines += [line(cells(row)) for row in rows]
    for kind in ("networks", "squares", "convolutions"):
        of_kind = [row for row in rows if kind_of(row["workload"]) == kind]
        if of_kind:
            lines.append(line(sum_cells(kind, of_kind)))
    worse = [row for row in rows if (row.get("low single") or 0.0) > 1.0]
    lines += ["", "Plans that are worse than the best single scheme by more than their interval: "
              + (", ".join(f"{row['workload']} ({row['plan / single']:.3f})" for row in worse) if worse else "none") + ".",
              "", "Measured on:", "", *places(found)]
    return "\n".join(lines) + "\n"


def pictures(names):
    return "\n".join(f"![{text}](figures/{name}.svg)\n" for name, text in PICTURES.items() if f"{name}.svg" in names)


def page(names):
    """What the page is, and what it is to be with these pictures."""
    with open(PAGE, encoding="utf-8") as file:
        old = new = file.read()
    for name, part in (("table", table()), ("pictures", pictures(names))):
        before, rest = new.split(BEGIN.format(name))
        new = before + BEGIN.format(name) + part + END + rest.split(END, 1)[1]
    return old, new


def draw(redoubt, folder):
    """The names of the pictures."""
    paths = [path for _, path, _ in read()]
    more = [word for path in paths[1:] for word in ("--and", path)]
    subprocess.run([redoubt, "figures", "-o", folder], check=True)
    subprocess.run([redoubt, "figures", paths[0], *more, "-o", folder], check=True)
    return sorted(os.listdir(folder))


def stale(folder, names):
    """Pictures that are not as they are drawn, or not drawn any more."""
    kept = [name for name in os.listdir(FIGURES) if name[:-4] in PICTURES]
    return [name for name in sorted({*names, *kept}) if name not in names or not os.path.exists(os.path.join(FIGURES, name))
            or not filecmp.cmp(os.path.join(folder, name), os.path.join(FIGURES, name), shallow=False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = draw(options.redoubt, folder)
        old, new = page(names)
        other = [f"docs/figures/{name}" for name in stale(folder, names)] + ["docs/workloads.md"] * (old != new)
        if options.check:
            if other:
                print(f"not what the records say: {', '.join(other)}: tools/workload_page.py REDOUBT", file=sys.stderr)
            return int(bool(other))
        for name in stale(folder, names):
            if name in names:
                shutil.copy(os.path.join(folder, name), FIGURES)
            else:
                os.remove(os.path.join(FIGURES, name))
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
