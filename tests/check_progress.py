#!/usr/bin/python3
"""The progress bar: on a terminal it comes, says how far it is, and is gone before the results; anywhere else there is not
a byte of it.

    tests/check_progress.py REDOUBT [names of commands]

Nothing here rests on how fast the machine is: each command is made endless. On a terminal of its own (a pty) it gets a
SIGINT as soon as a bar says where it is; where there is to be none, when twice the time has passed that the bar took."""
import fcntl
import contextlib
import os
import pty
import re
import select
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
BAR = rb"\[#* *\] +\d+ %  (\d+:)+\d\d left  "
LIMIT = 180.0  # seconds until a bar must have come, or an end after a signal
failures = []


def say(name, good, text=""):
    print(f"{'ok  ' if good else 'FAIL'}  {name}{': ' + text if text and not good else ''}", flush=True)
    if not good:
        failures.append(name)


class Terminal:
    """A program on a terminal: what it writes there (stdout and stderr alike), and its exit code."""

    def __init__(self, argv, width=100):
        self.text, self.code, self.begun = b"", None, time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["OMP_WAIT_POLICY"] = "passive"
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # who starts tests in the background has it ignored
            os.execv(argv[0], argv)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))

    def read(self, until, pattern=None):
        """Until that moment, the end of the program, or a match of the pattern, which is returned."""
        while self.code is None:
            found = pattern and re.search(pattern, self.text)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                some = os.read(self.fd, 65536)
            except OSError:  # the other side is closed
                some = b""
            self.text += some
            if not some:
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                os.close(self.fd)
        return pattern and re.search(pattern, self.text)

    def stop(self, number=signal.SIGINT):
        if self.code is None:
            os.kill(self.pid, number)
            self.read(time.monotonic() + LIMIT)
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.read(time.monotonic() + LIMIT)


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


def help_of(program, name):
    return subprocess.run([program, "help", *name.split()], capture_output=True, text=True, check=True).stdout


def wait_for_handler(pid, program):
    """Until the program catches SIGINT: a signal before that would just end it (before its exec, this one's handler)."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with open(f"/proc/{pid}/status") as f:
            caught = re.search(r"^SigCgt:\s*(\w+)", f.read(), re.MULTILINE)
        here = caught and os.path.samefile(f"/proc/{pid}/exe", program)
        if caught is None or here and int(caught.group(1), 16) >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.01)


def listeners(pid):
    """Threads that may take the signals that end a program, and whether the first is among them."""
    masks = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{task}/status") as f:
            masks[int(task)] = int(re.search(r"^SigBlk:\s*(\w+)", f.read(), re.MULTILINE).group(1), 16)
    bits = [1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return [(sum(not mask & bit for mask in masks.values()), not masks[pid] & bit) for bit in bits]


def show(name, argv, words, width=100):
    """The seconds until a bar with these words came; the program is stopped there."""
    on = Terminal(argv, width)
    shown = on.read(on.begun + LIMIT, BAR + words)
    took = time.monotonic() - on.begun
    open_to = listeners(on.pid) if on.code is None else None
    on.stop()
    say(f"{name}: one thread takes signals, and computes nothing", open_to == [(1, False)] * 3, str(open_to))
    say(f"{name}: a bar on a terminal, it says where it is", bool(shown), repr(on.text[-300:]))
    left = [line for line in screen(on.text) if re.search(BAR, line)]
    say(f"{name}: it is gone in the end", not left, repr(left[-1:]))
    say(f"{name}: a signal ends it", on.code == 130, str(on.code))
    return took


def hide(name, argv, seconds):
    """Where there is to be no bar, all at once: none, although each lived long enough for one."""
    options = [option for option in ("--json", "--quiet", "--no-progress") if option in help_of(argv[0], name)]
    silent = [Terminal(argv + [option]) for option in options]
    piped = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             env=dict(os.environ, OMP_WAIT_POLICY="passive"),
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for pid in [on.pid for on in silent] + [piped.pid]:
        wait_for_handler(pid, argv[0])
    until = time.monotonic() + seconds
    for on, option in zip(silent, options):
        on.read(until)
        before = on.text
        on.stop()
        say(f"{name}: none with {option}", on.code == 130 and b"\r" not in before.replace(b"\r\n", b"") and
            not re.search(BAR, on.text), f"{on.code} {on.text[-200:]!r}")
    piped.send_signal(signal.SIGINT)
    text = piped.communicate(timeout=LIMIT)[1]
    told = text.splitlines()  # what is missing, then that it was stopped
    say(f"{name}: none in a pipe", piped.returncode == 130 and b"\r" not in text and not re.search(BAR, text) and
        told and all(line.startswith(b"redoubt ") for line in told) and b"stopped" in told[-1],
        f"{piped.returncode} {text[-200:]!r}")


def images(times):
    """The images again and again: their number, and their data."""
    with open(IMAGES, "rb") as f:
        f.read(8)
        header = f.read(struct.unpack("<H", f.read(2))[0]).decode()
        data = f.read()
    return int(re.search(r"\((\d+),", header).group(1)) * times, header, data * times


def many(times):
    """In a file of their own."""
    count, header, data = images(times)
    header = re.sub(r"\((\d+),", f"({count},", header.rstrip())
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    with open("many.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)
    return "many.npy"


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def cases(count, times):
    """A folder of so many cases: the digits on those images."""
    n, _, data = images(times)
    dims = b"".join(b"\x08" + varint(d) for d in (n, 1, 8, 8))
    os.makedirs("set")
    for name in ("input_0.pb", "output_0.pb"):  # no case has a right output: that makes none of them shorter
        with open(os.path.join("set", name), "wb") as f:
            f.write(dims + b"\x10\x01" + b"\x4a" + varint(len(data)) + data)
    for i in range(count):
        folder = os.path.join("cases", f"case_{i}")
        os.makedirs(folder)
        os.symlink(MODEL, os.path.join(folder, "model.onnx"))
        os.symlink(os.path.abspath("set"), os.path.join(folder, "test_data_set_0"))
    return "cases"


def long_enough(words, argv):
    """What ends by itself, with twice as much work (argv of how often) again and again, until it takes so long that a bar
    comes."""
    for doublings in range(24):
        on = Terminal(argv(1 << doublings))
        on.read(on.begun + LIMIT)
        on.stop()
        if re.search(BAR + words, on.text) or time.monotonic() - on.begun > LIMIT / 4:
            break
    lines = [line for line in screen(on.text) if line]
    say(f"{words.decode()}: a bar, and the verdict is the last line", re.search(BAR + words, on.text) is not None and
        on.code == 0 and lines[-1].startswith(b"CLEAN: "), repr(on.text[-300:]))


def main():
    program = os.path.abspath(sys.argv[1])
    run = [program, "run", MODEL, "-i", IMAGES]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # a name: a call that does not end by itself in minutes, and what the bar says
        calls = {
            "run": (run + ["--repeat", "100000000"], rb"run \d+/\d+"),
            "inject": ([program, "inject", MODEL, "-i", IMAGES, "--n", "100000000"], rb"trial \d+/\d+"),
            "bench model": ([program, "bench", "model", MODEL, "--threads", "1", "--trials", "100000"], rb"threads 1"),
            "bench gemm": ([program, "bench", "gemm", "--mnk", "64:64:64", "--threads", "1", "--trials", "100000"],
                           rb"64 x 64 x 64"),
            "bench conv": ([program, "bench", "conv", "--n", "1", "--threads", "1", "--trials", "100000"],
                           rb"n 1, 56 x 56"),
            "bench tolerance": ([program, "bench", "tolerance", "--table", "rates", "--case", "f32", "--k", "256",
                                 "--trials", "1000000000"], rb"f32"),
            "screen": ([program, "screen", "-r", "4"], rb"gemm_\w+ \w+"),
            "conformance": ([program, "conformance", cases(4000, 10), "--threads", "1"], rb"case \d+/4000 \S+"),
        }
        for name in sys.argv[2:] or calls:
            argv, words = calls[name]
            hide(name, argv, 2.0 * show(name, argv, words))
        if len(sys.argv) == 2:
            long_enough(rb"run \d+/\d+", lambda times: run + ["--repeat", str(200 * times)])
            long_enough(rb"layer \d+/11 \w+", lambda times: ["/usr/bin/env", "REDOUBT_ISA=generic", program, "run", MODEL,
                                                             "-i", many(10 * times)])
            # a narrow terminal: no line wraps
            on = Terminal(run + ["--repeat", "100000000"], width=30)
            on.read(on.begun + LIMIT, rb"running \[#* ")
            on.stop()
            widest = max((len(part) for part in re.findall(rb"running[^\r\n]*", on.text)), default=0)
            say("run: it fits the terminal", 0 < widest < 30, str(widest))
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
