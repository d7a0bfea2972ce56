"""Where events go: --events, --prom, --syslog of `redoubt run` and `redoubt inject`.

    check_events.py REDOUBT [--kills N]     (the path of the built program; N: processes to kill, 5 by itself)

Events of planted faults are valid by docs/schema/event-1.json and tell what was planted; counters are valid text for
Prometheus and go on where they were; whoever is killed at a random moment leaves whole files. Needs jsonschema.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import jsonschema

from expectations import expect

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
MODEL, SOME = DIGITS / "digits.onnx", DIGITS / "some.npy"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schema/event-1.json").read_text()))

# A planted fault, and what the event must say.
PLANTED = [
    ("bit:30@accum,layer=conv4,seed=2", {"layer": "conv4", "what": "result", "diagnosis": "transient",
                                         "action": "recomputed", "changed": 1, "seed": 2, "shape": [8, 32, 4, 4]}),
    ("bit:30@weight,layer=conv3,seed=18446744073709551615", {"layer": "conv3", "diagnosis": "memory", "action": "restored",
                                                             "what": "weight", "seed": 18446744073709551615}),
    ("bit:20@checksum,layer=conv3,seed=1", {"layer": "conv3", "what": "checksum", "diagnosis": "checker",
                                            "action": "renewed", "changed": 0}),
    ("bit:30@nonlinear,layer=softmax,seed=4", {"layer": "softmax", "scheme": "dup", "diagnosis": "transient", "floor": 0,
                                               "shape": [8, 10]}),
    ("bit:30@output,seed=3", {"what": "activation", "diagnosis": "memory"}),
]
METRICS = {"runs", "checks", "suspects", "unchecked", "run_seconds", "check_seconds", "recovery_seconds", "faults"}


def redoubt(*arguments, code=0):
    arguments = [str(part) for part in arguments]
    done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == code, f"{' '.join(arguments)}: exit code {done.returncode}, not {code}: {done.stderr}")
    return done


def read_events(path, torn=0):
    """As docs/fleet.md says to read them: a line that is no JSON was cut off, by a full disk or a crash of the machine."""
    events, bad = [], 0
    for line in path.read_text().split("\n"):
        try:
            if line:
                events.append(json.loads(line))
        except ValueError:
            bad += 1
    expect(bad == torn, f"{path.name}: {bad} lines are torn, not {torn}")
    for event in events:
        for error in SCHEMA.iter_errors(event):
            expect(False, f"{path.name}: {error.message} in {event}")
    return events


def read_counters(path):
    """The text format as promtool wants it: HELP, TYPE and samples of a metric together, names, escapes, no sample twice."""
    name, label = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"({name})\{{({label}(?:,{label})*)\}} (\S+)")
    text = path.read_text()
    expect(text.endswith("\n"), f"{path.name} does not end with a line break")
    values, metric, kind, seen = {}, None, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            metric, kind = line.split(" ", 3)[2], None
            expect(metric not in seen and len(line.split(" ", 3)[3]) > 10, f"{path.name}: {line}")
            seen.add(metric)
        elif line.startswith("# TYPE "):
            kind = line.split(" ")[3]
            expect(line.split(" ")[2] == metric and kind in ("counter", "gauge"), f"{path.name}: {line}")
            expect(metric.endswith("_total") == (kind == "counter"), f"{path.name}: {line}")
        else:
            match = sample.fullmatch(line)
            expect(match and kind and match[1] == metric and (match[1], match[2]) not in values, f"{path.name}: {line}")
            expect(match and math.isfinite(float(match[3])) and float(match[3]) >= 0, f"{path.name}: {line}")
            if match:
                values[match[1], match[2]] = float(match[3])
    expect({f"redoubt_{m}_total" for m in METRICS} <= seen, f"{path.name}: counters are missing: {seen}")
    return values


def total(values, metric, *labels):
    return sum(x for (name, text), x in values.items() if name == f"redoubt_{metric}_total" and all(l in text for l in labels))


def check_planted(folder):
    for number, (spec, wanted) in enumerate(PLANTED):
        path = folder / f"planted-{number}.jsonl"
        before = datetime.datetime.now(datetime.timezone.utc)
        redoubt("run", MODEL, "-i", SOME, "--fault", spec, "--events", path, "--repeat", 2, "--quiet")
        events = read_events(path)
        expect(len(events) == 1, f"{spec}: {len(events)} events")
        for event in events[:1]:
            for key, value in {**wanted, "kind": "fault", "verdict": "RECOMPUTED", "fault": spec, "run": 1}.items():
                expect(event.get(key) == value, f"{spec}: {key} is {event.get(key)}, not {value}")
            when = datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
            expect(abs((when - before).total_seconds()) < 60, f"{spec}: at {event['time']}, and it is {before}")
            expect(event["host"] == os.uname().nodename, f"{spec}: host {event['host']}")
            expect(event["core"] in os.sched_getaffinity(0) | {-1}, f"{spec}: core {event['core']}")
            expect(len(event["rungs"]) >= 1, f"{spec}: no rungs")
            if event["changed"] > 0:
                check_element(spec, event)
    only_spoilt_fails(events[0])


def check_corrected(folder):
    """Collinear faults are rebuilt from checksums: the event says within what; where that is not so, no bound is named."""
    path = folder / "corrected.jsonl"
    for number, (spec, changed) in enumerate((("random@accum,layer=conv4,count=5,along=row,seed=2", 5),
                                              ("bit:30@accum,layer=fc1,count=3,along=col,seed=1", 3))):
        redoubt("run", MODEL, "-i", SOME, "--fault", spec, "--on-fault", "correct", "--events", path, "--quiet")
        event = read_events(path)[number]
        for key, value in {"verdict": "CORRECTED", "action": "corrected", "diagnosis": "unknown", "what": "result",
                           "changed": changed, "fault": spec}.items():
            expect(event.get(key) == value, f"{spec}: {key} is {event.get(key)}, not {value}")
        expect(0 < event.get("corrected_bound", 0) < 0.1, f"{spec}: within {event.get('corrected_bound')}")
        expect([rung["name"] for rung in event["rungs"]] == ["secure", "correct"], f"{spec}: {event['rungs']}")
        check_element(spec, event)
    report = json.loads(redoubt("inject", MODEL, "-i", SOME, "--n", 40, "--fault", "bit@accum,count=1:16", "--on-fault",
                                "correct", "--json").stdout)
    tally, rebuilt = report["total"], report["rebuilt"]
    expect(tally["corrected"] > 20 and tally["miscorrected"] == 0, f"campaign: {tally}")
    expect(0 < rebuilt["worst_of_bound"] <= 1 and rebuilt["largest_bound"] > 0, f"campaign: {rebuilt}")


def check_element(spec, event):
    place, shape = event["location"], event["shape"]
    expect(0 <= place["element"] < math.prod(shape), f"{spec}: element {place['element']} of {shape}")
    expect(event.get("expected") != event.get("actual") or event["actual"] is None, f"{spec}: {event}")
    if len(shape) == 4:
        image, rest = divmod(place["element"], math.prod(shape[1:]))
        channel, pixel = divmod(rest, shape[2] * shape[3])
        expect((place["row"], place["column"]) == (image * shape[2] * shape[3] + pixel, channel), f"{spec}: {place} in {shape}")


def only_spoilt_fails(event):
    for key in SCHEMA.schema["required"]:
        spoilt = {k: v for k, v in event.items() if k != key}
        expect(not SCHEMA.is_valid(spoilt), f"the schema does not miss {key}")
    expect(not SCHEMA.is_valid({**event, "more": 1}), "the schema takes what it does not know")
    expect(not SCHEMA.is_valid({**event, "time": "2026-01-01 00:00:00"}), "the schema takes any time")


def check_campaign(folder):
    events, prom, report = folder / "campaign.jsonl", folder / "campaign.prom", folder / "campaign.json"
    redoubt("inject", MODEL, "-i", SOME, "--n", 60, "--events", events, "--prom", prom, "--report", report, "--quiet")
    found = [event for event in read_events(events) if event["kind"] == "fault"]
    tally = json.loads(report.read_text())["total"]
    trials = {event["run"] for event in found}
    repaired = tally["recomputed"] + tally["corrected"]
    expect(len(trials) >= repaired > 20, f"events of {len(trials)} trials, {repaired} were repaired")
    expect(all(f"seed={event['seed']}" in event["fault"] for event in found), "an event does not name its fault's seed")
    values = read_counters(prom)
    expect(total(values, "faults") == len(found), f"{len(found)} events, {total(values, 'faults')} counted")
    expect(total(values, "recovery_seconds") > 0, "no time in recovery")


def check_counters(folder):
    model, prom = folder / 'a "model"\\.onnx', folder / "c.prom"
    model.write_bytes(MODEL.read_bytes())
    once = ["run", model, "-i", SOME, "--prom", prom, "--quiet"]
    redoubt(*once, "--repeat", 3)
    first = read_counters(prom)
    expect(total(first, "runs") == 3 and total(first, "faults") == 0, f"3 clean runs: {first}")
    redoubt(*once, "--fault", "bit:30@accum,layer=conv4,seed=2")
    redoubt(*once, "--fault", "bit:30@accum,layer=conv4,seed=2", "--on-fault", "report", code=1)
    values = read_counters(prom)
    expect(total(values, "runs") == 5, f"counters do not go on: {values}")
    expect(total(values, "faults", 'diagnosis="transient"', 'verdict="RECOMPUTED"') == 1, f"{values}")
    expect(total(values, "faults", 'verdict="DETECTED"') == 1 and total(values, "faults") == 2, f"{values}")
    expect(total(values, "checks") > total(first, "checks") > 0, "checks do not add up")
    if shutil.which("promtool"):
        with prom.open() as file:
            subprocess.run(["promtool", "check", "metrics"], stdin=file, check=True)
    other = redoubt("run", MODEL, "-i", SOME, "--prom", prom, "--quiet", code=2)
    expect("a file of its own" in other.stderr, other.stderr)
    expect(read_counters(prom) == values, "counters of another model were touched")
    mistyped = folder / "mistyped.prom"
    redoubt("run", folder / "mistyped.onnx", "-i", SOME, "--prom", mistyped, code=2)
    expect(not mistyped.exists(), "a model that is not there is counted")


def check_paths(folder):
    run = ["run", MODEL, "-i", SOME, "--quiet"]
    mine, report = folder / "mine.npy", folder / "r.json"
    mine.write_bytes(SOME.read_bytes())
    for option in ("--events", "--prom"):
        for path, words in ((folder / "no" / "where", "No such file"), (folder, "")):
            done = redoubt(*run, option, path, code=2)
            expect(str(path) in done.stderr and words in done.stderr, f"{option} {path}: {done.stderr}")
        done = redoubt("run", MODEL, "-i", mine, option, mine, code=2)
        expect("is read by this run" in done.stderr, done.stderr)
        done = redoubt("inject", MODEL, "-i", mine, option, mine, "--n", 1, code=2)
        expect("is read by this run" in done.stderr, done.stderr)
        done = redoubt(*run, option, report, "--report", report, code=2)
        expect("two purposes" in done.stderr, done.stderr)
    expect(mine.read_bytes() == SOME.read_bytes(), "an input was written to")
    done = redoubt(*run, "--events", report, "--prom", report, code=2)
    expect("two purposes" in done.stderr, done.stderr)
    done = redoubt(*run, "--prom", mine, code=2)
    expect("is not a counter" in done.stderr and mine.read_bytes() == SOME.read_bytes(), done.stderr)
    done = redoubt(*run, "--prom-every", 3, code=2)
    expect("there is no --prom" in done.stderr, done.stderr)
    if os.path.exists("/dev/full"):
        fault = ["--fault", "bit:30@accum,seed=1"]
        done = redoubt(*run, *fault, "--events", "/dev/full", code=2)
        expect("No space left" in done.stderr, done.stderr)
        redoubt(*run, *fault, "--on-fault", "report", "--events", "/dev/full", code=1)  # the fault weighs more


def check_torn(folder):
    path = folder / "torn.jsonl"
    path.write_text('{"schema":"redoubt.event/1","redou')
    redoubt("run", MODEL, "-i", SOME, "--fault", "bit:30@accum,seed=1", "--events", path, "--quiet")
    expect(len(read_events(path, torn=1)) == 1, "the event after a torn line cannot be read")


def check_together(folder):
    """Several processes append to one file; one of them meets a limit, which tears at most a line of its own."""
    path = folder / "together.jsonl"
    command = [PROGRAM, "inject", MODEL, "-i", SOME, "--n", "50", "--threads", "1", "--quiet", "--events", path]
    processes = [subprocess.Popen([*command, "--seed", str(seed)]) for seed in range(4)]
    expect([process.wait() for process in processes] == [0] * 4, "campaigns side by side")
    seeds = {event["seed"] for event in read_events(path) if event["kind"] == "fault"}
    expect(len(seeds) > 100, f"{len(seeds)} faults of 200")
    limit = path.stat().st_size // 1024 + 1
    done = subprocess.run(["sh", "-c", f'ulimit -f {2 * limit}; exec "$0" "$@"', *command], text=True,
                          stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 2 and "an event could not be written" in done.stderr, f"at the limit of a file: {done}")
    redoubt(*command[1:], "--seed", 9)
    read_events(path, torn=1)


def check_stopped(folder):
    """A service is stopped by SIGTERM: its counters are written before it ends."""
    prom = folder / "stopped.prom"
    process = subprocess.Popen([PROGRAM, "run", MODEL, "-i", SOME, "--prom", prom, "--repeat", "1000000000", "--quiet"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(prom)
    time.sleep(0.3)
    process.terminate()
    _, error = process.communicate()
    expect(process.returncode == 128 + signal.SIGTERM, f"stopped: exit code {process.returncode}, {error}")
    expect(total(read_counters(prom), "runs") > 0, "no runs are counted after SIGTERM")


def check_plugin(folder):
    """node-problem-detector's plugin: exit codes and one line."""
    monitor = json.loads((ROOT / "examples/fleet/node-problem-detector.json").read_text())
    conditions = {condition["type"] for condition in monitor["conditions"]}
    expect(all(rule["condition"] in conditions for rule in monitor["rules"]), "a rule of no condition")
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "redoubt").symlink_to(pathlib.Path(PROGRAM).resolve())
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "STATE": str(folder)}
    for model, code, words in ((MODEL, 0, "every check passed"), (folder / "none.onnx", 2, "could not run")):
        done = subprocess.run([ROOT / "examples/fleet/check-node", model, SOME, "2"], env=environment, text=True,
                              stdout=subprocess.PIPE, check=False)
        expect((done.returncode, done.stdout.count("\n")) == (code, 1) and words in done.stdout, f"check-node: {done}")
        expect(code == 2 or total(read_counters(folder / "check.prom"), "runs") == 2, "check-node does not count")
        (folder / "check.prom").unlink(missing_ok=True)
    example = ROOT.joinpath("docs/fleet.md").read_text().split("```")[1]
    for error in SCHEMA.iter_errors(json.loads(example.replace("\n", ""))):
        expect(False, f"the example of docs/fleet.md: {error.message}")


def wait_for(path):
    for _ in range(12000):  # a machine may be busy with something else
        if path.exists() and path.stat().st_size > 0:
            return
        time.sleep(0.01)
    expect(False, f"{path} does not come")


def nan_image(path):
    """A batch whose first image is not a number: every run has something to tell."""
    data = bytearray(SOME.read_bytes())
    start = len(data) - 8 * 64 * 4
    data[start:start + 4] = struct.pack("<f", math.nan)
    path.write_bytes(bytes(data))
    return path


def check_kills(folder, kills):
    """SIGKILL at random moments: every line is whole, the counters are one state, the report is whole or not there."""
    image, lines = nan_image(folder / "nan.npy"), 0
    for kill in range(kills):
        events, prom = folder / f"killed-{kill}.jsonl", folder / f"killed-{kill}.prom"
        process = subprocess.Popen([PROGRAM, "run", MODEL, "-i", image, "--events", events, "--prom", prom, "--prom-every",
                                    "0.001", "--repeat", "1000000000", "--quiet"], stdout=subprocess.DEVNULL)
        wait_for(events)
        time.sleep(random.random() * 0.2)
        process.kill()
        expect(process.wait() == -signal.SIGKILL, "it ended before it was killed")
        read_counters(prom)
        text = events.read_text()
        expect(text.endswith("\n"), "the last line is torn")
        for number, line in enumerate(text.splitlines()):
            lines += 1
            event = json.loads(line)
            if number % 97 == 0:  # parsing is quick, validating is not
                expect(SCHEMA.is_valid(event) and event["kind"] == "unchecked", f"not valid: {line}")
    print(f"      {kills} kills, {lines} lines, all whole")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("redoubt")
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    global PROGRAM
    PROGRAM = arguments.redoubt
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for check in (check_planted, check_corrected, check_campaign, check_counters, check_paths, check_torn, check_together, check_stopped, check_plugin):
            before = expect.failed
            check(folder)
            print(("ok    " if expect.failed == before else "FAIL  ") + check.__name__)
        before = expect.failed
        check_kills(folder, arguments.kills)
        print(("ok    " if expect.failed == before else "FAIL  ") + "check_kills")
    return 1 if expect.failed else 0


if __name__ == "__main__":
    sys.exit(main())
