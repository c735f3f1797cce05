#!/usr/bin/env python3
"""Stores what transformers computes of a model, for `alibi verify MODEL --reference FILE`.

The file is a safetensors file (docs/model-verify.md).  Its metadata: format "alibi-reference-1", model, family,
software, numerics, causal ("true" or "false"), prompts (their number), prompt.P.text.  Its tensors, for each
prompt P = 0, 1, ...  (T tokens, V ids, N chosen positions, L layers, C channels, K ids):

  prompt.P.tokens       I32 [T]        the ids, as the model received them
  prompt.P.top_ids      I32 [T, K]     the K largest logits of every position, largest first
  prompt.P.top_logits   F32 [T, K]
  prompt.P.logsumexp    F32 [T]        of all V logits, so that probabilities follow
  prompt.P.spread       F32 [T]        largest minus smallest logit
  prompt.P.positions    I32 [N]
  prompt.P.logits       F32 [N, V]     all logits at the chosen positions
  prompt.P.activations  F32 [L+1, N, C]  the hidden states there, before the first layer and after each (no norm)

Of an encoder, prompt.P.hidden F32 [N, C] and prompt.P.mean F32 [C] (over the T tokens) stand in the place of the
logits.  Position methods that depend on a length have T as the declared length.

usage: python3 scripts/make_reference.py MODEL FILE [--prompt TEXT]... [--ids "1 2 3"]... [options]
       MODEL: a directory with config.json and weights, or a .gguf file that transformers can read
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import sys

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
import transformers
from safetensors.torch import load_file, save_file

import torch_families
from double_precision import DoublePrecision, attention_of

PROMPTS = ["The quick brown fox jumps over the lazy dog.",
           "In the beginning there was a short sequence, and the model was asked to continue it for a long time: "
           "one, two, three, four, five, six, seven, eight, nine, ten,"]


class Transformers:
    """A model that transformers has; hooks on its layers give the activations."""

    def __init__(self, model, numerics):
        self.double = numerics == "float64"
        where = dict(pretrained_model_name_or_path=model)
        if model.suffix == ".gguf":
            where = dict(pretrained_model_name_or_path=model.parent, gguf_file=model.name)
        attention = attention_of(transformers.AutoConfig.from_pretrained(**where))
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            **where, dtype=torch.float32 if self.double else getattr(torch, numerics),
            attn_implementation=attention).eval()
        if self.double:
            weights = {k: v.double() for k, v in self.model.state_dict().items()}
            with DoublePrecision():  # a model of its own, so that rotary frequencies too are made in float64
                model = transformers.AutoModelForCausalLM.from_config(
                    self.model.config, dtype=torch.float64, attn_implementation=attention).eval()
                model.load_state_dict(weights)
                model.tie_weights()
            self.model = model
        config = self.model.config
        self.family, self.causal = config.model_type, True
        self.layers = next(m for m in self.model.modules()
                           if isinstance(m, torch.nn.ModuleList) and len(m) == config.num_hidden_layers)

    def run(self, tokens, keep):
        states, handles = [], []
        if keep:
            handles.append(self.layers[0].register_forward_pre_hook(
                lambda module, args, kwargs: states.append(args[0] if args else kwargs["hidden_states"]),
                with_kwargs=True))
            for layer in self.layers:
                handles.append(layer.register_forward_hook(
                    lambda module, args, result: states.append(result if torch.is_tensor(result) else result[0])))
        try:
            if self.double:
                with DoublePrecision():
                    logits = self.model(tokens[None], use_cache=False).logits[0]
            else:
                logits = self.model(tokens[None], use_cache=False).logits[0]
        finally:
            for handle in handles:
                handle.remove()
        return logits, [state[0] for state in states]


class Transcription:
    """A family of torch_families.py, its weights read from safetensors."""

    def __init__(self, model, numerics, family):
        self.config = json.loads((model / "config.json").read_text())
        self.family, self.causal = family, family != "jina-bert-v2"
        self.forward = torch_families.FAMILIES[family].forward
        self.tensors = {}
        for file in sorted(model.glob("*.safetensors")):
            self.tensors.update({k: v.to(getattr(torch, numerics)) for k, v in load_file(file).items()
                                 if v.is_floating_point() and file.name.startswith("model")})

    def run(self, tokens, keep):
        states = [] if keep else None
        return self.forward(self.config, self.tensors, tokens, layers=states), states or []


def positions_of(choice, count):
    if choice == "all":
        return list(range(count))
    if choice:
        return [p for p in map(int, choice.split(",")) if p < count]
    return sorted({0, 1, count // 4, count // 2, count - 2, count - 1} & set(range(count)))


def record(out, name, tokens, model, options):
    with torch.no_grad():
        results, states = model.run(tokens, not options.no_activations)
    at = positions_of(options.positions, len(tokens))
    out[name + "tokens"], out[name + "positions"] = tokens.int(), torch.tensor(at).int()
    if model.causal:
        results = results.double()
        top = results.topk(min(options.top, results.shape[-1]), dim=-1)
        out[name + "top_ids"], out[name + "top_logits"] = top.indices.int(), top.values.float()
        out[name + "logsumexp"] = results.logsumexp(-1).float()
        out[name + "spread"] = (results.amax(-1) - results.amin(-1)).float()
        out[name + "logits"] = results[at].float()
    else:
        out[name + "hidden"], out[name + "mean"] = results[at].float(), results.double().mean(0).float()
    if states:
        out[name + "activations"] = torch.stack([state[at].float() for state in states])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--prompt", action="append", default=[], help="a text (repeatable; without any, two of our"
                        " own)")
    parser.add_argument("--ids", action="append", default=[], help="a prompt as ids, apart from any tokenizer"
                        " (repeatable)")
    parser.add_argument("--top", type=int, default=20, help="logits kept of every position")
    parser.add_argument("--positions", default="", help="where all logits and activations are kept: 0,7,31 or all")
    parser.add_argument("--numerics", default="float32", choices=["float32", "float64", "bfloat16", "float16"])
    parser.add_argument("--no-activations", action="store_true")
    parser.add_argument("--transcription", choices=sorted(torch_families.FAMILIES), help="a family of"
                        " torch_families.py")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    if options.transcription:
        model = Transcription(options.model, options.numerics, options.transcription)
        software = "torch_families.py"
    else:
        model = Transformers(options.model, options.numerics)
        software = "transformers " + importlib.metadata.version("transformers")
    prompts = [("", [int(i) for i in ids.split()]) for ids in options.ids]
    texts = options.prompt or ([] if prompts else PROMPTS)
    if texts:
        where = dict(gguf_file=options.model.name) if options.model.suffix == ".gguf" else {}
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model.parent if where else options.model,
                                                               **where)
        prompts += [(text, tokenizer(text)["input_ids"]) for text in texts]
    out, metadata = {}, {
        "format": "alibi-reference-1", "model": options.model.resolve().name, "family": model.family,
        "causal": str(model.causal).lower(),
        "software": f"{software}, torch {torch.__version__.split('+')[0]}", "numerics": options.numerics,
        "prompts": str(len(prompts))}
    for i, (text, ids) in enumerate(prompts):
        if not ids:
            sys.exit(f"prompt {i} has no tokens")
        metadata[f"prompt.{i}.text"] = text
        record(out, f"prompt.{i}.", torch.tensor(ids), model, options)
    save_file({k: v.contiguous() for k, v in out.items()}, options.file, metadata=metadata)
    print(f"{options.file}: {len(prompts)} prompts, {sum(len(ids) for _, ids in prompts)} tokens")


if __name__ == "__main__":
    main()
