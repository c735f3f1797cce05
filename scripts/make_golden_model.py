#!/usr/bin/env python3
"""Writes tests/golden/model_figures.h: losses, logits and gradients of small decoders, in float64 with PyTorch.

The decoder below is written from the definitions (docs/positions.md, docs/design.md), apart from the library:
plain matrices of scores, automatic gradients.  Weights and tokens are a hash of their name and index, exact in
float32, so the test makes the same ones and no weights are stored.

usage: python3 scripts/make_golden_model.py > tests/golden/model_figures.h      (needs torch)
"""
import math

import torch

from c_lines import lines_of

torch.set_default_dtype(torch.float64)

VOCABULARY, SEQUENCES, LENGTH = 37, (40, 70), 80  # LENGTH: the declared length
LEARNED_BIASES = {  # parameters, and whether the layers share them
    "alibi-learned": [("log_slopes", False)],
    "bam": [("log_scale", False), ("exponent_raw", False)],
    "kerple-log": [("p_raw", True), ("a_raw", True)],
    "kerple-power": [("a_raw", True), ("p_raw", True)],
}
ROTARY = ("rope", "p-rope", "rope-window", "scale-invariant", "xpos")

KEPT = {"p-rope": 0.75, "scale-invariant": 0.5}


def numbers(name, count):
    """Multiples of 2^-16 in [-1/2, 1/2): FNV-1a of the name, then the index mixed in (finaliser "lowbias32")."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    x = (torch.arange(count, dtype=torch.int64) * 2654435761 + h) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    return ((x >> 16) - 32768).to(torch.float64) / 65536


class Decoder:
    def __init__(self, position, extension=None, layers=2, width=48, heads=6, kv_heads=6, head_size=8,
                 feed_forward=60, train_length=LENGTH, norm="layernorm", norm_bias=False, bias=False, tied=True,
                 qk_norm=False, activation="gelu", **options):
        self.__dict__.update(locals())
        self.values = {}
        self.list_parameters()

    # The list of parameters, in the order of a stored model.

    def add(self, name, *shape):
        value = numbers(name, math.prod(shape)).reshape(shape)
        if name.endswith(".gain"):
            value = value + 1
        self.values[name] = value.requires_grad_()

    def add_norm(self, name):
        self.add(name + ".gain", self.width)
        if self.norm_bias:
            self.add(name + ".shift", self.width)

    def add_linear(self, name, out, inner):
        self.add(name + ".weight", out, inner)
        if self.bias:
            self.add(name + ".bias", out)

    def list_parameters(self):
        d = self.head_size
        self.add("embedding.weight", VOCABULARY, self.width)
        if self.position == "learned":
            self.add("position.embedding", self.train_length, self.width)
        if self.position == "t5":
            self.add("position.table", self.options.get("buckets", 32), self.heads)
        if self.position == "fire":
            self.add("position.input_weight", 1, 32)
            self.add("position.input_bias", 1, 32)
            self.add("position.output_weight", self.heads, 32)
            self.add("position.distance_scale", 1, 1)
            self.add("position.threshold_scale", 1, 1)
        for name, shared in LEARNED_BIASES.get(self.position, ()):
            self.add("position." + name, 1 if shared else self.layers, self.heads)
        if self.position == "fox":
            self.add("position.gate.weight", self.layers * self.heads, self.width)
            self.add("position.gate.bias", self.layers * self.heads)
        for block in range(self.layers):
            b = f"blocks.{block}."
            self.add_norm(b + "attention_norm")
            self.add_linear(b + "attention.qkv", (self.heads + 2 * self.kv_heads) * d, self.width)
            if self.qk_norm:
                self.add(b + "attention.query_norm.gain", d)
                self.add(b + "attention.key_norm.gain", d)
            self.add_linear(b + "attention.output", self.width, self.heads * d)
            self.add_norm(b + "feed_forward_norm")
            self.add_linear(b + "feed_forward.input", self.feed_forward, self.width)
            self.add_linear(b + "feed_forward.output", self.width, self.feed_forward)
        self.add_norm("final_norm")
        if not self.tied:
            self.add("output.weight", VOCABULARY, self.width)

    # Positions.

    def slopes(self, heads=None):
        most, heads = self.options.get("max_bias", 8), heads or self.heads
        if self.options.get("slopes"):
            return torch.tensor([float(x) for x in self.options["slopes"].split(",")])
        if self.options.get("slope_rule") == "geometric":
            return torch.tensor([2 ** (-most * (h + 1) / heads) for h in range(heads)])
        power = 1 << (heads.bit_length() - 1)
        full = [2 ** (-most * (h + 1) / power) for h in range(power)]
        between = [2 ** (-most * (h + 1) / (2 * power)) for h in range(2 * power)]
        return torch.tensor(full + between[0::2][: heads - power])

    def extended_slopes(self):
        slopes, s = self.slopes(), max(LENGTH / self.train_length, 1)
        if self.extension in ("linear", "dynamic"):
            return slopes / s
        if self.extension == "ntk":  # by the rank from the steepest
            rank = slopes.argsort(descending=True).argsort()
            return slopes / s ** (rank / (self.heads - 1))
        return slopes

    def nape_slopes(self):
        share = self.options.get("share", 0.5)
        flat = [math.floor((h + 1) * share) > math.floor(h * share) for h in range(self.heads)]
        steep = iter(self.slopes(heads=flat.count(False)))
        return torch.stack([torch.tensor(0.0) if none else next(steep) for none in flat])

    def learned_bias(self, name, block):
        """[heads, 1, 1]."""
        value = self.values["position." + name]
        return value[min(block, len(value) - 1)][:, None, None]

    def fire_bias(self, distance):
        c = self.values["position.distance_scale"].abs()
        most = (self.values["position.threshold_scale"]
                * self.options.get("threshold", self.train_length / 4)).abs()
        far = torch.maximum(distance[:, :1].double(), most)  # the first key's distance is the query's position
        x = torch.log(c * distance.clamp(min=0) + 1) / torch.log(c * far + 1)
        inner = x[..., None] * self.values["position.input_weight"][0] + self.values["position.input_bias"][0]
        return (inner.relu() @ self.values["position.output_weight"].T).permute(2, 0, 1)

    def newer_bias(self, distance, block):
        """As score_bias."""
        t = distance.clamp(min=0).double()
        if self.position == "alibi-learned":
            return -self.learned_bias("log_slopes", block).exp() * t
        if self.position == "alibi-log":
            bias = -self.slopes()[:, None, None] * torch.log(1 + t)
            return bias.clamp(min=-self.options["clamp"]) if "clamp" in self.options else bias
        if self.position == "nape":
            return -self.nape_slopes()[:, None, None] * t
        if self.position == "bam":
            exponent = 2 / (1 + torch.exp(-self.learned_bias("exponent_raw", block)))
            return -self.learned_bias("log_scale", block).exp() * (t + 1e-5) ** exponent
        if self.position in ("kerple-log", "kerple-power"):
            a = 0.01 + torch.log(1 + self.learned_bias("a_raw", block).exp())
            if self.position == "kerple-power":
                p = 0.01 + 1.99 / (1 + torch.exp(-self.learned_bias("p_raw", block)))
                return -a * torch.where(t > 0, t.clamp(min=1) ** p, 0)
            return -(0.01 + torch.log(1 + self.learned_bias("p_raw", block).exp())) * torch.log(1 + a * t)
        if self.position == "sandwich":
            d = self.options.get("dimension", 128)
            w = 10000 ** (-2 * torch.arange(1, d // 2 + 1, dtype=torch.float64) / d)
            scale = self.heads / (8 * torch.arange(1, self.heads + 1, dtype=torch.float64))
            return scale[:, None, None] * ((t[..., None] * w).cos().sum(-1) - d / 2)
        if self.position == "fire":
            return self.fire_bias(distance)
        if self.position == "scale-invariant":
            return 1 - self.score_factor(t) ** 2
        return None

    def gates(self, x, block):
        """[heads, queries, keys]: the sum of ln f over the tokens after the key, up to the query."""
        mine = slice(block * self.heads, (block + 1) * self.heads)
        logits = self.values["position.gate.weight"][mine] @ x.T + self.values["position.gate.bias"][mine, None]
        total = -torch.log(1 + torch.exp(-logits)).cumsum(-1)
        return total[:, :, None] - total[:, None, :]

    def score_factor(self, t):
        """Of scale-invariant attention, with alpha = beta = sqrt(e)."""
        alpha = math.exp(0.5)
        log = torch.log(t / self.options.get("tau", 10) + 1)
        return (2 * (log - math.log(alpha) + 1)).sqrt()

    def score_bias(self, distance, block):
        """[heads, queries, keys] of distances [queries, keys]; None where the method has none."""
        if self.position == "alibi":
            return -self.extended_slopes()[:, None, None] * distance
        if self.position == "t5":
            buckets = self.options.get("buckets", 32)
            exact, far = buckets // 2, min(128, self.train_length)
            t = distance.clamp(0, far - 1)  # beyond: as the last distance met in training
            if far > exact:
                log = torch.log(t.clamp(min=1) / exact) / math.log(far / exact) * (buckets - exact)
                t = torch.where(t < exact, t, (exact + log.floor()).clamp(max=buckets - 1).long())
            return self.values["position.table"][t].permute(2, 0, 1)
        return self.newer_bias(distance, block)

    def frequencies(self):
        """The angles of position 1, and the factor on cos and sin."""
        base, length = self.options.get("base", 10000), self.train_length
        r = round(self.options.get("fraction", 1) * self.head_size)
        p = torch.arange(r // 2, dtype=torch.float64)
        w, s = base ** (-2 * p / r), LENGTH / length
        if self.position in KEPT:
            w = torch.where(p < math.floor(self.options.get("share", KEPT[self.position]) * (r // 2)), w, 0)
        if self.extension is None or s <= 1:
            return w, 1
        if self.extension == "linear":
            return w / s, 1
        if self.extension == "ntk":
            return (base * s ** (r / (r - 2))) ** (-2 * p / r), 1
        if self.extension == "dynamic":
            return (base * (2 * s - 1) ** (r / (r - 2))) ** (-2 * p / r), 1
        if self.extension == "longrope":  # without lists
            return (base * s ** (r / (r - 2))) ** (-2 * p / r), math.sqrt(1 + math.log(s) / math.log(length))
        if self.extension == "llama3":
            z = ((length * w / (2 * math.pi) - 1) / (4 - 1)).clamp(0, 1)
            return w / s * (1 - z) + w * z, 1
        if self.extension == "yarn":
            low, high = (r * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1))
            low, high = (min(max(x, 0), r - 1) for x in (math.floor(low), math.ceil(high)))
            ramp = ((p - low) / (high - low if high != low else 0.001)).clamp(0, 1)
            return w / s * ramp + w * (1 - ramp), 0.1 * math.log(s) + 1
        raise ValueError(self.extension)

    def turn(self, x, sign):
        """x [heads, positions, head size]: a pair of channels as a complex number times exp(i * angle).  sign: 1
         of queries, -1 of keys."""
        w, factor = self.frequencies()
        r, position = 2 * len(w), torch.arange(x.shape[1], dtype=torch.float64)[:, None]
        magnitude = torch.full_like(position * w, factor)
        if self.position == "xpos":
            zeta = (torch.arange(0, r, 2) + 0.4 * r) / (1.4 * r)
            magnitude = zeta ** (sign * position / self.options.get("scale_base", 512))
        turning = x[..., :r]
        if self.options.get("layout") == "adjacent":
            real, imaginary = turning[..., 0::2], turning[..., 1::2]
        else:
            real, imaginary = turning.chunk(2, dim=-1)
        turned = torch.complex(real, imaginary) * torch.polar(magnitude, position * w)
        if self.options.get("layout") == "adjacent":
            turned = torch.stack([turned.real, turned.imag], dim=-1).flatten(-2)
        else:
            turned = torch.cat([turned.real, turned.imag], dim=-1)
        return torch.cat([turned, x[..., r:]], dim=-1)

    def row(self, position):
        """Of the table of an absolute method."""
        if self.extension == "clamp":
            return position.clamp(max=self.train_length - 1)
        return position % self.train_length if self.extension == "wrap" else position

    def embed(self, tokens):
        x, rows = self.values["embedding.weight"][tokens], self.row(torch.arange(len(tokens)))
        if self.position == "learned":
            return x + self.values["position.embedding"][rows]
        if self.position == "sinusoidal":
            c = torch.arange(self.width)
            w = self.options.get("base", 10000) ** (-2 * (c // 2).double() / self.width)
            phase = rows[:, None] * w
            return math.sqrt(self.width) * x + torch.where(c % 2 == 0, phase.sin(), phase.cos())
        return x

    # The pass over one sequence.

    def normed(self, x, name):
        if self.norm == "layernorm":
            x = x - x.mean(-1, keepdim=True)
        y = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.values[name + ".gain"]
        return y + self.values[name + ".shift"] if self.norm_bias else y

    def head_normed(self, x, name):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.values[name + ".gain"]

    def linear(self, x, name):
        y = x @ self.values[name + ".weight"].T
        return y + self.values[name + ".bias"] if self.bias else y

    def hidden(self, distance):
        """Which keys a query does not see."""
        if self.position == "rope-window":
            return (distance < 0) | (distance >= (self.options.get("window") or self.train_length))
        return distance < 0

    def attention(self, x, block):
        b = f"blocks.{block}."
        n, d, h, g = len(x), self.head_size, self.heads, self.kv_heads
        q, k, v = self.linear(x, b + "attention.qkv").split([h * d, g * d, g * d], dim=-1)
        q, k, v = (y.reshape(n, -1, d).transpose(0, 1) for y in (q, k, v))
        if self.qk_norm:
            q, k = self.head_normed(q, b + "attention.query_norm"), self.head_normed(k, b + "attention.key_norm")
        if self.position in ROTARY:
            q, k = self.turn(q, 1), self.turn(k, -1)
        k, v = (y.repeat_interleave(h // g, dim=0) for y in (k, v))
        distance = torch.arange(n)[:, None] - torch.arange(n)
        scores = q @ k.transpose(1, 2) / math.sqrt(d)
        if self.position == "scale-invariant":
            scores = scores * self.score_factor(distance.clamp(min=0).double())
        added = self.score_bias(distance, block)
        if added is not None:
            scores = scores + added
        if self.position == "fox":
            scores = scores + self.gates(x, block)
        weights = scores.masked_fill(self.hidden(distance), -math.inf).softmax(-1)
        return self.linear((weights @ v).transpose(0, 1).reshape(n, h * d), b + "attention.output")

    def activated(self, x):
        if self.activation == "gelu":
            return x / 2 * (1 + torch.erf(x / math.sqrt(2)))
        return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def logits(self, tokens):
        x = self.embed(tokens)
        for block in range(self.layers):
            b = f"blocks.{block}."
            x = x + self.attention(self.normed(x, b + "attention_norm"), block)
            inner = self.activated(self.linear(self.normed(x, b + "feed_forward_norm"), b + "feed_forward.input"))
            x = x + self.linear(inner, b + "feed_forward.output")
        return self.normed(x, "final_norm") @ self.values["embedding.weight" if self.tied else "output.weight"].T


FULL = dict(norm_bias=True, bias=True, qk_norm=True, tied=False, activation="gelu-tanh")
GROUPED = dict(kv_heads=2, head_size=12)
CASES = {
    "alibi": dict(position="alibi"),
    "sinusoidal": dict(position="sinusoidal"),
    "learned": dict(position="learned"),
    "rope": dict(position="rope"),
    "t5": dict(position="t5"),
    "none": dict(position="none"),
    "alibi_full": dict(position="alibi", slope_rule="geometric", max_bias=5, **FULL),
    "rope_full": dict(position="rope", base=500, fraction=0.5, **FULL, **GROUPED),
    "learned_full": dict(position="learned", **FULL),
    "t5_beyond": dict(position="t5", train_length=20, **GROUPED),
    "t5_few_buckets": dict(position="t5", buckets=8, train_length=30, qk_norm=True),
    "alibi_rms": dict(position="alibi", norm="rmsnorm", tied=False, **GROUPED),
    "rope_linear": dict(position="rope", extension="linear", train_length=16),
    "rope_ntk": dict(position="rope", extension="ntk", train_length=16),
    "rope_yarn": dict(position="rope", extension="yarn", train_length=16, head_size=16, base=100),
    "fox": dict(position="fox"),
    "fox_full": dict(position="fox", **FULL, **GROUPED),
    "rope_adjacent": dict(position="rope", layout="adjacent", fraction=0.75),
    "rope_dynamic": dict(position="rope", extension="dynamic", train_length=16),
    "rope_llama3": dict(position="rope", extension="llama3", train_length=16, base=100),
    "rope_longrope": dict(position="rope", extension="longrope", train_length=16),
    "p_rope": dict(position="p-rope", share=0.5),
    "xpos": dict(position="xpos", scale_base=16),
    "xpos_adjacent": dict(position="xpos", layout="adjacent", **GROUPED),
    "rope_window": dict(position="rope-window", window=17),
    "rope_window_trained": dict(position="rope-window", train_length=24, **GROUPED),
    "alibi_linear": dict(position="alibi", extension="linear", train_length=16),
    "alibi_dynamic": dict(position="alibi", extension="dynamic", train_length=24),
    "alibi_ntk": dict(position="alibi", extension="ntk", train_length=16),
    "learned_clamp": dict(position="learned", extension="clamp", train_length=16),
    "alibi_slopes": dict(position="alibi", slopes="0.5,0.25,0.1,0,0.03,0.001"),
    "alibi_learned": dict(position="alibi-learned"),
    "alibi_learned_full": dict(position="alibi-learned", **FULL, **GROUPED),
    "alibi_log": dict(position="alibi-log"),
    "alibi_log_clamped": dict(position="alibi-log", clamp=1.5, max_bias=4, **GROUPED),
    "nape": dict(position="nape"),
    "nape_third": dict(position="nape", share=0.34, slope_rule="geometric", **FULL),
    "bam": dict(position="bam"),
    "bam_full": dict(position="bam", **FULL, **GROUPED),
    "kerple_log": dict(position="kerple-log"),
    "kerple_log_full": dict(position="kerple-log", **FULL),
    "kerple_power": dict(position="kerple-power"),
    "kerple_power_grouped": dict(position="kerple-power", **GROUPED),
    "sandwich": dict(position="sandwich"),
    "sandwich_narrow": dict(position="sandwich", dimension=16, **GROUPED),
    "scale_invariant": dict(position="scale-invariant"),
    "scale_invariant_full": dict(position="scale-invariant", tau=3, share=1, base=100, layout="adjacent", **FULL),
    "sinusoidal_wrap": dict(position="sinusoidal", extension="wrap", train_length=16),
    "fire": dict(position="fire"),
    "fire_full": dict(position="fire", threshold=30, **FULL, **GROUPED),
}
MODEL_FIELDS = ("layers width heads kv_heads head_size feed_forward train_length norm norm_bias bias tied qk_norm "
                "activation").split()


def settings(model):
    text = lambda value: str(value).lower() if isinstance(value, bool) else str(value)
    rows = [("position", model.position), ("vocabulary", VOCABULARY)]
    rows += [(name, getattr(model, name)) for name in MODEL_FIELDS]
    rows += [(f"{model.position}_{name}", value) for name, value in model.options.items()]
    return [f'{{"{name}", "{text(value)}"}}' for name, value in rows]


def run(model):
    """Loss (the sum over all tokens), all logits [rows, V], gradients left in the values."""
    stream = ((numbers("tokens", sum(SEQUENCES) + len(SEQUENCES)) + 0.5) * VOCABULARY).long()
    loss, logits = 0, []
    for tokens in stream.split([n + 1 for n in SEQUENCES]):
        logits.append(model.logits(tokens[:-1]))
        loss = loss - logits[-1].log_softmax(-1).gather(1, tokens[1:, None]).sum()
    loss.backward()
    return loss.item(), torch.cat(logits).detach()


def write_case(name, model):
    loss, logits = run(model)
    rows = []
    for parameter, value in model.values.items():
        shape = (*value.shape, 1)[:2]
        grad = value.grad.flatten()
        along = (grad @ numbers("direction of " + parameter, len(grad))).item()
        rows.append(f'    {{"{parameter}", {shape[0]}, {shape[1]}, {along:.15g}, {grad.norm().item():.15g}}},')
    print(f"static const golden_parameter {name}_parameters[] = {{", *rows, "};", sep="\n")
    samples = [(r, (r * 7 + 3) % VOCABULARY) for r in (0, 1, 17, 39, 40, 55, 103, 109)]
    print(f"static const char *const {name}_settings[][2] = {{", *lines_of(settings(model)), "};", sep="\n")
    return (f'    {{"{name}",\n     {name}_settings, sizeof {name}_settings / sizeof {name}_settings[0],\n     '
            + (f'"{model.extension}"' if model.extension else "NULL") + f", {loss:.15g},\n     {{\n"
            + "\n".join(lines_of(f"{{{r}, {t}, {logits[r, t].item():.15g}}}" for r, t in samples))
            + f"\n     }},\n     {name}_parameters,\n"
            + f"     sizeof {name}_parameters / sizeof {name}_parameters[0]}},")


def main():
    print(f"""/* Losses, logits and gradients of small decoders in float64, made by
 * python3 scripts/make_golden_model.py > tests/golden/model_figures.h   \
(torch {torch.__version__.split("+")[0]}) */
#ifndef GOLDEN_MODEL_FIGURES_H
#define GOLDEN_MODEL_FIGURES_H

#include <stddef.h>

enum {{ GOLDEN_LENGTH = {LENGTH}, GOLDEN_LOGITS = 8 }};
static const size_t golden_sequences[] = {{{", ".join(map(str, SEQUENCES))}}};

/* Of the summed loss's gradient: the product with the numbers of "direction of NAME", and the Euclidean norm. */
typedef struct golden_parameter {{
  const char *name;
  size_t rows, columns;
  double along, norm;
}} golden_parameter;

typedef struct golden_logit {{
  size_t row, token;
  double value;
}} golden_logit;

typedef struct golden_case {{
  const char *name;
  const char *const (*settings)[2];
  size_t setting_count;
  const char *extension;
  double loss; /* nats, summed over all tokens */
  golden_logit logits[GOLDEN_LOGITS];
  const golden_parameter *parameters;
  size_t parameter_count;
}} golden_case;
""")
    cases = [write_case(name, Decoder(**case)) for name, case in CASES.items()]
    print("static const golden_case golden_cases[] = {", *cases, "};\n\n#endif", sep="\n")


if __name__ == "__main__":
    main()
