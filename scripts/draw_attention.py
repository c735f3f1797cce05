#!/usr/bin/env python3
"""Draws docs/attention.png: which blocks of 64 queries by 64 keys attention computes, for a steep, a middle and a
gentle slope.

One sequence of random keys and queries, |score| <= 10; the blocks are those that the public operator reports in
`visited` (include/alibi/attention.h).  Needs libalibi.so and gnuplot; a few seconds.

    python3 scripts/draw_attention.py [build/libalibi.so [docs/attention.png]]
"""
import array
import ctypes
import math
import random
import subprocess
import sys

TOKENS, HEAD_SIZE, SCORE, BLOCK = 16384, 64, 10, 64
SLOPES = (1 / 2, 1 / 32, 1 / 256)
HEADS = len(SLOPES)
NOT_SEEN, SKIPPED = "-1", "0"
pointer, i64, i32, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double


class Heads(ctypes.Structure):
    _fields_ = [("data", pointer), ("row_stride", i64), ("head_stride", i64)]


class Bias(ctypes.Structure):
    _fields_ = [("kind", i32), ("slopes", pointer), ("total_heads", i32), ("head_offset", i32), ("max_bias", real),
                ("slope_rule", i32), ("added", pointer), ("factor", pointer), ("lowest", i64), ("distances", i64),
                ("offsets", pointer), ("rows", pointer), ("rows_gradient", pointer), ("user", pointer)]


class Attention(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("queries", i64), ("keys", i64), ("heads", i32), ("kv_heads", i32),
                ("head_size", i32), ("q", Heads), ("k", Heads), ("v", Heads), ("sequences", i64),
                ("query_starts", pointer), ("key_starts", pointer), ("query_positions", pointer),
                ("key_positions", pointer), ("query_offset", i64), ("causal", i32), ("window", i64),
                ("scale", real), ("soft_cap", real), ("bias", Bias), ("tolerance", real), ("out", Heads),
                ("lse", pointer), ("visited", pointer), ("report", pointer)]


def address(numbers):
    return numbers.buffer_info()[0]


def random_rows(source):
    return array.array("f", (source.gauss(0, 1) for _ in range(TOKENS * HEADS * HEAD_SIZE)))


def largest_norm(rows):
    return max(math.hypot(*rows[i:i + HEAD_SIZE]) for i in range(0, len(rows), HEAD_SIZE))


def visited_of(library):
    """[tokens, heads, 2]: the first block that a row visits, and the last one + 1."""
    context, error = pointer(), ctypes.create_string_buffer(1 << 12)
    source = random.Random(1)
    q, k = random_rows(source), random_rows(source)
    v, out = array.array("f", bytes(4 * len(q))), array.array("f", bytes(4 * len(q)))
    slopes, visited = array.array("f", SLOPES), array.array("i", bytes(8 * TOKENS * HEADS))
    a = Attention()
    library.alibi_attention_init(ctypes.byref(a))
    if a.size != ctypes.sizeof(a):
        sys.exit(f"alibi_attention: expected {ctypes.sizeof(a)} bytes, found {a.size}: another header's library")
    a.queries = a.keys = TOKENS
    a.heads, a.head_size = HEADS, HEAD_SIZE
    a.q.data, a.k.data, a.v.data, a.out.data = map(address, (q, k, v, out))
    a.scale = SCORE / (largest_norm(q) * largest_norm(k))
    a.bias.slopes, a.visited = address(slopes), address(visited)
    if library.alibi_context_new(None, ctypes.byref(context), error) or \
            library.alibi_attention_forward(context, ctypes.byref(a), None, ctypes.c_size_t(0), error):
        sys.exit("alibi: the call failed")
    library.alibi_context_free(context)
    return visited


def blocks_of(visited, head):
    """Per tile of queries, as gnuplot reads it: the share of the rows that visit each block of keys."""
    tiles = []
    for tile in range(TOKENS // BLOCK):
        row = [0] * (tile + 1)
        for r in range(tile * BLOCK, (tile + 1) * BLOCK):
            at = 2 * (r * HEADS + head)
            for block in range(visited[at], visited[at + 1]):
                row[block] += 1 / BLOCK
        tiles.append(row)
    return tiles


def draw(visited, path):
    ticks = "('0' 0, '4k' 4096, '8k' 8192, '12k' 12288, '16k' 16384)"
    lines = ["set terminal pngcairo size 1280,500 font 'sans,11' background rgb 'white'", f"set output '{path}'",
             "set palette defined (-1 'white', 0 '#e4e4e4', 0.02 '#9cc7e3', 1 '#0072B2')", "set cbrange [-1:1]",
             "set border 3 lc rgb '#666666'", "set tics nomirror out scale 0.6 textcolor rgb '#222222'",
             f"set xrange [0:{TOKENS}]", f"set yrange [{TOKENS}:0]", f"set xtics {ticks}", f"set ytics {ticks}",
             "set xlabel 'key'", "unset key", "unset colorbox", "set multiplot"]
    for head, slope in enumerate(SLOPES):
        tiles = blocks_of(visited, head)
        share = sum(x > 0 for row in tiles for x in row) / sum(map(len, tiles))
        lines.append(f"$blocks{head} << EOD")
        for row in tiles:
            cells = [f"{x:.3g}" if x else SKIPPED for x in row]
            lines.append(" ".join(cells + [NOT_SEEN] * (len(tiles) - len(row))))
        left, cell = 0.06 + 0.32 * head, f"({BLOCK}*(${{}}+0.5))"
        lines += ["EOD", f"set lmargin at screen {left}", f"set rmargin at screen {left + 0.27}",
                  "set tmargin at screen 0.9", "set bmargin at screen 0.13",
                  f"set ylabel '{'' if head else 'query'}'",
                  f"set title 'slope 1/{1 / slope:.0f}: {100 * share:.1f} % of the blocks'",
                  f"plot $blocks{head} matrix using {cell.format(1)}:{cell.format(2)}:3 with image"]
        print(f"slope 1/{1 / slope:.0f}: {100 * share:.2f} % of the blocks")
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\nunset multiplot\n", text=True, check=True)


if __name__ == "__main__":
    arguments = sys.argv[1:] + ["build/libalibi.so", "docs/attention.png"][len(sys.argv) - 1:]
    draw(visited_of(ctypes.CDLL(arguments[0])), arguments[1])
