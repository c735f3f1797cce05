"""Model families that transformers does not have, written in PyTorch from what their authors publish about them.

They are references for make_family_golden.py: the plain formula, matrices of scores, nothing shared with the
library.  A family is two functions: shapes(config) names its tensors as published checkpoints do, forward(config,
tensors, tokens) computes the logits (encoders: the last hidden states) in whatever type the tensors have.
`layers`, a list, receives the hidden states after the embedding and after each layer.

Shapes in comments: T tokens, H heads, G key-value heads, D head size, C channels.
"""
import math
import types

import torch
import torch.nn.functional as F


def slopes(heads, maximum=8):
    """ALiBi's slopes by their exponents: 2^(-maximum (h+1) / F) for the first F heads, F the power of two below
     `heads`."""
    power = 1 << (heads.bit_length() - 1)
    exponents = [(h + 1) / power for h in range(power)]
    exponents += [(2 * h + 1) / (2 * power) for h in range(heads - power)]
    return torch.tensor([2.0 ** (-maximum * e) for e in exponents], dtype=torch.float64)


def distances(count):
    at = torch.arange(count)
    return (at[:, None] - at[None, :]).abs()


def attend(q, k, v, heads, kv_heads, scale, bias, causal=True, cap=None):
    """q [T, H D], k and v [T, G D], bias [H, T, T] or None -> [T, H D]"""
    count = q.shape[0]
    q = q.view(count, heads, -1).transpose(0, 1)
    k, v = (x.view(count, kv_heads, -1).transpose(0, 1).repeat_interleave(heads // kv_heads, dim=0)
            for x in (k, v))
    scores = (q @ k.transpose(1, 2)) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if causal:
        future = torch.ones(count, count, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(count, -1)


def layer_norm(x, tensors, name, epsilon):
    return F.layer_norm(x, x.shape[-1:], tensors[name + ".weight"], tensors.get(name + ".bias"), epsilon)


def rms_norm(x, gain, epsilon):
    return x / (x.pow(2).mean(-1, keepdim=True) + epsilon).sqrt() * gain


def linear(x, tensors, name):
    return F.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))


def turned(x, tensors, name):
    """A linear part whose weight is stored [in, out]."""
    return x @ tensors[name + ".weight"] + tensors[name + ".bias"]


def keep(layers, x):
    if layers is not None:
        layers.append(x)


# MPT, with what transformers' own MPT leaves out: alibi_bias_max, qk_ln, qk_gn, grouped queries, biases, gated
# feed-forward, logit scale, caps.

def mpt_sizes(c):
    a = c["attn_config"]
    kv_heads = a.get("kv_n_heads") or (1 if a.get("attn_type") == "multiquery_attention" else c["n_heads"])
    return (c["d_model"], c["n_heads"], kv_heads, c["d_model"] // c["n_heads"],
            int(c["d_model"] * c["expansion_ratio"]))


def mpt_gated(c):
    return (c.get("ffn_config") or {}).get("ffn_type") == "mptglu"


def mpt_shapes(c):
    a, (width, heads, kv_heads, size, inner) = c["attn_config"], mpt_sizes(c)
    out = {"transformer.wte.weight": (c["vocab_size"], width)}
    if c.get("learned_pos_emb") and not a["alibi"]:
        out["transformer.wpe.weight"] = (c["max_seq_len"], width)

    def add(name, rows, columns=None):
        out[name + ".weight"] = (rows,) if columns is None else (rows, columns)
        if not c["no_bias"]:
            out[name + ".bias"] = (rows,)

    for i in range(c["n_layers"]):
        block = f"transformer.blocks.{i}."
        add(block + "norm_1", width)
        add(block + "attn.Wqkv", width + 2 * kv_heads * size, width)
        if a.get("qk_ln"):
            add(block + "attn.q_ln", width)
            add(block + "attn.k_ln", kv_heads * size)
        if a.get("qk_gn"):
            add(block + "attn.q_ln", size)
            add(block + "attn.k_ln", size)
        add(block + "attn.out_proj", width, width)
        add(block + "norm_2", width)
        add(block + "ffn.up_proj", inner, width)
        if mpt_gated(c):
            add(block + "ffn.gate_proj", inner, width)
        add(block + "ffn.down_proj", width, inner)
    add("transformer.norm_f", width)
    if not c.get("tie_word_embeddings", True):
        out["lm_head.weight"] = (c["vocab_size"], width)
    return out


def mpt_forward(c, t, tokens, layers=None):
    a, (width, heads, kv_heads, size, inner) = c["attn_config"], mpt_sizes(c)
    count = len(tokens)
    x = t["transformer.wte.weight"][tokens]
    bias = None
    if a["alibi"]:
        bias = -slopes(heads, a["alibi_bias_max"])[:, None, None] * distances(count)
    elif c.get("learned_pos_emb"):
        x = x + t["transformer.wpe.weight"][:count]
    keep(layers, x)
    for i in range(c["n_layers"]):
        block = f"transformer.blocks.{i}."
        qkv = linear(layer_norm(x, t, block + "norm_1", 1e-5), t, block + "attn.Wqkv")
        if a.get("clip_qkv"):
            qkv = qkv.clamp(-a["clip_qkv"], a["clip_qkv"])
        q, k, v = qkv.split([width, kv_heads * size, kv_heads * size], dim=-1)
        if a.get("qk_ln"):
            q, k = layer_norm(q, t, block + "attn.q_ln", 1e-5), layer_norm(k, t, block + "attn.k_ln", 1e-5)
        if a.get("qk_gn"):
            q = layer_norm(q.reshape(count, heads, size), t, block + "attn.q_ln", 1e-5).reshape(count, -1)
            k = layer_norm(k.reshape(count, kv_heads, size), t, block + "attn.k_ln", 1e-5).reshape(count, -1)
        scale = a.get("softmax_scale") or 1 / math.sqrt(size)
        y = attend(q, k, v, heads, kv_heads, scale, bias, cap=a.get("attn_logit_softcapping"))
        x = x + linear(y, t, block + "attn.out_proj")
        y = layer_norm(x, t, block + "norm_2", 1e-5)
        if mpt_gated(c):
            y = F.gelu(linear(y, t, block + "ffn.gate_proj")) * linear(y, t, block + "ffn.up_proj")
        else:
            y = F.gelu(linear(y, t, block + "ffn.up_proj"))
        x = x + linear(y, t, block + "ffn.down_proj")
        keep(layers, x)
    x = layer_norm(x, t, "transformer.norm_f", 1e-5)
    logits = x @ t.get("lm_head.weight", t["transformer.wte.weight"]).T
    scale = c.get("logit_scale")
    if scale is not None:
        logits = logits * (1 / math.sqrt(width) if scale == "inv_sqrt_d_model" else scale)
    cap = c.get("final_logit_softcapping")
    return cap * torch.tanh(logits / cap) if cap else logits


# Baichuan, versions 1 and 2: of 13 billion parameters with ALiBi (40 layers are its sign), of 7 billion with RoPE.

def baichuan_shapes(c):
    width, inner = c["hidden_size"], c["intermediate_size"]
    out = {"model.embed_tokens.weight": (c["vocab_size"], width)}
    for i in range(c["num_hidden_layers"]):
        block = f"model.layers.{i}."
        out[block + "self_attn.W_pack.weight"] = (3 * width, width)
        out[block + "self_attn.o_proj.weight"] = (width, width)
        out[block + "mlp.gate_proj.weight"] = (inner, width)
        out[block + "mlp.down_proj.weight"] = (width, inner)
        out[block + "mlp.up_proj.weight"] = (inner, width)
        out[block + "input_layernorm.weight"] = (width,)
        out[block + "post_attention_layernorm.weight"] = (width,)
    out["model.norm.weight"] = (width,)
    out["lm_head.weight"] = (c["vocab_size"], width)
    return out


def rotated(x, heads):
    """The two halves of each head are the two coordinates of its planes."""
    x = x.view(len(x), heads, 2, -1)
    size = 2 * x.shape[-1]
    angles = torch.arange(len(x)).double()[:, None] * 10000.0 ** (-torch.arange(0, size, 2).double() / size)
    sine, cosine = (f(angles)[:, None].to(x.dtype) for f in (torch.sin, torch.cos))
    a, b = x.unbind(2)
    return torch.stack([a * cosine - b * sine, b * cosine + a * sine], 2).reshape(len(x), -1)


def baichuan_forward(c, t, tokens, layers=None):
    heads, epsilon, alibi = c["num_attention_heads"], c["rms_norm_eps"], c["num_hidden_layers"] == 40
    bias = (-slopes(heads)[:, None, None] if alibi else 0.0) * distances(len(tokens))
    x = t["model.embed_tokens.weight"][tokens]
    keep(layers, x)
    for i in range(c["num_hidden_layers"]):
        block = f"model.layers.{i}."
        q, k, v = linear(rms_norm(x, t[block + "input_layernorm.weight"], epsilon), t,
                         block + "self_attn.W_pack").chunk(3, -1)
        if not alibi:
            q, k = rotated(q, heads), rotated(k, heads)
        y = attend(q, k, v, heads, heads, 1 / math.sqrt(q.shape[-1] // heads), bias)
        x = x + linear(y, t, block + "self_attn.o_proj")
        y = rms_norm(x, t[block + "post_attention_layernorm.weight"], epsilon)
        y = F.silu(linear(y, t, block + "mlp.gate_proj")) * linear(y, t, block + "mlp.up_proj")
        x = x + linear(y, t, block + "mlp.down_proj")
        keep(layers, x)
    head = t["lm_head.weight"]
    # Version 2: rows of length one.  The class of version 1 with RoPE is spelled BaiChuanForCausalLM.
    if "z_loss_weight" in c or (not alibi and c["architectures"] == ["BaichuanForCausalLM"]):
        head = head / head.pow(2).sum(-1, keepdim=True).sqrt().clamp_min(1e-12)
    return rms_norm(x, t["model.norm.weight"], epsilon) @ head.T


# Refact; its last norm lies outside of `transformer`.

def refact_inner(c):
    return 256 * -(-(2 * (c.get("n_inner") or 4 * c["n_embd"]) // 3) // 256)


def refact_shapes(c):
    width, size, inner = c["n_embd"], c["n_embd"] // c["n_head"], refact_inner(c)
    out = {"transformer.wte.weight": (c["vocab_size"], width)}
    for i in range(c["n_layer"]):
        block = f"transformer.h.{i}."
        out[block + "ln_1.weight"] = (width,)
        out[block + "attn.q.weight"] = (width, width)
        out[block + "attn.kv.weight"] = (2 * size, width)
        out[block + "attn.c_proj.weight"] = (width, width)
        out[block + "ln_2.weight"] = (width,)
        out[block + "mlp.gate_up_proj.weight"] = (2 * inner, width)
        out[block + "mlp.c_proj.weight"] = (width, inner)
    out["ln_f.weight"] = (width,)
    out["lm_head.weight"] = (c["vocab_size"], width)
    return out


def refact_forward(c, t, tokens, layers=None):
    heads, epsilon = c["n_head"], c["layer_norm_epsilon"]
    bias = -slopes(heads)[:, None, None] * distances(len(tokens))
    x = t["transformer.wte.weight"][tokens]
    keep(layers, x)
    for i in range(c["n_layer"]):
        block = f"transformer.h.{i}."
        y = layer_norm(x, t, block + "ln_1", epsilon)
        k, v = linear(y, t, block + "attn.kv").chunk(2, -1)
        y = attend(linear(y, t, block + "attn.q"), k, v, heads, 1, 1 / math.sqrt(k.shape[-1]), bias)
        x = x + linear(y, t, block + "attn.c_proj")
        gate, up = linear(layer_norm(x, t, block + "ln_2", epsilon), t, block + "mlp.gate_up_proj").chunk(2, -1)
        x = x + linear(F.silu(gate) * up, t, block + "mlp.c_proj")
        keep(layers, x)
    return layer_norm(x, t, "ln_f", epsilon) @ t["lm_head.weight"].T


# BTLM and Jais: GPT-2's layout with ALiBi, a gated feed-forward part and scaled parametrisation.

def jais_shapes(c):
    width, inner = c["n_embd"], c["n_inner"]
    out = {"transformer.wte.weight": (c["vocab_size"], width),
           "transformer.relative_pe.slopes": (c["n_head"], 1)}

    def add(name, *shape):
        out[name + ".weight"], out[name + ".bias"] = shape, shape[-1:]

    for i in range(c["n_layer"]):
        block = f"transformer.h.{i}."
        add(block + "ln_1", width)
        add(block + "attn.c_attn", width, 3 * width)
        add(block + "attn.c_proj", width, width)
        add(block + "ln_2", width)
        add(block + "mlp.c_fc", width, inner)
        add(block + "mlp.c_fc2", width, inner)
        add(block + "mlp.c_proj", inner, width)
    add("transformer.ln_f", width)
    return out


def jais_forward(c, t, tokens, layers=None):
    heads, size, epsilon, count = c["n_head"], c["n_embd"] // c["n_head"], c["layer_norm_epsilon"], len(tokens)
    mu = "mup_embeddings_scale" in c  # BTLM's names of the scales, and newer Jais'
    by_size = c["mup_scale_qk_dot_by_d" if mu else "scale_qk_dot_by_d"]
    apart = distances(count).double()
    scaling = c.get("alibi_scaling")
    if scaling:
        apart = apart / (scaling["factor"] if "factor" in scaling else max(1.0, count / scaling["train_seq_len"]))
    bias = -t["transformer.relative_pe.slopes"].view(-1, 1, 1).double() * apart
    x = t["transformer.wte.weight"][tokens] * c["mup_embeddings_scale" if mu else "embeddings_scale"]
    keep(layers, x)
    for i in range(c["n_layer"]):
        block = f"transformer.h.{i}."
        q, k, v = turned(layer_norm(x, t, block + "ln_1", epsilon), t, block + "attn.c_attn").chunk(3, -1)
        scale = 1 / size if by_size else 1 / math.sqrt(size)
        if not c["scale_attn_weights"]:
            scale = 1.0
        if c.get("scale_attn_by_inverse_layer_idx"):
            scale = scale / (i + 1)
        x = x + turned(attend(q, k, v, heads, heads, scale, bias), t, block + "attn.c_proj")
        y = layer_norm(x, t, block + "ln_2", epsilon)
        y = turned(y, t, block + "mlp.c_fc") * F.silu(turned(y, t, block + "mlp.c_fc2"))
        x = x + turned(y, t, block + "mlp.c_proj")
        keep(layers, x)
    scale = c["mup_output_alpha"] * c["mup_width_scale"] if mu else c["width_scale"]
    return layer_norm(x, t, "transformer.ln_f", epsilon) @ t.get("lm_head.weight",
                                                                 t["transformer.wte.weight"]).T * scale


# Jina's encoders, in two published forms: jina-embeddings-v2 (mlp.gated_layers) and the one with normalised
# queries and keys (mlp.up_gated_layer), whose attention part adds its input twice: norm_1(x + norm(x +
# attention(x))).

def jina_shapes(c):
    width, inner, normed = c["hidden_size"], c["intermediate_size"], jina_normed(c)
    out = {"embeddings.word_embeddings.weight": (c["vocab_size"], width),
           "embeddings.token_type_embeddings.weight": (c["type_vocab_size"], width)}

    def add(name, rows, columns=None, bias=True):
        out[name + ".weight"] = (rows,) if columns is None else (rows, columns)
        if bias:
            out[name + ".bias"] = (rows,)

    add("embeddings.LayerNorm", width)
    for i in range(c["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            add(layer + "attention.self." + part, width, width)
        if normed:
            add(layer + "attention.self.layer_norm_q", width)
            add(layer + "attention.self.layer_norm_k", width)
        add(layer + "attention.output.dense", width, width)
        add(layer + "attention.output.LayerNorm", width)
        if normed:
            add(layer + "layer_norm_1", width)
            add(layer + "layer_norm_2", width)
        add(layer + ("mlp.up_gated_layer" if normed else "mlp.gated_layers"), 2 * inner, width, bias=False)
        add(layer + ("mlp.down_layer" if normed else "mlp.wo"), width, inner)
        if not normed:
            add(layer + "mlp.layernorm", width)
    add("pooler.dense", width, width)
    return out


def jina_normed(c):
    """The two forms have one configuration; which of them a checkpoint is shows in its tensors' names."""
    return "qk-post-norm" in c["auto_map"]["AutoModel"]


def jina_forward(c, t, tokens, layers=None):
    heads, epsilon, normed = c["num_attention_heads"], c["layer_norm_eps"], jina_normed(c)
    activation = {"geglu": F.gelu, "reglu": F.relu}[c["feed_forward_type"]]
    bias = -slopes(heads)[:, None, None] * distances(len(tokens))
    x = t["embeddings.word_embeddings.weight"][tokens] + t["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(x, t, "embeddings.LayerNorm", epsilon)
    keep(layers, x)
    for i in range(c["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, t, layer + "attention.self." + part) for part in ("query", "key", "value"))
        if normed:
            q = layer_norm(q, t, layer + "attention.self.layer_norm_q", epsilon)
            k = layer_norm(k, t, layer + "attention.self.layer_norm_k", epsilon)
        y = attend(q, k, v, heads, heads, 1 / math.sqrt(x.shape[-1] // heads), bias, causal=False)
        y = layer_norm(x + linear(y, t, layer + "attention.output.dense"), t, layer + "attention.output.LayerNorm",
                       epsilon)
        if normed:
            x = layer_norm(x + y, t, layer + "layer_norm_1", epsilon)
            up, gate = linear(x, t, layer + "mlp.up_gated_layer").chunk(2, -1)
            x = layer_norm(x + linear(activation(gate) * up, t, layer + "mlp.down_layer"), t,
                           layer + "layer_norm_2",
                           epsilon)
        else:
            gate, up = linear(y, t, layer + "mlp.gated_layers").chunk(2, -1)
            x = layer_norm(y + linear(activation(gate) * up, t, layer + "mlp.wo"), t, layer + "mlp.layernorm",
                           epsilon)
        keep(layers, x)
    return x


FAMILIES = {name: types.SimpleNamespace(shapes=shapes, forward=forward) for name, shapes, forward in [
    ("mpt", mpt_shapes, mpt_forward), ("baichuan", baichuan_shapes, baichuan_forward),
    ("refact", refact_shapes, refact_forward), ("btlm", jais_shapes, jais_forward),
    ("jais", jais_shapes, jais_forward), ("jina-bert-v2", jina_shapes, jina_forward)]}
