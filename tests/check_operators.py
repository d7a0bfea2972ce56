"""Random small models of every operator through `redoubt run` against ONNX Runtime: same shapes and values, no reports.

    check_operators.py REDOUBT [COUNT [SEED]]        (needs numpy, onnx and onnxruntime)

Models that ONNX Runtime refuses are counted, not compared.
"""
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOLERANCE = 1e-4  # of the largest output: values are of order 1 and sums short


class Builder:
    """Collects nodes, constants and inputs of one model; everything random comes from here."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = np.random.RandomState(seed)
        self.opset = self.random.randint(7, 17)
        self.nodes, self.constants, self.inputs = [], [], {}

    def choose(self, *options):
        return self.random.choice(options)

    def chance(self, p):
        return self.random.random() < p

    def lengths(self, count, low=1, high=4):
        return [self.random.randint(low, high) for _ in range(count)]

    def array(self, shape):
        return np.asarray(self.numpy.randn(*shape), dtype=np.float32)

    def input(self, name, shape):
        self.inputs[name] = self.array(shape)
        return name

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, output="y", **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def pooled(self, name):
        """A pool of 1 x 1 changes nothing but the memory layout."""
        return self.node("MaxPool", [name], name + "_pooled", kernel_shape=[1, 1]) if self.chance(0.5) else name

    def batchnorm(self, source, output, channels):
        names = [self.constant(f"{part}_{output}", self.array([channels])) for part in ("scale", "shift", "mean")]
        names.append(self.constant(f"var_{output}", np.abs(self.array([channels])) + np.float32(0.1)))
        return self.node("BatchNormalization", [source, *names], output, epsilon=self.choose(1e-5, 1e-2))

    def model(self):
        inputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in self.inputs.items()]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "random", inputs, [output], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 7
        return model.SerializeToString()


def window(b, spatial):
    kernel = [b.choose(1, 2, 3) for _ in range(spatial)]
    attributes = {"kernel_shape": kernel}
    if b.chance(0.6):
        attributes["strides"] = [b.choose(1, 2, 3) for _ in range(spatial)]
    if b.chance(0.5):
        attributes["pads"] = [b.random.randint(0, kernel[i % spatial] - 1) for i in range(2 * spatial)]
    elif b.chance(0.5):
        attributes["auto_pad"] = b.choose("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return kernel, attributes


def conv(b):
    spatial, groups = b.choose(1, 2), b.choose(1, 1, 2, 3)
    kernel, attributes = window(b, spatial)
    if "auto_pad" not in attributes and b.chance(0.4):
        attributes["dilations"] = [b.choose(1, 2) for _ in range(spatial)]
    per_group, outputs = b.choose(1, 2), groups * b.choose(1, 2, 3)
    names = [b.input("x", [b.choose(1, 2), groups * per_group, *b.lengths(spatial, 5, 9)])]
    names.append(b.constant("w", b.array([outputs, per_group, *kernel])))
    if b.chance(0.5):
        names.append(b.constant("b", b.array([outputs])))
    b.node("Conv", names, group=groups, **attributes)


def pool(b):
    spatial, op = b.choose(1, 2), b.choose("MaxPool", "AveragePool", "GlobalAveragePool")
    b.input("x", [b.choose(1, 2), 3, *b.lengths(spatial, 5, 9)])
    attributes = {} if op == "GlobalAveragePool" else window(b, spatial)[1]
    if attributes and b.opset >= 10 and "auto_pad" not in attributes:
        attributes["ceil_mode"] = b.choose(0, 1)
    if op == "AveragePool":
        attributes["count_include_pad"] = b.choose(0, 1)
    b.node(op, ["x"], **attributes)


def matmul(b):
    m, k, n = b.lengths(3)
    batch = b.lengths(2)

    def operand(rank, vector, matrix):
        return [vector] if rank == 1 else [b.choose(1, d) for d in batch[4 - rank:]] + matrix

    b.input("x", operand(b.random.randint(1, 4), k, [m, k]))
    shape = operand(b.random.randint(1, 4), k, [k, n])
    right = b.input("w", shape) if b.chance(0.5) else b.constant("w", b.array(shape))
    b.node("MatMul", ["x", right])


def gemm(b):
    m, k, n = b.lengths(3)
    ta, tb = b.choose(0, 1), b.choose(0, 1)
    names = [b.input("x", [k, m] if ta else [m, k]), b.constant("w", b.array([n, k] if tb else [k, n]))]
    if b.opset < 11 or b.chance(0.8):
        names.append(b.constant("c", b.array(b.choose([n], [1, n], [m, 1], [m, n], [1], []))))
    b.node("Gemm", names, transA=ta, transB=tb, alpha=b.choose(1.0, 0.5), beta=b.choose(1.0, 2.0))


def binary(b):
    shape = b.lengths(b.random.randint(0, 4))
    for name in ("x", "z"):
        b.input(name, [b.choose(1, d) for d in shape[b.random.randint(0, len(shape)):]])
    b.node(b.choose("Add", "Mul"), ["x", "z"])


def softmax(b):
    shape = b.lengths(b.random.randint(1, 4))
    source = b.input("x", shape)
    if len(shape) == 4:
        source = b.pooled(source)
    b.node("Softmax", [source], axis=b.random.randint(-len(shape) if b.opset >= 11 else 0, len(shape) - 1))


def concat(b):
    shape = b.lengths(b.random.randint(1, 4))
    axis = b.random.randint(-len(shape) if b.opset >= 11 else 0, len(shape) - 1)
    for i in range(b.random.randint(1, 4)):
        shape[axis] = b.random.randint(1, 4)
        b.input(f"x{i}", shape)
    b.node("Concat", list(b.inputs), axis=axis)


def move(b):
    shape = b.lengths(4)
    source = b.pooled(b.input("x", shape))
    if b.chance(0.4):
        b.node("Flatten", [source], axis=b.random.randint(0, 4))
        return
    targets = [[0, -1], [-1], [shape[0], shape[1] * shape[2], -1], [0, 0, -1, 1], shape[::-1]]
    target = b.random.choice(targets)
    moved = b.node("Reshape", [source, b.constant("shape", np.array(target, dtype=np.int64))], "moved")
    b.node("Identity", [b.pooled(moved) if len(target) == 4 else moved])


def batchnorm(b):
    shape = b.lengths(b.random.randint(2, 4))
    b.batchnorm(b.input("x", shape), "y", shape[1])


def network(b):
    """A chain with convolutions, residuals, biases, normalisations: what fusion has to get right."""
    channels, side = b.choose(2, 3, 4), b.random.randint(4, 8)
    now = b.input("x", [b.choose(1, 2), channels, side, side])
    earlier = [(now, channels)]
    for step in range(b.random.randint(2, 7)):
        out = f"v{step}"
        op = b.choose("Conv", "Conv", "Relu", "BatchNormalization", "skip", "vector", "Concat", "Dropout", "Pool", "Identity")
        fitting = [name for name, c in earlier if c == channels]
        if op == "Conv":
            outputs = channels if b.chance(0.7) else b.choose(2, 3, 4)
            names = [now, b.constant("w" + out, b.array([outputs, channels, 3, 3]) * np.float32(0.3))]
            if b.chance(0.5):
                names.append(b.constant("b" + out, b.array([outputs])))
            b.node(op, names, out, pads=[1, 1, 1, 1])
            channels = outputs
        elif op == "BatchNormalization":
            b.batchnorm(now, out, channels)
        elif op == "skip":
            names = [now, b.random.choice(fitting)]
            b.random.shuffle(names)
            b.node(b.choose("Add", "Add", "Mul"), names, out)
        elif op == "vector":
            shape = b.choose([channels, 1, 1], [1, channels, 1, 1], [1], [side], [1, 1, side, side], [])
            names = [now, b.constant("k" + out, b.array(shape))]
            b.random.shuffle(names)
            b.node("Add", names, out)
        elif op == "Concat":
            other, more = b.random.choice(earlier)
            b.node(op, [now, other], out, axis=1)
            channels += more
        elif op == "Pool":
            b.node(b.choose("MaxPool", "AveragePool"), [now], out, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            b.node(op, [now], out)
        now = out
        earlier.append((now, channels))
    if b.chance(0.5):
        b.node("Relu", [now])
        return
    flat = b.node("Flatten", [b.node("GlobalAveragePool", [now], "mean")], "flat")
    names = [flat, b.constant("wf", b.array([5, channels])), b.constant("bf", b.array([5]))]
    b.node("Softmax", [b.node("Gemm", names, "logits", transB=1)], axis=1)


KINDS = (conv, pool, matmul, gemm, binary, softmax, concat, move, batchnorm, network, network, network)


def expected(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(["y"], inputs)[0]
    except Exception:  # its exceptions have no common base
        return None


def observed(program, folder, model, inputs):
    """(output, None), or (None, why there is none or none that is clean)."""
    (folder / "model.onnx").write_bytes(model)
    command = [program, "run", folder / "model.onnx", "-o", folder, "--format", "json"]
    for name, value in inputs.items():
        np.save(folder / f"in_{name}.npy", value)
        command += ["-i", f"{name}={folder / f'in_{name}.npy'}"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        return None, f"exit {done.returncode}: {done.stderr.strip()}"
    verdict = json.loads(done.stdout)["verdict"]
    return (np.load(folder / "y.npy"), None) if verdict == "CLEAN" else (None, f"verdict {verdict}")


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    onnxruntime.set_default_logger_severity(4)
    compared, failed = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(first, first + count):
            b = Builder(seed)
            kind = KINDS[seed % len(KINDS)]
            kind(b)
            model = b.model()
            want = expected(model, b.inputs)
            if want is None:
                compared["refused by ONNX Runtime"] += 1
                continue
            got, why = observed(program, pathlib.Path(name), model, b.inputs)
            if why is None:
                worst = float(np.abs(got - want).max()) if got.shape == want.shape and got.size else 0.0
                if got.shape != want.shape:
                    why = f"shape {got.shape} instead of {want.shape}"
                elif not worst <= TOLERANCE * max(1.0, float(np.abs(want).max()) if want.size else 1.0):
                    why = f"differs by {worst:g}"
            compared[kind.__name__] += 1
            if why is not None:
                failed += 1
                ops = [(n.op_type, {a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in b.nodes]
                print(f"FAIL  seed {seed}, opset {b.opset}: {why}\n      {ops}")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(compared.items())) + f": {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
