#!/usr/bin/env python3
"""Writes networks of ops that are no products, for tests/gpu/networks.sh: DIR/ops.onnx moves, chooses, resamples and
quantises, DIR/rows_f16.onnx and rows_bf16.onnx are softmax and norms of rows of many lengths; DIR/mlp_f16.onnx and
mlp_bf16.onnx are DLRM's perceptrons, chains of linear layers that a cluster of blocks computes as one launch; in
DIR/pointwise_f16.onnx and pointwise_bf16.onnx these layers are convolutions of single pixels.

usage: tests/gpu/ops_network.py DIR        (needs numpy and onnx)
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODES, VALUES, PARTS = [], [], []


def node(op, *inputs, parts=1, **attributes):
    names = []
    for given in inputs:
        if isinstance(given, np.ndarray):
            names.append(f"c{len(VALUES)}")
            VALUES.append(numpy_helper.from_array(given, names[-1]))
        else:
            names.append(given)
    outputs = [f"v{len(NODES)}_{i}" for i in range(parts)]
    NODES.append(helper.make_node(op, names, outputs, f"{op.lower()}{len(NODES)}", **attributes))
    return outputs[0] if parts == 1 else outputs


def keep(name, dtype=TensorProto.FLOAT):
    as_float = node("Cast", name, to=dtype)
    PARTS.append(node("Reshape", as_float, np.array([-1], np.int64)))


def moves(path):
    rng = np.random.default_rng(7)
    for axis in (1, 3):
        keep(node("ArgMax", "x", axis=axis, keepdims=1, select_last_index=axis // 3))
        keep(node("ArgMin", "x", axis=axis, keepdims=0))
        for name in node("TopK", "x", np.array([3], np.int64), axis=axis, largest=axis // 3, parts=2):
            keep(name)
        keep(node("CumSum", "x", np.array(axis, np.int64), exclusive=axis // 3, reverse=1))
        keep(node("Hardmax", "x", axis=axis))
    for mode, places in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "align_corners")):
        keep(node("Resize", "x", "", "", np.array([1, 4, 23, 9], np.int64), mode=mode, coordinate_transformation_mode=places))
    keep(node("Resize", "x", "", np.array([1, 1, 2, 2], np.float32), mode="nearest"))
    at = rng.integers(-4, 4, (1, 2, 10, 12)).astype(np.int64)
    updates = rng.standard_normal(at.shape).astype(np.float32)
    keep(node("ScatterElements", "x", at, updates, axis=1))
    keep(node("ScatterElements", "x", at, updates, axis=1, reduction="add"))
    places = rng.integers(0, 4, (6, 2)).astype(np.int64) * np.array([0, 1])
    keep(node("ScatterND", "x", places, rng.standard_normal((6, 10, 12)).astype(np.float32), reduction="max"))
    scale, zero = np.array([0.05, 0.1, 0.02, 0.03], np.float32), np.array([3, 120, 128, 200], np.uint8)
    bytes_ = node("QuantizeLinear", "x", scale, zero, axis=1)
    keep(bytes_)
    keep(node("DequantizeLinear", bytes_, scale, zero, axis=1))
    keep(node("MaxPool", bytes_, kernel_shape=[2, 2], strides=[2, 2]))
    wide = node("Cast", "x", to=TensorProto.DOUBLE)
    keep(node("Tanh", node("Mul", wide, node("Exp", wide))))
    result = node("Concat", *PARTS, axis=0)
    save(path, result, TensorProto.FLOAT, [1, 4, 10, 12])


def rows(path, dtype):
    """A warp has rows of up to 1024 numbers in its registers; what is longer, or ends within 16 bytes, goes other ways."""
    rng = np.random.default_rng(8)
    wide = node("Mul", "x", np.array(3, np.float32))
    for length in (8, 64, 256, 264, 512, 760, 768, 1000, 1024, 1032, 100):
        x = node("Cast", node("Reshape", node("Slice", wide, np.array([0], np.int64), np.array([9 * length], np.int64)),
                              np.array([3, 3, length], np.int64)), to=dtype)
        gain, shift = (node("Cast", rng.standard_normal(length).astype(np.float32), to=dtype) for _ in range(2))
        keep(node("Softmax", x, axis=-1), dtype)
        keep(node("Softmax", x, axis=1), dtype)
        keep(node("LogSoftmax", x, axis=-1), dtype)
        keep(node("LayerNormalization", x, gain, shift, axis=-1), dtype)
        keep(node("LayerNormalization", x, gain, axis=-1, epsilon=0.25), dtype)
        keep(node("MeanVarianceNormalization", x, axes=[2]), dtype)
        for p in (1, 2):
            keep(node("LpNormalization", x, axis=-1, p=p), dtype)
    save(path, node("Concat", *PARTS, axis=0), dtype, [9 * 1032])


def constant(array, dtype):
    name = f"c{len(VALUES)}"
    if dtype == TensorProto.FLOAT16:
        VALUES.append(numpy_helper.from_array(array.astype(np.float16), name))
    else:
        bits = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        VALUES.append(helper.make_tensor(name, dtype, array.shape, bits.tobytes(), raw=True))
    return name


def perceptrons(path, dtype, rows):
    rng = np.random.default_rng(9)
    name = "x"
    for widths, last in (((13, 512, 256, 64), "Relu"), ((64, 512, 512, 256, 1), "Sigmoid")):
        for i, (k, n) in enumerate(zip(widths, widths[1:])):
            w = constant(rng.standard_normal((n, k)) * (1.4 / k**0.5), dtype)
            name = node("Gemm", name, w, constant(0.3 * rng.standard_normal(n), dtype), transB=1)
            name = node(last if i + 2 == len(widths) else "Relu", name)
        if last == "Relu":
            name = node("Mul", name, node("Tanh", name))  # what lies between them is no layer
    save(path, name, dtype, [rows, 13], dtype)


def pointwise(path, dtype):
    rng = np.random.default_rng(10)
    name = "x"
    for channels, last in (((24, 64, 64, 120, 64), "Relu"), ((64, 64, 256, 64), "Sigmoid")):
        for i, (k, n) in enumerate(zip(channels, channels[1:])):
            w = constant(rng.standard_normal((n, k, 1, 1)) * (1.4 / k**0.5), dtype)
            name = node("Conv", name, w, constant(0.3 * rng.standard_normal(n), dtype))
            name = node(last if i + 2 == len(channels) else "Relu", name)
        if last == "Relu":
            name = node("MaxPool", name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    save(path, name, dtype, [1, 24, 14, 14], dtype)


def save(path, result, dtype, shape, given=TensorProto.FLOAT):
    graph = helper.make_graph(NODES, "ops", [helper.make_tensor_value_info("x", given, shape)],
                              [helper.make_tensor_value_info(result, dtype, None)], VALUES)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for kept in (NODES, VALUES, PARTS):
        kept.clear()


def main():
    moves(os.path.join(sys.argv[1], "ops.onnx"))
    rows(os.path.join(sys.argv[1], "rows_f16.onnx"), TensorProto.FLOAT16)
    rows(os.path.join(sys.argv[1], "rows_bf16.onnx"), TensorProto.BFLOAT16)
    perceptrons(os.path.join(sys.argv[1], "mlp_f16.onnx"), TensorProto.FLOAT16, 1)
    perceptrons(os.path.join(sys.argv[1], "mlp_bf16.onnx"), TensorProto.BFLOAT16, 24)
    pointwise(os.path.join(sys.argv[1], "pointwise_f16.onnx"), TensorProto.FLOAT16)
    pointwise(os.path.join(sys.argv[1], "pointwise_bf16.onnx"), TensorProto.BFLOAT16)


if __name__ == "__main__":
    main()
