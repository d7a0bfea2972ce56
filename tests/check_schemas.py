"""What the program prints as JSON against docs/schema.

    check_schemas.py REDOUBT        (the path of the built program; needs jsonschema)
"""
import json
import pathlib
import subprocess
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples" / "digits"
MODEL, SOME = DIGITS / "digits.onnx", DIGITS / "some.npy"
CALLS = [
    ("run", 0, ["run", MODEL, "-i", SOME, "--labels", DIGITS / "some-labels.npy"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,layer=conv4,seed=2"]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--fault", "bit:30@weight,layer=conv3,seed=2", "--repeat", 3]),
    ("run", 0, ["run", MODEL, "-i", SOME, "--scheme", "none"]),
    ("run", 1, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,seed=1", "--on-fault", "report"]),
    ("run", 1, ["run", MODEL, "-i", SOME, "--fault", "bit:30@accum,seed=1", "--on-fault", "abort"]),
    ("inject", 0, ["inject", MODEL, "-i", SOME, "--n", 100]),
    ("inject", 0, ["inject", MODEL, "-i", SOME, "--n", 20, "--fault", "none"]),
    ("inject", 1, ["inject", MODEL, "-i", SOME, "--n", 20, "--fault", "bit:30@accum", "--scheme", "none"]),
    ("plan", 0, ["plan", MODEL, "--explain"]),
    ("info", 0, ["info"]),
] + [("list", 0, ["list", table]) for table in ("schemes", "kernels", "dtypes", "ops", "sites")]


def main():
    failed = 0
    for kind, code, arguments in CALLS:
        arguments = [str(part) for part in arguments] + ["--json"]
        schema = json.loads((ROOT / "docs" / "schema" / f"{kind}-1.json").read_text())
        done = subprocess.run([sys.argv[1], *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        try:
            assert done.returncode == code, f"exit code {done.returncode}, not {code}: {done.stderr.decode()}"
            jsonschema.validate(json.loads(done.stdout), schema)
            print("ok    " + " ".join(arguments))
        except (AssertionError, ValueError, jsonschema.ValidationError) as error:
            failed += 1
            print("FAIL  " + " ".join(arguments) + f": {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
