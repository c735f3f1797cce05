#!/usr/bin/env python3
"""A model of Llama 2 7B's shapes in fp16 (13.5 GB in three shards) that takes no room on the disk: all weights are
holes in the files, only the norms are written, as ones.  For measuring what opening and converting a large model
costs.
usage: make_sparse_llama.py FOLDER [LAYERS]"""
import json
import os
import struct
import sys

WIDTH, INNER, VOCABULARY, HEADS, SHARDS = 4096, 11008, 32000, 32, 3


def tensors(layers):
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(layers):
        block = f"model.layers.{i}."
        yield block + "input_layernorm.weight", (WIDTH,)
        for name in "q_proj", "k_proj", "v_proj", "o_proj":
            yield block + f"self_attn.{name}.weight", (WIDTH, WIDTH)
        yield block + "post_attention_layernorm.weight", (WIDTH,)
        yield block + "mlp.gate_proj.weight", (INNER, WIDTH)
        yield block + "mlp.up_proj.weight", (INNER, WIDTH)
        yield block + "mlp.down_proj.weight", (WIDTH, INNER)
    yield "model.norm.weight", (WIDTH,)
    yield "lm_head.weight", (VOCABULARY, WIDTH)


def size(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def write_shard(path, part):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in part:
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size(shape)]}
        at += size(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in part:
            if len(shape) == 1:
                f.seek(8 + len(text) + header[name]["data_offsets"][0])
                f.write(struct.pack("<e", 1) * shape[0])
        f.truncate(8 + len(text) + at)


def main():
    folder, layers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 32
    os.makedirs(folder, exist_ok=True)
    parts, total = [[] for _ in range(SHARDS)], sum(size(shape) for _, shape in tensors(layers))
    done = 0
    for name, shape in tensors(layers):
        parts[min(done * SHARDS // total, SHARDS - 1)].append((name, shape))
        done += size(shape)
    names = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05d}-of-{SHARDS:05d}.safetensors"
        write_shard(os.path.join(folder, file), part)
        names.update((name, file) for name, _ in part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": names}, f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
                   "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
                   "vocab_size": VOCABULARY, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
                   "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float16"}, f, indent=1)


main()
