#!/usr/bin/env python3
"""Writes a convolution network of examples/graphs as 8-bit networks, in both forms that ONNX has, without weights.

usage: tools/quantise_graph.py [NAME] [-o DIR]        (needs numpy, onnx, onnxruntime; default: resnet50)

NAME_qlinear computes on integers: QLinearConv, QLinearMatMul, and DequantizeLinear - Add - QuantizeLinear where branches meet.
NAME_qdq is the f32 network with QuantizeLinear - DequantizeLinear at every value and DequantizeLinear behind every weight.
Activations are u8 with a zero point, weights s8 with a scale for each output channel and values of 7 bits, with which no
implementation saturates. BatchNormalization has become part of the weights. The scales of the activations are measured with
the weights of seed 1; those of the weights are drawn with them (make_weights.py).
"""
import argparse
import collections
import os
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import graph_file
import graph_inputs
import make_weights

OPSET = 17
Layer = collections.namedtuple("Layer", "op name inputs output weight dims attributes relu")


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def layers_of(graph):
    """Layers in order; BatchNormalization and Relu have become part of what they follow. A value has its layer's name."""
    dims = {t.name: list(t.dims) for t in graph.initializer}
    value = {graph.input[0].name: graph.input[0].name}  # of the file: our name for it
    layers = []
    for node in graph.node:
        if node.op_type in ("BatchNormalization", "Relu"):
            last = layers[-1]
            if value[node.input[0]] != last.output:
                raise ValueError(f"{node.name}: does not follow what it belongs to")
            layers[-1] = last._replace(relu=last.relu or node.op_type == "Relu")
            value[node.output[0]] = last.output
            continue
        if node.op_type not in ("Conv", "Gemm", "MaxPool", "Add", "GlobalAveragePool", "Flatten"):
            raise ValueError(f"{node.name}: {node.op_type} has no 8-bit form here")
        name = node.name.rpartition("/")[0] or node.name
        name = node.name if node.op_type == "Add" or any(layer.name == name for layer in layers) else name
        weight = node.input[1] if node.input[1:] and node.input[1] in dims else None
        inputs = [value[x] for x in node.input if x in value]
        layers.append(Layer(node.op_type, name, inputs, name, weight, dims.get(weight), attributes_of(node), False))
        value[node.output[0]] = name
    return layers


class Writer:
    """Nodes and initializers of one form. With ranges = None activations stay f32: the network that they are measured on."""

    def __init__(self, layers, ranges):
        self.layers, self.ranges = layers, ranges
        self.nodes, self.initializers, self.known = [], [], set()

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def inline(self, name, array):
        if name not in self.known:
            self.known.add(name)
            self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def drawn(self, name, dtype, dims, holds=""):
        """An initializer whose values make_weights.py knows."""
        self.initializers.append(TensorProto(name=name, data_type=dtype, dims=dims, doc_string=holds))
        return name

    def scale(self, value):
        low, high = self.ranges[value] if self.ranges else (-3.0, 3.0)
        return self.inline(value + "_scale", np.array((high - low) / 255, np.float32))

    def step(self, value):
        """Names of the scale and the zero point of an activation."""
        low, high = self.ranges[value]
        zero = np.clip(np.rint(-low / np.float32((high - low) / 255)), 0, 255)
        return self.scale(value), self.inline(value + "_zero", np.array(zero, np.uint8))

    def weights(self, layer, channels):
        dims = layer.dims[::-1] if layer.op == "MatMul" else layer.dims
        weight = self.drawn(layer.weight, TensorProto.INT8, dims)
        scale = self.drawn(layer.weight + "_scale", TensorProto.FLOAT, [channels])
        return weight, scale, self.inline(layer.weight + "_zero", np.zeros(channels, np.int8))

    def bias(self, layer):
        return layer.weight.replace("weight", "bias")

    def quantised(self, value, f32):
        return self.node("QuantizeLinear", [f32, *self.step(value)], value)

    def dequantised(self, value, output):
        return self.node("DequantizeLinear", [value, *self.step(value)], output)


class QLinear(Writer):
    def write(self, source):
        """Every value is u8; returns the last."""
        self.quantised(source + "_u8", source)
        own = {source: source + "_u8"}
        for layer in self.layers:
            x = [own.get(name, name) for name in layer.inputs]
            out = own.setdefault(layer.output, layer.output)
            if layer.op == "Conv":
                bias = self.drawn(self.bias(layer), TensorProto.INT32, layer.dims[:1])
                weights = self.weights(layer, layer.dims[0])
                self.node("QLinearConv", [x[0], *self.step(x[0]), *weights, *self.step(out), bias], out, **layer.attributes)
            elif layer.op == "Gemm":
                weights = self.weights(layer._replace(op="MatMul"), layer.dims[0])
                raw = self.node("QLinearMatMul", [x[0], *self.step(x[0]), *weights, *self.step(out)], out + "_raw")
                f32 = self.node("DequantizeLinear", [raw, *self.step(out)], out + "_f32")
                bias = self.drawn(self.bias(layer), TensorProto.FLOAT, layer.dims[:1])
                self.quantised(out, self.node("Add", [f32, bias], out + "_biased"))
            elif layer.op in ("MaxPool", "Flatten"):
                self.node(layer.op, x, out, **layer.attributes)
                self.ranges[out] = self.ranges[x[0]]
            else:
                f32 = [self.dequantised(name, f"{out}_in{i}") for i, name in enumerate(x)]
                f32 = self.node(layer.op, f32, out + "_f32")
                self.quantised(out, self.node("Relu", [f32], out + "_relu") if layer.relu else f32)
        return out, TensorProto.UINT8


class Qdq(Writer):
    def settled(self, value, f32):
        """What a reader of a value reads: it and its rounding to u8 and back, or just it while ranges are measured."""
        if self.ranges is None:
            return self.node("Identity", [f32], value)
        rounded = self.node("QuantizeLinear", [f32, *self.step(value)], value + "_u8")
        return self.node("DequantizeLinear", [rounded, *self.step(value)], value)

    def parameters(self, layer, source):
        weight, scale, zero = self.weights(layer, layer.dims[0])
        weight = self.node("DequantizeLinear", [weight, scale, zero], weight + "_f32", axis=0)
        bias = self.drawn(self.bias(layer), TensorProto.INT32, layer.dims[:1])
        product = self.drawn(bias + "_scale", TensorProto.FLOAT, layer.dims[:1], f"product {self.scale(source)} {scale}")
        bias = self.node("DequantizeLinear", [bias, product], bias + "_f32", axis=0)
        return [weight, bias]

    def write(self, source):
        own = {source: self.settled(source + "_rounded", source)}
        for layer in self.layers:
            x = [own.get(name, name) for name in layer.inputs]
            out = layer.output
            parameters = self.parameters(layer, x[0]) if layer.weight else []
            f32 = self.node(layer.op, x + parameters, out + "_raw", **layer.attributes)
            if layer.relu:
                f32 = self.node("Relu", [f32], out + "_relu")
            if self.ranges and layer.op in ("MaxPool", "Flatten"):
                self.ranges[out] = self.ranges[x[0]]
            self.settled(out, f32)
        return out, TensorProto.FLOAT


def built(form, layers, ranges, base):
    writer = form(layers, ranges)
    source = base.input[0].name
    last, dtype = writer.write(source)
    for node in writer.nodes:
        node.output[:] = ["output" if name == last else name for name in node.output]
    graph = helper.make_graph(writer.nodes, base.name, [base.input[0]], [helper.make_tensor_value_info("output", dtype, ["batch", layers[-1].dims[0]])],
                              writer.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="redoubt")


def measured(layers, base, name):
    """{value: (low, high)} with the weights of seed 1, on a few images of noise."""
    model = graph_file.detach(built(Qdq, layers, None, base), name, numbered=False)
    wanted = [layer.output for layer in layers[:-1]] + [base.input[0].name + "_rounded"]
    model.graph.output.extend(helper.make_empty_tensor_value_info(value) for value in wanted)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in.onnx")
        graph_file.write(model, path)
        path = make_weights.make(path, os.path.join(folder, "out"))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # scales that are not used yet
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        found = session.run(None, graph_inputs.make(path, {"batch": 4}, seed=7))
    ranges = {v.name: (min(0.0, float(a.min())), max(0.0, float(a.max()))) for v, a in zip(session.get_outputs(), found)}
    ranges[layers[-1].output] = ranges.pop("output")
    source = base.input[0].name
    ranges[source + "_u8"] = ranges[source + "_rounded"]
    return ranges


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="resnet50")
    parser.add_argument("-o", default=make_weights.GRAPHS, metavar="DIR")
    args = parser.parse_intermixed_args()
    base = onnx.load(os.path.join(make_weights.GRAPHS, args.name + ".onnx"), load_external_data=False).graph
    layers = layers_of(base)
    ranges = measured(layers, base, args.name)
    for form, suffix in ((QLinear, "qlinear"), (Qdq, "qdq")):
        name = f"{args.name}_{suffix}"
        model = graph_file.detach(built(form, layers, dict(ranges), base), name)
        path = os.path.join(args.o, name + ".onnx")
        graph_file.write(model, path)
        print(f"{path}: {len(model.graph.node)} nodes, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
