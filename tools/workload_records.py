#!/usr/bin/env python3
"""Measures the built-in networks with `redoubt bench workloads` and keeps what it printed: bench/results/workloads-*.json.

usage: tools/workload_records.py REDOUBT [--only WORD]... [--threads 2] [--factor F] [--again] [--list]
  tools/workload_records.py build/cli/redoubt                     all of them, some twenty minutes of an idle machine
  tools/workload_records.py build/cli/redoubt --only 1080p --factor 2

In the order of the list below, each with about so many seconds (--factor makes them longer or shorter; layers get fewer trials, 3 at least).
A record that this commit has already made on this device with as many threads is left alone, so what was interrupted goes on where it ended;
--again measures anew. Afterwards: tools/workload_page.py REDOUBT.
"""
import argparse
import os
import sys
import time

import record

NETWORK = "plan,global-classic,global,thread1,row"
SQUARE = "plan,row,col,rowcol,global,global-classic,tile,thread1,thread2,replicate,replicate1"
CONVOLUTION = "plan,fc,ic,fic"
# name of the record, its workloads, schemes, seconds: the most important first
RECORDS = [
    ("resnet50", "resnet50", NETWORK, 40),
    ("dlrm", "dlrm", NETWORK, 45),
    ("square", "square", SQUARE, 60),
    ("vgg16", "vgg16", NETWORK, 40),
    ("alexnet", "alexnet", NETWORK, 25),
    ("noscope", "noscope", NETWORK, 40),
    ("squeezenet", "squeezenet", NETWORK, 30),
    ("shufflenet", "shufflenet", NETWORK, 30),
    ("densenet161", "densenet161", NETWORK, 60),
    ("resnext50", "resnext50", NETWORK, 35),
    ("wide-resnet50", "wide-resnet50", NETWORK, 35),
    ("resnet50-1080p", "resnet50-1080p", NETWORK, 45),
    ("vgg16-1080p", "vgg16-1080p", NETWORK, 75),
    ("alexnet-1080p", "alexnet-1080p", NETWORK, 25),
    ("squeezenet-1080p", "squeezenet-1080p", NETWORK, 35),
    ("shufflenet-1080p", "shufflenet-1080p", NETWORK, 35),
    ("densenet161-1080p", "densenet161-1080p", NETWORK, 80),
    ("resnext50-1080p", "resnext50-1080p", NETWORK, 60),
    ("wide-resnet50-1080p", "wide-resnet50-1080p", NETWORK, 60),
    ("conv", "conv-resnet18,conv-resnet18:8,conv-vgg16,conv-vgg16:8,conv-resnet50,conv-resnet50:8", CONVOLUTION, 60),
    ("shufflenet-grouped", "shufflenet-grouped", NETWORK, 25),
    ("resnext50-grouped", "resnext50-grouped", NETWORK, 30),
    ("shufflenet-grouped-1080p", "shufflenet-grouped-1080p", NETWORK, 35),
    ("resnext50-grouped-1080p", "resnext50-grouped-1080p", NETWORK, 45),
]


def path_of(name):
    return os.path.join(record.ROOT, "bench", "results", f"workloads-{name}.json")


def command_of(workloads, schemes, seconds, threads):
    words = ["bench", "workloads", workloads, "--threads", threads, "--max-seconds", f"{seconds:g}", "--scheme", schemes,
             "--baseline", "onednn", "--no-progress"]
    return words + (["--convolutions"] if schemes == CONVOLUTION else [])


def is_there(name, command, device):
    """Of this commit, this device, this command. What is no record is told, and measured anew."""
    path = path_of(name)
    if not os.path.exists(path):
        return False
    try:
        kept = record.read(path, "result", "commit", "command")
        with record.of(path):
            machine = kept["result"]["tables"][0]["rows"][0]
            return (all(machine[key] == device[key] for key in ("cpu", "isa")) and kept["command"] == " ".join(["redoubt", *command])
                    and kept["commit"].rstrip("+") == record.commit().rstrip("+"))
    except SystemExit as said:
        print(said, flush=True)
        return False


def measure(options, device, name, workloads, schemes, seconds):
    command = command_of(workloads, schemes, seconds * options.factor, options.threads)
    if not options.again and is_there(name, command, device):
        print(f"{name}: is there", flush=True)
        return True
    begun = time.monotonic()
    try:
        result, code = record.said([options.redoubt, *command, "--json"], worst=1)
    except SystemExit as said:
        print(f"{name}: {said}", flush=True)
        return False
    record.keep(path_of(name), record.document(options.redoubt, " ".join(["redoubt", *command]), code, result))
    print(f"{name}: {time.monotonic() - begun:.0f} s, exit code {code}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("redoubt")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="records whose name has it")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true", help="print what would be run")
    options = parser.parse_args()
    chosen = [row for row in RECORDS if not options.only or any(word in row[0] for word in options.only)]
    if not chosen:
        parser.error("no record has that name: " + " ".join(name for name, *_ in RECORDS))
    if options.list:
        for name, workloads, schemes, seconds in chosen:
            print(f"{name}: redoubt {' '.join(command_of(workloads, schemes, seconds * options.factor, options.threads))}")
        print(f"{options.factor * sum(row[3] for row in chosen):.0f} s, and the time to make the data")
        return 0
    info, _ = record.said([options.redoubt, "info", "--json"])
    missing = [row[0] for row in chosen if not measure(options, info, *row)]
    if missing:
        print("not measured: " + " ".join(missing))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
