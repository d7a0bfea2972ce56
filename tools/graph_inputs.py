"""Seeded inputs for the graphs of examples/graphs: images, token ids, masks, hidden states."""
import hashlib

import numpy as np
import onnx

import graph_file

VOCABULARY = 30000  # every token id below it is known to every model


def sizes_of(text):
    """"bert_base:batch=2,sequence=16" as name and sizes; by default one sequence of 128."""
    name, _, rest = text.partition(":")
    sizes = {"batch": 1, "sequence": 128}
    sizes.update({k: int(v) for k, v in (part.split("=") for part in rest.split(",") if part)})
    return name, sizes


def shape_of(value, sizes):
    """Symbolic dimensions by their names; where a dimension has none or an unknown one: 1."""
    dims = value.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, 1) for d in dims]


def make(path, sizes=None, seed=1):
    """{input: array} of a graph; sizes: {"batch": 2, "sequence": 16}. Masks hide the last quarter of every odd sequence."""
    graph = onnx.load(path, load_external_data=False).graph
    held = {t.name for t in graph.initializer}
    feed = {}
    for value in graph.input:
        if value.name in held:
            continue
        shape = shape_of(value, sizes or {})
        dtype = graph_file.numpy_dtype(value.type.tensor_type.elem_type)
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed} {value.name}".encode()).digest()[:8], "little"))
        if dtype.kind == "f":
            array = rng.standard_normal(shape).astype(dtype)
        elif "mask" in value.name:
            array = np.ones(shape, dtype)
            array[1::2, -(shape[-1] // 4) or shape[-1]:] = 0
        elif "type" in value.name:
            array = np.broadcast_to(np.arange(shape[-1]) >= shape[-1] // 2, shape).astype(dtype)
        else:
            array = rng.integers(0, VOCABULARY, shape).astype(dtype)
        feed[value.name] = np.ascontiguousarray(array)
    return feed
