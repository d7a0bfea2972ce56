#!/usr/bin/env python3
"""What the checks of the fp16 and bf16 kernels add to each step of k: counted, and compared with table 1 of the paper on
thread-level checks.

    tests/count_mma.py --ptx NVCC SOURCE_FOLDER   compiles src/cuda/sm80/gemm_mma_{f16,bf16}.cu to PTX, which must not speak of injection, nor that of
                                                  other types and of the fused kernels on wgmma; that of their injecting form must
    tests/count_mma.py --sass PROGRAM             of machine code: cuobjdump --dump-sass

A warp's tile of MT x NT instructions takes MT NT products a step. What is added, with P parts that a sum of fragments is
split into (2 of fp16, 3 of bf16; the paper's sums in half precision are one):

    scheme      products        additions
    thread1     P MT            4 (NT - 1) + 4 (P - 1), of B's fragments
    thread1a    P NT            8 (MT - 1) + 8 (P - 1), of A's fragments
    col         P NT            8 (MT - 1) + 8 (P - 1)
    thread2     P (P + 1) / 2   both
    replicate   MT NT           none
    replicate1  MT NT           none

and for bounds 2 MT products for the squares of A's rows, shared by the warps that share these rows (replicate has no bound).
"""
import contextlib
import io
import re
import subprocess
import sys
import tempfile

CHECKS = ["none", "thread1", "thread1a", "col", "thread2", "replicate", "replicate1", "row", "global-classic"]
NAME = re.compile(r"_Z8gemm_mmaI\d+rdt_type_(b?f16).*?Li(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)EELi(\d+)EEv")


def kernels(text, starts, product, addition):
    """Of each kernel: its name, and how many products and additions stand between its first product and its last."""
    found = {}
    for part in re.split(starts, text)[1:]:
        name = NAME.match(part)
        if not name:
            continue
        lines = part.splitlines()
        at = [i for i, line in enumerate(lines) if re.search(product, line)]
        sums = sum(1 for line in lines[at[0]:at[-1] + 1] if re.search(addition, line))
        tile = tuple(int(x) for x in name.groups()[1:9])
        found[name.group(1), tile, CHECKS[int(name.group(10))]] = (len(at), sums)
    return found


def expected(parts, mt, nt, check):
    """Products and sums of a step beyond those of none."""
    norms, of_b, of_a = 2 * mt, 4 * (nt - 1) + 4 * (parts - 1), 8 * (mt - 1) + 8 * (parts - 1)
    return {"thread1": (parts * mt + norms, of_b), "thread1a": (parts * nt + norms, of_a),
            "col": (parts * nt + norms, of_a), "thread2": (parts * (parts + 1) // 2 + norms, of_b + of_a),
            "replicate": (mt * nt, 0), "replicate1": (mt * nt + norms, 0)}[check]


def compare(found, exact_sums):
    wrong = 0
    print(f"{'type':5} {'tile':9} {'scheme':10} {'products a step':>16} {'expected':>9} {'sums':>5} {'expected':>9}")
    for (dtype, tile, check), (count, sums) in found.items():
        bm, bn, depth, wm, wn, wk, _, _ = tile
        if check in ("none", "row", "global-classic"):
            continue
        steps, parts, mt, nt = depth // wk // 16, 3 if dtype == "bf16" else 2, wm // 16, wn // 8
        if (dtype, tile, "none") not in found:
            sys.exit(f"{dtype} {bm}x{bn}: no kernel without a check")
        plain, plain_sums = found[dtype, tile, "none"]
        if check == "thread2" and mt == 1:
            continue
        products, additions = expected(parts, mt, nt, check)
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


def ptx_of(nvcc, folder, source, counted):
    """Where nothing is counted, without optimisation: a third of the time, and no name is lost in what is inlined."""
    arch = "compute_90a" if source.startswith("sm90") else "compute_80"
    with tempfile.NamedTemporaryFile(suffix=".ptx") as out:
        subprocess.run([nvcc, "-std=c++17", "-O3", f"-arch={arch}", f"-I{folder}", f"-I{folder}/../include",
                        "-D_GNU_SOURCE", *([] if counted else ["-Xcicc", "-O0"]), "-ptx", f"{folder}/cuda/{source}.cu",
                        "-o", out.name], check=True)
        with open(out.name, encoding="ascii") as f:
            text = f.read()
    if ".entry " not in text:
        sys.exit(f"{source}.cu: PTX without a kernel")
    return text


def injects(text):
    return re.search(r"inject|rdt_(mma_)?hit", text, re.I) is not None


SHIPPED = [*(f"sm80/gemm_mma_{dtype}" for dtype in ("f16", "bf16", "f32", "f64", "s8")), "sm90/fused_wgmma"]


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--ptx":
        found = {}
        for source in SHIPPED:
            counted = source.endswith("f16")
            text = ptx_of(sys.argv[2], sys.argv[3], source, counted)
            if injects(text):
                sys.exit(f"{source}.cu: PTX of kernels that ship speaks of injection")
            if counted:
                found.update(kernels(text, r"\.entry ", r"\bmma\.sync", r"\b(add|sub)\.(rn\.)?f32"))
        if not injects(ptx_of(sys.argv[2], sys.argv[3], "sm90/fused_wgmma_inject", False)):
            sys.exit("PTX that speaks of injection is not noticed")
        if not noticed(found, True):
            sys.exit("other counts are not noticed")
        return compare(found, True)
    if len(sys.argv) == 3 and sys.argv[1] == "--sass":
        text = subprocess.run(["cuobjdump", "--dump-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
        wrong = 0
        for arch in sorted(set(re.findall(r"code for (sm_\w+)", text))):
            print(arch)
            of = "".join(re.findall(rf"code for {arch}\n(.*?)(?=Fatbin|\Z)", text, re.S))
            wrong += compare(kernels(of, r"Function : ", r"\bHMMA\.", r"\bFADD"), False)
        return wrong
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
