#!/usr/bin/env python3
"""Compares `alibi eval` with the same protocols done naively: one window after another through the float64 decoder
of make_golden_model.py, the windows written from their definitions (include/alibi/evaluate.h).

Without a model it makes small ones, of every position method and some variants, on a text of random bytes.

usage: python3 scripts/check_evaluate.py ALIBI [MODEL_DIR TEXT [TARGETS]]      (needs torch, safetensors)
Exit code 1 where a mean loss differs by more than 1e-5 of itself.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

import make_golden_model as golden

TOLERANCE = 1e-5
DETAILS = ("layers width heads kv_heads head_size feed_forward train_length norm norm_bias bias tied qk_norm "
           "activation").split()


# Windows: (first input, inputs, scored tokens), all as places in the text.

def nonoverlapping(n, w, **_):
    return [(k, range(k + 1, min(k + w, n - 1) + 1)) for k in range(0, n - 1, w)]


def sliding(n, w, s, **_):
    if s == w:
        return nonoverlapping(n, w)
    windows, last = [(0, range(1, min(w, n - 1) + 1))], min(w, n - 1)
    while last < n - 1:
        scored = range(last + 1, min(last + s, n - 1) + 1)
        last = scored[-1]
        windows.append((last - w, scored))
    return windows


def fixed_target(n, w, shortest, longest, targets, **_):
    t = max(1, min(200, shortest // 4))
    ends = range(longest, n, t)
    if targets:
        probes = min(len(ends), max(1, targets // t))
        ends = [ends[i * len(ends) // probes] for i in range(probes)]
    return [(end - w, range(end - t + 1, end + 1)) for end in ends]


PROTOCOLS = {"nonoverlapping": nonoverlapping, "sliding": sliding, "fixed-target": fixed_target}


# Models.

def open_model(directory, extension, length):
    config = json.loads((directory / "config.json").read_text())
    golden.VOCABULARY, golden.LENGTH = config["vocabulary"], length
    position = dict(config["position"])
    model = golden.Decoder(position=position.pop("method"), extension=extension,
                           **{name: config[name] for name in DETAILS}, **position)
    stored = load_file(directory / "model.safetensors")
    assert stored.keys() == model.values.keys(), stored.keys() ^ model.values.keys()
    for name, value in stored.items():
        assert value.shape == model.values[name].shape, name
        model.values[name] = value.double()
    return model


def make_model(directory, alibi, vocabulary=256, **case):
    golden.VOCABULARY = vocabulary
    case.pop("extension", None)
    model = golden.Decoder(**case)
    directory.mkdir()
    save_file({name: value.detach().float().contiguous() for name, value in model.values.items()},
              directory / "model.safetensors")
    config = {"format": "alibi-decoder", "vocabulary": vocabulary,
              **{name: getattr(model, name) for name in DETAILS},
              "position": {"method": model.position, **model.options}}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "text").write_text("x")
    train = [alibi, "tokenizer", "train", "--quiet", "--vocab", str(vocabulary)]
    subprocess.run(train + ["--out", directory / "tokenizer.json", directory / "text"], check=True,
                   stderr=subprocess.DEVNULL)


# The comparison.

def mean_loss(model, tokens, windows):
    total = count = 0
    with torch.no_grad():
        for start, scored in windows:
            inputs, places = tokens[start:scored[-1]], torch.tensor(list(scored))
            assert len(inputs) == scored[-1] - start
            losses = -model.logits(inputs).log_softmax(-1)[places - start - 1, tokens[places]]
            total, count = total + losses.sum().item(), count + len(places)
    return total / count, count


def compare(alibi, directory, text, extension, lengths, stride, targets):
    command = [alibi, "eval", directory, "--text", text, "--json", "--protocol", "all"]
    command += ["--max-targets", str(targets)]
    command += ["--length", ",".join(map(str, lengths))] if lengths else []
    command += ["--stride", str(stride)] if stride else []
    command += ["--extend", extension] if extension else []
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    encode = [alibi, "tokenizer", "encode", "--tokenizer", directory / "tokenizer.json", "--json", text]
    ids = subprocess.run(encode, check=True, capture_output=True, text=True).stdout
    tokens = torch.tensor(json.loads(ids))
    n = len(tokens)
    lengths = lengths or sorted({row["length"] for row in found["curves"]})
    rows = worst = refused = 0
    for row in found["curves"]:
        w = row["length"]
        if "error" in row:
            refused += 1
            assert w > n - 1 or "does not exist" in row["error"], row
            continue
        longest = max(x for x in lengths if x < n)
        limited = n if row["protocol"] == "fixed-target" or not targets else min(n, max(targets, longest) + 1)
        windows = PROTOCOLS[row["protocol"]](limited, w, s=stride or max(1, w // 4), shortest=min(lengths),
                                             longest=longest, targets=targets)
        loss, count = mean_loss(open_model(directory, extension, w), tokens, windows)
        assert count == row["tokens"], (row, count)
        assert math.isclose(row["perplexity"], math.exp(row["nll"]), rel_tol=1e-12)
        assert math.isclose(row["bits_per_byte"], row["nll"] * count / math.log(2) / row["bytes"], rel_tol=1e-12)
        rows, worst = rows + 1, max(worst, abs(row["nll"] - loss) / loss)
    print(f"{directory}: {rows} figures ({refused} refused), largest relative difference {worst:.2g}", flush=True)
    return worst


def main():
    alibi = sys.argv[1]
    torch.set_num_threads(1)
    largest = 0
    if len(sys.argv) > 3:
        directory, targets = pathlib.Path(sys.argv[2]), int(sys.argv[4]) if len(sys.argv) > 4 else 256
        largest = compare(alibi, directory, sys.argv[3], None, None, 0, targets)
    else:
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text"
            text.write_bytes(bytes(((golden.numbers("text", 301) + 0.5) * 256).long().tolist()))
            for name, case in golden.CASES.items():
                directory = pathlib.Path(folder) / name
                make_model(directory, alibi, **case)
                for lengths, stride, targets in (([1, 2, 7, 80], 0, 0), ([33, 64, 128, 300, 301, 400], 16, 100)):
                    worst = compare(alibi, directory, text, case.get("extension"), lengths, stride, targets)
                    largest = max(largest, worst)
    print(f"largest of all: {largest:.2g}")
    sys.exit(largest > TOLERANCE)


if __name__ == "__main__":
    main()
