#!/usr/bin/env python3
"""Races one training step of libalibi against PyTorch's and llm.c's: the same model, batch, threads; in turns.

usage: python3 scripts/race_training.py [--library build/libalibi.so] [--models A,B,C] [--threads 1] [--quick]
                                        [--json FILE]

Needs a Python with torch; `compiled` also a C++ compiler.  The models (layers, width, heads, tokens a sequence,
vocabulary, sequences a step):
  A  4, 128,  8, 128,  1024, 16      B  6, 384,  6, 256,  8192, 8      C  12, 768, 12, 512, 50257, 4 (GPT-2 124M)
The rivals, all in fp32 with AdamW in one pass (fused=True), clipping and no accumulation:
  eager          PyTorch with scaled_dot_product_attention and ALiBi's bias as a mask (scripts/torch_decoder.py)
  compiled       the same through torch.compile
  eager-causal, compiled-causal
                 with is_causal=True and no positions: its fastest path, and a smaller problem than ours
  llm.c          its CPU trainer on model C; --llmc names a checkout, which is copied, set to 512 tokens and built
                 as its Makefile does
Ours and a rival are processes that take turns; a ratio is the median over pairs of neighbours, above 1 where
libalibi is faster.  One thread is timed by its processor time, more by the wall.  Memory is the most that was
resident during the steps, after the warm-up: the whole process, and without what it held before the model was
made.
"""
import argparse
import array
import ctypes as c
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

MODELS = {"A": dict(layers=4, width=128, heads=8, train_length=128, vocabulary=1024, sequences=16),
          "B": dict(layers=6, width=384, heads=6, train_length=256, vocabulary=8192, sequences=8),
          "C": dict(layers=12, width=768, heads=12, train_length=512, vocabulary=50257, sequences=4)}
TEXT = 100000
RIVALS = ["eager", "compiled", "eager-causal", "compiled-causal", "llm.c"]
MIB = 1 << 20


def status_bytes(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def forget_peak():
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # the peak is then that of the whole life


def make_text(vocabulary):
    draw = random.Random(1)
    return [draw.randrange(vocabulary) for _ in range(TEXT)]


# The sides of a race.  Each runs in a process of its own; base is what was resident before the model.

class Ours:
    """The C library: only what the race needs."""

    class Report(c.Structure):
        _fields_ = [("step", c.c_int64), ("loss", c.c_double), ("rest", c.c_char * 256)]

    class Error(c.Structure):
        _fields_ = [("status", c.c_int), ("message", c.c_char * 1024)]

    class Context(c.Structure):
        _fields_ = [("size", c.c_size_t), ("threads", c.c_int), ("rest", c.c_char * 256)]

    class Options(c.Structure):  # the beginning of alibi_train_options
        _fields_ = [("size", c.c_size_t), ("steps", c.c_int64), ("batch_tokens", c.c_int64),
                    ("micro_tokens", c.c_int64), ("learning_rate", c.c_double), ("rest", c.c_char * 1024)]

    def __init__(self, shape, args):
        self.lib = c.CDLL(str(pathlib.Path(args.library).resolve()))
        self.error, self.context, self.trainer = self.Error(), c.c_void_p(), c.c_void_p()
        self.base = status_bytes("VmRSS")
        chosen, options, config = self.Context(), self.Options(), c.create_string_buffer(1 << 16)
        self.lib.alibi_context_options_init(c.byref(chosen))
        chosen.threads = args.threads
        self.call("alibi_context_new", c.byref(chosen), c.byref(self.context))
        self.lib.alibi_model_config_init(config)
        for name in ("layers", "width", "heads", "train_length", "vocabulary"):
            self.call("alibi_model_config_set", config, name.encode(), str(shape[name]).encode())
        self.call("alibi_model_config_set", config, b"position", args.position.encode())
        self.lib.alibi_train_options_init(c.byref(options))
        options.batch_tokens, options.learning_rate = shape["sequences"] * shape["train_length"], 1e-4
        self.text = (c.c_uint32 * TEXT)(*make_text(shape["vocabulary"]))
        self.call("alibi_trainer_new", self.context, config, c.byref(options), self.text, c.c_size_t(TEXT),
                  c.byref(self.trainer))

    def call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments, c.byref(self.error)) != 0:
            sys.exit(f"race_training.py: {name}: {self.error.message.decode()}")

    def step(self):
        report = self.Report()
        self.call("alibi_trainer_step", self.trainer, c.byref(report))
        return report.loss


class Torch:
    def __init__(self, shape, args):
        import torch
        from torch_decoder import Decoder

        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        self.base = status_bytes("VmRSS")
        self.torch, self.shape = torch, shape
        position = "none" if args.worker.endswith("-causal") else args.position
        self.model = Decoder(position=position, **{k: v for k, v in shape.items() if k != "sequences"})
        self.loss = self.model.loss
        if args.worker.startswith("compiled"):
            self.loss = torch.compile(self.loss, dynamic=False, fullgraph=True, mode=args.mode)
        self.optimiser = torch.optim.AdamW(self.model.decay_groups(0.1), lr=1e-4, betas=(0.9, 0.95), fused=True)
        self.text = torch.tensor(make_text(shape["vocabulary"]))

    def step(self):
        length = self.shape["train_length"]
        at = self.torch.randint(TEXT - length, (self.shape["sequences"],)).tolist()
        loss = self.loss(self.torch.stack([self.text[a : a + length] for a in at]),
                         self.torch.stack([self.text[a + 1 : a + length + 1] for a in at]))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        return loss.item()


def work(args):
    """One side: reads how many steps to take, a line a turn, and answers with a line."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a compiler says goes elsewhere
    side = (Ours if args.worker == "ours" else Torch)(MODELS[args.models], args)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    for _ in range(1 if args.worker == "ours" else 2):
        loss = side.step()
    forget_peak()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        start = clock()
        for _ in range(int(line)):
            loss = side.step()
        taken = clock() - start
        peak = status_bytes("VmHWM")
        print(json.dumps({"seconds": taken / int(line), "peak": peak, "extra": peak - side.base, "loss": loss}),
              file=answers, flush=True)


class Side:
    """A process of one side, which takes a line a turn and answers with one."""

    def __init__(self, words, threads, verbose, **environment):
        count = str(threads)
        # Threads that wait leave the cores to the other side.
        quiet = dict(OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, TORCHINDUCTOR_COMPILE_THREADS="1",
                     GOMP_SPINCOUNT="1000", KMP_BLOCKTIME="0")
        self.process = subprocess.Popen(words, env={**os.environ, **quiet, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=None if verbose else subprocess.DEVNULL,
                                        text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended with code {self.process.wait()} (--verbose shows what it said)")
        return json.loads(line)

    def turn(self, line=""):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Worker(Side):
    def __init__(self, name, model, args):
        kept = args.keep and name != "ours"
        environment = dict(MALLOC_MMAP_THRESHOLD_=str(1 << 33),
                           MALLOC_TRIM_THRESHOLD_=str(1 << 34)) if kept else {}
        super().__init__([sys.executable, __file__, "--worker", name, "--models", model,
                          "--library", args.library, "--threads", str(args.threads), "--position", args.position,
                          "--mode", args.mode], args.threads, args.verbose, **environment)


class LlmC:
    """llm.c's train_gpt2, stopped and continued between its steps.  What it needs is written here: random weights
     in its checkpoint format (version 3), tokens in its shard format (version 1)."""

    def __init__(self, model, args):
        if model != "C":
            raise RuntimeError("only model C is its own")
        if not args.llmc:
            raise RuntimeError("--llmc names no checkout")
        self.single = args.threads == 1
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="race-llmc-"))
        try:
            self.prepare(MODELS[model], args)
            words = ["stdbuf", "-oL", "./train_gpt2"]
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE,
                                            stdin=subprocess.DEVNULL, text=True,
                                            env={**os.environ, "OMP_NUM_THREADS": str(args.threads),
                                                 "GOMP_SPINCOUNT": "1000"})
            self.wait_step()  # the first, after a look at the validation loss
            self.process.send_signal(signal.SIGSTOP)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def prepare(self, shape, args):
        shutil.copytree(args.llmc, self.folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns(".git", "*.bin", "*.o"))
        source = self.folder / "train_gpt2.c"
        text = source.read_text()
        for old, new in (("int T = 64;", f"int T = {shape['train_length']};"),
                         ("int B = 4;", f"int B = {shape['sequences']};"),
                         ("int val_num_batches = 5;", "int val_num_batches = 1;")):
            if text.count(old) != 1:
                raise RuntimeError(f"expected '{old}' once in {source.name}")
            text = text.replace(old, new)
        source.write_text(text)
        (self.folder / "train_gpt2").unlink(missing_ok=True)
        subprocess.run(["make", "train_gpt2", f"CC={args.cc}"], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=None if args.verbose else subprocess.DEVNULL)
        self.write_weights(shape, 1024, 50304)
        data = self.folder / "dev/data/tinyshakespeare"
        data.mkdir(parents=True, exist_ok=True)
        for name in ("train", "val"):
            header = struct.pack("<256i", 20240520, 1, TEXT, *[0] * 253)
            tokens = array.array("H", make_text(shape["vocabulary"]))
            (data / f"tiny_shakespeare_{name}.bin").write_bytes(header + tokens.tobytes())

    def write_weights(self, shape, positions, padded):
        width, layers = shape["width"], shape["layers"]
        header = (20240326, 3, positions, shape["vocabulary"], layers, shape["heads"], width, padded)
        draw = random.Random(1)
        block = array.array("f", [draw.gauss(0, 0.02) for _ in range(1 << 16)])
        ones, zeros = array.array("f", [1.0]), array.array("f", [0.0])
        parts = [(block, padded * width), (block, positions * width),
                 (ones, layers * width), (zeros, layers * width),
                 (block, 3 * layers * width * width), (zeros, 3 * layers * width),
                 (block, layers * width * width), (zeros, layers * width),
                 (ones, layers * width), (zeros, layers * width),
                 (block, 4 * layers * width * width), (zeros, 4 * layers * width),
                 (block, 4 * layers * width * width), (zeros, layers * width),
                 (ones, width), (zeros, width)]
        with open(self.folder / "gpt2_124M.bin", "wb") as out:
            out.write(struct.pack("<256i", *header, *[0] * (256 - len(header))))
            for pattern, count in parts:
                for _ in range(count // len(pattern)):
                    pattern.tofile(out)
                pattern[: count % len(pattern)].tofile(out)

    def wait_step(self):
        for line in self.process.stdout:
            if line.startswith("step "):
                return
        raise RuntimeError(f"it ended with code {self.process.wait()}")

    def processor_time(self):
        numbers = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")

    def turn(self, steps):
        clock = self.processor_time if self.single else time.perf_counter
        start = clock()
        self.process.send_signal(signal.SIGCONT)
        for _ in range(steps):
            self.wait_step()
        taken = clock() - start
        self.process.send_signal(signal.SIGSTOP)
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
        return {"seconds": taken / steps, "peak": peak, "extra": peak}

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def race(model, name, ours, theirs, args):
    shape = MODELS[model]
    tokens = shape["sequences"] * shape["train_length"]
    first = ours.turn(1)
    steps = max(1, round(args.seconds / first["seconds"]))
    theirs_steps = steps if name != "llm.c" else 1  # past its ninth step it looks at the validation loss again
    # The steps of llm.c take minutes.
    pairs = min(args.pairs, 3 if args.pairs > 2 else 1) if name == "llm.c" else args.pairs
    mine, other = [], []
    for _ in range(pairs):
        mine.append(ours.turn(steps))
        other.append(theirs.turn(theirs_steps))
    middle = statistics.median
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(mine, other)]
    row = {"model": model, "rival": name, "threads": args.threads, "position": args.position, "pairs": len(ratios),
           "steps_a_turn": steps, "ours_tokens_per_second": tokens / middle(x["seconds"] for x in mine),
           "their_tokens_per_second": tokens / middle(x["seconds"] for x in other), "faster": middle(ratios),
           "fastest": max(ratios), "slowest": min(ratios)}
    for side, turns in (("ours", mine), ("their", other)):
        row[f"{side}_peak_mib"] = max(x["peak"] for x in turns) / MIB
        row[f"{side}_model_mib"] = max(x["extra"] for x in turns) / MIB
    row["share_of_their_memory"] = row["ours_peak_mib"] / row["their_peak_mib"]
    row["share_of_their_model_memory"] = row["ours_model_mib"] / row["their_model_mib"]
    return row


def print_row(row):
    print(f"{row['model']:5} {row['rival']:16} {row['ours_tokens_per_second']:12.0f} "
          f"{row['their_tokens_per_second']:12.0f} {row['faster']:7.2f} {row['slowest']:6.2f}-"
          f"{row['fastest']:<6.2f} {row['ours_peak_mib']:8.0f} "
          f"{row['their_peak_mib']:8.0f} {100 * row['share_of_their_memory']:6.0f} % "
          f"{100 * row['share_of_their_model_memory']:6.0f} %", flush=True)


def race_model(model, args, rows):
    ours = Worker("ours", model, args)
    try:
        for name in args.rivals.split(","):
            theirs = None
            try:
                theirs = LlmC(model, args) if name == "llm.c" else Worker(name, model, args)
                rows.append(race(model, name, ours, theirs, args))
                print_row(rows[-1])
            except (RuntimeError, OSError, subprocess.CalledProcessError) as reason:
                print(f"{model:5} {name:16} left out: {reason}", flush=True)
            finally:
                if theirs:
                    theirs.close()
    finally:
        ours.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/libalibi.so")
    parser.add_argument("--models", default="A,B,C")
    parser.add_argument("--rivals", default=",".join(RIVALS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--position", default="alibi", help="alibi, rope, sinusoidal or none, of both sides")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2,
                        help="a turn of ours lasts about so long, at least one step")
    parser.add_argument("--mode", default="default", help="of torch.compile")
    parser.add_argument("--keep", action="store_true",
                        help="PyTorch's memory allocator keeps what it freed: faster, but larger")
    parser.add_argument("--llmc", help="a checkout of llm.c")
    parser.add_argument("--cc", default="gcc", help="compiler of llm.c")
    parser.add_argument("--quick", action="store_true", help="two pairs of short turns")
    parser.add_argument("--json", help="file to write the rows to")
    parser.add_argument("--verbose", action="store_true", help="show what the sides say")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the sides end with the race
    if args.quick:
        args.pairs, args.seconds = 2, 0.3
    rows = []
    print(f"{args.threads} thread(s), timed by {'processor time' if args.threads == 1 else 'the wall'}; "
          f"{args.position}")
    print(f"{'model':5} {'rival':16} {'ours, tok/s':>12} {'rival, tok/s':>12} {'faster':>7} {'range':^13} "
          f"{'MiB':>8} {'rival':>8} "
          f"{'share':>8} {'model':>8}")
    for model in args.models.split(","):
        race_model(model, args, rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
