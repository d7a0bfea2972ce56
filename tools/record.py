#!/usr/bin/env python3
"""Runs a measuring command of redoubt and keeps what it printed, with commit, device and date, under bench/results/.

usage: tools/record.py REDOUBT NAME COMMAND...
  tools/record.py build/cli/redoubt conv-56x56 bench conv --threads 1,2 --trials 41
"""
import contextlib
import datetime
import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def commit():
    """Of the checkout; with a + where files have changed since."""
    def git(*args):
        try:
            return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            sys.exit(f"{os.path.abspath(ROOT)}: no checkout of git: which commit is measured is not known")
    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")


def said(command, worst=0):
    """What a command that prints JSON said, and its exit code; ends the tool where there is none, or the code is above the worst that is known."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    if not 0 <= done.returncode <= worst:
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
    try:
        return json.loads(done.stdout), done.returncode
    except ValueError:
        sys.exit(f"no JSON: {' '.join(command)}")


def document(redoubt, command, code, result, of=None):
    """What is kept of a measurement: the command as typed, its exit code, what it found, and where and when. of: the commit that was measured, where
    this is no checkout of it."""
    info, _ = said([redoubt, "info", "--json"])
    return {
        "schema": "redoubt.record/1",
        "command": command,
        "exit": code,
        "commit": of or commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "device": info,
        "load": os.getloadavg()[0],
        "result": result,
    }


def typed(tool):
    """The command line of a tool as it is kept: where scratch files lay is nobody's business."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word == "--dir":
            next(words, None)
        elif not word.startswith("--dir="):
            kept.append(word)
    return " ".join([tool, *kept])


def keep(path, kept):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".tmp", "w") as f:
        json.dump(kept, f, indent=1)
        f.write("\n")
    os.replace(path + ".tmp", path)


def read(path, *keys):
    """A record that has these keys; ends the tool where it is none."""
    try:
        with open(path, encoding="utf-8") as f:
            kept = json.load(f)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    except ValueError as error:  # of JSON, or of UTF-8
        sys.exit(f"{path}: no JSON document: {error}; measure it again")
    for key in keys:
        if not isinstance(kept, dict) or key not in kept:
            sys.exit(f"{path}: a record that lacks '{key}': made by another command, or cut short; measure it again")
    return kept


@contextlib.contextmanager
def of(path):
    """While what a record says is looked at: one of another form ends the tool, which names the record and what it lacks."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration) as error:
        sys.exit(f"{path}: a record of another form ({type(error).__name__}: {error}): made by another command or version, or cut short; measure it again")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__.strip())
    redoubt, name, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    try:
        run = subprocess.run([redoubt, *command, "--json"], capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{redoubt}: {error.strerror}")
    if not run.stdout.strip().startswith("{"):
        sys.exit(f"exit code {run.returncode}, no JSON:\n{run.stdout}{run.stderr}")
    path = os.path.join(ROOT, "bench", "results", name + ".json")
    keep(path, document(redoubt, "redoubt " + " ".join(command), run.returncode, json.loads(run.stdout)))
    print(path)


if __name__ == "__main__":
    main()
