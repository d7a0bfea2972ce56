#!/usr/bin/env python3
"""Writes the weights that a graph of examples/graphs refers to: seeded, and scaled so that activations stay of order 1.

usage: tools/make_weights.py GRAPH.onnx... -o DIR [--seed N] [--side N]        (needs numpy and onnx)

Copies each graph to DIR with its weights beside it. The values of an initializer depend on its name, shape and role in the
graph and on the seed, not on what else is in the file. Needs no memory to speak of: values are written as they are drawn.
--side N: images of N x N, where the graph says another size (networks that end in a mean over the image take any).
"""
import argparse
import collections
import hashlib
import os
import time

import numpy as np
import onnx
from onnx import numpy_helper

import graph_file

GRAPHS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "graphs")
CHUNK = 1 << 20  # values drawn at a time
BRANCH = 0.35    # what the last product of a residual branch adds: 16 blocks grow values by (1 + BRANCH^2)^8, not by 2^8
RECTIFIES = {"Relu", "Clip", "MaxPool"}
WEIGHT_SCALES = {("DequantizeLinear", 1), ("QLinearConv", 4), ("QLinearMatMul", 4)}
S8 = 21.0        # standard deviation of 8-bit weights, which lie within 63: pairs of their products with u8 fit 16 bits


class Graph:
    """Who reads and who writes a value."""

    def __init__(self, graph):
        self.readers = collections.defaultdict(list)
        self.writer = {}
        self.held = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            for i, name in enumerate(node.input):
                self.readers[name].append((node, i))
            for name in node.output:
                self.writer[name] = node

    def reader(self, name):
        """First node that computes with a value, past those that only move it, and which of its inputs the value is."""
        while self.readers[name]:
            node, i = self.readers[name][0]
            if node.op_type not in ("Identity", "Transpose", "Reshape", "Cast", "DequantizeLinear") or i != 0:
                return node, i
            name = node.output[0]
        return None, 0

    def after(self, node):
        """The op behind a product: past bias and BatchNormalization, and whether it is a residual addition."""
        name = node.output[0]
        if node.op_type == "QLinearConv" and not numpy_helper.to_array(self.held[node.input[7]]).any():
            return "Relu"  # zero point 0: what is negative becomes 0
        while len(self.readers[name]) == 1:
            following, _ = self.readers[name][0]
            other = [x for x in following.input if x != name and x in self.writer]
            if following.op_type == "Add" and other:
                return "residual" if self.adds_earlier(name, other[0]) else "Add"
            if following.op_type in ("BatchNormalization", "Add", "Identity", "Dropout", "QuantizeLinear", "DequantizeLinear"):
                name = following.output[0]
                continue
            return following.op_type
        return ""

    def adds_earlier(self, name, other):
        """A branch, not a shortcut: its chain of nodes back to the point where both were one is the longer of the two."""
        return self.depth(name) >= self.depth(other)

    def depth(self, name):
        count = 0
        while name in self.writer:
            inputs = [x for x in self.writer[name].input if x in self.writer]
            if not inputs or len(self.readers[name]) > 1:
                break
            name, count = inputs[0], count + 1
        return count


def drawn(mean, deviation):
    return lambda rng, count: rng.standard_normal(count, dtype=np.float32) * np.float32(deviation) + np.float32(mean)


def between(low, high):
    return lambda rng, count: rng.random(count, dtype=np.float32) * np.float32(high - low) + np.float32(low)


def product_deviation(graph, node, fan_in):
    following = graph.after(node)
    gain = BRANCH if following == "residual" else np.sqrt(2.0) if following in RECTIFIES else 1.0
    return gain / np.sqrt(max(fan_in, 1))


def product(graph, node, fan_in, spread=1.0):
    return drawn(0, spread * product_deviation(graph, node, fan_in))


def weight_scale(graph, node, i):
    """The scale of s8 weights, as the deviation that the weights would have, and a little more or less by channel."""
    weight = graph.held[node.input[i - 1]]
    reader = node if node.op_type != "DequantizeLinear" else graph.reader(node.output[0])[0]
    columns = reader.op_type in ("MatMul", "QLinearMatMul")
    deviation = product_deviation(graph, reader, weight.dims[0] if columns else np.prod(weight.dims[1:]))
    return between(0.8 * deviation / S8, 1.2 * deviation / S8)


def role(graph, tensor):
    """How the values of an initializer are drawn, from the first node that computes with it."""
    shape = list(tensor.dims)
    if any(reader.op_type == "Gather" for reader, _ in graph.readers[tensor.name]):
        return drawn(0, 0.1)  # embeddings, also where they are the last projection too
    direct, i = graph.readers[tensor.name][0] if graph.readers[tensor.name] else (None, 0)
    if direct is not None and (direct.op_type, i) in WEIGHT_SCALES:
        return weight_scale(graph, direct, i)
    node, i = graph.reader(tensor.name)
    op = node.op_type if node is not None else ""
    if op == "Conv" and i == 1:
        return product(graph, node, np.prod(shape[1:]))
    if op == "Gemm" and i == 1:
        return product(graph, node, shape[1] if graph_file.attribute(node, "transB", 0) else shape[0])
    if op == "MatMul" and i == 1:  # T5 does not divide its scores by sqrt(64): its queries are small
        return product(graph, node, shape[0], 0.125 if ".q.weight" in tensor.name else 1.0)
    if op == "BatchNormalization" and i == 1:
        return between(0.8, 1.2)
    if op == "BatchNormalization" and i == 4:
        return between(0.7, 1.3)
    if op == "LayerNormalization" and i == 1 or op == "Mul" and len(shape) == 1:
        return between(0.8, 1.2)
    return drawn(0, 0.1)


def integers(rng, count, dtype):
    """Weights of 8 bits; biases of 32, whose scale is the product of those of weights and activations."""
    if dtype == np.int8:
        return np.clip(np.rint(rng.standard_normal(count, dtype=np.float32) * S8), -63, 63)
    if dtype == np.int32:
        return np.rint(rng.standard_normal(count) * 1000)
    raise ValueError(f"no weights of {dtype} are known")


def described(graph, tensor, seed):
    """Values that a doc_string describes: "lower triangle", or "product A B" of two other initializers; None if none does."""
    what, *names = tensor.doc_string.split(" ")
    if tensor.doc_string == "lower triangle":
        return np.broadcast_to(np.tri(*tensor.dims[-2:], dtype=graph_file.initializer_dtype(tensor)), tensor.dims)
    if what == "product":
        return np.multiply(*(whole_values(graph, graph.held[name], seed) for name in names))
    return None


def whole_values(graph, tensor, seed):
    if graph_file.external(tensor) is None:
        return numpy_helper.to_array(tensor)
    return np.concatenate(list(values(graph, tensor, seed)))


def values(graph, tensor, seed):
    """The values of an initializer, in arrays of at most CHUNK, or whole where they are described."""
    whole = described(graph, tensor, seed)
    if whole is not None:
        yield whole
        return
    dtype = graph_file.initializer_dtype(tensor)
    count = graph_file.payload(tensor) // dtype.itemsize
    digest = hashlib.sha256(f"{seed} {tensor.name}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    draw = role(graph, tensor) if dtype.kind == "f" else lambda rng, n: integers(rng, n, dtype)
    for start in range(0, count, CHUNK):
        yield draw(rng, min(CHUNK, count - start)).astype(dtype, copy=False)


def set_side(graph, side):
    """Square images become side x side; shapes that followed from theirs are forgotten."""
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4 and dims[2].dim_value == dims[3].dim_value > 0:
            dims[2].dim_value = dims[3].dim_value = side
    del graph.value_info[:]


def make(path, folder, seed=1, side=None):
    """Copies a graph to folder and writes its weights there; returns the path of the copy."""
    model = onnx.load(path, load_external_data=False)
    if side:
        set_side(model.graph, side)
    graph = Graph(model.graph)
    files = collections.defaultdict(list)
    for tensor in model.graph.initializer:
        place = graph_file.external(tensor)
        if place is not None:
            files[place["location"]].append((place["offset"], tensor))
    os.makedirs(folder, exist_ok=True)
    for name, tensors in files.items():
        target = os.path.join(folder, name)
        with open(target + ".tmp", "wb") as f:
            for offset, tensor in sorted(tensors, key=lambda item: item[0]):
                f.seek(offset)
                for part in values(graph, tensor, seed):
                    part.tofile(f)
        os.replace(target + ".tmp", target)
    copy = os.path.join(folder, os.path.basename(path))
    graph_file.write(model, copy)
    return copy


def graph_with_weights(name, folder, seed=1):
    """Path of a graph of examples/graphs with weights in folder, made if it is not there; a path of a model stays as it is."""
    if name.endswith(".onnx"):
        return name
    path = os.path.join(folder, name + ".onnx")
    if os.path.exists(path):
        return path
    graph = os.path.join(GRAPHS, name + ".onnx")
    if not os.path.exists(graph):
        raise FileNotFoundError(f"{name}: no such graph in examples/graphs")
    return make(graph, folder, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="+", metavar="GRAPH.onnx")
    parser.add_argument("-o", required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--side", type=int)
    args = parser.parse_intermixed_args()
    for path in args.graphs:
        start = time.time()
        print(f"{make(path, args.o, args.seed, args.side)}: {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
