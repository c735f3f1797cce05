#!/usr/bin/env python3
"""Writes models whose config.json, or index of shards, is damaged, and what the reader has to say of each.

usage: make_malformed_config.py FOLDER

Each directory differs from a right model, one of `good-*`, in one thing.  FOLDER/expected.tsv has a line for each:
its name, a tab, and a part of the sentence that refuses it (nothing for those that are right).  Read by
tests/malformed/open_malformed.c.  FOLDER/model has the right ones as inputs of fuzz/fuzz_model.c.  Needs Python
alone.
"""
import json
import os
import struct
import sys

WIDTH, HEADS, ROWS, INNER, LENGTH = 8, 2, 5, 12, 16


def bits(shape):
    count = 1
    for size in shape:
        count *= size
    return struct.pack("<%df" % count, *[0.5 - i % 7 / 8 for i in range(count)])


def safetensors(shapes):
    """The header's text, and the whole file."""
    header, data = {}, b""
    for name, shape in shapes.items():
        more = bits(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header, separators=(",", ":")).encode()
    return text, struct.pack("<Q", len(text)) + text + data


# ---- right models, of one block each ----

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
         "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": 1,
         "intermediate_size": INNER, "hidden_act": "silu", "max_position_embeddings": LENGTH,
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": ROWS}
LLAMA_SHAPES = {"model.embed_tokens.weight": (ROWS, WIDTH), "model.layers.0.input_layernorm.weight": (WIDTH,),
                "model.layers.0.self_attn.q_proj.weight": (WIDTH, WIDTH),
                "model.layers.0.self_attn.k_proj.weight": (4, WIDTH),
                "model.layers.0.self_attn.v_proj.weight": (4, WIDTH),
                "model.layers.0.self_attn.o_proj.weight": (WIDTH, WIDTH),
                "model.layers.0.post_attention_layernorm.weight": (WIDTH,),
                "model.layers.0.mlp.gate_proj.weight": (INNER, WIDTH),
                "model.layers.0.mlp.up_proj.weight": (INNER, WIDTH),
                "model.layers.0.mlp.down_proj.weight": (WIDTH, INNER), "model.norm.weight": (WIDTH,),
                "lm_head.weight": (ROWS, WIDTH)}

MPT = {"model_type": "mpt", "d_model": WIDTH, "n_heads": HEADS, "n_layers": 1, "max_seq_len": LENGTH,
       "vocab_size": ROWS, "no_bias": True, "expansion_ratio": 4, "norm_type": "low_precision_layernorm",
       "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention", "clip_qkv": None}}
MPT_SHAPES = {"transformer.wte.weight": (ROWS, WIDTH), "transformer.blocks.0.norm_1.weight": (WIDTH,),
              "transformer.blocks.0.attn.Wqkv.weight": (3 * WIDTH, WIDTH),
              "transformer.blocks.0.attn.out_proj.weight": (WIDTH, WIDTH),
              "transformer.blocks.0.norm_2.weight": (WIDTH,),
              "transformer.blocks.0.ffn.up_proj.weight": (4 * WIDTH, WIDTH),
              "transformer.blocks.0.ffn.down_proj.weight": (WIDTH, 4 * WIDTH),
              "transformer.norm_f.weight": (WIDTH,)}


def both(name, rows, columns):
    return {name + ".weight": (rows, columns) if columns else (rows,), name + ".bias": (rows,)}


BLOOM = {"model_type": "bloom", "hidden_size": WIDTH, "n_layer": 1, "n_head": HEADS, "vocab_size": ROWS,
         "seq_length": LENGTH, "layer_norm_epsilon": 1e-5, "apply_residual_connection_post_layernorm": False}
BLOOM_SHAPES = {"word_embeddings.weight": (ROWS, WIDTH), **both("word_embeddings_layernorm", WIDTH, 0),
                **both("h.0.input_layernorm", WIDTH, 0),
                **both("h.0.self_attention.query_key_value", 3 * WIDTH, WIDTH),
                **both("h.0.self_attention.dense", WIDTH, WIDTH), **both("h.0.post_attention_layernorm", WIDTH, 0),
                **both("h.0.mlp.dense_h_to_4h", 4 * WIDTH, WIDTH),
                **both("h.0.mlp.dense_4h_to_h", WIDTH, 4 * WIDTH),
                **both("ln_f", WIDTH, 0)}

FALCON = {"model_type": "falcon", "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS,
          "vocab_size": ROWS, "alibi": False, "bias": False, "multi_query": True,
          "new_decoder_architecture": False, "parallel_attn": True, "layer_norm_epsilon": 1e-5}
FALCON_SHAPES = {"transformer.word_embeddings.weight": (ROWS, WIDTH),
                 "transformer.h.0.input_layernorm.weight": (WIDTH,),
                 "transformer.h.0.input_layernorm.bias": (WIDTH,),
                 "transformer.h.0.self_attention.query_key_value.weight": (WIDTH + 8, WIDTH),
                 "transformer.h.0.self_attention.dense.weight": (WIDTH, WIDTH),
                 "transformer.h.0.mlp.dense_h_to_4h.weight": (4 * WIDTH, WIDTH),
                 "transformer.h.0.mlp.dense_4h_to_h.weight": (WIDTH, 4 * WIDTH),
                 "transformer.ln_f.weight": (WIDTH,), "transformer.ln_f.bias": (WIDTH,)}

JINA = {"model_type": "bert", "position_embedding_type": "alibi", "feed_forward_type": "geglu",
        "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS,
        "intermediate_size": INNER, "layer_norm_eps": 1e-12,
        "max_position_embeddings": LENGTH, "type_vocab_size": 2, "vocab_size": ROWS}
BLOCK = "encoder.layer.0."
JINA_SHAPES = {"embeddings.word_embeddings.weight": (ROWS, WIDTH),
               "embeddings.token_type_embeddings.weight": (2, WIDTH), **both("embeddings.LayerNorm", WIDTH, 0),
               **both(BLOCK + "attention.self.query", WIDTH, WIDTH),
               **both(BLOCK + "attention.self.key", WIDTH, WIDTH),
               **both(BLOCK + "attention.self.value", WIDTH, WIDTH),
               **both(BLOCK + "attention.output.dense", WIDTH, WIDTH),
               **both(BLOCK + "attention.output.LayerNorm", WIDTH, 0),
               BLOCK + "mlp.gated_layers.weight": (2 * INNER, WIDTH), **both(BLOCK + "mlp.wo", WIDTH, INNER),
               **both(BLOCK + "mlp.layernorm", WIDTH, 0)}

OURS = {"format": "alibi-decoder", "vocabulary": ROWS, "layers": 1, "width": WIDTH, "heads": HEADS,
        "kv_heads": HEADS, "head_size": 4, "feed_forward": INNER, "train_length": LENGTH,
        "norm": "rmsnorm", "norm_bias": False, "norm_epsilon": 1e-5,
        "activation": "silu", "bias": False, "tied": True, "qk_norm": False, "initial_deviation": 0.02,
        "embedding_deviation": 0, "position": {"method": "alibi"}}
OURS_SHAPES = {"embedding.weight": (ROWS, WIDTH)}

MODELS = {"llama": (LLAMA, LLAMA_SHAPES), "mpt": (MPT, MPT_SHAPES), "bloom": (BLOOM, BLOOM_SHAPES),
          "falcon": (FALCON, FALCON_SHAPES), "jina": (JINA, JINA_SHAPES)}
GREAT = 10 ** 400  # an integer that is no double

# ---- damage ----


def text_of(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def model(config, base=LLAMA, shapes=LLAMA_SHAPES):
    """Files of a directory: the configuration as bytes, or as keys that replace the base's."""
    if isinstance(config, dict):
        config = text_of({**base, **config})
    return {"config.json": config, "model.safetensors": safetensors(shapes)[1]}


def llama(**keys):
    return model(keys)


def llama_without(key):
    return model(text_of({k: v for k, v in LLAMA.items() if k != key}))


def rope(**scaling):
    return llama(rope_scaling=scaling)


def mpt(attention=None, **keys):
    return model({**keys, "attn_config": {**MPT["attn_config"], **(attention or {})}}, MPT, MPT_SHAPES)


def bloom(**keys):
    return model(keys, BLOOM, BLOOM_SHAPES)


def falcon(**keys):
    return model(keys, FALCON, FALCON_SHAPES)


def jina(**keys):
    return model(keys, JINA, JINA_SHAPES)


def ours(**keys):
    return model(keys, OURS, OURS_SHAPES)


def in_text(old, new):
    text = text_of(LLAMA)
    assert old.encode() in text
    return model(text.replace(old.encode(), new if isinstance(new, bytes) else new.encode(), 1))


def shaped(name, *shape):
    return model({}, LLAMA, {**LLAMA_SHAPES, name: shape})


SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
NAMES = list(LLAMA_SHAPES)
MAP = {name: SHARDS[i % 2] for i, name in enumerate(NAMES)}


def sharded(weight_map=None, index=None, leave_out=None, name="model.safetensors.index.json", **more):
    """A right model in two shards; weight_map or the whole index replaced."""
    files = {"config.json": text_of(LLAMA)}
    for i, shard in enumerate(SHARDS):
        if shard != leave_out:
            files[shard] = safetensors({n: s for k, (n, s) in enumerate(LLAMA_SHAPES.items()) if k % 2 == i})[1]
    if index is None:
        index = {"metadata": {"total_size": 1}, "weight_map": MAP if weight_map is None else weight_map}
    files[name] = index if isinstance(index, bytes) else text_of(index)
    return {**files, **more}


def lead(shard):
    """The first tensor in another shard."""
    return sharded({**MAP, NAMES[0]: shard})


good = text_of(LLAMA)
right_index = text_of({"metadata": {}, "weight_map": MAP})
many_keys = {f"key_{i}": 0 for i in range(20000)}

CASES = {
    **{"good-" + name: (model({}, config, shapes), "") for name, (config, shapes) in MODELS.items()},
    "good-shards": (sharded(), ""),
    "good-number-as-text": (mpt(logit_scale="0.5"), ""),
    "good-labels": (llama(id2label={str(i): f"label {i}" for i in range(10000)}), ""),
    "good-whole-real": (llama(num_attention_heads=2.0), ""),
    # the text
    "empty": (model(b""), "expected JSON, found nothing"),
    "blank": (model(b" \n"), "not valid JSON: line 2, column"),
    "cut-in-half": (model(good[:len(good) // 2]), "not valid JSON: line 1, column"),
    "cut-at-end": (model(good[:-1]), "not valid JSON: line 1, column"),
    "two-values": (model(good + b"{}"), "not valid JSON: line 1, column"),
    "list": (model(b"[" + good + b"]"),
             "expected the model_type of a public model, or the format of one of ours, found neither"),
    "number": (model(b"8"),
               "expected the model_type of a public model, or the format of one of ours, found neither"),
    "null": (model(b"null"),
             "expected the model_type of a public model, or the format of one of ours, found neither"),
    "object-empty": (model(b"{}"),
                     "expected the model_type of a public model, or the format of one of ours, found neither"),
    "no-utf8": (in_text('"silu"', b'"si\xfflu"'), "not valid JSON: line 1, column"),
    "zero-byte": (in_text('"silu"', b'"si\0lu"'), "not valid JSON: line 1, column"),
    "zero-escaped": (in_text('"silu"', '"si\\u0000lu"'), "not valid JSON: line 1, column"),
    "surrogate": (in_text('"silu"', '"\\udc00"'), "not valid JSON: line 1, column"),
    "comment": (in_text('"hidden_act"', '/* why */ "hidden_act"'), "not valid JSON: line 1, column"),
    "comma-at-end": (in_text('"vocab_size": 5}', '"vocab_size": 5,}'), "not valid JSON: line 1, column"),
    "key-twice": (in_text('"vocab_size"', '"hidden_size": 8, "vocab_size"'), "not valid JSON: line 1, column"),
    "nan": (in_text("1e-05", "NaN"), "not valid JSON: line 1, column"),
    "infinity": (in_text("1e-05", "Infinity"), "not valid JSON: line 1, column"),
    "real-overflow": (in_text("1e-05", "1e999"), "not valid JSON: line 1, column"),
    "deep": (llama(quantization=json.loads("[" * 500 + "]" * 500)),
             "expected at most 64 levels of JSON, found more"),
    "deep-objects": (in_text('"vocab_size"', '"a":' + '{"a":' * 3000 + "0" + "}" * 3000 + ', "vocab_size"'),
                     "not valid JSON: line 1, column"),
    "key-long": (llama(**{"k" * 600: 1}),
                 "key 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk': expected at most 4096 keys of at most 512"),
    "keys-many": (llama(**many_keys), "key 'key_4083': expected at most 4096 keys of at most 512 bytes"),
    "key-with-line-end": (llama(**{"a\nb": 1}),
                          "key 'a?b': expected a key that is understood, since one that is not may change"),
    # the family
    "type-absent": (llama_without("model_type"),
                    "expected the model_type of a public model, or the format of one of ours, found neither"),
    "type-unknown": (llama(model_type="llama5"),
                     "model_type: expected a family that is known (bloom, mpt, mosaic_gpt, falcon,"),
    "type-number": (llama(model_type=5),
                    "model_type: expected a family that is known (bloom, mpt, mosaic_gpt, falcon,"),
    "type-list": (llama(model_type=["llama"]),
                  "model_type: expected a family that is known (bloom, mpt, mosaic_gpt, falcon,"),
    "type-long": (llama(model_type="l" * 200),
                  "model_type: expected a family that is known (bloom, mpt, mosaic_gpt, falcon,"),
    "type-of-another": (llama(model_type="bloom"),
                        "expected an embedding [vocabulary, width] beside it, the tensor"),
    "format-unknown": (llama(format="other"), "format: expected 'alibi-decoder', found 'other'"),
    # sizes
    "width-absent": (llama_without("hidden_size"),
                     "key 'hidden_size': expected an integer of at least 1, found none"),
    "width-null": (llama(hidden_size=None), "key 'hidden_size': expected an integer of at least 1, found none"),
    "width-text": (llama(hidden_size="8"), "key 'hidden_size': expected an integer of at least 1, found \"8\""),
    "width-list": (llama(hidden_size=[8]), "key 'hidden_size': expected an integer of at least 1, found [8]"),
    "width-object": (llama(hidden_size={"value": 8}),
                     "key 'hidden_size': expected an integer of at least 1, found an object"),
    "width-boolean": (llama(hidden_size=True), "key 'hidden_size': expected an integer of at least 1, found true"),
    "width-zero": (llama(hidden_size=0), "key 'hidden_size': expected an integer of at least 1, found 0"),
    "width-negative": (llama(hidden_size=-8), "key 'hidden_size': expected an integer of at least 1, found -8"),
    "width-fraction": (llama(hidden_size=8.5), "key 'hidden_size': expected an integer of at least 1, found 8.5"),
    "width-2-to-31": (llama(hidden_size=1 << 31),
                      "model configuration: width: expected a number from 1 to 65536, found 2147483648"),
    "width-2-to-63": (llama(hidden_size=1 << 63),
                      "key 'hidden_size': expected an integer from 1 to 1099511627776, found"),
    "width-2-to-64": (llama(hidden_size=(1 << 64) + 8),
                      "key 'hidden_size': expected an integer from 1 to 1099511627776, found"),
    "width-1e300": (in_text('"hidden_size": 8', '"hidden_size": 1e300'),
                    "key 'hidden_size': expected an integer from 1 to 1099511627776, found 1e+300"),
    "width-400-digits": (in_text('"hidden_size": 8', '"hidden_size": %d' % GREAT),
                         "not valid JSON: line 1, column"),
    "width-other": (llama(hidden_size=16),
                    "tensor 'model.embed_tokens.weight': expected shape [5, 16], found [5, 8]"),
    "layers-zero": (llama(num_hidden_layers=0),
                    "key 'num_hidden_layers': expected an integer of at least 1, found 0"),
    "layers-many": (llama(num_hidden_layers=1024),
                    "expected a tensor 'model.layers.1.input_layernorm.weight'"),
    "layers-absurd": (llama(num_hidden_layers=1 << 40),
                      "model configuration: layers: expected a number from 1 to 1024, found 1099511627776"),
    "heads-zero": (llama(num_attention_heads=0),
                   "key 'num_attention_heads': expected an integer of at least 1, found 0"),
    "heads-no-divisor": (llama(num_attention_heads=3),
                         "heads: expected a divisor of the width 8, found 3 (or set head_size)"),
    "heads-absurd": (llama(num_attention_heads=1 << 39),
                     "model configuration: heads: expected a number from 1 to 4096, found 549755813888"),
    "kv-heads-no-divisor": (llama(num_attention_heads=4, num_key_value_heads=3),
                            "kv_heads: expected a divisor of the 4 heads, found 3"),
    "kv-heads-more": (llama(num_key_value_heads=4), "kv_heads: expected a divisor of the 2 heads, found 4"),
    "head-size-zero": (llama(head_dim=0), "key 'head_dim': expected an integer of at least 1, found 0"),
    "head-size-absurd": (llama(head_dim=1 << 39),
                         "model configuration: head_size: expected a number from 0 to 256, found 549755813888"),
    "head-size-odd": (llama(head_dim=3),
                      "position method 'rope': expected an even number of turning channels from 2 to 4096,"),
    "inner-other": (llama(intermediate_size=13),
                    "tensor 'model.layers.0.mlp.gate_proj.weight': expected shape [13, 8], found [12, 8]"),
    "inner-absurd": (llama(intermediate_size=1 << 40),
                     "model configuration: feed_forward: expected a number from 0 to 262144, found 1099511627776"),
    "length-zero": (llama(max_position_embeddings=0),
                    "key 'max_position_embeddings': expected an integer of at least 1, found 0"),
    "length-absurd": (llama(max_position_embeddings=1 << 40),
                      "model configuration: train_length: expected a number from 1 to 16777216, found"),
    "vocabulary-more": (llama(vocab_size=6),
                        "key 'vocab_size': expected at most the 5 rows of the embedding"),
    "vocabulary-absurd": (llama(vocab_size=1 << 40),
                          "key 'vocab_size': expected at most the 5 rows of the embedding"),
    "vocabulary-zero": (llama(vocab_size=0), "key 'vocab_size': expected an integer of at least 1, found 0"),
    "epsilon-text": (llama(rms_norm_eps="small"), "key 'rms_norm_eps': expected a number, found \"small\""),
    "epsilon-zero": (llama(rms_norm_eps=0),
                     "model configuration: norm_epsilon: expected a number from 1e-12 to 1, found 0"),
    "epsilon-negative": (llama(rms_norm_eps=-1e-5),
                         "model configuration: norm_epsilon: expected a number from 1e-12 to 1, found -1e-05"),
    "epsilon-1e308": (llama(rms_norm_eps=1e308),
                      "model configuration: norm_epsilon: expected a number from 1e-12 to 1, found 1e+308"),
    "activation-unknown": (llama(hidden_act="swiglu-clip"),
                           "key 'hidden_act': expected gelu, gelu_new, gelu_pytorch_tanh, silu or relu, found"),
    "activation-list": (llama(hidden_act=["silu"]), "key 'hidden_act': expected a text, found [\"silu\"]"),
    "tied-text": (llama(tie_word_embeddings="no"),
                  "key 'tie_word_embeddings': expected true or false, found \"no\""),
    "bias-number": (llama(attention_bias=1), "key 'attention_bias': expected true or false, found 1"),
    "bias-without-tensors": (llama(attention_bias=True),
                             "expected a tensor 'model.layers.0.self_attn.q_proj.bias'"),
    # keys that may change a number
    "key-unknown": (llama(attention_multiplier=1.5),
                    "key 'attention_multiplier': expected a key that is understood, since one that is not may"),
    "key-unknown-object": (llama(quantization_config={"bits": 4}),
                           "key 'quantization_config.bits': expected a key that is understood, since one that"),
    "key-unknown-list": (llama(layer_multipliers=[1, 2]),
                         "key 'layer_multipliers': expected a key that is understood, since one that is not"),
    "cross-attention": (llama(add_cross_attention=True), "key 'add_cross_attention': expected false, found true"),
    "encoder-decoder": (llama(is_encoder_decoder=True), "key 'is_encoder_decoder': expected false, found true"),
    "spellings-differ": (bloom(n_embed=16),
                         "keys 'hidden_size' and 'n_embed': expected one value, since they mean the same,"),
    # positions
    "theta-zero": (llama(rope_theta=0), "rope_base: expected a number from 2 to 1e+12, found 0"),
    "theta-negative": (llama(rope_theta=-10000.0), "rope_base: expected a number from 2 to 1e+12, found -10000"),
    "theta-text": (llama(rope_theta="ten thousand"),
                   "key 'rope_theta': expected a number, found \"ten thousand\""),
    "scaling-text": (llama(rope_scaling="linear"),
                     "key 'rope_scaling': expected a key that is understood, since one that is not may change"),
    "scaling-list": (llama(rope_scaling=["linear", 2]),
                     "key 'rope_scaling': expected a key that is understood, since one that is not may change"),
    "scaling-unknown": (rope(rope_type="spiral", factor=2.0),
                        "key 'rope_scaling.rope_type': expected default, linear, dynamic, yarn, llama3 or"),
    "scaling-no-factor": (rope(rope_type="linear"),
                          "key 'rope_scaling.factor': expected a number of at least 1 for the scaling"),
    "scaling-factor-zero": (rope(rope_type="linear", factor=0),
                            "key 'rope_scaling.factor': expected a number of at least 1 for the scaling"),
    "scaling-factor-negative": (rope(rope_type="dynamic", factor=-4),
                                "key 'rope_scaling.factor': expected a number of at least 1 for the scaling"),
    "scaling-factor-1e300": (rope(rope_type="linear", factor=1e300),
                             "extension: linear: factor: expected a number from 0 to 1000000, found"),
    "scaling-factor-list": (rope(rope_type="linear", factor=[2]),
                            "key 'rope_scaling.factor': expected a number, found [2]"),
    "scaling-key-unknown": (rope(rope_type="linear", factor=2.0, phase=1),
                            "key 'rope_scaling.phase': expected a key that is understood, since one that is"),
    "scaling-types-differ": (rope(rope_type="linear", type="dynamic", factor=2.0),
                             "keys 'rope_scaling.rope_type' and 'rope_scaling.type': expected one value,"),
    "yarn-length-zero": (rope(rope_type="yarn", factor=2.0, original_max_position_embeddings=0),
                         "key 'rope_scaling.original_max_position_embeddings': expected an integer of at"),
    "yarn-beta-negative": (rope(rope_type="yarn", factor=2.0, beta_fast=-1),
                           "extension: yarn: beta_fast: expected a number from 0.001 to 1000000, found -1"),
    "llama3-bands-turned": (rope(rope_type="llama3", factor=2.0, low_freq_factor=4, high_freq_factor=1),
                            "position extension 'llama3': expected low_freq_factor below high_freq_factor,"),
    "longrope-short": (rope(rope_type="longrope", short_factor=[1.0], long_factor=[1.0, 2.0]),
                       "key 'rope_scaling.short_factor': expected a list of 2 numbers, one for each pair of"),
    "longrope-text": (rope(rope_type="longrope", short_factor=[1.0, "2"], long_factor=[1.0, 2.0]),
                      "key 'rope_scaling.short_factor': expected numbers above 0, found another at 1"),
    "longrope-negative": (rope(rope_type="longrope", short_factor=[1.0, -2.0], long_factor=[1.0, 2.0]),
                          "key 'rope_scaling.short_factor': expected numbers above 0, found another at 1"),
    "longrope-many": (rope(rope_type="longrope", short_factor=[1.0] * 50000, long_factor=[1.0] * 50000),
                      "key 'rope_scaling.short_factor': expected a list of 2 numbers, one for each pair of"),
    "window-layers": (model({"model_type": "qwen2", "use_sliding_window": True, "layer_types": ["sliding", 3]}),
                      "key 'layer_types': expected full_attention or sliding_attention, found 'sliding'"),
    # other families
    "mpt-attention-text": (model({"attn_config": "alibi"}, MPT, MPT_SHAPES),
                           "key 'attn_config': expected a key that is understood, since one that is not may"),
    "mpt-attention-type": (mpt({"attn_type": "linear_attention"}),
                           "key 'attn_config.attn_type': expected multihead_attention, multiquery_attention"),
    "mpt-alibi-number": (mpt({"alibi": 1}), "key 'attn_config.alibi': expected true or false, found 1"),
    "mpt-bias-max-zero": (mpt({"alibi_bias_max": 0}),
                          "alibi_max_bias: expected a number from 0.01 to 100, found 0"),
    "mpt-bias-max-1e300": (mpt({"alibi_bias_max": 1e300}),
                           "alibi_max_bias: expected a number from 0.01 to 100, found 1e+300"),
    "mpt-clip-negative": (mpt({"clip_qkv": -8}),
                          "model configuration: clip_qkv: expected a number from 0 to 1000000, found -8"),
    "mpt-kv-heads": (mpt({"kv_n_heads": 1 << 40}),
                     "model configuration: kv_heads: expected a number from 0 to 4096, found 1099511627776"),
    "mpt-rope": (mpt({"rope": True}),
                 "key 'attn_config.rope': expected false, all that is known to run, found true"),
    "mpt-ratio-zero": (mpt(expansion_ratio=0),
                       "key 'expansion_ratio': expected a number above 0 and at most 1000, found 0"),
    "mpt-ratio-1e300": (mpt(expansion_ratio=1e300),
                        "key 'expansion_ratio': expected a number above 0 and at most 1000, found 1e+300"),
    "mpt-norm-unknown": (mpt(norm_type="batchnorm"),
                         "key 'norm_type': expected layernorm, rmsnorm or their low_precision_ forms, found"),
    "mpt-logit-scale-text": (mpt(logit_scale="inv_sqrt"),
                             "key 'logit_scale': expected a number, found \"inv_sqrt\""),
    "mpt-logit-scale-zero": (mpt(logit_scale=0),
                             "model configuration: logit_scale: expected a number from 1e-09 to 1000000, found 0"),
    "bloom-inner": (bloom(n_inner=33), "key 'n_inner': expected 32, all that is known to run, found 33"),
    "bloom-post": (bloom(apply_residual_connection_post_layernorm=True),
                   "key 'apply_residual_connection_post_layernorm': expected false, all that is known to run,"),
    "falcon-norms": (falcon(num_ln_in_parallel_attn=3), "key 'num_ln_in_parallel_attn': expected 1 or 2, found 3"),
    "falcon-grouped-sequential": (falcon(new_decoder_architecture=True, parallel_attn=False),
                                  "key 'parallel_attn': expected true beside new_decoder_architecture, found"),
    "jina-learned": (jina(position_embedding_type="absolute"),
                     "key 'position_embedding_type': expected alibi (a jina-bert-v2; other models of the type"),
    "jina-feed-forward": (jina(feed_forward_type="original"),
                          "key 'feed_forward_type': expected geglu or reglu, found 'original'"),
    "jina-decoder": (jina(is_decoder=True), "key 'is_decoder': expected false, all that is known to run, found"),
    # beside the tensors
    "tensor-absent": (model({}, LLAMA, {n: s for n, s in LLAMA_SHAPES.items() if "o_proj" not in n}),
                      "expected a tensor 'model.layers.0.self_attn.o_proj.weight'"),
    "tensor-of-another": (model({}, LLAMA, {**LLAMA_SHAPES, "model.layers.1.mlp.up_proj.weight": (INNER, WIDTH)}),
                          "tensor 'model.layers.1.mlp.up_proj.weight': expected no such tensor in a model of"),
    "tensor-turned": (shaped("model.layers.0.mlp.up_proj.weight", WIDTH, INNER),
                      "tensor 'model.layers.0.mlp.up_proj.weight': expected shape [12, 8], found [8, 12]"),
    "tensor-flat": (shaped("model.embed_tokens.weight", ROWS * WIDTH),
                    "expected an embedding [vocabulary, width] beside it, the tensor"),
    "tensor-deep": (shaped("model.norm.weight", 2, 2, 2),
                    "tensor 'model.norm.weight': expected 1 dimension, found 3"),
    "tensor-empty": (shaped("model.embed_tokens.weight", 0, WIDTH),
                     "key 'vocab_size': expected at most the 0 rows of the embedding"),
    "weights-absent": ({"config.json": good},
                       "expected model.safetensors, its index and shards, a .gguf file or pytorch_model.bin"),
    # of our own format
    "ours-no-position": (ours(position=None), "position: expected an object with a method, found none"),
    "ours-method-unknown": (ours(position={"method": "rotary"}),
                            "position: expected a position method, one of alibi, sinusoidal, learned, rope,"),
    "ours-method-number": (ours(position={"method": 4}), "position: expected an object with a method, found none"),
    "ours-key-unknown": (ours(experts=8), "unknown key 'experts'"),
    "ours-width-zero": (ours(width=0), "width: expected an integer from 1 to 65536, found 0"),
    "ours-width-absurd": (ours(width=1 << 62),
                          "width: expected an integer from 1 to 65536, found 4.611686018427388e+18"),
    "ours-width-text": (ours(width="8"), "width: expected an integer, found a text"),
    "ours-heads": (ours(heads=3, head_size=0),
                   "heads: expected a divisor of the width 8, found 3 (or set head_size)"),
    "ours-activation": (ours(activation="silu2"),
                        "activation: expected one of gelu, gelu-tanh, silu, swiglu, relu, geglu, geglu-tanh,"),
    "ours-extension": (ours(position={"method": "alibi", "extension": {"name": "stretch"}}),
                       "position: extension: expected an extension of position method 'alibi', one of linear,"),
    "ours-extension-text": (ours(position={"method": "alibi", "extension": "linear"}),
                            "position: extension: expected an object with a name, found none"),
    "ours-option-range": (ours(position={"method": "alibi", "max_bias": -1}),
                          "max_bias: expected a number from 0.01 to 100, found -1"),
    "ours-tensors": (ours(), "expected a tensor 'blocks.0.attention_norm.gain', found none"),
    # the index
    "index-empty": (sharded(index=b""), "expected JSON, found nothing"),
    "index-cut": (sharded(index=right_index[:-20]), "not valid JSON: line 1, column"),
    "index-list": (sharded(index=b"[]"), "expected an object weight_map, from tensors to shards"),
    "index-no-map": (sharded(index={"metadata": {}}), "expected an object weight_map, from tensors to shards"),
    "index-map-empty": (sharded({}), "expected an object weight_map, from tensors to shards"),
    "index-map-list": (sharded(list(MAP)), "expected an object weight_map, from tensors to shards"),
    "index-map-text": (sharded("model.safetensors"), "expected an object weight_map, from tensors to shards"),
    "index-number": (lead(1),
                     "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it, found"),
    "index-null": (lead(None),
                   "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it, found no"),
    "index-list-of-shards": (lead([SHARDS[0]]),
                             "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-name-empty": (lead(""),
                         "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-name-dot": (lead("."),
                       "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it, found"),
    "index-name-hidden": (lead(".weights"),
                          "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-leads-up": (lead("../good-llama/model.safetensors"),
                       "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it, found"),
    "index-leads-away": (lead("/etc/passwd"),
                         "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-leads-down": (lead("inner/" + SHARDS[0]),
                         "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-back-slash": (lead("..\\" + SHARDS[0]),
                         "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-name-long": (lead("m" * 300 + ".safetensors"),
                        "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-line-end": (lead("a\nb.safetensors"), "expected its shard 'a?b.safetensors' beside it, found none"),
    "index-zero-byte": (sharded(index=right_index.replace(SHARDS[0].encode(), b"a\\u0000b", 1)),
                        "not valid JSON: line 1, column"),
    "index-shard-absent": (sharded(leave_out=SHARDS[1]),
                           "expected its shard 'model-00002-of-00002.safetensors' beside it, found none"),
    "index-shard-itself": (lead("model.safetensors.index.json"),
                           "tensor 'model.embed_tokens.weight': expected it in the shard"),
    "index-shard-config": (lead("config.json"),
                           "expected a file of safetensors, GGUF or PyTorch's, found none of these"),
    "index-other-shard": (lead(SHARDS[1]),
                          "tensor 'model.embed_tokens.weight': expected it in the shard"),
    "index-tensor-twice": (sharded(index=right_index.replace(b'"weight_map": {', b'"weight_map": {"%s": "%s", ' % (
        NAMES[0].encode(), SHARDS[0].encode()))), "not valid JSON: line 1, column"),
    "index-tensor-unknown": (sharded({**MAP, "model.other.weight": SHARDS[0]}),
                             "tensor 'model.other.weight': expected it in the shard"),
    "index-tensor-left-out": (sharded({n: s for n, s in MAP.items() if n != NAMES[3]}),
                              "tensor 'model.layers.0.self_attn.k_proj.weight': expected it in weight_map too"),
    "index-tensor-name-long": (sharded({**MAP, "t" * 600: SHARDS[0]}),
                               "tensor 'tttttttttttttttttttttttttttttttttttttttt...': expected a name of at"),
    "index-copies": (sharded({**MAP, "x": "copy.safetensors"},
                             **{"copy.safetensors": safetensors(dict(list(LLAMA_SHAPES.items())[::2]))[1]}),
                     "tensor 'model.embed_tokens.weight': expected it in the shard "
                     "'model-00001-of-00002.safetensors', found it in 'copy.safetensors'"),
    "index-shard-damaged": (sharded(**{SHARDS[1]: b"\xff" * 40}),
                            "expected a header of at most 32 bytes, found 18446744073709551615"),
    "index-shard-empty": (sharded(**{SHARDS[1]: b""}), "expected a safetensors file, found 0 bytes"),
    "index-shard-of-gguf": (sharded(**{SHARDS[1]: b"GGUF" + bytes(20)}),
                            "shard 'model-00002-of-00002.safetensors': expected safetensors or PyTorch's,"),
    "index-deep": (sharded(index=b'{"weight_map":' + b"[" * 100000 + b"]" * 100000 + b"}"),
                   "not valid JSON: line 1, column"),
    "index-many": (sharded({f"t{i}": SHARDS[0] for i in range(10000)}),
                   "tensor 'model.embed_tokens.weight': expected it in weight_map too"),
    "index-many-shards": (sharded({f"t{i}": f"s{i}" for i in range(10000)}),
                          "expected its shard 's0' beside it, found none"),
    "index-torch-leads-up": (sharded({**MAP, NAMES[0]: "../x.bin"}, name="pytorch_model.bin.index.json"),
                             "weight_map: 'model.embed_tokens.weight': expected the name of a file beside it,"),
    "index-torch-no-map": (sharded(index={}, name="pytorch_model.bin.index.json"),
                           "expected an object weight_map, from tensors to shards"),
    "index-torch-cut": (sharded(index=right_index[:99], name="pytorch_model.bin.index.json"),
                        "not valid JSON: line 1, column"),
}


def main():
    folder = sys.argv[1]
    os.makedirs(os.path.join(folder, "model"), exist_ok=True)
    with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as expected:
        for name, (files, sentence) in CASES.items():
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            for path, content in files.items():
                with open(os.path.join(folder, name, path), "wb") as file:
                    file.write(content)
            expected.write(f"{name}\t{sentence}\n")
    for name, (config, shapes) in MODELS.items():
        with open(os.path.join(folder, "model", name), "wb") as file:
            file.write(text_of(config) + b"\0" + safetensors(shapes)[0])
    names = {**LLAMA_SHAPES}
    with open(os.path.join(folder, "model", "shards"), "wb") as file:
        file.write(good + b"\0" + text_of({"weight_map": dict.fromkeys(names, "a")}) + b"\0" +
                   safetensors(names)[0])
    with open(os.path.join(folder, "model", "ours"), "wb") as file:
        file.write(text_of(OURS) + b"\0" + safetensors(OURS_SHAPES)[0])


if __name__ == "__main__":
    main()
