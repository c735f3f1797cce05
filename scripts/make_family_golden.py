#!/usr/bin/env python3
"""Writes tests/golden/families: tiny random-weight models of public families, with the logits of the reference.

A case is a directory as a public model is published (config.json and the weights), with what the reference
computes of 300 random tokens.  The reference is transformers for the families it knows, torch_families.py for the
others.  The expected logits are those of the same model in float64: see DoublePrecision.  The plain float32 run is
made too, from the very directory, and its distance from the float64 one is recorded.
tests/golden/families/README.md describes the files.

usage: python3 scripts/make_family_golden.py [--only PATTERN]... [OUTPUT]
       (needs torch, transformers, safetensors, gguf)
"""
import argparse
import contextlib
import fnmatch
import json
import math
import os
import pathlib
import shutil
import sys
import zlib

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers.models.bloom import modeling_bloom
from transformers.models.falcon import modeling_falcon

import family_cases
import family_gguf
import torch_families
from double_precision import DoublePrecision, attention_of

LENGTH, IDS = 300, 16
POSITIONS = [0, 1, 31, 128, 200, 256, 280, 299]
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@contextlib.contextmanager
def rounded_bias(family):
    """The bias as the reference itself rounds it, while the rest of the model runs in float64."""
    owner, dtype = {"bloom": (modeling_bloom.BloomModel, torch.bfloat16), "falcon": (modeling_falcon,
                                                                                     torch.float32)}[family]
    original = owner.build_alibi_tensor

    def build_alibi_tensor(*arguments, **named):
        with torch._C.DisableTorchFunction():
            return original(*arguments, **{**named, "dtype": dtype}).double()

    owner.build_alibi_tensor = build_alibi_tensor
    try:
        yield
    finally:
        owner.build_alibi_tensor = original


def generator(*names):
    return torch.Generator().manual_seed(zlib.crc32("/".join(names).encode()))


def random_tensor(case, name, shape):
    """Gains around 1, shifts and biases around 0, matrices that keep the size of what they multiply, or nearly."""
    x = torch.randn(shape, generator=generator(case.name, name), dtype=torch.float32)
    last = name.split(".")[-2:]
    if name.endswith("bias") or len(shape) == 1:
        return 0.3 * x if name.endswith("bias") else 1 + 0.3 * x
    if any(word in name for word in ("embed", "wte", "wpe", "lm_head", "tok_")):
        return 0.6 * x
    turned = any(part.startswith("c_") for part in last) and case.turned
    return 1.3 / math.sqrt(shape[0] if turned else shape[1]) * x


class TransformersReference:
    """What transformers computes of a directory; where `published` is false, of tensors with its configuration."""

    def __init__(self, case, directory):
        self.directory, self.published = directory, case.file != "gguf"
        self.config = transformers.AutoConfig.from_pretrained(directory)

    def build(self, dtype):
        return transformers.AutoModelForCausalLM.from_config(self.config, dtype=dtype,
                                                             attn_implementation=attention_of(self.config)).eval()

    def fill(self, model, tensors):
        keys = model.load_state_dict({k: v.to(model.dtype) for k, v in tensors.items()}, strict=False)
        if keys.unexpected_keys or set(keys.missing_keys) - {"lm_head.weight", "embed_out.weight"}:
            raise KeyError(keys)
        model.tie_weights()
        return model

    def shapes(self):
        model = self.build(torch.float32)
        tied = model.config.tie_word_embeddings
        return {name: tuple(value.shape) for name, value in model.state_dict().items()
                if not (tied and name in ("lm_head.weight", "embed_out.weight"))}

    def run(self, model, tokens):
        return model(tokens[None], attention_mask=torch.ones_like(tokens[None]), use_cache=False).logits[0]

    def double(self, tensors, tokens):
        with torch.no_grad(), DoublePrecision():
            return self.run(self.fill(self.build(torch.float64), tensors), tokens)

    def single(self, tensors, tokens):
        with torch.no_grad():
            if not self.published:
                return self.run(self.fill(self.build(torch.float32), tensors), tokens)
            model, loading = transformers.AutoModelForCausalLM.from_pretrained(
                self.directory, dtype=torch.float32, attn_implementation=attention_of(self.config),
                output_loading_info=True)
            if loading["missing_keys"]:
                raise KeyError(loading["missing_keys"])
            return self.run(model.eval(), tokens)


class TranscribedReference:
    """What torch_families.py computes; it is given the configuration and the tensors, no file."""

    def __init__(self, case, directory):
        self.config, self.family = case.reference_config or case.config, torch_families.FAMILIES[case.family]

    def shapes(self):
        return self.family.shapes(self.config)

    def run(self, tensors, tokens, dtype):
        with torch.no_grad():
            return self.family.forward(self.config, {k: v.to(dtype) for k, v in tensors.items()}, tokens)

    def double(self, tensors, tokens):
        return self.run(tensors, tokens, torch.float64)

    def single(self, tensors, tokens):
        return self.run(tensors, tokens, torch.float32)


# Files

def write_json(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n")


def publish(case, directory, tensors):
    """The weights under their published names, in one of the ways in which weights are published."""
    named = {}
    for name, value in tensors.items():
        named[case.rename(name)] = value.contiguous()
    named.update(case.extra(tensors))
    if case.file == "safetensors":
        save_file(named, directory / "model.safetensors", metadata={"format": "pt"})
    elif case.file == "torch":
        torch.save(named, directory / "pytorch_model.bin")
    elif case.file == "sharded":
        names, places = list(named), {}
        cuts = [0, len(names) // 3, 2 * len(names) // 3, len(names)]
        for i in range(3):
            file = f"model-{i + 1:05}-of-00003.safetensors"
            part = {name: named[name] for name in names[cuts[i]:cuts[i + 1]]}
            save_file(part, directory / file, metadata={"format": "pt"})
            places.update(dict.fromkeys(part, file))
        total = sum(value.numel() * value.element_size() for value in named.values())
        write_json(directory / "model.safetensors.index.json",
                   {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))})
    else:
        raise ValueError(case.file)


def spread_of(logits):
    return logits.max(-1).values - logits.min(-1).values


def store(case, directory, tokens, expectations, single):
    """expected.safetensors and case.json (the fields: README.md)."""
    any_logits = next(iter(expectations.values()))
    width = any_logits.shape[-1]
    ids = torch.randperm(width, generator=generator(case.name, "ids"))[:IDS].sort().values
    out = {"tokens": tokens.int(), "ids": ids.int(), "positions": torch.tensor(POSITIONS).int()}
    notes = {}
    for name, logits in expectations.items():
        out[name + ".at_ids"] = logits[:, ids].float().contiguous()
        out[name + ".full"] = logits[POSITIONS].float().contiguous()
        spread = spread_of(logits)
        out[name + ".spread"] = spread.float()
        if not case.causal:
            out[name + ".mean"] = logits.mean(0).float()
        notes[name] = {"what": case.expectations[name], "spread": [round(x, 3) for x in (
            spread.min().item(), spread.mean().item(), spread.max().item())]}
        for other, theirs in (single or {}).items():
            if other == name:
                notes[name]["float32_difference"] = float(
                    f"{((theirs.double() - logits).abs().amax(-1) / spread).max().item():.3g}")
    for name, logits in expectations.items():
        if name != "exact":
            notes[name]["difference_to_exact"] = float(
                f"{((logits - expectations['exact']).abs().amax(-1) / spread_of(logits)).max().item():.3g}")
    save_file(out, directory / "expected.safetensors")
    write_json(directory / "case.json", {
        "case": case.name, "family": case.family, "description": case.description, "model": case.model,
        "type": case.type, "reference": case.reference, "causal": case.causal, "declared_length": LENGTH,
        "results": "logits" if case.causal else "hidden states", "expectations": notes,
        "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}})


def make(case, root):
    directory = root / case.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    write_json(directory / "config.json", case.config)
    reference = (TransformersReference if case.reference == "transformers"
                 else TranscribedReference)(case, directory)
    tensors = {name: random_tensor(case, name, shape) for name, shape in reference.shapes().items()}
    case.adjust(tensors)
    if case.file == "gguf":
        raw, tensors = family_gguf.store(tensors, case, lambda name: generator(case.name, name))
        family_gguf.write(directory / case.model, case, raw)
        (directory / "config.json").unlink()
    else:
        tensors = {name: value.to(TYPES[case.type]) for name, value in tensors.items()}
        publish(case, directory, tensors)
    tokens = torch.randint(0, case.vocabulary, (LENGTH,), generator=generator(case.name, "tokens"))

    expectations = {"exact": reference.double(tensors, tokens)}
    single = {case.single: reference.single(tensors, tokens)}
    if "reference" in case.expectations:
        with rounded_bias(case.family):
            expectations["reference"] = reference.double(tensors, tokens)
    store(case, directory, tokens, expectations, single)
    report(case, directory)


def report(case, directory):
    notes = json.loads((directory / "case.json").read_text())["expectations"]
    size = sum(f.stat().st_size for f in directory.iterdir())
    print(f"{case.name:28} {size / 1e3:7.0f} kB ", "; ".join(
        f"{name}: spread {n['spread'][1]:.1f}"
        + (f", float32 {n['float32_difference']:.1e}" if "float32_difference" in n else "")
        + (f", to exact {n['difference_to_exact']:.1e}" if "difference_to_exact" in n else "")
        for name, n in notes.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="cases whose names match")
    parser.add_argument("output", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests/golden/families")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    chosen = [case for case in family_cases.CASES
              if not arguments.only or any(fnmatch.fnmatch(case.name, p) for p in arguments.only)]
    if not chosen:
        sys.exit("no such case")
    for case in chosen:
        make(case, arguments.output)


if __name__ == "__main__":
    main()
