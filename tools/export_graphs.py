#!/usr/bin/env python3
"""Exports the graphs of examples/graphs from torchvision, without weights: tools/make_weights.py makes those.

usage: tools/export_graphs.py [-o DIR] [NAME...]        (needs torch 1.13 and torchvision; without names: all)
"""
import argparse
import io
import os
import warnings

import onnx
import torch
import torchvision

import graph_file

OPSET = 17
# name: are BatchNormalizations kept as nodes (an engine must fold them) or folded by the exporter, which is its default?
CNNS = {
    "alexnet": False,
    "vgg16": False,
    "resnet18": True,
    "resnet50": True,
    "wide_resnet50_2": False,
    "resnext50_32x4d": False,
    "densenet161": False,
    "squeezenet1_1": False,
    "shufflenet_v2_x1_0": True,
    "mobilenet_v2": True,
}


def distinct(model):
    """The exporter merges initializers of equal values: fresh biases are all 0, fresh scales all 1."""
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.uniform_(0.5, 1.5)


def export_cnn(name, keep_batchnorm):
    torch.manual_seed(1)
    model = getattr(torchvision.models, name)(weights=None).eval()
    distinct(model)
    buffer = io.BytesIO()
    mode = torch.onnx.TrainingMode.PRESERVE if keep_batchnorm else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, torch.randn(1, 3, 224, 224), buffer, opset_version=OPSET, training=mode,
                      input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
    return onnx.load_model_from_string(buffer.getvalue())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CNNS))
    parser.add_argument("-o", default=os.path.join(os.path.dirname(__file__), "..", "examples", "graphs"), metavar="DIR")
    args = parser.parse_args()
    unknown = set(args.names) - set(CNNS)
    if unknown:
        parser.error(f"no graph named {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    for name in args.names or CNNS:
        model = graph_file.detach(export_cnn(name, CNNS[name]), name)
        path = os.path.join(args.o, name + ".onnx")
        graph_file.write(model, path)
        print(f"{path}: {len(model.graph.node)} nodes, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
