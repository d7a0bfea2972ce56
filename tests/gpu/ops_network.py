#!/usr/bin/env python3
"""Writes a network of ops that move, choose, resample and quantise, for tests/gpu/networks.sh.

usage: tests/gpu/ops_network.py FILE.onnx        (needs numpy and onnx)
"""
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


def keep(name):
    as_float = node("Cast", name, to=TensorProto.FLOAT)
    PARTS.append(node("Reshape", as_float, np.array([-1], np.int64)))


def main():
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
    graph = helper.make_graph(NODES, "ops", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 10, 12])],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], VALUES)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])


if __name__ == "__main__":
    main()
