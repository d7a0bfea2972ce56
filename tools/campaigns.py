#!/usr/bin/env python3
"""The campaigns of planted faults that a release is judged by: every scheme with every datatype on products, networks,
unprotected runs beside them, the same with faults in data alone, runs without a fault on all families of data. A row each; what is done
already is not run again.

usage: tools/campaigns.py REDOUBT DIR [--part products|convolutions|networks|data|data-networks|clean|gpu]... [--n N] [--jobs N] [--at-once N]
                          [--isa avx2|avx512]... [--list | --gather] [--of COMMIT] [--json FILE] [--md FILE]
  tools/campaigns.py build/cli/redoubt DIR --jobs 2 --json bench/results/campaign-table.json
  tools/campaigns.py build/cli/redoubt DIR --part gpu --n 10000 --json bench/results/gpu-campaigns.json

DIR keeps a summary of each campaign (redoubt inject --report), --json and --md what is made of all that are there. Each names the commit that
it ran on: --of, else that of the checkout. --list prints what would be run, for another machine: a name and the arguments of redoubt inject; its
summaries are put into DIR and counted by --gather. --at-once campaigns run side by side, each with --jobs processes; with --isa on
these instructions, each a row of its own.
--n scales: faults of a product; in data alone 6/5 of them; a convolution has a quarter, a network a fifth, runs without a fault are as many as it
takes for their checks. The part gpu is none of those that are run where no --part is given: it needs a GPU, and has its own record. Faults in data alone are those of the default mix, at the sites that DATA_SITES names.
Exit code 1: a campaign failed.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

import record
import tables

PARTS = ["products", "convolutions", "networks", "data", "data-networks", "clean"]
GPU = "gpu"
GPU_PRODUCT = "gemm:100x140x1000"  # no multiple of a tile, and many blocks share k
GPU_SCHEMES = {"f16": ["thread1", "thread2", "replicate", "replicate1", "row", "col", "global", "global-classic", "tmr-kernel"],
               "s8": ["thread1", "row", "tmr-kernel"], "f64": ["thread1", "row", "tmr-kernel"], "f32": ["thread1", "row", "tmr-kernel"]}
ISAS = ["avx512", "avx2"]
GEMM = ["row", "col", "rowcol", "global", "global-classic", "tile", "thread1", "thread2", "replicate", "replicate1", "dup", "none"]
DTYPES = ["f32", "f64", "bf16", "f16", "s8", "u8"]
PRODUCT = "gemm:96x80x72"
NETWORKS = {"digits": {}, "resnet18": {"side": 64}, "minilm": {"batch": 1, "sequence": 16}}
# Shares of the sites. What a check of products is for is the accumulator; weights are struck in memory, where most schemes have a bit-sum that sees
# them before they are multiplied, and a product has none of the other sites.
DATA_SITES = {"accum": 3, "weight": 1, "packed": 1, "input": 1, "epilogue": 1, "nonlinear": 1, "output": 1}
CONV = "conv:1x16x14x14:24x3x3:p1"  # a quarter of a product's faults each
CONV_SCHEMES = ["fc", "ic", "fic", "none"]
CLEAN = "gemm:1024x64x64"  # 1024 checks a run with row
CLEAN_CHECKS = {3: 1.2e7, 4: 3.2e7, 6: 6.0e7}  # by lambda, in f32 and bf16 together
CLEAN_SHARES = {"f32": 0.75, "bf16": 0.25, "f64": 0.25, "f16": 0.25}
EXACT = ["s8", "u8"]  # no rounding: no lambda, no families
KEPT = ["built_of", "target", "device_name", "family", "fault", "scheme", "on_fault", "lambda", "isa", "seed", "done", "checks", "suspects", "failed", "clean", "total",
        "data", "checker", "sites", "floor_least", "floor_most", "failures", "worst_miss"]


def data_mix(redoubt, folder):
    """The default mix at the sites of data, as a file."""
    mix, _ = record.said([redoubt, "list", "mix", "--json"])
    mix["sites"] = [{"site": site, "share": share} for site, share in DATA_SITES.items()]
    path = os.path.join(folder, "data-mix.json")
    with open(path, "w") as f:
        json.dump(mix, f)
    return path


def campaigns(part, folder, n, mix):
    """Name and arguments of each."""
    data = part.startswith("data")
    faults, prefix = (["--mix", mix], "data-") if data else ([], "")
    if part in ("products", "data"):
        for dtype in DTYPES:
            for scheme in GEMM:
                yield (f"{prefix}{PRODUCT}-{dtype}-{scheme}".replace(":", "-"),
                       [f"{PRODUCT}:{dtype}", "--scheme", scheme, *faults, "--n", str(n * 6 // 5 if data else n)])
    if part == "convolutions":
        for dtype in DTYPES:
            for scheme in CONV_SCHEMES:
                yield f"{CONV}-{dtype}-{scheme}".replace(":", "-"), [f"{CONV}:{dtype}", "--scheme", scheme, "--n", str(n // 4)]
    if part in ("networks", "data-networks"):
        import campaign
        for name, sizes in NETWORKS.items():
            work = os.path.join(folder, "models-" + name)
            os.makedirs(work, exist_ok=True)
            model, inputs = campaign.prepared(name, sizes, work, None)
            for scheme in ["auto", "none"]:
                yield f"{prefix}{name}-{scheme}", [model, *inputs, "--scheme", scheme, *faults, "--n", str(n // 5)]
    if part == GPU:
        import campaign
        device = ["--device", "cuda:0"]
        for dtype, schemes in GPU_SCHEMES.items():
            for scheme in schemes:
                yield f"gpu-{dtype}-{scheme}", [f"{GPU_PRODUCT}:{dtype}", "--scheme", scheme, *device, "--n", str(n)]
        for name, part_of in (("digits", 1), ("resnet18", 5)):
            work = os.path.join(folder, "models-" + name)
            os.makedirs(work, exist_ok=True)
            model, inputs = campaign.prepared(name, {}, work, None)
            yield f"gpu-{name}", [model, *inputs, *device, "--n", str(n // part_of)]
    if part == "clean":
        runs = lambda checks: ["--scheme", "row", "--fault", "none", "--n", str(int(checks * n / 1e5 / 1024))]
        for dtype, share in CLEAN_SHARES.items():
            for lam, checks in CLEAN_CHECKS.items():
                yield f"clean-{dtype}-{lam}", [f"{CLEAN}:{dtype}", *runs(checks * share), "--family", "all", "--lambda", str(lam)]
        for dtype in EXACT:
            yield f"clean-{dtype}", [f"{CLEAN}:{dtype}", *runs(1e7)]


def run(redoubt, args, jobs, isa, report, built_of):
    command = [redoubt, "inject", *args, "--jobs", str(jobs), "--threads", "1", "--quiet", "--report", report + ".tmp"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **({"REDOUBT_ISA": isa} if isa else {})})
    if done.returncode > 1 or not os.path.exists(report + ".tmp"):
        with open(report + ".refused", "w") as f:
            f.write(done.stderr.strip() + "\n")
        return
    doc = record.read(report + ".tmp")
    doc["built_of"] = built_of
    record.keep(report, doc)


def row_of(name, part, doc, built_of):
    row = {"name": name, "built_of": built_of, **{k: doc[k] for k in KEPT if k in doc}}
    if part.startswith("data"):
        row["mix"] = DATA_SITES
    row["target"] = os.path.basename(row["target"])
    row["failures"] = row["failures"][:5]
    for site in row.get("sites", []):
        for key in [k for k in site if k.endswith(("_low", "_high")) or not site[k]]:
            del site[key]
    return row


def upper(hits, n):
    """Wilson, 95 %."""
    if n == 0:
        return 1.0
    z, p = 1.959963984540054, hits / n
    mid, half = p + z * z / (2 * n), z * ((p * (1 - p) + z * z / (4 * n)) / n) ** 0.5
    return (mid + half) / (1 + z * z / n)


HEAD = """# Campaigns

What campaigns of planted faults ([howto-inject.md](howto-inject.md#campaigns)) found: every scheme with every datatype on a product, convolutions,
networks, and unprotected runs (`none`) beside them. {planted} faults in all, of which {missed} above the detection floor were missed inside a claim.
Written by `tools/campaigns.py REDOUBT DIR --jobs 2 --json bench/results/campaign-table.json --md docs/campaigns.md`; the summaries are in
[campaign-table.json](../bench/results/campaign-table.json), each with the commit and the instruction set that it ran on. "At most" is the share of faults
in data above the floor that may go unnoticed inside a claim (95 %, Wilson). Silent corruptions of a protected target are below the check's floor, yet
larger than the rounding of the element that was hit; their share is of faults in data. This is coverage of injected faults, no measurement in a beam or in the field.
"""
DATA = """
## Faults in data

The default mix of faults at the sites of data alone, none in the checks: of a product three in the accumulator for one in a weight and one in its packed
copy, of a network one each in inputs, epilogues, other ops and outputs as well. A weight that its bit-sum finds before it is multiplied has changed no
result: it does not count as above the floor.
"""
ALL = """
## Faults everywhere

The default mix, all sites alike. Seven of ten faults of a protected target strike the checks themselves, and none of those can be missed: they change
the data or do not. "In data" are the others, above the floor.
"""
CLEAN_HEAD = """
## No faults

Checks that had nothing to find, on each family of data. In parentheses: of data whose partial sums cancel (`cancelling`, `blocks`) or whose columns repeat
(`duplicated`) lambda states no share of suspects ([tolerance.md](tolerance.md)). Of `blocks` in f32 and f16 more checks are suspects than of others; each is
settled by computing again, the first one of a plan turns checkpoints on, after which there are none, and none is a report.
"""
CHECKS = tables.sites("CHECKS")
NO_RATE = tables.families_without_rate()


def in_data(row, key):
    return sum(site.get(key, 0) for site in row["sites"] if site["site"] not in CHECKS)


def commit_of(row):
    return row["built_of"].split()[0][:7]


def table(heads, rows):
    """Text to the left, numbers to the right."""
    line = lambda cells: "| " + " | ".join(map(str, cells)) + " |"
    return [line(heads), line("---:" if isinstance(cell, (int, float)) or "%" in str(cell) else "---" for cell in rows[0])] + [line(row) for row in rows]


def of_stated(row, layer):
    """Suspects in units of what lambda states, where it states something."""
    ratio = float(f"{layer['suspects'] / layer['checks'] / row['clean']['stated_share']:.3g}")
    return f"({ratio})" if layer["layer"].split()[-1] in NO_RATE else ratio


def faults_of(row):
    """From the faults above the floor in data to the commit."""
    total, data, missed = row["total"], in_data(row, "above_floor"), in_data(row, "missed")
    silent = total["sdc"] + total["sdc_critical"]
    share = "-" if row["scheme"] == "none" else f"{100 * upper(missed, data):.4f} %"
    return [data, total["missed"], share, total["uncovered"], total["miscorrected"], total["due"], f"{silent} ({100 * silent / max(1, in_data(row, 'planted')):.2f} %)",
            row.get("device_name", row["isa"]), commit_of(row)]


FAULTS = ["missed inside claims", "at most (95 %)", "uncovered", "made worse", "no result", "silent corruptions", "instructions", "commit"]


def markdown(rows):
    planted = [r for r in rows if "total" in r]
    data, everywhere = [r for r in planted if "mix" in r], [r for r in planted if "mix" not in r]
    clean = [(r, layer) for r in rows if "clean" in r for layer in r["clean"].get("layers", [])]
    out = [HEAD.format(planted=sum(r["total"]["planted"] for r in planted), missed=sum(r["total"]["missed"] for r in planted)).rstrip()]
    if data:
        out += [DATA, *table(["target", "scheme", "faults", "above the floor", *FAULTS],
                             [[r["target"], r["scheme"], r["total"]["planted"], *faults_of(r)] for r in data])]
    if everywhere:
        out += [ALL, *table(["target", "scheme", "faults", "above the floor", "of these in data", *FAULTS],
                            [[r["target"], r["scheme"], r["total"]["planted"], r["total"]["above_floor"], *faults_of(r)] for r in everywhere])]
    if clean:
        out += [CLEAN_HEAD, *table(["data", "lambda", "checks", "suspects", "of the stated share", "false reports", "instructions", "commit"],
                                   [[f"{r['target']} {c['layer'].split()[-1]}", r["lambda"], c["checks"], c["suspects"],
                                     of_stated(r, c), c["reports"], r["isa"], commit_of(r)]
                                    for r, c in clean])]
        total = [r for r in rows if "clean" in r]
        out += ["", f"{sum(r['checks'] for r in total)} checks without a fault, {sum(r['clean']['reports'] for r in total)} false reports."]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("redoubt")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--part", action="append", choices=[*PARTS, GPU])
    parser.add_argument("--n", type=int, default=100000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--isa", action="append", choices=ISAS, help="with these instructions in place of the best there are")
    parser.add_argument("--at-once", type=int, default=1, metavar="N")
    parser.add_argument("--gather", action="store_true", help="of those that are done; nothing is run")
    parser.add_argument("--list", action="store_true", help="print them; nothing is run")
    parser.add_argument("--of", metavar="COMMIT", help="what REDOUBT was built of, where it is not the checkout")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--md", metavar="FILE")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    rows, refused, built_of, mix = [], [], args.of or record.commit(), data_mix(args.redoubt, args.folder)
    isas = ["", *ISAS] if args.gather else args.isa or [""]
    asked = [(f"{isa}{'-' if isa else ''}{name}", part, words, isa) for isa in isas for part in args.part or PARTS
             for name, words in campaigns(part, args.folder, args.n, mix)]
    report_of = lambda name: os.path.join(args.folder, f"{name}-{args.n}.json")
    if args.list:
        for name, _, words, isa in asked:
            print(os.path.basename(report_of(name)), *words)
        return 0

    def ensure(one):
        name, _, words, isa = one
        report = report_of(name)
        if not args.gather and not os.path.exists(report) and not os.path.exists(report + ".refused"):
            run(args.redoubt, words, args.jobs, isa, report, built_of)
            print(f"{name}: done", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        for _ in pool.map(ensure, asked):
            pass
    for name, part, _, _ in asked:
        report = report_of(name)
        if os.path.exists(report):
            doc = record.read(report)
            with record.of(report):
                rows.append(row_of(name, part, doc, built_of))
        elif os.path.exists(report + ".refused"):
            refused.append(name)
    failed = sum(r["failed"] > 0 for r in rows)
    result = {"schema": "redoubt.campaign-table/1", "faults": args.n, "rows": rows, "refused": refused}
    if args.json:
        record.keep(args.json, record.document(args.redoubt, "tools/campaigns.py REDOUBT DIR", int(failed > 0), result, args.of))
    if args.md:
        with open(args.md, "w") as f:
            f.write(markdown(rows))
    else:
        print(markdown(rows), end="")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
