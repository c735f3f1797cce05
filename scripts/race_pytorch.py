#!/usr/bin/env python3
"""The same training step in PyTorch, for a race: processor seconds a step of one thread.

Usage: OMP_NUM_THREADS=1 python3 scripts/race_pytorch.py [steps] [method]
Model: 4 layers, width 128, 8 heads, vocabulary 1024, 16 sequences of 64 tokens, AdamW, clip 1; ALiBi's bias (or none) is
added as a mask to scaled_dot_product_attention.  The other side of the race:
  alibi train --steps N --threads 1 ...
"""
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 4, 128, 8, 1024, 64, 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(WIDTH, bias=False)
        self.norm2 = torch.nn.LayerNorm(WIDTH, bias=False)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, 2))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(WIDTH, bias=False)

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, mask)
        return F.linear(self.norm(x), self.embedding.weight)


def alibi_mask():
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(HEADS)])
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)[None, :]
    mask = -slopes[:, None, None] * distance
    return mask.masked_fill(distance < 0, float("-inf"))[None]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    mask = alibi_mask() if len(sys.argv) < 3 or sys.argv[2] == "alibi" else None
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.1, betas=(0.9, 0.95))
    text = torch.randint(VOCABULARY, (100000,))

    def step():
        at = torch.randint(len(text) - LENGTH - 1, (BATCH,)).tolist()
        x = torch.stack([text[i : i + LENGTH] for i in at])
        y = torch.stack([text[i + 1 : i + LENGTH + 1] for i in at])
        loss = F.cross_entropy(model(x, mask).view(-1, VOCABULARY), y.view(-1))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    for _ in range(5):
        step()
    start = time.process_time()
    for _ in range(steps):
        step()
    seconds = (time.process_time() - start) / steps
    print(f"{1e3 * seconds:.2f} ms of processor time a step, {BATCH * LENGTH / seconds:.0f} tokens/s")


if __name__ == "__main__":
    main()
