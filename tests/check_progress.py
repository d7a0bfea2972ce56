#!/usr/bin/python3
"""The progress bar: on a terminal it comes, says how far it is, and is gone before the results; anywhere else there is not
a byte of it.

    tests/check_progress.py REDOUBT [names of commands]

Each command runs long enough for a bar, on a terminal of its own (a pty), then with its stderr in a pipe."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIGITS = os.path.join(ROOT, "examples", "digits")
MODEL, IMAGES = os.path.join(DIGITS, "digits.onnx"), os.path.join(DIGITS, "images.npy")
BAR = re.compile(rb"\[#* *\] +\d+ %  \d+:\d\d left  ")
failures = []


def say(name, good, text=""):
    print(f"{'ok  ' if good else 'FAIL'}  {name}{': ' + text if text and not good else ''}")
    if not good:
        failures.append(name)


def on_terminal(argv, width=100, stop_at=None, limit=120.0):
    """What the program wrote to its terminal (stdout and stderr alike), and its exit code. stop_at: a pattern at which it
    gets a SIGINT."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who starts tests in the background has it ignored
        os.execv(argv[0], argv)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    text, end = b"", time.monotonic() + limit
    while time.monotonic() < end:
        try:
            some = os.read(fd, 65536)
        except OSError:  # the other side is closed
            break
        if not some:
            break
        text += some
        if stop_at and stop_at.search(text):
            os.kill(pid, 2)
            stop_at = None
    else:
        os.kill(pid, 9)
    os.close(fd)
    return text, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def screen(text):
    """The lines that a terminal shows in the end: '\\r' goes back, what is written covers what was there."""
    lines = []
    for raw in text.replace(b"\r\n", b"\n").split(b"\n"):
        cells, at = [], 0
        for byte in raw:
            if byte == 13:
                at = 0
                continue
            cells[at:at + 1] = [byte]
            at += 1
        lines.append(bytes(cells).rstrip())
    return lines


def in_pipe(argv):
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env=dict(os.environ, OMP_WAIT_POLICY="passive"), timeout=120)
    return done.stderr


def look(name, argv, count, words, work):
    """count: the option that makes it endless; work: what makes it take a second or so."""
    endless = argv + ([count, "100000"] if count else [])
    text, code = on_terminal(endless, stop_at=BAR if count else None)
    shown = BAR.search(text)
    say(f"{name}: a bar on a terminal", bool(shown), repr(text[-300:]))
    say(f"{name}: it says where it is", bool(shown) and re.search(words, text) is not None, repr(text[-300:]))
    left = [line for line in screen(text) if BAR.search(line)]
    say(f"{name}: it is gone in the end", not left, repr(left[-1:]))
    if count:
        say(f"{name}: a signal ends it", code == 130, str(code))
    for option in (["--json"], ["--quiet"], ["--no-progress"]):
        if option == ["--quiet"] and "--quiet" not in subprocess.run([argv[0], "help", *name.split()], capture_output=True,
                                                                     text=True).stdout:
            continue
        text, _ = on_terminal(argv + work + option)
        say(f"{name}: none with {option[0]}", not BAR.search(text) and b"\r" not in text.replace(b"\r\n", b""),
            repr(text[-200:]))
    text = in_pipe(argv + work)
    say(f"{name}: none in a pipe", text == b"", repr(text[-200:]))


def many(times):
    """The images again and again, in a file of their own."""
    with open(IMAGES, "rb") as f:
        magic, header = f.read(8), f.read(struct.unpack("<H", f.read(2))[0]).decode()
        data = f.read()
    count = int(re.search(r"\((\d+),", header).group(1))
    header = header.rstrip().replace(f"({count},", f"({count * times},")
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open("many.npy", "wb") as f:
        f.write(magic + struct.pack("<H", len(header)) + header.encode() + data * times)
    return "many.npy"


def main():
    program = os.path.abspath(sys.argv[1])
    data = "/usr/share/libonnx-testdata/data"
    # a name: the call, the option that makes it endless, what the bar says, and how it takes a second or so
    calls = {
        "run": ([program, "run", MODEL, "-i", IMAGES], "--repeat", rb"run \d+/\d+", ["--repeat", "100"]),
        "inject": ([program, "inject", MODEL, "-i", IMAGES], "--n", rb"trial \d+/\d+", ["--n", "1000"]),
        "bench model": ([program, "bench", "model", MODEL, "--threads", "1"], "--trials", rb"sample \d+/\d+",
                        ["--trials", "100"]),
        "bench gemm": ([program, "bench", "gemm", "--mnk", "512:512:512", "--threads", "1", "--trials", "60"], None, rb"threads \d+", []),
        "bench conv": ([program, "bench", "conv", "--n", "1", "--threads", "1", "--trials", "40"], None, rb"n 1, threads \d+", []),
        "bench tolerance": ([program, "bench", "tolerance", "--table", "rates", "--case", "f32,bf16,f64", "--k", "256",
                             "--trials", "15000"], None, rb"left  (f32|bf16|f64)", []),
        "conformance": ([program, "conformance", data], None, rb"case \d+/\d+ \S+", ["--filter", "pytorch-*"]),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in sys.argv[2:] or calls:
            if name == "conformance" and not os.path.isdir(data):
                print(f"skip  {name}: there is no {data}")
                continue
            look(name, *calls[name])
        if len(sys.argv) == 2:
            # to its end: the verdict is the last line, and the only sign of the bar is that the terminal saw it
            text, code = on_terminal(calls["run"][0] + ["--repeat", "1000"])
            lines = [line for line in screen(text) if line]
            say("run: the verdict is the last line", code == 0 and lines and lines[-1].startswith(b"CLEAN: "), repr(lines[-2:]))
            say("run: the bar was there before", bool(BAR.search(text)), repr(text[-300:]))
            # one run of many images: layer by layer
            text, _ = on_terminal([program, "run", MODEL, "-i", many(200)])
            say("run: a bar over layers", re.search(rb"left  layer \d+/11 \w+", text) is not None, repr(text[-300:]))
            # a narrow terminal: no line wraps
            text, _ = on_terminal(calls["run"][0] + ["--repeat", "100000"], width=30, stop_at=re.compile(rb"running \[#* "))
            widest = max((len(part) for part in re.findall(rb"running[^\r\n]*", text)), default=0)
            say("run: it fits the terminal", 0 < widest < 30, str(widest))
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
