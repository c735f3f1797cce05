#!/usr/bin/env python3
"""Races libalibi's attention against PyTorch's and llama.cpp's: same inputs, same threads, runs in turns.

Usage: python3 bench/race_attention.py [--library build/libalibi.so] [--lengths 4096,16384] [--threads 1] ...

Needs a Python with torch.  The rivals:
  bias   scaled_dot_product_attention with ALiBi's bias and the causal mask as one tensor [heads, n, n]
  fused  scaled_dot_product_attention(is_causal=True): its fast path, which knows no bias (a smaller problem than
         ours; the difference of outputs is that of ours without bias)
  flex   FlexAttention with ALiBi as score_mod and a causal block mask, compiled, where this torch can on a CPU
  llama  ggml's flash attention with llama.cpp's ALiBi mask (keys, values and mask in fp16, llama.cpp's default),
         where the package llama_cpp is installed or --ggml names a folder with libggml-base.so and libggml-cpu.so
Runs of ours and of the rival take turns; the ratio is the median of the ratios of neighbours, above 1 where
libalibi is faster.  One thread is timed by its processor time, more by the wall.  difference: largest |ours -
theirs| over max |v| (backward: of a gradient, over its largest).  A bias tensor that does not fit in memory is
raced at half the length, again and again.
"""
import argparse
import ctypes as c
import importlib.util
import json
import math
import os
import statistics
import sys
import time

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # threads that wait for ours, or theirs, leave the cores to them

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("race_attention.py: needs a Python with torch")

TOLERANCE = 2.0**-24
i64, vp = c.c_int64, c.c_void_p


class Heads(c.Structure):
    _fields_ = [("data", vp), ("row_stride", i64), ("head_stride", i64)]


class Bias(c.Structure):
    _fields_ = [("kind", c.c_int), ("slopes", vp), ("total_heads", c.c_int), ("head_offset", c.c_int),
                ("max_bias", c.c_double), ("slope_rule", c.c_int), ("added", vp), ("factor", vp), ("lowest", i64),
                ("distances", i64), ("offsets", vp), ("query_offsets", vp), ("rows", vp), ("rows_gradient", vp),
                ("user", vp), ("reserved", vp * 4)]


class Report(c.Structure):
    _fields_ = [("size", c.c_size_t), ("pairs_visible", i64), ("pairs_visited", i64), ("blocks_visible", i64),
                ("blocks_visited", i64), ("skipped", c.c_double), ("bound", c.c_double)]


class Attention(c.Structure):
    _fields_ = [("size", c.c_size_t), ("queries", i64), ("keys", i64), ("heads", c.c_int), ("kv_heads", c.c_int),
                ("head_size", c.c_int), ("q", Heads), ("k", Heads), ("v", Heads), ("sequences", i64),
                ("query_starts", vp), ("key_starts", vp), ("query_positions", vp), ("key_positions", vp),
                ("query_offset", i64), ("causal", c.c_int), ("window", i64), ("scale", c.c_double),
                ("soft_cap", c.c_double), ("bias", Bias), ("tolerance", c.c_double), ("out", Heads), ("lse", vp),
                ("visited", vp), ("report", c.POINTER(Report))]


class Gradients(c.Structure):
    _fields_ = [("size", c.c_size_t), ("dout", Heads), ("dq", Heads), ("dk", Heads), ("dv", Heads), ("slopes", vp),
                ("added", vp), ("factor", vp), ("offsets", vp)]


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1024)]


class ContextOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("threads", c.c_int), ("isa", c.c_char_p), ("log", vp), ("log_user", vp),
                ("tolerance", c.c_double)]


class Alibi:
    """The C library: only what the race needs."""

    def __init__(self, path, threads):
        self.lib = c.CDLL(path)
        self.lib.alibi_context_isa.restype = c.c_char_p
        self.lib.alibi_version.restype = c.c_char_p
        self.error = Error()
        options = ContextOptions()
        self.lib.alibi_context_options_init(c.byref(options))
        self.check_size(path, options, "context_options")
        options.threads = threads
        self.context = vp()
        self.check(self.lib.alibi_context_new(c.byref(options), c.byref(self.context), c.byref(self.error)))
        self.isa = self.lib.alibi_context_isa(self.context).decode()
        for struct, name in ((Attention, "attention"), (Gradients, "attention_gradients"),
                             (Report, "attention_report")):
            probe = struct()
            getattr(self.lib, f"alibi_{name}_init")(c.byref(probe))
            self.check_size(path, probe, name)

    @staticmethod
    def check_size(path, struct, name):
        if struct.size != c.sizeof(struct):
            sys.exit(f"{path}: alibi_{name} has {struct.size} bytes, expected {c.sizeof(struct)}: another version")

    def check(self, status):
        if status != 0:
            sys.exit(f"libalibi: {self.error.message.decode()}")


class Call:
    """One problem: queries, keys, values [n, H, D] and room for everything that comes out."""

    def __init__(self, alibi, x, tolerance, biased=True):
        n, heads, d = x["q"].shape
        self.alibi, self.x = alibi, x
        self.out = torch.zeros(n, heads, d)
        self.lse = torch.zeros(n, heads)
        self.visited = torch.zeros(n, heads, 2, dtype=torch.int32)
        self.report = Report()
        alibi.lib.alibi_attention_report_init(c.byref(self.report))
        a = self.attention = Attention()
        alibi.lib.alibi_attention_init(c.byref(a))
        a.queries = a.keys = n
        a.heads = a.kv_heads = heads
        a.head_size = d
        a.q.data, a.k.data, a.v.data = (x[name].data_ptr() for name in "qkv")
        a.bias.kind = 1 if biased else 0
        a.tolerance = tolerance
        a.out.data, a.lse, a.visited = self.out.data_ptr(), self.lse.data_ptr(), self.visited.data_ptr()
        a.report = c.pointer(self.report)
        self.gradients = Gradients()
        alibi.lib.alibi_attention_gradients_init(c.byref(self.gradients))
        self.d = {name: torch.zeros_like(x[name]) for name in "qkv"}
        self.gradients.dout.data = x["dout"].data_ptr()
        for name in "qkv":
            getattr(self.gradients, "d" + name).data = self.d[name].data_ptr()
        self.scratch = None

    def room(self, query, *more):
        size = c.c_size_t()
        self.alibi.check(query(self.alibi.context, c.byref(self.attention), *more, c.byref(size),
                               c.byref(self.alibi.error)))
        if self.scratch is None or self.scratch.numel() < size.value:
            self.scratch = torch.zeros(size.value + 64, dtype=torch.uint8)
        return vp(self.scratch.data_ptr()), c.c_size_t(self.scratch.numel())

    def forward(self):
        lib = self.alibi.lib
        self.alibi.check(lib.alibi_attention_forward(
            self.alibi.context, c.byref(self.attention), *self.room(lib.alibi_attention_forward_scratch),
            c.byref(self.alibi.error)))

    def backward(self):
        lib, gradients = self.alibi.lib, c.byref(self.gradients)
        for d in self.d.values():
            d.zero_()
        self.alibi.check(lib.alibi_attention_backward(
            self.alibi.context, c.byref(self.attention), gradients,
            *self.room(lib.alibi_attention_backward_scratch, gradients), c.byref(self.alibi.error)))


# --- rivals: run() computes; result() is [n, H, D], or three of them for backward ---


def torch_layout(x):
    """[1, H, n, D], contiguous: what torch likes best."""
    return {name: x[name].transpose(0, 1).contiguous()[None] for name in x}


class Torch:
    def __init__(self, x, attend, backward):
        self.attend, self.backward = attend, backward
        self.x = torch_layout(x)
        if backward:
            for name in "qkv":
                self.x[name].requires_grad_(True)
            self.out = attend(self.x)

    def run(self):
        if self.backward:
            self.d = torch.autograd.grad(self.out, [self.x[n] for n in "qkv"], self.x["dout"], retain_graph=True)
        else:
            with torch.no_grad():
                self.out = self.attend(self.x)

    def result(self):
        found = self.d if self.backward else [self.out]
        return [y[0].transpose(0, 1).detach() for y in found]


def slopes_of(heads):
    """ALiBi's slopes where the number of heads is a power of two; else as the authors' code has them."""
    full = 1 << (heads.bit_length() - 1)
    first = [2.0 ** (-8.0 * (h + 1) / full) for h in range(full)]
    more = [2.0 ** (-8.0 * (h + 1) / (2 * full)) for h in range(0, 2 * full, 2)]
    return torch.tensor(first + more[: heads - full])


def bias_rival(x, args, backward):
    n, heads, _ = x["q"].shape
    bias = torch.empty(1, heads, n, n)
    distance = torch.arange(n, dtype=torch.float32)
    distance = distance[None, :] - distance[:, None]  # j - i
    distance.masked_fill_(torch.ones(n, n, dtype=torch.bool).triu_(1), -math.inf)
    for h, slope in enumerate(slopes_of(heads).tolist()):
        torch.mul(distance, slope, out=bias[0, h])
    del distance
    return Torch(x, lambda y: F.scaled_dot_product_attention(y["q"], y["k"], y["v"], attn_mask=bias), backward)


def fused_rival(x, args, backward):
    return Torch(x, lambda y: F.scaled_dot_product_attention(y["q"], y["k"], y["v"], is_causal=True), backward)


def flex_rival(x, args, backward):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n, heads, _ = x["q"].shape
    slopes = slopes_of(heads)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cpu")
    compiled = torch.compile(flex_attention, dynamic=False)
    score = lambda s, b, h, i, j: s + slopes[h] * (j - i)  # noqa: E731
    return Torch(x, lambda y: compiled(y["q"], y["k"], y["v"], score_mod=score, block_mask=mask), backward)


class GgmlParameters(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", vp), ("no_alloc", c.c_bool)]


class Llama:
    F32, F16 = 0, 1

    def __init__(self, x, args, backward):
        if backward:
            raise RuntimeError("ggml's flash attention has no backward pass")
        folder = args.ggml or self.package()
        base = c.CDLL(os.path.join(folder, "libggml-base.so"), mode=c.RTLD_GLOBAL)
        cpu = c.CDLL(os.path.join(folder, "libggml-cpu.so"), mode=c.RTLD_GLOBAL)
        n, heads, d = x["q"].shape
        for name in ("ggml_init", "ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_new_graph", "ggml_get_data"):
            getattr(base, name).restype = vp
        cpu.ggml_cpu_init()
        rows = (n + 63) // 64 * 64
        need = 12 * n * heads * d + 2 * rows * n + (1 << 28)
        self.cpu, self.threads = cpu, args.threads
        self.context = vp(base.ggml_init(GgmlParameters(need, None, False)))
        if not self.context:
            raise RuntimeError("ggml has no memory for it")

        def new(kind, *ne):
            return vp(base.ggml_new_tensor_4d(self.context, kind, *(i64(size) for size in ne)))

        q, k, v = (new(kind, d, n, heads, 1) for kind in (self.F32, self.F16, self.F16))
        mask = new(self.F16, n, rows, 1, 1)
        y = torch_layout(x)
        distance = torch.zeros(rows, n, dtype=torch.float16)
        for i in range(n):
            distance[i] = torch.arange(-i, n - i, dtype=torch.float32).half()
            distance[i, i + 1 :] = -math.inf
        for tensor, data in ((q, y["q"]), (k, y["k"].half()), (v, y["v"].half()), (mask, distance)):
            c.memmove(base.ggml_get_data(tensor), data.data_ptr(), data.numel() * data.element_size())
        self.result_tensor = vp(base.ggml_flash_attn_ext(
            self.context, q, k, v, mask, c.c_float(1 / math.sqrt(d)), c.c_float(8.0), c.c_float(0.0)))
        self.graph = vp(base.ggml_new_graph(self.context))
        base.ggml_build_forward_expand(self.graph, self.result_tensor)
        self.base, self.shape = base, (n, heads, d)

    @staticmethod
    def package():
        found = importlib.util.find_spec("llama_cpp")
        if not found:
            raise RuntimeError("llama.cpp's Python package (llama_cpp) is not installed")
        return os.path.join(os.path.dirname(found.origin), "lib")

    def run(self):
        if self.cpu.ggml_graph_compute_with_ctx(self.context, self.graph, c.c_int(self.threads)) != 0:
            raise RuntimeError("ggml could not compute")

    def result(self):
        n, heads, d = self.shape  # [D, H, n] in ggml's order of dimensions
        data = (c.c_float * (n * heads * d)).from_address(self.base.ggml_get_data(self.result_tensor))
        return [torch.frombuffer(data, dtype=torch.float32).view(n, heads, d)]


RIVALS = {"bias": bias_rival, "fused": fused_rival, "flex": flex_rival, "llama": Llama}

# --- the race ---


def inputs(n, heads, d, score):
    torch.manual_seed(1)
    x = {name: torch.rand(n, heads, d) * 2 - 1 for name in ("q", "k", "v", "dout")}
    most = x["q"].norm(dim=2).max() * x["k"].norm(dim=2).max() / math.sqrt(d)
    for name in "qk":
        x[name] *= math.sqrt(score / most)
    return x


def seconds(run, threads):
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def available_bytes():
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 1 << 34


def length_for(rival, n, heads):
    while rival == "bias" and n > 1024 and 4 * heads * n * n + 10 * n * n > 0.8 * available_bytes():
        n //= 2
    return n


def difference(ours, theirs, unit):
    worst = 0.0
    for a, b in zip(ours, theirs):
        worst = max(worst, ((a - b).abs().max() / (unit or b.abs().max())).item())
    return worst


def race(alibi, name, wanted, backward, args):
    n = length_for(name, wanted, args.heads)
    row = {"pass": "backward" if backward else "forward", "rival": name, "length": n, "heads": args.heads,
           "head_size": args.head_size, "threads": args.threads, "tolerance": args.tolerance}
    if n != wanted:
        row["note"] = f"a bias of {wanted} tokens does not fit in memory"
    x = inputs(n, args.heads, args.head_size, args.score)
    try:
        rival = RIVALS[name](x, args, backward)
        rival.run()
        theirs = rival.result()
    except Exception as why:  # whatever it is, the other races go on
        text = str(why).strip()
        row["missing"] = text.splitlines()[0][:300] if text else type(why).__name__
        return row
    # What they computed: ours without skipping, and without bias where they have none.
    same = Call(alibi, x, args.tolerance, name != "fused")
    same.forward()
    if backward:
        same.backward()
    ours = [same.d[n] for n in "qkv"] if backward else [same.out]
    row["difference"] = difference(ours, theirs, None if backward else x["v"].abs().max())
    del same, ours, theirs
    call = Call(alibi, x, args.tolerance)
    call.forward()
    run = call.backward if backward else call.forward
    run()
    pairs = [(seconds(run, args.threads), seconds(rival.run, args.threads)) for _ in range(args.pairs)]
    row.update(pairs=args.pairs, alibi_seconds=statistics.median(a for a, _ in pairs),
               rival_seconds=statistics.median(b for _, b in pairs),
               ratio=statistics.median(b / a for a, b in pairs),
               visited_share=call.report.blocks_visited / call.report.blocks_visible)
    return row


def print_row(row):
    head = f"{row['pass']:<8} {row['length']:>7} {row['rival']:<6}"
    if "missing" in row:
        print(f"{head} not raced: {row['missing']}", flush=True)
        return
    print(f"{head} {1e3 * row['alibi_seconds']:>9.1f} {1e3 * row['rival_seconds']:>9.1f} {row['ratio']:>7.2f} "
          f"{row['difference']:>10.1e} {100 * row['visited_share']:>7.1f}%  {row.get('note', '')}", flush=True)


def parse():
    here = os.path.dirname(os.path.abspath(__file__))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=os.path.join(here, "..", "build", "libalibi.so"))
    p.add_argument("--lengths", default="4096,16384", type=lambda s: [int(n) for n in s.split(",")])
    p.add_argument("--passes", default="forward,backward", type=lambda s: s.split(","))
    p.add_argument("--rivals", default=",".join(RIVALS), type=lambda s: s.split(","))
    p.add_argument("--heads", default=8, type=int)
    p.add_argument("--head-size", default=64, type=int)
    p.add_argument("--threads", default=1, type=int)
    p.add_argument("--pairs", default=9, type=int)
    p.add_argument("--score", default=10.0, type=float, help="largest |q| times largest |k| over sqrt(head size)")
    p.add_argument("--tolerance", default=TOLERANCE, type=float, help="of libalibi; 0 visits every key")
    p.add_argument("--ggml", help="folder of libggml-base.so and libggml-cpu.so")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    passes = ("forward", "backward")
    for option, given, known in (("rivals", args.rivals, RIVALS), ("passes", args.passes, passes)):
        for name in given:
            if name not in known:
                p.error(f"--{option}: expected names from {', '.join(known)}, found '{name}'")
    if not os.path.exists(args.library):
        p.error(f"--library: {args.library} does not exist (make build makes build/libalibi.so)")
    if args.pairs < 1 or args.threads < 1 or min(args.lengths) < 1:
        p.error("--pairs, --threads and --lengths: expected numbers above 0")
    return args


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    alibi = Alibi(args.library, args.threads)
    rows = []
    if not args.json:
        print(f"libalibi {alibi.lib.alibi_version().decode()} ({alibi.isa}) and torch {torch.__version__}, "
              f"{args.threads} thread{'s' if args.threads > 1 else ''}, {args.heads} heads of {args.head_size}, "
              f"{args.pairs} pairs\n")
        print(f"{'pass':<8} {'length':>7} {'rival':<6} {'alibi ms':>9} {'rival ms':>9} {'ratio':>7} "
              f"{'difference':>10} {'visited':>8}")
    for name_of_pass in args.passes:
        for n in args.lengths:
            for name in args.rivals:
                rows.append(race(alibi, name, n, name_of_pass == "backward", args))
                if not args.json:
                    print_row(rows[-1])
    if args.json:
        facts = {"alibi_version": alibi.lib.alibi_version().decode(), "instruction_set": alibi.isa,
                 "torch_version": torch.__version__, "clock": "processor" if args.threads == 1 else "wall"}
        print(json.dumps({**facts, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
