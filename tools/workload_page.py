#!/usr/bin/env python3
"""Writes what docs/workloads.md says of the records in bench/results/workloads-*.json: its table and the pictures in docs/figures; and
what docs/intensity-guided.md says of bench/results/gpu-workloads.json and of an H100's, gpu-workloads-h100.json (`redoubt plan --device
cuda:0 --workload all -o`), with the pictures of the first in docs/figures/gpu, and its table of chains, of bench/results/gpu-chains.json (`gpu_bench_chains RECORD - 2000`).

usage: tools/workload_page.py REDOUBT            writes both
       tools/workload_page.py --check REDOUBT    1 where one of them is not what the records say

The records are those of tools/workload_records.py, in its order. The table stands between two comments; geometric means are of the networks
that are no others' (groups ignored, convolutions apart), of squares and of convolutions.
"""
import argparse
import filecmp
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
GPU_PAGE, GPU_FIGURES = os.path.join(record.ROOT, "docs", "intensity-guided.md"), os.path.join(FIGURES, "gpu")
GPU_RECORD = os.path.join(record.ROOT, "bench", "results", "gpu-workloads.json")
OTHER_GPU = os.path.join(record.ROOT, "bench", "results", "gpu-workloads-h100.json")
CHAINS = os.path.join(record.ROOT, "bench", "results", "gpu-chains.json")
GPU_PICTURES = {"overhead-networks": "Overhead of all networks (figure 8)", "overhead-cnn-1080p": "Convolutional networks, images of 1080 x 1920 (figure 9)",
                "overhead-cnn-224": "Convolutional networks, images of 224 x 224", "overhead-dlrm": "DLRM (figure 10)", "overhead-noscope": "NoScope (figure 11)",
                "overhead-square": "Squares (figure 12)", "roofline": "Layers below the roof, before and after protection", "crossing": "Where thread1 and global cross"}
GPU_HEAD = ["workload", "FLOP/B", "floor", "cuBLAS", "own none", "plan", "plan / none, 95 %", "plan / cuBLAS, 95 %", "best single", "plan / it, 95 %",
            "global-classic %", "uncompared %", "global-classic's overhead / the plan's", "model / plan"]
CHAINS_HEAD = ["chain", "layers", "cuBLAS", "own none", "protected", "protected / cuBLAS", "protected / own none", "faults", "above the floor", "missed"]
HEAD = ["network", "best single scheme", "plan / it, 95 %", "plan / none, 95 %", "worst layer", "plan / fastest library, 95 %",
        "global-classic's overhead / the plan's"]


def read():
    """The records that there are, in the order of the list."""
    found = []
    for name, *_ in workload_records.RECORDS:
        path = workload_records.path_of(name)
        if os.path.exists(path):
            kept = record.read(path, "result", "date", "commit")
            with record.of(path):
                places([(name, path, kept)])
                for row in table_of(kept, "planned"):
                    if row.get("threads"):
                        cells(row), kind_of(row["workload"])
            found.append((name, path, kept))
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


def percent(value):
    return "-" if value is None else f"{100 * value:.1f}"


def gpu_cells(row):
    micro = [number(None if row.get(name) is None else 1000 * row[name], 1) for name in ("floor ms", "library ms", "none ms", "plan ms")]
    return [row["workload"], number(row.get("intensity"), 1), *micro, interval(row, "plan / none", "none") if row.get("low none") else number(row["plan / none"], 3),
            interval(row, "plan / best library", "library") if row.get("low library") else number(row.get("plan / best library"), 3), row.get("best single") or "-",
            interval(row, "plan / single", "single") if row.get("low single") else number(row.get("plan / single"), 3), percent(row.get("classic overhead")),
            percent(row.get("uncompared overhead")), number(row.get("classic overhead / plan overhead"), 1), number(row.get("model / plan"), 3)]


def gpu_table(path):
    kept = record.read(path, "tables", "gpu")
    with record.of(path):
        return gpu_text(kept)


def gpu_text(kept):
    rows = next(table["rows"] for table in kept["tables"] if table["name"] == "planned")
    device = kept["gpu"]
    worse = [row["workload"] for row in rows if (row.get("low single") or 0.0) > 1.0]
    lines = [line(GPU_HEAD), line(["---"] * len(GPU_HEAD)), *(line(gpu_cells(row)) for row in rows), "",
             f"Times in us. Plans that are worse than the best single scheme by more than their interval: {', '.join(worse) if worse else 'none'}.", "",
             f"Measured on: {device['name']}, compute capability {device['compute']}, driver {device['driver']}, cuBLASLt {device['cublaslt']}, "
             f"{number(device.get('mhz before'), 0)} MHz before and {number(device.get('mhz after'), 0)} after, {device['flops'] / 1e12:.0f} TFLOP/s, {device['bandwidth'] / 1e12:.2f} TB/s, "
             f"{device['cmr']:.0f} FLOP/B; {kept['dtype']}, protocol {kept['protocol']}, {kept['date']}, commit {kept['commit'][:7]}."]
    return "\n".join(lines) + "\n"


def chain_cells(chain):
    sides = [chain[side]["us"] for side in ("cublas", "plain", "protected")]
    faults = chain["faults"]
    return [chain["name"], str(chain["layers"]), *(number(us, 1 if us < 1000 else 0) for us in sides), number(chain["ratio"], 3), number(chain["overhead"], 3),
            *(str(faults[what]) for what in ("planted", "above_floor", "missed"))]


def chains_table():
    kept = record.read(CHAINS, "networks", "device", "date", "commit")
    with record.of(CHAINS):
        chains = kept["networks"]
        worst = max(chains, key=lambda chain: chain["ratio"])
        faults = [sum(chain["faults"][what] for chain in chains) for what in ("planted", "above_floor", "missed")]
        total = [f"geometric mean of {len(chains)}", "", "", "", "", number(mean(chains, "ratio"), 3), number(mean(chains, "overhead"), 3), *map(str, faults)]
        lines = [line(CHAINS_HEAD), line(["---"] * len(CHAINS_HEAD)), *(line(chain_cells(chain)) for chain in chains), line(total), "",
                 f"Medians in us, each a graph. The worst is {worst['name']}, {worst['ratio']:.3f}. Measured on: {kept['device']}, cuBLAS {kept['cublas']}, {kept['date']}, "
                 f"commit {kept['commit'][:7]}."]
    return "\n".join(lines) + "\n"


def pictures(texts, names, folder):
    return "\n".join(f"![{text}]({folder}/{name}.svg)\n" for name, text in texts.items() if f"{name}.svg" in names)


def page(path, parts):
    """What the page is, and what it is to be with these parts."""
    with open(path, encoding="utf-8") as file:
        old = new = file.read()
    for name, part in parts:
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


def draw_gpu(redoubt, folder):
    os.makedirs(folder)
    subprocess.run([redoubt, "figures", GPU_RECORD, "-o", folder], check=True)
    return sorted(os.listdir(folder))


def stale(folder, names, figures, texts):
    """Pictures that are not as they are drawn, or not drawn any more."""
    os.makedirs(figures, exist_ok=True)
    kept = [name for name in os.listdir(figures) if name[:-4] in texts]
    return [name for name in sorted({*names, *kept}) if name not in names or not os.path.exists(os.path.join(figures, name))
            or not filecmp.cmp(os.path.join(folder, name), os.path.join(figures, name), shallow=False)]


def settle(path, parts, folder, names, figures, texts, check):
    """Writes a page and its pictures, or says which of them are not what the records say."""
    old, new = page(path, parts)
    changed = stale(folder, names, figures, texts)
    if check:
        return [os.path.relpath(os.path.join(figures, name), record.ROOT) for name in changed] + [os.path.relpath(path, record.ROOT)] * (old != new)
    for name in changed:
        if name in names:
            shutil.copy(os.path.join(folder, name), figures)
        else:
            os.remove(os.path.join(figures, name))
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names, below = draw(options.redoubt, folder), os.path.join(folder, "gpu")
        other = settle(PAGE, (("table", table()), ("pictures", pictures(PICTURES, names, "figures"))), folder, names, FIGURES, PICTURES, options.check)
        names = draw_gpu(options.redoubt, below)
        other += settle(GPU_PAGE, (("table", gpu_table(GPU_RECORD)), ("other table", gpu_table(OTHER_GPU)), ("chains", chains_table()), ("pictures", pictures(GPU_PICTURES, names, "figures/gpu"))), below, names, GPU_FIGURES, GPU_PICTURES,
                        options.check)
        if other:
            print(f"not what the records say: {', '.join(other)}: tools/workload_page.py REDOUBT", file=sys.stderr)
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main())
