#!/usr/bin/env python3
"""`redoubt plan` on a GPU from outside: it measures and chooses, keeps what it measured, and chooses the same from that; policy
`model` measures nothing; documents are those of docs/schema. Part of `make gpu-check`.

    plan.py REDOUBT [DEVICE]        (the path of the built program; cuda:0)
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
try:
    import jsonschema
    from check_schemas import schema_of
except ImportError:
    jsonschema = None

WORKLOADS = "square-64,dlrm-bottom:1"
CHOICE = ("m", "n", "k", "plan kernel", "plan scheme", "plan us")


def plan(folder, device, *options):
    command = [sys.argv[1], "plan", "--device", device, "--workload", WORKLOADS, "--json", "--no-progress", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, XDG_CACHE_HOME=folder))
    if done.returncode == 3 and "no GPU" in done.stderr:
        print("skip plan: there is no GPU")
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-500:]}")
    told = json.loads(done.stdout)
    if jsonschema:
        jsonschema.validate(told, schema_of(told))
    return told


def rows(told, table):
    return next(t["rows"] for t in told["tables"] if t["name"] == table)


def main():
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda:0"
    with tempfile.TemporaryDirectory() as folder:
        first = plan(folder, device)
        products = rows(first, "products")
        bare = [row for row in products if not row["plan kernel"] or not row["plan us"] > 0 or row["plan scheme"] == "none"]
        if bare or not products:
            sys.exit(f"{len(bare)} of {len(products)} products without a protected plan: {bare[:1]}")
        if first["complaints"]:
            sys.exit(f"checks complained about clean data: {first['complaints']}")
        kept = list(pathlib.Path(folder).glob("redoubt/plan-gpu-*.json"))
        if len(kept) != 1:
            sys.exit(f"what was measured was not kept: {kept}")
        for before, now in zip(products, rows(plan(folder, device), "products"), strict=True):
            if any(before[key] != now[key] for key in CHOICE):
                sys.exit(f"planned from what was kept, a product got another plan: {now}, before {before}")
        model = plan(folder, device, "--policy", "model")
        if model["policy"] != "model" or any(not row["plan kernel"] for row in rows(model, "products")):
            sys.exit("policy model was not taken, or chose nothing for a product")
    print(f"ok    plan: {len(products)} products{'' if jsonschema else '; there is no jsonschema: documents were not looked at'}")


if __name__ == "__main__":
    main()
