#!/usr/bin/env python3
"""Writes tests/golden/evaluate_figures.h: what every protocol finds for small decoders with random weights,
computed with PyTorch in float64 (scripts/torch_evaluation.py).

Weights and text come from formulas (Philox4x32-10, as in make_training_golden.py), so that the test makes the same
ones.  The weights are large: what a window holds then changes every loss.

usage: python3 scripts/make_evaluate_golden.py > tests/golden/evaluate_figures.h      (needs torch, numpy)
"""
import math

import torch

from c_lines import lines_of
from make_training_golden import below, name_stream, normal
from torch_decoder import Decoder
from torch_evaluation import bits_per_byte, difference, early_split, evaluate, mean_and_error, position_curve

SEED, TOKENS, BEGINNING = 7, 2600, 5
SHAPE = dict(vocabulary=61, layers=2, width=32, heads=4, train_length=48)
DEVIATION, EMBEDDING, PLACES = 0.3, 0.4, 0.3
DOCUMENTS = (0, 1, 1100, 1131)  # one of a single token, one of 31
POSITIONS = ("alibi", "rope", "learned")
PROTOCOLS = {"nonoverlapping": 0, "sliding": 1, "fixed-target": 2, "streaming": 3}
SAMPLES, CURVE = 4, 4

# protocol, W, S, and what else is set: early, beginning, documents; shortest and longest of fixed-target's sweep
ROWS = [
    ("nonoverlapping", 48, 0, {}), ("nonoverlapping", 7, 0, {}), ("nonoverlapping", 2, 0, {}),
    ("nonoverlapping", 1000, 0, {}), ("nonoverlapping", 5000, 0, {}), ("nonoverlapping", 48, 0, dict(early=20)),
    ("nonoverlapping", 33, 0, dict(beginning=1)), ("nonoverlapping", 2, 0, dict(beginning=1)),
    ("nonoverlapping", 40, 0, dict(documents=1)), ("nonoverlapping", 40, 0, dict(documents=1, beginning=1)),
    ("sliding", 48, 12, {}), ("sliding", 48, 48, {}), ("sliding", 24, 1, {}), ("sliding", 2, 1, {}),
    ("sliding", 2, 2, {}), ("sliding", 40, 33, {}), ("sliding", 200, 50, {}), ("sliding", 5000, 100, {}),
    ("sliding", 2599, 7, {}), ("sliding", 24, 6, dict(beginning=1)), ("sliding", 24, 6, dict(documents=1)),
    ("sliding", 48, 5, dict(early=30, documents=1)),
    ("streaming", 48, 12, {}), ("streaming", 48, 48, {}), ("streaming", 16, 1, {}), ("streaming", 2, 1, {}),
    ("streaming", 40, 33, {}), ("streaming", 200, 50, {}), ("streaming", 5000, 100, {}),
    ("streaming", 2599, 7, {}), ("streaming", 24, 6, dict(beginning=1)), ("streaming", 24, 6, dict(documents=1)),
    ("streaming", 24, 23, dict(documents=1, beginning=1)),
    ("fixed-target", 24, 0, dict(shortest=24, longest=200)),
    ("fixed-target", 48, 0, dict(shortest=24, longest=200)),
    ("fixed-target", 200, 0, dict(shortest=24, longest=200)), ("fixed-target", 2, 0, dict(shortest=2, longest=2)),
    ("fixed-target", 48, 0, dict(shortest=48, longest=48, beginning=1)),
    ("fixed-target", 24, 0, dict(shortest=16, longest=30, documents=1)),
    ("fixed-target", 5000, 0, dict(shortest=24, longest=5000)),
]


def build(position):
    model = Decoder(position=position, **SHAPE)
    with torch.no_grad():
        for name, value in model.named_weights().items():
            if name.endswith(".gain"):
                continue  # ones
            deviation = {"embedding.weight": EMBEDDING, "position.embedding": PLACES}.get(name, DEVIATION)
            if ".output.weight" in name:  # adds to the residual stream
                deviation /= math.sqrt(2 * model.layers)
            drawn = deviation * normal(SEED, name_stream(name), value.numel())
            value.copy_(torch.from_numpy(drawn.astype("float32")).reshape(value.shape))
    return model.double()


def readable(position, protocol, w, n):
    """A learned position beyond the table does not exist, and fixed-target reads full windows only."""
    if protocol == "fixed-target" and w >= n:
        return False
    return position != "learned" or (protocol != "streaming" and min(w, n - 1) <= SHAPE["train_length"])


def number(x):
    return "NAN" if math.isnan(x) else f"{x:.12g}"


def sign(i):
    return 1 - 2 * (i * 2654435761 >> 31 & 1)


def figures(scored, protocol, w, other, tokens, token_bytes):
    mean, error = mean_and_error(scored.loss, scored.document)
    early = early_split(scored, other.get("early") or min(64, SHAPE["train_length"] // 4))
    count = len(scored.loss)
    along = sum(sign(i) * loss for i, loss in enumerate(scored.loss.tolist())) / count
    head = f"{count}, {int(scored.context.sum())}, {early[0]}, {int(token_bytes[tokens[scored.token]].sum())}"
    values = [mean, error, early[1], early[2], early[3], along, bits_per_byte(scored, tokens, token_bytes)]
    samples = [i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)]
    of = lambda i: f"{scored.token[i]}, {scored.document[i]}, {scored.context[i]}, {scored.loss[i]:.12g}"
    picked = [f"{{{i}, {of(i)}}}" for i in samples]
    full, curve = 0, ["{0}"]
    if protocol == "nonoverlapping" and "beginning" not in other and w < len(tokens):
        nll, band, full = position_curve(scored, w)
        at = [i * (w - 1) // (CURVE - 1) for i in range(CURVE)]
        curve = [f"{{{i}, {nll[i]:.12g}, {number(band[i].item())}}}" for i in at]
    return "\n".join([f"    {{{head},", *lines_of(map(number, values)), "    {", *lines_of(picked),
                      f"    }}, {full}, {{", *lines_of(curve), "    }},"])


def main():
    torch.set_num_threads(1)
    tokens = torch.tensor([below(SEED, name_stream("text"), i, SHAPE["vocabulary"]) for i in range(TOKENS)])
    token_bytes = 1 + torch.arange(SHAPE["vocabulary"]) % 4
    print(f"""/* What every protocol finds for small decoders, in float64, made by
 * python3 scripts/make_evaluate_golden.py > tests/golden/evaluate_figures.h   \
(torch {torch.__version__.split("+")[0]}) */
#ifndef GOLDEN_EVALUATE_FIGURES_H
#define GOLDEN_EVALUATE_FIGURES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum {{ GOLDEN_SEED = {SEED}, GOLDEN_TOKENS = {TOKENS}, GOLDEN_BEGINNING = {BEGINNING} }};
enum {{ GOLDEN_VOCABULARY = {SHAPE["vocabulary"]}, GOLDEN_SAMPLES = {SAMPLES}, GOLDEN_CURVE = {CURVE}, \
GOLDEN_ROWS = {len(ROWS)} }};
static const size_t golden_documents[] = {{{", ".join(map(str, DOCUMENTS))}}};
static const char *const golden_settings[][2] = {{""")
    settings = {**SHAPE, "initial_deviation": DEVIATION, "embedding_deviation": EMBEDDING}
    print(*(f'    {{"{name}", "{value}"}},' for name, value in settings.items()), sep="\n")
    print(f"""}};
#define GOLDEN_LEARNED_DEVIATION "{PLACES}"

/* early, shortest, longest: 0 as the option's 0. */
typedef struct golden_row {{
  int protocol, documents, begins;
  int64_t window, stride, shortest, longest, early;
}} golden_row;

typedef struct golden_target {{
  int64_t index, token, document, context;
  double nll;
}} golden_target;

/* Of a row, in nats.  tokens: 0 where it cannot be done; contexts: the sum over targets; along: the mean of the
 * losses, each with the sign of bit 31 of its index times 2654435761. */
typedef struct golden_figures {{
  int64_t tokens, contexts, early_tokens, bytes;
  double nll, error, early_nll, late_nll, late_error, along, bits_per_byte;
  golden_target targets[GOLDEN_SAMPLES];
  int64_t windows; /* full ones; 0: no curve */
  struct {{
    int64_t place;
    double nll, band;
  }} curve[GOLDEN_CURVE];
}} golden_figures;

/* The second model's loss less the first one's. */
typedef struct golden_difference {{
  int row;
  double nll, error;
}} golden_difference;

static const golden_row golden_rows[GOLDEN_ROWS] = {{""")
    for protocol, w, s, other in ROWS:
        print(f"    {{{PROTOCOLS[protocol]}, {other.get('documents', 0)}, {other.get('beginning', 0)}, {w}, {s}, "
              f"{other.get('shortest', 0)}, {other.get('longest', 0)}, {other.get('early', 0)}}},")
    print("};\n")
    found = {}
    for position in POSITIONS:
        model = build(position)
        print(f"static const golden_figures {position}_figures[GOLDEN_ROWS] = {{")
        for i, (protocol, w, s, other) in enumerate(ROWS):
            if not readable(position, protocol, w, TOKENS):
                print("    {0},")
                continue
            sweep = {name: other[name] for name in ("shortest", "longest") if name in other}
            scored = evaluate(model, tokens, protocol, w, s,
                              documents=DOCUMENTS if other.get("documents") else (0,),
                              beginning=BEGINNING if other.get("beginning") else None, **sweep)
            found[position, i] = scored
            print(figures(scored, protocol, w, other, tokens, token_bytes))
        print("};\n")
    print("static const golden_difference golden_differences[] = {")
    for i, (protocol, *_) in enumerate(ROWS):
        if ("alibi", i) in found:
            mean, error = difference(found["alibi", i], found["rope", i])
            print(f"    {{{i}, {number(mean)}, {number(error)}}},")
    print("};\n\nstatic const struct {\n  const char *position;\n  const golden_figures *figures;\n} "
          "golden_models[] = {")
    print(*(f'    {{"{position}", {position}_figures}},' for position in POSITIONS), "};\n\n#endif", sep="\n")


if __name__ == "__main__":
    main()
