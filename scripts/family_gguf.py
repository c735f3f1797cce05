"""GGUF files of the tiny models of make_family_golden.py, laid out as llama.cpp's converter lays them out.

The converter renames tensors (gguf's own table of names does that here too), re-packs some (BLOOM, GPT-NeoX and
Falcon: all q, all k, all v; Llama and Baichuan: q and k rows permuted so that rotary pairs lie side by side),
transposes GPT-2's and Jais's matrices, multiplies Jais's scales into the embeddings and the head, and turns llama3
scaling into a tensor of divisors.
"""
import math

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import quants

K_TYPES = {"Q4_K": 7.5, "Q5_K": 15.5, "Q6_K": None}  # the middle of a type's quants, where it has minima


def random_k_blocks(name, rows, columns, type, numbers):
    """Blocks of random bits: the package cannot quantise to these types, but any bits are weights."""
    block, size = gguf.GGML_QUANT_SIZES[type]
    count = rows * columns // block
    bits = torch.randint(0, 256, (count, size), generator=numbers).numpy().astype(np.uint8)

    def scaled(d):
        halves = np.full((count, 1), d, dtype=np.float16)
        if K_TYPES[type.name] is None:
            bits[:, -2:] = halves.view(np.uint8)
        else:
            bits[:, 0:2] = halves.view(np.uint8)
            bits[:, 2:4] = (halves.astype(np.float32) * K_TYPES[type.name]).astype(np.float16).view(np.uint8)
        return bits.reshape(rows, -1)

    spread = quants.dequantize(scaled(1e-3), type).std() / 1e-3
    wanted = 0.6 if "embed" in name or "lm_head" in name else 0.8 / math.sqrt(columns)
    return scaled(wanted / spread)


def store(tensors, case, generator):
    """Each tensor as it is stored, {name: (array, type)}, and the same values in float32."""
    raw, values = {}, {}
    for name, tensor in tensors.items():
        type = Type[case.other_type[0] if name.endswith(case.other_type[1]) else case.type]
        if tensor.dim() < 2 or name.endswith(("token_type_embeddings.weight", "slopes")):
            type = Type.F32
        if type.name in K_TYPES:
            stored = random_k_blocks(name, *tensor.shape, type, generator(name))
        else:
            stored = quants.quantize(tensor.numpy(), type)
        raw[name] = (stored, type)
        widened = np.ascontiguousarray(quants.dequantize(stored, type).astype(np.float32))
        values[name] = torch.from_numpy(widened).reshape(tensor.shape)
    return raw, values


def unpack_heads(x, heads):
    """q, k, v of each head in turn -> all q, all k, all v."""
    x = x.reshape(heads, 3, -1, *x.shape[1:])
    return np.concatenate([x[:, i].reshape(-1, *x.shape[3:]) for i in range(3)])


def unpack_groups(x, groups, size):
    """Queries of a group, its k, its v -> all q, all k, all v."""
    x = x.reshape(groups, -1, size, *x.shape[1:])
    return np.concatenate([part.reshape(-1, *x.shape[3:]) for part in (x[:, :-2], x[:, -2:-1], x[:, -1:])])


def permute(x, heads):
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def rope_divisors(c):
    """Llama 3's scaling of each frequency, as what it divides them by."""
    s, size = c["rope_scaling"], c["head_dim"]
    factor, low, high = s["factor"], s["low_freq_factor"], s["high_freq_factor"]
    original = s["original_max_position_embeddings"]
    out = []
    for p in range(size // 2):
        wave = 2 * math.pi * c["rope_theta"] ** (2 * p / size)
        if wave < original / high:
            out.append(1.0)
        elif wave > original / low:
            out.append(factor)
        else:
            blend = (original / wave - low) / (high - low)
            out.append(1 / ((1 - blend) / factor + blend))
    return np.array(out, dtype=np.float32)


# What a family's converter does: keys(writer, config), moves(name, array, config) -> [(table's name, array)].

def same(name, x, c):
    return [(name, x)]


def bloom_keys(w, c):
    width, heads = c.get("hidden_size", c.get("n_embed")), c.get("n_head", c.get("num_attention_heads"))
    w.add_context_length(c.get("seq_length", width))
    w.add_embedding_length(width)
    w.add_feed_forward_length(4 * width)
    w.add_block_count(c["n_layer"])
    w.add_head_count(heads)
    w.add_head_count_kv(heads)
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def bloom_moves(name, x, c):
    name = name.removeprefix("transformer.")
    if "query_key_value" in name:
        x = unpack_heads(x, c.get("n_head", c.get("num_attention_heads")))
    out = [(name, x)]
    return out + [("lm_head.weight", x)] if name == "word_embeddings.weight" else out


def mpt_keys(w, c):
    a = c["attn_config"]
    w.add_context_length(c["max_seq_len"])
    w.add_embedding_length(c["d_model"])
    w.add_block_count(c["n_layers"])
    w.add_feed_forward_length(4 * c["d_model"])
    w.add_head_count(c["n_heads"])
    if a.get("kv_n_heads"):
        w.add_head_count_kv(a["kv_n_heads"])
    w.add_layer_norm_eps(1e-5)
    if a["clip_qkv"] is not None:
        w.add_clamp_kqv(a["clip_qkv"])
    w.add_max_alibi_bias(float(a["alibi_bias_max"]) if a["alibi"] else 0.0)


def gpt2_keys(w, c):
    w.add_block_count(c["n_layer"])
    w.add_context_length(c["n_ctx"])
    w.add_embedding_length(c["n_embd"])
    w.add_feed_forward_length(4 * c["n_embd"])
    w.add_head_count(c["n_head"])
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def turned_moves(name, x, c):
    return [(name, x.T if x.ndim == 2 and name.split(".")[-2].startswith("c_") else x)]


def neox_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_rope_dimension_count(int(c["rotary_pct"] * (c["hidden_size"] // c["num_attention_heads"])))
    w.add_head_count(c["num_attention_heads"])
    w.add_parallel_residual(c["use_parallel_residual"])
    w.add_layer_norm_eps(c["layer_norm_eps"])


def neox_moves(name, x, c):
    return [(name, unpack_heads(x, c["num_attention_heads"]) if "query_key_value" in name else x)]


def falcon_keys(w, c):
    w.add_context_length(2048)
    w.add_tensor_data_layout("jploski")
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(4 * c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c.get("num_kv_heads", 1))
    w.add_layer_norm_eps(c["layer_norm_epsilon"])


def falcon_moves(name, x, c):
    if "query_key_value" in name:
        x = unpack_groups(x, c.get("num_kv_heads", 1), c["hidden_size"] // c["num_attention_heads"])
    return [(name, x)]


def llama_keys(w, c):
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c.get("num_key_value_heads", c["num_attention_heads"]))
    w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if "head_dim" in c:
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    w.add_vocab_size(c["vocab_size"])
    w.add_rope_dimension_count(c.get("head_dim", c["hidden_size"] // c["num_attention_heads"]))
    s = c.get("rope_scaling") or {}
    kind = s.get("rope_type", s.get("type"))
    if kind == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(s["factor"])
    elif kind == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(s["factor"])
        w.add_rope_scaling_orig_ctx_len(s["original_max_position_embeddings"])


def llama_moves(name, x, c):
    if ".q_proj." in name:
        x = permute(x, c["num_attention_heads"])
    if ".k_proj." in name:
        x = permute(x, c.get("num_key_value_heads", c["num_attention_heads"]))
    return [(name, x)]


def baichuan_keys(w, c):
    w.add_tensor_data_layout("Meta AI original pth")
    w.add_context_length(c["model_max_length"])
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_attention_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])


def baichuan_moves(name, x, c):
    if ".W_pack." not in name:
        return [(name, x)]
    q, k, v = np.split(x, 3)
    heads = c["num_attention_heads"]
    return [(name.replace("W_pack", part), y) for part, y in [
        ("q_proj", permute(q, heads)), ("k_proj", permute(k, heads)), ("v_proj", v)]]


def refact_keys(w, c):
    w.add_context_length(c["n_positions"])
    w.add_embedding_length(c["n_embd"])
    w.add_feed_forward_length(256 * -(-(8 * c["n_embd"] // 3) // 256))
    w.add_block_count(c["n_layer"])
    w.add_head_count(c["n_head"])
    w.add_head_count_kv(1)
    w.add_layer_norm_rms_eps(c["layer_norm_epsilon"])


def refact_moves(name, x, c):
    name = name.replace("transformer.h.", "model.layers.") if ".h." in name else name
    for part, theirs in ((".attn.q.", ["self_attn.q_proj"]),
                         (".attn.kv.", ["self_attn.k_proj", "self_attn.v_proj"]),
                         (".mlp.gate_up_proj.", ["mlp.gate_proj", "mlp.up_proj"])):
        if part in name:
            return [(name.replace(part, f".{new}."), y) for new, y in zip(theirs, np.split(x, len(theirs)))]
    return [(name.replace("model.layers.", "transformer.h."), x)]


def jais_keys(w, c):
    w.add_block_count(c["n_layer"])
    w.add_context_length(c["n_positions"])
    w.add_embedding_length(c["n_embd"])
    w.add_feed_forward_length(c["n_inner"])
    w.add_head_count(c["n_head"])
    w.add_layer_norm_eps(c["layer_norm_epsilon"])
    w.add_max_alibi_bias(8.0)


def jais_moves(name, x, c):
    return [] if name.endswith("relative_pe.slopes") else turned_moves(name, x, c)


def jina_keys(w, c):
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_head_count(c["num_attention_heads"])
    w.add_layer_norm_eps(c["layer_norm_eps"])
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType.MEAN)
    w.add_token_type_count(c["type_vocab_size"])


def jina_moves(name, x, c, split=True):
    if name.startswith("pooler."):
        return []
    if split and ".gated_layers." in name:
        gate, up = np.split(x, 2)
        return [(name.replace("gated_layers", "gated_layers_w"), gate), (name.replace("gated_layers",
                                                                                      "gated_layers_v"), up)]
    return [(name, x)]


CONVERTERS = {
    "bloom": (gguf.MODEL_ARCH.BLOOM, bloom_keys, bloom_moves), "mpt": (gguf.MODEL_ARCH.MPT, mpt_keys, same),
    "gpt2": (gguf.MODEL_ARCH.GPT2, gpt2_keys, turned_moves), "gpt_neox": (gguf.MODEL_ARCH.GPTNEOX, neox_keys,
                                                                          neox_moves),
    "falcon": (gguf.MODEL_ARCH.FALCON, falcon_keys, falcon_moves), "llama": (gguf.MODEL_ARCH.LLAMA, llama_keys,
                                                                             llama_moves),
    "baichuan": (gguf.MODEL_ARCH.BAICHUAN, baichuan_keys, baichuan_moves),
    "refact": (gguf.MODEL_ARCH.REFACT, refact_keys, refact_moves), "jais": (gguf.MODEL_ARCH.JAIS, jais_keys,
                                                                            jais_moves),
    "jina-bert-v2": (gguf.MODEL_ARCH.JINA_BERT_V2, jina_keys, jina_moves),
    "jina-bert-v2-fused": (gguf.MODEL_ARCH.JINA_BERT_V2, jina_keys, lambda name, x, c: jina_moves(name, x, c,
                                                                                                  split=False))}


def layers_of(c):
    return next(c[k] for k in ("num_hidden_layers", "n_layers", "n_layer") if k in c)


def write(path, case, raw):
    """The file, from tensors as they are stored (their rows may move, their rows' bits do not change)."""
    architecture, keys, moves = CONVERTERS[case.converter]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_type("model")
    writer.add_name(case.name)
    keys(writer, case.config)
    writer.add_file_type(int(gguf.LlamaFileType[{"F32": "ALL_F32", "Q4_K": "MOSTLY_Q4_K_S",
                                                 "Q5_K": "MOSTLY_Q5_K_S"}.get(
        case.type, "MOSTLY_" + case.type)]))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"t{i}" for i in range(case.vocabulary)])
    writer.add_token_types([gguf.TokenType.NORMAL] * case.vocabulary)
    writer.add_token_merges(["t 0"])
    table = gguf.get_tensor_name_map(architecture, layers_of(case.config))
    for name, (stored, type) in raw.items():
        for moved, x in moves(name, stored, case.config):
            theirs = table.get_name(moved, try_suffixes=(".weight", ".bias"))
            if theirs is None:
                raise KeyError(moved)
            writer.add_tensor(theirs, np.ascontiguousarray(x), raw_dtype=None if x.dtype in (np.float32,
                                                                                             np.float16) else type)
    if (case.config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_divisors(case.config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
