"""The decoder of `alibi train` in PyTorch, written from its definition: the other side of the races and of the golden curves.

Built from PyTorch's own modules (Embedding, LayerNorm, RMSNorm, Linear, scaled_dot_product_attention) as its users would, so
that a race against it is one against PyTorch at its usual best, and tests/golden/training_figures.h proves that both train
the same model.  Needs torch.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def alibi_slopes(heads):
    """The authors' rule: a power of two first, what is missing from the next one."""
    power = 1 << (heads.bit_length() - 1)
    full = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    between = [2.0 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)]
    return torch.tensor(full + between[0::2][: heads - power], dtype=torch.float64)


def alibi_mask(heads, length):
    """[1, heads, queries, keys]: the bias, and the causal mask."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    bias = -alibi_slopes(heads)[:, None, None] * distance
    return bias.masked_fill(distance < 0, -math.inf)[None]


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.size, bias=False)
        self.output = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x, mask, turn):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, -1, self.size).split([self.heads, self.kv_heads, self.kv_heads], 2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if turn is not None:
            q, k = turned(q, turn), turned(k, turn)
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

    def forward(self, x, mask, turn):
        x = x + self.attention(self.attention_norm(x), mask, turn)
        return x + self.feed_forward(self.feed_forward_norm(x))


def layer_norm(width):
    return nn.LayerNorm(width, eps=1e-5, bias=False)


def rms_norm(width):
    return nn.RMSNorm(width, eps=1e-5)


class Decoder(nn.Module):
    """Tokens [batch, train_length] to logits.  position: alibi, rope, sinusoidal, or none."""

    def __init__(self, position="alibi", vocabulary=1024, layers=4, width=128, heads=8, kv_heads=0, feed_forward=0,
                 train_length=128, norm="layernorm", activation="gelu"):
        super().__init__()
        make_norm = layer_norm if norm == "layernorm" else rms_norm
        usual = (8 * width // 3 + 63) // 64 * 64 if activation == "swiglu" else 4 * width
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(make_norm, width, heads, kv_heads or heads, feed_forward or usual, activation)
                                    for _ in range(layers))
        self.final_norm = make_norm(width)
        self.scale = math.sqrt(width) if position == "sinusoidal" else 1
        self.position, self.layers, self.width = position, layers, width
        where = torch.arange(train_length, dtype=torch.float64)[:, None]
        self.register_buffer("mask", alibi_mask(heads, train_length) if position == "alibi" else None)
        self.register_buffer("cosine", None)
        self.register_buffer("sine", None)
        self.register_buffer("table", None)
        if position == "rope":
            size = width // heads
            phase = where * 10000 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
            self.cosine, self.sine = phase.cos(), phase.sin()
        if position == "sinusoidal":
            phase = where * 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
            self.table = torch.stack([phase.sin(), phase.cos()], dim=-1).flatten(1)
        self.float()  # tables and slopes were made in double

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.table is not None:
            x = x * self.scale + self.table
        turn = (self.cosine, self.sine) if self.cosine is not None else None
        for block in self.blocks:
            x = block(x, self.mask, turn)
        return F.linear(self.final_norm(x), self.embedding.weight)

    def loss(self, tokens, targets):
        """The mean over all targets."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def named_weights(self):
        """As model.safetensors names them."""
        return {name.replace("norm.weight", "norm.gain"): value for name, value in self.named_parameters()}

    def decay_groups(self, weight_decay):
        """Matrices and the embedding are decayed, vectors are not."""
        return [{"params": [p for p in self.parameters() if p.dim() > 1], "weight_decay": weight_decay},
                {"params": [p for p in self.parameters() if p.dim() == 1], "weight_decay": 0.0}]
