"""Evaluation protocols in PyTorch, from their definitions (docs/results.md): for each target where its window begins, then
every window recomputed on its own.  Nothing is planned ahead, shared or skipped.

A text is a list of ids in which documents begin at given places.  W inputs a window, a beginning token among them; S the
stride.  Losses are in nats.  Needs torch; a model is one of torch_decoder.py, in float64 where figures are compared.
"""
import math
from dataclasses import dataclass

import torch

BLOCK, RUN = 1000, 101
BATCH = 4096  # inputs read at once


@dataclass
class Scored:
    """One entry a target, in the order of the text."""
    token: torch.Tensor  # its place in the text
    document: torch.Tensor
    context: torch.Tensor  # inputs that it was predicted from
    loss: torch.Tensor


# ---- which window a target belongs to ----

def probes(n, targets, longest, most=0):
    """Ends of the inputs of fixed-target's windows: every `targets` tokens, or spread evenly so that `most` are scored."""
    ends = list(range(longest, n, targets))
    if most:
        count = min(len(ends), max(1, most // targets))
        ends = [ends[i * len(ends) // count] for i in range(count)]
    return ends


def probe_targets(shortest):
    return max(1, min(200, shortest // 4))


def windows(protocol, n, w, s=0, shortest=0, longest=0, most=0):
    """{place of the first input: targets} of a text of n tokens, read w at a time."""
    if protocol == "fixed-target":
        t = probe_targets(shortest or w)
        return {end - w: range(end - t + 1, end + 1) for end in probes(n, t, longest or w, most)}
    w = min(w, n - 1)

    def nonoverlapping(target):
        return (target - 1) // w * w

    def sliding(target):
        if target <= w:
            return 0
        steps = -(-(target - w) // s)  # until the window reaches the target
        return min(w + steps * s, n - 1) - w

    begin = nonoverlapping if protocol == "nonoverlapping" or s >= w else sliding
    found = {}
    for target in range(1, n):
        found.setdefault(begin(target), []).append(target)
    return found


# ---- losses ----

def losses_of(model, states, targets):
    return -model.logits(states).log_softmax(-1).gather(-1, targets[..., None])[..., 0]


def read_windows(model, tokens, found, beginning=None, states=None):
    """Contexts and losses of all targets."""
    states = states or model.read
    alike = {}
    for first, targets in found.items():
        alike.setdefault((targets[-1] - first, len(targets)), []).append(first)
    contexts, losses, extra = torch.zeros(len(tokens), dtype=torch.long), torch.zeros(len(tokens)).double(), beginning is not None
    for (length, count), firsts in alike.items():
        size = max(1, BATCH // length)
        for some in (firsts[i : i + size] for i in range(0, len(firsts), size)):
            places = torch.tensor(some)[:, None] + torch.arange(length)
            rows = tokens[places]
            if extra:
                rows = torch.cat([torch.full((len(some), 1), beginning), rows], 1)
            targets = places[:, -count:] + 1
            losses[targets] = losses_of(model, states(rows)[:, -count:], tokens[targets]).double()
            contexts[targets] = torch.arange(length - count + 1, length + 1) + extra
    return contexts, losses


def read_stream(model, tokens, w, s, beginning=None):
    """Pieces of s tokens, each seeing the last w - s of the keys and values that were carried on, layer by layer, and itself."""
    inputs = tokens[:-1] if beginning is None else torch.cat([torch.tensor([beginning]), tokens[:-1]])
    if len(inputs) <= w:
        s = w
    caches, losses, contexts = [{} for _ in range(model.layers)], [], []
    for first in range(0, len(inputs), s):
        for cache in caches:
            for name, carried in cache.items():
                cache[name] = carried[:, :, max(0, carried.shape[2] - (w - s)) :]
        piece = inputs[first : first + s]
        seen = min(first, w - s)
        states = model.read(piece[None], first, caches)[0]
        skipped = 1 if beginning is not None and first == 0 else 0  # the first token of a text is not scored
        target = first + torch.arange(skipped, len(piece)) + (1 if beginning is None else 0)
        losses.append(losses_of(model, states[skipped:], tokens[target]).double())
        contexts.append(seen + 1 + torch.arange(skipped, len(piece)))
    return torch.cat([torch.zeros(1, dtype=torch.long), *contexts]), torch.cat([torch.zeros(1).double(), *losses])


@torch.no_grad()
def evaluate(model, tokens, protocol, w, s=0, documents=(0,), beginning=None, **sweep):
    """sweep: shortest, longest, most of fixed-target."""
    parts = []
    capacity = w - (beginning is not None)
    for number, (start, end) in enumerate(zip(documents, [*documents[1:], len(tokens)])):
        text = tokens[start:end]
        if len(text) < 2 or (protocol == "fixed-target" and len(text) <= (sweep.get("longest") or w)):
            continue
        if protocol == "streaming":
            contexts, losses = read_stream(model, text, w, s, beginning)
            targets = torch.arange(1, len(text))
        else:
            less = {name: value - (beginning is not None) for name, value in sweep.items() if name in ("longest",) and value}
            found = windows(protocol, len(text), capacity, s, **{**sweep, **less})
            contexts, losses = read_windows(model, text, found, beginning)
            targets = torch.tensor(sorted(t for some in found.values() for t in some))
        parts.append((targets + start, torch.full_like(targets, number), contexts[targets], losses[targets]))
    return Scored(*(torch.cat(column) for column in zip(*parts)))


# ---- what is said of them ----

def block_numbers(document):
    """Of each target the block that it is in: in each document as many of 1000 and more as there are, as equal as can be."""
    numbers, used = torch.zeros_like(document), 0
    for d in document.unique():
        where = (document == d).nonzero()[:, 0]
        blocks = max(1, len(where) // BLOCK)
        ends = torch.tensor([(b + 1) * len(where) // blocks for b in range(blocks)])
        numbers[where] = used + torch.searchsorted(ends, torch.arange(len(where)), right=True)
        used += blocks
    return numbers


def mean_and_error(loss, document):
    """The error is that of a ratio, sums of losses over sums of targets, the blocks being drawn."""
    mean, block = loss.mean(), block_numbers(document)
    blocks = int(block.max()) + 1 if len(block) else 0
    if blocks < 2:
        return mean.item(), math.nan
    away = torch.zeros(blocks).double().index_add(0, block, loss - mean)
    return mean.item(), (away.square().sum() * blocks / (blocks - 1)).sqrt().item() / len(loss)


def early_split(scored, early):
    """Targets that were early, their mean, and mean and error of the others."""
    is_early = scored.context < early
    late = mean_and_error(scored.loss[~is_early], scored.document[~is_early])
    return int(is_early.sum()), scored.loss[is_early].mean().item(), *late


def difference(a, b):
    """Mean of b less that of a over the same targets, and its error."""
    assert torch.equal(a.token, b.token)
    return mean_and_error(b.loss - a.loss, a.document)


def position_curve(scored, w):
    """Of nonoverlapping: mean loss at each output of full windows, over a centred run of 101, and half its 95 % band."""
    rows = []
    for d in scored.document.unique():
        loss = scored.loss[scored.document == d]
        rows += [*loss[: len(loss) // w * w].reshape(-1, w)]
    rows = torch.stack(rows)
    smooth = torch.stack([rows[:, max(0, i - RUN // 2) : i + RUN // 2 + 1].mean(1) for i in range(w)], 1)
    return smooth.mean(0), 1.96 * smooth.std(0) / math.sqrt(len(rows)), len(rows)


def bits_per_byte(scored, tokens, token_bytes):
    return scored.loss.sum().item() / math.log(2) / token_bytes[tokens[scored.token]].sum().item()
