#!/usr/bin/env python3
"""Writes tests/golden/training_figures.h: losses of whole runs in PyTorch, fp32, which the library must follow.

Weights and batches are made here anew, from their definitions (Philox4x32-10 and Box-Muller: src/base/random.c;
the deviations: src/model/parameters.c; windows at random places: the batch order `random`), so nothing comes from
the library.  The same run in float64 is made beside it: what PyTorch's own rounding does to the curve says how
close two programs can be, and is recorded.

usage: OMP_NUM_THREADS=1 python3 scripts/make_training_golden.py > tests/golden/training_figures.h
       (needs torch, numpy)
       ... --steps 20     shorter, to look at
"""
import argparse
import math
import sys

import numpy as np
import torch

from c_lines import lines_of
from torch_decoder import Decoder

SEED, TOKENS, VOCABULARY, LENGTH, SEQUENCES = 1, 20000, 1024, 128, 4
STEPS, WARMUP, RATE, FINAL, DECAY, BETAS, EPSILON, CLIP = 200, 20, 1e-3, 0.1, 0.1, (0.9, 0.95), 1e-8, 1.0
SKETCHES = 16
STREAM_SAMPLES = 0x73616D70  # "samp"
MASK = np.uint64(0xFFFFFFFF)


def philox(seed, index, stream):
    """The four words [4, n] of counters index [n]; Salmon et al., SC 2011."""
    index = np.asarray(index, dtype=np.uint64)
    word = [index & MASK, index >> np.uint64(32),
            np.full_like(index, stream & 0xFFFFFFFF), np.full_like(index, stream >> 32)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * word[0], np.uint64(0xCD9E8D57) * word[2]
        word = [(p1 >> np.uint64(32)) ^ word[1] ^ np.uint64(k0), p1 & MASK,
                (p0 >> np.uint64(32)) ^ word[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return word


def bits(low, high):
    return high << np.uint64(32) | low


def normal(seed, stream, count):
    w = philox(seed, np.arange(count), stream)
    u = ((bits(w[0], w[1]) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    v = (bits(w[2], w[3]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * math.pi * v)


def below(seed, stream, index, bound):
    w = philox(seed, [index], stream)
    return int(bits(w[0], w[1])[0]) * bound >> 64


def name_stream(name):
    h = 14695981039346656037  # FNV-1a
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return h


def initial_weight(model, name, shape):
    if name.endswith(".gain"):
        return torch.ones(shape)
    deviation = 0.02
    if name == "embedding.weight":
        deviation = 1 / math.sqrt(model.width)
    elif name.endswith("output.weight"):  # adds to the residual stream
        deviation /= math.sqrt(2 * model.layers)
    drawn = deviation * normal(SEED, name_stream(name), math.prod(shape))
    return torch.from_numpy(drawn.astype(np.float32)).reshape(shape)


def make_text():
    """Five tokens in eight follow from what came before: a small id from the token before, else a token of two
     places ago; the others are new, small ids far more often.  Which, is written in the low bits of a hash of the
     place."""
    text = []
    for i in range(TOKENS):
        x = i * 2654435761 & 0xFFFFFFFF
        x = (x ^ (x >> 16)) * 0x7FEB352D & 0xFFFFFFFF
        x = (x ^ (x >> 15)) * 0x846CA68B & 0xFFFFFFFF
        x = x ^ (x >> 16)
        if i >= 2 and x % 8 < 5:
            text.append((text[i - 1] * 5 + 3) % 64 if text[i - 1] < 64 else text[i - 2])
        else:
            text.append((x >> 16) ** 3 >> 38)
    return torch.tensor(text)


def batch(text, step):
    at = [below(SEED, STREAM_SAMPLES, step * SEQUENCES + s, TOKENS - LENGTH) for s in range(SEQUENCES)]
    return (torch.stack([text[a : a + LENGTH] for a in at]),
            torch.stack([text[a + 1 : a + LENGTH + 1] for a in at]))


def rate(step, steps):
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    share = (step - WARMUP) / (steps - WARMUP - 1)
    return RATE * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * share)))


def build(shape, dtype):
    model = Decoder(vocabulary=VOCABULARY, train_length=LENGTH, **shape)
    with torch.no_grad():
        for name, value in model.named_weights().items():
            value.copy_(initial_weight(model, name, tuple(value.shape)))
    if dtype == torch.float64:
        model.double()
        positions = Decoder(vocabulary=1, train_length=LENGTH, **shape)  # as fp32 has them: the same model
        model.load_state_dict({k: v for k, v in positions.state_dict().items() if "." not in k}, strict=False)
    return model


def sketch(name, gradient):
    """Products with signs +1 and -1 drawn from the stream of the name: the mean square of what two sketches differ
     by estimates the square of the norm of the gradients' difference."""
    w = philox(SEED, np.arange(gradient.numel()), name_stream("sketch of " + name))[0]
    signs = [1 - 2 * ((w >> np.uint64(k)) & np.uint64(1)).astype(np.float64) for k in range(SKETCHES)]
    flat = gradient.double().flatten().numpy()
    return [float(flat @ s) for s in signs]


def run(shape, steps, text, dtype=torch.float32):
    """Losses of every step, and the gradients of the first."""
    model = build(shape, dtype)
    optimiser = torch.optim.AdamW(model.decay_groups(DECAY), lr=RATE, betas=BETAS, eps=EPSILON)
    losses, first = [], None
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, STEPS)
        loss = model.loss(*batch(text, step))
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            first = {name: value.grad.clone() for name, value in model.named_weights().items()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        losses.append(loss.item())
    return losses, first


PLAIN = dict(layers=4, width=128, heads=8)
CASES = {  # shape, steps
    "alibi": (dict(position="alibi", **PLAIN), STEPS),
    "rope": (dict(position="rope", **PLAIN), STEPS),
    "sinusoidal": (dict(position="sinusoidal", **PLAIN), STEPS),
    "modern": (dict(position="rope", norm="rmsnorm", activation="swiglu", kv_heads=2, **PLAIN), 50),
}


def write_case(name, most, text):
    shape, steps = CASES[name]
    steps = min(steps, most)
    losses, _ = run(shape, steps, text)
    exact, gradients = run(shape, steps, text, torch.float64)
    drift = [abs(a - b) / b for a, b in zip(losses, exact)]
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}; fp32 from float64: {drift[0]:.1e} at step 1, "
          f"{drift[-1]:.1e} at the last, {max(drift):.1e} at most", file=sys.stderr)
    settings = [f'{{"{k}", "{v}"}}' for k, v in shape.items()]
    print(f"static const char *const {name}_settings[][2] = {{", *lines_of(settings), "};", sep="\n")
    print(f"static const double {name}_losses[] = {{", *lines_of([f"{x:.9g}" for x in losses]), "};", sep="\n")
    rows = []
    for parameter, gradient in gradients.items():
        values = list(lines_of([f"{x:.9g}" for x in sketch(parameter, gradient)], 108))
        rows += [f'    {{"{parameter}", {gradient.norm().item():.9g}, {{', *("  " + line for line in values),
                 "    }},"]
    print(f"static const golden_gradient {name}_gradients[] = {{", *rows, "};", sep="\n")
    return (f'    {{"{name}", {name}_settings, sizeof {name}_settings / sizeof {name}_settings[0],\n'
            f"     {name}_losses, sizeof {name}_losses / sizeof {name}_losses[0], {name}_gradients,\n"
            f"     sizeof {name}_gradients / sizeof {name}_gradients[0], {max(drift):.2g}}},")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    text = make_text()
    print(f"""/* Losses and gradients of training in PyTorch, fp32, made by
 * OMP_NUM_THREADS=1 python3 scripts/make_training_golden.py > tests/golden/training_figures.h
 * (torch {torch.__version__.split("+")[0]}, numpy {np.__version__}) */
#ifndef GOLDEN_TRAINING_FIGURES_H
#define GOLDEN_TRAINING_FIGURES_H

#include <stddef.h>

enum {{
  GOLDEN_SEED = {SEED},
  GOLDEN_TOKENS = {TOKENS},
  GOLDEN_VOCABULARY = {VOCABULARY},
  GOLDEN_LENGTH = {LENGTH},
  GOLDEN_SEQUENCES = {SEQUENCES},
  GOLDEN_STEPS = {STEPS}, /* of the schedule */
  GOLDEN_WARMUP = {WARMUP},
  GOLDEN_SKETCHES = {SKETCHES}
}};
static const double golden_rate = {RATE}, golden_final_rate = {FINAL}, golden_weight_decay = {DECAY},
                    golden_beta1 = {BETAS[0]}, golden_beta2 = {BETAS[1]}, golden_epsilon = {EPSILON}, \
golden_clip = {CLIP};

/* Of the mean loss at step 1, in float64: its norm, and its products with random signs. */
typedef struct golden_gradient {{
  const char *name;
  double norm, sketches[GOLDEN_SKETCHES];
}} golden_gradient;

typedef struct golden_run {{
  const char *name;
  const char *const (*settings)[2];
  size_t setting_count;
  const double *losses; /* nats a token, of every step */
  size_t step_count;
  const golden_gradient *gradients;
  size_t gradient_count;
  double drift; /* most that PyTorch's losses in fp32 differ from its own in float64, relative */
}} golden_run;
""")
    cases = [write_case(name, args.steps, text) for name in args.cases.split(",")]
    print("static const golden_run golden_runs[] = {", *cases, "};\n\n#endif", sep="\n")


if __name__ == "__main__":
    main()
