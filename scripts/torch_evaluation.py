"""Evaluation protocols in PyTorch, from their definitions (docs/results.md): for each target where its window
begins, then every window recomputed on its own.  Nothing is planned ahead, shared or skipped.

A text is a list of ids in which documents begin at given places.  W inputs a window, a beginning token among them;
S the stride.  Losses are in nats.  Needs torch; a model is one of torch_decoder.py, in float64 where figures are
compared.
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

def probe_targets(shortest):
    return max(1, min(200, shortest // 4))


def probes(texts, shortest, longest, most=0):
    """(document, end of its inputs) of fixed-target's windows: every T tokens where the longest window has room,
     or spread evenly so that at most so many tokens are scored."""
    t = probe_targets(shortest)
    places = [(d, end) for d, text in enumerate(texts) for end in range(longest, len(text), t)]
    count = min(len(places), max(1, most // t)) if most else len(places)
    return [places[i * len(places) // count] for i in range(count)]


def windows(protocol, n, w, s=0):
    """{place of the first input: targets} of a text of n tokens, read w at a time."""
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
    contexts, losses, extra = (torch.zeros(len(tokens), dtype=torch.long), torch.zeros(len(tokens)).double(),
                               beginning is not None)
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
    """The first w inputs, then pieces of s, each seeing itself and the last w - s of the keys and values that were
     carried on, layer by layer."""
    inputs, skipped = tokens[:-1], 0
    if beginning is not None:
        inputs, skipped = torch.cat([torch.tensor([beginning]), inputs]), 1  # what it predicts is not scored
    caches, losses, contexts = [{} for _ in range(model.layers)], [], []
    pieces = ([range(0, min(w, len(inputs)))]
              + [range(i, min(i + s, len(inputs))) for i in range(w, len(inputs), s)])
    for piece in pieces:
        for cache in caches:
            for name, carried in cache.items():
                cache[name] = carried[:, :, max(0, carried.shape[2] - (w - s)) :]
        seen = caches[0]["keys"].shape[2] if caches[0] else 0
        states = model.read(inputs[None, piece.start : piece.stop], piece.start, caches)[0]
        scored = torch.arange(skipped if piece.start == 0 else 0, len(piece))
        losses.append(losses_of(model, states[scored], tokens[piece.start + scored + 1 - skipped]).double())
        contexts.append(seen + scored + 1)
    return torch.cat([torch.zeros(1, dtype=torch.long), *contexts]), torch.cat([torch.zeros(1).double(), *losses])


@torch.no_grad()
def evaluate(model, tokens, protocol, w, s=0, documents=(0,), beginning=None, shortest=0, longest=0, most=0):
    """shortest, longest (windows of the sweep), most: of fixed-target."""
    texts = [tokens[start:end] for start, end in zip(documents, [*documents[1:], len(tokens)])]
    room = w - (beginning is not None)  # tokens of the text in a window
    if protocol == "fixed-target":
        longest = (longest or w) - (beginning is not None)
        t, found = probe_targets(shortest or w), {}
        for d, end in probes(texts, shortest or w, longest, most):
            found.setdefault(d, {})[end - room] = range(end - t + 1, end + 1)
    else:
        found = {d: windows(protocol, len(text), room, s) for d, text in enumerate(texts) if len(text) > 1}
    parts = []
    for d, its_windows in found.items():
        if protocol == "streaming":
            contexts, losses = read_stream(model, texts[d], w, s, beginning)
        else:
            contexts, losses = read_windows(model, texts[d], its_windows, beginning)
        targets = torch.tensor(sorted(t for some in its_windows.values() for t in some))
        parts.append((targets + documents[d], torch.full_like(targets, d), contexts[targets], losses[targets]))
    return Scored(*(torch.cat(column) for column in zip(*parts)))


# ---- what is said of them ----

def block_numbers(document):
    """Of each target its block: in each document as many of 1000 and more as there are, as equal as can be."""
    numbers, used = torch.zeros_like(document), 0
    for d in document.unique():
        where = (document == d).nonzero()[:, 0]
        blocks = max(1, len(where) // BLOCK)
        ends = torch.tensor([(b + 1) * len(where) // blocks for b in range(blocks)])
        numbers[where] = used + torch.searchsorted(ends, torch.arange(len(where)), right=True)
        used += blocks
    return numbers


def mean_and_error(loss, document, wanted=None):
    """Of the wanted ones (None: all).  The error is that of a ratio, sums of losses over numbers of targets,
     blocks being drawn."""
    block = block_numbers(document)
    if wanted is not None:
        loss, block = loss[wanted], block[wanted]
    mean, blocks = loss.mean(), len(block.unique())
    if blocks < 2:
        return mean.item(), math.nan
    away = torch.zeros(int(block.max()) + 1).double().index_add(0, block, loss - mean)
    return mean.item(), (away.square().sum() * blocks / (blocks - 1)).sqrt().item() / len(loss)


def early_split(scored, early):
    """How many targets were early, their mean, and mean and error of the others."""
    is_early = scored.context < early
    return (int(is_early.sum()), scored.loss[is_early].mean().item(),
            *mean_and_error(scored.loss, scored.document, ~is_early))


def difference(a, b):
    """Mean of b less that of a over the same targets, and its error."""
    assert torch.equal(a.token, b.token)
    return mean_and_error(b.loss - a.loss, a.document)


def position_curve(scored, w):
    """Of nonoverlapping: mean loss at each output of full windows, over a centred run of 101 (near the ends as
     wide as fits), and half its 95 % band."""
    rows = []
    for d in scored.document.unique():
        loss = scored.loss[scored.document == d]
        rows += [*loss[: len(loss) // w * w].reshape(-1, w)]
    rows = torch.stack(rows)
    sides = [min(RUN // 2, i, w - 1 - i) for i in range(w)]
    smooth = torch.stack([rows[:, i - side : i + side + 1].mean(1) for i, side in enumerate(sides)], 1)
    return smooth.mean(0), 1.959963984540054 * smooth.std(0) / math.sqrt(len(rows)), len(rows)


def bits_per_byte(scored, tokens, token_bytes):
    return scored.loss.sum().item() / math.log(2) / token_bytes[tokens[scored.token]].sum().item()
