"""What the program prints as JSON, and the measurements that are kept, against docs/schema.

    check_schemas.py REDOUBT        (the path of the built program; needs jsonschema)
"""
import functools
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
MODEL, SOME = DIGITS / "digits.onnx", DIGITS / "some.npy"
CALLS = [
    ("run", 0, ["run", MODEL, "-i", SOME, "--labels", DIGITS / "some-labels.npy"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,layer=conv4,seed=2"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--fault", "bit:30@weight,layer=conv3,seed=2", "--repeat", 3]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--scheme", "none"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--lambda", 1, "--repeat", 6]),
    ("run", 1, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,seed=1", "--on-fault", "report"]),
    ("run", 1, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,seed=1", "--on-fault", "abort"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,layer=conv4,count=4,seed=2", "--on-fault", "correct"]),
    ("coverage", 0, ["inject", MODEL, "-i", SOME, "--n", 100, "--fit", 5]),
    ("coverage", 0, ["inject", MODEL, "-i", SOME, "--n", 40, "--fault", "bit@accum,count=1:16", "--on-fault", "correct"]),
    ("coverage", 0, ["inject", MODEL, "-i", SOME, "--n", 20, "--fault", "none"]),
    ("coverage", 0, ["inject", MODEL, "-i", SOME, "--n", 20, "--fault", "bit:30@accum", "--scheme", "none"]),
    ("coverage", 0, ["inject", "conv:1x8x9x9:4x3x3:p1:s8", "--n", 40, "--jobs", 2]),
    ("coverage", 0, ["inject", "gemm:40x24x56", "--fault", "none", "--family", "all", "--lambda", 3, "--n", 16]),
    ("coverage", 4, ["inject", "gemm:8x8x8", "--n", 2, "--shard", "3/3"]),
    ("mix", 0, ["list", "mix"]),
    ("plan", 0, ["plan", MODEL, "--explain", "--no-cache"]),
    ("plan", 0, ["plan", MODEL, "--input-shape", "1x1x8x8;3x1x8x8", "--policy", "model"]),
    ("plan", 0, ["plan", "--workload", "dlrm-top:8", "--no-cache", "--threads", 1]),
    ("bench-model", 0, ["bench", "model", MODEL, "--trials", 3, "--threads", "1,2"]),
    ("bench-gemm", 0, ["bench", "gemm", "--mnk", "8:8:8", "--trials", 3, "--threads", 1]),
    ("bench-gemm", 0, ["bench", "gemm", "--m", "8,9", "--dtype", "f16", "--runs", 2, "--scheme", "all", "--baseline", "onednn,mkl"]),
    ("bench-gemm", 0, ["bench", "gemm", "--mnk", "2:512:512", "--cold", "--trials", 1, "--threads", 1, "--baseline", "none"]),
    ("bench-conv", 0, ["bench", "conv", "--n", 1, "--ic", 4, "--oc", 4, "--ih", 6, "--iw", 6, "--trials", 3, "--threads", 1]),
    ("bench-conv", 0, ["bench", "conv", "--n", "1,2,1", "--ic", 4, "--oc", 4, "--ih", 6, "--iw", 6, "--runs", 2, "--dtype", "u8", "--scheme", "all"]),
    ("bench-workloads", 0, ["bench", "workloads", "dlrm-top,square-32,noscope-coral:1", "--trials", 3, "--threads", "1,2", "--convolutions",
                            "--scheme", "auto,plan,global", "--max-seconds", 2]),
    ("bench-published", 0, ["bench", "published", "--trials", 8]),
    ("bench-published", 0, ["bench", "published", "--trials", 20, "--table", "strided"]),
    ("screen", 0, ["screen", "--time", 0.1]),
    ("screen", 0, ["screen", "--device", "all", "--time", 0.1]),
    ("screen", 1, ["screen", "--time", 0.1, "-r", 2, "--fault", f"bit@accum,core={min(os.sched_getaffinity(0))}"]),
    ("bench-tmr", 0, ["bench", "tmr", "--mnk", "8:8:8", "--trials", 3, "--device", "cpu"]),
    ("bench-checkpoints", 0, ["bench", "checkpoints", "--mnk", "8:8:32", "--trials", 1, "--threads", 1]),
    ("bench-outofcore", 0, ["bench", "outofcore", "--m", 90, "--n", 80, "--k", 70, "--mem-limit", "600k", "--errors", 1, "--threads", 1]),
    ("info", 0, ["info"]),
] + [("list", 0, ["list", table]) for table in ("schemes", "kernels", "dtypes", "ops", "sites", "workloads", "dlrm-top:8")]


def tensor_proto(values):
    """A TensorProto of 32-bit floats: dims, data_type 1, raw_data."""
    raw = struct.pack(f"<{len(values)}f", *values)
    return bytes([8, 1, 8, len(values), 16, 1, 74, len(raw)]) + raw


def write_cases(folder):
    """Two cases for `conformance`, the second with a wrong expectation; the digits network takes one.pb."""
    for name in ("right", "wrong"):
        data = folder / name / "test_data_set_0"
        data.mkdir(parents=True)
        shutil.copy(MODEL, folder / name / "model.onnx")
        shutil.copy(DIGITS / "one.pb", data / "input_0.pb")
    subprocess.run([sys.argv[1], "run", MODEL, "-i", DIGITS / "one.pb", "-o", folder, "--quiet"], check=True)
    scores = struct.unpack("<10f", (folder / "probabilities.npy").read_bytes()[-40:])
    (folder / "right/test_data_set_0/output_0.pb").write_bytes(tensor_proto(scores))
    (folder / "wrong/test_data_set_0/output_0.pb").write_bytes(tensor_proto(scores[::-1]))
    return [("conformance", 0, ["conformance", folder, "--filter", "right"]),
            ("conformance", 1, ["conformance", folder, "--junit", folder / "found.xml"])]


def write_matrices(folder):
    """Two matrices in .npy files, and what is made of them; an error of the last call is on the disk."""
    for name, rows, columns in (("A", 60, 50), ("B", 50, 70)):
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}\n".encode()
        body = struct.pack(f"<{rows * columns}f", *(i * i % 17 - 8 for i in range(rows * columns)))
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body)
    call = ["matmul", folder / "A.npy", folder / "B.npy", "-o", folder / "C.npy", "--threads", 1]
    subprocess.run([sys.argv[1], *map(str, call), "--mem-limit", "400k", "-q"], check=True)
    for line in (folder / "C.npy.sums").read_text().splitlines():
        validator_named("sums-1").validate(json.loads(line))
    shutil.copy(folder / "C.npy.sums", folder / "D.npy.sums")
    written = (folder / "C.npy").read_bytes()
    (folder / "D.npy").write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    return [("matmul", 0, call), ("matmul", 0, call + ["--errors", 3]), ("matmul", 0, call + ["--errors", 3, "--scattered"]),
            ("matmul", 0, call + ["--scheme", "none"]), ("verify", 0, ["verify", folder / "C.npy"]),
            ("verify", 1, ["verify", folder / "D.npy"])]


def check_campaign(folder):
    """The files that a campaign keeps."""
    failed = 0
    for i, options in enumerate((["--n", 60, "--scheme", "row"], ["--n", 5, "--fault", "none"])):
        kept = pathlib.Path(folder) / f"campaign{i}"
        subprocess.run([sys.argv[1], "inject", "gemm:20x30x40", "-q", "-o", kept, *map(str, options)], check=True)
        for kind, text in [("campaign", (kept / "campaign.json").read_text())] + \
                          [("trial", line) for line in (kept / "trials.jsonl").read_text().splitlines()]:
            for error in validator_named(f"{kind}-1").iter_errors(json.loads(text)):
                print(f"FAIL  {kind} of {' '.join(map(str, options))}: {error.message}")
                failed = 1
    measured = pathlib.Path(folder) / "measured.json"
    folders = [pathlib.Path(folder) / f"campaign{i}" for i in range(4)]
    for i, options in ((2, ["--n", 60, "--scheme", "none"]), (3, ["--n", 60, "--fault", "bit@accum", "--scheme", "row"])):
        subprocess.run([sys.argv[1], "inject", "gemm:20x30x40", "-q", "-o", folders[i], *map(str, options)], check=True)
    told = subprocess.run([sys.argv[1], "report", *folders, "--json"], check=True, capture_output=True, text=True).stdout
    subprocess.run([sys.argv[1], "report", *folders[:3], "--coverage-out", measured], check=True)
    beside = [row.get("unprotected", {}) for row in json.loads(told)["rows"]]
    if "sdc_share" not in beside[0] or "differs" in beside[0] or beside[3] != {"differs": "mix"}:
        print(f"FAIL  what stands beside campaigns: {beside}")
        failed = 1
    for text in (told, measured.read_text()):
        for part in [json.loads(text), *json.loads(told)["rows"]]:
            for error in validator_of(part).iter_errors(part):
                print(f"FAIL  {part['schema']} of redoubt report: {error.message}")
                failed = 1
    print("ok    the folder of a campaign" if not failed else "FAIL  the folder of a campaign")
    return failed


def main():
    with tempfile.TemporaryDirectory() as folder:
        failed = check(CALLS + write_cases(pathlib.Path(folder)) + write_matrices(pathlib.Path(folder))) | check_records() | check_events() | check_campaign(folder)
        cases = xml.etree.ElementTree.parse(pathlib.Path(folder) / "found.xml").findall("testsuite/testcase")
        if [case.find("failure") is None for case in cases] != [True, False]:
            print("FAIL  the JUnit file does not say that the second of two cases failed")
            failed = 1
        return failed


@functools.cache
def validator_named(name):
    schema = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def validator_of(document):
    """By the name that a document gives: "redoubt.run/1" is docs/schema/run-1.json."""
    kind, version = document["schema"].removeprefix("redoubt.").split("/")
    return validator_named(f"{kind}-{version}")


def check_events():
    """An event is told in the same words in a report and in a line of --events."""
    line = json.loads((ROOT / "docs/schema/event-1.json").read_text())["properties"]
    told = json.loads((ROOT / "docs/schema/run-1.json").read_text())["properties"]["events"]["items"]["properties"]
    differ = [key for key in told if told[key] != line.get(key)]
    if differ:
        print(f"FAIL  run-1.json and event-1.json differ in {differ}")
    return 1 if differ else 0


def documents(record):
    """A record of tools/record.py holds two documents; other benches write commit, device and date themselves."""
    return [record] + [record[part] for part in ("device", "result") if isinstance(record.get(part), dict)]


def check_record(record):
    for document in documents(record):
        validator_of(document).validate(document)


def check_records():
    failed, spoilt_once, paths = 0, set(), sorted((ROOT / "bench" / "results").glob("*.json"))
    for path in paths:
        record = json.loads(path.read_text())
        try:
            check_record(record)
            print(f"ok    {path.name}")
        except (KeyError, OSError, jsonschema.ValidationError) as error:
            failed = 1
            print(f"FAIL  {path.name}: {error}")
        for spoilt in documents(record):  # what lacks something must not pass; one document says that of its schema
            if spoilt["schema"] in spoilt_once:
                continue
            spoilt_once.add(spoilt["schema"])
            validator = validator_of(spoilt)
            key = validator.schema["required"][-1]
            kept = spoilt.pop(key)
            if validator.is_valid(spoilt):
                failed = 1
                print(f"FAIL  {path.name}: passes without {key}")
            spoilt[key] = kept
    return failed


def check(calls):
    failed = 0
    for kind, code, arguments in calls:
        arguments = [str(part) for part in arguments] + ["--json"]
        done = subprocess.run([sys.argv[1], *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        try:
            assert done.returncode == code, f"exit code {done.returncode}, not {code}: {done.stderr.decode()}"
            document = json.loads(done.stdout)
            assert document["schema"].startswith(f"redoubt.{kind}/"), document["schema"]
            validator_of(document).validate(document)
            print("ok    " + " ".join(arguments))
        except (AssertionError, KeyError, OSError, ValueError, jsonschema.ValidationError) as error:
            failed += 1
            print("FAIL  " + " ".join(arguments) + f": {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
