#!/usr/bin/env python3
"""What the checks of the fp16 and bf16 kernels add to each step of k: counted, and compared with table 1 of the paper on
thread-level checks.

    tests/count_mma.py --ptx FOLDER    of the PTX in its objects (build/cuda), where besides nothing that ships may speak of
                                       injection, and each kernel of an injecting object has to
    tests/count_mma.py --sass PROGRAM  of machine code: cuobjdump --dump-sass

A warp's tile of MT x NT instructions takes MT NT products a step. What is added, with P parts that a sum of fragments is
split into (2 of fp16, 3 of bf16; the paper's sums in half precision are one):

    scheme      products        additions
    thread1     P MT            4 (NT - 1) + 4 (P - 1), of B's fragments
    thread1a    P NT            8 (MT - 1) + 8 (P - 1), of A's fragments
    col         P NT            8 (MT - 1) + 8 (P - 1)
    thread2     P (P + 1) / 2   both
    replicate   MT NT           none
    replicate1  MT NT           none

Tiles of 8 rows have each of them twice in an instruction: their replicate adds none. For bounds 2 MT products are added for
the squares of A's rows, shared by the warps that share these rows (replicate has no bound).
"""
import contextlib
import ctypes
import functools
import glob
import io
import re
import struct
import subprocess
import sys

MAGIC, PTX, LZ4, ZSTD = struct.pack("<I", 0xba55ed50), 1, 0x2000, 0x8000
CHECKS = ["none", "thread1", "thread1a", "col", "thread2", "replicate", "replicate1", "row", "global-classic"]
NAME = re.compile(r"_Z8gemm_mmaI\d+rdt_type_(b?f16).*?Li(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)EELi(\d+)EEv")


def kernels(text, starts, product, addition, wait):
    """Of each kernel: its name, and how many products and additions stand between its first product and its last, for
    each round: the compiler may have several of them in its loop. One waits for copies, and one wait is behind the loop."""
    found = {}
    for part in re.split(starts, text)[1:]:
        name = NAME.match(part)
        if not name:
            continue
        lines = part.splitlines()
        at = [i for i, line in enumerate(lines) if re.search(product, line)]
        sums = sum(1 for line in lines[at[0]:at[-1] + 1] if re.search(addition, line))
        rounds = max(1, sum(1 for line in lines if re.search(wait, line)) - 1)
        tile = tuple(int(x) for x in name.groups()[1:9])
        found[name.group(1), tile, CHECKS[int(name.group(10))]] = (len(at) / rounds, sums / rounds)
    return found


def expected(parts, mt, nt, check, twofold):
    """Products and sums of a step beyond those of none."""
    norms, of_b, of_a = 2 * mt, 4 * (nt - 1) + 4 * (parts - 1), 8 * (mt - 1) + 8 * (parts - 1)
    return {"thread1": (parts * mt + norms, of_b), "thread1a": (parts * nt + norms, of_a),
            "col": (parts * nt + norms, of_a), "thread2": (parts * (parts + 1) // 2 + norms, of_b + of_a),
            "replicate": (0 if twofold else mt * nt, 0), "replicate1": (mt * nt + norms, 0)}[check]


def compare(found, exact_sums):
    wrong = 0
    print(f"{'type':5} {'tile':9} {'scheme':10} {'products a step':>16} {'expected':>9} {'sums':>5} {'expected':>9}")
    for (dtype, tile, check), (count, sums) in found.items():
        bm, bn, depth, wm, wn, wk, _, _ = tile
        if check in ("none", "row", "global-classic"):
            continue
        steps, parts, mt, nt = depth // wk // 16, 3 if dtype == "bf16" else 2, max(wm // 16, 1), wn // 8
        if (dtype, tile, "none") not in found:
            sys.exit(f"{dtype} {bm}x{bn}: no kernel without a check")
        plain, plain_sums = found[dtype, tile, "none"]
        if check == "thread2" and mt == 1:
            continue
        products, additions = expected(parts, mt, nt, check, wm == 8)
        more, more_sums = (count - plain) / steps, (sums - plain_sums) / steps
        bad = plain / steps != mt * nt or more != products or (exact_sums and more_sums != additions)
        wrong += bad
        print(f"{dtype:5} {bm:3}x{bn:<5} {check:10} {more:16g} {products:9} {more_sums:5g} {additions:9}{' WRONG' if bad else ''}")
    if not found:
        sys.exit("no kernels found")
    return wrong


def noticed(found, exact_sums):
    """Whether one product more, or an addition where these are counted exactly, is told."""
    for key, (count, sums) in found.items():
        if key[2] != "thread1":
            continue
        for other in [(count + key[1][2] // key[1][5] // 16, sums), (count, sums + 100)][:2 if exact_sums else 1]:
            with contextlib.redirect_stdout(io.StringIO()):
                if compare({**found, key: other}, exact_sums) != 1:
                    return False
        return True
    return False


def ptx_of(path):
    """The PTX in an object, by machine: nvcc packs it with Zstandard. A "fat binary" is a header and entries."""
    with open(path, "rb") as f:
        data = f.read()
    found, at = {}, data.find(MAGIC)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header, at + header + size
        while entry < end:
            kind, = struct.unpack_from("<H", data, entry)
            header, padded, packed = struct.unpack_from("<IQI", data, entry + 4)
            machine, = struct.unpack_from("<I", data, entry + 28)
            flags, _, size = struct.unpack_from("<QQQ", data, entry + 40)
            if kind == PTX:
                text = data[entry + header:entry + header + padded]
                if flags & ZSTD:
                    text, packed_text = ctypes.create_string_buffer(size), text[:packed]
                    if library().ZSTD_decompress(text, size, packed_text, packed) != size:
                        sys.exit(f"{path}: PTX that cannot be unpacked")
                    text = text.raw
                elif flags & LZ4:
                    sys.exit(f"{path}: PTX is packed by LZ4: nvcc of CUDA 13 packs what is read here")
                found[machine] = found.get(machine, "") + text.rstrip(b"\0").decode("ascii")
            entry += header + padded
        at = data.find(MAGIC, end)
    return found


@functools.cache
def library():
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return zstd


def injecting(text, several):
    """Kernels that take faults, by what C++ makes of their names, or by a pointer behind their arguments, which is left
    where all else was inlined; all; does anything speak of it? several: kernels that ship have several pointers, too."""
    speaks = re.compile(r"inject|rdt_(mma_|voted?_)?hit", re.I)
    entries = re.findall(r"\.entry\s+(\w+)\s*\((.*?)\)", text, re.S)
    know = sum(1 for name, parameters in entries
               if speaks.search(name) or (not several and re.search(r",\s*\.param\s+\.[bu]64\b", parameters)))
    return know, len(entries), speaks.search(text) is not None


def look(folder):
    """At all objects; the PTX of f16 and bf16 for the oldest machine, which is there in each build."""
    counted, both = "", [0, 0]
    for path in sorted(glob.glob(f"{folder}/*.o")):
        texts = ptx_of(path)
        faults = path.endswith("_inject.o")
        for machine, text in texts.items():
            know, n, speaks = injecting(text, path.endswith("/mend.o"))
            both[faults] += n
            if know != (n if faults else 0) or speaks != faults:
                sys.exit(f"{path}, PTX of {machine}: {know} of {n} kernels know of injection")
        if re.search(r"/gemm_mma_b?f16\.o$", path):
            counted += texts[min(texts)]
    if 0 in both:
        sys.exit(f"{folder}: {both[0]} kernels that ship, {both[1]} that inject")
    print(f"{both[0]} kernels that ship, {both[1]} that inject")
    return counted


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--ptx":
        found = kernels(look(sys.argv[2]), r"\.entry ", r"\bmma\.sync", r"\b(add|sub)\.(rn\.)?f32",
                        r"\bcp\.async\.wait_group")
        if not noticed(found, True):
            sys.exit("other counts are not noticed")
        return compare(found, True)
    if len(sys.argv) == 3 and sys.argv[1] == "--sass":
        text = subprocess.run(["cuobjdump", "--dump-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
        wrong = 0
        for arch in sorted(set(re.findall(r"code for (sm_\w+)", text))):
            print(arch)
            of = "".join(re.findall(rf"code for {arch}\n(.*?)(?=Fatbin|\Z)", text, re.S))
            wrong += compare(kernels(of, r"Function : ", r"\bHMMA\.", r"\bFADD", r"\bDEPBAR\.LE SB0"), False)
        return wrong
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
