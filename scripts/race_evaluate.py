#!/usr/bin/env python3
"""Races an evaluation by libalibi against PyTorch's: the same model, text, windows and threads, in turns.

usage: python3 scripts/race_evaluate.py [--library build/libalibi.so] [--threads 1] [--tokens 4096] [--pairs 5]
                                        [--json FILE]
       ... --model DIR --text FILE --alibi build/alibi      a trained model and a text instead of random ones

By default sliding windows of 1024 inputs at a stride of 256 through model B (6 layers, width 384, 6 heads,
vocabulary 8192) with ALiBi and random weights.  --tokens says how much of the text a turn evaluates (0: all of it;
1 MB is about 270,000 tokens and takes minutes).  A batch is one window on both sides unless --batch says more,
which libalibi then takes too.  The rivals, in fp32 and without gradients, compute logits for scored outputs alone:
  eager          scaled_dot_product_attention with ALiBi's bias as a mask (scripts/torch_decoder.py)
  compiled       the same through torch.compile
  eager-causal   with is_causal=True and no positions: its fastest path, and a smaller problem than ours
A ratio is the median over pairs of neighbours, above 1 where libalibi is faster.  One thread is timed by its
processor time, more by the wall.  The two mean losses are compared too (not eager-causal's, which is another
model).
"""
import argparse
import ctypes as c
import itertools
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import race_training

MIB = 1 << 20
SLIDING = 1


class Options(c.Structure):  # the beginning of alibi_evaluate_options
    _fields_ = [("size", c.c_size_t), ("protocol", c.c_int), ("window", c.c_int64), ("stride", c.c_int64),
                ("shortest", c.c_int64), ("longest", c.c_int64), ("max_targets", c.c_int64),
                ("extend", c.c_char_p), ("batch_tokens", c.c_int64), ("rest", c.c_char * 256)]


class Result(c.Structure):  # the beginning of alibi_evaluate_result
    _fields_ = [("size", c.c_size_t), ("window", c.c_int64), ("stride", c.c_int64), ("tokens", c.c_int64),
                ("bytes", c.c_int64), ("nll", c.c_double), ("rest", c.c_char * 256)]


class Ours(race_training.Ours):
    def __init__(self, args):
        self.lib = c.CDLL(str(pathlib.Path(args.library).resolve()))
        self.error, self.context, self.model, self.args = self.Error(), c.c_void_p(), c.c_void_p(), args
        chosen = self.Context()
        self.lib.alibi_context_options_init(c.byref(chosen))
        chosen.threads = args.threads
        self.call("alibi_context_new", c.byref(chosen), c.byref(self.context))
        if args.make:
            self.make()
        self.call("alibi_model_open", self.context, args.model.encode(), c.byref(self.model))
        self.base = race_training.status_bytes("VmRSS")

    def make(self):
        model, config = c.c_void_p(), c.create_string_buffer(1 << 16)
        self.lib.alibi_model_config_init(config)
        for name in ("layers", "width", "heads", "vocabulary", "position"):
            self.call("alibi_model_config_set", config, name.encode(), str(getattr(self.args, name)).encode())
        self.call("alibi_model_config_set", config, b"train_length", str(self.args.window // 4).encode())
        self.call("alibi_model_new", self.context, config, c.c_uint64(1), c.byref(model))
        self.call("alibi_model_save", model, self.args.model.encode())
        self.lib.alibi_model_free(model)

    def evaluate(self, tokens):
        options, result = Options(), Result()
        self.lib.alibi_evaluate_options_init(c.byref(options))
        options.protocol, options.window, options.stride = SLIDING, self.args.window, self.args.stride
        options.batch_tokens = self.args.window * self.args.batch
        ids = (c.c_uint32 * len(tokens))(*tokens)
        self.call("alibi_evaluate", self.model, ids, c.c_size_t(len(tokens)), None, c.byref(options),
                  c.byref(result))
        return result.tokens, result.nll


class Torch:
    def __init__(self, args):
        import torch
        from torch_decoder import alibi_mask, open_decoder, rope_turn

        torch.set_num_threads(args.threads)
        self.torch, self.args = torch, args
        model = open_decoder(args.model, torch.float32)
        size = model.width // model.heads
        if args.worker == "eager-causal":
            model.mask = None
        elif model.position == "alibi":  # of a window, not of the trained length
            model.mask = alibi_mask(model.heads, args.window).float()
        elif model.position == "rope":
            model.cosine, model.sine = (t.float() for t in rope_turn(torch.arange(args.window).double(), size))
        self.base = race_training.status_bytes("VmRSS")
        self.read = (torch.compile(self.losses, dynamic=False, fullgraph=True) if args.worker == "compiled"
                     else self.losses)
        self.model = model

    def losses(self, rows, targets):
        logits = self.model(rows, targets.shape[1])
        return self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")

    def evaluate(self, tokens):
        from torch_evaluation import windows

        total, count, text = 0.0, 0, self.torch.tensor(tokens)
        found = windows("sliding", len(text), self.args.window, self.args.stride).items()
        with self.torch.no_grad():
            # The first and the last score others.
            for _, alike in itertools.groupby(found, key=lambda window: len(window[1])):
                alike = list(alike)
                for batch in (alike[i : i + self.args.batch] for i in range(0, len(alike), self.args.batch)):
                    rows = self.torch.stack([text[first : first + self.args.window] for first, _ in batch])
                    targets = self.torch.stack([text[t[0] : t[-1] + 1] for _, t in batch])
                    total += self.read(rows, targets).item()
                    count += targets.numel()
        return count, total / count


def work(args):
    """One side: a line in, one evaluation, a line out."""
    answers, sys.stdout = sys.stdout, sys.stderr
    side = (Ours if args.worker == "ours" else Torch)(args)
    tokens = json.loads(pathlib.Path(args.ids).read_text())
    clock = time.process_time if args.threads == 1 else time.perf_counter
    side.evaluate(tokens[: 2 * args.window + args.batch * args.stride + 1])
    race_training.forget_peak()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for _ in sys.stdin:
        start = clock()
        count, nll = side.evaluate(tokens)
        taken, peak = clock() - start, race_training.status_bytes("VmHWM")
        print(json.dumps({"seconds": taken, "tokens": count, "nll": nll, "peak": peak, "extra": peak - side.base}),
              file=answers, flush=True)


class Worker(race_training.Side):
    def __init__(self, name, args, make=False):
        words = [sys.executable, __file__, "--worker", name]
        words += ["--make"] if make else []
        for option in ("library model ids threads window stride batch layers width heads vocabulary "
                       "position").split():
            words += [f"--{option}", str(getattr(args, option))]
        super().__init__(words, args.threads, args.verbose)


def race(name, ours, theirs, args):
    mine, other = [], []
    for _ in range(args.pairs):
        mine.append(ours.turn())
        other.append(theirs.turn())
    assert mine[0]["tokens"] == other[0]["tokens"], (mine[0], other[0])
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(mine, other)]
    scored = mine[0]["tokens"]
    inputs = args.window * (1 + -(-max(0, scored - args.window) // args.stride))
    row = {"rival": name, "threads": args.threads, "window": args.window, "stride": args.stride,
           "batch": args.batch, "tokens": scored, "inputs": inputs, "pairs": args.pairs,
           "faster": statistics.median(ratios), "slowest": min(ratios), "fastest": max(ratios),
           "ours_nll": mine[0]["nll"], "their_nll": other[0]["nll"]}
    for side, turns in (("ours", mine), ("their", other)):
        row[f"{side}_seconds"] = statistics.median(x["seconds"] for x in turns)
        row[f"{side}_peak_mib"] = max(x["peak"] for x in turns) / MIB
    print(f"{name:14} {inputs / row['ours_seconds']:12.0f} {inputs / row['their_seconds']:12.0f} "
          f"{row['faster']:7.2f} {row['slowest']:6.2f}-{row['fastest']:<6.2f} {row['ours_peak_mib']:8.0f} "
          f"{row['their_peak_mib']:8.0f} {row['ours_nll']:11.6f} {row['their_nll']:11.6f}", flush=True)
    return row


def prepare(args, folder):
    """Ids of the text, and where none is given a model with random weights."""
    if args.text:
        words = [args.alibi, "tokenizer", "encode", "--tokenizer", pathlib.Path(args.model) / "tokenizer.json",
                 "--json", args.text]
        tokens = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    else:
        draw = random.Random(1)
        tokens = [draw.randrange(args.vocabulary) for _ in range(args.tokens or 270000)]
    args.ids = str(pathlib.Path(folder) / "ids.json")
    pathlib.Path(args.ids).write_text(json.dumps(tokens[: args.tokens + 1 if args.tokens else None]))
    made = not args.model
    args.model = args.model or str(pathlib.Path(folder) / "model")
    return made


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/libalibi.so")
    parser.add_argument("--alibi", default="build/alibi", help="the command, which encodes --text")
    parser.add_argument("--model", default="", help="a folder of `alibi train`")
    parser.add_argument("--text", default="", help="with --model: what is evaluated")
    parser.add_argument("--rivals", default="eager,compiled,eager-causal")
    for name, value in (("threads", 1), ("tokens", 4096), ("window", 1024), ("stride", 256), ("batch", 1),
                        ("pairs", 5), ("layers", 6), ("width", 384), ("heads", 6), ("vocabulary", 8192)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--position", default="alibi", help="of random weights: alibi or rope")
    parser.add_argument("--json", help="file to write the rows to")
    parser.add_argument("--verbose", action="store_true", help="show what the sides say")
    for name in ("--worker", "--ids"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.worker:
        return work(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = []
    with tempfile.TemporaryDirectory(prefix="race-evaluate-") as folder:
        ours = Worker("ours", args, make=prepare(args, folder))
        print(f"{args.threads} thread(s), timed by {'processor time' if args.threads == 1 else 'the wall'}; "
              f"window {args.window}, stride {args.stride}, {args.batch} window(s) a batch")
        print(f"{'rival':14} {'ours, tok/s':>12} {'rival, tok/s':>12} {'faster':>7} {'range':^13} {'MiB':>8} "
              f"{'rival':>8} {'loss':>11} {'rival':>11}")
        for name in args.rivals.split(","):
            theirs = None
            try:
                theirs = Worker(name, args)
                rows.append(race(name, ours, theirs, args))
            except (RuntimeError, OSError) as reason:
                print(f"{name:14} left out: {reason}", flush=True)
            finally:
                if theirs:
                    theirs.close()
        ours.close()
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
