"""The decoder of `alibi train` in PyTorch, written from its definition: the other side of the races, of the golden
curves and of the comparison of evaluations.

Built from PyTorch's own modules (Embedding, LayerNorm, RMSNorm, Linear, scaled_dot_product_attention) as its users
would, so that a race against it is one against PyTorch at its usual best, and tests/golden/training_figures.h
proves that both train the same model.  Needs torch; open_decoder also safetensors.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn


def alibi_slopes(heads):
    """The authors' rule: a power of two first, what is missing from the next one."""
    power = 1 << (heads.bit_length() - 1)
    full = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    between = [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return torch.tensor(full + between[0::2][: heads - power], dtype=torch.float64)


def causal_mask(slopes, queries, keys):
    """[1, heads, queries, keys] of places of queries and keys: the bias of distances, no key after its query."""
    distance = queries[:, None] - keys
    bias = -slopes[:, None, None] * distance
    return bias.masked_fill(distance < 0, -math.inf)[None]


def alibi_mask(heads, length):
    return causal_mask(alibi_slopes(heads), torch.arange(length), torch.arange(length))


def rope_turn(where, size):
    """Cosine and sine [places, size / 2]."""
    phase = where[:, None] * 10000 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    return phase.cos(), phase.sin()


def sinusoidal_table(where, width):
    phase = where[:, None] * 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([phase.sin(), phase.cos()], dim=-1).flatten(1)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.size, bias=False)
        self.output = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x, mask, turn, carried=None):
        """carried: None, or a dictionary with keys and values of what was read before, where these are added."""
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, -1, self.size).split(
            [self.heads, self.kv_heads, self.kv_heads], 2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if turn is not None:
            q, k = turned(q, turn), turned(k, turn)
        if carried is not None:
            k, v = (torch.cat([carried[name], new], 2) if carried else new
                    for name, new in (("keys", k), ("values", v)))
            carried.update(keys=k, values=v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None,
                                           enable_gqa=self.heads != self.kv_heads)
        return self.output(y.transpose(1, 2).reshape(batch, length, -1))


def turned(x, turn):
    cosine, sine = turn
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


class FeedForward(nn.Module):
    def __init__(self, width, inner, activation):
        super().__init__()
        self.gated, self.tanh = activation == "swiglu", activation == "gelu-tanh"
        self.input = nn.Linear(width, 2 * inner if self.gated else inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        x = self.input(x)
        if self.gated:
            gate, value = x.chunk(2, dim=-1)
            return self.output(F.silu(gate) * value)
        return self.output(F.gelu(x, approximate="tanh" if self.tanh else "none"))


class Block(nn.Module):
    def __init__(self, norm, width, heads, kv_heads, inner, activation):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = norm(width), norm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.feed_forward = FeedForward(width, inner, activation)

    def forward(self, x, mask, turn, carried=None):
        x = x + self.attention(self.attention_norm(x), mask, turn, carried)
        return x + self.feed_forward(self.feed_forward_norm(x))


def layer_norm(width):
    return nn.LayerNorm(width, eps=1e-5, bias=False)


def rms_norm(width):
    return nn.RMSNorm(width, eps=1e-5)


class Decoder(nn.Module):
    """Tokens [batch, train_length] to logits, of all or only the last places.
     position: alibi, rope, sinusoidal, learned, or none."""

    def __init__(self, position="alibi", vocabulary=1024, layers=4, width=128, heads=8, kv_heads=0, feed_forward=0,
                 train_length=128, norm="layernorm", activation="gelu"):
        super().__init__()
        make_norm = layer_norm if norm == "layernorm" else rms_norm
        usual = (8 * width // 3 + 63) // 64 * 64 if activation == "swiglu" else 4 * width
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            Block(make_norm, width, heads, kv_heads or heads, feed_forward or usual, activation)
            for _ in range(layers))
        self.final_norm = make_norm(width)
        self.scale = math.sqrt(width) if position == "sinusoidal" else 1
        self.position, self.layers, self.width, self.heads = position, layers, width, heads
        where = torch.arange(train_length, dtype=torch.float64)
        self.register_buffer("mask", alibi_mask(heads, train_length) if position == "alibi" else None)
        self.register_buffer("cosine", None)
        self.register_buffer("sine", None)
        self.register_buffer("table", None)
        if position == "learned":
            self.places = nn.Embedding(train_length, width)
        if position == "rope":
            self.cosine, self.sine = rope_turn(where, width // heads)
        if position == "sinusoidal":
            self.table = sinusoidal_table(where, width)
        self.float()  # tables and slopes were made in double

    def forward(self, tokens, last=0):
        x = self.embedding(tokens)
        if self.table is not None:
            x = x * self.scale + self.table
        if self.position == "learned":
            x = x + self.places.weight
        turn = (self.cosine, self.sine) if self.cosine is not None else None
        for block in self.blocks:
            x = block(x, self.mask, turn)
        return self.logits(self.final_norm(x[:, -last:]))

    def read(self, tokens, first=0, caches=None):
        """Final states of tokens [batch, any length] at places first, first + 1, ...  caches: None, or for each
         block what was carried here, which ends at place first - 1 and goes on to the end of these."""
        length = tokens.shape[1]
        before = caches[0]["keys"].shape[2] if caches and caches[0] else 0
        where = torch.arange(first - before, first + length, device=tokens.device, dtype=torch.float64)
        own = where[before:]
        dtype = self.embedding.weight.dtype
        slopes = alibi_slopes(self.heads) if self.position == "alibi" else torch.zeros(1, dtype=torch.float64)
        mask = causal_mask(slopes, own, where).to(dtype)
        turn = [t.to(dtype) for t in rope_turn(own, self.width // self.heads)] if self.position == "rope" else None
        x = self.embedding(tokens) * self.scale
        if self.position == "sinusoidal":
            x = x + sinusoidal_table(own, self.width).to(dtype)
        if self.position == "learned":
            x = x + self.places(own.long())
        for i, block in enumerate(self.blocks):
            x = block(x, mask, turn, caches[i] if caches else None)
        return self.final_norm(x)

    def logits(self, states):
        return F.linear(states, self.embedding.weight)

    def loss(self, tokens, targets):
        """The mean over all targets."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def named_weights(self):
        """As model.safetensors names them."""
        return {name.replace("norm.weight", "norm.gain").replace("places.weight", "position.embedding"): value
                for name, value in self.named_parameters()}

    def decay_groups(self, weight_decay):
        """Matrices and the embedding are decayed, vectors are not."""
        return [{"params": [p for p in self.parameters() if p.dim() > 1], "weight_decay": weight_decay},
                {"params": [p for p in self.parameters() if p.dim() == 1], "weight_decay": 0.0}]


def open_decoder(directory, dtype=torch.float64):
    """A model that `alibi train` left in a folder; what this decoder does not have is an error."""
    from safetensors.torch import load_file

    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    usual = {"norm_bias": False, "norm_epsilon": 1e-5, "bias": False, "tied": True, "qk_norm": False,
             "score_scaling": "none", "head_size": config["width"] // config["heads"], "extension": None}
    method = {"slope_rule": "interleaved", "max_bias": 8.0, "slopes": "", "base": 10000.0, "fraction": 1.0,
              "layout": "half", "deviation": config["position"].get("deviation"),
              "method": config["position"]["method"]}
    other = {k: v for k, v in config.items() if k in usual and v != usual[k]}
    other.update((k, v) for k, v in config["position"].items() if k not in method or v != method[k])
    if other:
        raise ValueError(f"{directory}: this decoder has no {other}")
    names = "vocabulary layers width heads kv_heads feed_forward train_length norm activation".split()
    model = Decoder(config["position"]["method"], **{name: config[name] for name in names})
    weights, stored = model.named_weights(), load_file(pathlib.Path(directory) / "model.safetensors")
    assert weights.keys() == stored.keys(), weights.keys() ^ stored.keys()
    with torch.no_grad():
        for name, value in stored.items():
            weights[name].copy_(value)
    return model.to(dtype)
