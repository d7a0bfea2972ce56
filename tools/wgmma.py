#!/usr/bin/env python3
"""The wrappers of wgmma, whose operand lists are too long to be written by hand: tools/wgmma.py | clang-format >src/cuda/ptx/wgmma.h"""

HEAD = '''/* Products of a warpgroup, from sm_90a on: 64 rows of A by n columns of B, both in shared memory, 32 bytes of k. Written by
 * tools/wgmma.py. Of thread 32 w + 4 g + t of the group: c[4 j + 2 h + e] is row 16 w + 8 h + g, column 8 j + 2 t + e.
 * add: 0 where c is to be begun anew. a_mn, b_mn: rows of A, columns of B lie side by side in place of k; of 16 bits
 * alone. */
#ifndef RDT_CUDA_PTX_WGMMA_H
#define RDT_CUDA_PTX_WGMMA_H

#include "cuda/ptx/mma.h"

/* Where an operand lies: in rows of 128 bytes, 16-byte chunks of which are swapped as TMA does (a row's number modulo 8,
 * exclusive or). Along k: 8 rows after the other. Side by side: 64 elements a row, `next` bytes to the next 64. */
RDT_DEVICE uint64_t rdt_wgmma_place(uint32_t at, uint32_t next) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(next >> 4 & 0x3fff) << 16 | (at >> 4 & 0x3fff);
}

/* Along k, 8 rows that stand for all. */
RDT_DEVICE uint64_t rdt_wgmma_again(uint32_t at) {
  return (uint64_t)1 << 62 | (uint64_t)1 << 16 | (at >> 4 & 0x3fff);
}

RDT_DEVICE void rdt_wgmma_begin() { /* registers and shared memory are as they were written before */
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
RDT_DEVICE void rdt_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* All but the latest n groups are done. */
template <int n>
RDT_DEVICE void rdt_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
/* c is not read before this, whatever the compiler thinks of it. */
template <int count>
RDT_DEVICE void rdt_wgmma_keep(float (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count; i++) asm volatile("" : "+f"(c[i])::"memory");
}
template <int count>
RDT_DEVICE void rdt_wgmma_keep(int (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count; i++) asm volatile("" : "+r"(c[i])::"memory");
}

/* The same of bytes without a sign, k32 of one row of 32 bytes each, n 8: sums in integers. */
RDT_DEVICE void rdt_wgmma_bytes(int (&c)[4], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %6, 0; "
      "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {%0, %1, %2, %3}, %4, %5, p; }"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "l"(a), "l"(b), "r"(add));
}

template <class T, int n, int a_mn, int b_mn>
struct rdt_wgmma;
'''


def lines(items, indent, width=118):
    out, row = [], indent
    for i, x in enumerate(items):
        word = x + (", " if i + 1 < len(items) else "")
        if len(row) + len(word.rstrip()) > width:
            out.append(row.rstrip())
            row = indent
        row += word
    return "\n".join(out + [row])


def instruction(n, name, k, sums, ends):
    """name: of the struct; ends: what the instruction takes behind the places: signs, and for 16 bits which way they lie."""
    count = n // 2
    of = TYPES.get(name, name)
    of = of if "." in of else f"{of}.{of}"
    letter = "r" if sums == "s32" else "f"
    c_type = "int" if sums == "s32" else "float"
    registers = ["%%%d" % i for i in range(count)]
    rows = [registers[i:i + 16] for i in range(0, count, 16)]
    body = "\n".join('        "%s%s"' % (", ".join(r), ", " if i + 1 < len(rows) else "}, ")
                     for i, r in enumerate(rows))
    outs = lines(['"+%s"(c[%d])' % (letter, i) for i in range(count)], "          ")
    ways = ends == "either"
    head = "template <int a_mn, int b_mn>" if ways else "template <>"
    places = "a_mn, b_mn" if ways else "0, 0"
    tail = f", 1, 1, %{count + 3}, %{count + 4}" if ways else ", 1, 1" if ends == "signs" else ""
    more = ', "n"(a_mn), "n"(b_mn)' if ways else ""
    return f'''{head}
struct rdt_wgmma<rdt_{name}, {n}, {places}> {{
  static __device__ __forceinline__ void step({c_type} (&c)[{count}], uint64_t a, uint64_t b, int add) {{
    asm volatile(
        "{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; "
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{sums}.{of} {{"
{body}
        "%{count}, %{count + 1}, p{tail}; }}"
        : {outs.lstrip()}
        : "l"(a), "l"(b), "r"(add){more});
  }}
}};
'''


# Structs whose instruction is called otherwise.
TYPES = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "u8": "u8.s8"}
# Types, k of an instruction, what sums are, what follows the places, numbers of columns. Of integers n comes in sixteens.
INSTRUCTIONS = (
    (("f16", "bf16"), 16, "f32", "either", (8, 32, 40, 64, 72, 128, 136, 256)),
    (("s8", "u8"), 32, "s32", "", (8, 128)),
    (("tf32",), 8, "f32", "signs", (128, 136)),
    (("f8e4m3", "f8e5m2"), 32, "f32", "signs", (8, 128)),
)

print(HEAD)
print("".join("struct rdt_%s;\n" % name for row in INSTRUCTIONS for name in row[0]) + "\n/* clang-format off */")
for names, k, sums, ends, widths in INSTRUCTIONS:
    for width in widths:
        for name in names:
            print(instruction(width, name, k, sums, ends))
print("/* clang-format on */\n\n#endif")
