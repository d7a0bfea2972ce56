#!/usr/bin/env python3
"""Writes src/plan/coverage.def: what campaigns have measured of schemes, from bench/results/campaign-table.json (tools/campaigns.py).

Of products with one scheme, struck at all sites alike: the faults in data that were not masked, those of them that were noticed, the ends of the 95 % interval
(Wilson). Where nothing is left but the sample's size, that is of schemes that compare bits and have missed none, what is declared stays.

    tools/make_coverage.py [FILE]           writes the table (default: the project's)
    tools/make_coverage.py --check [FILE]   1 where FILE is not what would be written
"""
import os
import re
import sys

import record
import tables

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "src", "plan", "coverage.def")
RECORD = os.path.join(ROOT, "bench", "results", "campaign-table.json")
Z = 1.959963984540054


def interval(hits, n):
    p = hits / n
    middle, half = p + Z * Z / (2 * n), Z * ((p * (1 - p) + Z * Z / (4 * n)) / n) ** 0.5
    return (middle - half) / (1 + Z * Z / n), min(1.0, (middle + half) / (1 + Z * Z / n))


def text():
    data = tables.sites("DATA")
    schemes = {name: (key, float(declared)) for key, name, declared in
               tables.rows_of("src/schemes/schemes.def", r'^X\((\w+), "([\w-]+)", "[^"]*", \d, \d, "[^"]*", ([\d.]+),')}
    result = record.read(RECORD, "result")["result"]
    with record.of(RECORD):
        return text_of(result["rows"], data, schemes)


def text_of(rows, data, schemes):
    found = {}
    for row in rows:
        target = re.fullmatch(r"(?:gemm|conv):.*:(\w+)", row["target"])
        if not target or "total" not in row or "mix" in row or row["scheme"] not in schemes or row["scheme"] == "none":
            continue
        hit = [s for s in row["sites"] if s["site"] in data]
        counts = found.setdefault((row["scheme"], target[1]), [0, 0])
        counts[0] += sum(s.get(fate, 0) for s in hit for fate in ("corrected", "recomputed", "detected"))
        counts[1] += sum(s["planted"] - s.get("masked", 0) for s in hit)
    lines = ["/* Written by tools/make_coverage.py from bench/results/campaign-table.json: do not edit.",
             " * X(scheme, datatype of the inputs, faults in data noticed, of so many that were not masked, ends of the share's 95 % interval) */",
             "/* clang-format off */"]
    for (scheme, dtype), (noticed, faults) in found.items():
        key, declared = schemes[scheme]
        if faults and not (declared == 1.0 and noticed == faults):
            low, high = interval(noticed, faults)
            lines.append(f"X({key}, {dtype.upper()}, {noticed}, {faults}, {low:.6f}, {high:.6f})")
    return "\n".join(lines) + "\n"


def main():
    words = [w for w in sys.argv[1:] if w != "--check"]
    if len(words) > 1 or words[:1] != [w for w in words if not w.startswith("-")]:
        sys.exit(__doc__.strip())
    path = words[0] if words else TABLE
    if "--check" in sys.argv[1:]:
        with open(path) as f:
            same = f.read() == text()
        if not same:
            print(f"{path} is not what the record says: tools/make_coverage.py", file=sys.stderr)
        return int(not same)
    with open(path, "w") as f:
        f.write(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
