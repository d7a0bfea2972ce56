#!/usr/bin/python3
"""Trains the digits network of examples/digits and writes it as ONNX, with its held-out images.

Data: the 1797 handwritten digits (8x8, 0..16) that ship with scikit-learn, a stratified fifth of them held out.
The ONNX graph is written node by node, so that names are readable and BatchNormalization stays a node of its own.

    apt-get install python3-torch python3-sklearn python3-onnx python3-numpy
    tools/train_digits.py            # rewrites examples/digits; about half a minute on one core
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
import torch
from torch import nn
import torch.nn.functional as F

SEED = 20
EPOCHS = 60
BATCH = 64


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.bn3 = nn.BatchNorm2d(32)
        self.conv4 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv5 = nn.Conv2d(32, 48, 3, padding=1)
        self.fc1 = nn.Linear(48, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        y = F.relu(self.bn3(self.conv3(x)))
        x = F.relu(self.conv4(y) + x)
        x = F.relu(self.conv5(x))
        x = x.mean(dim=(2, 3))
        return self.fc2(F.relu(self.fc1(x)))  # logits; the file ends in Softmax


def shifted(images, generator):
    """One-pixel shifts to the left or right of half the batches: all the augmentation that 8x8 digits bear."""
    dx = (0, 0, -1, 1)[int(torch.randint(0, 4, (1,), generator=generator))]
    return F.pad(images, (1, 1, 0, 0))[:, :, :, 1 + dx : 9 + dx]


def train(images, labels):
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    net = Digits()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = EPOCHS * ((len(images) + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(net(shifted(images[part], generator)), labels[part]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def to_onnx(net):
    nodes, constants = [], []

    def constant(name, tensor):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(tensor.detach().numpy(), np.float32), name))
        return name

    def node(op, name, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [name + "_out"], name=name, **attributes))
        return name + "_out"

    def conv(name, x):
        module = getattr(net, name)
        weights = [constant(f"{name}.{part}", getattr(module, part)) for part in ("weight", "bias")]
        return node("Conv", name, [x, *weights], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])

    def bn(name, x):
        module = getattr(net, name)
        parts = ("weight", "bias", "running_mean", "running_var")
        return node("BatchNormalization", name, [x] + [constant(f"{name}.{part}", getattr(module, part)) for part in parts],
                    epsilon=module.eps)

    def fc(name, x):
        module = getattr(net, name)
        return node("Gemm", name, [x] + [constant(f"{name}.{part}", getattr(module, part)) for part in ("weight", "bias")],
                    transB=1)

    x = node("Relu", "relu1", [bn("bn1", conv("conv1", "image"))])
    x = node("Relu", "relu2", [conv("conv2", x)])
    pool = node("MaxPool", "pool1", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = node("Relu", "relu3", [bn("bn3", conv("conv3", pool))])
    x = node("Relu", "relu4", [node("Add", "add4", [conv("conv4", x), pool])])
    x = node("Relu", "relu5", [conv("conv5", x)])
    x = node("Flatten", "flatten", [node("GlobalAveragePool", "gap", [x])])
    x = fc("fc2", node("Relu", "relu6", [fc("fc1", x)]))
    nodes.append(helper.make_node("Softmax", [x], ["probabilities"], name="softmax", axis=1))

    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="tools/train_digits.py")
    model.ir_version = 7
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", default=pathlib.Path(__file__).resolve().parent.parent / "examples" / "digits",
                        type=pathlib.Path, help="where to write (default: examples/digits)")
    out = parser.parse_args().out

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = digits.target.astype(np.int64)
    x_train, x_held, y_train, y_held = train_test_split(images, labels, test_size=0.2, random_state=SEED, stratify=labels)
    net = train(torch.from_numpy(x_train), torch.from_numpy(y_train))
    with torch.no_grad():
        right = int((net(torch.from_numpy(x_held)).argmax(1).numpy() == y_held).sum())

    out.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx(net), str(out / "digits.onnx"))
    np.save(out / "images.npy", x_held)
    np.save(out / "labels.npy", y_held)
    np.save(out / "some.npy", x_held[:8])
    np.save(out / "some-labels.npy", y_held[:8])
    with open(out / "one.pb", "wb") as file:
        file.write(numpy_helper.from_array(x_held[:1], "image").SerializeToString())
    print(f"held-out accuracy {right}/{len(y_held)} = {right / len(y_held):.4f}")


if __name__ == "__main__":
    main()
