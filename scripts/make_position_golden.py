#!/usr/bin/env python3
"""Writes tests/golden/position_figures.h: what the transformers library computes for rotary embeddings and all
their scalings, ALiBi as BLOOM has it, and T5's buckets.

Its own functions are called, nothing is written anew.  They work in float32, in which the phase of position 16000
is right to 1e-3 only, so they run here with float64 in the place of float32; that the float32 results agree to
1e-6 is asserted.

usage: python3 scripts/make_position_golden.py > tests/golden/position_figures.h     (needs torch and transformers)
"""
import contextlib
import re
import sys

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from c_lines import lines_of

POSITIONS = 16384
SAMPLES = (1, 100, 4095, 4096, 9999, 16383)  # positions
SAMPLED_PAIRS = 4
LONG_SAMPLE = [1 + 0.13 * p ** 1.4 for p in range(48)]
SHORT_SAMPLE = [1 + 0.01 * p for p in range(48)]

# name: head size, trained length, declared length, settings of transformers, settings of alibi as "name=value".
CASES = {
    "rope": (64, 16384, 16384, dict(rope_type="default", rope_theta=10000.0), ""),
    "a base of Llama 3": (128, 16384, 16384, dict(rope_type="default", rope_theta=500000.0), "rope_base=500000"),
    "p-rope": (64, 16384, 16384, dict(rope_type="proportional", rope_theta=10000.0, partial_rotary_factor=0.7),
               "p-rope_share=0.7"),
    "linear": (64, 4096, 16384, dict(rope_type="linear", rope_theta=10000.0, factor=4.0), "linear"),
    "linear by a factor": (64, 4096, 16384, dict(rope_type="linear", rope_theta=10000.0, factor=2.5),
                           "linear:factor=2.5"),
    "dynamic": (128, 2048, 16384, dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0), "dynamic"),
    "dynamic by 1": (64, 4096, 16384, dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0),
                     "dynamic:factor=1"),
    "dynamic within the trained length": (64, 16384, 16384,
                                          dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0),
                                          "dynamic:factor=4"),
    "yarn": (128, 4096, 16384, dict(rope_type="yarn", rope_theta=10000.0, factor=16.0,
                                    original_max_position_embeddings=4096), "yarn:factor=16"),
    "yarn with every key": (64, 16384, 16384, dict(rope_type="yarn", rope_theta=50000.0, factor=40.0,
                                                   beta_fast=24.0, beta_slow=2.0, mscale=1.0, mscale_all_dim=0.7,
                                                   truncate=False, original_max_position_embeddings=4096),
                            "rope_base=50000 yarn:factor=40,beta_fast=24,beta_slow=2,mscale=1,mscale_all_dim=0.7,"
                            "truncate=false,original_length=4096"),
    "yarn with a given factor": (64, 1024, 16384, dict(rope_type="yarn", rope_theta=10000.0, factor=8.0,
                                                       attention_factor=1.25,
                                                       original_max_position_embeddings=1024),
                                 "yarn:factor=8,attention_factor=1.25"),
    "llama3": (128, 8192, 16384, dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                                      high_freq_factor=4.0, original_max_position_embeddings=8192),
               "rope_base=500000 llama3:factor=8"),
    "llama3 with every key": (64, 131072, 16384, dict(rope_type="llama3", rope_theta=500000.0, factor=32.0,
                                                      low_freq_factor=2.0, high_freq_factor=16.0,
                                                      original_max_position_embeddings=4096),
                              "rope_base=500000 llama3:factor=32,low_freq_factor=2,high_freq_factor=16,"
                              "original_length=4096"),
    "longrope": (96, 131072, 16384, dict(rope_type="longrope", rope_theta=10000.0, factor=32.0,
                                         short_factor=SHORT_SAMPLE, long_factor=LONG_SAMPLE,
                                         original_max_position_embeddings=4096),
                 "longrope:factor=32,original_length=4096 lists"),
    "longrope within the original length": (96, 131072, 4096,
                                            dict(rope_type="longrope", rope_theta=10000.0, factor=32.0,
                                                 short_factor=SHORT_SAMPLE, long_factor=LONG_SAMPLE,
                                                 original_max_position_embeddings=4096),
                                            "longrope:factor=32,original_length=4096 lists"),
}


@contextlib.contextmanager
def double():
    """float64 wherever the library says float32."""
    kept = torch.float, torch.float32, torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = kept
        torch.set_default_dtype(torch.float32)


def rotary(head_size, trained, length, parameters):
    """Inverse frequencies [d/2], cos and sin [length, d/2], at a declared length."""
    config = LlamaConfig(hidden_size=head_size, num_attention_heads=1, num_key_value_heads=1, head_dim=head_size,
                         max_position_embeddings=trained, rope_parameters=dict(parameters))
    embedding = LlamaRotaryEmbedding(config)
    x = torch.zeros(1, dtype=embedding.inv_freq.dtype)
    cosine, sine = embedding(x, torch.arange(length)[None])
    if parameters["rope_type"] in ROPE_INIT_FUNCTIONS:  # the frequencies that the pass used
        expected, _ = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=length)
        assert torch.allclose(expected, embedding.inv_freq, rtol=1e-6, atol=0)
    return embedding.inv_freq, *(y[0, :, : head_size // 2] for y in (cosine, sine))


def weights(count):
    """Multiples of 2^-16 in [-1/2, 1/2), by the finaliser "lowbias32" of the index."""
    x = torch.arange(count, dtype=torch.int64)
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    return ((x >> 16) - 32768).double() / 65536


def numbers(values):
    return "\n".join(lines_of(f"{float(v):.10g}" for v in values))


def check_float32(name, exact, rounded):
    error = ((exact - rounded.double()).abs() / exact.abs().clamp(min=1e-30)).max().item()
    assert error < 1e-6, (name, error)


def write_case(index, name, head_size, trained, length, parameters, settings):
    with double():
        w, cosine, sine = rotary(head_size, trained, length, parameters)
    check_float32(name, w, rotary(head_size, trained, length, parameters)[0])
    h, pairs = weights(length), range(0, head_size // 2, head_size // 2 // SAMPLED_PAIRS)
    samples = [f"{{{i}, {p}, {cosine[i, p]:.10g}, {sine[i, p]:.10g}}}"
               for i in SAMPLES if i < length for p in pairs]
    print(f"static const double rotary_{index}_frequencies[] = {{", numbers(w), "};", sep="\n")
    print(f"static const double rotary_{index}_cosines[] = {{", numbers(h @ cosine), "};", sep="\n")
    print(f"static const double rotary_{index}_sines[] = {{", numbers(h @ sine), "};", sep="\n")
    print(f"static const golden_angle rotary_{index}_angles[] = {{", *lines_of(samples), "};", sep="\n")
    pieces = '"\n     "'.join(re.findall(r".{1,80}(?:,|$)", settings))
    return (f'    {{"{name}", "{pieces}",\n'
            f"     {head_size}, {trained}, {length}, {(cosine[0, 0]).item():.12g},\n"
            f"     rotary_{index}_frequencies, rotary_{index}_cosines, rotary_{index}_sines, "
            f"rotary_{index}_angles,\n"
            f"     sizeof rotary_{index}_angles / sizeof rotary_{index}_angles[0]}},")


def bloom(heads):
    """[heads, positions], of keys, before the softmax forgets what all of them share."""
    return build_alibi_tensor(torch.ones(1, POSITIONS, dtype=torch.long), heads,
                              torch.float).reshape(heads, POSITIONS)


def write_alibi():
    print("/* [H - 1]: sum over the heads h of (the bias of a key at distance 16383 and head h) * weight(h). */")
    rows, twelve = [], None
    for heads in range(1, 129):
        with double():
            biases = bloom(heads)
        assert ((biases[:, 1:] - bloom(heads)[:, 1:].double()).abs() / biases[:, 1:]).max() < 1e-6
        rows.append(((biases[:, 0] - biases[:, -1]) @ weights(heads)).item())
        twelve = biases if heads == 12 else twelve
    print("static const double golden_alibi[] = {", numbers(rows), "};", sep="\n")
    print("/* [12, distance of golden_alibi_distances] */")
    print("static const size_t golden_alibi_distances[] = {", *lines_of(map(str, SAMPLES)), "};", sep="\n")
    last = POSITIONS - 1
    print("static const double golden_alibi_twelve[] = {",
          numbers((twelve[:, last - t] - twelve[:, last])[h] for h in range(12) for t in SAMPLES), "};", sep="\n")


def write_t5():
    print("/* Distances 0 .. 1000: the first one of each bucket; no bucket is left out below the last. */")
    rows = []
    for buckets, distance in ((32, 128), (32, 256), (16, 64), (10, 900), (64, 1000)):
        with double():
            found = T5Attention._relative_position_bucket(-torch.arange(1001), bidirectional=False,
                                                          num_buckets=buckets, max_distance=distance).tolist()
        assert found == sorted(found)
        first = [found.index(bucket) if bucket in found else 1001 for bucket in range(buckets)]
        print(f"static const int t5_{buckets}_{distance}[] = {{", *lines_of(map(str, first)), "};", sep="\n")
        rows.append(f"    {{{buckets}, {distance}, t5_{buckets}_{distance}}},")
    print("static const golden_buckets golden_t5[] = {", *rows, "};", sep="\n")


def main():
    print(f"""\
/* Figures of rotary embeddings, ALiBi and T5's buckets from the functions of the transformers library
 * (transformers {transformers.__version__}, torch {torch.__version__.split("+")[0]}), run in float64, made by
 * python3 scripts/make_position_golden.py > tests/golden/position_figures.h */
#ifndef GOLDEN_POSITION_FIGURES_H
#define GOLDEN_POSITION_FIGURES_H

#include <stddef.h>

typedef struct golden_angle {{
  size_t position, pair;
  double cosine, sine;
}} golden_angle;

/* frequencies [d/2]; cosines, sines [d/2]: sums of cos, sin times weight(position) at positions 0 .. length-1. */
typedef struct golden_rotary {{
  const char *name, *settings;
  size_t head_size, train_length, length;
  double magnitude;
  const double *frequencies, *cosines, *sines;
  const golden_angle *angles;
  size_t angle_count;
}} golden_rotary;

typedef struct golden_buckets {{
  int buckets, max_distance;
  const int *first; /* [buckets]; 1001: none */
}} golden_buckets;

/* Of longrope, one for each of 48 pairs. */
static const double golden_short_factors[] = {{
{numbers(SHORT_SAMPLE)}
}};
static const double golden_long_factors[] = {{
{numbers(LONG_SAMPLE)}
}};
""")
    rows = [write_case(index, name, *case) for index, (name, case) in enumerate(CASES.items())]
    print("static const golden_rotary golden_rotaries[] = {", *rows, "};", sep="\n")
    write_alibi()
    write_t5()
    print("\n#endif")


if __name__ == "__main__":
    LONG_SAMPLE[:] = [float(f"{v:.10g}") for v in LONG_SAMPLE]
    sys.exit(main())
