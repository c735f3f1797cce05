"""The cases of make_family_golden.py: which tiny models there are, and what each of them shows.

Configurations are written as the families' published config.json are (their key names, old and new spellings).
"""
import dataclasses
from typing import Callable

import torch

import torch_families

EXACT = "the model's formula in float64"


def as_it_is(name):
    return name


def without_prefix(name):
    return name.removeprefix("transformer.")


@dataclasses.dataclass
class Case:
    name: str
    family: str
    description: str
    config: dict
    type: str = "F32"                       # of the stored weights
    file: str = "safetensors"               # or "sharded", "torch", "gguf"
    converter: str = ""                     # of family_gguf.py
    other_type: tuple = ("", ())            # a second type, and the ends of the names of the tensors that have it
    reference: str = "transformers"         # or "transcription" (torch_families.py)
    turned: bool = False                    # matrices named c_* are stored [in, out]
    causal: bool = True
    rename: Callable = as_it_is
    extra: Callable = lambda tensors: {}    # tensors that are stored besides
    adjust: Callable = lambda tensors: None
    model: str = "."                        # what to open, in the case's directory
    reference_config: dict | None = None    # where it differs from the one that the file has
    single: str = "exact"                   # which expectation the reference's own float32 run is one of
    expectations: dict = dataclasses.field(default_factory=lambda: {"exact": EXACT})

    @property
    def vocabulary(self):
        return self.config["vocab_size"]


CASES = []


def case(name, family, description, config, **fields):
    CASES.append(Case(name, family, description, config, **fields))


def published(architecture, model_type, **keys):
    """Keys that most configurations have, with the family's own."""
    return {"architectures": [architecture], "model_type": model_type, "torch_dtype": "float32",
            "transformers_version": "4.30.2", "use_cache": True, "initializer_range": 0.02, **keys}


# BLOOM

def bloom(**keys):
    base = dict(apply_residual_connection_post_layernorm=False, attention_dropout=0.0,
                attention_softmax_in_fp32=True, bias_dropout_fusion=True, bos_token_id=1, eos_token_id=2,
                pad_token_id=3, unk_token_id=0, hidden_dropout=0.0, layer_norm_epsilon=1e-5,
                masked_softmax_fusion=True, offset_alibi=100, pretraining_tp=1, seq_length=128,
                slow_but_exact=False, skip_bias_add=True, n_layer=2)
    return published("BloomForCausalLM", "bloom", **{**base, **keys})


BLOOM_ROUNDED = {"exact": EXACT, "reference": "float64, but the bias is slope * j of key j (slope and product in"
                 " float32) rounded"
                                              " to bfloat16, as in the reference's bfloat16 runs"}

case("bloom-heads-6", "bloom", "6 heads; names without the prefix transformer.; no lm_head in the file; n_embed,"
     " num_attention_heads;"
     " longer than seq_length",
     bloom(n_embed=48, num_attention_heads=6, vocab_size=150), rename=without_prefix)
case("bloom-heads-20-bf16", "bloom", "20 heads of size 4, weights in bf16, lm_head.weight in the file as well",
     bloom(hidden_size=80, n_head=20, n_layer=1, vocab_size=171), type="BF16", expectations=BLOOM_ROUNDED,
     extra=lambda t: {"lm_head.weight": t["transformer.word_embeddings.weight"].clone()})


# MPT (and, through the transcription, what transformers' MPT leaves out)

def mpt(attention=None, **keys):
    attn_config = {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
                   "attn_type": "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None,
                   "prefix_lm": False, "qk_ln": False, "softmax_scale": None, **(attention or {})}
    base = dict(attn_config=attn_config, emb_pdrop=0, embedding_fraction=1.0, expansion_ratio=4, init_device="cpu",
                learned_pos_emb=True, logit_scale=None, max_seq_len=512, no_bias=True,
                norm_type="low_precision_layernorm",
                resid_pdrop=0, tokenizer_name="EleutherAI/gpt-neox-20b", verbose=0, n_layers=2,
                init_config={"name": "kaiming_normal_", "fan_mode": "fan_in", "init_nonlinearity": "relu",
                             "verbose": 0})
    return published("MPTForCausalLM", "mpt", **{**base, **keys})


case("mpt-heads-12", "mpt", "12 heads; float32", mpt(d_model=48, n_heads=12, vocab_size=141))
case("mpt-clip-f16", "mpt", "clip_qkv and softmax_scale set; weights in f16, in three shards",
     mpt({"clip_qkv": 1.25, "softmax_scale": 0.3}, d_model=64, n_heads=8, n_layers=1, vocab_size=128), type="F16",
     file="sharded")

case("mpt-heads-6-bf16", "mpt", "6 heads, untied head, learned_pos_emb of no effect; weights in bf16",
     mpt(d_model=48, n_heads=6, vocab_size=133, tie_word_embeddings=False), type="BF16")
case("mpt-storywriter", "mpt", "alibi_bias_max 16, clip_qkv 2, logit_scale inv_sqrt_d_model, 6 heads; longer than"
     " max_seq_len",
     mpt({"alibi_bias_max": 16, "clip_qkv": 2.0}, d_model=48, n_heads=6, vocab_size=131, max_seq_len=128,
         logit_scale="inv_sqrt_d_model"), reference="transcription", type="F16")
case("mpt-grouped-biases", "mpt", "12 heads on 3 key-value heads, qk_ln, biases everywhere, expansion_ratio 3,"
     " logit_scale 0.7,"
     " alibi_bias_max 16",
     mpt({"alibi_bias_max": 16, "kv_n_heads": 3, "attn_type": "grouped_query_attention", "qk_ln": True},
         d_model=72, n_heads=12,
         n_layers=1, vocab_size=127, no_bias=False, expansion_ratio=3, logit_scale=0.7), reference="transcription",
         type="F16")
case("mpt-learned-positions", "mpt",
     "alibi false: learned positions; multiquery_attention, qk_gn, clip_qkv, biases",
     mpt({"alibi": False, "attn_type": "multiquery_attention", "qk_gn": True, "clip_qkv": 3.0}, d_model=48,
         n_heads=6, vocab_size=129, no_bias=False, max_seq_len=320), reference="transcription", type="BF16")
case("mpt-gated", "mpt", "ffn_type mptglu",
     mpt(d_model=40, n_heads=20, vocab_size=129, expansion_ratio=2,
         ffn_config={"ffn_type": "mptglu", "fc_type": "torch"}), reference="transcription", type="F16")


# Falcon

def falcon(**keys):
    base = dict(alibi=False, apply_residual_connection_post_layernorm=False, attention_dropout=0.0, bias=False,
                bos_token_id=1, eos_token_id=2, hidden_dropout=0.0, layer_norm_epsilon=1e-5, multi_query=True,
                new_decoder_architecture=False, parallel_attn=True, num_hidden_layers=2)
    return published("FalconForCausalLM", "falcon", **{**base, **keys})


FALCON_ROUNDED = {
    "exact": "float64; bias slope * (i - j) / sqrt(head size)",
    "reference": "float64, but the bias is as transformers computes it in every run: slope of head h and key j"
                 " both rounded to bfloat16, their product rounded to bfloat16, then divided by sqrt(head size)"
                 " with the scores"}

case("falcon-rw-heads-12", "falcon", "falcon-rw: ALiBi, 12 heads, sequential, biases, q k v interleaved a head",
     falcon(alibi=True, bias=True, multi_query=False, parallel_attn=False, hidden_size=48, num_attention_heads=12,
            vocab_size=140), expectations=FALCON_ROUNDED, single="reference")

case("falcon-rw-head-96-f16", "falcon", "falcon-rw: 2 heads of size 96, ffn_hidden_size 50, one layer, weights in"
     " f16; RefinedWebModel's"
     " key names (n_head, n_layer)",
     falcon(alibi=True, bias=True, multi_query=False, parallel_attn=False, hidden_size=192, num_attention_heads=2,
            ffn_hidden_size=50, num_hidden_layers=1, vocab_size=121), type="F16", expectations=FALCON_ROUNDED,
            single="reference")
case("falcon-7b", "falcon",
     "falcon-7b: RoPE, 6 query heads on one key-value head, parallel with one norm, no biases",
     falcon(hidden_size=48, num_attention_heads=6, ffn_hidden_size=100, vocab_size=130), type="BF16")
case("falcon-7b-head-80", "falcon", "RoPE, 2 query heads of size 80 on one key-value head, parallel with one norm",
     falcon(hidden_size=160, num_attention_heads=2, ffn_hidden_size=32, num_hidden_layers=1, vocab_size=122),
     type="BF16")
case("falcon-40b", "falcon", "falcon-40b: new_decoder_architecture, two norms, 12 query heads in 3 groups, RoPE;"
     " three shards",
     falcon(hidden_size=72, num_attention_heads=12, num_kv_heads=3, new_decoder_architecture=True,
            ffn_hidden_size=100, vocab_size=134), type="F16", file="sharded")
case("falcon-11b", "falcon", "falcon-11b: new_decoder_architecture, num_ln_in_parallel_attn 1, 8 query heads in 4"
     " groups, untied, theta",
     falcon(hidden_size=64, num_attention_heads=8, num_kv_heads=4, new_decoder_architecture=True,
            num_ln_in_parallel_attn=1,
            ffn_hidden_size=150, vocab_size=135, tie_word_embeddings=False, activation="gelu", rope_theta=500042.0,
            max_position_embeddings=512), type="BF16")


# GPT-2

def gpt2(**keys):
    base = dict(activation_function="gelu_new", attn_pdrop=0.1, bos_token_id=50256, embd_pdrop=0.1,
                eos_token_id=50256, layer_norm_epsilon=1e-5, n_ctx=320, n_positions=320, resid_pdrop=0.1,
                summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True,
                summary_type="cls_index", summary_use_proj=True,
                task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}}, n_layer=2)
    return published("GPT2LMHeadModel", "gpt2", **{**base, **keys})


def gpt2_masks(tensors):
    """The causal masks that the published file holds beside the weights."""
    mask = torch.tril(torch.ones(320, 320)).to(torch.uint8)[None, None]
    layers = sum(name.endswith("ln_1.weight") for name in tensors)
    return {f"h.{i}.attn.bias": mask[:, :, :16, :16].contiguous() for i in range(layers)}


case("gpt2-heads-6", "gpt2",
     "names without the prefix transformer., attn.bias in the file (cut to 16 x 16), 6 heads",
     gpt2(n_embd=48, n_head=6, vocab_size=139), turned=True, rename=without_prefix, extra=gpt2_masks)

case("gpt2-inner-bf16", "gpt2", "12 heads, n_inner 100, prefix transformer., lm_head.weight in the file as well,"
     " weights in bf16",
     gpt2(n_embd=60, n_head=12, n_inner=100, vocab_size=155), type="BF16", turned=True,
     extra=lambda t: {"lm_head.weight": t["transformer.wte.weight"].clone()})
case("gpt2-torch", "gpt2", "weights as pytorch_model.bin; scale_attn_by_inverse_layer_idx; gelu",
     gpt2(n_embd=32, n_head=4, vocab_size=99, scale_attn_by_inverse_layer_idx=True, activation_function="gelu"),
     turned=True, type="BF16", file="torch", rename=without_prefix)


# GPT-NeoX

def neox(**keys):
    base = dict(bos_token_id=0, eos_token_id=0, hidden_act="gelu", layer_norm_eps=1e-5,
                max_position_embeddings=256, num_hidden_layers=2, rotary_emb_base=10000, rotary_pct=0.25,
                tie_word_embeddings=False, use_parallel_residual=True)
    return published("GPTNeoXForCausalLM", "gpt_neox", **{**base, **keys})


def neox_buffers(tensors):
    """What old checkpoints hold beside the weights."""
    layers = sum(name.endswith("attention.dense.weight") for name in tensors)
    out = {}
    for i in range(layers):
        at = f"gpt_neox.layers.{i}.attention."
        out[at + "bias"] = torch.tril(torch.ones(16, 16)).bool()[None, None]
        out[at + "masked_bias"] = torch.tensor(-1e9)
        out[at + "rotary_emb.inv_freq"] = torch.ones(2)
    return out


case("neox-parallel", "gpt_neox", "parallel residual, a quarter of a head of size 16 rotated, 6 heads; buffers in"
     " the file; beyond the"
     " declared length", neox(hidden_size=96, intermediate_size=60, num_attention_heads=6, num_hidden_layers=1,
                              vocab_size=140), type="F16",
     extra=neox_buffers)
case("neox-sequential", "gpt_neox", "use_parallel_residual false, half of a head of size 8 rotated, gelu_new",
     neox(hidden_size=48, intermediate_size=130, num_attention_heads=6, vocab_size=150,
          use_parallel_residual=False, rotary_pct=0.5,
          hidden_act="gelu_new"), type="BF16")
case("neox-head-80", "gpt_neox", "one head of size 80, rotary_pct 1, theta 50000, linear rope_scaling",
     neox(hidden_size=80, intermediate_size=64, num_attention_heads=1, num_hidden_layers=2, vocab_size=120,
          rotary_pct=1.0,
          rotary_emb_base=50000, rope_scaling={"type": "linear", "factor": 2.0}), type="BF16")


# Llama

def llama(**keys):
    base = dict(attention_bias=False, attention_dropout=0.0, bos_token_id=1, eos_token_id=2, hidden_act="silu",
                max_position_embeddings=2048, mlp_bias=False, pretraining_tp=1, rms_norm_eps=1e-5,
                rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False, num_hidden_layers=2,
                intermediate_size=92, hidden_size=48)
    return published("LlamaForCausalLM", "llama", **{**base, **keys})


case("llama-3-heads-6", "llama", "Llama 3: 6 heads on 2 key-value heads, theta 500000, weights in bf16",
     llama(num_attention_heads=6, num_key_value_heads=2, head_dim=16, rope_theta=500000.0,
           max_position_embeddings=8192, vocab_size=143), type="BF16")
case("llama-2", "llama", "Llama 2: 8 heads, rms_norm_eps 1e-6, untied",
     llama(num_attention_heads=8, num_key_value_heads=8, hidden_size=64, rms_norm_eps=1e-6, vocab_size=145),
     type="F16")
case("llama-1-old-keys", "llama", "no num_key_value_heads, no rope_theta; rotary_emb.inv_freq in the file; three"
     " shards",
     {k: v for k, v in llama(num_attention_heads=6, hidden_size=48,
                             vocab_size=138).items() if not k.startswith("rope_")},
     type="F16", file="sharded",
     extra=lambda t: {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(4) for i in range(2)})
case("llama-head-80-biases", "llama", "2 heads of size 80 on one, attention_bias and mlp_bias, tied",
     llama(num_attention_heads=2, num_key_value_heads=1, head_dim=80, attention_bias=True, mlp_bias=True,
           tie_word_embeddings=True, vocab_size=126), type="BF16")
LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
case("llama-3.1", "llama", "Llama 3.1: rope_scaling llama3, heads of size 64, one layer",
     llama(num_attention_heads=4, num_key_value_heads=2, head_dim=64, num_hidden_layers=1, rope_theta=500000.0,
           max_position_embeddings=131072, rope_scaling={**LLAMA3, "rope_type": "llama3"}, vocab_size=128),
     type="BF16")
case("llama-3.2", "llama",
     "Llama 3.2: rope_scaling llama3 with factor 32 and a short original length (64), tied, 12"
     " heads on 4",
     llama(num_attention_heads=12, num_key_value_heads=4, head_dim=16, num_hidden_layers=1,
           tie_word_embeddings=True, rope_theta=500000.0,
           max_position_embeddings=131072, vocab_size=136,
           rope_scaling={**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 64, "rope_type": "llama3"}),
           type="F16")
case("llama-linear", "llama", "rope_scaling linear (old key `type`), factor 4",
     llama(num_attention_heads=6, num_key_value_heads=3, head_dim=16, max_position_embeddings=75, vocab_size=132,
           rope_scaling={"type": "linear", "factor": 4.0}), type="BF16")
case("llama-dynamic", "llama",
     "rope_scaling dynamic, factor 2, max_position_embeddings 128; depends on the declared"
     " length",
     llama(num_attention_heads=6, num_key_value_heads=2, head_dim=16, max_position_embeddings=128, vocab_size=132,
           rope_scaling={"type": "dynamic", "factor": 2.0}), type="F16")
case("llama-yarn", "llama", "rope_scaling yarn, factor 4, original length 64",
     llama(num_attention_heads=6, num_key_value_heads=2, head_dim=32, max_position_embeddings=256,
           num_hidden_layers=1, vocab_size=132,
           rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}), type="BF16")
case("llama-yarn-options", "llama",
     "rope_scaling yarn with attention_factor, beta_fast, beta_slow, truncate false",
     llama(num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512,
           num_hidden_layers=1, vocab_size=132,
           rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
                         "attention_factor": 1.5,
                         "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}), type="F16")
case("llama-longrope", "llama", "rope_scaling longrope: two lists of factors, the long one because 300 > 128",
     llama(num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512, vocab_size=132,
           rope_scaling={"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 128,
                         "short_factor": [1.0, 1.05, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0],
                         "long_factor": [1.0, 1.3, 1.7, 2.2, 3.0, 4.5, 6.0, 8.0]}), type="F16")
case("llama-new-keys", "llama", "transformers 5 keys: dtype, rope_parameters (llama3) instead of rope_theta and"
     " rope_scaling",
     {**{k: v for k, v in llama(num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=132).items()
         if k not in ("torch_dtype", "rope_theta", "rope_scaling", "transformers_version")},
      "dtype": "float16", "transformers_version": "5.0.0", "pad_token_id": None,
      "rope_parameters": {**LLAMA3, "original_max_position_embeddings": 128, "rope_theta": 500000.0,
                          "rope_type": "llama3"}},
     type="F16")


# Qwen 2 and Mistral

def qwen2(**keys):
    base = dict(attention_dropout=0.0, bos_token_id=151643, eos_token_id=151645, hidden_act="silu",
                max_position_embeddings=32768,
                max_window_layers=2, rms_norm_eps=1e-6, rope_theta=1000000.0, sliding_window=128,
                use_sliding_window=False,
                tie_word_embeddings=True, num_hidden_layers=2)
    return published("Qwen2ForCausalLM", "qwen2", **{**base, **keys})


case("qwen2-tied", "qwen2", "biases on q, k, v only; 6 heads on 2, tied; a sliding_window that use_sliding_window"
     " turns off",
     qwen2(hidden_size=48, intermediate_size=100, num_attention_heads=6, num_key_value_heads=2, vocab_size=144),
     type="BF16")
case("qwen2-untied", "qwen2", "12 heads on 4, untied, no sliding_window key",
     {k: v for k, v in qwen2(hidden_size=72, intermediate_size=90, num_attention_heads=12, num_key_value_heads=4,
                             num_hidden_layers=1, vocab_size=128,
                             tie_word_embeddings=False).items()
                             if k not in ("sliding_window", "max_window_layers")},
                             type="F16")


def mistral(**keys):
    base = dict(attention_dropout=0.0, bos_token_id=1, eos_token_id=2, hidden_act="silu",
                max_position_embeddings=32768, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=None,
                tie_word_embeddings=False, num_hidden_layers=2)
    return published("MistralForCausalLM", "mistral", **{**base, **keys})


case("mistral-window", "mistral", "sliding_window 96, 8 heads on 2",
     mistral(hidden_size=64, intermediate_size=110, num_attention_heads=8, num_key_value_heads=2,
             sliding_window=96, num_hidden_layers=1, vocab_size=128), type="BF16")
case("mistral-no-window", "mistral", "sliding_window null, head_dim apart from the width (24), theta 1000000",
     mistral(hidden_size=64, intermediate_size=110, num_attention_heads=6, num_key_value_heads=3, head_dim=24,
             rope_theta=1000000.0, num_hidden_layers=1, vocab_size=137), type="F16")


# Families outside of transformers

def baichuan(**keys):
    base = dict(_from_model_config=True,
                auto_map={"AutoConfig": "configuration_baichuan.BaichuanConfig",
                          "AutoModelForCausalLM": "modeling_baichuan.BaichuanForCausalLM"},
                bos_token_id=1, eos_token_id=2, gradient_checkpointing=False, hidden_act="silu",
                model_max_length=128, num_hidden_layers=40, pad_token_id=0, rms_norm_eps=1e-6,
                tie_word_embeddings=False)
    return published("BaichuanForCausalLM", "baichuan", **{**base, **keys})


def calm(tensors):
    """Forty layers of random weights: what they add to the stream is made small, or rounding grows with depth."""
    for name in tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name].mul_(0.3)


case("baichuan-13b", "baichuan", "Baichuan-13B (40 layers are its sign): 12 heads of size 2; longer than"
     " model_max_length",
     baichuan(hidden_size=24, intermediate_size=21, num_attention_heads=12, vocab_size=125), type="BF16",
     reference="transcription", adjust=calm)
case("baichuan2-13b", "baichuan",
     "Baichuan2-13B: rows of lm_head have length one; its sign is the key z_loss_weight",
     baichuan(hidden_size=16, intermediate_size=18, num_attention_heads=4, vocab_size=130, z_loss_weight=0,
              tokenizer_class="BaichuanTokenizer"), type="BF16", reference="transcription", adjust=calm)
case("baichuan2-7b", "baichuan",
     "Baichuan2-7B: RoPE and rows of lm_head of length one; its sign is the class of the"
     " model, which version 1 spells BaiChuanForCausalLM",
     baichuan(hidden_size=48, intermediate_size=50, num_attention_heads=6, num_hidden_layers=2, vocab_size=131,
              max_position_embeddings=128), type="BF16", reference="transcription")


def refact(**keys):
    base = dict(attention_bias_in_fp32=True, attention_softmax_in_fp32=True, attn_pdrop=0.1, bos_token_id=-1,
                do_sample=True,
                embd_pdrop=0.1, eos_token_id=0, layer_norm_epsilon=1e-5, multi_query=True, n_inner=None, n_layer=2,
                n_positions=128, resid_pdrop=0.1, scale_attention_softmax_in_fp32=True, scale_attn_weights=True,
                tie_word_embeddings=False)
    return published("GPTRefactForCausalLM", "gpt_refact", **{**base, **keys})


case("refact-heads-6", "refact",
     "6 heads on one, LayerNorm without bias, feed-forward 256; longer than n_positions",
     refact(n_embd=48, n_head=6, n_layer=1, vocab_size=140), type="BF16", reference="transcription")
case("refact-heads-8", "refact", "8 heads on one, one layer",
     refact(n_embd=32, n_head=8, n_layer=1, vocab_size=128), reference="transcription", type="F16")


def gpt_mu(model_type, **keys):
    base = dict(activation_function="swiglu", attn_pdrop=0.0, bos_token_id=0, embd_pdrop=0.0, eos_token_id=0,
                layer_norm_epsilon=1e-5, n_positions=128, pad_token_id=0, position_embedding_type="alibi",
                reorder_and_upcast_attn=False, resid_pdrop=0.0, scale_attn_by_inverse_layer_idx=False,
                scale_attn_weights=True,
                n_layer=2)
    if model_type == "btlm":
        base.update(mup_embeddings_scale=14.6, mup_output_alpha=2.22, mup_scale_qk_dot_by_d=True,
                    mup_width_scale=0.1)
    else:
        base.update(embeddings_scale=14.6, scale_qk_dot_by_d=True, width_scale=0.111)
        if any(key.startswith("mup_") for key in keys):  # newer Jais has BTLM's names
            base = {k: v for k, v in base.items()
                    if k not in ("embeddings_scale", "scale_qk_dot_by_d", "width_scale")}
    architecture = "BTLMLMHeadModel" if model_type == "btlm" else "JAISLMHeadModel"
    return published(architecture, model_type, **{**base, **keys})


def by_the_rule(tensors):
    name = "transformer.relative_pe.slopes"
    tensors[name] = torch_families.slopes(len(tensors[name]))[:, None].to(tensors[name].dtype)


def nearly_by_the_rule(tensors):
    by_the_rule(tensors)
    tensors["transformer.relative_pe.slopes"].mul_(1.25)


case("btlm-heads-6", "btlm",
     "6 heads, n_inner 101, scores / head size, slopes stored; longer than n_positions; also"
     " lm_head.weight",
     gpt_mu("btlm", n_embd=48, n_head=6, n_inner=101, vocab_size=139), turned=True, reference="transcription",
     adjust=by_the_rule, type="F16", extra=lambda t: {"lm_head.weight": t["transformer.wte.weight"].clone()})
case("btlm-slopes", "btlm", "stored slopes differ from the rule by 5/4, and it is they that count; scores /"
     " sqrt(head size)",
     gpt_mu("btlm", n_embd=40, n_head=20, n_inner=54, vocab_size=128, mup_scale_qk_dot_by_d=False), turned=True,
     reference="transcription", adjust=nearly_by_the_rule, type="F16")
case("jais-heads-12", "jais", "12 heads, n_inner 77; weights and slopes in bf16",
     gpt_mu("jais", n_embd=60, n_head=12, n_inner=77, vocab_size=128), turned=True, reference="transcription",
     adjust=by_the_rule, type="BF16")
case("jais-linear", "jais", "alibi_scaling linear with a factor, scale_attn_by_inverse_layer_idx, newer names"
     " (mup_...)",
     gpt_mu("jais", n_embd=32, n_head=4, n_inner=45, vocab_size=128, scale_attn_by_inverse_layer_idx=True,
            mup_embeddings_scale=14.6, mup_output_alpha=2.22, mup_scale_qk_dot_by_d=True, mup_width_scale=0.05,
            alibi_scaling={"type": "linear", "factor": 2.5}), turned=True, reference="transcription",
            adjust=by_the_rule)
case("jais-unscaled", "jais", "scale_attn_weights false turns scale_qk_dot_by_d off: scores are not divided",
     gpt_mu("jais", n_embd=32, n_head=4, n_inner=45, n_layer=1, vocab_size=128, scale_attn_weights=False),
     turned=True, reference="transcription", adjust=by_the_rule, type="F16")
case("jais-dynamic", "jais", "alibi_scaling linear with train_seq_len 128: distances / (300 / 128); depends on the"
     " declared length",
     gpt_mu("jais", n_embd=32, n_head=4, n_inner=45, vocab_size=128, alibi_scaling={"type": "linear",
                                                                                    "train_seq_len": 128}),
     turned=True, reference="transcription", adjust=by_the_rule)


def jina(form="jinaai/jina-bert-implementation", **keys):
    base = dict(attention_probs_dropout_prob=0.0, attn_implementation="torch", classifier_dropout=None,
                emb_pooler="mean",
                feed_forward_type="geglu", gradient_checkpointing=False, hidden_act="gelu",
                hidden_dropout_prob=0.1, layer_norm_eps=1e-12, max_position_embeddings=8192, num_hidden_layers=2,
                pad_token_id=0, position_embedding_type="alibi", type_vocab_size=2,
                auto_map={name: f"{form}--{file}" for name, file in [
                    ("AutoConfig", "configuration_bert.JinaBertConfig"),
                    ("AutoModel", "modeling_bert.JinaBertModel"),
                    ("AutoModelForMaskedLM", "modeling_bert.JinaBertForMaskedLM")]})
    return published("JinaBertForMaskedLM", "bert", **{**base, **keys})


case("jina-heads-6", "jina-bert-v2", "encoder, 6 heads, geglu: mlp.gated_layers = [gate | up]; pooler in the file,"
     " of no effect",
     jina(hidden_size=48, intermediate_size=70, num_attention_heads=6, vocab_size=141), causal=False,
     reference="transcription")
case("jina-heads-12-reglu", "jina-bert-v2", "encoder, 12 heads, reglu, weights in f16",
     jina(hidden_size=60, intermediate_size=60, num_attention_heads=12, vocab_size=128, feed_forward_type="reglu"),
     causal=False,
     reference="transcription", type="F16")
case("jina-qk-norm", "jina-bert-v2",
     "encoder with layer_norm_q and layer_norm_k, mlp.up_gated_layer = [up | gate],"
     " and layer_norm_1"
     " after attention.output.LayerNorm (the layer's input is added twice)",
     jina("jinaai/jina-bert-v2-qk-post-norm", hidden_size=48, intermediate_size=70, num_attention_heads=6,
          vocab_size=141),
     causal=False, reference="transcription", type="BF16")


# GGUF

def gguf_case(name, converter, description, config, type="F16", **fields):
    """A case whose model is a GGUF file; its family is the converter's, but for a suffix."""
    family = fields.pop("family", converter)
    case(name, family, "GGUF " + type + ": " + description, config, type=type, file="gguf", model="model.gguf",
         converter=converter, **fields)


def jais_scaled(tensors):
    """Jais's scales go into the embeddings and into a head of its own; the slopes are not stored."""
    by_the_rule(tensors)
    embeddings = tensors["transformer.wte.weight"]
    tensors["lm_head.weight"] = embeddings * 0.111
    tensors["transformer.wte.weight"] = embeddings * 14.6


gguf_case("gguf-bloom", "bloom", "q, k, v re-packed, output.weight a copy of the embeddings; 6 heads",
          bloom(hidden_size=48, n_head=6, n_layer=1, vocab_size=150))
gguf_case("gguf-mpt", "mpt",
          "kv_n_heads 3, biases, clamp_kqv, max_alibi_bias 16, tied; the activation is gelu by erf",
          mpt({"alibi_bias_max": 16, "kv_n_heads": 3, "clip_qkv": 2.0}, d_model=48, n_heads=12, vocab_size=127,
              no_bias=False),
          reference="transcription")
gguf_case("gguf-mpt-qk-norm", "mpt", "attn_q_norm and attn_k_norm over the whole width, no biases",
          mpt({"qk_ln": True}, d_model=32, n_heads=4, vocab_size=127), reference="transcription")
gguf_case("gguf-gpt2", "gpt2", "transposed, tied, no output.weight", gpt2(n_embd=48, n_head=6, vocab_size=139),
          turned=True)
gguf_case("gguf-gptneox", "gpt_neox", "q, k, v re-packed, rope.dimension_count 4 of 16",
          neox(hidden_size=48, intermediate_size=100, num_attention_heads=3, vocab_size=140))
gguf_case("gguf-falcon-7b", "falcon", "q, k, v in blocks, one key-value head, output tied",
          falcon(hidden_size=48, num_attention_heads=6, vocab_size=130))
gguf_case("gguf-falcon-40b", "falcon", "two norms (attn_norm is ln_mlp, attn_norm_2 is ln_attn), 3 groups",
          falcon(hidden_size=48, num_attention_heads=6, num_kv_heads=3, new_decoder_architecture=True,
                 vocab_size=130))
gguf_case("gguf-llama", "llama", "q and k permuted; 6 heads on 2, head size 16 apart from the width",
          llama(num_attention_heads=6, num_key_value_heads=2, head_dim=16, num_hidden_layers=1, vocab_size=143),
          "F32")
gguf_case("gguf-llama-3.2", "llama", "rope_freqs.weight holds llama3 scaling; tied, no output.weight",
          llama(num_attention_heads=6, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
                rope_theta=500000.0,
                max_position_embeddings=131072, vocab_size=136,
                rope_scaling={**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 64,
                              "rope_type": "llama3"}), "BF16")
gguf_case("gguf-llama-linear", "llama", "rope.scaling.type linear, factor 4",
          llama(num_attention_heads=6, num_key_value_heads=3, head_dim=16, num_hidden_layers=1, vocab_size=132,
                rope_scaling={"type": "linear", "factor": 4.0}))
gguf_case("gguf-llama-yarn", "llama", "rope.scaling.type yarn, factor 4, original_context_length 64",
          llama(num_attention_heads=6, num_key_value_heads=2, head_dim=32, max_position_embeddings=256,
                num_hidden_layers=1, vocab_size=132,
                rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}))
gguf_case("gguf-baichuan-13b", "baichuan", "W_pack split, q and k permuted, rope.dimension_count of no effect (40"
          " blocks)",
          baichuan(hidden_size=16, intermediate_size=18, num_attention_heads=4, vocab_size=130),
          reference="transcription", adjust=calm)
gguf_case("gguf-refact", "refact",
          "attn_k, attn_v, ffn_gate, ffn_up split; the norm is LayerNorm though the key is"
          " layer_norm_rms_epsilon",
          refact(n_embd=48, n_head=6, n_layer=1, vocab_size=140), reference="transcription")
gguf_case("gguf-jais", "jais",
          "transposed, scales inside of token_embd and output, max_alibi_bias 8, scores / head"
          " size",
          gpt_mu("jais", n_embd=48, n_head=6, n_inner=77, vocab_size=128), turned=True, reference="transcription",
          adjust=jais_scaled,
          reference_config=gpt_mu("jais", n_embd=48, n_head=6, n_inner=77, vocab_size=128, embeddings_scale=1.0,
                                  width_scale=1.0))
gguf_case("gguf-jina", "jina-bert-v2", "encoder; ffn_gate and ffn_up apart",
          jina(hidden_size=48, intermediate_size=70, num_attention_heads=6, vocab_size=141), causal=False,
          reference="transcription")
gguf_case("gguf-jina-fused", "jina-bert-v2-fused",
          "encoder; ffn_up holds [gate | up], no ffn_gate (newer converters)",
          jina(hidden_size=32, intermediate_size=40, num_attention_heads=4, vocab_size=128), causal=False,
          reference="transcription",
          family="jina-bert-v2")
for quantised in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
    gguf_case("gguf-llama-" + quantised.lower(), "llama",
              "every matrix in this type; the expected logits are those"
              " of the"
              " dequantised weights", llama(num_attention_heads=4, num_key_value_heads=2, hidden_size=64,
                                            intermediate_size=96,
                                            vocab_size=128), quantised)
K_MODEL = llama(num_attention_heads=4, num_key_value_heads=1, hidden_size=256, intermediate_size=256,
                num_hidden_layers=1,
                vocab_size=64)
gguf_case("gguf-llama-q4_k", "llama",
          "every matrix in this type, of random blocks; the expected logits are those of"
          " the dequantised"
          " weights", K_MODEL, "Q4_K")
gguf_case("gguf-llama-q5_k-q6_k", "llama", "random blocks: Q6_K in attn_v, ffn_down, output, Q5_K in the other"
          " matrices; the expected"
          " logits are those of the dequantised weights", K_MODEL, "Q5_K",
          other_type=("Q6_K", ("v_proj.weight", "down_proj.weight", "lm_head.weight")))
