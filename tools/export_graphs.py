#!/usr/bin/env python3
"""Exports the graphs of examples/graphs from torchvision, without weights: tools/make_weights.py makes those.

usage: tools/export_graphs.py [-o DIR] [NAME...]        (needs torch 1.13 and torchvision; without names: all)
"""
import warnings

import torch
import torchvision

import graph_export

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


def export_cnn(name, keep_batchnorm):
    model = getattr(torchvision.models, name)(weights=None).eval()
    mode = torch.onnx.TrainingMode.PRESERVE if keep_batchnorm else torch.onnx.TrainingMode.EVAL
    return graph_export.export(model, torch.randn(1, 3, 224, 224), {"input": ("batch",)}, {"output": ("batch",)},
                               opset=OPSET, training=mode)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    graph_export.main(__doc__, {name: lambda name=name, keep=keep: export_cnn(name, keep) for name, keep in CNNS.items()})
