"""What the exporters share: torch.onnx.export into memory, names that say where a weight comes from, weights detached."""
import argparse
import io
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import graph_file

TABLE = 1 << 16  # bytes; what a Constant node holds more than that becomes an initializer


def distinct(model):
    """The exporter merges initializers of equal values: fresh biases are all 0, fresh scales all 1."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.uniform_(0.5, 1.5)


def fingerprint(array):
    """Equal for equal values, cheap for large ones."""
    flat = array.reshape(-1)
    return array.shape, array.dtype.str, flat[:: max(1, flat.size // 1024)].tobytes()


def renamed(graph, old, new):
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]


def name_weights(model, graph):
    """A weight that the exporter transposed gets its parameter's name back, with "_transposed"; one that was tied to an
    embedding and copied by the transposition is read from the embedding again."""
    known = {}
    for name, value in model.named_parameters():
        array = value.detach().numpy()
        known[fingerprint(array)] = (name, False)
        if array.ndim == 2:
            known[fingerprint(np.ascontiguousarray(array.T))] = (name, True)
    held = {t.name for t in graph.initializer}
    for tensor in list(graph.initializer):
        if not tensor.name.startswith("onnx::"):
            continue
        name, transposed = known.get(fingerprint(numpy_helper.to_array(tensor)), (None, False))
        if name is None:
            continue
        to = name + ("_transposed" if transposed else "")
        renamed(graph, tensor.name, to)
        if transposed and name in held:
            graph.initializer.remove(tensor)
            graph.node.insert(0, helper.make_node("Transpose", [name], [to], name=to, perm=[1, 0]))
        elif to in held:
            graph.initializer.remove(tensor)
        else:
            held.add(to)
            tensor.name = to


def merge_constants(graph):
    """Equal Constant nodes become one; a large table becomes an initializer, whose doc_string says what it holds."""
    first, drop = {}, []
    for node in graph.node:
        if node.op_type != "Constant" or node.attribute[0].name != "value":
            continue
        tensor = node.attribute[0].t
        array = numpy_helper.to_array(tensor)
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in first:
            first[key] = node.output[0]
            if array.nbytes <= TABLE:
                continue
            triangle = np.broadcast_to(np.tri(*array.shape[-2:], dtype=bool), array.shape)
            if array.dtype != bool or not np.array_equal(array, triangle):
                raise ValueError(f"{node.output[0]}: a constant of {array.shape} that is no lower triangle")
            table = graph.initializer.add(name=node.output[0], data_type=TensorProto.BOOL, dims=array.shape)
            table.doc_string = "lower triangle"
            table.raw_data = array.tobytes()
        else:
            renamed(graph, node.output[0], first[key])
        drop.append(node)
    for node in drop:
        graph.node.remove(node)


def export(model, example, inputs, outputs, opset, training=torch.onnx.TrainingMode.EVAL):
    """inputs, outputs: {name: names of its leading dimensions, None where one is fixed}."""
    distinct(model.eval())
    buffer = io.BytesIO()
    axes = {name: {i: dim for i, dim in enumerate(dims) if dim} for name, dims in {**inputs, **outputs}.items()}
    torch.onnx.export(model, example, buffer, opset_version=opset, training=training, input_names=list(inputs),
                      output_names=list(outputs), dynamic_axes=axes)
    exported = onnx.load_model_from_string(buffer.getvalue())
    name_weights(model, exported.graph)
    merge_constants(exported.graph)
    return exported


def main(usage, exporters):
    """The command line of an exporter: {name: function that returns a model}."""
    parser = argparse.ArgumentParser(description=usage.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(exporters))
    parser.add_argument("-o", default=os.path.join(os.path.dirname(__file__), "..", "examples", "graphs"), metavar="DIR")
    args = parser.parse_intermixed_args()
    unknown = set(args.names) - set(exporters)
    if unknown:
        parser.error(f"no graph named {', '.join(sorted(unknown))}")
    for name in args.names or exporters:
        model = graph_file.detach(exporters[name](), name)
        path = os.path.join(args.o, name + ".onnx")
        graph_file.write(model, path)
        print(f"{path}: {len(model.graph.node)} nodes, {os.path.getsize(path)} bytes", flush=True)
