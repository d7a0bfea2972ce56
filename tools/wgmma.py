#!/usr/bin/env python3
"""The wrappers of wgmma, whose operand lists are too long to be written by hand: tools/wgmma.py | clang-format >src/cuda/ptx/wgmma.h"""

HEAD = '''/* Products of a warpgroup, from sm_90a on: 64 rows of A by n columns of B, both in shared memory, k16. Written by
 * tools/wgmma.py. Of thread 32 w + 4 g + t of the group: c[4 j + 2 h + e] is row 16 w + 8 h + g, column 8 j + 2 t + e.
 * add: 0 where c is to be begun anew. a_mn, b_mn: rows of A, columns of B lie side by side in place of k. */
#ifndef RDT_CUDA_PTX_WGMMA_H
#define RDT_CUDA_PTX_WGMMA_H

#include "cuda/ptx/mma.h"

/* Where an operand lies: in rows of 128 bytes, 16-byte chunks of which are swapped as TMA does (a row's number modulo 8,
 * exclusive or). Along k: 8 rows after the other. Side by side: 64 elements a row, `next` bytes to the next 64. */
RDT_DEVICE uint64_t rdt_wgmma_place(uint32_t at, uint32_t next) {
  return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(next >> 4 & 0x3fff) << 16 | (at >> 4 & 0x3fff);
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


def instruction(n, type_name):
    count = n // 2
    registers = ["%%%d" % i for i in range(count)]
    rows = [registers[i:i + 16] for i in range(0, count, 16)]
    body = "\n".join('        "%s%s"' % (", ".join(r), ", " if i + 1 < len(rows) else "}, ")
                     for i, r in enumerate(rows))
    outs = lines(['"+f"(c[%d])' % i for i in range(count)], "          ")
    return f'''template <int a_mn, int b_mn>
struct rdt_wgmma<rdt_{type_name}, {n}, a_mn, b_mn> {{
  static __device__ __forceinline__ void step(float (&c)[{count}], uint64_t a, uint64_t b, int add) {{
    asm volatile(
        "{{ .reg .pred p; setp.ne.b32 p, %{count + 2}, 0; "
        "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{type_name}.{type_name} {{"
{body}
        "%{count}, %{count + 1}, p, 1, 1, %{count + 3}, %{count + 4}; }}"
        : {outs.lstrip()}
        : "l"(a), "l"(b), "r"(add), "n"(a_mn), "n"(b_mn));
  }}
}};
'''


print(HEAD)
print("struct rdt_f16;\nstruct rdt_bf16;\n\n/* clang-format off */")
for width in (8, 32, 40, 64, 72, 128, 136, 256):
    for name in ("f16", "bf16"):
        print(instruction(width, name))
print("/* clang-format on */\n\n#endif")
