#!/usr/bin/python3
"""Tools that read records end with a sentence that names the file, whatever lies there: nothing, half a document, one of another form. They are shown
such files in a copy of the tree; a good record is read."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EVERY = '"commit": "c", "date": "d", "command": "x"'
BAD = {
    "empty": b"", "cut": b'{"result": {"tab', "bytes": b"\xff\xfe\x00", "list": b"[]", "text": b'"record"', "none": b"{}",
    "null": f'{{{EVERY}, "result": null, "problems": null, "device": null, "tables": null, "gpu": null, "target": null}}'.encode(),
    "bare": f'{{{EVERY}, "result": {{}}, "problems": [{{}}], "device": "x", "planted": [], "tables": [], "gpu": {{}}, "target": 3}}'.encode(),
    "deep": f'{{{EVERY}, "result": {{"rows": [{{}}], "tables": [{{"name": "results", "rows": [{{}}]}}, {{"name": "machine", "rows": []}}]}}, '
            f'"problems": [{{"problem": "in=f16 1x2 warm=f16 2x3", "candidates": [{{}}]}}], "device": "x", "several": [{{}}], "gpu": {{}}, '
            f'"tables": [{{"name": "planned", "rows": [{{}}]}}]}}'.encode(),
}
STUB = """#!/bin/sh
case "$1" in --list) echo kernel 1;; list) echo '{"sites": []}';; *) exit 1;; esac
"""


def copy(folder):
    for part in ("tools", "src"):
        shutil.copytree(os.path.join(ROOT, part), os.path.join(folder, part))
    os.makedirs(os.path.join(folder, "bench", "results"))
    os.makedirs(os.path.join(folder, "work"))
    stub = os.path.join(folder, "stub")
    with open(stub, "w") as f:
        f.write(STUB)
    os.chmod(stub, os.stat(stub).st_mode | stat.S_IXUSR)
    return stub


def call(folder, tool, *words):
    done = subprocess.run([sys.executable, "-B", os.path.join(folder, "tools", tool), *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def complain(what, said):
    print(f"{what}: {said[-600:]}")
    return 1


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        stub = copy(folder)
        work, results = os.path.join(folder, "work"), os.path.join(folder, "bench", "results")
        listed = call(folder, "campaigns.py", stub, work, "--part", "products", "--of", "c", "--list")[1].split()[0]
        there = ("import workload_records as w, sys; sys.exit(w.is_there('resnet50', ['x'], {'cpu': 1, 'isa': 2}))")
        tools = [  # what is called, the file that it reads
            (["cost_table.py", os.path.join(work, "r.json")], os.path.join(work, "r.json")),
            (["fit_gpu_work.py", os.path.join(work, "r.json"), "4000"], os.path.join(work, "r.json")),
            (["make_coverage.py", "--check"], os.path.join(results, "campaign-table.json")),
            (["workload_page.py", "--check", stub], os.path.join(results, "workloads-resnet50.json")),
            (["campaigns.py", stub, work, "--part", "products", "--of", "c", "--gather"], os.path.join(work, listed)),
            (["gpu_faults.py", stub, work, "--gather", "--of", "c"], os.path.join(work, "kernel.json")),
        ]
        for kind, text in BAD.items():
            for words, path in tools:
                with open(path, "wb") as f:
                    f.write(text)
                code, said = call(folder, *words)
                if code == 0 or "Traceback" in said or os.path.basename(path) not in said:
                    bad += complain(f"{words[0]} of {kind}, exit code {code}", said)
                if "workloads-" in path:
                    done = subprocess.run([sys.executable, "-B", "-c", there], cwd=os.path.join(folder, "tools"), capture_output=True, text=True)
                    if done.returncode != 0 or os.path.basename(path) not in done.stdout:
                        bad += complain(f"workload_records.py of {kind}, exit code {done.returncode}", done.stdout + done.stderr)
                os.remove(path)
        code, said = call(folder, "cost_table.py", os.path.join(ROOT, "bench", "results", "avx2-gemm-skinny.json"))
        if code != 0 or said.count("\n") < 3:
            bad += complain(f"cost_table.py of a good record, exit code {code}", said)
        blind = os.path.join(folder, "blind")  # a screen to which all cores are good
        with open(blind, "w") as f:
            f.write("""#!/bin/sh\necho '{"devices": [{"units": [{"core": 0, "state": "good", "failures": 0}]}]}'\n""")
        os.chmod(blind, os.stat(blind).st_mode | stat.S_IXUSR)
        code, said = call(folder, "screen_study.py", blind, "--n", "2")
        if code != 1 or "named in 0 of 2" not in said:
            bad += complain(f"screen_study.py of a screen that finds nothing, exit code {code}", said)
        code, said = call(folder, "record.py", os.path.join(folder, "nowhere"), "name", "info")
        if code == 0 or "Traceback" in said or "nowhere" not in said:
            bad += complain("record.py of no program", said)
    print(f"{len(BAD)} kinds of files for {len(tools) + 1} tools, {bad} complaints")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
