#!/usr/bin/env python3
"""Writes src/plan/workloads.def: the linear layers of the built-in workloads, from the architectures below.

Each architecture is a function that walks a network: convolutions, pools and products in their order, shapes by arithmetic. Layers
that are alike become one that counts so many times. Networks are those of torchvision's model zoo (shapes only), the recommendation
models' perceptrons, NoScope's specialised networks, and square products.

    tools/make_workloads.py [FILE]           writes the table (default: the project's)
    tools/make_workloads.py --check [FILE]   1 where FILE is not what would be written
"""
import os
import sys

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "plan", "workloads.def")


class Net:
    """A walk: what has been computed so far, and the shape (channels, height, width) that the next layer reads."""

    def __init__(self, channels, height, width, grouped=True):
        self.shape, self.grouped, self.layers = (channels, height, width), grouped, []

    def add(self, name, row):
        for layer in self.layers:
            if layer["row"] == row:
                layer["times"] += 1
                return
        self.layers.append({"name": name, "row": row, "times": 1})

    def conv(self, name, out, kernel, stride=1, pad=0, groups=1):
        channels, height, width = self.shape
        self.add(name, ("CONV", channels, height, width, out, kernel, stride, pad, groups if self.grouped else 1))
        self.shape = (out, *((side + 2 * pad - kernel) // stride + 1 for side in (height, width)))

    def pool(self, kernel, stride, pad=0, up=False):
        """up: the last window may hang over the edge"""
        channels, *sides = self.shape
        self.shape = (channels, *((side + 2 * pad - kernel + (stride - 1 if up else 0)) // stride + 1 for side in sides))

    def mean(self, height=1, width=1):
        self.shape = (self.shape[0], height, width)

    def full(self, name, out):
        """Fully connected, of all that is there"""
        count = 1
        for length in self.shape:
            count *= length
        self.add(name, ("GEMM", out, count))
        self.shape = (out,)


def alexnet(net):
    for i, (out, kernel, stride, pad, pooled) in enumerate(
            [(64, 11, 4, 2, 1), (192, 5, 1, 2, 1), (384, 3, 1, 1, 0), (256, 3, 1, 1, 0), (256, 3, 1, 1, 1)]):
        net.conv(f"conv{i + 1}", out, kernel, stride, pad)
        if pooled:
            net.pool(3, 2)
    net.mean(6, 6)
    for i, out in enumerate((4096, 4096, 1000)):
        net.full(f"fc{i + 6}", out)


def vgg16(net):
    for stage, (out, convs) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]):
        for i in range(convs):
            net.conv(f"conv{stage + 1}.{i + 1}", out, 3, 1, 1)
        net.pool(2, 2)
    net.mean(7, 7)
    for i, out in enumerate((4096, 4096, 1000)):
        net.full(f"fc{i + 6}", out)


def resnet(net, blocks, bottleneck=True, width=64, groups=1):
    """width: of the 3 x 3 convolutions in the first stage; four times 64 come out of a bottleneck there, whatever it is"""
    net.conv("stem", 64, 7, 2, 3)
    net.pool(3, 2, 1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            name, stride, came = f"{stage + 1}.{block + 1}", 2 if stage and not block else 1, net.shape
            inner, out = width << stage, (256 if bottleneck else 64) << stage
            if bottleneck:
                net.conv(f"{name} in", inner, 1)
            net.conv(f"{name} mid", inner, 3, stride, 1, groups)
            if bottleneck:
                net.conv(f"{name} out", out, 1)
            else:
                net.conv(f"{name} mid", out, 3, 1, 1)
            if came[0] != out:  # the way around is brought to the same shape
                left, net.shape = net.shape, came
                net.conv(f"{name} shortcut", out, 1, stride)
                assert net.shape == left
    net.mean()
    net.full("fc", 1000)


def squeezenet(net):
    """Version 1.0"""
    net.conv("conv1", 96, 7, 2)
    net.pool(3, 2, up=True)
    for i, (squeeze, expand) in enumerate([(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2):
        net.conv(f"fire{i + 2} squeeze", squeeze, 1)
        came = net.shape
        net.conv(f"fire{i + 2} 1x1", expand, 1)
        net.shape = came
        net.conv(f"fire{i + 2} 3x3", expand, 3, 1, 1)
        net.shape = (2 * expand, *net.shape[1:])
        if i in (2, 6):
            net.pool(3, 2, up=True)
    net.conv("conv10", 1000, 1)


def shufflenet(net):
    """Version 2, width 1: the first block of a stage halves the image on both of its branches, the others compute on half of the
    channels."""
    net.conv("stem", 24, 3, 2, 1)
    net.pool(3, 2, 1)
    for stage, (out, count) in enumerate([(116, 4), (232, 8), (464, 4)]):
        half = out // 2
        for block in range(count):
            name, came, stride = f"{stage + 2}.{block + 1}", net.shape, 1 if block else 2
            if block == 0:
                net.conv(f"{name} side 3x3", came[0], 3, 2, 1, came[0])
                net.conv(f"{name} side 1x1", half, 1)
            net.shape = (half if block else came[0], *came[1:])
            net.conv(f"{name} in", half, 1)
            net.conv(f"{name} mid", half, 3, stride, 1, half)
            net.conv(f"{name} out", half, 1)
            net.shape = (out, *net.shape[1:])
    net.conv("conv5", 1024, 1)
    net.mean()
    net.full("fc", 1000)


def densenet161(net, growth=48):
    net.conv("stem", 96, 7, 2, 3)
    net.pool(3, 2, 1)
    stages = (6, 12, 36, 24)
    for stage, count in enumerate(stages):
        for layer in range(count):
            came = net.shape
            net.conv(f"{stage + 1}.{layer + 1} in", 4 * growth, 1)
            net.conv(f"{stage + 1}.{layer + 1} out", growth, 3, 1, 1)
            net.shape = (came[0] + growth, *came[1:])
        if stage + 1 < len(stages):
            net.conv(f"{stage + 1} transition", net.shape[0] // 2, 1)
            net.pool(2, 2)
    net.mean()
    net.full("fc", 1000)


def noscope(net, convs, hidden):
    """convs: channels, with 0 for a pool"""
    for i, out in enumerate(convs):
        if out:
            net.conv(f"conv{i + 1}", out, 3, 1, 1)
        else:
            net.pool(2, 2)
    net.full("fc1", hidden)
    net.full("fc2", 2)


def perceptron(net, *widths):
    for i, out in enumerate(widths):
        net.full(f"fc{i + 1}", out)


def convolutions(net, network, *how):
    """Those of a network but for its first one"""
    network(net, *how)
    net.layers = [layer for layer in net.layers if layer["row"][0] == "CONV"]
    net.layers[0]["times"] -= 1
    net.layers = [layer for layer in net.layers if layer["times"]]


RESNET50 = (3, 4, 6, 3)
CNNS = [  # name, what it is, how it is walked; grouped beside it: "ungrouped" is what tables of products are made of
    ("alexnet", "AlexNet", alexnet, ()),
    ("vgg16", "VGG-16", vgg16, ()),
    ("resnet50", "ResNet-50", resnet, (RESNET50,)),
    ("squeezenet", "SqueezeNet 1.0", squeezenet, ()),
    ("shufflenet", "ShuffleNet v2 1.0", shufflenet, ()),
    ("densenet161", "DenseNet-161", densenet161, ()),
    ("resnext50", "ResNeXt-50 32x4d", resnet, (RESNET50, True, 128, 32)),
    ("wide-resnet50", "Wide ResNet-50-2", resnet, (RESNET50, True, 128)),
]
GROUPED = ("shufflenet", "resnext50")
SIZES = [("", "cnn-224", 224, 224), ("-1080p", "cnn-1080p", 1080, 1920)]
NOSCOPE = [("coral", (16, 16, 0), 128), ("roundabout", (32, 32, 0, 64, 64, 0), 32), ("taipei", (64, 64, 0), 32),
           ("amsterdam", (64, 64, 0), 256)]


def workloads():
    """(name, group, batches with the usual one first, what it is, layers) of each"""
    for suffix, group, height, width in SIZES:
        image = f"an image of {height} x {width}"
        for name, title, walk, how in CNNS:
            variants = [("-grouped", True, ", groups as they are"), ("", False, ", groups ignored")]
            for tag, grouped, words in variants if name in GROUPED else [("", True, "")]:
                net = Net(3, height, width, grouped)
                walk(net, *how)
                yield f"{name}{tag}{suffix}", group + tag, (1,), f"{title}{words}, {image}", net.layers
    for name, inputs, widths in ("bottom", 13, (512, 256, 64)), ("top", 512, (512, 256, 1)):
        net = Net(inputs, 1, 1)
        perceptron(net, *widths)
        words = "-".join(map(str, (inputs, *widths)))
        yield f"dlrm-{name}", "dlrm", (1, 256, 2048), f"DLRM's {name} perceptron, {words}", net.layers
    for name, convs, hidden in NOSCOPE:
        net = Net(3, 50, 50)
        noscope(net, convs, hidden)
        yield f"noscope-{name}", "noscope", (64,), f"NoScope's network {name.title()}, images of 50 x 50", net.layers
    for suffix, _, height, width in SIZES:
        for name, title, walk, how in (("resnet18", "ResNet-18", resnet, ((2, 2, 2, 2), False)), ("vgg16", "VGG-16", vgg16, ()),
                                       ("resnet50", "ResNet-50", resnet, (RESNET50,))):
            net = Net(3, height, width)
            convolutions(net, walk, *how)
            words = f"{title}'s convolutions but for the first, images of {height} x {width}"
            yield f"conv-{name}{suffix}", "conv", (2, 8), words, net.layers
    for side in (32, 64, 128, 256, 512, 1024, 2048):
        yield f"square-{side}", "square", (1,), f"a product of {side} x {side} x {side}", [
            {"name": "product", "row": ("ROWS", side, side, side), "times": 1}]


def table():
    lines = ["/* Written by tools/make_workloads.py: do not edit. Lengths of one of the batch.",
             " * WORKLOAD(name, group, first layer, layers, text, batches), then its layers:",
             " * CONV(name, channels in, height, width, channels out, kernel, stride, padding, groups, times)",
             " * GEMM(name, rows, columns, depth, times) */",
             "/* clang-format off */"]
    first = 0
    for name, group, batches, text, layers in workloads():
        lines.append(f'WORKLOAD("{name}", "{group}", {first}, {len(layers)}, "{text}", {", ".join(map(str, batches))})')
        first += len(layers)
        for layer in layers:
            kind, *lengths = layer["row"]
            if kind == "GEMM":
                lengths = [1, *lengths]
            kind = "GEMM" if kind == "ROWS" else kind
            lines.append(f'{kind}("{layer["name"]}", {", ".join(map(str, lengths))}, {layer["times"]})')
    return "\n".join([*lines, "/* clang-format on */", ""])


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    if len(arguments) > check + 1 or any(a.startswith("-") for a in arguments[check:]):
        sys.exit(__doc__.strip())
    path = (arguments[check:] or [TABLE])[0]
    if not check:
        with open(path, "w", encoding="ascii") as f:
            f.write(table())
        return 0
    with open(path, encoding="ascii") as f:
        same = f.read() == table()
    if not same:
        print(f"{path} is not what tools/make_workloads.py writes: run it", file=sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
