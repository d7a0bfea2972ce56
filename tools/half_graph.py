#!/usr/bin/env python3
"""Writes an f32 network as one of bf16 or f16, weights, constants, inputs and outputs alike.

usage: tools/half_graph.py MODEL.onnx... -o DIR [--dtype bf16|f16]        (needs numpy and onnx)

Writes DIR/NAME_bf16.onnx and its weights beside it. What is finite stays finite: a mask of attention is often the lowest f32,
which bf16 would round to -Inf (f16 anything below -65520), and (1 - mask) times that is NaN wherever nothing is masked. So such
constants become the lowest finite number, as in frameworks; what is -Inf stays so. What is not zero stays so as well.
Lengths that Resize wants as f32 stay f32.
"""
import argparse
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16}
LARGEST = {"bf16": np.uint32(0x7F7F0000).view(np.float32), "f16": np.float32(65504)}
SMALLEST = {"bf16": np.uint32(0x00010000).view(np.float32), "f16": np.float32(2.0 ** -24)}
KEPT = {("Resize", 1), ("Resize", 2)}  # operator, input
REFUSED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "If", "Loop", "Scan")


def to_bits(array, dtype):
    """The nearest numbers of 16 bits, ties to even, as they lie in memory."""
    x = np.ascontiguousarray(array, np.float32).reshape(-1)
    finite = np.isfinite(x)
    bounded = np.where(finite, np.clip(x, -LARGEST[dtype], LARGEST[dtype]), x)
    tiny = finite & (x != 0) & (np.abs(x) < SMALLEST[dtype])
    bounded = np.where(tiny, np.copysign(SMALLEST[dtype], x), bounded).astype(np.float32)
    if dtype == "f16":
        return bounded.astype(np.float16).view(np.uint16)
    bits = bounded.view(np.uint32)
    even = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(bounded), bits >> np.uint32(16) | np.uint32(0x40), even).astype(np.uint16)


def convert(tensor, dtype):
    bits = to_bits(numpy_helper.to_array(tensor), dtype)
    dims, name = list(tensor.dims), tensor.name
    tensor.Clear()
    tensor.name, tensor.data_type, tensor.raw_data = name, TYPES[dtype], bits.tobytes()
    tensor.dims.extend(dims)


def convert_attributes(node, dtype):
    for a in node.attribute:
        if a.type == onnx.AttributeProto.TENSOR and a.t.data_type == TensorProto.FLOAT:
            convert(a.t, dtype)
        elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
            values = np.array(a.f if a.name == "value_float" else list(a.floats), np.float32)
            a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
            convert(a.t, dtype)
        elif node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
            a.i = TYPES[dtype]


def halve(model, dtype):
    """Converts a model in place."""
    graph = model.graph
    kept = set()
    for node in graph.node:
        if node.op_type in REFUSED:
            raise ValueError(f"{node.name}: networks with {node.op_type} are not converted")
        kept.update(name for i, name in enumerate(node.input) if (node.op_type, i) in KEPT)
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in kept:
            convert(tensor, dtype)
    for node in graph.node:
        if not kept.intersection(node.output):
            convert_attributes(node, dtype)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TYPES[dtype]
    del graph.value_info[:]
    return model


def read(path):
    try:
        return onnx.load(path)
    except Exception as error:  # what protobuf raises has no name that lasts
        sys.exit(f"{path}: no ONNX model, or its weights are not beside it: {error}")


def write(path, folder, dtype):
    """Returns the path of the network in 16 bits."""
    name, model = os.path.splitext(os.path.basename(path))[0] + "_" + dtype, read(path)
    os.makedirs(folder, exist_ok=True)
    target, weights = os.path.join(folder, name + ".onnx"), name + ".weights"
    if os.path.exists(os.path.join(folder, weights)):
        os.remove(os.path.join(folder, weights))  # onnx would append
    onnx.save_model(halve(model, dtype), target, save_as_external_data=True, location=weights, size_threshold=1024)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("-o", "--output", metavar="DIR", required=True)
    parser.add_argument("--dtype", choices=sorted(TYPES), default="bf16")
    args = parser.parse_args()
    for path in args.models:
        print(write(path, args.output, args.dtype))


if __name__ == "__main__":
    main()
