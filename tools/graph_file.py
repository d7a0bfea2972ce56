"""ONNX files without their weights: what the tools that export graphs and those that fill them agree on."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper

INLINE = {"f": 32, "i": 4096, "u": 1024, "b": 1024}  # bytes by kind of dtype; larger initializers live beside the graph
PAGE = 4096


def numpy_dtype(onnx_type):
    if hasattr(helper, "tensor_dtype_to_np_dtype"):  # onnx 1.13 and later
        return np.dtype(helper.tensor_dtype_to_np_dtype(onnx_type))
    return np.dtype(onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[onnx_type])


def initializer_dtype(tensor):
    return numpy_dtype(tensor.data_type)


def payload(tensor):
    """Bytes that the values of an initializer take, wherever they are."""
    return int(np.prod(tensor.dims, dtype=np.int64)) * initializer_dtype(tensor).itemsize


def is_inline(tensor):
    """Scalars and shapes stay in the graph; parameters and large tables leave it, and what has no values yet."""
    return len(tensor.raw_data) == payload(tensor) <= INLINE[initializer_dtype(tensor).kind]


def external(tensor):
    """{"location": .., "offset": .., "length": ..} of an initializer, or None if its values are in the graph."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    entries = {e.key: e.value for e in tensor.external_data}
    return {"location": entries["location"], "offset": int(entries["offset"]), "length": int(entries["length"])}


def shorten(graph):
    """Nodes keep their names; what they write gets a number, since exporters repeat the node's name there and that, in wide
    Concats, is most of the file."""
    published = {x.name for x in [*graph.input, *graph.output, *graph.initializer]}
    number = {}
    for node in graph.node:
        node.name = node.name.lstrip("/")
        node.input[:] = [number.get(name, name) for name in node.input]
        for name in node.output:
            if name not in published:
                number[name] = str(len(number))
        node.output[:] = [number.get(name, name) for name in node.output]


def detach(model, name, numbered=True):
    """Moves every large initializer to <name>.weights, which is not written, and drops what nothing needs to run.

    Initializers are laid out in their order: large ones at pages, so that a reader can map them, the others at cache lines.
    An initializer whose values are no parameters says in its doc_string what they are (see make_weights.py)."""
    graph = model.graph
    for described in (model, graph, *graph.node):
        described.ClearField("doc_string")
    del model.metadata_props[:], graph.value_info[:], graph.quantization_annotation[:]
    if numbered:
        shorten(graph)
    end = 0
    for tensor in graph.initializer:
        if is_inline(tensor):
            continue
        size = payload(tensor)
        step = PAGE if size >= 4 * PAGE else 64
        offset = -(-end // step) * step
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
        del tensor.external_data[:]
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name + ".weights"), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        end = offset + size
    return model


def write(model, path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".tmp", "wb") as f:
        f.write(model.SerializeToString(deterministic=True))
    os.replace(path + ".tmp", path)


def attribute(node, name, default):
    for a in node.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return default
