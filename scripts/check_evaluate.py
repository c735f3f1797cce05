#!/usr/bin/env python3
"""Compares `alibi eval` with the same protocols done naively in PyTorch, float64: every window recomputed on its
own, the windows written from their definitions (scripts/torch_evaluation.py).

usage: python3 scripts/check_evaluate.py ALIBI                            (needs torch, safetensors)
       python3 scripts/check_evaluate.py ALIBI --models DIR... --text FILE... [--bytes N] [--pairs W:S,...]
               [--beginning ID] [--full]

Without models it makes small ones, of every position method and some variants (make_golden_model.py), on a text of
random bytes.  With models of `alibi train` it prints what docs/evaluation-record.md shows: means, their errors,
early and late tokens, bits per byte, contexts and losses of single tokens, and, of several models, paired
differences; of the first N bytes of each text, then of all texts as documents.  W and S may be relative to the
number of tokens: N-1:500.
Exit code 1 where a mean loss differs by more than 1e-5 of itself, or anything is counted otherwise.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

import make_golden_model as golden
import torch_evaluation as reference
from torch_decoder import open_decoder

TOLERANCE = 1e-5
LOOSE = 1e-4  # of errors, and of means of few tokens; absolute, of single tokens
DETAILS = ("layers width heads kv_heads head_size feed_forward train_length norm norm_bias bias tied qk_norm "
           "activation").split()
PAIRS = "128:128,128:32,64:1,2:1,2:2,100:33,512:128,N-1:500,N+400:100"
SWEEP = "64,128,512"
WHOLE = ("nonoverlapping", "sliding", "streaming")


def run(*words):
    found = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if found.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, words))}: {found.stderr}")
    return found.stdout


def encoded(alibi, tokenizer, file):
    return json.loads(run(alibi, "tokenizer", "encode", "--tokenizer", tokenizer, "--json", file))


# ---- small models of every method ----

def open_model(directory, extension, length):
    config = json.loads((directory / "config.json").read_text())
    golden.VOCABULARY, golden.LENGTH = config["vocabulary"], length
    position = dict(config["position"])
    model = golden.Decoder(position=position.pop("method"), extension=extension,
                           **{name: config[name] for name in DETAILS}, **position)
    stored = load_file(directory / "model.safetensors")
    assert stored.keys() == model.values.keys(), stored.keys() ^ model.values.keys()
    for name, value in stored.items():
        assert value.numel() == model.values[name].numel(), name
        model.values[name] = value.double().reshape(model.values[name].shape)
    return model


def make_model(directory, alibi, vocabulary=256, **case):
    golden.VOCABULARY = vocabulary
    case.pop("extension", None)
    model = golden.Decoder(**case)
    directory.mkdir()
    stored = {name: value.detach().float().contiguous() for name, value in model.values.items()}
    stored.update({name: value[:, None] for name, value in stored.items() if name == "position.gate.bias"})
    save_file(stored, directory / "model.safetensors")
    config = {"format": "alibi-decoder", "vocabulary": vocabulary,
              **{name: getattr(model, name) for name in DETAILS},
              "position": {"method": model.position, **model.options}}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "text").write_text("x")
    run(alibi, "tokenizer", "train", "--quiet", "--vocab", vocabulary, "--out", directory / "tokenizer.json",
        directory / "text")


@torch.no_grad()
def window_mean(model, tokens, found):
    total = count = 0
    for start, targets in found.items():
        places = torch.tensor(list(targets))
        logits = model.logits(tokens[start : places[-1]])
        total -= logits.log_softmax(-1)[places - start - 1, tokens[places]].sum().item()
        count += len(places)
    return total / count, count


@torch.no_grad()
def stream_mean(model, tokens, w, s):
    """One pass over the text, each piece seeing itself and the w - s inputs before it."""
    place = torch.arange(len(tokens) - 1)
    begin = torch.where(place < w, 0, w + (place - w).clamp(min=0) // s * s - (w - s))
    usual = model.hidden
    model.hidden = lambda distance: usual(distance) | (place < begin[:, None])
    logits = model.logits(tokens[:-1])
    return -logits.log_softmax(-1)[place, tokens[1:]].mean().item(), len(place)


def mean_of(row, directory, extension, tokens, lengths, stride, most):
    protocol, w, s = row["protocol"], row["length"], stride or max(1, row["length"] // 4)
    longest = max(lengths)
    if protocol == "fixed-target":
        longest = max(x for x in lengths if x < len(tokens))
        t = reference.probe_targets(min(lengths))
        ends = [end for _, end in reference.probes([tokens], min(lengths), longest, most)]
        return window_mean(open_model(directory, extension, w), tokens,
                           {e - w: range(e - t + 1, e + 1) for e in ends})
    if most:
        tokens = tokens[: max(most, longest) + 1]
    if protocol == "streaming":
        return stream_mean(open_model(directory, extension, max(w, len(tokens) - 1)), tokens, w, s)
    found = reference.windows(protocol, len(tokens), w, s)
    return window_mean(open_model(directory, extension, w), tokens, found)


def compare_small(alibi, directory, text, extension, lengths, stride, most):
    words = ["--json", "--protocol", "all", "--max-targets", most, "--length", ",".join(map(str, lengths))]
    words += ["--stride", stride] if stride else []
    words += ["--extend", extension] if extension else []
    found = json.loads(run(alibi, "eval", directory, "--text", text, *words))
    tokens = torch.tensor(encoded(alibi, directory / "tokenizer.json", text))
    done = worst = refused = 0
    for row in found["rows"]:
        if "error" in row:
            refused += 1
            assert (row["protocol"] == "fixed-target" and row["length"] >= len(tokens)
                    or "does not exist" in row["error"]), row
            continue
        loss, count = mean_of(row, directory, extension, tokens, lengths, stride, most)
        assert count == row["tokens"], (row, count)
        assert math.isclose(row["perplexity"], math.exp(row["nll"]), rel_tol=1e-12)
        assert math.isclose(row["bits_per_byte"], row["nll"] * count / math.log(2) / row["bytes"], rel_tol=1e-12)
        apart = abs(row["nll"] - loss) / loss
        if apart > TOLERANCE:
            print(f"{directory.name}: {row['protocol']} {row['length']} stride {stride}: "
                  f"{row['nll']} is not {loss}")
        done, worst = done + 1, max(worst, apart)
    print(f"{directory.name}: {done} figures ({refused} refused), largest relative difference {worst:.2g}",
          flush=True)
    return worst


def check_small(alibi):
    largest = 0
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text"
        text.write_bytes(bytes(((golden.numbers("text", 301) + 0.5) * 256).long().tolist()))
        for name, case in golden.CASES.items():
            directory = pathlib.Path(folder) / name
            make_model(directory, alibi, **case)
            for lengths, stride, most in (([2, 7, 80], 0, 0), ([33, 64, 128, 300, 301, 400], 16, 100)):
                largest = max(largest, compare_small(alibi, directory, text, case.get("extension"), lengths,
                                                     stride, most))
    print(f"largest of all: {largest:.2g}")
    return largest > TOLERANCE


# ---- trained models ----

class Texts:
    """Files as a model reads them."""

    def __init__(self, alibi, directory, files):
        tokenizer = directory / "tokenizer.json"
        parts = [encoded(alibi, tokenizer, file) for file in files]
        self.tokens = torch.tensor([t for part in parts for t in part])
        self.documents = [0]
        for part in parts[:-1]:
            self.documents.append(self.documents[-1] + len(part))
        vocabulary = json.loads(tokenizer.read_text())["model"]["vocab"]  # byte-level: a letter is a byte
        self.bytes = torch.zeros(len(vocabulary), dtype=torch.long)
        for text, token in vocabulary.items():
            self.bytes[token] = len(text)


def evaluate_ours(alibi, models, files, *words):
    """Rows, and of each the contexts, ids and losses of its tokens."""
    with tempfile.TemporaryDirectory() as folder:
        listed = pathlib.Path(folder) / "tokens.jsonl"
        words += ("--json", "--max-targets", 0, "--per-token", listed)
        found = json.loads(run(alibi, "eval", *models, "--text", *files, *words))
        lists = {}
        for line in listed.read_text().splitlines():
            entry = json.loads(line)
            lists.setdefault((entry["model"], entry["protocol"], entry["length"]), []).append(entry)
    return found["rows"], lists


class Worst:
    def __init__(self):
        self.figures = {}

    def note(self, what, found, expected, allowed, relative=True):
        if found is None and math.isnan(expected):
            return
        apart = abs(found - expected) / (abs(expected) if relative else 1)
        self.figures[what] = max(self.figures.get(what, 0), apart)
        if not apart <= allowed:
            sys.exit(f"check_evaluate.py: {what}: expected {expected:.9g}, found {found:.9g}")

    def text(self):
        return ", ".join(f"{what} {apart:.1g}" for what, apart in self.figures.items())


def compare_row(row, listed, scored, texts, worst):
    assert [e["context"] for e in listed] == scored.context.tolist(), "contexts differ"
    assert [e["id"] for e in listed] == texts.tokens[scored.token].tolist(), "tokens differ"
    assert row["tokens"] == len(scored.loss), (row["tokens"], len(scored.loss))
    mean, error = reference.mean_and_error(scored.loss, scored.document)
    early = reference.early_split(scored, row["early"])
    single = (torch.tensor([-e["log_probability"] for e in listed]).double() - scored.loss).abs().max().item()
    assert early[0] == row["early_tokens"], (early[0], row["early_tokens"])
    worst.note("mean", row["nll"], mean, TOLERANCE)
    worst.note("bits/byte", row["bits_per_byte"], reference.bits_per_byte(scored, texts.tokens, texts.bytes),
               TOLERANCE)
    worst.note("error of the mean", row["nll_standard_error"], error, LOOSE)
    for name, value in zip(("early_nll", "late_nll", "late_standard_error"), early[1:]):
        worst.note("early and late", row[name], value, LOOSE)
    worst.note("a token (nats)", single, 0, LOOSE, relative=False)
    return (f"{row['tokens']:,} | {row['nll']:.9f} | {mean:.9f} | {abs(row['nll'] - mean) / mean:.1e} | "
            f"{single:.1e}")


def settings_of(pairs, n):
    """(protocols, window, stride, sweep): one command each."""
    number = lambda text: int(text) if text[0] != "N" else n + int(text[1:] or 0)
    found = [(WHOLE, number(w), number(s), {}) for w, s in (pair.split(":") for pair in pairs.split(","))]
    sweep = [int(w) for w in SWEEP.split(",") if int(w) < n]
    return found + [(("fixed-target",), sweep, 0, dict(shortest=min(sweep), longest=max(sweep)))]


def check_models(args, files):
    """All models on the same files, which are documents."""
    alibi, paths = args.alibi, args.models
    models = {path.name: open_decoder(path) for path in paths}
    texts = Texts(alibi, paths[0], files)
    shortest = min(b - a for a, b in zip(texts.documents, [*texts.documents[1:], len(texts.tokens)]))
    worst, differences, rows, refused, tokens = {name: Worst() for name in models}, Worst(), 0, 0, 0
    if args.full:
        print("| model | protocol | W | S | tokens | alibi | PyTorch | relative | a token, at most |",
              "|---" * 9 + "|", sep="\n")
    for protocols, window, stride, sweep in settings_of(args.pairs, shortest):
        lengths = window if sweep else [window]
        words = ["--protocol", ",".join(protocols), "--length", ",".join(map(str, lengths))]
        words += ["--stride", stride] if stride else []
        words += ["--beginning", args.beginning] if args.beginning is not None else []
        found, lists = evaluate_ours(alibi, paths, files, *words)
        first = {}
        for row in found:
            name, protocol, w = row["model"], row["protocol"], row["length"]
            if "error" in row:
                assert models[name].position == "learned", row
                refused += 1
                continue
            scored = reference.evaluate(models[name], texts.tokens, protocol, w, stride, documents=texts.documents,
                                        beginning=args.beginning, **sweep)
            line = compare_row(row, lists[name, protocol, w], scored, texts, worst[name])
            rows, tokens = rows + 1, tokens + row["tokens"]
            shown = row.get("targets_per_window") or row["stride"]
            if args.full:
                print(f"| {name} | {protocol} | {w} | {shown} | {line} |", flush=True)
            if first.setdefault((protocol, w), scored) is not scored and row["difference"]:
                mean, error = reference.difference(first[protocol, w], scored)
                differences.note("paired difference (nats)", row["difference"]["nll"], mean, LOOSE, relative=False)
                differences.note("its error", row["difference"]["standard_error"] or 0,
                                 0 if math.isnan(error) else error, LOOSE, relative=False)
    print(f"\n{' + '.join(f.name for f in files)}: {len(texts.tokens):,} tokens, {rows} rows ({refused} that a "
          f"model cannot do), {tokens:,} losses. Largest relative differences:\n")
    for name, found in worst.items():
        print(f"- {name}: {found.text()}")
    if differences.figures:
        print(f"- against {paths[0].name}: {differences.text()}")
    print(flush=True)


def check_trained(args):
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for text in args.text:
            files.append(pathlib.Path(folder) / text.name)
            files[-1].write_bytes(text.read_bytes()[: args.bytes])
        for some in [[file] for file in files] + ([files] if len(files) > 1 else []):
            check_models(args, some)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("alibi")
    parser.add_argument("--models", nargs="+", type=pathlib.Path,
                        help="folders of `alibi train`, with one tokenizer")
    parser.add_argument("--text", nargs="+", type=pathlib.Path)
    parser.add_argument("--bytes", type=int, default=12000, help="of each text")
    parser.add_argument("--pairs", default=PAIRS, help="windows and strides")
    parser.add_argument("--beginning", type=int, help="id of a token that begins every window")
    parser.add_argument("--full", action="store_true", help="a line for every row")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not args.models:
        return check_small(args.alibi)
    check_trained(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
