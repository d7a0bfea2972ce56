"""The digits network through `redoubt run` against ONNX Runtime: outputs within 1e-5, accuracy as trained.

    check_digits.py REDOUBT        (the path of the built program; needs numpy and onnxruntime)
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

TOLERANCE = 1e-5
RIGHT_AS_TRAINED = 354
DIGITS = pathlib.Path(__file__).resolve().parent.parent / "examples" / "digits"


def redoubt(program, images, *more):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", DIGITS / "digits.onnx", "--input", images, "-o", folder, "--quiet", *more]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        return np.load(pathlib.Path(folder) / "probabilities.npy")


def main():
    program = sys.argv[1]
    labels = np.load(DIGITS / "labels.npy")
    session = onnxruntime.InferenceSession(str(DIGITS / "digits.onnx"), providers=["CPUExecutionProvider"])
    failed = 0

    def check(what, good):
        nonlocal failed
        failed += not good
        print(("ok    " if good else "FAIL  ") + what)

    expected = session.run(None, {"image": np.load(DIGITS / "images.npy")})[0]
    for options in ((), ("--scheme", "none"), ("--scheme", "dup"), ("--threads", "1")):
        got = redoubt(program, DIGITS / "images.npy", *options)
        name = " ".join(options) or "as by default"
        worst = float(np.abs(got - expected).max()) if got.shape == expected.shape else float("inf")
        check(f"{name}: equals ONNX Runtime's within {TOLERANCE:g} (largest difference {worst:.2e})", worst <= TOLERANCE)
        right = int((got.argmax(1) == labels).sum())
        check(f"{name}: {right} of {len(labels)} held-out images right ({right / len(labels):.1%})",
              right == RIGHT_AS_TRAINED and right / len(labels) >= 0.97)
    one = redoubt(program, DIGITS / "one.pb")
    check("one.pb: the first row, read from a TensorProto", one.shape == (1, 10) and np.abs(one - expected[:1]).max() <= TOLERANCE)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
